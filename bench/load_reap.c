/* SPDX-License-Identifier: MIT
 *
 * Deleting old rows, a million to begin with, while others lock; and the same others without that,
 * in turn. The last worker is the reaper. The slowest percent of a third of a second is chance, so
 * this takes longer than other measurements. */
#include "loads.h"

/* When nothing is left the measurement ends. Keeps its own time: a call may take long. */
static int reap(const bench_worker *w)
{
    bench_board *board = w->job->board;
    int64_t start = bench_now_ns();
    uint64_t rows;
    int answer;

    do {
        answer = w->job->rival->reap(w->session, &rows);
        atomic_fetch_add(&board->extra, rows);
    } while (!bench_stopped(w) && rows > 0 && answer == BENCH_OK);
    atomic_store(&board->free_ns, bench_now_ns() - start);
    atomic_store(&board->stop, 1);
    return answer;
}

static int work(bench_worker *w)
{
    return w->index == w->job->workers - 1 ? reap(w) : bench_cycles(w);
}

static int prepare(bench_worker *w)
{
    return w->index == w->job->workers - 1 ? BENCH_OK : bench_warm(w);
}

static int measure(bench_result *out, const bench_plan *plan, const bench_rival *rival, int count)
{
    bench_rival longer = *rival;
    bench_job job = {.rival = &longer,
                     .workers = count,
                     .seconds = plan->smoke ? 0.25 : 12 * plan->seconds,
                     .prepare = bench_warm,
                     .work = bench_cycles};
    bench_outcome without, with;
    bench_sample sample;

    longer.table = BENCH_LONG;
    if (bench_run(&without, &job, out->why, sizeof out->why) != BENCH_OK)
        return BENCH_FAILED;
    job.workers++;
    job.prepare = prepare;
    job.work = work;
    if (bench_run(&with, &job, out->why, sizeof out->why) != BENCH_OK)
        return BENCH_FAILED;
    sample = bench_sample_of(&with);
    sample.rate = (double)with.extra / ((double)with.extra_ns / 1e9);
    if (without.done > 0) { /* else the time was too short to tell */
        sample.extra[0] = sample.p99_us / bench_histogram_us(&without.times, 0.99);
        sample.extra[1] = (double)with.done / with.seconds * without.seconds / (double)without.done;
    }
    out->samples[out->n++] = sample;
    return BENCH_OK;
}

static const int counts[] = {4, 0};

const bench_load bench_load_reap = {
    .id = LOAD_REAP,
    .name = "reap",
    .title = "rows deleted in a second, while others lock; times are theirs",
    .unit = "threads",
    .counts = counts,
    .smoke_counts = counts,
    .measure = measure,
    .extra = {"p99 over that without the reaper", "their rate over that without"},
};
