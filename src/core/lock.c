/* SPDX-License-Identifier: MIT
 *
 * Holding: renew, check, release, and what the operations on locks share. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core.h"
#include "random.h"

#define FIRST_PAUSE_US   INT64_C(1000)
#define LONGEST_PAUSE_US INT64_C(32000)

/* To undo what came too late is a courtesy: the call's own time is up. */
#define UNDO_BOUND_US INT64_C(1000000)

enum { TRIES_AT_ONCE = 3 };

/* A tenth of the lease, at most two seconds: for clocks whose rates differ and for the way back. */
static int64_t margin(int64_t ttl_us)
{
    int64_t tenth = ttl_us / 10;

    return tenth < 2000000 ? tenth : 2000000;
}

int64_t rlk_deadline(const rlk_sent *sent, int64_t remaining_us, int64_t ttl_us)
{
    if (remaining_us > ROWLOCK_TTL_MAX_MS * 1000) /* whatever a driver says */
        remaining_us = ROWLOCK_TTL_MAX_MS * 1000;
    return sent->at_us + remaining_us - margin(remaining_us > ttl_us ? remaining_us : ttl_us);
}

void rlk_op_of(rowlock_op *op, const rlk_tenure *tenure)
{
    memset(op, 0, sizeof *op);
    op->name = tenure->name;
    op->name_length = tenure->name_length;
    op->owner = tenure->owner;
    op->note = "";
    op->ttl_us = tenure->ttl_us;
    op->fence = tenure->fence;
    memcpy(op->seen, tenure->seen, sizeof op->seen);
    rlk_random(op->attempt, sizeof op->attempt);
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
        rc = rlk_call(client, deadline - rlk_clock_us(), do_renew, &(batch){op, 1}, sent, err);
        if (rc != ROWLOCK_OK || op->status != ROWLOCK_BUSY)
            return rc;
        until = rlk_clock_us() + pause / 2 + rlk_random_below(pause);
        if (pause > LONGEST_PAUSE_US || until >= deadline || rlk_sleep_until(until, fds, 1) >= 0)
            return rlk_fail_native(err, ROWLOCK_BUSY, 0, NULL, 1,
                                   "a transaction keeps the row locked: try again");
        pause *= 2;
    }
}

int rlk_send_release(rowlock_client *client, rowlock_op *ops, size_t n, int64_t bound_us,
                     rlk_sent *sent, rowlock_error *err)
{
    return rlk_call(client, bound_us, do_release, &(batch){ops, n}, sent, err);
}

/* Sends one release until the row is as the request expects it: another thread, or another process
 * of the same owner, may have entered or left meanwhile. */
static int send_hold(rowlock_client *client, rowlock_op *op, int64_t bound_us, rlk_sent *sent,
                     rowlock_error *err)
{
    int64_t deadline = rlk_clock_us() + bound_us;
    int rc, tries = 0;

    do {
        if (++tries > TRIES_AT_ONCE)
            rlk_sleep_until(rlk_clock_us() + rlk_random_below(FIRST_PAUSE_US), NULL, 0);
        rc = rlk_send_release(client, op, 1, deadline - rlk_clock_us(), sent, err);
    } while (rc == ROWLOCK_OK && op->status == ROWLOCK_BUSY && !sent->repeated &&
             rlk_clock_us() < deadline);
    return rc;
}

static int lost(rowlock_error *err)
{
    return rlk_fail(err, ROWLOCK_LOST, "the lease has ended: the lock is not held any more");
}

static int enter_lock(const rowlock_lock *lock, rowlock_error *err)
{
    if (lock == NULL)
        return rlk_fail(err, ROWLOCK_EINVAL, "the lock is NULL: released, or never acquired");
    return rlk_enter(lock->client, err);
}

void rlk_undo(rowlock_client *client, rowlock_op *ops, size_t n)
{
    int64_t deadline = rlk_clock_us() + UNDO_BOUND_US;
    rlk_sent sent;

    for (size_t i = 0; i < n; i++)
        rlk_random(ops[i].attempt, sizeof ops[i].attempt);
    if (rlk_send_release(client, ops, n, UNDO_BOUND_US, &sent, NULL) != ROWLOCK_OK)
        return;
    for (size_t i = 0; i < n && !sent.repeated && rlk_clock_us() < deadline; i++) {
        if (ops[i].status == ROWLOCK_BUSY)
            send_hold(client, &ops[i], deadline - rlk_clock_us(), &sent, NULL);
    }
}

/* The database said yes. It counts only if the lease that was known before has not ended meanwhile:
 * somebody may have been told that it is lost, and lost is for ever. */
static int extend(rowlock_client *client, rlk_tenure *tenure, const rlk_sent *sent, rowlock_op *op,
                  rowlock_error *err)
{
    int64_t deadline = rlk_deadline(sent, op->remaining_us, op->ttl_us);
    int is_lost;

    pthread_mutex_lock(&client->mutex);
    is_lost = rlk_tenure_is_lost(tenure);
    if (!is_lost) {
        tenure->ttl_us = op->ttl_us;
        if (deadline > atomic_load(&tenure->deadline_us))
            atomic_store(&tenure->deadline_us, deadline);
    }
    pthread_mutex_unlock(&client->mutex);
    if (!is_lost)
        return rlk_ok(err);
    if (!tenure->is_adopted)
        rlk_undo(client, op, 1);
    return lost(err);
}

static int renew(rowlock_lock *lock, int64_t ttl_ms, rowlock_error *err)
{
    rlk_tenure *tenure = lock->tenure;
    rowlock_op op;
    rlk_sent sent;
    int rc;

    if (rlk_tenure_is_lost(tenure))
        return lost(err);
    pthread_mutex_lock(&lock->client->mutex);
    rlk_op_of(&op, tenure);
    pthread_mutex_unlock(&lock->client->mutex);
    if (ttl_ms != 0)
        op.ttl_us = ttl_ms * 1000;
    rc = rlk_send_renew(lock->client, &op, &sent, err);
    if (rc != ROWLOCK_OK)
        return rc;
    if (op.status == ROWLOCK_OK)
        return extend(lock->client, tenure, &sent, &op, err);
    atomic_store(&tenure->lost, 1);
    return lost(err);
}

int rowlock_renew(rowlock_lock *lock, int64_t ttl_ms, rowlock_error *err)
{
    int rc = enter_lock(lock, err);

    if (rc != ROWLOCK_OK)
        return rc;
    if (ttl_ms != 0)
        rc = rlk_check_ttl(ttl_ms, err);
    if (rc == ROWLOCK_OK)
        rc = renew(lock, ttl_ms, err);
    rlk_leave(lock->client);
    return rc;
}

int rowlock_check(const rowlock_lock *lock)
{
    if (lock == NULL)
        return ROWLOCK_EINVAL;
    if (lock->client->pid != getpid())
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

uint64_t rowlock_fence(const rowlock_lock *lock)
{
    return lock == NULL ? 0 : lock->tenure->fence;
}

const char *rowlock_owner(const rowlock_lock *lock)
{
    return lock == NULL ? NULL : lock->tenure->owner;
}

/* Gives one hold of a tenure that is not lost back to the database. */
static int give_back(rowlock_client *client, rlk_tenure *tenure, rowlock_error *err)
{
    rowlock_op op;
    rlk_sent sent;
    int rc;

    pthread_mutex_lock(&client->mutex);
    rlk_op_of(&op, tenure);
    pthread_mutex_unlock(&client->mutex);
    rc = send_hold(client, &op, client->call_timeout_us, &sent, err);
    if (rc != ROWLOCK_OK)
        return rc;
    if (op.status == ROWLOCK_OK) {
        pthread_mutex_lock(&client->mutex);
        memcpy(tenure->seen, op.attempt, sizeof tenure->seen);
        pthread_mutex_unlock(&client->mutex);
        if (op.hold_count == 0) /* for an adopted handle, too, that was not the one released */
            atomic_store(&tenure->lost, 1);
        return rlk_ok(err);
    }
    if (op.status == ROWLOCK_LOST && !sent.repeated)
        return lost(err);
    if (!sent.repeated)
        return rlk_fail_native(err, ROWLOCK_EUNKNOWN, 0, NULL, 1,
                               "others of the same owner changed the lock all the time: this hold "
                               "stays until the ttl has passed");
    /* An answer was lost. The request may have been carried out, and then somebody has changed the
     * row; or it was not. To count once more could free a lock that is held. */
    return rlk_fail(err, ROWLOCK_EUNKNOWN,
                    "the first answer was lost, and since then the lock was changed by others");
}

int rowlock_release(rowlock_lock **lock, rowlock_error *err)
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
        if (rc == ROWLOCK_OK) {
            /* Out of the table first: from here on nothing renews it, nor does close release it. */
            pthread_mutex_lock(&client->mutex);
            rlk_tenures_detach(&client->tenures, l->tenure);
            pthread_mutex_unlock(&client->mutex);
            rc = rlk_tenure_is_lost(l->tenure) ? lost(err) : give_back(client, l->tenure, err);
            rlk_leave(client);
        }
        pthread_mutex_lock(&client->mutex);
        rlk_tenure_unref(l->tenure);
        pthread_mutex_unlock(&client->mutex);
        rlk_client_unref(client);
    }
    free(l);
    return rc;
}
