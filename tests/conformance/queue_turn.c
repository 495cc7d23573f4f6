/* SPDX-License-Identifier: MIT
 *
 * The slot turn without a wait, and leave. */
#include "queue.h"

static void test_turn_takes_a_free_lock(void **state)
{
    struct fixture *f = *state;
    rowlock_op old = grant_released(f, "lock", "ann");
    rowlock_op op = queue_up_for(f, "lock", "bob", LONG_US);
    op.note = "work";
    expect_ok(try_turn(f, f->conn, &op, 0), NULL);
    assert_true(op.fence > old.fence);
    assert_int_equal(op.hold_count, 1);
    expect_between(op.remaining_us, LONG_US - SLACK_US, LONG_US);
    struct row row = row_of(f, "lock");
    assert_string_equal(row.owner, "bob");
    assert_string_equal(row.note, "work");
    assert_int_equal(row.fence, op.fence);
    assert_int_equal(row.hold_count, 1);
}

static void test_turn_makes_the_row_of_an_absent_name(void **state)
{
    struct fixture *f = *state;
    rowlock_op op = queue_up(f, another(f), "new", "ann");
    assert_false(row_exists(f, "new"));
    expect_ok(try_turn(f, f->others[0], &op, 0), NULL);
    assert_int_equal(op.hold_count, 1);
    assert_int_equal(row_of(f, "new").fence, op.fence);
}

static void test_turn_takes_the_ticket_off_the_queue(void **state)
{
    struct fixture *f = *state;
    rowlock_op op = queue_up_for(f, "lock", "ann", LONG_US);
    rowlock_op other = queue_up_for(f, "other", "ann", LONG_US);
    assert_true(in_queue(f, &op));
    expect_ok(try_turn(f, f->conn, &op, 0), NULL);
    assert_false(in_queue(f, &op));
    assert_true(in_queue(f, &other));
}

static void test_turn_is_for_the_lowest_ticket(void **state)
{
    struct fixture *f = *state;
    rowlock_op ops[3];
    const char *const owners[] = {"ann", "bob", "col"};
    for (size_t i = 0; i < 3; i++)
        ops[i] = queue_up_for(f, "lock", owners[i], LONG_US);
    for (size_t i = 0; i < 3; i++) {
        for (size_t j = 2; j > i; j--) {
            expect_status(ROWLOCK_BUSY, try_turn(f, f->conn, &ops[j], 0), NULL);
            assert_string_equal(ops[j].holder, "");
        }
        expect_ok(try_turn(f, f->conn, &ops[i], 0), NULL);
        if (i < 2)
            expect_status(ROWLOCK_BUSY, try_turn(f, f->conn, &ops[i + 1], 0), NULL);
        give_back(f, f->conn, &ops[i]);
    }
}

static void test_turn_raises_the_fence_each_time(void **state)
{
    struct fixture *f = *state;
    uint64_t last = grant_released(f, "lock", "ann").fence;
    for (int i = 0; i < 5; i++) {
        if (i == 2) {
            sql_run(f, "UPDATE rowlock_locks SET fence = fence + 3600000000", NULL, 0);
            last = row_of(f, "lock").fence;
        }
        rowlock_op op = queue_up_for(f, "lock", "ann", LONG_US);
        expect_ok(try_turn(f, f->conn, &op, 0), NULL);
        assert_true(op.fence > last);
        assert_true(i < 2 || op.fence == last + 1);
        last = op.fence;
        give_back(f, f->conn, &op);
    }
}

static void test_turn_passes_over_who_was_taken_off(void **state)
{
    struct fixture *f = *state;
    rowlock_op first = queue_up_for(f, "lock", "ann", LONG_US);
    rowlock_op second = queue_up_for(f, "lock", "bob", LONG_US);
    expect_status(ROWLOCK_BUSY, try_turn(f, f->conn, &second, 0), NULL);
    try_leave(f, f->conn, &first);
    expect_ok(try_turn(f, f->conn, &second, 0), NULL);
}

static void test_turn_passes_over_the_dead(void **state)
{
    struct fixture *f = *state;
    grant_released(f, "lock", "dan");
    queue_up_dead(f, "lock", "ann");
    rowlock_op op = queue_up_for(f, "lock", "bob", LONG_US);
    queue_up_dead(f, "lock", "col");
    expect_ok(try_turn(f, f->conn, &op, 0), NULL);
}

static void test_turn_of_a_ticket_that_left_is_lost(void **state)
{
    struct fixture *f = *state;
    rowlock_op op = queue_up_for(f, "lock", "ann", LONG_US);
    try_leave(f, f->conn, &op);
    expect_status(ROWLOCK_LOST, try_turn(f, f->conn, &op, 0), NULL);
    assert_false(row_exists(f, "lock"));
    grant(f, "lock", "bob");
    expect_status(ROWLOCK_LOST, try_turn(f, f->conn, &op, 0), NULL);
}

/* The same attempt on another connection, as after a reply that was lost. */
static void test_turn_repeated_gives_the_same_answer(void **state)
{
    struct fixture *f = *state;
    void *conn = another(f);
    rowlock_op op = queue_up(f, conn, "lock", "ann");
    queue_up_for(f, "lock", "bob", LONG_US);
    expect_ok(try_turn(f, conn, &op, 0), NULL);
    rowlock_op again = op;
    again.fence = again.hold_count = 0;
    for (int i = 0; i < 3; i++) {
        expect_ok(try_turn(f, f->conn, &again, 0), NULL);
        assert_int_equal(again.fence, op.fence);
        assert_int_equal(again.hold_count, 1);
    }
    assert_int_equal(row_of(f, "lock").hold_count, 1);
    assert_int_equal(again.rings, 0); /* the bell is on the other connection */
}

static void test_turn_after_own_tenure_has_ended_is_lost(void **state)
{
    struct fixture *f = *state;
    rowlock_op op = queue_up_for(f, "lock", "ann", LONG_US);
    expect_ok(try_turn(f, f->conn, &op, 0), NULL);
    give_back(f, f->conn, &op);
    expect_status(ROWLOCK_LOST, try_turn(f, f->conn, &op, 0), NULL);
    assert_int_equal(row_of(f, "lock").hold_count, 0);
}

static void test_busy_turn_tells_the_holder_and_its_lease(void **state)
{
    struct fixture *f = *state;
    rowlock_op held = grant(f, "lock", "ann");
    rowlock_op op = queue_up_for(f, "lock", "bob", LONG_US * 2);
    expect_between(op.remaining_us, LONG_US - SLACK_US, LONG_US);
    op.remaining_us = 0;
    memset(op.holder, 'x', sizeof(op.holder));
    expect_status(ROWLOCK_BUSY, try_turn(f, f->conn, &op, 0), NULL);
    assert_string_equal(op.holder, "ann");
    assert_int_equal(op.holder_fence, held.fence);
    assert_int_equal(op.before, 0); /* came without a ticket */
    expect_between(op.remaining_us, LONG_US - SLACK_US, LONG_US);
    assert_int_equal(row_of(f, "lock").hold_count, 1);
    assert_true(in_queue(f, &op));
}

/* The second in line has nothing to hope for from the end of the lease alone. */
static void test_busy_turn_tells_the_life_of_the_one_before(void **state)
{
    struct fixture *f = *state;
    grant(f, "lock", "ann");
    queue_up_for(f, "lock", "bob", LONG_US * 2);
    rowlock_op op = queue_up_for(f, "lock", "col", LONG_US * 8);
    expect_between(op.remaining_us, LONG_US * 2 - SLACK_US, LONG_US * 2);
    op.remaining_us = 0;
    expect_status(ROWLOCK_BUSY, try_turn(f, f->conn, &op, 0), NULL);
    expect_between(op.remaining_us, LONG_US * 2 - SLACK_US, LONG_US * 2);
}

static void test_first_in_line_for_a_free_lock_may_try_at_once(void **state)
{
    struct fixture *f = *state;
    grant_released(f, "lock", "ann");
    rowlock_op op = queue_up_for(f, "lock", "bob", LONG_US);
    expect_between(op.remaining_us, 0, 0);
    rowlock_op absent = queue_up_for(f, "absent", "bob", LONG_US);
    expect_between(absent.remaining_us, 0, 0);
}

static void test_turn_names_the_ticket_to_wait_for(void **state)
{
    struct fixture *f = *state;
    void *a = another(f), *b = another(f), *c = another(f);
    rowlock_op held = grant_by_ticket(f, a, "lock", "ann", LONG_US);
    rowlock_op first = queue_up(f, b, "lock", "bob");
    rowlock_op second = queue_up(f, c, "lock", "col");
    if (second.before == 0)
        return;
    assert_int_equal(first.can_wait, 1);
    assert_int_equal(first.before, held.ticket);
    assert_int_equal(second.before, first.ticket);
    first.before = second.before = 0;
    expect_status(ROWLOCK_BUSY, try_turn(f, b, &first, 0), NULL);
    expect_status(ROWLOCK_BUSY, try_turn(f, c, &second, 0), NULL);
    assert_int_equal(first.before, held.ticket);
    assert_int_equal(second.before, first.ticket);
    assert_true(first.can_wait && second.can_wait);
}

static void test_granted_turn_rings_where_bells_are(void **state)
{
    struct fixture *f = *state;
    void *conn = another(f);
    rowlock_op op = queue_up(f, conn, "lock", "ann");
    rowlock_op next = queue_up(f, another(f), "lock", "bob");
    assert_true(op.rings || next.before == 0);
    int64_t began = now_us();
    expect_ok(try_turn(f, conn, &op, 0), NULL);
    expect_between(op.waited_us, 0, now_us() - began);
    assert_int_equal(op.rings, next.before == op.ticket);
    give_back(f, conn, &op);
    expect_ok(await_turn(f, f->others[1], &next), NULL);
    rowlock_op plain = queue_up_for(f, "other", "ann", LONG_US);
    expect_ok(try_turn(f, f->conn, &plain, 0), NULL);
    assert_int_equal(plain.rings, 0);
}

/* A lock taken by ticket is like any other to renew, re-entry and force. */
static void test_lock_by_ticket_is_a_lock(void **state)
{
    struct fixture *f = *state;
    void *conn = another(f);
    rowlock_op held = grant_by_ticket(f, conn, "lock", "ann", LONG_US);
    rowlock_op op = op_of(&held);
    expect_ok(try_renew(f, f->conn, &op), NULL);
    op = op_new("lock", "ann");
    expect_ok(try_acquire(f, f->conn, &op), NULL);
    assert_int_equal(op.hold_count, 2);
    assert_int_equal(op.fence, held.fence);
    op = op_of(&held);
    expect_ok(try_release(f, f->conn, &op), NULL);
    assert_int_equal(op.hold_count, 1);
    op = op_of(&held);
    expect_ok(try_force(f, f->conn, &op), NULL);
    op = op_ringing(&held);
    expect_status(ROWLOCK_LOST, try_release(f, conn, &op), NULL);
}

static void test_leave_of_a_ticket_that_is_not_there_is_ok(void **state)
{
    struct fixture *f = *state;
    rowlock_op op = queue_up_for(f, "lock", "ann", LONG_US);
    rowlock_op other = queue_up_for(f, "lock", "bob", LONG_US);
    try_leave(f, f->conn, &op);
    try_leave(f, f->conn, &op);
    assert_true(in_queue(f, &other));
    op = op_new("absent", "ann");
    op.ticket = other.ticket;
    try_leave(f, f->conn, &op);
    assert_true(in_queue(f, &other));
}

static void test_leave_takes_several_names(void **state)
{
    struct fixture *f = *state;
    rowlock_op ops[] = {op_new("a", "ann"), op_new("b", "ann"), op_new("c", "ann")};
    int status = f->driver->enqueue(f->conn, ops, COUNT(ops), LONG_US, 0, CALL_MS, &f->err);
    expect_ok(status, &f->err);
    expect_ok(f->driver->leave(f->conn, ops, COUNT(ops), CALL_MS, &f->err), &f->err);
    for (size_t i = 0; i < COUNT(ops); i++) {
        expect_ok(ops[i].status, NULL);
        assert_false(in_queue(f, &ops[i]));
    }
}

static const struct test_case cases[] = {
    CASE_IF(test_turn_takes_a_free_lock, BACKEND_TICKETS),
    CASE_IF(test_turn_makes_the_row_of_an_absent_name, BACKEND_TICKETS),
    CASE_IF(test_turn_takes_the_ticket_off_the_queue, BACKEND_TICKETS),
    CASE_IF(test_turn_is_for_the_lowest_ticket, BACKEND_TICKETS),
    CASE_IF(test_turn_raises_the_fence_each_time, BACKEND_TICKETS | BACKEND_SQL),
    CASE_IF(test_turn_passes_over_who_was_taken_off, BACKEND_TICKETS),
    CASE_IF(test_turn_passes_over_the_dead, BACKEND_TICKETS),
    CASE_IF(test_turn_of_a_ticket_that_left_is_lost, BACKEND_TICKETS),
    CASE_IF(test_turn_repeated_gives_the_same_answer, BACKEND_TICKETS),
    CASE_IF(test_turn_after_own_tenure_has_ended_is_lost, BACKEND_TICKETS),
    CASE_IF(test_busy_turn_tells_the_holder_and_its_lease, BACKEND_TICKETS),
    CASE_IF(test_busy_turn_tells_the_life_of_the_one_before, BACKEND_TICKETS),
    CASE_IF(test_first_in_line_for_a_free_lock_may_try_at_once, BACKEND_TICKETS),
    CASE_IF(test_turn_names_the_ticket_to_wait_for, BACKEND_TICKETS),
    CASE_IF(test_granted_turn_rings_where_bells_are, BACKEND_TICKETS),
    CASE_IF(test_lock_by_ticket_is_a_lock, BACKEND_TICKETS),
    CASE_IF(test_leave_of_a_ticket_that_is_not_there_is_ok, BACKEND_TICKETS),
    CASE_IF(test_leave_takes_several_names, BACKEND_TICKETS),
};

const struct suite queue_turn_suite = SUITE("queue_turn", cases);
