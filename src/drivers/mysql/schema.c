/* SPDX-License-Identifier: MIT
 *
 * Steps of the tables' history. DDL commits by itself here, so a step cannot be undone: its
 * statements may be run again instead, and a named lock of the server's keeps other processes out
 * meanwhile. */
#include <string.h>

#include "my.h"

static void add_views(my_conn *conn)
{
    rlk_text place = {0}, prefix = {0};
    const char *literals[] = {"NULL", my_bytes(&prefix, conn->prefix, strlen(conn->prefix))};

    if (conn->schema != NULL)
        literals[0] = my_bytes(&place, conn->schema, strlen(conn->schema));
    my_add(conn, SQL_SCHEMA_VIEWS, literals, 2);
    conn->packet.failed |= place.failed || prefix.failed;
    rlk_text_free(&place);
    rlk_text_free(&prefix);
}

static int check_views(MYSQL_RES *result, rowlock_error *err)
{
    MYSQL_ROW row = mysql_fetch_row(result);

    if (row == NULL)
        return rlk_ok(err);
    return rlk_fail(err, ROWLOCK_ESCHEMA, "%s is a view: it must be a table of rowlock's", row[0]);
}

static int read_version(my_conn *conn, int *out, int64_t deadline, rowlock_error *err)
{
    enum { NO_DATABASE = 1049, NO_TABLE = 1146 };
    rowlock_error own = {0};
    MYSQL_RES *sets[2];
    MYSQL_ROW row;
    int status;

    *out = 0;
    my_start(conn);
    my_add(conn, SQL_SCHEMA_VERSION, NULL, 0);
    add_views(conn);
    status = my_run_sets(conn, deadline, sets, 2, &own);
    if (own.native_code == NO_TABLE || own.native_code == NO_DATABASE)
        return rlk_ok(err);
    if (status != ROWLOCK_OK) {
        if (err != NULL)
            *err = own;
        return status;
    }
    row = mysql_fetch_row(sets[0]);
    if (row != NULL)
        *out = (int)my_int(row[0]);
    status = check_views(sets[1], err);
    mysql_free_result(sets[0]);
    mysql_free_result(sets[1]);
    return status;
}

int my_schema_version(void *conn, int *out, uint32_t timeout_ms, rowlock_error *err)
{
    my_client_enter();
    return read_version(conn, out, my_deadline(timeout_ms), err);
}

/* Names of the server's locks have at most 64 characters and belong to the whole server: a hash of
 * the database, and the prefix in full (31 at most). A collision only makes two wait. */
static const char *lock_name(const my_conn *conn, rlk_text *out)
{
    const char *place = conn->schema != NULL ? conn->schema : conn->database;
    uint64_t hash = my_hash(MY_HASH_START, place, strlen(place));
    rlk_text name = {0};

    rlk_text_str(&name, "rowlock:");
    rlk_text_hex(&name, &hash, sizeof hash);
    rlk_text_str(&name, ":");
    rlk_text_str(&name, conn->prefix);
    if (name.failed)
        out->failed = 1;
    else
        my_bytes(out, name.data, name.length);
    rlk_text_free(&name);
    return out->failed ? "NULL" : out->data;
}

/* 1 in *got if the lock is ours. Waits whole seconds, never past the deadline. */
static int lock_schema(my_conn *conn, const char *name, int64_t deadline, int *got,
                       rowlock_error *err)
{
    int64_t seconds = (deadline - rlk_clock_us()) / 2000000;
    rlk_text wait = {0};
    const char *literals[] = {name, my_number(&wait, seconds > 0 ? seconds : 0)};
    MYSQL_RES *result = NULL;
    int status;

    my_start(conn);
    my_add(conn, SQL_SCHEMA_LOCK, literals, 2);
    status = wait.failed ? rlk_fail_memory(err) : my_run(conn, deadline, &result, err);
    if (status == ROWLOCK_OK) {
        MYSQL_ROW row = mysql_fetch_row(result);

        *got = row != NULL && my_int(row[0]) == 1;
        mysql_free_result(result);
    }
    rlk_text_free(&wait);
    return status;
}

/* A connection that cannot give the lock back is closed, which gives it back. */
static void unlock_schema(my_conn *conn, const char *name, int64_t deadline)
{
    if (conn->dead)
        return;
    my_start(conn);
    my_add(conn, SQL_SCHEMA_UNLOCK, &name, 1);
    if (my_run(conn, deadline, NULL, NULL) != ROWLOCK_OK)
        conn->dead = 1;
}

static int run_step(my_conn *conn, int from, int to, int64_t deadline, rowlock_error *err)
{
    const char *sql = to > from ? migrations[to - 1].up : migrations[from - 1].down;
    int version = 0, status = read_version(conn, &version, deadline, err);

    if (status != ROWLOCK_OK)
        return status;
    if (version != from)
        return rlk_fail(err, ROWLOCK_BUSY, "the tables have version %d, not %d", version, from);
    my_start(conn);
    rlk_sql_render(&conn->packet, sql, conn->prefix, conn->schema, '`');
    return my_run(conn, deadline, NULL, err);
}

int my_schema_apply(void *handle, int from, int to, uint32_t timeout_ms, rowlock_error *err)
{
    my_conn *conn = handle;
    int64_t deadline = my_deadline(timeout_ms);
    int step = to > from ? to : from, got = 0, status;
    rlk_text name = {0};

    my_client_enter();
    rlk_ok(err);
    if (to - from != 1 && from - to != 1)
        return rlk_fail(err, ROWLOCK_EINVAL, "a step goes one version up or down");
    if (step < 1 || step > MIGRATION_COUNT)
        return rlk_fail(err, ROWLOCK_EINVAL, "there is no step to version %d", step);
    lock_name(conn, &name);
    status = name.failed ? rlk_fail_memory(err) : ROWLOCK_OK;
    if (status == ROWLOCK_OK)
        status = lock_schema(conn, name.data, deadline, &got, err);
    if (status == ROWLOCK_OK && !got)
        status = rlk_fail_native(err, ROWLOCK_EDRIVER, 0, NULL, 1,
                                 "another process is changing the tables: try again");
    if (status == ROWLOCK_OK) {
        status = run_step(conn, from, to, deadline, err);
        unlock_schema(conn, name.data, deadline);
    }
    rlk_text_free(&name);
    return status;
}
