/* SPDX-License-Identifier: MIT
 *
 * Many held locks kept alive. rowlock does so in the background, at its own pace (three times in a
 * lease); the others are driven as fast as they go. So what compares is not the rate but
 * the processor time and the requests of a renewal. */
#include "loads.h"

typedef struct crowd {
    size_t held;
    int ttl_ms;
} crowd;

static int prepare(bench_worker *w)
{
    const crowd *c = w->job->payload;

    return w->job->rival->hold(w->session, c->held, c->ttl_ms);
}

/* Whole rounds, also one that ends late: there are few. */
static int work(bench_worker *w)
{
    do {
        int64_t start = bench_now_ns();
        uint64_t renewed = 0;
        int answer = w->job->rival->renew(w->session, &renewed);

        if (answer != BENCH_OK)
            return answer;
        w->all += renewed;
        w->done += renewed;
        bench_histogram_add(&w->times, bench_now_ns() - start);
        atomic_fetch_add(&w->job->board->free_ns, bench_now_ns() - start);
    } while (!bench_stopped(w));
    return BENCH_OK;
}

static int finish(bench_worker *w)
{
    return w->job->rival->drop(w->session);
}

static int measure(bench_result *out, const bench_plan *plan, const bench_rival *rival, int count)
{
    crowd c = {plan->smoke ? (size_t)plan->held : (size_t)count, plan->smoke ? 4500 : 9000};
    double round = rival->is_paced ? 1.3 * c.ttl_ms / 3000 : 0;
    bench_job job = {.rival = rival,
                     .workers = 1,
                     .seconds = plan->seconds > round ? plan->seconds : round,
                     .prepare = prepare,
                     .work = work,
                     .finish = finish,
                     .payload = &c};
    bench_outcome outcome;
    bench_sample sample;

    if (bench_run(&outcome, &job, out->why, sizeof out->why) != BENCH_OK)
        return BENCH_FAILED;
    sample = bench_sample_of(&outcome);
    sample.rate = (double)outcome.done / ((double)outcome.extra_ns / 1e9);
    out->samples[out->n++] = sample;
    return BENCH_OK;
}

static const int counts[] = {10000, 0}, smoke[] = {200, 0};

const bench_load bench_load_renew = {
    .id = LOAD_RENEW,
    .name = "renew",
    .title = "held locks kept alive; times are those of a round over all of them",
    .unit = "locks",
    .counts = counts,
    .smoke_counts = smoke,
    .measure = measure,
};
