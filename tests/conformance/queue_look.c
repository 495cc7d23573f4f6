/* SPDX-License-Identifier: MIT
 *
 * The slot look, and the queue beside rows that a transaction keeps locked. */
#include <stdio.h>
#include <stdlib.h>

#include "queue.h"

static void test_look_says_who_should_try(void **state)
{
    struct fixture *f = *state;
    rowlock_op first = queue_up_for(f, "lock", "ann", LONG_US); /* the row is absent */
    rowlock_op second = queue_up_for(f, "lock", "bob", LONG_US);
    expect_ok(try_look(f, &first, 0), NULL);
    expect_status(ROWLOCK_BUSY, try_look(f, &second, 0), NULL);
    expect_ok(try_turn(f, f->conn, &first, 0), NULL);
    expect_status(ROWLOCK_BUSY, try_look(f, &second, 0), NULL); /* held */
    give_back(f, f->conn, &first);
    expect_ok(try_look(f, &second, 0), NULL); /* free */
}

static void test_look_is_ok_for_the_owner(void **state)
{
    struct fixture *f = *state;
    grant(f, "lock", "ann");
    rowlock_op mine = queue_up_for(f, "lock", "ann", LONG_US);
    expect_ok(try_look(f, &mine, 0), NULL);
}

static void test_look_is_ok_after_the_lease(void **state)
{
    struct fixture *f = *state;
    grant_expired(f, "lock", "ann");
    rowlock_op op = queue_up_for(f, "lock", "bob", LONG_US);
    expect_ok(try_look(f, &op, 0), NULL);
}

static void test_look_tells_the_time_left(void **state)
{
    struct fixture *f = *state;
    grant(f, "lock", "ann");
    rowlock_op first = queue_up_for(f, "lock", "bob", 2 * LONG_US);
    rowlock_op second = queue_up_for(f, "lock", "col", 8 * LONG_US);
    first.remaining_us = second.remaining_us = 0;
    expect_status(ROWLOCK_BUSY, try_look(f, &first, 0), NULL);
    expect_between(first.remaining_us, LONG_US - SLACK_US, LONG_US);
    expect_status(ROWLOCK_BUSY, try_look(f, &second, 0), NULL);
    expect_between(second.remaining_us, 2 * LONG_US - SLACK_US, 2 * LONG_US);
}

static void test_look_with_a_ticket_that_left_is_lost(void **state)
{
    struct fixture *f = *state;
    rowlock_op op = queue_up_for(f, "lock", "ann", LONG_US);
    try_leave(f, f->conn, &op);
    expect_status(ROWLOCK_LOST, try_look(f, &op, 0), NULL);
    expect_status(ROWLOCK_LOST, try_look(f, &op, LONG_US), NULL);
    assert_false(in_queue(f, &op));
}

static void test_look_does_not_raise_the_dead(void **state)
{
    struct fixture *f = *state;
    rowlock_op op = queue_up_dead(f, "lock", "ann");
    expect_status(ROWLOCK_LOST, try_look(f, &op, 0), NULL);
    expect_status(ROWLOCK_LOST, try_look(f, &op, LONG_US), NULL);
    expect_status(ROWLOCK_LOST, try_look(f, &op, 0), NULL);
    grant(f, "lock", "bob");
}

static void test_look_keeps_tickets_alive(void **state)
{
    struct fixture *f = *state;
    rowlock_op op = queue_up_for(f, "lock", "ann", SLACK_US);
    expect_ok(try_look(f, &op, 4 * LONG_US), NULL);
    struct queue queue = {.count = 0};
    queue_read(f, &queue);
    assert_int_equal(queue.count, 1);
    expect_between(queue.places[0].remaining_ms, (4 * LONG_US - SLACK_US) / 1000,
                   4 * LONG_US / 1000);
}

/* Two clients' waiters, and a name with two tickets, in one question. */
static void test_look_answers_many(void **state)
{
    struct fixture *f = *state;
    grant(f, "b", "dan");
    rowlock_op gone = queue_up_for(f, "c", "ann", LONG_US);
    try_leave(f, f->conn, &gone);
    rowlock_op ops[] = {
        queue_up_for(f, "a", "ann", LONG_US),  queue_up_for(f, "a", "bob", LONG_US),
        queue_up_for(f, "b", "ann", LONG_US),  gone,
        queue_up_for(f, "dd", "bob", LONG_US),
    };
    const int expected[] = {ROWLOCK_OK, ROWLOCK_BUSY, ROWLOCK_BUSY, ROWLOCK_LOST, ROWLOCK_OK};
    for (int i = 0; i < 2; i++) {
        int64_t life = i * 2 * LONG_US;
        for (size_t j = 0; j < COUNT(ops); j++)
            ops[j].status = INT32_MIN;
        expect_ok(f->driver->look(f->conn, ops, COUNT(ops), life, CALL_MS, &f->err), &f->err);
        for (size_t j = 0; j < COUNT(ops); j++)
            expect_status(expected[j], ops[j].status, NULL);
    }
    struct queue queue = {.count = 0};
    queue_read(f, &queue);
    assert_int_equal(queue.count, 4);
    for (size_t i = 0; i < queue.count; i++)
        expect_between(queue.places[i].remaining_ms, (2 * LONG_US - SLACK_US) / 1000,
                       2 * LONG_US / 1000);
}

static void test_look_at_a_full_batch(void **state)
{
    enum { N = ROWLOCK_BATCH_MAX };
    struct fixture *f = *state;
    static char names[N][8];
    static rowlock_op ops[N];
    for (int i = 0; i < N; i++) {
        snprintf(names[i], sizeof(names[i]), "n%04d", i);
        ops[i] = op_new(names[i], "ann");
    }
    expect_ok(f->driver->enqueue(f->conn, ops, N, LONG_US, 0, CALL_MS, &f->err), &f->err);
    for (int life = 0; life < 2; life++) {
        expect_ok(f->driver->look(f->conn, ops, N, life * LONG_US, CALL_MS, &f->err), &f->err);
        for (int i = 0; i < N; i++)
            expect_ok(ops[i].status, NULL);
    }
    expect_ok(f->driver->leave(f->conn, ops, N, CALL_MS, &f->err), &f->err);
    struct queue queue = {.count = 0};
    queue_read(f, &queue);
    assert_int_equal(queue.count, 0);
}

/* ---- what it writes -------------------------------------------------------------------------- */

#define ALL_WAITERS "SELECT ticket, since_time, expire_time FROM rowlock_waiters ORDER BY ticket"
#define ALL_LOCKS   "SELECT fence, expire_time, wait_until, ticket FROM rowlock_locks ORDER BY fence"

static void test_look_without_a_life_writes_nothing(void **state)
{
    struct fixture *f = *state;
    char before[1024], after[1024];
    grant(f, "lock", "ann");
    rowlock_op op = queue_up_for(f, "lock", "bob", LONG_US);
    for (int i = 0; i < 2; i++) {
        const char *sql = i == 0 ? ALL_WAITERS : ALL_LOCKS;
        sql_run(f, sql, before, sizeof(before));
        expect_status(ROWLOCK_BUSY, try_look(f, &op, 0), NULL);
        sql_run(f, sql, after, sizeof(after));
        assert_true(strlen(before) > 10);
        assert_string_equal(before, after);
    }
}

static int64_t mark_of_all(struct fixture *f)
{
    char out[64];
    sql_run(f, "SELECT MAX(wait_until) FROM rowlock_locks", out, sizeof(out));
    return strtoll(out, NULL, 10);
}

static void test_enqueue_marks_the_row_and_look_renews_the_mark(void **state)
{
    struct fixture *f = *state;
    tables_anew(f);
    rowlock_op held = grant(f, "lock", "ann"); /* its fence is the time of that */
    rowlock_op op = queue_up_for(f, "lock", "bob", LONG_US);
    assert_true(mark_of_all(f) > (int64_t)held.fence);
    sql_run(f, "UPDATE rowlock_locks SET wait_until = 0", NULL, 0);
    expect_status(ROWLOCK_BUSY, try_look(f, &op, LONG_US), NULL);
    assert_true(mark_of_all(f) > (int64_t)held.fence);
    assert_int_equal(row_of(f, "lock").fence, held.fence);
}

/* ---- rows that somebody has locked ------------------------------------------------------------
 */

#define MOMENT_US                                                                  \
    ((int64_t)3 * 1000000) /* on a machine that is not loaded: a tenth of a second \
                            */

static void *lock_row(struct fixture *f)
{
    void *session = sql_begin(f);
    sql_in(f, session, "BEGIN");
    sql_in(f, session, "SELECT fence FROM rowlock_locks WHERE name = 'lock' FOR UPDATE");
    return session;
}

static void test_enqueue_does_not_wait_for_a_locked_row(void **state)
{
    struct fixture *f = *state;
    grant_released(f, "lock", "ann");
    lock_row(f);
    int64_t began = now_us();
    rowlock_op plain = queue_up_for(f, "lock", "bob", LONG_US);
    rowlock_op belled = queue_up(f, another(f), "lock", "col");
    expect_between(now_us() - began, 0, 2 * MOMENT_US);
    assert_true(in_queue(f, &plain) && in_queue(f, &belled));
}

static void test_look_does_not_wait_for_a_locked_row(void **state)
{
    struct fixture *f = *state;
    grant_released(f, "lock", "ann");
    rowlock_op ops[] = {queue_up_for(f, "lock", "bob", SLACK_US),
                        queue_up_for(f, "other", "bob", SLACK_US)};
    lock_row(f);
    int64_t began = now_us();
    expect_ok(f->driver->look(f->conn, ops, 2, 4 * LONG_US, CALL_MS, &f->err), &f->err);
    expect_between(now_us() - began, 0, MOMENT_US);
    struct queue queue = {.count = 0};
    queue_read(f, &queue);
    assert_int_equal(queue.count, 2);
    for (size_t i = 0; i < 2; i++) {
        expect_ok(ops[i].status, NULL);
        assert_true(queue.places[i].remaining_ms > 3 * LONG_US / 1000);
    }
}

static void test_turn_at_a_locked_row_is_busy_in_time(void **state)
{
    struct fixture *f = *state;
    grant_released(f, "lock", "ann");
    rowlock_op op = queue_up_for(f, "lock", "bob", LONG_US);
    void *session = lock_row(f);
    int64_t began = now_us();
    int status = f->driver->turn(f->conn, &op, 0, NULL, 0, 5000, &f->err);
    expect_between(now_us() - began, 0, 5000000 + MOMENT_US);
    expect_ok(status, &f->err);
    expect_status(ROWLOCK_BUSY, op.status, NULL);
    assert_true(in_queue(f, &op));
    sql_end(f, session);
    expect_ok(await_turn(f, f->conn, &op), NULL);
}

/* The row of the one behind, which somebody has locked, is none of ours. */
static void test_leave_does_not_wait_for_the_ticket_of_another(void **state)
{
    struct fixture *f = *state;
    grant(f, "lock", "ann");
    rowlock_op own = queue_up_for(f, "lock", "bob", LONG_US);
    rowlock_op other = queue_up_for(f, "lock", "col", LONG_US);
    void *session = sql_begin(f);
    sql_in(f, session, "BEGIN");
    sql_in(f, session,
           "SELECT ticket FROM rowlock_waiters WHERE name = 'lock'"
           " ORDER BY ticket DESC LIMIT 1 FOR UPDATE");
    int64_t began = now_us();
    try_leave(f, f->conn, &own);
    expect_between(now_us() - began, 0, MOMENT_US);
    assert_true(!in_queue(f, &own) && in_queue(f, &other));
}

static void test_leave_does_not_wait_for_a_locked_row(void **state)
{
    struct fixture *f = *state;
    grant_released(f, "lock", "ann");
    rowlock_op op = queue_up_for(f, "lock", "bob", LONG_US);
    lock_row(f);
    int64_t began = now_us();
    try_leave(f, f->conn, &op);
    expect_between(now_us() - began, 0, MOMENT_US);
    assert_false(in_queue(f, &op));
}

#define LOCKED (BACKEND_TICKETS | BACKEND_SQL | BACKEND_ROW_LOCKS)

static const struct test_case cases[] = {
    CASE_IF(test_look_says_who_should_try, BACKEND_TICKETS),
    CASE_IF(test_look_is_ok_for_the_owner, BACKEND_TICKETS),
    CASE_IF(test_look_is_ok_after_the_lease, BACKEND_TICKETS),
    CASE_IF(test_look_tells_the_time_left, BACKEND_TICKETS),
    CASE_IF(test_look_with_a_ticket_that_left_is_lost, BACKEND_TICKETS),
    CASE_IF(test_look_does_not_raise_the_dead, BACKEND_TICKETS),
    CASE_IF(test_look_keeps_tickets_alive, BACKEND_TICKETS),
    CASE_IF(test_look_answers_many, BACKEND_TICKETS),
    CASE_IF(test_look_at_a_full_batch, BACKEND_TICKETS),
    CASE_IF(test_look_without_a_life_writes_nothing, BACKEND_TICKETS | BACKEND_SQL),
    CASE_IF(test_enqueue_marks_the_row_and_look_renews_the_mark, BACKEND_TICKETS | BACKEND_SQL),
    CASE_IF(test_enqueue_does_not_wait_for_a_locked_row, LOCKED),
    CASE_IF(test_look_does_not_wait_for_a_locked_row, LOCKED),
    CASE_IF(test_turn_at_a_locked_row_is_busy_in_time, LOCKED),
    CASE_IF(test_leave_does_not_wait_for_a_locked_row, LOCKED),
    CASE_IF(test_leave_does_not_wait_for_the_ticket_of_another, LOCKED),
};

const struct suite queue_look_suite = SUITE("queue_look", cases);
