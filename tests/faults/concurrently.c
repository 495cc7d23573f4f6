/* SPDX-License-Identifier: MIT
 *
 * CREATE INDEX CONCURRENTLY waits for every transaction that may still see the table as it was. Run
 * by somebody who has a lock, while others wait for that lock, it must come to its end, and then
 * they must get theirs: no waiter may keep a snapshot for as long as it waits. */
#include "native.h"
#include "queue_scene.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum {
    WAITERS = 3,
    PROCESSES = 8,
    WAIT_MS = 60000,  /* of those who wait for the lock */
    INDEX_MS = 20000, /* within which the index must be there: much less than that */
    SETTLE_MS = 1000  /* until all of them wait */
};

struct waiter {
    pthread_t thread;
    rowlock_client *client;
    const char *name;
    int status, started;
    struct native native;
    char message[240];
};

static void answer(struct waiter *w, int status, const rowlock_error *err)
{
    w->status = status;
    snprintf(w->message, sizeof(w->message), "%s", err->message);
}

static void *wait_for_lease(void *argument)
{
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;
    struct waiter *w = argument;
    rowlock_lock *lock = NULL;
    rowlock_error err;

    options.wait_ms = WAIT_MS;
    process_signal(&w->started, 1);
    answer(w, rowlock_acquire(&lock, w->client, w->name, &options, &err), &err);
    if (lock != NULL)
        rowlock_release(&lock, NULL);
    return NULL;
}

static void *wait_in_transaction(void *argument)
{
    rowlock_tx_options options = ROWLOCK_TX_OPTIONS_INIT;
    struct waiter *w = argument;
    rowlock_tx *tx = NULL;
    rowlock_error err;

    options.wait_ms = WAIT_MS;
    process_signal(&w->started, 1);
    answer(w, rowlock_tx_begin(&tx, w->client, &w->name, 1, &options, &err), &err);
    if (tx != NULL)
        answer(w, rowlock_tx_commit(&tx, &err), &err);
    return NULL;
}

/* In a transaction of the application's, open all the while. */
static void *wait_on_own(void *argument)
{
    rowlock_tx_options options = ROWLOCK_TX_OPTIONS_INIT;
    struct waiter *w = argument;
    rowlock_error err;
    int status;

    options.wait_ms = WAIT_MS;
    process_signal(&w->started, 1);
    native_run(&w->native, "BEGIN");
    status = native_lock(NULL, w->client, &w->native, &w->name, 1, &options, &err);
    answer(w, status, &err);
    if (status == ROWLOCK_OK && native_commit(&w->native) != 0)
        w->status = -100;
    return NULL;
}

static void start(struct waiter *waiters, void *(*wait)(void *), rowlock_client *client,
                  const char *name)
{
    memset(waiters, 0, WAITERS * sizeof(*waiters));
    for (int i = 0; i < WAITERS; i++) {
        waiters[i].client = client;
        waiters[i].name = name;
        assert_int_equal(0, native_open(&waiters[i].native, fault.backend.address, 0));
        assert_int_equal(0, pthread_create(&waiters[i].thread, NULL, wait, &waiters[i]));
        assert_int_equal(0, process_await(&waiters[i].started, 1, 10000));
    }
    process_sleep_ms(SETTLE_MS);
}

static void assert_all_got_it(struct waiter *waiters)
{
    for (int i = 0; i < WAITERS; i++) {
        pthread_join(waiters[i].thread, NULL);
        native_close(&waiters[i].native);
    }
    for (int i = 0; i < WAITERS; i++) {
        if (waiters[i].status != ROWLOCK_OK)
            print_error("waiter %d: %s\n", i, waiters[i].message);
        assert_int_equal(ROWLOCK_OK, waiters[i].status);
    }
}

/* The server ends the statement itself when it takes too long. */
static int index_it(void)
{
    struct native native;
    int64_t start_ms = process_now_ms();
    int failed = native_open(&native, fault.backend.address, 0);

    if (failed == 0)
        failed = native_run(&native, "SET statement_timeout = %d", INDEX_MS);
    if (failed == 0)
        failed = native_run(&native, "CREATE INDEX CONCURRENTLY ON %sgoods (price)", fault.prefix);
    print_message("the index took %.1f s: %s\n", (double)(process_now_ms() - start_ms) / 1000,
                  failed ? native.message : "made");
    native_close(&native);
    return failed;
}

static void holder_has_a_lease(void *(*wait)(void *))
{
    rowlock_options options = ROWLOCK_OPTIONS_INIT;
    struct waiter waiters[WAITERS];
    const char *name = fault_name("index");
    rowlock_client *client, *others;
    rowlock_lock *lock;
    int failed;

    options.max_connections = WAITERS;
    options.connect_timeout_ms = options.call_timeout_ms = 30000; /* many connect at once */
    client = fault_open(fault.backend.address, NULL);
    others = fault_open(fault.backend.address, &options);
    lock = fault_acquire(client, name, WAIT_MS);
    start(waiters, wait, others, name);
    failed = index_it();
    fault_release(&lock);
    assert_all_got_it(waiters);
    rowlock_close(&others);
    rowlock_close(&client);
    assert_int_equal(0, failed);
}

static void holder_has_a_transaction(void *(*wait)(void *))
{
    rowlock_options options = ROWLOCK_OPTIONS_INIT;
    struct waiter waiters[WAITERS];
    const char *name = fault_name("index");
    rowlock_client *client;
    rowlock_tx *tx = NULL;
    rowlock_error err;
    int failed;

    options.max_connections = WAITERS + 1;
    options.connect_timeout_ms = options.call_timeout_ms = 30000; /* many connect at once */
    client = fault_open(fault.backend.address, &options);
    assert_status(ROWLOCK_OK, rowlock_tx_begin(&tx, client, &name, 1, NULL, &err), &err);
    start(waiters, wait, client, name);
    failed = index_it();
    assert_status(ROWLOCK_OK, rowlock_tx_commit(&tx, &err), &err);
    assert_all_got_it(waiters);
    rowlock_close(&client);
    assert_int_equal(0, failed);
}

static void lease_and_leases(void **state)
{
    (void)state;
    holder_has_a_lease(wait_for_lease);
}

static void lease_and_transactions(void **state)
{
    (void)state;
    holder_has_a_lease(wait_in_transaction);
}

static void lease_and_own_transactions(void **state)
{
    (void)state;
    holder_has_a_lease(wait_on_own);
}

static void transaction_and_leases(void **state)
{
    (void)state;
    holder_has_a_transaction(wait_for_lease);
}

static void transaction_and_transactions(void **state)
{
    (void)state;
    holder_has_a_transaction(wait_in_transaction);
}

/* Each with a statement that is blocked, for a while: none for so long that the index waits for it,
 * and they keep their places. */
static void lease_and_processes(void **state)
{
    const struct queue_part how = {.ttl_ms = WAIT_MS, .hold_ms = 1};
    struct queue_scene scene;
    char order[64];
    int failed;

    (void)state;
    queue_open(&scene, "processes", PROCESSES);
    for (int i = 0; i < PROCESSES; i++)
        queue_join(&scene, &how);
    failed = index_it();
    queue_release(&scene);
    for (int i = 0; i < PROCESSES; i++)
        queue_await_end(&scene, i, WAIT_MS);
    queue_order(&scene, order, sizeof(order));
    queue_close(&scene);
    assert_int_equal(0, failed);
    assert_string_equal("0 1 2 3 4 5 6 7", order);
}

static int setup(void **state)
{
    char out[64];

    (void)state;
    return fault_sql_on(fault.backend.address,
                        "CREATE TABLE {goods} AS SELECT i AS id, i * 7 % 1000 AS price"
                        " FROM generate_series(1, 1000) i",
                        out, sizeof(out));
}

static int teardown(void **state)
{
    (void)state;
    return native_drop("goods");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test_setup_teardown(lease_and_leases, setup, teardown),
        cmocka_unit_test_setup_teardown(lease_and_transactions, setup, teardown),
        cmocka_unit_test_setup_teardown(lease_and_own_transactions, setup, teardown),
        cmocka_unit_test_setup_teardown(lease_and_processes, setup, teardown),
        cmocka_unit_test_setup_teardown(transaction_and_leases, setup, teardown),
        cmocka_unit_test_setup_teardown(transaction_and_transactions, setup, teardown),
    };
    return FAULT_MAIN(argc, argv, 0, cases);
}
