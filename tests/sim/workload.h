/* SPDX-License-Identifier: MIT
 *
 * The applications: processes with threads that use everything that is public. */
#ifndef SIM_WORKLOAD_H
#define SIM_WORKLOAD_H

#include "core.h"
#include "invariants.h"

enum { MOST_THREADS = 64, MOST_HELD = 6 };

/* One process's program. */
typedef struct sim_app {
    sim_process *process;
    rowlock_client *client; /* NULL: none now */
    rowlock_options options;
    char owner[32];
    int is_closing; /* nobody begins a call on the client any more */
    int entering;   /* calls that have begun, and may not be inside the library yet */
    int offers;     /* threads that wait for somebody to adopt their lock */
    int running;    /* threads */
    int users;      /* threads that have handles, or may */
    int closed;     /* clients that were closed */
} sim_app;

typedef struct sim_thread sim_thread;

/* A handle and what was asked for with it. */
typedef struct sim_hold {
    sim_handle *handle;
    rowlock_lock *lock; /* NULL: released by its own on_lost */
    sim_thread *thread;
    int is_left_to_callback; /* which releases it */
    int is_released;
    int was_told; /* before the call that acquired it had returned */
    int closed;   /* of the app, when it was acquired */
} sim_hold;

struct sim_thread {
    sim_app *app;
    int index;
    sim_rng rng;        /* of the operation that is under way */
    uint64_t operation; /* its number */
    sim_hold *held[MOST_HELD];
    int n_held;
};

/* Operations, each with how often it is chosen. */
typedef struct sim_operation {
    const char *name;
    int weight;
    void (*run)(sim_thread *t);
    int needs_tx;
} sim_operation;

extern const sim_operation sim_operations[];
extern const size_t sim_operation_count;
extern uint64_t sim_operation_counts[64];
void operations_reset(void);

/* Starts the processes; is everything over? */
void workload_start(void);
int workload_is_over(void);
void workload_kill(sim_process *process);

/* What happens to the world as a whole: one look every so often (nemesis.c). */
void nemesis_start(void);

/* ---- for the operations (workload.c) ---- */

/* A call on the client may begin: else it is being closed. It ends with app_leave(). */
int app_enter(sim_thread *t);
void app_leave(sim_thread *t);

int64_t app_call_us(const sim_app *app); /* call_timeout_ms */
void app_sleep(int64_t us);

sim_hold *hold_new(sim_thread *t);
void hold_add(sim_thread *t, sim_hold *hold, rowlock_lock *lock, int name, int64_t since_us,
              const rowlock_acquire_options *options);
void hold_remove(sim_thread *t, int at);
void release_one(sim_thread *t, int at);
void release_all(sim_thread *t);
void on_lost(rowlock_lock *lock, int loss, void *payload);

#endif
