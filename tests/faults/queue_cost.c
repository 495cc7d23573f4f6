/* SPDX-License-Identifier: MIT
 *
 * What waiting costs, counted between client and server: a hand-over takes the same requests
 * however many wait, and who only waits asks next to nothing. */
#include "fault.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

enum {
    FEW = 2,
    MANY = 32,
    DEEP = 80, /* more than MySQL lets wait for each other in a chain */
    HAND_OVERS = 200,
    IDLE_THREADS = 1000,
    IDLE_NAMES = 10,
    IDLE_MS = 4000,
    STACK_SIZE = 256 * 1024,
    ALL_MS = 120000
};

struct runner {
    pthread_t thread;
    rowlock_client *client;
    const char *name;
    atomic_int *left;
    int status;
    char message[240];
};

static void *hand_over(void *argument)
{
    struct runner *r = argument;
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;
    rowlock_error err;

    options.wait_ms = ALL_MS;
    while (r->status == ROWLOCK_OK && atomic_fetch_sub(r->left, 1) > 0) {
        rowlock_lock *lock = NULL;
        r->status = rowlock_acquire(&lock, r->client, r->name, &options, &err);
        if (r->status == ROWLOCK_OK)
            r->status = rowlock_release(&lock, &err);
        snprintf(r->message, sizeof(r->message), "%s", err.message);
    }
    return NULL;
}

/* Requests for each hand-over among n clients, each on a connection or two of its own. */
static double requests_among(int n)
{
    static struct runner runners[DEEP];
    const char *name = fault_name("cost");
    int hand_overs = n > MANY ? 5 * HAND_OVERS : HAND_OVERS;
    atomic_int left = hand_overs;
    int before;
    double each;

    for (int i = 0; i < n; i++)
        runners[i] =
            (struct runner){.client = fault_open(fault.proxied, NULL), .name = name, .left = &left};
    before = proxy_round_trips(fault.proxy);
    for (int i = 0; i < n; i++)
        assert_int_equal(0, pthread_create(&runners[i].thread, NULL, hand_over, &runners[i]));
    for (int i = 0; i < n; i++)
        pthread_join(runners[i].thread, NULL);
    /* each had to open a connection to wait on, and to try once in vain at first */
    each = (double)(proxy_round_trips(fault.proxy) - before) / hand_overs;
    for (int i = 0; i < n; i++) {
        if (runners[i].status != ROWLOCK_OK)
            fail_msg("client %d of %d: %s", i, n, runners[i].message);
        rowlock_close(&runners[i].client);
    }
    print_message("%d clients: %.1f requests for each hand-over\n", n, each);
    return each;
}

static void hand_over_costs_the_same(void **state)
{
    double few = requests_among(FEW), many = requests_among(MANY), deep = requests_among(DEEP);

    (void)state;
    assert_true(many < 2 * few + 4);
    assert_true(deep < 2 * few + 4);
}

/* ---- who only waits -------------------------------------------------------------------------- */

static void *idle(void *argument)
{
    struct runner *r = argument;
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;
    rowlock_lock *lock = NULL;
    rowlock_error err;

    options.wait_ms = ALL_MS;
    r->status = rowlock_acquire(&lock, r->client, r->name, &options, &err);
    snprintf(r->message, sizeof(r->message), "%s", err.message);
    if (r->status == ROWLOCK_OK)
        r->status = rowlock_release(&lock, NULL);
    return NULL;
}

static void await_waiting(rowlock_client *client, uint64_t count)
{
    int64_t until = process_now_ms() + 60000;
    rowlock_counters counters = ROWLOCK_COUNTERS_INIT;

    while (counters.waiting < count && process_now_ms() < until) {
        process_sleep_ms(20);
        assert_int_equal(ROWLOCK_OK, rowlock_stats(&counters, client, NULL));
    }
    assert_int_equal(count, counters.waiting);
}

static void start_idle(struct runner *runners, rowlock_client *client, char (*names)[64])
{
    pthread_attr_t attributes;

    assert_int_equal(0, pthread_attr_init(&attributes));
    assert_int_equal(0, pthread_attr_setstacksize(&attributes, STACK_SIZE));
    for (int i = 0; i < IDLE_THREADS; i++) {
        runners[i] = (struct runner){.client = client, .name = names[i % IDLE_NAMES]};
        assert_int_equal(0, pthread_create(&runners[i].thread, &attributes, idle, &runners[i]));
    }
    pthread_attr_destroy(&attributes);
    await_waiting(client, IDLE_THREADS);
}

static void idle_waiters_ask_little(void **state)
{
    static struct runner runners[IDLE_THREADS];
    char names[IDLE_NAMES][64];
    rowlock_lock *locks[IDLE_NAMES];
    rowlock_client *holder = fault_open(fault.backend.address, NULL);
    rowlock_client *client = fault_open(fault.proxied, NULL);
    int before, after;

    (void)state;
    for (int i = 0; i < IDLE_NAMES; i++) {
        snprintf(names[i], sizeof(names[i]), "%s", fault_name("idle"));
        locks[i] = fault_acquire(holder, names[i], ALL_MS);
    }
    start_idle(runners, client, names);
    process_sleep_ms(1500); /* questions become rarer after a while */
    before = proxy_round_trips(fault.proxy);
    process_sleep_ms(IDLE_MS);
    after = proxy_round_trips(fault.proxy);
    print_message("%d threads waiting for %d names: %.1f requests/s\n", IDLE_THREADS, IDLE_NAMES,
                  (after - before) * 1000.0 / IDLE_MS);
    assert_in_range(after - before, 1, 2 * IDLE_NAMES * IDLE_MS / 1000);
    rowlock_close(&client); /* ends their waits */
    for (int i = 0; i < IDLE_THREADS; i++)
        pthread_join(runners[i].thread, NULL);
    for (int i = 0; i < IDLE_THREADS; i++)
        assert_status(ROWLOCK_ECLOSED, runners[i].status, NULL);
    for (int i = 0; i < IDLE_NAMES; i++)
        fault_release(&locks[i]);
    rowlock_close(&holder);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(hand_over_costs_the_same),
        cmocka_unit_test(idle_waiters_ask_little),
    };
    return FAULT_MAIN(argc, argv, 1, cases);
}
