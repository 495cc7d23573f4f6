/* SPDX-License-Identifier: MIT
 *
 * Acquire: the short statement for rows that are free for the taking, and the long one, which knows
 * everything, for what that leaves. The next locks are mostly like the last ones, so a connection
 * that has just met others than free rows begins with the long one. */
#include "pg.h"

#include <string.h>

#include "clock.h"

/* How often an acquire that lost a race is tried again before it is told so. */
enum { ROUNDS = 8 };

enum {
    ACQUIRE_ACQUIRED = 1,
    ACQUIRE_FENCE,
    ACQUIRE_COUNT,
    ACQUIRE_REMAINING,
    ACQUIRE_HOLDER,
    ACQUIRE_QUEUE,
    ACQUIRE_MADE,
    ACQUIRE_STALE
};

/* Somebody else's live lock, by what could be seen. Else the row was free, or ours, and yet not
 * had. */
static int is_held_by_other(const rowlock_op *op, const PGresult *result, int row)
{
    return !PQgetisnull(result, row, ACQUIRE_HOLDER) &&
           pg_get_int(result, row, ACQUIRE_REMAINING) > 0 &&
           strcmp(PQgetvalue(result, row, ACQUIRE_HOLDER), op->owner) != 0;
}

/* The lease began after the request had come, so all of its time is left. */
void pg_taken(rowlock_op *op, int64_t fence)
{
    op->status = ROWLOCK_OK;
    op->fence = (uint64_t)fence;
    op->hold_count = 1;
    op->remaining_us = op->ttl_us;
}

/* What a short statement has answered: how many rows were taken. */
static size_t read_taken(rowlock_op *ops, size_t n, const PGresult *result)
{
    enum { FENCE = 1 };

    for (int row = 0; row < PQntuples(result); row++) {
        rowlock_op *op = pg_op_of_row(ops, n, result, row);

        if (op != NULL)
            pg_taken(op, pg_get_int(result, row, FENCE));
    }
    return (size_t)PQntuples(result);
}

/* What the long statement, or acquire_one, has answered: how many rows were there and free. */
static size_t read_acquired(rowlock_op *ops, size_t n, const PGresult *result)
{
    size_t free_rows = 0;

    for (int row = 0; row < PQntuples(result); row++) {
        rowlock_op *op = pg_op_of_row(ops, n, result, row);

        if (op == NULL)
            continue;
        if (pg_get_bool(result, row, ACQUIRE_ACQUIRED)) {
            op->status = ROWLOCK_OK;
            op->fence = (uint64_t)pg_get_int(result, row, ACQUIRE_FENCE);
            op->hold_count = (uint32_t)pg_get_int(result, row, ACQUIRE_COUNT);
            op->remaining_us = pg_get_int(result, row, ACQUIRE_REMAINING);
            free_rows += op->hold_count == 1 && !pg_get_bool(result, row, ACQUIRE_MADE);
        } else if (pg_get_bool(result, row, ACQUIRE_STALE)) {
            op->status = ROWLOCK_LOST;
        } else if (is_held_by_other(op, result, row)) {
            pg_busy_seen(op, result, row, ACQUIRE_HOLDER, ACQUIRE_FENCE, ACQUIRE_REMAINING);
        } else if (!PQgetisnull(result, row, ACQUIRE_QUEUE)) {
            pg_busy_queue(op, pg_get_int(result, row, ACQUIRE_QUEUE));
        }
    }
    return free_rows;
}

/* Rows that were passed over because somebody keeps them locked. */
static void read_passed_over(rowlock_op *ops, size_t n, const PGresult *result)
{
    for (int row = 0; row < PQntuples(result); row++) {
        rowlock_op *op = pg_op_of_row(ops, n, result, row);

        if (op != NULL && op->status == PG_UNANSWERED && !PQgetisnull(result, row, ACQUIRE_HOLDER))
            pg_busy_seen(op, result, row, ACQUIRE_HOLDER, ACQUIRE_FENCE, ACQUIRE_REMAINING);
    }
}

static int any_refused(const rowlock_op *ops, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (ops[i].status == ROWLOCK_BUSY || ops[i].status == ROWLOCK_LOST)
            return 1;
    }
    return 0;
}

static pg_statement acquire_free_params(pg_params *params, const rowlock_op *ops, size_t n)
{
    pg_params_clear(params);
    pg_add_array(params, PG_FIELD_NAME, ops, n);
    pg_add_array(params, PG_FIELD_OWNER, ops, n);
    pg_add_array(params, PG_FIELD_NOTE, ops, n);
    pg_add_array(params, PG_FIELD_TTL, ops, n);
    pg_add_array(params, PG_FIELD_ATTEMPT, ops, n);
    return PG_ACQUIRE_FREE;
}

static pg_statement acquire_params(pg_params *params, const rowlock_op *ops, size_t n, int all,
                                   int pass_over)
{
    acquire_free_params(params, ops, n);
    pg_param(params);
    pg_put_bool(params, all);
    pg_param(params);
    pg_put_bool(params, pass_over);
    pg_add_array(params, PG_FIELD_PLACE, ops, n);
    return PG_ACQUIRE;
}

static pg_statement acquire_one_params(pg_params *params, const rowlock_op *op, int is_free)
{
    pg_start_with(params, op);
    if (is_free)
        return PG_ACQUIRE_FREE_ONE;
    pg_param(params);
    pg_put_i64(params, pg_place_of(op));
    return PG_ACQUIRE_ONE;
}

/* Not all or none, and it takes no ticket off the queue. */
int pg_may_acquire_free(const pg_link *conn, const rowlock_op *ops, size_t n, int all)
{
    if (!conn->meets_free || all)
        return 0;
    for (size_t i = 0; i < n; i++) {
        if (ops[i].ticket != 0)
            return 0;
    }
    return 1;
}

static int acquire_free(pg_link *conn, rowlock_op *ops, size_t n, size_t *free_rows,
                        int64_t deadline, rowlock_error *err)
{
    PGresult *result;
    int status = pg_call(conn, acquire_free_params(&conn->params, ops, n), &result, deadline, err);

    if (status != ROWLOCK_OK)
        return status;
    *free_rows += read_taken(ops, n, result);
    PQclear(result);
    return ROWLOCK_OK;
}

/* One try. Afterwards ops without an answer have lost a race, or are not free. */
static int acquire_round(pg_link *conn, rowlock_op *ops, size_t n, int all, int pass_over,
                         size_t *free_rows, int64_t deadline, rowlock_error *err)
{
    pg_statement statement = n == 1 && !pass_over && ops->ticket == 0
                                 ? acquire_one_params(&conn->params, ops, conn->meets_free)
                                 : acquire_params(&conn->params, ops, n, all, pass_over);
    PGresult *result;
    int status = pg_call(conn, statement, &result, deadline, err);

    if (status != ROWLOCK_OK)
        return status;
    *free_rows += statement == PG_ACQUIRE_FREE_ONE ? read_taken(ops, n, result)
                                                   : read_acquired(ops, n, result);
    if (pass_over)
        read_passed_over(ops, n, result);
    if (pass_over || (all && any_refused(ops, n)))
        pg_answer_rest(ops, n, ROWLOCK_BUSY);
    PQclear(result);
    return ROWLOCK_OK;
}

/* An error after the short statement took some of the rows: the others are asked for again, one by
 * one, and meet it themselves. With the connection gone all of it is unknown. */
static int after_some(rowlock_op *ops, size_t n, int status, rowlock_error *err)
{
    if (status == ROWLOCK_ECONNECT)
        err->status = ROWLOCK_EUNKNOWN;
    if (status == ROWLOCK_ECONNECT || status == ROWLOCK_EUNKNOWN)
        return ROWLOCK_EUNKNOWN;
    pg_answer_rest(ops, n, ROWLOCK_BUSY);
    return rlk_ok(err);
}

int pg_acquire_rest(pg_link *conn, rowlock_op *ops, size_t n, int all, int pass_over,
                    size_t free_rows, int64_t deadline, rowlock_error *err)
{
    size_t taken = free_rows;

    for (int round = 0; round < ROUNDS && pg_unanswered(ops, n) > 0; round++) {
        int status = acquire_round(conn, ops, n, all, pass_over, &free_rows, deadline, err);
        pg_meaning meaning =
            status == ROWLOCK_EDRIVER ? pg_meaning_of(err->sqlstate) : PG_MEANS_OTHER;

        conn->meets_free = 0; /* else there would be no other round */
        if (meaning == PG_MEANS_LOCKED && pass_over)
            break;
        if ((meaning == PG_MEANS_LOCKED || meaning == PG_MEANS_SLOW) && !pass_over)
            pass_over = 1;
        else if (status != ROWLOCK_OK && meaning != PG_MEANS_RACED)
            return taken > 0 ? after_some(ops, n, status, err) : status;
    }
    conn->meets_free = 2 * free_rows >= n;
    pg_answer_rest(ops, n, ROWLOCK_BUSY);
    return rlk_ok(err);
}

int pg_acquire(void *memory, rowlock_op *ops, size_t n, int all, uint32_t timeout_ms,
               rowlock_error *err)
{
    pg_link *conn = memory;
    int64_t deadline = rlk_clock_us() + (int64_t)timeout_ms * 1000;
    int pass_over = n > 1 && !all; /* nobody waits for the sake of another */
    size_t free_rows = 0;
    rowlock_error local;
    int status = ROWLOCK_OK;

    if (err == NULL)
        err = &local;
    pg_ask_all(ops, n);
    if (n > 1 && pg_may_acquire_free(conn, ops, n, all))
        status = acquire_free(conn, ops, n, &free_rows, deadline, err);
    return status != ROWLOCK_OK
               ? status
               : pg_acquire_rest(conn, ops, n, all, pass_over, free_rows, deadline, err);
}
