/* SPDX-License-Identifier: MIT */
#include "lite.h"
#include "text.h"

typedef struct step {
    int from, to;
} step;

static int read_version(lite_conn *conn, void *payload)
{
    int *out = payload;
    int status;
    sqlite3_stmt *statement = lite_statement(conn, SQL_SCHEMA_VERSION, &status);
    int rc = SQLITE_DONE;

    *out = 0;
    if (statement != NULL) {
        rc = sqlite3_step(statement);
        if (rc == SQLITE_ROW)
            *out = sqlite3_column_int(statement, 0);
        status = lite_done(conn, statement, rc);
    }
    return status == ROWLOCK_ESCHEMA ? rlk_ok(conn->err) : status; /* no tables: version 0 */
}

int lite_schema_version(void *conn, int *out, uint32_t timeout_ms, rowlock_error *err)
{
    return lite_call(conn, read_version, out, timeout_ms, err);
}

/* The statements of one step, of which there are several. */
static int run_migration(lite_conn *conn, const char *text)
{
    rlk_text sql = {0};
    int rc = SQLITE_NOMEM;

    rlk_sql_render(&sql, text, conn->prefix, NULL, '"');
    if (!sql.failed)
        rc = sqlite3_exec(conn->db, sql.data, NULL, NULL, NULL);
    rlk_text_free(&sql);
    return rc == SQLITE_OK ? ROWLOCK_OK : lite_fail(conn, rc);
}

static int apply(lite_conn *conn, void *payload)
{
    step *s = payload;
    int version;
    int status = lite_begin(conn);

    if (status == ROWLOCK_OK)
        status = read_version(conn, &version);
    if (status != ROWLOCK_OK)
        return status;
    if (version != s->from)
        return rlk_fail(conn->err, ROWLOCK_BUSY, "the tables have version %d by now, not %d",
                        version, s->from);
    status = run_migration(conn, s->to > s->from ? migrations[s->to - 1].up
                                                 : migrations[s->from - 1].down);
    return status == ROWLOCK_OK ? lite_commit(conn) : status;
}

int lite_schema_apply(void *conn, int from, int to, uint32_t timeout_ms, rowlock_error *err)
{
    step s = {.from = from, .to = to};

    if (from < 0 || to < 0 || from > MIGRATION_COUNT || to > MIGRATION_COUNT ||
        (to != from + 1 && to != from - 1))
        return rlk_fail(err, ROWLOCK_EINVAL, "there is no step from version %d to %d", from, to);
    return lite_call(conn, apply, &s, timeout_ms, err);
}
