/* SPDX-License-Identifier: MIT */
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include "clock.h"
#include "random.h"
#include "unit.h"

static void test_clock_goes_forward(void **state)
{
    int64_t last = rlk_clock_us();

    (void)state;
    assert_true(last > 0);
    for (int i = 0; i < 1000; i++) {
        int64_t now = rlk_clock_us();

        assert_true(now >= last);
        last = now;
    }
}

static void test_sleep_ends_at_its_time(void **state)
{
    int64_t start = rlk_clock_us();

    (void)state;
    assert_int_equal(rlk_sleep_until(start - 1000000, NULL, 0), -1);
    assert_int_equal(rlk_sleep_until(start + 30000, NULL, 0), -1);
    assert_true(rlk_clock_us() - start >= 30000);
    assert_true(rlk_clock_us() - start < 5000000);
}

static void test_sleep_sees_a_readable_descriptor(void **state)
{
    int quiet[2], ready[2];
    int64_t start = rlk_clock_us();

    (void)state;
    assert_int_equal(pipe(quiet), 0);
    assert_int_equal(pipe(ready), 0);
    assert_int_equal(write(ready[1], "x", 1), 1);
    assert_int_equal(rlk_sleep_until(RLK_NEVER, (int[]){quiet[0], ready[0]}, 2), 1);
    assert_int_equal(rlk_sleep_until(RLK_NEVER, (int[]){-1, -1, ready[0]}, 3), 2);
    assert_int_equal(rlk_sleep_until(start - 1, (int[]){ready[0]}, 1), 0);
    assert_true(rlk_clock_us() - start < 5000000);
    start = rlk_clock_us();
    assert_int_equal(rlk_sleep_until(start + 30000, (int[]){quiet[0], -1}, 2), -1);
    assert_true(rlk_clock_us() - start >= 30000);
    for (int i = 0; i < 2; i++) {
        close(quiet[i]);
        close(ready[i]);
    }
}

/* The other end is gone: readable, too, else the sleeper would never hear of it. */
static void test_sleep_sees_a_closed_end(void **state)
{
    int ends[2];

    (void)state;
    assert_int_equal(pipe(ends), 0);
    close(ends[1]);
    assert_int_equal(rlk_sleep_until(RLK_NEVER, &ends[0], 1), 0);
    close(ends[0]);
}

static void *write_later(void *payload)
{
    rlk_sleep_until(rlk_clock_us() + 20000, NULL, 0);
    return write(*(int *)payload, "x", 1) == 1 ? payload : NULL;
}

static void test_sleep_is_woken_by_another_thread(void **state)
{
    int ends[2], woken;
    int64_t start = rlk_clock_us();
    pthread_t thread;
    void *wrote;

    (void)state;
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(pthread_create(&thread, NULL, write_later, &ends[1]), 0);
    woken = rlk_sleep_until(start + 30000000, &ends[0], 1);
    assert_int_equal(pthread_join(thread, &wrote), 0);
    assert_non_null(wrote);
    assert_int_equal(woken, 0);
    assert_true(rlk_clock_us() - start < 10000000);
    close(ends[0]);
    close(ends[1]);
}

static volatile sig_atomic_t alarms;

static void on_alarm(int number)
{
    (void)number;
    alarms++;
}

static void test_a_signal_does_not_end_the_sleep(void **state)
{
    const struct sigaction action = {.sa_handler = on_alarm};
    const struct itimerval often = {.it_interval.tv_usec = 10000, .it_value.tv_usec = 10000};
    const struct itimerval never = {0};
    struct sigaction before;
    int64_t until;

    (void)state;
    assert_int_equal(sigaction(SIGALRM, &action, &before), 0);
    assert_int_equal(setitimer(ITIMER_REAL, &often, NULL), 0);
    until = rlk_clock_us() + 100000;
    assert_int_equal(rlk_sleep_until(until, NULL, 0), -1);
    assert_int_equal(setitimer(ITIMER_REAL, &never, NULL), 0);
    assert_int_equal(sigaction(SIGALRM, &before, NULL), 0);
    assert_true(rlk_clock_us() >= until);
    assert_true(alarms > 0);
}

static void test_random_stays_below_its_limit(void **state)
{
    int seen[4] = {0};

    (void)state;
    assert_int_equal(rlk_random_below(0), 0);
    assert_int_equal(rlk_random_below(-5), 0);
    assert_int_equal(rlk_random_below(1), 0);
    for (int i = 0; i < 1000; i++) {
        int64_t number = rlk_random_below(4);

        assert_in_range(number, 0, 3);
        seen[number]++;
    }
    for (int i = 0; i < 4; i++)
        assert_true(seen[i] > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_clock_goes_forward),
        cmocka_unit_test(test_sleep_ends_at_its_time),
        cmocka_unit_test(test_sleep_sees_a_readable_descriptor),
        cmocka_unit_test(test_sleep_sees_a_closed_end),
        cmocka_unit_test(test_sleep_is_woken_by_another_thread),
        cmocka_unit_test(test_a_signal_does_not_end_the_sleep),
        cmocka_unit_test(test_random_stays_below_its_limit),
    };

    return cmocka_run_group_tests_name("clock", tests, NULL, NULL);
}
