/* SPDX-License-Identifier: MIT
 *
 * Releases and acquires in one round trip: the short statement of each, in one transaction, whose
 * commit is that of the acquires. What they leave, and what a pooler stands in the way of, takes
 * the usual way, one half after the other. */
#include "pg.h"

#include "clock.h"

/* Carried out as a whole or not at all. What was is answered here and not asked for again:
 * meanwhile the row may have become another's, or have been entered by the same owner, and the
 * attempt would not show. */
static int exchange_free(pg_link *conn, rowlock_op *releases, size_t n, rowlock_op *acquires,
                         size_t m, size_t *free_rows, int64_t deadline, rowlock_error *err)
{
    pg_trip trip;
    int release, acquire;
    int status = pg_trip_begin(conn, &trip, (deadline - rlk_clock_us() + 500) / 1000, err);

    if (status != ROWLOCK_OK)
        return status;
    release = pg_trip_call(conn, &trip, pg_release_free_params(&conn->params, releases, n, 0));
    acquire = pg_trip_call(conn, &trip, pg_acquire_free_params(&conn->params, acquires, m));
    status = pg_trip_end(conn, &trip, deadline, err);
    if (status == ROWLOCK_OK && !pg_trip_is_done(&trip, acquire, 0))
        status = pg_said_no(conn, trip.error, err);
    if (status == ROWLOCK_OK) {
        pg_read_given_back(releases, n, trip.results[release]);
        *free_rows = pg_read_taken(acquires, m, trip.results[acquire]);
    }
    pg_trip_clear(&trip);
    return status;
}

/* One half was refused. Its ops are asked for again, one by one, and meet the error themselves;
 * with the connection gone all of it is unknown. */
static int after_half(rowlock_op *ops, size_t n, int status, rowlock_error *err)
{
    if (status == ROWLOCK_ECONNECT || status == ROWLOCK_EUNKNOWN) {
        err->status = ROWLOCK_EUNKNOWN;
        return ROWLOCK_EUNKNOWN;
    }
    pg_answer_rest(ops, n, ROWLOCK_BUSY);
    return rlk_ok(err);
}

int pg_exchange(void *memory, rowlock_op *releases, size_t n, rowlock_op *acquires, size_t m,
                uint32_t timeout_ms, rowlock_error *err)
{
    pg_link *conn = memory;
    int64_t deadline = rlk_clock_us() + (int64_t)timeout_ms * 1000;
    int is_short = !conn->is_pooled && pg_find_ringer(conn, releases, n) == NULL &&
                   pg_may_acquire_free(conn, acquires, m, 0);
    size_t free_rows = 0;
    rowlock_error local;
    int status = ROWLOCK_OK;

    if (err == NULL)
        err = &local;
    pg_ask_all(releases, n);
    pg_ask_all(acquires, m);
    if (is_short)
        status = exchange_free(conn, releases, n, acquires, m, &free_rows, deadline, err);
    if (status != ROWLOCK_OK)
        return status;
    status = pg_release_rest(conn, releases, n, 1, deadline, err);
    if (status != ROWLOCK_OK && is_short)
        status = after_half(releases, n, status, err);
    if (status != ROWLOCK_OK)
        return status;
    status = pg_acquire_rest(conn, acquires, m, 0, 1, free_rows, deadline, err);
    return status == ROWLOCK_OK ? status : after_half(acquires, m, status, err);
}
