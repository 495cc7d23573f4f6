/* SPDX-License-Identifier: MIT
 *
 * pg_advisory_lock: the server's own locks, which live as long as the session. Not durable, no
 * lease, no fence; different names may have the same number. */
#include <stdio.h>
#include <string.h>

#include "pg.h"

static const pg_texts texts = {
    .list = {{"wait", "SELECT pg_advisory_lock(hashtextextended($1, 0))"},
             {"try", "SELECT pg_try_advisory_lock(hashtextextended($1, 0))"},
             {"release", "SELECT pg_advisory_unlock(hashtextextended($1, 0))"}}};

/* 1: true, or nothing to be said. */
static int ask(pg_session *s, const char *statement, const char *name)
{
    pg_step step = {.statement = statement, .values = {{name, 0}}, .n = 1};
    PGresult *result;
    int yes;

    if (pg_one(s, &step, &result) < 1)
        return BENCH_FAILED;
    yes = PQgetlength(result, 0, 0) == 0 || PQgetvalue(result, 0, 0)[0] != 0;
    PQclear(result);
    return yes;
}

static int acquire(void *session, const char *name, int waits)
{
    int yes = ask(session, waits ? "wait" : "try", name);

    return yes < 0 ? BENCH_FAILED : yes ? BENCH_OK : BENCH_BUSY;
}

static int release(void *session, const char *name)
{
    int yes = ask(session, "release", name);

    return yes < 0 ? BENCH_FAILED : yes ? BENCH_OK : bench_fail("not released");
}

/* Of the server, for all rivals on it. */
static int about(const bench_rival *rival, char *out, size_t size)
{
    void *session = NULL;
    pg_session *s;
    PGresult *result;
    int is_safe = 0;

    if (pg_open(&session, rival, NULL) != BENCH_OK)
        return BENCH_FAILED;
    s = session;
    result = PQexec(
        s->pg,
        "SELECT split_part(current_setting('server_version'), ' ', 1), current_setting('fsync'), "
        "current_setting('synchronous_commit'), "
        "current_setting('full_page_writes')");
    if (PQntuples(result) == 1) {
        snprintf(out, size, "PostgreSQL %s, fsync %s, synchronous_commit %s, full_page_writes %s",
                 PQgetvalue(result, 0, 0), PQgetvalue(result, 0, 1), PQgetvalue(result, 0, 2),
                 PQgetvalue(result, 0, 3));
        is_safe = strcmp(PQgetvalue(result, 0, 1), "on") == 0 &&
                  strcmp(PQgetvalue(result, 0, 2), "on") == 0;
    }
    PQclear(result);
    pg_close(session);
    return is_safe ? BENCH_OK : bench_fail("postgresql is not set to keep what is committed");
}

const bench_rival bench_advisory = {
    .name = "pg_advisory_lock",
    .server = "POSTGRESQL",
    .loads = BENCH_WAITING | IN(LOAD_REENTRY),
    .detail = &texts,
    .open = pg_open,
    .close = pg_close,
    .acquire = acquire,
    .release = release,
    .about = about,
};
