/* SPDX-License-Identifier: MIT
 *
 * The client's own threads, from the first lock that wants them until the client is closed. There
 * are two, because a loss must be told in time whatever the database does, and renewals must go on
 * whatever the application does when it is told. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core.h"

#define LEAST_KEEPER_BOUND_US INT64_C(50000)

/* ---- the steps ---- */

int64_t rlk_keeper_step(rowlock_client *client)
{
    int64_t next = rlk_renew_due(client), renewal = next;
    int64_t tickets = rlk_tickets_due(client, renewal);

    next = tickets < next ? tickets : next;
    rlk_reap_due(client, renewal);
    if (client->reap_interval_us > 0 && client->watch.reap_at_us < next)
        next = client->watch.reap_at_us;
    return next;
}

int64_t rlk_keeper_bound(int64_t bound_us, int64_t until_us)
{
    int64_t left = until_us - rlk_clock_us();

    left = left < LEAST_KEEPER_BOUND_US ? LEAST_KEEPER_BOUND_US : left;
    return bound_us < left ? bound_us : left;
}

int64_t rlk_teller_step(rowlock_client *client)
{
    int64_t next = RLK_NEVER;

    rlk_tell_losses(client);
    rlk_mutex_lock(&client->mutex);
    if (client->watch.alarms.first != NULL)
        next = client->watch.alarms.first->key;
    rlk_mutex_unlock(&client->mutex);
    return next;
}

/* ---- the threads ---- */

static int init_worker(rlk_worker *worker, rowlock_client *client, const char *name,
                       int64_t (*step)(rowlock_client *client))
{
    worker->client = client;
    worker->name = name;
    worker->step = step;
    return rlk_sleeper_init(&worker->sleeper) == 0;
}

int rlk_watch_init(rowlock_client *client, rowlock_error *err)
{
    rlk_watch *watch = &client->watch;

    if (!init_worker(&watch->keeper, client, "rowlock-keep", rlk_keeper_step) ||
        !init_worker(&watch->teller, client, "rowlock-tell", rlk_teller_step))
        return rlk_fail(err, ROWLOCK_ENOMEM, "cannot make a descriptor: %s", strerror(errno));
    watch->reap_pause_us = client->reap_interval_us;
    watch->reap_at_us = rlk_clock_us() + client->reap_interval_us;
    return ROWLOCK_OK;
}

void rlk_watch_free(rowlock_client *client)
{
    rlk_sleeper_free(&client->watch.keeper.sleeper);
    rlk_sleeper_free(&client->watch.teller.sleeper);
    free(client->watch.ops);
    free(client->watch.tenures);
}

void rlk_worker_wake(const rlk_worker *worker, int64_t time_us)
{
    /* Read once: it may fall asleep between two looks. */
    int64_t until = atomic_load(&worker->sleeps_until_us);

    if (until == 0 || time_us < until)
        rlk_sleeper_wake(&worker->sleeper);
}

void rlk_watch_wake(rowlock_client *client)
{
    rlk_worker_wake(&client->watch.keeper, 0);
    rlk_worker_wake(&client->watch.teller, 0);
}

void rlk_watch_planned(rowlock_client *client)
{
    rlk_watch *watch = &client->watch;

    if (watch->alarms.first != NULL)
        rlk_worker_wake(&watch->teller, watch->alarms.first->key);
    if (watch->planned.first != NULL)
        rlk_worker_wake(&watch->keeper, watch->planned.first->key);
}

static void sleep_until(rlk_worker *worker, int64_t until_us)
{
    if (until_us <= rlk_clock_us())
        return;
    atomic_store(&worker->sleeps_until_us, until_us);
    rlk_sleeper_sleep(&worker->sleeper, until_us);
    atomic_store(&worker->sleeps_until_us, 0);
}

static void *run(void *arg)
{
    rlk_worker *worker = arg;

    while (!atomic_load(&worker->client->watch.stop))
        sleep_until(worker, worker->step(worker->client));
    return NULL;
}

static int start_worker(rlk_worker *worker)
{
    int rc;

    if (worker->is_running)
        return 0;
    rc = rlk_thread_start(&worker->thread, worker->name, run, worker);
    worker->is_running = rc == 0;
    return rc;
}

int rlk_watch_start(rowlock_client *client, rowlock_error *err)
{
    rlk_watch *watch = &client->watch;
    int rc = 0, is_first;

    rlk_mutex_lock(&client->mutex);
    is_first = !watch->is_listed && !watch->is_by_hand;
    watch->is_listed |= is_first;
    if (watch->ops == NULL)
        watch->ops = calloc(RLK_RENEW_BATCH, sizeof *watch->ops);
    if (watch->tenures == NULL)
        watch->tenures = calloc(RLK_RENEW_BATCH, sizeof(rlk_tenure *));
    if (watch->ops == NULL || watch->tenures == NULL)
        rc = ENOMEM;
    if (rc == 0 && !watch->is_by_hand)
        rc = start_worker(&watch->keeper);
    if (rc == 0 && !watch->is_by_hand)
        rc = start_worker(&watch->teller);
    rlk_mutex_unlock(&client->mutex);
    if (is_first)
        rlk_exit_add(client);
    if (rc != 0)
        return rlk_fail(err, ROWLOCK_ENOMEM, "cannot start a thread: %s", strerror(rc));
    return ROWLOCK_OK;
}

void rlk_watch_end(rowlock_client *client)
{
    rlk_exit_remove(client);
    atomic_store(&client->watch.stop, 1);
    rlk_watch_wake(client);
    if (client->watch.keeper.is_running)
        rlk_thread_join(client->watch.keeper.thread, RLK_NEVER);
    if (client->watch.teller.is_running)
        rlk_thread_join(client->watch.teller.thread, RLK_NEVER);
}
