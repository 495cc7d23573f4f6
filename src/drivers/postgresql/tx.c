/* SPDX-License-Identifier: MIT
 *
 * Transactions on a connection of ours. While one is open the connection is as the application
 * expects it, blocking and without a pipeline; before and after it is as exec.c needs it. */
#include "pg.h"

#include <stdio.h>
#include <string.h>

#include "clock.h"

enum { PREPARE_HOLDER = 1, PREPARE_HOLDER_FENCE, PREPARE_REMAINING };
enum { LOCATE_PLACE, LOCATE_IDENTITY };
enum { RESET_TRANSACTION = 1 };
enum { UNDO_LOOK = 3 };

/* ---- before */

int pg_prepare(void *memory, rowlock_op *ops, size_t n, uint32_t timeout_ms, rowlock_error *err)
{
    pg_link *conn = memory;
    int64_t deadline = rlk_clock_us() + (int64_t)timeout_ms * 1000;
    PGresult *result;
    int status;

    pg_ask_all(ops, n);
    pg_params_clear(&conn->params);
    pg_add_array(&conn->params, PG_FIELD_NAME, ops, n);
    status = pg_call(conn, PG_PREPARE, &result, deadline, err);
    /* Free rows are nothing that anybody could have by mistake. */
    if (status != ROWLOCK_OK)
        return pg_unchanged(status, err);
    for (int row = 0; row < PQntuples(result); row++) {
        rowlock_op *op = pg_op_of_row(ops, n, result, row);

        if (op != NULL)
            pg_busy_seen(op, result, row, PREPARE_HOLDER, PREPARE_HOLDER_FENCE, PREPARE_REMAINING);
    }
    pg_answer_rest(ops, n, ROWLOCK_OK);
    PQclear(result);
    return rlk_ok(err);
}

/* The identity, a line break, and the schema, which becomes a part of SQL text in the encoding of
 * the application's connection. See native.c, which takes it apart. */
static int copy_place(char *out, size_t size, const PGresult *result, rowlock_error *err)
{
    const char *place = PQgetvalue(result, 0, LOCATE_PLACE);

    for (const char *at = place; *at != '\0'; at++) {
        if (*at < ' ' || *at > '~')
            return rlk_fail(err, ROWLOCK_ESCHEMA,
                            "the tables are in a schema whose name is not plain ASCII: move them "
                            "to another one");
    }
    snprintf(out, size, "%s\n%s", PQgetvalue(result, 0, LOCATE_IDENTITY), place);
    return rlk_ok(err);
}

int pg_locate(void *memory, char *out, size_t size, uint32_t timeout_ms, rowlock_error *err)
{
    pg_link *conn = memory;
    int64_t deadline = rlk_clock_us() + (int64_t)timeout_ms * 1000;
    PGresult *result;
    int status;

    pg_params_clear(&conn->params);
    status = pg_call(conn, PG_LOCATE, &result, deadline, err);
    if (status != ROWLOCK_OK)
        return pg_unchanged(status, err);
    if (PQntuples(result) == 0)
        status = rlk_fail_native(err, ROWLOCK_ESCHEMA, 0, "42P01", 0,
                                 "the table %slocks was not found: run 'rowlock migrate up'",
                                 conn->prefix);
    else
        status = copy_place(out, size, result, err);
    PQclear(result);
    return status;
}

/* ---- whose turn it is with the connection */

/* The application may set anything for the session. */
static int hand_over(pg_link *conn, rowlock_error *err)
{
    PGconn *pg = conn->pg;

    conn->limit_ms = 0;
    if (PQexitPipelineMode(pg) && PQsetnonblocking(pg, 0) == 0)
        return rlk_ok(err);
    return rlk_fail_native(err, ROWLOCK_ECONNECT, 0, NULL, 1, "cannot use the connection: %s",
                           PQerrorMessage(pg));
}

static int take_back(PGconn *pg)
{
    return PQsetnonblocking(pg, 1) == 0 && PQenterPipelineMode(pg);
}

static int gone(const PGconn *pg, int got, rowlock_error *err)
{
    if (got == 0)
        return rlk_fail_native(err, ROWLOCK_ECONNECT, 0, NULL, 1,
                               "no answer from the server in time");
    return rlk_fail_native(err, ROWLOCK_ECONNECT, 0, NULL, 1, "the connection was lost: %s",
                           PQerrorMessage(pg));
}

/* ---- lock */

static int has_all_texts(pg_link *conn)
{
    static const pg_statement used[] = {PG_BEGIN,   PG_BEGIN_POOLED, PG_SESSION,  PG_TX_LIMITS,
                                        PG_TX_LOCK, PG_TX_LOOK,      PG_TX_RESET, PG_ROLLBACK};

    for (size_t i = 0; i < sizeof used / sizeof *used; i++) {
        if (pg_sql(conn, used[i]) == NULL)
            return 0;
    }
    return 1;
}

/* Undoes the transaction, and asks who holds the leases if that was the reason. */
static int undo(pg_link *conn, const pg_try *try, pg_verdict verdict, rowlock_error *err)
{
    pg_trip trip = {.pg = conn->pg};
    int got, status = ROWLOCK_OK;

    pg_trip_add(&trip, conn->sql[PG_ROLLBACK].data, NULL);
    if (verdict == PG_LEASED) {
        pg_trip_add(&trip, conn->sql[conn->is_pooled ? PG_BEGIN_POOLED : PG_BEGIN].data, NULL);
        pg_trip_add(&trip, conn->sql[PG_SESSION].data, &conn->session_params);
        pg_trip_add(&trip, conn->sql[PG_TX_LOOK].data, &try->look);
        pg_trip_add(&trip, conn->sql[PG_ROLLBACK].data, NULL);
    }
    got = pg_trip_run(&trip, pg_deadline_after(try->deadline));
    if (got <= 0)
        status = gone(conn->pg, got, err);
    else if (trip.error != NULL)
        status = pg_unchanged(pg_said_no(conn, trip.error, err), err);
    else if (verdict == PG_LEASED)
        pg_try_read_look(try, trip.results[UNDO_LOOK]);
    pg_trip_clear(&trip);
    return status;
}

static int conclude(pg_link *conn, const pg_try *try, const pg_trip *trip, int limits,
                    rowlock_error *err)
{
    pg_verdict verdict = pg_try_judge(try, trip, limits);
    int status;

    /* The settings came after the rows, and are the last of the trip. */
    if (verdict == PG_HAD && trip->results[trip->count - 1] != NULL) {
        conn->transaction = pg_get_int(trip->results[trip->count - 2], 0, RESET_TRANSACTION);
        return hand_over(conn, err);
    }
    if (trip->error != NULL && pg_is_fatal(trip->error))
        return pg_unchanged(pg_said_no(conn, trip->error, err), err);
    status = undo(conn, try, verdict, err);
    if (status != ROWLOCK_OK)
        return status;
    if (verdict == PG_BUSY || verdict == PG_LEASED)
        return rlk_ok(err);
    if (trip->error != NULL)
        return pg_said_no(conn, trip->error, err);
    return rlk_fail(err, ROWLOCK_EDRIVER, "the server's answer makes no sense");
}

static int own_lock(pg_link *conn, pg_try *try, uint32_t timeout_ms, rowlock_error *err)
{
    pg_trip trip = {.pg = conn->pg};
    int limits, got, status;

    pg_session_params(&conn->session_params, conn, timeout_ms, 1);
    status = pg_find_place(conn, try->deadline, err);
    if (status != ROWLOCK_OK)
        return status;
    if (!has_all_texts(conn) || conn->session_params.bytes.failed)
        return rlk_fail_memory(err);
    status = pg_check_idle(conn->pg, err);
    if (status != ROWLOCK_OK)
        return status;
    pg_trip_add(&trip, conn->sql[conn->is_pooled ? PG_BEGIN_POOLED : PG_BEGIN].data, NULL);
    pg_trip_add(&trip, conn->sql[PG_SESSION].data, &conn->session_params);
    limits = trip.count;
    pg_trip_add(&trip, conn->sql[PG_TX_LIMITS].data, &try->limits);
    pg_trip_add(&trip, conn->sql[PG_TX_LOCK].data, &try->lock);
    pg_trip_add(&trip, conn->sql[PG_TX_RESET].data, NULL);
    pg_trip_add(&trip, pg_text_of(PG_TX_READY), NULL);
    got = pg_trip_run(&trip, try->deadline);
    if (got <= 0 && (trip.error == NULL || !pg_is_fatal(trip.error)))
        status = gone(conn->pg, got, err);
    else
        status = conclude(conn, try, &trip, limits, err);
    pg_trip_clear(&trip);
    return status;
}

int pg_lock(const rowlock_target *target, rowlock_op *ops, size_t n, uint32_t wait_ms, int in_line,
            uint32_t timeout_ms, rowlock_error *err)
{
    pg_try try;
    int status = pg_try_init(&try, ops, n, wait_ms, in_line, timeout_ms, err);

    if (status != ROWLOCK_OK)
        return status;
    status = target->conn == NULL ? pg_native_lock(target, &try, err)
                                  : own_lock(target->conn, &try, timeout_ms, err);
    pg_try_free(&try);
    return status;
}

/* ---- end */

/* The application may have done anything. OK: something can be sent to end it. */
static int check_open(PGconn *pg, rowlock_error *err)
{
    int status = pg_check_idle(pg, err);

    if (status != ROWLOCK_OK)
        return status;
    if (PQpipelineStatus(pg) != PQ_PIPELINE_OFF)
        return rlk_fail(err, ROWLOCK_EDRIVER,
                        "the connection is in pipeline mode, the transaction is rolled back: call "
                        "PQexitPipelineMode() first");
    switch (PQtransactionStatus(pg)) {
    case PQTRANS_INTRANS:
    case PQTRANS_INERROR:
    case PQTRANS_IDLE:
        return ROWLOCK_OK;
    case PQTRANS_ACTIVE:
        return rlk_fail(err, ROWLOCK_EDRIVER,
                        "there are results that were not read, the transaction is rolled back: "
                        "call PQgetResult() until it returns NULL first (in a COPY, "
                        "PQputCopyEnd() or PQgetCopyData() before that)");
    case PQTRANS_UNKNOWN:
        break;
    }
    return rlk_fail_native(err, ROWLOCK_ECONNECT, 0, NULL, 1,
                           "the connection was lost before the end of the transaction");
}

static int refused(const PGresult *error, rowlock_error *err)
{
    const char *state = PQresultErrorField(error, PG_DIAG_SQLSTATE);
    const char *text = PQresultErrorField(error, PG_DIAG_MESSAGE_PRIMARY);

    if (text == NULL)
        text = PQresultErrorMessage(error);
    if (pg_is_fatal(error))
        return rlk_fail_native(err, ROWLOCK_EUNKNOWN, 0, state, 0,
                               "the server ended the connection: %s", text);
    return rlk_fail_native(err, ROWLOCK_EDRIVER, 0, state,
                           state != NULL && strncmp(state, "40", 2) == 0,
                           "the transaction was rolled back: %s", text);
}

/* The same words; but whether it is committed cannot be told. */
static int unknown(rowlock_error *err)
{
    if (err != NULL)
        err->status = ROWLOCK_EUNKNOWN;
    return ROWLOCK_EUNKNOWN;
}

/* What is left after a COMMIT that was not reached. */
static int roll_back(PGconn *pg, int64_t deadline)
{
    pg_trip trip = {.pg = pg};
    int is_done;

    pg_trip_add(&trip, pg_text_of(PG_ROLLBACK), NULL);
    is_done = pg_trip_run(&trip, pg_deadline_after(deadline)) > 0 && trip.error == NULL;
    pg_trip_clear(&trip);
    return is_done;
}

static int ended(rowlock_error *err)
{
    return rlk_fail(err, ROWLOCK_EDRIVER,
                    "the transaction had been ended already: do not send COMMIT or ROLLBACK on "
                    "this connection");
}

static int failed(rowlock_error *err)
{
    return rlk_fail(err, ROWLOCK_EDRIVER,
                    "the transaction had failed and was rolled back: look at the errors of its "
                    "statements");
}

/* The server's word on [is it the same transaction?, COMMIT]. */
static int judge_commit(const pg_trip *trip, rowlock_error *err)
{
    const char *state;

    if (trip->error == NULL)
        return strcmp(PQcmdStatus(trip->results[1]), "COMMIT") == 0 ? rlk_ok(err) : failed(err);
    state = PQresultErrorField(trip->error, PG_DIAG_SQLSTATE);
    if (trip->results[0] == NULL && state != NULL && strcmp(state, "22012") == 0)
        return ended(err);
    if (trip->results[0] == NULL && state != NULL && strcmp(state, "25P02") == 0)
        return failed(err);
    return refused(trip->error, err);
}

static int commit_it(pg_link *conn, int64_t deadline, rowlock_error *err)
{
    pg_trip trip = {.pg = conn->pg};
    int got, status;

    pg_params_clear(&conn->params);
    pg_param(&conn->params);
    pg_put_i64(&conn->params, conn->transaction);
    pg_trip_add(&trip, pg_text_of(PG_TX_SAME), &conn->params);
    pg_trip_add(&trip, pg_text_of(PG_COMMIT), NULL);
    got = pg_trip_run(&trip, deadline);
    if (got <= 0 && trip.error == NULL) {
        gone(conn->pg, got, err);
        status = unknown(err);
    } else if (got <= 0) {
        refused(trip.error, err);
        status = unknown(err);
    } else {
        status = judge_commit(&trip, err);
        if (trip.error != NULL && !roll_back(conn->pg, deadline) && status == ROWLOCK_EDRIVER)
            status = gone(conn->pg, 0, err);
    }
    pg_trip_clear(&trip);
    return status;
}

int pg_end(void *memory, int commit, uint32_t timeout_ms, rowlock_error *err)
{
    pg_link *conn = memory;
    int64_t deadline = rlk_clock_us() + (int64_t)timeout_ms * 1000;
    int status = check_open(conn->pg, err);
    int is_over;

    if (status != ROWLOCK_OK)
        return status;
    is_over = PQtransactionStatus(conn->pg) == PQTRANS_IDLE;
    if (!take_back(conn->pg))
        return gone(conn->pg, -1, err);
    if (is_over)
        return commit ? ended(err) : rlk_ok(err);
    if (commit)
        return commit_it(conn, deadline, err);
    return roll_back(conn->pg, deadline) ? rlk_ok(err) : gone(conn->pg, 0, err);
}

void *pg_native(void *memory)
{
    pg_link *conn = memory;

    return conn->pg;
}
