/* SPDX-License-Identifier: MIT
 *
 * The watchdog's edges, step by step on the fake clock: handles that go while they are told of,
 * leases that were granted late, bounds that meet longer leases, and whose hold it is that a late
 * answer gives back. */
#include "core_test.h"

#include <unistd.h>

#include "core.h"

static rowlock_client *client;
static rowlock_lock *held, *second;
static int told, told_loss, answer;
static int64_t told_at;
static uint32_t renew_timeout_ms;
static void (*before_renew)(void); /* happens before its effect; once */
static void (*during_renew)(void); /* after it, before its answer; once */

static void happen(void (**what)(void))
{
    void (*fn)(void) = *what;

    *what = NULL;
    if (fn != NULL)
        fn();
}

static int edged_renew(void *conn, rowlock_op *ops, size_t n, uint32_t timeout_ms,
                       rowlock_error *err)
{
    int rc;

    renew_timeout_ms = timeout_ms;
    happen(&before_renew);
    rc = fake_driver()->renew(conn, ops, n, timeout_ms, err);
    happen(&during_renew);
    return rc;
}

static rowlock_client *open_by_hand(const rowlock_options *options)
{
    rowlock_driver driver = *fake_driver();
    rowlock_client *opened = NULL;

    driver.renew = edged_renew;
    assert_status(OK, rowlock_open(&opened, &driver, "fake", options, NULL));
    opened->watch.is_by_hand = 1;
    return opened;
}

static int set_up(void **state)
{
    fresh(state);
    told = told_loss = 0;
    told_at = 0;
    answer = 99;
    held = second = NULL;
    before_renew = during_renew = NULL;
    renew_timeout_ms = 0;
    client = open_by_hand(NULL);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    if (held != NULL)
        rowlock_release(&held, NULL);
    if (second != NULL)
        rowlock_release(&second, NULL);
    rowlock_close(&client);
    return 0;
}

static void on_lost(rowlock_lock *lock, int loss, void *payload)
{
    (void)lock;
    (void)payload;
    told++;
    told_loss = loss;
    told_at = rlk_clock_us();
}

static rowlock_acquire_options renewing(int64_t ttl_ms)
{
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;

    options.owner = "me";
    options.ttl_ms = ttl_ms;
    options.renew = 1;
    options.on_lost = on_lost;
    return options;
}

static rowlock_lock *take(const char *name, const rowlock_acquire_options *options)
{
    rowlock_lock *lock = NULL;

    assert_status(OK, rowlock_acquire(&lock, client, name, options, NULL));
    return lock;
}

static int64_t step(void)
{
    int64_t keeper = rlk_keeper_step(client), teller = rlk_teller_step(client);

    return keeper < teller ? keeper : teller;
}

static void run_for(int64_t ms)
{
    int64_t end = rlk_clock_us() + ms * MS;
    int64_t next = step();

    for (int i = 0; i < 100000 && next < end; i++) {
        if (next > rlk_clock_us())
            fake_clock_advance_us(next - rlk_clock_us());
        next = step();
    }
    if (end > rlk_clock_us())
        fake_clock_advance_us(end - rlk_clock_us());
}

/* ---- handles that go while they are told of ---- */

static void release_on_lost_event(const rowlock_event *event, void *payload)
{
    (void)payload;
    if (event->kind == ROWLOCK_EVENT_LOST && held != NULL)
        answer = rowlock_release(&held, NULL);
}

static void test_released_in_the_event_it_is_not_told_after(void **state)
{
    rowlock_options options = ROWLOCK_OPTIONS_INIT;
    rowlock_acquire_options short_one = renewing(1000);

    (void)state;
    rowlock_close(&client);
    options.on_event = release_on_lost_event;
    client = open_by_hand(&options);
    short_one.renew = 0;
    held = take("a", &short_one);
    run_for(2000);
    assert_int_equal(answer, ROWLOCK_LOST);
    assert_int_equal(told, 0);
    assert_null(client->watch.calling);
}

static rowlock_lock *pair[2];

static void release_in_callback(rowlock_lock *lock, int loss, void *payload)
{
    on_lost(lock, loss, payload);
    rowlock_release(pair[0] == lock ? &pair[0] : &pair[1], NULL);
}

static void be_slow_when_acquired(const rowlock_event *event, void *payload)
{
    (void)payload;
    if (event->kind == ROWLOCK_EVENT_ACQUIRED && told == 0) {
        fake_clock_advance_us(1000 * MS);
        step();
    }
}

static void test_lost_and_released_before_acquire_has_returned(void **state)
{
    static const char *const names[] = {"a", "b"};
    rowlock_options options = ROWLOCK_OPTIONS_INIT;
    rowlock_acquire_options short_one = renewing(1000);

    (void)state;
    rowlock_close(&client);
    options.on_event = be_slow_when_acquired;
    client = open_by_hand(&options);
    short_one.renew = 0;
    short_one.on_lost = release_in_callback;
    assert_status(OK, rowlock_acquire_many(pair, client, names, 2, &short_one, NULL));
    run_for(1);
    assert_int_equal(told, 2);
    assert_true(pair[0] == NULL && pair[1] == NULL);
}

static void use_when_reconnected(const rowlock_event *event, void *payload)
{
    (void)payload;
    if (event->kind == ROWLOCK_EVENT_RECONNECTED)
        answer = rowlock_acquire(&second, client, "b", NULL, NULL);
}

static void test_the_only_connection_is_free_when_the_event_comes(void **state)
{
    rowlock_options options = ROWLOCK_OPTIONS_INIT;

    (void)state;
    rowlock_close(&client);
    options.on_event = use_when_reconnected;
    options.max_connections = 1;
    client = open_by_hand(&options);
    fake_plan(1, FAKE_CUT_BEFORE, 0);
    held = take("a", NULL);
    assert_int_equal(answer, ROWLOCK_OK);
}

/* ---- when ---- */

static void test_a_lease_granted_late_is_renewed_in_time(void **state)
{
    rowlock_acquire_options options = renewing(1000);

    (void)state;
    fake_slow(0, 700 * MS);
    held = take("a", &options);
    fake_slow(0, 0);
    run_for(5000);
    assert_int_equal(told, 0);
    assert_status(OK, rowlock_check(held));
}

static void test_an_end_that_is_near_does_not_starve_the_others(void **state)
{
    rowlock_acquire_options options = renewing(30000), brief = renewing(30000);

    (void)state;
    brief.renew = 0;
    second = take("b", &brief);
    fake_clock_advance_us(17900 * MS);
    held = take("a", &options);
    fake_clock_advance_us(10099 * MS); /* b ends in a millisecond, a is due */
    step();
    run_for(100);
    assert_true(renew_timeout_ms >= 10);
    assert_int_equal(told, 1);
}

static void test_a_guarded_row_is_asked_for_at_its_time(void **state)
{
    rowlock_acquire_options options = renewing(30000);
    int64_t next;

    (void)state;
    held = take("a", &options);
    fake_find("a")->locked = 1;
    fake_clock_advance_us(10000 * MS);
    next = step();
    assert_true(next > rlk_clock_us());
    fake_plan(0, FAKE_NONE, 0);
    step(); /* woken for something else */
    assert_int_equal(fake_calls(), 0);
    fake_find("a")->locked = 0;
}

static int is_woken(void)
{
    uint64_t wakes;

    return read(client->watch.teller.wake_fd, &wakes, sizeof wakes) == sizeof wakes;
}

static void forget_wakes(void)
{
    (void)is_woken();
}

static void test_an_adopted_twin_is_told_at_once(void **state)
{
    rowlock_acquire_options options = renewing(30000);

    (void)state;
    options.renew = 0;
    held = take("a", &options);
    options.on_lost = on_lost;
    assert_status(OK, rowlock_adopt(&second, client, "a", rowlock_fence(held), &options, NULL));
    forget_wakes();
    assert_status(OK, rowlock_release(&held, NULL));
    assert_status(LOST, rowlock_check(second));
    assert_true(is_woken());
}

/* ---- max_hold and ttl ---- */

static void test_a_max_hold_that_nobody_watches_is_told_to_those_who_do(void **state)
{
    rowlock_acquire_options options = renewing(30000), inner = renewing(30000);

    (void)state;
    options.renew = 0;
    held = take("a", &options);
    forget_wakes();
    inner.renew = 0;
    inner.on_lost = NULL;
    inner.max_hold_ms = 1000;
    second = take("a", &inner);
    assert_true(is_woken()); /* it would sleep until the end of the lease */
    run_for(1001);
    assert_int_equal(told, 1);
    assert_int_equal(told_loss, ROWLOCK_LOSS_MAX_HOLD);
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

/* ---- a release that meets a renewal ---- */

static void release_it(void)
{
    answer = rowlock_release(&held, NULL);
}

static void release_during(void (**when)(void))
{
    rowlock_acquire_options options = renewing(3000);

    held = take("a", &options);
    fake_clock_advance_us(1000 * MS);
    *when = release_it;
    step();
    assert_int_equal(answer, ROWLOCK_OK);
    assert_false(fake_is_live("a"));
    assert_int_equal(fake_find("a")->hold_count, 0);
    run_for(5000);
    assert_int_equal(told, 0);
    assert_false(fake_is_live("a"));
}

static void test_a_renewal_behind_the_release_brings_nothing_back(void **state)
{
    (void)state;
    release_during(&before_renew);
}

static void test_an_answer_behind_the_release_brings_nothing_back(void **state)
{
    (void)state;
    release_during(&during_renew);
}

/* ---- whose hold a late answer gives back ---- */

static rowlock_client *other_client;
static rowlock_lock *others;

/* The handle is released, and the process sleeps; another one of the same owner keeps the row. */
static void release_and_sleep(void)
{
    answer = rowlock_release(&held, NULL);
    fake_clock_advance_us(20000 * MS);
}

static void test_a_late_answer_spares_the_hold_of_another_process(void **state)
{
    rowlock_acquire_options options = renewing(10000), longer = renewing(60000);

    (void)state;
    other_client = open_by_hand(NULL);
    held = take("a", &options);
    longer.renew = 0;
    assert_status(OK, rowlock_acquire(&others, other_client, "a", &longer, NULL));
    fake_clock_advance_us(3400 * MS);
    during_renew = release_and_sleep;
    step();
    assert_int_equal(answer, ROWLOCK_OK);
    assert_status(OK, rowlock_check(others));
    assert_true(fake_is_live("a"));
    assert_status(OK, rowlock_release(&others, NULL));
    rowlock_close(&other_client);
}

static void sleep_past_the_deadline(void)
{
    fake_clock_advance_us(6500 * MS); /* over by half a second, in a margin of one */
}

static void test_a_late_hold_is_given_back_once(void **state)
{
    rowlock_acquire_options options = renewing(10000), longer = renewing(60000);

    (void)state;
    other_client = open_by_hand(NULL);
    options.renew = longer.renew = 0;
    held = take("a", &options);
    fake_clock_advance_us(3000 * MS);
    assert_status(OK, rowlock_acquire(&others, other_client, "a", &longer, NULL));
    during_renew = sleep_past_the_deadline;
    assert_status(LOST, rowlock_renew(held, 0, NULL));
    assert_status(LOST, rowlock_release(&held, NULL));
    assert_int_equal(fake_find("a")->hold_count, 1); /* the other's */
    assert_true(fake_is_live("a"));
    assert_status(OK, rowlock_release(&others, NULL));
    rowlock_close(&other_client);
}

#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(released_in_the_event_it_is_not_told_after),
        TEST(lost_and_released_before_acquire_has_returned),
        TEST(the_only_connection_is_free_when_the_event_comes),
        TEST(a_lease_granted_late_is_renewed_in_time),
        TEST(an_end_that_is_near_does_not_starve_the_others),
        TEST(a_guarded_row_is_asked_for_at_its_time),
        TEST(an_adopted_twin_is_told_at_once),
        TEST(an_endless_max_hold_is_no_bound),
        TEST(a_max_hold_that_nobody_watches_is_told_to_those_who_do),
        TEST(a_longer_lease_of_a_re_entry_does_not_lengthen_max_hold),
        TEST(adopted_with_max_hold_it_ends_by_that),
        TEST(a_short_re_entry_does_not_shorten_the_outer_lease),
        TEST(a_renewal_behind_the_release_brings_nothing_back),
        TEST(an_answer_behind_the_release_brings_nothing_back),
        TEST(a_late_answer_spares_the_hold_of_another_process),
        TEST(a_late_hold_is_given_back_once),
    };

    return cmocka_run_group_tests_name("core/watch_edge", tests, NULL, NULL);
}
