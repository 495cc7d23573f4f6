/* SPDX-License-Identifier: MIT
 *
 * The statements of ShedLock (Java) with the database's time, once it knows that the row is there.
 * Each runs in a transaction, whose BEGIN travels with it (PostgreSQL) or is implied (MariaDB). It
 * has no way to wait. */
#include <stdlib.h>

#include "my.h"
#include "pg.h"

#define PG_NOW "timezone('utc', CURRENT_TIMESTAMP)"

static const pg_texts texts = {
    .list = {{"insert", "INSERT INTO shedlock (name, lock_until, locked_at, locked_by) "
                        "VALUES ($1, " PG_NOW " + make_interval(secs => 30), " PG_NOW ", $2) "
                        "ON CONFLICT (name) DO UPDATE SET lock_until = " PG_NOW
                        " + make_interval(secs => 30), locked_at = " PG_NOW ", locked_by = $2 "
                        "WHERE shedlock.name = $1 AND shedlock.lock_until <= " PG_NOW},
             {"update", "UPDATE shedlock SET lock_until = " PG_NOW
                        " + make_interval(secs => 30), locked_at = " PG_NOW ", locked_by = $2 "
                        "WHERE name = $1 AND lock_until <= " PG_NOW},
             {"unlock", "UPDATE shedlock SET lock_until = CASE WHEN locked_at > " PG_NOW
                        " THEN locked_at ELSE " PG_NOW " END WHERE name = $1 AND locked_by = $2"}},
    .tables = "CREATE TABLE IF NOT EXISTS shedlock (name VARCHAR(64) NOT NULL, "
              "lock_until TIMESTAMP NOT NULL, locked_at TIMESTAMP NOT NULL, "
              "locked_by VARCHAR(255) NOT NULL, PRIMARY KEY (name))",
};

/* BEGIN and the statement, then COMMIT. How many rows; -1: failed. */
static int pg_change(pg_session *s, const char *statement, const char *name)
{
    const pg_step steps[] = {
        {.command = "BEGIN"},
        {.statement = statement, .values = {{name, 0}, {s->owner, 0}}, .n = 2}};
    const pg_step commit = {.command = "COMMIT"};
    PGresult *result = NULL;
    int rows;

    if (pg_trip(s, steps, 2, &result) != BENCH_OK)
        return BENCH_FAILED;
    rows = atoi(PQcmdTuples(result));
    PQclear(result);
    return pg_trip(s, &commit, 1, NULL) == BENCH_OK ? rows : BENCH_FAILED;
}

/* The names of a session are few: after the first time they are known. */
static int pg_acquire(void *session, const char *name, int waits)
{
    pg_session *s = session;
    int rows = pg_change(s, "update", name);

    (void)waits;
    if (rows == 0 && s->number == 0) {
        s->number = 1;
        rows = pg_change(s, "insert", name);
    }
    return rows < 0 ? BENCH_FAILED : rows == 1 ? BENCH_OK : BENCH_BUSY;
}

static int pg_release(void *session, const char *name)
{
    int rows = pg_change(session, "unlock", name);

    return rows < 0 ? BENCH_FAILED : rows == 1 ? BENCH_OK : bench_fail("not released");
}

/* ---- MariaDB ---- */

#define TABLE                                                                                      \
    "CREATE TABLE IF NOT EXISTS shedlock (name VARCHAR(64) NOT NULL, lock_until TIMESTAMP(3) NOT " \
    "NULL, locked_at TIMESTAMP(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3), "                         \
    "locked_by VARCHAR(255) NOT NULL, PRIMARY KEY (name))"
#define MY_UNTIL "TIMESTAMPADD(MICROSECOND, 30000000, UTC_TIMESTAMP(3))"

static int my_commit(my_session *s)
{
    return my_run(s, NULL, "COMMIT");
}

static int my_acquire_once(my_session *s, my_answer *answer, const char *name)
{
    int rc = my_run(s, answer,
                    "UPDATE shedlock SET lock_until = " MY_UNTIL ", locked_at = UTC_TIMESTAMP(3), "
                    "locked_by = '%s' WHERE name = '%s' AND lock_until <= UTC_TIMESTAMP(3)",
                    s->owner, name);

    return rc == BENCH_OK ? my_commit(s) : rc;
}

static int my_insert(my_session *s, my_answer *answer, const char *name)
{
    int rc = my_run(s, answer,
                    "INSERT IGNORE INTO shedlock (name, lock_until, locked_at, locked_by) VALUES "
                    "('%s', " MY_UNTIL ", UTC_TIMESTAMP(3), '%s')",
                    name, s->owner);

    return rc == BENCH_OK ? my_commit(s) : rc;
}

static int my_acquire(void *session, const char *name, int waits)
{
    my_session *s = session;
    my_answer answer;
    int rc = my_acquire_once(s, &answer, name);

    (void)waits;
    if (rc == BENCH_OK && answer.affected == 0 && s->number == 0) {
        s->number = 1;
        rc = my_insert(s, &answer, name);
    }
    return rc != BENCH_OK ? rc : answer.affected == 1 ? BENCH_OK : BENCH_BUSY;
}

static int my_release(void *session, const char *name)
{
    my_session *s = session;
    my_answer answer;
    int rc = my_run(s, &answer,
                    "UPDATE shedlock SET lock_until = IF(locked_at > UTC_TIMESTAMP(3), locked_at, "
                    "UTC_TIMESTAMP(3)) WHERE name = '%s' AND locked_by = '%s'",
                    name, s->owner);

    if (rc == BENCH_OK)
        rc = my_commit(s);
    return rc != BENCH_OK ? rc : answer.affected == 1 ? BENCH_OK : bench_fail("not released");
}

const bench_rival bench_shedlock_postgresql = {
    .name = "shedlock postgresql",
    .server = "POSTGRESQL",
    .floor = "floor postgresql",
    .loads = IN(LOAD_CYCLE) | IN(LOAD_BUSY),
    .detail = &texts,
    .setup = pg_setup,
    .open = pg_open,
    .close = pg_close,
    .acquire = pg_acquire,
    .release = pg_release,
};
const bench_rival bench_shedlock_mariadb = {
    .name = "shedlock mariadb",
    .server = "MARIADB",
    .floor = "floor mariadb",
    .loads = IN(LOAD_CYCLE) | IN(LOAD_BUSY),
    .detail = TABLE,
    .setup = my_setup,
    .open = my_open_manual,
    .close = my_close,
    .acquire = my_acquire,
    .release = my_release,
    .statements = my_statements,
};
