/* SPDX-License-Identifier: MIT
 *
 * Sixteen threads, each an owner with a connection, on two names for three seconds: the server
 * counts no deadlock, no call fails, and fences rise. Then the same with a reaper among them. */
#include "fault.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 16, NAMES = 2, SECONDS = 3 };

struct arena {
    rowlock_client *client;
    const char *names[NAMES];
    _Atomic uint64_t last_fence[NAMES];
    atomic_int holders[NAMES];
    int64_t until_ms;
    int reaping;
};

/* What a thread has seen; asserted after it has been joined. */
struct worker {
    pthread_t thread;
    struct arena *arena;
    unsigned seed;
    long grants, busy, fence_fell, overlaps, errors, reaped;
    int status;
    char message[240];
};

static void note_error(struct worker *w, int status, const rowlock_error *err)
{
    if (w->errors++ == 0) {
        w->status = status;
        snprintf(w->message, sizeof(w->message), "%s", err->message);
    }
}

/* While holding: is the fence larger than all before, and is nobody else here? */
static void in_the_lock(struct worker *w, int name, const rowlock_lock *lock)
{
    struct arena *a = w->arena;

    w->overlaps += atomic_fetch_add(&a->holders[name], 1) != 0;
    w->fence_fell +=
        atomic_exchange(&a->last_fence[name], rowlock_fence(lock)) >= rowlock_fence(lock);
    w->grants++;
    atomic_fetch_sub(&a->holders[name], 1);
}

/* A row for the reaper, right beside the others: new, taken once, let go. */
static void leave_a_row(struct worker *w)
{
    rowlock_lock *lock = NULL;
    rowlock_error err;
    char name[96];
    int status;

    snprintf(name, sizeof(name), "%s-%u", w->arena->names[0], rand_r(&w->seed));
    status = rowlock_acquire(&lock, w->arena->client, name, NULL, &err);
    if (status == ROWLOCK_OK)
        status = rowlock_release(&lock, &err);
    if (status != ROWLOCK_OK && status != ROWLOCK_BUSY)
        note_error(w, status, &err);
}

static void step(struct worker *w)
{
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;
    struct arena *a = w->arena;
    rowlock_lock *locks[NAMES] = {NULL};
    int kind = rand_r(&w->seed) % 3; /* the first, the second, both */
    rowlock_error err;
    int status;

    options.wait_ms = rand_r(&w->seed) % 2 * 2000; /* bounds the whole call, connecting too */
    if (kind == NAMES)
        status = rowlock_acquire_many(locks, a->client, a->names, NAMES, &options, &err);
    else
        status = rowlock_acquire(&locks[kind], a->client, a->names[kind], &options, &err);
    if (status == ROWLOCK_BUSY || status == ROWLOCK_TIMEOUT) {
        w->busy++;
        return;
    }
    if (status != ROWLOCK_OK) {
        note_error(w, status, &err);
        return;
    }
    for (int i = 0; i < NAMES; i++)
        if (locks[i] != NULL)
            in_the_lock(w, i, locks[i]);
    for (int i = 0; i < NAMES; i++) {
        status = locks[i] != NULL ? rowlock_release(&locks[i], &err) : ROWLOCK_OK;
        if (status != ROWLOCK_OK)
            note_error(w, status, &err);
    }
}

static void *work(void *argument)
{
    struct worker *w = argument;

    while (process_now_ms() < w->arena->until_ms && w->errors < 10) {
        step(w);
        if (w->arena->reaping)
            leave_a_row(w);
    }
    return NULL;
}

static void *reap(void *argument)
{
    rowlock_reap_options options = ROWLOCK_REAP_OPTIONS_INIT;
    struct worker *w = argument;

    options.retention_ms = 1000;
    while (process_now_ms() < w->arena->until_ms && w->errors < 10) {
        rowlock_error err;
        uint64_t n = 0;
        int status = rowlock_reap(&n, w->arena->client, &options, &err);
        if (status != ROWLOCK_OK)
            note_error(w, status, &err);
        w->reaped += (long)n;
    }
    return NULL;
}

static long long deadlocks(void)
{
    if (fault_is("postgresql"))
        return fault_sql_number(
            "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()");
    return fault_sql_number(
        "SELECT COUNT FROM information_schema.INNODB_METRICS WHERE NAME = 'lock_deadlocks'");
}

static void run(int reaping)
{
    static struct worker workers[THREADS + 1];
    struct arena arena = {.names = {fault_name("dead"), fault_name("dead")}};
    rowlock_options options = ROWLOCK_OPTIONS_INIT;
    long grants = 0, busy = 0, errors = 0, fell = 0, overlaps = 0;
    long long before = fault_is("sqlite") ? 0 : deadlocks();
    int n = THREADS + (reaping != 0);

    arena.reaping = reaping;
    options.max_connections = THREADS + 1;
    options.connect_timeout_ms = options.call_timeout_ms = 30000; /* many connect at once */
    options.ttl_ms = 60000;
    arena.client = fault_open(fault.backend.address, &options);
    arena.until_ms = process_now_ms() + SECONDS * 1000;
    memset(workers, 0, sizeof(workers));
    for (int i = 0; i < n; i++) {
        workers[i].arena = &arena;
        workers[i].seed = (unsigned)i + 1;
        assert_int_equal(
            0, pthread_create(&workers[i].thread, NULL, i < THREADS ? work : reap, &workers[i]));
    }
    for (int i = 0; i < n; i++)
        pthread_join(workers[i].thread, NULL);
    for (int i = 0; i < n; i++) {
        if (workers[i].errors > 0)
            print_error("thread %d: %ld errors, first %d: %s\n", i, workers[i].errors,
                        workers[i].status, workers[i].message);
        grants += workers[i].grants;
        busy += workers[i].busy;
        errors += workers[i].errors;
        fell += workers[i].fence_fell;
        overlaps += workers[i].overlaps;
    }
    rowlock_close(&arena.client);
    print_message("%ld grants, %ld busy, %ld reaped\n", grants, busy, workers[THREADS].reaped);
    process_sleep_ms(300); /* PostgreSQL: ended sessions hand in their numbers */
    assert_int_equal(0, errors);
    assert_int_equal(0, fell);
    assert_int_equal(0, overlaps);
    assert_true(grants > 10);
    assert_true(!reaping || workers[THREADS].reaped > 0);
    if (!fault_is("sqlite"))
        assert_int_equal(before, deadlocks());
}

static void two_names(void **state)
{
    (void)state;
    run(0);
}

static void two_names_and_a_reaper(void **state)
{
    (void)state;
    run(1);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(two_names),
        cmocka_unit_test(two_names_and_a_reaper),
    };
    return FAULT_MAIN(argc, argv, 0, cases);
}
