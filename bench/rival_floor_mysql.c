/* SPDX-License-Identifier: MIT
 *
 * The floor: the packets that rowlock sends for one lock, in a loop on the client library; prepared
 * where rowlock's are. */
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

static int is_maria(const my_session *s)
{
    return strstr(mysql_get_server_info(s->my), "MariaDB") != NULL;
}

/* Those that rowlock prepares; nothing is done if it was before. */
static int prepare(my_session *s)
{
    static const enum sql_statement all[] = {SQL_ACQUIRE_FREE_UPDATE, SQL_RELEASE_ONE};
    my_answer answer;
    int rc = BENCH_OK;

    for (int i = 0; i < 2 && !s->is_prepared && is_maria(s) && rc == BENCH_OK; i++) {
        char text[PACKET_SIZE], *to = text;

        for (const char *from = sql_text[all[i]]; *from != '\0'; from++) {
            if (*from == '\'')
                *to++ = '\'';
            *to++ = *from;
        }
        *to = '\0';
        rc = my_run(s, &answer, "PREPARE floor_%d FROM '%s'", (int)all[i], text);
    }
    s->is_prepared = 1;
    return rc;
}

static void fill_prepared(char *to, enum sql_statement which, const char *const *literals, size_t n)
{
    to += sprintf(to, " EXECUTE floor_%d USING ", (int)which);
    for (size_t i = 0; i < n; i++)
        to += sprintf(to, "%s%s", i > 0 ? "," : "", literals[i]);
}

/* What the statements are about, as literals. */
typedef struct request {
    char name[600], owner[200], attempt[64], fence[32], ttl[32];
} request;

static request about(my_session *s, const char *name)
{
    uint64_t number[2] = {(uintptr_t)s, ++s->attempts};
    request r;

    hex(r.name, name, strlen(name));
    hex(r.owner, s->owner, strlen(s->owner));
    hex(r.attempt, number, sizeof number);
    snprintf(r.fence, sizeof r.fence, "%lld", (long long)s->number);
    snprintf(r.ttl, sizeof r.ttl, "%lld", BENCH_TTL_MS * 1000LL);
    return r;
}

static int acquire_free(my_session *s, const request *r, my_answer *answer)
{
    enum { LOCKED = 1205 }; /* by somebody else's try, at this moment: not had */
    const char *insert[] = {r->ttl,     r->name,  r->owner,   r->attempt,
                            r->attempt, r->owner, r->attempt, "x''"};
    const char *update[] = {r->owner, r->attempt, "x''",      r->ttl,
                            r->name,  r->owner,   r->attempt, r->attempt};
    char packet[PACKET_SIZE];
    int rc;

    if (is_maria(s))
        fill_prepared(stpcpy(packet, sql_text[SQL_NO_WAIT]), SQL_ACQUIRE_FREE_UPDATE, update,
                      sizeof update / sizeof *update);
    else
        fill(packet, sql_text[SQL_ACQUIRE_FREE], insert, sizeof insert / sizeof *insert);
    rc = my_run(s, answer, "%s", packet);
    return mysql_errno(s->my) == LOCKED ? BENCH_OK : rc;
}

static int acquire_one(my_session *s, const request *r, my_answer *answer)
{
    const char *literals[] = {r->name, r->owner, r->attempt,           r->ttl,
                              "x''",   "0",      "9223372036854775807"};
    char packet[PACKET_SIZE],
        *to = fill(packet, sql_text[SQL_BEGIN_ONE], literals, sizeof literals / sizeof *literals);

    to = stpcpy(to, sql_text[SQL_ACQUIRE_ONE]);
    strcpy(to, sql_text[SQL_ACQUIRE_ONE_ANSWER]);
    return my_run(s, answer, "%s", packet);
}

static int acquire_look(my_session *s, const request *r, my_answer *answer)
{
    const char *literals[] = {r->owner, r->name};
    char packet[PACKET_SIZE];

    fill(packet, sql_text[SQL_ACQUIRE_LOOK], literals, sizeof literals / sizeof *literals);
    return my_run(s, answer, "%s", packet);
}

/* As the driver does: in one statement if the lock is free or held as the last one was. Rows are ?,
 * own, mine, fence, hold_count, remaining, ... */
static int acquire(void *session, const char *name, int waits)
{
    enum { NONE, FREE, HELD };
    my_session *s = session;
    request r = about(s, name);
    my_answer answer;
    int rc;

    (void)waits;
    if (prepare(s) != BENCH_OK)
        return BENCH_FAILED;
    if (s->guess == FREE) {
        rc = acquire_free(s, &r, &answer);
        s->number = (int64_t)answer.inserted;
        if (rc != BENCH_OK || answer.affected > 0)
            return rc;
    } else if (s->guess == HELD) {
        rc = acquire_look(s, &r, &answer);
        if (rc != BENCH_OK || (!answer.values[1] && answer.values[4] > 0 && answer.values[5] > 0))
            return rc == BENCH_OK ? BENCH_BUSY : rc;
    }
    rc = acquire_one(s, &r, &answer);
    s->number = answer.values[3];
    s->guess = answer.has_row && answer.values[1] && answer.values[2] ? FREE : HELD;
    return rc != BENCH_OK || s->guess == FREE ? rc : BENCH_BUSY;
}

static int release(void *session, const char *name)
{
    my_session *s = session;
    request r = about(s, name);
    const char *literals[] = {r.attempt, r.name, r.owner, r.fence, r.attempt, "x''", "x''"};
    char packet[PACKET_SIZE];
    my_answer answer;
    int rc;

    if (is_maria(s))
        fill_prepared(packet, SQL_RELEASE_ONE, literals, sizeof literals / sizeof *literals);
    else
        fill(packet, sql_text[SQL_RELEASE_ONE], literals, sizeof literals / sizeof *literals);
    rc = my_run(s, &answer, "%s", packet);
    if (rc != BENCH_OK)
        return rc;
    return answer.affected > 0 ? BENCH_OK : bench_fail("not released");
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
