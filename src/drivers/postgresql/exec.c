/* SPDX-License-Identifier: MIT
 *
 * One statement to the server and back, by a deadline.
 *
 * Direct connection: the statement is prepared once and run as a transaction of its own. Through a
 * pooler, or if somebody else may have changed the session's settings: BEGIN, settings for this
 * transaction or the session, the unnamed statement, COMMIT. The COMMIT comes behind a Sync, so
 * that it runs, as a rollback, even if the statement failed: the connection is left clean. Either
 * way everything is sent at once and answered at once. */
#include "pg.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "clock.h"

/* The server's limits, in percent of the time that is left: it gives up on a lock early enough for
 * a second look, and on everything before the caller does. */
enum { LOCK_PERCENT = 75, STATEMENT_PERCENT = 90, LIMIT_SLACK_PERCENT = 10 };

/* A row that is locked for longer than this is a transaction's, which nobody knows the end of. */
enum { ROW_LOCK_MS = 100 };

/* What was sent and what has come back. Queries are numbered as queued; -1: not part of it. */
typedef struct exchange {
    int queued, syncs;
    int session, prepare, main, commit;
    int session_done, prepare_done, committed;
    PGresult *result; /* of main */
    PGresult *error;  /* the first */
    int error_at;     /* the query it belongs to */
} exchange;

/* ---- connecting */

/* Copies the sqlstate out of a verbose message ("FATAL:  28P01: ..."), and cuts that and the
 * server's source location out of it. */
static void dissect_refusal(char *message, char sqlstate[6])
{
    char *location = strstr(message, "\nLOCATION:");

    sqlstate[0] = '\0';
    if (location != NULL)
        *location = '\0';
    for (char *at = strstr(message, ":  "); at != NULL; at = strstr(at + 1, ":  ")) {
        if (strspn(at + 3, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ") == 5 && at[8] == ':') {
            memcpy(sqlstate, at + 3, 5);
            sqlstate[5] = '\0';
            memmove(at + 1, at + 9, strlen(at + 9) + 1);
            return;
        }
    }
}

static int refused(const PGconn *pg, rowlock_error *err)
{
    char message[512], sqlstate[6];

    snprintf(message, sizeof message, "%s", PQerrorMessage(pg));
    dissect_refusal(message, sqlstate);
    return rlk_fail_native(err, ROWLOCK_ECONNECT, 0, sqlstate, pg_refusal_is_passing(sqlstate),
                           "cannot connect: %s", message);
}

int pg_connect_wait(pg_link *conn, int64_t deadline, rowlock_error *err)
{
    PostgresPollingStatusType next = PGRES_POLLING_WRITING;

    if (PQstatus(conn->pg) == CONNECTION_BAD)
        return refused(conn->pg, err);
    PQsetErrorVerbosity(conn->pg, PQERRORS_VERBOSE);
    while (next != PGRES_POLLING_OK) {
        if (!pg_wait_socket(conn->pg, next == PGRES_POLLING_READING ? POLLIN : POLLOUT, deadline))
            return rlk_fail_native(err, ROWLOCK_ECONNECT, 0, NULL, 1,
                                   "cannot connect: no answer from %s in time", PQhost(conn->pg));
        next = PQconnectPoll(conn->pg);
        if (next == PGRES_POLLING_FAILED)
            return refused(conn->pg, err);
    }
    PQsetErrorVerbosity(conn->pg, PQERRORS_DEFAULT);
    if (PQsetnonblocking(conn->pg, 1) != 0 || !PQenterPipelineMode(conn->pg))
        return refused(conn->pg, err);
    return ROWLOCK_OK;
}

/* ---- failing */

static int lost(const PGconn *pg, rowlock_error *err)
{
    return rlk_fail_native(err, ROWLOCK_EUNKNOWN, 0, NULL, 1,
                           "the connection was lost before the answer: %s", PQerrorMessage(pg));
}

static int late(rowlock_error *err)
{
    return rlk_fail_native(err, ROWLOCK_EUNKNOWN, 0, NULL, 1, "no answer from the server in time");
}

int pg_said_no(pg_link *conn, const PGresult *error, rowlock_error *err)
{
    const char *state = PQresultErrorField(error, PG_DIAG_SQLSTATE);
    const char *text = PQresultErrorField(error, PG_DIAG_MESSAGE_PRIMARY);
    pg_meaning meaning = pg_meaning_of(state);

    if (text == NULL)
        text = PQresultErrorMessage(error);
    /* The server ends the connection: it may have committed before. */
    if (pg_is_fatal(error))
        return rlk_fail_native(err, ROWLOCK_EUNKNOWN, 0, state, 1,
                               "the server ended the connection: %s", text);
    if (meaning == PG_MEANS_MISSING)
        return rlk_fail_native(err, ROWLOCK_ESCHEMA, 0, state, 0, "%s: run 'rowlock migrate up'",
                               text);
    if (meaning == PG_MEANS_READ_ONLY)
        return rlk_fail_native(err, ROWLOCK_ECONNECT, 0, state, 1,
                               "the server is read-only: connect to the primary (%s)", text);
    if (state != NULL && strcmp(state, "42501") == 0)
        return rlk_fail_native(err, ROWLOCK_EDRIVER, 0, state, 0,
                               "%s: grant SELECT, INSERT, UPDATE and DELETE on it to the client's "
                               "user",
                               text);
    if (meaning == PG_MEANS_UNPREPARED) {
        memset(conn->is_prepared, 0, sizeof conn->is_prepared);
        conn->generation++;
        conn->limit_ms = 0;
    }
    return rlk_fail_native(err, ROWLOCK_EDRIVER, 0, state, meaning != PG_MEANS_OTHER, "%s", text);
}

int pg_unchanged(int status, rowlock_error *err)
{
    if (status != ROWLOCK_EUNKNOWN)
        return status == ROWLOCK_OK ? rlk_ok(err) : status;
    if (err != NULL)
        err->status = ROWLOCK_ECONNECT;
    return ROWLOCK_ECONNECT;
}

/* ---- sending */

static void session_params(pg_params *params, int64_t lock_ms, int64_t left_ms,
                           int only_transaction, int is_relaxed)
{
    int64_t limits[] = {left_ms * LOCK_PERCENT / 100, left_ms * STATEMENT_PERCENT / 100};

    if (limits[0] > lock_ms)
        limits[0] = lock_ms;
    pg_params_clear(params);
    for (int i = 0; i < 2; i++) {
        pg_param(params);
        rlk_text_int(&params->bytes, limits[i] < 1 ? 1 : limits[i]);
    }
    pg_param(params);
    pg_put_bool(params, only_transaction);
    pg_param(params);
    pg_put_bool(params, is_relaxed);
}

static int64_t row_lock_ms(int64_t left_ms)
{
    /* With little time left half of it is for the answer. */
    return left_ms / 2 < ROW_LOCK_MS ? left_ms / 2 : ROW_LOCK_MS;
}

void pg_session_params(pg_params *params, const pg_link *conn, int64_t left_ms,
                       int only_transaction)
{
    session_params(params, row_lock_ms(left_ms), left_ms, only_transaction, conn->is_relaxed);
}

void pg_migration_params(pg_params *params, int64_t left_ms)
{
    session_params(params, INT64_MAX, left_ms, 1, 0);
}

/* Puts a query into libpq's buffer: `name` of a prepared statement, or `sql`. Its number, or -1. */
static int queue(pg_link *conn, exchange *x, const char *name, const char *sql,
                 const pg_params *params)
{
    return pg_send(conn->pg, name, sql, params) ? x->queued++ : -1;
}

static int queue_sync(pg_link *conn, exchange *x)
{
    x->syncs++;
    return PQpipelineSync(conn->pg);
}

enum { PREPARED_NAME_SIZE = 48 };

static void name_prepared(char name[PREPARED_NAME_SIZE], const pg_link *conn,
                          pg_statement statement)
{
    snprintf(name, PREPARED_NAME_SIZE, "rowlock_%d_%u", (int)statement, conn->generation);
}

static int queue_prepared(pg_link *conn, exchange *x, pg_statement statement)
{
    char name[PREPARED_NAME_SIZE];

    name_prepared(name, conn, statement);
    if (!conn->is_prepared[statement]) {
        if (!PQsendPrepare(conn->pg, name, conn->sql[statement].data, 0, NULL))
            return 0;
        x->prepare = x->queued++;
    }
    x->main = queue(conn, x, name, NULL, &conn->params);
    return x->main >= 0;
}

/* Were the session's timeouts made for a bound that is much different? */
static int is_limit_off(const pg_link *conn, int64_t left_ms)
{
    int64_t off = left_ms > conn->limit_ms ? left_ms - conn->limit_ms : conn->limit_ms - left_ms;

    return off * 100 > left_ms * LIMIT_SLACK_PERCENT;
}

/* The settings first, in the same transaction: without them the statement is not run. */
static int queue_in_transaction(pg_link *conn, exchange *x, pg_statement statement, int64_t left_ms,
                                int only_transaction)
{
    pg_session_params(&conn->session_params, conn, left_ms, only_transaction);
    if (queue(conn, x, NULL, conn->sql[only_transaction ? PG_BEGIN_POOLED : PG_BEGIN].data, NULL) <
        0)
        return 0;
    x->session = queue(conn, x, NULL, conn->sql[PG_SESSION].data, &conn->session_params);
    if (x->session < 0)
        return 0;
    x->main = queue(conn, x, NULL, conn->sql[statement].data, &conn->params);
    if (x->main < 0 || !queue_sync(conn, x))
        return 0;
    x->commit = queue(conn, x, NULL, conn->sql[PG_COMMIT].data, NULL);
    return x->commit >= 0 && queue_sync(conn, x);
}

static int queue_pooled(pg_link *conn, exchange *x, pg_statement statement, int64_t left_ms)
{
    return queue_in_transaction(conn, x, statement, left_ms, 1);
}

static int queue_direct(pg_link *conn, exchange *x, pg_statement statement, int64_t left_ms)
{
    if (conn->limit_ms == 0) {
        conn->limit_ms = left_ms;
        return queue_in_transaction(conn, x, statement, left_ms, 0);
    }
    if (is_limit_off(conn, left_ms)) {
        pg_session_params(&conn->session_params, conn, left_ms, 0);
        x->session = queue(conn, x, NULL, conn->sql[PG_SESSION].data, &conn->session_params);
        conn->limit_ms = left_ms;
        if (x->session < 0 || !queue_sync(conn, x))
            return 0;
    }
    return queue_prepared(conn, x, statement) && queue_sync(conn, x);
}

/* ---- receiving */

/* Takes note of one result of query number `query`. */
static void note(exchange *x, int query, PGresult *result)
{
    ExecStatusType kind = PQresultStatus(result);
    int done = kind == PGRES_TUPLES_OK || kind == PGRES_COMMAND_OK;

    x->session_done |= done && query == x->session;
    x->prepare_done |= done && query == x->prepare;
    x->committed |= done && query == x->commit && strcmp(PQcmdStatus(result), "COMMIT") == 0;
    if (done && query == x->main && x->result == NULL)
        x->result = result;
    else if (!done && kind != PGRES_PIPELINE_ABORTED &&
             (x->error == NULL || x->error_at == x->session)) {
        PQclear(x->error);
        x->error = result;
        x->error_at = query;
    } else
        PQclear(result);
}

/* Is the statement's work committed? Its rows come before its commit, which may still fail; an
 * error of the settings, which are a transaction of their own, does not concern it. */
static int is_done(const exchange *x)
{
    if (x->result == NULL)
        return 0;
    return x->commit >= 0 ? x->committed : x->error == NULL || x->error_at == x->session;
}

/* Reads until everything that was sent is answered. 1, 0 or -1 as pg_next_result(). */
static int receive(PGconn *pg, exchange *x, int64_t deadline)
{
    int query = 0, syncs = 0;

    while (syncs < x->syncs) {
        PGresult *result;
        int got = pg_next_result(pg, &result, deadline);

        if (got <= 0)
            return got;
        if (result == NULL) {
            if (PQstatus(pg) == CONNECTION_BAD)
                return -1;
            query++;
        } else if (PQresultStatus(result) == PGRES_PIPELINE_SYNC) {
            PQclear(result);
            syncs++;
        } else {
            note(x, query, result);
        }
    }
    return 1;
}

static int conclude(pg_link *conn, exchange *x, int got, rowlock_error *err)
{
    if (x->session >= 0 && (!x->session_done || (x->commit >= 0 && !x->committed)))
        conn->limit_ms = 0;
    if (x->error != NULL && pg_is_fatal(x->error))
        return pg_said_no(conn, x->error, err);
    if (got == 0)
        return late(err);
    if (got < 0)
        return lost(conn->pg, err);
    if (is_done(x))
        return ROWLOCK_OK;
    if (x->error != NULL)
        return pg_said_no(conn, x->error, err);
    return rlk_fail(err, ROWLOCK_EUNKNOWN, "the server's answer makes no sense");
}

/* ---- calling */

/* Those of many threads, who wake up or come meanwhile and want the processor. */
static int is_of_many(pg_statement statement)
{
    return statement == PG_EXCHANGE || statement == PG_ACQUIRE_FREE || statement == PG_RELEASE_FREE;
}

typedef int (*queue_fn)(pg_link *conn, exchange *x, pg_statement statement, int64_t left_ms);

static int exchange_all(pg_link *conn, queue_fn fill, pg_statement statement, PGresult **out,
                        int64_t deadline, rowlock_error *err)
{
    exchange x = {.session = -1, .prepare = -1, .main = -1, .commit = -1};
    int64_t left_ms = (deadline - rlk_clock_us() + 500) / 1000;
    int status;

    *out = NULL;
    if (left_ms <= 0)
        return rlk_fail_native(err, ROWLOCK_EDRIVER, ROWLOCK_NATIVE_NO_TIME, NULL, 1,
                               "no time was left to ask the server");
    if (pg_sql(conn, statement) == NULL || pg_sql(conn, PG_BEGIN) == NULL ||
        pg_sql(conn, PG_BEGIN_POOLED) == NULL || pg_sql(conn, PG_SESSION) == NULL ||
        pg_sql(conn, PG_COMMIT) == NULL || conn->params.bytes.failed)
        return rlk_fail_memory(err);
    status = pg_check_idle(conn->pg, err);
    if (status != ROWLOCK_OK)
        return status;
    /* Without its last Sync nothing is committed, and the core closes the connection. */
    if (!fill(conn, &x, statement, left_ms))
        return rlk_fail_native(err, ROWLOCK_ECONNECT, 0, NULL, 1, "cannot send to the server: %s",
                               PQerrorMessage(conn->pg));
    if (conn->spin.most_us > 0 && !is_of_many(statement) && PQflush(conn->pg) == 0)
        rlk_spin_on(&conn->spin, PQsocket(conn->pg));
    status = conclude(conn, &x, receive(conn->pg, &x, deadline), err);
    conn->is_prepared[statement] |= (uint8_t)x.prepare_done;
    PQclear(x.error);
    if (status == ROWLOCK_OK)
        *out = x.result;
    else
        PQclear(x.result);
    return status;
}

static int queue_bare(pg_link *conn, exchange *x, pg_statement statement, int64_t left_ms)
{
    (void)left_ms;
    x->main = queue(conn, x, NULL, conn->sql[statement].data, &conn->params);
    return x->main >= 0 && queue_sync(conn, x);
}

int pg_call(pg_link *conn, pg_statement statement, PGresult **out, int64_t deadline,
            rowlock_error *err)
{
    int status = pg_find_place(conn, deadline, err);

    *out = NULL;
    if (status != ROWLOCK_OK)
        return status;
    return exchange_all(conn, conn->is_pooled ? queue_pooled : queue_direct, statement, out,
                        deadline, err);
}

int pg_call_bare(pg_link *conn, pg_statement statement, PGresult **out, int64_t deadline,
                 rowlock_error *err)
{
    return exchange_all(conn, queue_bare, statement, out, deadline, err);
}

/* Several statements in one text need the simple protocol, which a pipeline has no place for. */
int pg_script(pg_link *conn, const char *sql, int64_t deadline, rowlock_error *err)
{
    exchange x = {.session = -1, .prepare = -1, .main = 0, .commit = -1};
    int got, status;

    if (!PQexitPipelineMode(conn->pg) || !PQsendQuery(conn->pg, sql))
        return rlk_fail_native(err, ROWLOCK_ECONNECT, 0, NULL, 1, "cannot send to the server: %s",
                               PQerrorMessage(conn->pg));
    for (;;) {
        PGresult *result;

        got = pg_next_result(conn->pg, &result, deadline);
        if (got <= 0 || result == NULL)
            break;
        note(&x, 0, result);
    }
    if (x.error != NULL) {
        PQclear(x.result);
        x.result = NULL;
    }
    status = conclude(conn, &x, got, err);
    PQclear(x.result);
    PQclear(x.error);
    if (got == 1 && PQstatus(conn->pg) == CONNECTION_OK && !PQenterPipelineMode(conn->pg))
        return rlk_fail(err, ROWLOCK_ECONNECT, "cannot use the connection any more");
    return status;
}

/* ---- trips on a direct connection */

int pg_set_session(pg_link *conn, int64_t left_ms, rowlock_error *err)
{
    pg_params kept = conn->params;
    PGresult *result;
    int status;

    conn->params = (pg_params){0};
    pg_session_params(&conn->params, conn, left_ms, 0);
    status = pg_call_bare(conn, PG_SESSION, &result, pg_deadline_in(left_ms), err);
    if (status == ROWLOCK_OK)
        conn->limit_ms = left_ms;
    PQclear(result);
    pg_params_free(&conn->params);
    conn->params = kept;
    return pg_unchanged(status, err);
}

int pg_trip_begin(pg_link *conn, pg_trip *trip, int64_t left_ms, rowlock_error *err)
{
    int status = pg_find_place(conn, pg_deadline_in(left_ms), err);

    *trip = (pg_trip){.pg = conn->pg};
    if (status == ROWLOCK_OK && conn->limit_ms == 0)
        status = pg_set_session(conn, left_ms, err);
    if (status == ROWLOCK_OK)
        status = pg_check_idle(conn->pg, err);
    if (status != ROWLOCK_OK)
        return status;
    if (pg_sql(conn, PG_SESSION) == NULL)
        return rlk_fail_memory(err);
    if (is_limit_off(conn, left_ms)) {
        pg_session_params(&conn->session_params, conn, left_ms, 0);
        pg_trip_add(trip, conn->sql[PG_SESSION].data, &conn->session_params);
        pg_trip_sync(trip);
        trip->base = trip->syncs;
        conn->limit_ms = left_ms;
    }
    return ROWLOCK_OK;
}

int pg_trip_call(pg_link *conn, pg_trip *trip, pg_statement statement)
{
    const char *sql = pg_sql(conn, statement);
    char name[PREPARED_NAME_SIZE];

    name_prepared(name, conn, statement);
    if (!trip->failed && !conn->is_prepared[statement] && sql != NULL &&
        PQsendPrepare(conn->pg, name, sql, 0, NULL))
        trip->prepares[trip->count++] = (int)statement + 1;
    if (!trip->failed && sql != NULL && pg_send(conn->pg, name, NULL, &conn->params))
        return trip->count++;
    trip->failed = 1;
    return 0;
}

int pg_trip_end(pg_link *conn, pg_trip *trip, int64_t deadline, rowlock_error *err)
{
    int could_begin = trip->syncs > trip->base;
    int got = pg_trip_run(trip, deadline);

    if (trip->base > 0 && trip->results[0] == NULL)
        conn->limit_ms = 0;
    for (int i = 0; i < trip->count; i++) {
        if (trip->prepares[i] > 0 && trip->results[i] != NULL)
            conn->is_prepared[trip->prepares[i] - 1] = 1;
    }
    if (trip->error != NULL && pg_is_fatal(trip->error))
        return pg_said_no(conn, trip->error, err);
    if (trip->failed && !could_begin)
        return rlk_fail_native(err, ROWLOCK_ECONNECT, 0, NULL, 1, "cannot send to the server: %s",
                               PQerrorMessage(conn->pg));
    if (got == 0)
        return late(err);
    return got < 0 ? lost(conn->pg, err) : ROWLOCK_OK;
}

int pg_trip_is_done(const pg_trip *trip, int query, int part)
{
    return trip->results[query] != NULL && (trip->failed_parts >> (trip->base + part) & 1) == 0;
}
