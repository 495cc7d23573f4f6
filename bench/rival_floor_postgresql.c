/* SPDX-License-Identifier: MIT
 *
 * The floor: the very statements that rowlock sends for one lock, prepared, in a loop on libpq,
 * with no core around them. Who waits stands at a lock of the server's own, and takes the row in
 * the same round trip: no tickets, so the place is lost with the statement, and what a waiter that
 * has died was sent is carried out for nobody. It is there to tell what a row that is on the disk
 * costs where it changes hands. */
#include <string.h>

#include "pg.h"
#include "sql_postgresql.h"

static pg_texts texts = {.list = {{"acquire", NULL},
                                  {"acquire_free", NULL},
                                  {"release", NULL},
                                  {"wait", "SELECT pg_advisory_lock($1::bigint)"}}};

/* One name at a time is waited for. Its row is the floor's own: that of rowlock may be marked. */
enum { DOOR = 1 };

static const char *row_of(const pg_session *s, const char *name)
{
    return s->door != 0 ? "door" : name;
}

static int setup(const bench_rival *rival)
{
    texts.list[0].sql = sql_text[SQL_ACQUIRE_ONE];
    texts.list[1].sql = sql_text[SQL_ACQUIRE_FREE_ONE];
    texts.list[2].sql = sql_text[SQL_RELEASE_ONE];
    return bench_rowlock_postgresql.setup(&bench_rowlock_postgresql) == BENCH_OK ? pg_setup(rival)
                                                                                 : BENCH_FAILED;
}

/* Another one for each call, as the library's are. */
static pg_value next_attempt(pg_session *s)
{
    int64_t number;

    memcpy(&number, s->attempt, sizeof number);
    number++;
    memcpy(s->attempt, &number, sizeof number);
    memcpy(s->attempt + 8, &s, sizeof s);
    return (pg_value){(const char *)s->attempt, sizeof s->attempt};
}

static pg_value bytes(const char *text)
{
    return (pg_value){text, (int)strlen(text)};
}

static int ask(pg_session *s, const char *name, int waits, PGresult **result)
{
    char ttl[8], place[8], door[8];
    pg_step steps[] = {{.statement = "wait", .values = {pg_i64(door, DOOR)}, .n = 1},
                       {.statement = s->meets_free ? "acquire_free" : "acquire",
                        .values = {bytes(row_of(s, name)),
                                   bytes(s->owner),
                                   {"", 0},
                                   pg_i64(ttl, (int64_t)BENCH_TTL_MS * 1000),
                                   next_attempt(s),
                                   pg_i64(place, INT64_MAX)},
                        .n = s->meets_free ? 5 : 6}};

    if (!waits)
        return pg_one(s, &steps[1], result);
    return pg_trip(s, steps, 2, result) == BENCH_OK ? PQntuples(*result) : BENCH_FAILED;
}

/* By the short statement if the last one was had, as the library does; what that answers was had.
 */
static int acquire(void *session, const char *name, int waits)
{
    enum { FREE_FENCE = 1, ACQUIRED = 1, FENCE };
    pg_session *s = session;
    PGresult *result = NULL;
    int rows, is_short = s->meets_free;

    s->door = waits ? DOOR : 0;
    rows = ask(s, name, waits, &result);
    if (rows == 0 && s->meets_free) {
        PQclear(result);
        s->meets_free = is_short = 0;
        rows = ask(s, name, 0, &result);
    }
    if (rows < 1)
        return BENCH_FAILED;
    s->meets_free = is_short || PQgetvalue(result, 0, ACQUIRED)[0] != 0;
    s->number = pg_get_i64(result, 0, is_short ? FREE_FENCE : FENCE);
    PQclear(result);
    return s->meets_free ? BENCH_OK : BENCH_BUSY;
}

static int release(void *session, const char *name)
{
    static const char any[16];
    pg_session *s = session;
    char fence[8], door[8];
    pg_step step = {.statement = "release",
                    .values = {bytes(row_of(s, name)),
                               bytes(s->owner),
                               pg_i64(fence, s->number),
                               next_attempt(s),
                               {any, sizeof any},
                               pg_i64(door, s->door)},
                    .n = 6};
    int rows = pg_one(s, &step, NULL);

    s->door = 0;
    return rows == 1 ? BENCH_OK : rows == 0 ? bench_fail("not released") : BENCH_FAILED;
}

const bench_rival bench_floor_postgresql = {
    .name = "floor postgresql",
    .server = "POSTGRESQL",
    .loads = BENCH_WAITING,
    .detail = &texts,
    .setup = setup,
    .open = pg_open,
    .close = pg_close,
    .acquire = acquire,
    .release = release,
};
