/* SPDX-License-Identifier: MIT
 *
 * The rows, and the slots that work on leases. Each statement is carried out at one moment; what is
 * committed shows to all at once, and is durable when the disk says so. */
#include "model.h"

#include <string.h>

#include "error.h"
#include "invariants.h"

#define EPOCH_US INT64_C(1700000000000000)

sim_row model_rows[MOST_ROWS];
size_t model_row_count;
int64_t model_step_us;

static struct {
    sim_row rows[MOST_ROWS];
    size_t count;
    uint64_t floor;
    int version;
} durable;

static uint64_t floor_fence;
static int version;

/* The largest fence that was ever durable, by name: no new one may be below. */
static struct {
    char name[ROWLOCK_NAME_MAX + 1];
    size_t length;
    uint64_t fence;
} highest[MOST_ROWS * 4];
static size_t highest_count;

void model_reset(void)
{
    model_row_count = highest_count = 0;
    model_step_us = 0;
    floor_fence = 0;
    version = sim.has_tables;
    model_tx_reset();
    model_queue_reset();
    model_flush();
}

int64_t model_now(void)
{
    return EPOCH_US + sim_now - model_step_us;
}

sim_row *model_find(const char *name, size_t length)
{
    for (size_t i = 0; i < model_row_count; i++) {
        if (model_rows[i].name_length == length && memcmp(model_rows[i].name, name, length) == 0)
            return &model_rows[i];
    }
    return NULL;
}

int model_is_live(const sim_row *row)
{
    return row->hold_count > 0 && row->expire_time > model_now();
}

uint64_t model_next_fence(const sim_row *row)
{
    uint64_t next = row->fence + 1;

    return next > (uint64_t)model_now() ? next : (uint64_t)model_now();
}

/* ---- fences rise ---- */

static size_t highest_of(const sim_row *row)
{
    size_t i = 0;

    while (i < highest_count && (highest[i].length != row->name_length ||
                                 memcmp(highest[i].name, row->name, row->name_length) != 0))
        i++;
    if (i == highest_count && i < sizeof highest / sizeof highest[0]) {
        memcpy(highest[i].name, row->name, sizeof row->name);
        highest[i].length = row->name_length;
        highest[i].fence = 0;
        highest_count++;
    }
    return i < highest_count ? i : 0;
}

void model_note_fence(const sim_row *row, uint64_t fence)
{
    size_t i = highest_of(row);

    if (fence <= highest[i].fence)
        sim_fail("fence", "%s: fence %llu is given after %llu", row->name,
                 (unsigned long long)fence, (unsigned long long)highest[i].fence);
}

void model_flush(void)
{
    memcpy(durable.rows, model_rows, model_row_count * sizeof *model_rows);
    durable.count = model_row_count;
    durable.floor = floor_fence;
    durable.version = version;
    for (size_t i = 0; i < model_row_count; i++) {
        size_t at = highest_of(&model_rows[i]);

        if (model_rows[i].fence > highest[at].fence)
            highest[at].fence = model_rows[i].fence;
    }
}

void model_lose(void)
{
    memcpy(model_rows, durable.rows, durable.count * sizeof *model_rows);
    model_row_count = durable.count;
    floor_fence = durable.floor;
    version = durable.version;
    model_tx_reset();
    model_queue_reset();
}

/* ---- rows ---- */

sim_row *model_make(const char *name, size_t length)
{
    sim_row *row;

    if (model_row_count == MOST_ROWS) {
        sim_fail("room", "the model has no room for another row");
        return &model_rows[0];
    }
    row = &model_rows[model_row_count++];
    memset(row, 0, sizeof *row);
    memcpy(row->name, name, length);
    row->name_length = length;
    row->fence = floor_fence;
    return row;
}

static void drop_row(sim_row *row)
{
    if (row->fence > floor_fence)
        floor_fence = row->fence;
    --model_row_count;
    if (row != &model_rows[model_row_count]) {
        *row = model_rows[model_row_count];
        model_move_locks(&model_rows[model_row_count], row);
    }
}

/* ---- acquire ---- */

int model_is_own(const rowlock_op *op)
{
    const sim_row *row = model_find(op->name, op->name_length);

    return row != NULL && model_is_live(row) && strcmp(row->owner, op->owner) == 0;
}

static int is_takeable(const rowlock_op *op)
{
    const sim_row *row = model_find(op->name, op->name_length);

    return model_is_own(op) || ((row == NULL || !model_is_live(row)) && !model_is_barred(op));
}

/* By ticket, which can be used but once, only where it is live. */
int model_is_stale(const rowlock_op *op)
{
    const sim_row *row = model_find(op->name, op->name_length);

    return row != NULL && (op->ticket == 0 || model_is_live(row)) &&
           strcmp(row->owner, op->owner) == 0 &&
           memcmp(row->attempt, op->attempt, ROWLOCK_ATTEMPT_SIZE / 2) == 0 &&
           memcmp(row->attempt, op->attempt, ROWLOCK_ATTEMPT_SIZE) > 0;
}

static void take(rowlock_op *op)
{
    sim_row *row = model_find(op->name, op->name_length);
    int64_t now = model_now(), until = now + op->ttl_us;

    if (row == NULL)
        row = model_make(op->name, op->name_length);
    if (!model_is_live(row)) {
        uint64_t fence = model_next_fence(row);

        model_note_fence(row, fence);
        row->fence = fence;
        row->hold_count = 1;
        row->acquire_time = now;
        row->expire_time = until;
        row->note[0] = '\0';
        model_ticket_used(op, row);
    } else if (memcmp(row->attempt, op->attempt, sizeof row->attempt) != 0) {
        row->hold_count++;
    }
    if (row->expire_time < until)
        row->expire_time = until;
    if (op->note[0] != '\0')
        snprintf(row->note, sizeof row->note, "%s", op->note);
    snprintf(row->owner, sizeof row->owner, "%s", op->owner);
    memcpy(row->attempt, op->attempt, sizeof row->attempt);
    op->status = ROWLOCK_OK;
    op->fence = row->fence;
    op->hold_count = row->hold_count;
    op->remaining_us = row->expire_time - now;
}

void model_answer_busy(rowlock_op *op, const sim_row *row)
{
    op->status = ROWLOCK_BUSY;
    op->remaining_us = 0;
    op->holder_fence = 0;
    op->holder[0] = '\0';
    op->is_queue = 0;
    if (row == NULL || !model_is_live(row))
        return;
    op->remaining_us = row->expire_time - model_now();
    op->holder_fence = row->fence;
    snprintf(op->holder, sizeof op->holder, "%s", row->owner);
}

static void refuse(rowlock_op *op, const sim_session *session)
{
    const sim_row *row = model_find(op->name, op->name_length);

    model_answer_busy(op, row);
    op->is_queue = (row == NULL || (!model_is_live(row) && !model_is_shared(row, session))) &&
                   model_is_barred(op);
}

void model_take_one(rowlock_op *op)
{
    if (is_takeable(op))
        take(op);
    else
        refuse(op, NULL);
}

static int is_seen_held(const rowlock_op *op)
{
    const sim_row *row = model_find(op->name, op->name_length);

    return row != NULL && model_is_live(row) && !model_is_own(op);
}

/* Several that are not wanted all or none do not wait for each other. */
static int acquire(sim_request *r, rowlock_op *ops, size_t n, int all, int is_last)
{
    size_t possible = 0;
    int is_held = 0, is_locked = 0;

    for (size_t i = 0; i < n; i++) {
        const sim_row *row = model_find(ops[i].name, ops[i].name_length);
        int locked = row != NULL && model_is_shared(row, r->session);

        is_held |= is_seen_held(&ops[i]);
        is_locked |= locked;
        possible += !locked && is_takeable(&ops[i]) && !model_is_stale(&ops[i]);
    }
    if (is_locked && !is_held && !is_last && (all || n == 1))
        return 0;
    for (size_t i = 0; i < n; i++) {
        const sim_row *row = model_find(ops[i].name, ops[i].name_length);

        if (row != NULL && model_is_shared(row, r->session))
            model_answer_busy(&ops[i], row);
        else if (model_is_stale(&ops[i]))
            ops[i].status = ROWLOCK_LOST;
        else if (!is_takeable(&ops[i]))
            refuse(&ops[i], r->session);
        else if (all && possible < n)
            model_answer_busy(&ops[i], NULL);
        else
            take(&ops[i]);
    }
    return 1;
}

/* ---- renew, release, force ---- */

static sim_row *tenure(const rowlock_op *op)
{
    sim_row *row = model_find(op->name, op->name_length);

    return row != NULL && row->fence == op->fence && strcmp(row->owner, op->owner) == 0 ? row
                                                                                        : NULL;
}

static void renew(const sim_request *r, rowlock_op *op)
{
    sim_row *row = tenure(op);
    int64_t until = model_now() + op->ttl_us;

    op->status = ROWLOCK_LOST;
    if (row == NULL || !model_is_live(row))
        return;
    op->status = model_is_shared(row, r->session) ? ROWLOCK_BUSY : ROWLOCK_OK;
    if (op->status == ROWLOCK_OK && until > row->expire_time)
        row->expire_time = until;
    op->hold_count = row->hold_count;
    op->remaining_us = row->expire_time - model_now();
}

static void release(rowlock_op *op)
{
    static const uint8_t none[ROWLOCK_ATTEMPT_SIZE];
    sim_row *row = tenure(op);
    int is_repeated = row != NULL && memcmp(row->attempt, op->attempt, sizeof row->attempt) == 0;

    op->status = ROWLOCK_LOST;
    if (row == NULL || (!is_repeated && !model_is_live(row)))
        return;
    if (!is_repeated && memcmp(op->seen, none, sizeof none) != 0 &&
        memcmp(op->seen, row->attempt, sizeof row->attempt) != 0) {
        op->status = ROWLOCK_BUSY;
        memcpy(op->seen, row->attempt, sizeof row->attempt);
        return;
    }
    if (!is_repeated && --row->hold_count == 0)
        row->expire_time = model_now();
    memcpy(row->attempt, op->attempt, sizeof row->attempt);
    op->status = ROWLOCK_OK;
    op->hold_count = row->hold_count;
}

static int is_any_locked(const sim_request *r, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const sim_row *row = model_find(r->ops[i].name, r->ops[i].name_length);

        if (row != NULL && model_is_shared(row, r->session))
            return 1;
    }
    return 0;
}

static int lock_timeout(sim_request *r)
{
    r->rc = rlk_fail_native(&r->err, ROWLOCK_EDRIVER, 1205, "55P03", 1, "lock timeout");
    return 1;
}

static void release_all(sim_request *r)
{
    for (size_t i = 0; i < r->n; i++)
        release(&r->ops[i]);
    for (size_t i = 0; i < r->n; i++) {
        if (r->ops[i].ticket != 0)
            model_bell_ring(r->ops[i].ticket);
    }
}

static void force(rowlock_op *op)
{
    sim_row *row = model_find(op->name, op->name_length);

    op->status = ROWLOCK_LOST;
    if (row == NULL)
        return;
    if (memcmp(row->attempt, op->attempt, sizeof row->attempt) == 0) {
        op->status = ROWLOCK_OK;
    } else if (model_is_live(row) && (op->fence == 0 || op->fence == row->fence)) {
        uint64_t fence = model_next_fence(row);

        model_note_fence(row, fence);
        invariants_forced(row->name, row->fence);
        row->fence = fence;
        row->hold_count = 0;
        row->expire_time = model_now();
        memcpy(row->attempt, op->attempt, sizeof row->attempt);
        op->status = ROWLOCK_OK;
    }
}

/* The half that meets a locked row is left to be asked for again. */
static void exchange(sim_request *r)
{
    if (!is_any_locked(r, r->n)) {
        release_all(r);
    } else {
        for (size_t i = 0; i < r->n; i++)
            r->ops[i].status = ROWLOCK_BUSY;
    }
    for (size_t i = 0; i < r->m; i++)
        acquire(r, &r->ops[r->n + i], 1, 0, 1);
}

/* ---- reap, list ---- */

static int is_behind(const sim_row *row, const char *name, size_t length)
{
    int order = memcmp(row->name, name, row->name_length < length ? row->name_length : length);

    return order > 0 || (order == 0 && row->name_length > length);
}

static sim_row *first_behind(const char *name, size_t length)
{
    sim_row *first = NULL;

    for (size_t i = 0; i < model_row_count; i++) {
        sim_row *row = &model_rows[i];

        if (is_behind(row, name, length) &&
            (first == NULL || is_behind(first, row->name, row->name_length)))
            first = row;
    }
    return first;
}

static void reap(sim_request *r)
{
    int64_t before = model_now() - r->retention_us;
    uint32_t looks = r->limit * ROWLOCK_REAP_LOOK;
    sim_row *row = NULL;

    r->count = 0;
    while (r->count < r->limit && looks-- > 0 &&
           (row = first_behind(r->mark.name, r->mark.length)) != NULL) {
        r->mark.length = row->name_length;
        memcpy(r->mark.name, row->name, row->name_length);
        if (row->expire_time < before && !model_is_shared(row, r->session)) {
            drop_row(row);
            r->count++;
        }
    }
    if (row == NULL)
        r->mark.length = 0;
    model_reap_tickets();
}

static void list(sim_request *r)
{
    const char *after = r->mark.name;
    size_t length = r->mark.length;
    const sim_row *row;

    r->rows = sim_alloc((model_row_count + 1) * sizeof *r->rows);
    r->row_count = 0;
    while ((row = first_behind(after, length)) != NULL) {
        after = row->name;
        length = row->name_length;
        r->rows[r->row_count++] = *row;
    }
}

/* ---- all of them ---- */

static void apply(sim_request *r)
{
    r->rc = ROWLOCK_OK;
    if (version != r->from)
        r->rc = ROWLOCK_BUSY;
    else
        version = r->to;
}

static int is_waiting_write(const sim_request *r)
{
    return r->kind == ASK_RELEASE || r->kind == ASK_FORCE;
}

int model_execute(sim_request *r, int is_last, int *is_durable)
{
    *is_durable = r->kind == ASK_ACQUIRE || r->kind == ASK_RENEW || r->kind == ASK_FORCE ||
                  r->kind == ASK_TURN || r->kind == ASK_EXCHANGE || r->kind == ASK_END ||
                  r->kind == ASK_REAP || r->kind == ASK_PREPARE || r->kind == ASK_APPLY;
    r->rc = ROWLOCK_OK;
    if (is_waiting_write(r) && is_any_locked(r, r->n))
        return is_last ? lock_timeout(r) : 0;
    switch (r->kind) {
    case ASK_ACQUIRE:
        return acquire(r, r->ops, r->n, r->all, is_last);
    case ASK_RENEW:
        for (size_t i = 0; i < r->n; i++)
            renew(r, &r->ops[i]);
        break;
    case ASK_RELEASE:
        release_all(r);
        break;
    case ASK_EXCHANGE:
        exchange(r);
        break;
    case ASK_FORCE:
        force(r->ops);
        break;
    case ASK_REAP:
        reap(r);
        break;
    case ASK_LIST:
        list(r);
        break;
    case ASK_VERSION:
        r->version = version;
        break;
    case ASK_APPLY:
        apply(r);
        break;
    case ASK_PREPARE:
        return model_prepare(r);
    case ASK_LOCK:
        return model_lock(r, is_last);
    case ASK_GUARD:
        return model_guard(r);
    case ASK_BEGIN:
        r->session->in_transaction = 1;
        break;
    case ASK_END:
        return model_end(r);
    case ASK_ENQUEUE:
        return model_enqueue(r, is_last);
    case ASK_TURN:
        return model_turn(r, is_last);
    case ASK_LEAVE:
        return model_leave(r);
    case ASK_LOOK:
        return model_look(r);
    case ASK_WAITERS:
        model_list_tickets(r);
        break;
    default:
        break;
    }
    return 1;
}

void model_end_session(sim_session *session)
{
    model_unlock(session);
    model_session_rings(session);
    session->in_transaction = 0;
}
