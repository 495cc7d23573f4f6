/* SPDX-License-Identifier: MIT
 *
 * Replies that are lost for real: each call is cut before its request reaches the server, in the
 * middle of it, and after the server has done it but before the reply. The call must come to the
 * right end by itself, and count nothing twice. With the server out of reach it must say that it
 * does not know. The same scenarios serve both. */
#include "fault.h"

#include <stdio.h>

/* What one run of a scenario works with. */
struct run {
    rowlock_client *client; /* through the proxy */
    rowlock_client *direct; /* to look at the rows */
    const char *name;
    rowlock_lock *lock, *other;
    uint64_t fence;
    int64_t remaining_ms;
    struct fault_batch batch;
};

struct scenario {
    const char *name;
    void (*prepare)(struct run *run);
    int (*call)(struct run *run, rowlock_error *err);
    void (*verify)(struct run *run); /* after the call answered OK */
};

static const struct {
    const char *name;
    enum proxy_fault fault;
} cuts[] = {{"before", PROXY_CUT_BEFORE}, {"half", PROXY_CUT_HALF}, {"reply", PROXY_CUT_REPLY}};

enum { CUTS = sizeof(cuts) / sizeof(cuts[0]), ROUND_TRIPS_MAX = 6, TTL_MS = 60000 };

/* ---- what is in the row ---------------------------------------------------------------------- */

static void assert_held(struct run *run, const char *name, uint64_t fence, uint32_t count)
{
    struct fault_row row = fault_row(run->direct, name);

    assert_int_equal(2, row.found);
    assert_int_equal(fence, row.fence);
    assert_int_equal(count, row.hold_count);
}

static void assert_free(struct run *run)
{
    assert_int_not_equal(2, fault_row(run->direct, run->name).found);
}

/* ---- scenarios ------------------------------------------------------------------------------- */

static int call_acquire(struct run *run, rowlock_error *err)
{
    return rowlock_acquire(&run->lock, run->client, run->name, NULL, err);
}

static void prepare_new(struct run *run)
{
    run->name = fault_name("new");
}

/* Held exactly once, and one release is enough. */
static void verify_acquired(struct run *run)
{
    assert_true(rowlock_fence(run->lock) > run->fence);
    assert_held(run, run->name, rowlock_fence(run->lock), 1);
    assert_int_equal(ROWLOCK_OK, rowlock_check(run->lock));
    fault_release(&run->lock);
    assert_free(run);
}

static void prepare_free(struct run *run)
{
    run->name = fault_name("free");
    run->lock = fault_acquire(run->client, run->name, TTL_MS);
    run->fence = rowlock_fence(run->lock);
    fault_release(&run->lock);
}

static void prepare_held(struct run *run)
{
    run->name = fault_name("held");
    run->other = fault_acquire(run->client, run->name, TTL_MS);
    run->fence = rowlock_fence(run->other);
    fault_open_another(run->client);
}

static void verify_reentered(struct run *run)
{
    assert_int_equal(run->fence, rowlock_fence(run->lock));
    assert_held(run, run->name, run->fence, 2);
    fault_release(&run->lock);
    assert_held(run, run->name, run->fence, 1);
    fault_release(&run->other);
    assert_free(run);
}

static void prepare_twice(struct run *run)
{
    prepare_held(run);
    run->lock = fault_acquire(run->client, run->name, TTL_MS);
}

static int call_release(struct run *run, rowlock_error *err)
{
    int status = rowlock_release(&run->lock, err);
    assert_null(run->lock);
    return status;
}

static void verify_one_left(struct run *run)
{
    rowlock_error err;

    assert_held(run, run->name, run->fence, 1);
    assert_int_equal(ROWLOCK_OK, rowlock_check(run->other));
    assert_status(ROWLOCK_OK, rowlock_renew(run->other, 0, &err), &err);
    fault_release(&run->other);
    assert_free(run);
}

static void prepare_once(struct run *run)
{
    run->name = fault_name("once");
    run->lock = fault_acquire(run->client, run->name, TTL_MS);
    run->fence = rowlock_fence(run->lock);
}

static void verify_released(struct run *run)
{
    rowlock_lock *next;

    assert_free(run);
    next = fault_acquire(run->direct, run->name, TTL_MS);
    assert_true(rowlock_fence(next) > run->fence);
    fault_release(&next);
}

static void prepare_short(struct run *run)
{
    run->name = fault_name("renew");
    run->lock = fault_acquire(run->client, run->name, 20000);
    run->fence = rowlock_fence(run->lock);
}

static int call_renew(struct run *run, rowlock_error *err)
{
    return rowlock_renew(run->lock, TTL_MS, err);
}

static void verify_renewed(struct run *run)
{
    struct fault_row row = fault_row(run->direct, run->name);

    assert_true(row.remaining_ms > 40000 && row.remaining_ms <= TTL_MS);
    assert_true(rowlock_remaining(run->lock) > 40000);
    assert_true(rowlock_remaining(run->lock) <= row.remaining_ms);
    assert_held(run, run->name, run->fence, 1);
    fault_release(&run->lock);
    assert_free(run);
}

/* Held by somebody else, twice. */
static void prepare_theirs(struct run *run)
{
    run->name = fault_name("force");
    run->lock = fault_acquire(run->direct, run->name, TTL_MS);
    run->other = fault_acquire(run->direct, run->name, TTL_MS);
    run->fence = rowlock_fence(run->lock);
}

static int call_force(struct run *run, rowlock_error *err)
{
    rowlock_force_options options = ROWLOCK_FORCE_OPTIONS_INIT;

    /* Without a fence it would be looked up first, and the cut would meet that request. */
    options.fence = rowlock_fence(run->other);
    return rowlock_force_release(run->client, run->name, &options, err);
}

static void verify_forced(struct run *run)
{
    rowlock_error err;

    assert_free(run);
    assert_true(fault_row(run->direct, run->name).fence > run->fence);
    assert_status(ROWLOCK_LOST, rowlock_renew(run->lock, 0, &err), &err);
    assert_status(ROWLOCK_LOST, rowlock_release(&run->lock, &err), &err);
    assert_status(ROWLOCK_LOST, rowlock_release(&run->other, &err), &err);
}

static void prepare_many(struct run *run)
{
    fault_batch_init(&run->batch, "many");
    run->name = run->batch.names[FAULT_BATCH / 2];
}

/* One of the hundred is re-entered. */
static void prepare_many_held(struct run *run)
{
    prepare_many(run);
    run->other = fault_acquire(run->client, run->name, TTL_MS);
    fault_open_another(run->client);
}

static int call_many(struct run *run, rowlock_error *err)
{
    return rowlock_acquire_many(run->batch.locks, run->client, run->batch.names, FAULT_BATCH, NULL,
                                err);
}

static void verify_many(struct run *run)
{
    for (int i = 0; i < FAULT_BATCH; i++) {
        int reentered = run->other != NULL && run->batch.names[i] == run->name;
        assert_held(run, run->batch.names[i], rowlock_fence(run->batch.locks[i]), 1 + reentered);
    }
    for (int i = 0; i < FAULT_BATCH; i++)
        fault_release(&run->batch.locks[i]);
    if (run->other != NULL) {
        assert_held(run, run->name, rowlock_fence(run->other), 1);
        fault_release(&run->other);
    }
    assert_free(run);
}

static const struct scenario scenarios[] = {
    {"acquire, new", prepare_new, call_acquire, verify_acquired},
    {"acquire, free", prepare_free, call_acquire, verify_acquired},
    {"acquire, re-entry", prepare_held, call_acquire, verify_reentered},
    {"release, one of two", prepare_twice, call_release, verify_one_left},
    {"release, last", prepare_once, call_release, verify_released},
    {"renew", prepare_short, call_renew, verify_renewed},
    {"force_release", prepare_theirs, call_force, verify_forced},
    {"acquire_many", prepare_many, call_many, verify_many},
    {"acquire_many, one re-entered", prepare_many_held, call_many, verify_many},
};

enum { SCENARIOS = sizeof(scenarios) / sizeof(scenarios[0]) };

/* ---- the server stays: the call succeeds ----------------------------------------------------- */

/* Cuts the (skip + 1)th round trip of the call. Nonzero if it had so many. */
static int cut_once(const struct scenario *scenario, int cut, int skip)
{
    struct run run = {.client = fault_open(fault.proxied, NULL),
                      .direct = fault_open(fault.backend.address, NULL)};
    proxy_plan plan = {.fault = cuts[cut].fault, .skip = skip};
    rowlock_error err;
    int before, struck, status;

    scenario->prepare(&run);
    before = proxy_disarm(fault.proxy);
    proxy_arm(fault.proxy, &plan);
    status = scenario->call(&run, &err);
    struck = proxy_disarm(fault.proxy) - before;
    if (status != ROWLOCK_OK)
        print_error("%s, cut %s, round trip %d\n", scenario->name, cuts[cut].name, skip + 1);
    assert_status(ROWLOCK_OK, status, &err);
    scenario->verify(&run);
    rowlock_close(&run.client);
    rowlock_close(&run.direct);
    return struck;
}

static void each_call_survives(void **state)
{
    const struct scenario *scenario = *state;

    for (int cut = 0; cut < CUTS; cut++) {
        int skip = 0;
        while (skip < ROUND_TRIPS_MAX && cut_once(scenario, cut, skip))
            skip++;
        /* the first round trip was cut at least, and the calls do not go on for ever */
        assert_in_range(skip, 1, ROUND_TRIPS_MAX - 1);
    }
}

/* An idle connection that the server, or something on the way, has closed long ago. */
static void idle_connection_is_gone(void **state)
{
    const struct scenario *scenario = *state;
    struct run run = {.client = fault_open(fault.proxied, NULL),
                      .direct = fault_open(fault.backend.address, NULL)};
    rowlock_error err;

    scenario->prepare(&run);
    proxy_cut_all(fault.proxy);
    assert_status(ROWLOCK_OK, scenario->call(&run, &err), &err);
    scenario->verify(&run);
    rowlock_close(&run.client);
    rowlock_close(&run.direct);
}

/* ---- the server is gone: the call does not know ---------------------------------------------- */

static void give_back(struct run *run)
{
    if (run->lock != NULL)
        rowlock_release(&run->lock, NULL);
    if (run->other != NULL)
        rowlock_release(&run->other, NULL);
    for (int i = 0; i < FAULT_BATCH; i++)
        assert_null(run->batch.locks[i]);
}

/* With no connection left nothing was sent: certainly not acquired. */
static void assert_unreachable(rowlock_client *client, int64_t call_timeout_ms)
{
    rowlock_lock *lock = NULL;
    rowlock_error err;
    int64_t start = process_now_ms();

    assert_status(ROWLOCK_ECONNECT, rowlock_acquire(&lock, client, "unreachable", NULL, &err),
                  &err);
    assert_null(lock);
    assert_in_range(process_now_ms() - start, 0, call_timeout_ms + FAULT_SLACK_MS);
}

static void cut_for_good(const struct scenario *scenario, int cut)
{
    rowlock_options options = ROWLOCK_OPTIONS_INIT;
    proxy_plan plan = {.fault = cuts[cut].fault, .then_refuse = 1};
    struct run run = {.direct = fault_open(fault.backend.address, NULL)};
    rowlock_error err;
    rowlock_lock *lock;
    int64_t start, took;
    int status;

    options.call_timeout_ms = 1200;
    run.client = fault_open(fault.proxied, &options);
    scenario->prepare(&run);
    proxy_arm(fault.proxy, &plan);
    start = process_now_ms();
    status = scenario->call(&run, &err);
    took = process_now_ms() - start;
    proxy_disarm(fault.proxy);
    if (status != ROWLOCK_EUNKNOWN || took > options.call_timeout_ms + FAULT_SLACK_MS)
        print_error("%s, cut %s, %d ms\n", scenario->name, cuts[cut].name, (int)took);
    assert_status(ROWLOCK_EUNKNOWN, status, &err);
    assert_int_not_equal(0, err.message[0]);
    assert_in_range(took, 0, options.call_timeout_ms + FAULT_SLACK_MS);
    assert_unreachable(run.client, options.call_timeout_ms);

    /* the client is as good as new when the server is back */
    assert_int_equal(0, proxy_refuse(fault.proxy, 0));
    lock = fault_acquire(run.client, fault_name("back"), TTL_MS);
    fault_release(&lock);
    give_back(&run);
    rowlock_close(&run.client);
    rowlock_close(&run.direct);
}

static void unknown_is_never_yes(void **state)
{
    for (int cut = 0; cut < CUTS; cut++)
        cut_for_good(*state, cut);
}

/* Cut while idle, and nobody there to connect to: the request may have gone out or not. */
static void idle_and_unreachable(void **state)
{
    rowlock_options options = ROWLOCK_OPTIONS_INIT;
    const struct scenario *scenario = *state;
    struct run run = {.direct = fault_open(fault.backend.address, NULL)};
    rowlock_error err;
    int64_t start;
    int status;

    options.call_timeout_ms = 1200;
    run.client = fault_open(fault.proxied, &options);
    scenario->prepare(&run);
    assert_int_equal(0, proxy_refuse(fault.proxy, 1));
    proxy_cut_all(fault.proxy);
    start = process_now_ms();
    status = scenario->call(&run, &err);
    assert_in_range(process_now_ms() - start, 0, options.call_timeout_ms + FAULT_SLACK_MS);
    if (status != ROWLOCK_ECONNECT)
        assert_status(ROWLOCK_EUNKNOWN, status, &err);
    assert_int_equal(0, proxy_refuse(fault.proxy, 0));
    give_back(&run);
    rowlock_close(&run.client);
    rowlock_close(&run.direct);
}

static int restore(void **state)
{
    (void)state;
    proxy_disarm(fault.proxy);
    return proxy_refuse(fault.proxy, 0);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        CMUnitTestFunction fn;
    } kinds[] = {{"survives", each_call_survives},
                 {"idle connection gone", idle_connection_is_gone},
                 {"unknown", unknown_is_never_yes},
                 {"idle and unreachable", idle_and_unreachable}};
    enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };
    static char names[KINDS * SCENARIOS][80];
    struct CMUnitTest cases[KINDS * SCENARIOS];

    for (int i = 0; i < KINDS * SCENARIOS; i++) {
        const struct scenario *scenario = &scenarios[i % SCENARIOS];
        snprintf(names[i], sizeof(names[i]), "%s: %s", kinds[i / SCENARIOS].name, scenario->name);
        cases[i] = (struct CMUnitTest){.name = names[i],
                                       .test_func = kinds[i / SCENARIOS].fn,
                                       .teardown_func = restore,
                                       .initial_state = (void *)(uintptr_t)scenario};
    }
    return FAULT_MAIN(argc, argv, 1, cases);
}
