/* SPDX-License-Identifier: MIT
 *
 * Renewing everything that is held, many in one statement. */
#include <stdlib.h>
#include <string.h>

#include "core.h"
#include "random.h"

#define SHORTEST_PAUSE_US INT64_C(10000)
#define LEAST_BOUND_US    INT64_C(5000)
#define LEAST_REFINING_US INT64_C(50000)

enum { PARTS = 2 };

/* After a third of what is left, a little less at random: clients that began together part. What is
 * due soon goes along with others, so that there are few batches. */
void rlk_plan_renewal(rowlock_client *client, rlk_tenure *tenure, int64_t now_us)
{
    int64_t left = atomic_load(&tenure->deadline_us) - now_us, at;

    left = left > 0 ? left : 0;
    at = now_us + left / 3 - rlk_random_below(left / 30 + 1);
    tenure->renew_from_us = at - left / 12;
    rlk_heap_put(&client->watch.planned, &tenure->renewal, at);
}

/* After a renewal that had no answer, or met a locked row: soon again, while the lease lasts. */
static void plan_retry(rowlock_client *client, rlk_tenure *tenure, int64_t now_us)
{
    int64_t pause = (atomic_load(&tenure->deadline_us) - now_us) / 8;

    tenure->renew_from_us = now_us + (pause < SHORTEST_PAUSE_US ? SHORTEST_PAUSE_US : pause);
    rlk_heap_put(&client->watch.planned, &tenure->renewal, tenure->renew_from_us);
}

static rlk_tenure *first_of(const rlk_heap *heap)
{
    return heap->first == NULL ? NULL : RLK_HEAP_ELEMENT(heap->first, rlk_tenure, renewal);
}

/* Under the mutex: those whose time has come go to the due ones, some at once. 0: that was all. */
static int find_due(rlk_watch *watch, int64_t now_us)
{
    rlk_tenure *tenure;

    for (int i = 0; i < RLK_RENEW_BATCH; i++) {
        tenure = first_of(&watch->planned);
        if (tenure == NULL || tenure->renewal.key > now_us)
            return 0;
        if (rlk_tenure_is_lost(tenure) || atomic_load(&tenure->is_last))
            rlk_heap_remove(&tenure->renewal);
        else
            rlk_heap_put(&watch->due, &tenure->renewal, atomic_load(&tenure->deadline_us));
    }
    return 1;
}

/* Under the mutex: one more for the batch. Of those that are due the one that ends first; then, if
 * `goes_along`, one that would be due soon. NULL: none. */
static rlk_tenure *next_due(rlk_watch *watch, int64_t now_us, int goes_along)
{
    rlk_tenure *tenure = first_of(&watch->due);

    if (tenure == NULL && goes_along) {
        tenure = first_of(&watch->planned);
        if (tenure != NULL && tenure->renew_from_us > now_us)
            tenure = NULL;
    }
    if (tenure != NULL)
        rlk_heap_remove(&tenure->renewal);
    return tenure;
}

/* At most a batch of them, pinned, in no order. */
static size_t gather(rowlock_client *client, int64_t now_us)
{
    rlk_watch *watch = &client->watch;
    size_t n = 0;
    rlk_tenure *tenure;

    rlk_mutex_lock(&client->mutex);
    while (find_due(watch, now_us)) { /* others may want the mutex */
        rlk_mutex_unlock(&client->mutex);
        rlk_mutex_lock(&client->mutex);
    }
    while (n < RLK_RENEW_BATCH && (tenure = next_due(watch, now_us, n > 0)) != NULL) {
        if (rlk_tenure_is_lost(tenure) || atomic_load(&tenure->is_last))
            continue;
        tenure->refs++;
        watch->tenures[n++] = tenure;
    }
    rlk_mutex_unlock(&client->mutex);
    return n;
}

/* The next batch, in order, each name once, all pinned. *deadline_us: the first that ends. */
static size_t collect(rowlock_client *client, int64_t now_us, int64_t *deadline_us)
{
    rlk_watch *watch = &client->watch;
    size_t n = gather(client, now_us), unique = 0;

    *deadline_us = RLK_NEVER;
    if (n > 1)
        qsort(watch->tenures, n, sizeof(rlk_tenure *), rlk_tenure_by_name);
    rlk_mutex_lock(&client->mutex);
    for (size_t i = 0; i < n; i++) {
        rlk_tenure *tenure = watch->tenures[i];

        if (unique > 0 &&
            rlk_tenure_by_name(&watch->tenures[unique - 1], &watch->tenures[i]) == 0) {
            if (tenure->renewers > 0) /* its turn comes with the next batch */
                rlk_heap_put(&watch->planned, &tenure->renewal, now_us);
            rlk_tenure_unref(tenure);
            continue;
        }
        watch->tenures[unique++] = tenure;
        rlk_op_of(&watch->ops[unique - 1], client, tenure);
        watch->ops[unique - 1].ttl_us = rlk_tenure_ttl(tenure, tenure->ttl_us);
        if (atomic_load(&tenure->deadline_us) < *deadline_us)
            *deadline_us = atomic_load(&tenure->deadline_us);
    }
    rlk_mutex_unlock(&client->mutex);
    return unique;
}

/* Under the mutex: what one answer means. 1: renewed. */
static int settle(rowlock_client *client, rlk_tenure *tenure, const rowlock_op *op,
                  const rlk_sent *sent, int rc)
{
    int64_t now = rlk_clock_us();
    int is_renewed;

    atomic_store(&tenure->is_unreachable, rc != ROWLOCK_OK);
    if (rc != ROWLOCK_OK)
        rlk_tenure_outlives(tenure, op->ttl_us);
    if (rc == ROWLOCK_OK && op->status == ROWLOCK_LOST)
        rlk_lose_by_answer(tenure);
    is_renewed = rc == ROWLOCK_OK && op->status == ROWLOCK_OK && rlk_extend(tenure, sent, op);
    if (tenure->renewers > 0 && is_renewed) /* else they were all released meanwhile */
        rlk_plan_renewal(client, tenure, now);
    else if (tenure->renewers > 0 && !atomic_load(&tenure->lost))
        plan_retry(client, tenure, now);
    return is_renewed;
}

static int64_t next_renewal(rowlock_client *client)
{
    int64_t next = RLK_NEVER;

    rlk_mutex_lock(&client->mutex);
    if (client->watch.due.first != NULL)
        next = 0;
    else if (client->watch.planned.first != NULL)
        next = client->watch.planned.first->key;
    rlk_mutex_unlock(&client->mutex);
    return next;
}

/* Looks why those are lost that the database says are: until until_us, and, but for a moment, until
 * another renewal is due. */
static void refine_losses(rowlock_client *client, size_t n, int64_t until_us)
{
    rlk_watch *watch = &client->watch;
    int64_t least = rlk_clock_us() + LEAST_REFINING_US;

    for (size_t i = 0; i < n; i++) {
        int64_t next;

        if (watch->ops[i].status != ROWLOCK_LOST)
            continue;
        next = next_renewal(client);
        next = next > least ? next : least;
        rlk_refine_loss(client, watch->tenures[i], next < until_us ? next : until_us);
    }
}

/* Puts the answers to work, and returns how many were renewed. Why others are lost is looked for
 * afterwards, until until_us. */
static size_t settle_all(rowlock_client *client, size_t n, const rlk_sent *sent, int rc,
                         int64_t until_us)
{
    rlk_watch *watch = &client->watch;
    size_t renewed = 0;

    rlk_mutex_lock(&client->mutex);
    for (size_t i = 0; i < n; i++)
        renewed += settle(client, watch->tenures[i], &watch->ops[i], sent, rc) != 0;
    rlk_mutex_unlock(&client->mutex);
    if (rc == ROWLOCK_OK)
        refine_losses(client, n, until_us);
    rlk_mutex_lock(&client->mutex);
    for (size_t i = 0; i < n; i++)
        rlk_tenure_unref(watch->tenures[i]);
    rlk_mutex_unlock(&client->mutex);
    return renewed;
}

/* One batch. 0 if nothing was due. */
static int renew_batch(rowlock_client *client)
{
    rlk_watch *watch = &client->watch;
    int64_t now = rlk_clock_us(), deadline, bound;
    size_t n = collect(client, now, &deadline), renewed;
    rlk_sent sent = {0};
    int rc;

    if (n == 0)
        return 0;
    /* A connection that is stuck leaves time for another. */
    bound = (deadline - now) / PARTS;
    bound = bound < client->call_timeout_us ? bound : client->call_timeout_us;
    bound = bound < LEAST_BOUND_US ? LEAST_BOUND_US : bound;
    rc = rlk_send_renewals(client, watch->ops, n, bound, &sent, NULL);
    renewed = settle_all(client, n, &sent, rc, now + 2 * bound);
    rlk_count(&client->counters.renewed, renewed);
    if (renewed > 0)
        rlk_emit(client, &(rowlock_event){.size = sizeof(rowlock_event),
                                          .kind = ROWLOCK_EVENT_RENEWED,
                                          .count = renewed});
    return 1;
}

int64_t rlk_renew_due(rowlock_client *client)
{
    while (!atomic_load(&client->watch.stop) && renew_batch(client)) {
    }
    return next_renewal(client);
}
