/* SPDX-License-Identifier: MIT */
#include "hold.h"

#include "process.h"

#include <stdlib.h>

static int below(struct work *work, int n)
{
    return (int)((unsigned)rand_r(&work->seed) % (unsigned)n);
}

static int should_stop(const struct work *work)
{
    return __atomic_load_n(&work->control->stop, __ATOMIC_ACQUIRE) ||
           __atomic_load_n(work->stop, __ATOMIC_ACQUIRE);
}

/* ---- under the lock -------------------------------------------------------------------------- */

static void write_guarded(struct hold *hold)
{
    uint64_t began_ns = history_now_ns(), version, fence;
    struct store *store = hold->store;
    rowlock_error err;
    int status;

    if (store_begin(store) != 0)
        return;
    status = store->kind->guard(hold->lock, store->session, &err);
    if (status != ROWLOCK_OK) {
        hold_failed(hold, began_ns, status);
        store_rollback(store);
        return;
    }
    if (below(hold->work, 200) == 0)
        process_sleep_ms(below(hold->work, (int)hold->ttl_ms * 3 / 2));
    if (store_read(&version, &fence, store, HISTORY_GUARDED, hold->name) != 0)
        return;
    hold_write(hold, HISTORY_GUARDED, ++version, HISTORY_INTENDED);
    if (store_write(store, HISTORY_GUARDED, hold->name, version, hold->fence) != 0)
        hold_write(hold, HISTORY_GUARDED, version, HISTORY_UNDONE);
    else if (store_commit(store) == 0)
        hold_write(hold, HISTORY_GUARDED, version, HISTORY_DONE);
}

/* The second of two transactions; was the write taken? -1: perhaps. */
static int commit_fenced(struct hold *hold, uint64_t version)
{
    uint64_t now, fence;
    struct store *store = hold->store;

    if (store_begin(store) != 0 ||
        store_write(store, HISTORY_FENCED, hold->name, version, hold->fence) != 0 ||
        store_read(&now, &fence, store, HISTORY_FENCED, hold->name) != 0)
        return 0;
    if (fence != hold->fence) {
        store_rollback(store);
        return 0;
    }
    return store_commit(store) == 0 ? 1 : -1;
}

static void write_fenced(struct hold *hold)
{
    uint64_t version, fence;
    int taken;

    if (store_claim(hold->store, hold->name, hold->fence) != 0 ||
        store_read(&version, &fence, hold->store, HISTORY_FENCED, hold->name) != 0 ||
        fence != hold->fence)
        return;
    if (below(hold->work, 200) == 0)
        process_sleep_ms(below(hold->work, (int)hold->ttl_ms * 3 / 2));
    hold_write(hold, HISTORY_FENCED, ++version, HISTORY_INTENDED);
    taken = commit_fenced(hold, version);
    if (taken >= 0)
        hold_write(hold, HISTORY_FENCED, version, taken ? HISTORY_DONE : HISTORY_UNDONE);
}

/* Once more by the same owner: the same tenure. */
static void enter_again(struct hold *hold)
{
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;
    uint64_t began_ns = history_now_ns();
    rowlock_lock *again = NULL;
    rowlock_error err;
    char name[PROOF_NAME_SIZE];
    int status;

    options.ttl_ms = hold->ttl_ms;
    proof_name(name, hold->name);
    status = rowlock_acquire(&again, hold->work->client, name, &options, &err);
    if (status != ROWLOCK_OK) {
        hold_failed(hold, began_ns, status);
        return;
    }
    if (rowlock_fence(again) == hold->fence)
        hold_check(hold);
    status = rowlock_release(&again, &err);
    if (status != ROWLOCK_OK)
        hold_failed(hold, began_ns, status);
}

static void renew(struct hold *hold)
{
    uint64_t began_ns = history_now_ns();
    rowlock_error err;
    int status = rowlock_renew(hold->lock, 0, &err);

    if (status != ROWLOCK_OK)
        hold_failed(hold, began_ns, status);
}

/* Longer than the lease, perhaps. */
static void linger(struct hold *hold)
{
    int64_t until = process_now_ms() + below(hold->work, (int)hold->ttl_ms * 2);

    while (process_now_ms() < until && !should_stop(hold->work) && hold_check(hold))
        process_sleep_ms(1 + below(hold->work, 40));
}

static void do_something(struct hold *hold)
{
    int written = hold->name < PROOF_WRITTEN;
    int what = below(hold->work, 1000);

    if (what < 300 && written)
        write_guarded(hold);
    else if (what < 500 && written)
        write_fenced(hold);
    else if (what < 520)
        enter_again(hold);
    else if (what < 540)
        renew(hold);
    else if (what < 542)
        linger(hold);
    else if (what < 560)
        process_sleep_ms(below(hold->work, 5));
}

/* ---- the cycle ------------------------------------------------------------------------------- */

static uint32_t pick_name(struct work *work)
{
    int dice = below(work, 100);

    if (dice < 5)
        return (uint32_t)below(work, PROOF_HOT);
    if (dice < 15)
        return (uint32_t)below(work, PROOF_WRITTEN);
    return (uint32_t)below(work, PROOF_NAMES);
}

static int acquire(struct hold *hold)
{
    static const int64_t ttls[] = {300, 600, 1500};
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;
    struct work *work = hold->work;
    uint64_t began_ns = history_now_ns();
    rowlock_error err;
    char name[PROOF_NAME_SIZE];
    int status;

    options.ttl_ms = hold->ttl_ms = ttls[below(work, 3)];
    options.renew = below(work, 4) == 0;
    options.wait_ms = below(work, 4) == 0 ? 0 : 1 + below(work, 1500);
    proof_name(name, hold->name);
    status = rowlock_acquire(&hold->lock, work->client, name, &options, &err);
    if (status != ROWLOCK_OK) {
        hold_failed(hold, began_ns, status);
        if (status < 0)
            process_sleep_ms(5 + below(work, 20));
        return -1;
    }
    hold_granted(hold, began_ns);
    return 0;
}

static void release(struct hold *hold)
{
    uint64_t began_ns = history_now_ns();
    rowlock_error err;
    int status;

    hold_releases(hold, began_ns);
    status = rowlock_release(&hold->lock, &err);
    if (status != ROWLOCK_OK)
        hold_failed(hold, began_ns, status);
}

/* ---- many at once ---------------------------------------------------------------------------- */

enum { BATCH = 8 };

struct batch {
    struct hold holds[BATCH];
    rowlock_lock *locks[BATCH];
    char names[BATCH][PROOF_NAME_SIZE];
    const char *pointers[BATCH];
};

static void record_batch_failure(struct batch *batch, uint64_t began_ns, int status)
{
    for (int i = 0; i < BATCH; i++)
        hold_failed(&batch->holds[i], began_ns, status);
}

static int acquire_batch(struct batch *batch, struct work *work)
{
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;
    uint64_t began_ns = history_now_ns();
    rowlock_error err;
    int status;

    options.ttl_ms = 1000;
    options.wait_ms = below(work, 500);
    status =
        rowlock_acquire_many(batch->locks, work->client, batch->pointers, BATCH, &options, &err);
    if (status != ROWLOCK_OK) {
        record_batch_failure(batch, began_ns, status);
        return -1;
    }
    for (int i = 0; i < BATCH; i++) {
        struct hold *hold = &batch->holds[i];

        hold->lock = batch->locks[i];
        hold_granted(hold, began_ns);
    }
    return 0;
}

/* Names that follow each other: none is there twice. */
static int use_batch(struct work *work)
{
    uint32_t first = PROOF_WRITTEN + (uint32_t)below(work, PROOF_NAMES - PROOF_WRITTEN - BATCH);
    struct batch batch = {0};
    uint64_t began_ns;
    rowlock_error err;
    int status;

    for (uint32_t i = 0; i < BATCH; i++) {
        batch.holds[i] = (struct hold){.work = work, .name = first + i};
        proof_name(batch.names[i], first + i);
        batch.pointers[i] = batch.names[i];
    }
    if (acquire_batch(&batch, work) != 0)
        return batch.holds[0].is_full;
    for (int i = 0; i < BATCH; i++)
        hold_check(&batch.holds[i]);
    began_ns = history_now_ns();
    for (int i = 0; i < BATCH; i++)
        hold_releases(&batch.holds[i], began_ns);
    status = rowlock_release_many(NULL, batch.locks, BATCH, &err);
    if (status != ROWLOCK_OK)
        record_batch_failure(&batch, began_ns, status);
    return batch.holds[BATCH - 1].is_full;
}

const char *work_on(struct work *work)
{
    struct store store = {work->kind, work->address, NULL};
    struct hold hold = {.work = work, .store = &store};

    while (!should_stop(work) && !hold.is_full) {
        if (below(work, 8) == 0) {
            hold.is_full = use_batch(work);
            continue;
        }
        hold.name = pick_name(work);
        hold.fence = 0;
        if (acquire(&hold) != 0)
            continue;
        do_something(&hold);
        hold_check(&hold);
        release(&hold);
    }
    store_disconnect(&store);
    return hold.is_full ? "the history is full" : NULL;
}
