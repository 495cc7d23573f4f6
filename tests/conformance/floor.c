/* SPDX-License-Identifier: MIT
 *
 * Fences of rows that are gone. The server's clock was set back by an hour after they had been
 * given: instead of the clock, the fences are moved an hour ahead. Whatever is reaped, and however
 * a row is made anew, its fence is above those that the name ever had. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "queue.h"

#define AHEAD_US INT64_C(3600000000)
#define MOVE_AHEAD                                                                             \
    "UPDATE rowlock_locks SET fence = fence + 3600000000, expire_time = expire_time - 1000000" \
    " WHERE hold_count = 0"

/* A tenure of long ago, with a fence that is ahead of the clock. */
static uint64_t released_ahead(struct fixture *f, const char *name)
{
    grant_released(f, name, "ann");
    sql_run(f, MOVE_AHEAD, NULL, 0);
    return row_of(f, name).fence;
}

static uint64_t reaped_ahead(struct fixture *f, const char *name)
{
    uint64_t fence = released_ahead(f, name);
    reap(f, 1, 100);
    return fence;
}

static void test_floor_is_below_a_new_lock(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < 3; i++) {
        uint64_t last = reaped_ahead(f, "lock");
        rowlock_op op = grant(f, "lock", "bob"), back = op_of(&op);
        assert_true(op.fence > last);
        expect_ok(try_release(f, f->conn, &back), NULL);
    }
}

static void test_floor_is_below_new_locks_of_a_batch(void **state)
{
    struct fixture *f = *state;
    for (int all = 0; all <= 1; all++) {
        uint64_t last = reaped_ahead(f, "a");
        rowlock_op ops[] = {op_new("a", "ann"), op_new("b", "bob"), op_new("c", "cid")};
        ops_acquire(f, f->conn, ops, COUNT(ops), all);
        for (size_t i = 0; i < COUNT(ops); i++) {
            expect_ok(ops[i].status, NULL);
            rowlock_op back = op_of(&ops[i]);
            expect_ok(try_release(f, f->conn, &back), NULL);
        }
        assert_true(ops[0].fence > last);
    }
}

static void test_floor_is_below_a_lock_that_was_waited_for(void **state)
{
    struct fixture *f = *state;
    uint64_t last = reaped_ahead(f, "lock");
    void *conn = another(f);
    rowlock_op op = queue_up(f, conn, "lock", "bob");
    expect_ok(await_turn(f, conn, &op), NULL);
    assert_true(op.fence > last);
}

static void test_floor_is_below_a_lock_in_a_transaction(void **state)
{
    struct fixture *f = *state;
    uint64_t last = reaped_ahead(f, "lock");
    rowlock_op op = op_new("lock", "ann");
    expect_ok(f->driver->prepare(f->conn, &op, 1, CALL_MS, &f->err), &f->err);
    rowlock_target target = {.size = sizeof(target), .conn = f->conn};
    expect_ok(f->driver->lock(&target, &op, 1, 0, 0, CALL_MS, &f->err), &f->err);
    expect_ok(op.status, NULL);
    expect_ok(f->driver->end(f->conn, 1, CALL_MS, &f->err), &f->err);
    assert_true(op.fence > last);
}

/* Reaping what is far behind the floor must not lower it. */
static void test_floor_does_not_go_down(void **state)
{
    struct fixture *f = *state;
    uint64_t last = reaped_ahead(f, "lock");
    grant_released(f, "other", "ann");
    sql_run(f, "UPDATE rowlock_locks SET fence = 1, expire_time = 1 WHERE name = 'other'", NULL, 0);
    reap(f, 1, 100);
    assert_true(grant(f, "lock", "bob").fence > last);
}

/* Rows of version 2 stay as they are, and what an older reaper deletes later is below the floor. */
static void test_floor_of_upgraded_tables(void **state)
{
    struct fixture *f = *state;
    rowlock_op held = grant(f, "held", "ann");
    uint64_t last = released_ahead(f, "lock");
    expect_ok(tables_to(f, f->conn, 2), &f->err);
    expect_ok(tables_to(f, f->conn, f->driver->migration_count), &f->err);
    assert_int_equal(row_of(f, "held").fence, held.fence);
    rowlock_op op = op_new("held", "bob");
    expect_status(ROWLOCK_BUSY, try_acquire(f, f->conn, &op), NULL);
    assert_true(grant(f, "lock", "bob").fence > last);
}

static void test_floor_of_upgraded_tables_knows_their_fences(void **state)
{
    struct fixture *f = *state;
    uint64_t last = released_ahead(f, "lock");
    expect_ok(tables_to(f, f->conn, 2), &f->err);
    expect_ok(tables_to(f, f->conn, f->driver->migration_count), &f->err);
    sql_run(f, "DELETE FROM rowlock_locks", NULL, 0);
    assert_true(grant(f, "lock", "bob").fence > last);
}

/* ---- beside an acquire that is under way ------------------------------------------------------
 */

/* What happens while an acquire waits for a row: a tenure comes, goes and is reaped; then the wait
 * ends. */
struct scene {
    struct fixture *f;
    void *conn, *session; /* of the scene alone; who is waited for */
    void *sql;            /* another session */
    char move[256];       /* rendered */
    const char *undo;     /* COMMIT or ROLLBACK of who is waited for */
    int fell;             /* a fence */
    const char *name;     /* of the tenure; NULL: a dead row is there to be reaped */
    uint64_t fence;       /* ... its fence, in the end */
};

static void come_and_go(struct scene *s)
{
    const rowlock_driver *driver = s->f->driver;
    rowlock_op op = op_new(s->name, "cid"), back;

    if (driver->acquire(s->conn, &op, 1, 0, CALL_MS, NULL) != ROWLOCK_OK || op.status != ROWLOCK_OK)
        return;
    back = op_of(&op);
    driver->release(s->conn, &back, 1, CALL_MS, NULL);
    s->fence = op.fence + AHEAD_US;
    s->f->backend->kind->sql_run(s->sql, s->move, NULL, 0);
}

static void *run_scene(void *arg)
{
    struct scene *s = arg;
    rowlock_mark mark = {0};
    uint64_t count = 0;

    sleep_us(30000); /* the acquire waits by now, and not much longer */
    if (s->name != NULL)
        come_and_go(s);
    s->f->driver->reap(s->conn, &count, &mark, 1, 100, CALL_MS, NULL);
    s->f->backend->kind->sql_run(s->session, s->undo, NULL, 0);
    return NULL;
}

static struct scene scene_new(struct fixture *f, const char *name, const char *undo)
{
    struct scene s = {.f = f, .conn = another(f), .name = name, .undo = undo};
    s.session = sql_begin(f);
    s.sql = sql_begin(f);
    snprintf(s.move, sizeof(s.move),
             "UPDATE %slocks SET fence = fence + 3600000000, expire_time = expire_time - 1000000"
             " WHERE name = '%s'",
             f->prefix, name == NULL ? "" : name);
    return s;
}

static void acquire_beside(struct scene *s, rowlock_op *ops, size_t n, int all)
{
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, run_scene, s), 0);
    int status = s->f->driver->acquire(s->f->conn, ops, n, all, CALL_MS, &s->f->err);
    pthread_join(thread, NULL);
    expect_ok(status, &s->f->err);
    for (size_t i = 0; i < n; i++) { /* who had to wait for too long asks again */
        if (ops[i].status != ROWLOCK_OK)
            expect_ok(try_acquire(s->f, s->f->conn, &ops[i]), NULL);
    }
}

/* The acquire has looked: "b" is absent. It waits for "a"; a tenure of "b" comes, goes and is
 * reaped; then it makes "b". */
static void test_floor_rises_after_the_look(void **state)
{
    struct fixture *f = *state;
    grant_released(f, "a", "ann");
    struct scene s = scene_new(f, "b", "COMMIT");
    sql_in(f, s.session, "BEGIN");
    sql_in(f, s.session, "SELECT fence FROM rowlock_locks WHERE name = 'a' FOR UPDATE");
    rowlock_op ops[] = {op_new("a", "bob"), op_new("b", "bob")};
    acquire_beside(&s, ops, COUNT(ops), 1);
    assert_true(s.fence > 0);
    assert_true(ops[1].fence > s.fence);
}

/* The acquire waits for somebody else's insertion of the same name, which is undone, and the floor
 * has risen meanwhile. */
static void test_floor_rises_during_the_insertion(void **state)
{
    struct fixture *f = *state;
    for (size_t n = 1; n <= 2; n++) {
        grant_released(f, "dead", "ann");
        struct scene s = scene_new(f, NULL, "ROLLBACK");
        sql_in(f, s.session, "BEGIN");
        sql_in(f, s.session,
               "INSERT INTO rowlock_locks (name, owner, fence, hold_count, attempt, acquire_time,"
               " expire_time) SELECT 'b', owner, fence, hold_count, attempt, acquire_time,"
               " expire_time FROM rowlock_locks WHERE name = 'dead'");
        uint64_t last = released_ahead(f, "dead");
        rowlock_op ops[] = {op_new("b", "bob"), op_new("c", "bob")};
        acquire_beside(&s, ops, n, 0);
        assert_false(row_exists(f, "dead"));
        assert_true(ops[0].fence > last);
        for (size_t i = 0; i < n; i++) {
            rowlock_op back = op_of(&ops[i]);
            expect_ok(try_release(f, f->conn, &back), NULL);
        }
        sql_end(f, s.session);
        sql_end(f, s.sql);
        another_end(f, s.conn);
        reap(f, 1, 100);
    }
}

/* Reapers beside each other: none sets the floor back to what it had read before. */
static void *reap_beside(void *arg)
{
    struct scene *s = arg;
    rowlock_mark mark = {0};
    uint64_t count;

    for (int i = 0; i < 40; i++) {
        rowlock_op op = op_new(s->name, "cid"), back;
        s->f->driver->acquire(s->conn, &op, 1, 0, CALL_MS, NULL);
        if (op.status == ROWLOCK_OK && op.fence <= s->fence)
            s->fell = 1;
        if (op.status == ROWLOCK_OK)
            s->fence = op.fence;
        back = op_of(&op);
        s->f->driver->release(s->conn, &back, 1, CALL_MS, NULL);
        memset(&mark, 0, sizeof mark);
        s->f->driver->reap(s->conn, &count, &mark, 1, 100, CALL_MS, NULL);
    }
    return NULL;
}

static void test_floor_of_reapers_in_threads_only_rises(void **state)
{
    struct fixture *f = *state;
    static const char *const names[] = {"a", "b", "c"};
    struct scene scenes[COUNT(names)];
    pthread_t threads[COUNT(names)];
    uint64_t last = reaped_ahead(f, "lock");
    for (size_t i = 0; i < COUNT(names); i++) {
        scenes[i] = (struct scene){.f = f, .conn = another(f), .name = names[i]};
        assert_int_equal(pthread_create(&threads[i], NULL, reap_beside, &scenes[i]), 0);
    }
    for (size_t i = 0; i < COUNT(names); i++)
        pthread_join(threads[i], NULL);
    for (size_t i = 0; i < COUNT(names); i++)
        assert_false(scenes[i].fell);
    assert_true(grant(f, "lock", "bob").fence > last);
}

static const struct test_case cases[] = {
    CASE_IF(test_floor_is_below_a_new_lock, BACKEND_SQL),
    CASE_IF(test_floor_is_below_new_locks_of_a_batch, BACKEND_SQL),
    CASE_IF(test_floor_is_below_a_lock_that_was_waited_for, BACKEND_SQL | BACKEND_TICKETS),
    CASE_IF(test_floor_is_below_a_lock_in_a_transaction, BACKEND_SQL | BACKEND_TRANSACTIONS),
    CASE_IF(test_floor_does_not_go_down, BACKEND_SQL),
    CASE_IF(test_floor_of_upgraded_tables, BACKEND_SQL),
    CASE_IF(test_floor_of_upgraded_tables_knows_their_fences, BACKEND_SQL | BACKEND_SERVER),
    CASE_IF(test_floor_rises_after_the_look, BACKEND_SQL | BACKEND_ROW_LOCKS),
    CASE_IF(test_floor_rises_during_the_insertion, BACKEND_SQL | BACKEND_ROW_LOCKS),
    CASE_IF(test_floor_of_reapers_in_threads_only_rises, BACKEND_SQL),
};

const struct suite floor_suite = SUITE("floor", cases);
