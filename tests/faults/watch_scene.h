/* SPDX-License-Identifier: MIT
 *
 * Locks that one client holds and renews in the background, what their owner is told about them,
 * and what the database says.
 *
 * ROWLOCK_TEST_WATCH_LONG=1 in the environment: the programs watch_*.c run for as long as somebody
 * has who wants to be sure; each says at its top what that means. */
#ifndef TEST_WATCH_SCENE_H
#define TEST_WATCH_SCENE_H

#include "fault.h"

#include <stdatomic.h>

int watch_is_long(void);

/* Under valgrind, which runs one thread at a time and each some thirty times slower: programs then
 * do less at once. */
int watch_is_slowed(void);

/* What one lock's on_lost was told. */
struct watch_told {
    atomic_int count, loss;
    _Atomic int64_t at_ms; /* process_now_ms(), of the first time */
};

struct watch_scene {
    rowlock_client *client;
    size_t n;
    const char **names; /* in byte order, all with the same stem */
    char (*texts)[64];
    char stem[64];
    rowlock_lock **locks;
    uint64_t *fences;
    struct watch_told *told;
    atomic_int told_count;                            /* locks, not calls */
    atomic_int renewals, lost, errors, reconnections; /* events */
    char message[280];                                /* of the first error, for the log */
    atomic_long renewed;                              /* locks, in all renewals */
};

/* Opens a client (the options may be NULL; its events are the scene's) and takes n locks that are
 * renewed. Asserts. Give back with watch_leave(). */
void watch_hold(struct watch_scene *scene, const char *address, const rowlock_options *options,
                size_t n, int64_t ttl_ms);

/* Releases all that is not released, without a look at the answers, closes and frees. */
void watch_leave(struct watch_scene *scene);

/* Waits until the counter is at least `value`; -1 after timeout_ms. */
int watch_await(atomic_int *counter, int value, int64_t timeout_ms);

/* Waits until every lock that is not lost has been renewed since. Asserts. */
void watch_await_renewed(struct watch_scene *scene, int64_t timeout_ms);

/* Asserts about each lock, by what `direct` sees in the database: either it is held with its fence
 * and nothing was told; or its loss was told, once, before its lease had ended by the database's
 * clock, and all functions agree. Returns how many are held. */
size_t watch_verify(struct watch_scene *scene, rowlock_client *direct);

/* Releases them all; those lost answer LOST, the others OK. Asserts. */
void watch_release(struct watch_scene *scene);

#endif
