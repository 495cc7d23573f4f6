/* SPDX-License-Identifier: MIT */
#include "pg.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int failed(pg_session *s, PGresult *result)
{
    const char *text = result != NULL ? PQresultErrorMessage(result) : PQerrorMessage(s->pg);
    int rc = bench_fail("postgresql: %.*s", (int)strcspn(text, "\n"), text);

    PQclear(result);
    return rc;
}

static int is_good(const PGresult *result)
{
    ExecStatusType status = PQresultStatus(result);

    return status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK;
}

static int connect_to(pg_session *s, const bench_rival *rival)
{
    s->pg = PQconnectdb(bench_address(rival->server));
    for (int i = 1; i < BENCH_DIALS && PQstatus(s->pg) != CONNECTION_OK; i++) {
        usleep(BENCH_DIAL_PAUSE_US);
        PQreset(s->pg);
    }
    if (PQstatus(s->pg) != CONNECTION_OK)
        return failed(s, NULL);
    PQclear(PQexec(s->pg, "SET client_min_messages = warning"));
    return BENCH_OK;
}

int pg_setup(const bench_rival *rival)
{
    const pg_texts *texts = rival->detail;
    pg_session s = {0};
    PGresult *result;
    int rc = connect_to(&s, rival);

    if (rc == BENCH_OK && texts->tables != NULL) {
        result = PQexec(s.pg, texts->tables);
        if (is_good(result))
            PQclear(result);
        else
            rc = failed(&s, result);
    }
    PQfinish(s.pg);
    return rc;
}

int pg_open(void **session, const bench_rival *rival, void *shared)
{
    const pg_texts *texts = rival->detail;
    pg_session *s = calloc(1, sizeof *s);

    (void)shared;
    *session = s;
    s->rival = rival;
    snprintf(s->owner, sizeof s->owner, "host-1:%ld:%p", (long)getpid(), (void *)s);
    if (connect_to(s, rival) != BENCH_OK)
        return BENCH_FAILED;
    for (int i = 0; i < PG_STATEMENTS_MAX && texts->list[i].name != NULL; i++) {
        PGresult *result = PQprepare(s->pg, texts->list[i].name, texts->list[i].sql, 0, NULL);

        if (!is_good(result))
            return failed(s, result);
        PQclear(result);
    }
    return BENCH_OK;
}

void pg_close(void *session)
{
    pg_session *s = session;

    PQfinish(s->pg);
    free(s);
}

/* What libpq wants of the parameters. */
typedef struct arguments {
    const char *values[PG_PARAMS_MAX];
    int lengths[PG_PARAMS_MAX], formats[PG_PARAMS_MAX];
} arguments;

static void spread(arguments *a, const pg_step *step)
{
    for (int i = 0; i < step->n; i++) {
        a->values[i] = step->values[i].data;
        a->lengths[i] = step->values[i].size;
        a->formats[i] = step->values[i].size > 0;
    }
}

int pg_one(pg_session *s, const pg_step *step, PGresult **out)
{
    arguments a;
    PGresult *result;
    int rows;

    spread(&a, step);
    result = PQexecPrepared(s->pg, step->statement, step->n, a.values, a.lengths, a.formats, 1);
    if (!is_good(result))
        return failed(s, result);
    rows =
        PQresultStatus(result) == PGRES_TUPLES_OK ? PQntuples(result) : atoi(PQcmdTuples(result));
    if (out != NULL)
        *out = result;
    else
        PQclear(result);
    return rows;
}

static int send_step(pg_session *s, const pg_step *step)
{
    arguments a;

    if (step->command != NULL)
        return PQsendQueryParams(s->pg, step->command, 0, NULL, NULL, NULL, NULL, 0);
    spread(&a, step);
    return PQsendQueryPrepared(s->pg, step->statement, step->n, a.values, a.lengths, a.formats, 1);
}

/* The results of a step: one, and the NULL behind it. */
static PGresult *take_result(pg_session *s)
{
    PGresult *result = PQgetResult(s->pg), *more;

    while (result != NULL && (more = PQgetResult(s->pg)) != NULL)
        PQclear(more);
    return result;
}

int pg_trip(pg_session *s, const pg_step *steps, int n, PGresult **last)
{
    PGresult *bad = NULL;
    int sent = PQenterPipelineMode(s->pg);

    for (int i = 0; i < n && sent; i++)
        sent = send_step(s, &steps[i]);
    if (!sent || !PQpipelineSync(s->pg))
        return failed(s, NULL);
    for (int i = 0; i < n; i++) {
        PGresult *result = take_result(s);

        if (bad == NULL && !is_good(result)) {
            bad = result;
        } else if (last != NULL && steps[i].command == NULL) {
            PQclear(*last);
            *last = result;
        } else {
            PQclear(result);
        }
    }
    PQclear(PQgetResult(s->pg)); /* of the sync */
    PQexitPipelineMode(s->pg);
    return bad != NULL ? failed(s, bad) : BENCH_OK;
}

pg_value pg_i64(char buffer[8], int64_t number)
{
    for (int i = 7; i >= 0; i--, number >>= 8)
        buffer[i] = (char)(number & 0xff);
    return (pg_value){buffer, 8};
}

int64_t pg_get_i64(const PGresult *result, int row, int column)
{
    const unsigned char *bytes = (const unsigned char *)PQgetvalue(result, row, column);
    uint64_t number = 0;

    for (int i = 0; i < PQgetlength(result, row, column); i++)
        number = number << 8 | bytes[i];
    return (int64_t)number;
}

enum { ENOUGH = 500 }; /* each takes as long as any other */

static int each(pg_session *s, int drop)
{
    char name[32];
    int answer = BENCH_OK;

    for (size_t i = 0; i < s->held && answer == BENCH_OK; i++) {
        snprintf(name, sizeof name, "held-%zu", i);
        answer = drop ? s->rival->release(s, name) : s->rival->acquire(s, name, 0);
    }
    return answer;
}

int pg_hold_each(void *session, size_t n, int ttl_ms)
{
    pg_session *s = session;

    (void)ttl_ms;
    s->held = n < ENOUGH ? n : ENOUGH;
    return each(s, 0);
}

int pg_renew_each(void *session, uint64_t *renewed)
{
    pg_session *s = session;

    *renewed = s->held;
    return each(s, 0);
}

int pg_drop_each(void *session)
{
    return each(session, 1);
}
