/* SPDX-License-Identifier: MIT
 *
 * Lines inside the process: threads that want the same name wait for each other here, first come,
 * first served, and only the front one asks the database. Two names never share a line. */
#include <string.h>

#include "core.h"

/* How often a waiter looks that has no descriptor to be woken by. */
#define DEAF_PAUSE_US INT64_C(20000)

size_t rlk_line_bucket(const char *name, size_t length)
{
    uint32_t hash = UINT32_C(2166136261);

    for (size_t i = 0; i < length; i++)
        hash = (hash ^ (unsigned char)name[i]) * UINT32_C(16777619);
    return hash % RLK_LINE_BUCKETS;
}

/* Under the mutex: where the front of this name is, or would be. */
static rlk_waiter **find(rowlock_client *client, const char *name, size_t length)
{
    rlk_waiter **place = &client->lines.fronts[rlk_line_bucket(name, length)];

    while (*place != NULL && ((*place)->ops[0].name_length != length ||
                              memcmp((*place)->ops[0].name, name, length) != 0))
        place = &(*place)->next_front;
    return place;
}

rlk_waiter *rlk_line_front(rowlock_client *client, const char *name, size_t length)
{
    return *find(client, name, length);
}

void rlk_ring(const rlk_waiter *waiter)
{
    rlk_event_set(waiter->ring_fd);
}

void rlk_unring(const rlk_waiter *waiter)
{
    rlk_event_clear(waiter->ring_fd);
}

static int is_hot(const rlk_lines *lines, const char *name, size_t length)
{
    return lines->hot_length == length && memcmp(lines->hot, name, length) == 0;
}

int rlk_line_exists(rowlock_client *client, const char *name, size_t length)
{
    int exists;

    rlk_mutex_lock(&client->mutex);
    exists = *find(client, name, length) != NULL || is_hot(&client->lines, name, length);
    rlk_mutex_unlock(&client->mutex);
    return exists;
}

void rlk_line_heat(rowlock_client *client, const rowlock_op *op, int had_to_wait)
{
    rlk_lines *lines = &client->lines;

    rlk_mutex_lock(&client->mutex);
    if (had_to_wait) {
        memcpy(lines->hot, op->name, op->name_length);
        lines->hot_length = op->name_length;
    } else if (is_hot(lines, op->name, op->name_length)) {
        lines->hot_length = 0;
    }
    rlk_mutex_unlock(&client->mutex);
}

void rlk_line_ring(rowlock_client *client, const char *name, size_t length)
{
    const rlk_waiter *front;

    rlk_mutex_lock(&client->mutex);
    front = *find(client, name, length);
    if (front != NULL)
        rlk_ring(front);
    rlk_mutex_unlock(&client->mutex);
}

void rlk_line_join(rlk_waiter *waiter)
{
    const rowlock_op *op = &waiter->ops[0];
    rlk_waiter **place;

    rlk_mutex_lock(&waiter->client->mutex);
    place = find(waiter->client, op->name, op->name_length);
    if (*place == NULL) {
        waiter->is_front = 1;
        waiter->last = waiter;
        *place = waiter;
    } else {
        (*place)->last->behind = waiter;
        (*place)->last = waiter;
    }
    rlk_mutex_unlock(&waiter->client->mutex);
}

static int is_front(const rlk_waiter *waiter)
{
    int yes;

    rlk_mutex_lock(&waiter->client->mutex);
    yes = waiter->is_front;
    rlk_mutex_unlock(&waiter->client->mutex);
    return yes;
}

int rlk_line_wait(rlk_waiter *waiter, const rlk_wait *wait, rowlock_error *err)
{
    int rc = ROWLOCK_OK;

    while (rc == ROWLOCK_OK && !is_front(waiter)) {
        rc = rlk_wait_until(wait, waiter->ring_fd >= 0 ? RLK_NEVER : rlk_clock_us() + DEAF_PAUSE_US,
                            waiter->ring_fd, err);
        rlk_unring(waiter);
    }
    return rc;
}

/* Under the mutex: the next one is the front now. */
static void step_forward(rlk_waiter **place, rlk_waiter *front)
{
    rlk_waiter *next = front->behind;

    if (next == NULL) {
        *place = front->next_front;
        return;
    }
    next->next_front = front->next_front;
    next->last = front->last;
    next->is_front = 1;
    *place = next;
    rlk_ring(next);
}

void rlk_line_leave(rlk_waiter *waiter)
{
    const rowlock_op *op = &waiter->ops[0];
    rlk_waiter **place, *before;

    rlk_mutex_lock(&waiter->client->mutex);
    place = find(waiter->client, op->name, op->name_length);
    if (*place == waiter) {
        step_forward(place, waiter);
    } else {
        for (before = *place; before->behind != waiter;)
            before = before->behind;
        before->behind = waiter->behind;
        if ((*place)->last == waiter)
            (*place)->last = before;
    }
    rlk_mutex_unlock(&waiter->client->mutex);
}
