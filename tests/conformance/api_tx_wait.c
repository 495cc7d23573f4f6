/* SPDX-License-Identifier: MIT
 *
 * Waiting for a lock that another transaction has. */
#include <pthread.h>

#include "conformance.h"

/* Starts a waiter and returns when it has had time to begin waiting. */
static void start_waiting(struct tx_waiter *waiter)
{
    waiter_start(waiter);
    sleep_us(200000);
}

/* Another transaction has the lock and ends it in that way while somebody waits. */
static void expect_granted_after(struct fixture *f, int (*end)(struct fixture *f), int in_line)
{
    expect_ok(tx_begin(f, &f->txs[0], client_open(f), "lock", 0), &f->err);
    struct tx_waiter waiter = {.client = client_open(f), .wait_ms = 20000, .in_line = in_line};
    start_waiting(&waiter);
    int64_t at = now_us();
    int ended = end(f);
    waiter_join(&waiter);
    assert_int_equal(ended, 0);
    expect_ok(waiter.status, NULL);
    expect_ok(waiter.ended, NULL);
    assert_true(waiter.granted_us >= at);
    expect_between(waiter.granted_us - at, 0, SLACK_US);
    assert_int_equal(row_of(f, "lock").fence, waiter.fence);
}

static int end_by_commit(struct fixture *f)
{
    return rowlock_tx_commit(&f->txs[0], &f->err);
}

static int end_by_rollback(struct fixture *f)
{
    return rowlock_tx_rollback(&f->txs[0], &f->err);
}

static int end_by_kill(struct fixture *f)
{
    return f->backend->kind->kill(sql_begin(f), f->backend->kind->connection(f->txs[0]));
}

static void test_tx_wait_ends_with_the_others_commit(void **state)
{
    expect_granted_after(*state, end_by_commit, 0);
}

static void test_tx_wait_ends_with_the_others_rollback(void **state)
{
    expect_granted_after(*state, end_by_rollback, 0);
}

static void test_tx_wait_ends_with_the_others_connection(void **state)
{
    expect_granted_after(*state, end_by_kill, 0);
}

static void test_tx_wait_in_line_ends_with_the_others_commit(void **state)
{
    expect_granted_after(*state, end_by_commit, 1);
}

static void test_tx_wait_in_line_ends_with_the_others_connection(void **state)
{
    expect_granted_after(*state, end_by_kill, 1);
}

static void test_tx_without_wait_is_busy_at_once(void **state)
{
    struct fixture *f = *state;
    rowlock_client *second = client_open(f);
    expect_ok(tx_begin(f, &f->txs[0], client_open(f), "lock", 0), &f->err);
    expect_soon(1000000,
                expect_status(ROWLOCK_BUSY, tx_begin(f, &f->txs[1], second, "lock", 0), &f->err));
    assert_null(f->txs[1]);
    assert_int_equal(f->err.status, ROWLOCK_BUSY);
}

/* Never shorter, and within a tenth where the machine lets it: one of many tries. */
static void expect_bound(struct fixture *f, rowlock_client *client, int64_t wait_ms, int in_line)
{
    static const char *const names[] = {"lock"};
    rowlock_tx_options options = ROWLOCK_TX_OPTIONS_INIT;
    options.wait_ms = wait_ms;
    options.in_line = in_line;
    int64_t best = INT64_MAX;
    for (int i = 0; i < 15 && best > wait_ms * 1100; i++) {
        int64_t before = now_us();
        int status = rowlock_tx_begin(&f->txs[1], client, names, 1, &options, &f->err);
        int64_t took = now_us() - before;
        expect_status(ROWLOCK_TIMEOUT, status, &f->err);
        assert_int_equal(f->err.status, ROWLOCK_TIMEOUT);
        expect_between(took, wait_ms * 1000 - 5000, wait_ms * 1000 + SLACK_US);
        best = took < best ? took : best;
    }
    expect_between(best, 0, wait_ms * 1100);
}

static void test_tx_wait_keeps_its_bound(void **state)
{
    struct fixture *f = *state;
    rowlock_client *second = client_open(f);
    expect_ok(tx_begin(f, &f->txs[0], client_open(f), "lock", 0), &f->err);
    expect_bound(f, second, 300, 0);
    expect_bound(f, second, 1300, 0);
    expect_bound(f, second, 4500, 0); /* more than one statement waits */
    rowlock_client *third = client_open(f);
    expect_status(ROWLOCK_BUSY, tx_begin(f, &f->txs[1], third, "lock", 0), &f->err);
}

static void test_tx_wait_in_line_keeps_its_bound(void **state)
{
    struct fixture *f = *state;
    rowlock_client *second = client_open(f);
    expect_ok(tx_begin(f, &f->txs[0], client_open(f), "lock", 0), &f->err);
    expect_bound(f, second, 300, 1);
    expect_bound(f, second, 1300, 1);
}

static void test_tx_wait_for_a_free_lock_returns_at_once(void **state)
{
    struct fixture *f = *state;
    int64_t before = now_us();
    expect_ok(tx_begin(f, &f->txs[0], client_open(f), "lock", 60000), &f->err);
    expect_between(now_us() - before, 0, SLACK_US);
}

static void test_tx_wait_forever_ends_with_the_lock(void **state)
{
    struct fixture *f = *state;
    expect_ok(tx_begin(f, &f->txs[0], client_open(f), "lock", 0), &f->err);
    rowlock_client *client = client_open(f);
    struct tx_waiter waiters[] = {{.client = client, .wait_ms = ROWLOCK_FOREVER},
                                  {.client = client, .wait_ms = ROWLOCK_FOREVER, .in_line = 1}};
    waiter_start(&waiters[0]);
    start_waiting(&waiters[1]);
    int ended = rowlock_tx_commit(&f->txs[0], &f->err);
    waiter_join(&waiters[0]);
    waiter_join(&waiters[1]);
    expect_ok(ended, &f->err);
    expect_ok(waiters[0].status, NULL);
    expect_ok(waiters[1].status, NULL);
    assert_true(waiters[0].fence != waiters[1].fence);
}

static void test_tx_wait_is_ended_by_cancel(void **state)
{
    struct fixture *f = *state;
    expect_ok(tx_begin(f, &f->txs[0], client_open(f), "lock", 0), &f->err);
    struct tx_waiter waiter = {.client = client_open(f), .wait_ms = ROWLOCK_FOREVER};
    expect_ok(rowlock_cancel_new(&waiter.cancel, &f->err), &f->err);
    start_waiting(&waiter);
    int64_t at = now_us();
    rowlock_cancel_fire(waiter.cancel);
    waiter_join(&waiter);
    rowlock_cancel_free(&waiter.cancel);
    expect_status(ROWLOCK_CANCELLED, waiter.status, NULL);
    expect_between(waiter.granted_us - at, 0, SLACK_US);
    expect_ok(rowlock_tx_commit(&f->txs[0], &f->err), &f->err);
    expect_ok(tx_begin(f, &f->txs[0], client_open(f), "lock", 0), &f->err); /* nothing is left */
}

static void test_tx_wait_is_ended_by_close(void **state)
{
    struct fixture *f = *state;
    expect_ok(tx_begin(f, &f->txs[0], client_open(f), "lock", 0), &f->err);
    rowlock_client *client = client_open(f);
    struct tx_waiter waiter = {.client = client, .wait_ms = ROWLOCK_FOREVER};
    start_waiting(&waiter);
    int64_t at = now_us();
    client_close(f, &client);
    waiter_join(&waiter);
    expect_status(ROWLOCK_ECLOSED, waiter.status, NULL);
    expect_between(waiter.granted_us - at, -SLACK_US, SLACK_US);
}

static void test_tx_wait_in_line_keeps_the_order_of_arrival(void **state)
{
    struct fixture *f = *state;
    rowlock_client *client = client_open(f);
    expect_ok(tx_begin(f, &f->txs[0], client_open(f), "lock", 0), &f->err);
    struct tx_waiter waiters[4];
    int seen = 1;
    for (size_t i = 0; i < COUNT(waiters); i++) {
        waiters[i] = (struct tx_waiter){.client = client, .wait_ms = 30000, .in_line = 1};
        waiter_start(&waiters[i]);
        seen = seen && waiters_seen(f, (int)i + 1);
    }
    int ended = rowlock_tx_commit(&f->txs[0], &f->err);
    for (size_t i = 0; i < COUNT(waiters); i++)
        waiter_join(&waiters[i]);
    expect_ok(ended, &f->err);
    assert_true(seen);
    for (size_t i = 0; i < COUNT(waiters); i++) {
        expect_ok(waiters[i].status, NULL);
        expect_ok(waiters[i].ended, NULL);
        if (i > 0)
            assert_true(waiters[i].fence > waiters[i - 1].fence);
    }
}

#define TX (BACKEND_TRANSACTIONS)

static const struct test_case cases[] = {
    CASE_IF(test_tx_wait_ends_with_the_others_commit, TX),
    CASE_IF(test_tx_wait_ends_with_the_others_rollback, TX),
    CASE_IF(test_tx_wait_ends_with_the_others_connection, TX | BACKEND_KILL),
    CASE_IF(test_tx_wait_in_line_ends_with_the_others_commit, TX),
    CASE_IF(test_tx_wait_in_line_ends_with_the_others_connection, TX | BACKEND_KILL),
    CASE_IF(test_tx_without_wait_is_busy_at_once, TX),
    CASE_IF(test_tx_wait_keeps_its_bound, TX),
    CASE_IF(test_tx_wait_in_line_keeps_its_bound, TX),
    CASE_IF(test_tx_wait_for_a_free_lock_returns_at_once, TX),
    CASE_IF(test_tx_wait_forever_ends_with_the_lock, TX),
    CASE_IF(test_tx_wait_is_ended_by_cancel, TX),
    CASE_IF(test_tx_wait_is_ended_by_close, TX),
    CASE_IF(test_tx_wait_in_line_keeps_the_order_of_arrival, TX | BACKEND_QUEUE),
};

const struct suite api_tx_wait_suite = SUITE("api_tx_wait", cases);
