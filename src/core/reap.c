/* SPDX-License-Identifier: MIT
 *
 * Reaping, by hand and in the background: small batches, so that no row is kept locked for long. */
#include "core.h"
#include "random.h"

#define DEFAULT_RETENTION_MS ((int64_t)7 * 86400000)
#define LEAST_RETENTION_MS   ((int64_t)1000)

#define REAP_BOUND_US INT64_C(1000000) /* renewals wait for it */

/* Between two batches, for those who acquire meanwhile; they feel the one that they meet, so a
 * batch is small, too. One that took longer rests as long as it took: whatever a busy database has
 * to give, reaping takes half of one connection's share. */
#define LEAST_REST_US INT64_C(6000)

enum { BATCH = 200, DEFAULT_LIMIT = 10000, LONGEST_BACK_OFF = 8 };

typedef struct reaping {
    int64_t retention_us;
    rowlock_mark mark;
    uint64_t count;
    int64_t rest_until_us; /* before the next batch */
    uint32_t limit;
} reaping;

static int do_reap(rowlock_client *client, void *conn, uint32_t timeout_ms, void *arg,
                   rowlock_error *err)
{
    reaping *r = arg;
    rowlock_mark mark = r->mark; /* a repeated call begins at the same place */
    int rc =
        client->driver.reap(conn, &r->count, &mark, r->retention_us, r->limit, timeout_ms, err);

    if (rc == ROWLOCK_OK)
        r->mark = mark;
    return rc;
}

/* One batch, behind the one before. */
static int reap(reaping *r, rowlock_client *client, int64_t bound_us, rowlock_error *err)
{
    rlk_sent sent;
    int64_t start = rlk_clock_us(), end;
    int rc;

    r->count = 0;
    rc = rlk_call(client, bound_us, do_reap, r, &sent, err);
    end = rlk_clock_us();
    r->rest_until_us = end + (end - start > LEAST_REST_US ? end - start : LEAST_REST_US);
    if (rc == ROWLOCK_OK)
        rlk_count(&client->counters.reaped, r->count);
    else
        r->count = 0;
    return rc;
}

int rlk_check_retention(int64_t *retention_ms, rowlock_error *err)
{
    const int64_t century_ms = ROWLOCK_TTL_MAX_MS * 1200;

    if (*retention_ms == 0)
        *retention_ms = DEFAULT_RETENTION_MS;
    if (*retention_ms < LEAST_RETENTION_MS)
        return rlk_fail(err, ROWLOCK_EINVAL,
                        "a retention of %lld ms could give a fence twice: give %lld ms or more",
                        (long long)*retention_ms, (long long)LEAST_RETENTION_MS);
    if (*retention_ms > century_ms) /* nothing is that old */
        *retention_ms = century_ms;
    return ROWLOCK_OK;
}

/* ECLOSED if the client is being closed. */
static int rest(const reaping *r, rowlock_client *client, rowlock_error *err)
{
    const int fds[] = {client->close_fd};

    if (rlk_sleep_until(r->rest_until_us, fds, 1) < 0)
        return ROWLOCK_OK;
    return rlk_fail(err, ROWLOCK_ECLOSED, "the client is closed");
}

int rowlock_reap(uint64_t *out, rowlock_client *client, const rowlock_reap_options *options,
                 rowlock_error *err)
{
    rowlock_reap_options opts;
    reaping r = {0};
    uint64_t left, reaped = 0;
    int is_more;
    int rc = rlk_options_copy(&opts, sizeof opts, options, "rowlock_reap_options", err);

    if (out != NULL)
        *out = 0;
    if (rc == ROWLOCK_OK)
        rc = rlk_check_retention(&opts.retention_ms, err);
    if (rc == ROWLOCK_OK)
        rc = rlk_enter(client, err);
    if (rc != ROWLOCK_OK)
        return rc;
    r.retention_us = opts.retention_ms * 1000;
    left = opts.limit == 0 ? DEFAULT_LIMIT : opts.limit;
    do {
        r.limit = left < BATCH ? (uint32_t)left : BATCH;
        rc = reap(&r, client, client->call_timeout_us, err);
        reaped += r.count;
        left -= r.count;
        is_more = rc == ROWLOCK_OK && r.mark.length > 0 && left > 0;
        if (is_more)
            rc = rest(&r, client, err);
    } while (is_more && rc == ROWLOCK_OK);
    if (out != NULL)
        *out = reaped;
    rlk_leave(client);
    return rc;
}

/* After a pass over the table. Who finds nothing, because there is nothing or because others reap,
 * too, comes less often. */
static void end_pass(rowlock_client *client)
{
    rlk_watch *watch = &client->watch;
    int64_t pause = watch->reap_pause_us;

    if (watch->reap_count > 0)
        pause = client->reap_interval_us;
    else if (pause < client->reap_interval_us * LONGEST_BACK_OFF)
        pause *= 2;
    watch->reap_count = 0;
    watch->reap_pause_us = pause;
    watch->reap_at_us = rlk_clock_us() + pause / 2 + rlk_random_below(pause);
}

void rlk_reap_due(rowlock_client *client, int64_t until_us)
{
    rlk_watch *watch = &client->watch;
    reaping r = {
        .retention_us = client->reap_retention_us, .mark = watch->reap_mark, .limit = BATCH};
    int rc;

    if (client->reap_interval_us == 0 || rlk_clock_us() < watch->reap_at_us)
        return;
    rc = reap(&r, client, rlk_keeper_bound(REAP_BOUND_US, until_us), NULL);
    watch->reap_mark = r.mark;
    watch->reap_count += r.count;
    if (rc == ROWLOCK_OK && r.mark.length > 0)
        watch->reap_at_us = r.rest_until_us;
    else
        end_pass(client);
    if (r.count > 0)
        rlk_emit(client, &(rowlock_event){.size = sizeof(rowlock_event),
                                          .kind = ROWLOCK_EVENT_REAPED,
                                          .count = r.count});
}
