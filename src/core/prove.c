/* SPDX-License-Identifier: MIT
 *
 * Does this database lock? A server may speak the protocol, accept every statement and lock
 * nothing. So two sessions ask for the same lock by the statements that are used for locks, in each
 * of the ways that the driver has, and the second one must not get it. The names are random, hence
 * nobody's; what stays is two free rows, which the reaper removes. */
#include <stdio.h>
#include <string.h>

#include "core.h"
#include "random.h"

#define LEASE_US     INT64_C(10000000)
#define GUARD_US     INT64_C(500000) /* a lease that is to end while it is guarded; */
#define GUARD_FACTOR 4               /* longer by this if it ended before */
#define GUARD_TRIES  3
#define MARGIN_US    INT64_C(50000)
#define REFUSE_MS    500 /* within which a database must refuse what is locked */

enum { NAME_SIZE = 40 };

typedef struct proof {
    rowlock_client *client;
    rlk_conn *first, *second;
    int64_t deadline_us;
    char lease[NAME_SIZE], row[NAME_SIZE]; /* two locks */
    const char *shared;                    /* what both sessions got; NULL: nothing so far */
} proof;

/* ---- one request ---- */

static uint32_t left_ms(const proof *p)
{
    int64_t left = (p->deadline_us - rlk_clock_us()) / 1000;

    return left < 1 ? 1 : (uint32_t)left;
}

static void make_op(rowlock_op *out, const proof *p, const char *name, const char *owner)
{
    memset(out, 0, sizeof *out);
    out->name = name;
    out->name_length = strlen(name);
    out->owner = owner;
    out->note = "";
    out->ttl_us = LEASE_US;
    rlk_new_attempt(out->attempt, p->client);
}

static int not_granted(const char *what, rowlock_error *err)
{
    return rlk_fail_native(err, ROWLOCK_EDRIVER, 0, NULL, 1,
                           "the first of two sessions could not get %s of a name of its own", what);
}

static int get_lease(const proof *p, rowlock_op *op, rowlock_error *err)
{
    int rc = p->client->driver.acquire(p->second->state, op, 1, 0, left_ms(p), err);

    return rc == ROWLOCK_OK && op->status != ROWLOCK_OK ? not_granted("a lease", err) : rc;
}

/* The second session must not get these. */
static int must_not_get_lease(proof *p, const char *name, const char *shared, rowlock_error *err)
{
    rowlock_op op;
    int rc;

    make_op(&op, p, name, "rowlock doctor, second session");
    rc = p->client->driver.acquire(p->second->state, &op, 1, 0, REFUSE_MS, err);
    if (rc == ROWLOCK_OK && op.status == ROWLOCK_OK)
        p->shared = shared;
    return rc;
}

static int must_not_lock_row(proof *p, const char *name, const char *shared, rowlock_error *err)
{
    const rowlock_target target = {.size = sizeof target, .conn = p->second->state};
    rowlock_op op;
    int rc;

    make_op(&op, p, name, "rowlock doctor, second session");
    rc = p->client->driver.lock(&target, &op, 1, ROWLOCK_WAIT_NONE, 0, REFUSE_MS, err);
    if (rc == ROWLOCK_OK && op.status == ROWLOCK_OK) {
        p->shared = shared;
        rc = p->client->driver.end(p->second->state, 0, left_ms(p), err);
    }
    return rc;
}

/* ---- leases ---- */

static int prove_lease(proof *p, rowlock_error *err)
{
    rowlock_op op;
    int rc;

    make_op(&op, p, p->lease, "rowlock doctor, first session");
    rc = p->client->driver.acquire(p->first->state, &op, 1, 0, left_ms(p), err);
    if (rc == ROWLOCK_OK && op.status != ROWLOCK_OK)
        return not_granted("a lease", err);
    if (rc == ROWLOCK_OK)
        rc = must_not_get_lease(p, p->lease, "the same lease", err);
    if (rc == ROWLOCK_OK && p->shared == NULL && p->client->driver.lock != NULL)
        rc = must_not_lock_row(p, p->lease, "a lease and a transaction's lock of the same name",
                               err);
    if (rc != ROWLOCK_OK || p->shared != NULL)
        return rc;
    rlk_new_attempt(op.attempt, p->client);
    return p->client->driver.release(p->first->state, &op, 1, left_ms(p), err);
}

/* ---- transactions, and guards in them ---- */

static int begin(const proof *p, rowlock_error *err)
{
    const rowlock_target target = {.size = sizeof target, .conn = p->first->state};
    rowlock_op op;
    int rc;

    make_op(&op, p, p->row, "rowlock doctor, first session");
    rc = p->client->driver.prepare(p->first->state, &op, 1, left_ms(p), err);
    if (rc == ROWLOCK_OK)
        rc = p->client->driver.lock(&target, &op, 1, ROWLOCK_WAIT_NONE, 0, left_ms(p), err);
    return rc == ROWLOCK_OK && op.status != ROWLOCK_OK ? not_granted("a transaction's lock", err)
                                                       : rc;
}

static int guard(const proof *p, const char *place, rowlock_op *op, rowlock_error *err)
{
    const rowlock_target target = {.size = sizeof target,
                                   .native = p->client->driver.native(p->first->state),
                                   .prefix = p->client->prefix,
                                   .place = place};

    return p->client->driver.guard(&target, op, left_ms(p), err);
}

/* The second session has a lease until ends_us, the first one's transaction guards it. */
static int prove_while_guarded(proof *p, int64_t ends_us, rowlock_error *err)
{
    int rc = must_not_lock_row(p, p->row, "the same row in two transactions", err);

    if (rc == ROWLOCK_OK && p->shared == NULL)
        rc =
            must_not_get_lease(p, p->row, "a transaction's lock and a lease of the same name", err);
    if (rc != ROWLOCK_OK || p->shared != NULL)
        return rc;
    rlk_sleep_until(ends_us + MARGIN_US, NULL, 0);
    return must_not_get_lease(p, p->lease, "a guarded row and a new lease of it", err);
}

/* *is_late: the lease ended before it was guarded, so that nothing is proved. */
static int prove_transaction(proof *p, const char *place, int64_t ttl_us, int *is_late,
                             rowlock_error *err)
{
    rowlock_error local;
    rowlock_op op;
    int64_t ends_us;
    int rc;

    make_op(&op, p, p->lease, "rowlock doctor, guarded");
    op.ttl_us = ttl_us;
    rc = get_lease(p, &op, err);
    ends_us = rlk_clock_us() + ttl_us;
    if (rc == ROWLOCK_OK)
        rc = begin(p, err);
    if (rc != ROWLOCK_OK)
        return rc;
    rc = guard(p, place, &op, err);
    *is_late = rc == ROWLOCK_OK && op.status != ROWLOCK_OK;
    if (rc == ROWLOCK_OK && !*is_late)
        rc = prove_while_guarded(p, ends_us, err);
    if (p->client->driver.end(p->first->state, 0, left_ms(p), rc == ROWLOCK_OK ? err : &local) !=
            ROWLOCK_OK &&
        rc == ROWLOCK_OK)
        rc = err->status;
    return rc;
}

static int prove_transactions(proof *p, rowlock_error *err)
{
    char place[ROWLOCK_PLACE_MAX];
    int64_t ttl_us = GUARD_US;
    int is_late = 1;
    int rc = p->client->driver.locate(p->first->state, place, sizeof place, left_ms(p), err);

    for (int i = 0; rc == ROWLOCK_OK && is_late && i < GUARD_TRIES; i++, ttl_us *= GUARD_FACTOR)
        rc = prove_transaction(p, place, ttl_us, &is_late, err);
    return rc == ROWLOCK_OK && is_late ? not_granted("a guard", err) : rc;
}

/* ---- all of them ---- */

static int prove(proof *p, rowlock_error *err)
{
    int rc = prove_lease(p, err);

    return rc == ROWLOCK_OK && p->shared == NULL && p->client->driver.lock != NULL
               ? prove_transactions(p, err)
               : rc;
}

static int make_names(proof *p, rowlock_error *err)
{
    uint64_t number;

    if (rlk_random(&number, sizeof number) != 0)
        return rlk_fail(err, ROWLOCK_ENOMEM, "no random bytes to be had");
    snprintf(p->lease, sizeof p->lease, "rowlock-doctor-%016llx-1", (unsigned long long)number);
    snprintf(p->row, sizeof p->row, "rowlock-doctor-%016llx-2", (unsigned long long)number);
    return ROWLOCK_OK;
}

/* Neither connection is used again: an error may have left anything in it. */
static int with_two_sessions(proof *p, rowlock_error *err)
{
    int rc = rlk_pool_lend(&p->first, p->client, RLK_USE_TX, p->deadline_us, err);

    if (rc != ROWLOCK_OK)
        return rc;
    rc = rlk_pool_lend(&p->second, p->client, RLK_USE_TX, p->deadline_us, err);
    if (rc == ROWLOCK_OK) {
        rc = prove(p, err);
        rlk_pool_lose(p->client, RLK_USE_TX, p->second);
    }
    rlk_pool_lose(p->client, RLK_USE_TX, p->first);
    return rc;
}

void rlk_prove_exclusion(rowlock_client *client, rowlock_finding_fn fn, void *payload)
{
    proof p = {.client = client, .deadline_us = rlk_clock_us() + client->call_timeout_us};
    char message[sizeof((rowlock_error *)0)->message + 80];
    rowlock_finding finding = {.size = sizeof finding,
                               .subject = "exclusion",
                               .message = message,
                               .grade = ROWLOCK_GRADE_GOOD};
    rowlock_error err = {0};
    int rc = make_names(&p, &err);

    if (rc == ROWLOCK_OK)
        rc = with_two_sessions(&p, &err);
    if (p.shared != NULL) {
        finding.grade = ROWLOCK_GRADE_BAD;
        finding.remedy = "use another database for locks: this one does not lock rows";
        snprintf(message, sizeof message, "two sessions both got %s", p.shared);
    } else if (rc != ROWLOCK_OK) {
        finding.grade = err.retryable ? ROWLOCK_GRADE_WARNING : ROWLOCK_GRADE_BAD;
        finding.remedy = err.retryable ? "run it again when the database has less to do"
                                       : "locks fail with this error: see to its cause";
        snprintf(message, sizeof message, "not proved: %s", err.message);
    } else {
        snprintf(message, sizeof message, "of two sessions one got the lock: %s",
                 client->driver.lock == NULL ? "leases" : "leases, transactions and guards");
    }
    fn(&finding, payload);
}
