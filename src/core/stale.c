/* SPDX-License-Identifier: MIT
 *
 * Acquire requests that the database takes for late ones. A later attempt of the same owner and
 * client is in the row: that of another thread that was faster, or of this very call, which has
 * been given up since. A driver answers LOST and has done nothing; who still wants the lock asks
 * again with a new attempt. */
#include "core.h"

enum { TRIES = 4 }; /* each needs another thread of the same owner that is faster */

static uint32_t left_ms(int64_t until_us)
{
    int64_t left_us = until_us - rlk_clock_us();

    return left_us > 0 ? (uint32_t)(left_us / 1000) : 0;
}

static int renew_stale(rowlock_client *client, rowlock_op *ops, size_t n)
{
    int any = 0;

    for (size_t i = 0; i < n; i++) {
        if (ops[i].status != ROWLOCK_LOST)
            continue;
        rlk_new_attempt(ops[i].attempt, client);
        any = 1;
    }
    return any;
}

/* Not LOST for the core, but BUSY without a holder, as a row that was locked at that moment. */
static void refuse(rowlock_op *ops, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (ops[i].status != ROWLOCK_LOST)
            continue;
        ops[i].status = ROWLOCK_BUSY;
        ops[i].holder[0] = '\0';
        ops[i].holder_fence = 0;
        ops[i].remaining_us = 0;
        ops[i].is_queue = 0;
    }
}

static int any_granted(const rowlock_op *ops, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (ops[i].status == ROWLOCK_OK)
            return 1;
    }
    return 0;
}

/* What was granted is asked for again with its attempt, which changes nothing. If that fails it may
 * still be granted, whatever the driver says of the last call alone. */
static int again(rowlock_client *client, void *conn, rowlock_op *ops, size_t n, int all,
                 int64_t until_us, rowlock_error *err)
{
    int is_granted = any_granted(ops, n), rc = ROWLOCK_OK;

    for (int i = 0; i < TRIES && rc == ROWLOCK_OK && renew_stale(client, ops, n); i++) {
        rc = client->driver.acquire(conn, ops, n, all, left_ms(until_us), err);
        is_granted |= rc == ROWLOCK_OK && any_granted(ops, n);
    }
    if (rc < 0 && is_granted)
        return rlk_unknown(err);
    refuse(ops, n);
    return rc;
}

int rlk_send_acquire(rowlock_client *client, void *conn, rowlock_op *ops, size_t n, int all,
                     uint32_t timeout_ms, rowlock_error *err)
{
    int64_t until_us = rlk_clock_us() + (int64_t)timeout_ms * 1000;
    int rc = client->driver.acquire(conn, ops, n, all, timeout_ms, err);

    return rc == ROWLOCK_OK ? again(client, conn, ops, n, all, until_us, err) : rc;
}

int rlk_send_exchange(rowlock_client *client, void *conn, rowlock_op *releases, size_t n,
                      rowlock_op *acquires, size_t m, uint32_t timeout_ms, rowlock_error *err)
{
    int rc = client->driver.exchange(conn, releases, n, acquires, m, timeout_ms, err);

    if (rc == ROWLOCK_OK)
        refuse(acquires, m);
    return rc;
}
