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

#include "batch.h"

/* For how long a request that is under way is waited for; with little time, a part of that. */
#define PATIENCE_US INT64_C(100000)

enum { PATIENCE_PART = 4 };

/* Who has less goes alone: what is sent together has the time of the one that has least. */
#define LEAST_SHARED_US INT64_C(500000)

enum { MANY = 32, PARTS = 3 }; /* operations at a time; into how many requests */

/* Releases and acquires travel together if the driver can send both at once. */
static int is_joint(const rowlock_client *client, rlk_kind kind)
{
    return kind != RLK_RENEW && client->driver.exchange != NULL;
}

static rlk_combiner *combiner_of(rowlock_client *client, rlk_kind kind)
{
    return &client->combiners[is_joint(client, kind) ? RLK_RELEASE : kind];
}

/* ---- requests in flight: all under the client's mutex ---- */

/* The one place that begins a request, ends it, or changes what it counts for. */
static void set_flight(rlk_combiner *combiner, rlk_flight *flight, rlk_flight_state state,
                       size_t ops)
{
    rlk_flight **at = &combiner->flights;

    while (*at != NULL && *at != flight)
        at = &(*at)->next;
    if (*at == flight) {
        combiner->flights_in[flight->state]--;
        combiner->ops_in_flight -= flight->ops;
    }
    if (*at == flight && state == RLK_NO_FLIGHT) {
        *at = flight->next;
    } else if (*at == NULL && state != RLK_NO_FLIGHT) {
        flight->next = NULL;
        *at = flight;
    }
    flight->state = state;
    flight->ops = ops;
    if (state != RLK_NO_FLIGHT) {
        combiner->flights_in[state]++;
        combiner->ops_in_flight += ops;
    }
}

/* Those that have not been replaced. */
static uint32_t in_flight(const rlk_combiner *combiner)
{
    return combiner->flights_in[RLK_CALLED] + combiner->flights_in[RLK_IN_FLIGHT];
}

static void begin_flight(rlk_combiner *combiner, rlk_flight *flight, rlk_flight_state state)
{
    set_flight(combiner, flight, state, 1);
    combiner->sent_at_us = rlk_clock_us();
}

/* Another takes the place of the oldest one that has not been replaced yet, if there is one. */
static void replace_flight(rlk_combiner *combiner, rlk_flight *flight)
{
    rlk_flight *oldest = combiner->flights;

    while (oldest != NULL && oldest->state == RLK_REPLACED)
        oldest = oldest->next;
    if (oldest != NULL)
        set_flight(combiner, oldest, RLK_REPLACED, oldest->ops);
    begin_flight(combiner, flight, RLK_IN_FLIGHT);
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
    if (combiner->crowd < MANY || combiner->flights_in[RLK_CALLED] > 0)
        return 1;
    *least = combiner->crowd / PARTS;
    return connections - 1 < PARTS ? connections - 1 : PARTS;
}

/* May one more request be sent, with so many who wait? Under the mutex. */
static int may_send(const rowlock_client *client, const rlk_combiner *combiner, size_t n)
{
    size_t least;
    uint32_t most = most_at_once(client, combiner, &least);

    return in_flight(combiner) == 0 || (in_flight(combiner) < most && n >= least);
}

/* ---- the batch ---- */

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

/* Takes all who wait, as many as there is room for; NULL: nobody comes with it. */
static rlk_crate *load_crate(rowlock_client *client, rlk_combiner *combiner, rlk_rider *leader)
{
    rlk_crate *crate = NULL;
    size_t n = 1;

    rlk_mutex_lock(&client->mutex);
    if (combiner->waiting > 0) {
        crate = combiner->room != NULL ? combiner->room : take_crate(combiner);
        combiner->room = NULL;
    }
    if (crate != NULL)
        crate->riders[0] = leader;
    while (crate != NULL && n < RLK_COMBINE_MAX && combiner->waiting > 0) {
        crate->riders[n] = rlk_riders_take_first(combiner);
        crate->riders[n]->number = n;
        n++;
    }
    set_flight(combiner, &leader->flight,
               leader->flight.state == RLK_CALLED ? RLK_IN_FLIGHT : leader->flight.state, n);
    rlk_mutex_unlock(&client->mutex);
    leader->number = 0;
    if (crate != NULL)
        rlk_batch_sort(crate, n);
    return crate;
}

/* Under the mutex. */
static void put_back(rlk_combiner *combiner, rlk_rider **riders, size_t n)
{
    while (n > 0)
        rlk_riders_put_first(combiner, riders[--n]);
}

static void put_rest_back(rowlock_client *client, rlk_combiner *combiner, rlk_crate *crate,
                          rlk_flight *flight)
{
    if (crate->rest == 0)
        return;
    rlk_mutex_lock(&client->mutex);
    set_flight(combiner, flight, flight->state, flight->ops - crate->rest);
    put_back(combiner, crate->riders + crate->n + crate->along, crate->rest);
    rlk_mutex_unlock(&client->mutex);
}

/* The request has come back. The next one leads, if there is one, before a pause is made. `left`:
 * riders of the crate that have no answer. */
static void pass_on(rowlock_client *client, rlk_combiner *combiner, rlk_crate *crate, size_t left,
                    rlk_flight *flight)
{
    rlk_rider *next = NULL;

    rlk_mutex_lock(&client->mutex);
    combiner->crowd = combiner->ops_in_flight + combiner->waiting;
    set_flight(combiner, flight, RLK_NO_FLIGHT, 0);
    if (crate != NULL) {
        put_back(combiner, crate->riders + crate->n, left);
        return_crate(combiner, crate);
    }
    if (combiner->waiting > 0 && may_send(client, combiner, combiner->waiting)) {
        next = rlk_riders_take_first(combiner);
        begin_flight(combiner, &next->flight, RLK_CALLED);
    }
    rlk_mutex_unlock(&client->mutex);
    if (next != NULL)
        rlk_rider_tell(next, RLK_LEADS);
}

static rlk_use use_for(rlk_kind kind)
{
    return kind == RLK_ACQUIRE ? RLK_USE_CALL : RLK_USE_KEEP;
}

static int go_alone(rowlock_client *client, rlk_rider *rider, rowlock_error *err)
{
    return rlk_call_again(client, use_for(rider->kind), rider->until_us, rlk_load_send,
                          &(rlk_load){rider->kind, rider->op, 1, 0}, &rider->sent, err);
}

static int lead_alone(rowlock_client *client, rlk_combiner *combiner, rlk_crate *crate,
                      rlk_rider *rider, rowlock_error *err)
{
    rlk_load own = {rider->kind, rider->op, 1, 0};
    int again, rc;

    rc = rlk_call_first(client, use_for(rider->kind), rider->until_us, rlk_load_send, &own,
                        &rider->sent, &again, err);
    pass_on(client, combiner, crate, 0, &rider->flight);
    return rlk_call_rest(client, use_for(rider->kind), rider->until_us, rlk_load_send, &own,
                         &rider->sent, rc, again, err);
}

/* Sends what has gathered, or only its own. */
static int lead(rowlock_client *client, rlk_rider *rider, rowlock_error *err)
{
    rlk_combiner *combiner = combiner_of(client, rider->kind);
    rlk_crate *crate = load_crate(client, combiner, rider);
    rlk_sent sent;
    size_t left;
    int rc;

    if (crate != NULL)
        put_rest_back(client, combiner, crate, &rider->flight);
    if (crate == NULL || crate->n + crate->along == 1)
        return lead_alone(client, combiner, crate, rider, err);
    rc = rlk_batch_send(client, crate, &sent);
    left = rlk_batch_tell(client, rider, crate, rc, &sent);
    pass_on(client, combiner, crate, left, &rider->flight);
    return rider->state == RLK_LEFT ? go_alone(client, rider, err) : rlk_ok(err);
}

static int64_t patience(const rlk_rider *rider, int64_t now)
{
    int64_t part = (rider->until_us - now) / PATIENCE_PART;

    return part < PATIENCE_US ? part : PATIENCE_US;
}

/* Who has no patience left sends another request, on another connection, with all that wait; not if
 * one was sent since: after a pause of the whole process, all would. Else *until_us is when to come
 * again. Off the list it is under way, or about to be put back. */
static int replace(rowlock_client *client, rlk_combiner *combiner, rlk_rider *rider,
                   int64_t patience_us, int64_t *until_us)
{
    int64_t now = rlk_clock_us(), due;
    int leads;

    rlk_mutex_lock(&client->mutex);
    due = combiner->sent_at_us + patience_us;
    leads = now >= due && rlk_riders_withdraw(combiner, rider);
    *until_us = now < due ? due : now + PATIENCE_US;
    if (leads)
        replace_flight(combiner, &rider->flight);
    rlk_mutex_unlock(&client->mutex);
    return leads;
}

/* 1: nothing of it was sent, and it is not going to be. */
static int leave_list(rowlock_client *client, rlk_combiner *combiner, const rlk_rider *rider)
{
    int was_there;

    rlk_mutex_lock(&client->mutex);
    was_there = rlk_riders_withdraw(combiner, rider);
    rlk_mutex_unlock(&client->mutex);
    return was_there;
}

/* Waits to be woken. The request that is under way may be stuck, or the link be slow. */
static uint32_t wait_for_answer(rowlock_client *client, rlk_combiner *combiner, rlk_rider *rider)
{
    int64_t now = rlk_clock_us(), span = patience(rider, now), until = now + span;

    for (;;) {
        uint32_t word = atomic_load_explicit(rider->word, memory_order_acquire);
        uint32_t state = atomic_load_explicit(&rider->state, memory_order_acquire);

        if (state != RLK_PENDING)
            return state;
        if (rlk_word_wait(rider->word, word, until))
            continue;
        if (rlk_clock_us() >= rider->until_us && leave_list(client, combiner, rider))
            return RLK_LEFT; /* its time is up */
        if (replace(client, combiner, rider, span, &until))
            return RLK_LEADS;
        if (until > rider->until_us && rlk_clock_us() < rider->until_us)
            until = rider->until_us;
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

    rlk_mutex_lock(&client->mutex);
    leads = may_send(client, combiner, combiner->waiting + 1);
    if (leads) {
        begin_flight(combiner, &rider->flight, RLK_IN_FLIGHT);
    } else {
        rlk_riders_append(combiner, rider);
        rider->word = choose_word(combiner, rider);
    }
    rlk_mutex_unlock(&client->mutex);
    return leads;
}

static int ride(rowlock_client *client, rlk_rider *rider, rowlock_error *err)
{
    rlk_combiner *combiner = combiner_of(client, rider->kind);
    uint32_t state = RLK_LEADS;

    if (!join(client, combiner, rider))
        state = wait_for_answer(client, combiner, rider);
    if (state == RLK_LEADS)
        return lead(client, rider, err);
    return state == RLK_LEFT ? go_alone(client, rider, err) : rlk_ok(err);
}

int rlk_combine(rowlock_client *client, rlk_kind kind, rowlock_op *op, int64_t bound_us,
                rlk_sent *sent, rowlock_error *err)
{
    rlk_rider rider = {.kind = kind, .op = op, .until_us = rlk_clock_us() + bound_us};
    rowlock_error local;
    int rc;

    err = err == NULL ? &local : err;
    if (bound_us < client->call_timeout_us / 2 && bound_us < LEAST_SHARED_US)
        return kind == RLK_ACQUIRE ? rlk_call(client, bound_us, rlk_load_send,
                                              &(rlk_load){kind, op, 1, 0}, sent, err)
                                   : rlk_call_keep(client, bound_us, rlk_load_send,
                                                   &(rlk_load){kind, op, 1, 0}, sent, err);
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
