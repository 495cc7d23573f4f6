/* SPDX-License-Identifier: MIT
 *
 * The cycle beside many locks that the same client holds and renews, and without them, in turn in
 * each repetition; and what it takes to ask for the client's numbers then. The leases are so long
 * that next to none of them is renewed meanwhile: what the client itself does for them is measured,
 * not the database. */
#include "loads.h"

enum { TTL_MS = 600000, LOOKS = 1000 };

static int prepare(bench_worker *w)
{
    const size_t *held = w->job->payload;
    int answer = *held == 0 ? BENCH_OK : w->job->rival->hold(w->session, *held, TTL_MS);

    return answer == BENCH_OK ? bench_warm(w) : answer;
}

/* Nanoseconds of all looks, in the board. */
static int finish(bench_worker *w)
{
    int64_t start = bench_now_ns();
    int answer = BENCH_OK;

    for (int i = 0; i < LOOKS && answer == BENCH_OK; i++)
        answer = w->job->rival->look(w->session);
    atomic_store(&w->job->board->free_ns, bench_now_ns() - start);
    return answer == BENCH_OK ? w->job->rival->drop(w->session) : answer;
}

static int measure(bench_result *out, const bench_plan *plan, const bench_rival *rival, int count)
{
    size_t held = 0;
    bench_job job = {.rival = rival,
                     .workers = 1,
                     .seconds = plan->seconds,
                     .prepare = prepare,
                     .work = bench_cycles,
                     .finish = finish,
                     .payload = &held};
    bench_outcome alone, beside;
    bench_sample sample;

    if (bench_run(&alone, &job, out->why, sizeof out->why) != BENCH_OK)
        return BENCH_FAILED;
    held = plan->smoke ? (size_t)plan->held : (size_t)count;
    if (bench_run(&beside, &job, out->why, sizeof out->why) != BENCH_OK)
        return BENCH_FAILED;
    sample = bench_sample_of(&beside);
    if (alone.done > 0) /* else the time was too short to tell */
        sample.extra[0] = sample.p50_us / bench_histogram_us(&alone.times, 0.5);
    sample.extra[1] = (double)beside.extra_ns / 1e3 / LOOKS;
    out->samples[out->n++] = sample;
    return BENCH_OK;
}

static const int counts[] = {10000, 100000, 0}, smoke[] = {200, 0};

const bench_load bench_load_beside = {
    .id = LOAD_BESIDE,
    .name = "beside",
    .title = "the cycle beside many locks that the same client renews",
    .unit = "locks",
    .counts = counts,
    .smoke_counts = smoke,
    .measure = measure,
    .extra = {"p50 over that without them", "microseconds of a rowlock_stats()"},
};
