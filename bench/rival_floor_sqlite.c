/* SPDX-License-Identifier: MIT
 *
 * The floor: the two statements by which rowlock takes and gives back a lock, prepared, in a loop
 * on sqlite3, one connection for each thread. */
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "rivals.h"
#include "sql_sqlite.h"

typedef struct session {
    sqlite3 *db;
    sqlite3_stmt *acquire, *release;
    int64_t offset, fence;
    uint64_t attempt[2];
    char owner[64];
} session;

static int failed(const session *s)
{
    return bench_fail("sqlite: %s", sqlite3_errmsg(s->db));
}

/* The clock of the file: see sql/sqlite.sql. */
static void now(sqlite3_context *context, int n, sqlite3_value **values)
{
    const session *s = sqlite3_user_data(context);
    struct timespec t;

    (void)n;
    (void)values;
    clock_gettime(CLOCK_BOOTTIME, &t);
    sqlite3_result_int64(context, (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000 + s->offset);
}

static int read_offset(session *s)
{
    sqlite3_stmt *statement;
    int rc;

    if (sqlite3_prepare_v2(s->db, "SELECT boot_offset FROM rowlock_clock", -1, &statement, NULL))
        return failed(s);
    rc = sqlite3_step(statement);
    s->offset = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return rc == SQLITE_ROW ? BENCH_OK : failed(s);
}

static int open_session(void **out, const bench_rival *rival, void *shared)
{
    session *s = calloc(1, sizeof *s);
    char path[500];

    (void)rival;
    (void)shared;
    *out = s;
    snprintf(path, sizeof path, "%s/rowlock.db", bench_folder());
    snprintf(s->owner, sizeof s->owner, "host-1:%ld:%p", (long)getpid(), (void *)s);
    s->attempt[0] = (uintptr_t)s;
    if (sqlite3_open_v2(path, &s->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL) ||
        sqlite3_busy_timeout(s->db, BENCH_WAIT_MS) ||
        sqlite3_exec(s->db, sql_text[SQL_SYNC_NORMAL], NULL, NULL, NULL) ||
        sqlite3_create_function(s->db, "rowlock_now", 0, SQLITE_UTF8 | SQLITE_INNOCUOUS, s, now,
                                NULL, NULL) ||
        sqlite3_create_function(s->db, "rowlock_fence", 0, SQLITE_UTF8 | SQLITE_INNOCUOUS, s, now,
                                NULL, NULL) ||
        sqlite3_prepare_v3(s->db, sql_text[SQL_ACQUIRE], -1, SQLITE_PREPARE_PERSISTENT, &s->acquire,
                           NULL) ||
        sqlite3_prepare_v3(s->db, sql_text[SQL_RELEASE], -1, SQLITE_PREPARE_PERSISTENT, &s->release,
                           NULL))
        return failed(s);
    return read_offset(s);
}

static void close_session(void *state)
{
    session *s = state;

    sqlite3_finalize(s->acquire);
    sqlite3_finalize(s->release);
    sqlite3_close(s->db);
    free(s);
}

/* OK with a row, BUSY without. */
static int step(session *s, sqlite3_stmt *statement)
{
    int rc = sqlite3_step(statement), answer = rc == SQLITE_ROW ? BENCH_OK : BENCH_BUSY;

    if (rc == SQLITE_ROW) {
        s->fence = sqlite3_column_int64(statement, 1);
        rc = sqlite3_step(statement);
    }
    return rc == SQLITE_DONE && sqlite3_reset(statement) == SQLITE_OK ? answer : failed(s);
}

static int acquire(void *state, const char *name, int waits)
{
    session *s = state;

    (void)waits;
    s->attempt[1]++;
    sqlite3_bind_blob(s->acquire, 1, name, (int)strlen(name), SQLITE_STATIC);
    sqlite3_bind_text(s->acquire, 2, s->owner, -1, SQLITE_STATIC);
    sqlite3_bind_blob(s->acquire, 3, s->attempt, sizeof s->attempt, SQLITE_STATIC);
    sqlite3_bind_int64(s->acquire, 4, (int64_t)BENCH_TTL_MS * 1000);
    sqlite3_bind_text(s->acquire, 5, "", -1, SQLITE_STATIC);
    sqlite3_bind_int64(s->acquire, 6, 0);
    sqlite3_bind_int64(s->acquire, 7, INT64_MAX);
    sqlite3_bind_int(s->acquire, 8, 0);
    return step(s, s->acquire);
}

static int release(void *state, const char *name)
{
    session *s = state;
    int answer;

    s->attempt[1]++;
    sqlite3_bind_blob(s->release, 1, name, (int)strlen(name), SQLITE_STATIC);
    sqlite3_bind_text(s->release, 2, s->owner, -1, SQLITE_STATIC);
    sqlite3_bind_int64(s->release, 3, s->fence);
    sqlite3_bind_blob(s->release, 4, s->attempt, sizeof s->attempt, SQLITE_STATIC);
    answer = step(s, s->release);
    return answer == BENCH_BUSY ? bench_fail("not released") : answer;
}

static int setup(const bench_rival *rival)
{
    (void)rival;
    return bench_rowlock_sqlite.setup(&bench_rowlock_sqlite);
}

const bench_rival bench_floor_sqlite = {
    .name = "floor sqlite",
    .server = "SQLITE",
    .loads = IN(LOAD_CYCLE) | IN(LOAD_BUSY),
    .setup = setup,
    .open = open_session,
    .close = close_session,
    .acquire = acquire,
    .release = release,
};
