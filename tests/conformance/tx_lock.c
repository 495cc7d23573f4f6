/* SPDX-License-Identifier: MIT
 *
 * The slots lock, end and native. */
#include "conformance.h"

/* Calls lock on a connection of the driver's, not in line. What it returned. */
static int lock_on(struct fixture *f, void *conn, rowlock_op *ops, size_t n, uint32_t wait_ms)
{
    rowlock_target target = {.size = sizeof(target), .conn = conn};
    return f->driver->lock(&target, ops, n, wait_ms, 0, CALL_MS, &f->err);
}

static void end(struct fixture *f, void *conn, int commit)
{
    expect_ok(f->driver->end(conn, commit, CALL_MS, &f->err), &f->err);
}

/* Locks a row that is there, and asserts that it was granted. */
static rowlock_op locked(struct fixture *f, void *conn, const char *name, const char *owner)
{
    rowlock_op op = op_new(name, owner);
    expect_ok(lock_on(f, conn, &op, 1, ROWLOCK_WAIT_NONE), &f->err);
    expect_ok(op.status, NULL);
    return op;
}

static void test_lock_raises_the_fence_when_it_is_committed(void **state)
{
    struct fixture *f = *state;
    rowlock_op lease = op_new("lock", "ann");
    lease.note = "counting";
    expect_ok(try_acquire(f, f->conn, &lease), NULL);
    rowlock_op back = op_of(&lease);
    expect_ok(try_release(f, f->conn, &back), NULL);
    void *conn = another(f);
    rowlock_op op = locked(f, conn, "lock", "bob");
    assert_true(op.fence > lease.fence);
    assert_int_equal(row_of(f, "lock").fence, lease.fence);
    end(f, conn, 1);
    struct row row = row_of(f, "lock");
    assert_int_equal(row.fence, op.fence);
    assert_string_equal(row.owner, "bob");
    assert_string_equal(row.note, "");
    assert_int_equal(row.hold_count, 0);
    assert_true(row.remaining_ms <= 0);
    expect_between(row.held_ms, 0, SLACK_US / 1000);
}

static void test_lock_that_is_rolled_back_changes_nothing(void **state)
{
    struct fixture *f = *state;
    grant_released(f, "lock", "ann");
    struct rows before = rows_read(f);
    void *conn = another(f);
    locked(f, conn, "lock", "bob");
    end(f, conn, 0);
    struct rows after = rows_read(f);
    expect_same_rows(&before, &after);
    rows_free(&before);
    rows_free(&after);
}

static void test_fences_rise_from_mode_to_mode(void **state)
{
    struct fixture *f = *state;
    uint64_t last = 0;
    for (int i = 0; i < 6; i++) {
        rowlock_op lease = grant_released(f, "lock", "ann");
        assert_true(lease.fence > last);
        rowlock_op op = locked(f, f->conn, "lock", "ann");
        assert_true(op.fence > lease.fence);
        end(f, f->conn, 1);
        last = op.fence;
    }
}

static void test_lock_never_waits_for_a_lease(void **state)
{
    struct fixture *f = *state;
    rowlock_op held = grant(f, "lock", "ann");
    static const uint32_t waits[] = {ROWLOCK_WAIT_NONE, 20000, ROWLOCK_WAIT_FOREVER};
    for (size_t i = 0; i < COUNT(waits); i++) {
        rowlock_op op = op_new("lock", "ann"); /* the holder itself */
        expect_soon(5000000, expect_ok(lock_on(f, f->conn, &op, 1, waits[i]), &f->err));
        expect_status(ROWLOCK_BUSY, op.status, NULL);
        assert_string_equal(op.holder, "ann");
        assert_int_equal(op.holder_fence, held.fence);
        expect_between(op.remaining_us, 1, LONG_US);
    }
    grant(f, "other", "bob"); /* no transaction is left */
}

static void test_lock_is_for_all_or_none(void **state)
{
    struct fixture *f = *state;
    grant_released(f, "a", "ann");
    rowlock_op held = grant(f, "b", "ann");
    grant_released(f, "c", "ann");
    struct rows before = rows_read(f);
    rowlock_op ops[] = {op_new("a", "bob"), op_new("b", "bob"), op_new("c", "bob")};
    expect_ok(lock_on(f, f->conn, ops, COUNT(ops), ROWLOCK_WAIT_NONE), &f->err);
    for (size_t i = 0; i < COUNT(ops); i++)
        expect_status(ROWLOCK_BUSY, ops[i].status, NULL);
    assert_string_equal(ops[0].holder, "");
    assert_int_equal(ops[0].remaining_us, 0);
    assert_string_equal(ops[1].holder, "ann");
    assert_int_equal(ops[1].holder_fence, held.fence);
    assert_string_equal(ops[2].holder, "");
    struct rows after = rows_read(f);
    expect_same_rows(&before, &after);
    rows_free(&before);
    rows_free(&after);
    locked(f, another(f), "a", "cid"); /* nothing stays locked; ended with the connection */
}

static void test_lock_of_an_absent_row_is_lost(void **state)
{
    struct fixture *f = *state;
    grant_released(f, "a", "ann");
    rowlock_op ops[] = {op_new("a", "bob"), op_new("b", "bob")};
    expect_ok(lock_on(f, f->conn, ops, COUNT(ops), ROWLOCK_WAIT_NONE), &f->err);
    assert_true(ops[0].status != ROWLOCK_OK);
    expect_status(ROWLOCK_LOST, ops[1].status, NULL);
    assert_false(row_exists(f, "b"));
    void *conn = another(f);
    locked(f, conn, "a", "cid");
    end(f, conn, 1);
}

/* Prepared or not: whoever is granted the lock has a row after COMMIT. */
static void test_lock_of_a_prepared_name_has_a_row_afterwards(void **state)
{
    struct fixture *f = *state;
    rowlock_op op = op_new("lock", "ann");
    expect_ok(f->driver->prepare(f->conn, &op, 1, CALL_MS, &f->err), &f->err);
    expect_ok(lock_on(f, f->conn, &op, 1, ROWLOCK_WAIT_NONE), &f->err);
    expect_ok(op.status, NULL);
    end(f, f->conn, 1);
    assert_int_equal(row_of(f, "lock").fence, op.fence);
    assert_string_equal(row_of(f, "lock").owner, "ann");
}

static void test_lock_without_wait_is_busy_at_once(void **state)
{
    struct fixture *f = *state;
    grant_released(f, "lock", "ann");
    void *conn = another(f);
    locked(f, conn, "lock", "ann");
    rowlock_op op = op_new("lock", "bob");
    expect_soon(1000000, expect_ok(lock_on(f, f->conn, &op, 1, ROWLOCK_WAIT_NONE), &f->err));
    expect_status(ROWLOCK_BUSY, op.status, NULL);
    assert_string_equal(op.holder, "");
    assert_int_equal(op.holder_fence, 0);
    assert_int_equal(op.remaining_us, 0);
    end(f, conn, 1);
    locked(f, f->conn, "lock", "bob"); /* the connection is as good as before */
    end(f, f->conn, 1);
}

static void test_lock_not_in_line_waits_some_seconds_at_most(void **state)
{
    struct fixture *f = *state;
    grant_released(f, "lock", "ann");
    void *conn = another(f);
    locked(f, conn, "lock", "ann");
    static const uint32_t waits[] = {300, ROWLOCK_WAIT_FOREVER};
    for (size_t i = 0; i < COUNT(waits); i++) {
        rowlock_op op = op_new("lock", "bob");
        expect_soon(i == 0 ? 4000000 : SLACK_US,
                    expect_ok(lock_on(f, f->conn, &op, 1, waits[i]), &f->err));
        expect_status(ROWLOCK_BUSY, op.status, NULL);
        assert_string_equal(op.holder, "");
    }
    end(f, conn, 0);
}

static void test_lock_leaves_others_alone(void **state)
{
    struct fixture *f = *state;
    grant_released(f, "a", "ann");
    grant_released(f, "b", "ann");
    grant_released(f, "c", "ann");
    void *conn = another(f), *second = another(f);
    locked(f, conn, "b", "ann");
    locked(f, f->conn, "a", "bob");
    locked(f, second, "c", "cid");
    end(f, conn, 1);
    end(f, f->conn, 1);
    end(f, second, 1);
}

static void test_end_commits_what_was_done_in_between(void **state)
{
    struct fixture *f = *state;
    shop_open(f);
    grant_released(f, "lock", "ann");
    for (int commit = 0; commit <= 1; commit++) {
        locked(f, f->conn, "lock", "ann");
        void *native = f->driver->native(f->conn);
        assert_non_null(native);
        assert_int_equal(shop_add(f, native, 1), 0);
        end(f, f->conn, commit);
        assert_int_equal(shop_has(f, 1), commit);
    }
}

static void test_end_after_the_applications_own_is_no_success(void **state)
{
    struct fixture *f = *state;
    grant_released(f, "lock", "ann");
    static const char *const own[] = {"COMMIT", "ROLLBACK"};
    for (size_t i = 0; i < COUNT(own); i++) {
        void *conn = another(f);
        locked(f, conn, "lock", "ann");
        sql_in(f, f->driver->native(conn), own[i]);
        expect_status(ROWLOCK_EDRIVER, f->driver->end(conn, 1, CALL_MS, &f->err), &f->err);
        assert_true(f->err.message[0] != '\0');
    }
    void *conn = another(f);
    locked(f, conn, "lock", "ann");
    sql_in(f, f->driver->native(conn), "COMMIT");
    end(f, conn, 0);
}

static void test_end_of_a_failed_transaction_is_no_success(void **state)
{
    struct fixture *f = *state;
    rowlock_op old = grant_released(f, "lock", "ann");
    locked(f, f->conn, "lock", "bob");
    assert_int_not_equal(
        f->backend->kind->sql_run(f->driver->native(f->conn), "SELECT no_such_column", NULL, 0), 0);
    expect_status(ROWLOCK_EDRIVER, f->driver->end(f->conn, 1, CALL_MS, &f->err), &f->err);
    assert_int_equal(row_of(f, "lock").fence, old.fence);
}

static void test_end_of_a_killed_connection_is_no_success(void **state)
{
    struct fixture *f = *state;
    rowlock_op old = grant_released(f, "lock", "ann");
    void *conn = another(f), *session = sql_begin(f);
    locked(f, conn, "lock", "bob");
    assert_int_equal(f->backend->kind->kill(session, f->driver->native(conn)), 0);
    int status = f->driver->end(conn, 1, CALL_MS, &f->err);
    assert_true(status == ROWLOCK_ECONNECT || status == ROWLOCK_EUNKNOWN);
    assert_true(f->err.message[0] != '\0');
    assert_int_equal(row_of(f, "lock").fence, old.fence);
}

#define TX (BACKEND_TRANSACTIONS)

static const struct test_case cases[] = {
    CASE_IF(test_lock_raises_the_fence_when_it_is_committed, TX),
    CASE_IF(test_lock_that_is_rolled_back_changes_nothing, TX),
    CASE_IF(test_fences_rise_from_mode_to_mode, TX),
    CASE_IF(test_lock_never_waits_for_a_lease, TX),
    CASE_IF(test_lock_is_for_all_or_none, TX),
    CASE_IF(test_lock_of_an_absent_row_is_lost, TX | BACKEND_ROW_LOCKS),
    CASE_IF(test_lock_of_a_prepared_name_has_a_row_afterwards, TX),
    CASE_IF(test_lock_without_wait_is_busy_at_once, TX),
    CASE_IF(test_lock_not_in_line_waits_some_seconds_at_most, TX),
    CASE_IF(test_lock_leaves_others_alone, TX | BACKEND_ROW_LOCKS),
    CASE_IF(test_end_commits_what_was_done_in_between, TX),
    CASE_IF(test_end_after_the_applications_own_is_no_success, TX),
    CASE_IF(test_end_of_a_failed_transaction_is_no_success, TX | BACKEND_FAILED),
    CASE_IF(test_end_of_a_killed_connection_is_no_success, TX | BACKEND_KILL),
};

const struct suite tx_lock_suite = SUITE("tx_lock", cases);
