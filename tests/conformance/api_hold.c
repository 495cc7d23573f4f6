/* SPDX-License-Identifier: MIT
 *
 * Holding: renew, check, remaining, release, rowlock_with(). */
#include "conformance.h"

static void test_renew_extends_to_the_ttl_given(void **state)
{
    struct fixture *f = *state;
    rowlock_lock *lock = hold(f, client_open(f), "lock");
    expect_ok(rowlock_renew(lock, 100000, &f->err), &f->err);
    assert_string_equal(f->err.message, "");
    expect_between(rowlock_remaining(lock), 80000 - SLACK_US / 1000, 100000);
    expect_between(row_of(f, "lock").remaining_ms, 100000 - SLACK_US / 1000, 100000);
    let_go(f, &lock);
}

static void test_renew_with_zero_keeps_the_ttl_as_acquired(void **state)
{
    struct fixture *f = *state;
    rowlock_lock *lock = hold_for(f, client_open(f), "lock", 50000);
    expect_ok(rowlock_renew(lock, 0, &f->err), &f->err);
    expect_between(row_of(f, "lock").remaining_ms, 50000 - SLACK_US / 1000, 50000);
    let_go(f, &lock);
}

static void test_renew_keeps_a_lock_beyond_its_first_lease(void **state)
{
    struct fixture *f = *state;
    rowlock_client *client = client_open(f), *other = client_open(f);
    rowlock_lock *lock = NULL, *thief = NULL;
    int64_t ttl_ms = BRIEF_MS;
    int status = ROWLOCK_LOST;
    while (status == ROWLOCK_LOST && ttl_ms * 1000 < SLACK_US) { /* if the renewal came too late */
        ttl_ms *= 2;
        if (lock != NULL)
            rowlock_release(&lock, NULL);
        lock = hold_briefly(f, client, "lock", &ttl_ms);
        status = rowlock_renew(lock, 60000, &f->err);
    }
    expect_ok(status, &f->err);
    sleep_us((ttl_ms + 20) * 1000);
    expect_ok(rowlock_check(lock), NULL);
    expect_status(ROWLOCK_BUSY, rowlock_acquire(&thief, other, "lock", NULL, &f->err), &f->err);
    let_go(f, &lock);
}

static void test_renew_of_a_lost_lock_is_lost(void **state)
{
    struct fixture *f = *state;
    rowlock_lock *lock = hold_briefly(f, client_open(f), "lock", NULL);
    outlive(f, "lock");
    expect_status(ROWLOCK_LOST, rowlock_renew(lock, 30000, &f->err), &f->err);
    assert_int_equal(f->err.status, ROWLOCK_LOST);
    expect_status(ROWLOCK_LOST, rowlock_check(lock), NULL);
    assert_true(row_of(f, "lock").remaining_ms <= 0);
    expect_status(ROWLOCK_LOST, rowlock_release(&lock, &f->err), &f->err);
}

static void test_check_turns_lost_before_the_lease_ends(void **state)
{
    struct fixture *f = *state;
    rowlock_lock *lock = hold_for(f, client_open(f), "lock", 2000);
    expect_ok(rowlock_check(lock), NULL);
    int status = ROWLOCK_OK;
    int64_t left = 0;
    for (int i = 0; i < 5000 && status == ROWLOCK_OK; i++) {
        sleep_us(1000);
        left = row_of(f, "lock").remaining_ms; /* by the database, before the local answer */
        status = rowlock_check(lock);
        if (status == ROWLOCK_OK)
            assert_true(left > 0);
    }
    expect_status(ROWLOCK_LOST, status, NULL);
    assert_int_equal(rowlock_remaining(lock), 0);
    expect_status(ROWLOCK_LOST, rowlock_release(&lock, &f->err), &f->err);
}

static void test_remaining_falls(void **state)
{
    struct fixture *f = *state;
    rowlock_lock *lock = hold(f, client_open(f), "lock");
    int64_t first = rowlock_remaining(lock);
    sleep_us(30000);
    expect_between(rowlock_remaining(lock), 30000 - SLACK_US / 1000 - 3000, first - 29);
    let_go(f, &lock);
}

/* No I/O: the answers are the same when the table has gone. */
static void test_check_and_remaining_do_not_ask_the_database(void **state)
{
    struct fixture *f = *state;
    rowlock_client *client = client_open(f);
    rowlock_lock *lock = hold(f, client, "lock");
    expect_ok(tables_to(f, f->conn, 0), &f->err);
    expect_ok(rowlock_check(lock), NULL);
    assert_true(rowlock_remaining(lock) > 0);
    assert_true(rowlock_fence(lock) > 0);
    expect_status(ROWLOCK_ESCHEMA, rowlock_renew(lock, 0, &f->err), &f->err);
    expect_status(ROWLOCK_ESCHEMA, rowlock_release(&lock, &f->err), &f->err);
    assert_null(lock);
}

static void test_release_lets_another_client_in(void **state)
{
    struct fixture *f = *state;
    rowlock_client *first = client_open(f), *second = client_open(f);
    rowlock_lock *lock = hold(f, first, "lock");
    let_go(f, &lock);
    assert_int_equal(f->err.status, ROWLOCK_OK);
    lock = hold(f, second, "lock");
    let_go(f, &lock);
}

static void test_release_twice_is_einval(void **state)
{
    struct fixture *f = *state;
    rowlock_lock *lock = hold(f, client_open(f), "lock");
    let_go(f, &lock);
    expect_status(ROWLOCK_EINVAL, rowlock_release(&lock, &f->err), &f->err);
    assert_true(f->err.message[0] != '\0');
}

static void test_release_of_a_tenure_that_ended_is_lost(void **state)
{
    struct fixture *f = *state;
    rowlock_lock *lock = hold(f, client_open(f), "lock");
    rowlock_op force = op_new("lock", "");
    expect_ok(try_force(f, f->conn, &force), NULL);
    expect_status(ROWLOCK_LOST, rowlock_release(&lock, &f->err), &f->err);
    assert_null(lock);
    assert_int_equal(f->err.status, ROWLOCK_LOST);
}

/* ---- rowlock_with() -------------------------------------------------------------------------- */

struct visit {
    struct fixture *f;
    int runs;
    int held;
    int64_t stay_us;
};

static int visit(rowlock_lock *lock, void *payload)
{
    struct visit *v = payload;
    v->runs++;
    v->held = rowlock_check(lock) == ROWLOCK_OK && row_of(v->f, "lock").hold_count == 1;
    if (v->stay_us > 0)
        sleep_us(v->stay_us);
    return 42;
}

static void test_with_runs_under_the_lock_and_releases(void **state)
{
    struct fixture *f = *state;
    struct visit v = {.f = f};
    int result = 0;
    expect_ok(rowlock_with(&result, client_open(f), "lock", NULL, visit, &v, &f->err), &f->err);
    assert_int_equal(result, 42);
    assert_int_equal(v.runs, 1);
    assert_true(v.held);
    assert_int_equal(row_of(f, "lock").hold_count, 0);
}

static void test_with_does_not_run_if_busy(void **state)
{
    struct fixture *f = *state;
    rowlock_lock *lock = hold(f, client_open(f), "lock");
    struct visit v = {.f = f};
    int result = -7;
    expect_status(ROWLOCK_BUSY,
                  rowlock_with(&result, client_open(f), "lock", NULL, visit, &v, &f->err), &f->err);
    assert_int_equal(v.runs, 0);
    assert_int_equal(result, -7);
    let_go(f, &lock);
}

static void test_with_tells_that_the_lease_ended_inside(void **state)
{
    struct fixture *f = *state;
    rowlock_client *client = client_open(f);
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;
    struct visit v = {.f = f};
    int result = 0, status = ROWLOCK_ECONNECT; /* as in hold_briefly() */
    for (options.ttl_ms = BRIEF_MS; status == ROWLOCK_ECONNECT && options.ttl_ms * 1000 < SLACK_US;
         options.ttl_ms *= 2) {
        v.stay_us = (options.ttl_ms + 50) * 1000;
        status = rowlock_with(&result, client, "lock", &options, visit, &v, &f->err);
    }
    expect_status(ROWLOCK_LOST, status, &f->err);
    assert_int_equal(result, 42);
    assert_int_equal(v.runs, 1);
}

static int visit_inner(rowlock_lock *lock, void *payload)
{
    (void)lock;
    return *(int *)payload;
}

static int visit_outer(rowlock_lock *lock, void *payload)
{
    (void)lock;
    rowlock_client *client = *(rowlock_client **)payload;
    int seven = 7, result = 0;
    int status = rowlock_with(&result, client, "lock", NULL, visit_inner, &seven, NULL);
    return status == ROWLOCK_OK ? result : -1;
}

static void test_with_may_be_nested(void **state)
{
    struct fixture *f = *state;
    rowlock_client *client = client_open(f);
    int result = 0;
    expect_ok(rowlock_with(&result, client, "lock", NULL, visit_outer, &client, &f->err), &f->err);
    assert_int_equal(result, 7);
    assert_int_equal(row_of(f, "lock").hold_count, 0);
}

static void test_with_needs_no_result(void **state)
{
    struct fixture *f = *state;
    int seven = 7;
    expect_ok(rowlock_with(NULL, client_open(f), "lock", NULL, visit_inner, &seven, &f->err),
              &f->err);
}

static const struct test_case cases[] = {
    CASE(test_renew_extends_to_the_ttl_given),
    CASE(test_renew_with_zero_keeps_the_ttl_as_acquired),
    CASE(test_renew_keeps_a_lock_beyond_its_first_lease),
    CASE(test_renew_of_a_lost_lock_is_lost),
    CASE(test_check_turns_lost_before_the_lease_ends),
    CASE(test_remaining_falls),
    CASE(test_check_and_remaining_do_not_ask_the_database),
    CASE(test_release_lets_another_client_in),
    CASE(test_release_twice_is_einval),
    CASE(test_release_of_a_tenure_that_ended_is_lost),
    CASE(test_with_runs_under_the_lock_and_releases),
    CASE(test_with_does_not_run_if_busy),
    CASE(test_with_tells_that_the_lease_ended_inside),
    CASE(test_with_may_be_nested),
    CASE(test_with_needs_no_result),
};

const struct suite api_hold_suite = SUITE("api_hold", cases);
