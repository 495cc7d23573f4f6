/* SPDX-License-Identifier: MIT
 *
 * From thread to thread: who releases a lock that others of its process wait for gives it to the
 * front of their line, in the same request. That is one round trip for a change of hands, where a
 * release, a ticket and a turn are three.
 *
 * The driver's slot `exchange` decides, as for any release and any acquire without a ticket: if
 * others wait in the database they come first. And a hold that lasts is waited for there, too, so
 * that everybody can see who waits, and when he came. */
#include <string.h>

#include "core.h"

/* For how long the front one waits without a ticket. */
#define OPEN_US INT64_C(20000)

/* After others were found to wait in the database: for how long nobody tries to go before them. */
#define CROWD_US INT64_C(1000000)

/* How often a waiter looks that has no descriptor to be woken by. */
#define DEAF_PAUSE_US INT64_C(1000)

/* ---- who waits ---- */

/* Names that are sorted into the same place have this in common: that costs time, no more. */
static int64_t *crowd_until(rowlock_client *client, const rowlock_op *op)
{
    return &client->lines.crowd_until_us[rlk_line_bucket(op->name, op->name_length)];
}

/* Under the mutex: until when a thread of this client may give it on; 0: none has it. */
static int64_t held_here_until(rowlock_client *client, const rowlock_op *op)
{
    rlk_tenure *tenure = rlk_tenures_of_name(&client->tenures, op->name, op->name_length);

    if (client->driver.exchange == NULL || tenure == NULL ||
        strcmp(tenure->owner, op->owner) == 0 || rlk_clock_us() < *crowd_until(client, op))
        return 0;
    return atomic_load(&tenure->deadline_us);
}

int rlk_hand_exists(rowlock_client *client, const rowlock_op *op)
{
    int exists;

    rlk_mutex_lock(&client->mutex);
    exists = held_here_until(client, op) > 0;
    rlk_mutex_unlock(&client->mutex);
    return exists;
}

/* What has become of it, and for how long to wait on; *until_us of 0: no longer. */
static rlk_hand look(rlk_waiter *waiter, int64_t opened_us, int64_t *until_us)
{
    int64_t end = opened_us + OPEN_US;
    rlk_hand hand;

    rlk_mutex_lock(&waiter->client->mutex);
    *until_us = held_here_until(waiter->client, &waiter->ops[0]);
    if (*until_us > end)
        *until_us = rlk_clock_us() < end ? end : 0;
    if (waiter->hand == RLK_HAND_OPEN && *until_us == 0)
        waiter->hand = RLK_HAND_CLOSED;
    hand = waiter->hand;
    rlk_mutex_unlock(&waiter->client->mutex);
    return hand;
}

/* It does not want to wait any more: what it has now is for good. */
static rlk_hand withdraw(rlk_waiter *waiter)
{
    rlk_hand hand;

    rlk_mutex_lock(&waiter->client->mutex);
    if (waiter->hand == RLK_HAND_OPEN)
        waiter->hand = RLK_HAND_CLOSED;
    hand = waiter->hand;
    rlk_mutex_unlock(&waiter->client->mutex);
    return hand;
}

static int64_t soon_if_deaf(const rlk_waiter *waiter, int64_t until_us)
{
    int64_t soon = rlk_clock_us() + DEAF_PAUSE_US;

    return waiter->ring_fd >= 0 || until_us < soon ? until_us : soon;
}

/* It cannot wait any longer for the answer of a request that is under way: who sent it gives back
 * what it may have got. So the database must not be asked any more: what it has would be taken away
 * again. */
static rlk_hand give_up(rlk_waiter *waiter)
{
    rlk_hand hand;

    rlk_mutex_lock(&waiter->client->mutex);
    if (waiter->hand == RLK_HAND_UNDER_WAY) {
        waiter->giver->next = NULL;
        waiter->hand = RLK_HAND_CLOSED;
        waiter->is_hand_left = 1;
    }
    hand = waiter->hand;
    rlk_mutex_unlock(&waiter->client->mutex);
    return hand;
}

int rlk_hand_wait(rlk_waiter *waiter, const rlk_wait *wait, int rc, int *had, rowlock_error *err)
{
    int64_t opened = rlk_clock_us(), until;
    rlk_hand hand;

    while ((hand = look(waiter, opened, &until)) == RLK_HAND_OPEN && rc == ROWLOCK_OK) {
        rc = rlk_wait_until(wait, soon_if_deaf(waiter, until), waiter->ring_fd, err);
        rlk_unring(waiter);
    }
    /* A request that is under way is waited for as long as the call may take: it may have been had.
     */
    while ((hand = withdraw(waiter)) == RLK_HAND_UNDER_WAY && rlk_clock_us() < wait->end_us) {
        rlk_sleep_until(soon_if_deaf(waiter, wait->end_us), &waiter->ring_fd,
                        waiter->ring_fd >= 0 ? 1 : 0);
        rlk_unring(waiter);
    }
    hand = give_up(waiter);
    *had = hand == RLK_HAND_HAD;
    return *had ? rlk_ok(err) : rc;
}

/* ---- who releases ---- */

typedef struct pair {
    rowlock_op *release, *acquire;
} pair;

static int do_exchange(rowlock_client *client, void *conn, uint32_t timeout_ms, void *arg,
                       rowlock_error *err)
{
    const pair *p = arg;

    return rlk_send_exchange(client, conn, p->release, 1, p->acquire, 1, timeout_ms, err);
}

static void copy_op(rlk_handing *to, const rowlock_op *op)
{
    to->acquire = *op;
    memcpy(to->name, op->name, op->name_length);
    memcpy(to->owner, op->owner, strlen(op->owner) + 1);
    memcpy(to->note, op->note, strlen(op->note) + 1);
    to->acquire.name = to->name;
    to->acquire.owner = to->owner;
    to->acquire.note = to->note;
}

int rlk_hand_next(rlk_handing *out, rowlock_client *client, const rlk_tenure *tenure)
{
    rlk_waiter *front;

    if (client->driver.exchange == NULL || tenure->handles > 0 || tenure->is_guarded)
        return 0;
    front = rlk_line_front(client, tenure->name, tenure->name_length);
    if (front == NULL || front->hand != RLK_HAND_OPEN ||
        strcmp(front->ops[0].owner, tenure->owner) == 0)
        return 0;
    copy_op(out, &front->ops[0]);
    out->next = front;
    front->giver = out;
    front->hand = RLK_HAND_UNDER_WAY;
    return 1;
}

/* The waiter's op, with its own pointers, as it was answered. */
static void copy_answer(rowlock_op *op, const rowlock_op *answer)
{
    const char *name = op->name, *owner = op->owner, *note = op->note;

    *op = *answer;
    op->name = name;
    op->owner = owner;
    op->note = note;
}

/* The answer; if it is not yes, the front one finds out by itself, with the same attempt. It may be
 * gone as soon as the mutex is free. Released and yet not had: others want it, too. 0: it was had,
 * but the waiter has given up. */
static int tell_next(rowlock_client *client, rlk_handing *handing, const rowlock_op *release,
                     int rc, const rlk_sent *sent)
{
    int is_had = rc == ROWLOCK_OK && handing->acquire.status == ROWLOCK_OK;
    int is_free = rc == ROWLOCK_OK && release->status == ROWLOCK_OK && release->hold_count == 0;
    rlk_waiter *next;

    rlk_mutex_lock(&client->mutex);
    next = handing->next;
    if (is_free && !is_had)
        *crowd_until(client, &handing->acquire) = rlk_clock_us() + CROWD_US;
    if (next != NULL && is_had) {
        copy_answer(&next->ops[0], &handing->acquire);
        next->handed = *sent;
    }
    if (next != NULL) {
        next->is_hand_unknown = rc == ROWLOCK_EUNKNOWN;
        next->hand = is_had ? RLK_HAND_HAD : RLK_HAND_CLOSED;
        rlk_ring(next);
    }
    rlk_mutex_unlock(&client->mutex);
    return next != NULL || !is_had;
}

/* On the connection that has the bell, if there is one: it goes with the hold. */
static int exchange_on_bell(rowlock_client *client, rlk_tenure *tenure, rlk_conn *conn, pair *p,
                            int64_t deadline_us, rlk_sent *sent)
{
    int rc;

    p->release->ticket = tenure->ticket;
    *sent = (rlk_sent){.at_us = rlk_clock_us()};
    rc = do_exchange(client, conn->state, rlk_bound_ms(client, deadline_us), p, NULL);
    p->release->ticket = 0;
    if (rc == ROWLOCK_OK && p->release->status == ROWLOCK_OK)
        rlk_pool_return(client, RLK_USE_WAIT, conn);
    else
        rlk_pool_lose(client, RLK_USE_WAIT, conn); /* which rings, too */
    return rc;
}

/* Nobody has it, and the next in line may. */
static void take_back(rowlock_client *client, rlk_handing *handing, int64_t deadline_us)
{
    rowlock_op *op = &handing->acquire;

    memcpy(op->seen, op->attempt, sizeof op->seen);
    rlk_undo(client, op, 1, rlk_bound(client, deadline_us));
    rlk_line_ring(client, op->name, op->name_length);
}

int rlk_hand_over(rowlock_client *client, rlk_tenure *tenure, rlk_handing *handing, rowlock_op *op,
                  int64_t deadline_us, int *repeated)
{
    pair p = {op, &handing->acquire};
    rlk_conn *bell;
    rowlock_error err;
    rlk_sent sent;
    int rc, again;

    rlk_mutex_lock(&client->mutex);
    bell = tenure->bell;
    tenure->bell = NULL;
    rlk_mutex_unlock(&client->mutex);
    if (bell != NULL)
        rc = exchange_on_bell(client, tenure, bell, &p, deadline_us, &sent);
    else
        rc =
            rlk_call_first(client, RLK_USE_KEEP, deadline_us, do_exchange, &p, &sent, &again, &err);
    if (!tell_next(client, handing, op, rc, &sent))
        take_back(client, handing, deadline_us);
    *repeated = rc == ROWLOCK_EUNKNOWN;
    return rc == ROWLOCK_OK && op->status == ROWLOCK_OK;
}
