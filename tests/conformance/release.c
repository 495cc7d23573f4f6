/* SPDX-License-Identifier: MIT
 *
 * The release slot. */
#include "conformance.h"

static void test_release_of_the_last_hold_frees_the_lock(void **state)
{
    struct fixture *f = *state;
    rowlock_op held = grant(f, "lock", "ann");
    rowlock_op op = op_of(&held);
    expect_ok(try_release(f, f->conn, &op), NULL);
    assert_int_equal(op.hold_count, 0);
    rowlock_op next = op_new("lock", "bob");
    expect_ok(try_acquire(f, another(f), &next), NULL);
}

static void test_release_takes_one_hold_at_a_time(void **state)
{
    struct fixture *f = *state;
    rowlock_op held = grant(f, "lock", "ann");
    grant(f, "lock", "ann");
    grant(f, "lock", "ann");
    for (int left = 2; left >= 0; left--) {
        rowlock_op other = op_new("lock", "bob");
        expect_status(ROWLOCK_BUSY, try_acquire(f, f->conn, &other), NULL);
        rowlock_op op = op_of(&held);
        expect_ok(try_release(f, f->conn, &op), NULL);
        assert_int_equal(op.hold_count, left);
    }
    grant(f, "lock", "bob");
}

static void test_release_of_an_inner_hold_keeps_the_lease(void **state)
{
    struct fixture *f = *state;
    rowlock_op held = grant(f, "lock", "ann");
    grant(f, "lock", "ann");
    rowlock_op op = op_of(&held);
    expect_ok(try_release(f, f->conn, &op), NULL);
    struct row row = row_of(f, "lock");
    assert_int_equal(row.fence, held.fence);
    expect_between(row.remaining_ms, (LONG_US - SLACK_US) / 1000, LONG_US / 1000);
}

static void test_release_repeated_takes_one_hold_only(void **state)
{
    struct fixture *f = *state;
    rowlock_op held = grant(f, "lock", "ann");
    grant(f, "lock", "ann");
    grant(f, "lock", "ann");
    rowlock_op op = op_of(&held);
    for (int i = 0; i < 4; i++) {
        expect_ok(try_release(f, f->conn, &op), NULL);
        assert_int_equal(op.hold_count, 2);
    }
}

/* The first sending was held up on its way, its repetition was done, somebody entered: now it
 * arrives. */
static void test_release_that_arrives_late_does_not_count_again(void **state)
{
    struct fixture *f = *state;
    grant(f, "lock", "ann");
    rowlock_op second = grant(f, "lock", "ann");
    rowlock_op op = op_of(&second), late;
    memcpy(op.seen, second.attempt, sizeof op.seen);
    late = op;
    expect_ok(try_release(f, f->conn, &op), NULL);
    rowlock_op third = grant(f, "lock", "ann");
    struct rows before = rows_read(f);
    expect_status(ROWLOCK_BUSY, try_release(f, another(f), &late), NULL);
    assert_memory_equal(late.seen, third.attempt, sizeof late.seen);
    struct rows after = rows_read(f);
    expect_same_rows(&before, &after);
    assert_int_equal(row_of(f, "lock").hold_count, 2);
    rows_free(&before);
    rows_free(&after);
}

static void test_release_with_the_right_sight_goes_through(void **state)
{
    struct fixture *f = *state;
    rowlock_op held = grant(f, "lock", "ann"), other = grant(f, "other", "ann");
    rowlock_op again = grant(f, "lock", "ann");
    rowlock_op ops[] = {op_of(&held), op_of(&other)};
    memcpy(ops[0].seen, held.attempt, sizeof ops[0].seen); /* changed since */
    memcpy(ops[1].seen, other.attempt, sizeof ops[1].seen);
    expect_ok(f->driver->release(f->conn, ops, 2, CALL_MS, &f->err), &f->err);
    expect_status(ROWLOCK_BUSY, ops[0].status, NULL);
    expect_ok(ops[1].status, NULL);
    assert_memory_equal(ops[0].seen, again.attempt, sizeof ops[0].seen);
    expect_ok(try_release(f, f->conn, &ops[0]), NULL);
    assert_int_equal(ops[0].hold_count, 1);
}

static void test_release_of_a_lost_tenure_is_lost_whatever_was_seen(void **state)
{
    struct fixture *f = *state;
    rowlock_op held = grant(f, "lock", "ann");
    rowlock_op first = op_of(&held), second = op_of(&held);
    expect_ok(try_release(f, f->conn, &first), NULL);
    memset(second.seen, 7, sizeof second.seen);
    expect_status(ROWLOCK_LOST, try_release(f, f->conn, &second), NULL);
}

static void test_release_of_the_last_hold_can_be_repeated(void **state)
{
    struct fixture *f = *state;
    rowlock_op held = grant(f, "lock", "ann");
    rowlock_op op = op_of(&held);
    expect_ok(try_release(f, f->conn, &op), NULL);
    expect_ok(try_release(f, another(f), &op), NULL);
    assert_int_equal(op.hold_count, 0);
}

static void test_release_repeated_after_the_next_grant_is_lost(void **state)
{
    struct fixture *f = *state;
    rowlock_op held = grant(f, "lock", "ann");
    rowlock_op op = op_of(&held);
    expect_ok(try_release(f, f->conn, &op), NULL);
    grant(f, "lock", "bob");
    struct rows before = rows_read(f);
    expect_status(ROWLOCK_LOST, try_release(f, f->conn, &op), NULL);
    struct rows after = rows_read(f);
    expect_same_rows(&before, &after);
    rows_free(&before);
    rows_free(&after);
}

static void test_release_twice_is_lost(void **state)
{
    struct fixture *f = *state;
    rowlock_op held = grant(f, "lock", "ann");
    rowlock_op op = op_of(&held), again = op_of(&held);
    expect_ok(try_release(f, f->conn, &op), NULL);
    expect_status(ROWLOCK_LOST, try_release(f, f->conn, &again), NULL);
}

static void test_release_after_expiry_is_lost(void **state)
{
    struct fixture *f = *state;
    rowlock_op held = grant_expired(f, "lock", "ann");
    rowlock_op op = op_of(&held);
    expect_status(ROWLOCK_LOST, try_release(f, f->conn, &op), NULL);
}

static void test_release_keeps_owner_and_fence_in_the_row(void **state)
{
    struct fixture *f = *state;
    rowlock_op held = grant_released(f, "lock", "ann");
    struct row row = row_of(f, "lock");
    assert_string_equal(row.owner, "ann");
    assert_int_equal(row.fence, held.fence);
    assert_int_equal(row.hold_count, 0);
    assert_true(row.remaining_ms <= 0);
}

/* Releases `op`, which is not a tenure of anybody's: LOST, and the rows stay as they are. */
static void expect_harmless(struct fixture *f, rowlock_op op)
{
    struct rows before = rows_read(f);
    expect_status(ROWLOCK_LOST, try_release(f, f->conn, &op), NULL);
    struct rows after = rows_read(f);
    expect_same_rows(&before, &after);
    rows_free(&before);
    rows_free(&after);
}

static void test_release_by_another_owner_is_lost_and_harmless(void **state)
{
    struct fixture *f = *state;
    rowlock_op held = grant(f, "lock", "ann");
    rowlock_op op = op_of(&held);
    op.owner = "bob";
    expect_harmless(f, op);
}

static void test_release_with_another_fence_is_lost_and_harmless(void **state)
{
    struct fixture *f = *state;
    rowlock_op held = grant(f, "lock", "ann");
    rowlock_op op = op_of(&held);
    op.fence = held.fence - 1;
    expect_harmless(f, op);
    op.fence = held.fence + 1;
    expect_harmless(f, op);
    op.fence = 0;
    expect_harmless(f, op);
}

static void test_release_of_another_name_is_lost_and_harmless(void **state)
{
    struct fixture *f = *state;
    rowlock_op held = grant(f, "lock", "ann");
    grant_released(f, "other", "ann");
    rowlock_op op = op_of(&held);
    op.name = "other";
    op.name_length = strlen("other");
    expect_harmless(f, op);
    op.name = "absent";
    op.name_length = strlen("absent");
    expect_harmless(f, op);
}

static void test_release_of_an_old_tenure_leaves_the_new_one(void **state)
{
    struct fixture *f = *state;
    rowlock_op old = grant_expired(f, "lock", "ann");
    grant(f, "lock", "bob");
    expect_harmless(f, op_of(&old));
}

static void test_release_of_an_old_tenure_of_the_same_owner_leaves_the_new_one(void **state)
{
    struct fixture *f = *state;
    rowlock_op old = grant_expired(f, "lock", "ann");
    grant(f, "lock", "ann");
    expect_harmless(f, op_of(&old));
}

static const struct test_case cases[] = {
    CASE(test_release_of_the_last_hold_frees_the_lock),
    CASE(test_release_takes_one_hold_at_a_time),
    CASE(test_release_of_an_inner_hold_keeps_the_lease),
    CASE(test_release_repeated_takes_one_hold_only),
    CASE(test_release_that_arrives_late_does_not_count_again),
    CASE(test_release_with_the_right_sight_goes_through),
    CASE(test_release_of_a_lost_tenure_is_lost_whatever_was_seen),
    CASE(test_release_of_the_last_hold_can_be_repeated),
    CASE(test_release_repeated_after_the_next_grant_is_lost),
    CASE(test_release_twice_is_lost),
    CASE(test_release_after_expiry_is_lost),
    CASE(test_release_keeps_owner_and_fence_in_the_row),
    CASE(test_release_by_another_owner_is_lost_and_harmless),
    CASE(test_release_with_another_fence_is_lost_and_harmless),
    CASE(test_release_of_another_name_is_lost_and_harmless),
    CASE(test_release_of_an_old_tenure_leaves_the_new_one),
    CASE(test_release_of_an_old_tenure_of_the_same_owner_leaves_the_new_one),
};

const struct suite release_suite = SUITE("release", cases);
