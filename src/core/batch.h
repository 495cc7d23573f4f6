/* SPDX-License-Identifier: MIT
 *
 * What threads send together: combine.c says who sends when, riders.c who waits, batch.c what, and
 * who gets which answer. */
#ifndef RLK_BATCH_H
#define RLK_BATCH_H

#include "core.h"

enum { RLK_PENDING, RLK_LEADS, RLK_SERVED, RLK_LEFT };

/* One operation of a thread's, in its own memory. */
struct rlk_rider {
    rlk_rider *next;
    size_t number; /* its place among those who came together */
    size_t like;   /* of one who comes along: the operation that asks for the same */
    rlk_kind kind;
    rowlock_op *op;
    rlk_flight flight; /* the request that it sends */
    int64_t until_us;
    rlk_sent sent;
    _Atomic uint32_t state;
    _Atomic uint32_t *word; /* that changes when the state has: its own, or its crate's */
};

/* A batch, and before that the room in which most of it waits: one call wakes them all. Those who
 * are left over by a batch wait on in its crate, hence none is freed before the client is. */
struct rlk_crate {
    rlk_crate *next;
    _Atomic uint32_t calls;
    size_t n;     /* riders whose operations are sent; */
    size_t along; /* behind them those who ask for a name that is in it, and may get its answer, */
    size_t rest;  /* and who has to ask by itself */
    rlk_rider *riders[RLK_COMBINE_MAX];
    rowlock_op ops[RLK_COMBINE_MAX];
};

/* Operations of one kind, or releases and, behind them, acquires. */
typedef struct rlk_load {
    rlk_kind kind; /* of the last */
    rowlock_op *ops;
    size_t n, releases;
} rlk_load;

/* Those who wait (riders.c): behind the last, before the first; the first, or NULL; out of the
 * list, wherever it is. 0: it was not there. All under the client's mutex. */
void rlk_riders_append(rlk_combiner *combiner, rlk_rider *rider);
void rlk_riders_put_first(rlk_combiner *combiner, rlk_rider *rider);
rlk_rider *rlk_riders_take_first(rlk_combiner *combiner);
int rlk_riders_withdraw(rlk_combiner *combiner, const rlk_rider *rider);

/* Sends a load, its `arg`: an rlk_call_fn. */
int rlk_load_send(rowlock_client *client, void *conn, uint32_t timeout_ms, void *arg,
                  rowlock_error *err);

/* Of `n` riders in the order in which they came: who is sent, comes along, has to ask by itself. */
void rlk_batch_sort(rlk_crate *crate, size_t n);

/* Sends it. What was wrong with it everybody finds out for itself. */
int rlk_batch_send(rowlock_client *client, rlk_crate *crate, rlk_sent *sent);

/* Gives everybody its answer, and wakes all but the leader. How many of those who came along have
 * none, and are to be asked for: they are behind the first n then, in their order. */
size_t rlk_batch_tell(rowlock_client *client, const rlk_rider *leader, rlk_crate *crate, int rc,
                      const rlk_sent *sent);

/* The rider may be gone as soon as it has its state. */
void rlk_rider_tell(rlk_rider *rider, uint32_t state);

#endif
