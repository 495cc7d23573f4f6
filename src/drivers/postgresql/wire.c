/* SPDX-License-Identifier: MIT
 *
 * Sending and waiting, on any connection. libpq's calls that wait are never used: what is sent goes
 * into its buffer, and waiting is poll() on its socket. */
#include "pg.h"

#include <poll.h>
#include <string.h>

#include "clock.h"

/* poll() sleeps no longer at once: its timer stands still while the machine is suspended. */
enum { LONGEST_POLL_MS = 10000 };

enum { IDLE_LOOKS = 4 };

enum { SHORTEST_AFTER_US = 500000, LONGEST_AFTER_US = 10000000 };

int pg_wait_socket(const PGconn *pg, short events, int64_t deadline)
{
    struct pollfd polled = {.fd = PQsocket(pg), .events = events};

    for (;;) {
        int64_t left = deadline - rlk_clock_us();
        int64_t left_ms = left / 1000 + 1;

        if (left <= 0)
            return 0;
        if (poll(&polled, 1, left_ms > LONGEST_POLL_MS ? LONGEST_POLL_MS : (int)left_ms) > 0)
            return 1;
    }
}

int64_t pg_deadline_in(int64_t ms)
{
    return rlk_clock_us() + ms * 1000;
}

int64_t pg_deadline_after(int64_t deadline)
{
    int64_t now = rlk_clock_us();

    if (deadline == RLK_NEVER)
        return now + LONGEST_AFTER_US;
    return deadline > now + SHORTEST_AFTER_US ? deadline : now + SHORTEST_AFTER_US;
}

int pg_next_result(PGconn *pg, PGresult **out, int64_t deadline)
{
    *out = NULL;
    for (;;) {
        int unsent = PQflush(pg);

        if (unsent == 0 && !PQisBusy(pg)) {
            *out = PQgetResult(pg);
            return 1;
        }
        if (PQstatus(pg) == CONNECTION_BAD)
            return -1;
        if (!pg_wait_socket(pg, unsent > 0 ? POLLIN | POLLOUT : POLLIN, deadline))
            return 0;
        /* It fails when the server has gone; its last words may have come before that. */
        if (PQconsumeInput(pg) == 0 && PQisBusy(pg))
            return -1;
    }
}

/* The server's farewell is read before its end is, hence more than one look. */
int pg_check_idle(PGconn *pg, rowlock_error *err)
{
    struct pollfd polled = {.fd = PQsocket(pg), .events = POLLIN};

    for (int i = 0; i < IDLE_LOOKS && PQstatus(pg) == CONNECTION_OK; i++) {
        if (poll(&polled, 1, 0) <= 0)
            return ROWLOCK_OK;
        if (PQconsumeInput(pg) == 1)
            (void)PQisBusy(pg);
    }
    if (PQstatus(pg) == CONNECTION_OK)
        return ROWLOCK_OK;
    return rlk_fail_native(err, ROWLOCK_ECONNECT, 0, NULL, 1, "the connection was closed: %s",
                           PQerrorMessage(pg));
}

int pg_is_fatal(const PGresult *error)
{
    const char *severity = PQresultErrorField(error, PG_DIAG_SEVERITY_NONLOCALIZED);

    if (severity == NULL)
        severity = PQresultErrorField(error, PG_DIAG_SEVERITY);
    return severity == NULL || strcmp(severity, "ERROR") != 0;
}

int pg_send(PGconn *pg, const char *name, const char *sql, const pg_params *params)
{
    const char *values[PG_PARAMS_MAX];
    int lengths[PG_PARAMS_MAX], formats[PG_PARAMS_MAX];
    int n = params == NULL ? 0 : params->count;

    if (n > 0 && params->bytes.failed)
        return 0;
    for (int i = 0; i < n; i++) {
        size_t end = i + 1 < n ? params->starts[i + 1] : params->bytes.length;

        values[i] = params->bytes.data + params->starts[i];
        lengths[i] = (int)(end - params->starts[i]);
        formats[i] = 1;
    }
    if (name != NULL)
        return PQsendQueryPrepared(pg, name, n, values, lengths, formats, 1);
    return PQsendQueryParams(pg, sql, n, NULL, values, lengths, formats, 1);
}

/* ---- trips */

void pg_trip_add(pg_trip *trip, const char *sql, const pg_params *params)
{
    if (!trip->failed && pg_send(trip->pg, NULL, sql, params))
        trip->count++;
    else
        trip->failed = 1;
}

void pg_trip_sync(pg_trip *trip)
{
    if (!trip->failed && PQpipelineSync(trip->pg))
        trip->ends[trip->syncs++] = trip->count;
    else
        trip->failed = 1;
}

static void keep(pg_trip *trip, int query, int part, PGresult *result)
{
    ExecStatusType kind = PQresultStatus(result);

    if ((kind == PGRES_TUPLES_OK || kind == PGRES_COMMAND_OK) && query < PG_TRIP_MAX &&
        trip->results[query] == NULL) {
        trip->results[query] = result;
        return;
    }
    if (kind != PGRES_PIPELINE_ABORTED)
        trip->failed_parts |= 1u << part;
    if (kind != PGRES_PIPELINE_ABORTED && (trip->error == NULL || trip->error_part < trip->base)) {
        PQclear(trip->error);
        trip->error = result;
        trip->error_part = part;
    } else {
        PQclear(result);
    }
}

int pg_trip_run(pg_trip *trip, int64_t deadline)
{
    int query = 0, part = 0;

    pg_trip_sync(trip);
    if (trip->failed)
        return -1;
    while (part < trip->syncs) {
        PGresult *result;
        int got = pg_next_result(trip->pg, &result, deadline);

        if (got <= 0)
            return got;
        if (result == NULL) {
            if (PQstatus(trip->pg) == CONNECTION_BAD)
                return -1;
            query++;
        } else if (PQresultStatus(result) == PGRES_PIPELINE_SYNC) {
            PQclear(result);
            /* A commit that failed was counted as a statement. */
            query = trip->ends[part++];
        } else {
            keep(trip, query, part, result);
        }
    }
    return 1;
}

void pg_trip_clear(pg_trip *trip)
{
    for (int i = 0; i < PG_TRIP_MAX; i++)
        PQclear(trip->results[i]);
    PQclear(trip->error);
    *trip = (pg_trip){.pg = trip->pg};
}
