/* SPDX-License-Identifier: MIT
 *
 * Renewing everything that is held, many in one statement. */
#include <stdlib.h>
#include <string.h>

#include "core.h"
#include "random.h"

#define SHORTEST_PAUSE_US INT64_C(10000)
#define LEAST_BOUND_US    INT64_C(5000)

enum { PARTS = 2 };

/* After a third of what is left, a little less at random: clients that began together part. What is
 * due soon goes along with others, so that there are few batches. */
void rlk_plan_renewal(rlk_tenure *tenure, int64_t now_us)
{
    int64_t left = atomic_load(&tenure->deadline_us) - now_us;

    left = left > 0 ? left : 0;
    tenure->renew_at_us = now_us + left / 3 - rlk_random_below(left / 30 + 1);
    tenure->renew_from_us = tenure->renew_at_us - left / 12;
}

/* After a renewal that had no answer, or met a locked row: soon again, while the lease lasts. */
static void plan_retry(rlk_tenure *tenure, int64_t now_us)
{
    int64_t pause = (atomic_load(&tenure->deadline_us) - now_us) / 8;

    tenure->renew_at_us = now_us + (pause < SHORTEST_PAUSE_US ? SHORTEST_PAUSE_US : pause);
    tenure->renew_from_us = tenure->renew_at_us;
}

/* Under the mutex: is it time? */
static int is_due(rlk_tenure *tenure, int64_t now_us)
{
    return tenure->renewers > 0 && !tenure->is_in_batch && !rlk_tenure_is_lost(tenure) &&
           !atomic_load(&tenure->is_last) && tenure->renew_from_us <= now_us;
}

/* Under the mutex: is there one whose time has come, and not only one that might go along? */
static int is_time(const rowlock_client *client, int64_t now_us)
{
    for (const rowlock_lock *lock = client->watch.first; lock != NULL; lock = lock->next) {
        if (is_due(lock->tenure, now_us) && lock->tenure->renew_at_us <= now_us)
            return 1;
    }
    return 0;
}

static int by_deadline(const void *a, const void *b)
{
    int64_t x = atomic_load(&(*(rlk_tenure *const *)a)->deadline_us);
    int64_t y = atomic_load(&(*(rlk_tenure *const *)b)->deadline_us);

    return (x > y) - (x < y);
}

/* Under the mutex: room for all that are watched. */
static int make_room(rlk_watch *watch)
{
    size_t n = 0;
    rlk_tenure **more;

    for (const rowlock_lock *lock = watch->first; lock != NULL; lock = lock->next)
        n++;
    if (n <= watch->due_room)
        return 1;
    more = realloc(watch->due, 2 * n * sizeof *more);
    if (more == NULL)
        return 0;
    watch->due = more;
    watch->due_room = 2 * n;
    return 1;
}

/* Under the mutex: of those that are due the ones that end first, at most a batch of them. */
static size_t gather(rowlock_client *client, int64_t now_us)
{
    rlk_watch *watch = &client->watch;
    size_t n = 0, batch;

    if (!make_room(watch))
        return 0;
    for (rowlock_lock *lock = watch->first; lock != NULL; lock = lock->next) {
        if (!is_due(lock->tenure, now_us))
            continue;
        lock->tenure->is_in_batch = 1; /* also if another handle of it comes along */
        watch->due[n++] = lock->tenure;
    }
    batch = n < RLK_RENEW_BATCH ? n : RLK_RENEW_BATCH;
    if (n > batch)
        qsort(watch->due, n, sizeof(rlk_tenure *), by_deadline);
    for (size_t i = batch; i < n; i++)
        watch->due[i]->is_in_batch = 0;
    if (batch > 0)
        memcpy(watch->tenures, watch->due, batch * sizeof(rlk_tenure *));
    if (batch > 1)
        qsort(watch->tenures, batch, sizeof(rlk_tenure *), rlk_tenure_by_name);
    return batch;
}

/* The next batch, in order, each name once, all pinned. *deadline_us: the first that ends. */
static size_t collect(rowlock_client *client, int64_t now_us, int64_t *deadline_us)
{
    rlk_watch *watch = &client->watch;
    size_t n, unique = 0;

    *deadline_us = RLK_NEVER;
    pthread_mutex_lock(&client->mutex);
    n = is_time(client, now_us) ? gather(client, now_us) : 0;
    for (size_t i = 0; i < n; i++) {
        rlk_tenure *tenure = watch->tenures[i];

        if (unique > 0 &&
            rlk_tenure_by_name(&watch->tenures[unique - 1], &watch->tenures[i]) == 0) {
            tenure->is_in_batch = 0; /* its turn comes with the next batch */
            continue;
        }
        tenure->refs++;
        watch->tenures[unique++] = tenure;
        rlk_op_of(&watch->ops[unique - 1], client, tenure);
        watch->ops[unique - 1].ttl_us = rlk_tenure_ttl(tenure, tenure->ttl_us);
        if (atomic_load(&tenure->deadline_us) < *deadline_us)
            *deadline_us = atomic_load(&tenure->deadline_us);
    }
    pthread_mutex_unlock(&client->mutex);
    return unique;
}

/* Under the mutex: what one answer means. 1: renewed. */
static int settle(rlk_tenure *tenure, const rowlock_op *op, const rlk_sent *sent, int rc)
{
    int64_t now = rlk_clock_us();

    plan_retry(tenure, now);
    atomic_store(&tenure->is_unreachable, rc != ROWLOCK_OK);
    if (rc != ROWLOCK_OK)
        rlk_tenure_outlives(tenure, op->ttl_us);
    if (rc == ROWLOCK_OK && op->status == ROWLOCK_LOST)
        rlk_lose_by_answer(tenure);
    if (rc != ROWLOCK_OK || op->status != ROWLOCK_OK || !rlk_extend(tenure, sent, op))
        return 0;
    rlk_plan_renewal(tenure, now);
    return 1;
}

/* Puts the answers to work, and returns how many were renewed. Why others are lost is looked for
 * afterwards, until until_us. */
static size_t settle_all(rowlock_client *client, size_t n, const rlk_sent *sent, int rc,
                         int64_t until_us)
{
    rlk_watch *watch = &client->watch;
    size_t renewed = 0;

    pthread_mutex_lock(&client->mutex);
    for (size_t i = 0; i < n; i++)
        renewed += settle(watch->tenures[i], &watch->ops[i], sent, rc) != 0;
    pthread_mutex_unlock(&client->mutex);
    for (size_t i = 0; i < n && rc == ROWLOCK_OK; i++) {
        if (watch->ops[i].status == ROWLOCK_LOST)
            rlk_refine_loss(client, watch->tenures[i], until_us);
    }
    pthread_mutex_lock(&client->mutex);
    for (size_t i = 0; i < n; i++) {
        watch->tenures[i]->is_in_batch = 0;
        rlk_tenure_unref(watch->tenures[i]);
    }
    pthread_mutex_unlock(&client->mutex);
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
    int64_t next = RLK_NEVER;

    while (!atomic_load(&client->watch.stop) && renew_batch(client)) {
    }
    pthread_mutex_lock(&client->mutex);
    for (rowlock_lock *lock = client->watch.first; lock != NULL; lock = lock->next) {
        rlk_tenure *tenure = lock->tenure;

        if (tenure->renewers > 0 && !atomic_load(&tenure->lost) && !atomic_load(&tenure->is_last) &&
            tenure->renew_at_us < next)
            next = tenure->renew_at_us;
    }
    pthread_mutex_unlock(&client->mutex);
    return next;
}
