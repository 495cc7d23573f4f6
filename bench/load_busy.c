/* SPDX-License-Identifier: MIT
 *
 * Somebody holds the lock all the time; the others ask for it and are told no. The first worker is
 * the holder. */
#include <time.h>

#include "loads.h"

#define NAME "bench-busy"

static int prepare(bench_worker *w)
{
    int answer = bench_warm(w);

    if (answer != BENCH_OK || w->index > 0)
        return answer;
    return w->job->rival->acquire(w->session, NAME, 0);
}

static int hold(const bench_worker *w)
{
    const struct timespec pause = {0, 10000000};

    while (!bench_stopped(w))
        nanosleep(&pause, NULL);
    return BENCH_OK;
}

static int ask(bench_worker *w)
{
    int64_t start = bench_now_ns();
    int answer = w->job->rival->acquire(w->session, NAME, 0);

    if (answer == BENCH_OK)
        return bench_fail("got a lock that somebody else holds");
    if (answer != BENCH_BUSY)
        return answer;
    w->all++;
    if (!bench_stopped(w)) {
        w->done++;
        bench_histogram_add(&w->times, bench_now_ns() - start);
    }
    return BENCH_OK;
}

static int work(bench_worker *w)
{
    int answer;

    if (w->index == 0)
        return hold(w);
    do {
        answer = ask(w);
    } while (!bench_stopped(w) && answer == BENCH_OK);
    return answer;
}

static int finish(bench_worker *w)
{
    return w->index == 0 ? w->job->rival->release(w->session, NAME) : BENCH_OK;
}

static int measure(bench_result *out, const bench_plan *plan, const bench_rival *rival, int count)
{
    bench_job job = {.rival = rival,
                     .workers = count + 1,
                     .seconds = plan->seconds,
                     .prepare = prepare,
                     .work = work,
                     .finish = finish};

    return bench_measure(out, &job);
}

static const int counts[] = {1, 16, 0}, smoke[] = {1, 0};

const bench_load bench_load_busy = {
    .id = LOAD_BUSY,
    .name = "busy",
    .title = "asking for a lock that somebody else holds, without waiting",
    .unit = "threads",
    .counts = counts,
    .smoke_counts = smoke,
    .measure = measure,
};
