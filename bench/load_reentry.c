/* SPDX-License-Identifier: MIT
 *
 * Taking a lock that one has already, and giving that hold back. */
#include "loads.h"

static int prepare(bench_worker *w)
{
    char name[32];
    int answer = bench_warm(w);

    bench_own_name(name, w);
    return answer == BENCH_OK ? w->job->rival->acquire(w->session, name, 0) : answer;
}

static int finish(bench_worker *w)
{
    char name[32];

    bench_own_name(name, w);
    return w->job->rival->release(w->session, name);
}

static int measure(bench_result *out, const bench_plan *plan, const bench_rival *rival, int count)
{
    bench_job job = {.rival = rival,
                     .workers = count,
                     .seconds = plan->seconds,
                     .prepare = prepare,
                     .work = bench_cycles,
                     .finish = finish};

    return bench_measure(out, &job);
}

static const int counts[] = {1, 16, 0}, smoke[] = {1, 0};

const bench_load bench_load_reentry = {
    .id = LOAD_REENTRY,
    .name = "re-entry",
    .title = "acquire and release once more what one holds",
    .unit = "threads",
    .counts = counts,
    .smoke_counts = smoke,
    .measure = measure,
};
