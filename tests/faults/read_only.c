/* SPDX-License-Identifier: MIT
 *
 * A PostgreSQL server that becomes read-only under its clients, as the old primary in a switchover
 * does, and a standby that is promoted: no grant by a server while it is read-only, whatever the
 * role's privileges, and grants go on at the new primary. On servers of the test's own. */
#include "refused.h"
#include "watch_server.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    CALL_MS = 500,
    THREADS = 4,
    NAMES = 2,
    TTL_MS = 2000,
    READ_ONLY_MS = 1500,
    AWAIT_MS = 30000
};

static struct watch_server server;
static rowlock_client *client;

static int begin(void **state)
{
    (void)state;
    return watch_server_start_pair(&server);
}

static int end(void **state)
{
    (void)state;
    rowlock_close(&client);
    watch_server_end(&server);
    return 0;
}

static rowlock_options options(void)
{
    rowlock_options all = ROWLOCK_OPTIONS_INIT;

    all.schema_policy = ROWLOCK_SCHEMA_CREATE;
    all.call_timeout_ms = CALL_MS;
    return all;
}

/* The first field of the first row. */
static void ask(char *out, size_t size, const char *address, const char *sql)
{
    assert_int_equal(0, fault_sql_on(address, sql, out, size));
    out[strcspn(out, "|\n")] = '\0';
}

static void await_answer(const char *address, const char *sql, const char *expected)
{
    int64_t until = process_now_ms() + AWAIT_MS;
    char out[64];

    for (ask(out, sizeof(out), address, sql); strcmp(out, expected) != 0;
         ask(out, sizeof(out), address, sql)) {
        if (process_now_ms() > until)
            fail_msg("%s answers \"%s\", not \"%s\"", sql, out, expected);
        process_sleep_ms(5);
    }
}

/* Once a new session has it, all others have been sent the signal to read their settings again. */
static void set_read_only(const char *value)
{
    char sql[128], out[64];

    snprintf(sql, sizeof(sql), "ALTER SYSTEM SET default_transaction_read_only = %s", value);
    assert_int_equal(0, fault_sql_on(server.address, sql, out, sizeof(out)));
    ask(out, sizeof(out), server.address, "SELECT pg_reload_conf()");
    await_answer(server.address, "SHOW default_transaction_read_only", value);
}

static void assert_read_only(int status, const rowlock_error *err)
{
    assert_status(ROWLOCK_ECONNECT, status, err);
    assert_string_equal("25006", err->sqlstate);
    assert_int_equal(1, err->retryable);
    assert_non_null(strstr(err->message, "read-only"));
}

/* After retries, the last of which may not have had the time to hear why. */
static void assert_not_granted(int status, const rowlock_error *err)
{
    assert_int_not_equal(ROWLOCK_OK, status);
    if (err->sqlstate[0] != '\0')
        assert_read_only(status, err);
}

/* ---- the driver's slots, each on a connection that was open before --------------------------- */

enum slot { ACQUIRE, ACQUIRE_MANY, EXCHANGE, ENQUEUE, TURN, LOCK, RENEW, RELEASE, SLOTS };

static void *conns[SLOTS];

static int open_conns(void **state)
{
    const rowlock_driver *driver = fault.backend.driver;
    rowlock_config config = {.size = sizeof(config), .prefix = fault.prefix};
    rowlock_options all = options();
    rowlock_error err;

    if (begin(state) != 0)
        return -1;
    config.address = server.address;
    client = fault_open(server.address, &all);
    for (int i = 0; i < SLOTS; i++) {
        conns[i] = calloc(1, driver->conn_size);
        if (conns[i] == NULL || driver->open(conns[i], &config, AWAIT_MS, &err) != ROWLOCK_OK)
            return -1;
    }
    return 0;
}

static int close_conns(void **state)
{
    for (int i = 0; i < SLOTS; i++) {
        if (conns[i] != NULL)
            fault.backend.driver->close(conns[i]);
        free(conns[i]);
        conns[i] = NULL;
    }
    return end(state);
}

static int call(enum slot slot, rowlock_op *ops, rowlock_error *err)
{
    const rowlock_driver *driver = fault.backend.driver;
    rowlock_target target = {.size = sizeof(target), .conn = conns[slot], .prefix = fault.prefix};

    switch (slot) {
    case ACQUIRE:
        return driver->acquire(conns[slot], ops, 1, 0, AWAIT_MS, err);
    case ACQUIRE_MANY:
        return driver->acquire(conns[slot], ops, 2, 1, AWAIT_MS, err);
    case EXCHANGE:
        return driver->exchange(conns[slot], ops, 1, ops + 1, 1, AWAIT_MS, err);
    case ENQUEUE:
        return driver->enqueue(conns[slot], ops, 1, 1000000, 1, AWAIT_MS, err);
    case TURN:
        return driver->turn(conns[slot], ops, 0, NULL, 0, AWAIT_MS, err);
    case LOCK:
        return driver->lock(&target, ops, 1, 0, 0, AWAIT_MS, err);
    case RENEW:
        return driver->renew(conns[slot], ops, 1, AWAIT_MS, err);
    default:
        return driver->release(conns[slot], ops, 1, AWAIT_MS, err);
    }
}

static void slots_are_refused(void **state)
{
    (void)state;
    set_read_only("on");
    for (int i = 0; i < SLOTS; i++) {
        rowlock_op ops[2] = {{.name = "a", .name_length = 1, .owner = "o", .note = ""},
                             {.name = "b", .name_length = 1, .owner = "o", .note = ""}};
        rowlock_error err;

        ops[0].ttl_us = ops[1].ttl_us = 60000000;
        ops[0].fence = ops[0].ticket = 1;
        ops[0].attempt[0] = ops[1].attempt[0] = 1;
        print_message("slot %d\n", i);
        assert_read_only(call((enum slot)i, ops, &err), &err);
    }
}

/* ---- the client ----------------------------------------------------------------------------- */

static void assert_nothing_is_granted(rowlock_lock *held)
{
    const char *const names[] = {"many1", "many2"};
    rowlock_acquire_options waiting = ROWLOCK_ACQUIRE_OPTIONS_INIT;
    rowlock_lock *locks[2] = {NULL, NULL};
    rowlock_tx *tx = NULL;
    rowlock_error err;

    waiting.wait_ms = CALL_MS;
    assert_not_granted(rowlock_acquire(locks, client, "one", NULL, &err), &err);
    assert_not_granted(rowlock_acquire(locks, client, "one", &waiting, &err), &err);
    assert_not_granted(rowlock_acquire_many(locks, client, names, 2, NULL, &err), &err);
    assert_not_granted(rowlock_renew(held, 0, &err), &err);
    assert_not_granted(rowlock_tx_begin(&tx, client, names, 2, NULL, &err), &err);
    assert_null(locks[0]);
    assert_null(tx);
}

/* Seen by connections that were open before it, and by new ones. */
static void setting_is_obeyed(void **state)
{
    rowlock_options all = options();
    rowlock_client *second = NULL;
    rowlock_lock *held, *lock;
    rowlock_error err;

    (void)state;
    client = fault_open(server.address, &all);
    held = fault_acquire(client, "held", 60000);
    set_read_only("on");
    assert_nothing_is_granted(held);
    assert_read_only(fault_try_open(&second, server.address, &all, &err), &err);
    assert_null(second);
    set_read_only("off");
    assert_status(ROWLOCK_OK, rowlock_renew(held, 0, &err), &err);
    lock = fault_acquire(client, "one", 0);
    fault_release(&lock);
    fault_release(&held);
}

/* ---- a switchover ---------------------------------------------------------------------------- */

enum phase { BEFORE, READ_ONLY, PROMOTED, OVER, PHASES };

static struct {
    char address[1024];
    atomic_int phase;
    atomic_int grants[PHASES];
    atomic_int failures; /* answers that are not worth another try */
    atomic_int wrongs;   /* grants by a read-only server, two holders, fences that fell */
    struct {
        atomic_int holders;
        _Atomic uint64_t fence;
    } names[NAMES];
} scene;

static void granted(int before, int name, rowlock_lock *lock)
{
    int phase = atomic_load(&scene.phase);
    int is_wrong = before == READ_ONLY && phase == READ_ONLY;

    is_wrong |= atomic_fetch_add(&scene.names[name].holders, 1) != 0;
    is_wrong |=
        atomic_exchange(&scene.names[name].fence, rowlock_fence(lock)) >= rowlock_fence(lock);
    atomic_fetch_add(&scene.wrongs, is_wrong);
    atomic_fetch_add(&scene.grants[before], 1);
    atomic_fetch_sub(&scene.names[name].holders, 1);
}

static void *load(void *argument)
{
    rowlock_acquire_options acquire = ROWLOCK_ACQUIRE_OPTIONS_INIT;
    rowlock_options all = options();
    int name = *(const int *)argument % NAMES, before;
    rowlock_client *mine = NULL;
    rowlock_error err;

    acquire.ttl_ms = TTL_MS;
    acquire.wait_ms = CALL_MS;
    if (fault_try_open(&mine, scene.address, &all, &err) != ROWLOCK_OK)
        print_error("a thread could not connect: %s\n", err.message);
    while (mine != NULL && (before = atomic_load(&scene.phase)) != OVER) {
        rowlock_lock *lock = NULL;
        int status =
            rowlock_acquire(&lock, mine, name == 0 ? "switch0" : "switch1", &acquire, &err);

        if (status == ROWLOCK_OK)
            granted(before, name, lock);
        else if (status != ROWLOCK_TIMEOUT && !err.retryable) {
            print_error("%s\n", err.message);
            atomic_fetch_add(&scene.failures, 1);
        }
        rowlock_release(&lock, &err);
    }
    rowlock_close(&mine);
    return NULL;
}

static void await_grants(enum phase phase, int n)
{
    int64_t until = process_now_ms() + AWAIT_MS;

    while (atomic_load(&scene.grants[phase]) < n && process_now_ms() < until)
        process_sleep_ms(5);
}

/* So that nothing that was acknowledged is missing from the standby. */
static void await_standby(void)
{
    char lsn[64], sql[128];

    ask(lsn, sizeof(lsn), server.address, "SELECT pg_current_wal_lsn()");
    snprintf(sql, sizeof(sql), "SELECT pg_last_wal_replay_lsn() >= '%s'", lsn);
    await_answer(server.standby, sql, "t");
}

static void switch_over(void)
{
    char out[64];

    await_grants(BEFORE, 50);
    set_read_only("on");
    atomic_store(&scene.phase, READ_ONLY);
    process_sleep_ms(READ_ONLY_MS);
    await_standby();
    atomic_store(&scene.phase, PROMOTED);
    ask(out, sizeof(out), server.standby, "SELECT pg_promote()");
    await_grants(PROMOTED, 50);
    atomic_store(&scene.phase, OVER);
}

/* Both servers in one address, as a client should have them. */
static void name_both(void)
{
    const char *rest = strrchr(server.address, '/'), *second = strchr(server.standby, '@') + 1;

    snprintf(scene.address, sizeof(scene.address), "%.*s,%.*s%s", (int)(rest - server.address),
             server.address, (int)strcspn(second, "/"), second, rest);
}

static void promoted_under_load(void **state)
{
    pthread_t threads[THREADS];
    int numbers[THREADS], n = 0;
    rowlock_options all = options();

    (void)state;
    name_both();
    client = fault_open(server.address, &all);
    await_standby();
    for (; n < THREADS; n++) {
        numbers[n] = n;
        if (pthread_create(&threads[n], NULL, load, &numbers[n]) != 0)
            break;
    }
    switch_over();
    for (int i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    print_message("grants by calls that began: %d before, %d while it was read-only, %d after\n",
                  atomic_load(&scene.grants[BEFORE]), atomic_load(&scene.grants[READ_ONLY]),
                  atomic_load(&scene.grants[PROMOTED]));
    assert_int_equal(THREADS, n);
    assert_int_equal(0, atomic_load(&scene.wrongs));
    assert_int_equal(0, atomic_load(&scene.failures));
    assert_true(atomic_load(&scene.grants[BEFORE]) >= 50);
    assert_true(atomic_load(&scene.grants[PROMOTED]) >= 50);
}

/* ---- one address, which leads to the standby for a while ------------------------------------- */

static void standby_is_worth_another_try(void **state)
{
    rowlock_options all = options();
    rowlock_error err;
    char out[64];

    (void)state;
    client = fault_open(server.address, &all);
    rowlock_close(&client);
    await_standby();
    assert_read_only(fault_try_open(&client, server.standby, &all, &err), &err);
    assert_null(client);
    ask(out, sizeof(out), server.standby, "SELECT pg_promote()");
    assert_status(ROWLOCK_OK, fault_try_open(&client, server.standby, &all, &err), &err);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test_setup_teardown(slots_are_refused, open_conns, close_conns),
        cmocka_unit_test_setup_teardown(setting_is_obeyed, begin, end),
        cmocka_unit_test_setup_teardown(promoted_under_load, begin, end),
        cmocka_unit_test_setup_teardown(standby_is_worth_another_try, begin, end),
    };
    return FAULT_MAIN(argc, argv, 0, cases);
}
