/* SPDX-License-Identifier: MIT
 *
 * KILL QUERY at any moment of a call: who is answered that nothing was done holds nothing. A packet
 * goes on behind its COMMIT, and an error there comes too late for that answer. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "fault.h"

enum { CALLS = 3000, KILLS = 150, LONGEST_PAUSE_US = 1500, SECONDS_MAX = 15 };
enum { CALL_MS = 5000, TTL_US = 60000000 };

static struct {
    pthread_t thread;
    void *session;
    atomic_llong victim; /* 0: nobody */
    atomic_int stop;
} killer;

static struct {
    void *conn;
    rowlock_client *looks; /* at the rows */
    int calls, killed, wrong;
} victim;

static const rowlock_driver *driver(void)
{
    return fault.backend.kind->driver();
}

static void open_victim(void)
{
    rowlock_config config = {
        .size = sizeof config, .address = fault.backend.address, .prefix = fault.prefix};
    rowlock_error err;

    assert_status(ROWLOCK_OK, driver()->open(victim.conn, &config, CALL_MS, &err), &err);
    atomic_store(&killer.victim,
                 fault_sql_number("SELECT MAX(id) FROM information_schema.processlist "
                                  "WHERE id <> CONNECTION_ID() AND db = DATABASE()"));
}

static void close_victim(void)
{
    atomic_store(&killer.victim, 0);
    driver()->close(victim.conn);
    memset(victim.conn, 0, driver()->conn_size);
}

static void *kill_again(void *unused)
{
    char sql[64], out[64];
    unsigned seed = 1;

    (void)unused;
    while (!atomic_load(&killer.stop)) {
        long long id = atomic_load(&killer.victim);

        snprintf(sql, sizeof sql, "KILL QUERY %lld", id);
        if (id != 0)
            fault.backend.kind->sql_run(killer.session, sql, out, sizeof out);
        usleep((useconds_t)(rand_r(&seed) % LONGEST_PAUSE_US));
    }
    return NULL;
}

static int setup(void **state)
{
    (void)state;
    victim.conn = calloc(1, driver()->conn_size);
    victim.looks = fault_open(fault.backend.address, NULL);
    killer.session = fault.backend.kind->sql_open(fault.backend.address);
    if (victim.conn == NULL || killer.session == NULL)
        return -1;
    return pthread_create(&killer.thread, NULL, kill_again, NULL);
}

static int teardown(void **state)
{
    (void)state;
    atomic_store(&killer.stop, 1);
    pthread_join(killer.thread, NULL);
    fault.backend.kind->sql_close(killer.session);
    driver()->close(victim.conn);
    free(victim.conn);
    rowlock_close(&victim.looks);
    return 0;
}

/* The row is absent, which takes several statements and a COMMIT. */
static void acquire_once(void)
{
    const char *name = fault_name("killed");
    rowlock_op op = {
        .name = name, .name_length = strlen(name), .owner = "killed", .note = "", .ttl_us = TTL_US};
    rowlock_error err;
    int status;

    victim.calls++;
    memset(op.attempt, 1, sizeof op.attempt);
    memcpy(op.attempt + 8, &victim.calls, sizeof victim.calls);
    status = driver()->acquire(victim.conn, &op, 1, 0, CALL_MS, &err);
    if (status == ROWLOCK_OK)
        return;
    victim.killed++;
    if (status == ROWLOCK_EDRIVER) {
        victim.wrong += fault_row(victim.looks, name).found == 2;
        return;
    }
    assert_status(ROWLOCK_EUNKNOWN, status, &err);
    close_victim();
    open_victim();
}

static void nothing_was_done(void **state)
{
    time_t until = time(NULL) + SECONDS_MAX;

    (void)state;
    open_victim();
    while (victim.calls < CALLS && victim.killed < KILLS && time(NULL) < until)
        acquire_once();
    close_victim();
    print_message("%d of %d calls were killed\n", victim.killed, victim.calls);
    assert_in_range(victim.killed, 1, CALLS);
    assert_int_equal(0, victim.wrong);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test_setup_teardown(nothing_was_done, setup, teardown)};

    return FAULT_MAIN(argc, argv, 0, cases);
}
