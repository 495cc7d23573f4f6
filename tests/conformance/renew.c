/* SPDX-License-Identifier: MIT
 *
 * The renew slot. */
#include "conformance.h"

static void test_renew_extends_the_lease(void **state)
{
    struct fixture *f = *state;
    rowlock_op held = grant(f, "lock", "ann");
    rowlock_op op = op_of(&held);
    op.ttl_us = 3 * LONG_US;
    expect_ok(try_renew(f, f->conn, &op), NULL);
    expect_between(op.remaining_us, 3 * LONG_US - SLACK_US, 3 * LONG_US);
    expect_between(row_of(f, "lock").remaining_ms, (3 * LONG_US - SLACK_US) / 1000,
                   3 * LONG_US / 1000);
}

static void test_renew_never_shortens_the_lease(void **state)
{
    struct fixture *f = *state;
    rowlock_op held = grant(f, "lock", "ann");
    rowlock_op op = op_of(&held);
    op.ttl_us = SHORT_US;
    expect_ok(try_renew(f, f->conn, &op), NULL);
    expect_between(op.remaining_us, LONG_US - SLACK_US, LONG_US);
    expect_between(row_of(f, "lock").remaining_ms, (LONG_US - SLACK_US) / 1000, LONG_US / 1000);
}

static void test_renew_keeps_a_short_lease_alive(void **state)
{
    struct fixture *f = *state;
    int64_t ttl_us = 150000;
    int status = ROWLOCK_LOST;
    while (status == ROWLOCK_LOST && ttl_us < SLACK_US) { /* if the renewal came too late */
        ttl_us *= 2;
        rowlock_op held = grant_for(f, "lock", "ann", ttl_us), op = op_of(&held);
        status = try_renew(f, f->conn, &op);
    }
    expect_ok(status, NULL);
    sleep_us(ttl_us + 10000);
    rowlock_op other = op_new("lock", "bob");
    expect_status(ROWLOCK_BUSY, try_acquire(f, f->conn, &other), NULL);
}

static void test_renew_answers_the_count(void **state)
{
    struct fixture *f = *state;
    grant(f, "lock", "ann");
    rowlock_op held = grant(f, "lock", "ann");
    rowlock_op op = op_of(&held);
    expect_ok(try_renew(f, another(f), &op), NULL);
    assert_int_equal(op.hold_count, 2);
    assert_int_equal(row_of(f, "lock").hold_count, 2);
}

static void test_renew_changes_the_lease_only(void **state)
{
    struct fixture *f = *state;
    rowlock_op held = op_new("lock", "ann");
    held.note = "work";
    expect_ok(try_acquire(f, f->conn, &held), NULL);
    rowlock_op op = op_of(&held);
    op.ttl_us = 2 * LONG_US;
    expect_ok(try_renew(f, f->conn, &op), NULL);
    struct row row = row_of(f, "lock");
    assert_string_equal(row.note, "work");
    assert_int_equal(row.fence, held.fence);
    assert_int_equal(row.hold_count, 1);
    expect_ok(try_acquire(f, f->conn, &held), NULL); /* still seen as a repetition */
    assert_int_equal(held.hold_count, 1);
}

/* Renews `op`, which is not a live tenure: LOST, and the rows stay as they are. */
static void expect_harmless(struct fixture *f, rowlock_op op)
{
    struct rows before = rows_read(f);
    expect_status(ROWLOCK_LOST, try_renew(f, f->conn, &op), NULL);
    struct rows after = rows_read(f);
    expect_same_rows(&before, &after);
    rows_free(&before);
    rows_free(&after);
}

static void test_renew_never_resurrects_an_expired_lock(void **state)
{
    struct fixture *f = *state;
    rowlock_op held = grant_expired(f, "lock", "ann");
    expect_harmless(f, op_of(&held));
    grant(f, "lock", "bob");
}

static void test_renew_never_resurrects_a_released_lock(void **state)
{
    struct fixture *f = *state;
    rowlock_op held = grant_released(f, "lock", "ann");
    expect_harmless(f, op_of(&held));
    grant(f, "lock", "bob");
}

static void test_renew_by_another_owner_is_lost_and_harmless(void **state)
{
    struct fixture *f = *state;
    rowlock_op held = grant(f, "lock", "ann");
    rowlock_op op = op_of(&held);
    op.owner = "bob";
    op.ttl_us = 3 * LONG_US;
    expect_harmless(f, op);
}

static void test_renew_with_another_fence_is_lost_and_harmless(void **state)
{
    struct fixture *f = *state;
    rowlock_op held = grant(f, "lock", "ann");
    rowlock_op op = op_of(&held);
    op.ttl_us = 3 * LONG_US;
    op.fence = held.fence - 1;
    expect_harmless(f, op);
    op.fence = held.fence + 1;
    expect_harmless(f, op);
    op.fence = 0;
    expect_harmless(f, op);
}

static void test_renew_of_another_name_is_lost_and_harmless(void **state)
{
    struct fixture *f = *state;
    rowlock_op held = grant(f, "lock", "ann");
    rowlock_op op = op_of(&held);
    op.name = "lock ";
    op.name_length = strlen("lock ");
    expect_harmless(f, op);
}

static void test_renew_of_an_old_tenure_leaves_the_new_one(void **state)
{
    struct fixture *f = *state;
    rowlock_op old = grant_expired(f, "lock", "ann");
    grant(f, "lock", "bob");
    expect_harmless(f, op_of(&old));
}

static void test_renew_of_an_old_tenure_of_the_same_owner_leaves_the_new_one(void **state)
{
    struct fixture *f = *state;
    rowlock_op old = grant_expired(f, "lock", "ann");
    grant(f, "lock", "ann");
    rowlock_op op = op_of(&old);
    op.ttl_us = 3 * LONG_US;
    expect_harmless(f, op);
}

static const struct test_case cases[] = {
    CASE(test_renew_extends_the_lease),
    CASE(test_renew_never_shortens_the_lease),
    CASE(test_renew_keeps_a_short_lease_alive),
    CASE(test_renew_answers_the_count),
    CASE(test_renew_changes_the_lease_only),
    CASE(test_renew_never_resurrects_an_expired_lock),
    CASE(test_renew_never_resurrects_a_released_lock),
    CASE(test_renew_by_another_owner_is_lost_and_harmless),
    CASE(test_renew_with_another_fence_is_lost_and_harmless),
    CASE(test_renew_of_another_name_is_lost_and_harmless),
    CASE(test_renew_of_an_old_tenure_leaves_the_new_one),
    CASE(test_renew_of_an_old_tenure_of_the_same_owner_leaves_the_new_one),
};

const struct suite renew_suite = SUITE("renew", cases);
