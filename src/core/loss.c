/* SPDX-License-Identifier: MIT
 *
 * Losses: why, and who is told. All are told by one thread, so that it happens once, in order, and
 * with no lock held. */
#include <errno.h>
#include <string.h>

#include "core.h"

#define SLACK_US \
    INT64_C(1000000) /* between our clock and the database's, for one and the same event */

/* ---- why ---- */

typedef struct loss_query {
    const rlk_tenure *tenure;
    rowlock_list_query query;
    int loss;
} loss_query;

/* The first row whose name starts so is the one with that very name, if there is one. */
static int judge_row(const rowlock_row *row, void *payload)
{
    loss_query *q = payload;
    const rlk_tenure *t = q->tenure;
    int64_t held_us = rlk_clock_us() - t->acquired_us;

    if (row->name_length != t->name_length || row->fence <= t->fence)
        return 1;
    /* A forced release leaves the owner and the time of acquiring. */
    q->loss = strcmp(row->owner, t->owner) == 0 && row->hold_count == 0 &&
                      (t->is_adopted || row->held_ms * 1000 > held_us - SLACK_US)
                  ? ROWLOCK_LOSS_FORCED
                  : ROWLOCK_LOSS_TAKEN;
    return 1;
}

static int do_look(rowlock_client *client, void *conn, uint32_t timeout_ms, void *arg,
                   rowlock_error *err)
{
    loss_query *q = arg;

    return client->driver.list(conn, &q->query, judge_row, q, timeout_ms, err);
}

static int find_loss(rowlock_client *client, const rlk_tenure *tenure, int64_t until_us)
{
    int64_t bound = until_us - rlk_clock_us();
    loss_query q = {.tenure = tenure,
                    .query = {.size = sizeof q.query,
                              .starts_with = tenure->name,
                              .starts_with_length = tenure->name_length,
                              .expired = 1},
                    .loss = ROWLOCK_LOSS_EXPIRED};
    rlk_sent sent;

    if (bound > 0)
        rlk_call(client, bound, do_look, &q, &sent, NULL);
    return q.loss;
}

void rlk_lose_by_answer(rlk_tenure *tenure)
{
    tenure->is_over = 1;
    if (atomic_load(&tenure->lost))
        return;
    tenure->is_asked = 1;
    rlk_tenure_lose(tenure, ROWLOCK_LOSS_EXPIRED);
}

void rlk_refine_loss(rowlock_client *client, rlk_tenure *tenure, int64_t until_us)
{
    int is_asked, loss;

    rlk_mutex_lock(&client->mutex);
    is_asked = tenure->is_asked;
    rlk_mutex_unlock(&client->mutex);
    if (!is_asked)
        return;
    loss = find_loss(client, tenure, until_us);
    rlk_mutex_lock(&client->mutex);
    if (tenure->is_asked) {
        atomic_store(&tenure->lost, loss);
        tenure->is_asked = 0;
        rlk_tenure_lose(tenure, loss); /* now it is to be told */
    }
    rlk_mutex_unlock(&client->mutex);
    rlk_watch_wake(client);
}

void rlk_lose_and_refine(rowlock_client *client, rlk_tenure *tenure, int64_t until_us)
{
    rlk_mutex_lock(&client->mutex);
    rlk_lose_by_answer(tenure);
    rlk_mutex_unlock(&client->mutex);
    rlk_refine_loss(client, tenure, until_us);
}

void rlk_count_loss(rowlock_client *client, rlk_tenure *tenure)
{
    int is_counted;

    rlk_mutex_lock(&client->mutex);
    is_counted = tenure->is_counted;
    tenure->is_counted = 1;
    rlk_mutex_unlock(&client->mutex);
    if (is_counted)
        return;
    rlk_count(&client->counters.lost, 1);
    rlk_count_time(client->counters.hold_buckets, rlk_clock_us() - tenure->acquired_us);
    rlk_emit_tenure(client, ROWLOCK_EVENT_LOST, tenure, rlk_clock_us() - tenure->acquired_us);
}

/* ---- who is told ---- */

/* Under the mutex: no watcher of its tenure any more. */
static void unlist(rowlock_lock *lock)
{
    rlk_tenure *tenure = lock->tenure;

    if (lock->previous != NULL)
        lock->previous->next = lock->next;
    else
        tenure->watchers = lock->next;
    if (lock->next != NULL)
        lock->next->previous = lock->previous;
    if (tenure->watchers == NULL)
        rlk_heap_remove(&tenure->alarm);
    if (lock->renew && --tenure->renewers == 0)
        rlk_heap_remove(&tenure->renewal);
}

/* Under the mutex: the watchers of a tenure that is lost are to be told. A release meanwhile takes
 * them out of the chain. Their descriptors are raised here, so that none waits for the callback of
 * another. */
static void move_watchers(rlk_watch *watch, rlk_tenure *tenure)
{
    tenure->is_asked = 0; /* what is reported stays */
    while (tenure->watchers != NULL) {
        rowlock_lock *lock = tenure->watchers;

        unlist(lock);
        lock->is_told = 1;
        rlk_event_set(atomic_load(&lock->lost_fd));
        lock->next = NULL;
        lock->previous = watch->last_untold;
        if (watch->last_untold != NULL)
            watch->last_untold->next = lock;
        else
            watch->untold = lock;
        watch->last_untold = lock;
    }
}

/* Under the mutex: finds what was lost. */
static void find_untold(rlk_watch *watch)
{
    int64_t now = rlk_clock_us();

    while (watch->alarms.first != NULL && watch->alarms.first->key <= now) {
        rlk_tenure *tenure = RLK_HEAP_ELEMENT(watch->alarms.first, rlk_tenure, alarm);

        rlk_tenure_is_lost(tenure); /* which says so from here on */
        move_watchers(watch, tenure);
    }
}

/* Under the mutex: out of the chain, if it is there. */
static void unchain(rlk_watch *watch, rowlock_lock *lock)
{
    if (lock->previous != NULL)
        lock->previous->next = lock->next;
    else if (watch->untold == lock)
        watch->untold = lock->next;
    if (lock->next != NULL)
        lock->next->previous = lock->previous;
    else if (watch->last_untold == lock)
        watch->last_untold = lock->previous;
    lock->next = lock->previous = NULL;
}

/* Under the mutex: the next one to be told. */
static rowlock_lock *take_untold(rlk_watch *watch)
{
    rowlock_lock *lock;

    find_untold(watch);
    lock = watch->untold;
    if (lock != NULL)
        unchain(watch, lock);
    return lock;
}

/* Unless it was released meanwhile, by this very thread. */
static void call_back(rowlock_client *client, rowlock_lock *lock, const rlk_tenure *tenure)
{
    rowlock_lost_fn fn = NULL;
    void *payload = NULL;

    rlk_mutex_lock(&client->mutex);
    if (client->watch.calling == lock) {
        fn = lock->on_lost;
        payload = lock->lost_payload;
    }
    rlk_mutex_unlock(&client->mutex);
    if (fn != NULL)
        fn(lock, atomic_load(&tenure->lost), payload);
}

void rlk_tell_losses(rowlock_client *client)
{
    rlk_watch *watch = &client->watch;
    rowlock_lock *lock;

    rlk_mutex_lock(&client->mutex);
    while ((lock = take_untold(watch)) != NULL) {
        rlk_tenure *tenure = lock->tenure;

        tenure->refs++; /* the callback may release the handle */
        watch->calling = lock;
        watch->caller = rlk_thread_number();
        rlk_mutex_unlock(&client->mutex);
        rlk_count_loss(client, tenure); /* whose event may release the handle, too */
        call_back(client, lock, tenure);
        rlk_mutex_lock(&client->mutex);
        watch->calling = NULL;
        rlk_tenure_unref(tenure);
        rlk_cond_broadcast(&client->changed);
    }
    rlk_mutex_unlock(&client->mutex);
}

/* ---- who is watched ---- */

void rlk_watch_add(rowlock_client *client, rowlock_lock *lock)
{
    rlk_tenure *tenure = lock->tenure;
    int is_known = atomic_load(&tenure->lost) && !tenure->is_asked;

    if (lock->is_watched)
        return;
    lock->is_watched = 1;
    lock->previous = NULL;
    lock->next = tenure->watchers;
    if (lock->next != NULL)
        lock->next->previous = lock;
    tenure->watchers = lock;
    rlk_heap_put(&client->watch.alarms, &tenure->alarm,
                 is_known ? 0 : atomic_load(&tenure->deadline_us));
    if (lock->renew && tenure->renewers++ == 0)
        rlk_plan_renewal(client, tenure, rlk_clock_us());
}

void rlk_watch_remove(rowlock_client *client, rowlock_lock *lock)
{
    rlk_watch *watch = &client->watch;

    if (!lock->is_watched)
        return;
    while (watch->calling == lock && watch->caller != rlk_thread_number())
        rlk_cond_wait(&client->changed, &client->mutex, RLK_NEVER);
    if (watch->calling == lock)
        watch->calling = NULL;
    lock->is_watched = 0;
    if (lock->is_told)
        unchain(watch, lock);
    else
        unlist(lock);
}

int rowlock_lost_fd(rowlock_lock *lock, rowlock_error *err)
{
    int rc = rlk_enter_lock(lock, err);
    int fd;

    if (rc != ROWLOCK_OK)
        return -1;
    fd = atomic_load(&lock->lost_fd);
    if (fd < 0 && rlk_watch_start(lock->client, err) == ROWLOCK_OK) {
        fd = rlk_event_new();
        if (fd < 0) {
            rlk_fail(err, ROWLOCK_ENOMEM, "cannot make a descriptor: %s", strerror(errno));
        } else {
            rlk_mutex_lock(&lock->client->mutex);
            atomic_store(&lock->lost_fd, fd);
            rlk_watch_add(lock->client, lock);
            rlk_watch_planned(lock->client);
            if (lock->is_told)
                rlk_event_set(fd);
            rlk_mutex_unlock(&lock->client->mutex);
        }
    }
    rlk_leave(lock->client);
    return fd;
}
