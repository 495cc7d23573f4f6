/* SPDX-License-Identifier: MIT
 *
 * Short words for the queue of tickets. The cases run wherever the driver has the slots for it
 * (BACKEND_TICKETS). What needs to be woken asks an op's can_wait; what needs a bell asks whether
 * `before` names one. */
#ifndef ROWLOCK_TESTS_CONFORMANCE_QUEUE_H
#define ROWLOCK_TESTS_CONFORMANCE_QUEUE_H

#include "conformance.h"

#define QUEUE_MAX 16 /* waiters in one case */

/* Takes a ticket, with a bell on that connection and the long life. */
rowlock_op queue_up(struct fixture *f, void *conn, const char *name, const char *owner);

/* The same without a bell, on the case's first connection, with any life. */
rowlock_op queue_up_for(struct fixture *f, const char *name, const char *owner, int64_t life_us);

/* Takes a ticket with the short life, and returns when it has ended by the database's clock. */
rowlock_op queue_up_dead(struct fixture *f, const char *name, const char *owner);

/* Call the slot, assert that the call as a whole is OK, and return the op's status. */
int try_turn(struct fixture *f, void *conn, rowlock_op *op, uint32_t wait_ms);
int try_look(struct fixture *f, rowlock_op *op, int64_t life_us);
void try_leave(struct fixture *f, void *conn, rowlock_op *op);

/* Waits as the core does, at most SLACK_US. The last answer. */
int await_turn(struct fixture *f, void *conn, rowlock_op *op);

/* Takes the lock by ticket with a bell, when nobody comes before. */
rowlock_op grant_by_ticket(struct fixture *f, void *conn, const char *name, const char *owner,
                           int64_t ttl_us);

/* The tenure of a granted op, with its ticket: for the release on the connection with the bell. */
rowlock_op op_ringing(const rowlock_op *granted);

/* Gives back a lock, with its bell if it has one; asserts that it was held. */
void give_back(struct fixture *f, void *conn, const rowlock_op *granted);

/* Bob, on b, has waited for Ann, on a, was served and has given the lock back. */
struct served {
    void *a, *b;
    int has_bells;
    rowlock_op last; /* his */
};

struct served served_before(struct fixture *f);

/* turn in a thread: waits on, without a try of its own, as long as the answer is BUSY, `calls`
 * times at most. */
struct turner {
    struct fixture *f;
    void *conn;
    rowlock_op *op;
    uint32_t wait_ms;
    int calls;
    const int *fds;
    int n_fds;
    int status;                 /* of the last call as a whole */
    int64_t began_us, ended_us; /* around the last call */
    rowlock_error err;
    uintptr_t thread;
};

void turner_start(struct turner *t);
void turner_join(struct turner *t); /* asserts that the last call was OK as a whole */

/* Was it woken, rather than left to wait until the time had passed? */
int turner_woken(const struct turner *t);

struct place {
    char name[ROWLOCK_NAME_MAX + 1], owner[ROWLOCK_OWNER_MAX + 1], holder[ROWLOCK_OWNER_MAX + 1];
    size_t name_length;
    int has_holder;
    uint64_t ticket;
    int64_t waited_ms, remaining_ms;
};

struct queue {
    struct place places[QUEUE_MAX];
    size_t count, stop_at; /* stop_at: 0: never */
};

/* Collects into a struct queue; a rowlock_waiter_fn. */
int queue_collect(const rowlock_waiter *waiter, void *queue);

/* What the waiters slot says, through the case's first connection. */
void queue_read(struct fixture *f, struct queue *out);
void queue_query(struct fixture *f, struct queue *out, const void *starts_with, size_t length);
int in_queue(struct fixture *f, const rowlock_op *op);

/* BACKEND_SQL: empties the table, of dead tickets too; counts all of them. */
void queue_clear(struct fixture *f);
int queue_rows(struct fixture *f);

#endif
