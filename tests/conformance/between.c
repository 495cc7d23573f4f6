/* SPDX-License-Identifier: MIT
 *
 * Between the look and the write of one call: another session has changed a row, and commits while
 * the call is under way. The call has seen the row as it was before, or waits for it; whatever it
 * does then is decided by the row as it is. */
#include <pthread.h>

#include "queue.h"

/* Ends the session's transaction when the call has looked, most likely. */
struct committer {
    struct fixture *f;
    void *session;
    pthread_t thread;
    int status;
};

static void *commit_soon(void *arg)
{
    struct committer *c = arg;

    sleep_us(40000);
    c->status = c->f->backend->kind->sql_run(c->session, "COMMIT", NULL, 0);
    return NULL;
}

/* Somebody's change, which is not committed before the call has begun. */
static void begin_change(struct fixture *f, struct committer *c, const char *sql, const char *more)
{
    *c = (struct committer){.f = f, .session = sql_begin(f)};
    sql_in(f, c->session, "BEGIN");
    sql_in(f, c->session, sql);
    if (more != NULL)
        sql_in(f, c->session, more);
    assert_int_equal(pthread_create(&c->thread, NULL, commit_soon, c), 0);
}

static void end_change(struct fixture *f, struct committer *c)
{
    pthread_join(c->thread, NULL);
    assert_int_equal(c->status, 0);
    sql_end(f, c->session);
}

/* Names are bytes, which each database writes in its own way: a row is known by its last owner,
 * "lol", and one that is not there by a ticket that has died. */
#define TAKE_LOCK                                                                \
    "UPDATE rowlock_locks SET owner = 'eve', hold_count = 1, fence = fence + 1," \
    " expire_time = expire_time + 3600000000 WHERE owner = 'lol'"
#define MAKE_LOCK                                                                       \
    "INSERT INTO rowlock_locks (name, owner, fence, hold_count, attempt, acquire_time," \
    " expire_time) SELECT w.name, 'eve', l.fence, 1, l.attempt, l.acquire_time,"        \
    " l.expire_time + 3600000000 FROM rowlock_waiters AS w, rowlock_locks AS l"

static void expect_eves(struct fixture *f)
{
    struct row row = row_of(f, "lock");
    assert_string_equal(row.owner, "eve");
    assert_int_equal(row.hold_count, 1);
}

static void acquire_beside(struct fixture *f, rowlock_op *ops, size_t n, int all, const char *sql,
                           const char *more)
{
    struct committer c;
    begin_change(f, &c, sql, more);
    int status = f->driver->acquire(f->conn, ops, n, all, CALL_MS, &f->err);
    end_change(f, &c);
    expect_ok(status, &f->err);
}

/* ---- taken by somebody else ------------------------------------------------------------------ */

static void test_lock_taken_between_look_and_write_is_busy(void **state)
{
    struct fixture *f = *state;
    grant_released(f, "lock", "lol");
    rowlock_op op = op_new("lock", "ann");
    acquire_beside(f, &op, 1, 0, TAKE_LOCK, NULL);
    expect_status(ROWLOCK_BUSY, op.status, NULL);
    expect_eves(f);
}

static void test_lock_made_between_look_and_write_is_busy(void **state)
{
    struct fixture *f = *state;
    grant_released(f, "a", "ann");
    queue_up_dead(f, "lock", "eve");
    rowlock_op op = op_new("lock", "ann");
    acquire_beside(f, &op, 1, 0, MAKE_LOCK, NULL);
    expect_status(ROWLOCK_BUSY, op.status, NULL);
    expect_eves(f);
}

/* All or none: the others are left as they were. */
static void expect_none(struct fixture *f, const char *sql)
{
    rowlock_op ops[] = {op_new("a", "ann"), op_new("lock", "ann"), op_new("z", "ann")};
    acquire_beside(f, ops, COUNT(ops), 1, sql, NULL);
    for (size_t i = 0; i < COUNT(ops); i++)
        expect_status(ROWLOCK_BUSY, ops[i].status, NULL);
    expect_eves(f);
    assert_int_equal(row_of(f, "a").hold_count, 0);
    if (row_exists(f, "z"))
        assert_int_equal(row_of(f, "z").hold_count, 0);
}

static void test_none_if_one_was_taken_between_look_and_write(void **state)
{
    struct fixture *f = *state;
    grant_released(f, "a", "ann");
    grant_released(f, "lock", "lol");
    expect_none(f, TAKE_LOCK);
}

static void test_none_if_one_was_made_between_look_and_write(void **state)
{
    struct fixture *f = *state;
    grant_released(f, "a", "ann");
    queue_up_dead(f, "lock", "eve");
    expect_none(f, MAKE_LOCK);
}

static void test_some_if_one_was_made_between_look_and_write(void **state)
{
    struct fixture *f = *state;
    grant_released(f, "a", "ann");
    queue_up_dead(f, "lock", "eve");
    rowlock_op ops[] = {op_new("lock", "ann"), op_new("z", "ann")};
    acquire_beside(f, ops, COUNT(ops), 0, MAKE_LOCK, NULL);
    expect_status(ROWLOCK_BUSY, ops[0].status, NULL);
    expect_eves(f);
}

/* ---- waited for ------------------------------------------------------------------------------ */

static void test_waiter_between_look_and_write_comes_first(void **state)
{
    struct fixture *f = *state;
    grant_released(f, "lock", "lol");
    rowlock_op waiter = queue_up_for(f, "elsewhere", "eve", LONG_US), op = op_new("lock", "ann");
    (void)waiter;
    acquire_beside(f, &op, 1, 0,
                   "UPDATE rowlock_waiters SET name = (SELECT name FROM rowlock_locks)",
                   "UPDATE rowlock_locks SET wait_until = expire_time + 3600000000");
    if (op.status == ROWLOCK_OK) /* it was before: a row that was not yet changed */
        assert_true(f->backend->caps & BACKEND_ROW_LOCKS);
    else
        expect_status(ROWLOCK_BUSY, op.status, NULL);
}

/* ---- what is held ---------------------------------------------------------------------------- */

#define FORCE_OUT                                                                 \
    "UPDATE rowlock_locks SET hold_count = 0, fence = fence + 1, expire_time = 1" \
    " WHERE owner = 'ann'"

static void test_renewal_of_what_was_ended_meanwhile_is_lost(void **state)
{
    struct fixture *f = *state;
    rowlock_op held = grant(f, "lock", "ann"), op = op_of(&held);
    struct committer c;
    begin_change(f, &c, FORCE_OUT, NULL);
    int status = f->driver->renew(f->conn, &op, 1, CALL_MS, &f->err);
    end_change(f, &c);
    expect_ok(status, &f->err);
    assert_int_not_equal(op.status, ROWLOCK_OK);
    assert_int_equal(row_of(f, "lock").hold_count, 0);
    assert_true(row_of(f, "lock").remaining_ms <= 0);
}

static void test_release_of_what_was_ended_meanwhile_is_lost(void **state)
{
    struct fixture *f = *state;
    rowlock_op held = grant(f, "lock", "ann"), op = op_of(&held);
    struct committer c;
    begin_change(f, &c, FORCE_OUT, NULL);
    int status = f->driver->release(f->conn, &op, 1, CALL_MS, &f->err);
    end_change(f, &c);
    expect_ok(status, &f->err);
    expect_status(ROWLOCK_LOST, op.status, NULL);
    assert_int_equal(row_of(f, "lock").hold_count, 0);
}

/* ---- reaped ---------------------------------------------------------------------------------- */

static void test_lock_taken_behind_the_reapers_look_stays(void **state)
{
    struct fixture *f = *state;
    rowlock_mark mark = {0};
    uint64_t count = 99;
    grant_released(f, "lock", "lol");
    sql_run(f,
            "UPDATE rowlock_locks SET fence = fence - 7200000000,"
            " acquire_time = acquire_time - 7200000000, expire_time = expire_time - 7200000000",
            NULL, 0);
    struct committer c;
    begin_change(f, &c,
                 "UPDATE rowlock_locks SET owner = 'eve', hold_count = 1, fence = fence + 1,"
                 " expire_time = expire_time + 10800000000",
                 NULL);
    int status = f->driver->reap(f->conn, &count, &mark, 1000000, 100, CALL_MS, &f->err);
    end_change(f, &c);
    expect_ok(status, &f->err);
    assert_int_equal(count, 0);
    expect_eves(f);
}

static const struct test_case cases[] = {
    CASE_IF(test_lock_taken_between_look_and_write_is_busy, BACKEND_SQL),
    CASE_IF(test_lock_made_between_look_and_write_is_busy, BACKEND_SQL | BACKEND_TICKETS),
    CASE_IF(test_none_if_one_was_taken_between_look_and_write, BACKEND_SQL),
    CASE_IF(test_none_if_one_was_made_between_look_and_write, BACKEND_SQL | BACKEND_TICKETS),
    CASE_IF(test_some_if_one_was_made_between_look_and_write, BACKEND_SQL | BACKEND_TICKETS),
    CASE_IF(test_waiter_between_look_and_write_comes_first, BACKEND_SQL | BACKEND_TICKETS),
    CASE_IF(test_renewal_of_what_was_ended_meanwhile_is_lost, BACKEND_SQL),
    CASE_IF(test_release_of_what_was_ended_meanwhile_is_lost, BACKEND_SQL),
    CASE_IF(test_lock_taken_behind_the_reapers_look_stays, BACKEND_SQL),
};

const struct suite between_suite = SUITE("between", cases);
