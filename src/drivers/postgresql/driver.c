/* SPDX-License-Identifier: MIT */
#include "rowlock/postgresql.h"

#include <stdio.h>
#include <string.h>

#include "clock.h"
#include "pg.h"
#include "sql_postgresql.h"

const char *pg_text_of(pg_statement statement)
{
    static const int numbers[PG_STATEMENT_COUNT] = {
        [PG_ACQUIRE] = SQL_ACQUIRE,
        [PG_ACQUIRE_ONE] = SQL_ACQUIRE_ONE,
        [PG_ACQUIRE_FREE] = SQL_ACQUIRE_FREE,
        [PG_ACQUIRE_FREE_ONE] = SQL_ACQUIRE_FREE_ONE,
        [PG_RENEW] = SQL_RENEW,
        [PG_RELEASE] = SQL_RELEASE,
        [PG_RELEASE_ONE] = SQL_RELEASE_ONE,
        [PG_RELEASE_FREE] = SQL_RELEASE_FREE,
        [PG_EXCHANGE] = SQL_EXCHANGE,
        [PG_HAND_OVER] = SQL_HAND_OVER,
        [PG_FORCE_RELEASE] = SQL_FORCE_RELEASE,
        [PG_REAP] = SQL_REAP,
        [PG_LIST] = SQL_LIST,
        [PG_SCHEMA_VERSION] = SQL_SCHEMA_VERSION,
        [PG_SCHEMA_EXISTS] = SQL_SCHEMA_EXISTS,
        [PG_SCHEMA_LOCK] = SQL_SCHEMA_LOCK,
        [PG_SERVER] = SQL_SERVER,
        [PG_VERSION_TEXT] = SQL_VERSION,
        [PG_PATH_GIVEN] = SQL_PATH_GIVEN,
        [PG_PLACE] = SQL_PLACE,
        [PG_DIAGNOSE_PATH] = SQL_DIAGNOSE_PATH,
        [PG_SESSION] = SQL_SESSION,
        [PG_BEGIN] = SQL_BEGIN,
        [PG_BEGIN_POOLED] = SQL_BEGIN_POOLED,
        [PG_COMMIT] = SQL_COMMIT,
        [PG_ROLLBACK] = SQL_ROLLBACK,
        [PG_PREPARE] = SQL_PREPARE,
        [PG_LOCATE] = SQL_LOCATE,
        [PG_TX_HERE] = SQL_TX_HERE,
        [PG_TX_PATH] = SQL_TX_PATH,
        [PG_TX_LIMITS] = SQL_TX_LIMITS,
        [PG_TX_RESTORE] = SQL_TX_RESTORE,
        [PG_TX_LOCK] = SQL_TX_LOCK,
        [PG_TX_LOOK] = SQL_TX_LOOK,
        [PG_TX_GUARD] = SQL_TX_GUARD,
        [PG_TX_RESET] = SQL_TX_RESET,
        [PG_TX_READY] = SQL_TX_READY,
        [PG_TX_SAME] = SQL_TX_SAME,
        [PG_TX_BOUND] = SQL_TX_BOUND,
        [PG_TX_UNBOUND] = SQL_TX_UNBOUND,
        [PG_SAVEPOINT] = SQL_SAVEPOINT,
        [PG_SAVEPOINT_RELEASE] = SQL_SAVEPOINT_RELEASE,
        [PG_SAVEPOINT_UNDO] = SQL_SAVEPOINT_UNDO,
        [PG_ENQUEUE] = SQL_ENQUEUE,
        [PG_ENQUEUE_AGAIN] = SQL_ENQUEUE_AGAIN,
        [PG_BELL] = SQL_BELL,
        [PG_BELL_BEFORE] = SQL_BELL_BEFORE,
        [PG_TURN] = SQL_TURN,
        [PG_TURN_FREE] = SQL_TURN_FREE,
        [PG_RING] = SQL_RING,
        [PG_HUSH] = SQL_HUSH,
        [PG_LISTEN] = SQL_LISTEN,
        [PG_UNLISTEN] = SQL_UNLISTEN,
        [PG_LEAVE] = SQL_LEAVE,
        [PG_LOOK] = SQL_LOOK,
        [PG_WAITERS] = SQL_WAITERS,
        [PG_DIAGNOSE_SERVER] = SQL_DIAGNOSE_SERVER,
        [PG_DIAGNOSE_TABLES] = SQL_DIAGNOSE_TABLES,
    };

    return sql_text[numbers[statement]];
}

const char *pg_sql(pg_link *conn, pg_statement statement)
{
    rlk_text *sql = &conn->sql[statement];

    if (sql->length == 0)
        rlk_sql_render(sql, pg_text_of(statement), conn->prefix, conn->schema, '"');
    if (sql->failed)
        rlk_text_free(sql);
    return sql->data;
}

int pg_migration_count(void)
{
    return MIGRATION_COUNT;
}

const rowlock_migration *pg_migration(int version)
{
    return &migrations[version - 1];
}

static void ignore_notice(void *payload, const PGresult *result)
{
    (void)payload;
    (void)result;
}

/* It did not understand what PostgreSQL does: what is it then? */
static int look_for_name(pg_link *conn, int64_t deadline, rowlock_error *err)
{
    rowlock_error ignored;
    PGresult *result;
    int status = ROWLOCK_OK;

    if (pg_call_bare(conn, PG_VERSION_TEXT, &result, deadline, &ignored) == ROWLOCK_OK)
        status = pg_check_product(conn->pg, PQgetvalue(result, 0, 0), 0, err);
    PQclear(result);
    return status == ROWLOCK_OK ? pg_check_age(conn->pg, err) : status;
}

/* Is it PostgreSQL, a primary that may be written, and does a pooler stand in between? What is not
 * the primary may become it at any moment. */
static int look_at_server(pg_link *conn, int64_t deadline, rowlock_error *err)
{
    PGresult *result;
    int status = pg_check_product(conn->pg, NULL, 0, err), named, is_standby, is_read_only;

    if (status != ROWLOCK_OK)
        return status;
    pg_params_clear(&conn->params);
    status = pg_call_bare(conn, PG_SERVER, &result, deadline, err);
    if (status == ROWLOCK_EDRIVER) {
        named = look_for_name(conn, deadline, err);
        return named != ROWLOCK_OK ? named : status;
    }
    if (status != ROWLOCK_OK)
        return status;
    status = pg_check_product(conn->pg, PQgetvalue(result, 0, 3), pg_get_bool(result, 0, 4), err);
    if (status == ROWLOCK_OK)
        status = pg_check_age(conn->pg, err);
    conn->is_pooled = pg_get_int(result, 0, 0) != PQbackendPID(conn->pg);
    is_standby = pg_get_bool(result, 0, 1);
    is_read_only = pg_get_bool(result, 0, 2);
    PQclear(result);
    if (status != ROWLOCK_OK)
        return status;
    if (is_standby)
        return rlk_fail_native(
            err, ROWLOCK_ECONNECT, 0, "25006", 1,
            "the server is a standby, which is read-only: connect to the primary");
    if (is_read_only)
        return rlk_fail_native(err, ROWLOCK_ECONNECT, 0, "25006", 1,
                               "the server is read-only for this role and database "
                               "(default_transaction_read_only): connect to the primary");
    return ROWLOCK_OK;
}

static int set_up_session(pg_link *conn, int64_t deadline, uint32_t timeout_ms, rowlock_error *err)
{
    int status = look_at_server(conn, deadline, err);

    if (status == ROWLOCK_OK && !conn->is_pooled)
        status = pg_set_session(conn, timeout_ms, err);
    return status == ROWLOCK_OK ? pg_find_place(conn, deadline, err) : status;
}

static int pg_open(void *memory, const rowlock_config *config, uint32_t timeout_ms,
                   rowlock_error *err)
{
    pg_link *conn = memory;
    int64_t deadline = rlk_clock_us() + (int64_t)timeout_ms * 1000;
    int status;

    conn->is_relaxed = config->is_relaxed != 0;
    conn->spin.most_us = config->spin_us;
    snprintf(conn->prefix, sizeof conn->prefix, "%s", config->prefix);
    conn->is_placed = config->schema != NULL && config->schema[0] != '\0';
    snprintf(conn->schema, sizeof conn->schema, "%s",
             conn->is_placed ? config->schema : PG_NOWHERE);
    status = pg_connect_start(&conn->pg, config->address, deadline, err);
    if (status != ROWLOCK_OK)
        return status;
    PQsetNoticeReceiver(conn->pg, ignore_notice, NULL);
    status = pg_connect_wait(conn, deadline, err);
    if (status == ROWLOCK_OK)
        status = set_up_session(conn, deadline, timeout_ms, err);
    /* Nothing was asked that could have changed anything. */
    if (status == ROWLOCK_EDRIVER)
        status = ROWLOCK_EUNKNOWN;
    return pg_unchanged(status, err);
}

static void pg_close(void *memory)
{
    pg_link *conn = memory;

    /* The socket does not block: the goodbye is sent if there is room for it. */
    PQfinish(conn->pg);
    for (int i = 0; i < PG_STATEMENT_COUNT; i++)
        rlk_text_free(&conn->sql[i]);
    pg_params_free(&conn->params);
    pg_params_free(&conn->session_params);
    *conn = (pg_link){0};
}

const rowlock_driver *rowlock_postgresql(void)
{
    static const rowlock_driver driver = {
        .size = sizeof(rowlock_driver),
        .name = "postgresql",
        .conn_size = sizeof(pg_link),
        .quote = '"',
        .has_schemas = 1,
        .migration_count = MIGRATION_COUNT,
        .migrations = migrations,
        .open = pg_open,
        .close = pg_close,
        .acquire = pg_acquire,
        .renew = pg_renew,
        .release = pg_release,
        .force_release = pg_force_release,
        .reap = pg_reap,
        .list = pg_list,
        .schema_version = pg_schema_version,
        .schema_apply = pg_schema_apply,
        .prepare = pg_prepare,
        .locate = pg_locate,
        .lock = pg_lock,
        .guard = pg_guard,
        .end = pg_end,
        .native = pg_native,
        .enqueue = pg_enqueue,
        .turn = pg_turn,
        .leave = pg_leave,
        .look = pg_look,
        .waiters = pg_waiters,
        .diagnose = pg_diagnose,
        .exchange = pg_exchange,
        .schema_of = pg_schema_of,
    };

    return &driver;
}
