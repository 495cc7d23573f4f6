/* SPDX-License-Identifier: MIT
 *
 * One call on the database: retries, reconnects, and the honest answer at the end. The same
 * arguments go out each time, attempts included, so that a request that was carried out although
 * its answer was lost is not carried out twice. */
#include "core.h"
#include "random.h"

#define FIRST_PAUSE_US   INT64_C(2000)
#define LONGEST_PAUSE_US INT64_C(500000)

/* Sleeps before another try; not OK when there is no time for one or the client is being closed. */
static int pause_before_retry(rowlock_client *client, int64_t *pause_us, int64_t deadline_us)
{
    const int fds[] = {client->close_fd};
    int64_t until = rlk_clock_us() + *pause_us / 2 + rlk_random_below(*pause_us);

    *pause_us = *pause_us * 2 < LONGEST_PAUSE_US ? *pause_us * 2 : LONGEST_PAUSE_US;
    if (until >= deadline_us)
        return 0;
    return rlk_sleep_until(until, fds, client->settling ? 0 : 1) < 0;
}

/* Puts the connection back where it came from, unless the caller keeps it. */
static void give_back(rowlock_client *client, rlk_use use, rlk_conn *conn, int rc, rlk_conn **kept)
{
    int is_broken = rc == ROWLOCK_ECONNECT || rc == ROWLOCK_EUNKNOWN;

    if (kept == NULL && is_broken) {
        rlk_pool_drop(client, conn);
    } else if (kept == NULL) {
        rlk_pool_put(client, conn);
    } else if (rc == ROWLOCK_OK) {
        *kept = conn;
    } else if (is_broken) {
        rlk_pool_lose(client, use, conn);
        rlk_pool_close_idle(client);
    } else {
        rlk_pool_return(client, use, conn);
    }
}

static void tell_reconnect(rowlock_client *client)
{
    int has_reconnected;

    rlk_mutex_lock(&client->mutex);
    has_reconnected = client->has_reconnected;
    client->has_reconnected = 0;
    rlk_mutex_unlock(&client->mutex);
    if (has_reconnected)
        rlk_emit(client, &(rowlock_event){.size = sizeof(rowlock_event),
                                          .kind = ROWLOCK_EVENT_RECONNECTED});
}

static int no_time(rowlock_error *err)
{
    return rlk_fail_native(err, ROWLOCK_ECONNECT, ROWLOCK_NATIVE_NO_TIME, NULL, 1,
                           "the time was up before the request could be sent");
}

/* One try. *again: it failed in a way that leaves room for another. */
static int try_once(rlk_conn **kept, rowlock_client *client, rlk_use use, int64_t deadline_us,
                    rlk_call_fn fn, void *arg, rlk_sent *sent, int *again, rowlock_error *err)
{
    rlk_conn *conn;
    int64_t left;
    int rc;

    if (rlk_clock_us() >= deadline_us)
        return no_time(err);
    rc = kept == NULL ? rlk_pool_get(&conn, client, use, deadline_us, err)
                      : rlk_pool_lend(&conn, client, use, deadline_us, err);
    if (rc != ROWLOCK_OK) {
        *again = rc == ROWLOCK_ECONNECT && err->retryable;
        return rc;
    }
    sent->at_us = rlk_clock_us();
    left = deadline_us - sent->at_us;
    if (left <= 0) {
        give_back(client, use, conn, ROWLOCK_BUSY, kept);
        return no_time(err);
    }
    rc = fn(client, conn->state, left < 1000 ? 1 : (uint32_t)(left / 1000), arg, err);
    give_back(client, use, conn, rc, kept);
    if (rc == ROWLOCK_EUNKNOWN)
        sent->repeated = 1;
    *again = rc == ROWLOCK_ECONNECT || rc == ROWLOCK_EUNKNOWN ||
             (rc == ROWLOCK_EDRIVER && err->retryable);
    return rc;
}

static void tell_error(rowlock_client *client, const rowlock_error *err)
{
    rlk_count(&client->counters.errors, 1);
    rlk_emit(client, &(rowlock_event){.size = sizeof(rowlock_event),
                                      .kind = ROWLOCK_EVENT_ERROR,
                                      .status = err->status,
                                      .message = err->message});
}

int rlk_unknown(rowlock_error *err)
{
    rowlock_error last = *err;

    if (last.status == ROWLOCK_EUNKNOWN)
        return ROWLOCK_EUNKNOWN;
    return rlk_fail_native(err, ROWLOCK_EUNKNOWN, last.native_code, last.sqlstate, 1,
                           "the answer was lost and could not be had again: %.180s", last.message);
}

/* What comes after a first try: others, while there is time, and the honest answer. */
static int go_on(rlk_conn **kept, rowlock_client *client, rlk_use use, int64_t deadline_us,
                 rlk_call_fn fn, void *arg, rlk_sent *sent, int rc, int again, rowlock_error *err)
{
    int64_t pause = FIRST_PAUSE_US;

    tell_reconnect(client);
    while (again && pause_before_retry(client, &pause, deadline_us)) {
        rlk_count(&client->counters.retries, 1);
        if (rc == ROWLOCK_EDRIVER)
            rlk_count(&client->counters.deadlock_retries, 1);
        again = 0;
        rc = try_once(kept, client, use, deadline_us, fn, arg, sent, &again, err);
        tell_reconnect(client);
    }
    if (rc < 0 && sent->repeated)
        rc = rlk_unknown(err);
    if (rc < 0)
        tell_error(client, err);
    return rc;
}

static int call(rlk_conn **kept, rowlock_client *client, rlk_use use, int64_t deadline_us,
                rlk_call_fn fn, void *arg, rlk_sent *sent, rowlock_error *err)
{
    rowlock_error local;
    int rc, again = 0;

    err = err == NULL ? &local : err;
    rc = try_once(kept, client, use, deadline_us, fn, arg, sent, &again, err);
    return go_on(kept, client, use, deadline_us, fn, arg, sent, rc, again, err);
}

int rlk_call(rowlock_client *client, int64_t bound_us, rlk_call_fn fn, void *arg, rlk_sent *sent,
             rowlock_error *err)
{
    *sent = (rlk_sent){0};
    return call(NULL, client, RLK_USE_CALL, rlk_clock_us() + bound_us, fn, arg, sent, err);
}

int rlk_call_keep(rowlock_client *client, int64_t bound_us, rlk_call_fn fn, void *arg,
                  rlk_sent *sent, rowlock_error *err)
{
    *sent = (rlk_sent){0};
    return call(NULL, client, RLK_USE_KEEP, rlk_clock_us() + bound_us, fn, arg, sent, err);
}

int rlk_call_first(rowlock_client *client, rlk_use use, int64_t deadline_us, rlk_call_fn fn,
                   void *arg, rlk_sent *sent, int *again, rowlock_error *err)
{
    *sent = (rlk_sent){0};
    *again = 0;
    return try_once(NULL, client, use, deadline_us, fn, arg, sent, again, err);
}

int rlk_call_rest(rowlock_client *client, rlk_use use, int64_t deadline_us, rlk_call_fn fn,
                  void *arg, rlk_sent *sent, int rc, int again, rowlock_error *err)
{
    return go_on(NULL, client, use, deadline_us, fn, arg, sent, rc, again, err);
}

int rlk_call_again(rowlock_client *client, rlk_use use, int64_t deadline_us, rlk_call_fn fn,
                   void *arg, rlk_sent *sent, rowlock_error *err)
{
    return call(NULL, client, use, deadline_us, fn, arg, sent, err);
}

int rlk_call_lent(rlk_conn **kept, rowlock_client *client, rlk_use use, int64_t bound_us,
                  rlk_call_fn fn, void *arg, rowlock_error *err)
{
    rlk_sent sent = {0};

    return call(kept, client, use, rlk_clock_us() + bound_us, fn, arg, &sent, err);
}
