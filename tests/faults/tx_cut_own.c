/* SPDX-License-Identifier: MIT
 *
 * Locks and the guard on the application's own connection, when that breaks: cut, killed, or its
 * packets vanish. Our calls say that it is gone, within their bounds, nothing is committed, and the
 * lock comes free. */
#include "tx_scene.h"

static void begin_on_own(struct scene *s)
{
    assert_int_equal(0, native_open(&s->native, fault.proxied, NATIVE_IMPATIENT));
    assert_int_equal(0, native_run(&s->native, "BEGIN"));
    scene_write(s, &s->native);
}

static int call_on_own(struct scene *s, rowlock_lock *lock)
{
    return lock != NULL ? native_guard(lock, &s->native, &s->err)
                        : native_lock(NULL, s->direct, &s->native, &s->name, 1, NULL, &s->err);
}

static void assert_gone(struct scene *s, int status)
{
    assert_status(ROWLOCK_ECONNECT, status, &s->err);
    scene_says_why(status, &s->err);
    assert_int_not_equal(0, native_commit(&s->native));
    assert_int_equal(0, scene_is_committed(s));
}

static int cut_on_own(int cut, int skip, int guard)
{
    const proxy_plan plan = {.fault = scene_cuts[cut].fault, .skip = skip};
    int struck = proxy_disarm(fault.proxy);
    rowlock_lock *lock = NULL;
    struct scene s;
    int status;

    scene_open(&s, "own");
    if (guard)
        lock = fault_acquire(s.direct, s.name, 60000);
    begin_on_own(&s);
    proxy_arm(fault.proxy, &plan);
    status = call_on_own(&s, lock);
    struck = proxy_disarm(fault.proxy) - struck;
    print_message("%s, trip %d cut %s: %d %s\n", guard ? "guard" : "lock", skip,
                  scene_cuts[cut].name, status, s.err.message);
    if (struck) {
        assert_gone(&s, status);
    } else {
        assert_status(ROWLOCK_OK, status, &s.err);
        assert_int_equal(0, native_commit(&s.native));
        assert_int_equal(1, scene_is_committed(&s));
    }
    if (lock != NULL)
        fault_release(&lock);
    scene_comes_free(&s);
    scene_close(&s);
    return struck;
}

static void own_is_cut(void **state)
{
    (void)state;
    for (int guard = 0; guard < 2; guard++) {
        for (int cut = 0; cut < SCENE_CUTS; cut++) {
            int skip = 0;
            while (skip < SCENE_TRIPS && cut_on_own(cut, skip, guard))
                skip++;
            assert_true(skip > 0 && skip < SCENE_TRIPS);
        }
    }
}

/* The connection's own read timeout rules where the client library has one (MySQL: 2 s, tried three
 * times by some). */
static void own_is_swallowed(void **state)
{
    int64_t bound = fault_is("mysql") ? 3 * 2000 + SCENE_TIMEOUT_MS : 2 * SCENE_TIMEOUT_MS;

    (void)state;
    for (int guard = 0; guard < 2; guard++) {
        rowlock_lock *lock = NULL;
        struct scene s;
        int64_t start;
        int status;

        scene_open(&s, "own");
        if (guard)
            lock = fault_acquire(s.direct, s.name, 60000);
        begin_on_own(&s);
        proxy_blackhole(fault.proxy, PROXY_TO_CLIENT);
        start = process_now_ms();
        status = call_on_own(&s, lock);
        scene_within(start, bound);
        proxy_blackhole(fault.proxy, 0);
        assert_gone(&s, status);
        if (lock != NULL)
            rowlock_release(&lock, NULL);
        scene_comes_free(&s);
        scene_close(&s);
    }
}

/* Killed before the call, and after it, before the COMMIT. */
static void own_is_killed(void **state)
{
    (void)state;
    for (int round = 0; round < 4; round++) {
        int guard = round & 1, after = round & 2;
        rowlock_lock *lock = NULL;
        struct native killer;
        struct scene s;

        scene_open(&s, "own");
        assert_int_equal(0, native_open(&killer, fault.backend.address, 0));
        if (guard)
            lock = fault_acquire(s.direct, s.name, 60000);
        begin_on_own(&s);
        if (after)
            assert_status(ROWLOCK_OK, call_on_own(&s, lock), &s.err);
        assert_int_equal(0, native_kill(&s.native, &killer));
        if (!after)
            assert_gone(&s, call_on_own(&s, lock));
        assert_int_not_equal(0, native_commit(&s.native));
        assert_int_equal(0, scene_is_committed(&s));
        if (lock != NULL)
            fault_release(&lock);
        scene_comes_free(&s);
        native_close(&killer);
        scene_close(&s);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest cases[] = {
        SCENE(own_is_cut),
        SCENE(own_is_swallowed),
        SCENE(own_is_killed),
    };
    return FAULT_MAIN(argc, argv, 1, cases);
}
