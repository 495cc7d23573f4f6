/* SPDX-License-Identifier: MIT */
#include "pg.h"

#include <string.h>

#include "clock.h"

enum { SHORTEST_RELEASE_MS = 50 };

enum { RENEW_RENEWED = 1, RENEW_COUNT, RENEW_REMAINING };
enum { RELEASE_COUNT = 1, RELEASE_FOUND, RELEASE_RUNG };

static void read_renewed(rowlock_op *ops, size_t n, const PGresult *result)
{
    for (int row = 0; row < PQntuples(result); row++) {
        rowlock_op *op = pg_op_of_row(ops, n, result, row);

        if (op == NULL)
            continue;
        op->status = pg_get_bool(result, row, RENEW_RENEWED) ? ROWLOCK_OK : ROWLOCK_BUSY;
        op->hold_count = (uint32_t)pg_get_int(result, row, RENEW_COUNT);
        op->remaining_us = pg_get_int(result, row, RENEW_REMAINING);
    }
}

int pg_renew(void *memory, rowlock_op *ops, size_t n, uint32_t timeout_ms, rowlock_error *err)
{
    pg_link *conn = memory;
    int64_t deadline = rlk_clock_us() + (int64_t)timeout_ms * 1000;
    PGresult *result;
    int status;

    pg_ask_all(ops, n);
    pg_params_clear(&conn->params);
    pg_add_array(&conn->params, PG_FIELD_NAME, ops, n);
    pg_add_array(&conn->params, PG_FIELD_OWNER, ops, n);
    pg_add_array(&conn->params, PG_FIELD_FENCE, ops, n);
    pg_add_array(&conn->params, PG_FIELD_TTL, ops, n);
    status = pg_call(conn, PG_RENEW, &result, deadline, err);
    if (status != ROWLOCK_OK)
        return status;
    read_renewed(ops, n, result);
    pg_answer_rest(ops, n, ROWLOCK_LOST);
    PQclear(result);
    return rlk_ok(err);
}

/* What both statements for many begin with. */
static void release_many_params(pg_params *params, const rowlock_op *ops, size_t n)
{
    pg_params_clear(params);
    pg_add_array(params, PG_FIELD_NAME, ops, n);
    pg_add_array(params, PG_FIELD_OWNER, ops, n);
    pg_add_array(params, PG_FIELD_FENCE, ops, n);
    pg_add_array(params, PG_FIELD_ATTEMPT, ops, n);
    pg_add_array(params, PG_FIELD_SEEN, ops, n);
}

static pg_statement release_free_params(pg_params *params, const rowlock_op *ops, size_t n)
{
    release_many_params(params, ops, n);
    return PG_RELEASE_FREE;
}

static void release_params(pg_link *conn, const rowlock_op *ops, size_t n, int tell)
{
    release_many_params(&conn->params, ops, n);
    pg_add_channels(conn, ops, n, tell);
}

static pg_statement release_one_params(pg_params *params, const rowlock_op *op, uint64_t bell)
{
    pg_params_clear(params);
    pg_param(params);
    pg_put_bytes(params, op->name, op->name_length);
    pg_add_release(params, op, bell);
    return PG_RELEASE_ONE;
}

/* A row with an attempt in it was not released: others have changed it. */
static void read_one_released(rowlock_op *op, const PGresult *result, int row)
{
    op->hold_count = (uint32_t)pg_get_int(result, row, RELEASE_COUNT);
    op->status = ROWLOCK_OK;
    if (PQgetlength(result, row, RELEASE_FOUND) == ROWLOCK_ATTEMPT_SIZE) {
        memcpy(op->seen, PQgetvalue(result, row, RELEASE_FOUND), ROWLOCK_ATTEMPT_SIZE);
        op->status = ROWLOCK_BUSY;
    }
}

static void read_released(rowlock_op *ops, size_t n, const PGresult *result)
{
    for (int row = 0; row < PQntuples(result); row++) {
        rowlock_op *op = pg_op_of_row(ops, n, result, row);

        if (op != NULL)
            read_one_released(op, result, row);
    }
}

static void read_given_back(rowlock_op *ops, size_t n, const PGresult *result)
{
    for (int row = 0; row < PQntuples(result); row++) {
        rowlock_op *op = pg_op_of_row(ops, n, result, row);

        if (op == NULL)
            continue;
        op->hold_count = 0;
        op->status = ROWLOCK_OK;
    }
}

const rowlock_op *pg_find_ringer(const pg_link *conn, const rowlock_op *ops, size_t n)
{
    for (size_t i = 0; conn->bell != 0 && i < n; i++) {
        if (ops[i].ticket == conn->bell)
            return &ops[i];
    }
    return NULL;
}

/* One hold, on the connection that has its bell. */
static int release_ringing(pg_link *conn, rowlock_op *op, int64_t deadline, rowlock_error *err)
{
    pg_statement statement = release_one_params(&conn->params, op, conn->bell);
    PGresult *result;
    int status = pg_call_and_ring(conn, statement, NULL, &result, deadline, err);

    if (status != ROWLOCK_OK)
        return status;
    read_released(op, 1, result);
    if (PQntuples(result) > 0 && !PQgetisnull(result, 0, RELEASE_RUNG))
        conn->bell = 0;
    PQclear(result);
    return ROWLOCK_OK;
}

static int release_round(pg_link *conn, pg_statement statement, rowlock_op *ops, size_t n,
                         int64_t deadline, rowlock_error *err)
{
    const rowlock_op *ringer = pg_find_ringer(conn, ops, n);
    PGresult *result;
    int status = ringer == NULL ? pg_call(conn, statement, &result, deadline, err)
                                : pg_call_and_ring(conn, statement, ringer, &result, deadline, err);

    if (status != ROWLOCK_OK)
        return status;
    if (statement == PG_RELEASE_FREE)
        read_given_back(ops, n, result);
    else
        read_released(ops, n, result);
    PQclear(result);
    return ROWLOCK_OK;
}

/* The usual case; those it is not are left without an answer. */
static int release_short(pg_link *conn, rowlock_op *ops, size_t n, int64_t deadline,
                         rowlock_error *err)
{
    const rowlock_op *ringer = pg_find_ringer(conn, ops, n);
    pg_statement statement;

    if (n == 1 && ringer != NULL)
        return release_ringing(conn, ops, deadline, err);
    if (ringer != NULL)
        return ROWLOCK_OK;
    statement = n == 1 ? release_one_params(&conn->params, ops, 0)
                       : release_free_params(&conn->params, ops, n);
    return release_round(conn, statement, ops, n, deadline, err);
}

static int release_long(pg_link *conn, rowlock_op *ops, size_t n, int tell, int64_t deadline,
                        rowlock_error *err)
{
    if (pg_unanswered(ops, n) == 0)
        return ROWLOCK_OK;
    release_params(conn, ops, n, tell);
    return release_round(conn, PG_RELEASE, ops, n, deadline, err);
}

/* That a row is locked must not become unknown because the last of the time is too little to be
 * told so. */
static int64_t release_deadline(uint32_t timeout_ms)
{
    return rlk_clock_us() +
           (timeout_ms < SHORTEST_RELEASE_MS ? SHORTEST_RELEASE_MS : timeout_ms) * INT64_C(1000);
}

/* Somebody keeps the row locked: who releases may be the one. */
static int tell_locked(int status, rowlock_error *err)
{
    if (status != ROWLOCK_EDRIVER || pg_meaning_of(err->sqlstate) != PG_MEANS_LOCKED)
        return status;
    return rlk_fail_native(err, ROWLOCK_EDRIVER, 0, "55P03", 1,
                           "a transaction keeps the row locked: release after its COMMIT or "
                           "ROLLBACK");
}

int pg_release_rest(pg_link *conn, rowlock_op *ops, size_t n, int64_t deadline, rowlock_error *err)
{
    int status = release_long(conn, ops, n, 1, deadline, err);

    if (pg_is_telling_refused(status, err))
        status = release_long(conn, ops, n, 0, deadline, err);
    if (status != ROWLOCK_OK)
        return tell_locked(status, err);
    pg_answer_rest(ops, n, ROWLOCK_LOST);
    return rlk_ok(err);
}

int pg_release(void *memory, rowlock_op *ops, size_t n, uint32_t timeout_ms, rowlock_error *err)
{
    pg_link *conn = memory;
    int64_t deadline = release_deadline(timeout_ms);
    rowlock_error local;
    int status;

    if (err == NULL)
        err = &local;
    pg_ask_all(ops, n);
    status = release_short(conn, ops, n, deadline, err);
    return status == ROWLOCK_OK ? pg_release_rest(conn, ops, n, deadline, err)
                                : tell_locked(status, err);
}

static int force_round(pg_link *conn, rowlock_op *op, int tell, int64_t deadline,
                       rowlock_error *err)
{
    PGresult *result;
    int status;

    pg_params_clear(&conn->params);
    pg_param(&conn->params);
    pg_put_bytes(&conn->params, op->name, op->name_length);
    pg_param(&conn->params);
    pg_put_i64(&conn->params, (int64_t)op->fence);
    pg_param(&conn->params);
    pg_put_bytes(&conn->params, op->attempt, sizeof op->attempt);
    pg_add_channel(conn, tell ? op : NULL);
    status = pg_call(conn, PG_FORCE_RELEASE, &result, deadline, err);
    if (status == ROWLOCK_OK && PQntuples(result) > 0)
        op->status = ROWLOCK_OK;
    PQclear(result);
    return status;
}

int pg_force_release(void *memory, rowlock_op *op, uint32_t timeout_ms, rowlock_error *err)
{
    pg_link *conn = memory;
    int64_t deadline = release_deadline(timeout_ms);
    rowlock_error local;
    int status;

    if (err == NULL)
        err = &local;
    op->status = ROWLOCK_LOST;
    op->hold_count = 0;
    status = force_round(conn, op, 1, deadline, err);
    if (pg_is_telling_refused(status, err))
        status = force_round(conn, op, 0, deadline, err);
    /* An earlier sending of this very call may have been under way: only now can its work be seen.
     */
    if (status == ROWLOCK_OK && op->status == ROWLOCK_LOST)
        status = force_round(conn, op, 1, deadline, err);
    return status == ROWLOCK_OK ? rlk_ok(err) : tell_locked(status, err);
}
