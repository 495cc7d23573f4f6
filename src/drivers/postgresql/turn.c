/* SPDX-License-Identifier: MIT
 *
 * Waiting for one's turn, and the try that ends it. */
#include "pg.h"

#include <string.h>

#include "clock.h"

/* How often a try that lost a race is made again before it is told so. */
enum { ROUNDS = 8 };

enum {
    TURN_VERDICT,
    TURN_FENCE,
    TURN_COUNT,
    TURN_REMAINING,
    TURN_HOLDER,
    TURN_BEFORE,
    TURN_CAN_WAIT
};

static void free_params(pg_params *params, const rowlock_op *op)
{
    pg_start_with(params, op);
    pg_param(params);
    pg_put_i64(params, (int64_t)op->ticket);
}

static void turn_params(pg_link *conn, const rowlock_op *op, uint64_t heard, int only_look)
{
    pg_params *params = &conn->params;

    free_params(params, op);
    pg_param(params);
    pg_put_i64(params, (int64_t)heard);
    pg_param(params);
    pg_put_bool(params, only_look);
    pg_param(params);
    pg_put_i64(params, (int64_t)conn->silent);
}

/* `sent`: when the try was. */
static void read_had(const pg_link *conn, rowlock_op *op, int64_t sent, const PGresult *result)
{
    op->waited_us = sent - conn->called;
    op->status = ROWLOCK_OK;
    op->fence = (uint64_t)pg_get_int(result, 0, TURN_FENCE);
    op->hold_count = (uint32_t)pg_get_int(result, 0, TURN_COUNT);
    op->remaining_us = pg_get_int(result, 0, TURN_REMAINING);
    op->rings = conn->bell != 0 && conn->bell == op->ticket;
}

/* Leaves the op without an answer if the try is to be made again. */
static void read_turn(pg_link *conn, rowlock_op *op, int only_look, int64_t sent,
                      const PGresult *result)
{
    int is_bells = conn->bell != 0 && conn->bell == op->ticket;

    switch (pg_get_int(result, 0, TURN_VERDICT)) {
    case PG_VERDICT_HAD:
        read_had(conn, op, sent, result);
        return;
    case PG_VERDICT_GONE:
        op->status = ROWLOCK_LOST;
        return;
    case PG_VERDICT_BUSY:
        op->status = ROWLOCK_BUSY;
        break;
    default:
        break;
    }
    pg_busy_seen(op, result, 0, TURN_HOLDER, TURN_FENCE, TURN_REMAINING);
    op->before = (uint64_t)pg_get_int(result, 0, TURN_BEFORE);
    op->is_queue = op->before != 0 && op->holder[0] == '\0';
    op->can_wait = (uint8_t)(is_bells && !only_look && pg_get_bool(result, 0, TURN_CAN_WAIT));
    if (pg_get_int(result, 0, TURN_VERDICT) != PG_VERDICT_AGAIN)
        return;
    conn->silent = op->holder_fence;
    op->status = PG_UNANSWERED;
}

static int read_and_clear(pg_link *conn, rowlock_op *op, PGresult *result, int only_look,
                          int64_t sent, int status)
{
    if (status == ROWLOCK_OK)
        read_turn(conn, op, only_look, sent, result);
    PQclear(result);
    return status;
}

static int try_once(pg_link *conn, rowlock_op *op, uint64_t heard, int only_look, int64_t deadline,
                    rowlock_error *err)
{
    int64_t sent = rlk_clock_us();
    PGresult *result;
    int status;

    turn_params(conn, op, heard, only_look);
    status = pg_call(conn, PG_TURN, &result, deadline, err);
    return read_and_clear(conn, op, result, only_look, sent, status);
}

/* Leaves the op without an answer if there is more to it. */
static int try_free(pg_link *conn, rowlock_op *op, int64_t deadline, rowlock_error *err)
{
    int64_t sent = rlk_clock_us();
    PGresult *result;
    int status;

    free_params(&conn->params, op);
    status = pg_call(conn, PG_TURN_FREE, &result, deadline, err);
    if (status == ROWLOCK_OK && PQntuples(result) > 0) {
        read_had(conn, op, sent, result);
        conn->left = op->ticket;
    }
    PQclear(result);
    return status;
}

/* Tries, and again as long as others are faster; a look if the row is locked. `status`: of a try
 * that was made before with something else in the same round trip; OK without an answer: none. */
static int try_on(pg_link *conn, rowlock_op *op, uint64_t heard, int status, int64_t deadline,
                  rowlock_error *err)
{
    int only_look = 0;

    for (int round = 0; round < ROUNDS; round++) {
        pg_meaning meaning =
            status == ROWLOCK_EDRIVER ? pg_meaning_of(err->sqlstate) : PG_MEANS_OTHER;

        if (status == ROWLOCK_OK && op->status != PG_UNANSWERED)
            return rlk_ok(err);
        if (meaning == PG_MEANS_LOCKED)
            only_look = 1;
        else if (status != ROWLOCK_OK && meaning != PG_MEANS_RACED)
            return status;
        status = try_once(conn, op, heard, only_look, deadline, err);
    }
    if (status != ROWLOCK_OK)
        return status;
    if (op->status == PG_UNANSWERED)
        op->status = ROWLOCK_BUSY;
    return rlk_ok(err);
}

/* It is its turn, as far as one knows. */
static int try_when_called(pg_link *conn, rowlock_op *op, uint64_t heard, int64_t deadline,
                           rowlock_error *err)
{
    int status = try_free(conn, op, deadline, err);

    return try_on(conn, op, heard, status, deadline, err);
}

static int still_waiting(rowlock_op *op, rowlock_error *err)
{
    op->status = ROWLOCK_BUSY;
    return rlk_ok(err);
}

/* Waits for a bell. OK: it has rung; BUSY: the time has passed. */
static int hear(pg_link *conn, uint64_t ticket, uint32_t wait_ms, int64_t deadline,
                rowlock_error *err)
{
    pg_trip trip;
    int status = pg_trip_begin(conn, &trip, pg_limit_for_wait(conn, wait_ms, deadline), err);
    int bell;

    if (status != ROWLOCK_OK)
        return status;
    pg_params_clear(&conn->params);
    pg_param(&conn->params);
    pg_put_i64(&conn->params, (int64_t)ticket);
    pg_param(&conn->params);
    rlk_text_int(&conn->params.bytes, wait_ms);
    bell = pg_trip_call(conn, &trip, PG_BELL);
    status = pg_trip_end(conn, &trip, deadline, err);
    if (status == ROWLOCK_OK && !pg_trip_is_done(&trip, bell, 0)) {
        status = pg_said_no(conn, trip.error, err);
        if (pg_meaning_of(err->sqlstate) == PG_MEANS_LOCKED)
            status = ROWLOCK_BUSY;
    }
    pg_trip_clear(&trip);
    return status;
}

/* The try is sent when the bell has been heard here, and not along with the wait for it: the server
 * goes on with what it was sent although the process that sent it is dead, and would take the lock
 * for nobody. */
static int wait_for_bell(pg_link *conn, rowlock_op *op, uint32_t wait_ms, uint32_t timeout_ms,
                         rowlock_error *err)
{
    uint64_t before = op->before;
    int status = ROWLOCK_OK;

    if (conn->heard != before)
        status = hear(conn, before, wait_ms, pg_deadline_in((int64_t)timeout_ms + wait_ms), err);
    conn->heard = 0;
    if (status == ROWLOCK_BUSY)
        return still_waiting(op, err);
    if (status != ROWLOCK_OK)
        return status;
    return try_when_called(conn, op, before, pg_deadline_in(timeout_ms), err);
}

/* Listen, commit, try, and only then wait: a release behind the try is heard. */
static int begin_to_listen(pg_link *conn, rowlock_op *op, int64_t deadline, rowlock_error *err)
{
    int64_t sent = rlk_clock_us();
    PGresult *result;
    int status;

    turn_params(conn, op, 0, 0);
    status = pg_listen(conn, &result, deadline, err);
    status = read_and_clear(conn, op, result, 0, sent, status);
    return try_on(conn, op, 0, status, deadline, err);
}

static int wait_to_be_told(pg_link *conn, rowlock_op *op, uint32_t wait_ms, const int *fds,
                           int n_fds, uint32_t timeout_ms, rowlock_error *err)
{
    int told, status;

    if (strcmp(conn->listens, conn->channel) != 0) {
        /* What the try has found is told at once: how long it is worth waiting. */
        status = begin_to_listen(conn, op, pg_deadline_in(timeout_ms), err);
        if (status == ROWLOCK_OK && op->before == 0 && conn->listens[0] == '\0')
            op->can_wait = 0;
        return status;
    }
    told = pg_wait_told(conn, fds, n_fds, pg_deadline_in(wait_ms));
    if (told < 0)
        return rlk_fail_native(err, ROWLOCK_ECONNECT, 0, NULL, 1, "the connection was lost: %s",
                               PQerrorMessage(conn->pg));
    if (told == 0)
        return still_waiting(op, err);
    op->status = PG_UNANSWERED;
    return try_when_called(conn, op, 0, pg_deadline_in(timeout_ms), err);
}

int pg_turn(void *memory, rowlock_op *op, uint32_t wait_ms, const int *fds, int n_fds,
            uint32_t timeout_ms, rowlock_error *err)
{
    pg_link *conn = memory;
    rowlock_error local;

    if (err == NULL)
        err = &local;
    if (wait_ms > ROWLOCK_TURN_MAX_MS)
        wait_ms = ROWLOCK_TURN_MAX_MS;
    if (conn->bell == 0 || conn->bell != op->ticket)
        wait_ms = 0;
    conn->called = rlk_clock_us();
    op->status = PG_UNANSWERED;
    op->is_queue = 0;
    if (wait_ms > 0 && op->before != 0)
        return wait_for_bell(conn, op, wait_ms, timeout_ms, err);
    if (wait_ms > 0)
        return wait_to_be_told(conn, op, wait_ms, fds, n_fds, timeout_ms, err);
    return try_on(conn, op, 0, ROWLOCK_OK, pg_deadline_in(timeout_ms), err);
}
