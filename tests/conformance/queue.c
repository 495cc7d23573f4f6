/* SPDX-License-Identifier: MIT */
#include "queue.h"

#include <pthread.h>
#include <stdlib.h>

/* ---- tickets --------------------------------------------------------------------------------- */

static rowlock_op enqueue(struct fixture *f, void *conn, rowlock_op op, int64_t life_us, int bell)
{
    op.before = op.is_queue = op.can_wait = op.rings = 1; /* answers must be written */
    int status = f->driver->enqueue(conn, &op, 1, life_us, bell, CALL_MS, &f->err);
    expect_ok(status, &f->err);
    expect_status(ROWLOCK_BUSY, op.status, NULL);
    assert_true(op.ticket > 0);
    return op;
}

rowlock_op queue_up(struct fixture *f, void *conn, const char *name, const char *owner)
{
    return enqueue(f, conn, op_new(name, owner), LONG_US, 1);
}

rowlock_op queue_up_for(struct fixture *f, const char *name, const char *owner, int64_t life_us)
{
    rowlock_op op = enqueue(f, f->conn, op_new(name, owner), life_us, 0);
    assert_int_equal(op.can_wait, 0);
    assert_int_equal(op.rings, 0);
    return op;
}

rowlock_op queue_up_dead(struct fixture *f, const char *name, const char *owner)
{
    rowlock_op op = queue_up_for(f, name, owner, SHORT_US);
    for (int i = 0; i < 1000 && in_queue(f, &op); i++)
        sleep_us(SHORT_US / 4);
    assert_false(in_queue(f, &op));
    return op;
}

int try_turn(struct fixture *f, void *conn, rowlock_op *op, uint32_t wait_ms)
{
    op->status = INT32_MIN;
    expect_ok(f->driver->turn(conn, op, wait_ms, NULL, 0, CALL_MS, &f->err), &f->err);
    return op->status;
}

int try_look(struct fixture *f, rowlock_op *op, int64_t life_us)
{
    op->status = INT32_MIN;
    expect_ok(f->driver->look(f->conn, op, 1, life_us, CALL_MS, &f->err), &f->err);
    return op->status;
}

void try_leave(struct fixture *f, void *conn, rowlock_op *op)
{
    expect_ok(f->driver->leave(conn, op, 1, CALL_MS, &f->err), &f->err);
    expect_ok(op->status, NULL);
}

int await_turn(struct fixture *f, void *conn, rowlock_op *op)
{
    int64_t until = now_us() + SLACK_US;
    int status = ROWLOCK_BUSY;
    while (status == ROWLOCK_BUSY && now_us() < until) {
        int64_t left_ms = op->remaining_us / 1000;
        uint32_t wait_ms = left_ms < ROWLOCK_TURN_MAX_MS ? (uint32_t)left_ms : ROWLOCK_TURN_MAX_MS;
        if (op->can_wait && wait_ms > 0)
            status = try_turn(f, conn, op, wait_ms);
        else
            sleep_us(10000);
        if (status == ROWLOCK_BUSY)
            status = try_turn(f, conn, op, 0);
    }
    return status;
}

rowlock_op grant_by_ticket(struct fixture *f, void *conn, const char *name, const char *owner,
                           int64_t ttl_us)
{
    rowlock_op op = queue_up(f, conn, name, owner);
    op.ttl_us = ttl_us;
    expect_ok(try_turn(f, conn, &op, 0), NULL);
    return op;
}

rowlock_op op_ringing(const rowlock_op *granted)
{
    rowlock_op op = op_of(granted);
    op.ticket = granted->ticket;
    return op;
}

void give_back(struct fixture *f, void *conn, const rowlock_op *granted)
{
    rowlock_op op = granted->rings ? op_ringing(granted) : op_of(granted);
    expect_ok(try_release(f, conn, &op), NULL);
    assert_int_equal(op.hold_count, 0);
}

struct served served_before(struct fixture *f)
{
    struct served s = {.a = another(f), .b = another(f)};
    rowlock_op held = grant_by_ticket(f, s.a, "lock", "ann", LONG_US);
    s.last = queue_up(f, s.b, "lock", "bob");
    s.has_bells = s.last.before != 0;
    give_back(f, s.a, &held);
    expect_ok(await_turn(f, s.b, &s.last), NULL);
    give_back(f, s.b, &s.last);
    return s;
}

/* ---- threads --------------------------------------------------------------------------------- */

static void *wait_for_turn(void *payload)
{
    struct turner *t = payload;
    for (int i = 0; i < t->calls; i++) {
        t->began_us = now_us();
        t->op->status = INT32_MIN;
        t->status =
            t->f->driver->turn(t->conn, t->op, t->wait_ms, t->fds, t->n_fds, CALL_MS, &t->err);
        t->ended_us = now_us();
        if (t->status != ROWLOCK_OK || t->op->status != ROWLOCK_BUSY)
            break;
    }
    return NULL;
}

void turner_start(struct turner *t)
{
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, wait_for_turn, t), 0);
    t->thread = (uintptr_t)thread;
}

void turner_join(struct turner *t)
{
    pthread_join((pthread_t)t->thread, NULL);
    expect_ok(t->status, &t->err);
}

int turner_woken(const struct turner *t)
{
    return t->ended_us - t->began_us < (int64_t)t->wait_ms * 900;
}

/* ---- what is in the queue -------------------------------------------------------------------- */

int queue_collect(const rowlock_waiter *waiter, void *payload)
{
    struct queue *queue = payload;
    if (queue->count == QUEUE_MAX)
        return 1;
    struct place *to = &queue->places[queue->count++];
    memset(to, 0, sizeof(*to));
    to->name_length = waiter->name_length;
    memcpy(to->name, waiter->name,
           waiter->name_length < sizeof(to->name) ? waiter->name_length : 0);
    memcpy(to->owner, waiter->owner, strnlen(waiter->owner, sizeof(to->owner) - 1));
    to->has_holder = waiter->holder != NULL;
    if (to->has_holder)
        memcpy(to->holder, waiter->holder, strnlen(waiter->holder, sizeof(to->holder) - 1));
    to->ticket = waiter->ticket;
    to->waited_ms = waiter->waited_ms;
    to->remaining_ms = waiter->remaining_ms;
    return queue->stop_at != 0 && queue->count == queue->stop_at;
}

void queue_query(struct fixture *f, struct queue *out, const void *starts_with, size_t length)
{
    rowlock_list_query query = {
        .size = sizeof(query), .starts_with = starts_with, .starts_with_length = length};
    out->count = 0;
    expect_ok(f->driver->waiters(f->conn, &query, queue_collect, out, CALL_MS, &f->err), &f->err);
}

void queue_read(struct fixture *f, struct queue *out)
{
    queue_query(f, out, NULL, 0);
}

int in_queue(struct fixture *f, const rowlock_op *op)
{
    struct queue queue = {.count = 0};
    queue_read(f, &queue);
    for (size_t i = 0; i < queue.count; i++) {
        if (queue.places[i].ticket == op->ticket && strcmp(queue.places[i].name, op->name) == 0)
            return 1;
    }
    return 0;
}

void queue_clear(struct fixture *f)
{
    sql_run(f, "DELETE FROM rowlock_waiters", NULL, 0);
}

int queue_rows(struct fixture *f)
{
    char out[32];
    sql_run(f, "SELECT COUNT(*) FROM rowlock_waiters", out, sizeof(out));
    return atoi(out);
}
