/* SPDX-License-Identifier: MIT
 *
 * The statements of pglock (Go). Its heartbeat, which begins at once in another goroutine, is left
 * out. Who waits sleeps a whole lease, 20 s, between two tries: hand-over cannot be measured. */
#include <stdio.h>

#include "pg.h"

static const pg_texts texts = {
    .list = {{"next", "SELECT nextval('pglock_rvn')"},
             {"acquire",
              "INSERT INTO pglock (name, rvn, data, owner) VALUES ($1, $2, '', $3) "
              "ON CONFLICT (name) DO UPDATE SET "
              "rvn = CASE WHEN COALESCE(pglock.rvn = $4, TRUE) THEN $2 ELSE pglock.rvn END, "
              "data = CASE WHEN COALESCE(pglock.rvn = $4, TRUE) THEN '' ELSE pglock.data END, "
              "owner = CASE WHEN COALESCE(pglock.rvn = $4, TRUE) THEN $3 ELSE pglock.owner END "
              "RETURNING rvn, data, owner"},
             {"release", "DELETE FROM pglock WHERE name = $1 AND rvn = $2"}},
    .tables = "CREATE TABLE IF NOT EXISTS pglock (name varchar(255) PRIMARY KEY, rvn bigint, "
              "data bytea, owner text); CREATE SEQUENCE IF NOT EXISTS pglock_rvn CYCLE",
};

static int next_version(pg_session *s)
{
    const pg_step next = {.statement = "next"};
    PGresult *result;

    if (pg_one(s, &next, &result) < 1)
        return BENCH_FAILED;
    s->number = pg_get_i64(result, 0, 0);
    PQclear(result);
    return BENCH_OK;
}

static int acquire(void *session, const char *name, int waits)
{
    pg_session *s = session;
    char version[8], seen[8];
    PGresult *result;
    int mine;

    (void)waits;
    if (next_version(s) != BENCH_OK)
        return BENCH_FAILED;
    if (pg_one(
            s,
            &(pg_step){
                .statement = "acquire",
                .values = {{name, 0}, pg_i64(version, s->number), {s->owner, 0}, pg_i64(seen, -1)},
                .n = 4},
            &result) < 1)
        return BENCH_FAILED;
    mine = pg_get_i64(result, 0, 0) == s->number;
    PQclear(result);
    return mine ? BENCH_OK : BENCH_BUSY;
}

static int release(void *session, const char *name)
{
    pg_session *s = session;
    char version[8];
    pg_step step = {
        .statement = "release", .values = {{name, 0}, pg_i64(version, s->number)}, .n = 2};
    int rows = pg_one(s, &step, NULL);

    return rows < 0 ? BENCH_FAILED : rows == 1 ? BENCH_OK : bench_fail("not released");
}

const bench_rival bench_pglock = {
    .name = "pglock",
    .server = "POSTGRESQL",
    .floor = "floor postgresql",
    .loads = IN(LOAD_CYCLE) | IN(LOAD_BUSY),
    .detail = &texts,
    .setup = pg_setup,
    .open = pg_open,
    .close = pg_close,
    .acquire = acquire,
    .release = release,
};
