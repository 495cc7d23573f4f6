/* SPDX-License-Identifier: MIT
 *
 * Releases and acquires in one round trip and one commit: on MariaDB by one statement, on MySQL by
 * the short one of each, in a transaction. What they leave, and what they are not fit for, takes
 * the usual way, one half after the other.
 *
 * Neither half waits for a row that somebody's transaction keeps locked: who acquires has nothing
 * to do with it. A release that would have to wait is BUSY, and the core asks for it again, alone.
 */
#include <string.h>

#include "batch.h"

static int exchange_by_one(my_conn *conn, rowlock_op *releases, size_t n, rowlock_op *acquires,
                           size_t m, int64_t deadline, rowlock_error *err)
{
    MYSQL_RES *result = NULL;
    int status;

    my_start(conn);
    my_add_exchange(conn, releases, n, acquires, m);
    status = my_run(conn, deadline, &result, err);
    if (status == ROWLOCK_OK)
        my_read_exchange(releases, n, acquires, m, result);
    return status;
}

static int exchange_by_two(my_conn *conn, rowlock_op *releases, size_t n, rowlock_op *acquires,
                           size_t m, int64_t deadline, rowlock_error *err)
{
    MYSQL_RES *sets[2];
    int status;

    my_start(conn);
    my_add(conn, SQL_START, NULL, 0);
    my_add_releases(conn, releases, n, MY_IF_LOCKED_SKIP);
    my_add_acquires(conn, acquires, m);
    my_add(conn, SQL_COMMIT, NULL, 0);
    my_add(conn, SQL_GRANTED, NULL, 0);
    status = my_run_sets(conn, deadline, sets, 2, err);
    if (status == ROWLOCK_OK) {
        my_read_releases(releases, n, sets[0]);
        my_read_acquires(acquires, m, sets[1]);
    }
    return status;
}

/* One half was refused, the other is done or still to be. Its ops are asked for again, one by one,
 * and meet the error themselves; with the connection gone all of it is unknown. */
static int after_half(my_conn *conn, rowlock_op *ops, size_t n, int status, rowlock_error *err)
{
    if (status == ROWLOCK_ECONNECT || status == ROWLOCK_EUNKNOWN) {
        conn->dead = 1;
        err->status = ROWLOCK_EUNKNOWN;
        return ROWLOCK_EUNKNOWN;
    }
    for (size_t i = 0; i < n; i++) {
        if (ops[i].status != STATUS_OPEN)
            continue;
        my_clear_answer(&ops[i]);
        ops[i].status = ROWLOCK_BUSY;
    }
    return rlk_ok(err);
}

/* Is it one lock that goes from hand to hand? */
static int is_one(const my_conn *conn, const rowlock_op *releases, size_t n,
                  const rowlock_op *acquires, size_t m)
{
    return n == 1 && m == 1 && releases->name_length == acquires->name_length &&
           memcmp(releases->name, acquires->name, acquires->name_length) == 0 &&
           my_is_many(conn, 1) && acquires->ticket == 0;
}

/* The bell of a release rings after the COMMIT, which is the usual way's. */
static int is_short(const my_conn *conn, const rowlock_op *releases, size_t n,
                    const rowlock_op *acquires, size_t m)
{
    return conn->guess == MY_GUESS_FREE && my_is_many(conn, n + m) && !my_has_ticket(acquires, m) &&
           !my_rings(conn, releases, n);
}

/* One half after the other, for what has no answer yet. */
static int exchange_rest(my_conn *conn, rowlock_op *releases, size_t n, rowlock_op *acquires,
                         size_t m, int begins_short, int64_t deadline, rowlock_error *err)
{
    int status = begins_short ? my_release_rest(conn, releases, n, 1, NULL, deadline, err)
                              : my_release_now(conn, releases, n, deadline, err);

    if (status != ROWLOCK_OK && (begins_short || my_is_locked(status, err)))
        status = after_half(conn, releases, n, status, err);
    if (status != ROWLOCK_OK)
        return status;
    if (!begins_short)
        status = my_acquire_short(conn, acquires, m, deadline, err);
    if (status == ROWLOCK_OK)
        status = my_acquire_rest(conn, acquires, m, 0, deadline, err);
    return status == ROWLOCK_OK ? status : after_half(conn, acquires, m, status, err);
}

int my_exchange(void *handle, rowlock_op *releases, size_t n, rowlock_op *acquires, size_t m,
                uint32_t timeout_ms, rowlock_error *err)
{
    my_conn *conn = handle;
    int64_t deadline = my_deadline(timeout_ms);
    int begins_short = 0, status = ROWLOCK_OK;
    rowlock_error local;

    err = err == NULL ? &local : err;
    my_start_call(releases, n);
    my_start_call(acquires, m);
    rlk_ok(err);
    if (is_one(conn, releases, n, acquires, m)) {
        status = my_hand_over(conn, releases, acquires, deadline, err);
        if (acquires->status == ROWLOCK_OK)
            return status;
    } else if (is_short(conn, releases, n, acquires, m)) {
        begins_short = 1;
        status = my_is_maria(conn) ? exchange_by_one(conn, releases, n, acquires, m, deadline, err)
                                   : exchange_by_two(conn, releases, n, acquires, m, deadline, err);
    }
    if (status != ROWLOCK_OK)
        return status;
    return exchange_rest(conn, releases, n, acquires, m, begins_short, deadline, err);
}
