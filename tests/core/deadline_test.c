/* SPDX-License-Identifier: MIT
 *
 * One deadline for each call: whichever request of it hangs, and goes on hanging on each new
 * connection, the call returns in time. A slot that hangs takes all the time it is given. */
#include <limits.h>

#include "core_test.h"

#include "core.h"
#include "fake_queue.h"
#include "fake_tx.h"

enum { CALL_MS = 5000, SHORT_MS = 100, LONG_MS = 20000 };

/* What hangs. */
enum slot {
    NOTHING,
    OPEN,
    ACQUIRE,
    ENQUEUE,
    TURN,
    LEAVE,
    RELEASE,
    RENEW,
    LIST,
    FORCE,
    PREPARE,
    LOCK,
    SLOTS
};

static rowlock_driver fake;
static rowlock_client *client, *other;
static rowlock_lock *held, *theirs;
static enum slot hanging;
static int reached, most_hangs; /* after so many the slot works again */
static int64_t open_takes_us;
static uint32_t least_ms; /* that an acquire was given */

static int hang(enum slot slot, int64_t ms, rowlock_error *err)
{
    if ((slot != hanging && hanging != SLOTS) || reached >= most_hangs)
        return 0;
    reached++;
    fake_clock_advance_us(ms * MS);
    rlk_fail_native(err, slot == OPEN ? ROWLOCK_ECONNECT : ROWLOCK_EUNKNOWN, 0, NULL, 1, "hangs");
    return 1;
}

static int hang_open(void *conn, const rowlock_config *config, uint32_t timeout_ms,
                     rowlock_error *err)
{
    fake_clock_advance_us(open_takes_us);
    return hang(OPEN, timeout_ms, err) ? ROWLOCK_ECONNECT
                                       : fake.open(conn, config, timeout_ms, err);
}

static int hang_acquire(void *conn, rowlock_op *ops, size_t n, int all, uint32_t timeout_ms,
                        rowlock_error *err)
{
    if (timeout_ms < least_ms)
        least_ms = timeout_ms;
    return hang(ACQUIRE, timeout_ms, err) ? ROWLOCK_EUNKNOWN
                                          : fake.acquire(conn, ops, n, all, timeout_ms, err);
}

static int hang_enqueue(void *conn, rowlock_op *ops, size_t n, int64_t life_us, int with_bell,
                        uint32_t timeout_ms, rowlock_error *err)
{
    return hang(ENQUEUE, timeout_ms, err)
               ? ROWLOCK_EUNKNOWN
               : fake.enqueue(conn, ops, n, life_us, with_bell, timeout_ms, err);
}

static int hang_turn(void *conn, rowlock_op *op, uint32_t wait_ms, const int *fds, int n_fds,
                     uint32_t timeout_ms, rowlock_error *err)
{
    return hang(TURN, (int64_t)wait_ms + timeout_ms, err)
               ? ROWLOCK_EUNKNOWN
               : fake.turn(conn, op, wait_ms, fds, n_fds, timeout_ms, err);
}

static int hang_leave(void *conn, rowlock_op *ops, size_t n, uint32_t timeout_ms,
                      rowlock_error *err)
{
    return hang(LEAVE, timeout_ms, err) ? ROWLOCK_EUNKNOWN
                                        : fake.leave(conn, ops, n, timeout_ms, err);
}

static int hang_release(void *conn, rowlock_op *ops, size_t n, uint32_t timeout_ms,
                        rowlock_error *err)
{
    return hang(RELEASE, timeout_ms, err) ? ROWLOCK_EUNKNOWN
                                          : fake.release(conn, ops, n, timeout_ms, err);
}

static int hang_renew(void *conn, rowlock_op *ops, size_t n, uint32_t timeout_ms,
                      rowlock_error *err)
{
    return hang(RENEW, timeout_ms, err) ? ROWLOCK_EUNKNOWN
                                        : fake.renew(conn, ops, n, timeout_ms, err);
}

static int hang_list(void *conn, const rowlock_list_query *query, rowlock_row_fn fn, void *payload,
                     uint32_t timeout_ms, rowlock_error *err)
{
    return hang(LIST, timeout_ms, err) ? ROWLOCK_EUNKNOWN
                                       : fake.list(conn, query, fn, payload, timeout_ms, err);
}

static int hang_force(void *conn, rowlock_op *op, uint32_t timeout_ms, rowlock_error *err)
{
    return hang(FORCE, timeout_ms, err) ? ROWLOCK_EUNKNOWN
                                        : fake.force_release(conn, op, timeout_ms, err);
}

static int hang_prepare(void *conn, rowlock_op *ops, size_t n, uint32_t timeout_ms,
                        rowlock_error *err)
{
    return hang(PREPARE, timeout_ms, err) ? ROWLOCK_EUNKNOWN
                                          : fake.prepare(conn, ops, n, timeout_ms, err);
}

static int hang_lock(const rowlock_target *target, rowlock_op *ops, size_t n, uint32_t wait_ms,
                     int in_line, uint32_t timeout_ms, rowlock_error *err)
{
    return hang(LOCK, (int64_t)wait_ms + timeout_ms, err)
               ? ROWLOCK_ECONNECT
               : fake.lock(target, ops, n, wait_ms, in_line, timeout_ms, err);
}

static int set_up(void **state)
{
    rowlock_driver driver;

    fresh(state);
    fake = *fake_queue_driver();
    driver = fake;
    driver.open = hang_open;
    driver.acquire = hang_acquire;
    driver.enqueue = hang_enqueue;
    driver.turn = hang_turn;
    driver.leave = hang_leave;
    driver.release = hang_release;
    driver.renew = hang_renew;
    driver.list = hang_list;
    driver.force_release = hang_force;
    driver.prepare = hang_prepare;
    driver.lock = hang_lock;
    hanging = NOTHING;
    most_hangs = INT_MAX;
    open_takes_us = 0;
    assert_status(OK, rowlock_open(&client, &driver, "fake", NULL, NULL));
    client->watch.is_by_hand = 1;
    other = open_client();
    held = theirs = NULL;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    hanging = NOTHING;
    rowlock_release(&held, NULL);
    rowlock_release(&theirs, NULL);
    rowlock_close(&client);
    rowlock_close(&other);
    return fake_connections() != 0;
}

/* From now on this slot hangs, or all of them do (SLOTS). The time. */
static int64_t begin(enum slot slot)
{
    hanging = slot;
    reached = 0;
    return rlk_clock_us();
}

/* A tenth more, or the least that the last request has. */
static int64_t bound_of(int64_t ms)
{
    return ms + (ms / 10 > 30 ? ms / 10 : 30);
}

static void expect_in_time(const char *what, enum slot slot, int64_t start, int64_t ms)
{
    int64_t took = (rlk_clock_us() - start) / MS;

    hanging = NOTHING;
    if (took > bound_of(ms))
        print_error("%s, %d hangs: %d ms instead of %d\n", what, (int)slot, (int)took, (int)ms);
    assert_true(took <= bound_of(ms));
}

/* ---- acquire ---- */

static int try_acquire(int64_t wait_ms, int barge)
{
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;
    rowlock_lock *lock = NULL;
    int rc;

    options.wait_ms = wait_ms;
    options.barge = barge;
    rc = rowlock_acquire(&lock, client, "b", &options, NULL);
    assert_null(lock);
    return rc;
}

static void test_acquire_returns_in_time(void **state)
{
    static const enum slot slots[] = {NOTHING, OPEN, ACQUIRE, ENQUEUE, TURN, LEAVE, SLOTS};
    static const int64_t waits[] = {SHORT_MS, 1000, LONG_MS};

    (void)state;
    theirs = hold(other, "b", 600000, "them");
    for (size_t i = 0; i < sizeof slots / sizeof *slots; i++) {
        for (size_t k = 0; k < sizeof waits / sizeof *waits; k++) {
            for (int barge = 0; barge < 2; barge++) {
                int64_t start;

                rlk_pool_close_idle(client);
                start = begin(slots[i]);
                try_acquire(waits[k], barge);
                expect_in_time(barge ? "barge" : "acquire", slots[i], start, waits[k]);
            }
        }
    }
}

static void test_acquire_that_does_not_wait_has_the_timeout_of_a_call(void **state)
{
    static const enum slot slots[] = {OPEN, ACQUIRE, SLOTS};

    (void)state;
    theirs = hold(other, "b", 600000, "them");
    for (size_t i = 0; i < sizeof slots / sizeof *slots; i++) {
        int64_t start = begin(slots[i]);

        try_acquire(0, 0);
        expect_in_time("acquire", slots[i], start, CALL_MS);
    }
}

/* Too short for any database: it has as long as it takes to be told BUSY. */
static void test_short_wait_leaves_time_for_an_answer(void **state)
{
    (void)state;
    theirs = hold(other, "b", 600000, "them");
    fake_slow(15 * MS, 15 * MS);
    assert_status(TIMEOUT, try_acquire(1, 0));
    fake_slow(0, 0);
}

static void lose_connections(void)
{
    rlk_pool_close_idle(client);
}

/* The second connection takes all the time that there is: nothing more is sent. */
static void test_lock_that_was_seen_held_is_a_timeout(void **state)
{
    (void)state;
    theirs = hold(other, "b", 600000, "them");
    assert_status(BUSY, try_acquire(0, 0)); /* opens the first connection */
    open_takes_us = 400 * MS;
    assert_status(TIMEOUT, try_acquire(200, 0));
    fake_clock_on_sleep(lose_connections);
    assert_status(TIMEOUT, try_acquire(200, 1));
    fake_clock_on_sleep(NULL);
    rlk_pool_close_idle(client);
    assert_status(ECONNECT, try_acquire(200, 0)); /* not seen */
    open_takes_us = 0;
}

/* With less it would be unknown what has become of it. And the wait lasts as long as it was to. */
static void test_no_try_has_too_little_time(void **state)
{
    (void)state;
    theirs = hold(other, "b", 600000, "them");
    for (int64_t wait_ms = 150; wait_ms < 500; wait_ms += 5) {
        int64_t start = begin(NOTHING);

        least_ms = UINT32_MAX;
        assert_status(TIMEOUT, try_acquire(wait_ms, 1));
        assert_true(least_ms >= 50);
        assert_true(rlk_clock_us() - start >= wait_ms * MS);
    }
}

/* ---- what is held ---- */

static void hold_after_a_wait(void)
{
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;

    theirs = hold(other, "a", 2000, "them");
    options.wait_ms = 10000;
    options.ttl_ms = 600000;
    assert_status(OK, rowlock_acquire(&held, client, "a", &options, NULL));
    rowlock_release(&theirs, NULL);
}

static void test_release_returns_in_time(void **state)
{
    static const enum slot slots[] = {RELEASE, SLOTS};

    (void)state;
    for (size_t i = 0; i < sizeof slots / sizeof *slots; i++) {
        for (int waited = 0; waited < 2; waited++) {
            int64_t start;

            if (waited)
                hold_after_a_wait();
            else
                held = hold(client, "a", 600000, NULL);
            start = begin(slots[i]);
            assert_status(EUNKNOWN, rowlock_release(&held, NULL));
            assert_true(reached > 0);
            expect_in_time(waited ? "release on a bell" : "release", slots[i], start, CALL_MS);
            fake_find("a")->expire_time = 0;
        }
    }
}

/* The connection that it waited on is stuck, and no other one is. */
static void test_stuck_bell_leaves_time_for_another_connection(void **state)
{
    int64_t start;

    (void)state;
    hold_after_a_wait();
    start = begin(RELEASE);
    most_hangs = 1;
    assert_status(OK, rowlock_release(&held, NULL));
    assert_int_equal(reached, 1);
    expect_in_time("release on a bell that is stuck", RELEASE, start, CALL_MS);
    assert_false(fake_is_live("a"));
}

/* The connection came too late for it: certainly nothing was done. */
static void test_request_without_time_is_not_sent(void **state)
{
    (void)state;
    begin(ACQUIRE);
    open_takes_us = 300 * MS;
    rlk_pool_close_idle(client);
    assert_status(ECONNECT, try_acquire(200, 1));
    assert_int_equal(reached, 0);
}

static void test_renew_and_force_return_in_time(void **state)
{
    int64_t start;

    (void)state;
    held = hold(client, "a", 600000, NULL);
    for (int all = 0; all < 2; all++) {
        start = begin(all ? SLOTS : RENEW);
        assert_true(rowlock_renew(held, 0, NULL) < 0);
        expect_in_time("renew", RENEW, start, CALL_MS);
        start = begin(all ? SLOTS : FORCE);
        assert_true(rowlock_force_release(client, "a", NULL, NULL) < 0);
        expect_in_time("force_release", FORCE, start, CALL_MS);
    }
    fake_slow(500 * MS, 500 * MS); /* a connection, and the first of two requests */
    start = begin(FORCE);
    assert_true(rowlock_force_release(client, "a", NULL, NULL) < 0);
    fake_slow(0, 0);
    expect_in_time("force_release, slow", FORCE, start, CALL_MS);
}

/* ---- transactions ---- */

static void test_transaction_begins_in_time(void **state)
{
    static const char *const names[] = {"b"};
    static const enum slot slots[] = {NOTHING, OPEN, PREPARE, LOCK, SLOTS};
    static const int64_t waits[] = {0, SHORT_MS, 1000};
    rowlock_tx_options options = ROWLOCK_TX_OPTIONS_INIT;

    (void)state;
    for (size_t i = 0; i < sizeof slots / sizeof *slots; i++) {
        for (size_t k = 0; k < sizeof waits / sizeof *waits; k++) {
            rowlock_tx *tx = NULL;
            int64_t start = begin(slots[i]);

            options.wait_ms = waits[k];
            if (rowlock_tx_begin(&tx, client, names, 1, &options, NULL) == ROWLOCK_OK)
                rowlock_tx_rollback(&tx, NULL);
            expect_in_time("tx_begin", slots[i], start, waits[k] + CALL_MS);
        }
    }
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_acquire_returns_in_time),
        CASE(test_acquire_that_does_not_wait_has_the_timeout_of_a_call),
        CASE(test_short_wait_leaves_time_for_an_answer),
        CASE(test_no_try_has_too_little_time),
        CASE(test_lock_that_was_seen_held_is_a_timeout),
        CASE(test_release_returns_in_time),
        CASE(test_stuck_bell_leaves_time_for_another_connection),
        CASE(test_request_without_time_is_not_sent),
        CASE(test_renew_and_force_return_in_time),
        CASE(test_transaction_begins_in_time),
    };

    return cmocka_run_group_tests_name("core/deadline", tests, NULL, NULL);
}
