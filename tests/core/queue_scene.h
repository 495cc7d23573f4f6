/* SPDX-License-Identifier: MIT
 *
 * What the tests of waiting share: a client of the fake driver with the queue, whose keeper is
 * moved by hand. */
#ifndef QUEUE_SCENE_H
#define QUEUE_SCENE_H

#include "core.h"
#include "core_test.h"
#include "fake_queue.h"

extern rowlock_client *client;
extern rowlock_lock *holder; /* given back at the end, if it is still there */

int queue_set_up(void **state);
int queue_tear_down(void **state);

rowlock_counters counters(void);

#endif
