/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "batch.h"

/* Who releases waits for a locked row as long as the session's innodb_lock_wait_timeout, which may
 * end a second late. With less time than that the rows are only looked at, and with almost none the
 * answer, that nothing was done, is still waited for. */
enum { RELEASE_WAITS_MS = 2500, SHORTEST_RELEASE_MS = 50 };

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
    const my_step renew = {
        {{SQL_START, NULL}, {SQL_RENEW, NULL}, {SQL_GRANTED, NULL}}, 3, read_renewed};
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
    if (!my_is_locked(status, err))
        return status;
    return rlk_fail_native(err, ROWLOCK_EDRIVER, err->native_code, "HY000", 1,
                           "a transaction keeps the row locked: release after its COMMIT or "
                           "ROLLBACK");
}

int my_release_rest(my_conn *conn, rowlock_op *ops, size_t n, int looks, const char *bell,
                    int64_t deadline, rowlock_error *err)
{
    my_step step = {.read_row = read_released};
    int status;

    my_step_add(&step, SQL_START, NULL);
    if (looks)
        my_step_add(&step, SQL_RELEASE_LOOK, NULL);
    my_step_add(&step, SQL_RELEASE, NULL);
    if (bell != NULL)
        my_step_add(&step, SQL_RING, bell);
    status = my_run_open(conn, &step, ops, n, deadline, err);
    if (status == ROWLOCK_OK)
        my_set_status(ops, n, STATUS_OPEN, ROWLOCK_LOST);
    return status;
}

static int release_each(my_conn *conn, rowlock_op *ops, size_t n, int looks, const char *bell,
                        int64_t deadline, rowlock_error *err)
{
    int any, status;

    if (!my_is_many(conn, n))
        return my_release_rest(conn, ops, n, looks, bell, deadline, err);
    if (n == 1)
        status = my_release_direct(conn, ops, looks, bell, deadline, err);
    else
        status = my_release_many(conn, ops, n, looks, bell, deadline, err);
    if (status != ROWLOCK_OK)
        return status;
    any = my_count_status(ops, n, ROWLOCK_OK) > 0;
    status = my_release_rest(conn, ops, n, looks, NULL, deadline, err);
    return status != ROWLOCK_OK && any ? my_fail_partly(conn, err) : status;
}

/* The bell, if there is one, rings after the COMMIT. */
static int release(my_conn *conn, rowlock_op *ops, size_t n, int looks, int64_t deadline,
                   rowlock_error *err)
{
    rlk_text ring = {0};
    const char *bell = my_bell_literal(conn, ops, n, &ring);
    int status;

    if (ring.failed)
        status = rlk_fail_memory(err);
    else
        status = release_each(conn, ops, n, looks, bell, deadline, err);
    if (status == ROWLOCK_OK && bell != NULL)
        conn->bell[0] = '\0';
    rlk_text_free(&ring);
    return tell_locked(status, err);
}

int my_release_now(my_conn *conn, rowlock_op *ops, size_t n, int64_t deadline, rowlock_error *err)
{
    return release(conn, ops, n, 1, deadline, err);
}

int my_release(void *conn, rowlock_op *ops, size_t n, uint32_t timeout_ms, rowlock_error *err)
{
    int64_t deadline = release_deadline(timeout_ms);
    rowlock_error local;

    err = err == NULL ? &local : err;
    my_start_call(ops, n);
    rlk_ok(err);
    return release(conn, ops, n, timeout_ms < RELEASE_WAITS_MS, deadline, err);
}

int my_force_release(void *handle, rowlock_op *op, uint32_t timeout_ms, rowlock_error *err)
{
    my_conn *conn = handle;
    int64_t deadline = release_deadline(timeout_ms);
    const my_value name = my_name_of(op), attempt = my_attempt_of(op);
    const my_value fence = my_value_of((int64_t)op->fence);
    const my_value values[] = {attempt, name, fence, fence, attempt, name, attempt};
    MYSQL_RES *result = NULL;
    rowlock_error local;
    int status;

    err = err == NULL ? &local : err;
    my_start_call(op, 1);
    rlk_ok(err);
    my_begin_none(conn);
    my_add(conn, SQL_START, NULL, 0);
    if (timeout_ms < RELEASE_WAITS_MS)
        my_add_values(conn, SQL_RELEASE_LOOK_ONE, &name, 1);
    my_add_values(conn, SQL_FORCE_RELEASE, values, sizeof values / sizeof *values);
    status = my_run(conn, deadline, &result, err);
    if (status == ROWLOCK_OK) {
        op->status = mysql_num_rows(result) > 0 ? ROWLOCK_OK : ROWLOCK_LOST;
        mysql_free_result(result);
    }
    return tell_locked(status, err);
}
