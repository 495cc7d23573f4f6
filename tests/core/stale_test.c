/* SPDX-License-Identifier: MIT
 *
 * Acquires that the database takes for late ones, because the row has a later request id of the
 * same owner and client: they are asked for again, in the time that is left, and not for ever. */
#include "core.h"
#include "core_test.h"

enum { CALL_MS = 5000 };

static rowlock_client *client;
static int faster;   /* so many times another thread of the same owner is faster */
static int calls;    /* of acquire */
static int64_t last; /* until when the last one might have taken */

/* The other thread has had the lock, and has given it back. */
static void overtake(const rowlock_op *op)
{
    fake_row *row = fake_find(op->name);

    if (row != NULL)
        rlk_new_attempt(row->attempt, client);
}

static int overtaken_acquire(void *conn, rowlock_op *ops, size_t n, int all, uint32_t timeout_ms,
                             rowlock_error *err)
{
    calls++;
    last = rlk_clock_us() + timeout_ms * MS;
    if (calls <= faster)
        overtake(&ops[0]);
    fake_clock_advance_us(1000 * MS);
    return fake_driver()->acquire(conn, ops, n, all, timeout_ms, err);
}

static int set_up(void **state)
{
    rowlock_driver driver = *fake_driver();
    rowlock_lock *lock;

    fresh(state);
    driver.acquire = overtaken_acquire;
    faster = 0;
    assert_status(OK, rowlock_open(&client, &driver, "fake", NULL, NULL));
    lock = hold(client, "a", 60000, "me");
    assert_status(OK, rowlock_release(&lock, NULL));
    calls = 0;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    rowlock_close(&client);
    return fake_connections() != 0;
}

static int try_acquire(rowlock_lock **lock, rowlock_holder *holder)
{
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;

    options.owner = "me";
    options.ttl_ms = 60000;
    options.holder = holder;
    return rowlock_acquire(lock, client, "a", &options, NULL);
}

static void test_it_is_asked_for_again_with_a_new_id(void **state)
{
    rowlock_lock *lock = NULL;

    (void)state;
    for (faster = 1; faster <= 3; faster++) {
        calls = 0;
        assert_status(OK, try_acquire(&lock, NULL));
        assert_int_equal(calls, faster + 1);
        assert_int_equal(fake_find("a")->hold_count, 1);
        assert_status(OK, rowlock_release(&lock, NULL));
        assert_false(fake_is_live("a"));
    }
}

static void test_all_requests_have_the_time_of_one_call(void **state)
{
    rowlock_lock *lock = NULL;
    int64_t start = rlk_clock_us();

    (void)state;
    faster = 3;
    assert_status(OK, try_acquire(&lock, NULL));
    assert_true(last <= start + CALL_MS * MS);
    assert_status(OK, rowlock_release(&lock, NULL));
}

static void test_it_is_busy_if_others_are_always_faster(void **state)
{
    rowlock_lock *lock = NULL;
    rowlock_holder holder;

    (void)state;
    faster = 1000;
    assert_status(BUSY, try_acquire(&lock, &holder));
    assert_null(lock);
    assert_string_equal(holder.owner, "");
    assert_in_range(calls, 2, 10);
    assert_false(fake_is_live("a"));
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_it_is_asked_for_again_with_a_new_id),
        CASE(test_all_requests_have_the_time_of_one_call),
        CASE(test_it_is_busy_if_others_are_always_faster),
    };

    return cmocka_run_group_tests_name("core/stale", tests, NULL, NULL);
}
