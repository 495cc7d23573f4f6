/* SPDX-License-Identifier: MIT
 *
 * The watchdog's edges, step by step on the fake clock: handles that go while they are told of,
 * leases that were granted late, and whose hold it is that a late answer gives back. */
#include "watch_step.h"

static int answer;
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

static int set_up(void **state)
{
    static rowlock_driver driver;

    driver = *fake_driver();
    driver.renew = edged_renew;
    step_driver = &driver;
    answer = 99;
    before_renew = during_renew = NULL;
    renew_timeout_ms = 0;
    return step_set_up(state);
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
    options.on_event = release_on_lost_event;
    open_again(&options);
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
    options.on_event = be_slow_when_acquired;
    open_again(&options);
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
    options.on_event = use_when_reconnected;
    options.max_connections = 1;
    open_again(&options);
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

static void test_an_adopted_twin_is_told_at_once(void **state)
{
    rowlock_acquire_options options = renewing(30000);

    (void)state;
    options.renew = 0;
    held = take("a", &options);
    options.on_lost = on_lost;
    assert_status(OK, rowlock_adopt(&second, client, "a", rowlock_fence(held), &options, NULL));
    (void)is_woken();
    assert_status(OK, rowlock_release(&held, NULL));
    assert_status(LOST, rowlock_check(second));
    assert_true(is_woken());
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

static void test_a_late_hold_is_not_given_back(void **state)
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
    assert_int_equal(fake_find("a")->hold_count, 2); /* any of them may be another process's */
    assert_true(fake_is_live("a"));
    assert_status(OK, rowlock_release(&others, NULL));
    rowlock_close(&other_client);
}

/* ---- a re-entry that meets a renewal ---- */

static void re_enter_longer(void)
{
    rowlock_acquire_options longer = renewing(9000);

    longer.renew = 0;
    longer.on_lost = NULL;
    second = take("a", &longer);
}

/* The renewal in flight asked for all that was wanted when it was sent: it is not the last one. */
static void re_enter_during(void (**when)(void))
{
    rowlock_acquire_options options = renewing(3000);

    held = take("a", &options);
    fake_clock_advance_us(1000 * MS);
    *when = re_enter_longer;
    step();
    assert_non_null(second);
    run_for(60000);
    assert_int_equal(told, 0);
    assert_status(OK, rowlock_check(held));
}

static void test_a_longer_re_entry_before_a_renewal_does_not_end_renewals(void **state)
{
    (void)state;
    re_enter_during(&before_renew);
}

static void test_a_longer_re_entry_during_a_renewal_does_not_end_renewals(void **state)
{
    (void)state;
    re_enter_during(&during_renew);
}

#define EDGE(name) cmocka_unit_test_setup_teardown(test_##name, set_up, step_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        EDGE(released_in_the_event_it_is_not_told_after),
        EDGE(lost_and_released_before_acquire_has_returned),
        EDGE(the_only_connection_is_free_when_the_event_comes),
        EDGE(a_lease_granted_late_is_renewed_in_time),
        EDGE(an_end_that_is_near_does_not_starve_the_others),
        EDGE(a_guarded_row_is_asked_for_at_its_time),
        EDGE(an_adopted_twin_is_told_at_once),
        EDGE(a_renewal_behind_the_release_brings_nothing_back),
        EDGE(an_answer_behind_the_release_brings_nothing_back),
        EDGE(a_late_answer_spares_the_hold_of_another_process),
        EDGE(a_late_hold_is_not_given_back),
        EDGE(a_longer_re_entry_before_a_renewal_does_not_end_renewals),
        EDGE(a_longer_re_entry_during_a_renewal_does_not_end_renewals),
    };

    return cmocka_run_group_tests_name("core/watch_edge", tests, NULL, NULL);
}
