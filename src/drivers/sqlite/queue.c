/* SPDX-License-Identifier: MIT
 *
 * The queue: taking a ticket, keeping it, giving it back, and where it stands.
 *
 * There are no bells in SQLite: nobody can wait for another connection. Instead whoever waits looks
 * when the file has been written to (turn.c), and its connection is kept for that and no longer: so
 * `before` is always 0, and a lock that has been taken does not ring. */
#include <stdint.h>

#include "lite.h"

enum { CLEAN_MAX = 64 }; /* dead tickets that an enqueue takes away, of each name */

typedef struct queueing {
    rowlock_op *ops;
    size_t n;
    int64_t life_us;
    int found; /* a dead one has been taken off */
} queueing;

/* ---- where a ticket stands */

int lite_is_turn(const lite_place *place)
{
    return place->is_repeated || (place->is_there && !place->is_held && place->before == 0);
}

static void read_place(sqlite3_stmt *statement, rowlock_op *op, lite_place *place)
{
    int64_t lease = sqlite3_column_int64(statement, 3); /* no row, NULL: 0 */
    int is_own = lease > 0 && sqlite3_column_int(statement, 4);
    int64_t life = sqlite3_column_int64(statement, 7);

    place->is_there = sqlite3_column_int(statement, 0);
    place->is_repeated = is_own && sqlite3_column_int(statement, 5);
    place->is_held = lease > 0 && !is_own;
    place->before = is_own ? 0 : sqlite3_column_int64(statement, 6);
    lite_no_holder(op);
    if (place->is_held)
        lite_read_holder(statement, 1, op);
    if (!place->is_there)
        op->status = ROWLOCK_LOST;
    else if (lite_is_turn(place))
        op->status = ROWLOCK_OK;
    op->is_queue = op->status == ROWLOCK_BUSY && !place->is_held;
    /* The one right before stays for as long as it lives; the first one waits for the lease. */
    if (place->before > 0 && op->remaining_us < life)
        op->remaining_us = life;
}

int lite_queue_look(lite_conn *conn, rowlock_op *op, lite_place *place)
{
    int status, rc;
    sqlite3_stmt *statement = lite_statement(conn, SQL_QUEUE_LOOK, &status);

    if (statement == NULL)
        return status;
    lite_bind_name(statement, op);
    sqlite3_bind_int64(statement, 2, (sqlite3_int64)op->ticket);
    sqlite3_bind_text(statement, 3, op->owner, -1, SQLITE_STATIC);
    sqlite3_bind_blob(statement, 4, op->attempt, ROWLOCK_ATTEMPT_SIZE, SQLITE_STATIC);
    sqlite3_bind_int(statement, 5, LITE_FAR);
    rc = sqlite3_step(statement);
    if (rc == SQLITE_ROW)
        read_place(statement, op, place);
    return lite_done(conn, statement, rc);
}

/* ---- statements of one name and ticket */

/* ?1 name  ?2 ticket  ?3 life, where the statement has one */
static int run_for(lite_conn *conn, enum sql_statement which, const rowlock_op *op, int64_t life_us)
{
    int status;
    sqlite3_stmt *statement = lite_statement(conn, which, &status);

    if (statement == NULL)
        return status;
    lite_bind_name(statement, op);
    sqlite3_bind_int64(statement, 2, (sqlite3_int64)op->ticket);
    sqlite3_bind_int64(statement, 3, life_us);
    return lite_done(conn, statement, sqlite3_step(statement));
}

int lite_queue_leave(lite_conn *conn, rowlock_op *op)
{
    return run_for(conn, SQL_QUEUE_LEAVE, op, 0);
}

/* ---- enqueue */

/* Raises *ticket to what the name asks for. */
static int next_ticket(lite_conn *conn, const rowlock_op *op, int64_t *ticket)
{
    int status, rc;
    sqlite3_stmt *statement = lite_statement(conn, SQL_QUEUE_NEXT, &status);

    if (statement == NULL)
        return status;
    lite_bind_name(statement, op);
    rc = sqlite3_step(statement);
    if (rc == SQLITE_ROW && sqlite3_column_int64(statement, 0) > *ticket)
        *ticket = sqlite3_column_int64(statement, 0);
    return lite_done(conn, statement, rc);
}

static int clean(lite_conn *conn, const rowlock_op *op)
{
    int status;
    sqlite3_stmt *statement = lite_statement(conn, SQL_QUEUE_CLEAN, &status);

    if (statement == NULL)
        return status;
    lite_bind_name(statement, op);
    sqlite3_bind_int(statement, 2, CLEAN_MAX);
    return lite_done(conn, statement, sqlite3_step(statement));
}

static int join_queue(lite_conn *conn, const rowlock_op *op, int64_t life_us)
{
    int status;
    sqlite3_stmt *statement = lite_statement(conn, SQL_QUEUE_JOIN, &status);

    if (statement == NULL)
        return status;
    lite_bind_name(statement, op);
    sqlite3_bind_int64(statement, 2, (sqlite3_int64)op->ticket);
    sqlite3_bind_int64(statement, 3, life_us);
    sqlite3_bind_text(statement, 4, op->owner, -1, SQLITE_STATIC);
    sqlite3_bind_text(statement, 5, lite_process(conn), -1, SQLITE_STATIC);
    return lite_done(conn, statement, sqlite3_step(statement));
}

static int enqueue_one(lite_conn *conn, rowlock_op *op, int64_t life_us)
{
    lite_place place;
    int status = clean(conn, op);

    if (status == ROWLOCK_OK)
        status = join_queue(conn, op, life_us);
    if (status == ROWLOCK_OK)
        status = run_for(conn, SQL_QUEUE_MARK, op, life_us);
    if (status == ROWLOCK_OK)
        status = lite_queue_look(conn, op, &place);
    op->status = ROWLOCK_BUSY;
    return status;
}

static int enqueue(lite_conn *conn, void *payload)
{
    queueing *q = payload;
    int64_t ticket = 0;
    int status = lite_begin(conn);

    for (size_t i = 0; i < q->n && status == ROWLOCK_OK; i++)
        status = next_ticket(conn, &q->ops[i], &ticket);
    for (size_t i = 0; i < q->n && status == ROWLOCK_OK; i++) {
        q->ops[i].ticket = (uint64_t)ticket;
        status = enqueue_one(conn, &q->ops[i], q->life_us);
    }
    return status == ROWLOCK_OK ? lite_commit(conn) : status;
}

/* No ticket, since a transaction keeps the write lock. */
static int no_ticket(rowlock_op *ops, size_t n, rowlock_error *err)
{
    for (size_t i = 0; i < n; i++) {
        lite_no_holder(&ops[i]);
        ops[i].ticket = 0;
    }
    return rlk_ok(err);
}

int lite_enqueue(void *state, rowlock_op *ops, size_t n, int64_t life_us, int with_bell,
                 uint32_t timeout_ms, rowlock_error *err)
{
    lite_conn *conn = state;
    queueing q = {.ops = ops, .n = n, .life_us = life_us};
    int status;

    conn->lock_ms = LITE_LOCK_WAIT_MS;
    status = lite_call(conn, enqueue, &q, timeout_ms, err);
    if (lite_was_locked_out(conn, status))
        status = no_ticket(ops, n, err);
    conn->ticket = status == ROWLOCK_OK && with_bell ? ops->ticket : 0;
    for (size_t i = 0; i < n; i++) {
        ops[i].before = 0;
        ops[i].rings = ops[i].can_wait = conn->ticket != 0;
    }
    return status;
}

/* ---- leave */

static int leave(lite_conn *conn, void *payload)
{
    queueing *q = payload;
    int status = lite_begin(conn);

    for (size_t i = 0; i < q->n && status == ROWLOCK_OK; i++) {
        q->ops[i].status = ROWLOCK_OK;
        status = lite_queue_leave(conn, &q->ops[i]);
    }
    return status == ROWLOCK_OK ? lite_commit(conn) : status;
}

int lite_leave(void *state, rowlock_op *ops, size_t n, uint32_t timeout_ms, rowlock_error *err)
{
    lite_conn *conn = state;
    queueing q = {.ops = ops, .n = n};

    lite_notice_stop(conn);
    conn->ticket = 0;
    conn->lock_ms = LITE_LEAVE_WAIT_MS;
    return lite_call(conn, leave, &q, timeout_ms, err);
}

/* ---- look */

static int keep(lite_conn *conn, void *payload)
{
    queueing *q = payload;
    int status = lite_begin(conn);

    for (size_t i = 0; i < q->n && status == ROWLOCK_OK; i++) {
        status = run_for(conn, SQL_QUEUE_KEEP, &q->ops[i], q->life_us);
        if (status == ROWLOCK_OK)
            status = run_for(conn, SQL_QUEUE_MARK, &q->ops[i], q->life_us);
    }
    return status == ROWLOCK_OK ? lite_commit(conn) : status;
}

static int look(lite_conn *conn, void *payload)
{
    queueing *q = payload;
    int status = lite_run(conn, SQL_BEGIN_READ);

    for (size_t i = 0; i < q->n && status == ROWLOCK_OK; i++) {
        lite_place place;

        status = lite_queue_look(conn, &q->ops[i], &place);
        if (status == ROWLOCK_OK && !place.is_there)
            q->ops[i].status = ROWLOCK_LOST;
    }
    return status == ROWLOCK_OK ? lite_commit(conn) : status;
}

/* Takes off the queues those before the ops who have died. Only where the lock is free: elsewhere
 * nobody waits for them. */
static int bury_all(lite_conn *conn, void *payload)
{
    queueing *q = payload;
    int status = ROWLOCK_OK;

    for (size_t i = 0; i < q->n && status == ROWLOCK_OK; i++) {
        int buried = 0;

        if (q->ops[i].is_queue && q->ops[i].status == ROWLOCK_BUSY)
            status = lite_bury(conn, &q->ops[i], &buried);
        if (status == ROWLOCK_OK && buried)
            q->found = 1;
    }
    return status;
}

int lite_look(void *state, rowlock_op *ops, size_t n, int64_t life_us, uint32_t timeout_ms,
              rowlock_error *err)
{
    lite_conn *conn = state;
    queueing q = {.ops = ops, .n = n, .life_us = life_us};
    int64_t deadline_us = lite_deadline(timeout_ms);
    int status = ROWLOCK_OK;

    if (life_us > 0) {
        conn->lock_ms = LITE_LOCK_WAIT_MS;
        status = lite_call_until(conn, keep, &q, deadline_us, err);
        if (lite_was_locked_out(conn, status))
            status = rlk_ok(err); /* all rows are locked, and are passed over */
    }
    if (status == ROWLOCK_OK)
        status = lite_call_until(conn, look, &q, deadline_us, err);
    if (status != ROWLOCK_OK)
        return status;
    conn->lock_ms = LITE_TURN_WAIT_MS;
    status = lite_call_until(conn, bury_all, &q, deadline_us, err);
    if (lite_was_locked_out(conn, status))
        return rlk_ok(err); /* another time */
    return status == ROWLOCK_OK && q.found ? lite_call_until(conn, look, &q, deadline_us, err)
                                           : status;
}
