/* SPDX-License-Identifier: MIT
 *
 * A primary that is made read-only between two calls of a privileged user, whom read_only itself
 * does not stop: every way to make or to extend a tenure is refused, whatever the driver expects of
 * the next lock. A replica that may be written. Changes settings of the server and puts them back.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "native.h"

enum { TRIES = 20, LONG_MS = 1000, SHORT_MS = 200 };
enum { CYCLES = 6 };                     /* as often as a driver may need to learn what to expect */
enum { ROUNDS = 20, GRANTS_MAX = 5000 }; /* of a change under load */

/* A refused call is tried again until its time is up. */
static rowlock_client *open_client(int64_t call_timeout_ms)
{
    rowlock_options options = ROWLOCK_OPTIONS_INIT;

    options.call_timeout_ms = call_timeout_ms;
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

/* Nothing was had. 0: and it says why; 1: another try, since a refused call is repeated until its
 * time is up, and the last of it may have been too short for an answer. */
static int is_unclear(int expected, int status, const rowlock_error *err, int *tries)
{
    assert_in_range(-status, 1, 100);
    if (strstr(err->message, "read-only") == NULL && ++*tries < TRIES)
        return 1;
    assert_status(expected, status, err);
    assert_non_null(strstr(err->message, "read-only"));
    return 0;
}

/* Repeats `call` as long as that is so. */
#define assert_read_only(expected, call)                  \
    do {                                                  \
        int tries_ = 0;                                   \
        while (is_unclear(expected, call, &err, &tries_)) \
            continue;                                     \
    } while (0)

/* `cycles` free ones before decide which statements the connection sends. */
static void one_lock(int cycles)
{
    rowlock_client *client = open_client(LONG_MS);
    const char *name = fault_name("demoted");
    rowlock_lock *lock = NULL;
    rowlock_error err;

    for (int i = 0; i < cycles; i++) {
        lock = fault_acquire(client, name, 0);
        fault_release(&lock);
    }
    set_read_only(1);
    assert_read_only(ROWLOCK_ECONNECT, rowlock_acquire(&lock, client, name, NULL, &err));
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
    rowlock_client *client = open_client(LONG_MS);
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
    assert_read_only(ROWLOCK_ECONNECT, rowlock_acquire_many(batch.locks, client, batch.names,
                                                            FAULT_BATCH, NULL, &err));
    set_read_only(0);
    rowlock_close(&client);
}

static void renewal(void **state)
{
    rowlock_client *client = open_client(LONG_MS);
    rowlock_lock *lock = fault_acquire(client, fault_name("demoted"), 30000);
    rowlock_error err;

    (void)state;
    set_read_only(1);
    assert_read_only(ROWLOCK_ECONNECT, rowlock_renew(lock, 60000, &err));
    set_read_only(0);
    assert_status(ROWLOCK_OK, rowlock_renew(lock, 60000, &err), &err);
    fault_release(&lock);
    rowlock_close(&client);
}

/* The client's own connection is refused first, and tells EPOOL; what only the application's
 * connection is asked is EDRIVER, since it is the application that decides where to connect. */
static void transaction(void **state)
{
    rowlock_client *client = open_client(LONG_MS);
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
        assert_read_only(ROWLOCK_EPOOL, native_lock(fences, client, &native, names, n, NULL, &err));
        assert_read_only(ROWLOCK_EDRIVER, native_guard(lock, &native, &err));
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
    rowlock_client *client = open_client(LONG_MS);
    const char *name = fault_name("demoted");
    rowlock_tx *tx = NULL;
    rowlock_error err;

    (void)state;
    assert_status(ROWLOCK_OK, rowlock_tx_begin(&tx, client, &name, 1, NULL, &err), &err);
    set_read_only(1);
    assert_status(ROWLOCK_ECONNECT, rowlock_tx_commit(&tx, &err), &err);
    assert_non_null(strstr(err.message, "read-only"));
    set_read_only(0);
    rowlock_close(&client);
}

struct load {
    rowlock_client *client;
    atomic_int granted, ended;
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
    atomic_store(&load->ended, 1);
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

        load.client = open_client(SHORT_MS);
        atomic_store(&load.granted, 0);
        atomic_store(&load.ended, 0);
        assert_int_equal(0, pthread_create(&thread, NULL, acquire_until_refused, &load));
        while (atomic_load(&load.granted) < 10 && !atomic_load(&load.ended))
            usleep(1000);
        snprintf(sql, sizeof(sql), "CALL rowlock_demote(%d)", load.round);
        there = fault_sql_number(sql);
        assert_int_equal(0, pthread_join(thread, NULL));
        set_read_only(0);
        assert_in_range(atomic_load(&load.granted), 0, there);
        rowlock_close(&load.client);
    }
    fault_sql("DROP PROCEDURE rowlock_demote");
}

/* What makes a replica of a server: the half that applies runs, though it has nothing to apply. */
struct replication {
    const char *family, *make, *start, *stop, *forget;
};

static const struct replication replications[] = {
    {"MariaDB", "CHANGE MASTER 'rowlock' TO MASTER_HOST = '127.0.0.1', MASTER_PORT = 1",
     "START SLAVE 'rowlock' SQL_THREAD", "STOP SLAVE 'rowlock'", "RESET SLAVE 'rowlock' ALL"},
    {"MySQL",
     "CHANGE REPLICATION SOURCE TO SOURCE_HOST = '127.0.0.1', SOURCE_PORT = 1 FOR CHANNEL "
     "'rowlock'",
     "START REPLICA SQL_THREAD FOR CHANNEL 'rowlock'", "STOP REPLICA FOR CHANNEL 'rowlock'",
     "RESET REPLICA ALL FOR CHANNEL 'rowlock'"},
};

static const struct replication *replication(void)
{
    char version[128];

    fault_sql_text(version, sizeof(version), "SELECT VERSION()");
    return &replications[strstr(version, "MariaDB") == NULL];
}

static int no_replica(void **state)
{
    char out[64];

    (void)state;
    fault_sql_on(fault.backend.address, replication()->stop, out, sizeof(out));
    fault_sql_on(fault.backend.address, replication()->forget, out, sizeof(out));
    return 0;
}

static void replica(void **state)
{
    rowlock_client *client = NULL;
    rowlock_error err;

    (void)state;
    fault_sql(replication()->make);
    fault_sql(replication()->start);
    assert_status(ROWLOCK_ECONNECT, fault_try_open(&client, fault.backend.address, NULL, &err),
                  &err);
    assert_non_null(strstr(err.message, "replicates"));
    assert_int_not_equal(0, err.retryable);
    fault_sql(replication()->stop);
    client = open_client(LONG_MS);
    rowlock_close(&client);
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
        cmocka_unit_test_teardown(replica, no_replica),
    };

    return FAULT_MAIN(argc, argv, 0, cases);
}
