/* SPDX-License-Identifier: MIT
 *
 * One run of the world, from its seed. */
#ifndef SIM_RUN_H
#define SIM_RUN_H

#include "sim.h"

enum { MOST_SKIPPED = 20000, MOST_OPERATIONS = 64 };

/* What is left out of a run, by the minimiser or by hand. */
typedef struct sim_cut {
    uint8_t without[FAULTS];
    int64_t length_us; /* 0: the seed's */
    int processes, threads;
    int is_only; /* the list is of those that are left */
    size_t n_skipped;
    uint64_t skipped[MOST_SKIPPED]; /* operations */
} sim_cut;

typedef struct sim_result {
    char failed[32], failure[512];
    uint64_t digest, steps, grants;
    int64_t simulated_us;
    uint64_t faults[FAULTS];
    uint64_t operations[MOST_OPERATIONS];
    size_t n_done;
    uint64_t done[MOST_SKIPPED]; /* operations that were run */
} sim_result;

void run_world(sim_result *out, uint64_t seed, const sim_cut *cut);

const char *fault_word(int fault);
const char *fault_text(int fault);
int fault_by_word(const char *word, size_t length); /* -1: none */

#endif
