/* SPDX-License-Identifier: MIT */
#include "queue_scene.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

enum { PARENT_TTL_MS = 120000, COME_MS = 30000 };

/* ---- in the child ---------------------------------------------------------------------------- */

static int fail_with(struct queue_part *part, int status, const rowlock_error *err)
{
    part->status = status;
    snprintf(part->message, sizeof(part->message), "%s", err->message);
    return 1;
}

static void note_grant(struct queue_shared *shared, struct queue_part *part, int number,
                       const rowlock_lock *lock)
{
    int place = __atomic_fetch_add(&shared->served, 1, __ATOMIC_ACQ_REL);

    part->granted_ms = process_now_ms();
    part->fence = rowlock_fence(lock);
    if (place < QUEUE_MOST)
        shared->order[place] = number;
    process_signal(&part->granted, 1);
}

static int queue_and_hold(void *payload)
{
    const struct queue_scene *scene = payload;
    struct queue_shared *shared = scene->shared;
    int number = scene->count; /* as it was at the fork */
    struct queue_part *part = &shared->parts[number];
    rowlock_options options = ROWLOCK_OPTIONS_INIT;
    rowlock_acquire_options acquire = ROWLOCK_ACQUIRE_OPTIONS_INIT;
    rowlock_counters counters = ROWLOCK_COUNTERS_INIT;
    rowlock_client *client = NULL;
    rowlock_lock *lock = NULL;
    rowlock_error err;
    int status;

    if (process_await(&shared->joined, number + 1, PARENT_TTL_MS) != 0)
        return 2;
    if (part->ticket_ms > 0)
        options.ticket_ms = part->ticket_ms;
    acquire.ttl_ms = part->ttl_ms;
    acquire.wait_ms = PARENT_TTL_MS;
    status = fault_try_open(&client, part->address != NULL ? part->address : fault.backend.address,
                            &options, &err);
    if (status == ROWLOCK_OK)
        status = rowlock_acquire(&lock, client, shared->name, &acquire, &err);
    if (status != ROWLOCK_OK)
        return fail_with(part, status, &err);
    note_grant(shared, part, number, lock);
    process_sleep_ms(part->hold_ms < 0 ? PARENT_TTL_MS : part->hold_ms);
    rowlock_stats(&counters, client, NULL);
    part->polled = counters.polled;
    status = rowlock_release(&lock, &err);
    if (status != ROWLOCK_OK)
        return fail_with(part, status, &err);
    rowlock_close(&client);
    return 0;
}

/* ---- in the parent --------------------------------------------------------------------------- */

static int count_one(const rowlock_waiter *waiter, void *payload)
{
    (void)waiter;
    ++*(int *)payload;
    return 0;
}

int queue_waiters(rowlock_client *client, const char *name)
{
    rowlock_list_options options = ROWLOCK_LIST_OPTIONS_INIT;
    rowlock_error err;
    int count = 0;

    options.starts_with = name;
    assert_status(ROWLOCK_OK, rowlock_waiters(client, &options, count_one, &count, &err), &err);
    return count;
}

int queue_await_waiters(rowlock_client *client, const char *name, int count, int64_t timeout_ms)
{
    int64_t until = process_now_ms() + timeout_ms;

    while (queue_waiters(client, name) != count) {
        if (process_now_ms() > until)
            return -1;
        process_sleep_ms(5);
    }
    return 0;
}

void queue_open(struct queue_scene *scene, const char *what, int count)
{
    memset(scene, 0, sizeof(*scene));
    snprintf(scene->name, sizeof(scene->name), "%s", fault_name(what));
    scene->shared = process_shared(sizeof(*scene->shared));
    assert_non_null(scene->shared);
    memcpy(scene->shared->name, scene->name, sizeof(scene->name));
    assert_in_range(count, 0, QUEUE_MOST);
    for (; scene->count < count; scene->count++) {
        scene->pids[scene->count] = process_start(queue_and_hold, scene);
        assert_true(scene->pids[scene->count] > 0);
    }
    scene->client = fault_open(fault.backend.address, NULL);
    scene->lock = fault_acquire(scene->client, scene->name, PARENT_TTL_MS);
}

static void expect_no_error(const struct queue_scene *scene, int number)
{
    const struct queue_part *part = &scene->shared->parts[number];

    if (part->status != ROWLOCK_OK)
        fail_msg("number %d: %s: %s", number, rowlock_strstatus(part->status), part->message);
}

int queue_join(struct queue_scene *scene, const struct queue_part *how)
{
    int number = scene->joined++;
    int waiting = queue_waiters(scene->client, scene->name);

    assert_in_range(number, 0, scene->count - 1);
    scene->shared->parts[number] = *how;
    process_signal(&scene->shared->joined, scene->joined);
    if (queue_await_waiters(scene->client, scene->name, waiting + 1, COME_MS) != 0) {
        expect_no_error(scene, number);
        fail_msg("number %d has not come to the queue", number);
    }
    return number;
}

int64_t queue_release(struct queue_scene *scene)
{
    int64_t now = process_now_ms();

    fault_release(&scene->lock);
    return now;
}

void queue_await_grant(struct queue_scene *scene, int number, int64_t timeout_ms)
{
    if (process_await(&scene->shared->parts[number].granted, 1, timeout_ms) != 0) {
        expect_no_error(scene, number);
        fail_msg("number %d has not got the lock within %lld ms", number, (long long)timeout_ms);
    }
}

void queue_await_end(struct queue_scene *scene, int number, int64_t timeout_ms)
{
    int status = process_wait(scene->pids[number], timeout_ms);

    scene->pids[number] = 0;
    expect_no_error(scene, number);
    assert_int_equal(0, status);
}

void queue_kill(struct queue_scene *scene, int number, int signal)
{
    assert_int_equal(0, kill(scene->pids[number], signal));
    if (signal != SIGKILL)
        return;
    assert_int_equal(1000 + SIGKILL, process_wait(scene->pids[number], 5000));
    scene->pids[number] = 0;
}

void queue_order(const struct queue_scene *scene, char *out, size_t size)
{
    size_t used = 0;

    out[0] = '\0';
    for (int i = 0; i < scene->shared->served && i < QUEUE_MOST && used < size; i++)
        used += (size_t)snprintf(out + used, size - used, i > 0 ? " %d" : "%d",
                                 scene->shared->order[i]);
}

void queue_close(struct queue_scene *scene)
{
    for (int i = 0; i < scene->count; i++) {
        if (scene->pids[i] > 0)
            process_wait(scene->pids[i], 0);
    }
    if (scene->lock != NULL)
        rowlock_release(&scene->lock, NULL);
    rowlock_close(&scene->client);
    process_unshare(scene->shared, sizeof(*scene->shared));
}
