/* SPDX-License-Identifier: MIT
 *
 * A lock that somebody waited for a moment ago is marked as such for a while, and a connection may
 * expect that of the next one: free for the taking, held, or others' to take. Whatever it expects,
 * the answer is the same. */
#include "queue.h"

/* What the connection has met last. */
enum met { MET_FREE, MET_QUEUE, MET_ALL };

/* The row is there, free and marked; nobody waits. */
static void mark(struct fixture *f)
{
    grant_released(f, "lock", "ann");
    rowlock_op op = queue_up_for(f, "lock", "ann", LONG_US);
    try_leave(f, f->conn, &op);
}

static void meet(struct fixture *f, void *conn, enum met met)
{
    rowlock_op op = op_new("lock", "dan"), waiter;
    if (met == MET_QUEUE)
        waiter = queue_up_for(f, "lock", "col", LONG_US);
    expect_status(met == MET_QUEUE ? ROWLOCK_BUSY : ROWLOCK_OK, try_acquire(f, conn, &op), NULL);
    if (met == MET_QUEUE)
        try_leave(f, f->conn, &waiter);
    else
        give_back(f, conn, &op);
}

/* Each case with a connection that has met either. */
static void play(struct fixture *f, void (*scene)(struct fixture *, void *))
{
    void *conn = another(f);
    mark(f);
    for (int met = MET_FREE; met < MET_ALL; met++) {
        for (int i = 0; i < 2; i++) {
            meet(f, conn, (enum met)met);
            scene(f, conn);
        }
    }
}

static void take(struct fixture *f, void *conn)
{
    struct row before = row_of(f, "lock");
    rowlock_op op = op_new("lock", "bob");
    op.note = "work";
    expect_ok(try_acquire(f, conn, &op), NULL);
    assert_true(op.fence > before.fence);
    assert_int_equal(op.hold_count, 1);
    expect_between(op.remaining_us, LONG_US - SLACK_US, LONG_US);
    struct row row = row_of(f, "lock");
    assert_string_equal(row.owner, "bob");
    assert_string_equal(row.note, "work");
    assert_int_equal(row.fence, op.fence);
    rowlock_op again = op;
    expect_ok(try_acquire(f, conn, &again), NULL); /* repeated */
    assert_int_equal(again.hold_count, 1);
    assert_int_equal(again.fence, op.fence);
    give_back(f, conn, &op);
}

static void test_marked_lock_is_taken(void **state)
{
    play(*state, take);
}

static void meet_waiter(struct fixture *f, void *conn)
{
    rowlock_op waiter = queue_up_for(f, "lock", "col", LONG_US), op = op_new("lock", "bob");
    expect_status(ROWLOCK_BUSY, try_acquire(f, conn, &op), NULL);
    assert_int_equal(op.is_queue, 1);
    assert_string_equal(op.holder, "");
    expect_between(op.remaining_us, LONG_US - SLACK_US, LONG_US);
    assert_int_equal(row_of(f, "lock").hold_count, 0);
    try_leave(f, f->conn, &waiter);
}

static void test_marked_lock_is_the_waiters(void **state)
{
    play(*state, meet_waiter);
}

static void pass_the_dead(struct fixture *f, void *conn)
{
    queue_up_dead(f, "lock", "col");
    take(f, conn);
}

static void test_marked_lock_is_free_behind_the_dead(void **state)
{
    play(*state, pass_the_dead);
}

static void pass_the_past(struct fixture *f, void *conn)
{
    rowlock_op past = queue_up_for(f, "lock", "col", LONG_US);
    sql_run(f, "UPDATE rowlock_locks SET ticket = (SELECT MAX(ticket) FROM rowlock_waiters)", NULL,
            0);
    take(f, conn);
    try_leave(f, f->conn, &past);
}

static void test_marked_lock_is_free_behind_the_past(void **state)
{
    play(*state, pass_the_past);
}

static void barge(struct fixture *f, void *conn)
{
    rowlock_op waiter = queue_up_for(f, "lock", "col", LONG_US), op = op_new("lock", "bob");
    op.barge = 1;
    expect_ok(try_acquire(f, conn, &op), NULL);
    assert_true(in_queue(f, &waiter));
    give_back(f, conn, &op);
    try_leave(f, f->conn, &waiter);
}

static void test_marked_lock_is_taken_by_who_barges(void **state)
{
    play(*state, barge);
}

static void meet_holder(struct fixture *f, void *conn)
{
    rowlock_op held = grant(f, "lock", "col"), op = op_new("lock", "bob");
    expect_status(ROWLOCK_BUSY, try_acquire(f, conn, &op), NULL);
    assert_string_equal(op.holder, "col");
    assert_int_equal(op.holder_fence, held.fence);
    assert_int_equal(op.is_queue, 0);
    expect_between(op.remaining_us, LONG_US - SLACK_US, LONG_US);
    op = op_new("lock", "col");
    expect_ok(try_acquire(f, conn, &op), NULL);
    assert_int_equal(op.hold_count, 2);
    assert_int_equal(op.fence, held.fence);
    sql_run(f, "UPDATE rowlock_locks SET hold_count = 1", NULL, 0);
    op = op_of(&held);
    memset(op.seen, 0, sizeof(op.seen));
    expect_ok(try_release(f, f->conn, &op), NULL);
}

static void test_marked_lock_is_its_holders(void **state)
{
    play(*state, meet_holder);
}

static void meet_locked(struct fixture *f, void *conn)
{
    void *session = sql_begin(f);
    rowlock_op op = op_new("lock", "bob");
    sql_in(f, session, "BEGIN");
    sql_in(f, session, "SELECT fence FROM rowlock_locks WHERE name = 'lock' FOR UPDATE");
    expect_status(ROWLOCK_BUSY, try_acquire(f, conn, &op), NULL);
    sql_end(f, session);
    take(f, conn);
}

static void test_marked_lock_whose_row_is_locked_is_busy(void **state)
{
    play(*state, meet_locked);
}

#define SQL (BACKEND_TICKETS | BACKEND_SQL)

static const struct test_case cases[] = {
    CASE_IF(test_marked_lock_is_taken, BACKEND_TICKETS),
    CASE_IF(test_marked_lock_is_the_waiters, BACKEND_TICKETS),
    CASE_IF(test_marked_lock_is_free_behind_the_dead, BACKEND_TICKETS),
    CASE_IF(test_marked_lock_is_free_behind_the_past, SQL),
    CASE_IF(test_marked_lock_is_taken_by_who_barges, BACKEND_TICKETS),
    CASE_IF(test_marked_lock_is_its_holders, SQL),
    CASE_IF(test_marked_lock_whose_row_is_locked_is_busy, SQL | BACKEND_ROW_LOCKS),
};

const struct suite queue_marked_suite = SUITE("queue_marked", cases);
