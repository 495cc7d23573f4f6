/* SPDX-License-Identifier: MIT
 *
 * Two processes on one lock, for the proof of the guard: a holder with a short lease that is
 * stopped in the middle of its work, and a keeper that stops it, takes the lock meanwhile, writes,
 * and lets it go on. Both write their fences to the table {ledger} in transactions of their own.
 * The keeper counts what the database has seen committed, and when. */
#ifndef TEST_GUARD_PAIR_H
#define TEST_GUARD_PAIR_H

#include "native.h"

/* Where the holder is; each of them once in a round, in this order. */
enum stage { STAGE_ACQUIRED = 1, STAGE_BEGUN, STAGE_GUARDED, STAGE_WRITTEN, STAGE_DONE, STAGES };

enum plan {
    PLAN_STOP,  /* stopped at a stage until the keeper has the lock, or could not get it */
    PLAN_ANY,   /* the same, at any time after it was acquired */
    PLAN_RACE,  /* stopped before the guard, let go about when the lease ends */
    PLAN_FORCE, /* stopped before the guard, and the lock forced out of its hands: its own clock
                 * does not know */
    PLAN_WAIT,  /* not stopped: waits itself, guarded, until its lease is over */
    PLANS
};

/* Shared by both and the test. Flags rise, see process_await(). */
struct pair {
    int number;
    unsigned seed;
    pid_t holder;
    int rounds;     /* in: how many */
    unsigned plans; /* in: bits of enum plan to choose from */
    int last_stage; /* in: the last one that the holder is stopped at */
    int guarded;    /* in: 0: leave the guard out */
    int enough;     /* in: end after so many stale commits; 0: never */

    int go, at, resume;     /* number of the round; round * STAGES + stage; number of the round */
    enum plan plan;         /* this round's */
    int pause_at, pause_ms; /* enum stage, 0: nowhere; PLAN_WAIT: how long beyond the lease */
    int64_t ttl_ms;
    uint64_t fence; /* the holder's */

    long played;    /* rounds */
    long taken;     /* the keeper got the lock while the holder was stopped */
    long committed; /* by holders */
    long lost;      /* guards that answered LOST */
    long busy;      /* guards that said: roll back and begin again */
    long late;      /* the holder committed after the keeper was granted the lock */
    long stale;     /* ... and after the keeper had committed, too */
    long undone;    /* guarded, but the COMMIT did not succeed */
    long errors;
    char message[256]; /* the first error's */
};

/* For process_start(); payload is the pair. The holder plays until it is told -1 as a round. */
int pair_hold(void *payload);
int pair_keep(void *payload);

#endif
