/* SPDX-License-Identifier: MIT
 *
 * The line of threads of one client that want the same lock: who is served, and when. */
#include <pthread.h>
#include <sched.h>

#include "queue_scene.h"

enum { THREADS = 16 };

static int order[THREADS], answers[THREADS];
static atomic_int served;

static void *stand_in_line(void *arg)
{
    int me = *(int *)arg;
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;
    rowlock_lock *lock = NULL;

    options.wait_ms = ROWLOCK_FOREVER;
    answers[me] = rowlock_acquire(&lock, client, "a", &options, NULL);
    if (answers[me] == ROWLOCK_OK)
        order[atomic_fetch_add(&served, 1)] = me;
    rowlock_release(&lock, NULL);
    return NULL;
}

/* They come one after the other, and somebody else holds what they want. */
static void form_line(pthread_t threads[THREADS], int numbers[THREADS])
{
    fake_clock_freeze();
    holder = hold(client, "a", 600000, "alice");
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = i;
        assert_int_equal(pthread_create(&threads[i], NULL, stand_in_line, &numbers[i]), 0);
        while (counters().waiting <= (uint64_t)i)
            sched_yield();
    }
    while (counters().queued == 0) /* the first of them may be on its way to the database */
        sched_yield();
}

static void test_threads_are_served_in_the_order_of_arrival(void **state)
{
    pthread_t threads[THREADS];
    int numbers[THREADS];

    (void)state;
    form_line(threads, numbers);
    assert_int_equal(fake_tickets("a"), 1); /* one of them asks */
    assert_status(OK, rowlock_release(&holder, NULL));
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (int i = 0; i < THREADS; i++) {
        assert_status(OK, answers[i]);
        assert_int_equal(order[i], i);
    }
}

static void test_close_ends_the_waits_of_a_line(void **state)
{
    pthread_t threads[THREADS];
    int numbers[THREADS];

    (void)state;
    form_line(threads, numbers);
    rowlock_close(&client);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (int i = 0; i < THREADS; i++)
        assert_status(ECLOSED, answers[i]);
    assert_int_equal(fake_tickets("a"), 0);
}

/* The one who holds it must not stand behind those who wait for it. */
static void test_owner_re_enters_past_the_line(void **state)
{
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;
    rowlock_lock *outer = hold(client, "a", 600000, NULL), *inner = NULL;
    pthread_t thread;
    int number = 0;

    (void)state;
    fake_clock_freeze();
    assert_int_equal(pthread_create(&thread, NULL, stand_in_line, &number), 0);
    while (counters().waiting < 1)
        sched_yield();
    options.wait_ms = ROWLOCK_FOREVER;
    assert_status(OK, rowlock_acquire(&inner, client, "a", &options, NULL));
    assert_status(OK, rowlock_release(&inner, NULL));
    assert_status(OK, rowlock_release(&outer, NULL));
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_status(OK, answers[0]);
}

static int set_up(void **state)
{
    atomic_store(&served, 0);
    return queue_set_up(state);
}

#define case_of(name) cmocka_unit_test_setup_teardown(name, set_up, queue_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        case_of(test_threads_are_served_in_the_order_of_arrival),
        case_of(test_close_ends_the_waits_of_a_line),
        case_of(test_owner_re_enters_past_the_line),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
