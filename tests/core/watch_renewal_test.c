/* SPDX-License-Identifier: MIT
 *
 * What is renewed, and when. */
#include "watch_step.h"

#include <stdio.h>

static void test_a_lock_is_kept_for_as_long_as_it_is_wanted(void **state)
{
    rowlock_acquire_options options = renewing(3000);
    uint64_t fence;

    (void)state;
    held = take("a", &options);
    fence = rowlock_fence(held);
    run_for(60000);
    assert_status(OK, rowlock_check(held));
    assert_true(fake_is_live("a"));
    assert_int_equal(fake_find("a")->fence, fence);
    assert_in_range(COUNTER(renewed), 55, 80); /* about every second */
    assert_int_equal(told, 0);
    assert_status(OK, rowlock_release(&held, NULL));
    assert_false(fake_is_live("a"));
    assert_true(step() == RLK_NEVER);
}

static void test_many_are_renewed_in_few_statements(void **state)
{
    rowlock_acquire_options options = renewing(3000);
    rowlock_lock *locks[1500];
    char name[16];

    (void)state;
    options.on_lost = NULL;
    for (int i = 0; i < 1500; i++) {
        snprintf(name, sizeof name, "%04d", 1499 - i);
        locks[i] = take(name, &options);
        fake_clock_advance_us(20); /* acquired one after the other */
    }
    fake_plan(0, FAKE_NONE, 0);
    run_for(10000);
    assert_in_range(fake_calls(), 18, 28); /* two for each of about ten ticks */
    for (int i = 0; i < 1500; i++) {
        assert_status(OK, rowlock_check(locks[i]));
        rowlock_release(&locks[i], NULL);
    }
}

static void test_a_database_that_comes_back_in_time_is_no_loss(void **state)
{
    rowlock_acquire_options options = renewing(3000);

    (void)state;
    held = take("a", &options);
    run_for(500);
    fake_plan(1, FAKE_CUT_BEFORE, 1);
    run_for(1500);
    fake_plan(0, FAKE_NONE, 0);
    run_for(10000);
    assert_status(OK, rowlock_check(held));
    assert_int_equal(told, 0);
    assert_true(COUNTER(reconnects) >= 1);
}

/* ---- a driver that can hang, and looks at what it is sent ---- */

static int hangs;       /* so many renewals take all of their time */
static int is_in_order; /* names rise in every request */

static int watched_renew(void *conn, rowlock_op *ops, size_t n, uint32_t timeout_ms,
                         rowlock_error *err)
{
    for (size_t i = 1; i < n; i++)
        is_in_order &= rlk_op_by_name(&ops[i - 1], &ops[i]) < 0;
    if (hangs > 0) {
        hangs--;
        fake_clock_advance_us(timeout_ms * MS);
        rlk_fail_native(err, ROWLOCK_EUNKNOWN, 0, NULL, 1, "hangs");
        return ROWLOCK_EUNKNOWN;
    }
    return fake_driver()->renew(conn, ops, n, timeout_ms, err);
}

static void open_watched(void)
{
    static rowlock_driver driver;

    driver = *fake_driver();
    driver.renew = watched_renew;
    hangs = 0;
    is_in_order = 1;
    step_driver = &driver;
    open_again(NULL);
    step_driver = NULL;
}

static void test_a_stuck_connection_leaves_time_for_another(void **state)
{
    rowlock_acquire_options options = renewing(3000);

    (void)state;
    open_watched();
    held = take("a", &options);
    hangs = 1;
    run_for(20000);
    assert_int_equal(hangs, 0);
    assert_int_equal(told, 0);
    assert_status(OK, rowlock_check(held));
}

/* The first owner was forced out, and has not noticed: both want the same name to be renewed. */
static void test_no_request_has_a_name_twice(void **state)
{
    rowlock_acquire_options options = renewing(3000);

    (void)state;
    open_watched();
    held = take("a", &options);
    assert_status(OK, rowlock_force_release(client, "a", NULL, NULL));
    options.owner = "you";
    second = take("a", &options);
    run_for(4000);
    assert_true(is_in_order);
    assert_status(LOST, rowlock_check(held));
    assert_status(OK, rowlock_check(second));
}

/* All of them were carried out, and no answer came: the row outlives the lease that is known. */
static void test_a_renewal_of_unknown_outcome_is_not_re_entered(void **state)
{
    rowlock_acquire_options options = renewing(3000);

    (void)state;
    held = take("a", &options);
    fake_plan(1, FAKE_CUT_AFTER, 1);
    run_for(3500);
    fake_plan(0, FAKE_NONE, 0);
    assert_int_equal(told, 1);
    assert_true(fake_is_live("a"));
    assert_status(BUSY, rowlock_acquire(&second, client, "a", &options, NULL));
    assert_int_equal(fake_find("a")->hold_count, 1);
}

static void test_renewal_ends_with_the_handle_that_wants_it(void **state)
{
    rowlock_acquire_options options = renewing(1000), plain = ROWLOCK_ACQUIRE_OPTIONS_INIT;
    rowlock_lock *inner;

    (void)state;
    plain.owner = "me";
    plain.ttl_ms = 1000;
    held = take("a", &plain);
    inner = take("a", &options);
    run_for(5000);
    assert_status(OK, rowlock_check(held));
    assert_status(OK, rowlock_release(&inner, NULL));
    run_for(2000);
    assert_status(LOST, rowlock_check(held));
    assert_int_equal(told, 0);
}

static void test_a_guarded_row_is_asked_for_again(void **state)
{
    rowlock_acquire_options options = renewing(3000);

    (void)state;
    held = take("a", &options);
    fake_find("a")->locked = 1;
    run_for(1500);
    fake_find("a")->locked = 0;
    run_for(1000);
    assert_status(OK, rowlock_check(held));
    assert_in_range(rowlock_remaining(held), 1500, 3000);
}

static void test_ensure_renews_only_when_it_must(void **state)
{
    rowlock_acquire_options options = renewing(10000);

    (void)state;
    options.renew = 0;
    options.on_lost = NULL;
    held = take("a", &options);
    fake_plan(0, FAKE_NONE, 0);
    assert_status(OK, rowlock_ensure(held, 5000, NULL));
    assert_int_equal(fake_calls(), 0);
    fake_clock_advance_us(6000 * MS);
    assert_status(OK, rowlock_ensure(held, 5000, NULL));
    assert_int_equal(fake_calls(), 1);
    assert_in_range(rowlock_remaining(held), 8900, 9000);
    assert_status(EINVAL, rowlock_ensure(held, -1, NULL));
    fake_clock_advance_us(20000 * MS);
    assert_status(LOST, rowlock_ensure(held, 0, NULL));
}

/* Why each of many was lost is a question of its own. */
static void test_reasons_of_losses_do_not_keep_others_from_being_renewed(void **state)
{
    enum { MANY = 200 };
    rowlock_acquire_options options = renewing(6000), brief = renewing(2000);
    rowlock_lock *locks[MANY];
    char name[16];

    (void)state;
    options.on_lost = NULL;
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "%04d", i);
        locks[i] = take(name, &options);
        fake_find(name)->fence++; /* forced */
    }
    fake_clock_advance_us(1500 * MS);
    held = take("held", &brief); /* due when the answers for the others are there */
    fake_slow(10 * MS, 10 * MS);
    run_for(10000);
    fake_slow(0, 0);
    assert_status(OK, rowlock_check(held));
    for (int i = 0; i < MANY; i++)
        assert_status(LOST, rowlock_release(&locks[i], NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_lock_is_kept_for_as_long_as_it_is_wanted),
        TEST(many_are_renewed_in_few_statements),
        TEST(a_database_that_comes_back_in_time_is_no_loss),
        TEST(a_stuck_connection_leaves_time_for_another),
        TEST(no_request_has_a_name_twice),
        TEST(a_renewal_of_unknown_outcome_is_not_re_entered),
        TEST(renewal_ends_with_the_handle_that_wants_it),
        TEST(a_guarded_row_is_asked_for_again),
        TEST(ensure_renews_only_when_it_must),
        TEST(reasons_of_losses_do_not_keep_others_from_being_renewed),
    };

    return cmocka_run_group_tests_name("core/watch_renewal", tests, NULL, NULL);
}
