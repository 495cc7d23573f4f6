/* SPDX-License-Identifier: MIT */
#include "invariants.h"

#include <string.h>

#include "core.h"

#define TOLD_US     INT64_C(50000)   /* from the driver's answer until rowlock_check() knows */
#define SLACK_US    INT64_C(60000)   /* beyond a call's bound */
#define SLOW_US     INT64_C(90000)   /* a call that waits for nobody, when nothing is wrong */
#define BACKSTOP_US INT64_C(3500000) /* until somebody takes a lock that is free and wanted */
#define TICKET_US   INT64_C(5000000)
#define LATE_US     INT64_C(100000) /* from a loss to on_lost, if no other is being called */

enum { MOST_TOLD = 64, MOST_FORCED = 256, MOST_NAMES = 16 };

static sim_handle *handles;
static sim_wait *waits;

static struct {
    const sim_process *process;
    char name[32];
    uint64_t fence;
    int64_t at_us, stalled_us, step_us;
} told[MOST_TOLD];
static size_t told_at;

static struct {
    char name[32];
    uint64_t fence;
} forced[MOST_FORCED];
static size_t forced_count;

static int64_t free_since_us[MOST_NAMES];
static int max_hold_pending[MOST_NAMES];
static struct {
    int name;
    uint64_t fence;
} max_held[MOST_FORCED];
static size_t max_held_at;

void invariants_reset(void)
{
    handles = NULL;
    waits = NULL;
    memset(told, 0, sizeof told);
    memset(free_since_us, 0, sizeof free_since_us);
    memset(max_hold_pending, 0, sizeof max_hold_pending);
    memset(max_held, 0, sizeof max_held);
    told_at = forced_count = max_held_at = 0;
}

const char *sim_name(int index)
{
    static const char *const names[MOST_NAMES] = {"a", "b", "c", "d", "e", "f", "g", "h",
                                                  "i", "j", "k", "l", "m", "n", "o", "p"};

    return names[index];
}

/* ---- handles ---- */

sim_handle *invariants_add(rowlock_lock *lock, int name, int64_t since_us)
{
    sim_handle *h = sim_alloc(sizeof *h);

    sim_grants++;
    h->lock = lock;
    h->process = sched_process();
    h->name = name;
    h->fence = rowlock_fence(lock);
    h->since_us = since_us;
    h->added_us = sim_now;
    h->stalled_us = process_stalled(h->process);
    h->next = handles;
    handles = h;
    return h;
}

void invariants_remove(sim_handle *handle)
{
    for (sim_handle **at = &handles; *at != NULL; at = &(*at)->next) {
        if (*at == handle) {
            *at = handle->next;
            return;
        }
    }
}

void invariants_forget(const sim_process *process)
{
    for (sim_handle **at = &handles; *at != NULL;) {
        if ((*at)->process == process)
            *at = (*at)->next;
        else
            at = &(*at)->next;
    }
    for (sim_wait **at = &waits; *at != NULL;) {
        if ((*at)->process == process)
            *at = (*at)->next;
        else
            at = &(*at)->next;
    }
}

const sim_handle *invariants_any(const sim_process *process)
{
    const sim_handle *h = handles;

    while (h != NULL && h->process != process)
        h = h->next;
    return h;
}

void invariants_forced(const char *name, uint64_t fence)
{
    if (forced_count == MOST_FORCED)
        forced_count = 0;
    snprintf(forced[forced_count].name, sizeof forced[0].name, "%s", name);
    forced[forced_count++].fence = fence;
}

static int was_forced(const sim_handle *h)
{
    for (size_t i = 0; i < forced_count; i++) {
        if (forced[i].fence == h->fence && strcmp(forced[i].name, sim_name(h->name)) == 0)
            return 1;
    }
    return 0;
}

void invariants_told_lost(const rowlock_op *op)
{
    told[told_at].process = sched_process();
    snprintf(told[told_at].name, sizeof told[0].name, "%s", op->name);
    told[told_at].fence = op->fence;
    told[told_at].at_us = sim_now;
    told[told_at].step_us = model_step_us;
    told[told_at].stalled_us = process_stalled(sched_process());
    told_at = (told_at + 1) % MOST_TOLD;
}

/* ---- after each step ---- */

/* What rowlock_check() would say, without being asked: that would note the loss. */
static int is_held(const sim_handle *h)
{
    rlk_tenure *tenure = h->lock->tenure;

    if (h->process->paused_until_us > sim_now)
        return 0; /* who is stopped asks nobody */
    return !atomic_load(&h->lock->client->closed) && !atomic_load(&tenure->lost) &&
           process_clock(h->process) < atomic_load(&tenure->deadline_us);
}

static void check_told(const sim_handle *h)
{
    for (size_t i = 0; i < MOST_TOLD; i++) {
        /* A clock that is set back may bring it back; and an answer that came before the grant
         * was to a question of another thread. */
        if (told[i].process == h->process && told[i].fence == h->fence &&
            told[i].step_us == model_step_us && h->added_us <= told[i].at_us &&
            strcmp(told[i].name, sim_name(h->name)) == 0 &&
            sim_now > told[i].at_us + TOLD_US + h->process->stalled_us - told[i].stalled_us)
            sim_fail("told",
                     "rowlock_check() of %s says OK in process %d, %lld us after the database said "
                     "that it is lost",
                     sim_name(h->name), h->process->pid, (long long)(sim_now - told[i].at_us));
    }
}

/* Who believes to hold it does, in the database. */
static void check_row(const sim_handle *h)
{
    const sim_row *row = model_find(sim_name(h->name), strlen(sim_name(h->name)));

    if (row != NULL && row->fence == h->fence && model_is_live(row) &&
        strcmp(row->owner, rowlock_owner(h->lock)) == 0)
        return;
    if (!was_forced(h))
        sim_fail("held",
                 "rowlock_check() of %s says OK in process %d with fence %llu, and the row has "
                 "fence %llu, count %u, %lld us left",
                 sim_name(h->name), h->process->pid, (unsigned long long)h->fence,
                 row == NULL ? 0ULL : (unsigned long long)row->fence,
                 row == NULL ? 0 : row->hold_count,
                 row == NULL ? 0LL : (long long)(row->expire_time - model_now()));
}

/* Whose lease has ended is told soon: callbacks here take no time. */
static void check_on_lost(sim_handle *h)
{
    const rowlock_client *client = h->lock->client;

    if (!h->has_callback || h->is_told || atomic_load(&client->closed) ||
        atomic_load(&client->watch.stop) ||
        process_clock(h->process) < atomic_load(&h->lock->tenure->deadline_us))
        return;
    if (h->lost_seen_us == 0) {
        h->lost_seen_us = sim_now;
        h->lost_stalled_us = process_stalled(h->process);
    } else if (sim_now - h->lost_seen_us > LATE_US + h->process->stalled_us - h->lost_stalled_us) {
        sim_fail("on_lost", "%s is lost in process %d for %lld us, and on_lost was not called",
                 sim_name(h->name), h->process->pid, (long long)(sim_now - h->lost_seen_us));
    }
}

static void check_handles(void)
{
    const sim_handle *holder[MOST_NAMES] = {0};

    for (sim_handle *h = handles; h != NULL; h = h->next) {
        const sim_handle *other = holder[h->name];

        if (h->process->is_dead)
            continue;
        check_on_lost(h);
        if (!is_held(h))
            continue;
        if (other != NULL && other->fence != h->fence && !was_forced(other) && !was_forced(h))
            sim_fail("exclusion",
                     "%s is held twice: by process %d with fence %llu, by process %d with %llu",
                     sim_name(h->name), h->process->pid, (unsigned long long)h->fence,
                     other->process->pid, (unsigned long long)other->fence);
        if (other == NULL || other->fence > h->fence)
            holder[h->name] = h;
        check_row(h);
        check_told(h);
    }
}

/* Somebody waits for a lock that nobody has. */
static void check_waits(void)
{
    for (const sim_wait *w = waits; w != NULL; w = w->next) {
        const char *name = sim_name(w->name);
        const sim_row *row = model_find(name, strlen(name));
        int is_free = (row == NULL || (!model_is_live(row) && !model_is_shared(row, NULL))) &&
                      !model_is_wanted_with_others(name, strlen(name));
        int64_t since = free_since_us[w->name];

        if (!is_free) {
            free_since_us[w->name] = 0;
            continue;
        }
        if (since == 0)
            since = free_since_us[w->name] = sim_now;
        since = since < w->since_us ? w->since_us : since;
        since = since < net_last_trouble_us ? net_last_trouble_us : since;
        /* Who was stopped may have been the first in the queue, as long as its ticket lives. */
        if (process_last_stall_us > 0 && since < process_last_stall_us + TICKET_US)
            since = process_last_stall_us + TICKET_US;
        if (sim_now - since > BACKSTOP_US && !w->is_many &&
            w->process->paused_until_us <= sim_now) {
            sim_fail("waiter", "%s is free for %lld us, and a thread of process %d waits for it",
                     name, (long long)(sim_now - since), w->process->pid);
            return;
        }
    }
}

void invariants_check(void)
{
    check_handles();
    if (waits != NULL)
        check_waits();
}

/* ---- waits and calls ---- */

void invariants_wait(sim_wait *wait, int name, int is_many)
{
    *wait = (sim_wait){waits, sched_process(), name, is_many, sim_now};
    waits = wait;
    free_since_us[name] = 0;
}

void invariants_wait_over(sim_wait *wait)
{
    for (sim_wait **at = &waits; *at != NULL; at = &(*at)->next) {
        if (*at == wait) {
            *at = wait->next;
            break;
        }
    }
    free_since_us[wait->name] = 0;
}

void call_begins(sim_call *call, const char *what)
{
    const sim_process *p = sched_process();

    *call = (sim_call){what, process_clock(p), process_stalled(p), sim_now};
    sched_call(what);
    trace("%s: %s", sched_name(sched_self()), what);
}

void call_ends(const sim_call *call, int rc, int64_t bound_us, int waits_for_nobody)
{
    const sim_process *p = sched_process();
    int64_t took = process_clock(p) - call->start_us;
    int64_t stalled = p->stalled_us - call->stalled_us;

    trace("%s: %s is %d after %lld us", sched_name(sched_self()), call->what, rc, (long long)took);
    digest((uint64_t)rc);
    sched_call(NULL);
    if (*sched_cancel_depth() != 0)
        sim_fail("cancellation", "%s leaves cancellation disabled", call->what);
    if (bound_us != RLK_NEVER && took > bound_us + bound_us / 50 + SLACK_US + stalled)
        sim_fail("bound", "%s of process %d took %lld us, %lld were allowed", call->what, p->pid,
                 (long long)took, (long long)bound_us);
    if (waits_for_nobody && stalled == 0 && sim.threads < 8 && took > SLOW_US + 20 * sim.trip_us &&
        !sim.has_tx && net_is_calm(call->true_us - 1000000))
        sim_fail("slow", "%s of process %d took %lld us, and nothing was wrong", call->what, p->pid,
                 (long long)took);
}

/* ---- losses ---- */

void invariants_max_hold(int name, int change)
{
    max_hold_pending[name] += change;
}

static int may_end(const sim_handle *handle)
{
    if (max_hold_pending[handle->name] > 0)
        return 1;
    for (size_t i = 0; i < MOST_FORCED; i++) {
        if (max_held[i].name == handle->name && max_held[i].fence == handle->fence)
            return 1;
    }
    return 0;
}

void invariants_max_held(const sim_handle *handle)
{
    max_held[max_held_at].name = handle->name;
    max_held[max_held_at].fence = handle->fence;
    max_held_at = (max_held_at + 1) % MOST_FORCED;
}

void invariants_loss(const sim_handle *handle, int loss)
{
    if (loss == ROWLOCK_LOSS_MAX_HOLD && !may_end(handle))
        sim_fail("loss", "%s is lost as MAX_HOLD in process %d, and no handle had max_hold_ms",
                 sim_name(handle->name), handle->process->pid);
    if (loss != ROWLOCK_LOSS_NONE && loss != ROWLOCK_LOSS_MAX_HOLD && handle->is_renewed &&
        !handle->is_exempt && !was_forced(handle) && !sim.has_tx &&
        handle->process->stalled_us == handle->stalled_us &&
        net_is_calm(handle->since_us - 1000000))
        sim_fail("renewal", "%s was renewed, and is lost (%d) in process %d, with nothing wrong",
                 sim_name(handle->name), loss, handle->process->pid);
}

void invariants_at_end(void)
{
    char leak[200];
    size_t n = memory_leaks(leak, sizeof leak);

    if (n > 0)
        sim_fail("leak", "%zu allocations are left: %s", n, leak);
    for (size_t i = 0; i < sim_process_count; i++) {
        const sim_process *p = sim_processes[i];

        if (p->is_dead)
            continue;
        if (seam_events(p) > 0)
            sim_fail("leak", "process %d has left %zu descriptors open", p->pid, seam_events(p));
        if (net_sessions(p) > 0)
            sim_fail("leak", "process %d has left %zu connections open", p->pid, net_sessions(p));
        if (sched_count(p) > 0)
            sim_fail("leak", "process %d has left %d threads running", p->pid, sched_count(p));
    }
}
