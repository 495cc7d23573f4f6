/* SPDX-License-Identifier: MIT
 *
 * A driver may begin with a short way for rows that are free for the taking, where the last ones
 * were. Whatever comes after such rows gets the same answers as ever. */
#include "queue.h"

/* Rows that are there and free, twice: the connection has seen nothing else. */
static void meet_free(struct fixture *f)
{
    for (int i = 0; i < 3; i++)
        grant_released(f, "free", "ann");
}

static void test_after_free_ones_absent(void **state)
{
    struct fixture *f = *state;
    meet_free(f);
    rowlock_op op = grant(f, "new", "ann");
    assert_int_equal(op.hold_count, 1);
    assert_int_equal(row_of(f, "new").fence, op.fence);
}

static void test_after_free_ones_held_by_another(void **state)
{
    struct fixture *f = *state;
    rowlock_op held = grant(f, "lock", "bob");
    meet_free(f);
    for (int i = 0; i < 3; i++) {
        rowlock_op op = op_new("lock", "ann");
        expect_status(ROWLOCK_BUSY, try_acquire(f, f->conn, &op), &f->err);
        assert_string_equal(op.holder, "bob");
        assert_int_equal(op.holder_fence, held.fence);
        expect_between(op.remaining_us, LONG_US - SLACK_US, LONG_US);
    }
    meet_free(f);
}

static void test_after_free_ones_re_entry(void **state)
{
    struct fixture *f = *state;
    rowlock_op held = grant(f, "lock", "ann");
    meet_free(f);
    rowlock_op again = grant(f, "lock", "ann");
    assert_int_equal(again.fence, held.fence);
    assert_int_equal(again.hold_count, 2);
}

/* As if the answer had been lost. */
static void test_after_free_ones_repeated_attempt(void **state)
{
    struct fixture *f = *state;
    grant_released(f, "lock", "bob");
    meet_free(f);
    rowlock_op op = grant(f, "lock", "ann"), same = op;
    meet_free(f);
    expect_ok(try_acquire(f, f->conn, &same), &f->err);
    assert_int_equal(same.fence, op.fence);
    assert_int_equal(same.hold_count, 1);
}

static void test_after_free_ones_expired(void **state)
{
    struct fixture *f = *state;
    rowlock_op old = grant_expired(f, "lock", "bob");
    meet_free(f);
    rowlock_op op = op_new("lock", "ann");
    op.note = "after bob";
    expect_ok(try_acquire(f, f->conn, &op), &f->err);
    assert_true(op.fence > old.fence);
    assert_int_equal(op.hold_count, 1);
    expect_between(op.remaining_us, LONG_US - SLACK_US, LONG_US);
    struct row row = row_of(f, "lock");
    assert_string_equal(row.owner, "ann");
    assert_string_equal(row.note, "after bob");
    assert_int_equal(row.fence, op.fence);
    old = op_of(&old);
    expect_status(ROWLOCK_LOST, try_release(f, f->conn, &old), &f->err);
}

static void test_after_free_ones_fence_of_the_future(void **state)
{
    struct fixture *f = *state;
    grant_released(f, "lock", "bob");
    sql_run(f, "UPDATE rowlock_locks SET fence = fence + 3600000000", NULL, 0);
    uint64_t fence = row_of(f, "lock").fence;
    meet_free(f);
    rowlock_op op = grant(f, "lock", "ann");
    assert_int_equal(op.fence, fence + 1);
}

static void test_after_free_ones_locked(void **state)
{
    struct fixture *f = *state;
    grant_released(f, "lock", "bob");
    void *session = sql_begin(f);
    sql_in(f, session, "BEGIN");
    sql_in(f, session, "SELECT fence FROM rowlock_locks WHERE name = 'lock' FOR UPDATE");
    rowlock_op op = op_new("lock", "ann");
    int status = INT32_MIN;
    expect_soon(2000000, meet_free(f),
                status = f->driver->acquire(f->conn, &op, 1, 0, CALL_MS, &f->err));
    sql_end(f, session);
    expect_ok(status, &f->err);
    expect_status(ROWLOCK_BUSY, op.status, NULL);
}

static void test_after_free_ones_waited_for(void **state)
{
    struct fixture *f = *state;
    grant_released(f, "lock", "bob");
    rowlock_op first = queue_up_for(f, "lock", "cid", LONG_US);
    meet_free(f);
    rowlock_op op = op_new("lock", "ann");
    expect_status(ROWLOCK_BUSY, try_acquire(f, f->conn, &op), &f->err);
    assert_true(op.is_queue);
    meet_free(f);
    expect_ok(try_turn(f, f->conn, &first, 0), &f->err);
}

/* Several at once: free, held by another, one's own, absent. */
static void test_after_free_ones_several(void **state)
{
    struct fixture *f = *state;
    rowlock_op old = grant_released(f, "a", "bob");
    rowlock_op held = grant(f, "b", "bob"), own = grant(f, "c", "ann");
    grant_released(f, "e", "bob");
    meet_free(f);
    rowlock_op ops[] = {op_new("a", "ann"), op_new("b", "ann"), op_new("c", "ann"),
                        op_new("d", "ann"), op_new("e", "ann")};
    ops_acquire(f, f->conn, ops, COUNT(ops), 0);
    for (size_t i = 0; i < COUNT(ops); i++)
        expect_status(i == 1 ? ROWLOCK_BUSY : ROWLOCK_OK, ops[i].status, NULL);
    assert_true(ops[0].fence > old.fence);
    assert_int_equal(ops[1].holder_fence, held.fence);
    assert_int_equal(ops[2].fence, own.fence);
    assert_int_equal(ops[2].hold_count, 2);
    assert_int_equal(row_of(f, "e").fence, ops[4].fence);
}

/* Several released at once: a last hold, one of two, a stranger's, one released already, one that
 * somebody waits for. */
static void test_after_free_ones_several_released(void **state)
{
    struct fixture *f = *state;
    rowlock_op ops[] = {grant(f, "a", "ann"), grant(f, "b", "ann"), grant(f, "c", "bob"),
                        grant(f, "d", "ann"), grant(f, "e", "ann")};
    grant(f, "b", "ann");
    queue_up_for(f, "e", "cid", LONG_US);
    for (size_t i = 0; i < COUNT(ops); i++)
        ops[i] = op_of(&ops[i]);
    ops[2].owner = "ann";
    expect_ok(try_release(f, f->conn, &ops[3]), &f->err);
    for (int repeated = 0; repeated < 2; repeated++) {
        ops_release(f, f->conn, ops, COUNT(ops));
        for (size_t i = 0; i < COUNT(ops); i++)
            expect_status(i == 2 ? ROWLOCK_LOST : ROWLOCK_OK, ops[i].status, NULL);
        for (size_t i = 0; i < COUNT(ops); i++)
            assert_int_equal(row_of(f, ops[i].name).hold_count, i == 1 || i == 2);
        assert_true(row_of(f, "b").remaining_ms > 0);
    }
}

/* Several at once whose rows are free, and yet not all alike. */
static void test_after_free_ones_several_waited_for(void **state)
{
    struct fixture *f = *state;
    const char *names[] = {"a", "b", "c"};
    for (size_t i = 0; i < COUNT(names); i++)
        grant_released(f, names[i], "bob");
    queue_up_for(f, "b", "cid", LONG_US);
    meet_free(f);
    rowlock_op ops[] = {op_new("a", "ann"), op_new("b", "ann"), op_new("c", "ann")};
    ops_acquire(f, f->conn, ops, COUNT(ops), 0);
    for (size_t i = 0; i < COUNT(ops); i++)
        expect_status(i == 1 ? ROWLOCK_BUSY : ROWLOCK_OK, ops[i].status, NULL);
    assert_true(ops[1].is_queue);
    assert_int_equal(row_of(f, "b").hold_count, 0);
}

static void test_after_free_ones_several_fences_of_the_future(void **state)
{
    struct fixture *f = *state;
    grant_released(f, "a", "bob");
    grant_released(f, "b", "bob");
    sql_run(f, "UPDATE rowlock_locks SET fence = fence + 3600000000", NULL, 0);
    uint64_t fences[] = {row_of(f, "a").fence, row_of(f, "b").fence};
    meet_free(f);
    rowlock_op ops[] = {op_new("a", "ann"), op_new("b", "ann")};
    ops[1].note = "after bob";
    ops_acquire(f, f->conn, ops, COUNT(ops), 0);
    for (size_t i = 0; i < COUNT(ops); i++) {
        expect_ok(ops[i].status, NULL);
        assert_int_equal(ops[i].fence, fences[i] + 1);
        expect_between(ops[i].remaining_us, LONG_US - SLACK_US, LONG_US);
        struct row row = row_of(f, ops[i].name);
        assert_int_equal(row.fence, ops[i].fence);
        assert_string_equal(row.owner, "ann");
        assert_string_equal(row.note, ops[i].note);
    }
}

/* Several released at once, of which most are not to be had: another tenure's, an expired one, one
 * that was forced, one whose row was changed since; and the usual one. */
static void test_after_free_ones_several_released_too_late(void **state)
{
    struct fixture *f = *state;
    rowlock_op ops[] = {grant(f, "a", "ann"), grant_expired(f, "b", "ann"), grant(f, "c", "ann"),
                        grant(f, "d", "ann"), grant(f, "e", "ann")};
    uint8_t seen[ROWLOCK_ATTEMPT_SIZE];
    memcpy(seen, ops[3].attempt, sizeof(seen));
    rowlock_op forced = op_of(&ops[2]), last = grant(f, "d", "ann");
    expect_ok(try_force(f, f->conn, &forced), NULL);
    for (size_t i = 0; i < COUNT(ops); i++)
        ops[i] = op_of(&ops[i]);
    ops[0].fence++;
    ops[2].fence = row_of(f, "c").fence;
    memcpy(ops[3].seen, seen, sizeof(seen));
    ops_release(f, f->conn, ops, COUNT(ops));
    static const int expected[] = {ROWLOCK_LOST, ROWLOCK_LOST, ROWLOCK_LOST, ROWLOCK_BUSY,
                                   ROWLOCK_OK};
    static const uint32_t counts[] = {1, 1, 0, 2, 0};
    for (size_t i = 0; i < COUNT(ops); i++) {
        expect_status(expected[i], ops[i].status, NULL);
        assert_int_equal(row_of(f, ops[i].name).hold_count, counts[i]);
    }
    assert_memory_equal(ops[3].seen, last.attempt, sizeof(last.attempt));
}

/* The clock went back since, so that the end of the tenure is ahead. */
static void test_after_free_ones_several_released_already(void **state)
{
    struct fixture *f = *state;
    rowlock_op ops[] = {grant_released(f, "a", "ann"), grant_released(f, "b", "ann")};
    sql_run(f, "UPDATE rowlock_locks SET expire_time = expire_time + 3600000000", NULL, 0);
    for (size_t i = 0; i < COUNT(ops); i++)
        ops[i] = op_of(&ops[i]);
    ops_release(f, f->conn, ops, COUNT(ops));
    for (size_t i = 0; i < COUNT(ops); i++) {
        expect_status(ROWLOCK_LOST, ops[i].status, NULL);
        assert_int_equal(row_of(f, ops[i].name).hold_count, 0);
    }
}

static const struct test_case cases[] = {
    CASE(test_after_free_ones_absent),
    CASE(test_after_free_ones_held_by_another),
    CASE(test_after_free_ones_re_entry),
    CASE(test_after_free_ones_repeated_attempt),
    CASE(test_after_free_ones_expired),
    CASE_IF(test_after_free_ones_fence_of_the_future, BACKEND_SQL),
    CASE_IF(test_after_free_ones_locked, BACKEND_SQL | BACKEND_ROW_LOCKS),
    CASE_IF(test_after_free_ones_waited_for, BACKEND_TICKETS),
    CASE(test_after_free_ones_several),
    CASE_IF(test_after_free_ones_several_released, BACKEND_TICKETS),
    CASE_IF(test_after_free_ones_several_waited_for, BACKEND_TICKETS),
    CASE_IF(test_after_free_ones_several_fences_of_the_future, BACKEND_SQL),
    CASE(test_after_free_ones_several_released_too_late),
    CASE_IF(test_after_free_ones_several_released_already, BACKEND_SQL),
};

const struct suite after_free_suite = SUITE("after_free", cases);
