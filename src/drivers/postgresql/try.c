/* SPDX-License-Identifier: MIT */
#include "pg.h"

#include <string.h>

#include "clock.h"

/* The server's limits in percent of the call's time: as in exec.c it gives up before we do. */
enum { LOCK_PERCENT = 75, STATEMENT_PERCENT = 90 };

/* lock_timeout bounds the wait for each row, statement_timeout that for all of several: it allows
 * for the work itself, a fifth of a millisecond for each row. */
enum { BATCH_MS = 50, ROWS_PER_MS = 5 };

/* In ms. Who does not stand in line waits no longer at once, whatever deadlock_timeout is. */
enum { LIMIT_FOREVER = 0, LIMIT_MAX = INT32_MAX, LIMIT_NOT_IN_LINE = 10000 };

enum { LIMITS_LIMIT = 2 };
enum {
    LOCK_FENCE = 1,
    LOCK_IS_THERE,
    LOCK_HOLDER,
    LOCK_HOLDER_FENCE,
    LOCK_REMAINING,
    LOCK_HAS_SNAPSHOT
};
enum { LOOK_HOLDER = 1, LOOK_HOLDER_FENCE, LOOK_REMAINING };

/* ---- asking */

static void limit_params(pg_params *params, size_t n, uint32_t wait_ms, int in_line,
                         uint32_t timeout_ms)
{
    int64_t limit = wait_ms > LIMIT_MAX ? LIMIT_MAX : (int64_t)wait_ms;
    int64_t more = (int64_t)timeout_ms * STATEMENT_PERCENT / 100;

    /* Nothing is waited for but the table itself, should somebody be changing that. */
    if (wait_ms == ROWLOCK_WAIT_NONE) {
        limit = (int64_t)timeout_ms * LOCK_PERCENT / 100 + 1;
        more -= limit;
        in_line = 1;
    } else if (n > 1) {
        more = BATCH_MS + (int64_t)n / ROWS_PER_MS;
    }
    if (wait_ms == ROWLOCK_WAIT_FOREVER)
        limit = LIMIT_FOREVER;
    pg_param(params);
    pg_put_i64(params, limit);
    pg_param(params);
    pg_put_bool(params, in_line);
    pg_param(params);
    pg_put_i64(params, more < 1 ? 1 : more);
}

static void lock_params(pg_params *params, const rowlock_op *ops, size_t n, int waits)
{
    pg_add_array(params, PG_FIELD_NAME, ops, n);
    pg_add_array(params, PG_FIELD_OWNER_BYTES, ops, n);
    pg_add_array(params, PG_FIELD_ATTEMPT, ops, n);
    pg_param(params);
    pg_put_bool(params, waits);
}

int pg_try_init(pg_try *try, rowlock_op *ops, size_t n, uint32_t wait_ms, int in_line,
                uint32_t timeout_ms, rowlock_error *err)
{
    *try = (pg_try){.ops = ops, .n = n, .start = rlk_clock_us(), .deadline = RLK_NEVER};
    try->waits = wait_ms != ROWLOCK_WAIT_NONE;
    if (!in_line && wait_ms > LIMIT_NOT_IN_LINE)
        wait_ms = LIMIT_NOT_IN_LINE;
    if (wait_ms != ROWLOCK_WAIT_FOREVER)
        try->deadline = try->start + ((int64_t)wait_ms + timeout_ms) * 1000;
    pg_ask_all(ops, n);
    limit_params(&try->limits, n, wait_ms, in_line, timeout_ms);
    lock_params(&try->lock, ops, n, try->waits);
    pg_add_array(&try->look, PG_FIELD_NAME, ops, n);
    if (!try->limits.bytes.failed && !try->lock.bytes.failed && !try->look.bytes.failed)
        return ROWLOCK_OK;
    pg_try_free(try);
    return rlk_fail_memory(err);
}

void pg_try_free(pg_try *try)
{
    pg_params_free(&try->limits);
    pg_params_free(&try->lock);
    pg_params_free(&try->look);
}

/* ---- answers */

/* Was it the limit of ours that ended the statement, or somebody who cancelled it? */
static int time_is_up(const pg_try *try, const PGresult *limits)
{
    int64_t limit_ms = limits == NULL ? 0 : pg_get_int(limits, 0, LIMITS_LIMIT);

    return try->waits && limit_ms > 0 && rlk_clock_us() - try->start >= limit_ms * 1000;
}

static pg_verdict judge_error(const pg_try *try, const pg_trip *trip, int limits)
{
    pg_meaning meaning = pg_is_fatal(trip->error)
                             ? PG_MEANS_OTHER
                             : pg_meaning_of(PQresultErrorField(trip->error, PG_DIAG_SQLSTATE));

    if (meaning == PG_MEANS_RACED)
        return PG_LEASED;
    if (meaning != PG_MEANS_LOCKED &&
        !(meaning == PG_MEANS_SLOW && time_is_up(try, trip->results[limits])))
        return PG_REFUSED;
    pg_answer_rest(try->ops, try->n, ROWLOCK_BUSY);
    return PG_BUSY;
}

static void read_row(rowlock_op *op, const PGresult *result, int row)
{
    if (!PQgetisnull(result, row, LOCK_FENCE)) {
        op->status = ROWLOCK_OK;
        op->fence = (uint64_t)pg_get_int(result, row, LOCK_FENCE);
        op->hold_count = 0;
        op->remaining_us = 0;
    } else if (!pg_get_bool(result, row, LOCK_IS_THERE)) {
        op->status = ROWLOCK_LOST;
    } else if (!PQgetisnull(result, row, LOCK_HOLDER)) {
        pg_busy_seen(op, result, row, LOCK_HOLDER, LOCK_HOLDER_FENCE, LOCK_REMAINING);
    }
}

pg_verdict pg_try_judge(const pg_try *try, const pg_trip *trip, int limits)
{
    const PGresult *result = trip->results[limits + 1];
    size_t had = 0;

    if (trip->error != NULL || result == NULL)
        return trip->error == NULL ? PG_REFUSED : judge_error(try, trip, limits);
    for (int row = 0; row < PQntuples(result); row++) {
        rowlock_op *op = pg_op_of_row(try->ops, try->n, result, row);

        if (op == NULL)
            continue;
        read_row(op, result, row);
        if (op->status == ROWLOCK_LOST && pg_get_bool(result, row, LOCK_HAS_SNAPSHOT))
            return PG_OLD_SNAPSHOT;
        had += op->status == ROWLOCK_OK;
    }
    if (had == try->n)
        return PG_HAD;
    pg_answer_rest(try->ops, try->n, ROWLOCK_BUSY);
    return PG_BUSY;
}

void pg_try_read_look(const pg_try *try, const PGresult *result)
{
    for (int row = 0; row < PQntuples(result); row++) {
        rowlock_op *op = pg_op_of_row(try->ops, try->n, result, row);

        if (op != NULL)
            pg_busy_seen(op, result, row, LOOK_HOLDER, LOOK_HOLDER_FENCE, LOOK_REMAINING);
    }
    pg_answer_rest(try->ops, try->n, ROWLOCK_BUSY);
}
