/* SPDX-License-Identifier: MIT
 *
 * Threads that ask at the same time share a request. Who comes while nothing of its kind is under
 * way sends its own at once; who comes meanwhile gets on a list, and when the answer is there the
 * first of them sends what has gathered as one batch, in one round trip and one commit. So nobody
 * waits for company, no thread is needed for it, and the more come the less each of them costs.
 *
 * A batch is sent once, and whatever it leaves open is each one's own affair: an error, a row that
 * somebody keeps locked. Then everybody goes alone, the usual way, with its retries and with what
 * is left of its time; attempts make sure that nothing is done twice. So one bad operation fails
 * alone, and a batch needs no rules of its own for time, retries or a client that is being closed.
 */
#include <stdlib.h>
#include <string.h>

#include "core.h"
#include "thread.h"

/* For how long a request that is under way is waited for; with little time, a part of that. */
#define PATIENCE_US INT64_C(100000)

enum { PATIENCE_PART = 4 };

enum { PENDING, LEADS, SERVED, LEFT };

/* One operation of a thread's, in its own memory. */
struct rlk_rider {
    rlk_rider *next;
    size_t number; /* its place among those who came together */
    rowlock_op *op;
    int64_t until_us;
    rlk_sent sent;
    pthread_mutex_t mutex; /* of its own, so that whoever is woken meets nobody */
    pthread_cond_t woken;
    int state;
};

struct rlk_crate {
    rlk_crate *next;
    rlk_rider *riders[RLK_COMBINE_MAX];
    rowlock_op ops[RLK_COMBINE_MAX];
};

typedef struct load {
    rlk_kind kind;
    rowlock_op *ops;
    size_t n;
} load;

static int send_load(rowlock_client *client, void *conn, uint32_t timeout_ms, void *arg,
                     rowlock_error *err)
{
    const load *l = arg;

    switch (l->kind) {
    case RLK_ACQUIRE:
        return client->driver.acquire(conn, l->ops, l->n, 0, timeout_ms, err);
    case RLK_RENEW:
        return client->driver.renew(conn, l->ops, l->n, timeout_ms, err);
    default:
        return client->driver.release(conn, l->ops, l->n, timeout_ms, err);
    }
}

/* ---- the list: all under the client's mutex ---- */

static void append(rlk_combiner *combiner, rlk_rider *rider)
{
    rider->next = NULL;
    if (combiner->first == NULL)
        combiner->first = rider;
    else
        combiner->last->next = rider;
    combiner->last = rider;
}

static void put_first(rlk_combiner *combiner, rlk_rider *rider)
{
    rider->next = combiner->first;
    combiner->first = rider;
    if (rider->next == NULL)
        combiner->last = rider;
}

static rlk_rider *take_first(rlk_combiner *combiner)
{
    rlk_rider *rider = combiner->first;

    if (rider != NULL)
        combiner->first = rider->next;
    return rider;
}

/* 0: it is not in the list any more. */
static int withdraw(rlk_combiner *combiner, const rlk_rider *rider)
{
    rlk_rider *before = NULL, *at = combiner->first;

    while (at != NULL && at != rider) {
        before = at;
        at = at->next;
    }
    if (at == NULL)
        return 0;
    if (before == NULL)
        combiner->first = at->next;
    else
        before->next = at->next;
    if (combiner->last == at)
        combiner->last = before;
    return 1;
}

/* ---- the batch ---- */

/* By name, and of the same name in the order in which they came. */
static int by_name(const void *a, const void *b)
{
    const rlk_rider *x = *(rlk_rider *const *)a, *y = *(rlk_rider *const *)b;
    int order = rlk_op_by_name(x->op, y->op);

    return order != 0 ? order : (x->number > y->number) - (x->number < y->number);
}

static int by_number(const void *a, const void *b)
{
    const rlk_rider *x = *(rlk_rider *const *)a, *y = *(rlk_rider *const *)b;

    return (x->number > y->number) - (x->number < y->number);
}

/* No name twice: who comes second goes to the end of the array. How many stay. */
static size_t part_doubles(rlk_rider **riders, size_t n)
{
    rlk_rider *doubles[RLK_COMBINE_MAX];
    size_t kept = 1, parted = 0;

    for (size_t i = 1; i < n; i++) {
        if (rlk_op_by_name(riders[i]->op, riders[kept - 1]->op) == 0)
            doubles[parted++] = riders[i];
        else
            riders[kept++] = riders[i];
    }
    qsort(doubles, parted, sizeof(rlk_rider *), by_number);
    memcpy(riders + kept, doubles, parted * sizeof(rlk_rider *));
    return kept;
}

/* Who comes along, sorted; doubles go back to the head of the list. */
static size_t gather(rowlock_client *client, rlk_combiner *combiner, rlk_rider *leader,
                     rlk_crate *crate)
{
    size_t n = 1, kept;

    leader->number = 0;
    crate->riders[0] = leader;
    pthread_mutex_lock(&client->mutex);
    while (n < RLK_COMBINE_MAX && combiner->first != NULL) {
        crate->riders[n] = take_first(combiner);
        crate->riders[n]->number = n;
        n++;
    }
    pthread_mutex_unlock(&client->mutex);
    qsort(crate->riders, n, sizeof(rlk_rider *), by_name);
    kept = part_doubles(crate->riders, n);
    if (kept < n) {
        pthread_mutex_lock(&client->mutex);
        while (n > kept)
            put_first(combiner, crate->riders[--n]);
        pthread_mutex_unlock(&client->mutex);
    }
    return kept;
}

static void wake(rlk_rider *rider, int state)
{
    pthread_mutex_lock(&rider->mutex);
    rider->state = state;
    pthread_cond_signal(&rider->woken);
    pthread_mutex_unlock(&rider->mutex);
}

/* BUSY, and yet no lease of somebody else's was seen to live, nor a queue: the row was locked, or
 * lost in a race, at that moment, and is to be asked for with patience. */
static int is_open(rlk_kind kind, const rowlock_op *op)
{
    int is_held =
        op->holder[0] != '\0' && op->remaining_us > 0 && strcmp(op->holder, op->owner) != 0;

    return kind == RLK_ACQUIRE && op->status == ROWLOCK_BUSY && !op->is_queue && !is_held;
}

static void count_batch(rowlock_client *client, size_t n, int rc, const rowlock_error *err)
{
    rlk_count(&client->counters.combined, n - 1);
    if (rc == ROWLOCK_OK)
        return;
    rlk_count(&client->counters.retries, n); /* everybody's own */
    if (rc == ROWLOCK_EDRIVER && err->retryable)
        rlk_count(&client->counters.deadlock_retries, n);
}

/* Sends the batch and tells everybody but the leader. What was wrong with it everybody finds out
 * for itself. */
static void run_batch(rowlock_client *client, rlk_kind kind, rlk_rider *leader, rlk_crate *crate,
                      size_t n)
{
    int64_t until = leader->until_us;
    rlk_sent sent = {0};
    rowlock_error err;
    int rc, again;

    for (size_t i = 0; i < n; i++) {
        crate->ops[i] = *crate->riders[i]->op;
        until = crate->riders[i]->until_us < until ? crate->riders[i]->until_us : until;
    }
    rc =
        rlk_call_first(client, until, send_load, &(load){kind, crate->ops, n}, &sent, &again, &err);
    count_batch(client, n, rc, &err);
    for (size_t i = 0; i < n; i++) {
        rlk_rider *rider = crate->riders[i];
        int is_served = rc == ROWLOCK_OK && !is_open(kind, &crate->ops[i]);

        if (is_served)
            *rider->op = crate->ops[i];
        rider->sent = sent;
        if (rider != leader)
            wake(rider, is_served ? SERVED : LEFT);
        else
            rider->state = is_served ? SERVED : LEFT;
    }
}

/* The next one leads, if there is one; not after a request that took so long that another was sent
 * in its place: else one that was stuck for a moment would leave two at once behind, for good. */
static void pass_on(rowlock_client *client, rlk_combiner *combiner, rlk_crate *crate,
                    int64_t since_us)
{
    int was_stuck = rlk_clock_us() - since_us >= PATIENCE_US;
    rlk_rider *next;

    pthread_mutex_lock(&client->mutex);
    if (crate != NULL) {
        crate->next = combiner->crates;
        combiner->crates = crate;
    }
    next = was_stuck && combiner->leaders > 1 ? NULL : take_first(combiner);
    if (next == NULL)
        combiner->leaders--;
    pthread_mutex_unlock(&client->mutex);
    if (next != NULL)
        wake(next, LEADS);
}

static rlk_crate *find_crate(rowlock_client *client, rlk_combiner *combiner)
{
    rlk_crate *crate = NULL;
    int is_wanted;

    pthread_mutex_lock(&client->mutex);
    is_wanted = combiner->first != NULL;
    if (is_wanted && combiner->crates != NULL) {
        crate = combiner->crates;
        combiner->crates = crate->next;
    }
    pthread_mutex_unlock(&client->mutex);
    return is_wanted && crate == NULL ? malloc(sizeof *crate) : crate;
}

static int go_alone(rowlock_client *client, rlk_kind kind, rlk_rider *rider, rowlock_error *err)
{
    return rlk_call_again(client, rider->until_us, send_load, &(load){kind, rider->op, 1},
                          &rider->sent, err);
}

/* Sends what has gathered, or only its own. The next one leads before anybody is called back or a
 * pause is made. */
static int lead(rowlock_client *client, rlk_kind kind, rlk_rider *rider, rowlock_error *err)
{
    rlk_combiner *combiner = &client->combiners[kind];
    rlk_crate *crate = find_crate(client, combiner);
    size_t n = crate == NULL ? 1 : gather(client, combiner, rider, crate);
    load own = {kind, rider->op, 1};
    int64_t since = rlk_clock_us();
    int rc = rlk_ok(err), again = 0;

    if (n > 1)
        run_batch(client, kind, rider, crate, n);
    else
        rc = rlk_call_first(client, rider->until_us, send_load, &own, &rider->sent, &again, err);
    pass_on(client, combiner, crate, since);
    if (n > 1 && rider->state == LEFT)
        return go_alone(client, kind, rider, err);
    return rlk_call_rest(client, rider->until_us, send_load, &own, &rider->sent, rc, again, err);
}

static int64_t patience(const rlk_rider *rider, int64_t now)
{
    int64_t part = (rider->until_us - now) / PATIENCE_PART;

    return part < PATIENCE_US ? part : PATIENCE_US;
}

/* Waits to be woken. The request that is under way may be stuck, or the link be slow: who has no
 * patience left sends another one, on another connection, with all that wait. */
static int wait_for_answer(rowlock_client *client, rlk_combiner *combiner, rlk_rider *rider)
{
    int64_t now = rlk_clock_us(), until = now + patience(rider, now);
    int state;

    pthread_mutex_lock(&rider->mutex);
    while (rider->state == PENDING) {
        if (rlk_cond_wait(&rider->woken, &rider->mutex, until) || rider->state != PENDING)
            continue;
        pthread_mutex_unlock(&rider->mutex);
        pthread_mutex_lock(&client->mutex);
        if (withdraw(combiner, rider)) {
            combiner->leaders++;
            rider->state = LEADS; /* nobody else knows it any more */
        }
        pthread_mutex_unlock(&client->mutex);
        pthread_mutex_lock(&rider->mutex);
        until = rlk_clock_us() + PATIENCE_US; /* else it is under way, or about to be put back */
    }
    state = rider->state;
    pthread_mutex_unlock(&rider->mutex);
    return state;
}

/* 1: it leads. */
static int join(rowlock_client *client, rlk_combiner *combiner, rlk_rider *rider)
{
    int leads;

    pthread_mutex_lock(&client->mutex);
    leads = combiner->leaders == 0;
    if (leads)
        combiner->leaders++;
    else
        append(combiner, rider);
    pthread_mutex_unlock(&client->mutex);
    return leads;
}

static int ride(rowlock_client *client, rlk_kind kind, rlk_rider *rider, rowlock_error *err)
{
    rlk_combiner *combiner = &client->combiners[kind];
    int state = LEADS;

    if (!join(client, combiner, rider))
        state = wait_for_answer(client, combiner, rider);
    if (state == LEADS)
        return lead(client, kind, rider, err);
    return state == LEFT ? go_alone(client, kind, rider, err) : rlk_ok(err);
}

int rlk_combine(rowlock_client *client, rlk_kind kind, rowlock_op *op, int64_t bound_us,
                rlk_sent *sent, rowlock_error *err)
{
    rlk_rider rider = {
        .op = op, .until_us = rlk_clock_us() + bound_us, .mutex = PTHREAD_MUTEX_INITIALIZER};
    rowlock_error local;
    int rc;

    err = err == NULL ? &local : err;
    if (bound_us < client->call_timeout_us / 2) /* too little to make it that of others */
        return rlk_call(client, bound_us, send_load, &(load){kind, op, 1}, sent, err);
    rlk_cond_init(&rider.woken);
    rc = ride(client, kind, &rider, err);
    pthread_cond_destroy(&rider.woken);
    pthread_mutex_destroy(&rider.mutex);
    *sent = rider.sent;
    return rc;
}

void rlk_combiners_free(rowlock_client *client)
{
    for (int kind = 0; kind < RLK_KINDS; kind++) {
        for (rlk_crate *next, *crate = client->combiners[kind].crates; crate != NULL;
             crate = next) {
            next = crate->next;
            free(crate);
        }
    }
}
