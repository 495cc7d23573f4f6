/* SPDX-License-Identifier: MIT
 *
 * Beside a transaction that writes, which on SQLite keeps everybody else from writing: calls return
 * when they should, and not after as many waits for the write lock as they have steps. Others may
 * make a call slower than it is, and never faster: so the quickest of some tries is what counts. */
#include "fault.h"

#include <pthread.h>
#include <signal.h>
#include <sqlite3.h>
#include <string.h>

enum { TRIES = 3 };

static sqlite3 *writer;
static rowlock_client *client;

static int setup(void **state)
{
    (void)state;
    client = fault_open(fault.backend.address, NULL);
    if (sqlite3_open(fault.backend.address, &writer) != SQLITE_OK)
        return -1;
    sqlite3_busy_timeout(writer, 5000);
    return sqlite3_exec(writer, "BEGIN IMMEDIATE", NULL, NULL, NULL);
}

static int teardown(void **state)
{
    (void)state;
    sqlite3_close(writer);
    rowlock_close(&client);
    return 0;
}

/* The quickest of some, in ms. */
static int64_t measure(int (*call)(int64_t wait_ms), int64_t wait_ms, int expected)
{
    int64_t best = INT64_MAX;

    for (int i = 0; i < TRIES; i++) {
        int64_t start = process_now_ms(), took;

        assert_int_equal(expected, call(wait_ms));
        took = process_now_ms() - start;
        best = took < best ? took : best;
    }
    return best;
}

static int acquire(int64_t wait_ms)
{
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;
    rowlock_lock *lock = NULL;

    options.wait_ms = wait_ms;
    return rowlock_acquire(&lock, client, "busy", &options, NULL);
}

static int acquire_many(int64_t wait_ms)
{
    static const char *const names[] = {"busy-1", "busy-2", "busy-3"};
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;
    rowlock_lock *locks[3] = {NULL};

    options.wait_ms = wait_ms;
    return rowlock_acquire_many(locks, client, names, 3, &options, NULL);
}

/* Half a second more than it waits, as rowlock.h says, and what a busy machine adds at best. */
static void assert_bound(int (*call)(int64_t wait_ms), int64_t wait_ms)
{
    int64_t took = measure(call, wait_ms, wait_ms == 0 ? ROWLOCK_BUSY : ROWLOCK_TIMEOUT);

    print_message("wait_ms %lld: %lld ms\n", (long long)wait_ms, (long long)took);
    assert_true(took < wait_ms + 700);
}

static void acquire_returns(void **state)
{
    (void)state;
    assert_bound(acquire, 0);
    assert_bound(acquire, 100);
    assert_bound(acquire, 400);
    assert_bound(acquire, 500);
    assert_bound(acquire, 520);
    assert_bound(acquire, 600);
    assert_bound(acquire, 1000);
    assert_bound(acquire, 1020);
    assert_bound(acquire, 1200);
}

static void acquire_many_returns(void **state)
{
    (void)state;
    assert_bound(acquire_many, 0);
    assert_bound(acquire_many, 500);
    assert_bound(acquire_many, 1200);
}

/* ---- the transaction begins while the call waits for a lease -----------------------------------
 */

enum { BEGIN_AFTER_MS = 200 };

static void *begin_later(void *payload)
{
    process_sleep_ms(BEGIN_AFTER_MS);
    *(int *)payload = sqlite3_exec(writer, "BEGIN IMMEDIATE", NULL, NULL, NULL);
    return NULL;
}

static int acquire_beside(const char *name, int64_t wait_ms)
{
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;
    rowlock_lock *lock = NULL;
    pthread_t thread;
    int begun = SQLITE_ERROR, status;

    options.wait_ms = wait_ms;
    assert_int_equal(0, pthread_create(&thread, NULL, begin_later, &begun));
    status = rowlock_acquire(&lock, client, name, &options, NULL);
    pthread_join(thread, NULL);
    assert_int_equal(SQLITE_OK, begun);
    assert_int_equal(SQLITE_OK, sqlite3_exec(writer, "ROLLBACK", NULL, NULL, NULL));
    if (lock != NULL)
        fault_release(&lock);
    return status;
}

static int acquire_held(int64_t wait_ms)
{
    return acquire_beside("held", wait_ms);
}

static void acquire_returns_from_the_queue(void **state)
{
    rowlock_client *holder = fault_open(fault.backend.address, NULL);
    rowlock_lock *lock;

    (void)state;
    sqlite3_exec(writer, "ROLLBACK", NULL, NULL, NULL);
    lock = fault_acquire(holder, "held", 60000);
    assert_bound(acquire_held, 1000);
    fault_release(&lock);
    rowlock_close(&holder);
}

/* ---- the one before in the queue is dead, and cannot be taken off it ---------------------------
 */

static int (*go)[TRIES];
static pid_t children[TRIES];
static const char *const dead_names[TRIES] = {"dead-0", "dead-1", "dead-2"};
static int n_dead;

static int wait_until_killed(void *payload)
{
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;
    rowlock_client *own = NULL;
    rowlock_lock *lock = NULL;
    rowlock_error err;

    options.wait_ms = 60000;
    if (process_await(payload, 1, 60000) != 0 ||
        fault_try_open(&own, fault.backend.address, NULL, &err) != ROWLOCK_OK)
        return 1;
    return rowlock_acquire(&lock, own, dead_names[(int *)payload - *go], &options, &err);
}

/* Before this process opens a client: who is forked later may not open one. */
static int setup_dead(void **state)
{
    go = process_shared(sizeof(*go));
    for (int i = 0; i < TRIES && go != NULL; i++)
        children[i] = process_start(wait_until_killed, &(*go)[i]);
    return go == NULL ? -1 : setup(state);
}

static int teardown_dead(void **state)
{
    for (; n_dead < TRIES; n_dead++) {
        kill(children[n_dead], SIGKILL);
        process_wait(children[n_dead], 10000);
    }
    process_unshare(go, sizeof(*go));
    return teardown(state);
}

static int count_waiter(const rowlock_waiter *waiter, void *payload)
{
    *(int *)payload += strcmp(waiter->name, dead_names[n_dead]) == 0;
    return 0;
}

static void leave_a_dead_one(void)
{
    int64_t until = process_now_ms() + 20000;
    int waiting = 0;

    process_signal(&(*go)[n_dead], 1);
    while (waiting == 0 && process_now_ms() < until) {
        process_sleep_ms(2);
        rowlock_waiters(client, NULL, count_waiter, &waiting, NULL);
    }
    assert_int_equal(1, waiting);
    kill(children[n_dead], SIGKILL);
    assert_int_equal(1000 + SIGKILL, process_wait(children[n_dead++], 10000));
}

/* The lease ends while the transaction is open, and the dead one is the next. */
static int acquire_behind_dead(int64_t wait_ms)
{
    rowlock_client *holder = fault_open(fault.backend.address, NULL);
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;
    const char *name = dead_names[n_dead];
    rowlock_lock *lock = fault_acquire(holder, name, 60000);
    rowlock_error err;
    int status;

    leave_a_dead_one();
    fault_release(&lock);
    options.ttl_ms = wait_ms - 400;
    options.barge = 1;
    assert_status(ROWLOCK_OK, rowlock_acquire(&lock, holder, name, &options, &err), &err);
    status = acquire_beside(name, wait_ms);
    rowlock_release(&lock, &err);
    rowlock_close(&holder);
    return status;
}

static void acquire_returns_from_behind_a_dead_one(void **state)
{
    (void)state;
    sqlite3_exec(writer, "ROLLBACK", NULL, NULL, NULL);
    assert_bound(acquire_behind_dead, 1500);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test_setup_teardown(acquire_returns, setup, teardown),
        cmocka_unit_test_setup_teardown(acquire_many_returns, setup, teardown),
        cmocka_unit_test_setup_teardown(acquire_returns_from_the_queue, setup, teardown),
        cmocka_unit_test_setup_teardown(acquire_returns_from_behind_a_dead_one, setup_dead,
                                        teardown_dead),
    };
    return FAULT_MAIN(argc, argv, 0, cases);
}
