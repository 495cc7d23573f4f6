/* SPDX-License-Identifier: MIT
 *
 * Rows that somebody's open transaction keeps locked. */
#include <pthread.h>

#include "conformance.h"

/* A transaction that has locked the row "lock". */
static void *lock_row(struct fixture *f)
{
    void *session = sql_begin(f);
    sql_in(f, session, "BEGIN");
    sql_in(f, session, "SELECT fence FROM rowlock_locks WHERE name = 'lock' FOR UPDATE");
    return session;
}

/* A renewal that is not committed yet keeps the row, whose committed lease has ended. */
static void *renewing(struct fixture *f, rowlock_op *held)
{
    *held = grant_for(f, "lock", "ann", BRIEF_MS * 1000);
    void *session = sql_begin(f);
    sql_in(f, session, "BEGIN");
    sql_in(f, session,
           "UPDATE rowlock_locks SET expire_time = expire_time + 600000000 WHERE name = 'lock'");
    sleep_us(2 * BRIEF_MS * 1000);
    return session;
}

struct commit {
    const struct backend_kind *kind;
    void *session;
};

static void *commit_soon(void *arg)
{
    struct commit *c = arg;
    sleep_us(100000);
    c->kind->sql_run(c->session, "COMMIT", NULL, 0);
    return NULL;
}

static void test_release_beside_a_renewal_is_not_lost(void **state)
{
    struct fixture *f = *state;
    rowlock_op held;
    struct commit commit = {.kind = f->backend->kind, .session = renewing(f, &held)};
    rowlock_op op = op_of(&held);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, commit_soon, &commit), 0);
    int status = f->driver->release(f->conn, &op, 1, CALL_MS, &f->err);
    pthread_join(thread, NULL);
    sql_end(f, commit.session);
    if (status == ROWLOCK_OK)
        expect_ok(op.status, NULL);
}

static void test_renew_beside_a_renewal_is_not_lost(void **state)
{
    struct fixture *f = *state;
    rowlock_op held;
    void *session = renewing(f, &held);
    rowlock_op op = op_of(&held);
    int status = try_renew(f, f->conn, &op);
    sql_end(f, session);
    expect_status(ROWLOCK_BUSY, status, NULL);
}

static void test_acquire_of_a_locked_free_row_is_busy_in_time(void **state)
{
    struct fixture *f = *state;
    grant_released(f, "lock", "ann");
    void *session = lock_row(f);
    rowlock_op op = op_new("lock", "bob");
    int status = INT32_MIN;
    /* A tenth of a second, on a machine that is not loaded. */
    expect_soon(2000000, status = f->driver->acquire(f->conn, &op, 1, 0, CALL_MS, &f->err));
    sql_end(f, session);
    expect_ok(status, &f->err);
    expect_status(ROWLOCK_BUSY, op.status, NULL);
}

static void test_acquire_of_a_locked_row_goes_on_when_it_is_let_go(void **state)
{
    struct fixture *f = *state;
    rowlock_op old = grant_released(f, "lock", "ann");
    sql_end(f, lock_row(f));
    rowlock_op op = grant(f, "lock", "bob");
    assert_true(op.fence > old.fence);
}

static void test_all_with_a_locked_row_takes_nothing(void **state)
{
    struct fixture *f = *state;
    rowlock_op old = grant_released(f, "lock", "ann");
    void *session = lock_row(f);
    rowlock_op ops[] = {op_new("a", "bob"), op_new("lock", "bob"), op_new("z", "bob")};
    int status = f->driver->acquire(f->conn, ops, COUNT(ops), 1, CALL_MS, &f->err);
    sql_end(f, session);
    expect_ok(status, &f->err);
    for (size_t i = 0; i < COUNT(ops); i++)
        expect_status(ROWLOCK_BUSY, ops[i].status, NULL);
    struct rows live = rows_query(f, NULL, 0, 0);
    assert_int_equal(live.count, 0);
    rows_free(&live);
    assert_int_equal(row_of(f, "lock").fence, old.fence);
    assert_string_equal(row_of(f, "lock").owner, "ann");
}

/* The locked row is passed over, and the others do not wait for it. */
static void acquire_beside_locked(struct fixture *f, rowlock_op *ops)
{
    void *session = lock_row(f);
    int status = INT32_MIN;
    expect_soon(1000000, status = f->driver->acquire(f->conn, ops, 3, 0, CALL_MS, &f->err));
    sql_end(f, session);
    expect_ok(status, &f->err);
    expect_ok(ops[0].status, NULL);
    expect_status(ROWLOCK_BUSY, ops[1].status, NULL);
    expect_ok(ops[2].status, NULL);
    assert_int_equal(row_of(f, "a").hold_count, 1);
    assert_int_equal(row_of(f, "z").hold_count, 1);
}

static void test_acquire_of_others_goes_on_beside_a_locked_free_row(void **state)
{
    struct fixture *f = *state;
    grant_released(f, "a", "ann");
    grant_released(f, "lock", "ann");
    rowlock_op ops[] = {op_new("a", "bob"), op_new("lock", "bob"), op_new("z", "bob")};
    acquire_beside_locked(f, ops);
    assert_int_equal(ops[1].remaining_us, 0); /* nobody holds it */
    assert_int_equal(ops[1].is_queue, 0);
    expect_ok(try_acquire(f, f->conn, &ops[1]), NULL);
}

static void test_acquire_of_others_goes_on_beside_an_own_row_that_is_locked(void **state)
{
    struct fixture *f = *state;
    rowlock_op outer = grant(f, "lock", "bob");
    rowlock_op ops[] = {op_new("a", "bob"), op_new("lock", "bob"), op_new("z", "bob")};
    acquire_beside_locked(f, ops);
    /* No holder, or oneself: never another one. */
    assert_true(ops[1].holder[0] == '\0' || strcmp(ops[1].holder, "bob") == 0);
    expect_ok(try_acquire(f, f->conn, &ops[1]), NULL);
    assert_int_equal(ops[1].fence, outer.fence);
    assert_int_equal(ops[1].hold_count, 2);
}

static void test_acquire_of_others_goes_on_beside_a_locked_held_row(void **state)
{
    struct fixture *f = *state;
    rowlock_op held = grant(f, "lock", "ann");
    rowlock_op ops[] = {op_new("a", "bob"), op_new("lock", "bob"), op_new("z", "bob")};
    acquire_beside_locked(f, ops);
    assert_string_equal(ops[1].holder, "ann");
    assert_int_equal(ops[1].holder_fence, held.fence);
    assert_true(ops[1].remaining_us > 0);
}

static void test_busy_is_told_although_the_row_is_locked(void **state)
{
    struct fixture *f = *state;
    rowlock_op held = grant(f, "lock", "ann");
    void *session = lock_row(f);
    rowlock_op op = op_new("lock", "bob");
    int status = INT32_MIN;
    /* Takes no lock, so it waits for none. */
    expect_soon(500000, status = f->driver->acquire(f->conn, &op, 1, 0, CALL_MS, &f->err));
    sql_end(f, session);
    expect_ok(status, &f->err);
    expect_status(ROWLOCK_BUSY, op.status, NULL);
    assert_string_equal(op.holder, "ann");
    assert_int_equal(op.holder_fence, held.fence);
}

static void test_renew_of_a_locked_row_is_busy_at_once(void **state)
{
    struct fixture *f = *state;
    rowlock_op held = grant(f, "lock", "ann");
    void *session = lock_row(f);
    rowlock_op op = op_of(&held);
    int status = INT32_MIN;
    expect_soon(1000000, status = f->driver->renew(f->conn, &op, 1, CALL_MS, &f->err));
    sql_end(f, session);
    expect_ok(status, &f->err);
    expect_status(ROWLOCK_BUSY, op.status, NULL);
    expect_ok(try_renew(f, f->conn, &op), NULL);
}

static void test_renew_of_others_goes_on_beside_a_locked_row(void **state)
{
    struct fixture *f = *state;
    rowlock_op before = grant(f, "a", "ann"), locked = grant(f, "lock", "ann");
    rowlock_op after = grant(f, "z", "ann");
    void *session = lock_row(f);
    rowlock_op ops[] = {op_of(&before), op_of(&locked), op_of(&after)};
    int status = f->driver->renew(f->conn, ops, COUNT(ops), CALL_MS, &f->err);
    sql_end(f, session);
    expect_ok(status, &f->err);
    expect_ok(ops[0].status, NULL);
    expect_status(ROWLOCK_BUSY, ops[1].status, NULL);
    expect_ok(ops[2].status, NULL);
}

static void test_reap_passes_over_locked_rows(void **state)
{
    struct fixture *f = *state;
    grant_released(f, "a", "ann");
    grant_released(f, "lock", "ann");
    grant_released(f, "z", "ann");
    sleep_us(2000);
    void *session = lock_row(f);
    uint64_t sum = 0, count = 0;
    rowlock_mark mark = {0};
    int status;
    do { /* one by one: the locked row is not in the way of those behind it */
        status = reap_behind(f, &count, &mark, 1, 1);
        sum += count;
    } while (status == ROWLOCK_OK && mark.length > 0);
    sql_end(f, session);
    expect_ok(status, &f->err);
    assert_int_equal(sum, 2);
    assert_true(row_exists(f, "lock"));
}

static void test_list_does_not_wait_for_locked_rows(void **state)
{
    struct fixture *f = *state;
    grant(f, "lock", "ann");
    void *session = lock_row(f);
    struct rows rows = {0};
    rowlock_list_query query = {.size = sizeof(query)};
    int status = f->driver->list(f->conn, &query, rows_collect, &rows, CALL_MS, &f->err);
    sql_end(f, session);
    expect_ok(status, &f->err);
    assert_int_equal(rows.count, 1);
    rows_free(&rows);
}

/* Nothing was done, and that is certain. */
static void expect_locked(struct fixture *f, int status)
{
    expect_status(ROWLOCK_EDRIVER, status, &f->err);
    assert_int_equal(f->err.retryable, 1);
    assert_string_equal(f->err.message, "a transaction keeps the row locked: release after its "
                                        "COMMIT or ROLLBACK");
}

/* An answer that comes too late leaves it open what was done, and the connection is of no use: then
 * again on another, where the machine is as slow as that. */
static int is_left_open(struct fixture *f, int status, int *tries)
{
    if (status != ROWLOCK_EUNKNOWN || ++*tries == 20)
        return 0;
    conn_end(f, f->conn);
    f->conn = NULL;
    expect_ok(conn_begin(f, &f->conn, f->backend->address, f->prefix), &f->err);
    return 1;
}

static void release_locked(struct fixture *f, rowlock_op *ops, size_t n, uint32_t timeout_ms)
{
    int status, tries = 0;
    do
        status = f->driver->release(f->conn, ops, n, timeout_ms, &f->err);
    while (is_left_open(f, status, &tries));
    expect_locked(f, status);
}

static void force_locked(struct fixture *f, rowlock_op *op, uint32_t timeout_ms)
{
    int status, tries = 0;
    do
        status = f->driver->force_release(f->conn, op, timeout_ms, &f->err);
    while (is_left_open(f, status, &tries));
    expect_locked(f, status);
}

/* With time to wait for the row, with less than the server's own wait, with almost none. */
static const uint32_t release_ms[] = {3000, 1000, 300, 20, 1};

static void test_release_of_a_locked_row_says_so_and_can_be_repeated(void **state)
{
    struct fixture *f = *state;
    rowlock_op held[] = {grant(f, "a", "ann"), grant(f, "lock", "ann")};
    rowlock_op ops[] = {op_of(&held[0]), op_of(&held[1])};
    void *session = lock_row(f);
    for (size_t i = 0; i < 2 * COUNT(release_ms); i++) {
        size_t first = i % 2; /* both, or the locked one alone */
        uint32_t ms = release_ms[i / 2];
        expect_soon((int64_t)ms * 1000 + 2000000, release_locked(f, ops + first, 2 - first, ms));
    }
    sql_end(f, session);
    assert_int_equal(row_of(f, "a").hold_count, 1);
    ops_release(f, f->conn, ops, 2);
    for (size_t i = 0; i < 2; i++) {
        expect_ok(ops[i].status, NULL);
        assert_int_equal(ops[i].hold_count, 0);
    }
}

static void test_force_release_of_a_locked_row_says_so_and_can_be_repeated(void **state)
{
    struct fixture *f = *state;
    rowlock_op held = grant(f, "lock", "ann"), op = op_of(&held);
    void *session = lock_row(f);
    for (size_t i = 0; i < COUNT(release_ms); i++) {
        uint32_t ms = release_ms[i];
        expect_soon((int64_t)ms * 1000 + 2000000, force_locked(f, &op, ms));
    }
    sql_end(f, session);
    assert_int_equal(row_of(f, "lock").hold_count, 1);
    expect_ok(try_force(f, f->conn, &op), NULL);
    assert_int_equal(row_of(f, "lock").hold_count, 0);
}

static const struct test_case cases[] = {
    CASE_IF(test_release_beside_a_renewal_is_not_lost, BACKEND_SQL | BACKEND_ROW_LOCKS),
    CASE_IF(test_renew_beside_a_renewal_is_not_lost,
            BACKEND_SQL | BACKEND_ROW_LOCKS | BACKEND_GIVES_BACK),
    CASE_IF(test_acquire_of_a_locked_free_row_is_busy_in_time, BACKEND_SQL | BACKEND_ROW_LOCKS),
    CASE_IF(test_acquire_of_a_locked_row_goes_on_when_it_is_let_go,
            BACKEND_SQL | BACKEND_ROW_LOCKS),
    CASE_IF(test_all_with_a_locked_row_takes_nothing, BACKEND_SQL | BACKEND_ROW_LOCKS),
    CASE_IF(test_acquire_of_others_goes_on_beside_a_locked_free_row,
            BACKEND_SQL | BACKEND_ROW_LOCKS),
    CASE_IF(test_acquire_of_others_goes_on_beside_an_own_row_that_is_locked,
            BACKEND_SQL | BACKEND_ROW_LOCKS),
    CASE_IF(test_acquire_of_others_goes_on_beside_a_locked_held_row,
            BACKEND_SQL | BACKEND_ROW_LOCKS),
    CASE_IF(test_busy_is_told_although_the_row_is_locked, BACKEND_SQL | BACKEND_ROW_LOCKS),
    CASE_IF(test_renew_of_a_locked_row_is_busy_at_once, BACKEND_SQL | BACKEND_ROW_LOCKS),
    CASE_IF(test_renew_of_others_goes_on_beside_a_locked_row, BACKEND_SQL | BACKEND_ROW_LOCKS),
    CASE_IF(test_reap_passes_over_locked_rows, BACKEND_SQL | BACKEND_ROW_LOCKS),
    CASE_IF(test_list_does_not_wait_for_locked_rows, BACKEND_SQL | BACKEND_ROW_LOCKS),
    CASE_IF(test_release_of_a_locked_row_says_so_and_can_be_repeated,
            BACKEND_SQL | BACKEND_ROW_LOCKS),
    CASE_IF(test_force_release_of_a_locked_row_says_so_and_can_be_repeated,
            BACKEND_SQL | BACKEND_ROW_LOCKS),
};

const struct suite locked_suite = SUITE("locked", cases);
