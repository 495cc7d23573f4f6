/* SPDX-License-Identifier: MIT */
#include <stdio.h>

#include "queue.h"

enum { FIRST_LEAP = 16 };

static void read_turn(my_conn *conn, rowlock_op *op, MYSQL_ROW row, const unsigned long *lengths)
{
    my_read_place(conn, op, row, lengths);
    if (op->status != ROWLOCK_OK && my_int(row[12]) <= 0)
        op->status = ROWLOCK_LOST;
}

/* What of the server's errors only says that it was not heard. */
static int is_silence(int code)
{
    enum { TIME_PASSED = 3024 };

    return code == TIME_PASSED;
}

/* A ring of waits, or a chain of 32, which these servers take for one. */
static int is_deadlock(int code)
{
    enum { DEADLOCK = 1213, OF_NAMED_LOCKS = 3058 };

    return code == DEADLOCK || code == OF_NAMED_LOCKS;
}

/* Waits for the bell of op->before. *heard: it was had, and is still with this connection. */
static int hear(my_conn *conn, const rowlock_op *op, uint32_t wait_ms, int64_t deadline, int *heard,
                rowlock_error *err)
{
    char name[MY_BELL_SIZE], seconds[24];
    rlk_text bell = {0}, bound = {0};
    const char *literals[] = {my_number(&bound, wait_ms), NULL, seconds};
    MYSQL_RES *result = NULL;
    MYSQL_ROW row;
    int status;

    my_bell_name(name, conn, op, op->before);
    literals[1] = my_name_literal(&bell, name);
    if (my_is_maria(conn))
        snprintf(seconds, sizeof seconds, "%u.%03u", wait_ms / 1000, wait_ms % 1000);
    else
        snprintf(seconds, sizeof seconds, "%u", (wait_ms + 999) / 1000);
    my_start(conn);
    my_add(conn, SQL_HEAR, literals, 3);
    status =
        bell.failed || bound.failed ? rlk_fail_memory(err) : my_run(conn, deadline, &result, err);
    row = status == ROWLOCK_OK ? mysql_fetch_row(result) : NULL;
    *heard = row != NULL && my_int(row[0]) == 1;
    mysql_free_result(result);
    rlk_text_free(&bell);
    rlk_text_free(&bound);
    return status;
}

/* Makes a chain that is too long shorter: names somebody farther ahead to be waited for, who is
 * through earlier, and at the next time farther still. The try after that names who is right before
 * again. If nobody is so far ahead there is nothing to wait for. */
static int leap(my_conn *conn, rowlock_op *op, int64_t deadline, rowlock_error *err)
{
    rlk_text lock = {0}, ticket = {0}, places = {0};
    const char *name = my_bytes(&lock, op->name, op->name_length);
    const char *literals[] = {name, name, my_number(&ticket, (int64_t)op->ticket), NULL};
    MYSQL_RES *result = NULL;
    MYSQL_ROW row;
    int status;

    conn->leap = conn->leap == 0 ? FIRST_LEAP : conn->leap * 2;
    literals[3] = my_number(&places, conn->leap - 1);
    my_start(conn);
    my_add(conn, SQL_LEAP, literals, 4);
    status = lock.failed || ticket.failed || places.failed ? rlk_fail_memory(err)
                                                           : my_run(conn, deadline, &result, err);
    row = status == ROWLOCK_OK ? mysql_fetch_row(result) : NULL;
    op->can_wait = row != NULL;
    if (row != NULL)
        op->before = (uint64_t)my_int(row[0]);
    mysql_free_result(result);
    rlk_text_free(&lock);
    rlk_text_free(&ticket);
    rlk_text_free(&places);
    return status == ROWLOCK_OK ? rlk_ok(err) : status;
}

/* Appends what is done about a bell that was heard. */
static void add_heard(my_conn *conn, const rowlock_op *op)
{
    char name[MY_BELL_SIZE];
    rlk_text bell = {0}, lock = {0}, before = {0};
    const char *literals[] = {NULL, my_bytes(&lock, op->name, op->name_length),
                              my_number(&before, (int64_t)op->before)};

    my_bell_name(name, conn, op, op->before);
    literals[0] = my_name_literal(&bell, name);
    my_add(conn, SQL_HEARD, literals, 3);
    if (bell.failed || lock.failed || before.failed)
        conn->packet.failed = 1;
    rlk_text_free(&bell);
    rlk_text_free(&lock);
    rlk_text_free(&before);
}

static int try_turn(my_conn *conn, rowlock_op *op, int heard, int64_t deadline, rowlock_error *err)
{
    my_step step = {.read_row = read_turn};
    char name[MY_BELL_SIZE] = "";
    rlk_text bell = {0};
    int status;

    if (!conn->no_bells)
        my_bell_name(name, conn, op, 0);
    my_step_add(&step, SQL_BELL, my_name_literal(&bell, name));
    my_step_add(&step, SQL_TURN, NULL);
    my_step_add(&step, SQL_ACQUIRE_ONE, NULL);
    my_step_add(&step, SQL_ACQUIRE_ONE_OFF, NULL);
    my_step_add(&step, SQL_ACQUIRE_ONE_FLOOR, NULL);
    my_step_add(&step, SQL_PLACE_ONE, NULL);
    my_step_add(&step, SQL_GRANTED, NULL);
    op->status = STATUS_OPEN;
    my_start(conn);
    if (heard)
        add_heard(conn, op);
    status = bell.failed ? rlk_fail_memory(err) : my_run_started(conn, &step, op, deadline, err);
    rlk_text_free(&bell);
    return status;
}

/* Tries, and again for a moment while somebody has the row locked. */
static int turn(my_conn *conn, rowlock_op *op, int heard, int64_t began, int64_t deadline,
                rowlock_error *err)
{
    my_patience patience = my_patience_start(deadline);
    int status;

    do {
        int64_t passed = rlk_clock_us() - began;

        status = try_turn(conn, op, heard, deadline, err);
        op->waited_us = passed;
        heard = 0;
    } while (status == ROWLOCK_OK && op->status == STATUS_OPEN && my_patience_pause(&patience));
    if (status == ROWLOCK_OK && op->status == STATUS_OPEN)
        op->status = ROWLOCK_BUSY;
    return status;
}

/* The usual end of a wait. The op stays open if there is more to it. */
static int turn_short(my_conn *conn, rowlock_op *op, int heard, int64_t began, int64_t deadline,
                      rowlock_error *err)
{
    int64_t passed = rlk_clock_us() - began;
    int status;

    op->status = STATUS_OPEN;
    if (!heard && (conn->first == 0 || conn->first != op->ticket))
        return ROWLOCK_OK;
    conn->first = 0;
    my_clear_answer(op);
    status = my_turn_direct(conn, op, heard ? op->before : 0, deadline, err);
    if (status != ROWLOCK_OK || op->status != ROWLOCK_OK)
        return status;
    op->rings = (uint8_t)my_has_bell(conn, op);
    op->before = 0;
    op->can_wait = 0;
    op->waited_us = passed;
    return status;
}

/* It is its turn, as far as one knows. */
static int try_when_called(my_conn *conn, rowlock_op *op, int heard, int64_t began,
                           int64_t deadline, rowlock_error *err)
{
    int status = turn_short(conn, op, heard, began, deadline, err);

    if (status != ROWLOCK_OK || op->status == ROWLOCK_OK)
        return status;
    return turn(conn, op, heard, began, deadline, err);
}

/* A wait in the server cannot be broken off from here, so the descriptors are looked at before. */
int my_turn(void *handle, rowlock_op *op, uint32_t wait_ms, const int *fds, int n_fds,
            uint32_t timeout_ms, rowlock_error *err)
{
    my_conn *conn = handle;
    int64_t began = rlk_clock_us(), deadline;
    int heard = 0, status = ROWLOCK_OK;
    rowlock_error local;

    err = err == NULL ? &local : err;
    rlk_ok(err);
    my_client_enter();
    op->status = ROWLOCK_BUSY;
    wait_ms = wait_ms < ROWLOCK_TURN_MAX_MS ? wait_ms : ROWLOCK_TURN_MAX_MS;
    if (wait_ms == 0 || op->before == 0)
        return try_when_called(conn, op, 0, began, my_deadline(timeout_ms), err);
    deadline = my_deadline(timeout_ms + wait_ms);
    if (rlk_sleep_until(began, fds, n_fds) < 0)
        status = hear(conn, op, wait_ms, deadline, &heard, err);
    if (status == ROWLOCK_EDRIVER && is_silence(err->native_code))
        return rlk_ok(err);
    if (status == ROWLOCK_EDRIVER && is_deadlock(err->native_code))
        return leap(conn, op, deadline, err);
    if (status == ROWLOCK_OK && heard)
        status = try_when_called(conn, op, 1, began, deadline, err);
    return status;
}
