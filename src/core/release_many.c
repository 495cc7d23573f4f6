/* SPDX-License-Identifier: MIT
 *
 * Releasing many handles at once. Each hold is given back as rowlock_release() does, but in shared
 * requests, and not handed on: whoever waits in this process is woken, and asks. */
#include <stdlib.h>
#include <string.h>

#include "core.h"
#include "random.h"

#define PAUSE_US INT64_C(1000)

enum { TRIES_AT_ONCE = 3 };

/* One handle. */
typedef struct part {
    rowlock_lock *lock;
    size_t number; /* its place in the caller's array */
    int is_open;   /* to be sent, or sent again */
    rowlock_error err;
} part;

typedef struct parting {
    rowlock_client *client;
    part *parts; /* by name */
    size_t n;
    rowlock_op *ops; /* a request, and whose its operations are */
    part **of;
    int64_t deadline_us;
} parting;

/* ---- the handles ---- */

static int by_name(const void *a, const void *b)
{
    const part *x = a, *y = b;
    int order = rlk_tenure_by_name(&x->lock->tenure, &y->lock->tenure);

    return order != 0 ? order : (x->lock > y->lock) - (x->lock < y->lock);
}

/* Checked and sorted; nothing is done yet. */
static int prepare(parting *p, rowlock_lock *const *locks, size_t n, rowlock_error *err)
{
    size_t room = n < ROWLOCK_BATCH_MAX ? n : ROWLOCK_BATCH_MAX;

    p->parts = calloc(n, sizeof *p->parts);
    p->ops = calloc(room, sizeof *p->ops);
    p->of = calloc(room, sizeof(part *));
    if (p->parts == NULL || p->ops == NULL || p->of == NULL)
        return rlk_fail_memory(err);
    for (size_t i = 0; i < n; i++) {
        if (locks[i] == NULL)
            continue;
        if (p->client != NULL && locks[i]->client != p->client)
            return rlk_fail(err, ROWLOCK_EINVAL, "the locks are of several clients");
        p->client = locks[i]->client;
        p->parts[p->n++] = (part){.lock = locks[i], .number = i};
    }
    qsort(p->parts, p->n, sizeof *p->parts, by_name);
    for (size_t i = 1; i < p->n; i++) {
        if (p->parts[i].lock == p->parts[i - 1].lock)
            return rlk_fail(err, ROWLOCK_EINVAL, "a lock is given twice");
    }
    return ROWLOCK_OK;
}

/* Out of all that the client does with them. What is lost is not sent. */
static void withdraw(parting *p, int is_closed)
{
    for (size_t i = 0; i < p->n; i++) {
        part *one = &p->parts[i];
        rlk_tenure *tenure = one->lock->tenure;

        rlk_mutex_lock(&p->client->mutex);
        rlk_watch_remove(p->client, one->lock);
        one->is_open = !is_closed && !rlk_tenure_is_lost(tenure);
        if (!is_closed)
            rlk_tenures_detach(&p->client->tenures, tenure);
        rlk_mutex_unlock(&p->client->mutex);
        if (!is_closed && !one->is_open)
            rlk_lost(&one->err);
    }
}

/* ---- the requests ---- */

/* The next one: no name twice. */
static size_t next_request(parting *p)
{
    size_t n = 0;

    rlk_mutex_lock(&p->client->mutex);
    for (size_t i = 0; i < p->n && n < ROWLOCK_BATCH_MAX; i++) {
        part *one = &p->parts[i];

        if (!one->is_open ||
            (n > 0 && rlk_tenure_by_name(&p->of[n - 1]->lock->tenure, &one->lock->tenure) == 0))
            continue;
        rlk_op_of(&p->ops[n], p->client, one->lock->tenure);
        p->of[n++] = one;
    }
    rlk_mutex_unlock(&p->client->mutex);
    return n;
}

/* What was answered. Who met a change by others of the same owner is sent again, with what was
 * seen, while there is time. Returns how many were not. */
static size_t settle(parting *p, size_t n, const rlk_sent *sent, int rc, const rowlock_error *err)
{
    int may_retry = rc == ROWLOCK_OK && !sent->repeated && rlk_clock_us() < p->deadline_us;
    size_t done = 0;

    for (size_t i = 0; i < n; i++) {
        rlk_tenure *tenure = p->of[i]->lock->tenure;

        if (may_retry && p->ops[i].status == ROWLOCK_BUSY) {
            rlk_mutex_lock(&p->client->mutex);
            memcpy(tenure->seen, p->ops[i].seen, sizeof tenure->seen);
            rlk_mutex_unlock(&p->client->mutex);
            continue;
        }
        p->of[i]->is_open = 0;
        done++;
        if (rc == ROWLOCK_OK) {
            rlk_release_answer(p->client, tenure, &p->ops[i], sent->repeated, &p->of[i]->err);
            continue;
        }
        p->of[i]->err = *err;
        rlk_release_failed(p->client, tenure, &p->ops[i]);
    }
    return done;
}

static void send_all(parting *p)
{
    int vain = 0;
    size_t n;

    while ((n = next_request(p)) > 0) {
        rlk_sent sent = {0};
        rowlock_error err;
        int rc =
            rlk_send_release(p->client, p->ops, n, p->deadline_us - rlk_clock_us(), &sent, &err);

        vain = settle(p, n, &sent, rc, &err) == 0 ? vain + 1 : 0;
        if (vain > TRIES_AT_ONCE)
            rlk_sleep_until(rlk_clock_us() + rlk_random_below(PAUSE_US), NULL, 0);
    }
}

/* Numbers and events, and whoever waits. A bell that is left rings when its connection is closed.
 */
static void note_all(parting *p)
{
    for (size_t i = 0; i < p->n; i++) {
        rlk_tenure *tenure = p->parts[i].lock->tenure;
        int is_last;

        rlk_mutex_lock(&p->client->mutex);
        is_last = tenure->handles == 0;
        rlk_mutex_unlock(&p->client->mutex);
        if (is_last)
            rlk_bell_drop(p->client, tenure);
        rlk_release_note(p->client, tenure, p->parts[i].err.status, 0);
    }
}

/* ---- the call ---- */

/* Frees the handles, and finds the first answer, in the caller's order, that is not OK. */
static int conclude(parting *p, int *statuses, rowlock_lock **locks, size_t n, int is_forked,
                    rowlock_error *err)
{
    const part *worst = NULL;

    for (size_t i = 0; i < n; i++) {
        locks[i] = NULL;
        if (statuses != NULL)
            statuses[i] = ROWLOCK_OK;
    }
    for (size_t i = 0; i < p->n; i++) {
        const part *one = &p->parts[i];

        if (statuses != NULL)
            statuses[one->number] = one->err.status;
        if (one->err.status != ROWLOCK_OK && (worst == NULL || one->number < worst->number))
            worst = one;
        rlk_handle_free(one->lock, is_forked);
    }
    if (worst == NULL)
        return rlk_ok(err);
    if (err != NULL)
        *err = worst->err;
    return worst->err.status;
}

/* With the client entered, or `rc` says why it is not. */
static void part_with(parting *p, int rc, const rowlock_error *why)
{
    if (rc != ROWLOCK_EFORK)
        withdraw(p, rc != ROWLOCK_OK);
    for (size_t i = 0; i < p->n && rc != ROWLOCK_OK; i++)
        p->parts[i].err = *why;
    if (rc != ROWLOCK_OK)
        return;
    p->deadline_us = rlk_clock_us() + p->client->call_timeout_us;
    send_all(p);
    note_all(p);
    rlk_leave(p->client);
}

static int release_many(int *statuses, rowlock_lock **locks, size_t n, rowlock_error *err)
{
    parting p = {0};
    rowlock_error why;
    int rc, entered;

    if (n == 0)
        return rlk_ok(err);
    if (locks == NULL)
        return rlk_fail(err, ROWLOCK_EINVAL, "locks is NULL");
    rc = prepare(&p, locks, n, err);
    if (rc == ROWLOCK_OK && p.n > 0) {
        entered = rlk_enter(p.client, &why);
        part_with(&p, entered, &why);
        rc = conclude(&p, statuses, locks, n, entered == ROWLOCK_EFORK, err);
    } else if (rc == ROWLOCK_OK) {
        rc = conclude(&p, statuses, locks, n, 0, err);
    }
    free(p.parts);
    free(p.ops);
    free(p.of);
    return rc;
}

/* Handles are freed when the client has been left already. */
int rowlock_release_many(int *statuses, rowlock_lock **locks, size_t n, rowlock_error *err)
{
    int rc;

    rlk_cancel_disable();
    rc = release_many(statuses, locks, n, err);
    rlk_cancel_enable();
    return rc;
}
