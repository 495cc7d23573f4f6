/* SPDX-License-Identifier: MIT
 *
 * The network swallows one direction, requests or answers, while locks are held and renewed. The
 * loss is told before the lease has ended in the database, no call hangs past its bound, and if the
 * network comes back in time nothing is lost. The long form (watch_scene.h) does each ten times. */
#include "watch_scene.h"

enum { LOCKS = 20, CALL_MS = 500, CONNECT_MS = 400, HANG_MS = 1000, LONG_ROUNDS = 10 };

static struct watch_scene scene;
static rowlock_client *direct;

static void begin(int64_t ttl_ms)
{
    rowlock_options options = ROWLOCK_OPTIONS_INIT;

    options.call_timeout_ms = CALL_MS;
    options.connect_timeout_ms = CONNECT_MS;
    direct = fault_open(fault.backend.address, NULL);
    watch_hold(&scene, fault.proxied, &options, LOCKS, ttl_ms);
}

static int end(void **state)
{
    (void)state;
    proxy_blackhole(fault.proxy, 0);
    watch_leave(&scene);
    rowlock_close(&direct);
    return 0;
}

static void assert_bounded(int64_t start_ms)
{
    assert_in_range(process_now_ms() - start_ms, 0, CALL_MS + HANG_MS);
}

/* Calls of the application's while nothing comes through. */
static void call_in_vain(void)
{
    rowlock_lock *lock = NULL;
    rowlock_error err;
    int64_t start = process_now_ms();
    int status = rowlock_acquire(&lock, scene.client, fault_name("other"), NULL, &err);

    assert_bounded(start);
    assert_true(status == ROWLOCK_EUNKNOWN || status == ROWLOCK_ECONNECT);
    start = process_now_ms();
    status = rowlock_renew(scene.locks[0], 0, &err);
    assert_bounded(start);
    assert_true(status == ROWLOCK_EUNKNOWN || status == ROWLOCK_ECONNECT || status == ROWLOCK_LOST);
}

static void lose_all(int direction)
{
    enum { TTL_MS = 2400 };

    begin(TTL_MS);
    assert_int_equal(0, watch_await(&scene.renewals, 1, 10000));
    proxy_blackhole(fault.proxy, direction);
    call_in_vain();
    assert_int_equal(0, watch_await(&scene.told_count, LOCKS, 2 * TTL_MS + HANG_MS));
    assert_int_equal(0, watch_verify(&scene, direct));
    for (int i = 0; i < LOCKS; i++)
        assert_int_equal(ROWLOCK_LOSS_UNREACHABLE, atomic_load(&scene.told[i].loss));
    assert_int_equal(LOCKS, atomic_load(&scene.lost));
    proxy_blackhole(fault.proxy, 0);
    watch_release(&scene);
    end(NULL);
}

static void rounds(void (*fn)(int direction), int direction)
{
    for (int i = 0; i < (watch_is_long() ? LONG_ROUNDS : 1); i++)
        fn(direction);
}

static void requests_vanish(void **state)
{
    (void)state;
    rounds(lose_all, PROXY_TO_SERVER);
}

static void answers_vanish(void **state)
{
    (void)state;
    rounds(lose_all, PROXY_TO_CLIENT);
}

/* Heals when the first renewal was given up: that connection is never used again. */
static void heal(int direction)
{
    enum { TTL_MS = 5000 };

    begin(TTL_MS);
    proxy_blackhole(fault.proxy, direction);
    assert_int_equal(0, watch_await(&scene.errors, 1, TTL_MS));
    proxy_blackhole(fault.proxy, 0);
    watch_await_renewed(&scene, TTL_MS);
    assert_int_equal(LOCKS, watch_verify(&scene, direct));
    assert_true(atomic_load(&scene.reconnections) >= 1);
    assert_int_equal(0, atomic_load(&scene.lost));
    watch_release(&scene);
    end(NULL);
}

static void healed_in_time(void **state)
{
    (void)state;
    rounds(heal, PROXY_TO_SERVER);
    if (watch_is_long())
        rounds(heal, PROXY_TO_CLIENT);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test_teardown(requests_vanish, end),
        cmocka_unit_test_teardown(answers_vanish, end),
        cmocka_unit_test_teardown(healed_in_time, end),
    };
    return FAULT_MAIN(argc, argv, 1, cases);
}
