/* SPDX-License-Identifier: MIT
 *
 * Leases and transactions share the names: each excludes the other. */
#include <pthread.h>

#include "conformance.h"

/* Acquires a lease in a thread, and gives it back. */
struct lessee {
    rowlock_client *client;
    int status;
    uint64_t fence;
    int64_t granted_us;
    pthread_t thread;
};

static void *acquire_lease(void *payload)
{
    struct lessee *l = payload;
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;
    options.wait_ms = 20000;
    rowlock_lock *lock = NULL;
    l->status = rowlock_acquire(&lock, l->client, "lock", &options, NULL);
    l->granted_us = now_us();
    l->fence = rowlock_fence(lock);
    if (lock != NULL)
        rowlock_release(&lock, NULL);
    return NULL;
}

static int acquire_for(struct fixture *f, rowlock_client *client, const char *name, int64_t wait_ms)
{
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;
    options.wait_ms = wait_ms;
    rowlock_lock *lock = NULL;
    int status = rowlock_acquire(&lock, client, name, &options, &f->err);
    if (lock != NULL)
        let_go(f, &lock);
    return status;
}

static void test_tx_of_a_leased_name_is_busy_even_to_its_owner(void **state)
{
    struct fixture *f = *state;
    rowlock_client *client = client_open_as(f, "ann");
    rowlock_lock *lock = hold(f, client, "lock");
    expect_soon(2000000,
                expect_status(ROWLOCK_BUSY, tx_begin(f, &f->txs[0], client, "lock", 0), &f->err));
    expect_status(ROWLOCK_BUSY, tx_begin(f, &f->txs[0], client_open(f), "lock", 0), &f->err);
    expect_ok(rowlock_renew(lock, 0, &f->err), &f->err);
    let_go(f, &lock);
    expect_ok(tx_begin(f, &f->txs[0], client, "lock", 0), &f->err);
}

static void test_tx_wait_for_a_lease_keeps_its_bound(void **state)
{
    struct fixture *f = *state;
    rowlock_client *second = client_open(f);
    rowlock_lock *lock = hold(f, client_open(f), "lock");
    for (int in_line = 0; in_line <= 1; in_line++) {
        rowlock_tx_options options = ROWLOCK_TX_OPTIONS_INIT;
        options.wait_ms = 300;
        options.in_line = in_line;
        const char *name = "lock";
        expect_soon(300000 + 2000000, int64_t before = now_us(); expect_status(
                        ROWLOCK_TIMEOUT,
                        rowlock_tx_begin(&f->txs[0], second, &name, 1, &options, &f->err), &f->err);
                    expect_between(now_us() - before, 295000, SLACK_US));
        assert_null(f->txs[0]);
    }
    let_go(f, &lock);
}

static void test_tx_wait_ends_when_the_lease_is_released(void **state)
{
    struct fixture *f = *state;
    rowlock_lock *lock = hold(f, client_open(f), "lock");
    uint64_t fence = rowlock_fence(lock);
    struct tx_waiter waiter = {.client = client_open(f), .wait_ms = 20000};
    waiter_start(&waiter);
    sleep_us(150000);
    int64_t at = now_us();
    int released = rowlock_release(&lock, &f->err);
    waiter_join(&waiter);
    expect_ok(released, &f->err);
    expect_ok(waiter.status, NULL);
    expect_ok(waiter.ended, NULL);
    expect_between(waiter.granted_us - at, 0, SLACK_US);
    assert_true(waiter.fence > fence);
}

static void test_tx_wait_ends_when_the_lease_does(void **state)
{
    struct fixture *f = *state;
    rowlock_client *second = client_open(f);
    int64_t before = now_us();
    rowlock_lock *old = hold_briefly(f, client_open(f), "lock", NULL);
    expect_ok(tx_begin(f, &f->txs[0], second, "lock", 20000), &f->err);
    expect_between(now_us() - before, BRIEF_MS * 1000 - 5000, SLACK_US);
    assert_true(rowlock_tx_fence(f->txs[0], 0) > rowlock_fence(old));
    expect_ok(rowlock_tx_commit(&f->txs[0], &f->err), &f->err);
    expect_status(ROWLOCK_LOST, rowlock_release(&old, &f->err), &f->err);
}

static void test_lease_of_a_name_in_a_transaction_is_busy_soon(void **state)
{
    struct fixture *f = *state;
    rowlock_client *client = client_open(f), *second = client_open(f);
    expect_ok(tx_begin(f, &f->txs[0], client, "lock", 0), &f->err);
    expect_soon(2000000, expect_status(ROWLOCK_BUSY, acquire_for(f, second, "lock", 0), &f->err));
    expect_status(ROWLOCK_BUSY, acquire_for(f, client, "lock", 0), &f->err);
    expect_ok(rowlock_tx_commit(&f->txs[0], &f->err), &f->err);
    expect_ok(acquire_for(f, second, "lock", 0), &f->err);
}

static void test_lease_wait_for_a_transaction_keeps_its_bound(void **state)
{
    struct fixture *f = *state;
    rowlock_client *second = client_open(f);
    expect_ok(tx_begin(f, &f->txs[0], client_open(f), "lock", 0), &f->err);
    static const int64_t waits_ms[] = {300, 2500};
    for (size_t i = 0; i < COUNT(waits_ms); i++) {
        expect_soon(waits_ms[i] * 1000 + 2000000, int64_t before = now_us(); expect_status(
                        ROWLOCK_TIMEOUT, acquire_for(f, second, "lock", waits_ms[i]), &f->err);
                    expect_between(now_us() - before, waits_ms[i] * 1000 - 5000,
                                   waits_ms[i] * 1000 + SLACK_US));
    }
}

static void test_lease_wait_ends_with_the_transaction(void **state)
{
    struct fixture *f = *state;
    rowlock_client *client = client_open(f), *second = client_open(f);
    for (int commit = 0; commit <= 1; commit++) {
        expect_ok(tx_begin(f, &f->txs[0], client, "lock", 0), &f->err);
        uint64_t fence = rowlock_tx_fence(f->txs[0], 0);
        struct lessee lessee = {.client = second, .status = INT32_MIN};
        assert_int_equal(pthread_create(&lessee.thread, NULL, acquire_lease, &lessee), 0);
        sleep_us(200000);
        int64_t at = now_us();
        int ended = commit ? rowlock_tx_commit(&f->txs[0], &f->err)
                           : rowlock_tx_rollback(&f->txs[0], &f->err);
        pthread_join(lessee.thread, NULL);
        expect_ok(ended, &f->err);
        expect_ok(lessee.status, NULL);
        expect_between(lessee.granted_us - at, 0, SLACK_US);
        if (commit)
            assert_true(lessee.fence > fence);
    }
}

static void test_many_leases_with_one_in_a_transaction_take_nothing(void **state)
{
    struct fixture *f = *state;
    rowlock_client *second = client_open(f);
    expect_ok(tx_begin(f, &f->txs[0], client_open(f), "b", 0), &f->err);
    static const char *const names[] = {"c", "b", "a"};
    rowlock_lock *locks[3];
    expect_soon(3000000, expect_status(ROWLOCK_BUSY,
                                       rowlock_acquire_many(locks, second, names, 3, NULL, &f->err),
                                       &f->err));
    struct rows live = rows_query(f, NULL, 0, 0);
    assert_int_equal(live.count, 0);
    rows_free(&live);
    expect_ok(rowlock_tx_commit(&f->txs[0], &f->err), &f->err);
    expect_ok(rowlock_acquire_many(locks, second, names, 3, NULL, &f->err), &f->err);
    for (size_t i = 0; i < COUNT(locks); i++)
        let_go(f, &locks[i]);
}

static void test_renew_is_not_disturbed_by_a_transaction_that_was_refused(void **state)
{
    struct fixture *f = *state;
    rowlock_client *first = client_open(f), *second = client_open(f);
    rowlock_lock *lock = hold(f, first, "b");
    static const char *const names[] = {"a", "b", "c"};
    expect_status(ROWLOCK_BUSY, rowlock_tx_begin(&f->txs[0], second, names, 3, NULL, &f->err),
                  &f->err);
    expect_ok(rowlock_renew(lock, 0, &f->err), &f->err);
    expect_ok(acquire_for(f, first, "a", 0), &f->err);
    expect_ok(acquire_for(f, first, "c", 0), &f->err);
    void *session = session_open(f);
    expect_status(ROWLOCK_BUSY,
                  f->backend->kind->lock(NULL, second, session, names, 3, NULL, &f->err), &f->err);
    expect_ok(rowlock_renew(lock, 0, &f->err), &f->err);
    sql_in(f, session, "COMMIT");
    let_go(f, &lock);
}

static void test_force_release_finds_no_lease_in_a_transaction(void **state)
{
    struct fixture *f = *state;
    rowlock_client *second = client_open(f);
    expect_ok(tx_begin(f, &f->txs[0], client_open(f), "lock", 0), &f->err);
    uint64_t fence = rowlock_tx_fence(f->txs[0], 0);
    int64_t before = now_us();
    expect_status(ROWLOCK_LOST, rowlock_force_release(second, "lock", NULL, &f->err), &f->err);
    expect_between(now_us() - before, 0, SLACK_US);
    expect_ok(rowlock_tx_commit(&f->txs[0], &f->err), &f->err);
    assert_int_equal(row_of(f, "lock").fence, fence);
    expect_status(ROWLOCK_LOST, rowlock_force_release(second, "lock", NULL, &f->err), &f->err);
}

static void test_reap_passes_over_a_lock_in_a_transaction(void **state)
{
    struct fixture *f = *state;
    grant_released(f, "a", "ann");
    grant_released(f, "lock", "ann");
    expect_ok(tx_begin(f, &f->txs[0], client_open(f), "lock", 0), &f->err);
    uint64_t fence = rowlock_tx_fence(f->txs[0], 0);
    sleep_us(2000);
    assert_int_equal(reap(f, 0, 100), 1);
    assert_false(row_exists(f, "a"));
    expect_ok(rowlock_tx_commit(&f->txs[0], &f->err), &f->err);
    assert_int_equal(row_of(f, "lock").fence, fence);
    sleep_us(2000);
    assert_int_equal(reap(f, 0, 100), 1); /* and takes it afterwards: it is a free row */
}

static void test_tx_makes_a_row_again_that_was_reaped(void **state)
{
    struct fixture *f = *state;
    rowlock_client *client = client_open(f);
    expect_ok(tx_begin(f, &f->txs[0], client, "lock", 0), &f->err);
    uint64_t fence = rowlock_tx_fence(f->txs[0], 0);
    expect_ok(rowlock_tx_commit(&f->txs[0], &f->err), &f->err);
    sleep_us(2000);
    assert_int_equal(reap(f, 0, 100), 1);
    expect_ok(tx_begin(f, &f->txs[0], client, "lock", 0), &f->err);
    assert_true(rowlock_tx_fence(f->txs[0], 0) > fence);
}

static void test_list_shows_no_lock_of_a_transaction(void **state)
{
    struct fixture *f = *state;
    expect_ok(tx_begin(f, &f->txs[0], client_open(f), "lock", 0), &f->err);
    struct rows live = rows_query(f, NULL, 0, 0);
    assert_int_equal(live.count, 0);
    rows_free(&live);
    expect_ok(rowlock_tx_commit(&f->txs[0], &f->err), &f->err);
    live = rows_query(f, NULL, 0, 0);
    assert_int_equal(live.count, 0);
    rows_free(&live);
}

#define TX (BACKEND_TRANSACTIONS)

static const struct test_case cases[] = {
    CASE_IF(test_tx_of_a_leased_name_is_busy_even_to_its_owner, TX),
    CASE_IF(test_tx_wait_for_a_lease_keeps_its_bound, TX),
    CASE_IF(test_tx_wait_ends_when_the_lease_is_released, TX),
    CASE_IF(test_tx_wait_ends_when_the_lease_does, TX),
    CASE_IF(test_lease_of_a_name_in_a_transaction_is_busy_soon, TX),
    CASE_IF(test_lease_wait_for_a_transaction_keeps_its_bound, TX),
    CASE_IF(test_lease_wait_ends_with_the_transaction, TX),
    CASE_IF(test_many_leases_with_one_in_a_transaction_take_nothing, TX),
    CASE_IF(test_renew_is_not_disturbed_by_a_transaction_that_was_refused, TX),
    CASE_IF(test_force_release_finds_no_lease_in_a_transaction, TX),
    CASE_IF(test_reap_passes_over_a_lock_in_a_transaction, TX | BACKEND_ROW_LOCKS),
    CASE_IF(test_tx_makes_a_row_again_that_was_reaped, TX),
    CASE_IF(test_list_shows_no_lock_of_a_transaction, TX),
};

const struct suite api_modes_suite = SUITE("api_modes", cases);
