/* SPDX-License-Identifier: MIT
 *
 * Transaction mode: the wait for rows, and transactions on connections of the library's own. */
#include <stdlib.h>
#include <string.h>

#include "core.h"

enum { MOST_VAIN = 3 }; /* rows that were made and not found: reaped at once */

struct rowlock_tx {
    rowlock_client *client;
    rlk_conn *conn;
    int is_shown; /* the application has had the connection in its hands */
    size_t n;
    uint64_t fences[]; /* in the order of the caller's names */
};

uint32_t rlk_call_timeout_ms(const rowlock_client *client)
{
    return (uint32_t)(client->call_timeout_us / 1000);
}

/* ---- one call ---- */

static int prepare_ops(rlk_tx_call *call, const char *const *names, rowlock_error *err)
{
    const char *owner = rlk_owner(call->client, call->owner_buffer);
    rlk_name *sorted;
    int rc = rlk_names_sorted(&sorted, names, call->options.name_lengths, call->n, err);

    if (rc != ROWLOCK_OK)
        return rc;
    call->ops = calloc(call->n, sizeof *call->ops);
    call->order = calloc(call->n, sizeof *call->order);
    if (call->ops == NULL || call->order == NULL) {
        free(sorted);
        return rlk_fail_memory(err);
    }
    for (size_t i = 0; i < call->n; i++) {
        rowlock_op *op = &call->ops[i];

        call->order[i] = sorted[i].number;
        op->name = sorted[i].name;
        op->name_length = sorted[i].length;
        op->owner = owner;
        op->note = "";
        rlk_new_attempt(op->attempt, call->client);
    }
    free(sorted);
    return ROWLOCK_OK;
}

int rlk_tx_enter(rlk_tx_call *call, rowlock_client *client, const char *const *names, size_t n,
                 const rowlock_tx_options *options, rowlock_error *err)
{
    int rc;

    memset(call, 0, sizeof *call);
    call->n = n;
    rc = rlk_options_copy(&call->options, sizeof call->options, options, "rowlock_tx_options", err);
    if (rc == ROWLOCK_OK)
        rc = rlk_check_names(names, n, err);
    if (rc == ROWLOCK_OK)
        rc = rlk_check_wait(call->options.wait_ms, err);
    if (rc == ROWLOCK_OK)
        rc = rlk_enter(client, err);
    if (rc != ROWLOCK_OK)
        return rc;
    call->client = client;
    rlk_wait_begin(&call->wait, client, call->options.wait_ms, call->options.cancel);
    /* A statement that is cut off undoes the transaction: it has the time of a call. */
    if (call->wait.until_us != RLK_NEVER)
        call->wait.end_us = call->wait.until_us + client->call_timeout_us;
    if (client->driver.lock == NULL)
        return rlk_fail(err, ROWLOCK_ENOTSUP, "the %s driver has no transactions",
                        client->driver.name);
    if (call->options.holder != NULL)
        memset(call->options.holder, 0, sizeof *call->options.holder);
    return prepare_ops(call, names, err);
}

void rlk_tx_leave(rlk_tx_call *call)
{
    free(call->ops);
    free(call->order);
    if (call->client != NULL)
        rlk_leave(call->client);
}

static int do_prepare(rowlock_client *client, void *conn, uint32_t timeout_ms, void *arg,
                      rowlock_error *err)
{
    rlk_tx_call *call = arg;

    return client->driver.prepare(conn, call->ops, call->n, timeout_ms, err);
}

/* One try: the rows must be there before the transaction touches them, and a lease shows without
 * it. *is_locked: it is not a lease that stands in the way, and the database has done the waiting.
 */
static int try_rows(rlk_tx_call *call, const rlk_wait *wait, rlk_try_lock_fn try_lock, void *arg,
                    int *is_locked, rowlock_error *err)
{
    const rowlock_op *busy;
    rlk_sent sent;
    int rc = rlk_call(call->client, rlk_wait_bound(wait), do_prepare, call, &sent, err);

    *is_locked = 0;
    memset(&call->no_room, 0, sizeof call->no_room);
    if (call->is_native)
        rc = rlk_own_failure(rc, err);
    else if (rc == ROWLOCK_EUNKNOWN) /* a free row more or less is no outcome of the caller's */
        rc = rlk_fail_native(err, ROWLOCK_ECONNECT, 0, NULL, 1,
                             "the database did not answer in time, nothing is locked");
    if (rc != ROWLOCK_OK || rlk_obstacle(call->ops, call->n) != NULL)
        return rc;
    if (call->options.wait_ms != 0) {
        rc = rlk_wait_look(wait, err); /* before the database makes us wait */
        if (rc != ROWLOCK_OK && rc != ROWLOCK_TIMEOUT)
            return rc;
    }
    rc = try_lock(call, wait, arg, err);
    busy = rc == ROWLOCK_OK ? rlk_obstacle(call->ops, call->n) : NULL;
    *is_locked = busy != NULL && busy->remaining_us <= 0 && call->no_room.status == 0;
    return rc;
}

/* The row was there a moment ago. In the application's transaction it is not made again: InnoDB
 * keeps the place where it was locked, and whoever inserts it waits for that transaction. */
static int vanished(rowlock_error *err)
{
    return rlk_fail_native(err, ROWLOCK_EDRIVER, 0, NULL, 1,
                           "the lock's row was reaped at this very moment: roll back and begin "
                           "again");
}

static int report(const rlk_tx_call *call, int status, const rowlock_op *busy, rowlock_error *err)
{
    if (call->no_room.status == 0)
        return rlk_report_busy(call->options.holder, status, busy, err);
    if (err != NULL)
        *err = call->no_room;
    return call->no_room.status;
}

int rlk_tx_lock(rlk_tx_call *call, rlk_try_lock_fn try_lock, void *arg, rowlock_error *err)
{
    rlk_wait *wait = &call->wait;
    int is_locked, vain = 0, rc;

    for (;;) {
        const rowlock_op *busy;

        rc = try_rows(call, wait, try_lock, arg, &is_locked, err);
        if (rc != ROWLOCK_OK)
            return rc;
        busy = rlk_obstacle(call->ops, call->n);
        if (busy == NULL)
            return rlk_ok(err);
        if (busy->status == ROWLOCK_LOST) {
            if (!call->is_native && ++vain < MOST_VAIN)
                continue;
            return vanished(err);
        }
        if (call->options.wait_ms == 0)
            return report(call, ROWLOCK_BUSY, busy, err);
        rc = is_locked ? rlk_wait_look(wait, err) : rlk_wait_next(wait, busy->remaining_us, err);
        if (rc == ROWLOCK_TIMEOUT)
            return report(call, ROWLOCK_TIMEOUT, busy, err);
        if (rc != ROWLOCK_OK)
            return rc;
    }
}

/* ---- on a connection of the library's ---- */

typedef struct own_try {
    rlk_tx_call *call;
    const rlk_wait *wait;
} own_try;

static int do_lock(rowlock_client *client, void *conn, uint32_t timeout_ms, void *arg,
                   rowlock_error *err)
{
    const rowlock_target target = {.size = sizeof target, .conn = conn};
    own_try *own = arg;
    uint32_t wait_ms = rlk_wait_left_ms(own->wait);

    (void)timeout_ms; /* the slot's is that of a call that waits for nobody */
    return client->driver.lock(&target, own->call->ops, own->call->n, wait_ms,
                               own->call->options.in_line, rlk_wait_rest_ms(own->wait, wait_ms),
                               err);
}

/* Until all rows are locked the connection is nobody's. */
static int try_own(rlk_tx_call *call, const rlk_wait *wait, void *arg, rowlock_error *err)
{
    rlk_conn **conn = arg;
    own_try own = {call, wait};
    rowlock_error local;
    int rc;

    err = err == NULL ? &local : err;
    rc = rlk_call_lent(conn, call->client, RLK_USE_TX, rlk_wait_bound(wait), do_lock, &own, err);
    if (rc == ROWLOCK_BUSY) { /* no lock is in the way, but there is no connection */
        call->no_room = *err;
        for (size_t i = 0; i < call->n; i++)
            call->ops[i].status = ROWLOCK_BUSY;
        return ROWLOCK_OK;
    }
    if (rc == ROWLOCK_OK && rlk_obstacle(call->ops, call->n) != NULL) {
        rlk_pool_return(call->client, RLK_USE_TX, *conn);
        *conn = NULL;
    }
    return rc;
}

static void fill(rowlock_tx *tx, const rlk_tx_call *call)
{
    tx->client = call->client;
    tx->n = call->n;
    for (size_t i = 0; i < call->n; i++)
        tx->fences[call->order[i]] = call->ops[i].fence;
    rlk_mutex_lock(&tx->client->mutex);
    tx->client->refs++;
    rlk_mutex_unlock(&tx->client->mutex);
}

int rowlock_tx_begin(rowlock_tx **out, rowlock_client *client, const char *const *names, size_t n,
                     const rowlock_tx_options *options, rowlock_error *err)
{
    rowlock_tx *tx = NULL;
    rlk_tx_call call;
    int rc;

    if (out == NULL)
        return rlk_fail(err, ROWLOCK_EINVAL, "out is NULL");
    *out = NULL;
    rc = rlk_tx_enter(&call, client, names, n, options, err);
    if (rc == ROWLOCK_OK) {
        tx = calloc(1, sizeof *tx + n * sizeof tx->fences[0]);
        rc = tx == NULL ? rlk_fail_memory(err) : rlk_tx_lock(&call, try_own, &tx->conn, err);
    }
    if (rc == ROWLOCK_OK) {
        fill(tx, &call);
        *out = tx;
    } else {
        free(tx);
    }
    rlk_tx_leave(&call);
    return rc;
}

uint64_t rowlock_tx_fence(const rowlock_tx *tx, size_t i)
{
    return tx == NULL || i >= tx->n ? 0 : tx->fences[i];
}

void *rowlock_native_connection(rowlock_tx *tx, const rowlock_driver *driver)
{
    if (tx == NULL || tx->client->pid != rlk_getpid() || !rlk_is_driver_of(tx->client, driver))
        return NULL;
    tx->is_shown = 1;
    return tx->client->driver.native(tx->conn->state);
}

/* A session that the application has had in its hands may have another search path, another
 * database, other settings: it is not used for locks again. */
static void give_conn_back(const rowlock_tx *tx, int rc)
{
    if ((rc == ROWLOCK_OK || rc == ROWLOCK_EDRIVER) && !tx->is_shown)
        rlk_pool_return(tx->client, RLK_USE_TX, tx->conn);
    else
        rlk_pool_lose(tx->client, RLK_USE_TX, tx->conn);
}

static int end(rowlock_tx **tx, int commit, rowlock_error *err)
{
    rowlock_tx *t = tx == NULL ? NULL : *tx;
    int rc;

    if (t == NULL)
        return rlk_fail(err, ROWLOCK_EINVAL, "the transaction is NULL: ended, or never begun");
    *tx = NULL;
    if (t->client->pid != rlk_getpid()) {
        rc = rlk_fail(err, ROWLOCK_EFORK, "the transaction was begun before fork()");
    } else {
        rlk_cancel_disable();
        rc = t->client->driver.end(t->conn->state, commit, rlk_call_timeout_ms(t->client), err);
        give_conn_back(t, rc);
        rlk_client_unref(t->client);
        rlk_cancel_enable();
    }
    free(t);
    return rc;
}

int rowlock_tx_commit(rowlock_tx **tx, rowlock_error *err)
{
    int rc = end(tx, 1, err);

    return rc == ROWLOCK_OK ? rlk_ok(err) : rc;
}

int rowlock_tx_rollback(rowlock_tx **tx, rowlock_error *err)
{
    int rc = end(tx, 0, err);

    return rc == ROWLOCK_EINVAL || rc == ROWLOCK_EFORK ? rc : rlk_ok(err);
}
