/* SPDX-License-Identifier: MIT
 *
 * Processes that queue for one lock in a known order, and what they saw of it. The parent holds the
 * lock while they come: each one starts to wait when the one before is in the queue. They are
 * forked before it has a client, because not every database can be used on both sides of a fork. */
#ifndef TEST_QUEUE_SCENE_H
#define TEST_QUEUE_SCENE_H

#include "fault.h"

enum { QUEUE_MOST = 64 };

/* How one of them waits, and what became of it. Shared with it. */
struct queue_part {
    int64_t ttl_ms, ticket_ms, hold_ms; /* hold_ms -1: until it dies */
    const char *address;                /* NULL: the backend's own */
    int granted;                        /* process_signal(), process_await() */
    int status;                         /* of rowlock_acquire(), then of rowlock_release() */
    int64_t granted_ms;                 /* process_now_ms() */
    uint64_t fence, polled;
    char message[240];
};

struct queue_scene {
    char name[64];
    rowlock_client *client; /* the parent's */
    rowlock_lock *lock;
    int count, joined;
    pid_t pids[QUEUE_MOST];
    struct queue_shared *shared;
};

struct queue_shared {
    char name[64];
    int joined, served;
    int order[QUEUE_MOST]; /* who was served, by number */
    struct queue_part parts[QUEUE_MOST];
};

/* Makes ready so many processes, and the parent takes the lock. Asserts. */
void queue_open(struct queue_scene *scene, const char *what, int count);

/* The next of them comes to the queue. Returns its number when its ticket can be seen. Asserts. */
int queue_join(struct queue_scene *scene, const struct queue_part *how);

/* The parent gives the lock back. Returns when: process_now_ms() before it did so. */
int64_t queue_release(struct queue_scene *scene);

/* Waits until that one has been granted the lock, has ended. Assert that it did so in time and
 * without an error. */
void queue_await_grant(struct queue_scene *scene, int number, int64_t timeout_ms);
void queue_await_end(struct queue_scene *scene, int number, int64_t timeout_ms);

/* Ends it by a signal, and waits until it is dead, if that is what the signal does. */
void queue_kill(struct queue_scene *scene, int number, int signal);

/* Who was served, in the order of it, as "0 2 1". */
void queue_order(const struct queue_scene *scene, char *out, size_t size);

/* Ends all that is left. */
void queue_close(struct queue_scene *scene);

/* Live tickets of the name; the callers' own look. Asserts. */
int queue_waiters(rowlock_client *client, const char *name);

/* Waits until there are so many; -1 after timeout_ms. */
int queue_await_waiters(rowlock_client *client, const char *name, int count, int64_t timeout_ms);

#endif
