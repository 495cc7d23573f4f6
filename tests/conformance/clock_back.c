/* SPDX-License-Identifier: MIT
 *
 * The server's clock was set back by an hour. Instead of the clock, the times of all rows are
 * moved: they lie an hour further ahead. What was given back or forced stays so, and nothing is
 * given twice. */
#include <stdio.h>

#include "queue.h"

#define STEP_US "3600000000"

static void step_back(struct fixture *f)
{
    sql_run(f,
            "UPDATE rowlock_locks SET fence = fence + " STEP_US
            ", acquire_time = acquire_time + " STEP_US ", expire_time = expire_time + " STEP_US,
            NULL, 0);
}

/* A tenure that was given back before the step, with the fence that it has now. */
static rowlock_op released_before(struct fixture *f, const char *name, const char *owner)
{
    rowlock_op op = grant_released(f, name, owner);
    step_back(f);
    op.fence = row_of(f, name).fence;
    return op;
}

static void expect_new_tenure(const rowlock_op *op, const rowlock_op *old)
{
    expect_ok(op->status, NULL);
    assert_true(op->fence > old->fence);
    assert_int_equal(op->hold_count, 1);
    assert_true(op->remaining_us <= op->ttl_us);
}

static void test_released_lock_is_free_for_others(void **state)
{
    struct fixture *f = *state;
    rowlock_op old = released_before(f, "lock", "ann"), op = op_new("lock", "bob");
    try_acquire(f, f->conn, &op);
    expect_new_tenure(&op, &old);
    expect_between(row_of(f, "lock").remaining_ms, 1, LONG_US / 1000);
}

static void test_released_lock_is_a_new_tenure_for_its_owner(void **state)
{
    struct fixture *f = *state;
    rowlock_op old = released_before(f, "lock", "ann"), op = op_new("lock", "ann");
    try_acquire(f, f->conn, &op);
    expect_new_tenure(&op, &old);
    expect_between(row_of(f, "lock").remaining_ms, 1, LONG_US / 1000);
}

static void test_released_locks_are_free_for_a_batch(void **state)
{
    struct fixture *f = *state;
    for (int all = 0; all <= 1; all++) {
        rowlock_op a = grant_released(f, "a", "ann"), b = grant_released(f, "b", "bob");
        step_back(f);
        a.fence = row_of(f, "a").fence;
        b.fence = row_of(f, "b").fence;
        rowlock_op ops[] = {op_new("a", "ann"), op_new("b", "cid"), op_new("c", "cid")};
        ops_acquire(f, f->conn, ops, COUNT(ops), all);
        expect_new_tenure(&ops[0], &a);
        expect_new_tenure(&ops[1], &b);
        expect_ok(ops[2].status, NULL);
        for (size_t i = 0; i < COUNT(ops); i++) {
            assert_true(row_of(f, ops[i].name).remaining_ms <= LONG_US / 1000);
            rowlock_op back = op_of(&ops[i]);
            expect_ok(try_release(f, f->conn, &back), NULL);
        }
    }
}

static void test_released_tenure_does_not_come_back(void **state)
{
    struct fixture *f = *state;
    rowlock_op old = released_before(f, "lock", "ann"), op = op_of(&old);
    expect_status(ROWLOCK_LOST, try_renew(f, f->conn, &op), NULL);
    op = op_of(&old);
    expect_status(ROWLOCK_LOST, try_release(f, f->conn, &op), NULL);
    op = op_of(&old);
    expect_status(ROWLOCK_LOST, try_force(f, f->conn, &op), NULL);
    assert_int_equal(row_of(f, "lock").fence, old.fence);
}

static void test_forced_lock_is_free(void **state)
{
    struct fixture *f = *state;
    rowlock_op held = grant(f, "lock", "ann"), op = op_of(&held);
    expect_ok(try_force(f, f->conn, &op), NULL);
    step_back(f);
    held.fence = row_of(f, "lock").fence;
    op = op_new("lock", "ann");
    try_acquire(f, f->conn, &op);
    expect_new_tenure(&op, &held);
}

static void test_released_lock_is_not_listed(void **state)
{
    struct fixture *f = *state;
    released_before(f, "lock", "ann");
    struct rows rows = rows_query(f, "", 0, 0);
    assert_int_equal(rows.count, 0);
    rows_free(&rows);
    assert_true(row_of(f, "lock").remaining_ms <= 0);
    char out[256] = "";
    sql_run(f, "SELECT name FROM rowlock_held", out, sizeof(out));
    assert_string_equal(out, "");
}

static void test_held_lock_stays_held(void **state)
{
    struct fixture *f = *state;
    grant(f, "lock", "ann");
    step_back(f);
    rowlock_op op = op_new("lock", "bob");
    expect_status(ROWLOCK_BUSY, try_acquire(f, f->conn, &op), NULL);
    assert_string_equal(op.holder, "ann");
}

static void test_exchange_takes_a_released_lock(void **state)
{
    struct fixture *f = *state;
    rowlock_op old = released_before(f, "b", "ann");
    rowlock_op held = grant(f, "a", "ann"), back = op_of(&held), op = op_new("b", "ann");
    ops_exchange(f, f->conn, &back, 1, &op, 1);
    if (op.status != ROWLOCK_OK)
        try_acquire(f, f->conn, &op); /* as the core does with what was left */
    expect_new_tenure(&op, &old);
}

static void test_transaction_takes_a_released_lock(void **state)
{
    struct fixture *f = *state;
    rowlock_op old = released_before(f, "lock", "ann"), op = op_new("lock", "ann");
    expect_ok(f->driver->prepare(f->conn, &op, 1, CALL_MS, &f->err), &f->err);
    expect_ok(op.status, NULL);
    for (uint32_t wait_ms = 0; wait_ms <= 1000; wait_ms += 1000) {
        op = op_new("lock", "ann");
        rowlock_target target = {.size = sizeof(target), .conn = f->conn};
        expect_ok(f->driver->lock(&target, &op, 1, wait_ms, 0, CALL_MS, &f->err), &f->err);
        expect_ok(op.status, NULL);
        assert_true(op.fence > old.fence);
        expect_ok(f->driver->end(f->conn, 1, CALL_MS, &f->err), &f->err);
    }
}

static void test_released_tenure_is_not_guarded(void **state)
{
    struct fixture *f = *state;
    static char place[ROWLOCK_PLACE_MAX];
    rowlock_op op = released_before(f, "lock", "ann");
    expect_ok(f->driver->locate(f->conn, place, sizeof(place), CALL_MS, &f->err), &f->err);
    void *session = session_open(f);
    rowlock_target target = {
        .size = sizeof(target), .native = session, .prefix = f->prefix, .place = place};
    expect_ok(f->driver->guard(&target, &op, CALL_MS, &f->err), &f->err);
    expect_status(ROWLOCK_LOST, op.status, NULL);
    sql_end(f, session);
}

static void test_waiter_takes_a_released_lock(void **state)
{
    struct fixture *f = *state;
    rowlock_op old = released_before(f, "lock", "ann");
    void *conn = another(f);
    rowlock_op op = queue_up(f, conn, "lock", "bob");
    assert_string_equal(op.holder, "");
    struct queue queue = {.count = 0};
    queue_read(f, &queue);
    assert_int_equal(queue.count, 1);
    assert_false(queue.places[0].has_holder);
    rowlock_op look = op;
    expect_ok(try_look(f, &look, LONG_US), NULL);
    expect_ok(await_turn(f, conn, &op), NULL);
    expect_new_tenure(&op, &old);
}

static const struct test_case cases[] = {
    CASE_IF(test_released_lock_is_free_for_others, BACKEND_SQL),
    CASE_IF(test_released_lock_is_a_new_tenure_for_its_owner, BACKEND_SQL),
    CASE_IF(test_released_locks_are_free_for_a_batch, BACKEND_SQL),
    CASE_IF(test_released_tenure_does_not_come_back, BACKEND_SQL),
    CASE_IF(test_forced_lock_is_free, BACKEND_SQL),
    CASE_IF(test_released_lock_is_not_listed, BACKEND_SQL),
    CASE_IF(test_held_lock_stays_held, BACKEND_SQL),
    CASE_IF(test_exchange_takes_a_released_lock, BACKEND_SQL | BACKEND_EXCHANGE),
    CASE_IF(test_transaction_takes_a_released_lock, BACKEND_SQL | BACKEND_TRANSACTIONS),
    CASE_IF(test_released_tenure_is_not_guarded, BACKEND_SQL | BACKEND_TRANSACTIONS),
    CASE_IF(test_waiter_takes_a_released_lock, BACKEND_SQL | BACKEND_TICKETS),
};

const struct suite clock_back_suite = SUITE("clock_back", cases);
