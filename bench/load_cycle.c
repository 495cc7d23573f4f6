/* SPDX-License-Identifier: MIT
 *
 * Acquire and release, each worker on a name of its own that nobody else wants. */
#include <stdio.h>

#include "loads.h"

void bench_own_name(char out[32], const bench_worker *w)
{
    snprintf(out, 32, "bench-%d", w->index);
}

static int cycle(bench_worker *w, const char *name, int waits)
{
    const bench_rival *rival = w->job->rival;
    int64_t start = bench_now_ns();
    int answer = rival->acquire(w->session, name, waits);

    if (answer == BENCH_OK)
        answer = rival->release(w->session, name);
    if (answer != BENCH_OK)
        return answer;
    w->all++;
    if (!bench_stopped(w)) {
        bench_histogram_add(&w->times, bench_now_ns() - start);
        w->done++;
    }
    return BENCH_OK;
}

int bench_cycle(bench_worker *w, const char *name)
{
    return cycle(w, name, 0);
}

/* Rows are made, statements prepared, plans chosen. Waits: when many processes begin at once,
 * SQLite's file may be busy for longer than a try takes. */
int bench_warm(bench_worker *w)
{
    char name[32];
    int answer = BENCH_OK;

    bench_own_name(name, w);
    for (int i = 0; i < 8 && answer == BENCH_OK; i++)
        answer = cycle(w, name, 1);
    w->done = w->all = 0;
    w->times = (bench_histogram){0};
    return answer;
}

int bench_cycles(bench_worker *w)
{
    char name[32];
    int answer;

    bench_own_name(name, w);
    do {
        answer = bench_cycle(w, name);
    } while (!bench_stopped(w) && answer == BENCH_OK);
    return answer;
}

static int measure(bench_result *out, const bench_plan *plan, const bench_rival *rival, int count)
{
    bench_job job = {.rival = rival,
                     .workers = count,
                     .seconds = (count > 16 ? 2 : 1) * plan->seconds,
                     .prepare = bench_warm,
                     .work = bench_cycles};

    return bench_measure(out, &job);
}

static const int counts[] = {1, 4, 16, 64, 256, 0}, smoke[] = {1, 4, 0};

const bench_load bench_load_cycle = {
    .id = LOAD_CYCLE,
    .name = "cycle",
    .title = "acquire and release a lock that nobody else wants",
    .unit = "threads",
    .counts = counts,
    .smoke_counts = smoke,
    .measure = measure,
};
