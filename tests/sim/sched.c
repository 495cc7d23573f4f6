/* SPDX-License-Identifier: MIT
 *
 * Threads as coroutines on one system thread, and the clock, which jumps to what comes next. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "invariants.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

enum { MOST_TASKS = 400, STACK = 256 * 1024, MOST_EVENTS = 4, MOST_IDLE_CALLS = 2000000 };

typedef enum task_state { TASK_READY, TASK_WAITS, TASK_DONE } task_state;

struct sim_task {
    uint64_t number;
    sim_process *process;
    char name[24];
    void *(*run)(void *arg);
    void *arg;
    ucontext_t context;
    char *stack;
    task_state state;
    const void *key;
    int events[MOST_EVENTS], n_events;
    int64_t until_us;      /* true time */
    int64_t not_before_us; /* it is stalled */
    int is_woken;
    int cancel_depth;
    int saved_errno;
    char call[64];
    void *fake_stack; /* the address sanitizer's */
};

typedef struct planned {
    int64_t at_us;
    uint64_t order;
    void (*fn)(void *arg);
    void *arg;
} planned;

int64_t sim_now;
uint64_t sim_steps;
sim_rng sim_schedule, sim_network, sim_values, sim_trouble;

static sim_task *tasks[MOST_TASKS]; /* that are not done, and some that are */
static size_t task_count;
static uint64_t last_number;
static sim_task *current;
static ucontext_t scheduler;
static char *free_stacks[MOST_TASKS];
static size_t free_stack_count;
static planned *heap;
static size_t heap_count, heap_room;
static uint64_t heap_order;
static sim_process *frozen;
static int calls_in_step;
static const void *main_bottom;
static size_t main_size;

/* Before the memory of the run before is freed, in which the tasks are. */
void sched_reset(void)
{
    for (size_t i = 0; i < task_count; i++) {
        if (tasks[i]->stack != NULL && free_stack_count < MOST_TASKS)
            free_stacks[free_stack_count++] = tasks[i]->stack;
    }
    memset(tasks, 0, sizeof tasks);
    task_count = heap_count = 0;
    last_number = heap_order = sim_steps = 0;
    current = NULL;
    frozen = NULL;
    sim_now = INT64_C(1000000);
    sim_schedule.state = sim.seed * 4 + 1;
    sim_network.state = sim.seed * 4 + 2;
    sim_values.state = sim.seed * 4 + 3;
    sim_trouble.state = sim.seed * 4 + 4;
}

/* ---- switching ---- */

static void before_switch(void **save, const void *bottom, size_t size)
{
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(save, bottom, size);
#else
    (void)save;
    (void)bottom;
    (void)size;
#endif
}

static void after_switch(void *saved, const void **bottom, size_t *size)
{
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(saved, bottom, size);
#else
    (void)saved;
    (void)bottom;
    (void)size;
#endif
}

static void to_scheduler(sim_task *task, int is_last)
{
    task->saved_errno = errno;
    before_switch(is_last ? NULL : &task->fake_stack, main_bottom, main_size);
    swapcontext(&task->context, &scheduler);
    after_switch(task->fake_stack, &main_bottom, &main_size);
    errno = task->saved_errno;
}

static void to_task(sim_task *task)
{
    void *fake = NULL;

    current = task;
    calls_in_step = 0;
    before_switch(&fake, task->stack, STACK);
    swapcontext(&scheduler, &task->context);
    after_switch(fake, NULL, NULL);
    current = NULL;
}

static void begin(void)
{
    sim_task *task = current;

    after_switch(NULL, &main_bottom, &main_size);
    task->run(task->arg);
    task->state = TASK_DONE;
    trace("%s ends", task->name);
    sched_wake(task, 1);
    to_scheduler(task, 1);
}

static char *new_stack(void)
{
    char *stack;

    if (free_stack_count > 0) {
        stack = free_stacks[--free_stack_count];
#if defined(__SANITIZE_ADDRESS__)
        __asan_unpoison_memory_region(stack, STACK);
#endif
        return stack;
    }
    stack = mmap(NULL, STACK + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (stack == MAP_FAILED)
        abort();
    mprotect(stack, 4096, PROT_NONE);
    return stack + 4096;
}

/* Drops those that are done, in the order in which they came. */
static void sweep(void)
{
    size_t n = 0;

    for (size_t i = 0; i < task_count; i++) {
        if (tasks[i]->state == TASK_DONE && tasks[i] != current) {
            if (tasks[i]->stack != NULL && free_stack_count < MOST_TASKS)
                free_stacks[free_stack_count++] = tasks[i]->stack;
            tasks[i]->stack = NULL;
        } else {
            tasks[n++] = tasks[i];
        }
    }
    task_count = n;
}

sim_task *sched_start(sim_process *process, const char *name, void *(*run)(void *arg), void *arg)
{
    sim_task *task;

    sweep();
    if (task_count == MOST_TASKS)
        return NULL;
    task = sim_alloc(sizeof *task);
    task->number = ++last_number;
    task->process = process;
    snprintf(task->name, sizeof task->name, "p%d/%s", process->pid, name);
    task->run = run;
    task->arg = arg;
    task->stack = new_stack();
    getcontext(&task->context);
    task->context.uc_stack.ss_sp = task->stack;
    task->context.uc_stack.ss_size = STACK;
    task->context.uc_link = NULL;
    makecontext(&task->context, begin, 0);
    tasks[task_count++] = task;
    trace("%s starts", task->name);
    return task;
}

void sched_kill(sim_process *process)
{
    for (size_t i = 0; i < task_count; i++) {
        if (tasks[i]->process == process && tasks[i] != current)
            tasks[i]->state = TASK_DONE;
    }
}

/* ---- what happens by itself ---- */

static int is_earlier(const planned *a, const planned *b)
{
    return a->at_us < b->at_us || (a->at_us == b->at_us && a->order < b->order);
}

void sched_at(int64_t at_us, void (*fn)(void *arg), void *arg)
{
    size_t i;

    if (heap_count == heap_room) {
        heap_room = heap_room == 0 ? 256 : heap_room * 2;
        heap = sim_grow(heap, heap_room * sizeof *heap);
    }
    i = heap_count++;
    heap[i] = (planned){at_us, ++heap_order, fn, arg};
    while (i > 0 && is_earlier(&heap[i], &heap[(i - 1) / 2])) {
        planned up = heap[(i - 1) / 2];

        heap[(i - 1) / 2] = heap[i];
        heap[i] = up;
        i = (i - 1) / 2;
    }
}

static planned take_planned(void)
{
    planned first = heap[0];
    size_t i = 0;

    heap[0] = heap[--heap_count];
    for (;;) {
        size_t least = i;

        for (size_t child = 2 * i + 1; child <= 2 * i + 2 && child < heap_count; child++) {
            if (is_earlier(&heap[child], &heap[least]))
                least = child;
        }
        if (least == i)
            return first;
        planned down = heap[i];
        heap[i] = heap[least];
        heap[least] = down;
        i = least;
    }
}

static void fire_planned(void)
{
    while (heap_count > 0 && heap[0].at_us <= sim_now && sim_failed[0] == '\0') {
        planned next = take_planned();

        next.fn(next.arg);
    }
}

/* ---- the loop ---- */

static int64_t ready_at(const sim_task *task)
{
    int64_t at = task->state == TASK_READY ? sim_now : task->until_us;

    if (task->state == TASK_DONE)
        return RLK_NEVER;
    if (at < task->not_before_us)
        at = task->not_before_us;
    return at < task->process->paused_until_us ? task->process->paused_until_us : at;
}

/* One of those that can run now, at random; NULL: none, and *next_us is when. */
static sim_task *choose(int64_t *next_us)
{
    sim_task *ready[MOST_TASKS];
    size_t n = 0;

    *next_us = heap_count > 0 ? heap[0].at_us : RLK_NEVER;
    for (size_t i = 0; i < task_count; i++) {
        int64_t at = ready_at(tasks[i]);

        if (at <= sim_now)
            ready[n++] = tasks[i];
        else if (at < *next_us)
            *next_us = at;
    }
    return n == 0 ? NULL : ready[n == 1 ? 0 : rng_below(&sim_schedule, (int64_t)n)];
}

void sched_run(int64_t end_us, int (*is_over)(void))
{
    while (sim_failed[0] == '\0' && !is_over()) {
        int64_t next;
        sim_task *task;

        fire_planned();
        invariants_check();
        task = choose(&next);
        if (task == NULL) {
            if (is_over()) /* the last process was killed */
                return;
            if (next == RLK_NEVER) {
                sim_fail("stuck", "nothing will ever happen again, and not all threads have ended");
                return;
            }
            if (next > end_us)
                return;
            sim_now = next;
            continue;
        }
        if (task->state == TASK_WAITS) {
            task->is_woken = 0;
            task->state = TASK_READY;
        }
        if (task->process->paused_until_us != 0)
            task->process->paused_until_us = 0;
        sim_steps++;
        digest(task->number ^ (uint64_t)sim_now << 16);
        to_task(task);
    }
}

/* ---- for tasks ---- */

static void tick(void)
{
    sim_now += (int64_t)(rng_next(&sim_schedule) & 3);
    if (++calls_in_step > MOST_IDLE_CALLS)
        sim_fail("spin", "%s goes on and on without waiting, in %s", current->name, current->call);
}

void sched_yield_point(void)
{
    sim_task *task = current;

    if (frozen != NULL || task == NULL)
        return;
    tick();
    if (sim_failed[0] == '\0' && !rng_chance(&sim_schedule, sim.preempt))
        return;
    if (sim_fault(FAULT_STALL, &sim_schedule)) {
        int64_t us = rng_chance(&sim_schedule, 50000) ? rng_between(&sim_schedule, 50000, 3000000)
                                                      : rng_between(&sim_schedule, 50, 20000);

        task->not_before_us = sim_now + us;
        process_stall(task->process, us);
        trace("%s is not scheduled for %lld us", task->name, (long long)us);
    }
    to_scheduler(task, 0);
}

int sched_wait(const void *key, const int *events, int n, int64_t until_us)
{
    sim_task *task = current;

    if (frozen != NULL || task == NULL) {
        sim_fail("frozen", "a wait where nothing may wait");
        return 1;
    }
    task->key = key;
    task->n_events = n < MOST_EVENTS ? n : MOST_EVENTS;
    for (int i = 0; i < task->n_events; i++)
        task->events[i] = events[i];
    task->until_us = until_us;
    task->is_woken = 1;
    task->state = TASK_WAITS;
    if (sim_fault(FAULT_SPURIOUS, &sim_schedule)) {
        int64_t soon = sim_now + rng_between(&sim_schedule, 1, 5000);

        if (soon < until_us) {
            task->until_us = soon;
            to_scheduler(task, 0);
            task->key = NULL;
            task->n_events = 0;
            return 1;
        }
    }
    to_scheduler(task, 0);
    task->key = NULL;
    task->n_events = 0;
    return task->is_woken;
}

static void make_ready(sim_task *task)
{
    task->state = TASK_READY;
    task->is_woken = 1;
    task->key = NULL;
}

void sched_wake(const void *key, int all)
{
    sim_task *found[MOST_TASKS];
    size_t n = 0;

    for (size_t i = 0; i < task_count; i++) {
        if (tasks[i]->state == TASK_WAITS && tasks[i]->key == key)
            found[n++] = tasks[i];
    }
    if (n > 0 && !all)
        make_ready(found[n == 1 ? 0 : rng_below(&sim_schedule, (int64_t)n)]);
    for (size_t i = 0; all && i < n; i++)
        make_ready(found[i]);
}

void sched_wake_event(int event)
{
    for (size_t i = 0; i < task_count; i++) {
        for (int e = 0; tasks[i]->state == TASK_WAITS && e < tasks[i]->n_events; e++) {
            if (tasks[i]->events[e] == event)
                make_ready(tasks[i]);
        }
    }
}

sim_task *sched_self(void)
{
    return current;
}

sim_process *sched_process(void)
{
    return frozen != NULL ? frozen : current == NULL ? NULL : current->process;
}

int sched_is_done(const sim_task *task)
{
    return task->state == TASK_DONE;
}

uint64_t sched_number(const sim_task *task)
{
    return task->number;
}

sim_task *sched_by_number(uint64_t number)
{
    for (size_t i = 0; i < task_count; i++) {
        if (tasks[i]->number == number)
            return tasks[i];
    }
    return NULL;
}

int *sched_cancel_depth(void)
{
    return &current->cancel_depth;
}

const char *sched_name(const sim_task *task)
{
    return task == NULL ? "world" : task->name;
}

void sched_call(const char *what)
{
    snprintf(current->call, sizeof current->call, "%s", what == NULL ? "" : what);
}

int sched_count(const sim_process *process)
{
    int n = 0;

    for (size_t i = 0; i < task_count; i++)
        n += tasks[i]->process == process && tasks[i]->state != TASK_DONE;
    return n;
}

void sched_describe(FILE *out)
{
    for (size_t i = 0; i < task_count; i++) {
        const sim_task *t = tasks[i];

        if (t->state != TASK_DONE && !t->process->is_dead)
            fprintf(out, "  %-20s %s %s\n", t->name, t->state == TASK_WAITS ? "waits" : "can run",
                    t->call);
    }
}

void sched_freeze(sim_process *process)
{
    frozen = process;
}

void sched_thaw(void)
{
    frozen = NULL;
}
