/* SPDX-License-Identifier: MIT */
#include "combine_scene.h"

#include <poll.h>
#include <stdio.h>
#include <time.h>

#include "thread.h"

rowlock_client *client;
struct asker askers[MOST_ASKERS];
struct request requests[MOST_REQUESTS];
size_t request_count;
void (*on_request)(rlk_kind kind, rowlock_op *ops, size_t n, int is_done);
const char *bad_name;

enum { LONGEST_MS = 60000 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t opened = PTHREAD_COND_INITIALIZER;
static int to_hold, came, let_go; /* those at the gate: came - let_go */
static int has_plan;
static enum fake_fault batch_fault, later_fault;
static rlk_kind refused = RLK_KINDS; /* none */
static atomic_int over, begun;
static _Thread_local struct asker *self;

/* ---- time */

int __wrap_rlk_cond_wait(pthread_cond_t *cond, pthread_mutex_t *locked, int64_t until_us);

int __wrap_rlk_cond_wait(pthread_cond_t *cond, pthread_mutex_t *locked, int64_t until_us)
{
    struct timespec soon;

    if (rlk_clock_us() >= until_us) {
        atomic_fetch_add(&over, 1);
        return 0;
    }
    atomic_fetch_add(&begun, 1);
    if (self != NULL)
        atomic_store(&self->has_waited, 1);
    clock_gettime(CLOCK_MONOTONIC, &soon);
    soon.tv_nsec += 1000000;
    if (soon.tv_nsec >= 1000000000) {
        soon.tv_nsec -= 1000000000;
        soon.tv_sec++;
    }
    pthread_cond_timedwait(cond, locked, &soon);
    return 1;
}

int __real_rlk_word_wait(_Atomic uint32_t *word, uint32_t value, int64_t until_us);
int __wrap_rlk_word_wait(_Atomic uint32_t *word, uint32_t value, int64_t until_us);

int __wrap_rlk_word_wait(_Atomic uint32_t *word, uint32_t value, int64_t until_us)
{
    int64_t now = rlk_clock_us();

    if (now >= until_us) {
        atomic_fetch_add(&over, 1);
        return 0;
    }
    atomic_fetch_add(&begun, 1);
    if (self != NULL)
        atomic_store(&self->has_waited, 1);
    __real_rlk_word_wait(word, value, now + 1000);
    return 1;
}

int waits_over(void)
{
    return atomic_load(&over);
}

int waits_begun(void)
{
    return atomic_load(&begun);
}

/* ---- the driver */

void gate_hold(int n)
{
    pthread_mutex_lock(&mutex);
    to_hold = n;
    pthread_mutex_unlock(&mutex);
}

void gate_open(void)
{
    pthread_mutex_lock(&mutex);
    to_hold = 0;
    let_go = came;
    pthread_cond_broadcast(&opened);
    pthread_mutex_unlock(&mutex);
}

void gate_let_first(void)
{
    pthread_mutex_lock(&mutex);
    let_go++;
    pthread_cond_broadcast(&opened);
    pthread_mutex_unlock(&mutex);
}

static int held_now(void)
{
    int n;

    pthread_mutex_lock(&mutex);
    n = came - let_go;
    pthread_mutex_unlock(&mutex);
    return n;
}

void await_held(int n)
{
    for (int ms = 0; held_now() != n && ms < LONGEST_MS; ms++)
        poll(NULL, 0, 1);
    assert_int_equal(held_now(), n);
}

void plan_batch(enum fake_fault fault, enum fake_fault afterwards)
{
    pthread_mutex_lock(&mutex);
    has_plan = 1;
    batch_fault = fault;
    later_fault = afterwards;
    pthread_mutex_unlock(&mutex);
}

void refuse_half(rlk_kind kind)
{
    pthread_mutex_lock(&mutex);
    refused = kind;
    pthread_mutex_unlock(&mutex);
}

/* Takes what is planned. */
static enum fake_fault planned(enum fake_fault *later)
{
    enum fake_fault fault;

    pthread_mutex_lock(&mutex);
    fault = has_plan ? batch_fault : FAKE_NONE;
    *later = later_fault;
    has_plan = 0;
    pthread_mutex_unlock(&mutex);
    return fault;
}

static int is_sorted(const rowlock_op *ops, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        if (rlk_op_by_name(&ops[i - 1], &ops[i]) >= 0)
            return 0;
    }
    return 1;
}

/* Notes it, and stands at the gate if it is shut. */
static void come_in(rlk_kind kind, const rowlock_op *ops, size_t n, size_t releases,
                    uint32_t timeout_ms)
{
    pthread_mutex_lock(&mutex);
    if (request_count < MOST_REQUESTS)
        requests[request_count++] = (struct request){
            kind, n, releases, is_sorted(ops, releases) && is_sorted(ops + releases, n - releases),
            timeout_ms};
    if (to_hold > 0) {
        int number = came++;

        to_hold--;
        while (number >= let_go)
            pthread_cond_wait(&opened, &mutex);
    }
    pthread_mutex_unlock(&mutex);
}

static int is_bad(const rowlock_op *ops, size_t n)
{
    for (size_t i = 0; bad_name != NULL && i < n; i++) {
        if (strcmp(ops[i].name, bad_name) == 0)
            return 1;
    }
    return 0;
}

static int pass(rlk_kind kind, void *conn, rowlock_op *ops, size_t n, int all, uint32_t timeout_ms,
                rowlock_error *err)
{
    const rowlock_driver *fake = fake_driver();

    if (is_bad(ops, n))
        return rlk_fail_native(err, ROWLOCK_EDRIVER, 1, "22000", 0, "bad");
    if (kind == RLK_ACQUIRE)
        return fake->acquire(conn, ops, n, all, timeout_ms, err);
    if (kind == RLK_RENEW)
        return fake->renew(conn, ops, n, timeout_ms, err);
    return fake->release(conn, ops, n, timeout_ms, err);
}

static int serve(rlk_kind kind, void *conn, rowlock_op *ops, size_t n, int all, uint32_t timeout_ms,
                 rowlock_error *err)
{
    enum fake_fault fault = FAKE_NONE, later = FAKE_NONE;
    int rc;

    come_in(kind, ops, n, 0, timeout_ms);
    if (on_request != NULL)
        on_request(kind, ops, n, 0);
    if (n > 1)
        fault = planned(&later);
    if (fault != FAKE_NONE)
        fake_plan(1, fault, 0);
    rc = pass(kind, conn, ops, n, all, timeout_ms, err);
    if (later != FAKE_NONE)
        fake_plan(1, later, 1);
    if (on_request != NULL)
        on_request(kind, ops, n, 1);
    return rc;
}

static int scene_acquire(void *conn, rowlock_op *ops, size_t n, int all, uint32_t timeout_ms,
                         rowlock_error *err)
{
    return serve(RLK_ACQUIRE, conn, ops, n, all, timeout_ms, err);
}

static int scene_renew(void *conn, rowlock_op *ops, size_t n, uint32_t timeout_ms,
                       rowlock_error *err)
{
    return serve(RLK_RENEW, conn, ops, n, 0, timeout_ms, err);
}

static int scene_release(void *conn, rowlock_op *ops, size_t n, uint32_t timeout_ms,
                         rowlock_error *err)
{
    return serve(RLK_RELEASE, conn, ops, n, 0, timeout_ms, err);
}

static int answer_half(rlk_kind kind, void *conn, rowlock_op *ops, size_t n, uint32_t timeout_ms,
                       rowlock_error *err)
{
    int is_refused;

    pthread_mutex_lock(&mutex);
    is_refused = refused == kind;
    if (is_refused)
        refused = RLK_KINDS;
    pthread_mutex_unlock(&mutex);
    for (size_t i = 0; is_refused && i < n; i++) {
        ops[i].status = ROWLOCK_BUSY;
        ops[i].holder[0] = '\0';
        ops[i].remaining_us = 0;
    }
    return is_refused ? rlk_ok(err) : pass(kind, conn, ops, n, 0, timeout_ms, err);
}

/* The core has both halves in one array. */
static int scene_exchange(void *conn, rowlock_op *releases, size_t n, rowlock_op *acquires,
                          size_t m, uint32_t timeout_ms, rowlock_error *err)
{
    enum fake_fault fault, later;
    int rc;

    assert_ptr_equal(acquires, releases + n);
    come_in(RLK_ACQUIRE, releases, n + m, n, timeout_ms);
    fault = planned(&later);
    rc = answer_half(RLK_RELEASE, conn, releases, n, timeout_ms, err);
    if (fault != FAKE_NONE)
        fake_plan(1, fault, 0);
    if (rc == ROWLOCK_OK)
        rc = answer_half(RLK_ACQUIRE, conn, acquires, m, timeout_ms, err);
    return rc;
}

/* ---- set-up */

static void open_scene(const rowlock_options *options, int has_exchange, int has_one_writer)
{
    rowlock_driver driver = *fake_driver();

    driver.acquire = scene_acquire;
    driver.renew = scene_renew;
    driver.release = scene_release;
    driver.exchange = has_exchange ? scene_exchange : NULL;
    driver.has_one_writer = has_one_writer != 0;
    rowlock_close(&client);
    assert_status(OK, rowlock_open(&client, &driver, "fake", options, NULL));
    request_count = 0;
}

void scene_open(const rowlock_options *options)
{
    open_scene(options, 0, 0);
}

void scene_open_joint(const rowlock_options *options)
{
    open_scene(options, 1, 0);
}

void scene_open_one_writer(void)
{
    open_scene(NULL, 1, 1);
}

int scene_set_up(void **state)
{
    fresh(state);
    to_hold = came = let_go = has_plan = 0;
    batch_fault = later_fault = FAKE_NONE;
    on_request = NULL;
    bad_name = NULL;
    refused = RLK_KINDS;
    memset(askers, 0, sizeof askers);
    for (size_t i = 0; i < MOST_ASKERS; i++) {
        struct asker *a = &askers[i];

        /* in another order than they come */
        snprintf(a->name, sizeof a->name, "n%02zu", i * 7 % MOST_ASKERS);
        snprintf(a->owner, sizeof a->owner, "o%02zu", i);
        a->options = (rowlock_acquire_options)ROWLOCK_ACQUIRE_OPTIONS_INIT;
    }
    scene_open(NULL);
    return 0;
}

int scene_tear_down(void **state)
{
    (void)state;
    gate_open();
    for (size_t i = 0; i < MOST_ASKERS; i++) {
        if (askers[i].lock != NULL)
            rowlock_release(&askers[i].lock, NULL);
    }
    rowlock_close(&client);
    return fake_connections() != 0;
}

/* ---- the threads */

int ask_acquire(struct asker *a)
{
    a->options.owner = a->owner;
    return rowlock_acquire(&a->lock, client, a->name, &a->options, &a->err);
}

int ask_renew(struct asker *a)
{
    return rowlock_renew(a->lock, 0, &a->err);
}

int ask_release(struct asker *a)
{
    return rowlock_release(&a->lock, &a->err);
}

static void *run(void *argument)
{
    struct asker *a = argument;

    self = a;
    memset(&a->err, 0x55, sizeof a->err); /* whatever the caller's was */
    a->status = a->ask(a);
    atomic_store(&a->has_returned, 1);
    return NULL;
}

void start(struct asker *a)
{
    a->status = 99;
    atomic_store(&a->has_waited, 0);
    atomic_store(&a->has_returned, 0);
    assert_int_equal(pthread_create(&a->thread, NULL, run, a), 0);
}

void join(struct asker *a)
{
    pthread_join(a->thread, NULL);
}

void await_return(struct asker *a)
{
    for (int ms = 0; !atomic_load(&a->has_returned) && ms < LONGEST_MS; ms++)
        poll(NULL, 0, 1);
    assert_true(atomic_load(&a->has_returned));
}

void await_wait(struct asker *a)
{
    for (int ms = 0; !atomic_load(&a->has_waited) && ms < LONGEST_MS; ms++)
        poll(NULL, 0, 1);
    assert_true(atomic_load(&a->has_waited));
}

void gather(int (*ask)(struct asker *asker), size_t n)
{
    gate_hold(1);
    for (size_t i = 0; i < n; i++) {
        askers[i].ask = ask;
        start(&askers[i]);
        if (i == 0)
            await_held(1);
        else
            await_wait(&askers[i]);
    }
}

void join_all(size_t n)
{
    for (size_t i = 0; i < n; i++)
        join(&askers[i]);
}

void ask_together(int (*ask)(struct asker *asker), size_t n)
{
    request_count = 0;
    gather(ask, n);
    gate_open();
    join_all(n);
}

uint64_t combined(void)
{
    rowlock_counters counters = ROWLOCK_COUNTERS_INIT;

    assert_status(OK, rowlock_stats(&counters, client, NULL));
    return counters.combined;
}

void expect_ok(size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (askers[i].status != ROWLOCK_OK)
            fail_msg("number %zu: %d: %.200s", i, askers[i].status, askers[i].err.message);
        assert_int_equal(askers[i].err.status, ROWLOCK_OK);
    }
}
