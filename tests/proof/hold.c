/* SPDX-License-Identifier: MIT */
#include "hold.h"

static void record(struct hold *hold, struct history_record *r, enum history_kind kind)
{
    r->kind = (uint8_t)kind;
    r->process = hold->work->process;
    r->thread = hold->work->thread;
    r->name = hold->name;
    r->fence = hold->fence;
    if (history_add(hold->work->history, r) != 0)
        hold->is_full = 1;
}

void hold_granted(struct hold *hold, uint64_t began_ns)
{
    struct history_record r = {.value = began_ns};
    struct control *control = hold->work->control;

    hold->fence = rowlock_fence(hold->lock);
    hold->is_lost = 0;
    r.at_ns = history_now_ns();
    r.left_ms = (uint32_t)rowlock_remaining(hold->lock);
    r.status = (int8_t)hold->work->in_doubt[hold->name];
    record(hold, &r, HISTORY_GRANT);
    __atomic_fetch_add(&control->grants, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&control->grants_of[hold->work->slot], 1, __ATOMIC_RELAXED);
}

void hold_failed(struct hold *hold, uint64_t began_ns, int status)
{
    struct history_record r = {.at_ns = history_now_ns(), .value = began_ns};

    r.status = (int8_t)status;
    if (status < 0)
        hold->work->in_doubt[hold->name] = 1;
    record(hold, &r, HISTORY_FAILED);
}

void hold_write(struct hold *hold, enum history_kind kind, uint64_t version,
                enum history_stage stage)
{
    struct history_record r = {.at_ns = history_now_ns(), .value = version};

    r.status = (int8_t)stage;
    record(hold, &r, kind);
}

int hold_check(struct hold *hold)
{
    struct history_record r = {.at_ns = history_now_ns()};
    int held = rowlock_check(hold->lock) == ROWLOCK_OK;

    if (held)
        r.left_ms = (uint32_t)rowlock_remaining(hold->lock);
    else
        r.at_ns = history_now_ns();
    if (held || !hold->is_lost)
        record(hold, &r, held ? HISTORY_CHECK : HISTORY_LOST);
    hold->is_lost = !held;
    return held;
}

void hold_releases(struct hold *hold, uint64_t at_ns)
{
    struct history_record r = {.at_ns = at_ns};

    record(hold, &r, HISTORY_RELEASE);
}
