/* SPDX-License-Identifier: MIT */
#include <stdarg.h>
#include <stdio.h>
#include <time.h>

#include "bench.h"

enum { SUB_BITS = 5, SUBS = 1 << SUB_BITS };

int64_t bench_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Below SUBS each nanosecond has a bucket of its own. */
static int bucket_of(int64_t ns)
{
    int top, index;

    if (ns < SUBS)
        return ns < 0 ? 0 : (int)ns;
    top = 63 - __builtin_clzll((unsigned long long)ns);
    index = (top - SUB_BITS + 1) * SUBS + (int)(ns >> (top - SUB_BITS)) - SUBS;
    return index < BENCH_BUCKETS ? index : BENCH_BUCKETS - 1;
}

/* The middle of a bucket. */
static double value_of(int index)
{
    int top = index / SUBS;
    double width = top <= 1 ? 1 : (double)(1LL << (top - 1));

    if (top == 0)
        return index;
    return (SUBS + index % SUBS) * width + width / 2;
}

void bench_histogram_add(bench_histogram *h, int64_t ns)
{
    h->count++;
    h->buckets[bucket_of(ns)]++;
}

void bench_histogram_merge(bench_histogram *to, const bench_histogram *from)
{
    to->count += from->count;
    for (int i = 0; i < BENCH_BUCKETS; i++)
        to->buckets[i] += from->buckets[i];
}

double bench_histogram_us(const bench_histogram *h, double q)
{
    uint64_t seen = 0, wanted = (uint64_t)((double)h->count * q);

    for (int i = 0; i < BENCH_BUCKETS && h->count > 0; i++) {
        seen += h->buckets[i];
        if (seen > wanted || seen == h->count)
            return value_of(i) / 1000;
    }
    return 0;
}

static _Thread_local char why[300];

int bench_fail(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(why, sizeof why, format, arguments);
    va_end(arguments);
    return BENCH_FAILED;
}

const char *bench_why(void)
{
    return why;
}
