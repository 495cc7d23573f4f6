/* SPDX-License-Identifier: MIT
 *
 * A client on a driver with `exchange`, the queue and a gate, a lock "a" that alice holds there,
 * and threads that come and wait for it. */
#ifndef HAND_SCENE_H
#define HAND_SCENE_H

#include "core_test.h"

#include <pthread.h>
#include <stdatomic.h>

#include "core.h"

enum { MOST_COMERS = 4, TTL_MS = 600000 };

struct comer {
    pthread_t thread;
    rowlock_acquire_options options; /* waits for ever, and can be cancelled */
    int goes;                        /* releases at once */
    int place;                       /* the how-manieth to have it, from 0 */
    int status;
    rowlock_lock *lock;
    atomic_int is_started, is_done;
};

extern rowlock_client *client;
extern rowlock_lock *holder;
extern rowlock_cancel *cancel;
extern struct comer comers[MOST_COMERS];

/* What the driver was sent since the start of the case: all but opens, of them exchanges, and the
 * tickets it has given. */
extern atomic_int requests, exchanges, enqueued;

/* Of the last exchange: the bell that was to ring, and the attempt of who acquires. */
extern uint64_t last_ticket;
extern uint8_t last_attempt[ROWLOCK_ATTEMPT_SIZE];

/* How the next exchange ends; and all requests after it. */
extern enum fake_fault exchange_fault;
extern int is_down_after;

/* The gate is behind the database: what is held up there was carried out. */
extern int is_gate_behind;

int scene_set_up(void **state);
int scene_tear_down(void **state);
void scene_open(int has_exchange); /* another client instead, whose alice holds it */
rowlock_counters scene_counters(void);

/* Starts the thread, and returns when it stands in the line, and sleeps if it is the front. */
void come(struct comer *comer);
void join(struct comer *comer);

/* Moves the clock by steps, one for each time that somebody sleeps, until it is served, and joins
 * it. */
void let_time_pass(struct comer *comer, int64_t step_us);

/* Releases the holder's lock in a thread; returns when its exchange is under way, and held up. */
void release_up_to_the_gate(void);

/* Lets it be carried out; what the release has answered. */
int open_gate(void);

/* Until the number is reached; until somebody has slept so many times more. */
void await(atomic_int *number, int value);
void await_sleeps(int n);

#endif
