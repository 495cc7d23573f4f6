/* SPDX-License-Identifier: MIT
 *
 * Grants whose answer comes when their lease has ended: no grant, and no hold is left behind. While
 * there is time the lock is asked for again. */
#include "fake_tx.h"
#include "queue_scene.h"

static rowlock_lock *lock;
static int late_answers, answers; /* the next so many are late; so many came */
static int64_t late_us;
static rowlock_cancel *cancel;
static void (*meanwhile)(void); /* happens while an answer is late */

static int be_late(int rc)
{
    answers++;
    if (late_answers == 0)
        return rc;
    late_answers--;
    fake_clock_advance_us(late_us);
    if (meanwhile != NULL)
        meanwhile();
    return rc;
}

static int late_acquire(void *conn, rowlock_op *ops, size_t n, int all, uint32_t timeout_ms,
                        rowlock_error *err)
{
    return be_late(fake_driver()->acquire(conn, ops, n, all, timeout_ms, err));
}

static int late_renew(void *conn, rowlock_op *ops, size_t n, uint32_t timeout_ms,
                      rowlock_error *err)
{
    return be_late(fake_driver()->renew(conn, ops, n, timeout_ms, err));
}

static int late_turn(void *conn, rowlock_op *op, uint32_t wait_ms, const int *fds, int n_fds,
                     uint32_t timeout_ms, rowlock_error *err)
{
    int rc = fake_queue_driver()->turn(conn, op, wait_ms, fds, n_fds, timeout_ms, err);

    return rc == ROWLOCK_OK && op->status == ROWLOCK_OK ? be_late(rc) : rc;
}

static int set_up(void **state)
{
    static rowlock_driver driver;

    driver = *fake_queue_driver();
    driver.acquire = late_acquire;
    driver.renew = late_renew;
    driver.turn = late_turn;
    queue_set_up(state);
    rowlock_close(&client);
    assert_status(OK, rowlock_open(&client, &driver, "fake", NULL, NULL));
    client->watch.is_by_hand = 1;
    lock = NULL;
    late_answers = answers = 0;
    late_us = 950 * MS;
    meanwhile = NULL;
    cancel = NULL;
    return 0;
}

static int tear_down(void **state)
{
    rowlock_cancel_free(&cancel);
    rowlock_release(&lock, NULL);
    return queue_tear_down(state);
}

static int take_with(int64_t wait_ms, rowlock_error *err)
{
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;

    options.ttl_ms = 1000;
    options.wait_ms = wait_ms;
    options.owner = "me";
    options.cancel = cancel;
    return rowlock_acquire(&lock, client, "a", &options, err);
}

static void expect_one_hold(void)
{
    assert_status(OK, rowlock_check(lock));
    assert_int_equal(fake_find("a")->hold_count, 1);
    assert_status(OK, rowlock_release(&lock, NULL));
    assert_false(fake_is_live("a"));
}

static void test_without_a_wait_it_is_no_grant_and_is_given_back(void **state)
{
    rowlock_error err;

    (void)state;
    late_answers = 1;
    assert_status(ECONNECT, take_with(0, &err));
    assert_null(lock);
    assert_non_null(strstr(err.message, "lease of 1000 ms"));
    assert_true(err.retryable);
    assert_int_equal(answers, 1);
    assert_false(fake_is_live("a"));
}

static void cut_from_now_on(void)
{
    fake_plan(1, FAKE_CUT_BEFORE, 1);
}

static void test_what_cannot_be_given_back_is_unknown(void **state)
{
    rowlock_error err;

    (void)state;
    late_answers = 1;
    meanwhile = cut_from_now_on;
    assert_status(EUNKNOWN, take_with(0, &err));
    fake_plan(0, FAKE_NONE, 0);
    assert_non_null(strstr(err.message, "lease of 1000 ms"));
}

static void test_within_the_wait_it_is_asked_for_again(void **state)
{
    (void)state;
    late_answers = 1;
    assert_status(OK, take_with(2000, NULL));
    assert_int_equal(answers, 2);
    expect_one_hold();
}

static void test_for_ever_is_as_long_as_it_takes(void **state)
{
    (void)state;
    late_answers = 7;
    assert_status(OK, take_with(ROWLOCK_FOREVER, NULL));
    assert_int_equal(answers, 8);
    expect_one_hold();
}

static void test_a_timeout_comes_when_the_time_is_up(void **state)
{
    int64_t start = rlk_clock_us();
    rowlock_error err;

    (void)state;
    late_answers = 100;
    assert_status(TIMEOUT, take_with(5000, &err));
    assert_true(rlk_clock_us() - start >= 5000 * MS);
    assert_non_null(strstr(err.message, "lease of 1000 ms"));
    assert_false(fake_is_live("a"));
    assert_int_equal(counters().timed_out, 1);
}

static void fire(void)
{
    rowlock_cancel_fire(cancel);
}

static void test_a_cancelled_wait_gives_it_back(void **state)
{
    (void)state;
    assert_status(OK, rowlock_cancel_new(&cancel, NULL));
    late_answers = 1;
    meanwhile = fire;
    assert_status(CANCELLED, take_with(ROWLOCK_FOREVER, NULL));
    assert_int_equal(answers, 1);
    assert_false(fake_is_live("a"));
}

static void let_another_in(void)
{
    fake_clock_advance_us(100 * MS);
    meanwhile = NULL;
    holder = hold(client, "a", 300, "another");
}

static void test_another_that_got_it_meanwhile_is_waited_for(void **state)
{
    (void)state;
    late_answers = 1;
    meanwhile = let_another_in;
    assert_status(OK, take_with(5000, NULL));
    assert_true(rowlock_fence(lock) > rowlock_fence(holder));
    expect_one_hold();
}

static void be_refused_from_now_on(void)
{
    fake_plan(1, FAKE_REFUSED, 0);
}

/* The first answer was late, the second is an error: the hold of the first is given back. */
static void test_an_error_after_it_leaves_no_hold(void **state)
{
    (void)state;
    late_answers = 1;
    meanwhile = be_refused_from_now_on;
    assert_status(EDRIVER, take_with(5000, NULL));
    assert_false(fake_is_live("a"));
}

static void free_it(void)
{
    fake_find("a")->expire_time = fake_now();
    fake_bell_ring(fake_find("a")->ticket);
}

static void test_a_late_turn_is_asked_for_again(void **state)
{
    (void)state;
    holder = hold(client, "a", 60000, "another");
    fake_find("a")->ticket = fake_ticket_add("a", "another", 60000 * MS, 1);
    fake_ticket_remove(fake_find("a")->ticket);
    fake_on_turn(free_it);
    late_answers = 2; /* the first is that of the try */
    assert_status(OK, take_with(ROWLOCK_FOREVER, NULL));
    assert_int_equal(late_answers, 0);
    assert_int_equal(fake_tickets("a"), 0);
    fake_on_turn(NULL);
    expect_one_hold();
}

static void test_several_are_asked_for_again(void **state)
{
    static const char *const names[] = {"b", "a"};
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;
    rowlock_lock *locks[2];

    (void)state;
    options.ttl_ms = 1000;
    options.wait_ms = 2000;
    late_answers = 1;
    assert_status(OK, rowlock_acquire_many(locks, client, names, 2, &options, NULL));
    for (int i = 0; i < 2; i++) {
        assert_int_equal(fake_find(names[i])->hold_count, 1);
        assert_status(OK, rowlock_release(&locks[i], NULL));
    }
}

static void test_an_adopted_one_is_left_as_it_is(void **state)
{
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;
    rowlock_error err;

    (void)state;
    holder = hold(client, "a", 60000, "me");
    options.owner = "me";
    options.ttl_ms = 1000;
    late_answers = 1;
    assert_status(ECONNECT,
                  rowlock_adopt(&lock, client, "a", rowlock_fence(holder), &options, &err));
    assert_true(err.retryable);
    assert_true(fake_is_live("a"));
    assert_status(OK, rowlock_check(holder));
}

#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(without_a_wait_it_is_no_grant_and_is_given_back),
        TEST(what_cannot_be_given_back_is_unknown),
        TEST(within_the_wait_it_is_asked_for_again),
        TEST(for_ever_is_as_long_as_it_takes),
        TEST(a_timeout_comes_when_the_time_is_up),
        TEST(a_cancelled_wait_gives_it_back),
        TEST(another_that_got_it_meanwhile_is_waited_for),
        TEST(an_error_after_it_leaves_no_hold),
        TEST(a_late_turn_is_asked_for_again),
        TEST(several_are_asked_for_again),
        TEST(an_adopted_one_is_left_as_it_is),
    };

    return cmocka_run_group_tests_name("core/late", tests, NULL, NULL);
}
