/* SPDX-License-Identifier: MIT */
#include "fake_tx.h"

#include <stdio.h>
#include <string.h>

#include "error.h"
#include "fake_clock.h"

enum { PIECE_MS = 3000 }; /* a wait that is not in line */

static void (*while_waiting)(void);

const char *fake_here = "here";

void fake_on_wait(void (*fn)(void))
{
    while_waiting = fn;
}

void fake_unlock(const void *locker)
{
    fake_row *row;

    for (size_t i = 0; (row = fake_row_at(i)) != NULL; i++) {
        if (row->locked && row->locker == locker)
            row->locked = 0;
    }
}

/* The transaction's writes count. */
static void keep_fences(const void *locker)
{
    fake_row *row;

    for (size_t i = 0; (row = fake_row_at(i)) != NULL; i++) {
        if (row->locked && row->locker == locker && row->new_fence > row->fence)
            row->fence = row->new_fence;
    }
}

static void finish(const void *locker, int commit)
{
    if (commit)
        keep_fences(locker);
    fake_unlock(locker);
}

void fake_session_end(fake_session *session, int commit)
{
    session->in_transaction = 0;
    finish(session, commit);
}

int fake_prepare(void *conn, rowlock_op *ops, size_t n, uint32_t timeout_ms, rowlock_error *err)
{
    enum fake_fault fault = fake_begin();

    (void)conn;
    (void)timeout_ms;
    for (size_t i = 0; fake_takes_effect(fault) && i < n; i++) {
        fake_row *row = fake_row_of(ops[i].name, ops[i].name_length);

        if (row == NULL) {
            row = fake_row_new(ops[i].name, ops[i].name_length);
            row->acquire_time = row->expire_time = fake_now();
            row->fence = (uint64_t)fake_now();
        }
        memset(ops[i].holder, 0, sizeof ops[i].holder);
        ops[i].status = ROWLOCK_OK;
        ops[i].remaining_us = 0;
        if (row->expire_time > fake_now())
            fake_answer_busy(&ops[i], row);
    }
    return fake_done(fault, err);
}

int fake_locate(void *conn, char *out, size_t size, uint32_t timeout_ms, rowlock_error *err)
{
    enum fake_fault fault = fake_begin();

    (void)conn;
    (void)timeout_ms;
    snprintf(out, size, "%s", fake_here);
    return fake_done(fault, err);
}

static int is_in_the_way(const fake_row *row, const void *locker)
{
    return row->expire_time > fake_now() || (row->locked && row->locker != locker);
}

static size_t obstacles(const rowlock_op *ops, size_t n, const void *locker)
{
    size_t count = 0;

    for (size_t i = 0; i < n; i++) {
        const fake_row *row = fake_row_of(ops[i].name, ops[i].name_length);

        count += row == NULL || is_in_the_way(row, locker);
    }
    return count;
}

/* Locks all, or answers why not. How many were in the way. */
static size_t lock_rows(rowlock_op *ops, size_t n, const void *locker)
{
    size_t in_the_way = obstacles(ops, n, locker);

    for (size_t i = 0; i < n; i++) {
        fake_row *row = fake_row_of(ops[i].name, ops[i].name_length);

        memset(ops[i].holder, 0, sizeof ops[i].holder);
        ops[i].remaining_us = 0;
        ops[i].status = row == NULL ? ROWLOCK_LOST : ROWLOCK_BUSY;
        if (row != NULL && row->expire_time > fake_now())
            fake_answer_busy(&ops[i], row);
        if (in_the_way > 0)
            continue;
        row->locked = 1;
        row->locker = locker;
        row->new_fence =
            row->fence + 1 > (uint64_t)fake_now() ? row->fence + 1 : (uint64_t)fake_now();
        snprintf(row->owner, sizeof row->owner, "%s", ops[i].owner);
        ops[i].fence = row->new_fence;
        ops[i].status = ROWLOCK_OK;
    }
    return in_the_way;
}

static int no_transaction(rowlock_error *err)
{
    return rlk_fail(err, ROWLOCK_EINVAL, "no transaction is open on the connection");
}

static int elsewhere(rowlock_error *err)
{
    return rlk_fail_native(err, ROWLOCK_EINVAL, ROWLOCK_NATIVE_ELSEWHERE, NULL, 0,
                           "the connection is on another server or database than the client");
}

int fake_lock(const rowlock_target *target, rowlock_op *ops, size_t n, uint32_t wait_ms,
              int in_line, uint32_t timeout_ms, rowlock_error *err)
{
    const void *locker = target->conn != NULL ? target->conn : target->native;
    enum fake_fault fault;

    (void)timeout_ms;
    if (target->conn == NULL && !((fake_session *)target->native)->in_transaction)
        return no_transaction(err);
    if (n == 0)
        return rlk_ok(err);
    if (target->conn == NULL && strcmp(target->place, ((fake_session *)target->native)->place) != 0)
        return elsewhere(err);
    fault = fake_begin();
    if (fake_takes_effect(fault) && lock_rows(ops, n, locker) > 0 && wait_ms > 0) {
        fake_clock_advance_us((int64_t)(in_line || wait_ms < PIECE_MS ? wait_ms : PIECE_MS) * 1000);
        if (while_waiting != NULL)
            while_waiting();
        lock_rows(ops, n, locker);
    }
    if (fake_takes_effect(fault) && target->conn != NULL)
        ((fake_conn *)target->conn)->session.in_transaction = ops[0].status == ROWLOCK_OK;
    return fake_done(fault, err);
}

int fake_guard(const rowlock_target *target, rowlock_op *op, uint32_t timeout_ms,
               rowlock_error *err)
{
    enum fake_fault fault;
    fake_row *row;

    (void)timeout_ms;
    if (!((fake_session *)target->native)->in_transaction)
        return no_transaction(err);
    if (strcmp(target->place, ((fake_session *)target->native)->place) != 0)
        return elsewhere(err);
    fault = fake_begin();
    row = fake_row_of(op->name, op->name_length);
    op->status = ROWLOCK_LOST;
    if (fake_takes_effect(fault) && row != NULL && row->fence == op->fence &&
        strcmp(row->owner, op->owner) == 0 && row->expire_time > fake_now()) {
        op->status = row->locked ? ROWLOCK_BUSY : ROWLOCK_OK;
        if (!row->locked) {
            row->locked = 1;
            row->locker = target->native;
            row->new_fence = 0;
        }
    }
    return fake_done(fault, err);
}

int fake_end(void *conn, int commit, uint32_t timeout_ms, rowlock_error *err)
{
    enum fake_fault fault = fake_begin();
    fake_conn *c = conn;

    (void)timeout_ms;
    finish(conn, commit && fake_takes_effect(fault));
    c->session.in_transaction = 0;
    return fake_done(fault, err);
}

/* A connection is its own session. */
void *fake_native(void *conn)
{
    return conn;
}
