/* SPDX-License-Identifier: MIT */
#include "queue.h"

void my_read_place(my_conn *conn, rowlock_op *op, MYSQL_ROW row, const unsigned long *lengths)
{
    my_read_acquired(conn, op, row, lengths);
    conn->unmarked += my_int(row[15]) != 0;
    op->ticket = (uint64_t)my_int(row[13]);
    op->rings = (uint8_t)my_has_bell(conn, op);
    op->before = 0;
    op->can_wait = 0;
    conn->leap = 0;
    conn->first = op->status == STATUS_OPEN && row[3] != NULL && row[8] == NULL ? op->ticket : 0;
    if (op->status == ROWLOCK_OK)
        return;
    if (row[8] != NULL)
        op->remaining_us = my_int(row[7]);
    if (!op->rings)
        return;
    if (row[8] != NULL && my_int(row[9]) != 0)
        op->before = (uint64_t)my_int(row[8]);
    else if (row[8] == NULL && op->holder[0] != '\0' && my_int(row[11]) != 0)
        op->before = (uint64_t)my_int(row[10]);
    op->can_wait = op->before != 0;
}

static void read_enqueued(my_conn *conn, rowlock_op *op, MYSQL_ROW row,
                          const unsigned long *lengths)
{
    if (my_int(row[14]) != 0)
        my_bell_name(conn->bell, conn, op, (uint64_t)my_int(row[13]));
    my_read_place(conn, op, row, lengths);
    op->status = ROWLOCK_BUSY;
}

static int try_enqueue(my_conn *conn, rowlock_op *ops, size_t n, const char *life, int with_bell,
                       int64_t deadline, rowlock_error *err)
{
    my_step step = {.read_row = read_enqueued};
    char name[MY_BELL_SIZE] = "";
    rlk_text bell = {0};
    int status;

    my_set_status(ops, n, 0, STATUS_OPEN);
    conn->unmarked = 0;
    if (n > 1) {
        my_step_add(&step, SQL_START, NULL);
        my_step_add(&step, SQL_LIFE, life);
        my_step_add(&step, SQL_MARK, NULL);
        my_step_add(&step, SQL_ENQUEUE, NULL);
        my_step_add(&step, SQL_PLACE, NULL);
        return my_run_whole(conn, &step, ops, n, 0, deadline, err);
    }
    if (with_bell) {
        my_bell_name(name, conn, ops, 0);
        conn->bell[0] = '\0';
    }
    my_step_add(&step, SQL_LIFE, life);
    my_step_add(&step, SQL_BELL, my_name_literal(&bell, name));
    my_step_add(&step, SQL_ENQUEUE_ONE, NULL);
    my_step_add(&step, SQL_PLACE_ONE, NULL);
    status = bell.failed ? rlk_fail_memory(err) : my_run_one(conn, &step, ops, deadline, err);
    rlk_text_free(&bell);
    return status;
}

/* `bells`: how those of the lock begin; empty: none. */
static void add_again(my_conn *conn, const rowlock_op *op, uint64_t left, int64_t life_us,
                      const char *bells)
{
    const my_value name = my_name_of(op), owner = my_owner_of(op), life = my_value_of(life_us),
                   old = my_value_of((int64_t)left), bell = my_bell_value(bells);
    const my_value again[] = {name, name, owner, life, bell, bell, name, old, name, old, life};
    const my_value place[] = {owner, bell, bell, old, name};

    if (my_is_maria(conn))
        my_add(conn, SQL_NO_WAIT, NULL, 0);
    my_add_often(conn, SQL_ENQUEUE_AGAIN, again, sizeof again / sizeof *again);
    my_add_often(conn, SQL_PLACE_AGAIN, place, sizeof place / sizeof *place);
}

/* With the ticket that was left behind, if there is one. The op stays open if there is more to it:
 * what is refused here is refused in the usual way, too, unless somebody was only faster. */
static int enqueue_again(my_conn *conn, rowlock_op *op, int64_t life_us, int with_bell,
                         int64_t deadline, rowlock_error *err)
{
    uint64_t left = my_left_behind(conn, op);
    char bells[MY_BELL_SIZE] = "";
    MYSQL_RES *result = NULL;
    MYSQL_ROW row;
    int status;

    if (left == 0)
        return ROWLOCK_OK;
    conn->left = 0;
    if (conn->bell[0] != '\0' || !my_is_direct(conn))
        return ROWLOCK_OK;
    if (with_bell)
        my_bell_name(bells, conn, op, 0);
    conn->unmarked = 0;
    my_start(conn);
    add_again(conn, op, left, life_us, bells);
    status = my_run(conn, deadline, &result, err);
    row = status == ROWLOCK_OK && conn->told[0].changed > 0 ? mysql_fetch_row(result) : NULL;
    if (row != NULL)
        read_enqueued(conn, op, row, mysql_fetch_lengths(result));
    mysql_free_result(result);
    return status == ROWLOCK_EDRIVER ? rlk_ok(err) : status;
}

/* i, unmarked */
static void read_unmarked(my_conn *conn, rowlock_op *op, MYSQL_ROW row,
                          const unsigned long *lengths)
{
    (void)op;
    (void)lengths;
    conn->unmarked += my_int(row[1]) != 0;
}

/* Rows that were locked when the ticket was taken: tries again for a moment. */
static int mark_again(my_conn *conn, rowlock_op *ops, size_t n, const char *life, int64_t deadline,
                      rowlock_error *err)
{
    my_step step = {.read_row = read_unmarked};
    my_patience patience = my_patience_start(deadline);
    int status = ROWLOCK_OK;

    my_step_add(&step, SQL_START, NULL);
    my_step_add(&step, SQL_LIFE, life);
    my_step_add(&step, SQL_MARK, NULL);
    my_step_add(&step, SQL_UNMARKED, NULL);
    my_set_status(ops, n, 0, STATUS_OPEN);
    while (status == ROWLOCK_OK && conn->unmarked > 0 && my_patience_pause(&patience)) {
        conn->unmarked = 0;
        status = my_run_open(conn, &step, ops, n, deadline, err);
    }
    my_set_status(ops, n, 0, ROWLOCK_BUSY);
    return status;
}

/* Whatever the case. */
static int enqueue(my_conn *conn, rowlock_op *ops, size_t n, int64_t life_us, int with_bell,
                   int64_t deadline, rowlock_error *err)
{
    enum { DOUBLE_KEY = 1062 };
    rlk_text number = {0};
    const char *life = my_number(&number, life_us);
    int again, status;

    do {
        int bell = with_bell && n == 1 && !conn->no_bells;

        rlk_ok(err);
        status = number.failed ? rlk_fail_memory(err)
                               : try_enqueue(conn, ops, n, life, bell, deadline, err);
        again = status == ROWLOCK_EDRIVER && err->native_code == DOUBLE_KEY;
        if (status == ROWLOCK_EDRIVER && !again && !err->retryable && bell)
            again = conn->no_bells = 1;
    } while (again && rlk_clock_us() < deadline);
    if (status == ROWLOCK_OK && conn->unmarked > 0)
        status = mark_again(conn, ops, n, life, deadline, err);
    my_set_status(ops, n, STATUS_OPEN, ROWLOCK_BUSY);
    rlk_text_free(&number);
    return status;
}

int my_enqueue(void *handle, rowlock_op *ops, size_t n, int64_t life_us, int with_bell,
               uint32_t timeout_ms, rowlock_error *err)
{
    my_conn *conn = handle;
    int64_t deadline = my_deadline(timeout_ms);
    int status = ROWLOCK_OK;
    rowlock_error local;

    err = err == NULL ? &local : err;
    my_start_call(ops, n);
    rlk_ok(err);
    if (n == 1)
        status = enqueue_again(conn, ops, life_us, with_bell && !conn->no_bells, deadline, err);
    if (status != ROWLOCK_OK || ops->status != STATUS_OPEN)
        return status;
    return enqueue(conn, ops, n, life_us, with_bell, deadline, err);
}

int my_leave(void *handle, rowlock_op *ops, size_t n, uint32_t timeout_ms, rowlock_error *err)
{
    my_conn *conn = handle;
    rlk_text ring = {0};
    const char *bell = my_bell_literal(conn, ops, n, &ring);
    my_step step = {.read_row = NULL};
    int status;

    my_start_call(ops, n);
    rlk_ok(err);
    my_step_add(&step, SQL_LEAVE, NULL);
    if (bell != NULL)
        my_step_add(&step, SQL_RING, bell);
    status = ring.failed ? rlk_fail_memory(err)
                         : my_run_open(conn, &step, ops, n, my_deadline(timeout_ms), err);
    if (status == ROWLOCK_OK && bell != NULL)
        conn->bell[0] = '\0';
    my_set_status(ops, n, STATUS_OPEN, ROWLOCK_OK);
    rlk_text_free(&ring);
    return status;
}

/* i, life, held, remaining, queue */
static void read_look(my_conn *conn, rowlock_op *op, MYSQL_ROW row, const unsigned long *lengths)
{
    (void)conn;
    (void)lengths;
    if (my_int(row[1]) <= 0) {
        op->status = ROWLOCK_LOST;
    } else if (row[4] != NULL || my_int(row[2]) != 0) {
        op->status = ROWLOCK_BUSY;
        op->remaining_us = my_int(row[row[4] != NULL ? 4 : 3]);
    } else {
        op->status = ROWLOCK_OK;
    }
}

int my_look(void *conn, rowlock_op *ops, size_t n, int64_t life_us, uint32_t timeout_ms,
            rowlock_error *err)
{
    my_step step = {.read_row = read_look};
    rlk_text life = {0};
    int status;

    my_start_call(ops, n);
    rlk_ok(err);
    if (life_us > 0) {
        my_step_add(&step, SQL_START, NULL);
        my_step_add(&step, SQL_LIFE, my_number(&life, life_us));
        my_step_add(&step, SQL_MARK, NULL);
        my_step_add(&step, SQL_KEEP, NULL);
    }
    my_step_add(&step, SQL_LOOK, NULL);
    status = life.failed ? rlk_fail_memory(err)
                         : my_run_open(conn, &step, ops, n, my_deadline(timeout_ms), err);
    my_set_status(ops, n, STATUS_OPEN, ROWLOCK_BUSY);
    rlk_text_free(&life);
    return status;
}
