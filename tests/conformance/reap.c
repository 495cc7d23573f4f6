/* SPDX-License-Identifier: MIT
 *
 * The reap slot. */
#include <stdio.h>
#include <string.h>

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

/* ---- the mark -------------------------------------------------------------------------------- */

static rowlock_mark mark_of(const void *name, size_t length)
{
    rowlock_mark mark = {.length = length};
    memcpy(mark.name, name, length);
    return mark;
}

static void test_reap_goes_on_behind_names_of_any_bytes(void **state)
{
    struct fixture *f = *state;
    static char low[ROWLOCK_NAME_MAX], high[ROWLOCK_NAME_MAX]; /* all bytes 0, all bytes 0xff */
    memset(high, 0xff, sizeof high);
    rowlock_op ops[] = {op_bytes(low, 1, "ann"),           op_bytes(low, 2, "ann"),
                        op_bytes(low, sizeof low, "ann"),  op_bytes("\0'\\%", 4, "ann"),
                        op_bytes("a", 1, "ann"),           op_bytes("a\0", 2, "ann"),
                        op_bytes("a\0b", 3, "ann"),        op_bytes("b", 1, "ann"),
                        op_bytes("\xc3\xa4", 2, "ann"),    op_bytes(high, 1, "ann"),
                        op_bytes("\xff\0", 2, "ann"),      op_bytes(high, sizeof high - 1, "ann"),
                        op_bytes(high, sizeof high, "ann")}; /* in byte order */
    for (size_t i = 0; i < COUNT(ops); i++) {
        expect_ok(try_acquire(f, f->conn, &ops[i]), NULL);
        rowlock_op op = op_of(&ops[i]);
        expect_ok(try_release(f, f->conn, &op), NULL);
    }
    ops_sort(ops, COUNT(ops));
    sleep_us(1000);
    rowlock_mark mark = {0};
    uint64_t count = 0;
    for (size_t i = 0; i < COUNT(ops); i++) {
        expect_ok(reap_behind(f, &count, &mark, 1, 1), &f->err);
        assert_int_equal(count, 1);
        assert_int_equal(mark.length, ops[i].name_length);
        assert_memory_equal(mark.name, ops[i].name, mark.length);
    }
    expect_ok(reap_behind(f, &count, &mark, 1, 1), &f->err);
    assert_int_equal(count, 0);
    assert_int_equal(mark.length, 0);
}

static void test_reap_leaves_what_is_not_behind_the_mark(void **state)
{
    struct fixture *f = *state;
    grant_released(f, "a", "ann");
    grant_released(f, "b", "ann");
    grant_released(f, "ba", "ann");
    grant_released(f, "c", "ann");
    sleep_us(1000);
    rowlock_mark mark = mark_of("b", 1);
    uint64_t count = 0;
    expect_ok(reap_behind(f, &count, &mark, 1, 100), &f->err);
    assert_int_equal(count, 2);
    assert_int_equal(mark.length, 0);
    assert_true(row_exists(f, "a"));
    assert_true(row_exists(f, "b"));
}

static void test_reap_behind_the_last_name_finds_nothing(void **state)
{
    struct fixture *f = *state;
    char last[ROWLOCK_NAME_MAX];
    memset(last, 0xff, sizeof last);
    grant_released(f, "a", "ann");
    sleep_us(1000);
    rowlock_mark mark = mark_of(last, sizeof last);
    uint64_t count = UINT64_MAX;
    expect_ok(reap_behind(f, &count, &mark, 1, 100), &f->err);
    assert_int_equal(count, 0);
    assert_int_equal(mark.length, 0);
    assert_true(row_exists(f, "a"));
}

/* Live rows in front: a call gives up in time, and the next one goes on. */
static void test_reap_looks_at_few_rows_and_goes_on(void **state)
{
    struct fixture *f = *state;
    enum { LIVE = 2 * ROWLOCK_REAP_LOOK };
    char names[LIVE][8];
    for (int i = 0; i < LIVE; i++) {
        snprintf(names[i], sizeof names[i], "\xff\xc0%02d", i);
        grant(f, names[i], "ann");
    }
    grant_released(f, "a", "ann");
    grant_released(f, "\xff\xff", "ann");
    sleep_us(1000);
    rowlock_mark mark = {0};
    uint64_t counts[4] = {0};
    const char *const marks[] = {"a", names[LIVE / 2 - 1], names[LIVE - 1], "\xff\xff"};
    for (int i = 0; i < 4; i++) {
        expect_ok(reap_behind(f, &counts[i], &mark, 1, 1), &f->err);
        assert_int_equal(mark.length, strlen(marks[i]));
        assert_memory_equal(mark.name, marks[i], mark.length);
    }
    assert_int_equal(counts[0], 1);
    assert_int_equal(counts[1], 0);
    assert_int_equal(counts[2], 0);
    assert_int_equal(counts[3], 1);
    struct rows rows = rows_read(f);
    assert_int_equal(rows.count, LIVE);
    rows_free(&rows);
}

/* ---------------------------------------------------------------------------------------------- */

static void test_reap_accepts_the_largest_retention(void **state)
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

static const struct test_case cases[] = {
    CASE(test_reap_deletes_released_and_expired_rows),
    CASE(test_reap_spares_live_locks),
    CASE(test_reap_spares_what_ended_within_the_retention),
    CASE(test_reap_counts_the_retention_from_the_end_of_the_lease),
    CASE(test_reap_stops_at_the_limit_in_byte_order),
    CASE(test_reap_goes_on_behind_names_of_any_bytes),
    CASE(test_reap_leaves_what_is_not_behind_the_mark),
    CASE(test_reap_behind_the_last_name_finds_nothing),
    CASE(test_reap_looks_at_few_rows_and_goes_on),
    CASE(test_reap_accepts_the_largest_retention),
    CASE(test_reap_keeps_the_fence_rising),
    CASE(test_reap_makes_the_old_tenure_lost),
};

const struct suite reap_suite = SUITE("reap", cases);
