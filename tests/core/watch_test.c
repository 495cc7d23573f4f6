/* SPDX-License-Identifier: MIT
 *
 * The watchdog, step by step: what is renewed when, what is told to whom, in every order. The steps
 * are run by hand, so that each comes exactly where the case wants it. */
#include "core_test.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "core.h"

static rowlock_client *client;
static rowlock_lock *held;
static int told, told_loss, released_in_callback;
static int64_t told_at;

/* A client whose thread is the test. */
static rowlock_client *open_by_hand(const rowlock_options *options)
{
    rowlock_client *opened = open_client_with(options);

    opened->watch.is_by_hand = 1;
    return opened;
}

static int set_up(void **state)
{
    fresh(state);
    told = told_loss = released_in_callback = 0;
    told_at = 0;
    client = open_by_hand(NULL);
    held = NULL;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    if (held != NULL)
        rowlock_release(&held, NULL);
    rowlock_close(&client);
    return 0;
}

static void on_lost(rowlock_lock *lock, int loss, void *payload)
{
    assert_ptr_equal(payload, &told);
    assert_int_equal(rowlock_check(lock), ROWLOCK_LOST);
    assert_int_equal(rowlock_loss(lock), loss);
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
    options.lost_payload = &told;
    return options;
}

static rowlock_lock *take(const char *name, const rowlock_acquire_options *options)
{
    rowlock_lock *lock = NULL;

    assert_status(OK, rowlock_acquire(&lock, client, name, options, NULL));
    return lock;
}

/* Both threads. */
static int64_t step(void)
{
    int64_t told_next, kept_next;

    rlk_teller_step(client);
    kept_next = rlk_keeper_step(client);
    told_next = rlk_teller_step(client);
    return told_next < kept_next ? told_next : kept_next;
}

/* Lets time pass, with a step whenever the watchdog wants one. */
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

static uint64_t counter(size_t offset)
{
    rowlock_counters counters = ROWLOCK_COUNTERS_INIT;
    uint64_t value;

    assert_status(OK, rowlock_stats(&counters, client, NULL));
    memcpy(&value, (char *)&counters + offset, sizeof value);
    return value;
}

#define COUNTER(name) counter(offsetof(rowlock_counters, name))

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
    rowlock_lock *second;

    (void)state;
    options.renew = 0;
    held = take("a", &options);
    second = take("a", &options);
    run_for(3000);
    assert_int_equal(told, 2);
    assert_int_equal(COUNTER(lost), 1); /* one tenure */
    rowlock_release(&second, NULL);
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

/* ---- in every order ---- */

enum { RENEW, RELEASE, TAKEOVER, EXPIRE, FORCE, CUT, KINDS };

static rowlock_lock *next_owner;
static int next_was_forced; /* it believes in its lock until it asks */

static void happen(int kind)
{
    rowlock_acquire_options thief = ROWLOCK_ACQUIRE_OPTIONS_INIT;

    thief.owner = "thief";
    thief.ttl_ms = 600000;
    switch (kind) {
    case RENEW:
        fake_clock_advance_us(400 * MS);
        step();
        break;
    case RELEASE:
        if (held != NULL)
            rowlock_release(&held, NULL);
        break;
    case TAKEOVER:
        if (next_owner == NULL)
            rowlock_acquire(&next_owner, client, "a", &thief, NULL);
        break;
    case EXPIRE:
        fake_clock_advance_us(1100 * MS);
        break;
    case FORCE:
        rowlock_force_release(client, "a", NULL, NULL);
        next_was_forced = next_owner != NULL;
        break;
    case CUT:
        fake_plan(1, FAKE_CUT_AFTER, 0);
        step();
        fake_plan(0, FAKE_NONE, 0);
        break;
    }
}

/* Whatever the order: two are never both held, nobody is told twice, nor after the release, and a
 * handle that says OK has a live row of its own fence. */
static void check_invariants(int told_at_release)
{
    int one = held != NULL && rowlock_check(held) == ROWLOCK_OK;
    int two = next_owner != NULL && rowlock_check(next_owner) == ROWLOCK_OK;

    assert_true(told <= 1);
    if (held == NULL)
        assert_int_equal(told, told_at_release);
    if (one && two && !next_was_forced) /* the first was forced, and has not asked since */
        assert_true(fake_find("a")->fence == rowlock_fence(next_owner));
    if (two && !next_was_forced)
        assert_true(fake_is_live("a"));
}

static void run_order(const int *order, int n)
{
    rowlock_acquire_options options = renewing(1000);
    int told_at_release = 0;

    fresh(NULL);
    told = 0;
    client = open_by_hand(NULL);
    next_owner = NULL;
    next_was_forced = 0;
    held = take("a", &options);
    for (int i = 0; i < n; i++) {
        int was_held = held != NULL;

        happen(order[i]);
        if (was_held && held == NULL)
            told_at_release = told;
        check_invariants(told_at_release);
    }
    step();
    check_invariants(told_at_release);
    if (held != NULL)
        rowlock_release(&held, NULL);
    if (next_owner != NULL && !next_was_forced && rowlock_check(next_owner) == ROWLOCK_OK)
        assert_status(OK, rowlock_release(&next_owner, NULL));
    else if (next_owner != NULL)
        rowlock_release(&next_owner, NULL);
    rowlock_close(&client);
    assert_int_equal(fake_connections(), 0);
}

/* ThreadSanitizer makes this ten times slower, and has nothing to see in one thread. */
#if defined(__SANITIZE_THREAD__)
enum { EVENTS = 3, ORDERS = KINDS * KINDS * KINDS };
#else
enum { EVENTS = 5, ORDERS = KINDS * KINDS * KINDS * KINDS * KINDS };
#endif

static void test_every_order_of_events(void **state)
{
    int order[EVENTS];

    (void)state;
    rowlock_close(&client);
    for (int code = 0; code < ORDERS; code++) {
        for (int i = 0, rest = code; i < EVENTS; i++, rest /= KINDS)
            order[i] = rest % KINDS;
        run_order(order, EVENTS);
    }
    client = open_by_hand(NULL);
}

/* ---- numbers, events, reaping ---- */

static int events[8];
static int last_loss;

static void on_event(const rowlock_event *event, void *payload)
{
    assert_ptr_equal(payload, events);
    assert_true(event->kind >= 1 && event->kind <= 7);
    events[event->kind]++;
    if (event->kind == ROWLOCK_EVENT_LOST) {
        assert_string_equal(event->name, "a");
        last_loss = event->loss;
    }
    if (event->kind == ROWLOCK_EVENT_ERROR)
        assert_true(event->status < 0 && event->message[0] != '\0');
}

static void test_events_and_numbers(void **state)
{
    rowlock_options options = ROWLOCK_OPTIONS_INIT;
    rowlock_acquire_options plain = renewing(1000);
    rowlock_counters counters = ROWLOCK_COUNTERS_INIT;
    uint64_t waits = 0, holds = 0;

    (void)state;
    rowlock_close(&client);
    memset(events, 0, sizeof events);
    options.on_event = on_event;
    options.event_payload = events;
    client = open_by_hand(&options);
    plain.on_lost = NULL;
    held = take("a", &plain);
    run_for(1000);
    assert_status(OK, rowlock_release(&held, NULL));
    held = take("a", &plain);
    plain.owner = "other";
    assert_status(BUSY, rowlock_acquire(&(rowlock_lock *){NULL}, client, "a", &plain, NULL));
    rowlock_force_release(client, "a", NULL, NULL);
    run_for(1000);
    assert_status(OK, rowlock_stats(&counters, client, NULL));
    assert_int_equal(counters.acquired, 2);
    assert_int_equal(counters.busy, 1);
    assert_int_equal(counters.released, 1);
    assert_int_equal(counters.lost, 1);
    assert_true(counters.renewed >= 2);
    assert_int_equal(counters.held, 0);
    for (int i = 0; i < ROWLOCK_BUCKETS; i++) {
        waits += counters.wait_buckets[i];
        holds += counters.hold_buckets[i];
    }
    assert_int_equal(waits, 3);
    assert_int_equal(holds, 2);
    assert_int_equal(events[ROWLOCK_EVENT_ACQUIRED], 2);
    assert_int_equal(events[ROWLOCK_EVENT_RELEASED], 1);
    assert_int_equal(events[ROWLOCK_EVENT_LOST], 1);
    assert_int_equal(last_loss, ROWLOCK_LOSS_FORCED);
    assert_true(events[ROWLOCK_EVENT_RENEWED] >= 2);
    counters.size = 4;
    assert_status(EINVAL, rowlock_stats(&counters, client, NULL));
}

static void test_the_reaper_comes_and_backs_off(void **state)
{
    rowlock_options options = ROWLOCK_OPTIONS_INIT;

    (void)state;
    rowlock_close(&client);
    options.reap_retention_ms = 1000;
    client = open_by_hand(&options); /* an interval would start a thread */
    client->reap_interval_us = client->watch.reap_pause_us = 1000 * MS;
    client->watch.reap_at_us = rlk_clock_us() + 1000 * MS;
    held = take("a", NULL);
    rowlock_release(&held, NULL);
    run_for(4000);
    assert_null(fake_find("a"));
    assert_int_equal(COUNTER(reaped), 1);
    fake_plan(0, FAKE_NONE, 0);
    run_for(80000);
    assert_in_range(fake_calls(), 8, 22); /* every 8 seconds in the end, not every second */
}

#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_lock_is_kept_for_as_long_as_it_is_wanted),
        TEST(without_renewal_the_end_is_told),
        TEST(many_are_renewed_in_few_statements),
        TEST(a_dead_database_is_told_before_the_lease_ends),
        TEST(a_database_that_comes_back_in_time_is_no_loss),
        TEST(a_slow_database_never_makes_it_late),
        TEST(reasons),
        TEST(a_stuck_worker_loses_the_lock_in_the_end),
        TEST(a_short_max_hold_shortens_the_lease),
        TEST(the_callback_may_use_the_library),
        TEST(the_descriptor_becomes_readable),
        TEST(a_later_descriptor_of_a_lost_lock_is_readable),
        TEST(each_handle_is_told_once),
        TEST(renewal_ends_with_the_handle_that_wants_it),
        TEST(a_guarded_row_is_asked_for_again),
        TEST(ensure_renews_only_when_it_must),
        TEST(every_order_of_events),
        TEST(events_and_numbers),
        TEST(the_reaper_comes_and_backs_off),
    };

    return cmocka_run_group_tests_name("core/watch", tests, NULL, NULL);
}
