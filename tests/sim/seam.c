/* SPDX-License-Identifier: MIT
 *
 * In place of clock.c, event.c, random.c and thread.c of src/base: each function is a place at
 * which another thread may run. */
#include <errno.h>
#include <string.h>

#include "event.h"
#include "random.h"
#include "sim.h"
#include "thread.h"

enum { FIRST_EVENT = 100, MOST_EVENTS = 4000 };

/* In the memory of a pthread_mutex_t, zero at first. */
typedef struct held {
    sim_task *owner;
    uint64_t owner_number; /* its memory may be used again by another */
} held;

_Static_assert(sizeof(held) <= sizeof(rlk_mutex), "a mutex has room for ours");

static struct {
    sim_process *process; /* NULL: free */
    int is_set;
} events[MOST_EVENTS];

static int last_event;

void seam_reset(void)
{
    memset(events, 0, sizeof events);
    last_event = 0;
}

/* ---- the process ---- */

pid_t rlk_getpid(void)
{
    const sim_process *process = sched_process();

    return process == NULL ? 1 : process->pid;
}

int rlk_at_exit(void (*fn)(void))
{
    /* Registered once for the system's process, which is all of ours. */
    for (size_t i = 0; i < sim_process_count; i++)
        sim_processes[i]->at_exit = fn;
    return 0;
}

/* ---- clock.h ---- */

int64_t rlk_clock_us(void)
{
    sched_yield_point();
    return process_clock(sched_process());
}

static int set_one(const int *fds, int n)
{
    for (int i = 0; i < n; i++) {
        if (fds[i] >= 0 && seam_is_set(fds[i]))
            return i;
    }
    return -1;
}

int rlk_sleep_until(int64_t until_us, const int *fds, int n)
{
    for (;;) {
        int found;

        sched_yield_point();
        found = set_one(fds, n);
        if (found >= 0)
            return found;
        if (process_clock(sched_process()) >= until_us)
            return -1;
        sched_wait(NULL, fds, n, process_true_time(sched_process(), until_us));
    }
}

/* ---- random.h ---- */

int rlk_random(void *out, size_t n)
{
    unsigned char *byte = out;

    for (size_t i = 0; i < n; i++)
        byte[i] = (unsigned char)rng_next(&sim_values);
    return 0;
}

int64_t rlk_random_below(int64_t limit)
{
    return rng_below(&sim_values, limit);
}

/* ---- event.h ---- */

int rlk_event_new(void)
{
    sched_yield_point();
    if (sched_self() != NULL && sim_fault(FAULT_DESCRIPTORS, &sim_trouble)) {
        errno = EMFILE;
        return -1;
    }
    for (int i = 0; i < MOST_EVENTS; i++) {
        int at = (last_event + i) % MOST_EVENTS;

        if (events[at].process == NULL) {
            events[at].process = sched_process();
            events[at].is_set = 0;
            last_event = at + 1;
            return FIRST_EVENT + at;
        }
    }
    errno = EMFILE;
    return -1;
}

static int is_event(int event)
{
    return event >= FIRST_EVENT && event < FIRST_EVENT + MOST_EVENTS &&
           events[event - FIRST_EVENT].process != NULL;
}

void rlk_event_free(int event)
{
    if (!is_event(event))
        sim_fail("descriptor", "descriptor %d is closed, which is not open", event);
    else
        events[event - FIRST_EVENT].process = NULL;
}

void rlk_event_set(int event)
{
    if (event < 0)
        return;
    if (!is_event(event)) {
        sim_fail("descriptor", "descriptor %d is written to, which is not open", event);
        return;
    }
    events[event - FIRST_EVENT].is_set = 1;
    sched_wake_event(event);
    sched_yield_point();
}

void rlk_event_clear(int event)
{
    if (event < 0)
        return;
    sched_yield_point();
    if (!is_event(event))
        sim_fail("descriptor", "descriptor %d is read from, which is not open", event);
    else
        events[event - FIRST_EVENT].is_set = 0;
}

int seam_is_set(int event)
{
    if (!is_event(event)) {
        sim_fail("descriptor", "descriptor %d is polled, which is not open", event);
        return 1;
    }
    return events[event - FIRST_EVENT].is_set;
}

size_t seam_events(const sim_process *process)
{
    size_t n = 0;

    for (int i = 0; i < MOST_EVENTS; i++)
        n += events[i].process == process;
    return n;
}

void seam_forget(const sim_process *process)
{
    for (int i = 0; i < MOST_EVENTS; i++) {
        if (events[i].process == process)
            events[i].process = NULL;
    }
}

int rlk_sleeper_init(rlk_sleeper *sleeper)
{
    sleeper->wake_fd = rlk_event_new();
    sleeper->timer_fd = 0;
    return sleeper->wake_fd >= 0 ? 0 : -1;
}

void rlk_sleeper_free(rlk_sleeper *sleeper)
{
    if (sleeper->wake_fd > 0)
        rlk_event_free(sleeper->wake_fd);
}

void rlk_sleeper_sleep(rlk_sleeper *sleeper, int64_t until_us)
{
    rlk_sleep_until(until_us, &sleeper->wake_fd, 1);
    rlk_event_clear(sleeper->wake_fd);
}

void rlk_sleeper_wake(const rlk_sleeper *sleeper)
{
    rlk_event_set(sleeper->wake_fd);
}

/* ---- thread.h ---- */

uint64_t rlk_thread_number(void)
{
    return sched_self() == NULL ? 0 : sched_number(sched_self());
}

void rlk_cancel_disable(void)
{
    if (sched_self() != NULL)
        ++*sched_cancel_depth();
}

void rlk_cancel_enable(void)
{
    if (sched_self() != NULL && --*sched_cancel_depth() < 0)
        sim_fail("cancellation", "cancellation is enabled once too often");
}

int rlk_thread_start(rlk_thread *out, const char *name, void *(*run)(void *arg), void *arg)
{
    sim_task *task;

    if (sim_fault(FAULT_THREADS, &sim_trouble))
        return EAGAIN;
    task = sched_start(sched_process(), name, run, arg);
    if (task == NULL)
        return EAGAIN;
    *out = (rlk_thread)sched_number(task);
    sched_yield_point();
    return 0;
}

int rlk_thread_join(rlk_thread thread, int64_t until_us)
{
    if ((uint64_t)thread == rlk_thread_number())
        return 0;
    for (;;) {
        sim_task *task = sched_by_number((uint64_t)thread);

        sched_yield_point();
        if (task == NULL || sched_is_done(task))
            return 1;
        if (process_clock(sched_process()) >= until_us)
            return 0;
        sched_wait(task, NULL, 0, process_true_time(sched_process(), until_us));
    }
}

static held *held_of(rlk_mutex *mutex)
{
    return (held *)(void *)mutex;
}

void rlk_mutex_init(rlk_mutex *mutex)
{
    memset(mutex, 0, sizeof *mutex);
}

void rlk_mutex_destroy(rlk_mutex *mutex)
{
    if (held_of(mutex)->owner != NULL)
        sim_fail("mutex", "a mutex is destroyed that is locked");
    memset(mutex, 0xdd, sizeof *mutex);
}

/* The mutex of exit.c is one for all our processes: those that are dead do not hold it. */
static int is_held(const held *h)
{
    return h->owner != NULL && sched_by_number(h->owner_number) == h->owner &&
           !sched_is_done(h->owner);
}

static void take(held *h)
{
    h->owner = sched_self();
    h->owner_number = rlk_thread_number();
}

void rlk_mutex_lock(rlk_mutex *mutex)
{
    held *h = held_of(mutex);

    if (sched_self() == NULL)
        return;
    sched_yield_point();
    if (is_held(h) && h->owner == sched_self()) {
        sim_fail("mutex", "a thread locks a mutex that it has locked");
        return;
    }
    while (is_held(h) && sim_failed[0] == '\0')
        sched_wait(h, NULL, 0, RLK_NEVER);
    take(h);
}

int rlk_mutex_trylock(rlk_mutex *mutex)
{
    held *h = held_of(mutex);

    sched_yield_point();
    if (is_held(h))
        return 0;
    take(h);
    return 1;
}

void rlk_mutex_unlock(rlk_mutex *mutex)
{
    held *h = held_of(mutex);

    if (sched_self() == NULL)
        return;
    if (h->owner != sched_self())
        sim_fail("mutex", "a thread unlocks a mutex that it has not locked");
    h->owner = NULL;
    sched_wake(h, 0);
    sched_yield_point();
}

int rlk_cond_init(rlk_cond *cond)
{
    memset(cond, 0, sizeof *cond);
    return 0;
}

void rlk_cond_destroy(rlk_cond *cond)
{
    memset(cond, 0xdd, sizeof *cond);
}

void rlk_cond_broadcast(rlk_cond *cond)
{
    sched_wake(cond, 1);
}

int rlk_cond_wait(rlk_cond *cond, rlk_mutex *mutex, int64_t until_us)
{
    held *h = held_of(mutex);
    int is_in_time;

    if (process_clock(sched_process()) >= until_us)
        return 0;
    h->owner = NULL;
    sched_wake(h, 0);
    is_in_time = sched_wait(cond, NULL, 0, process_true_time(sched_process(), until_us));
    while (is_held(h) && sim_failed[0] == '\0')
        sched_wait(h, NULL, 0, RLK_NEVER);
    take(h);
    return is_in_time;
}

int rlk_word_wait(_Atomic uint32_t *word, uint32_t value, int64_t until_us)
{
    sched_yield_point();
    if (process_clock(sched_process()) >= until_us)
        return 0;
    if (atomic_load(word) != value)
        return 1;
    return sched_wait(word, NULL, 0, process_true_time(sched_process(), until_us));
}

void rlk_word_wake(_Atomic uint32_t *word)
{
    sched_wake(word, 1);
    sched_yield_point();
}
