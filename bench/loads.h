/* SPDX-License-Identifier: MIT
 *
 * What the workloads share. */
#ifndef BENCH_LOADS_H
#define BENCH_LOADS_H

#include "bench.h"

/* Runs the job and adds a sample to the result. */
int bench_measure(bench_result *out, bench_job *job);

/* A name that only this worker uses. */
void bench_own_name(char out[32], const bench_worker *w);

/* Acquire and release, counted. */
int bench_cycle(bench_worker *w, const char *name);

/* Cycles on the worker's own name until it is stopped, at least one. */
int bench_cycles(bench_worker *w);

/* Some cycles on the worker's own name, not counted. */
int bench_warm(bench_worker *w);

extern const bench_load bench_load_cycle, bench_load_hand, bench_load_hand_proc, bench_load_busy,
    bench_load_reentry, bench_load_renew, bench_load_beside, bench_load_table, bench_load_reap;

#endif
