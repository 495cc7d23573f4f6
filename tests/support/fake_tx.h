/* SPDX-License-Identifier: MIT
 *
 * What the two halves of the fake driver share: fake_driver.c has the rows and the leases,
 * fake_tx.c the transactions. */
#ifndef FAKE_TX_H
#define FAKE_TX_H

#include "fake_driver.h"

typedef struct fake_conn {
    fake_session session; /* first: a connection is its own session */
    int open;
} fake_conn;

/* The database's clock, which is not the local one. */
int64_t fake_now(void);

fake_row *fake_row_of(const char *name, size_t length);
fake_row *fake_row_new(const char *name, size_t length);
fake_row *fake_row_at(size_t i); /* NULL behind the last */

/* A call stands between these two, under the mutex. Which fault it meets; its effect takes place
 * only if that says so. */
enum fake_fault fake_begin(void);
int fake_done(enum fake_fault fault, rowlock_error *err);
int fake_takes_effect(enum fake_fault fault);

/* Does the owner of the op hold it? Takes it for the op, or refuses. */
int fake_is_own(const rowlock_op *op);
void fake_take_one(rowlock_op *op);

void fake_answer_busy(rowlock_op *op, const fake_row *row);

/* Frees the rows that this connection keeps locked, under the mutex. */
void fake_unlock(const void *locker);

int fake_prepare(void *conn, rowlock_op *ops, size_t n, uint32_t timeout_ms, rowlock_error *err);
int fake_locate(void *conn, char *out, size_t size, uint32_t timeout_ms, rowlock_error *err);
int fake_lock(const rowlock_target *target, rowlock_op *ops, size_t n, uint32_t wait_ms,
              int in_line, uint32_t timeout_ms, rowlock_error *err);
int fake_guard(const rowlock_target *target, rowlock_op *op, uint32_t timeout_ms,
               rowlock_error *err);
int fake_end(void *conn, int commit, uint32_t timeout_ms, rowlock_error *err);
void *fake_native(void *conn);

#endif
