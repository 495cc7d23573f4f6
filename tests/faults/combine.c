/* SPDX-License-Identifier: MIT
 *
 * Requests that threads share, cut for real: before they reach the server, in the middle, and after
 * the server has done them. Everybody must come to the right end by itself, and count nothing
 * twice; with the server out of reach everybody must say that it does not know. */
#include "fault.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    THREADS = 16,
    SKIPS = 2, /* requests before the one that is cut */
    SHARED = 4,
    STORM_MS = 1000,
    CUT_EVERY_MS = 20,
    TTL_MS = 60000,
    BRIEF_MS = 700
};

static const struct {
    const char *name;
    enum proxy_fault fault;
} cuts[] = {{"before", PROXY_CUT_BEFORE}, {"half", PROXY_CUT_HALF}, {"reply", PROXY_CUT_REPLY}};

enum { CUTS = sizeof(cuts) / sizeof(cuts[0]) };

struct member {
    pthread_t thread;
    int (*call)(struct member *member);
    char name[64];
    rowlock_lock *lock;
    int status;
    rowlock_error err;
};

static rowlock_client *client, *direct; /* through the proxy; to look at the rows */
static struct member members[THREADS];
static pthread_barrier_t barrier;

/* ---- all at once ----------------------------------------------------------------------------- */

static int call_acquire(struct member *m)
{
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;

    options.ttl_ms = TTL_MS;
    options.owner = m->name;
    return rowlock_acquire(&m->lock, client, m->name, &options, &m->err);
}

static int call_renew(struct member *m)
{
    return rowlock_renew(m->lock, TTL_MS, &m->err);
}

static int call_release(struct member *m)
{
    return rowlock_release(&m->lock, &m->err);
}

static void *run(void *argument)
{
    struct member *m = argument;

    pthread_barrier_wait(&barrier);
    m->status = m->call(m);
    return NULL;
}

static void all_call(int (*call)(struct member *member))
{
    int started = 0;

    assert_int_equal(0, pthread_barrier_init(&barrier, NULL, THREADS));
    for (int i = 0; i < THREADS; i++) {
        members[i].call = call;
        started += pthread_create(&members[i].thread, NULL, run, &members[i]) == 0;
    }
    assert_int_equal(THREADS, started);
    for (int i = 0; i < THREADS; i++)
        pthread_join(members[i].thread, NULL);
    pthread_barrier_destroy(&barrier);
}

static void new_names(void)
{
    const char *stem = fault_name("share");

    for (int i = 0; i < THREADS; i++) {
        members[i] = (struct member){0};
        snprintf(members[i].name, sizeof(members[i].name), "%.50s-%02d", stem, i);
    }
}

/* Cuts one request of those, and expects that everybody gets through. */
static void all_call_through(int (*call)(struct member *member), int cut, int skip)
{
    proxy_plan plan = {.fault = cuts[cut].fault, .skip = skip};

    proxy_arm(fault.proxy, &plan);
    all_call(call);
    proxy_disarm(fault.proxy);
    for (int i = 0; i < THREADS; i++) {
        if (members[i].status != ROWLOCK_OK)
            print_error("cut %s, request %d, thread %d\n", cuts[cut].name, skip + 1, i);
        assert_status(ROWLOCK_OK, members[i].status, &members[i].err);
    }
}

static void expect_held(uint32_t count)
{
    for (int i = 0; i < THREADS; i++) {
        struct fault_row row = fault_row(direct, members[i].name);

        assert_int_equal(count > 0 ? 2 : 1, row.found);
        assert_int_equal(count, row.hold_count);
        if (members[i].lock != NULL)
            assert_int_equal(rowlock_fence(members[i].lock), row.fence);
    }
}

static void each_is_done_once(void **state)
{
    rowlock_counters counters = ROWLOCK_COUNTERS_INIT;
    int struck = proxy_disarm(fault.proxy);

    (void)state;
    client = fault_open(fault.proxied, NULL);
    direct = fault_open(fault.backend.address, NULL);
    for (int cut = 0; cut < CUTS; cut++) {
        for (int skip = 0; skip < SKIPS; skip++) {
            new_names();
            all_call_through(call_acquire, cut, skip);
            expect_held(1);
            all_call_through(call_renew, cut, skip);
            all_call_through(call_release, cut, skip);
            expect_held(0);
        }
    }
    assert_true(proxy_disarm(fault.proxy) - struck >= 3 * CUTS); /* the first one always is */
    assert_int_equal(ROWLOCK_OK, rowlock_stats(&counters, client, NULL));
    print_message("%d cuts, %llu shared a request\n", proxy_disarm(fault.proxy) - struck,
                  (unsigned long long)counters.combined);
    assert_true(counters.combined > 0);
    rowlock_close(&client);
    rowlock_close(&direct);
}

/* ---- the server is gone ---------------------------------------------------------------------- */

static void expect_not_known(int cut, int64_t took_ms)
{
    int unknown = 0;

    for (int i = 0; i < THREADS; i++) {
        int status = members[i].status;

        unknown += status == ROWLOCK_EUNKNOWN;
        if (status != ROWLOCK_EUNKNOWN && status != ROWLOCK_ECONNECT)
            fail_msg("cut %s, thread %d: %d: %s", cuts[cut].name, i, status,
                     members[i].err.message);
        assert_null(members[i].lock);
    }
    assert_true(unknown > 0);
    assert_in_range(took_ms, 0, BRIEF_MS + FAULT_SLACK_MS);
}

static void nobody_takes_unknown_for_yes(void **state)
{
    rowlock_options options = ROWLOCK_OPTIONS_INIT;

    (void)state;
    options.call_timeout_ms = BRIEF_MS;
    options.max_connections = 1; /* who is on another one than the cut is may well get through */
    for (int cut = 0; cut < CUTS; cut++) {
        proxy_plan plan = {.fault = cuts[cut].fault, .then_refuse = 1};
        int64_t start;

        client = fault_open(fault.proxied, &options);
        new_names();
        proxy_arm(fault.proxy, &plan);
        start = process_now_ms();
        all_call(call_acquire);
        expect_not_known(cut, process_now_ms() - start);
        proxy_disarm(fault.proxy);
        assert_int_equal(0, proxy_refuse(fault.proxy, 0));
        rowlock_close(&client);
    }
}

/* ---- cuts all the time ----------------------------------------------------------------------- */

static atomic_int is_over, inside[SHARED];

struct storm {
    pthread_t thread;
    int number, bad;
    long turns, unknown;
    rowlock_error err;
};

/* OK and BUSY are what they say; who does not know is not in. */
static int take_turn(struct storm *s, const char *name, atomic_int *in)
{
    rowlock_lock *lock = NULL;
    int status = rowlock_acquire(&lock, client, name, NULL, &s->err);

    if (status == ROWLOCK_OK) {
        s->bad += atomic_fetch_add(in, 1) != 0;
        s->turns++;
        atomic_fetch_sub(in, 1);
        status = rowlock_release(&lock, &s->err);
    }
    s->unknown += status == ROWLOCK_EUNKNOWN;
    return status == ROWLOCK_OK || status == ROWLOCK_BUSY || status == ROWLOCK_EUNKNOWN;
}

static void *weather(void *argument)
{
    struct storm *s = argument;
    char name[32];

    snprintf(name, sizeof(name), "storm%d", s->number % SHARED);
    while (!atomic_load(&is_over) && s->bad == 0)
        s->bad += !take_turn(s, name, &inside[s->number % SHARED]);
    return NULL;
}

static void nobody_is_in_where_another_is(void **state)
{
    static struct storm storms[THREADS];
    int64_t until = process_now_ms() + STORM_MS;
    long turns = 0, unknown = 0;

    (void)state;
    client = fault_open(fault.proxied, NULL);
    for (int i = 0; i < THREADS; i++) {
        storms[i].number = i;
        assert_int_equal(0, pthread_create(&storms[i].thread, NULL, weather, &storms[i]));
    }
    for (int i = 0; process_now_ms() < until; i++) {
        proxy_plan plan = {.fault = cuts[i % CUTS].fault, .skip = i % 5};

        proxy_arm(fault.proxy, &plan);
        process_sleep_ms(CUT_EVERY_MS);
    }
    proxy_disarm(fault.proxy);
    atomic_store(&is_over, 1);
    for (int i = 0; i < THREADS; i++)
        pthread_join(storms[i].thread, NULL);
    for (int i = 0; i < THREADS; i++) {
        if (storms[i].bad != 0)
            fail_msg("thread %d: two were in, or %s", i, storms[i].err.message);
        turns += storms[i].turns;
        unknown += storms[i].unknown;
    }
    print_message("%ld turns, %ld unknown\n", turns, unknown);
    assert_true(turns > 0);
    rowlock_close(&client);
}

static int restore(void **state)
{
    (void)state;
    proxy_disarm(fault.proxy);
    return proxy_refuse(fault.proxy, 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test_teardown(each_is_done_once, restore),
        cmocka_unit_test_teardown(nobody_takes_unknown_for_yes, restore),
        cmocka_unit_test_teardown(nobody_is_in_where_another_is, restore),
    };
    return FAULT_MAIN(argc, argv, 1, cases);
}
