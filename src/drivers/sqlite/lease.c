/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "lite.h"

/* How long to wait for other writers. They are done within milliseconds, except for one that has a
 * transaction open: no row of the file can be written until it ends, and each may be one that it
 * has locked. That is BUSY, and is told soon. */
#define RENEW_WAIT_MS   100
#define ACQUIRE_WAIT_MS LITE_LOCK_WAIT_MS

/* What a slot was asked. */
typedef struct batch {
    rowlock_op *ops;
    size_t n;
    int all;
    int (*one)(lite_conn *conn, rowlock_op *op);
} batch;

void lite_bind_name(sqlite3_stmt *statement, const rowlock_op *op)
{
    sqlite3_bind_blob(statement, 1, op->name, (int)op->name_length, SQLITE_STATIC);
}

static void bind_owner(sqlite3_stmt *statement, const rowlock_op *op)
{
    sqlite3_bind_text(statement, 2, op->owner, -1, SQLITE_STATIC);
}

static void bind_attempt(sqlite3_stmt *statement, int index, const rowlock_op *op)
{
    sqlite3_bind_blob(statement, index, op->attempt, ROWLOCK_ATTEMPT_SIZE, SQLITE_STATIC);
}

/* Runs a statement that answers (hold_count, fence, remaining) or no row, which means `none`. What
 * a failed binding left NULL matches no row, and inserts none: NOT NULL refuses it. */
static int change(lite_conn *conn, sqlite3_stmt *statement, rowlock_op *op, int none,
                  sqlite3_int64 *fence)
{
    int rc = sqlite3_step(statement);

    if (rc == SQLITE_ROW || rc == SQLITE_DONE)
        op->status = rc == SQLITE_ROW ? ROWLOCK_OK : none;
    if (rc == SQLITE_ROW) {
        conn->committing = 1;
        op->hold_count = (uint32_t)sqlite3_column_int64(statement, 0);
        *fence = sqlite3_column_int64(statement, 1);
        op->remaining_us = sqlite3_column_int64(statement, 2);
    }
    return lite_done(conn, statement, rc);
}

/* ---- acquire */

void lite_no_holder(rowlock_op *op)
{
    op->status = ROWLOCK_BUSY;
    op->is_queue = 0;
    op->remaining_us = 0;
    op->holder_fence = 0;
    op->holder[0] = '\0';
}

void lite_refuse(rowlock_op *ops, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (ops[i].status == ROWLOCK_OK)
            lite_no_holder(&ops[i]);
    }
}

void lite_read_holder(sqlite3_stmt *statement, int column, rowlock_op *op)
{
    const char *owner = (const char *)sqlite3_column_text(statement, column);

    snprintf(op->holder, sizeof op->holder, "%s", owner == NULL ? "" : owner);
    op->holder_fence = (uint64_t)sqlite3_column_int64(statement, column + 1);
    op->remaining_us = sqlite3_column_int64(statement, column + 2);
}

int lite_holder(lite_conn *conn, sqlite3_stmt *statement, rowlock_op *op)
{
    int rc = sqlite3_step(statement);

    op->status = ROWLOCK_OK;
    if (rc == SQLITE_ROW) {
        lite_no_holder(op);
        lite_read_holder(statement, 0, op);
    }
    return lite_done(conn, statement, rc);
}

/* Which tickets come before: those below the op's own; without one all, or none to who barges. */
static sqlite3_int64 bound_of(const rowlock_op *op)
{
    if (op->ticket != 0)
        return (sqlite3_int64)op->ticket;
    return op->barge ? 0 : INT64_MAX;
}

/* The row of `peek`. Whoever barges is not kept by the waiter, but is_queue is left to tell take()
 * that there is one. */
static void read_peek(sqlite3_stmt *statement, rowlock_op *op)
{
    lite_no_holder(op);
    lite_read_holder(statement, 0, op);
    op->is_queue = sqlite3_column_int(statement, 3) != 0;
    if (op->is_queue && op->barge && op->ticket == 0)
        op->status = ROWLOCK_OK;
}

/* BUSY with the holder or because others come before, or OK: it looked free, or like the owner's
 * own. */
static int peek(lite_conn *conn, rowlock_op *op)
{
    int status, rc;
    sqlite3_stmt *statement = lite_statement(conn, SQL_PEEK, &status);

    if (statement == NULL)
        return status;
    lite_bind_name(statement, op);
    bind_owner(statement, op);
    sqlite3_bind_int64(statement, 3, op->ticket != 0 ? (sqlite3_int64)op->ticket : INT64_MAX);
    rc = sqlite3_step(statement);
    op->status = ROWLOCK_OK;
    op->is_queue = 0;
    if (rc == SQLITE_ROW)
        read_peek(statement, op);
    return lite_done(conn, statement, rc);
}

/* OK or BUSY. */
static int upsert(lite_conn *conn, rowlock_op *op)
{
    int status;
    sqlite3_int64 fence = 0;
    sqlite3_stmt *statement = lite_statement(conn, SQL_ACQUIRE, &status);

    if (statement == NULL)
        return status;
    lite_bind_name(statement, op);
    bind_owner(statement, op);
    bind_attempt(statement, 3, op);
    sqlite3_bind_int64(statement, 4, op->ttl_us);
    sqlite3_bind_text(statement, 5, op->note, -1, SQLITE_STATIC);
    sqlite3_bind_int64(statement, 6, (sqlite3_int64)op->ticket);
    sqlite3_bind_int64(statement, 7, bound_of(op));
    sqlite3_bind_int(statement, 8, op->ticket != 0 || op->is_queue);
    status = change(conn, statement, op, ROWLOCK_BUSY, &fence);
    if (status == ROWLOCK_OK && op->status == ROWLOCK_OK)
        op->fence = (uint64_t)fence;
    return status;
}

/* OK or BUSY, the latter with what can be seen of the holder. */
static int take(lite_conn *conn, rowlock_op *op)
{
    int status = upsert(conn, op);

    if (status != ROWLOCK_OK || op->status == ROWLOCK_OK) {
        op->is_queue = 0;
        return status;
    }
    status = peek(conn, op);
    if (status == ROWLOCK_OK && op->status == ROWLOCK_OK)
        lite_no_holder(op); /* was held when it mattered, and is free again */
    return status;
}

/* The same, and whoever has got it waits no longer. In a transaction. */
static int take_turn(lite_conn *conn, rowlock_op *op)
{
    int status = take(conn, op);

    if (status != ROWLOCK_OK || op->status != ROWLOCK_OK || op->ticket == 0)
        return status;
    return lite_queue_leave(conn, op);
}

/* Looks at all of them, in one read transaction; *busy: how many are held by others. */
static int peek_all(lite_conn *conn, batch *b, size_t *busy)
{
    int status = b->n == 1 ? ROWLOCK_OK : lite_run(conn, SQL_BEGIN_READ);

    *busy = 0;
    for (size_t i = 0; i < b->n && status == ROWLOCK_OK; i++) {
        status = peek(conn, &b->ops[i]);
        *busy += b->ops[i].status == ROWLOCK_BUSY;
    }
    return status != ROWLOCK_OK || b->n == 1 ? status : lite_commit(conn);
}

/* Those that looked busy before are left so. */
static int acquire_many(lite_conn *conn, batch *b)
{
    size_t busy = 0;
    int status = lite_begin(conn);

    for (size_t i = 0; i < b->n && status == ROWLOCK_OK; i++) {
        if (b->ops[i].status == ROWLOCK_BUSY)
            continue;
        status = b->all && busy > 0 ? peek(conn, &b->ops[i]) : take_turn(conn, &b->ops[i]);
        busy += status == ROWLOCK_OK && b->ops[i].status == ROWLOCK_BUSY;
    }
    if (status != ROWLOCK_OK)
        return status;
    if (!b->all || busy == 0)
        return lite_commit(conn);
    lite_refuse(b->ops, b->n);
    return lite_rollback(conn);
}

static int acquire(lite_conn *conn, void *payload)
{
    batch *b = payload;
    size_t busy;
    int status = peek_all(conn, b, &busy);

    if (status != ROWLOCK_OK || busy == b->n)
        return status;
    if (b->all && busy > 0) {
        lite_refuse(b->ops, b->n);
        return ROWLOCK_OK;
    }
    return b->n == 1 && b->ops->ticket == 0 ? take(conn, b->ops) : acquire_many(conn, b);
}

int lite_was_locked_out(const lite_conn *conn, int status)
{
    return status == ROWLOCK_EDRIVER && lite_is_busy(conn) && !conn->committing;
}

int lite_acquire(void *state, rowlock_op *ops, size_t n, int all, uint32_t timeout_ms,
                 rowlock_error *err)
{
    lite_conn *conn = state;
    batch b = {.ops = ops, .n = n, .all = all};
    int status;

    for (size_t i = 0; i < n; i++)
        ops[i].status = ROWLOCK_OK;
    conn->lock_ms = ACQUIRE_WAIT_MS;
    status = lite_call(conn, acquire, &b, timeout_ms, err);
    if (!lite_was_locked_out(conn, status))
        return status;
    lite_refuse(ops, n);
    return rlk_ok(err);
}

/* Without the look before: whoever has a turn has looked. */
static int take_one_turn(lite_conn *conn, void *payload)
{
    batch b = {.ops = payload, .n = 1};

    return acquire_many(conn, &b);
}

int lite_take_turn(lite_conn *conn, rowlock_op *op, int64_t deadline_us, rowlock_error *err)
{
    int status;

    op->status = ROWLOCK_OK;
    conn->lock_ms = LITE_TURN_WAIT_MS;
    status = lite_call_until(conn, take_one_turn, op, deadline_us, err);
    if (!lite_was_locked_out(conn, status))
        return status;
    lite_no_holder(op);
    return rlk_ok(err);
}

/* ---- renew, release */

static int renew_one(lite_conn *conn, rowlock_op *op)
{
    int status;
    sqlite3_int64 fence;
    sqlite3_stmt *statement = lite_statement(conn, SQL_RENEW, &status);

    if (statement == NULL)
        return status;
    lite_bind_name(statement, op);
    bind_owner(statement, op);
    sqlite3_bind_int64(statement, 3, (sqlite3_int64)op->fence);
    sqlite3_bind_int64(statement, 4, op->ttl_us);
    return change(conn, statement, op, ROWLOCK_LOST, &fence);
}

/* A release did nothing: because the tenure is over, or because others have changed the row. */
static int look_again(lite_conn *conn, rowlock_op *op)
{
    int status, rc;
    sqlite3_stmt *statement = lite_statement(conn, SQL_RELEASE_SEEN, &status);

    if (statement == NULL)
        return status;
    lite_bind_name(statement, op);
    bind_owner(statement, op);
    sqlite3_bind_int64(statement, 3, (sqlite3_int64)op->fence);
    rc = sqlite3_step(statement);
    if (rc == SQLITE_ROW && sqlite3_column_bytes(statement, 0) == ROWLOCK_ATTEMPT_SIZE) {
        op->status = ROWLOCK_BUSY;
        memcpy(op->seen, sqlite3_column_blob(statement, 0), ROWLOCK_ATTEMPT_SIZE);
    }
    return lite_done(conn, statement, rc);
}

static int release_one(lite_conn *conn, rowlock_op *op)
{
    static const uint8_t any[ROWLOCK_ATTEMPT_SIZE];
    int status;
    sqlite3_int64 fence;
    sqlite3_stmt *statement = lite_statement(conn, SQL_RELEASE, &status);

    if (statement == NULL)
        return status;
    lite_bind_name(statement, op);
    bind_owner(statement, op);
    sqlite3_bind_int64(statement, 3, (sqlite3_int64)op->fence);
    bind_attempt(statement, 4, op);
    if (memcmp(op->seen, any, sizeof any) != 0)
        sqlite3_bind_blob(statement, 5, op->seen, ROWLOCK_ATTEMPT_SIZE, SQLITE_STATIC);
    status = change(conn, statement, op, ROWLOCK_LOST, &fence);
    return status == ROWLOCK_OK && op->status == ROWLOCK_LOST ? look_again(conn, op) : status;
}

static int each(lite_conn *conn, void *payload)
{
    batch *b = payload;
    int status;

    if (b->n == 1)
        return b->one(conn, b->ops);
    status = lite_begin(conn);
    for (size_t i = 0; i < b->n && status == ROWLOCK_OK; i++)
        status = b->one(conn, &b->ops[i]);
    return status == ROWLOCK_OK ? lite_commit(conn) : status;
}

int lite_is_live(lite_conn *conn, const rowlock_op *op, int64_t now_us, int *out)
{
    int status, rc;
    sqlite3_stmt *statement = lite_statement(conn, SQL_TENURE, &status);

    *out = 0;
    if (statement == NULL)
        return status;
    lite_bind_name(statement, op);
    bind_owner(statement, op);
    sqlite3_bind_int64(statement, 3, (sqlite3_int64)op->fence);
    sqlite3_bind_int64(statement, 4, now_us);
    rc = sqlite3_step(statement);
    *out = rc == SQLITE_ROW;
    return lite_done(conn, statement, rc);
}

/* Which of the tenures that cannot be renewed at this moment are over anyway? What is committed can
 * say so: nothing brings back a lease that has ended. */
static int tell_lost(lite_conn *conn, void *payload)
{
    batch *b = payload;
    int64_t now = 0;
    int is_live;
    int status = lite_now(conn, &now);

    for (size_t i = 0; i < b->n && status == ROWLOCK_OK; i++) {
        status = lite_is_live(conn, &b->ops[i], now, &is_live);
        if (status == ROWLOCK_OK && (now == 0 || !is_live))
            b->ops[i].status = ROWLOCK_LOST;
    }
    return status;
}

int lite_renew(void *state, rowlock_op *ops, size_t n, uint32_t timeout_ms, rowlock_error *err)
{
    lite_conn *conn = state;
    batch b = {.ops = ops, .n = n, .one = renew_one};
    int status;

    conn->lock_ms = RENEW_WAIT_MS;
    status = lite_call(conn, each, &b, timeout_ms, err);
    if (!lite_was_locked_out(conn, status))
        return status;
    for (size_t i = 0; i < n; i++)
        ops[i].status = ROWLOCK_BUSY;
    (void)lite_call(conn, tell_lost, &b, 0, NULL); /* if it cannot read either: BUSY */
    return rlk_ok(err);
}

/* Somebody has the write lock all the time: who releases may be the one. */
static int tell_locked(const lite_conn *conn, int status, rowlock_error *err)
{
    if (!lite_was_locked_out(conn, status))
        return status;
    return rlk_fail_native(err, ROWLOCK_EDRIVER, conn->rc, NULL, 1,
                           "a transaction keeps the row locked: release after its COMMIT or "
                           "ROLLBACK");
}

int lite_release(void *conn, rowlock_op *ops, size_t n, uint32_t timeout_ms, rowlock_error *err)
{
    batch b = {.ops = ops, .n = n, .one = release_one};

    return tell_locked(conn, lite_call(conn, each, &b, timeout_ms, err), err);
}

/* ---- exchange */

/* The batch to be released, and behind it the one to be acquired. */
static int exchange(lite_conn *conn, void *payload)
{
    batch *releases = payload, *acquires = releases + 1;
    int status = lite_begin(conn);

    for (size_t i = 0; i < releases->n && status == ROWLOCK_OK; i++)
        status = release_one(conn, &releases->ops[i]);
    for (size_t i = 0; i < acquires->n && status == ROWLOCK_OK; i++) {
        rowlock_op *op = &acquires->ops[i];

        status = peek(conn, op);
        if (status == ROWLOCK_OK && op->status == ROWLOCK_OK)
            status = take_turn(conn, op);
    }
    return status == ROWLOCK_OK ? lite_commit(conn) : status;
}

int lite_exchange(void *state, rowlock_op *releases, size_t n, rowlock_op *acquires, size_t m,
                  uint32_t timeout_ms, rowlock_error *err)
{
    lite_conn *conn = state;
    batch both[] = {{.ops = releases, .n = n}, {.ops = acquires, .n = m}};
    int status;

    conn->lock_ms = ACQUIRE_WAIT_MS;
    status = lite_call(conn, exchange, both, timeout_ms, err);
    if (!lite_was_locked_out(conn, status))
        return status;
    for (size_t i = 0; i < n; i++)
        releases[i].status = ROWLOCK_BUSY;
    for (size_t i = 0; i < m; i++)
        lite_no_holder(&acquires[i]);
    return rlk_ok(err);
}

/* ---- force_release */

static int force_one(lite_conn *conn, rowlock_op *op)
{
    int status;
    sqlite3_int64 fence;
    sqlite3_stmt *statement = lite_statement(conn, SQL_FORCE_RELEASE, &status);

    if (statement == NULL)
        return status;
    lite_bind_name(statement, op);
    sqlite3_bind_int64(statement, 2, (sqlite3_int64)op->fence);
    bind_attempt(statement, 3, op);
    return change(conn, statement, op, ROWLOCK_LOST, &fence);
}

int lite_force_release(void *conn, rowlock_op *op, uint32_t timeout_ms, rowlock_error *err)
{
    batch b = {.ops = op, .n = 1, .one = force_one};

    return tell_locked(conn, lite_call(conn, each, &b, timeout_ms, err), err);
}
