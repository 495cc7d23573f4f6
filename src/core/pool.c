/* SPDX-License-Identifier: MIT
 *
 * Connections: opened as needed, at most max_connections, the one used last first. */
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
                                   .may_create = client->may_create};
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

/* Under the mutex: an idle connection, or leave to open one (*out is NULL then). */
static int reserve(rlk_conn **out, rowlock_client *client, int64_t deadline_us, rowlock_error *err)
{
    while (client->idle == NULL && client->connections >= client->max_connections) {
        if (rlk_clock_us() >= deadline_us)
            return rlk_fail_native(err, ROWLOCK_ECONNECT, 0, NULL, 1,
                                   "all %u connections were in use: raise max_connections",
                                   client->max_connections);
        rlk_cond_wait(&client->changed, &client->mutex, deadline_us);
    }
    *out = client->idle;
    if (client->idle != NULL)
        client->idle = client->idle->next;
    else
        client->connections++;
    return ROWLOCK_OK;
}

static void forget_one(rowlock_client *client)
{
    pthread_mutex_lock(&client->mutex);
    client->connections--;
    pthread_cond_broadcast(&client->changed);
    pthread_mutex_unlock(&client->mutex);
}

int rlk_pool_get(rlk_conn **out, rowlock_client *client, int64_t deadline_us, rowlock_error *err)
{
    int rc;

    *out = NULL;
    pthread_mutex_lock(&client->mutex);
    rc = reserve(out, client, deadline_us, err);
    pthread_mutex_unlock(&client->mutex);
    if (rc != ROWLOCK_OK || *out != NULL)
        return rc;
    rc = connect_new(out, client, deadline_us, err);
    if (rc != ROWLOCK_OK)
        forget_one(client);
    return rc;
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
    idle = client->idle;
    client->idle = NULL;
    pthread_mutex_unlock(&client->mutex);
    while (idle != NULL) {
        rlk_conn *next = idle->next;

        discard(client, idle);
        forget_one(client);
        idle = next;
    }
}

void rlk_pool_drop(rowlock_client *client, rlk_conn *conn)
{
    discard(client, conn);
    forget_one(client);
    rlk_pool_close_idle(client);
}
