/* SPDX-License-Identifier: MIT
 *
 * Very many threads on one client, on the real clock, each with a lock of its own and one that it
 * has to share: everybody gets on, nobody is left behind, and nobody is in where another is. */
#include "core_test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

enum { THREADS = 256, SHARED = 16, RUN_MS = 5000, TRIP_US = 500, MOST_BEHIND = 10 };

struct worker {
    pthread_t thread;
    int number, status;
    long cycles, turns;
    char message[240];
};

static rowlock_client *client;
static atomic_int is_over;
static long counters[SHARED]; /* each under its lock */

/* The fake driver asks for these; here time passes by itself. */
void fake_clock_reset(void)
{
}

void fake_clock_advance_us(int64_t us)
{
    (void)us;
}

static void pause_us(long us)
{
    nanosleep(&(struct timespec){.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000}, NULL);
}

/* ---- a database that is some way off ---- */

static int far_acquire(void *conn, rowlock_op *ops, size_t n, int all, uint32_t timeout_ms,
                       rowlock_error *err)
{
    pause_us(TRIP_US);
    return fake_driver()->acquire(conn, ops, n, all, timeout_ms, err);
}

static int far_release(void *conn, rowlock_op *ops, size_t n, uint32_t timeout_ms,
                       rowlock_error *err)
{
    pause_us(TRIP_US);
    return fake_driver()->release(conn, ops, n, timeout_ms, err);
}

/* ---- threads ---- */

/* One turn with the lock; 0 for a lock that another one has. */
static int turn(struct worker *w, const char *name, long *counter, rowlock_error *err)
{
    rowlock_lock *lock = NULL;

    w->status = rowlock_acquire(&lock, client, name, NULL, err);
    if (w->status != ROWLOCK_OK)
        return 0;
    ++*counter;
    w->status = rowlock_release(&lock, err);
    return 1;
}

static void *work(void *argument)
{
    struct worker *w = argument;
    int share = w->number % SHARED;
    rowlock_error err = {0};
    char own[32], shared[32];

    snprintf(own, sizeof own, "own%d", w->number);
    snprintf(shared, sizeof shared, "shared%d", share);
    while (!atomic_load(&is_over) && w->status == ROWLOCK_OK) {
        turn(w, own, &w->cycles, &err);
        if (w->status == ROWLOCK_OK)
            w->turns += turn(w, shared, &counters[share], &err);
        if (w->status == ROWLOCK_BUSY)
            w->status = ROWLOCK_OK;
    }
    snprintf(w->message, sizeof w->message, "%s", err.message);
    return NULL;
}

static void expect_exclusion(const struct worker *workers)
{
    long turns[SHARED] = {0};

    for (int i = 0; i < THREADS; i++)
        turns[workers[i].number % SHARED] += workers[i].turns;
    for (int i = 0; i < SHARED; i++)
        assert_int_equal(turns[i], counters[i]);
}

static void expect_fairness(const struct worker *workers)
{
    long least = workers[0].cycles, most = workers[0].cycles;

    for (int i = 0; i < THREADS; i++) {
        least = workers[i].cycles < least ? workers[i].cycles : least;
        most = workers[i].cycles > most ? workers[i].cycles : most;
    }
    print_message("%d threads: %ld to %ld cycles each\n", THREADS, least, most);
    assert_true(least > 0);
    assert_true(most <= least * MOST_BEHIND);
}

static void test_nobody_is_left_behind(void **state)
{
    static struct worker workers[THREADS];
    rowlock_driver driver = *fake_driver();
    rowlock_counters seen = ROWLOCK_COUNTERS_INIT;

    (void)state;
    driver.acquire = far_acquire;
    driver.release = far_release;
    assert_status(OK, rowlock_open(&client, &driver, "fake", NULL, NULL));
    for (int i = 0; i < THREADS; i++) {
        workers[i].number = i;
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    pause_us(RUN_MS * 1000L);
    atomic_store(&is_over, 1);
    for (int i = 0; i < THREADS; i++)
        pthread_join(workers[i].thread, NULL);
    for (int i = 0; i < THREADS; i++) {
        if (workers[i].status != ROWLOCK_OK)
            fail_msg("thread %d: %d: %s", i, workers[i].status, workers[i].message);
    }
    expect_exclusion(workers);
    expect_fairness(workers);
    assert_status(OK, rowlock_stats(&seen, client, NULL));
    assert_true(seen.combined > seen.acquired / 2); /* most of them travelled with others */
    assert_int_equal(seen.held, 0);
    rowlock_close(&client);
    assert_int_equal(fake_connections(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_nobody_is_left_behind, fresh),
    };

    return cmocka_run_group_tests_name("core/combine_load", tests, NULL, NULL);
}
