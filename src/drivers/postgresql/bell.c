/* SPDX-License-Identifier: MIT
 *
 * What wakes a waiter, on a connection of its own.
 *
 * A bell is an advisory lock of the session, whose key is the ticket. Who waits for it asks for the
 * same lock, shared, for a moment. The server gives it back when the connection
 * ends. Keys of different names may be equal, also to keys of the application's: that costs time.
 * It is dropped by the statement that releases the lock, where one does, and rings when that is
 * committed. What rolls back does not take it back.
 *
 * A holder without a ticket has no bell. The first one who waits for it listens to a channel of the
 * name; the release tells it if the row is marked as waited for. */
#include "pg.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "clock.h"

enum { FDS_MAX = 8, LONGEST_POLL_MS = 10000 };

/* ---- channels */

/* FNV-1a of 64 bits. */
static uint64_t mix(uint64_t hash, const char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        hash = (hash ^ (unsigned char)bytes[i]) * UINT64_C(0x100000001b3);
    return hash;
}

/* Names may have a channel in common: that costs a try in vain. */
void pg_name_channel(char out[PG_CHANNEL_SIZE], const pg_link *conn, const rowlock_op *op)
{
    uint64_t hash = mix(UINT64_C(0xcbf29ce484222325), conn->prefix, strlen(conn->prefix));

    snprintf(out, PG_CHANNEL_SIZE, "rowlock_%016" PRIx64, mix(hash, op->name, op->name_length));
}

void pg_add_channel(pg_link *conn, const rowlock_op *op)
{
    char channel[PG_CHANNEL_SIZE] = "";

    if (op != NULL)
        pg_name_channel(channel, conn, op);
    pg_param(&conn->params);
    pg_put_bytes(&conn->params, channel, strlen(channel));
}

void pg_add_channels(pg_link *conn, const rowlock_op *ops, size_t n, int tell)
{
    pg_param(&conn->params);
    pg_put_array(&conn->params, PG_TEXT, pg_unanswered(ops, n));
    for (size_t i = 0; i < n; i++) {
        char channel[PG_CHANNEL_SIZE] = "";

        if (ops[i].status != PG_UNANSWERED)
            continue;
        if (tell)
            pg_name_channel(channel, conn, &ops[i]);
        pg_put_item(&conn->params, channel, strlen(channel));
    }
}

int pg_is_telling_refused(int status, const rowlock_error *err)
{
    return status == ROWLOCK_EDRIVER && pg_meaning_of(err->sqlstate) == PG_MEANS_OTHER;
}

/* ---- ringing */

static void ring_params(pg_params *params, const rowlock_op *op)
{
    pg_params_clear(params);
    pg_param(params);
    pg_put_i64(params, (int64_t)op->ticket);
    pg_param(params);
    pg_put_bytes(params, op->name, op->name_length);
    pg_param(params);
    pg_put_bytes(params, op->owner, strlen(op->owner));
    pg_param(params);
    pg_put_i64(params, (int64_t)op->fence);
}

/* Forgets notifications. */
static void drop_told(pg_link *conn)
{
    PGnotify *told;

    while ((told = PQnotifies(conn->pg)) != NULL)
        PQfreemem(told);
    conn->was_told = 0;
}

static void add_unlisten(pg_link *conn, pg_trip *trip)
{
    if (conn->listens[0] == '\0')
        return;
    pg_trip_add(trip, pg_text_of(PG_UNLISTEN), NULL);
    conn->listens[0] = '\0';
}

int pg_call_and_ring(pg_link *conn, pg_statement statement, const rowlock_op *op, PGresult **out,
                     int64_t deadline, rowlock_error *err)
{
    pg_trip trip;
    int status = pg_trip_begin(conn, &trip, (deadline - rlk_clock_us() + 500) / 1000, err);
    int main, ring = -1;

    *out = NULL;
    if (status != ROWLOCK_OK)
        return status;
    main = pg_trip_call(conn, &trip, statement);
    if (op != NULL || conn->listens[0] != '\0')
        pg_trip_sync(&trip);
    if (op != NULL) {
        ring_params(&conn->params, op);
        ring = pg_trip_call(conn, &trip, PG_RING);
    }
    add_unlisten(conn, &trip);
    status = pg_trip_end(conn, &trip, deadline, err);
    drop_told(conn);
    if (status == ROWLOCK_OK && ring >= 0 && PQntuples(trip.results[ring]) > 0)
        conn->bell = 0;
    if (status == ROWLOCK_OK && !pg_trip_is_done(&trip, main, 0))
        status = pg_said_no(conn, trip.error, err);
    if (status == ROWLOCK_OK) {
        *out = trip.results[main];
        trip.results[main] = NULL;
    }
    pg_trip_clear(&trip);
    return status;
}

int64_t pg_limit_for_wait(const pg_link *conn, uint32_t wait_ms, int64_t deadline)
{
    int64_t left_ms = (deadline - rlk_clock_us()) / 1000;

    /* They are kept if they leave the time. */
    return conn->limit_ms > 2 * (int64_t)wait_ms ? conn->limit_ms : left_ms + wait_ms;
}

int pg_bells_clear(pg_link *conn, int64_t deadline, rowlock_error *err)
{
    PGresult *result;
    int status;

    if (conn->bell == 0 && !conn->may_have_bells)
        return ROWLOCK_OK;
    pg_params_clear(&conn->params);
    status = pg_unchanged(pg_call(conn, PG_HUSH, &result, deadline, err), err);
    PQclear(result);
    if (status == ROWLOCK_OK)
        conn->may_have_bells = 0;
    if (status == ROWLOCK_OK)
        conn->bell = 0;
    return status;
}

/* ---- being told */

static int add_listen(pg_link *conn, pg_trip *trip)
{
    rlk_text sql = {0};

    rlk_text_str(&sql, pg_text_of(PG_LISTEN));
    rlk_text_str(&sql, " ");
    rlk_text_str(&sql, conn->channel);
    pg_trip_add(trip, sql.failed ? "" : sql.data, NULL);
    rlk_text_free(&sql);
    pg_trip_sync(trip);
    return trip->count - 1;
}

int pg_listen(pg_link *conn, PGresult **out, int64_t deadline, rowlock_error *err)
{
    pg_trip trip;
    int status = pg_trip_begin(conn, &trip, (deadline - rlk_clock_us() + 500) / 1000, err);
    int listen, main;

    *out = NULL;
    if (status != ROWLOCK_OK)
        return status;
    conn->was_told = 0;
    add_unlisten(conn, &trip);
    listen = add_listen(conn, &trip);
    main = pg_trip_call(conn, &trip, PG_TURN);
    status = pg_trip_end(conn, &trip, deadline, err);
    if (status == ROWLOCK_OK && pg_trip_is_done(&trip, listen, 0))
        memcpy(conn->listens, conn->channel, sizeof conn->listens);
    if (status == ROWLOCK_OK && !pg_trip_is_done(&trip, main, 1))
        status = pg_said_no(conn, trip.error, err);
    if (status == ROWLOCK_OK) {
        *out = trip.results[main];
        trip.results[main] = NULL;
    }
    pg_trip_clear(&trip);
    return status;
}

static int is_told(pg_link *conn)
{
    PGnotify *told;

    while ((told = PQnotifies(conn->pg)) != NULL) {
        conn->was_told = 1;
        PQfreemem(told);
    }
    return conn->was_told;
}

int pg_wait_told(pg_link *conn, const int *fds, int n_fds, int64_t deadline)
{
    struct pollfd polled[1 + FDS_MAX] = {{.fd = PQsocket(conn->pg), .events = POLLIN}};
    nfds_t n = 1;

    for (int i = 0; i < n_fds && i < FDS_MAX; i++)
        polled[n++] = (struct pollfd){.fd = fds[i], .events = POLLIN};
    for (;;) {
        int64_t left_ms = (deadline - rlk_clock_us()) / 1000 + 1;

        if (is_told(conn)) {
            conn->was_told = 0;
            return 1;
        }
        if (PQstatus(conn->pg) == CONNECTION_BAD)
            return -1;
        if (deadline <= rlk_clock_us())
            return 0;
        poll(polled, n, left_ms > LONGEST_POLL_MS ? LONGEST_POLL_MS : (int)left_ms);
        for (nfds_t i = 1; i < n; i++) {
            if (polled[i].revents != 0)
                return 0;
        }
        if (polled[0].revents != 0 && PQconsumeInput(conn->pg) == 0)
            return -1;
    }
}
