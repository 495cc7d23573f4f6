/* SPDX-License-Identifier: MIT
 *
 * PostgreSQL: locks that are taken and given back again and again leave the table small. Nearly all
 * updates stay on their page and touch no index (heap-only), so that the next one on that page
 * clears away what they left. A transaction in the same database that stays open would prevent
 * that: runs alone.
 *
 * Short: 20,000 cycles on 100 names. Long (watch_scene.h): a million. */
#include "watch_scene.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum {
    NAMES = 100,
    THREADS = 4, /* each with names of its own */
    SHORT_CYCLES = 20000,
    SLOWED_CYCLES = 2000,
    LONG_CYCLES = 1000000,
    SHORT_BYTES = 1 << 20,
    LONG_BYTES = 4 << 20,
    LEAST_PERCENT = 95,
    PATIENCE_MS = 30000
};

struct worker {
    pthread_t thread;
    rowlock_client *client;
    int number;
    long cycles;
    int status; /* of the call that failed, and why */
    char message[240];
};

static int cycle(struct worker *w, const char *name)
{
    rowlock_acquire_options how = ROWLOCK_ACQUIRE_OPTIONS_INIT;
    rowlock_lock *lock = NULL;
    rowlock_error err;
    int status;

    how.ttl_ms = PATIENCE_MS;
    status = rowlock_acquire(&lock, w->client, name, &how, &err);
    if (status == ROWLOCK_OK)
        status = rowlock_release(&lock, &err);
    if (status != ROWLOCK_OK)
        snprintf(w->message, sizeof(w->message), "%s", err.message);
    return status;
}

static void *work(void *argument)
{
    struct worker *w = argument;
    char name[64];

    for (long i = 0; i < w->cycles && w->status == ROWLOCK_OK; i++) {
        snprintf(name, sizeof(name), "bloat-%03ld", i * THREADS % NAMES + w->number);
        w->status = cycle(w, name);
    }
    return NULL;
}

static void run(rowlock_client *client, long cycles)
{
    struct worker workers[THREADS] = {{0}};
    int n = 0;

    for (; n < THREADS; n++) {
        workers[n] = (struct worker){.client = client, .number = n, .cycles = cycles / THREADS};
        if (pthread_create(&workers[n].thread, NULL, work, &workers[n]) != 0)
            break;
    }
    for (int i = 0; i < n; i++)
        pthread_join(workers[i].thread, NULL);
    assert_int_equal(THREADS, n);
    for (int i = 0; i < n; i++) {
        if (workers[i].status != ROWLOCK_OK)
            fail_msg("status %d: %s", workers[i].status, workers[i].message);
    }
}

static long long counter(const char *column)
{
    char sql[160];

    snprintf(sql, sizeof(sql),
             "SELECT %s FROM pg_stat_user_tables WHERE relid = '{locks}'::regclass", column);
    return fault_sql_number(sql);
}

/* Sessions tell the server their counts late, the last when they end. Every cycle has at least the
 * update of its release. */
static void await_updates(long cycles)
{
    int64_t until = process_now_ms() + PATIENCE_MS;

    while (counter("n_tup_upd") < cycles) {
        if (process_now_ms() > until)
            fail_msg("%lld updates of %ld cycles were counted", counter("n_tup_upd"), cycles);
        process_sleep_ms(50);
    }
}

static void the_table_stays_small(void **state)
{
    const long cycles = watch_is_long()     ? LONG_CYCLES
                        : watch_is_slowed() ? SLOWED_CYCLES
                                            : SHORT_CYCLES;
    rowlock_options options = ROWLOCK_OPTIONS_INIT;
    rowlock_client *client;
    long long updates, heap_only, bytes;

    (void)state;
    options.call_timeout_ms = PATIENCE_MS;
    client = fault_open(fault.backend.address, &options);
    run(client, cycles);
    rowlock_close(&client);
    await_updates(cycles * 2 - NAMES); /* the first acquire of a name is no update */
    updates = counter("n_tup_upd");
    heap_only = counter("n_tup_hot_upd");
    bytes = fault_sql_number("SELECT pg_total_relation_size('{locks}'::regclass)");
    print_message("%ld cycles on %d names: %lld updates, %.2f %% heap-only, %lld kB\n", cycles,
                  NAMES, updates, 100.0 * (double)heap_only / (double)updates, bytes / 1024);
    assert_true(heap_only * 100 >= updates * LEAST_PERCENT);
    assert_in_range(bytes, 1, watch_is_long() ? LONG_BYTES : SHORT_BYTES);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest cases[] = {cmocka_unit_test(the_table_stays_small)};

    return FAULT_MAIN(argc, argv, 0, cases);
}
