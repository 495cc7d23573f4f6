/* SPDX-License-Identifier: MIT
 *
 * Tickets: taking one, leaving, and asking for many at once. */
#include "pg.h"

#include <string.h>

/* How often a ticket that somebody else has taken at the same moment is asked for again. */
enum { ROUNDS = 8 };

/* ---- enqueue */

enum {
    ENQUEUE_TICKET = 1,
    ENQUEUE_BELL,
    ENQUEUE_HOLDER,
    ENQUEUE_FENCE,
    ENQUEUE_BEFORE,
    ENQUEUE_CAN_WAIT,
    ENQUEUE_REMAINING
};

static void read_enqueued(pg_link *conn, rowlock_op *ops, size_t n, const PGresult *result)
{
    int has_bell = pg_get_bool(result, 0, ENQUEUE_BELL);

    for (int row = 0; row < PQntuples(result); row++) {
        rowlock_op *op = pg_op_of_row(ops, n, result, row);

        if (op == NULL)
            continue;
        pg_busy_seen(op, result, row, ENQUEUE_HOLDER, ENQUEUE_FENCE, ENQUEUE_REMAINING);
        op->ticket = (uint64_t)pg_get_int(result, row, ENQUEUE_TICKET);
        op->before = (uint64_t)pg_get_int(result, row, ENQUEUE_BEFORE);
        op->is_queue = op->before != 0 && op->holder[0] == '\0';
        op->can_wait = (uint8_t)(has_bell && pg_get_bool(result, row, ENQUEUE_CAN_WAIT));
        op->rings = (uint8_t)has_bell;
    }
    if (!has_bell)
        return;
    conn->bell = ops[0].ticket;
    conn->left = 0;
    pg_name_channel(conn->channel, conn, &ops[0]);
    /* If it listens already: the answer may be older than a release that saw no mark, so that the
     * first turn has to try. */
    conn->was_told = 1;
}

static void again_params(pg_link *conn, const rowlock_op *op, int64_t life_us, int with_bell,
                         uint32_t wait_ms)
{
    pg_params_clear(&conn->params);
    pg_param(&conn->params);
    pg_put_bytes(&conn->params, op->name, op->name_length);
    pg_param(&conn->params);
    pg_put_bytes(&conn->params, op->owner, strlen(op->owner));
    pg_param(&conn->params);
    pg_put_i64(&conn->params, life_us);
    pg_param(&conn->params);
    pg_put_bool(&conn->params, with_bell);
    pg_param(&conn->params);
    pg_put_i64(&conn->params, (int64_t)conn->left);
    pg_param(&conn->params);
    pg_put_i64(&conn->params, (int64_t)wait_ms * 1000);
}

static int queue_bare(pg_link *conn, pg_trip *trip, pg_statement statement)
{
    pg_params_clear(&conn->params);
    return pg_trip_call(conn, trip, statement);
}

static int queue_bell(pg_link *conn, pg_trip *trip, uint64_t left, uint32_t wait_ms)
{
    pg_params_clear(&conn->params);
    pg_param(&conn->params);
    pg_put_i64(&conn->params, (int64_t)left);
    pg_param(&conn->params);
    rlk_text_int(&conn->params.bytes, wait_ms);
    return pg_trip_call(conn, trip, PG_BELL_BEFORE);
}

/* The statement has failed in its transaction, which is ended. */
static int undo(pg_link *conn, const pg_trip *trip, int64_t deadline, rowlock_error *err)
{
    rowlock_error worse;
    PGresult *result;
    int status = pg_said_no(conn, trip->error, err);

    if (PQtransactionStatus(conn->pg) == PQTRANS_IDLE)
        return status;
    pg_params_clear(&conn->params);
    if (pg_call_bare(conn, PG_ROLLBACK, &result, deadline, &worse) != ROWLOCK_OK) {
        *err = worse;
        return pg_unchanged(ROWLOCK_EUNKNOWN, err);
    }
    PQclear(result);
    return status;
}

/* All in one round trip, and with one answer, after the wait: so the commit of the ticket is a
 * statement, too, and not a Sync, which the server answers at once. */
static int enqueue_and_hear(pg_link *conn, rowlock_op *op, int64_t life_us, uint32_t wait_ms,
                            int64_t deadline, rowlock_error *err)
{
    uint64_t left = conn->left;
    int again, commit, bell, status;
    pg_trip trip;

    deadline += (int64_t)wait_ms * 1000;
    status = pg_trip_begin(conn, &trip, pg_limit_for_wait(conn, wait_ms, deadline), err);
    if (status != ROWLOCK_OK)
        return status;
    queue_bare(conn, &trip, PG_BEGIN);
    again_params(conn, op, life_us, 1, wait_ms);
    again = pg_trip_call(conn, &trip, PG_ENQUEUE_AGAIN);
    commit = queue_bare(conn, &trip, PG_COMMIT);
    bell = queue_bell(conn, &trip, left, wait_ms);
    status = pg_trip_end(conn, &trip, deadline, err);
    if (status == ROWLOCK_OK && trip.results[commit] == NULL)
        status = undo(conn, &trip, pg_deadline_after(deadline), err);
    if (status == ROWLOCK_OK && PQntuples(trip.results[again]) > 0) {
        read_enqueued(conn, op, 1, trip.results[again]);
        if (trip.results[bell] != NULL && !PQgetisnull(trip.results[bell], 0, 0))
            conn->heard = op->before;
    }
    pg_trip_clear(&trip);
    return status;
}

static int enqueue_alone(pg_link *conn, rowlock_op *op, int64_t life_us, int with_bell,
                         int64_t deadline, rowlock_error *err)
{
    PGresult *result;
    int status;

    again_params(conn, op, life_us, with_bell, 0);
    status = pg_call(conn, PG_ENQUEUE_AGAIN, &result, deadline, err);
    if (status == ROWLOCK_OK && PQntuples(result) > 0)
        read_enqueued(conn, op, 1, result);
    PQclear(result);
    return status;
}

/* Leaves the op without an answer if there is more to it: no mark, or one that has to be renewed.
 */
static int enqueue_again(pg_link *conn, rowlock_op *op, int64_t life_us, int with_bell,
                         int64_t deadline, rowlock_error *err)
{
    int status = with_bell && op->wait_ms > 0
                     ? enqueue_and_hear(conn, op, life_us, op->wait_ms, deadline, err)
                     : enqueue_alone(conn, op, life_us, with_bell, deadline, err);

    conn->left = 0;
    if (op->status == PG_UNANSWERED)
        conn->may_have_bells |= with_bell;
    return status;
}

/* Has it left a ticket in the queue of this name? */
static int has_left(const pg_link *conn, const rowlock_op *op)
{
    char channel[PG_CHANNEL_SIZE];

    if (conn->left == 0)
        return 0;
    pg_name_channel(channel, conn, op);
    return strcmp(channel, conn->channel) == 0;
}

static int enqueue_round(pg_link *conn, rowlock_op *ops, size_t n, int64_t life_us, int with_bell,
                         int mark, int64_t deadline, rowlock_error *err)
{
    PGresult *result;
    int status;

    status = pg_bells_clear(conn, deadline, err);
    if (status != ROWLOCK_OK)
        return status;
    pg_ask_all(ops, n);
    if (n == 1 && mark && has_left(conn, ops)) {
        status = enqueue_again(conn, ops, life_us, with_bell, deadline, err);
        if (status != ROWLOCK_OK || ops->status != PG_UNANSWERED)
            return status;
        status = pg_bells_clear(conn, deadline, err);
        if (status != ROWLOCK_OK)
            return status;
    }
    pg_params_clear(&conn->params);
    pg_add_array(&conn->params, PG_FIELD_NAME, ops, n);
    pg_param(&conn->params);
    pg_put_bytes(&conn->params, ops->owner, strlen(ops->owner));
    pg_param(&conn->params);
    pg_put_i64(&conn->params, life_us);
    pg_param(&conn->params);
    pg_put_bool(&conn->params, with_bell);
    pg_param(&conn->params);
    pg_put_bool(&conn->params, mark);
    status = pg_call(conn, PG_ENQUEUE, &result, deadline, err);
    if (status == ROWLOCK_OK) {
        read_enqueued(conn, ops, n, result);
        pg_answer_rest(ops, n, ROWLOCK_BUSY);
    } else {
        conn->may_have_bells |= with_bell;
    }
    PQclear(result);
    return status;
}

/* Was the same ticket taken by somebody else at the same moment? */
static int is_doubled(int status, const rowlock_error *err)
{
    return status == ROWLOCK_EDRIVER && strcmp(err->sqlstate, "23505") == 0;
}

int pg_enqueue(void *memory, rowlock_op *ops, size_t n, int64_t life_us, int with_bell,
               uint32_t timeout_ms, rowlock_error *err)
{
    pg_link *conn = memory;
    int64_t deadline = pg_deadline_in(timeout_ms);
    int mark = 1, status;
    rowlock_error local;

    if (err == NULL)
        err = &local;
    with_bell = with_bell && n == 1 && !conn->is_pooled;
    conn->heard = 0;
    for (int round = 0;; round++) {
        status = enqueue_round(conn, ops, n, life_us, with_bell, mark, deadline, err);
        if (status == ROWLOCK_EDRIVER && pg_meaning_of(err->sqlstate) == PG_MEANS_LOCKED && mark)
            mark = 0;
        else if (!is_doubled(status, err) || round == ROUNDS)
            break;
    }
    return status == ROWLOCK_OK ? rlk_ok(err) : status;
}

/* ---- leave */

int pg_leave(void *memory, rowlock_op *ops, size_t n, uint32_t timeout_ms, rowlock_error *err)
{
    pg_link *conn = memory;
    int64_t deadline = pg_deadline_in(timeout_ms);
    PGresult *result;
    int status;

    pg_ask_all(ops, n);
    pg_params_clear(&conn->params);
    pg_add_array(&conn->params, PG_FIELD_NAME, ops, n);
    pg_add_array(&conn->params, PG_FIELD_TICKET, ops, n);
    if (n == 1 && conn->bell != 0 && conn->bell == ops->ticket) {
        ops->fence = 0;
        status = pg_call_and_ring(conn, PG_LEAVE, ops, &result, deadline, err);
    } else {
        status = pg_call(conn, PG_LEAVE, &result, deadline, err);
    }
    PQclear(result);
    if (status != ROWLOCK_OK)
        return status;
    pg_answer_rest(ops, n, ROWLOCK_OK);
    return rlk_ok(err);
}

/* ---- look */

enum { LOOK_NUMBER, LOOK_VERDICT, LOOK_REMAINING };

static void read_looked(rowlock_op *ops, size_t n, const PGresult *result)
{
    static const int statuses[] = {[PG_VERDICT_BUSY] = ROWLOCK_BUSY,
                                   [PG_VERDICT_HAD] = ROWLOCK_OK,
                                   [PG_VERDICT_GONE] = ROWLOCK_LOST};

    for (int row = 0; row < PQntuples(result); row++) {
        size_t i = (size_t)pg_get_int(result, row, LOOK_NUMBER) - 1;
        int64_t verdict = pg_get_int(result, row, LOOK_VERDICT);

        if (i >= n || verdict < 0 || verdict > PG_VERDICT_GONE)
            continue;
        ops[i].status = statuses[verdict];
        ops[i].remaining_us = pg_get_int(result, row, LOOK_REMAINING);
        if (ops[i].remaining_us < 0)
            ops[i].remaining_us = 0;
    }
}

int pg_look(void *memory, rowlock_op *ops, size_t n, int64_t life_us, uint32_t timeout_ms,
            rowlock_error *err)
{
    pg_link *conn = memory;
    PGresult *result;
    int status;

    pg_ask_all(ops, n);
    pg_params_clear(&conn->params);
    pg_add_array(&conn->params, PG_FIELD_NAME, ops, n);
    pg_add_array(&conn->params, PG_FIELD_TICKET, ops, n);
    pg_add_array(&conn->params, PG_FIELD_OWNER, ops, n);
    pg_param(&conn->params);
    pg_put_i64(&conn->params, life_us);
    status = pg_call(conn, PG_LOOK, &result, pg_deadline_in(timeout_ms), err);
    if (status != ROWLOCK_OK)
        return status;
    read_looked(ops, n, result);
    PQclear(result);
    pg_answer_rest(ops, n, ROWLOCK_BUSY);
    return rlk_ok(err);
}
