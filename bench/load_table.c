/* SPDX-License-Identifier: MIT
 *
 * The cycle in a table of a million old rows, beside that in an empty one: on a name of its own,
 * and on names all over the table. The three are run in turn in each repetition. */
#include <stdio.h>

#include "loads.h"

static int work_random(bench_worker *w)
{
    unsigned random = (unsigned)bench_now_ns();
    uint64_t rows = *(const uint64_t *)w->job->payload;
    char name[32];
    int answer;

    do {
        random = random * 1664525u + 1013904223u;
        snprintf(name, sizeof name, BENCH_ROW_NAME, (unsigned)(((uint64_t)random * rows) >> 32));
        answer = bench_cycle(w, name);
    } while (!bench_stopped(w) && answer == BENCH_OK);
    return answer;
}

static int measure(bench_result *out, const bench_plan *plan, const bench_rival *rival, int count)
{
    bench_rival longer = *rival, shorter = *rival;
    uint64_t rows = plan->rows;
    bench_job job = {.rival = &shorter,
                     .workers = 1,
                     .seconds = plan->seconds,
                     .prepare = bench_warm,
                     .work = bench_cycles,
                     .payload = &rows};
    bench_outcome empty, own, random;
    bench_sample sample;

    (void)count;
    longer.table = BENCH_LONG;
    shorter.table = BENCH_SHORT;
    if (bench_run(&empty, &job, out->why, sizeof out->why) != BENCH_OK)
        return BENCH_FAILED;
    job.rival = &longer;
    if (bench_run(&own, &job, out->why, sizeof out->why) != BENCH_OK)
        return BENCH_FAILED;
    job.work = work_random;
    if (bench_run(&random, &job, out->why, sizeof out->why) != BENCH_OK)
        return BENCH_FAILED;
    sample = bench_sample_of(&own);
    if (empty.done > 0) { /* else the time was too short to tell */
        sample.extra[0] = sample.p50_us / bench_histogram_us(&empty.times, 0.5);
        sample.extra[1] =
            bench_histogram_us(&random.times, 0.5) / bench_histogram_us(&empty.times, 0.5);
    }
    out->samples[out->n++] = sample;
    return BENCH_OK;
}

static const int counts[] = {1, 0};

const bench_load bench_load_table = {
    .id = LOAD_TABLE,
    .name = "table",
    .title = "the cycle in a table of a million rows",
    .unit = "thread",
    .counts = counts,
    .smoke_counts = counts,
    .measure = measure,
    .extra = {"p50 over that in an empty table", "the same on random rows of it"},
};
