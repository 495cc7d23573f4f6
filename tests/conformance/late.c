/* SPDX-License-Identifier: MIT
 *
 * Acquire requests that arrive late: their client has lost the connection, asked again on another
 * and gone on since. Its attempts say so: they begin alike, and the row has a larger one. */
#include <string.h>

#include "queue.h"

/* The `number`-th call of a client. */
static void set_attempt(rowlock_op *op, uint8_t client, uint8_t number)
{
    memset(op->attempt, client, sizeof(op->attempt));
    memset(op->attempt + 8, 0, 8);
    op->attempt[15] = number;
}

static rowlock_op op_by(const char *name, const char *owner, uint8_t client, uint8_t number)
{
    rowlock_op op = op_new(name, owner);
    set_attempt(&op, client, number);
    return op;
}

static rowlock_op release_by(const rowlock_op *held, uint8_t client, uint8_t number)
{
    rowlock_op op = op_of(held);
    set_attempt(&op, client, number);
    return op;
}

/* Had by call 5, which is the late one, and given back by call 6. */
static rowlock_op gone_by(struct fixture *f, const char *name)
{
    rowlock_op op = op_by(name, "ann", 1, 5);
    expect_ok(try_acquire(f, f->conn, &op), NULL);
    rowlock_op back = release_by(&op, 1, 6);
    expect_ok(try_release(f, f->conn, &back), NULL);
    return op;
}

/* Drivers have other statements for connections that have just met free rows. */
static void meet_free_rows(struct fixture *f, void *conn)
{
    for (int i = 0; i < 3; i++) {
        rowlock_op op = op_new("usual", "ann");
        expect_ok(try_acquire(f, conn, &op), NULL);
        rowlock_op back = op_of(&op);
        expect_ok(try_release(f, conn, &back), NULL);
    }
}

static void expect_free(struct fixture *f, const char *name, uint64_t fence)
{
    struct row row = row_of(f, name);
    assert_int_equal(row.fence, fence);
    assert_int_equal(row.hold_count, 0);
    assert_true(row.remaining_ms <= 0);
}

static void test_late_acquire_does_not_take_a_released_lock(void **state)
{
    struct fixture *f = *state;
    for (int usual = 0; usual <= 1; usual++) {
        const char *name = usual ? "usual lock" : "lock";
        void *conn = another(f);
        rowlock_op had = gone_by(f, name), late = op_by(name, "ann", 1, 5);
        if (usual)
            meet_free_rows(f, conn);
        expect_status(ROWLOCK_LOST, try_acquire(f, conn, &late), NULL);
        expect_free(f, name, had.fence);
    }
}

static void test_late_acquire_of_a_batch_does_not_take_a_released_lock(void **state)
{
    struct fixture *f = *state;
    for (int usual = 0; usual <= 1; usual++) {
        const char *name = usual ? "b" : "c";
        void *conn = another(f);
        rowlock_op had = gone_by(f, name);
        rowlock_op ops[] = {op_by("a", "ann", 1, 4), op_by(name, "ann", 1, 5)};
        if (usual)
            meet_free_rows(f, conn);
        ops_acquire(f, conn, ops, COUNT(ops), 0);
        expect_ok(ops[0].status, NULL);
        expect_status(ROWLOCK_LOST, ops[1].status, NULL);
        expect_free(f, name, had.fence);
        rowlock_op back = release_by(&ops[0], 2, 1);
        expect_ok(try_release(f, f->conn, &back), NULL);
    }
}

static void test_late_acquire_of_all_takes_none(void **state)
{
    struct fixture *f = *state;
    rowlock_op had = gone_by(f, "b"), other = grant_released(f, "a", "bob");
    rowlock_op ops[] = {op_by("a", "ann", 1, 4), op_by("b", "ann", 1, 5)};
    ops_acquire(f, f->conn, ops, COUNT(ops), 1);
    expect_status(ROWLOCK_BUSY, ops[0].status, NULL);
    expect_status(ROWLOCK_LOST, ops[1].status, NULL);
    expect_free(f, "a", other.fence);
    expect_free(f, "b", had.fence);
}

static void test_late_exchange_does_not_take_a_released_lock(void **state)
{
    struct fixture *f = *state;
    rowlock_op had = gone_by(f, "b"), held = grant(f, "a", "ann");
    rowlock_op back = release_by(&held, 1, 3), late = op_by("b", "ann", 1, 5);
    ops_exchange(f, f->conn, &back, 1, &late, 1);
    assert_true(late.status == ROWLOCK_LOST || late.status == ROWLOCK_BUSY);
    expect_free(f, "b", had.fence);
}

/* The owner has entered it again since. */
static void test_late_acquire_does_not_count_in_a_tenure(void **state)
{
    struct fixture *f = *state;
    rowlock_op op = op_by("lock", "ann", 1, 5), again = op_by("lock", "ann", 1, 6);
    expect_ok(try_acquire(f, f->conn, &op), NULL);
    expect_ok(try_acquire(f, f->conn, &again), NULL);
    rowlock_op late = op_by("lock", "ann", 1, 5);
    expect_status(ROWLOCK_LOST, try_acquire(f, another(f), &late), NULL);
    assert_int_equal(row_of(f, "lock").hold_count, 2);
    assert_int_equal(row_of(f, "lock").fence, op.fence);
}

/* The owner was served, gave the lock back and has it again. */
static void test_late_turn_does_not_count_in_a_tenure(void **state)
{
    struct fixture *f = *state;
    rowlock_op held = grant(f, "lock", "bob");
    rowlock_op op = queue_up_for(f, "lock", "ann", LONG_US), late;
    set_attempt(&op, 1, 5);
    late = op;
    give_back(f, f->conn, &held);
    expect_ok(try_turn(f, f->conn, &op, 0), NULL);
    rowlock_op back = release_by(&op, 1, 6), again = op_by("lock", "ann", 1, 7);
    expect_ok(try_release(f, f->conn, &back), NULL);
    expect_ok(try_acquire(f, f->conn, &again), NULL);
    expect_status(ROWLOCK_LOST, try_turn(f, another(f), &late, 0), NULL);
    assert_int_equal(row_of(f, "lock").hold_count, 1);
    assert_int_equal(row_of(f, "lock").fence, again.fence);
}

/* Another thread of the owner's was faster: the waiter enters the tenure with a new attempt. */
static void test_turn_in_a_tenure_of_a_later_attempt_asks_anew(void **state)
{
    struct fixture *f = *state;
    rowlock_op op = queue_up_for(f, "lock", "ann", LONG_US), first = op_by("lock", "ann", 1, 7);
    first.barge = 1;
    expect_ok(try_acquire(f, f->conn, &first), NULL);
    set_attempt(&op, 1, 5);
    expect_status(ROWLOCK_LOST, try_turn(f, f->conn, &op, 0), NULL);
    set_attempt(&op, 1, 8);
    expect_ok(try_turn(f, f->conn, &op, 0), NULL);
    assert_int_equal(op.hold_count, 2);
    assert_int_equal(op.fence, first.fence);
}

static void test_what_is_not_late_takes_a_released_lock(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *owner;
        uint8_t client, number;
    } next[] = {{"ann", 1, 7}, {"ann", 0, 5}, {"ann", 2, 5}, {"bob", 1, 5}};
    for (size_t i = 0; i < COUNT(next); i++) {
        rowlock_op had = gone_by(f, "lock");
        rowlock_op op = op_by("lock", next[i].owner, next[i].client, next[i].number);
        expect_ok(try_acquire(f, f->conn, &op), NULL);
        assert_true(op.fence > had.fence);
        rowlock_op back = release_by(&op, 3, 1); /* of another client: nothing is late after it */
        expect_ok(try_release(f, f->conn, &back), NULL);
    }
}

static void test_repeated_acquire_is_not_late(void **state)
{
    struct fixture *f = *state;
    rowlock_op op = op_by("lock", "ann", 1, 5), same = op_by("lock", "ann", 1, 5);
    expect_ok(try_acquire(f, f->conn, &op), NULL);
    expect_ok(try_acquire(f, another(f), &same), NULL);
    assert_int_equal(same.fence, op.fence);
    assert_int_equal(same.hold_count, 1);
}

/* Servers alone: what is asked of SQLite does not outlive the call. */
static const struct test_case cases[] = {
    CASE_IF(test_late_acquire_does_not_take_a_released_lock, BACKEND_SERVER),
    CASE_IF(test_late_acquire_of_a_batch_does_not_take_a_released_lock, BACKEND_SERVER),
    CASE_IF(test_late_acquire_of_all_takes_none, BACKEND_SERVER),
    CASE_IF(test_late_exchange_does_not_take_a_released_lock, BACKEND_SERVER | BACKEND_EXCHANGE),
    CASE_IF(test_late_acquire_does_not_count_in_a_tenure, BACKEND_SERVER),
    CASE_IF(test_late_turn_does_not_count_in_a_tenure, BACKEND_SERVER | BACKEND_TICKETS),
    CASE_IF(test_turn_in_a_tenure_of_a_later_attempt_asks_anew, BACKEND_SERVER | BACKEND_TICKETS),
    CASE(test_what_is_not_late_takes_a_released_lock),
    CASE(test_repeated_acquire_is_not_late),
};

const struct suite late_suite = SUITE("late", cases);
