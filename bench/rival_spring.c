/* SPDX-License-Identifier: MIT
 *
 * The statements of Spring Integration's JdbcLockRegistry (Java): an UPDATE, and an INSERT if there
 * is no row, in one transaction by the application's clock; a DELETE. Who waits asks every 100 ms.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "my.h"
#include "pg.h"

enum { STAMP = 64 };

/* Now, and the end of the 10 s that a lock lives. */
static void stamps(char now[STAMP], char until[STAMP])
{
    struct timespec t;
    struct tm tm;
    char text[32];

    clock_gettime(CLOCK_REALTIME, &t);
    for (int i = 0; i < 2; i++, t.tv_sec += 10) {
        gmtime_r(&t.tv_sec, &tm);
        strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &tm);
        snprintf(i == 0 ? now : until, STAMP, "%s.%06ld", text, t.tv_nsec / 1000);
    }
}

static const pg_texts texts = {
    .list =
        {{"update",
          "UPDATE INT_LOCK SET CLIENT_ID = $2, EXPIRED_AFTER = $3 WHERE REGION = 'DEFAULT' AND "
          "LOCK_KEY = $1 AND (CLIENT_ID = $2 OR EXPIRED_AFTER < $4)"},
         {"insert",
          "INSERT INTO INT_LOCK (REGION, LOCK_KEY, CLIENT_ID, CREATED_DATE, EXPIRED_AFTER) "
          "VALUES ('DEFAULT', $1, $2, $4, $3)"},
         {"delete",
          "DELETE FROM INT_LOCK WHERE REGION = 'DEFAULT' AND LOCK_KEY = $1 AND CLIENT_ID = $2"}},
    .tables = "CREATE TABLE IF NOT EXISTS INT_LOCK (REGION VARCHAR(100) NOT NULL, "
              "LOCK_KEY CHAR(36) NOT NULL, CLIENT_ID VARCHAR(64), CREATED_DATE TIMESTAMP NOT NULL, "
              "EXPIRED_AFTER TIMESTAMP NOT NULL, PRIMARY KEY (REGION, LOCK_KEY))",
};

static const pg_step begin = {.command = "BEGIN ISOLATION LEVEL READ COMMITTED"},
                     commit = {.command = "COMMIT"}, rollback = {.command = "ROLLBACK"};

/* 1: updated; 0: no row of ours or free; -1 */
static int pg_update(pg_session *s, const pg_value values[4])
{
    pg_step steps[2] = {begin, {.statement = "update", .n = 4}};
    PGresult *result = NULL;
    int rows;

    memcpy(steps[1].values, values, 4 * sizeof *values);
    if (pg_trip(s, steps, 2, &result) != BENCH_OK)
        return BENCH_FAILED;
    rows = atoi(PQcmdTuples(result));
    PQclear(result);
    return rows;
}

/* A duplicate is how it learns that somebody else has it. */
static int pg_insert(pg_session *s, const pg_value values[4])
{
    pg_step step = {.statement = "insert", .n = 4};
    PGresult *result;
    const char *lock[4];
    int is_duplicate, is_done;

    for (int i = 0; i < 4; i++)
        lock[i] = values[i].data;
    result = PQexecPrepared(s->pg, step.statement, 4, lock, NULL, NULL, 0);
    is_done = PQresultStatus(result) == PGRES_COMMAND_OK;
    is_duplicate = !is_done && strcmp(PQresultErrorField(result, PG_DIAG_SQLSTATE), "23505") == 0;
    if (!is_done && !is_duplicate)
        bench_fail("spring: %s", PQresultErrorMessage(result));
    PQclear(result);
    return is_done ? BENCH_OK : is_duplicate ? BENCH_BUSY : BENCH_FAILED;
}

static int pg_try_once(void *session, const char *name)
{
    pg_session *s = session;
    char now[STAMP], until[STAMP];
    pg_value values[4] = {{name, 0}, {s->owner, 0}, {until, 0}, {now, 0}};
    int answer;

    stamps(now, until);
    answer = pg_update(s, values);
    if (answer < 0)
        return answer;
    answer = answer == 1 ? BENCH_OK : pg_insert(s, values);
    if (answer == BENCH_FAILED ||
        pg_trip(s, answer == BENCH_OK ? &commit : &rollback, 1, NULL) != BENCH_OK)
        return BENCH_FAILED;
    return answer;
}

static int pg_acquire(void *session, const char *name, int waits)
{
    return bench_poll(pg_try_once, session, name, waits, 100);
}

static int pg_release(void *session, const char *name)
{
    pg_session *s = session;
    const pg_step steps[2] = {
        begin, {.statement = "delete", .values = {{name, 0}, {s->owner, 0}}, .n = 2}};
    PGresult *result = NULL;
    int rows;

    if (pg_trip(s, steps, 2, &result) != BENCH_OK)
        return BENCH_FAILED;
    rows = atoi(PQcmdTuples(result));
    PQclear(result);
    if (pg_trip(s, &commit, 1, NULL) != BENCH_OK)
        return BENCH_FAILED;
    return rows == 1 ? BENCH_OK : bench_fail("not released");
}

/* ---- MariaDB ---- */

static const char table[] =
    "CREATE TABLE IF NOT EXISTS INT_LOCK (REGION VARCHAR(100) NOT NULL, "
    "LOCK_KEY CHAR(36) NOT NULL, CLIENT_ID VARCHAR(64), CREATED_DATE DATETIME(6) NOT NULL, "
    "EXPIRED_AFTER DATETIME(6) NOT NULL, PRIMARY KEY (REGION, LOCK_KEY)) ENGINE=InnoDB";

enum { DUPLICATE = 1062, DEADLOCK = 1213 };

static int my_try_once(void *session, const char *name)
{
    my_session *s = session;
    my_answer answer;
    char now[STAMP], until[STAMP];
    int rc;

    stamps(now, until);
    rc = my_run(s, &answer,
                "UPDATE INT_LOCK SET CLIENT_ID = '%s', EXPIRED_AFTER = '%s' WHERE "
                "REGION = 'DEFAULT' AND LOCK_KEY = '%s' AND (CLIENT_ID = '%s' OR "
                "EXPIRED_AFTER < '%s')",
                s->owner, until, name, s->owner, now);
    if (rc == BENCH_OK && answer.affected == 0)
        rc = my_run(s, &answer,
                    "INSERT INTO INT_LOCK (REGION, LOCK_KEY, CLIENT_ID, CREATED_DATE, "
                    "EXPIRED_AFTER) VALUES ('DEFAULT', '%s', '%s', '%s', '%s')",
                    name, s->owner, now, until);
    if (rc == BENCH_OK)
        return my_run(s, NULL, "COMMIT");
    if (mysql_errno(s->my) != DUPLICATE && mysql_errno(s->my) != DEADLOCK)
        return rc;
    return my_run(s, NULL, "ROLLBACK") == BENCH_OK ? BENCH_BUSY : BENCH_FAILED;
}

static int my_acquire(void *session, const char *name, int waits)
{
    return bench_poll(my_try_once, session, name, waits, 100);
}

/* A deadlock with somebody who tries is repeated, as Spring does. */
static int my_release(void *session, const char *name)
{
    my_session *s = session;
    my_answer answer;
    int rc;

    do {
        rc = my_run(s, &answer,
                    "DELETE FROM INT_LOCK WHERE REGION = 'DEFAULT' AND LOCK_KEY = '%s' AND "
                    "CLIENT_ID = '%s'",
                    name, s->owner);
    } while (rc != BENCH_OK && mysql_errno(s->my) == DEADLOCK);
    if (rc == BENCH_OK)
        rc = my_run(s, NULL, "COMMIT");
    return rc != BENCH_OK ? rc : answer.affected == 1 ? BENCH_OK : bench_fail("not released");
}

const bench_rival bench_spring_postgresql = {
    .name = "spring postgresql",
    .server = "POSTGRESQL",
    .floor = "floor postgresql",
    .loads = BENCH_WAITING,
    .detail = &texts,
    .setup = pg_setup,
    .open = pg_open,
    .close = pg_close,
    .acquire = pg_acquire,
    .release = pg_release,
};
const bench_rival bench_spring_mariadb = {
    .name = "spring mariadb",
    .server = "MARIADB",
    .floor = "floor mariadb",
    .loads = BENCH_WAITING,
    .detail = table,
    .setup = my_setup,
    .open = my_open_manual,
    .close = my_close,
    .acquire = my_acquire,
    .release = my_release,
    .statements = my_statements,
};
