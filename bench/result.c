/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "loads.h"

static double per_operation(int64_t amount, uint64_t done)
{
    return amount < 0 || done == 0 ? -1 : (double)amount / (double)done;
}

bench_sample bench_sample_of(const bench_outcome *o)
{
    return (bench_sample){
        .rate = o->seconds > 0 ? (double)o->done / o->seconds : 0,
        .p50_us = bench_histogram_us(&o->times, 0.5),
        .p99_us = bench_histogram_us(&o->times, 0.99),
        .p999_us = bench_histogram_us(&o->times, 0.999),
        .client_us = per_operation(o->usage.client_ns, o->all) / 1000,
        .server_us = per_operation(o->usage.server_ns, o->all) / 1000,
        .requests = per_operation(o->usage.requests, o->all),
        .statements = per_operation(o->usage.statements, o->all),
        .all = (double)o->all,
    };
}

int bench_measure(bench_result *out, bench_job *job)
{
    bench_outcome outcome;

    if (bench_run(&outcome, job, out->why, sizeof out->why) != BENCH_OK)
        return BENCH_FAILED;
    out->samples[out->n++] = bench_sample_of(&outcome);
    return BENCH_OK;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

bench_spread bench_spread_of(const bench_result *r, size_t offset)
{
    double values[BENCH_REPEATS_MAX];
    int n = r->n;

    if (n == 0)
        return (bench_spread){0};
    for (int i = 0; i < n; i++)
        memcpy(&values[i], (const char *)&r->samples[i] + offset, sizeof values[i]);
    qsort(values, (size_t)n, sizeof *values, compare);
    return (bench_spread){(values[n / 2] + values[(n - 1) / 2]) / 2, values[0], values[n - 1]};
}

const bench_result *bench_find(const bench_results *all, const bench_rival *rival,
                               const bench_load *load, int count)
{
    for (size_t i = 0; i < all->n; i++) {
        const bench_result *r = &all->items[i];

        if (r->rival == rival && r->load == load && r->count == count)
            return r;
    }
    return NULL;
}

double bench_ratio(const bench_results *all, const bench_result *r, const char *name)
{
    const bench_rival *other = name == NULL ? NULL : bench_rival_named(name);
    const bench_result *base = other == NULL ? NULL : bench_find(all, other, r->load, r->count);
    double rate = base == NULL ? 0 : BENCH_SPREAD(base, rate).median;

    return rate > 0 ? BENCH_SPREAD(r, rate).median / rate : 0;
}
