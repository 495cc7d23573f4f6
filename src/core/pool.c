/* SPDX-License-Identifier: MIT
 *
 * Connections: opened as needed, at most so many for each use, the one used last first. */
#include <stdlib.h>

#include "core.h"
#include "thread.h"

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

static int all_in_use(const rowlock_client *client, rlk_use use, rowlock_error *err)
{
    static const char *const what[] = {"", " for transactions", " for waiting"};
    static const char *const option[] = {"max_connections", "max_connections",
                                         "max_wait_connections"};

    rlk_fail_native(err, ROWLOCK_ECONNECT, 0, NULL, 1, "all %u connections%s were in use: raise %s",
                    client->max_connections[use], what[use], option[use]);
    return use == RLK_USE_CALL ? ROWLOCK_ECONNECT : ROWLOCK_BUSY;
}

/* Under the mutex: may one more be taken? */
static int has_room(const rowlock_client *client, rlk_use use)
{
    return client->connections[use] < client->max_connections[use] ||
           (use == RLK_USE_CALL && client->idle != NULL);
}

/* Under the mutex: an idle connection, or leave to open one (*out is NULL then), counted. */
static int reserve(rlk_conn **out, rowlock_client *client, rlk_use use, int64_t deadline_us,
                   rowlock_error *err)
{
    while (!has_room(client, use)) {
        if (use != RLK_USE_CALL || rlk_clock_us() >= deadline_us)
            return all_in_use(client, use, err);
        rlk_cond_wait(&client->changed, &client->mutex, deadline_us);
    }
    *out = client->idle;
    if (client->idle != NULL) {
        client->idle = client->idle->next;
        client->connections[RLK_USE_CALL]--;
    }
    client->connections[use]++;
    return ROWLOCK_OK;
}

static void forget_one(rowlock_client *client, rlk_use use)
{
    pthread_mutex_lock(&client->mutex);
    client->connections[use]--;
    pthread_cond_broadcast(&client->changed);
    pthread_mutex_unlock(&client->mutex);
}

/* The event comes when the connection has been given back: whoever is told may want one. */
static void note_reconnect(rowlock_client *client)
{
    int was_cut;

    pthread_mutex_lock(&client->mutex);
    was_cut = client->was_cut;
    client->has_reconnected |= was_cut;
    client->was_cut = 0;
    pthread_mutex_unlock(&client->mutex);
    if (was_cut)
        rlk_count(&client->counters.reconnects, 1);
}

static int get(rlk_conn **out, rowlock_client *client, rlk_use use, int64_t deadline_us,
               rowlock_error *err)
{
    int rc;

    *out = NULL;
    pthread_mutex_lock(&client->mutex);
    rc = reserve(out, client, use, deadline_us, err);
    pthread_mutex_unlock(&client->mutex);
    if (rc != ROWLOCK_OK || *out != NULL)
        return rc;
    rc = connect_new(out, client, deadline_us, err);
    if (rc != ROWLOCK_OK)
        forget_one(client, use);
    else
        note_reconnect(client);
    return rc;
}

int rlk_pool_get(rlk_conn **out, rowlock_client *client, int64_t deadline_us, rowlock_error *err)
{
    return get(out, client, RLK_USE_CALL, deadline_us, err);
}

int rlk_pool_lend(rlk_conn **out, rowlock_client *client, rlk_use use, int64_t deadline_us,
                  rowlock_error *err)
{
    return get(out, client, use, deadline_us, err);
}

void rlk_pool_put(rowlock_client *client, rlk_conn *conn)
{
    pthread_mutex_lock(&client->mutex);
    conn->next = client->idle;
    client->idle = conn;
    pthread_cond_broadcast(&client->changed);
    pthread_mutex_unlock(&client->mutex);
}

void rlk_pool_close_idle(rowlock_client *client)
{
    rlk_conn *idle;

    pthread_mutex_lock(&client->mutex);
    client->was_cut = 1;
    idle = client->idle;
    client->idle = NULL;
    pthread_mutex_unlock(&client->mutex);
    while (idle != NULL) {
        rlk_conn *next = idle->next;

        discard(client, idle);
        forget_one(client, RLK_USE_CALL);
        idle = next;
    }
}

void rlk_pool_drop(rowlock_client *client, rlk_conn *conn)
{
    discard(client, conn);
    forget_one(client, RLK_USE_CALL);
    rlk_pool_close_idle(client);
}

void rlk_pool_return(rowlock_client *client, rlk_use use, rlk_conn *conn)
{
    int is_wanted;

    pthread_mutex_lock(&client->mutex);
    is_wanted = !atomic_load(&client->closed) &&
                client->connections[RLK_USE_CALL] < client->max_connections[RLK_USE_CALL];
    if (is_wanted) {
        conn->next = client->idle;
        client->idle = conn;
        client->connections[RLK_USE_CALL]++;
    }
    client->connections[use]--;
    pthread_cond_broadcast(&client->changed);
    pthread_mutex_unlock(&client->mutex);
    if (!is_wanted)
        discard(client, conn);
}

void rlk_pool_lose(rowlock_client *client, rlk_use use, rlk_conn *conn)
{
    discard(client, conn);
    forget_one(client, use);
}
