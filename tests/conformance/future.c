/* SPDX-License-Identifier: MIT
 *
 * Fences that are ahead of the clock, which was set back: every way to a new tenure, the short ones
 * and the long ones, goes on from the row's own fence. */
#include "queue.h"

#define MOVE_AHEAD "UPDATE rowlock_locks SET fence = fence + 3600000000"

/* A free row whose fence is an hour ahead. */
static uint64_t free_ahead(struct fixture *f, const char *name)
{
    grant_released(f, name, "cid");
    sql_run(f, MOVE_AHEAD, NULL, 0);
    return row_of(f, name).fence;
}

/* A tenure whose fence is an hour ahead. */
static rowlock_op held_ahead(struct fixture *f, const char *name, const char *owner)
{
    rowlock_op op = grant(f, name, owner);
    sql_run(f, MOVE_AHEAD, NULL, 0);
    op.fence = row_of(f, name).fence;
    return op;
}

/* The connection has met free rows, or held ones. */
static void meet(struct fixture *f, int are_held)
{
    for (int i = 0; i < 3 && !are_held; i++)
        grant_released(f, "met", "ann");
    for (int i = 0; i < 3 && are_held; i++) {
        rowlock_op op = op_new("met", "ann");
        if (i == 0)
            grant(f, "met", "bob");
        expect_status(ROWLOCK_BUSY, try_acquire(f, f->conn, &op), NULL);
    }
}

static void test_future_fence_of_one(void **state)
{
    struct fixture *f = *state;
    for (int are_held = 0; are_held <= 1; are_held++) {
        uint64_t last = free_ahead(f, "lock");
        meet(f, are_held);
        rowlock_op op = grant(f, "lock", "bob");
        assert_int_equal(op.fence, last + 1);
        give_back(f, f->conn, &op);
    }
}

static void test_future_fence_of_several(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < 4; i++) {
        uint64_t last = free_ahead(f, "lock");
        meet(f, i / 2);
        rowlock_op ops[] = {op_new("a", "bob"), op_new("lock", "bob")};
        ops_acquire(f, f->conn, ops, COUNT(ops), i % 2);
        assert_int_equal(ops[1].fence, last + 1);
        ops[0] = op_of(&ops[0]);
        ops[1] = op_of(&ops[1]);
        ops_release(f, f->conn, ops, COUNT(ops));
    }
}

static void test_future_fence_of_an_expired_lock(void **state)
{
    struct fixture *f = *state;
    grant_expired(f, "lock", "bob");
    sql_run(f, MOVE_AHEAD, NULL, 0);
    uint64_t last = row_of(f, "lock").fence;
    assert_int_equal(grant(f, "lock", "bob").fence, last + 1);
}

static void test_future_fence_of_an_exchange(void **state)
{
    struct fixture *f = *state;
    for (int are_held = 0; are_held <= 1; are_held++) {
        rowlock_op held = grant(f, "a", "bob");
        uint64_t last = free_ahead(f, "lock");
        meet(f, are_held);
        rowlock_op back = op_of(&held), op = op_new("lock", "bob");
        back.fence = row_of(f, "a").fence;
        ops_exchange(f, f->conn, &back, 1, &op, 1);
        expect_ok(op.status, NULL);
        assert_int_equal(op.fence, last + 1);
        give_back(f, f->conn, &op);
    }
}

static void test_future_fence_of_a_hand_over(void **state)
{
    struct fixture *f = *state;
    for (int are_held = 0; are_held <= 1; are_held++) {
        rowlock_op held = held_ahead(f, "lock", "ann");
        meet(f, are_held);
        rowlock_op back = op_of(&held), op = op_new("lock", "bob");
        ops_exchange(f, f->conn, &back, 1, &op, 1);
        expect_ok(op.status, NULL);
        assert_int_equal(op.fence, held.fence + 1);
        give_back(f, f->conn, &op);
    }
}

/* Round by round, since a connection may use its last ticket again. */
static void test_future_fence_of_a_turn(void **state)
{
    struct fixture *f = *state;
    void *conn = another(f);
    for (int i = 0; i < 4; i++) {
        rowlock_op held = held_ahead(f, "lock", "ann");
        rowlock_op op =
            i % 2 == 0 ? queue_up(f, conn, "lock", "bob") : queue_up_for(f, "lock", "bob", LONG_US);
        give_back(f, f->conn, &held);
        expect_ok(await_turn(f, i % 2 == 0 ? conn : f->conn, &op), NULL);
        assert_int_equal(op.fence, held.fence + 1);
        give_back(f, i % 2 == 0 ? conn : f->conn, &op);
    }
}

/* Whoever waits is woken by the one before, who came by a ticket, too. */
static void test_future_fence_of_a_turn_by_a_bell(void **state)
{
    struct fixture *f = *state;
    void *a = another(f), *b = another(f);
    for (int i = 0; i < 3; i++) {
        rowlock_op held = grant_by_ticket(f, a, "lock", "ann", LONG_US);
        rowlock_op op = queue_up(f, b, "lock", "bob");
        sql_run(f, MOVE_AHEAD, NULL, 0);
        held.fence = row_of(f, "lock").fence;
        give_back(f, a, &held);
        expect_ok(await_turn(f, b, &op), NULL);
        assert_int_equal(op.fence, held.fence + 1);
        give_back(f, b, &op);
    }
}

static void test_future_fence_of_several_by_ticket(void **state)
{
    struct fixture *f = *state;
    uint64_t last = free_ahead(f, "lock");
    rowlock_op ops[] = {op_new("a", "bob"), op_new("lock", "bob")};
    expect_ok(f->driver->enqueue(f->conn, ops, COUNT(ops), LONG_US, 0, CALL_MS, &f->err), &f->err);
    ops_acquire(f, f->conn, ops, COUNT(ops), 1);
    expect_ok(ops[1].status, NULL);
    assert_int_equal(ops[1].fence, last + 1);
}

static void test_future_fence_of_a_forced_release(void **state)
{
    struct fixture *f = *state;
    for (int is_given = 0; is_given <= 1; is_given++) {
        rowlock_op held = held_ahead(f, "lock", "ann"), op = op_of(&held);
        if (!is_given)
            op.fence = 0;
        expect_ok(try_force(f, f->conn, &op), NULL);
        assert_int_equal(row_of(f, "lock").fence, held.fence + 1);
    }
}

static void test_future_fence_of_a_transaction(void **state)
{
    struct fixture *f = *state;
    uint64_t last = free_ahead(f, "lock");
    rowlock_target target = {.size = sizeof(target), .conn = f->conn};
    rowlock_op op = op_new("lock", "ann");
    expect_ok(f->driver->lock(&target, &op, 1, 0, 0, CALL_MS, &f->err), &f->err);
    expect_ok(op.status, NULL);
    expect_ok(f->driver->end(f->conn, 1, CALL_MS, &f->err), &f->err);
    assert_int_equal(op.fence, last + 1);
}

static const struct test_case cases[] = {
    CASE_IF(test_future_fence_of_one, BACKEND_SQL),
    CASE_IF(test_future_fence_of_several, BACKEND_SQL),
    CASE_IF(test_future_fence_of_an_expired_lock, BACKEND_SQL),
    CASE_IF(test_future_fence_of_an_exchange, BACKEND_SQL | BACKEND_EXCHANGE),
    CASE_IF(test_future_fence_of_a_hand_over, BACKEND_SQL | BACKEND_EXCHANGE),
    CASE_IF(test_future_fence_of_a_turn, BACKEND_SQL | BACKEND_TICKETS),
    CASE_IF(test_future_fence_of_a_turn_by_a_bell, BACKEND_SQL | BACKEND_TICKETS),
    CASE_IF(test_future_fence_of_several_by_ticket, BACKEND_SQL | BACKEND_TICKETS),
    CASE_IF(test_future_fence_of_a_forced_release, BACKEND_SQL),
    CASE_IF(test_future_fence_of_a_transaction, BACKEND_SQL | BACKEND_TRANSACTIONS),
};

const struct suite future_suite = SUITE("future", cases);
