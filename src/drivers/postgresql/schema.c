/* SPDX-License-Identifier: MIT */
#include "pg.h"

#include <string.h>

#include "clock.h"

int pg_schema_version(void *memory, int *out, uint32_t timeout_ms, rowlock_error *err)
{
    pg_link *conn = memory;
    int64_t deadline = rlk_clock_us() + (int64_t)timeout_ms * 1000;
    PGresult *result;
    int status;

    *out = 0;
    pg_params_clear(&conn->params);
    status = pg_call(conn, PG_SCHEMA_VERSION, &result, deadline, err);
    if (status == ROWLOCK_ESCHEMA)
        return rlk_ok(err);
    if (status == ROWLOCK_OK)
        *out = (int)pg_get_int(result, 0, 0);
    PQclear(result);
    return pg_unchanged(status, err);
}

/* ---- one step: a transaction of several round trips under an advisory lock */

static int step(pg_link *conn, pg_statement statement, int64_t *answer, int64_t deadline,
                rowlock_error *err)
{
    PGresult *result;
    int status = pg_call_bare(conn, statement, &result, deadline, err);

    if (status == ROWLOCK_OK && answer != NULL)
        *answer = PQntuples(result) > 0 ? pg_get_int(result, 0, 0) : 0;
    if (status == ROWLOCK_OK && statement == PG_COMMIT &&
        strcmp(PQcmdStatus(result), "COMMIT") != 0)
        status = rlk_fail(err, ROWLOCK_EDRIVER, "the migration was rolled back");
    PQclear(result);
    return status;
}

static int begin(pg_link *conn, int64_t deadline, rowlock_error *err)
{
    int status;

    pg_params_clear(&conn->params);
    status = step(conn, PG_BEGIN_POOLED, NULL, deadline, err);
    if (status != ROWLOCK_OK)
        return status;
    pg_migration_params(&conn->params, (deadline - rlk_clock_us()) / 1000);
    status = step(conn, PG_SESSION, NULL, deadline, err);
    pg_params_clear(&conn->params);
    if (status == ROWLOCK_OK)
        status = step(conn, PG_SCHEMA_LOCK, NULL, deadline, err);
    return status;
}

/* A missing table must not fail here: that would end the transaction. */
static int recorded_version(pg_link *conn, int64_t *out, int64_t deadline, rowlock_error *err)
{
    int64_t is_there;
    int status = step(conn, PG_SCHEMA_EXISTS, &is_there, deadline, err);

    *out = 0;
    if (status == ROWLOCK_OK && is_there)
        status = step(conn, PG_SCHEMA_VERSION, out, deadline, err);
    return status;
}

static int no_schema(const pg_link *conn, rowlock_error *err)
{
    return rlk_fail_native(
        err, ROWLOCK_EDRIVER, 0, "3F000", 0, "the schema %s does not exist: create it first",
        strcmp(conn->schema, PG_NOWHERE) == 0 ? "of the search_path" : conn->schema);
}

/* To 'run rowlock migrate up' is no advice to who does just that. */
static int does_not_fit(const pg_link *conn, int from, rowlock_error *err)
{
    char state[6] = "";

    if (err != NULL)
        memcpy(state, err->sqlstate, sizeof state);
    if (strcmp(state, "3F000") == 0)
        return no_schema(conn, err);
    return rlk_fail_native(err, ROWLOCK_EDRIVER, 0, state, 0,
                           "the tables are not as version %d has them: look at them by hand", from);
}

static int run_script(pg_link *conn, int from, int to, int64_t deadline, rowlock_error *err)
{
    const rowlock_migration *migration = pg_migration(to > from ? to : from);
    rlk_text sql = {0};
    int status;

    rlk_sql_render(&sql, to > from ? migration->up : migration->down, conn->prefix, conn->schema,
                   '"');
    status = sql.failed ? rlk_fail_memory(err) : pg_script(conn, sql.data, deadline, err);
    rlk_text_free(&sql);
    return status == ROWLOCK_ESCHEMA ? does_not_fit(conn, from, err) : status;
}

static int apply(pg_link *conn, int from, int to, int64_t deadline, rowlock_error *err)
{
    int64_t version;
    int status = pg_find_place(conn, deadline, err);

    if (status == ROWLOCK_OK && strcmp(conn->schema, PG_NOWHERE) == 0)
        return no_schema(conn, err);
    if (status == ROWLOCK_OK)
        status = begin(conn, deadline, err);
    if (status == ROWLOCK_OK)
        status = recorded_version(conn, &version, deadline, err);
    if (status == ROWLOCK_OK && version != from)
        return rlk_fail(err, ROWLOCK_BUSY, "the tables have version %d by now, not %d",
                        (int)version, from);
    if (status == ROWLOCK_OK)
        status = run_script(conn, from, to, deadline, err);
    return status == ROWLOCK_OK ? ROWLOCK_OK : pg_unchanged(status, err);
}

int pg_schema_apply(void *memory, int from, int to, uint32_t timeout_ms, rowlock_error *err)
{
    pg_link *conn = memory;
    int64_t deadline = rlk_clock_us() + (int64_t)timeout_ms * 1000;
    rowlock_error undone;
    int status = apply(conn, from, to, deadline, err);

    pg_params_clear(&conn->params);
    if (status == ROWLOCK_OK) {
        status = step(conn, PG_COMMIT, NULL, deadline, err);
        return status == ROWLOCK_OK ? rlk_ok(err) : status;
    }
    if (status == ROWLOCK_ECONNECT)
        return status;
    /* Nothing was done; if that cannot be made sure of, closing the connection will. */
    if (step(conn, PG_ROLLBACK, NULL, deadline + 500000, &undone) != ROWLOCK_OK) {
        if (err != NULL)
            *err = undone;
        return pg_unchanged(ROWLOCK_EUNKNOWN, err);
    }
    return status;
}
