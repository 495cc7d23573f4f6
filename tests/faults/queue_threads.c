/* SPDX-License-Identifier: MIT
 *
 * First come, first served, between the threads of one client, and of several at once. */
#include "fault.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum {
    THREADS = 32,
    CLIENTS = 2,
    LONG_WAIT_MS = 5500,
    ALL_MS = 60000,
    COME_MS = 30000,
    EACH_MS = 500 /* a hand-over that nobody was woken for takes a second or two */
};

struct comer {
    pthread_t thread;
    rowlock_client *client;
    const char *name;
    int number, status;
    char message[240];
};

static atomic_int served;
static int order[THREADS]; /* written under the lock */

static void *wait_in_line(void *argument)
{
    struct comer *c = argument;
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;
    rowlock_lock *lock = NULL;
    rowlock_error err;

    options.wait_ms = ALL_MS;
    c->status = rowlock_acquire(&lock, c->client, c->name, &options, &err);
    if (c->status == ROWLOCK_OK) {
        order[atomic_fetch_add(&served, 1)] = c->number;
        c->status = rowlock_release(&lock, &err);
    }
    snprintf(c->message, sizeof(c->message), "%s", err.message);
    return NULL;
}

static uint64_t waiting(rowlock_client *client)
{
    rowlock_counters counters = ROWLOCK_COUNTERS_INIT;

    assert_int_equal(ROWLOCK_OK, rowlock_stats(&counters, client, NULL));
    return counters.waiting;
}

static void start(struct comer *c)
{
    uint64_t before = waiting(c->client);
    int64_t until = process_now_ms() + COME_MS;

    assert_int_equal(0, pthread_create(&c->thread, NULL, wait_in_line, c));
    while (waiting(c->client) == before && process_now_ms() < until)
        process_sleep_ms(1);
    assert_int_equal(before + 1, waiting(c->client));
}

/* All of them come one after the other, and wait for longer than a ticket lives by itself. */
static void let_them_come(struct comer *comers, rowlock_client **clients, int n, const char *name)
{
    rowlock_lock *lock = fault_acquire(clients[0], name, ALL_MS);
    int64_t took_ms;

    atomic_store(&served, 0);
    for (int i = 0; i < THREADS; i++) {
        comers[i] = (struct comer){.client = clients[i % n], .name = name, .number = i};
        start(&comers[i]);
    }
    process_sleep_ms(LONG_WAIT_MS);
    took_ms = -process_now_ms();
    fault_release(&lock);
    for (int i = 0; i < THREADS; i++)
        pthread_join(comers[i].thread, NULL);
    took_ms += process_now_ms();
    print_message("%d hand-overs in %lld ms\n", THREADS, (long long)took_ms);
    for (int i = 0; i < THREADS; i++) {
        if (comers[i].status != ROWLOCK_OK)
            fail_msg("number %d: %s", i, comers[i].message);
    }
    assert_int_equal(THREADS, atomic_load(&served));
    assert_in_range(took_ms, 0, THREADS * EACH_MS);
}

static void one_client(void **state)
{
    rowlock_client *client = fault_open(fault.backend.address, NULL);
    struct comer comers[THREADS];

    (void)state;
    let_them_come(comers, &client, 1, fault_name("threads"));
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(i, order[i]);
    assert_int_equal(0, waiting(client));
    rowlock_close(&client);
}

/* Of each client only the first has a ticket: its threads keep their order, and the clients take
 * turns, so that none has to wait until the other has no more. */
static void several_clients(void **state)
{
    rowlock_client *clients[CLIENTS];
    struct comer comers[THREADS];
    int last[CLIENTS] = {-1, -1};

    (void)state;
    for (int i = 0; i < CLIENTS; i++)
        clients[i] = fault_open(fault.backend.address, NULL);
    let_them_come(comers, clients, CLIENTS, fault_name("clients"));
    for (int i = 0; i < THREADS; i++) {
        int *before = &last[order[i] % CLIENTS];
        assert_true(order[i] > *before);
        *before = order[i];
    }
    for (int i = 0; i < CLIENTS; i++)
        rowlock_close(&clients[i]);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(one_client),
        cmocka_unit_test(several_clients),
    };
    return FAULT_MAIN(argc, argv, 0, cases);
}
