/* SPDX-License-Identifier: MIT */
#include "clock.h"
#include "event.h"
#include "thread.h"
#include "unit.h"

static void test_an_event_is_readable_while_it_is_set(void **state)
{
    int event = rlk_event_new();

    (void)state;
    assert_true(event >= 0);
    assert_int_equal(rlk_sleep_until(rlk_clock_us(), &event, 1), -1);
    rlk_event_set(event);
    rlk_event_set(event);
    assert_int_equal(rlk_sleep_until(RLK_NEVER, &event, 1), 0);
    assert_int_equal(rlk_sleep_until(RLK_NEVER, &event, 1), 0);
    rlk_event_clear(event);
    rlk_event_clear(event);
    assert_int_equal(rlk_sleep_until(rlk_clock_us(), &event, 1), -1);
    rlk_event_set(-1);
    rlk_event_clear(-1);
    rlk_event_free(event);
}

static void test_a_sleeper_sleeps_until_its_time_or_until_it_is_woken(void **state)
{
    rlk_sleeper sleeper;
    int64_t start = rlk_clock_us();

    (void)state;
    assert_int_equal(rlk_sleeper_init(&sleeper), 0);
    rlk_sleeper_sleep(&sleeper, start + 30000);
    assert_true(rlk_clock_us() >= start + 30000);
    rlk_sleeper_wake(&sleeper);
    rlk_sleeper_sleep(&sleeper, RLK_NEVER);
    rlk_sleeper_free(&sleeper);
}

static void *wait_for(void *event)
{
    rlk_sleep_until(RLK_NEVER, event, 1);
    return NULL;
}

static void test_a_thread_is_joined_by_its_time(void **state)
{
    int event = rlk_event_new();
    rlk_thread thread;

    (void)state;
    assert_int_equal(rlk_thread_start(&thread, "event-test", wait_for, &event), 0);
    assert_false(rlk_thread_join(thread, rlk_clock_us() + 20000));
    assert_false(rlk_thread_join(pthread_self(), RLK_NEVER));
    rlk_event_set(event);
    assert_true(rlk_thread_join(thread, RLK_NEVER));
    rlk_event_free(event);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_event_is_readable_while_it_is_set),
        cmocka_unit_test(test_a_sleeper_sleeps_until_its_time_or_until_it_is_woken),
        cmocka_unit_test(test_a_thread_is_joined_by_its_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
