/* SPDX-License-Identifier: MIT
 *
 * What is lost, why, and who is told of it. */
#include "watch_step.h"

#include <poll.h>

static void test_without_renewal_the_end_is_told(void **state)
{
    rowlock_acquire_options options = renewing(1000);
    int64_t start = rlk_clock_us();

    (void)state;
    options.renew = 0;
    held = take("a", &options);
    run_for(2000);
    assert_int_equal(told, 1);
    assert_int_equal(told_loss, ROWLOCK_LOSS_EXPIRED);
    assert_int_equal(told_at - start, 900 * MS); /* before the database lets anybody in */
    assert_int_equal(COUNTER(lost), 1);
    assert_status(LOST, rowlock_release(&held, NULL));
    assert_int_equal(COUNTER(lost), 1);
}

static void test_a_dead_database_is_told_before_the_lease_ends(void **state)
{
    rowlock_acquire_options options = renewing(3000);
    int64_t start = rlk_clock_us();

    (void)state;
    held = take("a", &options);
    fake_plan(1, FAKE_NO_CONNECTION, 1);
    run_for(5000);
    assert_int_equal(told, 1);
    assert_int_equal(told_loss, ROWLOCK_LOSS_UNREACHABLE);
    /* The two threads are one here: the last try delays the telling by its least bound. */
    assert_in_range(told_at - start, 2600 * MS, 2710 * MS);
    assert_true(fake_calls() > 3); /* it tried more than once */
    fake_plan(0, FAKE_NONE, 0);
    run_for(5000);
    assert_status(LOST, rowlock_check(held)); /* for ever, although the database is back */
    assert_int_equal(told, 1);
}

/* The connection is stuck: each call takes all of its time. */
static void test_a_slow_database_never_makes_it_late(void **state)
{
    rowlock_acquire_options options = renewing(3000);
    int64_t start = rlk_clock_us();

    (void)state;
    held = take("a", &options);
    fake_slow(600 * MS, 0);
    fake_plan(1, FAKE_CUT_BEFORE, 1);
    run_for(5000);
    assert_int_equal(told, 1);
    assert_true(told_at - start < 3000 * MS + 600 * MS);
    fake_slow(0, 0);
}

static void test_reasons(void **state)
{
    rowlock_acquire_options options = renewing(3000), thief = ROWLOCK_ACQUIRE_OPTIONS_INIT;
    rowlock_lock *other = NULL;

    (void)state;
    held = take("a", &options);
    assert_status(OK, rowlock_force_release(client, "a", NULL, NULL));
    run_for(1100);
    assert_int_equal(told_loss, ROWLOCK_LOSS_FORCED);
    rowlock_release(&held, NULL);
    held = take("a", &options);
    assert_status(OK, rowlock_force_release(client, "a", NULL, NULL));
    thief.owner = "thief";
    thief.ttl_ms = 60000;
    other = take("a", &thief);
    run_for(1100);
    assert_int_equal(told_loss, ROWLOCK_LOSS_TAKEN);
    assert_int_equal(told, 2);
    assert_status(OK, rowlock_check(other));
    assert_status(LOST, rowlock_release(&held, NULL));
    assert_status(OK, rowlock_release(&other, NULL));
}

static rowlock_lock *asked;
static int check_while_asking, check_calls;
static int (*list)(void *, const rowlock_list_query *, rowlock_row_fn, void *, uint32_t,
                   rowlock_error *);

/* What rowlock_check() says while the reason of the loss is looked for. */
static int checking_list(void *conn, const rowlock_list_query *query, rowlock_row_fn fn,
                         void *payload, uint32_t timeout_ms, rowlock_error *err)
{
    check_while_asking = rowlock_check(asked);
    rlk_teller_step(client);
    check_calls += told;
    return list(conn, query, fn, payload, timeout_ms, err);
}

/* Told LOST by the database, it says so at once; on_lost comes when the reason is known. */
static void lost_at_once(int by_renew)
{
    static rowlock_driver driver;
    rowlock_acquire_options options = renewing(30000);

    driver = *fake_driver();
    list = driver.list;
    driver.list = checking_list;
    step_driver = &driver;
    open_again(NULL);
    step_driver = NULL;
    check_while_asking = 99;
    check_calls = 0;
    asked = held = take("a", &options);
    assert_status(OK, rowlock_force_release(client, "a", NULL, NULL));
    if (by_renew)
        assert_status(LOST, rowlock_renew(held, 0, NULL));
    else
        run_for(11000);
    run_for(1);
    assert_int_equal(check_while_asking, ROWLOCK_LOST);
    assert_int_equal(check_calls, 0);
    assert_int_equal(told, 1);
    assert_int_equal(told_loss, ROWLOCK_LOSS_FORCED);
    assert_int_equal(rowlock_loss(held), ROWLOCK_LOSS_FORCED);
}

static void test_lost_by_a_renewal_it_is_lost_at_once(void **state)
{
    (void)state;
    lost_at_once(0);
}

static void test_lost_by_a_call_it_is_lost_at_once(void **state)
{
    (void)state;
    lost_at_once(1);
}

static int released_in_callback;

static void release_in_callback(rowlock_lock *lock, int loss, void *payload)
{
    (void)payload;
    told++;
    told_loss = loss;
    assert_ptr_equal(lock, held);
    released_in_callback = rowlock_release(&held, NULL);
    assert_status(OK, rowlock_acquire(&held, client, "b", NULL, NULL));
}

static void test_the_callback_may_use_the_library(void **state)
{
    rowlock_acquire_options options = renewing(1000);

    (void)state;
    options.renew = 0;
    options.on_lost = release_in_callback;
    held = take("a", &options);
    run_for(2000);
    assert_int_equal(told, 1);
    assert_int_equal(released_in_callback, ROWLOCK_LOST);
    assert_true(fake_is_live("b"));
}

static void test_the_descriptor_becomes_readable(void **state)
{
    rowlock_acquire_options options = renewing(1000);
    struct pollfd polled = {.events = POLLIN};

    (void)state;
    options.renew = 0;
    options.on_lost = NULL;
    held = take("a", &options);
    polled.fd = rowlock_lost_fd(held, NULL);
    assert_true(polled.fd >= 0);
    assert_int_equal(rowlock_lost_fd(held, NULL), polled.fd);
    run_for(800);
    assert_int_equal(poll(&polled, 1, 0), 0);
    run_for(200);
    assert_int_equal(poll(&polled, 1, 0), 1);
    assert_int_equal(rowlock_lost_fd(NULL, NULL), -1);
}

static struct pollfd raised[2];
static int raised_at_first_call;

static void look_at_descriptors(rowlock_lock *lock, int loss, void *payload)
{
    on_lost(lock, loss, payload);
    if (told == 1)
        raised_at_first_call = poll(raised, 2, 0);
}

static void test_all_descriptors_are_readable_before_the_first_callback(void **state)
{
    rowlock_acquire_options options = renewing(1000);

    (void)state;
    options.renew = 0;
    options.on_lost = look_at_descriptors;
    held = take("a", &options);
    second = take("b", &options);
    raised[0] = (struct pollfd){.fd = rowlock_lost_fd(held, NULL), .events = POLLIN};
    raised[1] = (struct pollfd){.fd = rowlock_lost_fd(second, NULL), .events = POLLIN};
    raised_at_first_call = 0;
    run_for(2000);
    assert_int_equal(told, 2);
    assert_int_equal(raised_at_first_call, 2);
}

static void test_a_later_descriptor_of_a_lost_lock_is_readable(void **state)
{
    rowlock_acquire_options options = renewing(1000);
    struct pollfd polled = {.events = POLLIN};

    (void)state;
    options.renew = 0;
    held = take("a", &options);
    run_for(2000);
    polled.fd = rowlock_lost_fd(held, NULL);
    run_for(1);
    assert_int_equal(poll(&polled, 1, 0), 1);
    assert_int_equal(told, 1);
}

static void test_each_handle_is_told_once(void **state)
{
    rowlock_acquire_options options = renewing(1000);

    (void)state;
    options.renew = 0;
    held = take("a", &options);
    second = take("a", &options);
    run_for(3000);
    assert_int_equal(told, 2);
    assert_int_equal(COUNTER(lost), 1); /* one tenure */
}

/* Both are lost at once, and whoever is told first releases the other. */
static void release_other(rowlock_lock *lock, int loss, void *payload)
{
    (void)payload;
    on_lost(lock, loss, &told);
    if (lock == held)
        rowlock_release(&second, NULL);
    else
        rowlock_release(&held, NULL);
}

static void test_a_handle_that_is_released_meanwhile_is_not_told(void **state)
{
    rowlock_acquire_options options = renewing(1000);

    (void)state;
    options.renew = 0;
    options.on_lost = release_other;
    held = take("a", &options);
    second = take("b", &options);
    run_for(3000);
    assert_int_equal(told, 1);
    assert_true((held == NULL) != (second == NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(without_renewal_the_end_is_told),
        TEST(a_dead_database_is_told_before_the_lease_ends),
        TEST(a_slow_database_never_makes_it_late),
        TEST(reasons),
        TEST(lost_by_a_renewal_it_is_lost_at_once),
        TEST(lost_by_a_call_it_is_lost_at_once),
        TEST(the_callback_may_use_the_library),
        TEST(the_descriptor_becomes_readable),
        TEST(all_descriptors_are_readable_before_the_first_callback),
        TEST(a_later_descriptor_of_a_lost_lock_is_readable),
        TEST(each_handle_is_told_once),
        TEST(a_handle_that_is_released_meanwhile_is_not_told),
    };

    return cmocka_run_group_tests_name("core/watch_loss", tests, NULL, NULL);
}
