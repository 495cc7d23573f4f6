/* SPDX-License-Identifier: MIT
 *
 * Connections: opened as needed, at most so many for each use, the one used last first. */
#include <stdlib.h>

#include "core.h"

static uint32_t timeout_ms(int64_t left_us, int64_t most_us)
{
    int64_t us = left_us < most_us ? left_us : most_us;

    return us < 1000 ? 1 : (uint32_t)(us / 1000);
}

static void discard(rowlock_client *client, rlk_conn *conn)
{
    client->driver.close(conn->state);
    free(conn);
}

static int connect_new(rlk_conn **out, rowlock_client *client, int64_t deadline_us,
                       rowlock_error *err)
{
    const rowlock_config config = {.size = sizeof config,
                                   .address = client->address,
                                   .prefix = client->prefix,
                                   .schema = client->schema,
                                   .may_create = client->may_create,
                                   .is_relaxed = client->is_relaxed,
                                   .spin_us = client->spin_us};
    rlk_conn *conn = calloc(1, sizeof *conn + client->driver.conn_size);
    int rc;

    if (conn == NULL)
        return rlk_fail_memory(err);
    rc = client->driver.open(conn->state, &config,
                             timeout_ms(deadline_us - rlk_clock_us(), client->connect_timeout_us),
                             err);
    if (rc != ROWLOCK_OK) {
        discard(client, conn);
        return rc;
    }
    *out = conn;
    return ROWLOCK_OK;
}

/* Renewals and releases are calls, too, as far as numbers of connections go. */
static rlk_use counted_as(rlk_use use)
{
    return use == RLK_USE_KEEP ? RLK_USE_CALL : use;
}

static int all_in_use(const rowlock_client *client, rlk_use use, rowlock_error *err)
{
    static const char *const what[] = {" but the one for renewals and releases",
                                       " for transactions", " for waiting", ""};
    static const char *const option[] = {"max_connections", "max_connections",
                                         "max_wait_connections", "max_connections"};
    uint32_t most = client->max_connections[counted_as(use)];
    int is_whole = use == RLK_USE_CALL && (most == 1 || client->handles == 0);

    rlk_fail_native(err, ROWLOCK_ECONNECT, 0, NULL, 1, "all %u connections%s were in use: raise %s",
                    most, is_whole ? "" : what[use], option[use]);
    return counted_as(use) == RLK_USE_CALL ? ROWLOCK_ECONNECT : ROWLOCK_BUSY;
}

/* ---- under the mutex ---- */

static void add_idle(rowlock_client *client, rlk_conn *conn)
{
    conn->next = client->idle;
    client->idle = conn;
    client->idle_count++;
}

/* Is the last connection reserved, for renewals and releases? An acquire does not reserve it
 * against calls: it may be the one that asks. */
static int is_one_reserved(const rowlock_client *client, rlk_use use)
{
    return use != RLK_USE_KEEP &&
           (client->handles > 0 || (use != RLK_USE_CALL && client->acquiring > 0));
}

/* With max_connections of 1 there is none beside it: calls share it, renewals and releases first.
 */
static int is_shared(const rowlock_client *client, rlk_use use)
{
    return use == RLK_USE_CALL && client->max_connections[RLK_USE_CALL] == 1;
}

static int may_take_idle(const rowlock_client *client, rlk_use use)
{
    if (client->idle_count == 0)
        return 0;
    if (!is_one_reserved(client, use))
        return 1;
    return is_shared(client, use) ? client->keep_waiting == 0
                                  : client->idle_count + client->keeping - client->keep_opening > 1;
}

static int may_open(const rowlock_client *client, rlk_use use)
{
    rlk_use counted = counted_as(use);
    uint32_t left = client->max_connections[counted] - client->connections[counted];
    uint32_t most = client->max_connections[RLK_USE_CALL];
    uint32_t used = client->connections[RLK_USE_CALL] - client->idle_count - client->keeping;

    if (use != RLK_USE_CALL || !is_one_reserved(client, use))
        return left > 0;
    return left > 0 && (is_shared(client, use) ? client->keep_waiting == 0 : used + 1 < most);
}

static rlk_conn *take_idle(rowlock_client *client)
{
    rlk_conn *conn = client->idle;

    client->idle = conn->next;
    client->idle_count--;
    client->connections[RLK_USE_CALL]--;
    return conn;
}

/* Waits for a connection to come back. */
static void wait_for_one(rowlock_client *client, rlk_use use, int64_t deadline_us)
{
    client->keep_waiting += use == RLK_USE_KEEP;
    rlk_cond_wait(&client->changed, &client->mutex, deadline_us);
    client->keep_waiting -= use == RLK_USE_KEEP;
}

/* An idle connection, or leave to open one (*out is NULL then), counted. */
static int reserve(rlk_conn **out, rowlock_client *client, rlk_use use, int64_t deadline_us,
                   rowlock_error *err)
{
    rlk_use counted = counted_as(use);

    while (!may_open(client, use) && !(counted == RLK_USE_CALL && may_take_idle(client, use))) {
        if (counted != RLK_USE_CALL || rlk_clock_us() >= deadline_us)
            return all_in_use(client, use, err);
        wait_for_one(client, use, deadline_us);
    }
    if (may_take_idle(client, use))
        *out = take_idle(client);
    client->connections[counted]++;
    client->keeping += use == RLK_USE_KEEP;
    client->keep_opening += use == RLK_USE_KEEP && *out == NULL;
    return ROWLOCK_OK;
}

/* ---- without it ---- */

static void forget_one(rowlock_client *client, rlk_use use)
{
    rlk_mutex_lock(&client->mutex);
    client->connections[counted_as(use)]--;
    client->keeping -= use == RLK_USE_KEEP;
    rlk_cond_broadcast(&client->changed);
    rlk_mutex_unlock(&client->mutex);
}

/* The event comes when the connection has been given back: whoever is told may want one. */
static void note_reconnect(rowlock_client *client)
{
    int was_cut;

    rlk_mutex_lock(&client->mutex);
    was_cut = client->was_cut;
    client->has_reconnected |= was_cut;
    client->was_cut = 0;
    rlk_mutex_unlock(&client->mutex);
    if (was_cut)
        rlk_count(&client->counters.reconnects, 1);
}

static int get(rlk_conn **out, rowlock_client *client, rlk_use use, int64_t deadline_us,
               rowlock_error *err)
{
    int rc;

    *out = NULL;
    rlk_mutex_lock(&client->mutex);
    rc = reserve(out, client, use, deadline_us, err);
    rlk_mutex_unlock(&client->mutex);
    if (rc != ROWLOCK_OK)
        return rc;
    if (*out == NULL) {
        rc = connect_new(out, client, deadline_us, err);
        if (use == RLK_USE_KEEP) {
            rlk_mutex_lock(&client->mutex);
            client->keep_opening--;
            rlk_mutex_unlock(&client->mutex);
        }
        if (rc != ROWLOCK_OK)
            forget_one(client, use);
        else
            note_reconnect(client);
    }
    if (rc == ROWLOCK_OK)
        (*out)->is_keeping = use == RLK_USE_KEEP;
    return rc;
}

int rlk_pool_get(rlk_conn **out, rowlock_client *client, rlk_use use, int64_t deadline_us,
                 rowlock_error *err)
{
    return get(out, client, use, deadline_us, err);
}

int rlk_pool_lend(rlk_conn **out, rowlock_client *client, rlk_use use, int64_t deadline_us,
                  rowlock_error *err)
{
    return get(out, client, use, deadline_us, err);
}

void rlk_pool_put(rowlock_client *client, rlk_conn *conn)
{
    rlk_mutex_lock(&client->mutex);
    client->keeping -= conn->is_keeping != 0;
    add_idle(client, conn);
    rlk_cond_broadcast(&client->changed);
    rlk_mutex_unlock(&client->mutex);
}

void rlk_pool_close_idle(rowlock_client *client)
{
    rlk_conn *idle;

    rlk_mutex_lock(&client->mutex);
    client->was_cut = 1;
    idle = client->idle;
    client->idle = NULL;
    client->idle_count = 0;
    rlk_mutex_unlock(&client->mutex);
    while (idle != NULL) {
        rlk_conn *next = idle->next;

        discard(client, idle);
        forget_one(client, RLK_USE_CALL);
        idle = next;
    }
}

void rlk_pool_drop(rowlock_client *client, rlk_conn *conn)
{
    rlk_use use = conn->is_keeping ? RLK_USE_KEEP : RLK_USE_CALL;

    discard(client, conn);
    forget_one(client, use);
    rlk_pool_close_idle(client);
}

void rlk_pool_return(rowlock_client *client, rlk_use use, rlk_conn *conn)
{
    int is_wanted;

    rlk_mutex_lock(&client->mutex);
    is_wanted = !atomic_load(&client->closed) &&
                client->connections[RLK_USE_CALL] < client->max_connections[RLK_USE_CALL];
    if (is_wanted) {
        add_idle(client, conn);
        client->connections[RLK_USE_CALL]++;
    }
    client->connections[use]--;
    rlk_cond_broadcast(&client->changed);
    rlk_mutex_unlock(&client->mutex);
    if (!is_wanted)
        discard(client, conn);
}

void rlk_pool_lose(rowlock_client *client, rlk_use use, rlk_conn *conn)
{
    discard(client, conn);
    forget_one(client, use);
}
