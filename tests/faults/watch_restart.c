/* SPDX-License-Identifier: MIT
 *
 * The server goes away while two hundred locks are held, and comes back soon, or too late. Each
 * lock is held as before, with its fence, or was told as lost before its lease ended in the
 * database.
 *
 * Short: the proxy in front of the server cuts all connections and refuses new ones. Long
 * (watch_scene.h): besides, a server of the test's own is killed with SIGKILL and started again;
 * making it takes some seconds. */
#include "watch_scene.h"
#include "watch_server.h"

#include <stdio.h>

enum { LOCKS = 200, START_MS = 60000 };

static struct watch_scene scene;
static struct watch_server server;
static rowlock_client *direct;

static int end(void **state)
{
    (void)state;
    if (fault.proxy != NULL)
        proxy_refuse(fault.proxy, 0);
    watch_leave(&scene);
    rowlock_close(&direct);
    watch_server_end(&server);
    return 0;
}

static void hold(const char *address, int64_t ttl_ms)
{
    rowlock_options options = ROWLOCK_OPTIONS_INIT;

    options.schema_policy = ROWLOCK_SCHEMA_CREATE;
    watch_hold(&scene, address, &options, LOCKS, ttl_ms);
    watch_await_renewed(&scene, ttl_ms); /* some time after it was acquired */
}

static void assert_unreachable(void)
{
    for (int i = 0; i < LOCKS; i++)
        if (atomic_load(&scene.told[i].count) > 0)
            assert_int_equal(ROWLOCK_LOSS_UNREACHABLE, atomic_load(&scene.told[i].loss));
}

/* ---- by the proxy ---------------------------------------------------------------------------- */

static void refuse(void)
{
    assert_int_equal(0, proxy_refuse(fault.proxy, 1));
    proxy_cut_all(fault.proxy);
}

static void refused_soon_back(void **state)
{
    enum { TTL_MS = 4000 };

    (void)state;
    direct = fault_open(fault.backend.address, NULL);
    hold(fault.proxied, TTL_MS);
    refuse();
    assert_int_equal(0, watch_await(&scene.errors, 1, TTL_MS));
    assert_int_equal(0, proxy_refuse(fault.proxy, 0));
    watch_await_renewed(&scene, TTL_MS);
    assert_int_equal(LOCKS, watch_verify(&scene, direct));
    watch_release(&scene);
}

static void refused_too_long(void **state)
{
    enum { TTL_MS = 2000 };

    (void)state;
    direct = fault_open(fault.backend.address, NULL);
    hold(fault.proxied, TTL_MS);
    refuse();
    assert_int_equal(0, watch_await(&scene.told_count, LOCKS, 3 * TTL_MS));
    assert_int_equal(0, watch_verify(&scene, direct));
    assert_unreachable();
    assert_int_equal(0, proxy_refuse(fault.proxy, 0));
    watch_release(&scene);
}

/* ---- killed ---------------------------------------------------------------------------------- */

static void await_server(void)
{
    int64_t until = process_now_ms() + START_MS;
    rowlock_error err;

    while (fault_try_open(&direct, server.address, NULL, &err) != ROWLOCK_OK) {
        if (process_now_ms() > until)
            fail_msg("the server does not come back: %s", err.message);
        assert_int_equal(0, watch_server_nudge(&server));
        process_sleep_ms(50);
    }
}

static void kill_and_restart(int is_late, int64_t ttl_ms)
{
    int64_t start;
    size_t held;

    if (!watch_is_long())
        skip();
    assert_int_equal(0, watch_server_start(&server, fault.backend.driver->name));
    hold(server.address, ttl_ms);
    start = process_now_ms();
    assert_int_equal(0, watch_server_kill(&server));
    if (is_late)
        assert_int_equal(0, watch_await(&scene.told_count, LOCKS, 2 * ttl_ms));
    assert_int_equal(0, watch_server_again(&server));
    await_server();
    print_message("the server was away for %d ms\n", (int)(process_now_ms() - start));
    watch_await_renewed(&scene, 2 * ttl_ms);
    held = watch_verify(&scene, direct);
    assert_true(is_late || atomic_load(&scene.reconnections) >= 1);
    print_message("%zu of %d locks are held, %d were told as lost\n", held, LOCKS,
                  atomic_load(&scene.told_count));
    assert_unreachable();
    watch_release(&scene);
}

static void killed_soon_back(void **state)
{
    (void)state;
    kill_and_restart(0, 15000);
}

static void killed_too_long(void **state)
{
    (void)state;
    kill_and_restart(1, 4000);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test_teardown(refused_soon_back, end),
        cmocka_unit_test_teardown(refused_too_long, end),
        cmocka_unit_test_teardown(killed_soon_back, end),
        cmocka_unit_test_teardown(killed_too_long, end),
    };
    return FAULT_MAIN(argc, argv, 1, cases);
}
