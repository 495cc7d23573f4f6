/* SPDX-License-Identifier: MIT
 *
 * A primary that is made read-only between two calls of a privileged user, whom read_only itself
 * does not stop: every way to make or to extend a tenure is refused, whatever the driver expects of
 * the next lock. Changes a setting of the server and puts it back. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "native.h"

enum { CYCLES = 6 };                     /* as often as a driver may need to learn what to expect */
enum { ROUNDS = 20, GRANTS_MAX = 5000 }; /* of a change under load */

/* A refused call is tried again until its time is up. */
static rowlock_client *open_client(void)
{
    rowlock_options options = ROWLOCK_OPTIONS_INIT;

    options.call_timeout_ms = 300;
    return fault_open(fault.backend.address, &options);
}

static void set_read_only(int on)
{
    fault_sql(on ? "SET GLOBAL read_only = ON" : "SET GLOBAL read_only = OFF");
}

static int back(void **state)
{
    char out[64];

    (void)state;
    return fault_sql_on(fault.backend.address, "SET GLOBAL read_only = OFF", out, sizeof(out));
}

static void assert_read_only(int expected, int status, const rowlock_error *err)
{
    assert_status(expected, status, err);
    if (strstr(err->message, "read-only") == NULL)
        fail_msg("\"%s\" does not say that the server is read-only", err->message);
}

/* `cycles` free ones before decide which statements the connection sends. */
static void one_lock(int cycles)
{
    rowlock_client *client = open_client();
    const char *name = fault_name("demoted");
    rowlock_lock *lock = NULL;
    rowlock_error err;
    int status;

    for (int i = 0; i < cycles; i++) {
        lock = fault_acquire(client, name, 0);
        fault_release(&lock);
    }
    set_read_only(1);
    status = rowlock_acquire(&lock, client, name, NULL, &err);
    assert_read_only(ROWLOCK_ECONNECT, status, &err);
    assert_int_not_equal(0, err.retryable);
    assert_null(lock);
    set_read_only(0);
    lock = fault_acquire(client, name, 0);
    fault_release(&lock);
    rowlock_close(&client);
}

static void absent(void **state)
{
    (void)state;
    one_lock(0);
}

static void expected_free(void **state)
{
    (void)state;
    one_lock(1);
    one_lock(CYCLES);
}

static void many(void **state)
{
    rowlock_client *client = open_client();
    struct fault_batch batch;
    rowlock_error err;
    int status;

    (void)state;
    fault_batch_init(&batch, "demoted");
    for (int i = 0; i < CYCLES; i++) {
        status = rowlock_acquire_many(batch.locks, client, batch.names, FAULT_BATCH, NULL, &err);
        assert_status(ROWLOCK_OK, status, &err);
        for (int k = 0; k < FAULT_BATCH; k++)
            fault_release(&batch.locks[k]);
    }
    set_read_only(1);
    status = rowlock_acquire_many(batch.locks, client, batch.names, FAULT_BATCH, NULL, &err);
    assert_read_only(ROWLOCK_ECONNECT, status, &err);
    set_read_only(0);
    rowlock_close(&client);
}

static void renewal(void **state)
{
    rowlock_client *client = open_client();
    rowlock_lock *lock = fault_acquire(client, fault_name("demoted"), 30000);
    rowlock_error err;
    int status;

    (void)state;
    set_read_only(1);
    status = rowlock_renew(lock, 60000, &err);
    assert_read_only(ROWLOCK_ECONNECT, status, &err);
    set_read_only(0);
    assert_status(ROWLOCK_OK, rowlock_renew(lock, 60000, &err), &err);
    fault_release(&lock);
    rowlock_close(&client);
}

/* The client's own connection is refused first, and tells EPOOL; what only the application's
 * connection is asked is EDRIVER, since it is the application that decides where to connect. */
static void transaction(void **state)
{
    rowlock_client *client = open_client();
    const char *names[] = {fault_name("demoted"), fault_name("demoted")};
    rowlock_lock *lock = fault_acquire(client, fault_name("guarded"), 30000);
    struct native native;
    uint64_t fences[2];
    rowlock_error err;

    (void)state;
    assert_int_equal(0, native_open(&native, fault.backend.address, 0));
    for (size_t n = 1; n <= 2; n++) {
        set_read_only(0);
        assert_int_equal(0, native_run(&native, "START TRANSACTION"));
        assert_status(ROWLOCK_OK, native_lock(fences, client, &native, names, n, NULL, &err), &err);
        assert_int_equal(0, native_run(&native, "ROLLBACK"));
        set_read_only(1);
        assert_int_equal(0, native_run(&native, "START TRANSACTION"));
        assert_read_only(ROWLOCK_EPOOL, native_lock(fences, client, &native, names, n, NULL, &err),
                         &err);
        assert_read_only(ROWLOCK_EDRIVER, native_guard(lock, &native, &err), &err);
        assert_int_equal(0, native_run(&native, "ROLLBACK"));
    }
    set_read_only(0);
    native_close(&native);
    fault_release(&lock);
    rowlock_close(&client);
}

/* A transaction of the library's own that began before. */
static void own_transaction(void **state)
{
    rowlock_client *client = open_client();
    const char *name = fault_name("demoted");
    rowlock_tx *tx = NULL;
    rowlock_error err;

    (void)state;
    assert_status(ROWLOCK_OK, rowlock_tx_begin(&tx, client, &name, 1, NULL, &err), &err);
    set_read_only(1);
    assert_read_only(ROWLOCK_ECONNECT, rowlock_tx_commit(&tx, &err), &err);
    set_read_only(0);
    rowlock_close(&client);
}

struct load {
    rowlock_client *client;
    atomic_int granted;
    int round;
};

/* A new name each time, until it is refused. */
static void *acquire_until_refused(void *arg)
{
    struct load *load = arg;
    rowlock_lock *lock;
    rowlock_error err;
    char name[64];

    while (atomic_load(&load->granted) < GRANTS_MAX) {
        snprintf(name, sizeof(name), "load-%d-%d", load->round, atomic_load(&load->granted));
        if (rowlock_acquire(&lock, load->client, name, NULL, &err) != ROWLOCK_OK)
            break;
        atomic_fetch_add(&load->granted, 1);
        rowlock_release(&lock, &err);
    }
    return NULL;
}

/* What was granted in all is what the table holds when read_only has just been set. */
static void under_load(void **state)
{
    struct load load = {0};
    pthread_t thread;

    (void)state;
    fault_sql("DROP PROCEDURE IF EXISTS rowlock_demote");
    fault_sql("CREATE PROCEDURE rowlock_demote(round INT) BEGIN SET GLOBAL read_only = ON; "
              "SELECT COUNT(*) FROM {locks} WHERE name LIKE CONCAT('load-', round, '-%'); END");
    for (load.round = 0; load.round < ROUNDS; load.round++) {
        char sql[64];
        long long there;

        load.client = open_client();
        atomic_store(&load.granted, 0);
        assert_int_equal(0, pthread_create(&thread, NULL, acquire_until_refused, &load));
        while (atomic_load(&load.granted) < 10)
            usleep(1000);
        snprintf(sql, sizeof(sql), "CALL rowlock_demote(%d)", load.round);
        there = fault_sql_number(sql);
        assert_int_equal(0, pthread_join(thread, NULL));
        set_read_only(0);
        assert_in_range(atomic_load(&load.granted), 10, there);
        rowlock_close(&load.client);
    }
    fault_sql("DROP PROCEDURE rowlock_demote");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test_teardown(absent, back),
        cmocka_unit_test_teardown(expected_free, back),
        cmocka_unit_test_teardown(many, back),
        cmocka_unit_test_teardown(renewal, back),
        cmocka_unit_test_teardown(transaction, back),
        cmocka_unit_test_teardown(own_transaction, back),
        cmocka_unit_test_teardown(under_load, back),
    };

    return FAULT_MAIN(argc, argv, 0, cases);
}
