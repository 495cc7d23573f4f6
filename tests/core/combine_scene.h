/* SPDX-License-Identifier: MIT
 *
 * Threads of one client that ask at the same time, on a driver that can be held up and that notes
 * what it was sent. The program is linked with --wrap=rlk_cond_wait and --wrap=rlk_word_wait:
 * whoever waits for another thread does so by the fake clock, so that patience ends when the case
 * says so. */
#ifndef COMBINE_SCENE_H
#define COMBINE_SCENE_H

#include "core_test.h"

#include <pthread.h>
#include <stdatomic.h>

#include "core.h"

enum { MOST_ASKERS = 64, MOST_REQUESTS = 400 };

/* Those who wait for a request lose patience after this. */
#define PATIENCE_US (100 * MS)

struct asker {
    pthread_t thread;
    int (*ask)(struct asker *asker);
    char name[ROWLOCK_NAME_MAX + 1], owner[32];
    rowlock_acquire_options options; /* the owner is the asker's */
    rowlock_lock *lock;
    atomic_int has_waited, has_returned;
    int status;
    rowlock_error err;
};

struct request {
    rlk_kind kind;      /* of the last operation */
    size_t n, releases; /* so many of them, in one with acquires */
    int is_sorted;      /* and no name is twice in a half of it */
    uint32_t timeout_ms;
};

extern rowlock_client *client;
extern struct asker askers[MOST_ASKERS];
extern struct request requests[MOST_REQUESTS];
extern size_t request_count;

/* A client on that driver, and askers with names and owners of their own that acquire. */
int scene_set_up(void **state);
int scene_tear_down(void **state);
void scene_open(const rowlock_options *options);       /* another client instead, */
void scene_open_joint(const rowlock_options *options); /* one whose driver has `exchange`, */
void scene_open_one_writer(void);                      /* and one where only one can write */

int ask_acquire(struct asker *asker);
int ask_renew(struct asker *asker);
int ask_release(struct asker *asker);

/* ---- the driver */

/* The next requests are held up until the gate opens; those after them pass. */
void gate_hold(int requests);
void gate_open(void);
void gate_let_first(void); /* one of them, the one that came first */
void await_held(int requests);

/* The next request with several operations ends so, and every call after it like this. */
void plan_batch(enum fake_fault fault, enum fake_fault afterwards);

/* The next exchange is told that this half of it was refused. */
void refuse_half(rlk_kind kind);

/* Called with each request, before and after the database has seen it; reset by the next set_up. */
extern void (*on_request)(rlk_kind kind, rowlock_op *ops, size_t n, int is_done);

/* An error instead of an answer, for requests with this name in them. NULL: none. */
extern const char *bad_name;

/* ---- the threads */

void start(struct asker *asker);
void join(struct asker *asker);

/* Until its call has returned; it is to be joined all the same. */
void await_return(struct asker *asker);

/* Until it waits for another thread. */
void await_wait(struct asker *asker);

/* The first asks, and while its request is held up the others come. Then all are joined. */
void ask_together(int (*ask)(struct asker *asker), size_t n);

/* The same without the end: the gate is shut. */
void gather(int (*ask)(struct asker *asker), size_t n);
void join_all(size_t n);

/* How often somebody's time was up in a wait for another thread, and how many such waits began. */
int waits_over(void);
int waits_begun(void);

uint64_t combined(void);

/* All answered OK, also in err. */
void expect_ok(size_t n);

#endif
