/* SPDX-License-Identifier: MIT
 *
 * Transactions: rows that a session keeps locked, alone (`lock`) or with others (`guard`), and what
 * it has written, which counts at its commit. */
#include <string.h>

#include "error.h"
#include "model.h"

enum { MOST_LOCKS = 200 };

typedef struct row_lock {
    sim_row *row;
    const sim_session *session;
    int is_shared;
    int is_written; /* `lock`: this is what the commit makes of the row */
    uint64_t fence;
    char owner[OWNER_ROOM];
    uint8_t attempt[ROWLOCK_ATTEMPT_SIZE];
} row_lock;

static row_lock locks[MOST_LOCKS];
static size_t lock_count;

void model_tx_reset(void)
{
    lock_count = 0;
}

int model_is_shared(const sim_row *row, const sim_session *by)
{
    for (size_t i = 0; i < lock_count; i++) {
        if (locks[i].row == row && locks[i].session != by)
            return 1;
    }
    return 0;
}

/* By somebody who does not share it. */
int model_is_locked(const sim_row *row, const sim_session *by)
{
    for (size_t i = 0; i < lock_count; i++) {
        if (locks[i].row == row && locks[i].session != by && !locks[i].is_shared)
            return 1;
    }
    return 0;
}

void model_move_locks(const sim_row *from, sim_row *to)
{
    for (size_t i = 0; i < lock_count; i++) {
        if (locks[i].row == from)
            locks[i].row = to;
    }
}

void model_unlock(const sim_session *session)
{
    size_t n = 0;

    for (size_t i = 0; i < lock_count; i++) {
        if (locks[i].session != session)
            locks[n++] = locks[i];
    }
    lock_count = n;
}

static row_lock *add_lock(sim_row *row, const sim_session *session, int is_shared)
{
    row_lock *l = &locks[lock_count < MOST_LOCKS - 1 ? lock_count++ : lock_count];

    *l = (row_lock){.row = row, .session = session, .is_shared = is_shared};
    return l;
}

void model_seize(sim_row *row, const sim_session *session)
{
    if (!model_is_shared(row, session))
        add_lock(row, session, 0);
}

int model_prepare(sim_request *r)
{
    for (size_t i = 0; i < r->n; i++) {
        rowlock_op *op = &r->ops[i];
        sim_row *row = model_find(op->name, op->name_length);

        if (row == NULL) {
            row = model_make(op->name, op->name_length);
            row->fence = model_next_fence(row);
            row->acquire_time = row->expire_time = model_now();
        }
        model_answer_busy(op, row);
        if (!model_is_live(row))
            op->status = ROWLOCK_OK;
    }
    return 1;
}

/* Its own earlier locks are not in the way; a lease is. */
static int is_in_the_way(const rowlock_op *op, const sim_session *session)
{
    const sim_row *row = model_find(op->name, op->name_length);

    return row == NULL || model_is_live(row) || model_is_shared(row, session);
}

static void lock_row(rowlock_op *op, const sim_session *session)
{
    sim_row *row = model_find(op->name, op->name_length);
    uint64_t fence = model_next_fence(row);
    row_lock *l;

    for (size_t i = 0; i < lock_count; i++) {
        if (locks[i].row == row && locks[i].session == session && locks[i].fence >= fence)
            fence = locks[i].fence + 1;
    }
    model_note_fence(row, fence);
    l = add_lock(row, session, 0);
    l->is_written = 1;
    l->fence = fence;
    snprintf(l->owner, sizeof l->owner, "%s", op->owner);
    memcpy(l->attempt, op->attempt, sizeof l->attempt);
    op->status = ROWLOCK_OK;
    op->fence = fence;
}

int model_lock(sim_request *r, int is_last)
{
    size_t in_the_way = 0, locked = 0, live = 0;

    for (size_t i = 0; i < r->n; i++) {
        const sim_row *row = model_find(r->ops[i].name, r->ops[i].name_length);

        in_the_way += is_in_the_way(&r->ops[i], r->session) != 0;
        live += row == NULL || model_is_live(row);
        locked += row != NULL && model_is_shared(row, r->session);
    }
    if (locked > 0 && live == 0 && !is_last)
        return 0;
    if (in_the_way == 0)
        r->session->in_transaction = 1;
    for (size_t i = 0; i < r->n; i++) {
        rowlock_op *op = &r->ops[i];
        const sim_row *row = model_find(op->name, op->name_length);

        if (in_the_way == 0)
            lock_row(op, r->session);
        else if (row == NULL)
            op->status = ROWLOCK_LOST;
        else
            model_answer_busy(op, row);
    }
    return 1;
}

int model_guard(sim_request *r)
{
    rowlock_op *op = r->ops;
    sim_row *row = model_find(op->name, op->name_length);

    op->status = ROWLOCK_LOST;
    if (row == NULL || row->fence != op->fence || strcmp(row->owner, op->owner) != 0 ||
        !model_is_live(row))
        return 1;
    op->status = model_is_locked(row, r->session) ? ROWLOCK_BUSY : ROWLOCK_OK;
    if (op->status == ROWLOCK_OK)
        add_lock(row, r->session, 1);
    return 1;
}

static void write_all(const sim_session *session)
{
    for (size_t i = 0; i < lock_count; i++) {
        row_lock *l = &locks[i];

        if (l->session != session || !l->is_written)
            continue;
        l->row->fence = l->fence;
        memcpy(l->row->owner, l->owner, sizeof l->owner);
        memcpy(l->row->attempt, l->attempt, sizeof l->attempt);
        l->row->hold_count = 0;
        l->row->note[0] = '\0';
        l->row->acquire_time = l->row->expire_time = model_now();
    }
}

int model_end(sim_request *r)
{
    if (!r->session->in_transaction) {
        r->rc = rlk_fail(&r->err, ROWLOCK_EDRIVER, "there is no transaction");
        return 1;
    }
    if (r->commit)
        write_all(r->session);
    model_unlock(r->session);
    r->session->in_transaction = 0;
    return 1;
}
