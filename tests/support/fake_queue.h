/* SPDX-License-Identifier: MIT
 *
 * The queue of the fake driver: a table of it that has the slots, and what happens in them. */
#ifndef FAKE_QUEUE_H
#define FAKE_QUEUE_H

#include "fake_driver.h"

/* As fake_driver(), with the queue. */
const rowlock_driver *fake_queue_driver(void);

/* No tickets; bells can be used; nothing happens during a turn. */
void fake_queue_reset(void);

/* From now on enqueue gives no bells. */
void fake_queue_without_bells(void);

/* The wait that was to come with the last ticket that had a bell. */
uint32_t fake_first_wait_ms(void);

/* Called in each turn that waits, before it looks whether it was woken. NULL: nothing. */
void fake_on_turn(void (*fn)(void));

/* A ticket of somebody outside, who has a bell (or none) and lives so long. */
uint64_t fake_ticket_add(const char *name, const char *owner, int64_t life_us, int has_bell);
void fake_ticket_remove(uint64_t ticket);

/* Rings the bell of somebody outside. */
void fake_bell_ring(uint64_t ticket);

/* The tickets that live, of this name; how many, and the i-th one. */
size_t fake_tickets(const char *name);
uint64_t fake_ticket_at(const char *name, size_t i);

/* Is the bell of this ticket with a connection, or with somebody outside? */
int fake_has_bell(uint64_t ticket);

/* For fake_driver.c: does the queue bar this op from a free row? Takes its ticket off. Rings. */
int fake_is_barred(const rowlock_op *op);
void fake_ticket_used(const rowlock_op *op);
void fake_conn_rings(const void *conn);

#endif
