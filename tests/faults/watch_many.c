/* SPDX-License-Identifier: MIT
 *
 * Ten thousand locks of one client, renewed in the background: none is lost, and they take one
 * statement for each thousand and tick. Says what share of a processor the process needed.
 *
 * Short: leases of 12 s, held for 9 s. Long (watch_scene.h): leases of 10 s, held for a minute. */
#include "watch_scene.h"

#include <string.h>
#include <sys/resource.h>

enum { LOCKS = 10000, SLOWED_LOCKS = 1000, BATCH = 1000, PATIENCE_MS = 60000 };

static struct watch_scene scene;

static int end(void **state)
{
    (void)state;
    watch_leave(&scene);
    return 0;
}

static double cpu_seconds(void)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static uint64_t retries(void)
{
    rowlock_counters counters = ROWLOCK_COUNTERS_INIT;
    rowlock_error err;

    assert_status(ROWLOCK_OK, rowlock_stats(&counters, scene.client, &err), &err);
    if (counters.lost > 0)
        print_error("%d lost; first error: %s\n", (int)counters.lost,
                    atomic_load(&scene.errors) > 0 ? scene.message : "none");
    assert_int_equal(scene.n, counters.held);
    assert_int_equal(0, counters.lost);
    return counters.retries;
}

/* Renewals come no more often than this: a third of the lease by the client's reckoning, which is
 * somewhat shorter than the database's, less what clients are spread by. */
static int64_t tick_ms(int64_t ttl_ms)
{
    return ttl_ms / 4;
}

static void ten_thousand(void **state)
{
    const int locks = watch_is_slowed() ? SLOWED_LOCKS : LOCKS;
    const int64_t ttl_ms = watch_is_long() ? 10000 : 12000;
    const int64_t hold_ms = watch_is_long() ? 60000 : 9000;
    rowlock_options options = ROWLOCK_OPTIONS_INIT;
    rowlock_client *direct = fault_open(fault.backend.address, NULL);
    double start, share;
    int64_t began, held_from;
    uint64_t statements, ticks;

    (void)state;
    options.call_timeout_ms = PATIENCE_MS;
    began = process_now_ms(); /* the first are renewed while the last are taken */
    watch_hold(&scene, fault.backend.address, &options, locks, ttl_ms);
    held_from = process_now_ms();
    start = cpu_seconds();
    process_sleep_ms(hold_ms);
    share = (cpu_seconds() - start) * 1000 / (double)(process_now_ms() - held_from);
    statements = (uint64_t)atomic_load(&scene.renewals) + retries();
    ticks = (uint64_t)((process_now_ms() - began) / tick_ms(ttl_ms) + 1);
    print_message("%d locks, leases of %d ms: %ld renewals in %d statements in %d ms, "
                  "%.1f %% of a processor\n",
                  locks, (int)ttl_ms, atomic_load(&scene.renewed), (int)statements, (int)hold_ms,
                  share * 100);
    assert_int_equal(locks, watch_verify(&scene, direct));
    assert_int_equal(0, atomic_load(&scene.lost));
    assert_in_range(atomic_load(&scene.renewed), locks, INT32_MAX);
    assert_in_range(statements, 1, (uint64_t)(locks / BATCH) * ticks);
    rowlock_close(&direct);
    end(NULL);
}

/* What is counted above as one statement is one on the way, too. */
static void one_round_trip_each(void **state)
{
    enum { SOME = 3 * BATCH, TTL_MS = 9000 };
    rowlock_options options = ROWLOCK_OPTIONS_INIT;
    int trips, first, least, most;

    (void)state;
    if (fault.proxy == NULL)
        skip();
    options.call_timeout_ms = PATIENCE_MS;
    watch_hold(&scene, fault.proxied, &options, SOME, TTL_MS);
    first = atomic_load(&scene.renewals);
    trips = proxy_round_trips(fault.proxy);
    watch_await_renewed(&scene, PATIENCE_MS);
    /* They go on meanwhile: one may be on its way at either end. */
    least = atomic_load(&scene.renewals) - first;
    trips = proxy_round_trips(fault.proxy) - trips;
    most = atomic_load(&scene.renewals) - first;
    print_message("%d to %d renewals in %d round trips\n", least, most, trips);
    assert_in_range(trips, least - 1, most + 1);
    end(NULL);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test_teardown(ten_thousand, end),
        cmocka_unit_test_teardown(one_round_trip_each, end),
    };
    int with_proxy = argc > 1 && strcmp(argv[1], "sqlite") != 0;

    return FAULT_MAIN(argc, argv, with_proxy, cases);
}
