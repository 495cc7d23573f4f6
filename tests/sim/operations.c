/* SPDX-License-Identifier: MIT
 *
 * What threads do: one operation after another, with options at random. */
#include <stdlib.h>
#include <string.h>

#include "workload.h"

#define RNG (&t->rng)

static int name_of(sim_thread *t)
{
    return (int)rng_below(RNG, sim.names);
}

/* ---- acquiring ---- */

static int64_t wait_bound(const sim_app *app, int64_t wait_ms)
{
    int64_t us = wait_ms * 1000, rest = us / 10;

    if (wait_ms == 0)
        return app_call_us(app) + 30000;
    if (rest > app_call_us(app))
        rest = app_call_us(app);
    us += rest < 30000 ? 30000 : rest;
    return us < 100000 ? 100000 : us;
}

static rowlock_acquire_options options_of(sim_thread *t, sim_hold *hold, int64_t wait_ms)
{
    rowlock_acquire_options o = ROWLOCK_ACQUIRE_OPTIONS_INIT;

    o.ttl_ms = rng_below(RNG, 3) == 0 ? 0 : rng_between(RNG, 50, rng_below(RNG, 2) ? 400 : 8000);
    if (rng_below(RNG, 12) == 0)
        o.ttl_ms = rng_between(RNG, 10000, 30000);
    o.wait_ms = wait_ms;
    o.renew = rng_below(RNG, 2) == 0;
    o.max_hold_ms = rng_below(RNG, 8) == 0 ? rng_between(RNG, 50, 4000) : 0;
    o.barge = rng_below(RNG, 10) == 0;
    o.note = rng_below(RNG, 4) == 0 ? "note" : NULL;
    if (rng_below(RNG, 2) == 0) {
        o.on_lost = on_lost;
        o.lost_payload = hold;
    }
    if (rng_below(RNG, 12) == 0)
        o.owner = "another";
    return o;
}

/* Statuses that an acquire may have at all. */
static void check_status(int rc, int64_t wait_ms, const rowlock_error *err)
{
    if (rc != err->status)
        sim_fail("status", "the call is %d, and err says %d", rc, err->status);
    if ((rc == ROWLOCK_TIMEOUT && wait_ms == 0) || (rc == ROWLOCK_BUSY && wait_ms != 0) ||
        rc == ROWLOCK_LOST || rc == ROWLOCK_EFORK || rc == ROWLOCK_EINVAL)
        sim_fail("status", "acquire is %d with wait_ms %lld: %s", rc, (long long)wait_ms,
                 err->message);
    if (rc == ROWLOCK_ENOMEM && sim.chance[FAULT_MEMORY] == 0 &&
        sim.chance[FAULT_DESCRIPTORS] == 0 && sim.chance[FAULT_THREADS] == 0)
        sim_fail("status", "acquire is ENOMEM, and there is memory: %s", err->message);
}

/* What is certainly not held must not be there: the row has no attempt of this call, unless one of
 * its requests may still be on its way. */
static void check_certain(sim_thread *t, int rc, int name, uint64_t first_attempt,
                          int64_t since_time, const char *owner)
{
    const sim_row *row = model_find(sim_name(name), strlen(sim_name(name)));
    uint64_t number = 0;

    if (rc != ROWLOCK_ECONNECT || row == NULL || !model_is_live(row) || owner != NULL ||
        t->app->options.owner != NULL || t->app->client == NULL || sim.chance[FAULT_LATE] > 0 ||
        sim.chance[FAULT_REPEAT] > 0 || sim.chance[FAULT_CLOCK_BACK] > 0 ||
        row->acquire_time < since_time)
        return;
    for (int i = 8; i < ROWLOCK_ATTEMPT_SIZE; i++)
        number = number << 8 | row->attempt[i];
    if (memcmp(row->attempt, &t->app->client->attempt, 8) == 0 && number > first_attempt &&
        strncmp(row->owner, t->app->client->owner_head, strlen(t->app->client->owner_head)) == 0 &&
        strtoull(strrchr(row->owner, 't') + 1, NULL, 10) == sched_number(sched_self()))
        sim_fail("certain", "acquire of %s is ECONNECT, and its owner has it", sim_name(name));
}

static int acquire(sim_thread *t, int name, int64_t wait_ms, rowlock_cancel *cancel)
{
    sim_hold *hold = hold_new(t);
    rowlock_acquire_options o = options_of(t, hold, wait_ms);
    rowlock_holder holder;
    rowlock_lock *lock;
    rowlock_error err;
    sim_wait wait;
    sim_call call;
    int64_t bound = cancel != NULL ? RLK_NEVER : wait_bound(t->app, wait_ms);
    uint64_t first;
    int64_t since_time = model_now();
    int rc;

    if (t->n_held == MOST_HELD || !app_enter(t))
        return ROWLOCK_ECLOSED;
    o.cancel = cancel;
    o.holder = &holder;
    first = atomic_load(&t->app->client->attempts);
    call_begins(&call, wait_ms == 0 ? "acquire" : "acquire with a wait");
    trace("  %s: %s, ttl %lld, wait %lld, renew %d, max_hold %lld, owner %s",
          sched_name(sched_self()), sim_name(name), (long long)o.ttl_ms, (long long)wait_ms,
          o.renew, (long long)o.max_hold_ms, o.owner == NULL ? "" : o.owner);
    if (wait_ms != 0)
        invariants_wait(&wait, name, 0);
    invariants_max_hold(name, o.max_hold_ms != 0);
    rc = rowlock_acquire(&lock, t->app->client, sim_name(name), &o, &err);
    invariants_max_hold(name, -(o.max_hold_ms != 0));
    if (wait_ms != 0)
        invariants_wait_over(&wait);
    if (rc == ROWLOCK_OK)
        hold_add(t, hold, lock, name, call.true_us, &o);
    check_certain(t, rc, name, first, since_time, o.owner);
    app_leave(t);
    call_ends(&call, rc, bound, wait_ms == 0 && sim.limit == 0);
    check_status(rc, wait_ms, &err);
    if (rc == ROWLOCK_OK && o.on_lost != NULL && !o.renew && !hold->handle->is_told &&
        rng_below(RNG, 6) == 0 && rowlock_check(lock) == ROWLOCK_OK)
        hold->is_left_to_callback = 1;
    return rc;
}

static void op_try(sim_thread *t)
{
    acquire(t, name_of(t), 0, NULL);
}

static void op_wait(sim_thread *t)
{
    int64_t longest = rng_below(RNG, 3) == 0 ? 100 : rng_below(RNG, 6) == 0 ? 30000 : 4000;

    acquire(t, name_of(t), rng_between(RNG, 1, longest), NULL);
}

/* The same name as one that it holds. */
static void op_reenter(sim_thread *t)
{
    if (t->n_held > 0)
        acquire(t, t->held[rng_below(RNG, t->n_held)]->handle->name, rng_below(RNG, 2) * 500, NULL);
    else
        op_try(t);
}

static void op_hold(sim_thread *t)
{
    if (acquire(t, name_of(t), rng_below(RNG, 3) * 1000, NULL) != ROWLOCK_OK)
        return;
    app_sleep(rng_between(RNG, 1000, 3000000));
    release_one(t, t->n_held - 1);
}

static void op_many(sim_thread *t)
{
    const char *names[MOST_HELD];
    int index[MOST_HELD], n = 0;
    rowlock_lock *locks[MOST_HELD];
    sim_hold *holds[MOST_HELD];
    rowlock_acquire_options o;
    int64_t wait_ms = rng_below(RNG, 2) ? 0 : rng_between(RNG, 10, 2000);
    rowlock_error err;
    sim_wait wait;
    sim_call call;
    int rc;

    for (int i = (int)rng_below(RNG, sim.names); i < sim.names && n + t->n_held < MOST_HELD;
         i += 1 + (int)rng_below(RNG, 2)) {
        index[n] = i;
        holds[n] = hold_new(t);
        names[n++] = sim_name(i);
    }
    if (n == 0 || !app_enter(t))
        return;
    if (n > 1 && rng_below(RNG, 2)) { /* not in byte order */
        const char *last = names[n - 1];
        int at = index[n - 1];

        names[n - 1] = names[0];
        index[n - 1] = index[0];
        names[0] = last;
        index[0] = at;
    }
    o = options_of(t, NULL, wait_ms);
    o.on_lost = NULL;
    call_begins(&call, "acquire_many");
    if (wait_ms != 0)
        invariants_wait(&wait, index[0], 1);
    for (int i = 0; i < n; i++)
        invariants_max_hold(index[i], o.max_hold_ms != 0);
    rc = rowlock_acquire_many(locks, t->app->client, names, (size_t)n, &o, &err);
    for (int i = 0; i < n; i++)
        invariants_max_hold(index[i], -(o.max_hold_ms != 0));
    if (wait_ms != 0)
        invariants_wait_over(&wait);
    for (int i = 0; rc == ROWLOCK_OK && i < n; i++)
        hold_add(t, holds[i], locks[i], index[i], call.true_us, &o);
    app_leave(t);
    call_ends(&call, rc, wait_bound(t->app, wait_ms), wait_ms == 0 && sim.limit == 0);
    check_status(rc, wait_ms, &err);
}

static void *fire(void *arg)
{
    app_sleep(rng_between(&sim_trouble, 0, 2000000));
    rowlock_cancel_fire(arg);
    return NULL;
}

/* A wait without an end, which another thread ends. */
static void op_cancel(sim_thread *t)
{
    rowlock_cancel *cancel;
    rowlock_error err;
    rlk_thread thread;
    int64_t since;

    if (rowlock_cancel_new(&cancel, &err) != ROWLOCK_OK)
        return;
    if (rlk_thread_start(&thread, "fire", fire, cancel) != 0) {
        rowlock_cancel_free(&cancel);
        return;
    }
    since = sim_now;
    acquire(t, name_of(t), rng_below(RNG, 2) ? ROWLOCK_FOREVER : 100000, cancel);
    /* The lock may have been had before it was fired; the wait ends within a second, or with the
     * request that is under way. */
    rlk_thread_join(thread, RLK_NEVER);
    if (sim_now - since > 2000000 + 3000000 + 2 * app_call_us(t->app) + 1000000 &&
        net_is_calm(since) && t->app->process->stalled_us == 0)
        sim_fail("cancel", "a wait went on for %lld us", (long long)(sim_now - since));
    rowlock_cancel_free(&cancel);
}

static int in_with(rowlock_lock *lock, void *payload)
{
    sim_thread *t = payload;
    sim_handle *h = invariants_add(lock, (int)rowlock_name(lock, NULL)[0] - 'a', sim_now);

    invariants_max_held(h); /* it may have one */
    app_sleep(rng_between(RNG, 0, 300000));
    invariants_remove(h);
    return 7;
}

static void op_with(sim_thread *t)
{
    rowlock_acquire_options o = options_of(t, NULL, rng_below(RNG, 2) * 500);
    rowlock_error err;
    int out = 0, rc;

    o.on_lost = NULL;
    if (!app_enter(t))
        return;
    rc = rowlock_with(&out, t->app->client, sim_name(name_of(t)), &o, in_with, t, &err);
    app_leave(t);
    if (rc == ROWLOCK_OK && out != 7)
        sim_fail("with", "rowlock_with() is OK and has not called fn");
}

/* ---- holding ---- */

static sim_hold *any_held(sim_thread *t)
{
    sim_hold *hold = t->n_held == 0 ? NULL : t->held[rng_below(RNG, t->n_held)];

    return hold == NULL || hold->is_left_to_callback ? NULL : hold;
}

/* A positive answer proves that it was held after the call began. */
static void op_renew(sim_thread *t)
{
    sim_hold *hold = any_held(t);
    int64_t ttl_ms = rng_below(RNG, 2) ? 0 : rng_between(RNG, 50, 8000);
    int is_ensure = rng_below(RNG, 3) == 0;
    rowlock_error err;
    sim_call call;
    int rc;

    if (hold == NULL) {
        op_try(t);
        return;
    }
    call_begins(&call, is_ensure ? "ensure" : "renew");
    rc = is_ensure ? rowlock_ensure(hold->lock, rng_between(RNG, 1, 3000), &err)
                   : rowlock_renew(hold->lock, ttl_ms, &err);
    /* All connections may have been taken by waiters whose locks are released on them; and why it
     * is lost is asked for on one that need not be there. */
    call_ends(&call, rc, app_call_us(t->app),
              sim.limit == 0 || (rc == ROWLOCK_OK && !sim.has_queue));
    if (rc != err.status || rc == ROWLOCK_TIMEOUT || rc == ROWLOCK_CANCELLED)
        sim_fail("status", "renew is %d, err says %d", rc, err.status);
    if (rc == ROWLOCK_LOST && rowlock_check(hold->lock) == ROWLOCK_OK)
        sim_fail("told", "renew is LOST, and rowlock_check() is OK");
}

static void op_release(sim_thread *t)
{
    if (t->n_held > 0)
        release_one(t, (int)rng_below(RNG, t->n_held));
}

static void op_release_many(sim_thread *t)
{
    rowlock_lock *locks[MOST_HELD];
    int statuses[MOST_HELD], is_lost[MOST_HELD];
    size_t n = 0;
    rowlock_error err;
    sim_call call;
    int rc, has_callback = 0;

    for (int i = t->n_held - 1; i >= 0; i--) {
        sim_hold *hold = t->held[i];

        if (hold->is_left_to_callback || rng_below(RNG, 4) == 0)
            continue;
        is_lost[n] = rowlock_check(hold->lock) == ROWLOCK_LOST;
        if (is_lost[n])
            invariants_loss(hold->handle, rowlock_loss(hold->lock));
        invariants_remove(hold->handle);
        has_callback |= hold->handle->has_callback;
        locks[n++] = hold->lock;
        hold_remove(t, i);
    }
    if (n == 0)
        return;
    call_begins(&call, "release_many");
    rc = rowlock_release_many(statuses, locks, n, &err);
    for (int i = 0; rc == ROWLOCK_ENOMEM && locks[0] != NULL && i < 10000; i++)
        rc = rowlock_release_many(statuses, locks, n, &err);
    call_ends(&call, rc, app_call_us(t->app) * (has_callback ? 4 : 1), 0);
    for (size_t i = 0; i < n; i++) {
        if (locks[i] != NULL)
            sim_fail("release_many", "a handle is left after %d", rc);
        else if (is_lost[i] && statuses[i] != ROWLOCK_LOST && statuses[i] != ROWLOCK_ECLOSED)
            sim_fail("lost", "release_many of a lock that was lost is %d", statuses[i]);
    }
}

static void op_detach(sim_thread *t)
{
    sim_hold *hold = any_held(t);
    rowlock_error err;

    if (hold == NULL)
        return;
    for (int i = 0; i < t->n_held; i++) {
        if (t->held[i] == hold)
            hold_remove(t, i);
    }
    invariants_remove(hold->handle);
    rowlock_detach(&hold->lock, &err);
}

static void op_lost_fd(sim_thread *t)
{
    sim_hold *hold = any_held(t);
    rowlock_error err;
    int fd;

    if (hold == NULL || (fd = rowlock_lost_fd(hold->lock, &err)) < 0)
        return;
    if (rlk_sleep_until(rlk_clock_us() + rng_between(RNG, 1000, 2000000), &fd, 1) == 0 &&
        rowlock_check(hold->lock) == ROWLOCK_OK)
        sim_fail("lost_fd", "the descriptor is readable, and rowlock_check() is OK");
    if (rowlock_remaining(hold->lock) > 0 && rowlock_loss(hold->lock) != ROWLOCK_LOSS_NONE)
        sim_fail("remaining", "a lock is lost, and has time left");
}

/* ---- a lock that changes the process ---- */

static struct {
    int is_open, is_taken;
    int name;
    uint64_t fence;
    char owner[OWNER_ROOM];
    const sim_process *by;
} offer;

void operations_reset(void)
{
    memset(&offer, 0, sizeof offer);
}

/* Its hold is given back once: by who adopts it. This one lets go when its own lease has ended, or
 * when nobody wants it. */
static void op_offer(sim_thread *t)
{
    sim_hold *hold;
    int is_taken;

    if (offer.is_open || t->n_held > 0 || t->app->options.owner != NULL)
        return;
    if (acquire(t, name_of(t), 0, NULL) != ROWLOCK_OK)
        return;
    hold = t->held[t->n_held - 1];
    if (hold->is_left_to_callback || hold->lock->renew || t->app->is_closing)
        return;
    offer.is_open = 1;
    offer.is_taken = 0;
    offer.name = hold->handle->name;
    offer.fence = hold->handle->fence;
    offer.by = t->app->process;
    snprintf(offer.owner, sizeof offer.owner, "%s", rowlock_owner(hold->lock));
    t->app->offers++;
    for (int i = 0; i < 300 && !offer.is_taken && !t->app->is_closing; i++)
        app_sleep(10000);
    is_taken = offer.is_taken;
    offer.is_open = 0;
    if (is_taken) /* from now on the other one counts on it */
        invariants_remove(hold->handle);
    while (is_taken && !t->app->is_closing && rowlock_check(hold->lock) == ROWLOCK_OK &&
           sim_failed[0] == '\0')
        app_sleep(20000);
    if (is_taken && rowlock_check(hold->lock) == ROWLOCK_OK) {
        rowlock_error err;

        hold_remove(t, t->n_held - 1);
        rowlock_detach(&hold->lock, &err);
    }
    t->app->offers--;
}

static void op_adopt(sim_thread *t)
{
    rowlock_acquire_options o = ROWLOCK_ACQUIRE_OPTIONS_INIT;
    sim_hold *hold = hold_new(t);
    char owner[OWNER_ROOM];
    rowlock_lock *lock;
    rowlock_error err;
    sim_call call;
    int rc, name = offer.name;

    if (!offer.is_open || offer.is_taken || offer.by == t->app->process || t->n_held == MOST_HELD ||
        !app_enter(t))
        return;
    offer.is_taken = 1;
    snprintf(owner, sizeof owner, "%s", offer.owner);
    o.owner = owner;
    o.renew = 1;
    o.ttl_ms = rng_between(RNG, 500, 6000);
    call_begins(&call, "adopt");
    rc = rowlock_adopt(&lock, t->app->client, sim_name(name), offer.fence, &o, &err);
    if (rc == ROWLOCK_OK)
        hold_add(t, hold, lock, name, call.true_us, &o);
    app_leave(t);
    call_ends(&call, rc, app_call_us(t->app), sim.limit == 0);
    if (rc != ROWLOCK_OK)
        return;
    app_sleep(rng_between(RNG, 100000, 4000000));
}

/* ---- looking ---- */

static int stop_row(const rowlock_row *row, void *payload)
{
    sim_thread *t = payload;

    if (row->hold_count == 0)
        sim_fail("list", "a lock is listed that nobody holds");
    return rng_below(RNG, 20) == 0;
}

static int stop_waiter(const rowlock_waiter *waiter, void *payload)
{
    sim_thread *t = payload;

    (void)waiter;
    return rng_below(RNG, 20) == 0;
}

static int stop_finding(const rowlock_finding *finding, void *payload)
{
    if (finding->grade == ROWLOCK_GRADE_BAD && strcmp(finding->subject, "exclusion") == 0 &&
        strncmp(finding->message, "not proved", 10) != 0)
        sim_fail("diagnose", "%s", finding->message);
    (void)payload;
    return 0;
}

static void op_look(sim_thread *t)
{
    rowlock_list_options o = ROWLOCK_LIST_OPTIONS_INIT;
    rowlock_counters counters = ROWLOCK_COUNTERS_INIT;
    rowlock_error err;
    sim_call call;
    int version, rc = 0;

    if (!app_enter(t))
        return;
    call_begins(&call, "look");
    switch (rng_below(RNG, 8)) {
    case 0:
        rc = rowlock_waiters(t->app->client, &o, stop_waiter, t, &err);
        break;
    case 1:
        rc = rowlock_schema_version(&version, t->app->client, &err);
        break;
    case 2:
        rc = rowlock_stats(&counters, t->app->client, &err);
        break;
    case 3:
        rc = model_row_count < MOST_ROWS - 12 && rng_below(RNG, 4) == 0
                 ? rowlock_diagnose(t->app->client, stop_finding, t, &err)
                 : 0;
        app_leave(t);
        call_ends(&call, rc, RLK_NEVER, 0);
        return;
    default:
        o.starts_with = rng_below(RNG, 2) ? sim_name(name_of(t)) : NULL;
        rc = rowlock_list(t->app->client, &o, stop_row, t, &err);
        break;
    }
    app_leave(t);
    call_ends(&call, rc, app_call_us(t->app), 0);
}

static void op_force(sim_thread *t)
{
    rowlock_force_options o = ROWLOCK_FORCE_OPTIONS_INIT;
    rowlock_error err;
    sim_call call;
    int rc;

    if (!app_enter(t))
        return;
    call_begins(&call, "force_release");
    rc = rowlock_force_release(t->app->client, sim_name(name_of(t)), &o, &err);
    app_leave(t);
    call_ends(&call, rc, app_call_us(t->app), 0);
}

static void op_reap(sim_thread *t)
{
    rowlock_reap_options o = ROWLOCK_REAP_OPTIONS_INIT;
    rowlock_error err;
    sim_call call;
    uint64_t count;
    int rc;

    if (!app_enter(t))
        return;
    o.retention_ms = rng_between(RNG, 1000, 5000);
    call_begins(&call, "reap");
    rc = rowlock_reap(&count, t->app->client, &o, &err);
    app_leave(t);
    call_ends(&call, rc, app_call_us(t->app), 0);
}

/* ---- what is refused, and the tables ---- */

static void expect(int rc, int wanted, const char *what)
{
    if (rc != wanted && !(rc == ROWLOCK_ENOMEM && sim.chance[FAULT_MEMORY] > 0))
        sim_fail("status", "%s is %d, and should be %d", what, rc, wanted);
}

static void op_bad(sim_thread *t)
{
    static const char *const twice[] = {"a", "a"};
    static char longest[ROWLOCK_NAME_MAX + 2];
    rowlock_acquire_options o = ROWLOCK_ACQUIRE_OPTIONS_INIT;
    rowlock_lock *lock = NULL, *locks[2];
    rowlock_client *client = t->app->client;
    rowlock_error err;
    rowlock_cancel *none = NULL;

    memset(longest, 'x', sizeof longest - 1);
    if (!app_enter(t))
        return;
    switch (rng_below(RNG, 9)) {
    case 0:
        o.ttl_ms = 1;
        expect(rowlock_acquire(&lock, client, "a", &o, &err), ROWLOCK_EINVAL, "ttl_ms of 1");
        break;
    case 1:
        expect(rowlock_acquire(&lock, client, longest, NULL, &err), ROWLOCK_EINVAL, "a long name");
        break;
    case 2:
        o.wait_ms = -7;
        expect(rowlock_acquire(&lock, client, "a", &o, &err), ROWLOCK_EINVAL, "wait_ms of -7");
        break;
    case 3:
        o.owner = "";
        expect(rowlock_acquire(&lock, client, "a", &o, &err), ROWLOCK_EINVAL, "an empty owner");
        break;
    case 4:
        o.reserved = 1;
        expect(rowlock_acquire(&lock, client, "a", &o, &err), ROWLOCK_EINVAL, "reserved");
        break;
    case 5:
        expect(rowlock_acquire_many(locks, client, twice, 2, NULL, &err), ROWLOCK_EINVAL,
               "a name twice");
        break;
    case 6:
        o.size = 3;
        expect(rowlock_acquire(&lock, client, "a", &o, &err), ROWLOCK_EINVAL, "a bad size");
        break;
    case 7:
        expect(rowlock_adopt(&lock, client, "a", 0, NULL, &err), ROWLOCK_EINVAL, "fence 0");
        break;
    default:
        expect(rowlock_release(&lock, &err), ROWLOCK_EINVAL, "release of nothing");
        expect(rowlock_release_many(NULL, NULL, 0, &err), ROWLOCK_OK, "release of none");
        expect(rowlock_check(NULL), ROWLOCK_EINVAL, "check of nothing");
        rowlock_cancel_fire(NULL);
        rowlock_cancel_free(&none);
        break;
    }
    app_leave(t);
}

static void op_migrate(sim_thread *t)
{
    rowlock_error err;
    char *sql;
    int rc;

    if (!app_enter(t))
        return;
    rc = rowlock_migrate(t->app->client, ROWLOCK_SCHEMA_LATEST, &err);
    app_leave(t);
    if (rc == ROWLOCK_OK && rowlock_migration_count(sim_driver()) != 1)
        sim_fail("migrate", "there is but one migration");
    if (rowlock_migration_sql(&sql, sim_driver(), 1, 1, NULL, &err) == ROWLOCK_OK)
        rowlock_free(sql);
    if (rowlock_migration_name(sim_driver(), 2) != NULL)
        sim_fail("migrate", "there is no second migration");
}

/* ---- transactions ---- */

static void op_tx(sim_thread *t)
{
    rowlock_tx_options o = ROWLOCK_TX_OPTIONS_INIT;
    const char *names[] = {sim_name(name_of(t)), sim_name(name_of(t))};
    size_t n = names[0] == names[1] ? 1 : 2;
    rowlock_tx *tx;
    rowlock_error err;
    sim_call call;
    int rc;

    if (!app_enter(t))
        return;
    o.wait_ms = rng_below(RNG, 2) ? 0 : rng_between(RNG, 10, 1500);
    o.in_line = rng_below(RNG, 4) == 0;
    call_begins(&call, "tx_begin");
    rc = rowlock_tx_begin(&tx, t->app->client, names, n, &o, &err);
    app_leave(t);
    call_ends(&call, rc, o.wait_ms * 1000 + app_call_us(t->app), 0);
    if (rc != ROWLOCK_OK)
        return;
    if (rng_below(RNG, 4) == 0)
        rowlock_native_connection(tx, sim_driver());
    app_sleep(rng_between(RNG, 0, rng_below(RNG, 4) == 0 ? 2000000 : 50000));
    call_begins(&call, "tx end");
    rc = rng_below(RNG, 4) ? rowlock_tx_commit(&tx, &err) : rowlock_tx_rollback(&tx, &err);
    call_ends(&call, rc, app_call_us(t->app), 0);
}

/* Locks and guards on a connection of the application's own. */
static void op_native(sim_thread *t)
{
    rowlock_tx_options o = ROWLOCK_TX_OPTIONS_INIT;
    sim_hold *hold = any_held(t);
    const char *name = sim_name(name_of(t));
    uint64_t fence;
    rowlock_error err;
    sim_session *s;
    sim_call call;
    int rc = ROWLOCK_OK;

    s = native_open(&err);
    if (s == NULL)
        return;
    if (native_begin(s, &err) == ROWLOCK_OK) {
        if (hold != NULL && rng_below(RNG, 2)) {
            hold->handle->is_exempt = 1;
            call_begins(&call, "guard");
            rc = rowlock_native_guard(hold->lock, sim_driver(), s, &err);
            call_ends(&call, rc, app_call_us(t->app), 0);
            if (rc == ROWLOCK_LOST && rowlock_check(hold->lock) == ROWLOCK_OK)
                sim_fail("told", "the guard is LOST, and rowlock_check() is OK");
        } else if (app_enter(t)) {
            o.wait_ms = rng_below(RNG, 2) * 300;
            call_begins(&call, "native lock");
            rc = rowlock_native_lock(&fence, t->app->client, sim_driver(), s, &name, 1, &o, &err);
            app_leave(t);
            call_ends(&call, rc, o.wait_ms * 1000 + app_call_us(t->app), 0);
        }
        app_sleep(rng_between(RNG, 0, 100000));
        native_end(s, rc == ROWLOCK_OK, &err);
    }
    native_close(s);
}

const sim_operation sim_operations[] = {
    {"try", 12, op_try, 0},         {"wait", 12, op_wait, 0},
    {"reenter", 6, op_reenter, 0},  {"hold", 8, op_hold, 0},
    {"many", 5, op_many, 0},        {"cancel", 3, op_cancel, 0},
    {"with", 4, op_with, 0},        {"renew", 8, op_renew, 0},
    {"release", 22, op_release, 0}, {"release_many", 6, op_release_many, 0},
    {"detach", 1, op_detach, 0},    {"lost_fd", 2, op_lost_fd, 0},
    {"offer", 3, op_offer, 0},      {"adopt", 4, op_adopt, 0},
    {"look", 4, op_look, 0},        {"force", 1, op_force, 0},
    {"reap", 1, op_reap, 0},        {"bad", 2, op_bad, 0},
    {"migrate", 1, op_migrate, 0},  {"tx", 6, op_tx, 1},
    {"native", 6, op_native, 1},
};
const size_t sim_operation_count = sizeof sim_operations / sizeof sim_operations[0];
