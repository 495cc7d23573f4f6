/* SPDX-License-Identifier: MIT
 *
 * Many operations in one call: each has its own outcome, in its own slot. */
#include <stdio.h>
#include <stdlib.h>

#include "conformance.h"

struct batch {
    rowlock_op *ops;
    char (*names)[32];
    size_t n;
};

static struct batch batch_new(size_t n, const char *owner)
{
    struct batch b = {calloc(n, sizeof(rowlock_op)), calloc(n, 32), n};
    assert_non_null(b.ops);
    assert_non_null(b.names);
    for (size_t i = 0; i < n; i++) {
        snprintf(b.names[i], sizeof(b.names[i]), "batch/%05zu", i);
        b.ops[i] = op_new(b.names[i], owner);
    }
    return b;
}

static void batch_free(struct batch *b)
{
    free(b->ops);
    free(b->names);
}

/* Every `step`-th operation from `first` on, acquired in another's or one's own name beforehand. */
static void acquire_some(struct fixture *f, const struct batch *b, size_t first, size_t step,
                         const char *owner, int64_t ttl_us)
{
    rowlock_op *some = calloc(b->n, sizeof(*some));
    assert_non_null(some);
    size_t n = 0;
    for (size_t i = first; i < b->n; i += step) {
        some[n] = op_new(b->names[i], owner);
        some[n++].ttl_us = ttl_us;
    }
    if (n > 0)
        ops_acquire(f, f->conn, some, n, 0);
    for (size_t i = 0; i < n; i++)
        expect_ok(some[i].status, NULL);
    free(some);
}

/* Remainder 0: new; 1: expired, another's; 2: held by another; 3: held by oneself; 4: expired, own.
 */
static void acquire_mixed(struct fixture *f, size_t n)
{
    struct batch b = batch_new(n, "ann");
    acquire_some(f, &b, 1, 5, "bob", SHORT_US);
    acquire_some(f, &b, 4, 5, "ann", SHORT_US);
    sleep_us(SHORT_US + 2000);
    acquire_some(f, &b, 2, 5, "bob", LONG_US);
    acquire_some(f, &b, 3, 5, "ann", LONG_US);
    struct rows before = rows_read(f);
    ops_acquire(f, f->conn, b.ops, n, 0);
    struct rows after = rows_read(f);
    assert_int_equal(after.count, n);
    for (size_t i = 0; i < n; i++) {
        const struct row *row = &after.items[i];
        assert_string_equal(row->name, b.names[i]);
        expect_status(i % 5 == 2 ? ROWLOCK_BUSY : ROWLOCK_OK, b.ops[i].status, NULL);
        assert_string_equal(row->owner, i % 5 == 2 ? "bob" : "ann");
        if (i % 5 == 2) {
            assert_string_equal(b.ops[i].holder, "bob");
            assert_int_equal(b.ops[i].holder_fence, row->fence);
            assert_int_equal(row->hold_count, 1);
        } else {
            assert_int_equal(b.ops[i].fence, row->fence);
            assert_int_equal(b.ops[i].hold_count, i % 5 == 3 ? 2 : 1);
            assert_int_equal(row->hold_count, b.ops[i].hold_count);
        }
        expect_between(b.ops[i].remaining_us, LONG_US - SLACK_US, LONG_US);
    }
    rows_free(&before);
    rows_free(&after);
    batch_free(&b);
}

/* Makes n locks of ann's and spoils them: remainder 1: the owner; 2: the fence; 3: never acquired;
 * 4: held twice. */
static struct batch held_mixed(struct fixture *f, size_t n)
{
    struct batch b = batch_new(n, "ann");
    acquire_some(f, &b, 0, 5, "ann", LONG_US);
    acquire_some(f, &b, 1, 5, "bob", LONG_US);
    acquire_some(f, &b, 2, 5, "ann", LONG_US);
    acquire_some(f, &b, 4, 5, "ann", LONG_US);
    acquire_some(f, &b, 4, 5, "ann", LONG_US);
    struct rows rows = rows_read(f);
    size_t at = 0;
    for (size_t i = 0; i < n; i++) {
        b.ops[i].fence = i % 5 == 3 ? 7 : rows.items[at++].fence;
        if (i % 5 == 2)
            b.ops[i].fence++;
    }
    assert_int_equal(at, rows.count);
    rows_free(&rows);
    return b;
}

static int is_mine(size_t i)
{
    return i % 5 == 0 || i % 5 == 4;
}

static void renew_mixed(struct fixture *f, size_t n)
{
    struct batch b = held_mixed(f, n);
    for (size_t i = 0; i < n; i++)
        b.ops[i].ttl_us = 2 * LONG_US;
    ops_renew(f, f->conn, b.ops, n);
    struct rows rows = rows_read(f);
    size_t at = 0;
    for (size_t i = 0; i < n; i++) {
        expect_status(is_mine(i) ? ROWLOCK_OK : ROWLOCK_LOST, b.ops[i].status, NULL);
        if (is_mine(i)) {
            assert_int_equal(b.ops[i].hold_count, i % 5 == 4 ? 2 : 1);
            expect_between(b.ops[i].remaining_us, 2 * LONG_US - SLACK_US, 2 * LONG_US);
        }
        if (i % 5 != 3)
            assert_int_equal(rows.items[at++].remaining_ms > LONG_US / 1000, is_mine(i));
    }
    rows_free(&rows);
    batch_free(&b);
}

static void release_mixed(struct fixture *f, size_t n)
{
    struct batch b = held_mixed(f, n);
    ops_release(f, f->conn, b.ops, n);
    struct rows rows = rows_read(f);
    size_t at = 0;
    for (size_t i = 0; i < n; i++) {
        expect_status(is_mine(i) ? ROWLOCK_OK : ROWLOCK_LOST, b.ops[i].status, NULL);
        if (is_mine(i))
            assert_int_equal(b.ops[i].hold_count, i % 5 == 4 ? 1 : 0);
        if (i % 5 != 3)
            assert_int_equal(rows.items[at++].hold_count, i % 5 == 0 ? 0 : 1);
    }
    rows_free(&rows);
    batch_free(&b);
}

#define BATCH_CASES(n)                                                     \
    static void test_acquire_of_##n##_answers_each_by_itself(void **state) \
    {                                                                      \
        acquire_mixed(*state, n);                                          \
    }                                                                      \
    static void test_renew_of_##n##_answers_each_by_itself(void **state)   \
    {                                                                      \
        renew_mixed(*state, n);                                            \
    }                                                                      \
    static void test_release_of_##n##_answers_each_by_itself(void **state) \
    {                                                                      \
        release_mixed(*state, n);                                          \
    }
BATCH_CASES(1)
BATCH_CASES(2)
BATCH_CASES(100)
BATCH_CASES(256)
BATCH_CASES(1000)

static void use_largest_batch(struct fixture *f)
{
    struct batch b = batch_new(ROWLOCK_BATCH_MAX, "ann");
    ops_acquire(f, f->conn, b.ops, b.n, 1);
    for (size_t i = 0; i < b.n; i++) {
        expect_ok(b.ops[i].status, NULL);
        b.ops[i] = op_of(&b.ops[i]);
    }
    ops_renew(f, f->conn, b.ops, b.n);
    for (size_t i = 0; i < b.n; i++)
        expect_ok(b.ops[i].status, NULL);
    ops_release(f, f->conn, b.ops, b.n);
    for (size_t i = 0; i < b.n; i++)
        expect_ok(b.ops[i].status, NULL);
    batch_free(&b);
}

static void test_largest_batch_is_acquired_renewed_and_released(void **state)
{
    use_largest_batch(*state);
}

/* What the planner last heard may be long out of date: a plan for few rows must not be one that
 * takes for ever with many. */
static void test_largest_batch_works_with_statistics_of_a_small_table(void **state)
{
    struct fixture *f = *state;
    grant(f, "a", "ann");
    sql_run(f, f->backend->kind->analyze, NULL, 0);
    use_largest_batch(f);
    use_largest_batch(f); /* rows that are there already */
    sleep_us(1000);
    assert_int_equal(reap(f, 1, UINT64_MAX), ROWLOCK_BATCH_MAX);
}

static void test_repeated_batch_gives_the_same_fences_and_counts(void **state)
{
    struct fixture *f = *state;
    struct batch b = batch_new(100, "ann");
    acquire_some(f, &b, 0, 2, "ann", LONG_US);
    ops_acquire(f, f->conn, b.ops, b.n, 1);
    uint64_t fences[100];
    for (size_t i = 0; i < b.n; i++) {
        fences[i] = b.ops[i].fence;
        b.ops[i].fence = 0;
    }
    ops_acquire(f, another(f), b.ops, b.n, 1);
    for (size_t i = 0; i < b.n; i++) {
        expect_ok(b.ops[i].status, NULL);
        assert_int_equal(b.ops[i].fence, fences[i]);
        assert_int_equal(b.ops[i].hold_count, i % 2 == 0 ? 2 : 1);
    }
    batch_free(&b);
}

static void test_all_takes_everything_that_is_free(void **state)
{
    struct fixture *f = *state;
    struct batch b = batch_new(20, "ann");
    acquire_some(f, &b, 0, 4, "bob", SHORT_US);
    sleep_us(SHORT_US + 2000);
    acquire_some(f, &b, 1, 4, "ann", LONG_US);
    ops_acquire(f, f->conn, b.ops, b.n, 1);
    for (size_t i = 0; i < b.n; i++) {
        expect_ok(b.ops[i].status, NULL);
        assert_int_equal(b.ops[i].hold_count, i % 4 == 1 ? 2 : 1);
    }
    batch_free(&b);
}

/* 20 names: new ones, free ones, own ones, and number `busy`, which is another's. */
static void all_with_one_busy(struct fixture *f, size_t busy)
{
    struct batch b = batch_new(20, "ann");
    acquire_some(f, &b, 0, 4, "bob", SHORT_US);
    sleep_us(SHORT_US + 2000);
    rowlock_op held = grant(f, b.names[busy], "bob");
    acquire_some(f, &b, busy % 4 == 1 ? 2 : 1, 4, "ann", LONG_US);
    struct rows before = rows_read(f);
    ops_acquire(f, f->conn, b.ops, b.n, 1);
    struct rows after = rows_read(f);
    for (size_t i = 0; i < b.n; i++) {
        expect_status(ROWLOCK_BUSY, b.ops[i].status, NULL);
        assert_string_equal(b.ops[i].holder, i == busy ? "bob" : "");
    }
    assert_int_equal(b.ops[busy].holder_fence, held.fence);
    expect_between(b.ops[busy].remaining_us, LONG_US - SLACK_US, LONG_US);
    expect_same_rows(&before, &after);
    rows_free(&before);
    rows_free(&after);
    batch_free(&b);
}

static void test_all_takes_nothing_if_the_first_is_busy(void **state)
{
    all_with_one_busy(*state, 0);
}

static void test_all_takes_nothing_if_one_in_the_middle_is_busy(void **state)
{
    all_with_one_busy(*state, 9);
}

static void test_all_takes_nothing_if_the_last_is_busy(void **state)
{
    all_with_one_busy(*state, 19);
}

static void test_all_refused_leaves_the_attempts_of_own_holds(void **state)
{
    struct fixture *f = *state;
    rowlock_op own = grant(f, "a", "ann");
    grant(f, "b", "bob");
    rowlock_op ops[] = {op_new("a", "ann"), op_new("b", "ann")};
    ops_acquire(f, f->conn, ops, COUNT(ops), 1);
    expect_status(ROWLOCK_BUSY, ops[0].status, NULL);
    expect_ok(try_acquire(f, f->conn, &own), NULL);
    assert_int_equal(own.hold_count, 1);
}

static void test_all_refused_can_be_repeated_when_free(void **state)
{
    struct fixture *f = *state;
    rowlock_op held = grant(f, "b", "bob");
    rowlock_op ops[] = {op_new("a", "ann"), op_new("b", "ann"), op_new("c", "ann")};
    ops_acquire(f, f->conn, ops, COUNT(ops), 1);
    expect_status(ROWLOCK_BUSY, ops[1].status, NULL);
    rowlock_op back = op_of(&held);
    expect_ok(try_release(f, f->conn, &back), NULL);
    ops_acquire(f, f->conn, ops, COUNT(ops), 1);
    for (size_t i = 0; i < COUNT(ops); i++) {
        expect_ok(ops[i].status, NULL);
        assert_int_equal(ops[i].hold_count, 1);
    }
}

static void test_operations_of_one_batch_may_have_different_owners(void **state)
{
    struct fixture *f = *state;
    rowlock_op ops[] = {op_new("a", "ann"), op_new("b", "bob"), op_new("c", "cat")};
    ops[1].ttl_us = 2 * LONG_US;
    ops[2].note = "note";
    ops_acquire(f, f->conn, ops, COUNT(ops), 0);
    assert_string_equal(row_of(f, "a").owner, "ann");
    assert_string_equal(row_of(f, "b").owner, "bob");
    assert_string_equal(row_of(f, "c").owner, "cat");
    assert_true(row_of(f, "b").remaining_ms > LONG_US / 1000);
    assert_string_equal(row_of(f, "b").note, "");
    assert_string_equal(row_of(f, "c").note, "note");
}

static const struct test_case cases[] = {
    CASE(test_acquire_of_1_answers_each_by_itself),
    CASE(test_acquire_of_2_answers_each_by_itself),
    CASE(test_acquire_of_100_answers_each_by_itself),
    CASE(test_acquire_of_256_answers_each_by_itself),
    CASE(test_acquire_of_1000_answers_each_by_itself),
    CASE(test_renew_of_1_answers_each_by_itself),
    CASE(test_renew_of_2_answers_each_by_itself),
    CASE(test_renew_of_100_answers_each_by_itself),
    CASE(test_renew_of_256_answers_each_by_itself),
    CASE(test_renew_of_1000_answers_each_by_itself),
    CASE(test_release_of_1_answers_each_by_itself),
    CASE(test_release_of_2_answers_each_by_itself),
    CASE(test_release_of_100_answers_each_by_itself),
    CASE(test_release_of_256_answers_each_by_itself),
    CASE(test_release_of_1000_answers_each_by_itself),
    CASE(test_largest_batch_is_acquired_renewed_and_released),
    CASE_IF(test_largest_batch_works_with_statistics_of_a_small_table, BACKEND_SQL),
    CASE(test_repeated_batch_gives_the_same_fences_and_counts),
    CASE(test_all_takes_everything_that_is_free),
    CASE(test_all_takes_nothing_if_the_first_is_busy),
    CASE(test_all_takes_nothing_if_one_in_the_middle_is_busy),
    CASE(test_all_takes_nothing_if_the_last_is_busy),
    CASE(test_all_refused_leaves_the_attempts_of_own_holds),
    CASE(test_all_refused_can_be_repeated_when_free),
    CASE(test_operations_of_one_batch_may_have_different_owners),
};

const struct suite batch_suite = SUITE("batch", cases);
