/* SPDX-License-Identifier: MIT */
#include "check_lists.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OPEN_MAX = 16 }; /* tenures that a thread has at a time */

/* What a thread has at the moment of the pass; indices into the lists, plus one. */
struct thread_state {
    size_t open[OPEN_MAX];
    size_t write;
    uint64_t intended_ns;
};

const char *check_text(enum check_violation violation)
{
    static const char *const texts[] = {
#define CHECK_TEXT(name, text) text,
        CHECK_VIOLATIONS(CHECK_TEXT)
#undef CHECK_TEXT
    };
    return texts[violation];
}

void check_violated(struct check_report *report, enum check_violation kind, const char *format, ...)
{
    va_list arguments;

    report->violations[kind]++;
    if (report->violated++ >= CHECK_MESSAGES)
        return;
    va_start(arguments, format);
    vsnprintf(report->messages[report->violated - 1], sizeof(report->messages[0]), format,
              arguments);
    va_end(arguments);
}

/* ---- gathering ------------------------------------------------------------------------------- */

static void *add(struct list *list, size_t size)
{
    if (list->n == list->room) {
        size_t room = list->room > 0 ? list->room + list->room / 2 : 1024;
        void *items = realloc(list->items, room * size);

        if (items == NULL)
            return NULL;
        list->items = items;
        list->room = room;
    }
    return (char *)list->items + size * list->n++;
}

static uint64_t deadline(const struct history_record *r)
{
    return r->at_ns + (uint64_t)r->left_ms * 1000000U;
}

static struct tenure *tenure_at(struct check *check, size_t index)
{
    return (struct tenure *)check->tenures.items + index - 1;
}

/* The thread's place for that tenure; NULL: it has none. */
static size_t *find_open(struct check *check, struct thread_state *state,
                         const struct history_record *r)
{
    for (size_t i = 0; i < OPEN_MAX; i++) {
        struct tenure *t = state->open[i] > 0 ? tenure_at(check, state->open[i]) : NULL;
        if (t != NULL && t->name == r->name && t->fence == r->fence)
            return &state->open[i];
    }
    return NULL;
}

static int add_grant(struct check *check, struct thread_state *state,
                     const struct history_record *r)
{
    struct tenure *t = add(&check->tenures, sizeof(*t));
    size_t i = 0;

    if (t == NULL)
        return -1;
    *t = (struct tenure){.fence = r->fence, .start_ns = r->at_ns, .end_ns = deadline(r)};
    t->name = r->name;
    t->process = r->process & 0xfffff;
    t->may_go_on = r->status != 0;
    t->thread = (uint8_t)r->thread;
    check->report.grants++;
    if (r->value > r->at_ns)
        check_violated(&check->report, CHECK_MALFORMED,
                       "name %u, fence %llu: granted before it was asked", r->name,
                       (unsigned long long)r->fence);
    while (i < OPEN_MAX && state->open[i] != 0)
        i++;
    if (i == OPEN_MAX) {
        check_violated(&check->report, CHECK_MALFORMED, "process %u, thread %u holds too much",
                       r->process, r->thread);
        return 0;
    }
    state->open[i] = check->tenures.n;
    return 0;
}

/* CHECK, RELEASE and LOST: about a tenure that the thread has. */
static void add_to_tenure(struct check *check, struct thread_state *state,
                          const struct history_record *r)
{
    size_t *open = find_open(check, state, r);
    struct tenure *t = open != NULL ? tenure_at(check, *open) : NULL;

    if (t == NULL) {
        check_violated(&check->report, CHECK_MALFORMED,
                       "process %u, thread %u, name %u, fence %llu: kind %u without a grant",
                       r->process, r->thread, r->name, (unsigned long long)r->fence, r->kind);
        return;
    }
    switch (r->kind) {
    case HISTORY_CHECK:
        check->report.checks++;
        if (t->is_lost)
            check_violated(&check->report, CHECK_HELD_AGAIN, "name %u, fence %llu, at %llu: %s",
                           r->name, (unsigned long long)r->fence, (unsigned long long)r->at_ns,
                           check_text(CHECK_HELD_AGAIN));
        if (deadline(r) > t->end_ns) {
            t->end_ns = deadline(r);
            t->is_guarded = 0;
        }
        break;
    case HISTORY_RELEASE:
        if (r->at_ns < t->end_ns)
            t->end_ns = r->at_ns;
        t->is_released = 1;
        *open = 0;
        break;
    default:
        check->report.lost++;
        t->is_lost = 1;
        if (r->at_ns < t->end_ns)
            check_violated(&check->report, CHECK_LOST_EARLY,
                           "name %u, fence %llu: lost at %llu, to be held until %llu", r->name,
                           (unsigned long long)r->fence, (unsigned long long)r->at_ns,
                           (unsigned long long)t->end_ns);
        break;
    }
}

/* The transaction is committed before anybody else gets the lease: as a point of the tenure. */
static void guard_point(struct check *check, struct thread_state *state,
                        const struct history_record *r)
{
    size_t *open = find_open(check, state, r);
    struct tenure *t = open != NULL ? tenure_at(check, *open) : NULL;

    if (t == NULL || state->intended_ns <= t->end_ns)
        return;
    t->end_ns = state->intended_ns;
    t->is_guarded = 1;
}

static int add_write(struct check *check, struct thread_state *state,
                     const struct history_record *r)
{
    struct written *w;

    if (r->status == HISTORY_INTENDED) {
        w = add(&check->writes, sizeof(*w));
        if (w == NULL)
            return -1;
        *w = (struct written){.version = r->value, .fence = r->fence, .name = r->name};
        w->process = r->process & 0x3fffff;
        w->thread = (uint8_t)r->thread;
        w->kind = r->kind;
        state->write = check->writes.n;
        state->intended_ns = r->at_ns;
        check->report.unknown++;
        return 0;
    }
    w = state->write > 0 ? (struct written *)check->writes.items + state->write - 1 : NULL;
    state->write = 0;
    if (w == NULL || w->name != r->name || w->version != r->value || w->kind != r->kind) {
        check_violated(&check->report, CHECK_MALFORMED,
                       "name %u: version %llu ends but was not begun", r->name,
                       (unsigned long long)r->value);
        return 0;
    }
    w->stage = (uint8_t)r->status;
    check->report.unknown--;
    if (r->status == HISTORY_UNDONE)
        check->report.refused++;
    else if (r->kind == HISTORY_GUARDED)
        check->report.guarded++;
    else
        check->report.fenced++;
    if (r->status == HISTORY_DONE && r->kind == HISTORY_GUARDED)
        guard_point(check, state, r);
    return 0;
}

static int add_final(struct check *check, const struct history_record *r)
{
    struct final *f = add(&check->finals, sizeof(*f));
    int guarded = r->kind == HISTORY_FINAL_GUARDED;

    if (f == NULL)
        return -1;
    *f = (struct final){r->value, r->fence, r->name, guarded ? HISTORY_GUARDED : HISTORY_FENCED};
    return 0;
}

static int add_clock(struct check *check, const struct history_record *r)
{
    uint64_t *at = add(&check->clocks, sizeof(*at));

    if (at == NULL)
        return -1;
    *at = r->at_ns;
    return 0;
}

static int add_record(struct check *check, struct thread_state *state,
                      const struct history_record *r)
{
    switch (r->kind) {
    case HISTORY_GRANT:
        return add_grant(check, state, r);
    case HISTORY_CHECK:
    case HISTORY_RELEASE:
    case HISTORY_LOST:
        add_to_tenure(check, state, r);
        return 0;
    case HISTORY_GUARDED:
    case HISTORY_FENCED:
        return add_write(check, state, r);
    case HISTORY_FINAL_GUARDED:
    case HISTORY_FINAL_FENCED:
        return add_final(check, r);
    case HISTORY_CLOCK_BACK:
        return add_clock(check, r);
    case HISTORY_FAILED:
        check->report.failed++;
        check->report.statuses[r->status + 128]++;
        return 0;
    default:
        check_violated(&check->report, CHECK_MALFORMED, "a record of kind %u", r->kind);
        return 0;
    }
}

int check_add(struct check *check, const struct history_record *records, size_t n)
{
    struct thread_state *states = calloc(256, sizeof(*states));
    int failed = states == NULL ? -1 : 0;
    int empty = 0;

    for (size_t i = 0; i < n && !failed && empty < HISTORY_GAP; i++) {
        empty = records[i].kind == HISTORY_NONE ? empty + 1 : 0;
        if (empty > 0)
            continue;
        check->report.records++;
        failed = add_record(check, &states[records[i].thread & 0xff], &records[i]);
    }
    free(states);
    return failed;
}

void check_finish(struct check_report *out, struct check *check)
{
    check_judge_tenures(check);
    check_judge_writes(check);
    *out = check->report;
}

struct check *check_new(void)
{
    return calloc(1, sizeof(struct check));
}

void check_free(struct check *check)
{
    if (check == NULL)
        return;
    free(check->tenures.items);
    free(check->writes.items);
    free(check->finals.items);
    free(check->clocks.items);
    free(check);
}
