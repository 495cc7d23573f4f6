/* SPDX-License-Identifier: MIT
 *
 * rowlock_acquire_many(), rowlock_release_many(). */
#include <stdio.h>

#include "conformance.h"

static void release_all(struct fixture *f, rowlock_lock **locks, size_t n)
{
    for (size_t i = 0; i < n; i++)
        let_go(f, &locks[i]);
}

static void test_many_are_answered_in_the_callers_order(void **state)
{
    struct fixture *f = *state;
    static const char *const names[] = {"c", "a", "d", "b"};
    rowlock_lock *locks[4];
    expect_ok(rowlock_acquire_many(locks, client_open(f), names, 4, NULL, &f->err), &f->err);
    for (size_t i = 0; i < COUNT(names); i++) {
        assert_int_equal(rowlock_fence(locks[i]), row_of(f, names[i]).fence);
        expect_ok(rowlock_check(locks[i]), NULL);
    }
    let_go(f, &locks[0]);
    assert_int_equal(row_of(f, "c").hold_count, 0);
    assert_int_equal(row_of(f, "a").hold_count, 1);
    release_all(f, locks + 1, 3);
}

static void test_many_are_all_or_none(void **state)
{
    struct fixture *f = *state;
    rowlock_client *first = client_open_as(f, "ann"), *second = client_open(f);
    rowlock_lock *held = hold(f, first, "b");
    static const char *const names[] = {"c", "b", "a"};
    rowlock_lock *locks[3] = {held, held, held};
    rowlock_holder holder;
    memset(&holder, 'x', sizeof(holder));
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;
    options.holder = &holder;
    expect_status(ROWLOCK_BUSY, rowlock_acquire_many(locks, second, names, 3, &options, &f->err),
                  &f->err);
    for (size_t i = 0; i < COUNT(locks); i++)
        assert_null(locks[i]);
    assert_string_equal(holder.name, "b");
    assert_string_equal(holder.owner, "ann");
    assert_int_equal(holder.fence, rowlock_fence(held));
    assert_false(row_exists(f, "a"));
    assert_false(row_exists(f, "c"));
    let_go(f, &held);
}

static void test_many_wait_for_all_of_them(void **state)
{
    struct fixture *f = *state;
    rowlock_client *first = client_open(f), *second = client_open(f);
    rowlock_lock *x = hold_briefly(f, first, "a", NULL), *y = hold_for(f, first, "c", 5 * BRIEF_MS);
    static const char *const names[] = {"a", "b", "c"};
    rowlock_lock *locks[3];
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;
    options.wait_ms = 20000;
    expect_ok(rowlock_acquire_many(locks, second, names, 3, &options, &f->err), &f->err);
    expect_status(ROWLOCK_LOST, rowlock_release(&x, NULL), NULL);
    expect_status(ROWLOCK_LOST, rowlock_release(&y, NULL), NULL);
    release_all(f, locks, 3);
}

static void test_many_time_out_and_take_nothing(void **state)
{
    struct fixture *f = *state;
    rowlock_client *first = client_open(f), *second = client_open(f);
    rowlock_lock *held = hold(f, first, "b");
    static const char *const names[] = {"a", "b"};
    rowlock_lock *locks[2];
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;
    options.wait_ms = 150;
    expect_status(ROWLOCK_TIMEOUT, rowlock_acquire_many(locks, second, names, 2, &options, &f->err),
                  &f->err);
    assert_null(locks[0]);
    assert_null(locks[1]);
    assert_false(row_exists(f, "a"));
    let_go(f, &held);
}

static void test_many_with_a_name_twice_are_refused(void **state)
{
    struct fixture *f = *state;
    static const char *const names[] = {"a", "b", "a"};
    rowlock_lock *locks[3];
    expect_status(ROWLOCK_EINVAL,
                  rowlock_acquire_many(locks, client_open(f), names, 3, NULL, &f->err), &f->err);
    for (size_t i = 0; i < COUNT(locks); i++)
        assert_null(locks[i]);
    assert_false(row_exists(f, "b"));
}

static void test_many_of_too_many_are_refused(void **state)
{
    struct fixture *f = *state;
    static const char *names[ROWLOCK_BATCH_MAX + 1];
    static rowlock_lock *locks[ROWLOCK_BATCH_MAX + 1];
    static char text[ROWLOCK_BATCH_MAX + 1][8];
    for (size_t i = 0; i < COUNT(names); i++) {
        snprintf(text[i], sizeof(text[i]), "%u", (unsigned)(i & 0xffff));
        names[i] = text[i];
    }
    expect_status(ROWLOCK_EINVAL,
                  rowlock_acquire_many(locks, client_open(f), names, COUNT(names), NULL, &f->err),
                  &f->err);
    struct rows rows = rows_read(f);
    assert_int_equal(rows.count, 0);
    rows_free(&rows);
}

static void test_many_reenter_what_is_held(void **state)
{
    struct fixture *f = *state;
    rowlock_client *client = client_open(f);
    rowlock_lock *held = hold(f, client, "b");
    static const char *const names[] = {"a", "b"};
    rowlock_lock *locks[2];
    expect_ok(rowlock_acquire_many(locks, client, names, 2, NULL, &f->err), &f->err);
    assert_int_equal(rowlock_fence(locks[1]), rowlock_fence(held));
    assert_int_equal(row_of(f, "b").hold_count, 2);
    release_all(f, locks, 2);
    let_go(f, &held);
}

static void test_many_take_names_with_nul_bytes(void **state)
{
    struct fixture *f = *state;
    static const char *const names[] = {"a\0b", "a", "a\0a"};
    static const size_t lengths[] = {3, 1, 3};
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;
    options.name_lengths = lengths;
    rowlock_lock *locks[3];
    expect_ok(rowlock_acquire_many(locks, client_open(f), names, 3, &options, &f->err), &f->err);
    struct rows rows = rows_read(f);
    assert_int_equal(rows.count, 3);
    assert_int_equal(rows.items[0].fence, rowlock_fence(locks[1]));
    assert_int_equal(rows.items[1].fence, rowlock_fence(locks[2]));
    assert_int_equal(rows.items[2].fence, rowlock_fence(locks[0]));
    rows_free(&rows);
    release_all(f, locks, 3);
}

static void test_a_thousand_are_taken_at_once(void **state)
{
    struct fixture *f = *state;
    static const char *names[1000];
    static rowlock_lock *locks[1000];
    static char text[1000][8];
    for (size_t i = 0; i < COUNT(names); i++) {
        snprintf(text[i], sizeof(text[i]), "n%u", (unsigned)(999 - i) & 0xfff);
        names[i] = text[i];
    }
    rowlock_client *client = client_open(f);
    expect_ok(rowlock_acquire_many(locks, client, names, COUNT(names), NULL, &f->err), &f->err);
    struct rows rows = rows_query(f, NULL, 0, 0);
    assert_int_equal(rows.count, 1000);
    rows_free(&rows);
    client_close(f, &client); /* gives them all back */
    for (size_t i = 0; i < COUNT(locks); i++)
        expect_status(ROWLOCK_ECLOSED, rowlock_release(&locks[i], NULL), NULL);
    rows = rows_query(f, NULL, 0, 0);
    assert_int_equal(rows.count, 0);
    rows_free(&rows);
}

static void test_many_are_released_at_once(void **state)
{
    struct fixture *f = *state;
    static const char *const names[] = {"c", "a", "b", "d"};
    rowlock_client *client = client_open(f);
    rowlock_lock *locks[5];
    int statuses[5];
    expect_ok(rowlock_acquire_many(locks, client, names, 4, NULL, &f->err), &f->err);
    locks[4] = hold(f, client, "a");
    expect_ok(rowlock_force_release(client, "b", NULL, &f->err), &f->err);
    expect_status(ROWLOCK_LOST, rowlock_release_many(statuses, locks, 5, &f->err), &f->err);
    for (size_t i = 0; i < COUNT(statuses); i++) {
        assert_null(locks[i]);
        assert_int_equal(statuses[i], i == 2 ? ROWLOCK_LOST : ROWLOCK_OK);
    }
    struct rows rows = rows_query(f, NULL, 0, 0);
    assert_int_equal(rows.count, 0);
    rows_free(&rows);
}

static const struct test_case cases[] = {
    CASE(test_many_are_answered_in_the_callers_order),
    CASE(test_many_are_all_or_none),
    CASE(test_many_wait_for_all_of_them),
    CASE(test_many_time_out_and_take_nothing),
    CASE(test_many_with_a_name_twice_are_refused),
    CASE(test_many_of_too_many_are_refused),
    CASE(test_many_reenter_what_is_held),
    CASE(test_many_take_names_with_nul_bytes),
    CASE(test_a_thousand_are_taken_at_once),
    CASE(test_many_are_released_at_once),
};

const struct suite api_many_suite = SUITE("api_many", cases);
