/* SPDX-License-Identifier: MIT
 *
 * Programs that end without rowlock_close(). Our threads may be in a client library then, while
 * exit() runs the handlers that take it apart: those of OpenSSL free what a connection with TLS
 * uses. So the threads are ended by a handler of our own, which is registered later than theirs,
 * since a connection has been made before, and so is called earlier. It releases nothing, and does
 * not wait for a database that hangs: exit() must not take longer than a moment. */
#include <stdlib.h>

#include "core.h"

#define PATIENCE_US INT64_C(1000000)

static rlk_mutex mutex = RLK_MUTEX_INIT; /* before any client's */
static rowlock_client *first;            /* those that have threads */
static int is_registered;

/* A thread that has ended is not joined again, should the client still be closed. */
static void join_by(rowlock_client *client, rlk_worker *worker, int64_t until_us)
{
    int is_running;

    rlk_mutex_lock(&client->mutex);
    is_running = worker->is_running;
    rlk_mutex_unlock(&client->mutex);
    if (!is_running || !rlk_thread_join(worker->thread, until_us))
        return;
    rlk_mutex_lock(&client->mutex);
    worker->is_running = 0;
    rlk_mutex_unlock(&client->mutex);
}

/* In a child process the threads are the parent's, and the mutex may have been locked. */
static void end_threads(void)
{
    int64_t until_us = rlk_clock_us() + PATIENCE_US;

    if (!rlk_mutex_trylock(&mutex))
        return;
    for (rowlock_client *client = first; client != NULL; client = client->watch.next_running) {
        if (client->pid != rlk_getpid())
            continue;
        atomic_store(&client->watch.stop, 1);
        rlk_watch_wake(client);
    }
    for (rowlock_client *client = first; client != NULL; client = client->watch.next_running) {
        if (client->pid != rlk_getpid())
            continue;
        join_by(client, &client->watch.keeper, until_us);
        join_by(client, &client->watch.teller, until_us);
    }
    rlk_mutex_unlock(&mutex);
}

void rlk_exit_add(rowlock_client *client)
{
    rlk_mutex_lock(&mutex);
    if (!is_registered)
        is_registered = rlk_at_exit(end_threads);
    client->watch.next_running = first;
    first = client;
    rlk_mutex_unlock(&mutex);
}

void rlk_exit_remove(rowlock_client *client)
{
    rowlock_client **at = &first;

    rlk_mutex_lock(&mutex);
    while (*at != NULL && *at != client)
        at = &(*at)->watch.next_running;
    if (*at != NULL)
        *at = client->watch.next_running;
    rlk_mutex_unlock(&mutex);
}
