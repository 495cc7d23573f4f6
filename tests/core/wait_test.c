/* SPDX-License-Identifier: MIT
 *
 * Waiting: bounds, cancelling, closing under waiters, and how seldom it looks. */
#include <pthread.h>
#include <sched.h>

#include "core.h"
#include "core_test.h"

static rowlock_cancel *to_fire;

static void fire(void)
{
    rowlock_cancel_fire(to_fire);
}

static void test_wait_ends_with_the_holders_lease(void **state)
{
    rowlock_client *one = open_client(), *two = open_client();
    rowlock_lock *lock = hold(one, "a", 3000, "x"), *next = NULL;
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;

    (void)state;
    options.wait_ms = ROWLOCK_FOREVER;
    options.owner = "y";
    assert_status(OK, rowlock_acquire(&next, two, "a", &options, NULL));
    assert_in_range(fake_clock_slept_us(), 3000 * MS, 3002 * MS);
    /* 10 ms at first, then an eighth of the time waited: some dozens of looks in three seconds. */
    assert_in_range(fake_clock_sleeps(), 20, 90);
    assert_true(rowlock_fence(next) > rowlock_fence(lock));
    rowlock_release(&next, NULL);
    rowlock_release(&lock, NULL);
    rowlock_close(&one);
    rowlock_close(&two);
}

static void test_wait_bound_is_kept_and_names_the_holder(void **state)
{
    rowlock_client *client = open_client();
    rowlock_lock *lock = hold(client, "a", 60000, "alice"), *next = NULL;
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;
    rowlock_holder holder;
    rowlock_error err;

    (void)state;
    options.wait_ms = 500;
    options.owner = "bob";
    options.holder = &holder;
    assert_status(TIMEOUT, rowlock_acquire(&next, client, "a", &options, &err));
    assert_int_equal(fake_clock_slept_us(), 500 * MS);
    assert_string_equal(holder.owner, "alice");
    assert_string_equal(holder.name, "a");
    assert_int_equal(holder.remaining_ms, 59500);
    assert_true(holder.fence == rowlock_fence(lock));
    assert_non_null(strstr(err.message, "alice"));
    rowlock_release(&lock, NULL);
    rowlock_close(&client);
}

static void test_no_wait_is_busy_without_a_sleep(void **state)
{
    rowlock_client *client = open_client();
    rowlock_lock *lock = hold(client, "a", 60000, "alice"), *next = NULL;
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;
    rowlock_error err;

    (void)state;
    options.owner = "bob";
    open_another(client);
    fake_plan(0, FAKE_NONE, 0);
    assert_status(BUSY, rowlock_acquire(&next, client, "a", &options, &err));
    assert_int_equal(fake_clock_sleeps(), 0);
    assert_int_equal(fake_calls(), 1);
    assert_int_equal(err.retryable, 1);
    rowlock_release(&lock, NULL);
    rowlock_close(&client);
}

static void test_cancel_ends_waits_now_and_later(void **state)
{
    rowlock_client *client = open_client();
    rowlock_lock *lock = hold(client, "a", 60000, "alice"), *next = NULL;
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;

    (void)state;
    assert_status(OK, rowlock_cancel_new(&to_fire, NULL));
    options.wait_ms = ROWLOCK_FOREVER;
    options.owner = "bob";
    options.cancel = to_fire;
    fake_clock_on_sleep(fire);
    assert_status(CANCELLED, rowlock_acquire(&next, client, "a", &options, NULL));
    assert_int_equal(fake_clock_sleeps(), 1);
    fake_clock_on_sleep(NULL);
    assert_status(CANCELLED, rowlock_acquire(&next, client, "a", &options, NULL));
    assert_null(next);
    rowlock_cancel_free(&to_fire);
    rowlock_release(&lock, NULL);
    rowlock_close(&client);
}

static void test_many_wait_for_the_one_that_lasts_longest(void **state)
{
    static const char *const names[] = {"a", "b", "c"};
    rowlock_client *client = open_client();
    rowlock_lock *a = hold(client, "a", 1000, "x"), *c = hold(client, "c", 4000, "x");
    rowlock_lock *locks[3];
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;
    rowlock_holder holder;

    (void)state;
    options.owner = "y";
    options.holder = &holder;
    assert_status(BUSY, rowlock_acquire_many(locks, client, names, 3, &options, NULL));
    assert_string_equal(holder.name, "c");
    assert_null(locks[0]);
    assert_null(fake_find("b")); /* none, not some */
    options.wait_ms = ROWLOCK_FOREVER;
    assert_status(OK, rowlock_acquire_many(locks, client, names, 3, &options, NULL));
    assert_in_range(fake_clock_slept_us(), 4000 * MS, 4002 * MS);
    for (int i = 0; i < 3; i++)
        assert_status(OK, rowlock_release(&locks[i], NULL));
    rowlock_release(&a, NULL);
    rowlock_release(&c, NULL);
    rowlock_close(&client);
}

typedef struct waiter {
    pthread_t thread;
    rowlock_client *client;
    int status;
    rowlock_lock *lock;
} waiter;

static void *wait_for_ever(void *arg)
{
    waiter *w = arg;
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;

    options.wait_ms = ROWLOCK_FOREVER;
    w->status = rowlock_acquire(&w->lock, w->client, "a", &options, NULL);
    return NULL;
}

/* Until so many threads are in the library: they stay there. */
static void until_inside(rowlock_client *client, uint32_t threads)
{
    for (uint32_t inside = 0; inside < threads; sched_yield()) {
        pthread_mutex_lock(&client->mutex);
        inside = client->calls;
        pthread_mutex_unlock(&client->mutex);
    }
}

static void test_close_ends_the_waits_of_other_threads(void **state)
{
    rowlock_client *client = open_client(), *kept = open_client();
    rowlock_lock *lock = hold(kept, "a", 60000, "alice");
    waiter waiters[8];

    (void)state;
    fake_clock_freeze();
    for (int i = 0; i < 8; i++) {
        waiters[i] = (waiter){.client = client, .status = 99};
        assert_int_equal(pthread_create(&waiters[i].thread, NULL, wait_for_ever, &waiters[i]), 0);
    }
    until_inside(client, 8);
    rowlock_close(&client);
    for (int i = 0; i < 8; i++)
        pthread_join(waiters[i].thread, NULL);
    for (int i = 0; i < 8; i++) {
        assert_int_equal(waiters[i].status, ROWLOCK_ECLOSED);
        assert_null(waiters[i].lock);
    }
    rowlock_release(&lock, NULL);
    rowlock_close(&kept);
    assert_int_equal(fake_connections(), 0);
}

static void test_connections_stay_within_their_bound(void **state)
{
    rowlock_options options = ROWLOCK_OPTIONS_INIT;
    rowlock_client *client, *kept = open_client();
    rowlock_lock *lock = hold(kept, "a", 60000, "alice");
    waiter waiters[8];

    (void)state;
    fake_clock_freeze();
    options.max_connections = 2;
    client = open_client_with(&options);
    for (int i = 0; i < 8; i++) {
        waiters[i] = (waiter){.client = client, .status = 99};
        assert_int_equal(pthread_create(&waiters[i].thread, NULL, wait_for_ever, &waiters[i]), 0);
    }
    until_inside(client, 8);
    rowlock_close(&client);
    for (int i = 0; i < 8; i++)
        pthread_join(waiters[i].thread, NULL);
    assert_in_range(fake_most_connections(), 2, 3); /* one is `kept`'s */
    rowlock_release(&lock, NULL);
    rowlock_close(&kept);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_wait_ends_with_the_holders_lease, fresh),
        cmocka_unit_test_setup(test_wait_bound_is_kept_and_names_the_holder, fresh),
        cmocka_unit_test_setup(test_no_wait_is_busy_without_a_sleep, fresh),
        cmocka_unit_test_setup(test_cancel_ends_waits_now_and_later, fresh),
        cmocka_unit_test_setup(test_many_wait_for_the_one_that_lasts_longest, fresh),
        cmocka_unit_test_setup(test_close_ends_the_waits_of_other_threads, fresh),
        cmocka_unit_test_setup(test_connections_stay_within_their_bound, fresh),
    };

    return cmocka_run_group_tests_name("core/wait", tests, NULL, NULL);
}
