/* SPDX-License-Identifier: MIT
 *
 * Programs that end without rowlock_close(). Our threads may be in a client library then, while
 * exit() runs the handlers that take it apart: those of OpenSSL free what a connection with TLS
 * uses. So the threads are ended by a handler of our own, which is registered later than theirs,
 * since a connection has been made before, and so is called earlier. It releases nothing, and does
 * not wait for a database that hangs: exit() must not take longer than a moment. */
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "core.h"

enum { PATIENCE_S = 1 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* before any client's */
static rowlock_client *first;                             /* those that have threads */
static int is_registered;

/* A thread that has ended is not joined again, should the client still be closed. */
static void join_by(rowlock_client *client, rlk_worker *worker, const struct timespec *until)
{
    int is_running;

    pthread_mutex_lock(&client->mutex);
    is_running = worker->is_running;
    pthread_mutex_unlock(&client->mutex);
    if (!is_running || pthread_equal(worker->thread, pthread_self()) ||
        pthread_timedjoin_np(worker->thread, NULL, until) != 0)
        return;
    pthread_mutex_lock(&client->mutex);
    worker->is_running = 0;
    pthread_mutex_unlock(&client->mutex);
}

/* In a child process the threads are the parent's, and the mutex may have been locked. */
static void end_threads(void)
{
    struct timespec until;

    if (pthread_mutex_trylock(&mutex) != 0)
        return;
    clock_gettime(CLOCK_REALTIME, &until); /* as pthread_timedjoin_np() wants it */
    until.tv_sec += PATIENCE_S;
    for (rowlock_client *client = first; client != NULL; client = client->watch.next_running) {
        if (client->pid != getpid())
            continue;
        atomic_store(&client->watch.stop, 1);
        rlk_watch_wake(client);
    }
    for (rowlock_client *client = first; client != NULL; client = client->watch.next_running) {
        if (client->pid != getpid())
            continue;
        join_by(client, &client->watch.keeper, &until);
        join_by(client, &client->watch.teller, &until);
    }
    pthread_mutex_unlock(&mutex);
}

void rlk_exit_add(rowlock_client *client)
{
    pthread_mutex_lock(&mutex);
    if (!is_registered)
        is_registered = atexit(end_threads) == 0;
    client->watch.next_running = first;
    first = client;
    pthread_mutex_unlock(&mutex);
}

void rlk_exit_remove(rowlock_client *client)
{
    rowlock_client **at = &first;

    pthread_mutex_lock(&mutex);
    while (*at != NULL && *at != client)
        at = &(*at)->watch.next_running;
    if (*at != NULL)
        *at = client->watch.next_running;
    pthread_mutex_unlock(&mutex);
}
