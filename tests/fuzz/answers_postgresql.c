/* SPDX-License-Identifier: MIT
 *
 * PostgreSQL's binary answers: results with rows of the input's making, put in place of those that
 * libpq would have received. The linker leads the driver's calls of the server here. */
#include "answers.h"
#include "pg.h"
#include "rowlock/postgresql.h"

int __wrap_pg_call(pg_link *conn, pg_statement statement, PGresult **out, int64_t deadline,
                   rowlock_error *err);
int __wrap_pg_call_bare(pg_link *conn, pg_statement statement, PGresult **out, int64_t deadline,
                        rowlock_error *err);
int __wrap_pg_trip_run(pg_trip *trip, int64_t deadline);
int __wrap_pg_send(PGconn *pg, const char *name, const char *sql, const pg_params *params);
int __wrap_pg_check_idle(PGconn *pg, rowlock_error *err);
int __wrap_PQsendPrepare(PGconn *pg, const char *name, const char *sql, int n, const Oid *types);
int __wrap_PQpipelineSync(PGconn *pg);

static PGresult *make_result(void)
{
    PGresult *result = PQmakeEmptyPGresult(NULL, PGRES_TUPLES_OK);
    PGresAttDesc columns[FUZZ_COLUMNS];
    int rows = fuzz_byte() % (FUZZ_ROWS + 1);

    MUST(result != NULL);
    for (int i = 0; i < FUZZ_COLUMNS; i++)
        columns[i] = (PGresAttDesc){.name = (char *)"c", .format = 1};
    MUST(PQsetResultAttrs(result, FUZZ_COLUMNS, columns));
    for (int row = 0; row < rows; row++) {
        for (int column = 0; column < FUZZ_COLUMNS; column++) {
            int size;
            const uint8_t *field = fuzz_field(&size);

            MUST(PQsetvalue(result, row, column, (char *)(uintptr_t)field, size));
        }
    }
    return result;
}

/* An answer, or an error that libpq would have had. */
static int answer(PGresult **out, rowlock_error *err)
{
    static const int errors[] = {ROWLOCK_ECONNECT, ROWLOCK_EUNKNOWN, ROWLOCK_EDRIVER,
                                 ROWLOCK_ESCHEMA};
    uint8_t kind = fuzz_byte();

    *out = NULL;
    if (++fuzz_answers > FUZZ_CALLS || kind >= 252)
        return rlk_fail_native(err, errors[kind % 4], 0, "40001", 1, "fuzzed");
    *out = make_result();
    return ROWLOCK_OK;
}

int __wrap_pg_call(pg_link *conn, pg_statement statement, PGresult **out, int64_t deadline,
                   rowlock_error *err)
{
    (void)conn;
    (void)statement;
    (void)deadline;
    return answer(out, err);
}

int __wrap_pg_call_bare(pg_link *conn, pg_statement statement, PGresult **out, int64_t deadline,
                        rowlock_error *err)
{
    return __wrap_pg_call(conn, statement, out, deadline, err);
}

/* Some of the statements have answers; then the rest has failed. */
int __wrap_pg_trip_run(pg_trip *trip, int64_t deadline)
{
    int kind = fuzz_byte();

    (void)deadline;
    if (++fuzz_answers > FUZZ_CALLS || kind >= 252)
        return kind % 2 - 1;
    for (int i = 0; i < trip->count && i < PG_TRIP_MAX && fuzz_byte() % 16 != 0; i++)
        trip->results[i] = make_result();
    return 1;
}

int __wrap_pg_send(PGconn *pg, const char *name, const char *sql, const pg_params *params)
{
    (void)pg;
    (void)name;
    (void)sql;
    (void)params;
    return 1;
}

int __wrap_pg_check_idle(PGconn *pg, rowlock_error *err)
{
    (void)pg;
    (void)err;
    return ROWLOCK_OK;
}

int __wrap_PQsendPrepare(PGconn *pg, const char *name, const char *sql, int n, const Oid *types)
{
    (void)pg;
    (void)name;
    (void)sql;
    (void)n;
    (void)types;
    return 1;
}

int __wrap_PQpipelineSync(PGconn *pg)
{
    (void)pg;
    return 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const rowlock_driver *driver = rowlock_postgresql();
    pg_link *conn = calloc(1, driver->conn_size);

    MUST(conn != NULL);
    fuzz_at = data;
    fuzz_left = size;
    fuzz_answers = 0;
    strcpy(conn->prefix, "rowlock_");
    strcpy(conn->schema, "public");
    conn->is_placed = 1;
    conn->limit_ms = FUZZ_TIMEOUT_MS;
    for (int i = 0; i < 4 && fuzz_left > 0; i++)
        fuzz_call(driver, conn);
    driver->close(conn);
    free(conn);
    return 0;
}
