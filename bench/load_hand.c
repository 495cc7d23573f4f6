/* SPDX-License-Identifier: MIT
 *
 * One name for all workers, nothing done under it. Counted is how often it changes hands: who takes
 * again what it has just given back has handed nothing over. The times are those from the release
 * (when it is called) to the moment at which somebody else has it. Before the clock starts each has
 * waited a few times, as far as there is time: connections and statements for that are made when
 * they are first needed. */
#include "loads.h"

#define NAME "bench-hand"

static void count(bench_worker *w)
{
    bench_board *board = w->job->board;
    int64_t free_since = atomic_load(&board->free_ns);
    int last = atomic_exchange(&board->last, w->index);

    w->all++;
    if (bench_stopped(w))
        return;
    atomic_fetch_add(&board->extra, 1);
    if (last == w->index || last < 0)
        return;
    w->done++;
    bench_histogram_add(&w->times, bench_now_ns() - free_since);
}

static int warm(bench_worker *w)
{
    enum { ROUNDS = 5 };
    const bench_rival *rival = w->job->rival;
    int answer = bench_warm(w);
    int64_t end = bench_now_ns() + (int64_t)(w->job->seconds * 1e9);

    for (int i = 0; i < ROUNDS && answer == BENCH_OK && bench_now_ns() < end; i++) {
        answer = rival->acquire(w->session, NAME, 1);
        if (answer == BENCH_OK)
            answer = rival->release(w->session, NAME);
    }
    return answer;
}

static int work(bench_worker *w)
{
    const bench_rival *rival = w->job->rival;
    int answer;

    do {
        answer = rival->acquire(w->session, NAME, 1);
        if (answer != BENCH_OK)
            break;
        count(w);
        atomic_store(&w->job->board->free_ns, bench_now_ns());
        answer = rival->release(w->session, NAME);
    } while (!bench_stopped(w) && answer == BENCH_OK);
    return answer;
}

static int measure_as(bench_result *out, const bench_plan *plan, const bench_rival *rival,
                      int contenders, int processes)
{
    bench_job job = {.rival = rival,
                     .workers = contenders,
                     .processes = processes,
                     .seconds = (plan->smoke      ? 1
                                 : contenders > 8 ? 6
                                                  : 2) *
                                plan->seconds,
                     .prepare = warm,
                     .work = work};
    bench_outcome outcome;
    bench_sample sample;

    if (bench_run(&outcome, &job, out->why, sizeof out->why) != BENCH_OK)
        return BENCH_FAILED;
    sample = bench_sample_of(&outcome);
    if (outcome.done > 0) {
        sample.extra[0] = (double)outcome.done / (double)outcome.extra;
        sample.extra[1] = (double)outcome.most * contenders / (double)outcome.done;
    }
    out->samples[out->n++] = sample;
    return BENCH_OK;
}

static int measure(bench_result *out, const bench_plan *plan, const bench_rival *rival, int n)
{
    return measure_as(out, plan, rival, n, 0);
}

static int measure_processes(bench_result *out, const bench_plan *plan, const bench_rival *rival,
                             int n)
{
    return measure_as(out, plan, rival, n, 1);
}

#define SHARE "part of the grants that changed hands"
#define MOST  "most hand-overs to one over the mean"

static const int counts[] = {2, 8, 32, 128, 0}, smoke[] = {2, 0};

const bench_load bench_load_hand = {
    .id = LOAD_HAND,
    .name = "hand-over",
    .title = "one lock for all threads: how often it changes hands",
    .unit = "threads",
    .counts = counts,
    .smoke_counts = smoke,
    .measure = measure,
    .extra = {SHARE, MOST},
};

const bench_load bench_load_hand_proc = {
    .id = LOAD_HAND_PROC,
    .name = "hand-over-processes",
    .title = "one lock for all processes: how often it changes hands",
    .unit = "processes",
    .counts = counts,
    .smoke_counts = smoke,
    .measure = measure_processes,
    .extra = {SHARE, MOST},
};
