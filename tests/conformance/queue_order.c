/* SPDX-License-Identifier: MIT
 *
 * Tickets are an order: their numbers, and whom they keep from a free lock. */
#include "queue.h"

#define HOUR_US ((uint64_t)3600 * 1000000)

/* ---- numbers --------------------------------------------------------------------------------- */

static void test_tickets_rise(void **state)
{
    struct fixture *f = *state;
    uint64_t last = 0;
    for (int i = 0; i < 10; i++) {
        rowlock_op op = queue_up_for(f, "lock", "ann", LONG_US);
        assert_true(op.ticket > last);
        last = op.ticket;
        if (i % 3 == 0)
            try_leave(f, f->conn, &op);
    }
}

static void test_ticket_is_the_time_if_nobody_is_ahead(void **state)
{
    struct fixture *f = *state;
    tables_anew(f);
    rowlock_op held = grant(f, "lock", "ann"); /* its fence is now, in microseconds */
    rowlock_op op = queue_up_for(f, "lock", "bob", LONG_US);
    expect_between((int64_t)(op.ticket - held.fence), 0, SLACK_US);
}

static void test_ticket_is_above_those_of_the_future(void **state)
{
    struct fixture *f = *state;
    queue_clear(f);
    rowlock_op first = queue_up_for(f, "lock", "ann", LONG_US);
    sql_run(f, "UPDATE rowlock_waiters SET ticket = ticket + 3600000000", NULL, 0);
    rowlock_op second = queue_up_for(f, "lock", "bob", LONG_US);
    assert_int_equal(second.ticket, first.ticket + HOUR_US + 1);
}

static void test_ticket_is_above_the_one_the_lock_was_last_taken_by(void **state)
{
    struct fixture *f = *state;
    void *conn = another(f);
    rowlock_op first = grant_by_ticket(f, conn, "lock", "ann", LONG_US);
    give_back(f, conn, &first);
    sql_run(f, "UPDATE rowlock_locks SET ticket = ticket + 3600000000", NULL, 0);
    rowlock_op second = queue_up_for(f, "lock", "bob", LONG_US);
    assert_int_equal(second.ticket, first.ticket + HOUR_US + 1);
}

static void test_ticket_of_several_names_is_one_number_above_all(void **state)
{
    struct fixture *f = *state;
    queue_clear(f);
    rowlock_op first = queue_up_for(f, "b", "ann", LONG_US);
    sql_run(f, "UPDATE rowlock_waiters SET ticket = ticket + 3600000000", NULL, 0);
    rowlock_op ops[] = {op_new("a", "bob"), op_new("b", "bob"), op_new("c", "bob")};
    int status = f->driver->enqueue(f->conn, ops, COUNT(ops), LONG_US, 0, CALL_MS, &f->err);
    expect_ok(status, &f->err);
    for (size_t i = 0; i < COUNT(ops); i++) {
        expect_status(ROWLOCK_BUSY, ops[i].status, NULL);
        assert_int_equal(ops[i].ticket, first.ticket + HOUR_US + 1);
        assert_true(in_queue(f, &ops[i]));
    }
}

/* ---- who may take a free lock ---------------------------------------------------------------- */

static void expect_in_line(const rowlock_op *op)
{
    expect_status(ROWLOCK_BUSY, op->status, NULL);
    assert_int_equal(op->is_queue, 1);
    assert_string_equal(op->holder, "");
}

static void expect_free(struct fixture *f, const char *name)
{
    rowlock_op op = op_new(name, "newcomer");
    op.is_queue = 1;
    expect_ok(try_acquire(f, f->conn, &op), NULL);
    give_back(f, f->conn, &op);
}

static void test_free_lock_with_a_waiter_is_busy_to_a_newcomer(void **state)
{
    struct fixture *f = *state;
    rowlock_op old = grant_released(f, "lock", "ann");
    queue_up_for(f, "lock", "bob", LONG_US);
    rowlock_op op = op_new("lock", "col");
    memset(op.holder, 'x', sizeof(op.holder));
    try_acquire(f, f->conn, &op);
    expect_in_line(&op);
    rowlock_op former = op_new("lock", "ann"); /* holds it no more */
    try_acquire(f, f->conn, &former);
    expect_in_line(&former);
    assert_int_equal(row_of(f, "lock").fence, old.fence);
}

static void test_absent_lock_with_a_waiter_is_busy_to_a_newcomer(void **state)
{
    struct fixture *f = *state;
    queue_up_for(f, "lock", "bob", LONG_US);
    rowlock_op op = op_new("lock", "col");
    try_acquire(f, f->conn, &op);
    expect_in_line(&op);
}

static void test_expired_lock_with_a_waiter_is_busy_to_a_newcomer(void **state)
{
    struct fixture *f = *state;
    grant_expired(f, "lock", "ann");
    queue_up_for(f, "lock", "bob", LONG_US);
    rowlock_op op = op_new("lock", "col");
    try_acquire(f, f->conn, &op);
    expect_in_line(&op);
}

static void test_held_lock_with_a_waiter_is_busy_by_its_holder(void **state)
{
    struct fixture *f = *state;
    grant(f, "lock", "ann");
    queue_up_for(f, "lock", "bob", LONG_US);
    rowlock_op op = op_new("lock", "col");
    op.is_queue = 1;
    expect_status(ROWLOCK_BUSY, try_acquire(f, f->conn, &op), NULL);
    assert_int_equal(op.is_queue, 0);
    assert_string_equal(op.holder, "ann");
}

static void test_waiter_for_one_name_keeps_all_from_newcomers(void **state)
{
    struct fixture *f = *state;
    queue_up_for(f, "b", "bob", LONG_US);
    rowlock_op ops[] = {op_new("a", "col"), op_new("b", "col"), op_new("c", "col")};
    ops_acquire(f, f->conn, ops, COUNT(ops), 1);
    for (size_t i = 0; i < COUNT(ops); i++) {
        expect_status(ROWLOCK_BUSY, ops[i].status, NULL);
        assert_string_equal(ops[i].holder, "");
        assert_int_equal(ops[i].is_queue, i == 1);
    }
    struct rows live = rows_query(f, NULL, 0, 0);
    assert_int_equal(live.count, 0);
    rows_free(&live);
}

static void test_waiter_for_one_name_leaves_the_others_alone(void **state)
{
    struct fixture *f = *state;
    queue_up_for(f, "b", "bob", LONG_US);
    rowlock_op ops[] = {op_new("a", "col"), op_new("b", "col"), op_new("c", "col")};
    ops_acquire(f, f->conn, ops, COUNT(ops), 0);
    expect_ok(ops[0].status, NULL);
    expect_in_line(&ops[1]);
    expect_ok(ops[2].status, NULL);
}

static void test_barge_takes_a_free_lock_whoever_waits(void **state)
{
    struct fixture *f = *state;
    rowlock_op old = grant_released(f, "lock", "ann");
    rowlock_op waiting = queue_up_for(f, "lock", "bob", LONG_US);
    rowlock_op op = op_new("lock", "col");
    op.barge = 1;
    expect_ok(try_acquire(f, f->conn, &op), NULL);
    assert_true(op.fence > old.fence);
    assert_true(in_queue(f, &waiting));
    rowlock_op held = op_new("lock", "dan");
    held.barge = 1;
    expect_status(ROWLOCK_BUSY, try_acquire(f, f->conn, &held), NULL);
    assert_string_equal(held.holder, "col");
}

static void test_holder_reenters_whoever_waits(void **state)
{
    struct fixture *f = *state;
    rowlock_op held = grant(f, "lock", "ann");
    queue_up_for(f, "lock", "bob", LONG_US);
    rowlock_op op = op_new("lock", "ann");
    expect_ok(try_acquire(f, f->conn, &op), NULL);
    assert_int_equal(op.hold_count, 2);
    assert_int_equal(op.fence, held.fence);
}

static void test_lock_is_free_when_the_last_waiter_has_left(void **state)
{
    struct fixture *f = *state;
    rowlock_op first = queue_up_for(f, "lock", "ann", LONG_US);
    rowlock_op second = queue_up_for(f, "lock", "bob", LONG_US);
    try_leave(f, f->conn, &first);
    rowlock_op op = op_new("lock", "col");
    try_acquire(f, f->conn, &op);
    expect_in_line(&op);
    try_leave(f, f->conn, &second);
    expect_free(f, "lock");
}

static void test_lock_is_free_when_the_waiters_have_died(void **state)
{
    struct fixture *f = *state;
    grant_released(f, "lock", "ann");
    queue_up_dead(f, "lock", "bob");
    queue_up_dead(f, "lock", "col");
    expect_free(f, "lock");
}

/* One that is not above the ticket the lock was last taken by is past, although it lives. */
static void test_ticket_of_the_past_stands_in_nobodys_way(void **state)
{
    struct fixture *f = *state;
    grant_released(f, "lock", "ann");
    rowlock_op past = queue_up_for(f, "lock", "bob", LONG_US);
    sql_run(f, "UPDATE rowlock_locks SET ticket = fence + 3600000000", NULL, 0);
    rowlock_op next = queue_up_for(f, "lock", "col", LONG_US);
    assert_true(next.ticket > past.ticket + HOUR_US / 2);
    expect_ok(try_look(f, &next, 0), NULL);
    expect_ok(try_turn(f, f->conn, &next, 0), NULL);
    give_back(f, f->conn, &next);
    expect_free(f, "lock");
}

/* ---- several names by one ticket ------------------------------------------------------------- */

static void queue_up_two(struct fixture *f, rowlock_op *ops, const char *owner)
{
    ops[0] = op_new("a", owner);
    ops[1] = op_new("b", owner);
    expect_ok(f->driver->enqueue(f->conn, ops, 2, LONG_US, 0, CALL_MS, &f->err), &f->err);
}

static void test_names_are_taken_by_one_ticket(void **state)
{
    struct fixture *f = *state;
    rowlock_op ops[2];
    queue_up_two(f, ops, "ann");
    rowlock_op last = queue_up_for(f, "b", "bob", LONG_US);
    ops_acquire(f, f->conn, ops, 2, 1);
    for (size_t i = 0; i < 2; i++) {
        expect_ok(ops[i].status, NULL);
        assert_int_equal(ops[i].hold_count, 1);
        assert_false(in_queue(f, &ops[i]));
        uint64_t fence = ops[i].fence;
        expect_ok(try_acquire(f, f->conn, &ops[i]), NULL); /* repeated */
        assert_int_equal(ops[i].hold_count, 1);
        assert_int_equal(ops[i].fence, fence);
    }
    assert_true(in_queue(f, &last));
}

static void test_names_are_taken_all_or_none(void **state)
{
    struct fixture *f = *state;
    rowlock_op held = grant(f, "b", "col"), ops[2];
    queue_up_two(f, ops, "ann");
    ops_acquire(f, f->conn, ops, 2, 1);
    expect_status(ROWLOCK_BUSY, ops[0].status, NULL);
    expect_status(ROWLOCK_BUSY, ops[1].status, NULL);
    assert_string_equal(ops[0].holder, "");
    assert_string_equal(ops[1].holder, "col");
    assert_true(in_queue(f, &ops[0]) && in_queue(f, &ops[1]));
    give_back(f, f->conn, &held);
    ops_acquire(f, f->conn, ops, 2, 1);
    expect_ok(ops[0].status, NULL);
    expect_ok(ops[1].status, NULL);
}

static void test_names_wait_for_the_lower_ticket_of_one(void **state)
{
    struct fixture *f = *state;
    rowlock_op first = queue_up_for(f, "b", "bob", LONG_US), ops[2];
    queue_up_two(f, ops, "ann");
    ops_acquire(f, f->conn, ops, 2, 1);
    expect_status(ROWLOCK_BUSY, ops[0].status, NULL);
    expect_in_line(&ops[1]);
    struct rows live = rows_query(f, NULL, 0, 0);
    assert_int_equal(live.count, 0);
    rows_free(&live);
    try_leave(f, f->conn, &first);
    ops_acquire(f, f->conn, ops, 2, 1);
    expect_ok(ops[0].status, NULL);
    expect_ok(ops[1].status, NULL);
}

static void test_names_can_be_taken_by_a_ticket_that_is_gone(void **state)
{
    struct fixture *f = *state;
    rowlock_op ops[2];
    queue_up_two(f, ops, "ann");
    expect_ok(f->driver->leave(f->conn, ops, 2, CALL_MS, &f->err), &f->err);
    ops_acquire(f, f->conn, ops, 2, 1);
    expect_ok(ops[0].status, NULL);
    expect_ok(ops[1].status, NULL);
}

#define SQL (BACKEND_TICKETS | BACKEND_SQL)

static const struct test_case cases[] = {
    CASE_IF(test_tickets_rise, BACKEND_TICKETS),
    CASE_IF(test_ticket_is_the_time_if_nobody_is_ahead, BACKEND_TICKETS),
    CASE_IF(test_ticket_is_above_those_of_the_future, SQL),
    CASE_IF(test_ticket_is_above_the_one_the_lock_was_last_taken_by, SQL),
    CASE_IF(test_ticket_of_several_names_is_one_number_above_all, SQL),
    CASE_IF(test_free_lock_with_a_waiter_is_busy_to_a_newcomer, BACKEND_TICKETS),
    CASE_IF(test_absent_lock_with_a_waiter_is_busy_to_a_newcomer, BACKEND_TICKETS),
    CASE_IF(test_expired_lock_with_a_waiter_is_busy_to_a_newcomer, BACKEND_TICKETS),
    CASE_IF(test_held_lock_with_a_waiter_is_busy_by_its_holder, BACKEND_TICKETS),
    CASE_IF(test_waiter_for_one_name_keeps_all_from_newcomers, BACKEND_TICKETS),
    CASE_IF(test_waiter_for_one_name_leaves_the_others_alone, BACKEND_TICKETS),
    CASE_IF(test_barge_takes_a_free_lock_whoever_waits, BACKEND_TICKETS),
    CASE_IF(test_holder_reenters_whoever_waits, BACKEND_TICKETS),
    CASE_IF(test_lock_is_free_when_the_last_waiter_has_left, BACKEND_TICKETS),
    CASE_IF(test_lock_is_free_when_the_waiters_have_died, BACKEND_TICKETS),
    CASE_IF(test_ticket_of_the_past_stands_in_nobodys_way, SQL),
    CASE_IF(test_names_are_taken_by_one_ticket, BACKEND_TICKETS),
    CASE_IF(test_names_are_taken_all_or_none, BACKEND_TICKETS),
    CASE_IF(test_names_wait_for_the_lower_ticket_of_one, BACKEND_TICKETS),
    CASE_IF(test_names_can_be_taken_by_a_ticket_that_is_gone, BACKEND_TICKETS),
};

const struct suite queue_order_suite = SUITE("queue_order", cases);
