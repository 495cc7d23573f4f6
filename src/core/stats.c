/* SPDX-License-Identifier: MIT
 *
 * Numbers and events. Counting is an addition without order: always on. */
#include <string.h>

#include "core.h"

void rlk_count(_Atomic uint64_t *counter, uint64_t n)
{
    atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

void rlk_count_time(_Atomic uint64_t *buckets, int64_t us)
{
    int i = 0;

    while (i < ROWLOCK_BUCKETS - 1 && us >> (i + 1) > 0)
        i++;
    rlk_count(&buckets[i], 1);
}

void rlk_emit(const rowlock_client *client, const rowlock_event *event)
{
    if (client->on_event != NULL)
        client->on_event(event, client->event_payload);
}

void rlk_emit_tenure(const rowlock_client *client, int kind, const rlk_tenure *tenure,
                     int64_t elapsed_us)
{
    rlk_emit(client,
             &(rowlock_event){.size = sizeof(rowlock_event),
                              .kind = kind,
                              .loss = kind == ROWLOCK_EVENT_LOST ? atomic_load(&tenure->lost)
                                                                 : ROWLOCK_LOSS_NONE,
                              .name = tenure->name,
                              .name_length = tenure->name_length,
                              .owner = tenure->owner,
                              .fence = tenure->fence,
                              .elapsed_us = elapsed_us});
}

static uint64_t get(_Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

static void read_counters(rowlock_counters *out, rlk_counters *in)
{
    out->acquired = get(&in->acquired);
    out->busy = get(&in->busy);
    out->timed_out = get(&in->timed_out);
    out->cancelled = get(&in->cancelled);
    out->released = get(&in->released);
    out->lost = get(&in->lost);
    out->renewed = get(&in->renewed);
    out->reaped = get(&in->reaped);
    out->errors = get(&in->errors);
    out->retries = get(&in->retries);
    out->deadlock_retries = get(&in->deadlock_retries);
    out->reconnects = get(&in->reconnects);
    out->queued = get(&in->queued);
    out->polled = get(&in->polled);
    out->combined = get(&in->combined);
    for (int i = 0; i < ROWLOCK_BUCKETS; i++) {
        out->wait_buckets[i] = get(&in->wait_buckets[i]);
        out->hold_buckets[i] = get(&in->hold_buckets[i]);
    }
}

int rowlock_stats(rowlock_counters *out, rowlock_client *client, rowlock_error *err)
{
    rowlock_counters all = ROWLOCK_COUNTERS_INIT;
    size_t size;
    int rc;

    if (out == NULL || out->size < sizeof out->size || out->size > 65536)
        return rlk_fail(err, ROWLOCK_EINVAL,
                        "rowlock_counters.size is not set: start from its _INIT macro");
    rc = rlk_enter(client, err);
    if (rc != ROWLOCK_OK)
        return rc;
    read_counters(&all, &client->counters);
    rlk_mutex_lock(&client->mutex);
    all.held = rlk_tenures_held(&client->tenures);
    all.waiting = client->lines.waiting;
    for (int use = 0; use < RLK_USES; use++)
        all.connections += client->connections[use];
    rlk_mutex_unlock(&client->mutex);
    size = out->size;
    memset(out, 0, size); /* what a newer header has and this library does not */
    memcpy(out, &all, size < sizeof all ? size : sizeof all);
    out->size = size;
    rlk_leave(client);
    return ROWLOCK_OK;
}
