/* SPDX-License-Identifier: MIT */
#include "bench.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Sixteen buckets for each power of two of nanoseconds. */
enum { SUBS = 16, SUB_BITS = 4, BUCKETS = SUBS * 40 };

enum state { WARM_UP, WORK, STOP };

/* What the threads of one test share. */
typedef struct run {
    const cli_bench_test *test;
    atomic_int state;        /* enum state */
    atomic_int ready;        /* threads that have warmed up, or failed */
    atomic_int failed;       /* some thread has */
    atomic_int last;         /* who had the lock last */
    _Atomic int64_t free_ns; /* since when it is free */
} run;

typedef struct worker {
    run *run;
    int index;
    rowlock_client *client;
    uint64_t done;
    uint32_t buckets[BUCKETS];
    int failed;
    rowlock_error err;
    pthread_t thread;
} worker;

static int64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void pause_ms(long ms)
{
    nanosleep(&(struct timespec){0, ms * 1000000}, NULL);
}

/* ---- times ----------------------------------------------------------------------------------- */

static int bucket_of(int64_t ns)
{
    int top, index;

    if (ns < SUBS)
        return ns < 0 ? 0 : (int)ns;
    top = 63 - __builtin_clzll((unsigned long long)ns);
    index = (top - SUB_BITS + 1) * SUBS + (int)(ns >> (top - SUB_BITS)) - SUBS;
    return index < BUCKETS ? index : BUCKETS - 1;
}

/* The middle of a bucket, in microseconds. */
static double value_of(int index)
{
    double width = index < 2 * SUBS ? 1 : (double)(INT64_C(1) << (index / SUBS - 1));

    return index < SUBS ? index / 1e3 : ((SUBS + index % SUBS) * width + width / 2) / 1e3;
}

static double quantile(const worker *workers, int n, uint64_t done, double q)
{
    uint64_t wanted = (uint64_t)((double)done * q), seen = 0;

    for (int b = 0; b < BUCKETS; b++) {
        for (int i = 0; i < n; i++)
            seen += workers[i].buckets[b];
        if (seen > wanted || (seen > 0 && seen == done))
            return value_of(b);
    }
    return 0;
}

/* ---- a thread -------------------------------------------------------------------------------- */

static int is_over(const worker *w)
{
    return atomic_load(&w->run->state) == STOP;
}

static void count(worker *w, int64_t since_ns)
{
    if (atomic_load(&w->run->state) != WORK)
        return;
    w->done++;
    w->buckets[bucket_of(now_ns() - since_ns)]++;
}

/* 1, or 0 with the error kept. */
static int is_fine(worker *w, int status)
{
    if (status == ROWLOCK_OK)
        return 1;
    w->failed = 1;
    atomic_store(&w->run->failed, 1);
    return 0;
}

static int cycle(worker *w, const char *name)
{
    int64_t start = now_ns();
    rowlock_lock *lock;

    if (!is_fine(w, rowlock_acquire(&lock, w->client, name, NULL, &w->err)) ||
        !is_fine(w, rowlock_release(&lock, &w->err)))
        return 0;
    count(w, start);
    return 1;
}

/* Counts when somebody else had it before; from the call of that one's release. */
static int take_over(worker *w)
{
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;
    run *r = w->run;
    rowlock_lock *lock;
    int64_t since;

    options.wait_ms = ROWLOCK_FOREVER;
    if (!is_fine(w, rowlock_acquire(&lock, w->client, "hand-over", &options, &w->err)))
        return 0;
    since = atomic_load(&r->free_ns);
    if (atomic_exchange(&r->last, w->index) != w->index && since != 0)
        count(w, since);
    atomic_store(&r->free_ns, now_ns());
    return is_fine(w, rowlock_release(&lock, &w->err));
}

static int ask(worker *w)
{
    int64_t start = now_ns();
    rowlock_lock *lock;
    int status = rowlock_acquire(&lock, w->client, "busy", NULL, &w->err);

    if (status == ROWLOCK_OK)
        return is_fine(w, rowlock_release(&lock, &w->err)); /* nobody holds it yet */
    if (status != ROWLOCK_BUSY)
        return is_fine(w, status);
    count(w, start);
    return 1;
}

static int once(worker *w, const char *own)
{
    switch (w->run->test->kind) {
    case CLI_BENCH_HAND_OVER:
        return take_over(w);
    case CLI_BENCH_BUSY:
        return ask(w);
    default:
        return cycle(w, own);
    }
}

/* Who is measured with a lock held takes it here. */
static rowlock_lock *hold(worker *w, const char *name)
{
    rowlock_lock *lock = NULL;

    if (w->run->test->kind == CLI_BENCH_REENTRY)
        is_fine(w, rowlock_acquire(&lock, w->client, name, NULL, &w->err));
    return lock;
}

static void *work(void *payload)
{
    worker *w = payload;
    rowlock_lock *held;
    char own[32];

    snprintf(own, sizeof(own), "own-%d", w->index);
    held = hold(w, own);
    for (int i = 0; i < 3 && !w->failed; i++)
        once(w, own);
    atomic_fetch_add(&w->run->ready, 1);
    while (atomic_load(&w->run->state) == WARM_UP)
        pause_ms(1);
    while (!w->failed && !is_over(w))
        once(w, own);
    if (held)
        rowlock_release(&held, NULL);
    return NULL;
}

/* ---- all of them ----------------------------------------------------------------------------- */

/* The time that was measured, in seconds; less if a signal came or a thread failed. */
static double lead(run *r, int n, int64_t ms)
{
    int64_t start, end;

    while (atomic_load(&r->ready) < n)
        pause_ms(1);
    start = now_ns();
    atomic_store(&r->state, WORK);
    for (end = start + ms * 1000000; now_ns() < end;) {
        int64_t left = (end - now_ns()) / 1000000;

        if (atomic_load(&r->failed) || cli_signals_pause(-1, left > 50 ? 50 : left < 1 ? 1 : left))
            break;
    }
    end = now_ns();
    atomic_store(&r->state, STOP);
    return (double)(end - start) / 1e9;
}

static int start(worker *workers, int n)
{
    int started = 0;

    while (started < n &&
           pthread_create(&workers[started].thread, NULL, work, &workers[started]) == 0)
        started++;
    return started;
}

static int sum_up(cli_bench_result *out, const worker *workers, int n, double seconds)
{
    uint64_t done = 0;

    for (int i = 0; i < n; i++) {
        if (workers[i].failed)
            return cli_fail(&workers[i].err);
        done += workers[i].done;
    }
    out->per_second = seconds > 0 ? (double)done / seconds : 0;
    out->p50_us = quantile(workers, n, done, 0.5);
    out->p99_us = quantile(workers, n, done, 0.99);
    out->p999_us = quantile(workers, n, done, 0.999);
    return CLI_GO_ON;
}

/* The one in the way of those who ask: this thread. */
static int hold_busy(rowlock_lock **out, const cli_bench_test *test, rowlock_client *client)
{
    rowlock_error err;

    *out = NULL;
    if (test->kind != CLI_BENCH_BUSY ||
        rowlock_acquire(out, client, "busy", NULL, &err) == ROWLOCK_OK)
        return CLI_GO_ON;
    return cli_fail(&err);
}

int cli_bench_run(cli_bench_result *out, const cli_bench_test *test, rowlock_client **clients,
                  int64_t ms)
{
    run r = {.test = test, .last = -1};
    worker *workers = calloc((size_t)test->threads, sizeof(*workers));
    rowlock_lock *busy = NULL;
    int started, result = workers ? hold_busy(&busy, test, clients[0]) : cli_out_of_memory();
    double seconds;

    for (int i = 0; i < test->threads && result == CLI_GO_ON; i++) {
        workers[i].run = &r;
        workers[i].index = i;
        workers[i].client = clients[test->kind == CLI_BENCH_HAND_OVER ? i : 0];
    }
    if (result == CLI_GO_ON) {
        started = start(workers, test->threads);
        seconds = lead(&r, started, started < test->threads ? 0 : ms);
        for (int i = 0; i < started; i++)
            pthread_join(workers[i].thread, NULL);
        if (started == test->threads)
            result = sum_up(out, workers, started, seconds);
        else
            cli_message("cannot start %d threads", test->threads), result = CLI_OTHER;
    }
    if (busy)
        rowlock_release(&busy, NULL);
    free(workers);
    return result;
}
