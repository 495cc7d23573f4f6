/* SPDX-License-Identifier: MIT */
#include "mood.h"

#include <stdio.h>
#include <string.h>

enum { TTL_MS = 60000, SHORT_MS = 200 };

/* ---- words ----------------------------------------------------------------------------------- */

const char *mood_name(void)
{
    return fault_name("m'o\"o\\d`\xc3\xa9\xff%");
}

void mood_open(struct mood *m, const char *address, unsigned flags)
{
    memset(m, 0, sizeof(*m));
    m->address = address;
    m->flags = flags;
    m->direct = fault_open(fault.backend.address, NULL);
    m->client = fault_open(flags & MOOD_OWN_ONLY ? fault.backend.address : address, NULL);
    assert_int_equal(
        0, native_open(&m->own, address, flags & MOOD_FOUND_ROWS ? NATIVE_FOUND_ROWS : 0));
}

void mood_close(struct mood *m)
{
    native_close(&m->own);
    rowlock_close(&m->client);
    rowlock_close(&m->direct);
}

void mood_begin(struct mood *m)
{
    if (!(m->flags & MOOD_NO_BEGIN) && native_run(&m->own, "START TRANSACTION") != 0)
        fail_msg("cannot begin: %s", m->own.message);
}

int mood_write(struct native *native)
{
    static int next;

    next++;
    if (native_run(native, "INSERT INTO %srows (id) VALUES (%d)", fault.prefix, next) != 0)
        fail_msg("cannot write: %s", native->message);
    return next;
}

int mood_is_committed(int row)
{
    char sql[96];

    snprintf(sql, sizeof(sql), "SELECT COUNT(*) FROM {rows} WHERE id = %d", row);
    return fault_sql_number(sql) == 1;
}

int mood_others_try(struct mood *m, const char *name)
{
    rowlock_tx *tx = NULL;
    int status = rowlock_tx_begin(&tx, m->direct, &name, 1, NULL, &m->err);

    return status == ROWLOCK_OK ? rowlock_tx_commit(&tx, &m->err) : status;
}

static void commit(struct mood *m)
{
    if (native_commit(&m->own) != 0)
        fail_msg("cannot commit: %s", m->own.message);
}

static void roll_back(struct mood *m)
{
    assert_int_equal(0, native_run(&m->own, "ROLLBACK"));
}

/* Free, and with the fence that the transaction was told. */
static void assert_fence(struct mood *m, const char *name, uint64_t fence)
{
    struct fault_row row = fault_row(m->direct, name);

    assert_int_equal(1, row.found);
    assert_int_equal(0, row.hold_count);
    assert_true(row.fence == fence);
}

/* Either it is right, or it asks to be begun again; never OK where `right` is not. */
static void assert_right_or_retry(int right, int status, const rowlock_error *err)
{
    if (status == ROWLOCK_EDRIVER && err->retryable && err->message[0] != '\0')
        return;
    assert_status(right, status, err);
}

/* ---- the library's connection ---------------------------------------------------------------- */

static void on_the_librarys(struct mood *m)
{
    const char *names[2] = {mood_name(), mood_name()};
    rowlock_lock *lock = fault_acquire(m->direct, names[0], TTL_MS);
    uint64_t before = rowlock_fence(lock), fence;
    struct native native;
    rowlock_tx *tx = NULL;
    int row;

    assert_status(ROWLOCK_BUSY, rowlock_tx_begin(&tx, m->client, names, 2, NULL, &m->err), &m->err);
    fault_release(&lock);
    assert_status(ROWLOCK_OK, rowlock_tx_begin(&tx, m->client, names, 2, NULL, &m->err), &m->err);
    fence = rowlock_tx_fence(tx, 0);
    assert_true(fence > before);
    assert_status(ROWLOCK_BUSY, mood_others_try(m, names[0]), &m->err);
    assert_status(ROWLOCK_BUSY, mood_others_try(m, names[1]), &m->err);
    native_borrow(&native, tx);
    row = mood_write(&native);
    assert_status(ROWLOCK_OK, rowlock_tx_commit(&tx, &m->err), &m->err);
    assert_int_equal(1, mood_is_committed(row));
    assert_fence(m, names[0], fence);
    assert_status(ROWLOCK_OK, mood_others_try(m, names[0]), &m->err);
    assert_status(ROWLOCK_OK, rowlock_tx_begin(&tx, m->client, names, 1, NULL, &m->err), &m->err);
    native_borrow(&native, tx);
    row = mood_write(&native);
    assert_status(ROWLOCK_OK, rowlock_tx_rollback(&tx, &m->err), &m->err);
    assert_int_equal(0, mood_is_committed(row));
    assert_status(ROWLOCK_OK, mood_others_try(m, names[0]), &m->err);
}

/* ---- the application's ----------------------------------------------------------------------- */

static int lock_own(struct mood *m, const char *name, uint64_t *fence)
{
    return native_lock(fence, m->client, &m->own, &name, 1, NULL, &m->err);
}

static void on_own(struct mood *m)
{
    const char *name = mood_name();
    uint64_t fence = 0;
    int row;

    mood_begin(m);
    assert_status(ROWLOCK_OK, lock_own(m, name, &fence), &m->err);
    assert_status(ROWLOCK_BUSY, mood_others_try(m, name), &m->err);
    row = mood_write(&m->own);
    commit(m);
    assert_int_equal(1, mood_is_committed(row));
    assert_fence(m, name, fence);
    assert_status(ROWLOCK_OK, mood_others_try(m, name), &m->err);
}

/* A lease in the way: BUSY, and what was written before is committed all the same. */
static void on_own_busy(struct mood *m)
{
    const char *name = mood_name();
    rowlock_lock *lock = fault_acquire(m->direct, name, TTL_MS);
    int row;

    mood_begin(m);
    row = mood_write(&m->own);
    assert_status(ROWLOCK_BUSY, lock_own(m, name, NULL), &m->err);
    commit(m);
    assert_int_equal(1, mood_is_committed(row));
    fault_release(&lock);
}

/* The transaction has a snapshot, and then the row is changed. */
static void on_own_behind(struct mood *m)
{
    const char *name = mood_name();
    uint64_t fence = 0;
    int status;

    assert_status(ROWLOCK_OK, mood_others_try(m, name), &m->err);
    mood_begin(m);
    native_number(&m->own, "SELECT COUNT(*) FROM %srows", fault.prefix);
    assert_status(ROWLOCK_OK, mood_others_try(m, name), &m->err);
    status = lock_own(m, name, &fence);
    assert_right_or_retry(ROWLOCK_OK, status, &m->err);
    if (status == ROWLOCK_OK) {
        assert_status(ROWLOCK_BUSY, mood_others_try(m, name), &m->err);
        commit(m);
        assert_fence(m, name, fence);
    } else {
        roll_back(m);
    }
    assert_status(ROWLOCK_OK, mood_others_try(m, name), &m->err);
}

/* ---- the guard ------------------------------------------------------------------------------- */

/* Outlives its lease, if the machine was quick enough to guard it in time. */
static void guarded(struct mood *m)
{
    const char *name = mood_name();
    rowlock_lock *lock = fault_acquire(m->client, name, SHORT_MS);
    int status, row;

    mood_begin(m);
    status = native_guard(lock, &m->own, &m->err);
    if (status == ROWLOCK_OK) {
        row = mood_write(&m->own);
        process_sleep_ms(SHORT_MS + 20);
        assert_status(ROWLOCK_BUSY, mood_others_try(m, name), &m->err);
        commit(m);
        assert_int_equal(1, mood_is_committed(row));
    } else {
        assert_status(ROWLOCK_LOST, status, &m->err);
        roll_back(m);
    }
    rowlock_release(&lock, NULL);
    assert_status(ROWLOCK_OK, mood_others_try(m, name), &m->err);
}

/* In a transaction with a snapshot from before the lock was renewed, or lost. */
static void guarded_behind(struct mood *m, int lose)
{
    const char *name = mood_name();
    rowlock_lock *lock = fault_acquire(m->client, name, TTL_MS);

    mood_begin(m);
    native_number(&m->own, "SELECT COUNT(*) FROM %srows", fault.prefix);
    if (lose) {
        assert_status(ROWLOCK_OK, rowlock_force_release(m->direct, name, NULL, &m->err), &m->err);
        assert_status(ROWLOCK_OK, mood_others_try(m, name), &m->err);
    } else {
        assert_status(ROWLOCK_OK, rowlock_renew(lock, 2 * TTL_MS, &m->err), &m->err);
    }
    assert_right_or_retry(lose ? ROWLOCK_LOST : ROWLOCK_OK, native_guard(lock, &m->own, &m->err),
                          &m->err);
    roll_back(m);
    rowlock_release(&lock, NULL);
}

static void guarded_first(struct mood *m)
{
    const char *name = mood_name();
    rowlock_lock *lock = fault_acquire(m->client, name, TTL_MS);

    mood_begin(m);
    assert_status(ROWLOCK_OK, native_guard(lock, &m->own, &m->err), &m->err);
    assert_status(ROWLOCK_BUSY, rowlock_renew(lock, 0, &m->err), &m->err);
    assert_int_equal(ROWLOCK_OK, rowlock_check(lock));
    commit(m);
    assert_status(ROWLOCK_OK, rowlock_renew(lock, 0, &m->err), &m->err);
    assert_status(ROWLOCK_OK, rowlock_force_release(m->direct, name, NULL, &m->err), &m->err);
    mood_begin(m);
    assert_status(ROWLOCK_LOST, native_guard(lock, &m->own, &m->err), &m->err);
    roll_back(m);
    rowlock_release(&lock, NULL);
}

void mood_all(const char *address, unsigned flags)
{
    struct mood m;

    mood_open(&m, address, flags);
    if (!(flags & MOOD_OWN_ONLY))
        on_the_librarys(&m);
    on_own(&m);
    on_own_busy(&m);
    on_own_behind(&m);
    guarded(&m);
    guarded_first(&m);
    guarded_behind(&m, 0);
    guarded_behind(&m, 1);
    mood_close(&m);
}

int mood_setup(void **state)
{
    char out[64];

    (void)state;
    return fault_sql_on(fault.backend.address, "CREATE TABLE {rows} (id int PRIMARY KEY)", out,
                        sizeof(out));
}

int mood_teardown(void **state)
{
    (void)state;
    return native_drop("rows");
}
