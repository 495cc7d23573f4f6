/* SPDX-License-Identifier: MIT
 *
 * Holds that are bounded, and leases of several handles of one lock. */
#include "watch_step.h"

static void test_a_stuck_worker_loses_the_lock_in_the_end(void **state)
{
    rowlock_acquire_options options = renewing(3000);
    int64_t start = rlk_clock_us();

    (void)state;
    options.max_hold_ms = 10000;
    held = take("a", &options);
    run_for(9500);
    assert_status(OK, rowlock_check(held));
    assert_status(OK, rowlock_renew(held, 60000, NULL)); /* not by hand either */
    run_for(2000);
    assert_int_equal(told_loss, ROWLOCK_LOSS_MAX_HOLD);
    assert_in_range(told_at - start, 9500 * MS, 10000 * MS);
    assert_false(fake_is_live("a"));
}

static void test_a_short_max_hold_shortens_the_lease(void **state)
{
    rowlock_acquire_options options = renewing(60000);

    (void)state;
    options.max_hold_ms = 500;
    held = take("a", &options);
    assert_in_range(rowlock_remaining(held), 400, 450);
    run_for(1000);
    assert_int_equal(told_loss, ROWLOCK_LOSS_MAX_HOLD);
    options.max_hold_ms = 49;
    rowlock_release(&held, NULL);
    assert_status(EINVAL, rowlock_acquire(&held, client, "a", &options, NULL));
}

static void test_an_endless_max_hold_is_no_bound(void **state)
{
    rowlock_acquire_options options = renewing(1000);

    (void)state;
    options.max_hold_ms = INT64_MAX;
    held = take("a", &options);
    run_for(5000);
    assert_status(OK, rowlock_check(held));
}

static void test_a_max_hold_that_nobody_watches_is_told_to_those_who_do(void **state)
{
    rowlock_acquire_options options = renewing(30000), inner = renewing(30000);

    (void)state;
    options.renew = 0;
    held = take("a", &options);
    (void)is_woken();
    inner.renew = 0;
    inner.on_lost = NULL;
    inner.max_hold_ms = 1000;
    second = take("a", &inner);
    assert_true(is_woken()); /* it would sleep until the end of the lease */
    run_for(1001);
    assert_int_equal(told, 1);
    assert_int_equal(told_loss, ROWLOCK_LOSS_MAX_HOLD);
}

static void test_a_longer_lease_of_a_re_entry_does_not_lengthen_max_hold(void **state)
{
    rowlock_acquire_options options = renewing(3000), longer = renewing(60000);
    int64_t start = rlk_clock_us();

    (void)state;
    options.max_hold_ms = 10000;
    held = take("a", &options);
    second = take("a", &longer);
    run_for(20000);
    assert_int_equal(told, 2);
    assert_int_equal(told_loss, ROWLOCK_LOSS_MAX_HOLD);
    assert_true(told_at - start <= 10000 * MS);
}

static void test_adopted_with_max_hold_it_ends_by_that(void **state)
{
    rowlock_acquire_options options = renewing(60000);
    rowlock_client *other = open_by_hand(NULL);
    int64_t start = rlk_clock_us();

    (void)state;
    assert_status(OK, rowlock_acquire(&second, other, "a", &options, NULL));
    options.max_hold_ms = 1000;
    assert_status(OK, rowlock_adopt(&held, client, "a", rowlock_fence(second), &options, NULL));
    run_for(5000);
    assert_int_equal(told, 1);
    assert_int_equal(told_loss, ROWLOCK_LOSS_MAX_HOLD);
    assert_true(told_at - start <= 1000 * MS);
    rowlock_release(&held, NULL);
    rowlock_release(&second, NULL);
    rowlock_close(&other);
}

static void test_a_short_re_entry_does_not_shorten_the_outer_lease(void **state)
{
    rowlock_acquire_options options = renewing(30000), brief = renewing(100);

    (void)state;
    held = take("a", &options);
    second = take("a", &brief);
    assert_status(OK, rowlock_release(&second, NULL));
    run_for(60000);
    assert_true(rowlock_remaining(held) > 10000);
    assert_status(OK, rowlock_renew(held, 100, NULL));
    run_for(60000);
    assert_true(rowlock_remaining(held) > 10000);
}

static void test_a_renewal_by_hand_asks_although_no_longer_lease_is_possible(void **state)
{
    rowlock_acquire_options options = renewing(30000);

    (void)state;
    options.renew = 0;
    options.max_hold_ms = 10000;
    held = take("a", &options);
    fake_clock_advance_us(1000 * MS);
    assert_status(OK, rowlock_renew(held, 0, NULL));
    assert_in_range(rowlock_remaining(held), 7000, 9000);
    assert_status(OK, rowlock_force_release(client, "a", NULL, NULL));
    assert_status(LOST, rowlock_renew(held, 0, NULL));
    assert_int_equal(rowlock_loss(held), ROWLOCK_LOSS_FORCED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_stuck_worker_loses_the_lock_in_the_end),
        TEST(a_short_max_hold_shortens_the_lease),
        TEST(an_endless_max_hold_is_no_bound),
        TEST(a_max_hold_that_nobody_watches_is_told_to_those_who_do),
        TEST(a_longer_lease_of_a_re_entry_does_not_lengthen_max_hold),
        TEST(adopted_with_max_hold_it_ends_by_that),
        TEST(a_short_re_entry_does_not_shorten_the_outer_lease),
        TEST(a_renewal_by_hand_asks_although_no_longer_lease_is_possible),
    };

    return cmocka_run_group_tests_name("core/watch_max_hold", tests, NULL, NULL);
}
