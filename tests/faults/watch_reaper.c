/* SPDX-License-Identifier: MIT
 *
 * Reapers that never rest, against threads that use the same names again and again. Rows are reaped
 * a second after their last use, just when the name's turn comes again: no error, never two
 * holders, no increment lost, fences rise, and the database sees no deadlock.
 *
 * Short: 3 s. Long (watch_scene.h): 10 s. */
#include "watch_scene.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    THREADS = 16,
    SLOWED_THREADS = 3,
    REAPERS = 2,
    NAMES = 50,
    GROUP = 10,     /* names in use at a time */
    TURN_MS = 300,  /* for so long: each rests for 1.2 s, longer than the retention */
    TTL_MS = 10000, /* of leases that are needed for a moment: nobody is ever that late */
    SLOW_MS = 1200, /* one thread keeps each lock for longer than the retention */
    SHORT_MS = 3000,
    LONG_MS = 10000,
    PATIENCE_MS = 30000
};

/* What a lock protects. The steps are atomic for the eyes of tools, the sum of them is not. */
struct thing {
    char name[64];
    atomic_int holders;
    atomic_long counter;
    _Atomic uint64_t fence;
    atomic_long grants;
};

struct arena {
    rowlock_client *client;
    int64_t start_ms, until_ms, latest_ms;
    atomic_long grants;
    struct thing things[NAMES];
};

struct worker {
    pthread_t thread;
    struct arena *arena;
    unsigned seed;
    int is_slow;
    long grants, busy, overlaps, falls, errors, reaped, calls, deadlocks;
    int status; /* the first error's */
    char message[240];
};

/* Longer where the machine is so slow that there was little to see. */
static int is_going_on(const struct worker *w)
{
    struct arena *arena = w->arena;
    int64_t now = process_now_ms();
    int is_enough = atomic_load(&arena->grants) > NAMES;

    return w->errors < 10 && now < (is_enough ? arena->until_ms : arena->latest_ms);
}

static int failed(struct worker *w, int status, const rowlock_error *err)
{
    if (status == ROWLOCK_OK)
        return 0;
    if (w->errors++ == 0) {
        w->status = status;
        snprintf(w->message, sizeof(w->message), "%s", err->message);
    }
    return 1;
}

/* ---- users ----------------------------------------------------------------------------------- */

static struct thing *pick(struct worker *w)
{
    int64_t turn = (process_now_ms() - w->arena->start_ms) / TURN_MS;

    return &w->arena->things[turn % (NAMES / GROUP) * GROUP + rand_r(&w->seed) % GROUP];
}

static void count_up(struct worker *w, struct thing *thing, uint64_t fence)
{
    long value;

    w->overlaps += atomic_fetch_add(&thing->holders, 1) != 0;
    w->falls += atomic_exchange(&thing->fence, fence) >= fence;
    value = atomic_load(&thing->counter);
    if (w->is_slow)
        process_sleep_ms(SLOW_MS);
    sched_yield();
    atomic_store(&thing->counter, value + 1);
    atomic_fetch_add(&thing->grants, 1);
    atomic_fetch_sub(&thing->holders, 1);
    atomic_fetch_add(&w->arena->grants, 1);
    w->grants++;
}

static void *work(void *argument)
{
    rowlock_acquire_options how = ROWLOCK_ACQUIRE_OPTIONS_INIT;
    struct worker *w = argument;

    how.ttl_ms = TTL_MS;
    how.wait_ms = 2000; /* bounds the call, also on a machine with much else to do */
    while (is_going_on(w)) {
        struct thing *thing = pick(w);
        rowlock_lock *lock = NULL;
        rowlock_error err;
        int status;

        how.renew = rand_r(&w->seed) % 2;
        status = rowlock_acquire(&lock, w->arena->client, thing->name, &how, &err);
        w->busy += status == ROWLOCK_TIMEOUT;
        if (status == ROWLOCK_TIMEOUT || failed(w, status, &err))
            continue;
        count_up(w, thing, rowlock_fence(lock));
        failed(w, rowlock_release(&lock, &err), &err);
    }
    return NULL;
}

/* ---- reapers --------------------------------------------------------------------------------- */

/* About a thousand times a second, if the database is as fast as that, with a client of its own. */
static void *reap(void *argument)
{
    rowlock_reap_options how = ROWLOCK_REAP_OPTIONS_INIT;
    rowlock_counters counters = ROWLOCK_COUNTERS_INIT;
    struct worker *w = argument;
    rowlock_client *client = NULL;
    rowlock_options options = ROWLOCK_OPTIONS_INIT;
    rowlock_error err;

    how.retention_ms = 1000;
    options.connect_timeout_ms = options.call_timeout_ms = PATIENCE_MS;
    if (failed(w, fault_try_open(&client, fault.backend.address, &options, &err), &err))
        return NULL;
    while (is_going_on(w)) {
        uint64_t reaped = 0;

        failed(w, rowlock_reap(&reaped, client, &how, &err), &err);
        w->reaped += (long)reaped;
        w->calls++;
        process_sleep_ms(1);
    }
    failed(w, rowlock_stats(&counters, client, &err), &err);
    w->deadlocks = (long)counters.deadlock_retries;
    rowlock_close(&client);
    return NULL;
}

/* ---- the case -------------------------------------------------------------------------------- */

/* Errors of the client's own threads show nowhere else. They wait a second at most: on a machine
 * that is slow enough not to connect within that they try again later. */
static void note_event(const rowlock_event *event, void *payload)
{
    if (event->kind == ROWLOCK_EVENT_ERROR && event->status != ROWLOCK_ECONNECT &&
        atomic_fetch_add((atomic_int *)payload, 1) == 0)
        fprintf(stderr, "event: status %d: %s\n", event->status, event->message);
}

static long long deadlocks(void)
{
    if (fault_is("postgresql"))
        return fault_sql_number(
            "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()");
    if (fault_is("mysql"))
        return fault_sql_number(
            "SELECT COUNT FROM information_schema.INNODB_METRICS WHERE NAME = 'lock_deadlocks'");
    return 0;
}

static void run(struct arena *arena, struct worker *workers)
{
    int users = watch_is_slowed() ? SLOWED_THREADS : THREADS, n = 0;

    arena->start_ms = process_now_ms();
    arena->until_ms = arena->start_ms + (watch_is_long() ? LONG_MS : SHORT_MS);
    arena->latest_ms = arena->until_ms + PATIENCE_MS;
    for (; n < users + REAPERS; n++) {
        workers[n].arena = arena;
        workers[n].seed = (unsigned)n + 1;
        workers[n].is_slow = n == 0;
        if (pthread_create(&workers[n].thread, NULL, n < users ? work : reap, &workers[n]) != 0)
            break;
    }
    for (int i = 0; i < n; i++)
        pthread_join(workers[i].thread, NULL);
    assert_int_equal(users + REAPERS, n);
}

/* The sum of all; the first error's message. */
static struct worker sum(const struct worker *workers)
{
    struct worker all = {.grants = 0};

    for (int i = 0; i < THREADS + REAPERS; i++) {
        const struct worker *w = &workers[i];

        if (w->errors > 0 && all.errors == 0)
            print_error("status %d: %s\n", w->status, w->message);
        all.grants += w->grants;
        all.busy += w->busy;
        all.overlaps += w->overlaps;
        all.falls += w->falls;
        all.errors += w->errors;
        all.reaped += w->reaped;
        all.calls += w->calls;
        all.deadlocks += w->deadlocks;
    }
    return all;
}

static void reapers_that_never_rest(void **state)
{
    static struct worker workers[THREADS + REAPERS];
    static struct arena arena;
    rowlock_counters counters = ROWLOCK_COUNTERS_INIT;
    rowlock_options options = ROWLOCK_OPTIONS_INIT;
    long long before = deadlocks();
    atomic_int errors = 0;
    struct worker all;

    (void)state;
    options.on_event = note_event;
    options.event_payload = &errors;
    options.reap_interval_ms = 1;
    options.reap_retention_ms = 1000;
    options.max_connections = THREADS + 2; /* the background waits for none */
    options.connect_timeout_ms = options.call_timeout_ms = PATIENCE_MS;
    for (int i = 0; i < NAMES; i++)
        snprintf(arena.things[i].name, sizeof(arena.things[i].name), "reused-%02d", i);
    arena.client = fault_open(fault.backend.address, &options);
    run(&arena, workers);
    all = sum(workers);
    rowlock_stats(&counters, arena.client, NULL);
    print_message("%ld grants, %ld busy; %ld rows reaped in %ld calls and %llu in the background\n",
                  all.grants, all.busy, all.reaped, all.calls, (unsigned long long)counters.reaped);
    rowlock_close(&arena.client);
    assert_int_equal(0, all.errors);
    assert_int_equal(0, atomic_load(&errors));
    assert_int_equal(0, all.overlaps);
    assert_int_equal(0, all.falls);
    for (int i = 0; i < NAMES; i++)
        assert_int_equal(atomic_load(&arena.things[i].grants),
                         atomic_load(&arena.things[i].counter));
    assert_true(all.grants > NAMES);
    assert_true(all.reaped + (long)counters.reaped > 0);
    assert_int_equal(0, counters.lost);
    if (fault_is("sqlite"))
        return; /* has none, and asks to try again when it is busy */
    assert_int_equal(0, all.deadlocks);
    assert_int_equal(0, counters.deadlock_retries);
    assert_int_equal(before, deadlocks());
}

int main(int argc, char **argv)
{
    const struct CMUnitTest cases[] = {cmocka_unit_test(reapers_that_never_rest)};

    return FAULT_MAIN(argc, argv, 0, cases);
}
