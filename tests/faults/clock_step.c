/* SPDX-License-Identifier: MIT
 *
 * The server's wall clock is set: an hour back, an hour ahead, and to the true time again, in each
 * state that a lock can be in. Whatever it says, no two holders believe in the same lock at the
 * same time, fences rise, and nobody is told more time than was asked for.
 *
 * One case is left out of the first, since no lease can have it (README, "What is not"): the clock
 * jumps forward past a lease whose holder lives. Then the database gives the lock to the next one,
 * and the former holder is refused by its fence. */
#include "fault.h"
#include "watch_server.h"

#include <pthread.h>

enum { HOUR = 3600, TTL_MS = 30000, WAIT_MS = 30000 };

static struct watch_server server;
static rowlock_client *ann, *bob;
static uint64_t last; /* the largest fence of the lock at hand */

static void set_clock(int seconds)
{
    assert_int_equal(0, watch_server_set_clock(&server, seconds));
}

static rowlock_client *open_as(const char *owner)
{
    rowlock_options options = ROWLOCK_OPTIONS_INIT;

    options.owner = owner;
    options.schema_policy = ROWLOCK_SCHEMA_CREATE;
    return fault_open(server.address, &options);
}

/* Before the first case and after the last: to start a server takes a while. */
static int setup(void **state)
{
    (void)state;
    if (watch_server_start_clock(&server, fault.backend.driver->name) != 0)
        return -1;
    ann = open_as("ann");
    bob = open_as("bob");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    rowlock_close(&ann);
    rowlock_close(&bob);
    watch_server_end(&server);
    return 0;
}

/* ---- what holds always ----------------------------------------------------------------------- */

static void assert_told(const rowlock_lock *lock)
{
    assert_true(rowlock_remaining(lock) <= TTL_MS);
}

static int try_to_get(rowlock_lock **out, rowlock_client *client, const char *name)
{
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;
    rowlock_error err;
    int status;

    options.ttl_ms = TTL_MS;
    status = rowlock_acquire(out, client, name, &options, &err);
    if (status != ROWLOCK_BUSY)
        assert_status(ROWLOCK_OK, status, &err);
    if (status == ROWLOCK_OK) {
        assert_true(rowlock_fence(*out) > last);
        last = rowlock_fence(*out);
        assert_told(*out);
    }
    return status;
}

static rowlock_lock *get(rowlock_client *client, const char *name)
{
    rowlock_lock *lock = NULL;

    assert_int_equal(ROWLOCK_OK, try_to_get(&lock, client, name));
    return lock;
}

/* Somebody gets it and gives it back, however often the clock is set. */
static void use_on(const char *name)
{
    static const int steps[] = {0, HOUR, -HOUR, 0};

    for (size_t i = 0; i < sizeof(steps) / sizeof(*steps); i++) {
        rowlock_lock *lock = get(i % 2 == 0 ? ann : bob, name);

        fault_release(&lock);
        set_clock(steps[i]);
    }
}

/* The clock was set while nobody holds it. */
static void free_after(const char *name, int seconds)
{
    set_clock(seconds);
    use_on(name);
}

static const char *begin(const char *what)
{
    last = 0;
    set_clock(0);
    return fault_name(what);
}

/* ---- the states ------------------------------------------------------------------------------ */

static const int both[] = {-HOUR, HOUR};

static void absent(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++)
        free_after(begin("absent"), both[i]);
}

static void released(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        const char *name = begin("released");
        rowlock_lock *lock = get(ann, name);

        fault_release(&lock);
        free_after(name, both[i]);
    }
}

static void reaped(void **state)
{
    rowlock_reap_options options = ROWLOCK_REAP_OPTIONS_INIT;
    rowlock_error err;

    (void)state;
    options.retention_ms = 1000;
    for (int i = 0; i < 2; i++) {
        const char *name = begin("reaped");
        rowlock_lock *lock = get(ann, name);

        fault_release(&lock);
        set_clock(60);
        assert_status(ROWLOCK_OK, rowlock_reap(NULL, bob, &options, &err), &err);
        assert_int_equal(0, fault_row(bob, name).found);
        free_after(name, both[i]);
    }
}

/* Reaped while the clock is ahead, with fences that are. */
static void reaped_ahead(void **state)
{
    rowlock_reap_options options = ROWLOCK_REAP_OPTIONS_INIT;
    const char *name = begin("reaped");
    rowlock_lock *lock;
    rowlock_error err;

    (void)state;
    options.retention_ms = 1000;
    set_clock(2 * HOUR);
    lock = get(ann, name);
    fault_release(&lock);
    set_clock(2 * HOUR + 60);
    assert_status(ROWLOCK_OK, rowlock_reap(NULL, bob, &options, &err), &err);
    assert_int_equal(0, fault_row(bob, name).found);
    free_after(name, -HOUR);
}

/* A lease that has ended may look as if it lived: nobody gets it then, and its holder knows that
 * it is over. */
static void expired(void **state)
{
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;
    rowlock_error err;

    (void)state;
    options.ttl_ms = 200;
    for (int i = 0; i < 2; i++) {
        const char *name = begin("expired");
        rowlock_lock *former = NULL, *next = NULL;

        assert_status(ROWLOCK_OK, rowlock_acquire(&former, ann, name, &options, &err), &err);
        last = rowlock_fence(former);
        while (rowlock_check(former) == ROWLOCK_OK)
            process_sleep_ms(10);
        process_sleep_ms(200);
        set_clock(both[i]);
        if (try_to_get(&next, bob, name) == ROWLOCK_OK)
            fault_release(&next);
        assert_status(ROWLOCK_LOST, rowlock_renew(former, 0, &err), &err);
        rowlock_release(&former, &err);
        set_clock(0);
        use_on(name);
    }
}

static void held_and_set_back(void **state)
{
    const char *name = begin("held");
    rowlock_lock *lock = get(ann, name), *other = NULL;
    rowlock_error err;

    (void)state;
    set_clock(-HOUR);
    assert_int_equal(ROWLOCK_BUSY, try_to_get(&other, bob, name));
    assert_status(ROWLOCK_OK, rowlock_renew(lock, 0, &err), &err);
    assert_told(lock);
    assert_int_equal(ROWLOCK_OK, rowlock_check(lock));
    set_clock(0);
    assert_int_equal(ROWLOCK_BUSY, try_to_get(&other, bob, name));
    assert_status(ROWLOCK_OK, rowlock_renew(lock, 0, &err), &err);
    assert_told(lock);
    fault_release(&lock);
    free_after(name, -HOUR);
}

static void held_and_set_ahead(void **state)
{
    const char *name = begin("held");
    rowlock_lock *former = get(ann, name), *next;
    rowlock_error err;

    (void)state;
    set_clock(HOUR);
    next = get(bob, name);
    assert_status(ROWLOCK_LOST, rowlock_renew(former, 0, &err), &err);
    assert_int_equal(ROWLOCK_LOST, rowlock_check(former));
    rowlock_release(&former, &err);
    set_clock(0);
    assert_status(ROWLOCK_OK, rowlock_renew(next, 0, &err), &err);
    assert_told(next);
    fault_release(&next);
    free_after(name, -HOUR);
}

/* ---- somebody waits -------------------------------------------------------------------------- */

struct waiter {
    const char *name;
    rowlock_lock *lock;
    int status;
};

static void *wait_for_it(void *arg)
{
    struct waiter *w = arg;
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;

    options.ttl_ms = TTL_MS;
    options.wait_ms = WAIT_MS;
    w->status = rowlock_acquire(&w->lock, bob, w->name, &options, NULL);
    return NULL;
}

static int add_one(const rowlock_waiter *waiter, void *payload)
{
    (void)waiter;
    ++*(int *)payload;
    return 0;
}

static void await_ticket(void)
{
    int64_t until = process_now_ms() + WAIT_MS;
    rowlock_list_options options = ROWLOCK_LIST_OPTIONS_INIT;
    rowlock_error err;
    int count = 0;

    while (count == 0 && process_now_ms() < until) {
        assert_status(ROWLOCK_OK, rowlock_waiters(ann, &options, add_one, &count, &err), &err);
        process_sleep_ms(5);
    }
    assert_int_equal(1, count);
}

/* Set back: the holder gives it back, and the waiter has it. Set ahead: that, or the lease has
 * ended by the clock, and the waiter has it already. */
static void waited_for(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct waiter w = {.name = begin("waited")};
        rowlock_lock *lock = get(ann, w.name);
        pthread_t thread;
        rowlock_error err;

        assert_int_equal(0, pthread_create(&thread, NULL, wait_for_it, &w));
        await_ticket();
        set_clock(both[i]);
        rowlock_release(&lock, &err);
        pthread_join(thread, NULL);
        assert_int_equal(ROWLOCK_OK, w.status);
        assert_true(rowlock_fence(w.lock) > last);
        last = rowlock_fence(w.lock);
        assert_told(w.lock);
        fault_release(&w.lock);
        set_clock(0);
        use_on(w.name);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test_setup(absent, setup),
        cmocka_unit_test(released),
        cmocka_unit_test(reaped),
        cmocka_unit_test(reaped_ahead),
        cmocka_unit_test(expired),
        cmocka_unit_test(held_and_set_back),
        cmocka_unit_test(held_and_set_ahead),
        cmocka_unit_test_teardown(waited_for, teardown),
    };
    return FAULT_MAIN(argc, argv, 0, cases);
}
