/* SPDX-License-Identifier: MIT
 *
 * Locks in transactions of the application's, on its own connections. */
#include <stdio.h>

#include "conformance.h"

static void test_native_lock_and_writes_stand_or_fall_together(void **state)
{
    struct fixture *f = *state;
    rowlock_client *client = client_open_as(f, "ann");
    shop_open(f);
    uint64_t last = 0;
    for (int commit = 0; commit <= 1; commit++) {
        void *session = session_open(f);
        uint64_t fence = 0;
        expect_ok(lock_in(f, client, session, "lock", 0, &fence), &f->err);
        assert_true(fence > 0);
        assert_int_equal(shop_add(f, session, 1), 0);
        assert_false(shop_has(f, 1));
        sql_in(f, session, commit ? "COMMIT" : "ROLLBACK");
        assert_int_equal(shop_has(f, 1), commit);
        last = fence;
    }
    assert_int_equal(row_of(f, "lock").fence, last);
    assert_string_equal(row_of(f, "lock").owner, "ann");
}

static void test_native_lock_excludes_until_the_end(void **state)
{
    struct fixture *f = *state;
    rowlock_client *client = client_open(f);
    static const char *const ends[] = {"COMMIT", "ROLLBACK"};
    for (size_t i = 0; i < COUNT(ends); i++) {
        void *session = session_open(f);
        expect_ok(lock_in(f, client, session, "lock", 0, NULL), &f->err);
        expect_status(ROWLOCK_BUSY, tx_begin(f, &f->txs[0], client, "lock", 0), &f->err);
        sql_in(f, session, ends[i]);
        expect_ok(tx_begin(f, &f->txs[0], client, "lock", 0), &f->err);
        expect_ok(rowlock_tx_commit(&f->txs[0], &f->err), &f->err);
    }
}

static void test_native_lock_of_several_is_in_the_callers_order(void **state)
{
    struct fixture *f = *state;
    rowlock_client *client = client_open(f);
    static const char *const names[] = {"c", "a\0x", "bb", "aaaa"};
    static const size_t lengths[] = {1, 3, 2, 4};
    rowlock_tx_options options = ROWLOCK_TX_OPTIONS_INIT;
    options.name_lengths = lengths;
    uint64_t fences[4] = {0};
    void *session = sql_begin(f);
    for (int i = 0; i < 2; i++) {
        spread_fences(f);
        sql_in(f, session, "BEGIN");
        expect_ok(f->backend->kind->lock(fences, client, session, names, 4, &options, &f->err),
                  &f->err);
        sql_in(f, session, "COMMIT");
    }
    struct rows rows = rows_read(f);
    assert_int_equal(rows.count, 4);
    assert_int_equal(rows.items[0].fence, fences[1]);
    assert_int_equal(rows.items[1].fence, fences[3]);
    assert_int_equal(rows.items[2].fence, fences[2]);
    assert_int_equal(rows.items[3].fence, fences[0]);
    rows_free(&rows);
}

/* Granted, busy and timed out: in every mood of the session the transaction goes on with what was
 * written before, and nothing that can be set has changed. */
static void try_mood(struct fixture *f, rowlock_client *client, const struct backend_mood *mood,
                     int number)
{
    uint64_t fence = 0;
    void *session = mood_open(f, mood, number);
    mood_settle(f, session, mood);
    char *before = settings_of(f, session);
    expect_mood_ok(f, mood, lock_in(f, client, session, "lock", 0, &fence));
    expect_settings(f, session, before, mood->name);
    before = settings_of(f, session);
    expect_status(ROWLOCK_BUSY, lock_in(f, client, session, "held", 0, NULL), &f->err);
    expect_status(ROWLOCK_TIMEOUT, lock_in(f, client, session, "held", 60, NULL), &f->err);
    expect_settings(f, session, before, mood->name);
    sql_in(f, session, "COMMIT");
    sql_end(f, session);
    assert_true(shop_has(f, number));
    assert_int_equal(row_of(f, "lock").fence, fence);
    assert_string_equal(row_of(f, "lock").owner, "J\xc3\xbcrgen '\\\"");
}

static void test_native_lock_in_every_mood_leaves_it_as_it_was(void **state)
{
    struct fixture *f = *state;
    rowlock_client *client = client_open_as(f, "J\xc3\xbcrgen '\\\"");
    shop_open(f);
    grant_released(f, "lock", "ann");
    grant(f, "held", "ann");
    const struct backend_mood *moods = f->backend->kind->moods;
    for (int i = 0; moods[i].name != NULL; i++)
        try_mood(f, client, &moods[i], i + 1);
}

static void test_native_lock_of_several_in_every_mood(void **state)
{
    struct fixture *f = *state;
    rowlock_client *client = client_open(f);
    static const char *const names[] = {"a", "b", "c"};
    for (size_t i = 0; i < COUNT(names); i++)
        grant_released(f, names[i], "ann");
    const struct backend_mood *moods = f->backend->kind->moods;
    for (int i = 0; moods[i].name != NULL; i++) {
        uint64_t fences[3] = {0};
        void *session = mood_open(f, &moods[i], 0);
        mood_settle(f, session, &moods[i]);
        expect_mood_ok(f, &moods[i],
                       f->backend->kind->lock(fences, client, session, names, 3, NULL, &f->err));
        sql_in(f, session, "COMMIT");
        sql_end(f, session);
        for (size_t k = 0; k < COUNT(names); k++)
            assert_int_equal(row_of(f, names[k]).fence, fences[k]);
    }
}

static void test_native_lock_of_an_absent_name_in_every_mood(void **state)
{
    struct fixture *f = *state;
    rowlock_client *client = client_open(f);
    const struct backend_mood *moods = f->backend->kind->moods;
    for (int i = 0; moods[i].name != NULL; i++) {
        uint64_t fence = 0;
        char name[2] = {(char)('a' + i), '\0'};
        void *session = mood_open(f, &moods[i], 0);
        mood_settle(f, session, &moods[i]);
        expect_mood_ok(f, &moods[i], lock_in(f, client, session, name, 0, &fence));
        sql_in(f, session, "COMMIT");
        sql_end(f, session);
        assert_int_equal(row_of(f, name).fence, fence);
    }
}

static void test_native_locks_add_up_in_one_transaction(void **state)
{
    struct fixture *f = *state;
    rowlock_client *client = client_open(f);
    uint64_t first = 0, second = 0;
    grant_released(f, "a", "ann");
    grant_released(f, "b", "ann");
    void *session = session_open(f);
    expect_ok(lock_in(f, client, session, "b", 0, &second), &f->err);
    expect_ok(lock_in(f, client, session, "a", 0, &first), &f->err);
    expect_status(ROWLOCK_BUSY, tx_begin(f, &f->txs[0], client, "a", 0), &f->err);
    expect_status(ROWLOCK_BUSY, tx_begin(f, &f->txs[0], client, "b", 0), &f->err);
    sql_in(f, session, "COMMIT");
    assert_int_equal(row_of(f, "a").fence, first);
    assert_int_equal(row_of(f, "b").fence, second);
}

static void test_native_lock_of_the_same_name_again_is_granted(void **state)
{
    struct fixture *f = *state;
    rowlock_client *client = client_open(f);
    uint64_t first = 0, second = 0;
    grant_released(f, "lock", "ann");
    void *session = session_open(f);
    expect_ok(lock_in(f, client, session, "lock", 0, &first), &f->err);
    expect_ok(lock_in(f, client, session, "lock", 0, &second), &f->err);
    assert_true(second >= first);
    expect_status(ROWLOCK_BUSY, tx_begin(f, &f->txs[0], client, "lock", 0), &f->err);
    sql_in(f, session, "COMMIT");
    assert_int_equal(row_of(f, "lock").fence, second);
}

/* A savepoint of the driver's that is still there could be released. */
static void test_native_lock_and_guard_leave_no_savepoint_behind(void **state)
{
    static const char *const ours[] = {"rowlock", "rowlock_call", "rowlock_step", "rowlock_tx"};
    struct fixture *f = *state;
    rowlock_client *client = client_open(f);
    rowlock_lock *lock = hold(f, client, "leased");
    grant_released(f, "lock", "ann");
    grant(f, "held", "ann");
    for (size_t i = 0; i < 5 * COUNT(ours); i++) {
        char sql[64];
        void *session = session_open(f), *other = NULL;
        switch (i / COUNT(ours)) {
        case 0:
            expect_ok(lock_in(f, client, session, "lock", 0, NULL), &f->err);
            break;
        case 1:
            expect_status(ROWLOCK_BUSY, lock_in(f, client, session, "held", 0, NULL), &f->err);
            break;
        case 2:
            expect_status(ROWLOCK_TIMEOUT, lock_in(f, client, session, "held", 60, NULL), &f->err);
            break;
        case 3: /* found out in the transaction */
            other = session_open(f);
            expect_ok(lock_in(f, client, other, "lock", 0, NULL), &f->err);
            expect_status(ROWLOCK_BUSY, lock_in(f, client, session, "lock", 0, NULL), &f->err);
            break;
        default:
            expect_ok(guard_in(f, lock, session), &f->err);
        }
        snprintf(sql, sizeof(sql), "RELEASE SAVEPOINT %s", ours[i % COUNT(ours)]);
        assert_int_not_equal(f->backend->kind->sql_run(session, sql, NULL, 0), 0);
        sql_in(f, session, "ROLLBACK");
        sql_end(f, session);
        if (other != NULL)
            sql_end(f, other);
    }
    let_go(f, &lock);
}

static void test_native_lock_is_undone_with_the_applications_savepoint(void **state)
{
    struct fixture *f = *state;
    rowlock_client *client = client_open(f);
    shop_open(f);
    uint64_t kept = 0, undone = 0;
    rowlock_op b = grant_released(f, "b", "ann");
    grant_released(f, "a", "ann");
    void *session = session_open(f);
    expect_ok(lock_in(f, client, session, "a", 0, &kept), &f->err);
    assert_int_equal(shop_add(f, session, 1), 0);
    sql_in(f, session, "SAVEPOINT mine");
    assert_int_equal(shop_add(f, session, 2), 0);
    expect_ok(lock_in(f, client, session, "b", 0, &undone), &f->err);
    sql_in(f, session, "ROLLBACK TO SAVEPOINT mine");
    expect_status(ROWLOCK_BUSY, tx_begin(f, &f->txs[0], client, "a", 0), &f->err);
    sql_in(f, session, "COMMIT");
    assert_true(shop_has(f, 1));
    assert_false(shop_has(f, 2));
    assert_int_equal(row_of(f, "a").fence, kept);
    assert_int_equal(row_of(f, "b").fence, b.fence);
}

static void test_native_lock_of_an_old_snapshot_is_retryable(void **state)
{
    struct fixture *f = *state;
    rowlock_client *client = client_open(f);
    grant_released(f, "lock", "ann");
    void *session = sql_begin(f);
    sql_in(f, session, f->backend->kind->snapshot);
    sql_in(f, session, "SELECT COUNT(*) FROM rowlock_locks");
    grant_released(f, "lock", "ann");
    char *before = settings_of(f, session);
    expect_status(ROWLOCK_EDRIVER, lock_in(f, client, session, "lock", 0, NULL), &f->err);
    assert_int_equal(f->err.retryable, 1);
    assert_true(f->err.message[0] != '\0');
    expect_settings(f, session, before, "old snapshot");
    sql_in(f, session, "ROLLBACK");
    sql_in(f, session, f->backend->kind->snapshot);
    expect_ok(lock_in(f, client, session, "lock", 0, NULL), &f->err);
    sql_in(f, session, "COMMIT");
}

static void test_native_lock_on_a_killed_connection_is_econnect(void **state)
{
    struct fixture *f = *state;
    rowlock_client *client = client_open(f);
    void *session = session_open(f);
    assert_int_equal(f->backend->kind->kill(sql_begin(f), session), 0);
    expect_status(ROWLOCK_ECONNECT, lock_in(f, client, session, "lock", 0, NULL), &f->err);
    assert_int_equal(f->err.retryable, 0);
    assert_true(f->err.message[0] != '\0');
    expect_ok(tx_begin(f, &f->txs[0], client, "lock", 10000), &f->err);
}

#define TX (BACKEND_TRANSACTIONS)

static const struct test_case cases[] = {
    CASE_IF(test_native_lock_and_writes_stand_or_fall_together, TX),
    CASE_IF(test_native_lock_excludes_until_the_end, TX),
    CASE_IF(test_native_lock_of_several_is_in_the_callers_order, TX),
    CASE_IF(test_native_lock_in_every_mood_leaves_it_as_it_was, TX),
    CASE_IF(test_native_lock_of_several_in_every_mood, TX),
    CASE_IF(test_native_lock_of_an_absent_name_in_every_mood, TX),
    CASE_IF(test_native_locks_add_up_in_one_transaction, TX),
    CASE_IF(test_native_lock_of_the_same_name_again_is_granted, TX),
    CASE_IF(test_native_lock_and_guard_leave_no_savepoint_behind, TX),
    CASE_IF(test_native_lock_is_undone_with_the_applications_savepoint, TX),
    CASE_IF(test_native_lock_of_an_old_snapshot_is_retryable, TX | BACKEND_SNAPSHOT),
    CASE_IF(test_native_lock_on_a_killed_connection_is_econnect, TX | BACKEND_KILL),
};

const struct suite api_native_suite = SUITE("api_native", cases);
