/* SPDX-License-Identifier: MIT
 *
 * Tickets of this client's waiters: those that get old are kept alive by one question to the
 * database, and those whose turn the database cannot announce are asked for together, at growing
 * intervals. Where a lock changes hands quickly no ticket gets old, and nothing is asked. */
#include <stdlib.h>
#include <string.h>

#include "core.h"
#include "random.h"

#define FIRST_PAUSE_US   INT64_C(5000)
#define LONGEST_PAUSE_US INT64_C(250000)

enum { BEATS_IN_A_LIFE = 3, MOST_AT_ONCE = 1000 };

static int64_t beat_of(const rowlock_client *client)
{
    return client->ticket_us / BEATS_IN_A_LIFE;
}

/* ---- the list ---- */

void rlk_tickets_add(rlk_waiter *waiter, uint64_t ticket)
{
    rowlock_client *client = waiter->client;
    rlk_lines *lines = &client->lines;
    int64_t now = rlk_clock_us(), beat_at;

    rlk_mutex_lock(&client->mutex);
    waiter->keep_at_us = now + beat_of(client);
    /* One that is planned is soon enough, also if it was for a ticket that is used up: so the
     * keeper is not woken for each ticket. */
    if (lines->beat_at_us <= now || lines->beat_at_us > waiter->keep_at_us)
        lines->beat_at_us = waiter->keep_at_us;
    beat_at = lines->beat_at_us;
    waiter->ticket = ticket;
    waiter->is_gone = 0;
    waiter->previous = NULL;
    waiter->next = lines->tickets;
    if (waiter->next != NULL)
        waiter->next->previous = waiter;
    lines->tickets = waiter;
    rlk_mutex_unlock(&client->mutex);
    rlk_worker_wake(&client->watch.keeper, beat_at);
}

void rlk_tickets_remove(rlk_waiter *waiter)
{
    rowlock_client *client = waiter->client;

    rlk_mutex_lock(&client->mutex);
    if (waiter->ticket != 0) {
        if (waiter->previous != NULL)
            waiter->previous->next = waiter->next;
        else
            client->lines.tickets = waiter->next;
        if (waiter->next != NULL)
            waiter->next->previous = waiter->previous;
    }
    waiter->ticket = 0;
    waiter->is_polled = 0;
    rlk_mutex_unlock(&client->mutex);
}

void rlk_tickets_poll(rlk_waiter *waiter, int is_polled)
{
    rlk_lines *lines = &waiter->client->lines;
    int is_new;

    rlk_mutex_lock(&waiter->client->mutex);
    is_new = is_polled && !waiter->is_polled;
    waiter->is_polled = is_polled;
    if (is_new) {
        lines->poll_pause_us = FIRST_PAUSE_US;
        lines->poll_at_us = rlk_clock_us() + FIRST_PAUSE_US;
    }
    rlk_mutex_unlock(&waiter->client->mutex);
    if (is_new)
        rlk_worker_wake(&waiter->client->watch.keeper, 0);
}

/* ---- the question ---- */

/* One name of one waiter; copied, since the waiter may leave while the database is asked. */
typedef struct place {
    uint64_t ticket;
    size_t name_length;
    char name[ROWLOCK_NAME_MAX + 1];
    char owner[ROWLOCK_OWNER_MAX + 1];
    int32_t status;
} place;

typedef struct question {
    place *places;
    rowlock_op *ops;
    size_t n, room;
    int64_t life_us; /* 0: only asks */
    int64_t due_us;  /* those that are to be kept alive by then are */
} question;

static int is_asked(const question *q, const rlk_waiter *waiter)
{
    return waiter->is_polled || (q->life_us > 0 && waiter->keep_at_us <= q->due_us);
}

static void copy_places(question *q, const rlk_waiter *waiter)
{
    for (size_t i = 0; i < waiter->n && q->n < q->room; i++) {
        const rowlock_op *op = &waiter->ops[i];
        place *to = &q->places[q->n++];

        to->ticket = waiter->ticket;
        to->name_length = op->name_length;
        memcpy(to->name, op->name, op->name_length);
        memcpy(to->owner, op->owner, strlen(op->owner) + 1);
    }
}

/* Copies what is asked for. 0: nothing, or no memory. */
static size_t collect(rowlock_client *client, question *q)
{
    rlk_mutex_lock(&client->mutex);
    for (const rlk_waiter *w = client->lines.tickets; w != NULL; w = w->next)
        q->room += is_asked(q, w) ? w->n : 0;
    if (q->room > 0) {
        q->places = calloc(q->room, sizeof *q->places);
        q->ops = calloc(q->room < MOST_AT_ONCE ? q->room : MOST_AT_ONCE, sizeof *q->ops);
    }
    for (const rlk_waiter *w = client->lines.tickets; w != NULL; w = w->next) {
        if (q->places != NULL && q->ops != NULL && is_asked(q, w))
            copy_places(q, w);
    }
    rlk_mutex_unlock(&client->mutex);
    return q->n;
}

static int by_name(const void *a, const void *b)
{
    const place *x = a, *y = b;
    size_t n = x->name_length < y->name_length ? x->name_length : y->name_length;
    int order = memcmp(x->name, y->name, n);

    if (order == 0)
        order = (x->name_length > y->name_length) - (x->name_length < y->name_length);
    return order != 0 ? order : (x->ticket > y->ticket) - (x->ticket < y->ticket);
}

static int by_ticket(const void *a, const void *b)
{
    const place *x = a, *y = b;

    return (x->ticket > y->ticket) - (x->ticket < y->ticket);
}

typedef struct part {
    rowlock_op *ops;
    size_t n;
    int64_t life_us;
} part;

static int do_look(rowlock_client *client, void *conn, uint32_t timeout_ms, void *arg,
                   rowlock_error *err)
{
    const part *p = arg;

    return client->driver.look(conn, p->ops, p->n, p->life_us, timeout_ms, err);
}

/* Asks for a part of the places. *soonest: when the next answer changes by itself, from now. */
static int ask(rowlock_client *client, question *q, size_t from, size_t n, int64_t until_us,
               int64_t *soonest)
{
    int64_t bound = rlk_keeper_bound(beat_of(client), until_us);
    rlk_sent sent;
    int rc;

    memset(q->ops, 0, n * sizeof *q->ops);
    for (size_t i = 0; i < n; i++) {
        q->ops[i].name = q->places[from + i].name;
        q->ops[i].name_length = q->places[from + i].name_length;
        q->ops[i].owner = q->places[from + i].owner;
        q->ops[i].note = "";
        q->ops[i].ticket = q->places[from + i].ticket;
    }
    rc = rlk_call(client, bound < client->call_timeout_us ? bound : client->call_timeout_us,
                  do_look, &(part){q->ops, n, q->life_us}, &sent, NULL);
    for (size_t i = 0; i < n && rc == ROWLOCK_OK; i++) {
        q->places[from + i].status = q->ops[i].status;
        if (q->ops[i].status == ROWLOCK_BUSY && q->ops[i].remaining_us > 0 &&
            q->ops[i].remaining_us < *soonest)
            *soonest = q->ops[i].remaining_us;
    }
    return rc;
}

/* What the places of one ticket say together: LOST if one is, else BUSY if one is. */
static int verdict(const question *q, uint64_t ticket)
{
    const place *found =
        bsearch(&(place){.ticket = ticket}, q->places, q->n, sizeof *q->places, by_ticket);
    int status = ROWLOCK_OK;

    if (found == NULL)
        return ROWLOCK_BUSY;
    while (found > q->places && found[-1].ticket == ticket)
        found--;
    for (; found < q->places + q->n && found->ticket == ticket; found++) {
        if (found->status == ROWLOCK_LOST)
            return ROWLOCK_LOST;
        if (found->status == ROWLOCK_BUSY)
            status = ROWLOCK_BUSY;
    }
    return status;
}

/* Rings those who should try, or whose ticket is gone. How many were rung. */
static size_t ring(rowlock_client *client, question *q)
{
    size_t rung = 0;

    qsort(q->places, q->n, sizeof *q->places, by_ticket);
    rlk_mutex_lock(&client->mutex);
    for (rlk_waiter *w = client->lines.tickets; w != NULL; w = w->next) {
        int status = verdict(q, w->ticket);

        if (status == ROWLOCK_BUSY || (status == ROWLOCK_OK && !w->is_polled))
            continue;
        w->is_gone |= status == ROWLOCK_LOST;
        rlk_ring(w);
        rung++;
    }
    rlk_mutex_unlock(&client->mutex);
    return rung;
}

static void plan(rowlock_client *client, const question *q, int rc, size_t rung, int64_t soonest)
{
    rlk_lines *lines = &client->lines;
    int64_t now = rlk_clock_us(), beat = beat_of(client), pause;

    rlk_mutex_lock(&client->mutex);
    /* After a failure soon again: the tickets have two thirds of their life left. */
    beat = rc == ROWLOCK_OK ? beat - rlk_random_below(beat / 8) : beat / 4;
    for (rlk_waiter *w = lines->tickets; w != NULL; w = w->next) {
        if (q->life_us > 0 && is_asked(q, w))
            w->keep_at_us = now + beat;
    }
    pause = rung > 0 ? FIRST_PAUSE_US : lines->poll_pause_us + lines->poll_pause_us / 2;
    lines->poll_pause_us = pause < LONGEST_PAUSE_US ? pause : LONGEST_PAUSE_US;
    lines->poll_at_us = now + (soonest < lines->poll_pause_us ? soonest : lines->poll_pause_us);
    rlk_mutex_unlock(&client->mutex);
}

/* With a life, those that have half of a beat left are kept alive along with those that are due. */
static void look(rowlock_client *client, int64_t life_us, int64_t until_us)
{
    question q = {.life_us = life_us, .due_us = rlk_clock_us() + beat_of(client) / 2};
    int64_t soonest = RLK_NEVER;
    size_t rung = 0, n;
    int rc = ROWLOCK_OK;

    if (collect(client, &q) > 0) {
        qsort(q.places, q.n, sizeof *q.places, by_name);
        for (size_t at = 0; at < q.n && rc == ROWLOCK_OK; at += n) {
            n = q.n - at < MOST_AT_ONCE ? q.n - at : MOST_AT_ONCE;
            rc = ask(client, &q, at, n, until_us, &soonest);
        }
        if (rc == ROWLOCK_OK)
            rung = ring(client, &q);
    } else if (q.room > 0) {
        rc = ROWLOCK_ENOMEM;
    }
    plan(client, &q, rc, rung, soonest);
    free(q.places);
    free(q.ops);
}

/* What there is to do at that time. *next: when there is more. Under the mutex. */
static void see_due(const rlk_lines *lines, int64_t now_us, int *is_beat, int *is_poll,
                    int64_t *next)
{
    *is_beat = *is_poll = 0;
    *next = RLK_NEVER;
    for (const rlk_waiter *w = lines->tickets; w != NULL; w = w->next) {
        *is_beat |= w->keep_at_us <= now_us;
        *is_poll |= w->is_polled && lines->poll_at_us <= now_us;
        if (w->keep_at_us < *next)
            *next = w->keep_at_us;
        if (w->is_polled && lines->poll_at_us < *next)
            *next = lines->poll_at_us;
    }
}

int64_t rlk_tickets_due(rowlock_client *client, int64_t until_us)
{
    rlk_lines *lines = &client->lines;
    int64_t now = rlk_clock_us(), next;
    int is_beat, is_poll;

    rlk_mutex_lock(&client->mutex);
    see_due(lines, now, &is_beat, &is_poll, &next);
    rlk_mutex_unlock(&client->mutex);
    if (is_beat || is_poll)
        look(client, is_beat ? client->ticket_us : 0, until_us);
    rlk_mutex_lock(&client->mutex);
    see_due(lines, now, &is_beat, &is_poll, &next);
    if (lines->tickets != NULL)
        lines->beat_at_us = next;
    else if (lines->beat_at_us > now)
        next = lines->beat_at_us;
    rlk_mutex_unlock(&client->mutex);
    return next;
}
