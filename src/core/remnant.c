/* SPDX-License-Identifier: MIT
 *
 * Remnants: leases that are lost here, by the local clock, and not yet in the database, where the
 * margin is left, or a renewal was carried out whose answer came too late. If the same owner
 * acquired, it would re-enter the old tenure, and the holds of the handles that have lost it would
 * stay until the new lease has ended, with nobody to give them back. To give them back at their
 * loss is not possible either: another process of the same owner may have adopted them.
 *
 * So such an owner waits like everybody else until the old lease has ended. Only the database knows
 * when that is; to be asked, it is asked to renew that very tenure by nothing. Once it says no,
 * that tenure can never come back.
 *
 * Holds whose answer was lost are remnants, too. If the same owner entered them again and again
 * they would never end, whoever else waits. So a release that failed is sent once more before the
 * next acquire; an acquire without an answer is asked for again with the same attempt (acquire.c);
 * and where that happened to a re-entry, and the row counts more holds than there were handles, the
 * tenure is waited for. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core.h"

typedef struct remnants {
    size_t n;
    rlk_tenure **tenures;        /* pinned */
    rowlock_op *ops;             /* to ask for them */
    size_t *wanted;              /* which of the caller's each is */
    uint8_t *is_release_pending; /* its release is to be sent first */
    int any_pending;
} remnants;

/* Under the mutex. */
static size_t count(const rowlock_client *client, rlk_tenure *const *wanted, size_t n)
{
    size_t found = 0;

    for (size_t i = 0; i < n; i++)
        found += rlk_tenures_remnant(&client->tenures, wanted[i]) != NULL;
    return found;
}

/* Under the mutex. */
static int reserve(remnants *r, size_t n)
{
    r->tenures = calloc(n, sizeof(rlk_tenure *));
    r->ops = calloc(n, sizeof *r->ops);
    r->wanted = calloc(n, sizeof *r->wanted);
    r->is_release_pending = calloc(n, sizeof *r->is_release_pending);
    return r->tenures != NULL && r->ops != NULL && r->wanted != NULL &&
           r->is_release_pending != NULL;
}

/* Finds them, as a rule none. 0: out of memory. */
static int find(remnants *r, rowlock_client *client, rlk_tenure *const *wanted, size_t n)
{
    size_t found;
    int has_room = 1;

    rlk_mutex_lock(&client->mutex);
    found = count(client, wanted, n);
    if (found > 0)
        has_room = reserve(r, found);
    for (size_t i = 0; has_room && r->n < found && i < n; i++) {
        rlk_tenure *tenure = rlk_tenures_remnant(&client->tenures, wanted[i]);

        if (tenure == NULL)
            continue;
        tenure->refs++;
        rlk_op_of(&r->ops[r->n], client, tenure);
        r->ops[r->n].ttl_us = 1; /* no lease is shortened */
        r->tenures[r->n] = tenure;
        r->is_release_pending[r->n] = tenure->is_release_pending;
        r->any_pending |= tenure->is_release_pending;
        r->wanted[r->n++] = i;
    }
    rlk_mutex_unlock(&client->mutex);
    return has_room;
}

static void answer_busy(rowlock_op *op, const rlk_tenure *tenure, int64_t remaining_us)
{
    op->status = ROWLOCK_BUSY;
    op->remaining_us = remaining_us;
    op->holder_fence = tenure->fence;
    snprintf(op->holder, sizeof op->holder, "%s", tenure->owner);
}

/* Puts the answers to work; returns how many live on. */
static size_t settle(remnants *r, rowlock_client *client, rowlock_op *ops)
{
    size_t live = 0;

    rlk_mutex_lock(&client->mutex);
    for (size_t i = 0; i < r->n; i++) {
        const rowlock_op *op = &r->ops[i];

        if (op->status == ROWLOCK_LOST) {
            rlk_tenures_bury(&client->tenures, r->tenures[i]);
            continue;
        }
        answer_busy(&ops[r->wanted[i]], r->tenures[i],
                    op->status == ROWLOCK_OK ? op->remaining_us : 0);
        live++;
    }
    rlk_mutex_unlock(&client->mutex);
    return live;
}

static void discard(remnants *r, rowlock_client *client)
{
    rlk_mutex_lock(&client->mutex);
    for (size_t i = 0; i < r->n; i++)
        rlk_tenure_unref(r->tenures[i]);
    rlk_mutex_unlock(&client->mutex);
    free(r->tenures);
    free(r->ops);
    free(r->wanted);
    free(r->is_release_pending);
    *r = (remnants){0};
}

/* Whatever it was, nothing was acquired. */
static int no_unknown(int rc, rowlock_error *err)
{
    return rc != ROWLOCK_EUNKNOWN ? rc
                                  : rlk_fail_native(err, ROWLOCK_ECONNECT, 0, NULL, 1,
                                                    "the database did not answer in time");
}

static int ask(remnants *r, rowlock_client *client, int64_t bound_us, rowlock_error *err)
{
    rlk_sent sent;

    return no_unknown(rlk_send_renewals(client, r->ops, r->n, bound_us, &sent, err), err);
}

/* ---- releases that failed ---- */

void rlk_release_failed(rowlock_client *client, rlk_tenure *tenure, const rowlock_op *op)
{
    rlk_mutex_lock(&client->mutex);
    if (tenure->handles > 0) {
        tenure->may_linger = 1;
    } else {
        tenure->is_release_pending = 1;
        memcpy(tenure->pending_attempt, op->attempt, sizeof tenure->pending_attempt);
        memcpy(tenure->seen, op->seen, sizeof tenure->seen);
        rlk_tenures_leave_behind(&client->tenures, tenure);
    }
    rlk_mutex_unlock(&client->mutex);
}

/* Sends it with its attempt, so that it is not counted twice. A row that is kept locked stays a
 * remnant. */
static int resend_release(rowlock_client *client, rlk_tenure *tenure, rowlock_op *op,
                          int64_t bound_us, rowlock_error *err)
{
    rlk_sent sent;
    int rc;

    memcpy(op->attempt, tenure->pending_attempt, sizeof op->attempt);
    rc = no_unknown(rlk_send_release(client, op, 1, bound_us, &sent, err), err);
    if (rc != ROWLOCK_OK)
        return rc == ROWLOCK_EDRIVER ? ROWLOCK_OK : rc;
    rlk_mutex_lock(&client->mutex);
    tenure->is_release_pending = 0;
    if (op->status != ROWLOCK_OK || op->hold_count == 0 || !tenure->may_linger)
        rlk_tenures_bury(&client->tenures, tenure);
    rlk_mutex_unlock(&client->mutex);
    return ROWLOCK_OK;
}

/* Half of the time is for what comes after it. */
static int resend_releases(remnants *r, rowlock_client *client, int64_t bound_us,
                           rowlock_error *err)
{
    int64_t deadline = rlk_clock_us() + bound_us / 2;
    int rc = ROWLOCK_OK;

    for (size_t i = 0; i < r->n && rc == ROWLOCK_OK; i++) {
        if (r->is_release_pending[i])
            rc = resend_release(client, r->tenures[i], &r->ops[i], deadline - rlk_clock_us(), err);
    }
    return rc;
}

/* ---- all of them ---- */

int rlk_remnants_look(int *has_remnant, rowlock_client *client, rlk_tenure *const *wanted,
                      rowlock_op *ops, size_t n, int64_t bound_us, rowlock_error *err)
{
    remnants r = {0};
    int64_t deadline = rlk_clock_us() + bound_us;
    int rc = find(&r, client, wanted, n) ? ROWLOCK_OK : rlk_fail_memory(err);

    *has_remnant = 0;
    if (rc == ROWLOCK_OK && r.tenures == NULL)
        return rc;
    if (rc == ROWLOCK_OK && r.any_pending) {
        rc = resend_releases(&r, client, bound_us, err);
        discard(&r, client);
        if (rc == ROWLOCK_OK && !find(&r, client, wanted, n))
            rc = rlk_fail_memory(err);
    }
    if (rc == ROWLOCK_OK && r.n > 0)
        rc = ask(&r, client, deadline - rlk_clock_us(), err);
    if (rc == ROWLOCK_OK && r.n > 0) { /* else their time has just passed */
        for (size_t i = 0; i < n; i++)
            ops[i].status = ROWLOCK_OK;
        *has_remnant = settle(&r, client, ops) > 0;
    }
    discard(&r, client);
    return rc;
}
