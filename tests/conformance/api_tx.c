/* SPDX-License-Identifier: MIT
 *
 * rowlock_tx_begin(), _commit(), _rollback(): what a transaction of the library's does. */
#include "conformance.h"

static void commit(struct fixture *f, rowlock_tx **tx)
{
    expect_ok(rowlock_tx_commit(tx, &f->err), &f->err);
    assert_null(*tx);
}

static void *connection_of(struct fixture *f, rowlock_tx *tx)
{
    void *native = f->backend->kind->connection(tx);
    assert_non_null(native);
    return native;
}

static rowlock_client *client_with_one_connection(struct fixture *f, int64_t call_timeout_ms)
{
    rowlock_options options = ROWLOCK_OPTIONS_INIT;
    options.prefix = f->prefix;
    options.max_connections = 1;
    options.call_timeout_ms = call_timeout_ms;
    options.connect_timeout_ms = CALL_MS;
    expect_ok(rowlock_open(&f->clients[3], f->driver, f->backend->address, &options, &f->err),
              &f->err);
    return f->clients[3];
}

static void test_tx_fences_are_in_the_callers_order(void **state)
{
    struct fixture *f = *state;
    rowlock_client *client = client_open_as(f, "ann");
    static const char *const names[] = {"ccc", "a", "dddd", "bb"};
    for (int i = 0; i < 2; i++) {
        if (f->txs[0] != NULL)
            commit(f, &f->txs[0]);
        spread_fences(f);
        expect_ok(rowlock_tx_begin(&f->txs[0], client, names, 4, NULL, &f->err), &f->err);
    }
    uint64_t fences[4];
    for (size_t i = 0; i < COUNT(names); i++)
        fences[i] = rowlock_tx_fence(f->txs[0], i);
    assert_int_equal(rowlock_tx_fence(f->txs[0], 4), 0);
    assert_int_equal(rowlock_tx_fence(f->txs[0], SIZE_MAX), 0);
    commit(f, &f->txs[0]);
    for (size_t i = 0; i < COUNT(names); i++) {
        assert_true(fences[i] > 0);
        assert_int_equal(row_of(f, names[i]).fence, fences[i]);
        assert_string_equal(row_of(f, names[i]).owner, "ann");
    }
}

static void test_tx_fence_counts_when_it_is_committed(void **state)
{
    struct fixture *f = *state;
    rowlock_client *client = client_open(f);
    uint64_t last = 0;
    for (int i = 0; i < 3; i++) {
        expect_ok(tx_begin(f, &f->txs[0], client, "lock", 0), &f->err);
        uint64_t fence = rowlock_tx_fence(f->txs[0], 0);
        assert_true(fence > last);
        commit(f, &f->txs[0]);
        last = fence;
        expect_ok(tx_begin(f, &f->txs[0], client, "lock", 0), &f->err);
        expect_ok(rowlock_tx_rollback(&f->txs[0], &f->err), &f->err);
        assert_null(f->txs[0]);
        assert_int_equal(row_of(f, "lock").fence, last);
    }
}

static void test_tx_excludes_even_its_own_client(void **state)
{
    struct fixture *f = *state;
    rowlock_client *client = client_open(f);
    expect_ok(tx_begin(f, &f->txs[0], client, "lock", 0), &f->err);
    expect_status(ROWLOCK_BUSY, tx_begin(f, &f->txs[1], client, "lock", 0), &f->err);
    assert_null(f->txs[1]);
    commit(f, &f->txs[0]);
    expect_ok(tx_begin(f, &f->txs[1], client, "lock", 0), &f->err);
}

static void test_tx_of_other_names_go_side_by_side(void **state)
{
    struct fixture *f = *state;
    rowlock_client *client = client_open(f);
    expect_ok(tx_begin(f, &f->txs[0], client, "b", 0), &f->err);
    expect_ok(tx_begin(f, &f->txs[1], client, "a", 0), &f->err);
    expect_ok(tx_begin(f, &f->txs[2], client, "c", 0), &f->err);
    commit(f, &f->txs[0]);
    commit(f, &f->txs[2]);
    commit(f, &f->txs[1]);
}

static void test_tx_takes_names_with_nul_bytes(void **state)
{
    struct fixture *f = *state;
    static const char *const names[] = {"a\0b", "a", "a\0ab"};
    static const size_t lengths[] = {3, 1, 4};
    rowlock_client *client = client_open(f);
    rowlock_tx_options options = ROWLOCK_TX_OPTIONS_INIT;
    options.name_lengths = lengths;
    for (int i = 0; i < 2; i++) {
        if (f->txs[0] != NULL)
            commit(f, &f->txs[0]);
        spread_fences(f);
        expect_ok(rowlock_tx_begin(&f->txs[0], client, names, 3, &options, &f->err), &f->err);
    }
    uint64_t fences[] = {rowlock_tx_fence(f->txs[0], 1), rowlock_tx_fence(f->txs[0], 2),
                         rowlock_tx_fence(f->txs[0], 0)};
    commit(f, &f->txs[0]);
    struct rows rows = rows_read(f);
    assert_int_equal(rows.count, 3);
    for (size_t i = 0; i < rows.count; i++)
        assert_int_equal(rows.items[i].fence, fences[i]);
    rows_free(&rows);
}

static void test_tx_all_or_none(void **state)
{
    struct fixture *f = *state;
    rowlock_client *first = client_open(f), *second = client_open(f);
    static const char *const names[] = {"c", "b", "a"};
    expect_ok(tx_begin(f, &f->txs[0], first, "b", 0), &f->err);
    expect_status(ROWLOCK_BUSY, rowlock_tx_begin(&f->txs[1], second, names, 3, NULL, &f->err),
                  &f->err);
    assert_null(f->txs[1]);
    expect_ok(tx_begin(f, &f->txs[1], first, "a", 0), &f->err);
    expect_ok(tx_begin(f, &f->txs[2], first, "c", 0), &f->err);
}

static void test_tx_and_what_is_written_in_it_stand_or_fall_together(void **state)
{
    struct fixture *f = *state;
    rowlock_client *client = client_open(f);
    shop_open(f);
    expect_ok(tx_begin(f, &f->txs[0], client, "lock", 0), &f->err);
    assert_int_equal(shop_add(f, connection_of(f, f->txs[0]), 1), 0);
    assert_false(shop_has(f, 1));
    expect_ok(rowlock_tx_rollback(&f->txs[0], &f->err), &f->err);
    assert_false(shop_has(f, 1));
    expect_ok(tx_begin(f, &f->txs[0], client, "lock", 0), &f->err);
    uint64_t fence = rowlock_tx_fence(f->txs[0], 0);
    assert_int_equal(shop_add(f, connection_of(f, f->txs[0]), 1), 0);
    commit(f, &f->txs[0]);
    assert_true(shop_has(f, 1));
    assert_int_equal(row_of(f, "lock").fence, fence);
}

static void test_tx_has_the_settings_that_the_server_gives(void **state)
{
    struct fixture *f = *state;
    const struct backend_kind *kind = f->backend->kind;
    char plain[1024] = "", ours[1024] = "";
    expect_ok(tx_begin(f, &f->txs[0], client_open(f), "lock", 5000), &f->err);
    assert_int_equal(kind->sql_run(sql_begin(f), kind->given, plain, sizeof(plain)), 0);
    assert_int_equal(kind->sql_run(connection_of(f, f->txs[0]), kind->given, ours, sizeof(ours)),
                     0);
    assert_true(plain[0] != '\0');
    assert_string_equal(ours, plain);
}

static void test_tx_that_the_application_ended_is_not_committed(void **state)
{
    struct fixture *f = *state;
    rowlock_client *client = client_open(f);
    static const char *const own[] = {"COMMIT", "ROLLBACK"};
    for (size_t i = 0; i < COUNT(own); i++) {
        expect_ok(tx_begin(f, &f->txs[0], client, "lock", 0), &f->err);
        sql_in(f, connection_of(f, f->txs[0]), own[i]);
        expect_status(ROWLOCK_EDRIVER, rowlock_tx_commit(&f->txs[0], &f->err), &f->err);
        assert_null(f->txs[0]);
        assert_true(f->err.message[0] != '\0');
    }
    expect_ok(tx_begin(f, &f->txs[0], client, "lock", 0), &f->err);
    sql_in(f, connection_of(f, f->txs[0]), "COMMIT");
    expect_ok(rowlock_tx_rollback(&f->txs[0], &f->err), &f->err);
}

/* The lock was free in between: what comes after is not under it. */
static void test_tx_that_the_application_ended_and_began_anew_is_not_committed(void **state)
{
    struct fixture *f = *state;
    shop_open(f);
    expect_ok(tx_begin(f, &f->txs[0], client_open(f), "lock", 0), &f->err);
    void *native = connection_of(f, f->txs[0]);
    sql_in(f, native, "COMMIT");
    sql_in(f, native, "BEGIN");
    if (shop_add(f, native, 1) != 0) { /* the session's own search_path need not have it */
        sql_in(f, native, "ROLLBACK");
        sql_in(f, native, "BEGIN");
    }
    expect_status(ROWLOCK_EDRIVER, rowlock_tx_commit(&f->txs[0], &f->err), &f->err);
    assert_false(shop_has(f, 1));
}

static void test_tx_with_a_failed_statement_is_not_committed(void **state)
{
    struct fixture *f = *state;
    rowlock_client *client = client_open(f);
    shop_open(f);
    expect_ok(tx_begin(f, &f->txs[0], client, "lock", 0), &f->err);
    void *native = connection_of(f, f->txs[0]);
    assert_int_equal(shop_add(f, native, 1), 0);
    assert_int_not_equal(shop_add(f, native, 1), 0);
    expect_status(ROWLOCK_EDRIVER, rowlock_tx_commit(&f->txs[0], &f->err), &f->err);
    assert_false(shop_has(f, 1));
}

static void test_tx_of_a_killed_session_is_not_committed(void **state)
{
    struct fixture *f = *state;
    rowlock_client *client = client_open(f);
    shop_open(f);
    void *session = sql_begin(f);
    for (int rolled_back = 0; rolled_back <= 1; rolled_back++) {
        expect_ok(tx_begin(f, &f->txs[0], client, "lock", 0), &f->err);
        void *native = connection_of(f, f->txs[0]);
        assert_int_equal(shop_add(f, native, 1), 0);
        assert_int_equal(f->backend->kind->kill(session, native), 0);
        if (rolled_back) {
            expect_ok(rowlock_tx_rollback(&f->txs[0], &f->err), &f->err);
        } else {
            int status = rowlock_tx_commit(&f->txs[0], &f->err);
            assert_true(status == ROWLOCK_ECONNECT || status == ROWLOCK_EUNKNOWN);
        }
        assert_null(f->txs[0]);
        assert_false(shop_has(f, 1));
    }
    expect_ok(tx_begin(f, &f->txs[0], client, "lock", 10000), &f->err);
    commit(f, &f->txs[0]);
}

static void test_tx_that_was_disturbed_does_not_disturb_the_next(void **state)
{
    struct fixture *f = *state;
    rowlock_client *client = client_open(f);
    for (int committed = 0; committed <= 1; committed++) {
        expect_ok(tx_begin(f, &f->txs[0], client, "lock", 0), &f->err);
        void *native = connection_of(f, f->txs[0]);
        for (size_t i = 0; f->backend->kind->disturb[i] != NULL; i++)
            sql_in(f, native, f->backend->kind->disturb[i]);
        if (committed) /* or not: a timeout that was set may be too short for it */
            rowlock_tx_commit(&f->txs[0], &f->err);
        else
            expect_ok(rowlock_tx_rollback(&f->txs[0], &f->err), &f->err);
        assert_null(f->txs[0]);
        for (int i = 0; i < 3; i++) {
            expect_ok(tx_begin(f, &f->txs[0], client, "lock", 0), &f->err);
            commit(f, &f->txs[0]);
            rowlock_lock *lock = hold(f, client, "lock");
            let_go(f, &lock);
        }
    }
}

static void test_tx_outlives_its_client(void **state)
{
    struct fixture *f = *state;
    shop_open(f);
    for (int committed = 0; committed <= 1; committed++) {
        rowlock_client *client = client_open(f);
        expect_ok(tx_begin(f, &f->txs[0], client, "lock", 0), &f->err);
        uint64_t fence = rowlock_tx_fence(f->txs[0], 0);
        client_close(f, &client);
        assert_int_equal(rowlock_tx_fence(f->txs[0], 0), fence);
        assert_int_equal(shop_add(f, connection_of(f, f->txs[0]), 1), 0);
        if (committed)
            commit(f, &f->txs[0]);
        else
            expect_ok(rowlock_tx_rollback(&f->txs[0], &f->err), &f->err);
        assert_int_equal(shop_has(f, 1), committed);
        if (committed)
            assert_int_equal(row_of(f, "lock").fence, fence);
    }
}

static void test_tx_without_a_connection_left_is_a_bounded_error(void **state)
{
    struct fixture *f = *state;
    rowlock_client *client = client_with_one_connection(f, 3000);
    expect_ok(tx_begin(f, &f->txs[0], client, "lock", 0), &f->err);
    int64_t before = now_us();
    int status = tx_begin(f, &f->txs[1], client, "other", 0);
    expect_between(now_us() - before, 0, SLACK_US);
    expect_status(ROWLOCK_ECONNECT, status, &f->err);
    assert_null(f->txs[1]);
    assert_true(f->err.message[0] != '\0');
    assert_int_equal(f->err.retryable, 1);
    commit(f, &f->txs[0]);
    expect_ok(tx_begin(f, &f->txs[1], client, "other", 0), &f->err);
}

static void test_leases_are_renewed_while_all_transactions_are_open(void **state)
{
    struct fixture *f = *state;
    rowlock_client *client = client_with_one_connection(f, CALL_MS);
    rowlock_lock *lock = hold(f, client, "lease");
    expect_ok(tx_begin(f, &f->txs[0], client, "lock", 0), &f->err);
    for (int i = 0; i < 3; i++)
        expect_ok(rowlock_renew(lock, 0, &f->err), &f->err);
    let_go(f, &lock);
    commit(f, &f->txs[0]);
}

#define TX (BACKEND_TRANSACTIONS)

static const struct test_case cases[] = {
    CASE_IF(test_tx_fences_are_in_the_callers_order, TX),
    CASE_IF(test_tx_fence_counts_when_it_is_committed, TX),
    CASE_IF(test_tx_excludes_even_its_own_client, TX),
    CASE_IF(test_tx_of_other_names_go_side_by_side, TX | BACKEND_ROW_LOCKS),
    CASE_IF(test_tx_takes_names_with_nul_bytes, TX),
    CASE_IF(test_tx_all_or_none, TX | BACKEND_ROW_LOCKS),
    CASE_IF(test_tx_and_what_is_written_in_it_stand_or_fall_together, TX),
    CASE_IF(test_tx_has_the_settings_that_the_server_gives, TX),
    CASE_IF(test_tx_that_the_application_ended_is_not_committed, TX),
    CASE_IF(test_tx_that_the_application_ended_and_began_anew_is_not_committed, TX),
    CASE_IF(test_tx_with_a_failed_statement_is_not_committed, TX | BACKEND_FAILED),
    CASE_IF(test_tx_of_a_killed_session_is_not_committed, TX | BACKEND_KILL),
    CASE_IF(test_tx_that_was_disturbed_does_not_disturb_the_next, TX),
    CASE_IF(test_tx_outlives_its_client, TX),
    CASE_IF(test_tx_without_a_connection_left_is_a_bounded_error, TX),
    CASE_IF(test_leases_are_renewed_while_all_transactions_are_open, TX | BACKEND_ROW_LOCKS),
};

const struct suite api_tx_suite = SUITE("api_tx", cases);
