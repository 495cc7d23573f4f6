/* SPDX-License-Identifier: MIT
 *
 * The force_release slot. */
#include "conformance.h"

/* Name, fence (0: any) and attempt are all that the slot may look at. */
static rowlock_op force_of(const char *name, uint64_t fence)
{
    rowlock_op op = op_new(name, "");
    op.fence = fence;
    return op;
}

static void test_force_frees_a_held_lock(void **state)
{
    struct fixture *f = *state;
    grant(f, "lock", "ann");
    grant(f, "lock", "ann");
    rowlock_op op = force_of("lock", 0);
    expect_ok(try_force(f, another(f), &op), NULL);
    rowlock_op next = grant(f, "lock", "bob");
    assert_int_equal(next.hold_count, 1);
}

static void test_force_raises_the_fence(void **state)
{
    struct fixture *f = *state;
    rowlock_op held = grant(f, "lock", "ann");
    rowlock_op op = force_of("lock", 0);
    expect_ok(try_force(f, f->conn, &op), NULL);
    struct row row = row_of(f, "lock");
    assert_true(row.fence > held.fence);
    assert_int_equal(row.hold_count, 0);
    assert_true(row.remaining_ms <= 0);
    rowlock_op next = grant(f, "lock", "ann");
    assert_true(next.fence > row.fence);
}

static void test_force_makes_the_old_holders_renew_lost(void **state)
{
    struct fixture *f = *state;
    rowlock_op held = grant(f, "lock", "ann");
    rowlock_op op = force_of("lock", 0);
    expect_ok(try_force(f, f->conn, &op), NULL);
    rowlock_op renewal = op_of(&held);
    expect_status(ROWLOCK_LOST, try_renew(f, f->conn, &renewal), NULL);
}

static void test_force_makes_the_old_holders_release_lost(void **state)
{
    struct fixture *f = *state;
    rowlock_op held = grant(f, "lock", "ann");
    rowlock_op op = force_of("lock", 0);
    expect_ok(try_force(f, f->conn, &op), NULL);
    rowlock_op back = op_of(&held);
    expect_status(ROWLOCK_LOST, try_release(f, f->conn, &back), NULL);
}

static void test_force_of_the_given_tenure_frees_it(void **state)
{
    struct fixture *f = *state;
    rowlock_op held = grant(f, "lock", "ann");
    rowlock_op op = force_of("lock", held.fence);
    expect_ok(try_force(f, f->conn, &op), NULL);
    grant(f, "lock", "bob");
}

static void expect_harmless(struct fixture *f, rowlock_op op)
{
    struct rows before = rows_read(f);
    expect_status(ROWLOCK_LOST, try_force(f, f->conn, &op), NULL);
    struct rows after = rows_read(f);
    expect_same_rows(&before, &after);
    rows_free(&before);
    rows_free(&after);
}

static void test_force_of_another_tenure_is_lost_and_harmless(void **state)
{
    struct fixture *f = *state;
    rowlock_op held = grant(f, "lock", "ann");
    expect_harmless(f, force_of("lock", held.fence - 1));
    expect_harmless(f, force_of("lock", held.fence + 1));
}

static void test_force_of_a_released_lock_is_lost_and_harmless(void **state)
{
    struct fixture *f = *state;
    rowlock_op held = grant_released(f, "lock", "ann");
    expect_harmless(f, force_of("lock", 0));
    expect_harmless(f, force_of("lock", held.fence));
}

static void test_force_of_an_expired_lock_is_lost_and_harmless(void **state)
{
    struct fixture *f = *state;
    rowlock_op held = grant_expired(f, "lock", "ann");
    expect_harmless(f, force_of("lock", 0));
    expect_harmless(f, force_of("lock", held.fence));
}

static void test_force_of_an_absent_lock_is_lost(void **state)
{
    struct fixture *f = *state;
    expect_harmless(f, force_of("absent", 0));
    expect_harmless(f, force_of("absent", 7));
}

static void test_force_repeated_is_ok_and_raises_once(void **state)
{
    struct fixture *f = *state;
    rowlock_op held = grant(f, "lock", "ann");
    rowlock_op op = force_of("lock", 0);
    expect_ok(try_force(f, f->conn, &op), NULL);
    uint64_t fence = row_of(f, "lock").fence;
    rowlock_op again = force_of("lock", 0);
    memcpy(again.attempt, op.attempt, sizeof(op.attempt));
    expect_ok(try_force(f, another(f), &again), NULL);
    assert_int_equal(row_of(f, "lock").fence, fence);
    assert_true(fence > held.fence);
}

static void test_force_of_the_given_tenure_repeated_is_ok(void **state)
{
    struct fixture *f = *state;
    rowlock_op held = grant(f, "lock", "ann");
    rowlock_op op = force_of("lock", held.fence);
    expect_ok(try_force(f, f->conn, &op), NULL);
    op.fence = held.fence;
    expect_ok(try_force(f, f->conn, &op), NULL);
}

static void test_force_repeated_leaves_the_next_tenure(void **state)
{
    struct fixture *f = *state;
    rowlock_op held = grant(f, "lock", "ann");
    rowlock_op op = force_of("lock", held.fence);
    expect_ok(try_force(f, f->conn, &op), NULL);
    grant(f, "lock", "bob");
    op.fence = held.fence;
    expect_harmless(f, op);
}

static void test_force_leaves_other_names(void **state)
{
    struct fixture *f = *state;
    grant(f, "a", "ann");
    grant(f, "b", "ann");
    rowlock_op op = force_of("a", 0);
    expect_ok(try_force(f, f->conn, &op), NULL);
    rowlock_op other = op_new("b", "bob");
    expect_status(ROWLOCK_BUSY, try_acquire(f, f->conn, &other), NULL);
}

static const struct test_case cases[] = {
    CASE(test_force_frees_a_held_lock),
    CASE(test_force_raises_the_fence),
    CASE(test_force_makes_the_old_holders_renew_lost),
    CASE(test_force_makes_the_old_holders_release_lost),
    CASE(test_force_of_the_given_tenure_frees_it),
    CASE(test_force_of_another_tenure_is_lost_and_harmless),
    CASE(test_force_of_a_released_lock_is_lost_and_harmless),
    CASE(test_force_of_an_expired_lock_is_lost_and_harmless),
    CASE(test_force_of_an_absent_lock_is_lost),
    CASE(test_force_repeated_is_ok_and_raises_once),
    CASE(test_force_of_the_given_tenure_repeated_is_ok),
    CASE(test_force_repeated_leaves_the_next_tenure),
    CASE(test_force_leaves_other_names),
};

const struct suite force_suite = SUITE("force", cases);
