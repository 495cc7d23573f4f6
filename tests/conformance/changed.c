/* SPDX-License-Identifier: MIT
 *
 * Releases that expect another request id than the row has, with one hold left: a late one, which
 * arrives after its own repetition and a re-entry. Every way to release, the short ones and the
 * long ones, leaves the hold alone and says what the row has. */
#include "queue.h"

/* Ann holds it once, and has entered and left since the first request. *first: what was granted by
 * that. The row's request id. */
static rowlock_op hold_changed(struct fixture *f, void *conn, const char *name, rowlock_op *first)
{
    rowlock_op again = op_new(name, "ann"), back;
    *first = op_new(name, "ann");
    expect_ok(try_acquire(f, conn, first), NULL);
    expect_ok(try_acquire(f, conn, &again), NULL);
    back = op_of(&again);
    expect_ok(try_release(f, conn, &back), NULL);
    assert_int_equal(back.hold_count, 1);
    return back;
}

/* A release of the first request's hold, that has seen no other. */
static rowlock_op late_release(const rowlock_op *first)
{
    rowlock_op op = op_of(first);
    memcpy(op.seen, first->attempt, sizeof(op.seen));
    return op;
}

static void expect_changed(struct fixture *f, const rowlock_op *op, const rowlock_op *last)
{
    expect_status(ROWLOCK_BUSY, op->status, NULL);
    assert_memory_equal(op->seen, last->attempt, sizeof(op->seen));
    assert_int_equal(row_of(f, "lock").hold_count, 1);
}

/* The connection has met free rows, or held ones. */
static void meet(struct fixture *f, int are_held)
{
    grant(f, "met held", "bob");
    for (int i = 0; i < 3; i++) {
        rowlock_op op = op_new("met held", "cid");
        if (are_held)
            expect_status(ROWLOCK_BUSY, try_acquire(f, f->conn, &op), NULL);
        else
            grant_released(f, "met free", "cid");
    }
}

static void test_changed_lock_is_not_released(void **state)
{
    struct fixture *f = *state;
    for (int are_held = 0; are_held <= 1; are_held++) {
        rowlock_op first, last = hold_changed(f, f->conn, "lock", &first);
        meet(f, are_held);
        rowlock_op op = late_release(&first);
        try_release(f, f->conn, &op);
        expect_changed(f, &op, &last);
        op = op_of(&last);
        expect_ok(try_release(f, f->conn, &op), NULL);
    }
}

static void test_changed_lock_is_not_released_among_several(void **state)
{
    struct fixture *f = *state;
    for (int are_held = 0; are_held <= 1; are_held++) {
        rowlock_op first, last = hold_changed(f, f->conn, "lock", &first);
        rowlock_op other = grant(f, "a", "ann");
        meet(f, are_held);
        rowlock_op ops[] = {op_of(&other), late_release(&first)};
        ops_release(f, f->conn, ops, COUNT(ops));
        expect_ok(ops[0].status, NULL);
        expect_changed(f, &ops[1], &last);
        ops[0] = op_of(&last);
        expect_ok(try_release(f, f->conn, &ops[0]), NULL);
    }
}

/* Beside acquires of other names; of one, and of several. */
static void test_changed_lock_is_not_released_by_an_exchange(void **state)
{
    struct fixture *f = *state;
    for (size_t m = 1; m <= 2; m++) {
        for (int are_held = 0; are_held <= 1; are_held++) {
            rowlock_op first, last = hold_changed(f, f->conn, "lock", &first);
            grant_released(f, "a", "bob");
            grant_released(f, "b", "bob");
            meet(f, are_held);
            rowlock_op op = late_release(&first);
            rowlock_op taken[] = {op_new("a", "bob"), op_new("b", "bob")};
            ops_exchange(f, f->conn, &op, 1, taken, m);
            expect_changed(f, &op, &last);
            for (size_t i = 0; i < m; i++)
                give_back(f, f->conn, &taken[i]);
            op = op_of(&last);
            expect_ok(try_release(f, f->conn, &op), NULL);
        }
    }
}

static void test_changed_lock_is_not_handed_over(void **state)
{
    struct fixture *f = *state;
    for (int are_held = 0; are_held <= 1; are_held++) {
        rowlock_op first, last = hold_changed(f, f->conn, "lock", &first);
        meet(f, are_held);
        rowlock_op op = late_release(&first), next = op_new("lock", "bob");
        ops_exchange(f, f->conn, &op, 1, &next, 1);
        expect_changed(f, &op, &last);
        expect_status(ROWLOCK_BUSY, next.status, NULL);
        op = op_of(&last);
        expect_ok(try_release(f, f->conn, &op), NULL);
    }
}

/* On the connection that has the bell. */
static void test_changed_lock_by_ticket_is_not_released(void **state)
{
    struct fixture *f = *state;
    void *conn = another(f);
    rowlock_op first = grant_by_ticket(f, conn, "lock", "ann", LONG_US);
    rowlock_op again = op_new("lock", "ann"), last;
    expect_ok(try_acquire(f, conn, &again), NULL);
    last = op_of(&again);
    expect_ok(try_release(f, conn, &last), NULL);
    rowlock_op op = late_release(&first);
    op.ticket = first.ticket;
    try_release(f, conn, &op);
    expect_changed(f, &op, &last);
}

static const struct test_case cases[] = {
    CASE(test_changed_lock_is_not_released),
    CASE(test_changed_lock_is_not_released_among_several),
    CASE_IF(test_changed_lock_is_not_released_by_an_exchange, BACKEND_EXCHANGE),
    CASE_IF(test_changed_lock_is_not_handed_over, BACKEND_EXCHANGE),
    CASE_IF(test_changed_lock_by_ticket_is_not_released, BACKEND_TICKETS),
};

const struct suite changed_suite = SUITE("changed", cases);
