/* SPDX-License-Identifier: MIT
 *
 * The client's own threads, from the first lock that wants them until the client is closed. There
 * are two, because a loss must be told in time whatever the database does, and renewals must go on
 * whatever the application does when it is told. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

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
    pthread_mutex_lock(&client->mutex);
    if (client->watch.alarms.first != NULL)
        next = client->watch.alarms.first->key;
    pthread_mutex_unlock(&client->mutex);
    return next;
}

/* ---- the threads ---- */

static int init_worker(rlk_worker *worker, rowlock_client *client, const char *name,
                       int64_t (*step)(rowlock_client *client))
{
    worker->client = client;
    worker->name = name;
    worker->step = step;
    worker->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    /* Unlike poll() it does not stand still while the machine is suspended. */
    worker->timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    return worker->wake_fd >= 0 && worker->timer_fd >= 0;
}

static void free_worker(const rlk_worker *worker)
{
    if (worker->wake_fd > 0)
        close(worker->wake_fd);
    if (worker->timer_fd > 0)
        close(worker->timer_fd);
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
    free_worker(&client->watch.keeper);
    free_worker(&client->watch.teller);
    free(client->watch.ops);
    free(client->watch.tenures);
}

void rlk_worker_wake(const rlk_worker *worker, int64_t time_us)
{
    /* Read once: it may fall asleep between two looks. */
    int64_t until = atomic_load(&worker->sleeps_until_us);
    const uint64_t one = 1;

    if (until == 0 || time_us < until) {
        if (write(worker->wake_fd, &one, sizeof one) < 0) {
            /* It is readable already. */
        }
    }
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
    struct pollfd polled[] = {{.fd = worker->wake_fd, .events = POLLIN},
                              {.fd = worker->timer_fd, .events = POLLIN}};
    struct itimerspec timer = {.it_value = {.tv_sec = (time_t)(until_us / 1000000),
                                            .tv_nsec = (long)(until_us % 1000000) * 1000}};
    uint64_t count;

    if (until_us <= rlk_clock_us())
        return;
    if (until_us == RLK_NEVER)
        memset(&timer, 0, sizeof timer);
    timerfd_settime(worker->timer_fd, TFD_TIMER_ABSTIME, &timer, NULL);
    atomic_store(&worker->sleeps_until_us, until_us);
    while (poll(polled, 2, -1) < 0 && errno == EINTR) {
    }
    atomic_store(&worker->sleeps_until_us, 0);
    for (int i = 0; i < 2; i++) {
        if (polled[i].revents != 0 && read(polled[i].fd, &count, sizeof count) < 0) {
            /* Nothing is lost: what woke it is looked at anyway. */
        }
    }
}

static void *run(void *arg)
{
    rlk_worker *worker = arg;

    while (!atomic_load(&worker->client->watch.stop))
        sleep_until(worker, worker->step(worker->client));
    return NULL;
}

/* Signals are the application's: its own threads take them. */
static int start_worker(rlk_worker *worker)
{
    sigset_t all, before;
    int rc;

    if (worker->is_running)
        return 0;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = pthread_create(&worker->thread, NULL, run, worker);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc == 0)
        pthread_setname_np(worker->thread, worker->name);
    worker->is_running = rc == 0;
    return rc;
}

int rlk_watch_start(rowlock_client *client, rowlock_error *err)
{
    rlk_watch *watch = &client->watch;
    int rc = 0, is_first;

    pthread_mutex_lock(&client->mutex);
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
    pthread_mutex_unlock(&client->mutex);
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
        pthread_join(client->watch.keeper.thread, NULL);
    if (client->watch.teller.is_running)
        pthread_join(client->watch.teller.thread, NULL);
}
