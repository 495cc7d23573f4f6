/* SPDX-License-Identifier: MIT
 *
 * Many threads on one client, whose requests travel together. */
#include <pthread.h>
#include <stdio.h>

#include "conformance.h"

enum { MANY = 64, SHARERS = 16, SHARED = 4, ROUNDS = 4, WAIT_MS = 120000 };

struct worker {
    pthread_t thread;
    rowlock_client *client;
    char name[32];
    long *counter; /* under the lock */
    int status;
    rowlock_error err;
};

/* Enters, enters again, renews, and goes out as often. */
static int one_round(struct worker *w)
{
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;
    options.wait_ms = WAIT_MS;
    rowlock_lock *outer = NULL, *inner = NULL;
    int status = rowlock_acquire(&outer, w->client, w->name, &options, &w->err);
    if (status != ROWLOCK_OK)
        return status;
    long before = *w->counter;
    status = rowlock_acquire(&inner, w->client, w->name, &options, &w->err);
    if (status == ROWLOCK_OK && rowlock_fence(inner) != rowlock_fence(outer))
        status = 99;
    if (status == ROWLOCK_OK)
        status = rowlock_renew(inner, 0, &w->err);
    if (status == ROWLOCK_OK)
        status = rowlock_release(&inner, &w->err);
    *w->counter = before + 1;
    int released = rowlock_release(&outer, &w->err);
    return status == ROWLOCK_OK ? released : status;
}

static void *work(void *argument)
{
    struct worker *w = argument;
    for (int i = 0; i < ROUNDS && w->status == ROWLOCK_OK; i++)
        w->status = one_round(w);
    return NULL;
}

/* n threads on as many locks as there are counters. */
static void run_threads(struct fixture *f, int n, long *counters, int locks)
{
    static struct worker workers[MANY];
    rowlock_client *client = client_open(f);
    memset(workers, 0, sizeof(workers));
    for (int i = 0; i < n; i++) {
        struct worker *w = &workers[i];
        w->client = client;
        w->counter = &counters[i % locks];
        snprintf(w->name, sizeof(w->name), "lock%d", i % locks);
        assert_int_equal(pthread_create(&w->thread, NULL, work, w), 0);
    }
    for (int i = 0; i < n; i++)
        pthread_join(workers[i].thread, NULL);
    for (int i = 0; i < n; i++)
        expect_ok(workers[i].status, &workers[i].err);
    for (int i = 0; i < locks; i++)
        assert_int_equal(counters[i], n / locks * ROUNDS);
    struct rows live = rows_query(f, NULL, 0, 0);
    assert_int_equal(live.count, 0);
    rows_free(&live);
}

static void test_threads_with_locks_of_their_own_travel_together(void **state)
{
    struct fixture *f = *state;
    long counters[MANY] = {0};
    run_threads(f, MANY, counters, MANY);
    rowlock_counters seen = ROWLOCK_COUNTERS_INIT;
    expect_ok(rowlock_stats(&seen, f->clients[0], &f->err), &f->err);
    assert_true(seen.combined > 0);
    assert_int_equal(seen.errors, 0);
    assert_int_equal(seen.acquired, 2 * MANY * ROUNDS);
    assert_int_equal(seen.renewed, MANY * ROUNDS);
    assert_int_equal(seen.released, 2 * MANY * ROUNDS);
}

static void test_threads_that_share_locks_exclude_each_other(void **state)
{
    long counters[SHARED] = {0};
    run_threads(*state, SHARERS, counters, SHARED);
}

static const struct test_case cases[] = {
    CASE(test_threads_with_locks_of_their_own_travel_together),
    CASE(test_threads_that_share_locks_exclude_each_other),
};

const struct suite api_combine_suite = SUITE("api_combine", cases);
