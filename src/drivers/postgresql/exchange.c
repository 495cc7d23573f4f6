/* SPDX-License-Identifier: MIT
 *
 * Releases and acquires in one round trip, one statement and one commit, where the rows are as they
 * mostly are. What that leaves, and what a pooler stands in the way of, takes the usual way, one
 * half after the other. */
#include "pg.h"

#include <string.h>

#include "clock.h"

enum { EXCHANGE_FENCE = 1, EXCHANGE_COUNT };

/* A release has no note and no time to live. */
static void add_notes_and_ttls(pg_params *params, size_t n, const rowlock_op *acquires, size_t m)
{
    size_t all = n + pg_unanswered(acquires, m);

    pg_param(params);
    pg_put_array(params, PG_TEXT, all);
    for (size_t i = 0; i < n; i++)
        pg_put_item(params, "", 0);
    pg_put_fields(params, PG_FIELD_NOTE, acquires, m);
    pg_param(params);
    pg_put_array(params, PG_INT8, all);
    for (size_t i = 0; i < n; i++)
        pg_put_item_i64(params, 0);
    pg_put_fields(params, PG_FIELD_TTL, acquires, m);
}

static void add_both(pg_params *params, pg_field field, const rowlock_op *releases, size_t n,
                     const rowlock_op *acquires, size_t m)
{
    pg_param(params);
    pg_put_array(params, pg_type_of(field), n + pg_unanswered(acquires, m));
    pg_put_fields(params, field, releases, n);
    pg_put_fields(params, field, acquires, m);
}

static void exchange_params(pg_params *params, const rowlock_op *releases, size_t n,
                            const rowlock_op *acquires, size_t m)
{
    pg_params_clear(params);
    add_both(params, PG_FIELD_NAME, releases, n, acquires, m);
    add_both(params, PG_FIELD_OWNER, releases, n, acquires, m);
    add_notes_and_ttls(params, n, acquires, m);
    add_both(params, PG_FIELD_ATTEMPT, releases, n, acquires, m);
    add_both(params, PG_FIELD_FENCE, releases, n, acquires, m);
    add_both(params, PG_FIELD_SEEN, releases, n, acquires, m);
}

/* How many rows were taken. */
static size_t read_exchanged(rowlock_op *releases, size_t n, rowlock_op *acquires, size_t m,
                             const PGresult *result)
{
    size_t taken = 0;

    for (int row = 0; row < PQntuples(result); row++) {
        int is_taken = pg_get_int(result, row, EXCHANGE_COUNT) > 0;
        rowlock_op *op = is_taken ? pg_op_of_row(acquires, m, result, row)
                                  : pg_op_of_row(releases, n, result, row);

        if (op == NULL)
            continue;
        if (is_taken)
            pg_taken(op, pg_get_int(result, row, EXCHANGE_FENCE));
        op->status = ROWLOCK_OK;
        op->hold_count = (uint32_t)is_taken;
        taken += (size_t)is_taken;
    }
    return taken;
}

/* Carried out as a whole or not at all. What was is answered here and not asked for again:
 * meanwhile the row may have become another's, or have been entered by the same owner, and the
 * attempt would not show. */
static int exchange_free(pg_link *conn, rowlock_op *releases, size_t n, rowlock_op *acquires,
                         size_t m, size_t *free_rows, int64_t deadline, rowlock_error *err)
{
    PGresult *result;
    int status;

    exchange_params(&conn->params, releases, n, acquires, m);
    status = pg_call(conn, PG_EXCHANGE, &result, deadline, err);
    if (status != ROWLOCK_OK)
        return status;
    *free_rows = read_exchanged(releases, n, acquires, m, result);
    PQclear(result);
    return ROWLOCK_OK;
}

/* Is it one lock that goes from hand to hand? */
static int is_one(const rowlock_op *releases, size_t n, const rowlock_op *acquires, size_t m)
{
    return n == 1 && m == 1 && releases->name_length == acquires->name_length &&
           memcmp(releases->name, acquires->name, acquires->name_length) == 0 &&
           acquires->ticket == 0;
}

static int hand_over(pg_link *conn, rowlock_op *release, rowlock_op *acquire, size_t *free_rows,
                     int64_t deadline, rowlock_error *err)
{
    uint64_t bell = pg_find_ringer(conn, release, 1) == NULL ? 0 : conn->bell;
    PGresult *result;
    int status;

    pg_start_with(&conn->params, acquire);
    pg_add_release(&conn->params, release, bell);
    status = bell == 0 ? pg_call(conn, PG_HAND_OVER, &result, deadline, err)
                       : pg_call_and_ring(conn, PG_HAND_OVER, NULL, &result, deadline, err);
    if (status != ROWLOCK_OK)
        return status;
    if (PQntuples(result) > 0) {
        release->status = ROWLOCK_OK;
        release->hold_count = 0;
        pg_taken(acquire, pg_get_int(result, 0, 0));
        conn->bell = bell != 0 ? 0 : conn->bell;
        *free_rows = 1;
    }
    PQclear(result);
    return ROWLOCK_OK;
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
    int is_short =
        pg_find_ringer(conn, releases, n) == NULL && pg_may_acquire_free(conn, acquires, m, 0);
    size_t free_rows = 0;
    rowlock_error local;
    int status = ROWLOCK_OK;

    if (err == NULL)
        err = &local;
    pg_ask_all(releases, n);
    pg_ask_all(acquires, m);
    if (is_one(releases, n, acquires, m))
        status = hand_over(conn, releases, acquires, &free_rows, deadline, err);
    else if (is_short)
        status = exchange_free(conn, releases, n, acquires, m, &free_rows, deadline, err);
    if (status != ROWLOCK_OK)
        return status;
    status = pg_release_rest(conn, releases, n, deadline, err);
    if (status != ROWLOCK_OK && is_short)
        status = after_half(releases, n, status, err);
    if (status != ROWLOCK_OK)
        return status;
    status = pg_acquire_rest(conn, acquires, m, 0, 1, free_rows, deadline, err);
    return status == ROWLOCK_OK ? status : after_half(acquires, m, status, err);
}
