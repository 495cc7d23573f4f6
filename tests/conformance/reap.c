/* SPDX-License-Identifier: MIT
 *
 * The reap slot. */
#include "conformance.h"

#define HOUR_US ((int64_t)3600 * 1000000)

static void test_reap_deletes_released_and_expired_rows(void **state)
{
    struct fixture *f = *state;
    grant_released(f, "released", "ann");
    grant_expired(f, "expired", "ann");
    assert_int_equal(reap(f, 1, 100), 2);
    struct rows rows = rows_read(f);
    assert_int_equal(rows.count, 0);
    rows_free(&rows);
}

static void test_reap_spares_live_locks(void **state)
{
    struct fixture *f = *state;
    grant_released(f, "free", "ann");
    rowlock_op held = grant(f, "live", "ann");
    sleep_us(1000);
    assert_int_equal(reap(f, 1, 100), 1);
    assert_int_equal(row_of(f, "live").fence, held.fence);
    assert_false(row_exists(f, "free"));
}

static void test_reap_spares_what_ended_within_the_retention(void **state)
{
    struct fixture *f = *state;
    grant_released(f, "free", "ann");
    assert_int_equal(reap(f, HOUR_US, 100), 0);
    assert_true(row_exists(f, "free"));
}

static void test_reap_counts_the_retention_from_the_end_of_the_lease(void **state)
{
    struct fixture *f = *state;
    int64_t retention_us = 200000, took;
    uint64_t count;
    do { /* until it is not too late to see it */
        retention_us *= 2;
        rowlock_op held = grant(f, "late", "ann"), op = op_of(&held);
        sleep_us(retention_us + 10000);
        int64_t before = now_us();
        expect_ok(try_release(f, f->conn, &op), NULL);
        count = reap(f, retention_us, 100); /* acquired earlier than that, ended later */
        took = now_us() - before;
    } while (took >= retention_us && retention_us < SLACK_US);
    assert_int_equal(count, 0);
    assert_true(row_exists(f, "late"));
}

static void test_reap_stops_at_the_limit_in_byte_order(void **state)
{
    struct fixture *f = *state;
    const char *const names[] = {"b", "a", "\xff", "B", "a "};
    for (size_t i = 0; i < COUNT(names); i++)
        grant_released(f, names[i], "ann");
    sleep_us(1000);
    assert_int_equal(reap(f, 1, 3), 3);
    struct rows rows = rows_read(f);
    assert_int_equal(rows.count, 2);
    assert_string_equal(rows.items[0].name, "b");
    assert_string_equal(rows.items[1].name, "\xff");
    rows_free(&rows);
    assert_int_equal(reap(f, 1, 3), 2);
    assert_int_equal(reap(f, 1, 3), 0);
}

static void test_reap_with_limit_zero_deletes_nothing(void **state)
{
    struct fixture *f = *state;
    grant_released(f, "free", "ann");
    sleep_us(1000);
    assert_int_equal(reap(f, 1, 0), 0);
    assert_true(row_exists(f, "free"));
}

static void test_reap_accepts_the_largest_retention_and_limit(void **state)
{
    struct fixture *f = *state;
    grant_released(f, "free", "ann");
    assert_int_equal(reap(f, INT64_MAX, UINT64_MAX), 0);
    assert_true(row_exists(f, "free"));
}

static void test_reap_keeps_the_fence_rising(void **state)
{
    struct fixture *f = *state;
    rowlock_op old = grant_released(f, "lock", "ann");
    sleep_us(1000);
    assert_int_equal(reap(f, 1, 100), 1);
    rowlock_op next = grant(f, "lock", "ann");
    assert_true(next.fence > old.fence);
}

static void test_reap_makes_the_old_tenure_lost(void **state)
{
    struct fixture *f = *state;
    rowlock_op old = grant_expired(f, "lock", "ann");
    assert_int_equal(reap(f, 1, 100), 1);
    rowlock_op op = op_of(&old);
    expect_status(ROWLOCK_LOST, try_renew(f, f->conn, &op), NULL);
    expect_status(ROWLOCK_LOST, try_release(f, f->conn, &op), NULL);
}

/* A clock that once ran ahead left a fence in the future: the row must stay, or fences would fall.
 */
static void test_reap_spares_a_fence_of_the_future(void **state)
{
    struct fixture *f = *state;
    grant_released(f, "ahead", "ann");
    sql_run(f, "UPDATE rowlock_locks SET fence = fence + 1000000000", NULL, 0);
    sleep_us(1000);
    uint64_t fence = row_of(f, "ahead").fence;
    assert_int_equal(reap(f, 1, 100), 0);
    rowlock_op next = grant(f, "ahead", "bob");
    assert_int_equal(next.fence, fence + 1);
}

static const struct test_case cases[] = {
    CASE(test_reap_deletes_released_and_expired_rows),
    CASE(test_reap_spares_live_locks),
    CASE(test_reap_spares_what_ended_within_the_retention),
    CASE(test_reap_counts_the_retention_from_the_end_of_the_lease),
    CASE(test_reap_stops_at_the_limit_in_byte_order),
    CASE(test_reap_with_limit_zero_deletes_nothing),
    CASE(test_reap_accepts_the_largest_retention_and_limit),
    CASE(test_reap_keeps_the_fence_rising),
    CASE(test_reap_makes_the_old_tenure_lost),
    CASE_IF(test_reap_spares_a_fence_of_the_future, BACKEND_SQL),
};

const struct suite reap_suite = SUITE("reap", cases);
