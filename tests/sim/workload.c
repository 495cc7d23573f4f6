/* SPDX-License-Identifier: MIT
 *
 * Processes and threads, from the first call to the last, and the handles that they have. */
#include "workload.h"

#include <stdlib.h>
#include <string.h>

uint64_t sim_operation_counts[64];

static int apps_running, apps_pending;

int __real_rlk_enter(rowlock_client *client, rowlock_error *err);
int __wrap_rlk_enter(rowlock_client *client, rowlock_error *err);
void __real_rlk_exit_add(rowlock_client *client);
void __wrap_rlk_exit_add(rowlock_client *client);
void __real_rlk_exit_remove(rowlock_client *client);
void __wrap_rlk_exit_remove(rowlock_client *client);
int __wrap_gethostname(char *name, size_t size);

/* ---- where the library and the simulator meet ---- */

enum { MOST_ENTERING = 400, MOST_LISTED = 1000 };

static sim_task *entering[MOST_ENTERING]; /* tasks that are about to enter, and their apps */
static sim_app *entering_of[MOST_ENTERING];
static size_t entering_count;
static struct {
    rowlock_client *client;
    sim_process *process;
} listed[MOST_LISTED];
static size_t listed_count;

static void has_entered(void)
{
    for (size_t i = 0; i < entering_count; i++) {
        if (entering[i] == sched_self()) {
            entering_of[i]->entering--;
            entering_count--;
            entering[i] = entering[entering_count];
            entering_of[i] = entering_of[entering_count];
            return;
        }
    }
}

int __wrap_rlk_enter(rowlock_client *client, rowlock_error *err)
{
    int rc = __real_rlk_enter(client, err);

    has_entered();
    return rc;
}

/* The list of clients in exit.c is one for all our processes. */
void __wrap_rlk_exit_add(rowlock_client *client)
{
    if (listed_count < MOST_LISTED) {
        listed[listed_count].client = client;
        listed[listed_count++].process = sched_process();
    }
    __real_rlk_exit_add(client);
}

void __wrap_rlk_exit_remove(rowlock_client *client)
{
    __real_rlk_exit_remove(client);
    for (size_t i = 0; i < listed_count;) {
        if (listed[i].client == client)
            listed[i] = listed[--listed_count];
        else
            i++;
    }
}

int __wrap_gethostname(char *name, size_t size)
{
    snprintf(name, size, "host");
    return 0;
}

int app_enter(sim_thread *t)
{
    sim_app *app = t->app;

    if (app->is_closing || app->client == NULL || entering_count == MOST_ENTERING)
        return 0;
    app->entering++;
    entering[entering_count] = sched_self();
    entering_of[entering_count++] = app;
    return 1;
}

void app_leave(sim_thread *t)
{
    (void)t;
    has_entered(); /* if it has not been inside */
}

int64_t app_call_us(const sim_app *app)
{
    return app->options.call_timeout_ms * 1000;
}

void app_sleep(int64_t us)
{
    rlk_sleep_until(rlk_clock_us() + us, NULL, 0);
}

/* ---- handles ---- */

sim_hold *hold_new(sim_thread *t)
{
    sim_hold *hold = sim_alloc(sizeof *hold);

    hold->thread = t;
    return hold;
}

void hold_add(sim_thread *t, sim_hold *hold, rowlock_lock *lock, int name, int64_t since_us,
              const rowlock_acquire_options *options)
{
    hold->lock = lock;
    hold->handle = invariants_add(lock, name, since_us);
    hold->handle->is_renewed =
        options->renew && (options->ttl_ms == 0 ? t->app->options.ttl_ms : options->ttl_ms) >
                              t->app->options.call_timeout_ms * 3 / 2;
    if (options->max_hold_ms != 0)
        invariants_max_held(hold->handle);
    hold->handle->has_callback = options->on_lost != NULL;
    hold->handle->is_told = hold->was_told;
    hold->closed = t->app->closed;
    t->held[t->n_held++] = hold;
}

void hold_remove(sim_thread *t, int at)
{
    for (int i = at; i + 1 < t->n_held; i++)
        t->held[i] = t->held[i + 1];
    t->n_held--;
}

static int64_t release_bound(const sim_app *app, const sim_hold *hold)
{
    return app_call_us(app) * (hold->handle->has_callback ? 4 : 1);
}

void release_one(sim_thread *t, int at)
{
    sim_hold *hold = t->held[at];
    rowlock_error err;
    sim_call call;
    int rc, before;

    hold_remove(t, at);
    for (int i = 0; i < 500 && hold->is_left_to_callback && !hold->is_released; i++) {
        if (hold->closed != t->app->closed || sim_failed[0] != '\0')
            break;
        app_sleep(20000);
    }
    if (hold->is_released)
        return;
    hold->is_left_to_callback = 0;
    before = rowlock_check(hold->lock);
    if (before == ROWLOCK_LOST)
        invariants_loss(hold->handle, rowlock_loss(hold->lock));
    invariants_remove(hold->handle);
    call_begins(&call, "release");
    rc = rowlock_release(&hold->lock, &err);
    call_ends(&call, rc, release_bound(t->app, hold), !hold->handle->has_callback);
    if (before == ROWLOCK_LOST && rc != ROWLOCK_LOST && rc != ROWLOCK_ECLOSED)
        sim_fail("lost", "release of a lock that was lost is %d: %s", rc, err.message);
    if (rc == ROWLOCK_ECONNECT && !sim.has_tx && net_is_calm(call.true_us - 3000000) &&
        sched_process()->stalled_us == call.stalled_us)
        sim_fail("release", "a release failed with nothing wrong: %s", err.message);
}

void release_all(sim_thread *t)
{
    while (t->n_held > 0)
        release_one(t, t->n_held - 1);
}

/* Told once, when the check says so, too. It may release the handle, if nobody else uses it. */
void on_lost(rowlock_lock *lock, int loss, void *payload)
{
    sim_hold *hold = payload;
    rowlock_error err;
    int rc = rowlock_check(lock);

    trace("%s: on_lost (%d)", sched_name(sched_self()), loss);
    if (rc != ROWLOCK_LOST && rc != ROWLOCK_ECLOSED)
        sim_fail("on_lost", "on_lost is called, and rowlock_check() is %d", rc);
    if (hold->handle == NULL) {
        hold->was_told = 1; /* the call that acquired it has not returned */
        return;
    }
    if (hold->handle->is_told)
        sim_fail("on_lost", "on_lost is called twice for one handle");
    hold->handle->is_told = 1;
    invariants_loss(hold->handle, loss);
    if (hold->is_left_to_callback) {
        hold->is_released = 1;
        invariants_remove(hold->handle);
        rowlock_release(&lock, &err);
    } else if (rng_below(&sim_trouble, 4) == 0) {
        rowlock_renew(lock, 0, &err);
    }
}

/* ---- events ---- */

static void on_event(const rowlock_event *event, void *payload)
{
    sim_app *app = payload;
    rowlock_counters counters = ROWLOCK_COUNTERS_INIT;
    sim_thread t = {.app = app};

    digest((uint64_t)event->kind);
    if (rng_below(&sim_trouble, 16) != 0 || !app_enter(&t))
        return;
    rowlock_stats(&counters, app->client, NULL);
    app_leave(&t);
}

/* ---- threads ---- */

static void choose(sim_thread *t)
{
    int total = 0, at;

    for (size_t i = 0; i < sim_operation_count; i++)
        total += sim_operations[i].needs_tx && !sim.has_tx ? 0 : sim_operations[i].weight;
    at = (int)rng_below(&t->rng, total);
    for (size_t i = 0; i < sim_operation_count; i++) {
        const sim_operation *o = &sim_operations[i];

        at -= o->needs_tx && !sim.has_tx ? 0 : o->weight;
        if (at < 0) {
            sim_operation_counts[i]++;
            trace("%s: operation %llu, %s", sched_name(sched_self()),
                  (unsigned long long)t->operation, o->name);
            o->run(t);
            return;
        }
    }
}

static int is_time_up(void)
{
    return sim_now >= sim.length_us;
}

/* The client is being closed: gives up what it has, and waits for the next. */
static void stand_aside(sim_thread *t)
{
    release_all(t);
    t->app->users--;
    while ((t->app->is_closing || t->app->client == NULL) && sim_failed[0] == '\0')
        app_sleep(10000);
    t->app->users++;
}

static void *run_thread(void *arg)
{
    sim_thread *t = arg;
    sim_app *app = t->app;
    uint64_t first = ((uint64_t)app->process->pid * MOST_THREADS + (uint64_t)t->index) * 100000;

    app->users++;
    for (uint64_t i = 0; !is_time_up() && sim_failed[0] == '\0'; i++) {
        t->operation = first + i;
        t->rng.state = sim.seed * UINT64_C(0x9e3779b97f4a7c15) + t->operation;
        app_sleep(rng_below(&t->rng, rng_below(&t->rng, sim.think_us)));
        if (app->is_closing || app->client == NULL)
            stand_aside(t);
        else if (!sim_skips(t->operation))
            choose(t);
    }
    release_all(t);
    app->users--;
    app->running--;
    return NULL;
}

/* ---- processes ---- */

static int64_t close_bound(const sim_app *app)
{
    return app_call_us(app) * 12 + 3000000;
}

static void close_client(sim_app *app)
{
    rowlock_client *client = app->client;
    sim_call call;

    app->is_closing = 1;
    while ((app->entering > 0 || app->offers > 0) && sim_failed[0] == '\0')
        app_sleep(500);
    app->client = NULL;
    call_begins(&call, "close");
    rowlock_close(&client);
    call_ends(&call, 0, close_bound(app), 0);
    app->closed++;
}

static int open_client(sim_app *app)
{
    rowlock_client *client;
    rowlock_error err;
    sim_call call;
    int rc;

    call_begins(&call, "open");
    rc = rowlock_open(&client, sim_driver(), "sim", &app->options, &err);
    /* The version is asked for before and after a migration, which may take a minute. */
    call_ends(&call, rc,
              app->options.connect_timeout_ms * 1000 + 3 * app_call_us(app) +
                  (sim.has_tables ? 0 : INT64_C(60000000)),
              0);
    app->client = rc == ROWLOCK_OK ? client : NULL;
    return rc == ROWLOCK_OK;
}

static void choose_options(sim_app *app, sim_rng *rng)
{
    rowlock_options *o = &app->options;

    *o = (rowlock_options)ROWLOCK_OPTIONS_INIT;
    o->call_timeout_ms = rng_between(rng, 400, 3000);
    o->connect_timeout_ms = rng_between(rng, 200, 2000);
    o->ttl_ms = rng_between(rng, 200, 8000);
    o->max_connections = (uint32_t)rng_between(rng, 1, 5);
    o->max_wait_connections = (uint32_t)rng_between(rng, 1, 3);
    o->ticket_ms = rng_between(rng, 1000, 5000);
    o->on_event = rng_below(rng, 2) ? on_event : NULL;
    o->event_payload = app;
    o->schema_policy = (int32_t)rng_below(rng, 2);
    if (rng_below(rng, 3) == 0) {
        o->reap_interval_ms = rng_between(rng, 500, 3000);
        o->reap_retention_ms = rng_between(rng, 1000, 5000);
    }
    switch (rng_below(rng, 4)) {
    case 0:
        snprintf(app->owner, sizeof app->owner, "owner-%d", app->process->index);
        o->owner = app->owner;
        break;
    case 1:
        snprintf(app->owner, sizeof app->owner, "common");
        o->owner = app->owner;
        break;
    default:
        break;
    }
}

static void *run_process(void *arg)
{
    sim_app *app = arg;
    sim_rng rng = {sim.seed * 977 + (uint64_t)app->process->pid};
    int threads = (int)rng_between(&rng, 1, sim.threads);

    choose_options(app, &rng);
    while (!open_client(app) && !is_time_up() && sim_failed[0] == '\0')
        app_sleep(rng_between(&rng, 1000, 300000));
    for (int i = 0; i < threads && app->client != NULL; i++) {
        sim_thread *t = sim_alloc(sizeof *t);
        char name[16];

        t->app = app;
        t->index = i;
        app->running++;
        snprintf(name, sizeof name, "t%d", i);
        sched_start(app->process, name, run_thread, t);
    }
    while (app->running > 0 && sim_failed[0] == '\0') {
        app_sleep(rng_between(&rng, 10000, 400000));
        if (app->running == 0 || is_time_up() || rng_below(&rng, 60) != 0)
            continue;
        close_client(app);
        while (app->users > 0 && sim_failed[0] == '\0')
            app_sleep(10000);
        while (!open_client(app) && sim_failed[0] == '\0' &&
               sim_now < sim.length_us + INT64_C(30000000))
            app_sleep(rng_between(&rng, 1000, 300000));
        app->is_closing = app->client == NULL;
        if (app->client == NULL)
            break;
    }
    if (app->client != NULL)
        close_client(app);
    apps_running--;
    return NULL;
}

static void start_process(void *arg)
{
    sim_app *app = sim_alloc(sizeof *app);

    app->process = process_new((int)(intptr_t)arg);
    app->process->app = app;
    apps_running++;
    apps_pending--;
    sched_start(app->process, "main", run_process, app);
}

void workload_start(void)
{
    apps_running = 0;
    apps_pending = sim.processes;
    entering_count = listed_count = 0;
    operations_reset();
    for (int i = 0; i < sim.processes; i++)
        start_process((void *)(intptr_t)i);
    nemesis_start();
}

int workload_is_over(void)
{
    return apps_running == 0 && apps_pending == 0;
}

/* It is gone from one moment to the next; another takes its place. */
void workload_kill(sim_process *process)
{
    sched_kill(process);
    process->is_dead = 1;
    net_kill(process);
    seam_forget(process);
    memory_forget(process);
    invariants_forget(process);
    for (size_t i = 0; i < listed_count;) {
        if (listed[i].process == process)
            __wrap_rlk_exit_remove(listed[i].client);
        else
            i++;
    }
    for (size_t i = 0; i < entering_count;) {
        if (entering_of[i]->process == process) {
            entering[i] = entering[--entering_count];
            entering_of[i] = entering_of[entering_count];
        } else {
            i++;
        }
    }
    apps_running--;
    if (sim_now < sim.length_us && sim_process_count < MOST_PROCESSES - 20) {
        apps_pending++;
        sched_at(sim_now + rng_between(&sim_trouble, 1000, 1000000), start_process,
                 (void *)(intptr_t)process->index);
    }
}
