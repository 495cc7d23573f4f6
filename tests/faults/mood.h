/* SPDX-License-Identifier: MIT
 *
 * Transaction mode and the guard gone through once, on connections that start with settings of
 * their own: all of it must be right, whatever these are. */
#ifndef TEST_MOOD_H
#define TEST_MOOD_H

#include "native.h"

enum mood_flags {
    MOOD_FOUND_ROWS = 1, /* NATIVE_FOUND_ROWS on the application's connection */
    MOOD_NO_BEGIN = 2,   /* a transaction is always open there */
    MOOD_OWN_ONLY = 4    /* the setting is for the application's connection only */
};

struct mood {
    const char *address; /* where sessions start with the setting */
    unsigned flags;      /* enum mood_flags */
    rowlock_client *client;
    rowlock_client *direct; /* somebody else, without the setting */
    struct native own;      /* the application's connection */
    rowlock_error err;
};

/* Connects; asserts. */
void mood_open(struct mood *m, const char *address, unsigned flags);
void mood_close(struct mood *m);

/* Goes through everything; asserts. */
void mood_all(const char *address, unsigned flags);

/* A name that wants to be quoted. */
const char *mood_name(void);

/* Begins a transaction on the application's connection, unless one is always open. */
void mood_begin(struct mood *m);

/* Writes a new row on that connection and returns its number; is it committed? */
int mood_write(struct native *native);
int mood_is_committed(int row);

/* What somebody else gets who locks the name for a moment, without waiting: OK changes the row. */
int mood_others_try(struct mood *m, const char *name);

/* For each case: the table that is written to. */
int mood_setup(void **state);
int mood_teardown(void **state);

#endif
