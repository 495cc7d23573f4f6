/* SPDX-License-Identifier: MIT */
#include "run.h"

#include <stdlib.h>
#include <string.h>

#include "workload.h"

static const sim_cut *cut;
static sim_result *result;

static const char *const words[FAULTS] = {
#define SIM_FAULT_WORD(name, word, text) word,
    SIM_FAULTS(SIM_FAULT_WORD)
#undef SIM_FAULT_WORD
};

static const char *const texts[FAULTS] = {
#define SIM_FAULT_TEXT(name, word, text) text,
    SIM_FAULTS(SIM_FAULT_TEXT)
#undef SIM_FAULT_TEXT
};

const char *fault_word(int fault)
{
    return words[fault];
}

const char *fault_text(int fault)
{
    return texts[fault];
}

int fault_by_word(const char *word, size_t length)
{
    for (int i = 0; i < FAULTS; i++) {
        if (strlen(words[i]) == length && memcmp(words[i], word, length) == 0)
            return i;
    }
    return -1;
}

static int by_number(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

int sim_skips(uint64_t operation)
{
    int is_listed = cut->n_skipped > 0 && bsearch(&operation, cut->skipped, cut->n_skipped,
                                                  sizeof operation, by_number) != NULL;

    if (is_listed != cut->is_only)
        return 1;
    if (result->n_done < MOST_SKIPPED)
        result->done[result->n_done++] = operation;
    return 0;
}

/* How often each happens where it does; per million. */
static const int64_t rates[FAULTS] = {
    [FAULT_DELAY] = 20000,      [FAULT_DROP_REQUEST] = 5000, [FAULT_DROP_ANSWER] = 5000,
    [FAULT_LATE] = 4000,        [FAULT_REPEAT] = 8000,       [FAULT_CUT] = 8000,
    [FAULT_PARTITION] = 20000,  [FAULT_REFUSED] = 100000,    [FAULT_SLOW_DISK] = 10000,
    [FAULT_CRASH] = 15000,      [FAULT_CLOCK_BACK] = 20000,  [FAULT_DEADLOCK] = 10000,
    [FAULT_ERROR] = 3000,       [FAULT_NO_TICKET] = 20000,   [FAULT_STRANGER] = 40000,
    [FAULT_STALL] = 1000,       [FAULT_PAUSE] = 40000,       [FAULT_KILL] = 10000,
    [FAULT_EXIT] = 5000,        [FAULT_FORK] = 20000,        [FAULT_MEMORY] = 3000,
    [FAULT_DESCRIPTORS] = 5000, [FAULT_THREADS] = 50000,     [FAULT_SPURIOUS] = 20000,
};

/* A quarter of all runs has no faults, a quarter one kind, the others some kinds. */
static void choose_faults(sim_rng *rng)
{
    int64_t kind = rng_below(rng, 4);

    if (kind == 1) {
        int one = (int)rng_below(rng, FAULTS);

        sim.chance[one] = rates[one] * rng_between(rng, 1, 4);
    }
    for (int i = 0; kind >= 2 && i < FAULTS; i++) {
        if (rng_below(rng, kind == 2 ? 8 : 3) == 0)
            sim.chance[i] = rates[i] * rng_between(rng, 1, 3) / 2;
    }
    sim.limit = rng_below(rng, 8) == 0 ? (uint32_t)rng_between(rng, 1, 3) : 0;
}

static void configure(uint64_t seed)
{
    static const int64_t preempts[] = {2000, 20000, 100000, 400000};
    sim_rng rng = {seed ^ UINT64_C(0x5eed)};

    memset(&sim, 0, sizeof sim);
    sim.seed = seed;
    sim.length_us = rng_between(&rng, 5, 40) * 1000000;
    sim.processes = (int)rng_between(&rng, 1, 4);
    sim.threads = (int)rng_between(&rng, 1, 5);
    sim.names = (int)rng_between(&rng, 1, 5);
    sim.preempt = preempts[rng_below(&rng, 4)];
    sim.trip_us = rng_between(&rng, 50, 2000);
    sim.think_us = rng_below(&rng, 4) == 0 ? 50000 : rng_between(&rng, 200000, 1500000);
    for (int i = 0; i < 8; i++)
        sim.drift_ppm[i] = rng_between(&rng, -20000, 20000);
    sim.has_queue = rng_below(&rng, 4) != 0;
    sim.has_exchange = rng_below(&rng, 2) == 0;
    sim.has_one_writer = rng_below(&rng, 4) == 0;
    sim.has_tx = rng_below(&rng, 3) == 0;
    sim.has_tables = rng_below(&rng, 8) != 0;
    choose_faults(&rng);
    if (sim.limit != 0)
        sim.has_tx = 0;
    if (rng_below(&rng, 12) == 0)
        sim.names = 16;
    if (rng_below(&rng, 24) == 0) { /* a crowd, whose operations travel together */
        sim.processes = (int)rng_between(&rng, 1, 2);
        sim.threads = 48;
        sim.think_us = rng_between(&rng, 1000, 50000);
        sim.length_us = rng_between(&rng, 1, 3) * 1000000;
    }
    for (int i = 0; i < FAULTS; i++) {
        if (cut->without[i])
            sim.chance[i] = 0;
    }
    if (cut->without[FAULT_LIMIT])
        sim.limit = 0;
    if (cut->length_us > 0 && cut->length_us < sim.length_us)
        sim.length_us = cut->length_us;
    if (cut->processes > 0 && cut->processes < sim.processes)
        sim.processes = cut->processes;
    if (cut->threads > 0 && cut->threads < sim.threads)
        sim.threads = cut->threads;
}

void run_world(sim_result *out, uint64_t seed, const sim_cut *what)
{
    cut = what;
    result = out;
    memset(out, 0, offsetof(sim_result, done));
    configure(seed);
    memset(sim_counts, 0, sizeof sim_counts);
    memset(sim_operation_counts, 0, sizeof sim_operation_counts);
    sim_failed[0] = sim_failure[0] = '\0';
    sim_digest = seed;
    sim_grants = 0;
    sim_process_count = 0;
    process_last_stall_us = 0;
    sched_reset();
    memory_reset();
    seam_reset();
    net_reset();
    model_reset();
    invariants_reset();
    workload_start();
    sched_run(sim.length_us + INT64_C(120000000), workload_is_over);
    if (sim_failed[0] == '\0' && !workload_is_over())
        sim_fail("end", "two minutes after the end not all threads have returned");
    if (sim_failed[0] == '\0')
        invariants_at_end();
    memcpy(out->failed, sim_failed, sizeof out->failed);
    memcpy(out->failure, sim_failure, sizeof out->failure);
    out->digest = sim_digest;
    out->steps = sim_steps;
    out->grants = sim_grants;
    out->simulated_us = sim_now;
    memcpy(out->faults, sim_counts, sizeof out->faults);
    memcpy(out->operations, sim_operation_counts, sizeof out->operations);
}
