/* SPDX-License-Identifier: MIT
 *
 * The floor: the packets that rowlock sends for one lock, in a loop on the client library. They
 * hold several statements, so that they cannot be prepared; rowlock does not prepare them either.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "my.h"
#include "sql_mysql.h"

enum { PACKET_SIZE = 8192 };

/* x'hex' of bytes. */
static const char *hex(char *out, const void *bytes, size_t n)
{
    const unsigned char *from = bytes;
    char *to = out + sprintf(out, "x'");

    for (size_t i = 0; i < n; i++)
        to += sprintf(to, "%02x", from[i]);
    strcpy(to, "'");
    return out;
}

/* A text with its ? replaced. */
static char *fill(char *to, const char *sql, const char *const *literals, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        size_t before = strcspn(sql, "?");

        memcpy(to, sql, before);
        to = stpcpy(to + before, literals[i]);
        sql += before + 1;
    }
    return stpcpy(to, sql);
}

static char *begin(char *to, my_session *s, const char *name)
{
    char names[600], owner[200], attempt[64], fence[32], ttl[32];
    uint64_t number[2] = {(uintptr_t)s, ++s->attempts};
    const char *literals[] = {hex(names, name, strlen(name)),
                              hex(owner, s->owner, strlen(s->owner)),
                              hex(attempt, number, sizeof number),
                              fence,
                              ttl,
                              "x''",
                              "x''",
                              "0"};

    snprintf(fence, sizeof fence, "%lld", (long long)s->number);
    snprintf(ttl, sizeof ttl, "%lld", BENCH_TTL_MS * 1000LL);
    return fill(to, sql_text[SQL_BEGIN_ONE], literals, sizeof literals / sizeof *literals);
}

/* As the driver does: without a look at the queue first, and with it if the row was not there. */
static int try_once(my_session *s, const char *name, int looks, my_answer *answer)
{
    static const char *const upto[] = {"9223372036854775807"};
    char packet[PACKET_SIZE], *to = begin(packet, s, name);

    if (looks)
        to = fill(to, sql_text[SQL_UPTO], upto, 1);
    to = stpcpy(to, sql_text[SQL_ACQUIRE_ONE]);
    if (looks)
        to = stpcpy(to, sql_text[SQL_ACQUIRE_ONE_IF]);
    to = stpcpy(to, sql_text[SQL_ACQUIRE_ONE_WRITE]);
    strcpy(to, sql_text[SQL_ACQUIRE_ONE_ANSWER]);
    return my_run(s, answer, "%s", packet);
}

/* ?, own, mine, fence, ... */
static int acquire(void *session, const char *name, int waits)
{
    my_session *s = session;
    my_answer answer;
    int rc = try_once(s, name, 0, &answer);

    (void)waits;
    if (rc == BENCH_OK && !answer.has_row)
        rc = try_once(s, name, 1, &answer);
    if (rc != BENCH_OK)
        return rc;
    s->number = answer.values[3];
    return answer.has_row && answer.values[1] && answer.values[2] ? BENCH_OK : BENCH_BUSY;
}

static int release(void *session, const char *name)
{
    my_session *s = session;
    char packet[PACKET_SIZE];
    my_answer answer;
    int rc;

    strcpy(begin(packet, s, name), sql_text[SQL_RELEASE_ONE]);
    rc = my_run(s, &answer, "%s", packet);
    if (rc != BENCH_OK)
        return rc;
    return answer.has_row && answer.values[2] ? BENCH_OK : bench_fail("not released");
}

static int setup(const bench_rival *rival)
{
    (void)rival;
    return bench_rowlock_mariadb.setup(&bench_rowlock_mariadb);
}

static int setup_mysql(const bench_rival *rival)
{
    (void)rival;
    return bench_rowlock_mysql.setup(&bench_rowlock_mysql);
}

#define FLOOR_SLOTS                                                              \
    .loads = IN(LOAD_CYCLE) | IN(LOAD_BUSY), .open = my_open, .close = my_close, \
    .acquire = acquire, .release = release

const bench_rival bench_floor_mariadb = {
    .name = "floor mariadb",
    .server = "MARIADB",
    .setup = setup,
    .statements = my_statements,
    FLOOR_SLOTS,
};
const bench_rival bench_floor_mysql = {
    .name = "floor mysql",
    .server = "MYSQL",
    .setup = setup_mysql,
    FLOOR_SLOTS,
};
