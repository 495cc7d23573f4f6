/* SPDX-License-Identifier: MIT */
#include "batch.h"

#include <stdlib.h>
#include <string.h>

int rlk_load_send(rowlock_client *client, void *conn, uint32_t timeout_ms, void *arg,
                  rowlock_error *err)
{
    const rlk_load *l = arg;

    if (l->kind == RLK_RENEW)
        return client->driver.renew(conn, l->ops, l->n, timeout_ms, err);
    if (l->kind == RLK_RELEASE)
        return client->driver.release(conn, l->ops, l->n, timeout_ms, err);
    if (l->releases == 0)
        return rlk_send_acquire(client, conn, l->ops, l->n, 0, timeout_ms, err);
    return rlk_send_exchange(client, conn, l->ops, l->releases, l->ops + l->releases,
                             l->n - l->releases, timeout_ms, err);
}

/* ---- who travels ---- */

/* Releases first, then by name, and of the same name in the order in which they came. */
static int by_name(const void *a, const void *b)
{
    const rlk_rider *x = *(rlk_rider *const *)a, *y = *(rlk_rider *const *)b;
    int order = (int)x->kind - (int)y->kind;

    if (order == 0)
        order = rlk_op_by_name(x->op, y->op);
    return order != 0 ? order : (x->number > y->number) - (x->number < y->number);
}

static int by_number(const void *a, const void *b)
{
    const rlk_rider *x = *(rlk_rider *const *)a, *y = *(rlk_rider *const *)b;

    return (x->number > y->number) - (x->number < y->number);
}

static int are_doubles(const rlk_rider *a, const rlk_rider *b)
{
    return a->kind == b->kind && rlk_op_by_name(a->op, b->op) == 0;
}

/* If that one is told that somebody else holds the lock, this one may be told the same. Not if they
 * are of one owner: once the lock is had the other enters it again, and need not wait for that. */
static int may_come_along(const rlk_rider *rider, const rlk_rider *with)
{
    return rider->kind == RLK_ACQUIRE && strcmp(rider->op->owner, with->op->owner) != 0;
}

void rlk_batch_sort(rlk_crate *crate, size_t n)
{
    rlk_rider **riders = crate->riders, *along[RLK_COMBINE_MAX], *rest[RLK_COMBINE_MAX];

    crate->n = 1;
    crate->along = crate->rest = 0;
    qsort(riders, n, sizeof(rlk_rider *), by_name);
    for (size_t i = 1; i < n; i++) {
        const rlk_rider *last = riders[crate->n - 1];

        riders[i]->like = crate->n - 1;
        if (!are_doubles(riders[i], last))
            riders[crate->n++] = riders[i];
        else if (may_come_along(riders[i], last))
            along[crate->along++] = riders[i];
        else
            rest[crate->rest++] = riders[i];
    }
    qsort(rest, crate->rest, sizeof(rlk_rider *), by_number);
    memcpy(riders + crate->n, along, crate->along * sizeof(rlk_rider *));
    memcpy(riders + crate->n + crate->along, rest, crate->rest * sizeof(rlk_rider *));
}

/* ---- there ---- */

static void count_batch(rowlock_client *client, const rlk_crate *crate, int rc,
                        const rowlock_error *err)
{
    size_t all = crate->n + crate->along;

    rlk_count(&client->counters.combined, crate->n - 1);
    if (rc == ROWLOCK_OK)
        return;
    rlk_count(&client->counters.retries, all); /* everybody's own */
    if (rc == ROWLOCK_EDRIVER && err->retryable)
        rlk_count(&client->counters.deadlock_retries, all);
}

int rlk_batch_send(rowlock_client *client, rlk_crate *crate, rlk_sent *sent)
{
    rlk_load all = {.kind = crate->riders[crate->n - 1]->kind, .ops = crate->ops, .n = crate->n};
    int64_t until = crate->riders[0]->until_us;
    rowlock_error err;
    int rc, again;

    for (size_t i = 0; i < crate->n + crate->along; i++)
        until = crate->riders[i]->until_us < until ? crate->riders[i]->until_us : until;
    for (size_t i = 0; i < crate->n; i++) {
        crate->ops[i] = *crate->riders[i]->op;
        all.releases += crate->riders[i]->kind == RLK_RELEASE;
    }
    rc = rlk_call_first(client,
                        all.kind == RLK_ACQUIRE && all.releases == 0 ? RLK_USE_CALL : RLK_USE_KEEP,
                        until, rlk_load_send, &all, sent, &again, &err);
    count_batch(client, crate, rc, &err);
    return rc;
}

/* ---- and back ---- */

/* BUSY, and yet of an acquire no lease of somebody else's was seen to live, nor a queue, and of a
 * release no other attempt: the row was locked, or lost in a race, at that moment, or its half of
 * the batch was refused. Such a one is asked for with patience. */
static int is_open(rlk_kind kind, const rowlock_op *asked, const rowlock_op *answer)
{
    if (answer->status != ROWLOCK_BUSY || kind == RLK_RENEW)
        return 0;
    if (kind == RLK_RELEASE)
        return memcmp(answer->seen, asked->seen, sizeof answer->seen) == 0;
    return !answer->is_queue && (answer->holder[0] == '\0' || answer->remaining_us <= 0 ||
                                 strcmp(answer->holder, asked->owner) == 0);
}

/* Is what another one was told true of this one, too? */
static int is_common(const rowlock_op *asked, const rowlock_op *answer)
{
    return answer->status == ROWLOCK_BUSY && !is_open(RLK_ACQUIRE, asked, answer) &&
           !(answer->is_queue && asked->barge);
}

static void copy_busy(rowlock_op *op, const rowlock_op *answer)
{
    op->status = ROWLOCK_BUSY;
    op->remaining_us = answer->remaining_us;
    op->holder_fence = answer->holder_fence;
    memcpy(op->holder, answer->holder, sizeof op->holder);
    op->is_queue = answer->is_queue;
}

void rlk_rider_tell(rlk_rider *rider, uint32_t state)
{
    _Atomic uint32_t *word = rider->word;

    atomic_store_explicit(&rider->state, state, memory_order_release);
    if (word != &rider->state)
        atomic_fetch_add_explicit(word, 1, memory_order_release);
    rlk_word_wake(word);
}

/* All of a crate are woken together, later. */
static void tell_in(const rlk_crate *crate, const rlk_rider *leader, rlk_rider *rider,
                    uint32_t state, const rlk_sent *sent)
{
    rider->sent = *sent;
    if (rider == leader || rider->word == &crate->calls)
        atomic_store_explicit(&rider->state, state, memory_order_release);
    else
        rlk_rider_tell(rider, state);
}

static size_t tell_along(rowlock_client *client, const rlk_rider *leader, rlk_crate *crate, int rc,
                         const rlk_sent *sent)
{
    const rlk_sent nothing = {0};
    rlk_rider **along = crate->riders + crate->n;
    size_t left = 0;

    for (size_t i = 0; i < crate->along; i++) {
        const rowlock_op *answer = &crate->ops[along[i]->like];

        if (rc != ROWLOCK_OK) {
            tell_in(crate, leader, along[i], RLK_LEFT, &nothing); /* of its own was sent */
        } else if (is_common(along[i]->op, answer)) {
            copy_busy(along[i]->op, answer);
            tell_in(crate, leader, along[i], RLK_SERVED, sent);
        } else {
            along[left++] = along[i];
        }
    }
    if (rc == ROWLOCK_OK)
        rlk_count(&client->counters.combined, crate->along - left);
    qsort(along, left, sizeof(rlk_rider *), by_number);
    return left;
}

size_t rlk_batch_tell(rowlock_client *client, const rlk_rider *leader, rlk_crate *crate, int rc,
                      const rlk_sent *sent)
{
    size_t left = tell_along(client, leader, crate, rc, sent);

    for (size_t i = 0; i < crate->n; i++) {
        rlk_rider *rider = crate->riders[i];
        int is_served = rc == ROWLOCK_OK && !is_open(rider->kind, rider->op, &crate->ops[i]);

        if (is_served)
            *rider->op = crate->ops[i];
        else /* it may have been asked for with a later one */
            memcpy(rider->op->attempt, crate->ops[i].attempt, sizeof rider->op->attempt);
        tell_in(crate, leader, rider, is_served ? RLK_SERVED : RLK_LEFT, sent);
    }
    atomic_fetch_add_explicit(&crate->calls, 1, memory_order_release);
    rlk_word_wake(&crate->calls);
    return left;
}
