/* SPDX-License-Identifier: MIT
 *
 * A tenure of a worker's thread, and the records of it. */
#ifndef PROOF_HOLD_H
#define PROOF_HOLD_H

#include "work.h"

struct hold {
    struct work *work;
    struct store *store;
    rowlock_lock *lock;
    uint32_t name;
    uint64_t fence;
    int64_t ttl_ms;
    int is_lost;
    int is_full; /* the history */
};

/* The library has said that it is held. */
void hold_granted(struct hold *hold, uint64_t began_ns);

/* A call that began then was no success. */
void hold_failed(struct hold *hold, uint64_t began_ns, int status);

/* Asks the library whether it is held, and for how long; 1 if it is. */
int hold_check(struct hold *hold);

/* It is about to be released. */
void hold_releases(struct hold *hold, uint64_t at_ns);

/* A write to a counter: HISTORY_GUARDED or HISTORY_FENCED. */
void hold_write(struct hold *hold, enum history_kind kind, uint64_t version,
                enum history_stage stage);

#endif
