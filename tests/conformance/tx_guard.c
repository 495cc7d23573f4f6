/* SPDX-License-Identifier: MIT
 *
 * The slots lock and guard on a connection of the application's. */
#include "conformance.h"

static char place[ROWLOCK_PLACE_MAX];

static rowlock_target target_of(struct fixture *f, void *session)
{
    expect_ok(f->driver->locate(f->conn, place, sizeof(place), CALL_MS, &f->err), &f->err);
    return (rowlock_target){
        .size = sizeof(rowlock_target), .native = session, .prefix = f->prefix, .place = place};
}

static int lock_native(struct fixture *f, void *session, rowlock_op *ops, size_t n)
{
    rowlock_target target = target_of(f, session);
    return f->driver->lock(&target, ops, n, ROWLOCK_WAIT_NONE, 0, CALL_MS, &f->err);
}

/* Guards in a transaction of its own, which is rolled back. The op's status. */
static int guard_once(struct fixture *f, rowlock_op *op)
{
    void *session = session_open(f);
    rowlock_target target = target_of(f, session);
    op->status = INT32_MIN;
    int status = f->driver->guard(&target, op, CALL_MS, &f->err);
    sql_in(f, session, "ROLLBACK");
    sql_end(f, session);
    expect_ok(status, &f->err);
    return op->status;
}

/* MariaDB needs two statements for a row that is not there, and says BUSY if the second was slow.
 */
static int guard_absent(struct fixture *f, rowlock_op *op)
{
    int status = ROWLOCK_BUSY;
    for (int i = 0; i < 100 && status == ROWLOCK_BUSY; i++)
        status = guard_once(f, op);
    return status;
}

static void test_lock_in_a_session_counts_when_that_commits(void **state)
{
    struct fixture *f = *state;
    static const char *const ends[] = {"ROLLBACK", "COMMIT"};
    rowlock_op old = grant_released(f, "lock", "ann");
    for (size_t i = 0; i < COUNT(ends); i++) {
        void *session = session_open(f);
        rowlock_op op = op_new("lock", "bob");
        expect_ok(lock_native(f, session, &op, 1), &f->err);
        expect_ok(op.status, NULL);
        assert_true(op.fence > old.fence);
        assert_int_equal(row_of(f, "lock").fence, old.fence);
        sql_in(f, session, ends[i]);
        assert_int_equal(row_of(f, "lock").fence, i == 0 ? old.fence : op.fence);
        assert_string_equal(row_of(f, "lock").owner, i == 0 ? "ann" : "bob");
        sql_end(f, session);
    }
}

static void test_lock_in_a_session_is_for_all_or_none(void **state)
{
    struct fixture *f = *state;
    grant_released(f, "a", "ann");
    rowlock_op held = grant(f, "b", "ann");
    struct rows before = rows_read(f);
    void *session = session_open(f);
    rowlock_op ops[] = {op_new("a", "bob"), op_new("b", "bob")};
    expect_ok(lock_native(f, session, ops, COUNT(ops)), &f->err);
    expect_status(ROWLOCK_BUSY, ops[0].status, NULL);
    expect_status(ROWLOCK_BUSY, ops[1].status, NULL);
    assert_string_equal(ops[0].holder, "");
    assert_string_equal(ops[1].holder, "ann");
    assert_int_equal(ops[1].holder_fence, held.fence);
    sql_in(f, session, "COMMIT");
    struct rows after = rows_read(f);
    expect_same_rows(&before, &after);
    rows_free(&before);
    rows_free(&after);
}

static void test_lock_in_a_session_gives_back_what_it_could_have_had(void **state)
{
    struct fixture *f = *state;
    grant_released(f, "a", "ann");
    grant(f, "b", "ann");
    void *session = session_open(f);
    rowlock_op ops[] = {op_new("a", "bob"), op_new("b", "bob")};
    expect_ok(lock_native(f, session, ops, COUNT(ops)), &f->err);
    expect_status(ROWLOCK_BUSY, ops[0].status, NULL);
    rowlock_op other = op_new("a", "cid");
    expect_ok(try_acquire(f, f->conn, &other), NULL);
}

/* Not waited for, and not BUSY for ever: the core has to know that this is another database. On a
 * machine that is slow at the moment it may take some tries to tell it from a row that is locked.
 */
static void test_lock_in_a_session_of_an_absent_row_is_lost(void **state)
{
    struct fixture *f = *state;
    grant_released(f, "a", "ann");
    static const uint32_t waits[] = {ROWLOCK_WAIT_NONE, 10000};
    for (size_t i = 0; i < COUNT(waits); i++) {
        void *session = session_open(f);
        rowlock_target target = target_of(f, session);
        rowlock_op ops[] = {op_new("a", "bob"), op_new("b", "bob")};
        int64_t until = now_us() + SLACK_US;
        do {
            expect_ok(f->driver->lock(&target, ops, COUNT(ops), waits[i], 0, CALL_MS, &f->err),
                      &f->err);
            assert_true(ops[0].status != ROWLOCK_OK);
        } while (ops[1].status == ROWLOCK_BUSY && now_us() < until);
        expect_status(ROWLOCK_LOST, ops[1].status, NULL);
        sql_in(f, session, "COMMIT");
    }
}

static void expect_elsewhere(struct fixture *f, int status)
{
    expect_status(ROWLOCK_EINVAL, status, &f->err);
    assert_int_equal(f->err.native_code, ROWLOCK_NATIVE_ELSEWHERE);
    assert_string_equal(f->err.message,
                        "the connection is on another server or database than the client");
}

/* The server was started anew since it was asked, or is another one with the same tables. */
static void test_lock_and_guard_on_another_server_do_nothing(void **state)
{
    struct fixture *f = *state;
    shop_open(f);
    grant_released(f, "free", "ann");
    rowlock_op held = grant(f, "held", "ann"), guarded = op_of(&held);
    struct rows before = rows_read(f);
    void *session = session_open(f);
    assert_int_equal(shop_add(f, session, 1), 0);
    char *settings = settings_of(f, session);
    rowlock_target target = target_of(f, session);
    f->backend->kind->displace(place);
    static const uint32_t waits[] = {ROWLOCK_WAIT_NONE, 2000};
    for (size_t i = 0; i < COUNT(waits); i++) {
        rowlock_op ops[] = {op_new("absent", "bob"), op_new("free", "bob")};
        expect_elsewhere(f, f->driver->lock(&target, ops, 2, waits[i], 0, CALL_MS, &f->err));
        expect_elsewhere(f, f->driver->lock(&target, ops + 1, 1, waits[i], 0, CALL_MS, &f->err));
    }
    expect_elsewhere(f, f->driver->guard(&target, &guarded, CALL_MS, &f->err));
    guarded.name = "absent";
    guarded.name_length = 6;
    expect_elsewhere(f, f->driver->guard(&target, &guarded, CALL_MS, &f->err));
    expect_settings(f, session, settings, "another server");
    rowlock_op renewed = op_of(&held), taken = op_new("free", "cid");
    struct rows after = rows_read(f);
    expect_same_rows(&before, &after);
    rows_free(&before);
    rows_free(&after);
    expect_ok(try_renew(f, f->conn, &renewed), NULL); /* BUSY if it were locked */
    expect_ok(try_acquire(f, f->conn, &taken), NULL);
    sql_in(f, session, "COMMIT");
    assert_true(shop_has(f, 1));
}

/* The core asks so for the checks alone. */
static void test_lock_of_nothing_in_a_session_only_checks(void **state)
{
    struct fixture *f = *state;
    void *session = sql_begin(f);
    rowlock_op op = op_new("lock", "ann");
    expect_status(ROWLOCK_EINVAL, lock_native(f, session, &op, 0), &f->err);
    sql_in(f, session, "BEGIN");
    expect_ok(lock_native(f, session, &op, 0), &f->err);
    sql_in(f, session, "COMMIT");
}

static void test_guard_of_a_live_lease_is_ok(void **state)
{
    struct fixture *f = *state;
    rowlock_op held = grant(f, "lock", "ann");
    struct rows before = rows_read(f);
    rowlock_op op = op_of(&held);
    expect_ok(guard_once(f, &op), NULL);
    struct rows after = rows_read(f);
    expect_same_rows(&before, &after);
    rows_free(&before);
    rows_free(&after);
}

static void test_guard_of_another_tenure_is_lost(void **state)
{
    struct fixture *f = *state;
    rowlock_op held = grant(f, "lock", "ann");
    rowlock_op op = op_of(&held);
    op.fence--;
    expect_status(ROWLOCK_LOST, guard_once(f, &op), NULL);
    op.fence += 2;
    expect_status(ROWLOCK_LOST, guard_once(f, &op), NULL);
    op = op_of(&held);
    op.owner = "bob";
    expect_status(ROWLOCK_LOST, guard_once(f, &op), NULL);
    op.owner = "Ann";
    expect_status(ROWLOCK_LOST, guard_once(f, &op), NULL);
    op.owner = "ann ";
    expect_status(ROWLOCK_LOST, guard_once(f, &op), NULL);
    op = op_of(&held);
    op.name = "absent";
    op.name_length = 6;
    expect_status(ROWLOCK_LOST, guard_absent(f, &op), NULL);
}

static void test_guard_of_an_ended_lease_is_lost(void **state)
{
    struct fixture *f = *state;
    rowlock_op expired = grant_expired(f, "a", "ann"), released = grant_released(f, "b", "ann");
    rowlock_op forced = grant(f, "c", "ann"), force = op_of(&forced);
    expect_ok(try_force(f, f->conn, &force), NULL);
    rowlock_op op = op_of(&expired);
    expect_status(ROWLOCK_LOST, guard_once(f, &op), NULL);
    op = op_of(&released);
    expect_status(ROWLOCK_LOST, guard_once(f, &op), NULL);
    op = op_of(&forced);
    expect_status(ROWLOCK_LOST, guard_once(f, &op), NULL);
}

/* The clock that counts is that of the statement, not of the transaction. */
static void test_guard_late_in_a_transaction_is_lost(void **state)
{
    struct fixture *f = *state;
    shop_open(f);
    void *session = session_open(f);
    if ((f->backend->caps & BACKEND_ROW_LOCKS) != 0)
        assert_int_equal(shop_add(f, session, 1), 0); /* it has begun */
    rowlock_op expired = grant_expired(f, "lock", "ann"), op = op_of(&expired);
    rowlock_target target = target_of(f, session);
    expect_ok(f->driver->guard(&target, &op, CALL_MS, &f->err), &f->err);
    expect_status(ROWLOCK_LOST, op.status, NULL);
}

static void test_guard_of_a_locked_row_is_busy_at_once(void **state)
{
    struct fixture *f = *state;
    rowlock_op held = grant(f, "lock", "ann"), op = op_of(&held);
    void *session = session_open(f);
    sql_in(f, session, "SELECT fence FROM rowlock_locks WHERE name = 'lock' FOR UPDATE");
    expect_soon(1500000, expect_status(ROWLOCK_BUSY, guard_once(f, &op), NULL));
    sql_end(f, session);
    expect_ok(guard_once(f, &op), NULL);
}

static void test_guard_by_two_transactions_is_ok(void **state)
{
    struct fixture *f = *state;
    rowlock_op held = grant(f, "lock", "ann");
    void *sessions[] = {session_open(f), session_open(f)};
    for (size_t i = 0; i < COUNT(sessions); i++) {
        rowlock_op op = op_of(&held);
        rowlock_target target = target_of(f, sessions[i]);
        expect_ok(f->driver->guard(&target, &op, CALL_MS, &f->err), &f->err);
        expect_ok(op.status, NULL);
    }
    rowlock_op renewed = op_of(&held);
    expect_status(ROWLOCK_BUSY, try_renew(f, f->conn, &renewed), NULL);
    sql_in(f, sessions[0], "COMMIT");
    expect_status(ROWLOCK_BUSY, try_renew(f, f->conn, &renewed), NULL);
    sql_in(f, sessions[1], "COMMIT");
    expect_ok(try_renew(f, f->conn, &renewed), NULL);
}

/* By the database's clock and the fence, whatever the session has set. */
static void test_guard_in_every_mood_tells_live_from_ended(void **state)
{
    struct fixture *f = *state;
    rowlock_op live = grant(f, "live", "ann"), ended = grant_expired(f, "ended", "ann");
    const struct backend_mood *moods = f->backend->kind->moods;
    for (int i = 0; moods[i].name != NULL; i++) {
        void *session = mood_open(f, &moods[i], 0);
        mood_settle(f, session, &moods[i]);
        rowlock_target target = target_of(f, session);
        rowlock_op ops[] = {op_of(&live), op_of(&ended), op_of(&live)};
        ops[2].fence--;
        int good = 1;
        for (size_t k = 0; k < COUNT(ops); k++) {
            int status = f->driver->guard(&target, &ops[k], CALL_MS, &f->err);
            int expected = k == 0 ? ROWLOCK_OK : ROWLOCK_LOST;
            good = good && status == ROWLOCK_OK && ops[k].status == expected;
        }
        if (!good)
            fail_msg("in the mood '%s': %d %d %d %s", moods[i].name, ops[0].status, ops[1].status,
                     ops[2].status, f->err.message);
        sql_in(f, session, "ROLLBACK");
        sql_end(f, session);
    }
}

#define TX (BACKEND_TRANSACTIONS)

static const struct test_case cases[] = {
    CASE_IF(test_lock_in_a_session_counts_when_that_commits, TX),
    CASE_IF(test_lock_in_a_session_is_for_all_or_none, TX),
    CASE_IF(test_lock_in_a_session_gives_back_what_it_could_have_had, TX | BACKEND_GIVES_BACK),
    CASE_IF(test_lock_in_a_session_of_an_absent_row_is_lost, TX | BACKEND_ROW_LOCKS),
    CASE_IF(test_lock_and_guard_on_another_server_do_nothing, TX | BACKEND_SERVER),
    CASE_IF(test_lock_of_nothing_in_a_session_only_checks, TX),
    CASE_IF(test_guard_of_a_live_lease_is_ok, TX),
    CASE_IF(test_guard_of_another_tenure_is_lost, TX),
    CASE_IF(test_guard_of_an_ended_lease_is_lost, TX),
    CASE_IF(test_guard_late_in_a_transaction_is_lost, TX),
    CASE_IF(test_guard_in_every_mood_tells_live_from_ended, TX),
    CASE_IF(test_guard_of_a_locked_row_is_busy_at_once, TX | BACKEND_ROW_LOCKS),
    CASE_IF(test_guard_by_two_transactions_is_ok, TX | BACKEND_SHARED),
};

const struct suite tx_guard_suite = SUITE("tx_guard", cases);
