/* SPDX-License-Identifier: MIT
 *
 * The simulator: the real core, one system thread, and a seed that decides everything else. What is
 * real and what is modelled stands in README.md. */
#ifndef SIM_H
#define SIM_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "clock.h"
#include "rowlock/driver.h"

/* ---- random numbers: one stream for each part, so that a change in one leaves the others ---- */

typedef struct sim_rng {
    uint64_t state;
} sim_rng;

static inline uint64_t rng_next(sim_rng *rng)
{
    uint64_t z = rng->state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* 0 to limit - 1. */
static inline int64_t rng_below(sim_rng *rng, int64_t limit)
{
    return limit < 2 ? 0 : (int64_t)(rng_next(rng) % (uint64_t)limit);
}

static inline int64_t rng_between(sim_rng *rng, int64_t least, int64_t most)
{
    return least + rng_below(rng, most - least + 1);
}

/* In so many of a million cases. */
static inline int rng_chance(sim_rng *rng, int64_t per_million)
{
    return per_million > 0 && rng_below(rng, 1000000) < per_million;
}

/* ---- faults, what they are called, and how often each is wanted and was seen ---- */

#define SIM_FAULTS(X)                                             \
    X(DELAY, "delay", "a message takes up to a second")           \
    X(DROP_REQUEST, "drop-request", "a request is lost")          \
    X(DROP_ANSWER, "drop-answer", "an answer is lost")            \
    X(LATE, "late", "a request arrives after its call was over")  \
    X(REPEAT, "repeat", "a request arrives twice")                \
    X(CUT, "cut", "a connection is reset")                        \
    X(PARTITION, "partition", "a process reaches nobody")         \
    X(REFUSED, "refused", "a connection is refused")              \
    X(LIMIT, "limit", "the server has no connection left")        \
    X(SLOW_DISK, "slow-disk", "a commit takes long")              \
    X(CRASH, "crash", "the server loses what is not durable")     \
    X(CLOCK_BACK, "clock-back", "the server's clock is set back") \
    X(DEADLOCK, "deadlock", "the database asks for a retry")      \
    X(ERROR, "error", "the database refuses")                     \
    X(NO_TICKET, "no-ticket", "no ticket is to be had")           \
    X(STRANGER, "stranger", "somebody else locks a row")          \
    X(STALL, "stall", "a thread is not scheduled for a while")    \
    X(PAUSE, "pause", "a process is stopped and goes on")         \
    X(KILL, "kill", "a process is killed")                        \
    X(EXIT, "exit", "a process ends without rowlock_close()")     \
    X(FORK, "fork", "a process is forked")                        \
    X(MEMORY, "memory", "an allocation fails")                    \
    X(DESCRIPTORS, "descriptors", "there is no descriptor left")  \
    X(THREADS, "threads", "a thread cannot be started")           \
    X(SPURIOUS, "spurious", "a wait ends for no reason")

enum sim_fault {
#define SIM_FAULT_ENUM(name, word, text) FAULT_##name,
    SIM_FAULTS(SIM_FAULT_ENUM)
#undef SIM_FAULT_ENUM
        FAULTS
};

/* What a run is made of; all of it follows from the seed. */
typedef struct sim_config {
    uint64_t seed;
    int64_t length_us;
    int processes, threads, names; /* threads: of each process, at most */
    int64_t chance[FAULTS];        /* per million; of what happens by the hour: of it at all */
    int64_t preempt;               /* per million of the places at which a thread may be */
    int64_t trip_us;               /* one way, as a rule */
    int64_t think_us;              /* between two operations of a thread, at most */
    int64_t drift_ppm[8];          /* of each process's clock, against the server's */
    uint32_t limit; /* connections that the server has for each process; 0: no limit */
    int has_queue, has_exchange, has_one_writer, has_tx;
    int has_tables; /* from the beginning */
} sim_config;

extern sim_config sim;
extern uint64_t sim_counts[FAULTS];
extern uint64_t sim_grants; /* handles that were given out */

/* Does it happen now? Counted. */
int sim_fault(enum sim_fault fault, sim_rng *rng);
void sim_note_fault(enum sim_fault fault);

/* ---- the scheduler (sched.c) ---- */

typedef struct sim_task sim_task;
typedef struct sim_process sim_process;

extern int64_t sim_now; /* true time, in microseconds; nobody in the world reads it */
extern uint64_t sim_steps;
extern sim_rng sim_schedule, sim_network, sim_values, sim_trouble;

void sched_reset(void);

/* A thread of this process. NULL: too many. */
sim_task *sched_start(sim_process *process, const char *name, void *(*run)(void *arg), void *arg);

/* Runs the world until `end`, or until all tasks but those of the library are done, or something
 * has failed. */
void sched_run(int64_t end_us, int (*is_over)(void));

/* From a task: another may run here. */
void sched_yield_point(void);

/* From a task: waits until something with this key is woken, one of the events is set, or the
 * time, true time, has come: 0. */
int sched_wait(const void *key, const int *events, int n, int64_t until_us);
void sched_wake(const void *key, int all);
void sched_wake_event(int event);

sim_task *sched_self(void); /* NULL: not in a task */
sim_process *sched_process(void);
void sched_kill(sim_process *process); /* all its tasks, at once; not from one of them */
int sched_is_done(const sim_task *task);
uint64_t sched_number(const sim_task *task);
sim_task *sched_by_number(uint64_t number);
int *sched_cancel_depth(void);
const char *sched_name(const sim_task *task);
void sched_call(const char *what); /* what the task is doing, for the trace; NULL: nothing */
int sched_count(const sim_process *process); /* tasks that are not done */
void sched_describe(FILE *out);

/* From anywhere: fn(arg) is called at that time, by the scheduler. */
void sched_at(int64_t at_us, void (*fn)(void *arg), void *arg);

/* No time passes, nobody else runs: for the invariants, which call the library. The process whose
 * clock and number count. */
void sched_freeze(sim_process *process);
void sched_thaw(void);

/* ---- processes (process.c) ---- */

struct sim_process {
    int index; /* of the configuration: the same after a restart */
    int pid;
    int generation;
    int is_dead, is_stranger;
    int64_t paused_until_us;      /* true time */
    int64_t offset_us, drift_ppm; /* of its clock */
    int64_t stalled_us;           /* for so long it, or threads of it, were not run in all, */
    int64_t stall_end_us;         /* and until this true time, which is counted already */
    int64_t partitioned_until_us;
    int64_t next_malloc_failure; /* allocations until one fails; 0: none does */
    uint32_t sessions;
    void (*at_exit)(void);
    void *app; /* workload.c's */
};

enum { MOST_PROCESSES = 200 };
extern sim_process *sim_processes[MOST_PROCESSES];
extern size_t sim_process_count;

sim_process *process_new(int index);
int64_t process_clock(const sim_process *process);
int64_t process_true_time(const sim_process *process,
                          int64_t local_us);          /* of its clock's reading */
extern int64_t process_last_stall_us;                 /* the end of the last one of any process */
int64_t process_stalled(const sim_process *process);  /* until now */
void process_stall(sim_process *process, int64_t us); /* a thread of it is not run */
void process_pause(sim_process *process, int64_t us);

/* ---- memory (memory.c) ---- */

void memory_reset(void);
void memory_forget(const sim_process *process); /* it was killed: nothing of it has leaked */
size_t memory_leaks(char *out, size_t size);    /* of processes that live */
void *sim_alloc(size_t size); /* of the simulator's own, zeroed, until the end of the run */
void *sim_grow(void *memory, size_t size); /* as realloc(), never NULL */

/* ---- events and threads (seam.c) ---- */

void seam_reset(void);
size_t seam_events(const sim_process *process); /* descriptors that are open */
int seam_is_set(int event);
void seam_forget(const sim_process *process);

/* ---- failing (trace.c, invariants.c) ---- */

/* Something that must not be. The first one counts; the run ends soon. */
void sim_fail(const char *invariant, const char *format, ...) __attribute__((format(printf, 2, 3)));
extern char sim_failed[32], sim_failure[512]; /* which, and what; empty: none */

extern int sim_is_traced;
extern uint64_t sim_digest; /* of all that has happened */
void trace(const char *format, ...) __attribute__((format(printf, 1, 2)));
void digest(uint64_t value);

/* ---- options of this process (main.c) ---- */

int sim_skips(uint64_t operation); /* was dropped by the minimiser */

#endif
