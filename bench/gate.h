/* SPDX-License-Identifier: MIT
 *
 * Where workers meet, threads or processes alike: each phase begins when all of them have said that
 * the one before is over. */
#ifndef BENCH_GATE_H
#define BENCH_GATE_H

#include <pthread.h>

typedef struct bench_gate {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    int phase;   /* set by the one who leads */
    int arrived; /* workers that have finished it */
    int workers;
} bench_gate;

/* In memory that all of them share. 0, or -1. */
int bench_gate_init(bench_gate *gate, int workers);

/* A worker's: its part of the phase is over; returns when the next one, `phase`, has begun. */
void bench_gate_arrive(bench_gate *gate, int phase);

/* The leader's: until all have arrived, at most so long; then 0, else -1. */
int bench_gate_gather(bench_gate *gate, double seconds);
void bench_gate_open(bench_gate *gate, int phase);

#endif
