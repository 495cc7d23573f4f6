/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "batch.h"

void my_read_acquired(my_conn *conn, rowlock_op *op, MYSQL_ROW row, const unsigned long *lengths)
{
    int own = my_int(row[1]) != 0, mine = my_int(row[2]) != 0;
    int64_t remaining = my_int(row[5]);

    (void)conn;
    my_clear_answer(op);
    if (remaining <= 0 || my_int(row[4]) == 0) {
        if (row[7] != NULL) { /* others come first */
            op->is_queue = 1;
            op->remaining_us = my_int(row[7]);
            op->status = ROWLOCK_BUSY;
        }
        return;
    }
    op->remaining_us = remaining;
    if (own && mine) {
        op->fence = (uint64_t)my_int(row[3]);
        op->hold_count = (uint32_t)my_int(row[4]);
        op->status = ROWLOCK_OK;
        return;
    }
    op->holder_fence = (uint64_t)my_int(row[3]);
    my_set_holder(op, row[6], lengths[6]);
    if (!own)
        op->status = ROWLOCK_BUSY;
}

int my_has_ticket(const rowlock_op *ops, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (ops[i].ticket != 0)
            return 1;
    }
    return 0;
}

/* The columns of my_read_acquired(), then free, stale */
static void read_taken(my_conn *conn, rowlock_op *op, MYSQL_ROW row, const unsigned long *lengths)
{
    my_read_acquired(conn, op, row, lengths);
    conn->met_free += op->status == ROWLOCK_OK && op->hold_count == 1 && my_int(row[8]) != 0;
    if (my_int(row[9]) != 0 && op->status != ROWLOCK_OK)
        op->status = ROWLOCK_LOST;
}

/* The same, then in_line */
static void read_taken_one(my_conn *conn, rowlock_op *op, MYSQL_ROW row,
                           const unsigned long *lengths)
{
    read_taken(conn, op, row, lengths);
    conn->in_line = my_int(row[10]) != 0;
}

/* Others come first: how long the first of them lives. Still open if there is nobody any more. */
static int read_first(my_conn *conn, rowlock_op *op, int64_t deadline, rowlock_error *err)
{
    MYSQL_RES *result = NULL;
    MYSQL_ROW row;
    int status;

    my_start(conn);
    my_add(conn, SQL_ACQUIRE_ONE_FIRST, NULL, 0);
    status = my_run(conn, deadline, &result, err);
    row = status == ROWLOCK_OK ? mysql_fetch_row(result) : NULL;
    if (row != NULL) {
        op->status = ROWLOCK_BUSY;
        op->is_queue = 1;
        op->remaining_us = my_int(row[0]);
    }
    mysql_free_result(result);
    return status;
}

/* One lock. */
static int try_one(my_conn *conn, rowlock_op *op, int64_t deadline, rowlock_error *err)
{
    my_step step = {.read_row = read_taken_one};
    int status;

    my_step_add(&step, SQL_ACQUIRE_ONE, NULL);
    if (op->ticket != 0)
        my_step_add(&step, SQL_ACQUIRE_ONE_OFF, NULL);
    my_step_add(&step, SQL_ACQUIRE_ONE_FLOOR, NULL);
    my_step_add(&step, SQL_ACQUIRE_ONE_ANSWER, NULL);
    my_step_add(&step, SQL_GRANTED, NULL);
    conn->in_line = 1; /* there is no answer for a row that is absent */
    status = my_run_one(conn, &step, op, deadline, err);
    if (status == ROWLOCK_OK && op->status == STATUS_OPEN && conn->in_line)
        status = read_first(conn, op, deadline, err);
    return status;
}

/* Several locks. */
static my_step acquire_step(enum sql_statement first, const rowlock_op *ops, size_t n)
{
    my_step step = {.read_row = read_taken};

    my_step_add(&step, first, NULL);
    my_step_add(&step, SQL_ACQUIRE, NULL);
    my_step_add(&step, SQL_ACQUIRE_FLOOR, NULL);
    if (my_has_ticket(ops, n))
        my_step_add(&step, SQL_ACQUIRE_OFF, NULL);
    my_step_add(&step, SQL_ACQUIRE_ANSWER, NULL);
    my_step_add(&step, SQL_GRANTED, NULL);
    return step;
}

static int try_each(my_conn *conn, rowlock_op *ops, size_t n, int64_t deadline, rowlock_error *err)
{
    const my_step step = acquire_step(SQL_START, ops, n);

    return n == 1 ? try_one(conn, ops, deadline, err)
                  : my_run_open(conn, &step, ops, n, deadline, err);
}

/* The next ones are mostly like the last, and if those were free or held one statement will do.
 * Where they are not like that, it costs a second packet. */
static int guess_by(my_conn *conn, const rowlock_op *ops, size_t n)
{
    if (2 * conn->met_free >= n)
        return MY_GUESS_FREE;
    if (n == 1 && ops->status == ROWLOCK_OK && ops->hold_count == 1 && conn->in_line)
        return my_guess_marked(conn, 1);
    if (n == 1 && ops->status == ROWLOCK_BUSY && ops->is_queue)
        return my_guess_marked(conn, 0);
    if (n == 1 && ops->status == ROWLOCK_BUSY && ops->holder[0] != '\0')
        return MY_GUESS_HELD;
    return MY_GUESS_NONE;
}

int my_acquire_short(my_conn *conn, rowlock_op *ops, size_t n, int64_t deadline, rowlock_error *err)
{
    if (my_has_ticket(ops, n))
        return ROWLOCK_OK;
    return n == 1 ? my_acquire_direct(conn, ops, deadline, err)
                  : my_acquire_many(conn, ops, n, deadline, err);
}

int my_acquire_rest(my_conn *conn, rowlock_op *ops, size_t n, int is_patient, int64_t deadline,
                    rowlock_error *err)
{
    my_patience patience = my_patience_start(deadline);
    int status = ROWLOCK_OK;

    if (my_count_status(ops, n, STATUS_OPEN) == 0)
        return status;
    conn->met_free = my_count_status(ops, n, ROWLOCK_OK);
    status = try_each(conn, ops, n, deadline, err);
    while (status == ROWLOCK_OK && my_count_status(ops, n, STATUS_OPEN) > 0) {
        if (!is_patient || !my_patience_pause(&patience)) {
            my_set_status(ops, n, STATUS_OPEN, ROWLOCK_BUSY);
            break;
        }
        status = try_each(conn, ops, n, deadline, err);
    }
    conn->guess = guess_by(conn, ops, n);
    return status;
}

static int acquire_each(my_conn *conn, rowlock_op *ops, size_t n, int64_t deadline,
                        rowlock_error *err)
{
    int any, status = my_acquire_short(conn, ops, n, deadline, err);

    if (status != ROWLOCK_OK)
        return status;
    any = my_count_status(ops, n, ROWLOCK_OK) > 0;
    status = my_acquire_rest(conn, ops, n, n == 1, deadline, err);
    return status != ROWLOCK_OK && any ? my_fail_partly(conn, err) : status;
}

/* One try at all of them. Leaves all OK, or those of others BUSY and the rest open. */
static int try_all(my_conn *conn, rowlock_op *ops, size_t n, int64_t deadline, rowlock_error *err)
{
    const my_step step = acquire_step(SQL_GATE, ops, n);
    int status;

    my_set_status(ops, n, 0, STATUS_OPEN);
    status = my_run_whole(conn, &step, ops, n, 1, deadline, err);
    if (status != ROWLOCK_OK)
        return status;
    if (my_count_status(ops, n, ROWLOCK_OK) < n) {
        for (size_t i = 0; i < n; i++) {
            if (ops[i].status == ROWLOCK_OK) {
                my_clear_answer(&ops[i]);
                ops[i].status = STATUS_OPEN;
            }
        }
    }
    return ROWLOCK_OK;
}

static int acquire_all(my_conn *conn, rowlock_op *ops, size_t n, int64_t deadline,
                       rowlock_error *err)
{
    my_patience patience = my_patience_start(deadline);

    for (;;) {
        int status = try_all(conn, ops, n, deadline, err);

        if (status != ROWLOCK_OK || my_count_status(ops, n, ROWLOCK_OK) == n)
            return status;
        if (my_count_status(ops, n, ROWLOCK_BUSY) + my_count_status(ops, n, ROWLOCK_LOST) > 0 ||
            !my_patience_pause(&patience))
            break;
    }
    for (size_t i = 0; i < n; i++) {
        if (ops[i].status == STATUS_OPEN) {
            my_clear_answer(&ops[i]);
            ops[i].status = ROWLOCK_BUSY;
        }
    }
    return ROWLOCK_OK;
}

int my_acquire(void *conn, rowlock_op *ops, size_t n, int all, uint32_t timeout_ms,
               rowlock_error *err)
{
    int64_t deadline = my_deadline(timeout_ms);

    my_start_call(ops, n);
    rlk_ok(err);
    if (all && n > 1)
        return acquire_all(conn, ops, n, deadline, err);
    return acquire_each(conn, ops, n, deadline, err);
}
