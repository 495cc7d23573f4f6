/* SPDX-License-Identifier: MIT
 *
 * Waiting for a lock, and being stopped. */
#include <pthread.h>

#include "conformance.h"

struct waiter {
    rowlock_client *client;
    rowlock_cancel *cancel;
    int64_t wait_ms;
    int status;
    int64_t ended_us;
};

static void *wait_for_lock(void *payload)
{
    struct waiter *w = payload;
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;
    options.wait_ms = w->wait_ms;
    options.cancel = w->cancel;
    rowlock_lock *lock = NULL;
    w->status = rowlock_acquire(&lock, w->client, "lock", &options, NULL);
    w->ended_us = now_us();
    if (lock != NULL)
        rowlock_release(&lock, NULL);
    return NULL;
}

static void test_wait_of_a_free_lock_returns_at_once(void **state)
{
    struct fixture *f = *state;
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;
    options.wait_ms = 60000;
    rowlock_lock *lock = NULL;
    int64_t before = now_us();
    expect_ok(rowlock_acquire(&lock, client_open(f), "lock", &options, &f->err), &f->err);
    expect_between(now_us() - before, 0, SLACK_US);
    let_go(f, &lock);
}

static void test_wait_ends_with_timeout_in_its_bound(void **state)
{
    struct fixture *f = *state;
    rowlock_client *first = client_open_as(f, "ann"), *second = client_open(f);
    rowlock_lock *lock = hold(f, first, "lock"), *other = (rowlock_lock *)f;
    rowlock_holder holder;
    memset(&holder, 'x', sizeof(holder));
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;
    options.wait_ms = 200;
    options.holder = &holder;
    expect_soon(200000 + 2000000, int64_t before = now_us();
                expect_status(ROWLOCK_TIMEOUT,
                              rowlock_acquire(&other, second, "lock", &options, &f->err), &f->err);
                expect_between(now_us() - before, 195000, SLACK_US));
    assert_null(other);
    assert_string_equal(holder.owner, "ann");
    assert_string_equal(holder.name, "lock");
    assert_int_equal(holder.fence, rowlock_fence(lock));
    assert_true(holder.remaining_ms > 0);
    assert_int_equal(f->err.status, ROWLOCK_TIMEOUT);
    let_go(f, &lock);
}

static void test_wait_ends_when_the_lock_is_released(void **state)
{
    struct fixture *f = *state;
    rowlock_client *first = client_open(f);
    rowlock_lock *lock = hold(f, first, "lock");
    struct waiter waiter = {.client = client_open(f), .wait_ms = 20000, .status = INT32_MIN};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, wait_for_lock, &waiter), 0);
    sleep_us(150000);
    int released = rowlock_release(&lock, &f->err);
    int64_t at = now_us();
    pthread_join(thread, NULL);
    expect_ok(released, &f->err);
    expect_ok(waiter.status, NULL);
    expect_between(waiter.ended_us - at, -SLACK_US, SLACK_US);
}

static void test_wait_ends_when_the_lease_does(void **state)
{
    struct fixture *f = *state;
    rowlock_client *first = client_open(f), *second = client_open(f);
    int64_t before = now_us();
    rowlock_lock *old = hold_briefly(f, first, "lock", NULL), *lock = NULL;
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;
    options.wait_ms = 20000;
    expect_ok(rowlock_acquire(&lock, second, "lock", &options, &f->err), &f->err);
    expect_between(now_us() - before, BRIEF_MS * 1000 - 5000, SLACK_US);
    expect_status(ROWLOCK_LOST, rowlock_check(old), NULL);
    expect_status(ROWLOCK_LOST, rowlock_release(&old, &f->err), &f->err);
    let_go(f, &lock);
}

static void test_wait_forever_ends_with_the_lock(void **state)
{
    struct fixture *f = *state;
    rowlock_client *first = client_open(f);
    rowlock_lock *old = hold_briefly(f, first, "lock", NULL);
    struct waiter waiter = {.client = client_open(f), .wait_ms = ROWLOCK_FOREVER};
    waiter.status = INT32_MIN;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, wait_for_lock, &waiter), 0);
    pthread_join(thread, NULL);
    expect_ok(waiter.status, NULL);
    expect_status(ROWLOCK_LOST, rowlock_release(&old, &f->err), &f->err);
}

static void test_cancel_ends_a_wait_from_another_thread(void **state)
{
    struct fixture *f = *state;
    rowlock_client *first = client_open(f);
    rowlock_lock *lock = hold(f, first, "lock");
    struct waiter waiter = {.client = client_open(f), .wait_ms = ROWLOCK_FOREVER};
    waiter.status = INT32_MIN;
    expect_ok(rowlock_cancel_new(&waiter.cancel, &f->err), &f->err);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, wait_for_lock, &waiter), 0);
    sleep_us(100000);
    int64_t at = now_us();
    rowlock_cancel_fire(waiter.cancel);
    pthread_join(thread, NULL);
    rowlock_cancel_free(&waiter.cancel);
    assert_null(waiter.cancel);
    expect_status(ROWLOCK_CANCELLED, waiter.status, NULL);
    expect_between(waiter.ended_us - at, -1000, SLACK_US);
    let_go(f, &lock);
}

static void test_cancel_fired_before_ends_later_waits(void **state)
{
    struct fixture *f = *state;
    rowlock_client *first = client_open(f), *second = client_open(f);
    rowlock_lock *lock = hold(f, first, "lock"), *other = (rowlock_lock *)f;
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;
    options.wait_ms = 20000;
    expect_ok(rowlock_cancel_new(&options.cancel, &f->err), &f->err);
    rowlock_cancel_fire(options.cancel);
    rowlock_cancel_fire(options.cancel);
    int64_t before = now_us();
    int status = rowlock_acquire(&other, second, "lock", &options, &f->err);
    rowlock_cancel_free(&options.cancel);
    expect_status(ROWLOCK_CANCELLED, status, &f->err);
    expect_between(now_us() - before, 0, SLACK_US);
    assert_null(other);
    assert_int_equal(f->err.status, ROWLOCK_CANCELLED);
    let_go(f, &lock);
}

static void test_cancel_free_of_null_is_allowed(void **state)
{
    (void)state;
    rowlock_cancel *cancel = NULL;
    rowlock_cancel_free(&cancel);
    rowlock_cancel_free(NULL);
}

/* Four threads of one client, each taking the lock ten times: an unprotected counter stays right.
 */
struct counting {
    rowlock_client *client;
    int *counter;
    int failed;
};

static void *count_up(void *payload)
{
    struct counting *c = payload;
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;
    options.wait_ms = 30000;
    for (int i = 0; i < 10; i++) {
        rowlock_lock *lock = NULL;
        if (rowlock_acquire(&lock, c->client, "counter", &options, NULL) != ROWLOCK_OK) {
            c->failed++;
            continue;
        }
        int seen = __atomic_load_n(c->counter, __ATOMIC_RELAXED);
        sleep_us(200);
        __atomic_store_n(c->counter, seen + 1, __ATOMIC_RELAXED);
        if (rowlock_release(&lock, NULL) != ROWLOCK_OK)
            c->failed++;
    }
    return NULL;
}

static void test_threads_exclude_each_other(void **state)
{
    struct fixture *f = *state;
    rowlock_client *client = client_open(f);
    int counter = 0, failed = 0;
    struct counting counting[4];
    pthread_t threads[4];
    for (size_t i = 0; i < COUNT(threads); i++) {
        counting[i] = (struct counting){client, &counter, 0};
        assert_int_equal(pthread_create(&threads[i], NULL, count_up, &counting[i]), 0);
    }
    for (size_t i = 0; i < COUNT(threads); i++) {
        pthread_join(threads[i], NULL);
        failed += counting[i].failed;
    }
    assert_int_equal(failed, 0);
    assert_int_equal(counter, 40);
}

/* The owner is the client's: the second grant is a re-entry, or comes after the first's release. */
static void test_threads_of_one_owner_wait_for_the_same_lock(void **state)
{
    struct fixture *f = *state;
    rowlock_client *client = client_open_as(f, "shared");
    rowlock_lock *lock = hold(f, client_open_as(f, "other"), "lock");
    struct waiter waiters[2];
    pthread_t threads[2];
    for (size_t i = 0; i < COUNT(threads); i++) {
        waiters[i] = (struct waiter){.client = client, .wait_ms = 20000, .status = INT32_MIN};
        assert_int_equal(pthread_create(&threads[i], NULL, wait_for_lock, &waiters[i]), 0);
    }
    sleep_us(150000);
    int released = rowlock_release(&lock, &f->err);
    for (size_t i = 0; i < COUNT(threads); i++)
        pthread_join(threads[i], NULL);
    expect_ok(released, &f->err);
    expect_ok(waiters[0].status, NULL);
    expect_ok(waiters[1].status, NULL);
}

static const struct test_case cases[] = {
    CASE(test_wait_of_a_free_lock_returns_at_once),
    CASE(test_wait_ends_with_timeout_in_its_bound),
    CASE(test_wait_ends_when_the_lock_is_released),
    CASE(test_wait_ends_when_the_lease_does),
    CASE(test_wait_forever_ends_with_the_lock),
    CASE(test_cancel_ends_a_wait_from_another_thread),
    CASE(test_cancel_fired_before_ends_later_waits),
    CASE(test_cancel_free_of_null_is_allowed),
    CASE(test_threads_exclude_each_other),
    CASE(test_threads_of_one_owner_wait_for_the_same_lock),
};

const struct suite api_wait_suite = SUITE("api_wait", cases);
