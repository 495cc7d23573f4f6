/* SPDX-License-Identifier: MIT
 *
 * The long table: rowlock's, with rows of locks that were free long ago, written by plain SQL. */
#include <rowlock/rowlock.h>
#include <sqlite3.h>
#include <stdio.h>

#include "my.h"
#include "pg.h"

#define TABLE BENCH_LONG "locks"

static int make_tables(const bench_rival *rival)
{
    bench_rival other = *rival;
    int rc;

    other.table = BENCH_SHORT;
    rc = other.setup(&other);
    other.table = BENCH_LONG;
    return rc == BENCH_OK ? other.setup(&other) : rc;
}

int bench_fill_sqlite(const bench_rival *rival, uint64_t n)
{
    char path[500], sql[600];
    sqlite3 *db = NULL;
    int rc = make_tables(rival);

    if (rc != BENCH_OK)
        return rc;
    snprintf(path, sizeof path, "%s/rowlock.db", bench_folder());
    snprintf(sql, sizeof sql,
             "DELETE FROM " TABLE ";"
             "WITH RECURSIVE c(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM c WHERE i + 1 < %llu) "
             "INSERT INTO " TABLE " (name, owner, fence, hold_count, attempt, acquire_time, "
             "expire_time) SELECT CAST(printf('row-%%07d', i) AS BLOB), 'somebody', 1, 0, "
             "zeroblob(16), 1, 1 FROM c",
             (unsigned long long)n);
    if (sqlite3_open(path, &db) != SQLITE_OK ||
        sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK)
        rc = bench_fail("sqlite: %s", sqlite3_errmsg(db));
    sqlite3_close(db);
    return rc;
}

/* Autovacuum has been there before anybody measures. */
int bench_fill_postgresql(const bench_rival *rival, uint64_t n)
{
    static const pg_texts none;
    bench_rival plain = {.server = rival->server, .detail = &none};
    char fill[600];
    const char *const steps[] = {"TRUNCATE " TABLE, fill, "VACUUM ANALYZE " TABLE, "CHECKPOINT"};
    void *session = NULL;
    int rc = make_tables(rival);

    if (rc == BENCH_OK)
        rc = pg_open(&session, &plain, NULL);
    snprintf(fill, sizeof fill,
             "INSERT INTO " TABLE " (name, owner, fence, hold_count, attempt, acquire_time, "
             "expire_time) SELECT convert_to('row-' || lpad(i::text, 7, '0'), 'UTF8'), 'somebody', "
             "1, 0, '00000000-0000-0000-0000-000000000000', 1, 1 "
             "FROM generate_series(0, %llu) AS i",
             (unsigned long long)n - 1);
    for (size_t i = 0; i < sizeof steps / sizeof *steps && rc == BENCH_OK; i++) {
        pg_session *s = session;
        PGresult *result = PQexec(s->pg, steps[i]);

        if (PQresultStatus(result) != PGRES_COMMAND_OK)
            rc = bench_fail("postgresql: %s", PQerrorMessage(s->pg));
        PQclear(result);
    }
    if (session != NULL)
        pg_close(session);
    return rc;
}

#define DIGITS                                                                                    \
    "(SELECT 0 AS d UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4 " \
    "UNION ALL SELECT 5 UNION ALL SELECT 6 UNION ALL SELECT 7 UNION ALL SELECT 8 "                \
    "UNION ALL SELECT 9)"

/* At most a million. */
int bench_fill_mysql(const bench_rival *rival, uint64_t n)
{
    void *session = NULL;
    int rc = make_tables(rival);

    if (rc == BENCH_OK)
        rc = my_open(&session, rival, NULL);
    if (rc == BENCH_OK)
        rc = my_run(session, NULL, "TRUNCATE " TABLE);
    if (rc == BENCH_OK)
        rc = my_run(session, NULL,
                    "INSERT INTO " TABLE " (name, owner, fence, hold_count, attempt, acquire_time, "
                    "expire_time) SELECT CONCAT('row-', LPAD(n.i, 7, '0')), 'somebody', 1, 0, "
                    "REPEAT('0', 16), 1, 1 FROM (SELECT a.d + 10 * b.d + 100 * c.d + 1000 * e.d + "
                    "10000 * f.d + 100000 * g.d AS i FROM " DIGITS " a, " DIGITS " b, " DIGITS
                    " c, " DIGITS " e, " DIGITS " f, " DIGITS " g) AS n WHERE n.i < %llu "
                    "ORDER BY n.i",
                    (unsigned long long)n);
    if (session != NULL)
        my_close(session);
    return rc;
}
