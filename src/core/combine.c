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

enum { MANY = 32, PARTS = 3 }; /* operations at a time; into how many requests */

enum { PENDING, LEADS, SERVED, LEFT };

/* One operation of a thread's, in its own memory. */
struct rlk_rider {
    rlk_rider *next;
    size_t number; /* its place among those who came together */
    rlk_kind kind;
    rowlock_op *op;
    int64_t until_us;
    rlk_sent sent;
    _Atomic uint32_t state;
    _Atomic uint32_t *word; /* that changes when the state has: its own, or its crate's */
};

/* A batch, and before that the room in which most of it waits: one call wakes them all. Those who
 * are left over by a batch wait on in its crate, hence none is freed before the client is. */
struct rlk_crate {
    rlk_crate *next;
    _Atomic uint32_t calls;
    rlk_rider *riders[RLK_COMBINE_MAX];
    rowlock_op ops[RLK_COMBINE_MAX];
};

/* Operations of one kind, or releases and, behind them, acquires. */
typedef struct load {
    rlk_kind kind; /* of the last */
    rowlock_op *ops;
    size_t n, releases;
} load;

static int send_load(rowlock_client *client, void *conn, uint32_t timeout_ms, void *arg,
                     rowlock_error *err)
{
    const load *l = arg;

    if (l->kind == RLK_RENEW)
        return client->driver.renew(conn, l->ops, l->n, timeout_ms, err);
    if (l->kind == RLK_RELEASE)
        return client->driver.release(conn, l->ops, l->n, timeout_ms, err);
    if (l->releases == 0)
        return client->driver.acquire(conn, l->ops, l->n, 0, timeout_ms, err);
    return client->driver.exchange(conn, l->ops, l->releases, l->ops + l->releases,
                                   l->n - l->releases, timeout_ms, err);
}

/* Releases and acquires travel together if the driver can send both at once. */
static int is_joint(const rowlock_client *client, rlk_kind kind)
{
    return kind != RLK_RENEW && client->driver.exchange != NULL;
}

static rlk_combiner *combiner_of(rowlock_client *client, rlk_kind kind)
{
    return &client->combiners[is_joint(client, kind) ? RLK_RELEASE : kind];
}

/* How many requests may be under way, and how many must wait for another one to be worth it?
 *
 * One at a time, but where releases and acquires travel together and several can write. There few
 * threads have a connection each, since nothing is gained by sharing one; one connection is left to
 * those who renew. And of many a third is being served while another is on its way to the disk and
 * another wakes up and comes again; but not less than a third, since a request costs as much as
 * twenty operations. */
static uint32_t most_at_once(const rowlock_client *client, const rlk_combiner *combiner,
                             size_t *least)
{
    uint32_t connections = client->max_connections[RLK_USE_CALL];

    *least = 1;
    if (!is_joint(client, (rlk_kind)(combiner - client->combiners)) || connections <= 2 ||
        client->driver.has_one_writer)
        return 1;
    if (combiner->crowd <= connections)
        return connections - 1;
    if (combiner->crowd < MANY || combiner->is_called)
        return 1;
    *least = combiner->crowd / PARTS;
    return connections - 1 < PARTS ? connections - 1 : PARTS;
}

/* May one more request be sent, with so many who wait? Under the mutex; if so it is counted. */
static int may_lead(const rowlock_client *client, rlk_combiner *combiner, size_t n)
{
    size_t least;
    uint32_t most = most_at_once(client, combiner, &least);

    if (combiner->leaders > 0 && (combiner->leaders >= most || n < least))
        return 0;
    combiner->leaders++;
    combiner->under_way++;
    combiner->sent_at_us = rlk_clock_us();
    return 1;
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
    combiner->waiting++;
}

static void put_first(rlk_combiner *combiner, rlk_rider *rider)
{
    rider->next = combiner->first;
    combiner->first = rider;
    combiner->waiting++;
    if (rider->next == NULL)
        combiner->last = rider;
}

static rlk_rider *take_first(rlk_combiner *combiner)
{
    rlk_rider *rider = combiner->first;

    if (rider != NULL) {
        combiner->first = rider->next;
        combiner->waiting--;
    }
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
    combiner->waiting--;
    return 1;
}

/* ---- the batch ---- */

/* Releases first, then by name, and of the same name in the order in which they came. */
static int by_name(const void *a, const void *b)
{
    const rlk_rider *x = *(rlk_rider *const *)a, *y = *(rlk_rider *const *)b;
    int order = (int)x->kind - (int)y->kind;

    if (order == 0)
        order = rlk_op_by_name(x->op, y->op);
    return order != 0 ? order : (x->number > y->number) - (x->number < y->number);
}

static int by_number(const void *a, const void *b)
{
    const rlk_rider *x = *(rlk_rider *const *)a, *y = *(rlk_rider *const *)b;

    return (x->number > y->number) - (x->number < y->number);
}

static int are_doubles(const rlk_rider *a, const rlk_rider *b)
{
    return a->kind == b->kind && rlk_op_by_name(a->op, b->op) == 0;
}

/* No name twice in a kind: who comes second goes to the end of the array. How many stay. */
static size_t part_doubles(rlk_rider **riders, size_t n)
{
    rlk_rider *doubles[RLK_COMBINE_MAX];
    size_t kept = 1, parted = 0;

    for (size_t i = 1; i < n; i++) {
        if (are_doubles(riders[i], riders[kept - 1]))
            doubles[parted++] = riders[i];
        else
            riders[kept++] = riders[i];
    }
    qsort(doubles, parted, sizeof(rlk_rider *), by_number);
    memcpy(riders + kept, doubles, parted * sizeof(rlk_rider *));
    return kept;
}

static rlk_crate *take_crate(rlk_combiner *combiner)
{
    rlk_crate *crate = combiner->crates;

    if (crate != NULL)
        combiner->crates = crate->next;
    else if ((crate = malloc(sizeof *crate)) != NULL)
        crate->calls = 0;
    return crate;
}

static void return_crate(rlk_combiner *combiner, rlk_crate *crate)
{
    crate->next = combiner->crates;
    combiner->crates = crate;
}

/* Takes all who wait, as many as there is room for; NULL: nobody comes along. */
static rlk_crate *load_crate(rowlock_client *client, rlk_combiner *combiner, rlk_rider *leader,
                             size_t *n)
{
    rlk_crate *crate = NULL;

    *n = 1;
    pthread_mutex_lock(&client->mutex);
    if (combiner->waiting > 0) {
        crate = combiner->room != NULL ? combiner->room : take_crate(combiner);
        combiner->room = NULL;
    }
    if (crate != NULL)
        crate->riders[0] = leader;
    while (crate != NULL && *n < RLK_COMBINE_MAX && combiner->waiting > 0) {
        crate->riders[*n] = take_first(combiner);
        crate->riders[*n]->number = *n;
        ++*n;
    }
    combiner->under_way += *n - 1;
    combiner->is_called = 0;
    pthread_mutex_unlock(&client->mutex);
    return crate;
}

/* Sorts the batch. Doubles go back to the head of the list. */
static size_t sort_crate(rowlock_client *client, rlk_combiner *combiner, rlk_crate *crate, size_t n)
{
    size_t kept;

    qsort(crate->riders, n, sizeof(rlk_rider *), by_name);
    kept = part_doubles(crate->riders, n);
    if (kept < n) {
        pthread_mutex_lock(&client->mutex);
        combiner->under_way -= n - kept;
        while (n > kept)
            put_first(combiner, crate->riders[--n]);
        pthread_mutex_unlock(&client->mutex);
    }
    return kept;
}

/* BUSY, and yet of an acquire no lease of somebody else's was seen to live, nor a queue, and of a
 * release no other attempt: the row was locked, or lost in a race, at that moment, or its half of
 * the batch was refused. Such a one is asked for with patience. */
static int is_open(const rlk_rider *rider, const rowlock_op *op)
{
    if (op->status != ROWLOCK_BUSY || rider->kind == RLK_RENEW)
        return 0;
    if (rider->kind == RLK_RELEASE)
        return memcmp(op->seen, rider->op->seen, sizeof op->seen) == 0;
    return !op->is_queue &&
           (op->holder[0] == '\0' || op->remaining_us <= 0 || strcmp(op->holder, op->owner) == 0);
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

/* Sends the batch. What was wrong with it everybody finds out for itself. */
static int run_batch(rowlock_client *client, const rlk_rider *leader, rlk_crate *crate, size_t n,
                     rlk_sent *sent)
{
    load all = {.kind = crate->riders[n - 1]->kind, .ops = crate->ops, .n = n};
    int64_t until = leader->until_us;
    rowlock_error err;
    int rc, again;

    for (size_t i = 0; i < n; i++) {
        crate->ops[i] = *crate->riders[i]->op;
        all.releases += crate->riders[i]->kind == RLK_RELEASE;
        until = crate->riders[i]->until_us < until ? crate->riders[i]->until_us : until;
    }
    rc = rlk_call_first(client, until, send_load, &all, sent, &again, &err);
    count_batch(client, n, rc, &err);
    return rc;
}

/* The rider may be gone as soon as it has its state. */
static void tell(rlk_rider *rider, uint32_t state)
{
    _Atomic uint32_t *word = rider->word;

    atomic_store_explicit(&rider->state, state, memory_order_release);
    if (word != &rider->state)
        atomic_fetch_add_explicit(word, 1, memory_order_release);
    rlk_word_wake(word);
}

/* Gives everybody its answer, and wakes all but the leader. */
static void tell_all(rlk_rider *leader, rlk_crate *crate, size_t n, int rc, const rlk_sent *sent)
{
    for (size_t i = 0; i < n; i++) {
        rlk_rider *rider = crate->riders[i];
        int is_served = rc == ROWLOCK_OK && !is_open(rider, &crate->ops[i]);
        uint32_t state = is_served ? SERVED : LEFT;

        if (is_served)
            *rider->op = crate->ops[i];
        rider->sent = *sent;
        if (rider == leader || rider->word == &crate->calls)
            atomic_store_explicit(&rider->state, state, memory_order_release);
        else
            tell(rider, state);
    }
    atomic_fetch_add_explicit(&crate->calls, 1, memory_order_release);
    rlk_word_wake(&crate->calls);
}

/* A request took so long that another was sent in its place. Under the mutex. */
static int was_replaced(rlk_combiner *combiner, int64_t since_us)
{
    if (combiner->replaced == 0 || rlk_clock_us() - since_us < PATIENCE_US)
        return 0;
    combiner->replaced--;
    return 1;
}

/* The next one leads, if there is one, before anybody is called back or a pause is made. */
static void pass_on(rowlock_client *client, rlk_combiner *combiner, rlk_crate *crate, size_t n,
                    int64_t since_us)
{
    rlk_rider *next = NULL;

    pthread_mutex_lock(&client->mutex);
    if (crate != NULL)
        return_crate(combiner, crate);
    combiner->crowd = combiner->under_way + combiner->waiting;
    combiner->under_way -= n;
    if (!was_replaced(combiner, since_us)) {
        combiner->leaders--;
        if (combiner->waiting > 0 && may_lead(client, combiner, combiner->waiting))
            next = take_first(combiner);
        combiner->is_called |= next != NULL;
    }
    pthread_mutex_unlock(&client->mutex);
    if (next != NULL)
        tell(next, LEADS);
}

static int go_alone(rowlock_client *client, rlk_rider *rider, rowlock_error *err)
{
    return rlk_call_again(client, rider->until_us, send_load, &(load){rider->kind, rider->op, 1, 0},
                          &rider->sent, err);
}

/* Sends what has gathered, or only its own. */
static int lead(rowlock_client *client, rlk_rider *rider, rowlock_error *err)
{
    rlk_combiner *combiner = combiner_of(client, rider->kind);
    size_t n;
    rlk_crate *crate = load_crate(client, combiner, rider, &n);
    load own = {rider->kind, rider->op, 1, 0};
    int64_t since = rlk_clock_us();
    rlk_sent sent;
    int rc, again = 0;

    rider->number = 0;
    if (n > 1)
        n = sort_crate(client, combiner, crate, n);
    if (n > 1)
        rc = run_batch(client, rider, crate, n, &sent);
    else
        rc = rlk_call_first(client, rider->until_us, send_load, &own, &rider->sent, &again, err);
    if (n > 1)
        tell_all(rider, crate, n, rc, &sent);
    pass_on(client, combiner, crate, n, since);
    if (n == 1)
        return rlk_call_rest(client, rider->until_us, send_load, &own, &rider->sent, rc, again,
                             err);
    return rider->state == LEFT ? go_alone(client, rider, err) : rlk_ok(err);
}

static int64_t patience(const rlk_rider *rider, int64_t now)
{
    int64_t part = (rider->until_us - now) / PATIENCE_PART;

    return part < PATIENCE_US ? part : PATIENCE_US;
}

/* Who has no patience left sends another request, on another connection, with all that wait; not if
 * one was sent since: after a pause of the whole process, all would. Else *until_us is when to come
 * again. Off the list it is under way, or about to be put back. */
static int replace(rowlock_client *client, rlk_combiner *combiner, const rlk_rider *rider,
                   int64_t patience_us, int64_t *until_us)
{
    int64_t now = rlk_clock_us(), due;
    int leads;

    pthread_mutex_lock(&client->mutex);
    due = combiner->sent_at_us + patience_us;
    leads = now >= due && withdraw(combiner, rider);
    *until_us = now < due ? due : now + PATIENCE_US;
    if (leads) {
        combiner->replaced++;
        combiner->under_way++;
        combiner->sent_at_us = now;
    }
    pthread_mutex_unlock(&client->mutex);
    return leads;
}

/* Waits to be woken. The request that is under way may be stuck, or the link be slow. */
static uint32_t wait_for_answer(rowlock_client *client, rlk_combiner *combiner, rlk_rider *rider)
{
    int64_t now = rlk_clock_us(), span = patience(rider, now), until = now + span;

    for (;;) {
        uint32_t word = atomic_load_explicit(rider->word, memory_order_acquire);
        uint32_t state = atomic_load_explicit(&rider->state, memory_order_acquire);

        if (state != PENDING)
            return state;
        if (!rlk_word_wait(rider->word, word, until) &&
            replace(client, combiner, rider, span, &until))
            return LEADS;
    }
}

/* The first one is called to lead, by itself; the others are told together. */
static _Atomic uint32_t *choose_word(rlk_combiner *combiner, rlk_rider *rider)
{
    if (combiner->first == rider)
        return &rider->state;
    if (combiner->room == NULL)
        combiner->room = take_crate(combiner);
    return combiner->room == NULL ? &rider->state : &combiner->room->calls;
}

/* 1: it leads. */
static int join(rowlock_client *client, rlk_combiner *combiner, rlk_rider *rider)
{
    int leads;

    pthread_mutex_lock(&client->mutex);
    leads = may_lead(client, combiner, combiner->waiting + 1);
    if (!leads)
        append(combiner, rider);
    if (!leads)
        rider->word = choose_word(combiner, rider);
    pthread_mutex_unlock(&client->mutex);
    return leads;
}

static int ride(rowlock_client *client, rlk_rider *rider, rowlock_error *err)
{
    rlk_combiner *combiner = combiner_of(client, rider->kind);
    uint32_t state = LEADS;

    if (!join(client, combiner, rider))
        state = wait_for_answer(client, combiner, rider);
    if (state == LEADS)
        return lead(client, rider, err);
    return state == LEFT ? go_alone(client, rider, err) : rlk_ok(err);
}

int rlk_combine(rowlock_client *client, rlk_kind kind, rowlock_op *op, int64_t bound_us,
                rlk_sent *sent, rowlock_error *err)
{
    rlk_rider rider = {.kind = kind, .op = op, .until_us = rlk_clock_us() + bound_us};
    rowlock_error local;
    int rc;

    err = err == NULL ? &local : err;
    if (bound_us < client->call_timeout_us / 2) /* too little to make it that of others */
        return rlk_call(client, bound_us, send_load, &(load){kind, op, 1, 0}, sent, err);
    rc = ride(client, &rider, err);
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
        free(client->combiners[kind].room);
    }
}
