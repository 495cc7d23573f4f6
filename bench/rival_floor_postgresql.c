/* SPDX-License-Identifier: MIT
 *
 * The floor: the very statements that rowlock sends for one lock, prepared, in a loop on libpq,
 * with no core around them. */
#include <string.h>

#include "pg.h"
#include "sql_postgresql.h"

static pg_texts texts = {.list = {{"acquire", NULL}, {"acquire_free", NULL}, {"release", NULL}}};

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

static int ask(pg_session *s, const char *name, PGresult **result)
{
    char ttl[8], place[8];
    pg_step step = {.statement = s->meets_free ? "acquire_free" : "acquire",
                    .values = {bytes(name),
                               bytes(s->owner),
                               {"", 0},
                               pg_i64(ttl, (int64_t)BENCH_TTL_MS * 1000),
                               next_attempt(s),
                               pg_i64(place, INT64_MAX)},
                    .n = s->meets_free ? 5 : 6};

    return pg_one(s, &step, result);
}

/* By the short statement if the last one was had, as the library does; what that answers was had.
 */
static int acquire(void *session, const char *name, int waits)
{
    enum { FREE_FENCE = 1, ACQUIRED = 1, FENCE };
    pg_session *s = session;
    PGresult *result = NULL;
    int rows, is_short = s->meets_free;

    (void)waits;
    rows = ask(s, name, &result);
    if (rows == 0 && s->meets_free) {
        PQclear(result);
        s->meets_free = is_short = 0;
        rows = ask(s, name, &result);
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
    static const char any[16], no_bell[8];
    pg_session *s = session;
    char fence[8];
    pg_step step = {.statement = "release",
                    .values = {bytes(name),
                               bytes(s->owner),
                               pg_i64(fence, s->number),
                               next_attempt(s),
                               {any, sizeof any},
                               {no_bell, sizeof no_bell}},
                    .n = 6};
    int rows = pg_one(s, &step, NULL);

    return rows == 1 ? BENCH_OK : rows == 0 ? bench_fail("not released") : BENCH_FAILED;
}

const bench_rival bench_floor_postgresql = {
    .name = "floor postgresql",
    .server = "POSTGRESQL",
    .loads = IN(LOAD_CYCLE) | IN(LOAD_BUSY),
    .detail = &texts,
    .setup = setup,
    .open = pg_open,
    .close = pg_close,
    .acquire = acquire,
    .release = release,
};
