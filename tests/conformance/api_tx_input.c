/* SPDX-License-Identifier: MIT
 *
 * rowlock_tx_begin() and its sisters with arguments that are wrong. */
#include <stdio.h>

#include "conformance.h"

#define NOTHING ((rowlock_tx *)(void *)f) /* must be overwritten with NULL */

static void expect_refused(struct fixture *f, int status)
{
    expect_status(ROWLOCK_EINVAL, status, &f->err);
    assert_int_equal(f->err.status, ROWLOCK_EINVAL);
    assert_true(f->err.message[0] != '\0');
    assert_null(strchr(f->err.message, '\n'));
}

static void test_tx_begin_without_an_argument_is_einval(void **state)
{
    struct fixture *f = *state;
    rowlock_client *client = client_open(f);
    static const char *const names[] = {"a", NULL}, *const empty[] = {""};
    rowlock_tx *tx = NOTHING;
    expect_refused(f, rowlock_tx_begin(NULL, client, names, 1, NULL, &f->err));
    expect_refused(f, rowlock_tx_begin(&tx, NULL, names, 1, NULL, &f->err));
    assert_null(tx);
    tx = NOTHING;
    expect_refused(f, rowlock_tx_begin(&tx, client, NULL, 1, NULL, &f->err));
    assert_null(tx);
    tx = NOTHING;
    expect_refused(f, rowlock_tx_begin(&tx, client, names, 0, NULL, &f->err));
    assert_null(tx);
    expect_refused(f, rowlock_tx_begin(&tx, client, names, 2, NULL, &f->err));
    expect_refused(f, rowlock_tx_begin(&tx, client, empty, 1, NULL, &f->err));
    expect_status(ROWLOCK_EINVAL, rowlock_tx_begin(&tx, client, empty, 1, NULL, NULL), NULL);
    assert_null(tx);
}

static void test_tx_begin_with_bad_names_is_einval(void **state)
{
    struct fixture *f = *state;
    rowlock_client *client = client_open(f);
    char longer[ROWLOCK_NAME_MAX + 2];
    memset(longer, 'n', sizeof(longer));
    longer[sizeof(longer) - 1] = '\0';
    const char *const twice[] = {"a", "b", "a"}, *const too_long[] = {longer};
    rowlock_tx *tx = NOTHING;
    expect_refused(f, rowlock_tx_begin(&tx, client, twice, 3, NULL, &f->err));
    assert_null(tx);
    expect_refused(f, rowlock_tx_begin(&tx, client, too_long, 1, NULL, &f->err));
    expect_refused(f,
                   rowlock_tx_begin(&tx, client, too_long, ROWLOCK_BATCH_MAX + 1, NULL, &f->err));
    struct rows rows = rows_read(f);
    assert_int_equal(rows.count, 0);
    rows_free(&rows);
}

static void test_tx_begin_with_bad_options_is_einval(void **state)
{
    struct fixture *f = *state;
    rowlock_client *client = client_open(f);
    static const char *const names[] = {"a"};
    rowlock_tx_options options = {.size = 0};
    rowlock_tx *tx = NOTHING;
    expect_refused(f, rowlock_tx_begin(&tx, client, names, 1, &options, &f->err));
    assert_null(tx);
    options = (rowlock_tx_options)ROWLOCK_TX_OPTIONS_INIT;
    options.wait_ms = -2;
    expect_refused(f, rowlock_tx_begin(&tx, client, names, 1, &options, &f->err));
}

static void test_tx_functions_of_null_are_harmless(void **state)
{
    struct fixture *f = *state;
    rowlock_tx *tx = NULL;
    expect_refused(f, rowlock_tx_commit(NULL, &f->err));
    expect_refused(f, rowlock_tx_commit(&tx, &f->err));
    expect_refused(f, rowlock_tx_rollback(NULL, &f->err));
    expect_refused(f, rowlock_tx_rollback(&tx, &f->err));
    expect_status(ROWLOCK_EINVAL, rowlock_tx_commit(&tx, NULL), NULL);
    assert_int_equal(rowlock_tx_fence(NULL, 0), 0);
    assert_null(f->backend->kind->connection(NULL));
}

static void test_tx_connection_of_another_driver_is_null(void **state)
{
    struct fixture *f = *state;
    const struct backend_kind *other = backend_other(f->backend->kind);
    expect_ok(tx_begin(f, &f->txs[0], client_open(f), "lock", 0), &f->err);
    if (other != NULL)
        assert_null(other->connection(f->txs[0]));
    rowlock_driver stranger = *f->driver;
    stranger.name = "stranger";
    assert_null(rowlock_native_connection(f->txs[0], &stranger));
    expect_ok(rowlock_tx_commit(&f->txs[0], &f->err), &f->err);
}

static void test_tx_busy_tells_the_holder_of_a_lease(void **state)
{
    struct fixture *f = *state;
    rowlock_client *first = client_open_as(f, "ann"), *second = client_open(f);
    rowlock_lock *lock = hold(f, first, "b");
    static const char *const names[] = {"c", "b", "a"};
    rowlock_holder holder;
    rowlock_tx_options options = ROWLOCK_TX_OPTIONS_INIT;
    options.holder = &holder;
    for (int64_t wait_ms = 0; wait_ms <= 100; wait_ms += 100) {
        memset(&holder, 'x', sizeof(holder));
        options.wait_ms = wait_ms;
        expect_status(wait_ms == 0 ? ROWLOCK_BUSY : ROWLOCK_TIMEOUT,
                      rowlock_tx_begin(&f->txs[0], second, names, 3, &options, &f->err), &f->err);
        assert_string_equal(holder.name, "b");
        assert_string_equal(holder.owner, "ann");
        assert_int_equal(holder.fence, rowlock_fence(lock));
        expect_between(holder.remaining_ms, 1, 30000);
    }
    let_go(f, &lock);
}

static void test_tx_busy_with_a_transaction_has_no_holder(void **state)
{
    struct fixture *f = *state;
    rowlock_client *client = client_open_as(f, "ann");
    rowlock_holder holder;
    memset(&holder, 'x', sizeof(holder));
    rowlock_tx_options options = ROWLOCK_TX_OPTIONS_INIT;
    options.holder = &holder;
    static const char *const names[] = {"lock"};
    expect_ok(tx_begin(f, &f->txs[0], client, "lock", 0), &f->err);
    expect_status(ROWLOCK_BUSY, rowlock_tx_begin(&f->txs[1], client, names, 1, &options, &f->err),
                  &f->err);
    assert_string_equal(holder.name, "lock");
    assert_string_equal(holder.owner, "");
    assert_int_equal(holder.remaining_ms, 0);
}

static void test_tx_success_clears_the_error(void **state)
{
    struct fixture *f = *state;
    static const rowlock_error cleared;
    rowlock_client *client = client_open(f);
    for (int commit = 0; commit <= 1; commit++) {
        memset(&f->err, 'x', sizeof(f->err));
        expect_ok(tx_begin(f, &f->txs[0], client, "lock", 0), &f->err);
        assert_memory_equal(&f->err, &cleared, sizeof(cleared));
        memset(&f->err, 'x', sizeof(f->err));
        expect_ok((commit ? rowlock_tx_commit : rowlock_tx_rollback)(&f->txs[0], &f->err), &f->err);
        assert_memory_equal(&f->err, &cleared, sizeof(cleared));
    }
}

#define TX (BACKEND_TRANSACTIONS)

static const struct test_case cases[] = {
    CASE_IF(test_tx_begin_without_an_argument_is_einval, TX),
    CASE_IF(test_tx_begin_with_bad_names_is_einval, TX),
    CASE_IF(test_tx_begin_with_bad_options_is_einval, TX),
    CASE_IF(test_tx_functions_of_null_are_harmless, TX),
    CASE_IF(test_tx_connection_of_another_driver_is_null, TX),
    CASE_IF(test_tx_busy_tells_the_holder_of_a_lease, TX),
    CASE_IF(test_tx_busy_with_a_transaction_has_no_holder, TX),
    CASE_IF(test_tx_success_clears_the_error, TX),
};

const struct suite api_tx_input_suite = SUITE("api_tx_input", cases);
