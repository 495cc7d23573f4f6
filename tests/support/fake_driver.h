/* SPDX-License-Identifier: MIT
 *
 * A driver whose database is a table in this process and whose clock is the fake one, for tests of
 * the core. Keeps the contract of driver.h; breaks it on purpose where a fault is planned. One
 * database for the whole program, used by one thread or under its own mutex. */
#ifndef FAKE_DRIVER_H
#define FAKE_DRIVER_H

#include "rowlock/driver.h"

enum fake_fault {
    FAKE_NONE,
    FAKE_NO_CONNECTION, /* ECONNECT, nothing done */
    FAKE_CUT_BEFORE,    /* EUNKNOWN, nothing done */
    FAKE_CUT_AFTER,     /* EUNKNOWN, but done: the reply was lost */
    FAKE_DEADLOCK,      /* EDRIVER, retryable, nothing done */
    FAKE_REFUSED        /* EDRIVER, not retryable, nothing done */
};

const rowlock_driver *fake_driver(void);

/* An empty database of version 1, no faults. */
void fake_reset(void);

/* The call (open included) with this number, counted from now as 1, 2, ..., fails so; those after
 * it, too, if `for_ever`. */
void fake_plan(int call, enum fake_fault fault, int for_ever);

/* Each call takes so long, before and after its effect. */
void fake_slow(int64_t before_us, int64_t after_us);

int fake_calls(void);       /* since fake_plan() or the reset, opens included */
int fake_connections(void); /* open now */
int fake_most_connections(void);

/* The row as it is, or NULL. */
typedef struct fake_row {
    char name[ROWLOCK_NAME_MAX + 1];
    size_t name_length;
    char owner[ROWLOCK_OWNER_MAX + 1];
    char note[ROWLOCK_NOTE_MAX + 1];
    uint64_t fence;
    uint32_t hold_count;
    uint8_t attempt[ROWLOCK_ATTEMPT_SIZE];
    int64_t acquire_time, expire_time;
    int locked;         /* a transaction keeps it locked: renew answers BUSY */
    const void *locker; /* which: a connection; NULL: somebody outside */
    uint64_t ticket;    /* that it was taken by; 0: none */
    uint64_t new_fence; /* to become the fence when that transaction commits */
} fake_row;

/* A connection of the application's. */
typedef struct fake_session {
    int in_transaction;
    const char *place; /* as `locate` says it */
} fake_session;

/* What `locate` says from now on: the server was started anew. */
extern const char *fake_here;

fake_row *fake_find(const char *name);
int fake_is_live(const char *name);
void fake_set_version(int version);

/* The end of a transaction of the application's. */
void fake_session_end(fake_session *session, int commit);

/* Each lock that must wait, from now on, lets this happen while it does. NULL: nothing. */
void fake_on_wait(void (*fn)(void));

#endif
