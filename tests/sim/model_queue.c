/* SPDX-License-Identifier: MIT
 *
 * Tickets and bells, as far as the core's present queue needs them. */
#include <string.h>

#include "error.h"
#include "model.h"

typedef struct bell {
    uint64_t number;
    const sim_session *session;
} bell;

static sim_ticket tickets[MOST_TICKETS];
static size_t ticket_count;
static bell bells[MOST_TICKETS];
static size_t bell_count;
static uint64_t last_number;

void model_queue_reset(void)
{
    ticket_count = bell_count = 0;
    last_number = 0;
}

static int is_of(const sim_ticket *t, const char *name, size_t length)
{
    return t->name_length == length && memcmp(t->name, name, length) == 0;
}

static sim_ticket *find(const rowlock_op *op)
{
    for (size_t i = 0; i < ticket_count; i++) {
        if (tickets[i].number == op->ticket && is_of(&tickets[i], op->name, op->name_length))
            return &tickets[i];
    }
    return NULL;
}

static int is_past(const sim_ticket *t)
{
    const sim_row *row = model_find(t->name, t->name_length);

    return t->expire_time <= model_now() || (row != NULL && t->number <= row->ticket);
}

/* The live one right before `number`; NULL: none. 0: the first of all, with *count of them. */
static const sim_ticket *right_before(const char *name, size_t length, uint64_t number)
{
    const sim_ticket *found = NULL;

    for (size_t i = 0; i < ticket_count; i++) {
        const sim_ticket *t = &tickets[i];

        if (is_of(t, name, length) && !is_past(t) && t->number < number &&
            (found == NULL || t->number > found->number))
            found = t;
    }
    return found;
}

int model_is_wanted_with_others(const char *name, size_t length)
{
    for (size_t i = 0; i < ticket_count; i++) {
        if (!is_of(&tickets[i], name, length) || is_past(&tickets[i]))
            continue;
        for (size_t k = 0; k < ticket_count; k++) {
            if (k != i && tickets[k].number == tickets[i].number)
                return 1;
        }
    }
    return 0;
}

int model_is_barred(const rowlock_op *op)
{
    if (op->ticket == 0 && op->barge)
        return 0;
    return right_before(op->name, op->name_length, op->ticket == 0 ? UINT64_MAX : op->ticket) !=
           NULL;
}

static void remove_ticket(sim_ticket *t)
{
    *t = tickets[--ticket_count];
}

void model_ticket_used(const rowlock_op *op, sim_row *row)
{
    sim_ticket *t = op->ticket == 0 ? NULL : find(op);

    if (t != NULL)
        remove_ticket(t);
    if (op->ticket > row->ticket)
        row->ticket = op->ticket;
}

void model_reap_tickets(void)
{
    for (size_t i = 0; i < ticket_count;) {
        if (tickets[i].expire_time < model_now() - INT64_C(60000000))
            remove_ticket(&tickets[i]);
        else
            i++;
    }
}

/* ---- bells ---- */

static bell *bell_of(uint64_t number)
{
    for (size_t i = 0; i < bell_count; i++) {
        if (bells[i].number == number)
            return &bells[i];
    }
    return NULL;
}

static int rings_on(const sim_session *session, uint64_t number)
{
    const bell *b = bell_of(number);

    return b != NULL && b->session == session;
}

void model_bell_ring(uint64_t ticket)
{
    bell *b = bell_of(ticket);

    if (b != NULL)
        *b = bells[--bell_count];
}

void model_session_rings(const sim_session *session)
{
    for (size_t i = 0; i < bell_count;) {
        if (bells[i].session == session)
            bells[i] = bells[--bell_count];
        else
            i++;
    }
}

/* ---- the slots ---- */

static void place(rowlock_op *op, const sim_session *session)
{
    const sim_row *row = model_find(op->name, op->name_length);
    const sim_ticket *before = right_before(op->name, op->name_length, op->ticket);

    op->status = ROWLOCK_BUSY;
    op->before = before != NULL ? before->number : row != NULL ? row->ticket : 0;
    op->remaining_us = before != NULL                      ? before->expire_time - model_now()
                       : row != NULL && model_is_live(row) ? row->expire_time - model_now()
                                                           : 0;
    op->holder[0] = '\0';
    op->holder_fence = 0;
    if (row != NULL && model_is_live(row)) {
        snprintf(op->holder, sizeof op->holder, "%s", row->owner);
        op->holder_fence = row->fence;
    }
    if (op->before != 0 && bell_of(op->before) == NULL)
        op->before = 0;
    op->rings = (uint8_t)rings_on(session, op->ticket);
    op->can_wait = op->rings && op->before != 0;
}

static uint64_t next_number(const sim_request *r)
{
    uint64_t number = (uint64_t)model_now();

    if (number <= last_number)
        number = last_number + 1;
    for (size_t i = 0; i < r->n; i++) {
        const sim_row *row = model_find(r->ops[i].name, r->ops[i].name_length);

        if (row != NULL && row->ticket >= number)
            number = row->ticket + 1;
    }
    return last_number = number;
}

static void add_tickets(sim_request *r, uint64_t number)
{
    for (size_t i = 0; i < r->n && ticket_count < MOST_TICKETS; i++) {
        sim_ticket *t = &tickets[ticket_count++];
        const rowlock_op *op = &r->ops[i];

        memset(t, 0, sizeof *t);
        memcpy(t->name, op->name, op->name_length);
        t->name_length = op->name_length;
        snprintf(t->owner, sizeof t->owner, "%s", op->owner);
        t->number = number;
        t->since_time = model_now();
        t->expire_time = model_now() + r->life_us;
    }
}

static void forget_dead(void)
{
    for (size_t i = 0; i < ticket_count;) {
        if (is_past(&tickets[i]))
            remove_ticket(&tickets[i]);
        else
            i++;
    }
}

/* The ticket at once; then, with a bell, the wait that comes with it. */
int model_enqueue(sim_request *r, int is_last)
{
    if (r->ops[0].ticket == 0) {
        uint64_t number;

        if (sim_fault(FAULT_NO_TICKET, &sim_network))
            return 1;
        forget_dead();
        number = next_number(r);
        add_tickets(r, number);
        if (r->with_bell && bell_count < MOST_TICKETS)
            bells[bell_count++] = (bell){number, r->session};
        for (size_t i = 0; i < r->n; i++) {
            r->ops[i].ticket = number;
            place(&r->ops[i], r->session);
        }
    }
    return is_last || r->wait_us == 0 || !r->ops[0].can_wait || bell_of(r->ops[0].before) == NULL;
}

int model_turn(sim_request *r, int is_last)
{
    rowlock_op *op = r->ops;
    const sim_row *row = model_find(op->name, op->name_length);
    int64_t waited = sim_now - r->since_us; /* a driver measures it by its own host's clock */

    op->waited_us = 0;
    if (r->wait_us > 0 && op->before != 0 && bell_of(op->before) != NULL) {
        op->status = ROWLOCK_BUSY;
        return is_last || r->is_cancelled;
    }
    if ((find(op) == NULL && !model_is_own(op)) || model_is_stale(op)) {
        op->status = ROWLOCK_LOST;
        return 1;
    }
    if (row != NULL && model_is_shared(row, r->session)) {
        place(op, r->session);
        return 1;
    }
    model_take_one(op);
    if (op->status == ROWLOCK_OK) {
        op->waited_us = waited + waited * r->session->process->drift_ppm / 1000000 - 1;
        op->rings = (uint8_t)rings_on(r->session, op->ticket);
    } else {
        place(op, r->session);
    }
    return 1;
}

int model_leave(sim_request *r)
{
    for (size_t i = 0; i < r->n; i++) {
        sim_ticket *t = find(&r->ops[i]);

        if (t != NULL)
            remove_ticket(t);
        r->ops[i].status = ROWLOCK_OK;
    }
    if (rings_on(r->session, r->ops[0].ticket))
        model_bell_ring(r->ops[0].ticket);
    return 1;
}

int model_look(sim_request *r)
{
    for (size_t i = 0; i < r->n; i++) {
        rowlock_op *op = &r->ops[i];
        sim_ticket *t = find(op);
        const sim_row *row = model_find(op->name, op->name_length);

        op->status = ROWLOCK_LOST;
        if (t == NULL || is_past(t))
            continue;
        if (r->life_us > 0)
            t->expire_time = model_now() + r->life_us;
        place(op, r->session);
        if (!model_is_barred(op) && (row == NULL || !model_is_live(row) || model_is_own(op)))
            op->status = ROWLOCK_OK;
    }
    return 1;
}

void model_list_tickets(sim_request *r)
{
    r->tickets = sim_alloc((ticket_count + 1) * sizeof *r->tickets);
    for (size_t i = 0; i < ticket_count; i++) {
        if (!is_past(&tickets[i]))
            r->tickets[r->ticket_count++] = tickets[i];
    }
}
