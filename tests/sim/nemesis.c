/* SPDX-License-Identifier: MIT
 *
 * What goes wrong with whole processes and with the server: a look every so often. */
#include "workload.h"

#define LOOK_US INT64_C(250000)

static sim_process *any_process(void)
{
    sim_process *found[MOST_PROCESSES];
    size_t n = 0;

    for (size_t i = 0; i < sim_process_count; i++) {
        if (!sim_processes[i]->is_dead && !sim_processes[i]->is_stranger)
            found[n++] = sim_processes[i];
    }
    return n == 0 ? NULL : found[rng_below(&sim_trouble, (int64_t)n)];
}

/* Somebody else's transaction on one of the rows. */
static void stranger_goes(void *arg)
{
    model_end_session(arg);
    net_retry();
}

static void stranger_comes(void)
{
    sim_session *s = sim_alloc(sizeof *s);
    int64_t us = rng_between(&sim_trouble, 1000, 2500000);

    if (model_row_count == 0)
        return;
    model_seize(&model_rows[rng_below(&sim_trouble, (int64_t)model_row_count)], s);
    net_trouble(sim_now + us);
    sched_at(sim_now + us, stranger_goes, s);
    trace("a stranger locks a row for %lld us", (long long)us);
}

static void kill_it(void *arg)
{
    sim_process *process = arg;

    if (!process->is_dead)
        workload_kill(process);
}

/* exit() runs the library's handler, and then everything is gone. */
static void *run_exit(void *arg)
{
    sim_process *process = arg;

    if (process->at_exit != NULL)
        process->at_exit();
    sched_at(sim_now, kill_it, process);
    sched_wait(arg, NULL, 0, RLK_NEVER);
    return NULL;
}

static void expect_fork(int rc, const char *what)
{
    if (rc != ROWLOCK_EFORK)
        sim_fail("fork", "%s in a child is %d", what, rc);
}

static int row_of_nobody(const rowlock_row *row, void *payload)
{
    (void)row;
    (void)payload;
    sim_fail("fork", "a child lists locks by its parent's client");
    return 1;
}

/* A child has the parent's handles, and may do nothing with them. */
static void *run_child(void *arg)
{
    sim_app *app = arg;
    rowlock_client *client = app->client;
    rowlock_lock *lock;
    rowlock_error err;
    const sim_handle *handle = invariants_any(app->process);

    if (client == NULL || app->is_closing || app->process->is_dead)
        return NULL;
    /* No wait is in there, and so the parent does not run meanwhile. */
    sched_freeze(sched_process());
    expect_fork(rowlock_acquire(&lock, client, "a", NULL, &err), "acquire");
    if (handle != NULL) {
        expect_fork(rowlock_check(handle->lock), "check");
        expect_fork(rowlock_renew(handle->lock, 0, &err), "renew");
        expect_fork(rowlock_native_guard(handle->lock, sim_driver(), app, &err), "guard");
    }
    expect_fork(rowlock_list(client, NULL, row_of_nobody, NULL, &err), "list");
    rowlock_close(&client);
    sched_thaw();
    return NULL;
}

static void fork_process(sim_process *process)
{
    sim_process *child = process_new(-1);

    child->is_stranger = 1;
    sched_start(child, "child", run_child, process->app);
}

static void look(void *arg)
{
    sim_process *process = any_process();

    (void)arg;
    if (sim_now >= sim.length_us)
        return;
    sched_at(sim_now + LOOK_US, look, NULL);
    if (sim_fault(FAULT_CRASH, &sim_trouble))
        net_crash(rng_between(&sim_trouble, 1000, 2000000));
    if (sim_fault(FAULT_CLOCK_BACK, &sim_trouble)) {
        int64_t us = rng_between(&sim_trouble, 1000, 4000000);

        model_step_us += us;
        net_trouble(sim_now + us);
        trace("the server's clock is set back by %lld us", (long long)us);
    }
    if (sim_fault(FAULT_STRANGER, &sim_trouble))
        stranger_comes();
    if (process == NULL)
        return;
    if (sim_fault(FAULT_PARTITION, &sim_trouble)) {
        int64_t us = rng_between(&sim_trouble, 10000, 5000000);

        process->partitioned_until_us = sim_now + us;
        net_trouble(sim_now + us);
        trace("process %d reaches nobody for %lld us", process->pid, (long long)us);
    }
    if (sim_fault(FAULT_PAUSE, &sim_trouble)) {
        int64_t us =
            rng_between(&sim_trouble, 10000, rng_below(&sim_trouble, 2) ? 300000 : 5000000);

        process_pause(process, us);
        trace("process %d is stopped for %lld us", process->pid, (long long)us);
    }
    if (sim_fault(FAULT_FORK, &sim_trouble) && sim_process_count < MOST_PROCESSES - 20)
        fork_process(process);
    if (sim_fault(FAULT_EXIT, &sim_trouble)) {
        trace("process %d exits", process->pid);
        net_trouble(sim_now + 10000000);
        sched_start(process, "exit", run_exit, process);
    } else if (sim_fault(FAULT_KILL, &sim_trouble)) {
        trace("process %d is killed", process->pid);
        net_trouble(sim_now + 10000000);
        workload_kill(process);
    }
}

void nemesis_start(void)
{
    sched_at(sim_now + LOOK_US, look, NULL);
}
