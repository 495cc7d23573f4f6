/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "batch.h"
#include "random.h"

/* Who releases waits for a locked row as long as the session's innodb_lock_wait_timeout, which may
 * end a second late. With less time than that the rows are only looked at, and with almost none the
 * answer, that nothing was done, is still waited for. */
enum { RELEASE_WAITS_MS = 2500, SHORTEST_RELEASE_MS = 50 };

static void set_holder(rowlock_op *op, const char *owner, size_t length)
{
    if (length > ROWLOCK_OWNER_MAX)
        length = ROWLOCK_OWNER_MAX;
    memcpy(op->holder, owner, length);
    op->holder[length] = '\0';
}

void my_read_acquired(my_conn *conn, rowlock_op *op, MYSQL_ROW row, const unsigned long *lengths)
{
    int own = my_int(row[1]) != 0, mine = my_int(row[2]) != 0;
    int64_t remaining = my_int(row[5]);

    (void)conn;
    my_clear_answer(op);
    if (remaining <= 0 || my_int(row[4]) == 0) {
        if (row[8] != NULL) { /* others come first */
            op->is_queue = 1;
            op->remaining_us = my_int(row[8]);
            op->status = ROWLOCK_BUSY;
        }
        return;
    }
    op->remaining_us = remaining;
    if (own && mine) {
        op->fence = (uint64_t)my_int(row[3]);
        op->hold_count = (uint32_t)my_int(row[4]);
        op->status = op->hold_count == 1 && my_int(row[7]) != 0 ? STATUS_LATE : ROWLOCK_OK;
        return;
    }
    op->holder_fence = (uint64_t)my_int(row[3]);
    set_holder(op, row[6], lengths[6]);
    if (!own)
        op->status = ROWLOCK_BUSY;
}

/* i, hold_count, done, attempt */
static void read_released(my_conn *conn, rowlock_op *op, MYSQL_ROW row,
                          const unsigned long *lengths)
{
    (void)conn;
    op->hold_count = (uint32_t)my_int(row[1]);
    op->status = my_int(row[2]) != 0 ? ROWLOCK_OK : ROWLOCK_BUSY;
    if (op->status == ROWLOCK_BUSY && lengths[3] == sizeof op->seen)
        memcpy(op->seen, row[3], sizeof op->seen);
}

int my_undo_late(my_conn *conn, rowlock_op *ops, size_t n, int64_t deadline, int *any,
                 rowlock_error *err)
{
    const my_step release = {{{SQL_START, NULL}, {SQL_RELEASE, NULL}}, 2, read_released};
    rowlock_op *undo;
    int status = ROWLOCK_EUNKNOWN;

    *any = my_count_status(ops, n, STATUS_LATE) > 0;
    if (!*any)
        return ROWLOCK_OK;
    undo = malloc(n * sizeof *undo);
    for (size_t i = 0; i < n && undo != NULL; i++) {
        undo[i] = ops[i];
        if (ops[i].status != STATUS_LATE)
            continue;
        undo[i].status = STATUS_OPEN;
        memcpy(undo[i].seen, ops[i].attempt, sizeof undo[i].seen);
        rlk_random(undo[i].attempt, sizeof undo[i].attempt);
        my_clear_answer(&ops[i]);
        ops[i].status = STATUS_OPEN;
    }
    if (undo != NULL)
        status = my_run_open(conn, &release, undo, n, deadline, err);
    free(undo);
    if (status == ROWLOCK_OK)
        return ROWLOCK_OK;
    conn->dead = 1;
    return rlk_fail_native(err, ROWLOCK_EUNKNOWN, 0, NULL, 1,
                           "acquired too late, and could not be undone");
}

static int has_ticket(const rowlock_op *ops, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (ops[i].ticket != 0)
            return 1;
    }
    return 0;
}

/* The columns of acquire_answer, then bad */
static void read_acquired_one(my_conn *conn, rowlock_op *op, MYSQL_ROW row,
                              const unsigned long *lengths)
{
    my_read_acquired(conn, op, row, lengths);
    conn->in_line = my_int(row[9]) > 1;
}

void my_step_add_take(my_step *step, int in_line, int has_ticket)
{
    my_step_add(step, SQL_ACQUIRE_ONE, NULL);
    if (in_line)
        my_step_add(step, SQL_ACQUIRE_ONE_IF, NULL);
    my_step_add(step, SQL_ACQUIRE_ONE_WRITE, NULL);
    if (has_ticket)
        my_step_add(step, SQL_ACQUIRE_ONE_OFF, NULL);
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

/* One lock. The queue is asked about if the row is absent or marked as waited for, which a second
 * packet finds out; the connection remembers, since the next lock is mostly like the last one. */
static int try_one(my_conn *conn, rowlock_op *op, int64_t deadline, rowlock_error *err)
{
    int status = ROWLOCK_OK, asked = 0;
    rlk_text number = {0};
    const char *upto = my_number(&number, my_upto(op));

    if (number.failed)
        return rlk_fail_memory(err);
    while (status == ROWLOCK_OK && op->status == STATUS_OPEN && !asked) {
        my_step step = {.read_row = read_acquired_one};

        asked = conn->in_line || op->ticket != 0;
        if (asked)
            my_step_add(&step, SQL_UPTO, upto);
        my_step_add_take(&step, asked, op->ticket != 0);
        my_step_add(&step, SQL_ACQUIRE_ONE_ANSWER, NULL);
        conn->in_line = 1; /* there is no answer for a row that is absent */
        status = my_run_one(conn, &step, op, deadline, err);
        if (!conn->in_line)
            break;
    }
    if (status == ROWLOCK_OK && op->status == STATUS_OPEN && conn->in_line)
        status = read_first(conn, op, deadline, err);
    rlk_text_free(&number);
    return status;
}

/* Several locks. */
static my_step acquire_step(enum sql_statement first, const rowlock_op *ops, size_t n)
{
    my_step step = {.read_row = my_read_acquired};

    my_step_add(&step, first, NULL);
    my_step_add(&step, SQL_ACQUIRE, NULL);
    if (has_ticket(ops, n))
        my_step_add(&step, SQL_ACQUIRE_OFF, NULL);
    my_step_add(&step, SQL_ACQUIRE_ANSWER, NULL);
    return step;
}

static int try_each(my_conn *conn, rowlock_op *ops, size_t n, int64_t deadline, rowlock_error *err)
{
    const my_step step = acquire_step(SQL_START, ops, n);
    int any_late = 0, status = ROWLOCK_OK;

    do {
        if (n == 1)
            status = try_one(conn, ops, deadline, err);
        else
            status = my_run_open(conn, &step, ops, n, deadline, err);
        if (status == ROWLOCK_OK)
            status = my_undo_late(conn, ops, n, deadline, &any_late, err);
    } while (status == ROWLOCK_OK && any_late && rlk_clock_us() < deadline);
    return status;
}

static int acquire_each(my_conn *conn, rowlock_op *ops, size_t n, int64_t deadline,
                        rowlock_error *err)
{
    my_patience patience = my_patience_start(deadline);
    int status = try_each(conn, ops, n, deadline, err);

    while (status == ROWLOCK_OK && my_count_status(ops, n, STATUS_OPEN) > 0) {
        if (n > 1 || !my_patience_pause(&patience)) {
            my_set_status(ops, n, STATUS_OPEN, ROWLOCK_BUSY);
            break;
        }
        status = try_each(conn, ops, n, deadline, err);
    }
    return status;
}

/* One try at all of them. Leaves all OK, or those of others BUSY and the rest open. *raced:
 * somebody created one of the rows meanwhile, and the next try will see it. */
static int try_all(my_conn *conn, rowlock_op *ops, size_t n, int64_t deadline, int *raced,
                   rowlock_error *err)
{
    enum { OUT_OF_RANGE = 1690 };
    const my_step step = acquire_step(SQL_GATE, ops, n);
    rowlock_error own = {0};
    int status;

    my_set_status(ops, n, 0, STATUS_OPEN);
    status = my_run_whole(conn, &step, ops, n, 1, deadline, &own);
    *raced = status == ROWLOCK_EDRIVER && own.native_code == OUT_OF_RANGE;
    if (*raced)
        return ROWLOCK_OK;
    if (status != ROWLOCK_OK) {
        if (err != NULL)
            *err = own;
        return status;
    }
    status = my_undo_late(conn, ops, n, deadline, raced, err);
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
        int raced = 0, status = try_all(conn, ops, n, deadline, &raced, err);

        if (status != ROWLOCK_OK || my_count_status(ops, n, ROWLOCK_OK) == n)
            return status;
        if (my_count_status(ops, n, ROWLOCK_BUSY) > 0)
            break;
        if (raced ? rlk_clock_us() >= deadline : !my_patience_pause(&patience))
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

/* i, renewed, hold_count, remaining */
static void read_renewed(my_conn *conn, rowlock_op *op, MYSQL_ROW row, const unsigned long *lengths)
{
    (void)conn;
    (void)lengths;
    op->status = my_int(row[1]) != 0 ? ROWLOCK_OK : ROWLOCK_BUSY;
    op->hold_count = (uint32_t)my_int(row[2]);
    op->remaining_us = my_int(row[3]);
}

int my_renew(void *conn, rowlock_op *ops, size_t n, uint32_t timeout_ms, rowlock_error *err)
{
    const my_step renew = {{{SQL_START, NULL}, {SQL_RENEW, NULL}}, 2, read_renewed};
    int64_t deadline = my_deadline(timeout_ms);
    int status;

    my_start_call(ops, n);
    rlk_ok(err);
    status = my_run_open(conn, &renew, ops, n, deadline, err);
    my_set_status(ops, n, STATUS_OPEN, ROWLOCK_LOST);
    return status;
}

static int64_t release_deadline(uint32_t timeout_ms)
{
    return my_deadline(timeout_ms < SHORTEST_RELEASE_MS ? SHORTEST_RELEASE_MS : timeout_ms);
}

/* Somebody keeps the row locked: who releases may be the one. */
static int tell_locked(int status, rowlock_error *err)
{
    enum { LOCK_TIMEOUT = 1205, LOCKED = 3572 };

    if (status != ROWLOCK_EDRIVER ||
        (err->native_code != LOCK_TIMEOUT && err->native_code != LOCKED))
        return status;
    return rlk_fail_native(err, ROWLOCK_EDRIVER, err->native_code, "HY000", 1,
                           "a transaction keeps the row locked: release after its COMMIT or "
                           "ROLLBACK");
}

/* Locked rows are waited for, or only looked at (`looks`: the literal of a single name, or ""). The
 * bell (NULL: none) rings after the COMMIT. */
static my_step release_step(size_t n, const char *looks, const char *bell)
{
    my_step step = {.read_row = read_released};

    if (n > 1)
        my_step_add(&step, SQL_START, NULL);
    if (looks != NULL)
        my_step_add(&step, n > 1 ? SQL_RELEASE_LOOK : SQL_RELEASE_LOOK_ONE, n > 1 ? NULL : looks);
    my_step_add(&step, n > 1 ? SQL_RELEASE : SQL_RELEASE_ONE, NULL);
    if (bell != NULL)
        my_step_add(&step, SQL_RING, bell);
    return step;
}

int my_release(void *handle, rowlock_op *ops, size_t n, uint32_t timeout_ms, rowlock_error *err)
{
    my_conn *conn = handle;
    int64_t deadline = release_deadline(timeout_ms);
    rlk_text name = {0}, ring = {0};
    const char *looks = NULL, *bell = my_bell_literal(conn, ops, n, &ring);
    rowlock_error local;
    my_step step;
    int status;

    err = err == NULL ? &local : err;
    my_start_call(ops, n);
    rlk_ok(err);
    if (timeout_ms < RELEASE_WAITS_MS)
        looks = my_bytes(&name, ops[0].name, ops[0].name_length);
    step = release_step(n, looks, bell);
    if (name.failed || ring.failed)
        status = rlk_fail_memory(err);
    else if (n == 1)
        status = my_run_one(conn, &step, ops, deadline, err);
    else
        status = my_run_open(conn, &step, ops, n, deadline, err);
    if (status == ROWLOCK_OK && bell != NULL)
        conn->bell[0] = '\0';
    my_set_status(ops, n, STATUS_OPEN, ROWLOCK_LOST);
    rlk_text_free(&name);
    rlk_text_free(&ring);
    return tell_locked(status, err);
}

int my_force_release(void *handle, rowlock_op *op, uint32_t timeout_ms, rowlock_error *err)
{
    my_conn *conn = handle;
    int64_t deadline = release_deadline(timeout_ms);
    rlk_text name = {0}, attempt = {0}, fence = {0};
    const char *n = my_bytes(&name, op->name, op->name_length);
    const char *a = my_bytes(&attempt, op->attempt, sizeof op->attempt);
    const char *f = my_number(&fence, (int64_t)op->fence);
    const char *literals[] = {a, n, f, f, a, n, a};
    MYSQL_RES *result = NULL;
    rowlock_error local;
    int status;

    err = err == NULL ? &local : err;
    my_start_call(op, 1);
    rlk_ok(err);
    my_begin_none(conn);
    my_add(conn, SQL_START, NULL, 0);
    if (timeout_ms < RELEASE_WAITS_MS)
        my_add(conn, SQL_RELEASE_LOOK_ONE, &n, 1);
    my_add(conn, SQL_FORCE_RELEASE, literals, sizeof literals / sizeof *literals);
    if (name.failed || attempt.failed || fence.failed)
        status = rlk_fail_memory(err);
    else
        status = my_run(conn, deadline, &result, err);
    if (status == ROWLOCK_OK) {
        op->status = mysql_num_rows(result) > 0 ? ROWLOCK_OK : ROWLOCK_LOST;
        mysql_free_result(result);
    }
    rlk_text_free(&name);
    rlk_text_free(&attempt);
    rlk_text_free(&fence);
    return tell_locked(status, err);
}
