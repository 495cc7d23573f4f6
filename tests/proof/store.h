/* SPDX-License-Identifier: MIT
 *
 * The data that the locks protect: counters in a table of the same database. Each counter is read,
 * and written as one more, in two steps between which anything may happen.
 *
 * GUARDED: both in one transaction, whose first statement is the guard.
 * FENCED: in two transactions; both carry the fence, and the table refuses a smaller one than the
 * largest it has seen. */
#ifndef PROOF_STORE_H
#define PROOF_STORE_H

#include "backend.h"
#include "history.h"

struct store {
    const struct backend_kind *kind;
    const char *address;
    void *session; /* NULL: not connected */
};

/* Creates the table with a counter of each kind for every written name; 0 or -1. */
int store_create(const struct backend_kind *kind, const char *address);

/* Connects if it is not connected; 0 or -1. */
int store_connect(struct store *store);
void store_disconnect(struct store *store);

/* Begins the transaction of a write; 0 or -1, then the session is closed. */
int store_begin(struct store *store);
void store_rollback(struct store *store);

/* 0: committed; -1: perhaps, the session is closed. */
int store_commit(struct store *store);

/* The counter of that kind (HISTORY_GUARDED, HISTORY_FENCED), in the open transaction or outside. 0
 * or -1. */
int store_read(uint64_t *version, uint64_t *fence, struct store *store, int kind, uint32_t name);

/* In the open transaction: 0 or -1. That of a fenced one changes nothing if the table has seen a
 * larger fence; store_read() shows it. */
int store_write(struct store *store, int kind, uint32_t name, uint64_t version, uint64_t fence);

/* Shows the table the fence: 0 or -1. */
int store_claim(struct store *store, uint32_t name, uint64_t fence);

#endif
