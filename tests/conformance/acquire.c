/* SPDX-License-Identifier: MIT
 *
 * The acquire slot, one operation at a time. */
#include <stdio.h>

#include "conformance.h"

static void test_acquire_of_a_new_name_starts_a_tenure(void **state)
{
    struct fixture *f = *state;
    rowlock_op op = op_new("new", "ann");
    expect_ok(try_acquire(f, f->conn, &op), NULL);
    assert_int_equal(op.hold_count, 1);
    assert_true(op.fence > 0);
    struct row row = row_of(f, "new");
    assert_string_equal(row.owner, "ann");
    assert_int_equal(row.fence, op.fence);
    assert_int_equal(row.hold_count, 1);
}

static void test_acquire_of_a_released_lock_raises_the_fence(void **state)
{
    struct fixture *f = *state;
    rowlock_op first = grant_released(f, "free", "ann");
    rowlock_op second = grant(f, "free", "bob");
    assert_true(second.fence > first.fence);
    assert_int_equal(second.hold_count, 1);
    assert_string_equal(row_of(f, "free").owner, "bob");
}

static void test_acquire_of_an_expired_lock_raises_the_fence(void **state)
{
    struct fixture *f = *state;
    rowlock_op first = grant_expired(f, "expired", "ann");
    rowlock_op second = grant(f, "expired", "bob");
    assert_true(second.fence > first.fence);
    assert_int_equal(second.hold_count, 1);
    assert_string_equal(row_of(f, "expired").owner, "bob");
}

static void test_acquire_after_own_expiry_is_a_new_tenure(void **state)
{
    struct fixture *f = *state;
    rowlock_op first = grant_expired(f, "again", "ann");
    rowlock_op second = grant(f, "again", "ann");
    assert_true(second.fence > first.fence);
    assert_int_equal(second.hold_count, 1);
}

static void test_acquire_repeated_after_expiry_is_a_new_tenure(void **state)
{
    struct fixture *f = *state;
    rowlock_op op = grant_expired(f, "late", "ann");
    uint64_t fence = op.fence;
    expect_ok(try_acquire(f, f->conn, &op), NULL);
    assert_true(op.fence > fence);
    assert_int_equal(op.hold_count, 1);
}

static void test_acquire_after_own_release_is_a_new_tenure(void **state)
{
    struct fixture *f = *state;
    rowlock_op first = grant_released(f, "again", "ann");
    rowlock_op second = grant(f, "again", "ann");
    assert_true(second.fence > first.fence);
    assert_int_equal(second.hold_count, 1);
}

static void test_acquire_of_a_held_lock_is_busy(void **state)
{
    struct fixture *f = *state;
    grant(f, "held", "ann");
    rowlock_op op = op_new("held", "bob");
    expect_status(ROWLOCK_BUSY, try_acquire(f, another(f), &op), NULL);
}

static void test_busy_names_the_holder(void **state)
{
    struct fixture *f = *state;
    rowlock_op held = grant(f, "held", "ann");
    rowlock_op op = op_new("held", "bob");
    memset(op.holder, 'x', sizeof(op.holder));
    expect_status(ROWLOCK_BUSY, try_acquire(f, another(f), &op), NULL);
    assert_string_equal(op.holder, "ann");
    assert_int_equal(op.holder_fence, held.fence);
}

static void test_busy_tells_the_time_left(void **state)
{
    struct fixture *f = *state;
    grant(f, "held", "ann");
    rowlock_op op = op_new("held", "bob");
    op.ttl_us = 1000;
    expect_status(ROWLOCK_BUSY, try_acquire(f, another(f), &op), NULL);
    expect_between(op.remaining_us, LONG_US - SLACK_US, LONG_US);
}

static void test_busy_changes_nothing(void **state)
{
    struct fixture *f = *state;
    rowlock_op held = op_new("held", "ann");
    held.note = "work";
    expect_ok(try_acquire(f, f->conn, &held), NULL);
    struct rows before = rows_read(f);
    rowlock_op op = op_new("held", "bob");
    op.note = "impatience";
    op.ttl_us = LONG_US * 2;
    for (int i = 0; i < 5; i++)
        expect_status(ROWLOCK_BUSY, try_acquire(f, f->conn, &op), NULL);
    struct rows after = rows_read(f);
    expect_same_rows(&before, &after);
    rows_free(&before);
    rows_free(&after);
}

static void test_busy_leaves_the_holders_attempt(void **state)
{
    struct fixture *f = *state;
    rowlock_op held = grant(f, "held", "ann");
    rowlock_op op = op_new("held", "bob");
    expect_status(ROWLOCK_BUSY, try_acquire(f, f->conn, &op), NULL);
    expect_ok(try_acquire(f, f->conn, &held), NULL);
    assert_int_equal(held.hold_count, 1);
}

static void test_reentry_counts_and_keeps_the_fence(void **state)
{
    struct fixture *f = *state;
    rowlock_op first = grant(f, "nested", "ann");
    void *conn = another(f);
    for (uint32_t count = 2; count <= 5; count++) {
        rowlock_op op = op_new("nested", "ann");
        expect_ok(try_acquire(f, conn, &op), NULL);
        assert_int_equal(op.fence, first.fence);
        assert_int_equal(op.hold_count, count);
    }
    assert_int_equal(row_of(f, "nested").hold_count, 5);
}

static void test_reentry_extends_the_lease(void **state)
{
    struct fixture *f = *state;
    grant(f, "nested", "ann");
    rowlock_op op = grant_for(f, "nested", "ann", 4 * LONG_US);
    expect_between(op.remaining_us, 4 * LONG_US - SLACK_US, 4 * LONG_US);
    expect_between(row_of(f, "nested").remaining_ms, (4 * LONG_US - SLACK_US) / 1000,
                   4 * LONG_US / 1000);
}

static void test_reentry_never_shortens_the_lease(void **state)
{
    struct fixture *f = *state;
    grant(f, "nested", "ann");
    rowlock_op op = grant_for(f, "nested", "ann", SHORT_US);
    expect_between(op.remaining_us, LONG_US - SLACK_US, LONG_US);
    expect_between(row_of(f, "nested").remaining_ms, (LONG_US - SLACK_US) / 1000, LONG_US / 1000);
}

static void test_new_tenure_may_have_a_shorter_lease(void **state)
{
    struct fixture *f = *state;
    grant_released(f, "again", "ann");
    rowlock_op op = grant_for(f, "again", "ann", LONG_US / 10);
    expect_between(op.remaining_us, 1, LONG_US / 10);
}

static void test_reentry_keeps_the_time_of_acquiring(void **state)
{
    struct fixture *f = *state;
    grant(f, "nested", "ann");
    sleep_us(30000);
    grant(f, "nested", "ann");
    expect_between(row_of(f, "nested").held_ms, 29, SLACK_US / 1000);
}

static void test_new_tenure_sets_the_time_of_acquiring(void **state)
{
    struct fixture *f = *state;
    grant_released(f, "again", "ann");
    sleep_us(300000);
    int64_t before = now_us();
    grant(f, "again", "ann");
    struct row row = row_of(f, "again");
    expect_between(row.held_ms, 0, (now_us() - before) / 1000 + 1);
}

static void test_repeated_acquire_gives_the_same_answer(void **state)
{
    struct fixture *f = *state;
    rowlock_op op = grant(f, "retry", "ann");
    uint64_t fence = op.fence;
    op.fence = 0;
    expect_ok(try_acquire(f, another(f), &op), NULL);
    assert_int_equal(op.fence, fence);
    assert_int_equal(op.hold_count, 1);
    assert_int_equal(row_of(f, "retry").hold_count, 1);
}

static void test_repeated_reentry_counts_once(void **state)
{
    struct fixture *f = *state;
    rowlock_op first = grant(f, "retry", "ann");
    rowlock_op op = grant(f, "retry", "ann");
    for (int i = 0; i < 3; i++)
        expect_ok(try_acquire(f, f->conn, &op), NULL);
    assert_int_equal(op.hold_count, 2);
    assert_int_equal(op.fence, first.fence);
}

static void test_attempt_of_another_owner_is_no_repetition(void **state)
{
    struct fixture *f = *state;
    rowlock_op held = grant(f, "held", "ann");
    rowlock_op op = op_new("held", "bob");
    memcpy(op.attempt, held.attempt, sizeof(op.attempt));
    expect_status(ROWLOCK_BUSY, try_acquire(f, f->conn, &op), NULL);
}

static void test_note_is_kept_by_a_reentry_without_one(void **state)
{
    struct fixture *f = *state;
    rowlock_op op = op_new("noted", "ann");
    op.note = "first";
    expect_ok(try_acquire(f, f->conn, &op), NULL);
    grant(f, "noted", "ann");
    assert_string_equal(row_of(f, "noted").note, "first");
}

static void test_note_is_replaced_by_a_reentry_with_one(void **state)
{
    struct fixture *f = *state;
    rowlock_op op = op_new("noted", "ann");
    op.note = "first";
    expect_ok(try_acquire(f, f->conn, &op), NULL);
    rowlock_op again = op_new("noted", "ann");
    again.note = "second";
    expect_ok(try_acquire(f, f->conn, &again), NULL);
    assert_string_equal(row_of(f, "noted").note, "second");
}

static void test_note_of_an_old_tenure_is_gone_in_the_next(void **state)
{
    struct fixture *f = *state;
    rowlock_op op = op_new("noted", "ann");
    op.note = "first";
    expect_ok(try_acquire(f, f->conn, &op), NULL);
    rowlock_op back = op_of(&op);
    expect_ok(try_release(f, f->conn, &back), NULL);
    grant(f, "noted", "ann");
    assert_string_equal(row_of(f, "noted").note, "");
}

static void expect_lease(struct fixture *f, const char *name, int64_t ttl_us)
{
    int64_t before = now_us();
    rowlock_op op = grant_for(f, name, "ann", ttl_us);
    expect_between(op.remaining_us, ttl_us - (now_us() - before) - 1000, ttl_us);
}

static void test_lease_is_as_long_as_asked(void **state)
{
    struct fixture *f = *state;
    expect_lease(f, "shortest", ROWLOCK_TTL_MIN_MS * 1000);
    expect_lease(f, "usual", 30000 * 1000LL);
    expect_lease(f, "longest", ROWLOCK_TTL_MAX_MS * 1000);
}

static void test_fence_fits_into_63_bits(void **state)
{
    struct fixture *f = *state;
    rowlock_op op = grant(f, "fence", "ann");
    assert_true(op.fence <= (uint64_t)INT64_MAX);
}

/* 250 names, 40 grants each; every fifth round the rows are deleted, so that the clock must carry
 * the order on. */
static void test_fence_rises_over_ten_thousand_grants_and_reaping(void **state)
{
    enum { NAMES = 250, ROUNDS = 40 };
    struct fixture *f = *state;
    static char names[NAMES][8];
    static rowlock_op ops[NAMES];
    static uint64_t last[NAMES];
    uint64_t reaped = 0;
    memset(last, 0, sizeof(last));
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < NAMES; i++) {
            snprintf(names[i], sizeof(names[i]), "n%03d", i);
            ops[i] = op_new(names[i], round % 2 ? "ann" : "bob");
        }
        ops_acquire(f, f->conn, ops, NAMES, 0);
        for (int i = 0; i < NAMES; i++) {
            expect_ok(ops[i].status, NULL);
            assert_true(ops[i].fence > last[i]);
            last[i] = ops[i].fence;
            ops[i] = op_of(&ops[i]);
        }
        ops_release(f, f->conn, ops, NAMES);
        if (round % 5 == 4)
            reaped += reap(f, 0, NAMES);
    }
    expect_between((int64_t)reaped, 1, NAMES * ROUNDS / 5);
}

static const struct test_case cases[] = {
    CASE(test_acquire_of_a_new_name_starts_a_tenure),
    CASE(test_acquire_of_a_released_lock_raises_the_fence),
    CASE(test_acquire_of_an_expired_lock_raises_the_fence),
    CASE(test_acquire_after_own_expiry_is_a_new_tenure),
    CASE(test_acquire_repeated_after_expiry_is_a_new_tenure),
    CASE(test_acquire_after_own_release_is_a_new_tenure),
    CASE(test_acquire_of_a_held_lock_is_busy),
    CASE(test_busy_names_the_holder),
    CASE(test_busy_tells_the_time_left),
    CASE(test_busy_changes_nothing),
    CASE(test_busy_leaves_the_holders_attempt),
    CASE(test_reentry_counts_and_keeps_the_fence),
    CASE(test_reentry_extends_the_lease),
    CASE(test_reentry_never_shortens_the_lease),
    CASE(test_new_tenure_may_have_a_shorter_lease),
    CASE(test_reentry_keeps_the_time_of_acquiring),
    CASE(test_new_tenure_sets_the_time_of_acquiring),
    CASE(test_repeated_acquire_gives_the_same_answer),
    CASE(test_repeated_reentry_counts_once),
    CASE(test_attempt_of_another_owner_is_no_repetition),
    CASE(test_note_is_kept_by_a_reentry_without_one),
    CASE(test_note_is_replaced_by_a_reentry_with_one),
    CASE(test_note_of_an_old_tenure_is_gone_in_the_next),
    CASE(test_lease_is_as_long_as_asked),
    CASE(test_fence_fits_into_63_bits),
    CASE(test_fence_rises_over_ten_thousand_grants_and_reaping),
};

const struct suite acquire_suite = SUITE("acquire", cases);
