/* SPDX-License-Identifier: MIT
 *
 * Waiting in the database's queue: a ticket, a bell where there are any, and the try that counts.
 * The queue is only an order; the lock's row decides, in the same statement as ever. */

#include "core.h"
#include "random.h"

/* A try although nobody rang: an owner may have been forced out, a notice lost. */
#define BACKSTOP_US      INT64_C(1000000)
#define BELL_BACKSTOP_US INT64_C(2000000)

/* After a try that cannot tell when the next one is worth it. */
#define FIRST_PAUSE_US   INT64_C(5000)
#define LONGEST_PAUSE_US INT64_C(250000)

#define LEAVE_BOUND_US INT64_C(1000000)

#define NOT_TRIED INT64_MIN /* remaining_us, as long as turn has not said more */

typedef struct queue {
    rlk_waiter waiter;
    rowlock_client *client;
    const rlk_wait *wait;
    rowlock_op *ops;
    size_t n;
    rlk_conn *conn; /* that has the bell, or waits without one; or NULL */
    int is_open;    /* a try failed: another one, by the way of all calls, comes next */
    int is_unknown; /* a try had no answer: it may have been granted */
    int is_granted;
    int had_to_wait;   /* there was somebody to wait for */
    int64_t try_at_us; /* at the latest */
    int64_t asked_us;  /* when the ticket was asked for */
    int64_t pause_us;
    rlk_sent sent;
} queue;

/* ---- calls of the driver ---- */

typedef struct entry {
    queue *q;
    int with_bell;
} entry;

/* How long the wait may be that comes with the ticket: nobody prolongs it meanwhile, and a cancel
 * is not seen. */
static uint32_t first_wait_ms(const queue *q)
{
    int64_t most_us = q->client->ticket_us / 3;

    if (rlk_wait_look(q->wait, NULL) != ROWLOCK_OK)
        return 0;
    if (q->wait->until_us - q->asked_us < most_us)
        most_us = q->wait->until_us - q->asked_us;
    return most_us / 1000 < ROWLOCK_TURN_MAX_MS ? (uint32_t)(most_us / 1000) : ROWLOCK_TURN_MAX_MS;
}

static int do_enqueue(rowlock_client *client, void *conn, uint32_t timeout_ms, void *arg,
                      rowlock_error *err)
{
    const entry *e = arg;
    queue *q = e->q;
    uint32_t rest_ms;
    int rc;

    q->asked_us = rlk_clock_us();
    q->ops[0].wait_ms = e->with_bell ? first_wait_ms(q) : 0;
    rest_ms = rlk_wait_rest_ms(q->wait, q->ops[0].wait_ms); /* beside that wait */
    if (rest_ms < timeout_ms)
        timeout_ms = rest_ms;
    rc = client->driver.enqueue(conn, q->ops, q->n, client->ticket_us, e->with_bell, timeout_ms,
                                err);
    /* A ticket that may be there is no lock that may be held. */
    if (rc == ROWLOCK_EUNKNOWN)
        rc = err->status = ROWLOCK_ECONNECT;
    return rc;
}

static int do_acquire(rowlock_client *client, void *conn, uint32_t timeout_ms, void *arg,
                      rowlock_error *err)
{
    const queue *q = arg;

    return rlk_send_acquire(client, conn, q->ops, q->n, 1, timeout_ms, err);
}

static int do_try(rowlock_client *client, void *conn, uint32_t timeout_ms, void *arg,
                  rowlock_error *err)
{
    queue *q = arg;

    if (q->n == 1)
        return client->driver.turn(conn, q->ops, 0, NULL, 0, timeout_ms, err);
    return do_acquire(client, conn, timeout_ms, arg, err);
}

static int do_leave(rowlock_client *client, void *conn, uint32_t timeout_ms, void *arg,
                    rowlock_error *err)
{
    const queue *q = arg;

    return client->driver.leave(conn, q->ops, q->n, timeout_ms, err);
}

/* ---- coming and going ---- */

/* By answers of this moment. */
static void plan_try(queue *q, int64_t now)
{
    int64_t remaining = 0, pause;
    int64_t most = q->n == 1 && q->ops[0].before == 0 ? BACKSTOP_US : BELL_BACKSTOP_US;

    for (size_t i = 0; i < q->n; i++) {
        if (q->ops[i].status != ROWLOCK_OK && q->ops[i].remaining_us > remaining)
            remaining = q->ops[i].remaining_us;
    }
    if (remaining > 0) {
        pause = remaining + rlk_random_below(1000);
        q->pause_us = FIRST_PAUSE_US;
    } else {
        pause = q->pause_us / 2 + rlk_random_below(q->pause_us / 2);
        q->pause_us = q->pause_us * 2 < LONGEST_PAUSE_US ? q->pause_us * 2 : LONGEST_PAUSE_US;
    }
    pause = pause < most ? pause : most;
    q->try_at_us = now + pause < q->wait->until_us ? now + pause : q->wait->until_us;
    rlk_tickets_poll(&q->waiter, q->n > 1 || !q->ops[0].can_wait);
}

/* A ticket, with a bell if a connection can be had for it; none if there is no time for a request:
 * one that has no answer in time costs its connection. */
static int enter(queue *q, rowlock_error *err)
{
    entry e = {q, q->n == 1};
    rlk_sent sent;
    int rc = ROWLOCK_BUSY;

    for (size_t i = 0; i < q->n; i++)
        q->ops[i].ticket = 0;
    if (!rlk_wait_has_time(q->wait))
        return ROWLOCK_OK;
    if (e.with_bell)
        rc = rlk_call_lent(&q->conn, q->client, RLK_USE_WAIT, rlk_wait_bound(q->wait), do_enqueue,
                           &e, err);
    if (rc == ROWLOCK_OK && (q->ops[0].ticket == 0 || (!q->ops[0].rings && !q->ops[0].can_wait))) {
        rlk_pool_return(q->client, RLK_USE_WAIT, q->conn);
        q->conn = NULL;
    }
    e.with_bell = 0;
    if ((rc == ROWLOCK_BUSY || rc == ROWLOCK_ECONNECT) && !rlk_wait_has_time(q->wait))
        return ROWLOCK_OK;
    if (rc == ROWLOCK_BUSY || rc == ROWLOCK_ECONNECT) /* one that is open may do */
        rc = rlk_call(q->client, rlk_wait_bound(q->wait), do_enqueue, &e, &sent, err);
    if (rc != ROWLOCK_OK || q->ops[0].ticket == 0)
        return rc;
    rlk_tickets_add(&q->waiter, q->ops[0].ticket);
    rlk_count(&q->client->counters.queued, 1);
    rlk_count(&q->client->counters.polled, q->conn == NULL);
    q->had_to_wait |= q->ops[0].can_wait;
    plan_try(q, q->asked_us);
    if (!q->ops[0].can_wait || q->n > 1)
        q->try_at_us = 0; /* the lock may have been freed before the ticket was there */
    return ROWLOCK_OK;
}

/* The connection is used up, and the bell has rung or will when the server notices. */
static void lose_bell(queue *q)
{
    if (q->conn != NULL)
        rlk_pool_lose(q->client, RLK_USE_WAIT, q->conn);
    q->conn = NULL;
}

/* Takes the ticket off the queue; if that fails it dies by itself, and with its bell at once. */
static void leave(queue *q)
{
    rlk_sent sent;
    int64_t bound = rlk_wait_bound(q->wait);

    if (q->ops[0].ticket == 0)
        return;
    rlk_tickets_remove(&q->waiter);
    if (bound > LEAVE_BOUND_US)
        bound = LEAVE_BOUND_US;
    if (q->conn == NULL) {
        rlk_call(q->client, bound, do_leave, q, &sent, NULL);
    } else if (bound >= 1000 && do_leave(q->client, q->conn->state, (uint32_t)(bound / 1000), q,
                                         NULL) == ROWLOCK_OK) {
        rlk_pool_return(q->client, RLK_USE_WAIT, q->conn);
        q->conn = NULL;
    }
    lose_bell(q);
}

/* ---- the turn ---- */

static uint32_t slice_ms(const queue *q, int64_t now_us)
{
    int64_t left = (q->try_at_us - now_us) / 1000;

    if (left <= 0)
        return 0;
    return left < ROWLOCK_TURN_MAX_MS ? (uint32_t)left : ROWLOCK_TURN_MAX_MS;
}

static int turn_on_bell(queue *q, uint32_t wait_ms, rowlock_error *err)
{
    const int fds[] = {q->client->close_fd, rlk_cancel_fd(q->wait->cancel), q->waiter.ring_fd};
    int rc;

    q->sent.at_us = rlk_clock_us();
    rc = q->client->driver.turn(q->conn->state, q->ops, wait_ms, fds, 3,
                                rlk_wait_rest_ms(q->wait, wait_ms), err);
    if (rc != ROWLOCK_ECONNECT && rc != ROWLOCK_EUNKNOWN && rc != ROWLOCK_EDRIVER)
        return rc;
    /* Whatever it was, a try by the way of all calls, with its retries, tells. */
    q->is_open = 1;
    q->is_unknown = rc == ROWLOCK_EUNKNOWN;
    rlk_count(&q->client->counters.retries, 1);
    if (rc == ROWLOCK_EDRIVER)
        return ROWLOCK_OK;
    lose_bell(q);
    rlk_pool_close_idle(q->client);
    return ROWLOCK_OK;
}

/* What a turn or a try has brought. */
static int judge(queue *q, rowlock_error *err)
{
    const rowlock_op *busy = rlk_obstacle(q->ops, q->n);

    if (busy == NULL) {
        q->is_granted = 1;
        q->sent.at_us += q->n == 1 ? q->ops[0].waited_us : 0;
        return ROWLOCK_OK;
    }
    q->had_to_wait = 1;
    if (q->n == 1 && busy->status == ROWLOCK_LOST) {
        rlk_tickets_remove(&q->waiter);
        lose_bell(q);
        rlk_new_attempt(q->ops[0].attempt, q->client); /* or it would be late again */
        return enter(q, err);
    }
    if (busy->remaining_us != NOT_TRIED || !busy->can_wait)
        plan_try(q, rlk_clock_us());
    return ROWLOCK_OK;
}

static int try_now(queue *q, rowlock_error *err)
{
    int rc;

    for (size_t i = 0; i < q->n; i++)
        q->ops[i].waited_us = 0;
    if (q->conn != NULL && !q->is_open) {
        rc = turn_on_bell(q, 0, err);
    } else {
        q->is_open = 0;
        rc = rlk_call(q->client, rlk_wait_bound(q->wait), do_try, q, &q->sent, err);
        if (rc == ROWLOCK_OK && rlk_obstacle(q->ops, q->n) == NULL)
            lose_bell(q); /* it was had on another connection, which has none */
        if (rc != ROWLOCK_OK && q->is_unknown)
            rc = rlk_unknown(err);
        else if (rc == ROWLOCK_ECONNECT && rlk_wait_bound(q->wait) == 0)
            rc = ROWLOCK_TIMEOUT; /* nothing was sent any more */
        q->is_unknown = 0;
    }
    return rc != ROWLOCK_OK || q->is_open ? rc : judge(q, err);
}

static int wait_on_bell(queue *q, uint32_t wait_ms, rowlock_error *err)
{
    int64_t known = q->ops[0].remaining_us;
    int rc;

    q->ops[0].waited_us = 0;
    q->ops[0].remaining_us = NOT_TRIED;
    rc = turn_on_bell(q, wait_ms, err);
    if (rc != ROWLOCK_OK || q->is_open)
        return rc;
    rc = judge(q, err);
    if (q->ops[0].remaining_us == NOT_TRIED)
        q->ops[0].remaining_us = known;
    return rc;
}

/* Somebody rang, or the ticket is not there any more. */
static int was_rung(queue *q)
{
    int is_gone;

    rlk_unring(&q->waiter);
    rlk_mutex_lock(&q->client->mutex);
    is_gone = q->waiter.is_gone;
    rlk_mutex_unlock(&q->client->mutex);
    return is_gone;
}

static int reenter(queue *q, rowlock_error *err)
{
    leave(q);
    return enter(q, err);
}

/* A driver gives up a wait for that; it has to be answered, or it would be asked again and again.
 */
static int is_rung(const queue *q)
{
    return rlk_sleep_until(rlk_clock_us(), &q->waiter.ring_fd, 1) == 0;
}

/* One step of the wait: sleeps or waits, and tries when that is worth it. */
static int step(queue *q, rowlock_error *err)
{
    int64_t now = rlk_clock_us();
    int rc;

    if (q->is_open)
        return try_now(q, err);
    if (q->ops[0].ticket == 0) {
        rc = rlk_wait_until(q->wait, now + q->pause_us, q->waiter.ring_fd, err);
        return rc == ROWLOCK_OK ? enter(q, err) : rc;
    }
    if (q->try_at_us <= now)
        rc = now >= q->wait->until_us ? ROWLOCK_OK : rlk_wait_look(q->wait, err);
    else if (q->conn == NULL || !q->ops[0].can_wait)
        rc = rlk_wait_until(q->wait, q->try_at_us, q->waiter.ring_fd, err);
    else if ((rc = rlk_wait_look(q->wait, err)) == ROWLOCK_OK && !is_rung(q))
        return wait_on_bell(q, slice_ms(q, now), err);
    if (rc != ROWLOCK_OK)
        return rc;
    if (was_rung(q))
        return reenter(q, err);
    if (!rlk_wait_has_time(q->wait))
        return rlk_clock_us() < q->wait->until_us
                   ? rlk_wait_until(q->wait, q->wait->until_us, q->waiter.ring_fd, err)
                   : ROWLOCK_TIMEOUT;
    now = rlk_clock_us();
    rc = try_now(q, err);
    return rc == ROWLOCK_OK && !q->is_granted && !q->is_open && now >= q->wait->until_us
               ? ROWLOCK_TIMEOUT
               : rc;
}

/* It may have been given the lock, and the answer was lost: the same attempt tells. `ended`: what
 * the wait has come to, if it was not. */
static int ask_for_given(queue *q, int ended, rowlock_error *err)
{
    rowlock_error local;
    int rc = rlk_call(q->client, rlk_wait_bound(q->wait), do_acquire, q, &q->sent, &local);

    q->is_granted = rc == ROWLOCK_OK && rlk_obstacle(q->ops, q->n) == NULL;
    if (q->is_granted)
        return rlk_ok(err);
    if (rc == ROWLOCK_OK)
        return ended;
    *err = local;
    return rlk_unknown(err);
}

static int wait_in_line(queue *q, rowlock_error *err)
{
    int rc = rlk_line_wait(&q->waiter, q->wait, err);

    rc = rlk_hand_wait(&q->waiter, q->wait, rc, &q->is_granted, err);
    if (q->is_granted) {
        q->sent = q->waiter.handed;
    } else if (q->waiter.is_hand_left) {
        rlk_new_attempt(q->ops[0].attempt, q->client); /* what the other one has is not ours */
        rc = rlk_fail_native(err, ROWLOCK_EUNKNOWN, 0, NULL, 1,
                             "the wait ended while the lock was being handed over: if it was had, "
                             "it is given back if the database answers");
    } else if (q->waiter.is_hand_unknown) {
        rc = ask_for_given(q, rc, err);
    }
    return rc;
}

static int run(queue *q, rowlock_error *err)
{
    int rc = q->n == 1 ? wait_in_line(q, err) : ROWLOCK_OK;

    if (rc == ROWLOCK_OK && !q->is_granted)
        rc = rlk_watch_start(q->client, err);
    if (rc == ROWLOCK_OK && !q->is_granted)
        rc = enter(q, err);
    while (rc == ROWLOCK_OK && !q->is_granted)
        rc = step(q, err);
    return rc;
}

static void count_waiting(rowlock_client *client, int change)
{
    rlk_mutex_lock(&client->mutex);
    client->lines.waiting += (uint32_t)change;
    rlk_mutex_unlock(&client->mutex);
}

static void make_queue(queue *q, rowlock_client *client, rowlock_op *ops, size_t n,
                       const rlk_wait *wait)
{
    *q = (queue){.waiter = {.client = client, .ops = ops, .n = n},
                 .client = client,
                 .wait = wait,
                 .ops = ops,
                 .n = n,
                 .pause_us = FIRST_PAUSE_US};
    q->waiter.ring_fd = rlk_event_new();
}

/* All are had: the ticket is used up, and the bell goes with the tenure. */
static int hand_out(queue *q, rlk_granted_fn granted, void *arg, rowlock_error *err)
{
    rlk_tickets_remove(&q->waiter);
    if (q->n == 1)
        rlk_line_heat(q->client, q->ops, q->had_to_wait);
    if (q->conn != NULL && !q->ops[0].rings) {
        rlk_pool_return(q->client, RLK_USE_WAIT, q->conn);
        q->conn = NULL;
    }
    return granted(arg, q->conn, &q->sent, err);
}

int rlk_queue_acquire(rowlock_client *client, rowlock_op *ops, size_t n, const rlk_wait *wait,
                      rlk_granted_fn granted, void *arg, rowlock_error *err)
{
    rowlock_error local;
    queue q;
    int rc;

    err = err == NULL ? &local : err;
    make_queue(&q, client, ops, n, wait);
    if (n == 1)
        rlk_line_join(&q.waiter);
    count_waiting(client, 1); /* who sees it counted comes after it */
    rc = run(&q, err);
    if (rc != ROWLOCK_OK)
        leave(&q);
    else
        rc = hand_out(&q, granted, arg, err);
    if (n == 1)
        rlk_line_leave(&q.waiter);
    count_waiting(client, -1);
    if (q.waiter.ring_fd >= 0)
        rlk_event_free(q.waiter.ring_fd);
    return rc;
}

/* ---- bells of what is held ---- */

void rlk_bell_drop(rowlock_client *client, rlk_tenure *tenure)
{
    rlk_conn *conn;

    rlk_mutex_lock(&client->mutex);
    conn = tenure->bell;
    tenure->bell = NULL;
    rlk_mutex_unlock(&client->mutex);
    if (conn != NULL)
        rlk_pool_lose(client, RLK_USE_WAIT, conn);
}

void rlk_bells_drop(rowlock_client *client)
{
    for (size_t i = 0; i < client->tenures.slot_count; i++) {
        for (rlk_tenure *t = client->tenures.slots[i]; t != NULL; t = t->next)
            rlk_bell_drop(client, t);
    }
}
