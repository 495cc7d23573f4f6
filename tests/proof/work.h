/* SPDX-License-Identifier: MIT
 *
 * What one thread of a worker does, again and again: acquires a lock, believes in it, writes, and
 * releases it; all of it recorded. */
#ifndef PROOF_WORK_H
#define PROOF_WORK_H

#include "control.h"
#include "history.h"
#include "store.h"

struct work {
    const struct backend_kind *kind;
    const char *address;
    rowlock_client *client;
    struct history *history;
    struct control *control;
    uint32_t process, slot;
    uint16_t thread;
    unsigned seed;
    const int *stop;                     /* of the process */
    unsigned char in_doubt[PROOF_NAMES]; /* a call of this thread had an unknown outcome */
};

/* Until control->stop or *stop. NULL, or a text: the run must not go on. */
const char *work_on(struct work *work);

#endif
