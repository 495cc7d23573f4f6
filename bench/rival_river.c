/* SPDX-License-Identifier: MIT
 *
 * The statements of River's leader election (Go), the leader's name being the lock's. Its table is
 * UNLOGGED: no commit waits for the disk. It has no way to wait for a lock. */
#include "pg.h"

static const pg_texts texts = {
    .list = {{"expire", "DELETE FROM river_leader WHERE expires_at < now()"},
             {"elect", "INSERT INTO river_leader (leader_id, elected_at, expires_at, name) "
                       "VALUES ($1, now(), now() + make_interval(secs => 15), $2) "
                       "ON CONFLICT (name) DO NOTHING RETURNING *"},
             {"resign",
              "WITH held AS (SELECT * FROM river_leader WHERE leader_id = $1 AND name = $2 "
              "FOR UPDATE), "
              "n AS (SELECT name, pg_notify('river_leadership', name) FROM held) "
              "DELETE FROM river_leader USING n WHERE river_leader.name = n.name"}},
    .tables = "CREATE UNLOGGED TABLE IF NOT EXISTS river_leader (elected_at timestamptz NOT NULL, "
              "expires_at timestamptz NOT NULL, leader_id text NOT NULL, name text PRIMARY KEY)",
};

/* BEGIN; DELETE; INSERT; COMMIT: a round trip for each, but for the first two. */
static int acquire(void *session, const char *name, int waits)
{
    pg_session *s = session;
    const pg_step begin[] = {{.command = "BEGIN"}, {.statement = "expire"}};
    const pg_step elect = {.statement = "elect", .values = {{s->owner, 0}, {name, 0}}, .n = 2};
    const pg_step commit = {.command = "COMMIT"};
    int rows;

    (void)waits;
    if (pg_trip(s, begin, 2, NULL) != BENCH_OK || (rows = pg_one(s, &elect, NULL)) < 0 ||
        pg_trip(s, &commit, 1, NULL) != BENCH_OK)
        return BENCH_FAILED;
    return rows == 1 ? BENCH_OK : BENCH_BUSY;
}

static int release(void *session, const char *name)
{
    pg_session *s = session;
    const pg_step resign = {.statement = "resign", .values = {{s->owner, 0}, {name, 0}}, .n = 2};
    int rows = pg_one(s, &resign, NULL);

    return rows < 0 ? BENCH_FAILED : rows == 1 ? BENCH_OK : bench_fail("not released");
}

const bench_rival bench_river = {
    .name = "river",
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
