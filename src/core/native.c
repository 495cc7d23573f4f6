/* SPDX-License-Identifier: MIT
 *
 * Locks and the guard in transactions of the application's, on connections of its own. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core.h"
#include "random.h"

#define FIRST_PAUSE_US   INT64_C(1000)
#define LONGEST_PAUSE_US INT64_C(32000)

int rlk_is_driver_of(const rowlock_client *client, const rowlock_driver *driver)
{
    return driver != NULL && strcmp(client->driver.name, driver->name) == 0;
}

static int check_kind(const rowlock_client *client, const rowlock_driver *driver,
                      const void *native, rowlock_error *err)
{
    if (native == NULL)
        return rlk_fail(err, ROWLOCK_EINVAL, "the connection is NULL");
    if (driver == NULL)
        return rlk_fail(err, ROWLOCK_EINVAL, "the driver is NULL");
    if (!rlk_is_driver_of(client, driver))
        return rlk_fail(err, ROWLOCK_EINVAL,
                        "the client is one of %s, the connection one of %s: use the function of "
                        "the client's driver",
                        client->driver.name, driver->name);
    return ROWLOCK_OK;
}

int rlk_own_failure(int rc, rowlock_error *err)
{
    if (rc == ROWLOCK_ECONNECT || rc == ROWLOCK_EUNKNOWN)
        rc = err->status = ROWLOCK_EPOOL;
    return rc;
}

/* ---- where the tables are ---- */

static int do_locate(rowlock_client *client, void *conn, uint32_t timeout_ms, void *arg,
                     rowlock_error *err)
{
    return client->driver.locate(conn, arg, ROWLOCK_PLACE_MAX, timeout_ms, err);
}

/* Copies the place as it is known, or asks the database for it: the first time, and `anew` when the
 * connection seems to be elsewhere, since the server may have been started anew. */
static int find_place(char *out, rowlock_client *client, int anew, int64_t bound_us,
                      rowlock_error *err)
{
    rlk_sent sent;
    int is_known, rc;

    rlk_mutex_lock(&client->mutex);
    is_known = client->place != NULL && !anew;
    if (is_known)
        snprintf(out, ROWLOCK_PLACE_MAX, "%s", client->place);
    rlk_mutex_unlock(&client->mutex);
    if (is_known)
        return ROWLOCK_OK;
    rc = rlk_own_failure(rlk_call(client, bound_us, do_locate, out, &sent, err), err);
    if (rc != ROWLOCK_OK)
        return rc;
    rlk_mutex_lock(&client->mutex);
    free(client->place);
    client->place = strdup(out);
    if (client->place == NULL)
        rc = rlk_fail_memory(err);
    rlk_mutex_unlock(&client->mutex);
    return rc;
}

/* One use of the application's connection. */
typedef struct native_use {
    rowlock_client *client;
    void *connection;
    char place[ROWLOCK_PLACE_MAX];
} native_use;

static rowlock_target target_of(const native_use *use)
{
    return (rowlock_target){.size = sizeof(rowlock_target),
                            .native = use->connection,
                            .prefix = use->client->prefix,
                            .place = use->place};
}

/* Does the driver say that the connection is on another database than the place is? */
static int is_elsewhere(int rc, const rowlock_error *err)
{
    return rc == ROWLOCK_EINVAL && err->native_code == ROWLOCK_NATIVE_ELSEWHERE;
}

/* The second answer is the caller's: without the number that was for us. */
static int conclude(int rc, rowlock_error *err)
{
    if (is_elsewhere(rc, err))
        err->native_code = 0;
    return rc;
}

/* ---- locks ---- */

static int send_lock(rlk_tx_call *call, const native_use *use, uint32_t wait_ms, rowlock_error *err)
{
    const rowlock_target target = target_of(use);

    return call->client->driver.lock(&target, call->ops, call->n, wait_ms, call->options.in_line,
                                     rlk_wait_rest_ms(&call->wait, wait_ms), err);
}

static int try_native(rlk_tx_call *call, const rlk_wait *wait, void *arg, rowlock_error *err)
{
    native_use *use = arg;
    int rc = send_lock(call, use, rlk_wait_left_ms(wait), err);

    if (!is_elsewhere(rc, err))
        return rc;
    rc = find_place(use->place, call->client, 1, rlk_wait_bound(wait), err);
    if (rc == ROWLOCK_OK)
        rc = send_lock(call, use, rlk_wait_left_ms(wait), err);
    return conclude(rc, err);
}

/* Before a row is made: is the connection fit for it at all? */
static int check_native(rlk_tx_call *call, const native_use *use, rowlock_error *err)
{
    const rowlock_target target = target_of(use);

    return call->client->driver.lock(&target, call->ops, 0, ROWLOCK_WAIT_NONE, 0,
                                     rlk_wait_rest_ms(&call->wait, 0), err);
}

int rowlock_native_lock(uint64_t *fences, rowlock_client *client, const rowlock_driver *driver,
                        void *native, const char *const *names, size_t n,
                        const rowlock_tx_options *options, rowlock_error *err)
{
    native_use use = {.client = client, .connection = native};
    rowlock_error local;
    rlk_tx_call call;
    int rc;

    err = err == NULL ? &local : err;
    rc = rlk_tx_enter(&call, client, names, n, options, err);

    call.is_native = 1;
    if (rc == ROWLOCK_OK)
        rc = check_kind(client, driver, native, err);
    if (rc == ROWLOCK_OK)
        rc = find_place(use.place, client, 0, rlk_wait_bound(&call.wait), err);
    if (rc == ROWLOCK_OK)
        rc = check_native(&call, &use, err);
    if (rc == ROWLOCK_OK)
        rc = rlk_tx_lock(&call, try_native, &use, err);
    for (size_t i = 0; i < n && rc == ROWLOCK_OK && fences != NULL; i++)
        fences[call.order[i]] = call.ops[i].fence;
    rlk_tx_leave(&call);
    return rc;
}

/* ---- the guard ---- */

/* A row that is locked for a moment, by a renewal or by somebody who lost a race for it, is asked
 * for again. */
static int send_guard(const native_use *use, rowlock_op *op, int64_t deadline, rowlock_error *err)
{
    const rowlock_target target = target_of(use);
    rowlock_client *client = use->client;
    const int fds[] = {client->close_fd};
    int64_t pause = FIRST_PAUSE_US, until;
    int rc;

    for (;;) {
        rc = client->driver.guard(&target, op, rlk_bound_ms(client, deadline), err);
        if (rc != ROWLOCK_OK || op->status != ROWLOCK_BUSY)
            return rc;
        until = rlk_clock_us() + pause / 2 + rlk_random_below(pause);
        if (until >= deadline || rlk_sleep_until(until, fds, 1) >= 0)
            return rlk_fail_native(err, ROWLOCK_EDRIVER, 0, NULL, 1,
                                   "somebody keeps the row locked: roll back and begin again");
        pause = pause * 2 < LONGEST_PAUSE_US ? pause * 2 : LONGEST_PAUSE_US;
    }
}

static int try_guard(native_use *use, rowlock_op *op, int64_t deadline, rowlock_error *err)
{
    rowlock_client *client = use->client;
    int rc = find_place(use->place, client, 0, rlk_bound(client, deadline), err);

    if (rc == ROWLOCK_OK)
        rc = send_guard(use, op, deadline, err);
    if (!is_elsewhere(rc, err))
        return rc;
    rc = find_place(use->place, client, 1, rlk_bound(client, deadline), err);
    if (rc == ROWLOCK_OK)
        rc = send_guard(use, op, deadline, err);
    return conclude(rc, err);
}

static int guard(rowlock_lock *lock, const rowlock_driver *driver, void *native, rowlock_error *err)
{
    rowlock_client *client = lock->client;
    native_use use = {.client = client, .connection = native};
    rowlock_op op;
    int64_t deadline = rlk_clock_us() + client->call_timeout_us;
    int rc = check_kind(client, driver, native, err);

    if (rc != ROWLOCK_OK)
        return rc;
    if (client->driver.guard == NULL)
        return rlk_fail(err, ROWLOCK_ENOTSUP, "the %s driver has no transactions",
                        client->driver.name);
    if (rlk_tenure_is_lost(lock->tenure))
        return rlk_lost(err);
    rlk_mutex_lock(&client->mutex);
    rlk_op_of(&op, client, lock->tenure);
    lock->tenure->is_guarded = 1;
    rlk_mutex_unlock(&client->mutex);
    rc = try_guard(&use, &op, deadline, err);
    if (rc != ROWLOCK_OK)
        return rc;
    if (op.status == ROWLOCK_OK)
        return rlk_ok(err);
    rlk_lose_and_refine(client, lock->tenure, deadline);
    return rlk_lost(err);
}

int rowlock_native_guard(rowlock_lock *lock, const rowlock_driver *driver, void *native,
                         rowlock_error *err)
{
    rowlock_error local;
    int rc;

    err = err == NULL ? &local : err;
    rc = rlk_enter_lock(lock, err);
    if (rc != ROWLOCK_OK)
        return rc;
    rc = guard(lock, driver, native, err);
    rlk_leave(lock->client);
    return rc;
}
