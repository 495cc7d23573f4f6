/* SPDX-License-Identifier: MIT
 *
 * Waiting for locks in transactions of the application's. */
#include <pthread.h>

#include "conformance.h"

/* Locks one name in a session in a thread. A transaction that is told to begin again is ended. */
struct locker {
    struct fixture *f;
    rowlock_client *client;
    void *session;
    const char *name;
    rowlock_cancel *cancel;
    int64_t wait_ms, ended_us;
    atomic_int is_running;
    int status;
    rowlock_error err;
    pthread_t thread;
};

static void *lock_in_session(void *payload)
{
    struct locker *l = payload;
    rowlock_tx_options options = ROWLOCK_TX_OPTIONS_INIT;
    options.wait_ms = l->wait_ms;
    options.cancel = l->cancel;
    atomic_store(&l->is_running, 1);
    l->status =
        l->f->backend->kind->lock(NULL, l->client, l->session, &l->name, 1, &options, &l->err);
    l->ended_us = now_us();
    if (l->status == ROWLOCK_EDRIVER)
        l->f->backend->kind->sql_run(l->session, "ROLLBACK", NULL, 0);
    return NULL;
}

static void locker_start(struct locker *l)
{
    l->status = INT32_MIN;
    assert_int_equal(pthread_create(&l->thread, NULL, lock_in_session, l), 0);
    await_flag(&l->is_running);
}

static void test_native_wait_ends_with_the_other_transaction(void **state)
{
    struct fixture *f = *state;
    rowlock_client *client = client_open(f);
    void *session = session_open(f);
    expect_ok(tx_begin(f, &f->txs[0], client_open(f), "lock", 0), &f->err);
    struct locker locker = {.f = f, .client = client, .session = session, .name = "lock"};
    locker.wait_ms = 20000;
    locker_start(&locker);
    sleep_us(200000);
    int64_t at = now_us();
    int ended = rowlock_tx_commit(&f->txs[0], &f->err);
    pthread_join(locker.thread, NULL);
    expect_ok(ended, &f->err);
    expect_ok(locker.status, &locker.err);
    expect_between(locker.ended_us - at, 0, SLACK_US);
    sql_in(f, session, "COMMIT");
}

/* What was refused can be had later in the same transaction. */
static void test_native_busy_goes_on_in_the_same_transaction(void **state)
{
    struct fixture *f = *state;
    rowlock_client *client = client_open(f);
    shop_open(f);
    void *session = session_open(f);
    char *before = settings_of(f, session);
    expect_ok(tx_begin(f, &f->txs[0], client, "lock", 0), &f->err);
    expect_soon(1500000,
                expect_status(ROWLOCK_BUSY, lock_in(f, client, session, "lock", 0, NULL), &f->err));
    expect_status(ROWLOCK_TIMEOUT, lock_in(f, client, session, "lock", 200, NULL), &f->err);
    expect_settings(f, session, before, "refused");
    expect_ok(rowlock_tx_commit(&f->txs[0], &f->err), &f->err);
    expect_ok(lock_in(f, client, session, "lock", 0, NULL), &f->err);
    assert_int_equal(shop_add(f, session, 1), 0);
    sql_in(f, session, "COMMIT");
    assert_true(shop_has(f, 1));
}

static void test_native_busy_keeps_what_was_written(void **state)
{
    struct fixture *f = *state;
    rowlock_client *client = client_open(f);
    shop_open(f);
    expect_ok(tx_begin(f, &f->txs[0], client, "lock", 0), &f->err);
    void *session = session_open(f);
    assert_int_equal(shop_add(f, session, 1), 0);
    uint64_t fence = 0;
    expect_ok(lock_in(f, client, session, "mine", 0, &fence), &f->err);
    expect_status(ROWLOCK_BUSY, lock_in(f, client, session, "lock", 0, NULL), &f->err);
    expect_status(ROWLOCK_TIMEOUT, lock_in(f, client, session, "lock", 200, NULL), &f->err);
    expect_status(ROWLOCK_BUSY, tx_begin(f, &f->txs[1], client, "mine", 0), &f->err);
    assert_int_equal(shop_add(f, session, 2), 0);
    sql_in(f, session, "COMMIT");
    assert_true(shop_has(f, 1));
    assert_true(shop_has(f, 2));
    assert_int_equal(row_of(f, "mine").fence, fence);
}

/* A row that another transaction has, in every mood: refused at once and after a wait, longer than
 * some moods allow a statement to take. */
static void try_mood(struct fixture *f, rowlock_client *client, const struct backend_mood *mood,
                     int number)
{
    void *session = mood_open(f, mood, number);
    mood_settle(f, session, mood);
    char *before = settings_of(f, session);
    int busy = lock_in(f, client, session, "lock", 0, NULL);
    int64_t at = now_us();
    int late = lock_in(f, client, session, "lock", 550, NULL);
    int64_t took = now_us() - at;
    if (busy != ROWLOCK_BUSY || late != ROWLOCK_TIMEOUT)
        print_error("in the mood '%s':\n", mood->name);
    expect_status(ROWLOCK_BUSY, busy, NULL);
    expect_status(ROWLOCK_TIMEOUT, late, &f->err);
    expect_between(took, 545000, 550000 + SLACK_US);
    expect_settings(f, session, before, mood->name);
    sql_in(f, session, "COMMIT");
    sql_end(f, session);
    assert_true(shop_has(f, number));
}

static void test_native_wait_in_every_mood_leaves_it_as_it_was(void **state)
{
    struct fixture *f = *state;
    rowlock_client *client = client_open(f);
    shop_open(f);
    expect_ok(tx_begin(f, &f->txs[0], client, "lock", 0), &f->err);
    const struct backend_mood *moods = f->backend->kind->moods;
    for (int i = 0; moods[i].name != NULL; i++)
        try_mood(f, client, &moods[i], i + 1);
}

/* Never shorter, and within a tenth where the machine lets it: one of many tries. */
static void test_native_wait_keeps_its_bound(void **state)
{
    struct fixture *f = *state;
    rowlock_client *client = client_open(f);
    void *session = session_open(f);
    expect_ok(tx_begin(f, &f->txs[0], client, "lock", 0), &f->err);
    int64_t best = INT64_MAX;
    for (int i = 0; i < 15 && best > 1430000; i++) {
        int64_t before = now_us();
        expect_status(ROWLOCK_TIMEOUT, lock_in(f, client, session, "lock", 1300, NULL), &f->err);
        int64_t took = now_us() - before;
        expect_between(took, 1295000, 1300000 + SLACK_US);
        best = took < best ? took : best;
    }
    expect_between(best, 0, 1430000);
}

static void test_native_wait_is_ended_by_cancel_and_by_close(void **state)
{
    struct fixture *f = *state;
    expect_ok(tx_begin(f, &f->txs[0], client_open(f), "lock", 0), &f->err);
    rowlock_client *client = client_open(f);
    for (int close = 0; close <= 1; close++) {
        void *session = session_open(f);
        struct locker locker = {.f = f, .client = client, .session = session, .name = "lock"};
        locker.wait_ms = ROWLOCK_FOREVER;
        expect_ok(rowlock_cancel_new(&locker.cancel, &f->err), &f->err);
        locker_start(&locker);
        sleep_us(200000);
        int64_t at = now_us();
        if (close)
            client_close(f, &client);
        else
            rowlock_cancel_fire(locker.cancel);
        pthread_join(locker.thread, NULL);
        rowlock_cancel_free(&locker.cancel);
        expect_status(close ? ROWLOCK_ECLOSED : ROWLOCK_CANCELLED, locker.status, &locker.err);
        expect_between(locker.ended_us - at, -SLACK_US, SLACK_US);
        sql_in(f, session, "COMMIT"); /* the transaction is the application's still */
    }
}

/* Two transactions lock two names in opposite order, one by one. */
static void test_native_deadlock_is_retryable_for_one_of_them(void **state)
{
    struct fixture *f = *state;
    rowlock_client *client = client_open(f);
    struct locker lockers[] = {{.name = "b"}, {.name = "a"}};
    static const char *const firsts[] = {"a", "b"};
    for (size_t i = 0; i < COUNT(lockers); i++) {
        lockers[i].f = f;
        lockers[i].client = client;
        lockers[i].wait_ms = 20000;
        lockers[i].session = session_open(f);
        expect_ok(lock_in(f, client, lockers[i].session, firsts[i], 0, NULL), &f->err);
    }
    locker_start(&lockers[0]);
    locker_start(&lockers[1]);
    pthread_join(lockers[0].thread, NULL);
    pthread_join(lockers[1].thread, NULL);
    int victim = lockers[0].status == ROWLOCK_OK;
    expect_ok(lockers[1 - victim].status, &lockers[1 - victim].err);
    expect_status(ROWLOCK_EDRIVER, lockers[victim].status, &lockers[victim].err);
    assert_int_equal(lockers[victim].err.retryable, 1);
    assert_true(lockers[victim].err.message[0] != '\0');
    sql_in(f, lockers[1 - victim].session, "COMMIT");
    sql_in(f, lockers[victim].session, "BEGIN"); /* and it begins again */
    expect_ok(lock_in(f, client, lockers[victim].session, "a", 0, NULL), &f->err);
    expect_ok(lock_in(f, client, lockers[victim].session, "b", 0, NULL), &f->err);
    sql_in(f, lockers[victim].session, "COMMIT");
}

#define TX (BACKEND_TRANSACTIONS)

static const struct test_case cases[] = {
    CASE_IF(test_native_wait_ends_with_the_other_transaction, TX),
    CASE_IF(test_native_busy_goes_on_in_the_same_transaction, TX),
    CASE_IF(test_native_busy_keeps_what_was_written, TX | BACKEND_ROW_LOCKS),
    CASE_IF(test_native_wait_in_every_mood_leaves_it_as_it_was, TX | BACKEND_ROW_LOCKS),
    CASE_IF(test_native_wait_keeps_its_bound, TX),
    CASE_IF(test_native_wait_is_ended_by_cancel_and_by_close, TX),
    CASE_IF(test_native_deadlock_is_retryable_for_one_of_them, TX | BACKEND_ROW_LOCKS),
};

const struct suite api_native_wait_suite = SUITE("api_native_wait", cases);
