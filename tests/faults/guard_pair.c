/* SPDX-License-Identifier: MIT */
#include "guard_pair.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

enum { PATIENCE_MS = 30000 };

struct player {
    struct pair *pair;
    rowlock_client *client;
    struct native native;
    char name[32];
    int round;
};

/* ---- both ------------------------------------------------------------------------------------ */

static int complain(struct player *p, const char *what, int status, const char *message)
{
    if (__atomic_fetch_add(&p->pair->errors, 1, __ATOMIC_SEQ_CST) == 0)
        snprintf(p->pair->message, sizeof(p->pair->message), "round %d: %s: %d: %.180s", p->round,
                 what, status, message);
    return -1;
}

static int enter(struct player *p, struct pair *pair)
{
    rowlock_options options = ROWLOCK_OPTIONS_INIT;
    rowlock_error err;
    int status;

    *p = (struct player){.pair = pair};
    snprintf(p->name, sizeof(p->name), "guard-%d", pair->number);
    options.max_connections = 1;
    options.call_timeout_ms = options.connect_timeout_ms = PATIENCE_MS;
    status = fault_try_open(&p->client, fault.backend.address, &options, &err);
    if (status != ROWLOCK_OK)
        return complain(p, "open", status, err.message);
    if (native_open(&p->native, fault.backend.address, 0) != 0)
        return complain(p, "connect", -1, "");
    return 0;
}

static int leave(struct player *p)
{
    native_close(&p->native);
    rowlock_close(&p->client);
    return p->pair->errors == 0 ? 0 : 1;
}

static int take(struct player *p, rowlock_lock **out, int64_t ttl_ms, int64_t wait_ms)
{
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;
    rowlock_error err;
    int status;

    options.ttl_ms = ttl_ms;
    options.wait_ms = wait_ms;
    status = rowlock_acquire(out, p->client, p->name, &options, &err);
    /* A short one may have too little time, on a machine that has much else to do. */
    if (status != ROWLOCK_OK && status != ROWLOCK_TIMEOUT &&
        (wait_ms == PATIENCE_MS || !err.retryable))
        complain(p, "acquire", status, err.message);
    return status;
}

static void let_go(struct player *p, rowlock_lock **lock)
{
    rowlock_error err;
    int status = rowlock_release(lock, &err);

    if (status != ROWLOCK_OK && status != ROWLOCK_LOST)
        complain(p, "release", status, err.message);
}

static int sql(struct player *p, const char *statement)
{
    return native_run(&p->native, "%s", statement) == 0
               ? 0
               : complain(p, statement, -1, p->native.message);
}

static int write_fence(struct player *p, uint64_t fence)
{
    if (native_run(&p->native, "INSERT INTO %sledger (pair, fence) VALUES (%d, %llu)", fault.prefix,
                   p->pair->number, (unsigned long long)fence) == 0)
        return 0;
    return complain(p, "write", -1, p->native.message);
}

/* ---- the holder ------------------------------------------------------------------------------ */

static void reach(struct player *p, enum stage stage)
{
    struct pair *pair = p->pair;

    process_signal(&pair->at, p->round * STAGES + (int)stage);
    if (pair->pause_at != (int)stage)
        return;
    if (pair->plan == PLAN_WAIT)
        process_sleep_ms(pair->ttl_ms + pair->pause_ms);
    else if (process_await(&pair->resume, p->round, PATIENCE_MS) != 0)
        complain(p, "the holder was forgotten", (int)stage, "");
}

/* May the write go on? */
static int guard(struct player *p, rowlock_lock *lock)
{
    rowlock_error err = {0};
    int status = p->pair->guarded ? native_guard(lock, &p->native, &err) : ROWLOCK_OK;
    int again = status == ROWLOCK_EDRIVER && err.retryable;

    p->pair->lost += status == ROWLOCK_LOST;
    p->pair->busy += again;
    if (status != ROWLOCK_OK && status != ROWLOCK_LOST && !again)
        complain(p, "guard", status, err.message);
    return status == ROWLOCK_OK;
}

static int take_short(struct player *p, rowlock_lock **out)
{
    int64_t until = process_now_ms() + PATIENCE_MS;
    int status;

    do {
        status = take(p, out, p->pair->ttl_ms, PATIENCE_MS);
    } while (status == ROWLOCK_TIMEOUT && process_now_ms() < until);
    return status;
}

static void hold_once(struct player *p)
{
    struct pair *pair = p->pair;
    rowlock_lock *lock = NULL;

    if (take_short(p, &lock) != ROWLOCK_OK) {
        complain(p, "the holder was never granted the lock", ROWLOCK_TIMEOUT, "");
        return;
    }
    pair->fence = rowlock_fence(lock);
    reach(p, STAGE_ACQUIRED);
    sql(p, "BEGIN");
    reach(p, STAGE_BEGUN);
    if (guard(p, lock)) {
        reach(p, STAGE_GUARDED);
        write_fence(p, pair->fence);
        reach(p, STAGE_WRITTEN);
        if (native_commit(&p->native) == 0)
            pair->committed++;
        else
            pair->undone++;
    } else {
        sql(p, "ROLLBACK");
    }
    let_go(p, &lock);
}

int pair_hold(void *payload)
{
    struct pair *pair = payload;
    struct player p;

    if (enter(&p, pair) != 0)
        return 1;
    for (;;) {
        p.round++;
        if (process_await(&pair->go, p.round, PATIENCE_MS) != 0)
            return 1;
        if (pair->plan == PLANS)
            break;
        hold_once(&p);
        process_signal(&pair->at, p.round * STAGES + STAGE_DONE);
    }
    return leave(&p);
}

/* ---- the keeper ------------------------------------------------------------------------------ */

static int below(struct pair *pair, int n)
{
    return (int)((unsigned)rand_r(&pair->seed) % (unsigned)n);
}

/* Picks what happens in this round, and starts it. */
static void start_round(struct player *p)
{
    struct pair *pair = p->pair;

    do {
        pair->plan = (enum plan)below(pair, PLANS);
    } while ((pair->plans & 1U << pair->plan) == 0);
    pair->pause_at = STAGE_BEGUN;
    if (pair->plan == PLAN_STOP)
        pair->pause_at = STAGE_BEGUN + below(pair, pair->last_stage - STAGE_BEGUN + 1);
    if (pair->plan == PLAN_WAIT)
        pair->pause_at = STAGE_WRITTEN;
    if (pair->plan == PLAN_ANY)
        pair->pause_at = 0;
    pair->pause_ms = below(pair, 30);
    pair->ttl_ms = pair->plan == PLAN_FORCE ? 10000 : 50 + below(pair, 30);
    process_signal(&pair->go, p->round);
}

static int await(struct player *p, int stage)
{
    if (process_await(&p->pair->at, p->round * STAGES + stage, PATIENCE_MS) == 0)
        return 0;
    return complain(p, "the holder does not come to stage", stage, "");
}

static void let_go_on(struct player *p)
{
    process_signal(&p->pair->resume, p->round);
    kill(p->pair->holder, SIGCONT);
}

/* Fences of the holder's that are committed by now and lower than ours. */
static long long committed(struct player *p, uint64_t fence)
{
    long long n =
        native_number(&p->native, "SELECT COUNT(*) FROM %sledger WHERE pair = %d AND fence < %llu",
                      fault.prefix, p->pair->number, (unsigned long long)fence);

    if (n < 0)
        complain(p, "count", -1, p->native.message);
    return n;
}

/* Stops the holder as planned; 1 if it is stopped now. */
static int stop_holder(struct player *p)
{
    struct pair *pair = p->pair;

    if (await(p, pair->plan == PLAN_ANY ? STAGE_ACQUIRED : pair->pause_at) != 0)
        return 0;
    if (pair->plan == PLAN_WAIT)
        return 0;
    if (pair->plan == PLAN_ANY && below(pair, 4) > 0)
        process_sleep_ms(below(pair, 3));
    kill(pair->holder, SIGSTOP);
    if (pair->plan != PLAN_RACE)
        return 1;
    process_sleep_ms(below(pair, (int)pair->ttl_ms + 10));
    let_go_on(p);
    return 0;
}

static void force(struct player *p, uint64_t fence)
{
    rowlock_force_options options = ROWLOCK_FORCE_OPTIONS_INIT;
    rowlock_error err;
    int status;

    options.fence = fence;
    status = rowlock_force_release(p->client, p->name, &options, &err);
    if (status != ROWLOCK_OK)
        complain(p, "force", status, err.message);
}

/* Our own work under the lock. The holder goes on before it or after. */
static void keep(struct player *p, rowlock_lock *lock, int stopped)
{
    struct pair *pair = p->pair;
    uint64_t fence = rowlock_fence(lock);
    long long granted = committed(p, fence);
    long long done, after;
    rowlock_error err;

    if (stopped && below(pair, 2)) {
        let_go_on(p);
        stopped = 0;
    }
    sql(p, "BEGIN");
    if (pair->guarded && native_guard(lock, &p->native, &err) != ROWLOCK_OK)
        complain(p, "the keeper's guard", err.status, err.message);
    write_fence(p, fence);
    if (native_commit(&p->native) != 0)
        complain(p, "the keeper's COMMIT", -1, p->native.message);
    done = committed(p, fence);
    if (stopped)
        let_go_on(p);
    await(p, STAGE_DONE);
    after = committed(p, fence);
    pair->late += after > granted;
    pair->stale += after > done;
}

static void keep_once(struct player *p)
{
    struct pair *pair = p->pair;
    rowlock_lock *lock = NULL;
    int stopped, status, is_unknown;

    start_round(p);
    stopped = stop_holder(p);
    if (pair->plan == PLAN_FORCE)
        force(p, pair->fence);
    status = take(p, &lock, PATIENCE_MS, stopped ? pair->ttl_ms + 100 : PATIENCE_MS);
    pair->taken += stopped && status == ROWLOCK_OK;
    is_unknown = status == ROWLOCK_EUNKNOWN;
    if (status != ROWLOCK_OK) {
        let_go_on(p);
        stopped = 0;
        status = take(p, &lock, PATIENCE_MS, PATIENCE_MS);
    }
    if (status == ROWLOCK_OK) {
        keep(p, lock, stopped);
        if (is_unknown) /* there may be two holds */
            force(p, rowlock_fence(lock));
        let_go(p, &lock);
    } else {
        complain(p, "the keeper was never granted the lock", status, "");
    }
    pair->played++;
}

int pair_keep(void *payload)
{
    struct pair *pair = payload;
    struct player p;

    if (enter(&p, pair) != 0)
        return 1;
    while (p.round < pair->rounds && pair->errors == 0 &&
           (pair->enough == 0 || pair->stale < pair->enough)) {
        p.round++;
        keep_once(&p);
    }
    pair->plan = PLANS;
    process_signal(&pair->go, p.round + 1);
    let_go_on(&p);
    return leave(&p);
}
