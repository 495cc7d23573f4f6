/* SPDX-License-Identifier: MIT */
#include "fake_queue.h"

#include <stdio.h>
#include <string.h>

#include "clock.h"
#include "error.h"
#include "fake_clock.h"
#include "fake_tx.h"

enum { MOST_TICKETS = 200 };

typedef struct fake_ticket {
    char name[ROWLOCK_NAME_MAX + 1];
    size_t name_length;
    char owner[ROWLOCK_OWNER_MAX + 1];
    uint64_t number;
    int64_t since_time, expire_time;
} fake_ticket;

/* A bell outlives its ticket: the holder has it until the release. */
typedef struct fake_bell {
    uint64_t number;
    const void *conn; /* NULL: somebody outside */
} fake_bell;

static fake_ticket tickets[MOST_TICKETS];
static size_t ticket_count;
static fake_bell bells[MOST_TICKETS];
static size_t bell_count;
static uint64_t last_number;
static int no_bells;
static uint32_t first_wait_ms;
static void (*during_turn)(void);

void fake_queue_reset(void)
{
    ticket_count = bell_count = 0;
    last_number = 0;
    no_bells = 0;
    first_wait_ms = 0;
    during_turn = NULL;
}

void fake_queue_without_bells(void)
{
    no_bells = 1;
}

void fake_on_turn(void (*fn)(void))
{
    during_turn = fn;
}

static fake_ticket *find(const char *name, size_t length, uint64_t number)
{
    for (size_t i = 0; i < ticket_count; i++) {
        if (tickets[i].number == number && tickets[i].name_length == length &&
            memcmp(tickets[i].name, name, length) == 0)
            return &tickets[i];
    }
    return NULL;
}

static int is_live(const fake_ticket *ticket)
{
    return ticket->expire_time > fake_now();
}

static void add(const char *name, size_t length, const char *owner, int64_t life_us,
                uint64_t number)
{
    fake_ticket *ticket = &tickets[ticket_count++];

    memset(ticket, 0, sizeof *ticket);
    memcpy(ticket->name, name, length);
    ticket->name_length = length;
    snprintf(ticket->owner, sizeof ticket->owner, "%s", owner);
    ticket->number = number;
    ticket->since_time = fake_now();
    ticket->expire_time = fake_now() + life_us;
}

static uint64_t next_number(void)
{
    last_number = last_number + 1 > (uint64_t)fake_now() ? last_number + 1 : (uint64_t)fake_now();
    return last_number;
}

uint64_t fake_ticket_add(const char *name, const char *owner, int64_t life_us, int has_bell)
{
    uint64_t number = next_number();

    add(name, strlen(name), owner, life_us, number);
    if (has_bell)
        bells[bell_count++] = (fake_bell){number, NULL};
    return number;
}

void fake_ticket_remove(uint64_t ticket)
{
    for (size_t i = 0; i < ticket_count;) {
        if (tickets[i].number == ticket)
            tickets[i] = tickets[--ticket_count];
        else
            i++;
    }
}

void fake_bell_ring(uint64_t ticket)
{
    for (size_t i = 0; i < bell_count; i++) {
        if (bells[i].number == ticket) {
            bells[i] = bells[--bell_count];
            return;
        }
    }
}

int fake_has_bell(uint64_t ticket)
{
    for (size_t i = 0; i < bell_count; i++) {
        if (bells[i].number == ticket)
            return 1;
    }
    return 0;
}

void fake_conn_rings(const void *conn)
{
    for (size_t i = 0; i < bell_count;) {
        if (bells[i].conn == conn)
            bells[i] = bells[--bell_count];
        else
            i++;
    }
}

static int has_bell_on(const void *conn, uint64_t ticket)
{
    for (size_t i = 0; i < bell_count; i++) {
        if (bells[i].number == ticket && bells[i].conn == conn)
            return 1;
    }
    return 0;
}

/* The i-th live ticket of the name, lowest first; NULL beyond the last. */
static fake_ticket *nth(const char *name, size_t length, size_t n)
{
    fake_ticket *found = NULL;
    uint64_t above = 0;

    for (size_t round = 0; round <= n; round++) {
        found = NULL;
        for (size_t i = 0; i < ticket_count; i++) {
            fake_ticket *t = &tickets[i];

            if (t->name_length == length && memcmp(t->name, name, length) == 0 && is_live(t) &&
                t->number > above && (found == NULL || t->number < found->number))
                found = t;
        }
        if (found == NULL)
            return NULL;
        above = found->number;
    }
    return found;
}

size_t fake_tickets(const char *name)
{
    size_t n = 0;

    while (nth(name, strlen(name), n) != NULL)
        n++;
    return n;
}

uint64_t fake_ticket_at(const char *name, size_t i)
{
    const fake_ticket *ticket = nth(name, strlen(name), i);

    return ticket == NULL ? 0 : ticket->number;
}

int fake_is_barred(const rowlock_op *op)
{
    const fake_ticket *first = nth(op->name, op->name_length, 0);

    return first != NULL && !op->barge && (op->ticket == 0 || first->number < op->ticket);
}

void fake_ticket_used(const rowlock_op *op)
{
    fake_ticket *ticket = op->ticket == 0 ? NULL : find(op->name, op->name_length, op->ticket);
    fake_row *row = fake_row_of(op->name, op->name_length);

    if (ticket != NULL)
        *ticket = tickets[--ticket_count];
    if (row != NULL)
        row->ticket = op->ticket;
}

/* Who is right before, and is there a bell to wait for? */
static void place(rowlock_op *op, const void *conn)
{
    const fake_row *row = fake_row_of(op->name, op->name_length);
    const fake_ticket *before = NULL, *t;

    for (size_t i = 0; (t = nth(op->name, op->name_length, i)) != NULL && t->number < op->ticket;
         i++)
        before = t;
    op->status = ROWLOCK_BUSY;
    op->before = before != NULL ? before->number : row != NULL ? row->ticket : 0;
    op->remaining_us = before != NULL ? before->expire_time - fake_now()
                       : row != NULL  ? row->expire_time - fake_now()
                                      : 0;
    if (!fake_has_bell(op->before))
        op->before = 0;
    op->rings = (uint8_t)has_bell_on(conn, op->ticket);
    op->can_wait = op->rings && op->before != 0;
}

/* Nobody rings meanwhile. */
static void wait_at_once(const rowlock_op *op)
{
    int64_t wait_us = (int64_t)op->wait_ms * 1000;

    first_wait_ms = op->wait_ms;
    if (op->can_wait && op->remaining_us > wait_us)
        fake_clock_advance_us(wait_us);
}

uint32_t fake_first_wait_ms(void)
{
    return first_wait_ms;
}

static int fake_enqueue(void *conn, rowlock_op *ops, size_t n, int64_t life_us, int with_bell,
                        uint32_t timeout_ms, rowlock_error *err)
{
    enum fake_fault fault = fake_begin();
    uint64_t number = next_number();

    (void)timeout_ms;
    if (fake_takes_effect(fault) && with_bell && !no_bells)
        bells[bell_count++] = (fake_bell){number, conn};
    for (size_t i = 0; fake_takes_effect(fault) && i < n; i++) {
        add(ops[i].name, ops[i].name_length, ops[i].owner, life_us, number);
        ops[i].ticket = number;
        place(&ops[i], conn);
    }
    if (fake_takes_effect(fault) && with_bell)
        wait_at_once(ops);
    return fake_done(fault, err);
}

static void try_turn(rowlock_op *op, void *conn)
{
    if (find(op->name, op->name_length, op->ticket) == NULL && !fake_is_own(op)) {
        op->status = ROWLOCK_LOST;
        return;
    }
    fake_take_one(op);
    if (op->status == ROWLOCK_OK)
        op->rings = (uint8_t)has_bell_on(conn, op->ticket);
    else
        place(op, conn);
}

static int is_readable(const int *fds, int n)
{
    return n > 0 && rlk_sleep_until(0, fds, n) >= 0;
}

static int fake_turn(void *conn, rowlock_op *op, uint32_t wait_ms, const int *fds, int n_fds,
                     uint32_t timeout_ms, rowlock_error *err)
{
    enum fake_fault fault;
    int64_t start = rlk_clock_us();

    (void)timeout_ms;
    if (wait_ms > 0 && during_turn != NULL)
        during_turn();
    fault = fake_begin();
    op->status = ROWLOCK_BUSY;
    if (wait_ms > 0 && fake_has_bell(op->before)) {
        if (!is_readable(fds, n_fds))
            fake_clock_advance_us((int64_t)wait_ms * 1000);
        return fake_done(fault, err);
    }
    if (fake_takes_effect(fault))
        try_turn(op, conn);
    op->waited_us = rlk_clock_us() - start;
    return fake_done(fault, err);
}

static int fake_leave(void *conn, rowlock_op *ops, size_t n, uint32_t timeout_ms,
                      rowlock_error *err)
{
    enum fake_fault fault = fake_begin();

    (void)timeout_ms;
    for (size_t i = 0; fake_takes_effect(fault) && i < n; i++) {
        fake_ticket *ticket = find(ops[i].name, ops[i].name_length, ops[i].ticket);

        if (ticket != NULL)
            *ticket = tickets[--ticket_count];
        ops[i].status = ROWLOCK_OK;
    }
    if (fake_takes_effect(fault) && has_bell_on(conn, ops[0].ticket))
        fake_bell_ring(ops[0].ticket);
    return fake_done(fault, err);
}

static void look_at(rowlock_op *op, int64_t life_us, void *conn)
{
    fake_ticket *ticket = find(op->name, op->name_length, op->ticket);
    const fake_row *row = fake_row_of(op->name, op->name_length);

    op->status = ROWLOCK_LOST;
    if (ticket == NULL || !is_live(ticket))
        return;
    if (life_us > 0)
        ticket->expire_time = fake_now() + life_us;
    place(op, conn);
    if (!fake_is_barred(op) && (row == NULL || row->expire_time <= fake_now() || fake_is_own(op)))
        op->status = ROWLOCK_OK;
}

static int fake_look(void *conn, rowlock_op *ops, size_t n, int64_t life_us, uint32_t timeout_ms,
                     rowlock_error *err)
{
    enum fake_fault fault = fake_begin();

    (void)timeout_ms;
    for (size_t i = 0; fake_takes_effect(fault) && i < n; i++)
        look_at(&ops[i], life_us, conn);
    return fake_done(fault, err);
}

static int fake_waiters(void *conn, const rowlock_list_query *query, rowlock_waiter_fn fn,
                        void *payload, uint32_t timeout_ms, rowlock_error *err)
{
    enum fake_fault fault = fake_begin();

    (void)conn;
    (void)timeout_ms;
    (void)query;
    for (size_t i = 0; fake_takes_effect(fault) && i < ticket_count; i++) {
        const fake_ticket *t = &tickets[i];
        rowlock_waiter waiter = {.size = sizeof waiter,
                                 .name = t->name,
                                 .name_length = t->name_length,
                                 .owner = t->owner,
                                 .ticket = t->number,
                                 .waited_ms = (fake_now() - t->since_time) / 1000,
                                 .remaining_ms = (t->expire_time - fake_now()) / 1000};

        if (is_live(t) && fn(&waiter, payload) != 0)
            break;
    }
    return fake_done(fault, err);
}

const rowlock_driver *fake_queue_driver(void)
{
    static rowlock_driver driver;

    driver = *fake_driver();
    driver.enqueue = fake_enqueue;
    driver.turn = fake_turn;
    driver.leave = fake_leave;
    driver.look = fake_look;
    driver.waiters = fake_waiters;
    return &driver;
}
