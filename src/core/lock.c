/* SPDX-License-Identifier: MIT
 *
 * Holding: renew, check, release, and what the operations on locks share. */
#include <stdlib.h>
#include <string.h>

#include "core.h"
#include "random.h"

#define FIRST_PAUSE_US   INT64_C(1000)
#define LONGEST_PAUSE_US INT64_C(32000)

/* To undo what came too late is a courtesy: the call's own time is up. */
#define UNDO_BOUND_US INT64_C(1000000)

enum { TRIES_AT_ONCE = 3 };

int64_t rlk_margin(int64_t ttl_us)
{
    int64_t tenth = ttl_us / 10;

    return tenth < 2000000 ? tenth : 2000000;
}

int64_t rlk_deadline(const rlk_sent *sent, int64_t remaining_us, int64_t ttl_us)
{
    return sent->at_us + (remaining_us < ttl_us ? remaining_us : ttl_us) - rlk_margin(ttl_us);
}

void rlk_op_of(rowlock_op *op, rowlock_client *client, const rlk_tenure *tenure)
{
    memset(op, 0, sizeof *op);
    op->name = tenure->name;
    op->name_length = tenure->name_length;
    op->owner = tenure->owner;
    op->note = "";
    op->ttl_us = tenure->ttl_us;
    op->fence = tenure->fence;
    memcpy(op->seen, tenure->seen, sizeof op->seen);
    rlk_new_attempt(op->attempt, client);
}

typedef struct batch {
    rowlock_op *ops;
    size_t n;
} batch;

static int do_renew(rowlock_client *client, void *conn, uint32_t timeout_ms, void *arg,
                    rowlock_error *err)
{
    batch *b = arg;

    return client->driver.renew(conn, b->ops, b->n, timeout_ms, err);
}

static int do_release(rowlock_client *client, void *conn, uint32_t timeout_ms, void *arg,
                      rowlock_error *err)
{
    batch *b = arg;

    return client->driver.release(conn, b->ops, b->n, timeout_ms, err);
}

/* A row that is locked for a moment, by somebody who lost a race for it a moment ago, is asked for
 * again; one that a transaction keeps is not waited for. */
int rlk_send_renew(rowlock_client *client, rowlock_op *op, rlk_sent *sent, rowlock_error *err)
{
    const int fds[] = {client->close_fd};
    int64_t deadline = rlk_clock_us() + client->call_timeout_us, pause = FIRST_PAUSE_US, until;
    int rc;

    for (;;) {
        rc = rlk_combine(client, RLK_RENEW, op, deadline - rlk_clock_us(), sent, err);
        if (rc != ROWLOCK_OK || op->status != ROWLOCK_BUSY)
            return rc;
        until = rlk_clock_us() + pause / 2 + rlk_random_below(pause);
        if (pause > LONGEST_PAUSE_US || until >= deadline || rlk_sleep_until(until, fds, 1) >= 0)
            return rlk_fail_native(err, ROWLOCK_BUSY, 0, NULL, 1,
                                   "a transaction keeps the row locked: try again");
        pause *= 2;
    }
}

int rlk_send_renewals(rowlock_client *client, rowlock_op *ops, size_t n, int64_t bound_us,
                      rlk_sent *sent, rowlock_error *err)
{
    return rlk_call_keep(client, bound_us, do_renew, &(batch){ops, n}, sent, err);
}

int rlk_send_release(rowlock_client *client, rowlock_op *ops, size_t n, int64_t bound_us,
                     rlk_sent *sent, rowlock_error *err)
{
    return rlk_call_keep(client, bound_us, do_release, &(batch){ops, n}, sent, err);
}

/* Sends one release until the row is as the request expects it: another thread, or another process
 * of the same owner, may have entered or left meanwhile. `alone`: not together with those of other
 * threads, which would have to wait for it. */
static int send_hold(rowlock_client *client, rowlock_op *op, int alone, int64_t bound_us,
                     rlk_sent *sent, rowlock_error *err)
{
    int64_t deadline = rlk_clock_us() + bound_us;
    int rc, tries = 0;

    do {
        if (++tries > TRIES_AT_ONCE)
            rlk_sleep_until(rlk_clock_us() + rlk_random_below(FIRST_PAUSE_US), NULL, 0);
        rc = alone ? rlk_send_release(client, op, 1, deadline - rlk_clock_us(), sent, err)
                   : rlk_combine(client, RLK_RELEASE, op, deadline - rlk_clock_us(), sent, err);
    } while (rc == ROWLOCK_OK && op->status == ROWLOCK_BUSY && !sent->repeated &&
             rlk_clock_us() < deadline);
    return rc;
}

int rlk_lost(rowlock_error *err)
{
    return rlk_fail(err, ROWLOCK_LOST, "the lease has ended: the lock is not held any more");
}

int rlk_enter_lock(const rowlock_lock *lock, rowlock_error *err)
{
    if (lock == NULL)
        return rlk_fail(err, ROWLOCK_EINVAL, "the lock is NULL: released, or never acquired");
    return rlk_enter(lock->client, err);
}

int rlk_undo(rowlock_client *client, rowlock_op *ops, size_t n, int64_t bound_us)
{
    int64_t bound = bound_us < UNDO_BOUND_US ? bound_us : UNDO_BOUND_US;
    int64_t deadline = rlk_clock_us() + bound;
    rlk_sent sent;
    int rc;

    for (size_t i = 0; i < n; i++)
        rlk_new_attempt(ops[i].attempt, client);
    rc = rlk_send_release(client, ops, n, bound, &sent, NULL);
    for (size_t i = 0; i < n && rc == ROWLOCK_OK; i++) {
        if (ops[i].status == ROWLOCK_BUSY && !sent.repeated && rlk_clock_us() < deadline)
            rc = send_hold(client, &ops[i], 1, deadline - rlk_clock_us(), &sent, NULL);
        if (ops[i].status == ROWLOCK_BUSY)
            rc = ROWLOCK_EUNKNOWN;
    }
    return rc;
}

int rlk_release_answer(rowlock_client *client, rlk_tenure *tenure, const rowlock_op *op,
                       int is_repeated, rowlock_error *err)
{
    int is_shared;

    if (op->status == ROWLOCK_OK) {
        rlk_mutex_lock(&client->mutex);
        memcpy(tenure->seen, op->attempt, sizeof tenure->seen);
        is_shared = tenure->handles > 0;
        if (op->hold_count == 0)
            rlk_tenure_lose(tenure, ROWLOCK_LOSS_EXPIRED);
        else if (!is_shared && tenure->may_linger)
            rlk_tenures_leave_behind(&client->tenures, tenure);
        rlk_mutex_unlock(&client->mutex);
        if (op->hold_count == 0 &&
            is_shared) /* an adopted handle's, that was not the one released */
            rlk_watch_wake(client);
        return rlk_ok(err);
    }
    if (op->status == ROWLOCK_LOST && !is_repeated)
        return rlk_lost(err);
    if (!is_repeated)
        return rlk_fail_native(err, ROWLOCK_EUNKNOWN, 0, NULL, 1,
                               "others of the same owner changed the lock all the time: this hold "
                               "stays until the ttl has passed");
    /* An answer was lost. The request may have been carried out, and then somebody has changed the
     * row; or it was not. To count once more could free a lock that is held. */
    return rlk_fail(err, ROWLOCK_EUNKNOWN,
                    "the first answer was lost, and since then the lock was changed by others");
}

void rlk_release_note(rowlock_client *client, rlk_tenure *tenure, int rc, int handed)
{
    int64_t held_us = rlk_clock_us() - tenure->acquired_us;

    if (rc == ROWLOCK_OK) {
        if (!handed) /* else it was told */
            rlk_line_ring(client, tenure->name, tenure->name_length);
        rlk_count(&client->counters.released, 1);
        rlk_count_time(client->counters.hold_buckets, held_us);
        rlk_emit_tenure(client, ROWLOCK_EVENT_RELEASED, tenure, held_us);
    } else if (rc == ROWLOCK_LOST) {
        rlk_count_loss(client, tenure);
    }
}

/* It counts only if the lease that was known before has not ended meanwhile: somebody may have been
 * told that it is lost, and lost is for ever. */
int rlk_extend(rlk_tenure *tenure, const rlk_sent *sent, const rowlock_op *op)
{
    rlk_tenure_outlives(tenure, op->remaining_us);
    if (rlk_tenure_is_lost(tenure))
        return 0;
    atomic_store(&tenure->is_unreachable, 0);
    /* It reaches as far as it may. Not by comparing with the tenure's ttl: a re-entry may have
     * raised that since the request was sent. */
    if (sent->at_us + op->ttl_us >= atomic_load(&tenure->hold_until_us))
        atomic_store(&tenure->is_last, 1);
    rlk_tenure_prolong(tenure, rlk_deadline(sent, op->remaining_us, op->ttl_us));
    return 1;
}

static int extend(rowlock_client *client, rlk_tenure *tenure, const rlk_sent *sent, rowlock_op *op,
                  rowlock_error *err)
{
    int counts;

    rlk_mutex_lock(&client->mutex);
    counts = rlk_extend(tenure, sent, op);
    rlk_mutex_unlock(&client->mutex);
    return counts ? rlk_ok(err) : rlk_lost(err);
}

static int renew(rowlock_lock *lock, int64_t ttl_ms, rowlock_error *err)
{
    rlk_tenure *tenure = lock->tenure;
    rowlock_client *client = lock->client;
    rowlock_op op;
    rlk_sent sent;
    int64_t start = rlk_clock_us();
    int rc;

    if (rlk_tenure_is_lost(tenure))
        return rlk_lost(err);
    rlk_mutex_lock(&client->mutex);
    rlk_op_of(&op, client, tenure);
    rlk_mutex_unlock(&client->mutex);
    op.ttl_us = rlk_tenure_ttl(tenure, ttl_ms != 0 ? ttl_ms * 1000 : op.ttl_us);
    rc = rlk_send_renew(client, &op, &sent, err);
    if (rc == ROWLOCK_EUNKNOWN) {
        rlk_mutex_lock(&client->mutex);
        rlk_tenure_outlives(tenure, op.ttl_us);
        rlk_mutex_unlock(&client->mutex);
    }
    if (rc != ROWLOCK_OK)
        return rc;
    if (op.status == ROWLOCK_OK) {
        rlk_count(&client->counters.renewed, 1);
        return extend(client, tenure, &sent, &op, err);
    }
    rlk_lose_and_refine(client, tenure, start + client->call_timeout_us);
    return rlk_lost(err);
}

int rowlock_renew(rowlock_lock *lock, int64_t ttl_ms, rowlock_error *err)
{
    int rc = rlk_enter_lock(lock, err);

    if (rc != ROWLOCK_OK)
        return rc;
    if (ttl_ms != 0)
        rc = rlk_check_ttl(ttl_ms, err);
    if (rc == ROWLOCK_OK)
        rc = renew(lock, ttl_ms, err);
    rlk_leave(lock->client);
    return rc;
}

int rowlock_ensure(rowlock_lock *lock, int64_t remaining_ms, rowlock_error *err)
{
    int rc = rlk_enter_lock(lock, err);
    int64_t left;

    if (rc != ROWLOCK_OK)
        return rc;
    left = atomic_load(&lock->tenure->deadline_us) - rlk_clock_us();
    if (remaining_ms < 0 || remaining_ms > ROWLOCK_TTL_MAX_MS)
        rc =
            rlk_fail(err, ROWLOCK_EINVAL, "remaining_ms of %lld is not possible: give 0 to 31 days",
                     (long long)remaining_ms);
    else if (rlk_tenure_is_lost(lock->tenure))
        rc = rlk_lost(err);
    else if (left < remaining_ms * 1000)
        rc = renew(lock, 0, err);
    rlk_leave(lock->client);
    return rc;
}

int rowlock_check(const rowlock_lock *lock)
{
    if (lock == NULL)
        return ROWLOCK_EINVAL;
    if (lock->client->pid != rlk_getpid())
        return ROWLOCK_EFORK;
    if (atomic_load(&lock->client->closed))
        return ROWLOCK_ECLOSED;
    return rlk_tenure_is_lost(lock->tenure) ? ROWLOCK_LOST : ROWLOCK_OK;
}

int64_t rowlock_remaining(const rowlock_lock *lock)
{
    int64_t left;

    if (rowlock_check(lock) != ROWLOCK_OK)
        return 0;
    left = atomic_load(&lock->tenure->deadline_us) - rlk_clock_us();
    return left > 0 ? left / 1000 : 0;
}

int rowlock_loss(const rowlock_lock *lock)
{
    return rowlock_check(lock) == ROWLOCK_LOST ? atomic_load(&lock->tenure->lost)
                                               : ROWLOCK_LOSS_NONE;
}

uint64_t rowlock_fence(const rowlock_lock *lock)
{
    return lock == NULL ? 0 : lock->tenure->fence;
}

const char *rowlock_name(const rowlock_lock *lock, size_t *length)
{
    if (length != NULL)
        *length = lock == NULL ? 0 : lock->tenure->name_length;
    return lock == NULL ? NULL : lock->tenure->name;
}

const char *rowlock_owner(const rowlock_lock *lock)
{
    return lock == NULL ? NULL : lock->tenure->owner;
}

/* The last hold of a tenure that was waited for goes back on the connection that has the bell, so
 * that the next one is woken in the same round trip. 1: done. Else the usual way is open; *repeated
 * says whether this one may have been carried out. */
static int release_on_bell(rowlock_client *client, rlk_tenure *tenure, rowlock_op *op,
                           int64_t deadline_us, int *repeated)
{
    rlk_conn *conn = NULL;
    int rc;

    rlk_mutex_lock(&client->mutex);
    if (tenure->handles == 0) {
        conn = tenure->bell;
        tenure->bell = NULL;
        op->ticket = tenure->ticket;
    }
    rlk_mutex_unlock(&client->mutex);
    if (conn == NULL)
        return 0;
    rc = client->driver.release(conn->state, op, 1, rlk_bound_ms(client, deadline_us), NULL);
    op->ticket = 0;
    *repeated = rc == ROWLOCK_EUNKNOWN;
    if (rc == ROWLOCK_OK && op->status == ROWLOCK_OK) {
        rlk_pool_return(client, RLK_USE_WAIT, conn);
        return 1;
    }
    rlk_pool_lose(client, RLK_USE_WAIT, conn); /* which rings, too */
    return 0;
}

/* Gives one hold of a tenure that is not lost on to the next (*handed), or back to the database.
 * The ways that depend on one connection have half of the time: it may be stuck. */
static int give_back(rowlock_client *client, rlk_tenure *tenure, rlk_handing *next, int *handed,
                     rowlock_error *err)
{
    rowlock_error local;
    rowlock_op op;
    rlk_sent sent = {0};
    int64_t start = rlk_clock_us(), half = start + client->call_timeout_us / 2;
    int64_t deadline = start + client->call_timeout_us;
    int rc = ROWLOCK_OK, repeated = 0, alone;

    err = err == NULL ? &local : err;
    rlk_mutex_lock(&client->mutex);
    rlk_op_of(&op, client, tenure);
    alone = tenure->is_guarded;
    rlk_mutex_unlock(&client->mutex);
    *handed = next != NULL && rlk_hand_over(client, tenure, next, &op, half, &repeated);
    if (!*handed && !release_on_bell(client, tenure, &op, half, &repeated))
        rc = repeated ? rlk_send_release(client, &op, 1, deadline - rlk_clock_us(), &sent, err)
                      : send_hold(client, &op, alone, deadline - rlk_clock_us(), &sent, err);
    sent.repeated |= repeated;
    if (rc != ROWLOCK_OK)
        rlk_release_failed(client, tenure, &op);
    if (rc < 0 && repeated)
        return rlk_unknown(err);
    if (rc != ROWLOCK_OK)
        return rc;
    return rlk_release_answer(client, tenure, &op, sent.repeated, err);
}

/* Gives it back; or finds that it is lost, and sends nothing: others of the same owner may have
 * adopted it, and count on it. Out of the table first, as it is from the watched ones: nothing
 * renews it any more, nor does close release it. */
static int release(rowlock_client *client, rowlock_lock *lock, rowlock_error *err)
{
    rlk_tenure *tenure = lock->tenure;
    rlk_handing next;
    int rc, handed = 0, has_next = 0, is_lost = rlk_tenure_is_lost(tenure);

    rlk_mutex_lock(&client->mutex);
    rlk_tenures_detach(&client->tenures, tenure);
    if (!is_lost)
        has_next = rlk_hand_next(&next, client, tenure);
    rlk_mutex_unlock(&client->mutex);
    if (is_lost) {
        rlk_bell_drop(client, tenure);
        rc = rlk_lost(err);
    } else {
        rc = give_back(client, tenure, has_next ? &next : NULL, &handed, err);
    }
    rlk_release_note(client, tenure, rc, handed);
    return rc;
}

void rlk_handle_free(rowlock_lock *lock, int is_forked)
{
    rowlock_client *client = lock->client;

    if (!is_forked) {
        /* A tenure that had left the table has kept its bell when the client was closed. */
        if (atomic_load(&client->closed))
            rlk_bell_drop(client, lock->tenure);
        rlk_mutex_lock(&client->mutex);
        rlk_tenure_unref(lock->tenure);
        client->handles--;
        rlk_mutex_unlock(&client->mutex);
        rlk_client_unref(client);
    }
    if (atomic_load(&lock->lost_fd) >= 0)
        rlk_event_free(atomic_load(&lock->lost_fd));
    free(lock);
}

static int let_go(rowlock_lock **lock, rlk_let_go_fn how, rowlock_error *err)
{
    rowlock_lock *l = lock == NULL ? NULL : *lock;
    rowlock_client *client;
    int rc;

    if (l == NULL)
        return rlk_fail(err, ROWLOCK_EINVAL, "the lock is NULL: released, or never acquired");
    *lock = NULL;
    client = l->client;
    rc = rlk_enter(client, err);
    if (rc != ROWLOCK_EFORK) {
        rlk_mutex_lock(&client->mutex);
        rlk_watch_remove(client, l);
        rlk_mutex_unlock(&client->mutex);
        if (rc == ROWLOCK_OK) {
            rc = how(client, l, err);
            rlk_leave(client);
        }
    }
    rlk_handle_free(l, rc == ROWLOCK_EFORK);
    return rc;
}

int rlk_let_go(rowlock_lock **lock, rlk_let_go_fn how, rowlock_error *err)
{
    int rc;

    rlk_cancel_disable();
    rc = let_go(lock, how, err);
    rlk_cancel_enable();
    return rc;
}

int rowlock_release(rowlock_lock **lock, rowlock_error *err)
{
    return rlk_let_go(lock, release, err);
}
