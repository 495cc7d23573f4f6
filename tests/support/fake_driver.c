/* SPDX-License-Identifier: MIT */
#include "fake_driver.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "error.h"
#include "fake_clock.h"
#include "fake_queue.h"
#include "fake_tx.h"

enum { MOST_ROWS = 2000 };

static struct {
    fake_row rows[MOST_ROWS];
    size_t count;
    int version;
    int calls, fault_at, for_ever, connections, most_connections;
    enum fake_fault fault;
    int64_t before_us, after_us;
} db;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

int64_t fake_now(void)
{
    return rlk_clock_us() + INT64_C(1700000000000000);
}

void fake_reset(void)
{
    memset(&db, 0, sizeof db);
    db.version = 1;
    fake_queue_reset();
}

void fake_plan(int call, enum fake_fault fault, int for_ever)
{
    pthread_mutex_lock(&mutex);
    db.calls = 0;
    db.fault_at = call;
    db.fault = fault;
    db.for_ever = for_ever;
    pthread_mutex_unlock(&mutex);
}

void fake_slow(int64_t before_us, int64_t after_us)
{
    db.before_us = before_us;
    db.after_us = after_us;
}

int fake_calls(void)
{
    return db.calls;
}

int fake_connections(void)
{
    return db.connections;
}

int fake_most_connections(void)
{
    return db.most_connections;
}

void fake_set_version(int version)
{
    db.version = version;
}

fake_row *fake_row_of(const char *name, size_t length)
{
    for (size_t i = 0; i < db.count; i++) {
        if (db.rows[i].name_length == length && memcmp(db.rows[i].name, name, length) == 0)
            return &db.rows[i];
    }
    return NULL;
}

fake_row *fake_row_new(const char *name, size_t length)
{
    fake_row *row = &db.rows[db.count++];

    memset(row, 0, sizeof *row);
    memcpy(row->name, name, length);
    row->name_length = length;
    return row;
}

fake_row *fake_find(const char *name)
{
    return fake_row_of(name, strlen(name));
}

fake_row *fake_row_at(size_t i)
{
    return i < db.count ? &db.rows[i] : NULL;
}

int fake_is_live(const char *name)
{
    fake_row *row = fake_find(name);

    return row != NULL && row->expire_time > fake_now();
}

/* ---- faults ---- */

enum fake_fault fake_begin(void)
{
    pthread_mutex_lock(&mutex);
    fake_clock_advance_us(db.before_us);
    db.calls++;
    if (db.fault_at > 0 && (db.calls == db.fault_at || (db.for_ever && db.calls > db.fault_at)))
        return db.fault;
    return FAKE_NONE;
}

int fake_done(enum fake_fault fault, rowlock_error *err)
{
    fake_clock_advance_us(db.after_us);
    pthread_mutex_unlock(&mutex);
    switch (fault) {
    case FAKE_NO_CONNECTION:
        return rlk_fail_native(err, ROWLOCK_ECONNECT, 0, NULL, 1, "cannot connect: refused");
    case FAKE_CUT_BEFORE:
    case FAKE_CUT_AFTER:
        return rlk_fail_native(err, ROWLOCK_EUNKNOWN, 0, NULL, 1, "connection lost");
    case FAKE_DEADLOCK:
        return rlk_fail_native(err, ROWLOCK_EDRIVER, 1213, "40001", 1, "deadlock");
    case FAKE_REFUSED:
        return rlk_fail_native(err, ROWLOCK_EDRIVER, 1142, "42000", 0, "permission denied");
    default:
        return rlk_ok(err);
    }
}

int fake_takes_effect(enum fake_fault fault)
{
    return fault == FAKE_NONE || fault == FAKE_CUT_AFTER;
}

/* ---- slots ---- */

static int fake_open(void *conn, const rowlock_config *config, uint32_t timeout_ms,
                     rowlock_error *err)
{
    enum fake_fault fault = fake_begin();

    (void)timeout_ms;
    if (strcmp(config->address, "fake") != 0) {
        pthread_mutex_unlock(&mutex);
        return rlk_fail(err, ROWLOCK_EINVAL, "not a fake address");
    }
    if (fault == FAKE_NONE) {
        ((fake_conn *)conn)->open = 1;
        ((fake_conn *)conn)->session.place = fake_here;
        db.connections++;
        if (db.connections > db.most_connections)
            db.most_connections = db.connections;
    }
    return fake_done(fault == FAKE_NONE ? fault : FAKE_NO_CONNECTION, err);
}

static void fake_close(void *conn)
{
    pthread_mutex_lock(&mutex);
    fake_unlock(conn);
    fake_conn_rings(conn);
    if (((fake_conn *)conn)->open)
        db.connections--;
    pthread_mutex_unlock(&mutex);
}

void fake_answer_busy(rowlock_op *op, const fake_row *row)
{
    op->status = ROWLOCK_BUSY;
    op->remaining_us = row->expire_time - fake_now();
    op->holder_fence = row->fence;
    snprintf(op->holder, sizeof op->holder, "%s", row->owner);
}

int fake_is_own(const rowlock_op *op)
{
    const fake_row *row = fake_row_of(op->name, op->name_length);

    return row != NULL && row->expire_time > fake_now() && strcmp(row->owner, op->owner) == 0;
}

static int takeable(const rowlock_op *op)
{
    const fake_row *row = fake_row_of(op->name, op->name_length);

    if (row != NULL && row->locked)
        return 0;
    return fake_is_own(op) ||
           ((row == NULL || row->expire_time <= fake_now()) && !fake_is_barred(op));
}

static void take(rowlock_op *op)
{
    fake_row *row = fake_row_of(op->name, op->name_length);
    int64_t now = fake_now();

    if (row == NULL)
        row = fake_row_new(op->name, op->name_length);
    if (row->expire_time <= now) {
        row->fence = row->fence + 1 > (uint64_t)now ? row->fence + 1 : (uint64_t)now;
        row->hold_count = 1;
        row->acquire_time = now;
        row->expire_time = now + op->ttl_us;
        snprintf(row->note, sizeof row->note, "%s", op->note);
    } else if (memcmp(row->attempt, op->attempt, sizeof row->attempt) != 0) {
        row->hold_count++;
    }
    if (row->expire_time < now + op->ttl_us)
        row->expire_time = now + op->ttl_us;
    if (op->note[0] != '\0')
        snprintf(row->note, sizeof row->note, "%s", op->note);
    snprintf(row->owner, sizeof row->owner, "%s", op->owner);
    memcpy(row->attempt, op->attempt, sizeof row->attempt);
    fake_ticket_used(op);
    op->status = ROWLOCK_OK;
    op->fence = row->fence;
    op->hold_count = row->hold_count;
    op->remaining_us = row->expire_time - now;
}

/* What can be seen of the row, if there is one. */
static void refuse(rowlock_op *op)
{
    const fake_row *row = fake_row_of(op->name, op->name_length);
    int is_held = row != NULL && (row->locked || row->expire_time > fake_now());

    op->status = ROWLOCK_BUSY;
    op->remaining_us = 0;
    op->is_queue = !is_held;
    if (is_held)
        fake_answer_busy(op, row);
}

void fake_take_one(rowlock_op *op)
{
    memset(op->holder, 0, sizeof op->holder);
    if (takeable(op))
        take(op);
    else
        refuse(op);
}

/* The row has a later attempt of the same owner and client. */
static int is_stale(const rowlock_op *op)
{
    enum { HALF = ROWLOCK_ATTEMPT_SIZE / 2 };
    const fake_row *row = fake_row_of(op->name, op->name_length);

    return row != NULL && strcmp(row->owner, op->owner) == 0 &&
           memcmp(row->attempt, op->attempt, HALF) == 0 &&
           memcmp(row->attempt, op->attempt, sizeof op->attempt) > 0;
}

static int fake_acquire(void *conn, rowlock_op *ops, size_t n, int all, uint32_t timeout_ms,
                        rowlock_error *err)
{
    enum fake_fault fault = fake_begin();
    size_t possible = 0;

    (void)conn;
    (void)timeout_ms;
    for (size_t i = 0; i < n; i++)
        possible += takeable(&ops[i]) && !is_stale(&ops[i]);
    for (size_t i = 0; fake_takes_effect(fault) && i < n; i++) {
        memset(ops[i].holder, 0, sizeof ops[i].holder);
        if (is_stale(&ops[i])) {
            ops[i].status = ROWLOCK_LOST;
        } else if (!takeable(&ops[i])) {
            refuse(&ops[i]);
        } else if (all && possible < n) {
            ops[i].status = ROWLOCK_BUSY;
            ops[i].remaining_us = 0;
        } else {
            take(&ops[i]);
        }
    }
    return fake_done(fault, err);
}

static fake_row *tenure(const rowlock_op *op)
{
    fake_row *row = fake_row_of(op->name, op->name_length);

    return row != NULL && row->fence == op->fence && strcmp(row->owner, op->owner) == 0 ? row
                                                                                        : NULL;
}

static int fake_renew(void *conn, rowlock_op *ops, size_t n, uint32_t timeout_ms,
                      rowlock_error *err)
{
    enum fake_fault fault = fake_begin();

    (void)conn;
    (void)timeout_ms;
    for (size_t i = 0; fake_takes_effect(fault) && i < n; i++) {
        fake_row *row = tenure(&ops[i]);
        int64_t until = fake_now() + ops[i].ttl_us;

        ops[i].status = ROWLOCK_LOST;
        if (row == NULL || row->expire_time <= fake_now())
            continue;
        ops[i].status = row->locked ? ROWLOCK_BUSY : ROWLOCK_OK;
        if (!row->locked && until > row->expire_time)
            row->expire_time = until;
        ops[i].hold_count = row->hold_count;
        ops[i].remaining_us = row->expire_time - fake_now();
    }
    return fake_done(fault, err);
}

static int fake_release(void *conn, rowlock_op *ops, size_t n, uint32_t timeout_ms,
                        rowlock_error *err)
{
    static const uint8_t none[ROWLOCK_ATTEMPT_SIZE];
    enum fake_fault fault = fake_begin();

    (void)conn;
    (void)timeout_ms;
    for (size_t i = 0; fake_takes_effect(fault) && i < n; i++) {
        fake_row *row = tenure(&ops[i]);
        int repeated = row != NULL && memcmp(row->attempt, ops[i].attempt, 16) == 0;

        ops[i].status = ROWLOCK_LOST;
        if (row == NULL || (!repeated && (row->hold_count == 0 || row->expire_time <= fake_now())))
            continue;
        if (!repeated && memcmp(ops[i].seen, none, 16) != 0 &&
            memcmp(ops[i].seen, row->attempt, 16) != 0) {
            ops[i].status = ROWLOCK_BUSY;
            memcpy(ops[i].seen, row->attempt, sizeof row->attempt);
            continue;
        }
        if (!repeated)
            row->hold_count--;
        if (!repeated && row->hold_count == 0)
            row->expire_time = fake_now();
        memcpy(row->attempt, ops[i].attempt, sizeof row->attempt);
        ops[i].status = ROWLOCK_OK;
        ops[i].hold_count = row->hold_count;
    }
    for (size_t i = 0; fake_takes_effect(fault) && i < n; i++) {
        if (ops[i].ticket != 0)
            fake_bell_ring(ops[i].ticket);
    }
    return fake_done(fault, err);
}

static int fake_force_release(void *conn, rowlock_op *op, uint32_t timeout_ms, rowlock_error *err)
{
    enum fake_fault fault = fake_begin();
    fake_row *row = fake_row_of(op->name, op->name_length);
    int repeated = row != NULL && memcmp(row->attempt, op->attempt, 16) == 0;

    (void)conn;
    (void)timeout_ms;
    if (fake_takes_effect(fault)) {
        op->status = ROWLOCK_LOST;
        if (repeated) {
            op->status = ROWLOCK_OK;
        } else if (row != NULL && row->expire_time > fake_now() &&
                   (op->fence == 0 || op->fence == row->fence)) {
            row->fence =
                row->fence + 1 > (uint64_t)fake_now() ? row->fence + 1 : (uint64_t)fake_now();
            row->hold_count = 0;
            row->expire_time = fake_now();
            memcpy(row->attempt, op->attempt, sizeof row->attempt);
            op->status = ROWLOCK_OK;
        }
    }
    return fake_done(fault, err);
}

static int is_behind(const fake_row *row, const char *name, size_t length)
{
    int order = memcmp(row->name, name, row->name_length < length ? row->name_length : length);

    return order > 0 || (order == 0 && row->name_length > length);
}

/* The first row behind the mark, NULL if there is none. */
static fake_row *first_behind(const rowlock_mark *mark)
{
    fake_row *first = NULL;

    for (fake_row *row = db.rows; row < db.rows + db.count; row++) {
        if (is_behind(row, mark->name, mark->length) &&
            (first == NULL || is_behind(first, row->name, row->name_length)))
            first = row;
    }
    return first;
}

static int fake_reap(void *conn, uint64_t *out, rowlock_mark *mark, int64_t retention_us,
                     uint32_t limit, uint32_t timeout_ms, rowlock_error *err)
{
    enum fake_fault fault = fake_begin();
    int64_t before = fake_now() - retention_us;
    uint32_t looks = limit * ROWLOCK_REAP_LOOK;
    fake_row *row = NULL;

    (void)conn;
    (void)timeout_ms;
    *out = 0;
    while (fake_takes_effect(fault) && *out < limit && looks-- > 0 &&
           (row = first_behind(mark)) != NULL) {
        mark->length = row->name_length;
        memcpy(mark->name, row->name, row->name_length);
        if (row->expire_time < before && (int64_t)row->fence < before) {
            *row = db.rows[--db.count];
            ++*out;
        }
    }
    if (row == NULL)
        mark->length = 0;
    return fake_done(fault, err);
}

static int fake_list(void *conn, const rowlock_list_query *query, rowlock_row_fn fn, void *payload,
                     uint32_t timeout_ms, rowlock_error *err)
{
    rowlock_mark mark;
    const fake_row *f;
    enum fake_fault fault = fake_begin();

    (void)conn;
    (void)timeout_ms;
    memcpy(mark.name, query->after == NULL ? "" : query->after, query->after_length);
    mark.length = query->after_length;
    while (fake_takes_effect(fault) && (f = first_behind(&mark)) != NULL) {
        rowlock_row row = {.size = sizeof row,
                           .name = f->name,
                           .name_length = f->name_length,
                           .owner = f->owner,
                           .note = f->note,
                           .fence = f->fence,
                           .hold_count = f->hold_count,
                           .held_ms = (fake_now() - f->acquire_time) / 1000,
                           .remaining_ms = (f->expire_time - fake_now()) / 1000};

        memcpy(mark.name, f->name, f->name_length);
        mark.length = f->name_length;
        if ((f->expire_time > fake_now() || query->expired) &&
            f->name_length >= query->starts_with_length &&
            (query->starts_with == NULL ||
             memcmp(f->name, query->starts_with, query->starts_with_length) == 0) &&
            fn(&row, payload) != 0)
            break;
    }
    return fake_done(fault, err);
}

static int fake_schema_version(void *conn, int *out, uint32_t timeout_ms, rowlock_error *err)
{
    enum fake_fault fault = fake_begin();

    (void)conn;
    (void)timeout_ms;
    *out = db.version;
    return fake_done(fault, err);
}

static int fake_schema_apply(void *conn, int from, int to, uint32_t timeout_ms, rowlock_error *err)
{
    enum fake_fault fault = fake_begin();
    int moved = db.version != from;
    int rc;

    (void)conn;
    (void)timeout_ms;
    if (fake_takes_effect(fault) && !moved)
        db.version = to;
    rc = fake_done(fault, err);
    return rc == ROWLOCK_OK && moved ? ROWLOCK_BUSY : rc;
}

const rowlock_driver *fake_driver(void)
{
    static const rowlock_migration steps[] = {{.version = 1,
                                               .name = "locks",
                                               .up = "CREATE rowlock_locks;\n",
                                               .down = "DROP rowlock_locks;\n"}};
    static const rowlock_driver driver = {
        .size = sizeof driver,
        .name = "fake",
        .conn_size = sizeof(fake_conn),
        .quote = '"',
        .has_schemas = 1,
        .migration_count = 1,
        .migrations = steps,
        .open = fake_open,
        .close = fake_close,
        .acquire = fake_acquire,
        .renew = fake_renew,
        .release = fake_release,
        .force_release = fake_force_release,
        .reap = fake_reap,
        .list = fake_list,
        .schema_version = fake_schema_version,
        .schema_apply = fake_schema_apply,
        .prepare = fake_prepare,
        .locate = fake_locate,
        .lock = fake_lock,
        .guard = fake_guard,
        .end = fake_end,
        .native = fake_native,
    };

    return &driver;
}
