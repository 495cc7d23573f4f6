/* SPDX-License-Identifier: MIT
 *
 * What must hold at every moment, whatever goes wrong. */
#ifndef SIM_INVARIANTS_H
#define SIM_INVARIANTS_H

#include "model.h"

/* A handle that the application has, and may ask. */
typedef struct sim_handle {
    struct sim_handle *next;
    rowlock_lock *lock;
    sim_process *process;
    int name; /* index */
    uint64_t fence;
    int64_t since_us;   /* true time at which the call that gave it began, */
    int64_t added_us;   /* and at which it came back */
    int64_t stalled_us; /* of the process, then */
    int is_renewed;     /* and its lease is long enough for a call of the keeper's that hangs */
    int is_exempt;      /* from what is only true without transactions: it was guarded, say */
    int is_told;        /* on_lost was called */
    int has_callback;   /* on_lost is to be called */
    int64_t lost_seen_us, lost_stalled_us; /* when it was first seen lost, and not told */
} sim_handle;

void invariants_reset(void);
sim_handle *invariants_add(rowlock_lock *lock, int name, int64_t since_us);
void invariants_remove(sim_handle *handle);
void invariants_forget(const sim_process *process);

/* A handle that this process has, or NULL. */
const sim_handle *invariants_any(const sim_process *process);

/* After each step of the world. */
void invariants_check(void);

/* A driver's answer says that this tenure is over. */
void invariants_told_lost(const rowlock_op *op);

/* The tenure was ended by force: its holder need not know. */
void invariants_forced(const char *name, uint64_t fence);

/* A thread waits for this name, from now on; or not any more. */
typedef struct sim_wait {
    struct sim_wait *next;
    const sim_process *process;
    int name, is_many;
    int64_t since_us;
} sim_wait;

void invariants_wait(sim_wait *wait, int name, int is_many);
void invariants_wait_over(sim_wait *wait);

/* A call has come back: did it take longer than it may? */
typedef struct sim_call {
    const char *what;
    int64_t start_us, stalled_us; /* by the process's clock; of the process */
    int64_t true_us;
} sim_call;

void call_begins(sim_call *call, const char *what);
void call_ends(const sim_call *call, int rc, int64_t bound_us, int waits_for_nobody);

/* A handle with max_hold_ms is being asked for, or is not any more. What it brings to its tenure
 * stays when the handle is released. */
void invariants_max_hold(int name, int change);
void invariants_max_held(const sim_handle *handle);

/* A loss was told or is asked for. */
void invariants_loss(const sim_handle *handle, int loss);

/* At the end, when all clients are closed. */
void invariants_at_end(void);

const char *sim_name(int index); /* of a lock */

#endif
