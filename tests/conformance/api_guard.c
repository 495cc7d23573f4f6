/* SPDX-License-Identifier: MIT
 *
 * The guard: a transaction of the application's that commits under its lease or not at all. */
#include "conformance.h"

#define GUARDED_MS 1500 /* a lease to be guarded in time and outlived */

static rowlock_client *client_in_a_hurry(struct fixture *f)
{
    rowlock_options options = ROWLOCK_OPTIONS_INIT;
    options.prefix = f->prefix;
    options.call_timeout_ms = 6000; /* the server gives up a part of it before */
    options.connect_timeout_ms = CALL_MS;
    expect_ok(rowlock_open(&f->clients[3], f->driver, f->backend->address, &options, &f->err),
              &f->err);
    return f->clients[3];
}

static int acquire_for(struct fixture *f, rowlock_client *client, rowlock_lock **lock,
                       int64_t wait_ms)
{
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;
    options.wait_ms = wait_ms;
    return rowlock_acquire(lock, client, "lock", &options, &f->err);
}

static void test_guard_of_a_held_lock_lets_the_writes_commit(void **state)
{
    struct fixture *f = *state;
    static const rowlock_error cleared;
    shop_open(f);
    rowlock_lock *lock = hold(f, client_open(f), "lock");
    void *session = session_open(f);
    expect_ok(guard_in(f, lock, session), &f->err);
    assert_memory_equal(&f->err, &cleared, sizeof(cleared));
    assert_int_equal(shop_add(f, session, 1), 0);
    expect_ok(guard_in(f, lock, session), &f->err); /* again, and after a write */
    sql_in(f, session, "COMMIT");
    assert_true(shop_has(f, 1));
    let_go(f, &lock);
}

static void expect_lost_for_ever(struct fixture *f, rowlock_lock *lock)
{
    shop_open(f);
    for (int i = 0; i < 2; i++) {
        void *session = session_open(f);
        assert_int_equal(shop_add(f, session, 1), 0);
        expect_status(ROWLOCK_LOST, guard_in(f, lock, session), &f->err);
        expect_status(ROWLOCK_LOST, rowlock_check(lock), NULL);
        assert_int_equal(rowlock_remaining(lock), 0);
        assert_int_equal(shop_add(f, session, 2), 0); /* not spoilt: it can be ended in order */
        sql_in(f, session, "ROLLBACK");
    }
}

static void test_guard_after_the_lease_is_lost(void **state)
{
    struct fixture *f = *state;
    rowlock_lock *lock = hold_briefly(f, client_open(f), "lock", NULL);
    outlive(f, "lock");
    expect_lost_for_ever(f, lock);
    expect_status(ROWLOCK_LOST, rowlock_release(&lock, &f->err), &f->err);
}

static void test_guard_after_a_forced_release_is_lost(void **state)
{
    struct fixture *f = *state;
    rowlock_lock *lock = hold(f, client_open(f), "lock");
    expect_ok(rowlock_force_release(client_open(f), "lock", NULL, &f->err), &f->err);
    expect_ok(rowlock_check(lock), NULL); /* nobody has told it */
    expect_lost_for_ever(f, lock);
    expect_status(ROWLOCK_LOST, rowlock_release(&lock, &f->err), &f->err);
}

static void test_guard_after_a_takeover_is_lost(void **state)
{
    struct fixture *f = *state;
    rowlock_client *thief = client_open(f);
    rowlock_lock *lock = hold(f, client_open(f), "lock");
    expect_ok(rowlock_force_release(thief, "lock", NULL, &f->err), &f->err);
    rowlock_lock *stolen = hold(f, thief, "lock");
    expect_lost_for_ever(f, lock);
    expect_ok(rowlock_renew(stolen, 0, &f->err), &f->err);
    let_go(f, &stolen);
    expect_status(ROWLOCK_LOST, rowlock_release(&lock, &f->err), &f->err);
}

static void test_guard_after_a_release_elsewhere_is_lost(void **state)
{
    struct fixture *f = *state;
    rowlock_client *second = client_open(f);
    rowlock_lock *lock = hold(f, client_open_as(f, "ann"), "lock"), *adopted = NULL;
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;
    options.owner = "ann";
    expect_ok(rowlock_adopt(&adopted, second, "lock", rowlock_fence(lock), &options, &f->err),
              &f->err);
    let_go(f, &adopted);
    expect_lost_for_ever(f, lock);
    expect_status(ROWLOCK_LOST, rowlock_release(&lock, &f->err), &f->err);
}

/* However the guarded transaction ends, a thief gets the lock then and not before. */
static void expect_thief_waits(struct fixture *f, const char *end)
{
    rowlock_client *thief = client_open(f);
    rowlock_lock *lock = hold_for(f, client_open(f), "lock", GUARDED_MS), *stolen = NULL;
    uint64_t fence = rowlock_fence(lock);
    void *session = session_open(f);
    expect_ok(guard_in(f, lock, session), &f->err);
    outlive(f, "lock");
    expect_status(ROWLOCK_BUSY, acquire_for(f, thief, &stolen, 0), &f->err);
    expect_status(ROWLOCK_TIMEOUT, acquire_for(f, thief, &stolen, 300), &f->err);
    expect_status(ROWLOCK_BUSY, tx_begin(f, &f->txs[0], thief, "lock", 0), &f->err);
    assert_int_equal(row_of(f, "lock").fence, fence);
    sql_in(f, session, end);
    expect_ok(acquire_for(f, thief, &stolen, 10000), &f->err);
    assert_true(rowlock_fence(stolen) > fence);
    let_go(f, &stolen);
    expect_status(ROWLOCK_LOST, rowlock_release(&lock, &f->err), &f->err);
}

static void test_guard_keeps_a_thief_out_until_commit(void **state)
{
    expect_thief_waits(*state, "COMMIT");
}

static void test_guard_keeps_a_thief_out_until_rollback(void **state)
{
    expect_thief_waits(*state, "ROLLBACK");
}

static void test_renew_of_a_guarded_lock_is_busy_and_not_lost(void **state)
{
    struct fixture *f = *state;
    rowlock_lock *lock = hold(f, client_open(f), "lock");
    void *session = session_open(f);
    expect_ok(guard_in(f, lock, session), &f->err);
    int64_t before = now_us();
    expect_status(ROWLOCK_BUSY, rowlock_renew(lock, 0, &f->err), &f->err);
    expect_between(now_us() - before, 0, SLACK_US);
    expect_ok(rowlock_check(lock), NULL);
    sql_in(f, session, "COMMIT");
    expect_ok(rowlock_renew(lock, 0, &f->err), &f->err);
    let_go(f, &lock);
}

static void test_guard_in_two_transactions_at_once(void **state)
{
    struct fixture *f = *state;
    shop_open(f);
    rowlock_lock *lock = hold(f, client_open(f), "lock");
    void *first = session_open(f), *second = session_open(f);
    expect_ok(guard_in(f, lock, first), &f->err);
    expect_ok(guard_in(f, lock, second), &f->err);
    assert_int_equal(shop_add(f, first, 1), 0);
    assert_int_equal(shop_add(f, second, 2), 0);
    sql_in(f, first, "COMMIT");
    expect_status(ROWLOCK_BUSY, rowlock_renew(lock, 0, &f->err), &f->err);
    sql_in(f, second, "COMMIT");
    expect_ok(rowlock_renew(lock, 0, &f->err), &f->err);
    let_go(f, &lock);
}

static void test_force_release_does_not_get_past_a_guard(void **state)
{
    struct fixture *f = *state;
    shop_open(f);
    rowlock_client *other = client_in_a_hurry(f);
    rowlock_lock *lock = hold(f, client_open(f), "lock");
    void *session = session_open(f);
    expect_ok(guard_in(f, lock, session), &f->err);
    int64_t before = now_us();
    int status = rowlock_force_release(other, "lock", NULL, &f->err);
    expect_between(now_us() - before, 0, SLACK_US);
    assert_true(status != ROWLOCK_OK && status != ROWLOCK_LOST);
    assert_int_equal(row_of(f, "lock").fence, rowlock_fence(lock));
    assert_int_equal(shop_add(f, session, 1), 0);
    sql_in(f, session, "COMMIT");
    assert_true(shop_has(f, 1));
    int again = rowlock_force_release(other, "lock", NULL, &f->err);
    if (status != ROWLOCK_EUNKNOWN || again != ROWLOCK_LOST) /* that may come true afterwards */
        expect_ok(again, &f->err);
    expect_status(ROWLOCK_LOST, rowlock_release(&lock, &f->err), &f->err);
}

static void test_reap_passes_over_a_guarded_lock(void **state)
{
    struct fixture *f = *state;
    rowlock_lock *lock = hold_for(f, client_open(f), "lock", GUARDED_MS);
    void *session = session_open(f);
    expect_ok(guard_in(f, lock, session), &f->err);
    outlive(f, "lock");
    assert_int_equal(reap(f, 0, 100), 0);
    sql_in(f, session, "COMMIT");
    assert_int_equal(reap(f, 0, 100), 1);
    expect_status(ROWLOCK_LOST, rowlock_release(&lock, &f->err), &f->err);
}

static void test_guard_in_every_mood_leaves_it_as_it_was(void **state)
{
    struct fixture *f = *state;
    shop_open(f);
    rowlock_lock *lock = hold(f, client_open_as(f, "J\xc3\xbcrgen '\\\""), "lock");
    const struct backend_mood *moods = f->backend->kind->moods;
    for (int i = 0; moods[i].name != NULL; i++) {
        void *session = mood_open(f, &moods[i], i + 1);
        mood_settle(f, session, &moods[i]);
        char *before = settings_of(f, session);
        expect_mood_ok(f, &moods[i], guard_in(f, lock, session));
        expect_settings(f, session, before, moods[i].name);
        sql_in(f, session, "COMMIT");
        sql_end(f, session);
        assert_true(shop_has(f, i + 1));
    }
    let_go(f, &lock);
}

static void test_guard_of_an_old_snapshot_is_retryable_and_not_lost(void **state)
{
    struct fixture *f = *state;
    rowlock_lock *lock = hold(f, client_open(f), "lock");
    void *session = sql_begin(f);
    sql_in(f, session, f->backend->kind->snapshot);
    sql_in(f, session, "SELECT COUNT(*) FROM rowlock_locks");
    sleep_us(2000);
    expect_ok(rowlock_renew(lock, 0, &f->err), &f->err);
    expect_status(ROWLOCK_EDRIVER, guard_in(f, lock, session), &f->err);
    assert_int_equal(f->err.retryable, 1);
    expect_ok(rowlock_check(lock), NULL);
    sql_in(f, session, "ROLLBACK");
    sql_in(f, session, f->backend->kind->snapshot);
    expect_ok(guard_in(f, lock, session), &f->err);
    sql_in(f, session, "COMMIT");
    let_go(f, &lock);
}

static void test_guard_behind_a_lasting_lock_is_retryable(void **state)
{
    struct fixture *f = *state;
    rowlock_lock *lock = hold(f, client_in_a_hurry(f), "lock");
    void *other = session_open(f), *session = session_open(f);
    sql_in(f, other, "SELECT fence FROM rowlock_locks WHERE name = 'lock' FOR UPDATE");
    int64_t before = now_us();
    expect_status(ROWLOCK_EDRIVER, guard_in(f, lock, session), &f->err);
    expect_between(now_us() - before, 0, SLACK_US);
    assert_int_equal(f->err.retryable, 1);
    expect_ok(rowlock_check(lock), NULL);
    sql_in(f, other, "COMMIT");
    expect_ok(guard_in(f, lock, session), &f->err);
    sql_in(f, session, "COMMIT");
    let_go(f, &lock);
}

static void test_guard_and_lock_go_together(void **state)
{
    struct fixture *f = *state;
    rowlock_client *client = client_open(f);
    rowlock_lock *lock = hold(f, client, "lock");
    void *session = session_open(f);
    uint64_t fence = 0;
    expect_ok(guard_in(f, lock, session), &f->err);
    expect_status(ROWLOCK_BUSY, lock_in(f, client, session, "lock", 0, NULL), &f->err);
    expect_ok(lock_in(f, client, session, "other", 0, &fence), &f->err);
    sql_in(f, session, "COMMIT");
    assert_int_equal(row_of(f, "other").fence, fence);
    let_go(f, &lock);
}

/* Released too early: the transaction that guards it is the caller's own. */
static void test_release_of_a_guarded_lock_says_what_is_wrong(void **state)
{
    struct fixture *f = *state;
    rowlock_lock *lock = hold(f, client_in_a_hurry(f), "lock");
    void *session = session_open(f);
    expect_ok(guard_in(f, lock, session), &f->err);
    int64_t before = now_us();
    expect_status(ROWLOCK_EDRIVER, rowlock_release(&lock, &f->err), &f->err);
    expect_between(now_us() - before, 0, SLACK_US);
    assert_int_equal(f->err.retryable, 1);
    assert_string_equal(f->err.message, "a transaction keeps the row locked: release after its "
                                        "COMMIT or ROLLBACK");
    sql_in(f, session, "COMMIT");
    assert_int_equal(row_of(f, "lock").hold_count, 1);
}

#define TX (BACKEND_TRANSACTIONS)

static const struct test_case cases[] = {
    CASE_IF(test_guard_of_a_held_lock_lets_the_writes_commit, TX),
    CASE_IF(test_guard_after_the_lease_is_lost, TX),
    CASE_IF(test_guard_after_a_forced_release_is_lost, TX),
    CASE_IF(test_guard_after_a_takeover_is_lost, TX),
    CASE_IF(test_guard_after_a_release_elsewhere_is_lost, TX),
    CASE_IF(test_guard_keeps_a_thief_out_until_commit, TX),
    CASE_IF(test_guard_keeps_a_thief_out_until_rollback, TX),
    CASE_IF(test_renew_of_a_guarded_lock_is_busy_and_not_lost, TX),
    CASE_IF(test_guard_in_two_transactions_at_once, TX | BACKEND_SHARED),
    CASE_IF(test_force_release_does_not_get_past_a_guard, TX),
    CASE_IF(test_reap_passes_over_a_guarded_lock, TX | BACKEND_ROW_LOCKS),
    CASE_IF(test_guard_in_every_mood_leaves_it_as_it_was, TX),
    CASE_IF(test_guard_of_an_old_snapshot_is_retryable_and_not_lost, TX | BACKEND_SNAPSHOT),
    CASE_IF(test_guard_behind_a_lasting_lock_is_retryable, TX | BACKEND_ROW_LOCKS),
    CASE_IF(test_guard_and_lock_go_together, TX),
    CASE_IF(test_release_of_a_guarded_lock_says_what_is_wrong, TX),
};

const struct suite api_guard_suite = SUITE("api_guard", cases);
