/* SPDX-License-Identifier: MIT
 *
 * The statements of userver's distributed lock (C++): one upsert, which renews too, and a delete.
 * Who waits asks every 100 ms. */
#include "pg.h"

#define TTL "30"

static const pg_texts texts = {
    .list = {{"acquire",
              "INSERT INTO userver_locks AS t (key, owner, expiration_time) "
              "VALUES ($1, $2, current_timestamp + make_interval(secs => $3)) "
              "ON CONFLICT (key) DO UPDATE "
              "SET owner = $2, expiration_time = current_timestamp + make_interval(secs => $3) "
              "WHERE (t.owner = $2) OR (t.expiration_time <= current_timestamp) RETURNING 1"},
             {"release", "DELETE FROM userver_locks WHERE key = $1 AND owner = $2 RETURNING 1"}},
    .tables = "CREATE TABLE IF NOT EXISTS userver_locks ("
              "key text PRIMARY KEY, owner text, expiration_time timestamptz)",
};

static int try_once(void *session, const char *name)
{
    pg_session *s = session;
    pg_step step = {.statement = "acquire", .values = {{name, 0}, {s->owner, 0}, {TTL, 0}}, .n = 3};
    int rows = pg_one(s, &step, NULL);

    return rows < 0 ? BENCH_FAILED : rows == 1 ? BENCH_OK : BENCH_BUSY;
}

static int acquire(void *session, const char *name, int waits)
{
    return bench_poll(try_once, session, name, waits, 100);
}

static int release(void *session, const char *name)
{
    pg_session *s = session;
    pg_step step = {.statement = "release", .values = {{name, 0}, {s->owner, 0}}, .n = 2};
    int rows = pg_one(s, &step, NULL);

    return rows < 0 ? BENCH_FAILED : rows == 1 ? BENCH_OK : bench_fail("not released");
}

const bench_rival bench_userver = {
    .name = "userver",
    .server = "POSTGRESQL",
    .floor = "floor postgresql",
    .loads = BENCH_WAITING | IN(LOAD_RENEW),
    .detail = &texts,
    .setup = pg_setup,
    .open = pg_open,
    .close = pg_close,
    .acquire = acquire,
    .release = release,
    .hold = pg_hold_each,
    .renew = pg_renew_each,
    .drop = pg_drop_each,
};
