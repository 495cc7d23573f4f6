/* SPDX-License-Identifier: MIT
 *
 * Locks that are lost here and live on in the database for a while: nobody touches them, and nobody
 * re-enters them. */
#include <stdio.h>

#include "core.h"
#include "core_test.h"

static rowlock_client *client, *other;

static int set_up(void **state)
{
    fresh(state);
    client = open_client();
    other = open_client();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    rowlock_close(&client);
    rowlock_close(&other);
    return 0;
}

/* A lease of ten seconds, half a second after its end here and half a second before its end there.
 */
static rowlock_lock *hold_and_lose(const char *name)
{
    rowlock_lock *lock = hold(client, name, 10000, "x");

    fake_clock_advance_us(9500 * MS);
    assert_status(LOST, rowlock_check(lock));
    assert_true(fake_is_live(name));
    return lock;
}

static int try_again(rowlock_lock **out, const char *name, int64_t wait_ms, rowlock_holder *holder)
{
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;

    options.owner = "x";
    options.ttl_ms = 10000;
    options.wait_ms = wait_ms;
    options.holder = holder;
    return rowlock_acquire(out, client, name, &options, NULL);
}

static void test_a_lost_handle_sends_nothing(void **state)
{
    rowlock_lock *lock = hold_and_lose("a");

    (void)state;
    fake_plan(0, FAKE_NONE, 0);
    assert_status(LOST, rowlock_release(&lock, NULL));
    assert_int_equal(fake_calls(), 0);
    assert_int_equal(fake_find("a")->hold_count, 1);
}

static void test_a_lost_handle_leaves_the_adopters_lock_alone(void **state)
{
    rowlock_lock *lock = hold(client, "a", 10000, "x"), *adopted = NULL;
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;

    (void)state;
    options.owner = "x";
    options.ttl_ms = 60000;
    fake_clock_advance_us(8000 * MS);
    assert_status(OK, rowlock_adopt(&adopted, other, "a", rowlock_fence(lock), &options, NULL));
    fake_clock_advance_us(1500 * MS);
    assert_status(LOST, rowlock_release(&lock, NULL));
    assert_true(fake_is_live("a"));
    assert_status(OK, rowlock_renew(adopted, 0, NULL));
    assert_status(OK, rowlock_release(&adopted, NULL));
    assert_false(fake_is_live("a"));
}

/* As everybody else, it gets the lock when the lease has ended in the database. */
static void waits_for_the_end(int release_first)
{
    rowlock_lock *lock = hold_and_lose("a"), *again = NULL;
    uint64_t fence = rowlock_fence(lock);
    rowlock_holder holder;

    if (release_first)
        assert_status(LOST, rowlock_release(&lock, NULL));
    assert_status(BUSY, try_again(&again, "a", 0, &holder));
    assert_string_equal(holder.owner, "x");
    assert_in_range(holder.remaining_ms, 499, 500);
    assert_int_equal(fake_find("a")->hold_count, 1);
    assert_status(OK, try_again(&again, "a", 5000, NULL));
    assert_true(rowlock_fence(again) > fence);
    assert_int_equal(fake_find("a")->hold_count, 1);
    if (!release_first)
        assert_status(LOST, rowlock_release(&lock, NULL));
    assert_status(OK, rowlock_check(again));
    assert_status(OK, rowlock_release(&again, NULL));
    assert_false(fake_is_live("a"));
}

static void test_after_the_release_the_owner_does_not_re_enter(void **state)
{
    (void)state;
    waits_for_the_end(1);
}

static void test_before_the_release_the_owner_does_not_re_enter(void **state)
{
    (void)state;
    waits_for_the_end(0);
}

static void test_a_wait_that_is_too_short_says_who_is_in_the_way(void **state)
{
    rowlock_lock *lock = hold_and_lose("a"), *again = NULL;
    rowlock_holder holder;

    (void)state;
    assert_status(TIMEOUT, try_again(&again, "a", 100, &holder));
    assert_string_equal(holder.owner, "x");
    rowlock_release(&lock, NULL);
}

static void test_several_names_wait_for_the_one(void **state)
{
    static const char *const names[] = {"b", "a", "c"};
    rowlock_lock *lock = hold_and_lose("a"), *locks[3];
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;

    (void)state;
    options.owner = "x";
    assert_status(BUSY, rowlock_acquire_many(locks, client, names, 3, &options, NULL));
    assert_null(fake_find("b"));
    options.wait_ms = 5000;
    assert_status(OK, rowlock_acquire_many(locks, client, names, 3, &options, NULL));
    for (int i = 0; i < 3; i++) {
        assert_int_equal(fake_find(names[i])->hold_count, 1);
        assert_status(OK, rowlock_release(&locks[i], NULL));
    }
    rowlock_release(&lock, NULL);
}

/* The row lives for another whole lease, which this process must not believe in. */
static void test_a_late_renewal_is_a_remnant_too(void **state)
{
    rowlock_lock *lock = hold(client, "a", 10000, "x"), *again = NULL;

    (void)state;
    fake_clock_advance_us(8000 * MS);
    fake_slow(0, 1500 * MS);
    assert_status(LOST, rowlock_renew(lock, 0, NULL));
    fake_slow(0, 0);
    assert_status(LOST, rowlock_release(&lock, NULL));
    fake_clock_advance_us(5000 * MS);
    assert_true(fake_is_live("a"));
    assert_status(BUSY, try_again(&again, "a", 0, NULL));
    assert_int_equal(fake_find("a")->hold_count, 1);
    fake_clock_advance_us(3501 * MS);
    assert_status(OK, try_again(&again, "a", 0, NULL));
    assert_int_equal(fake_find("a")->hold_count, 1);
    assert_status(OK, rowlock_release(&again, NULL));
}

/* The tenure was lost while the request to re-enter it was in flight: the row has the second hold,
 * and another lease, when the answer comes. */
static void re_enters_too_late(int64_t wait_ms, int expected)
{
    rowlock_lock *lock = hold(client, "a", 10000, "x"), *again = NULL;
    uint64_t fence = rowlock_fence(lock);

    fake_clock_advance_us(8000 * MS);
    fake_slow(0, 1500 * MS);
    assert_int_equal(expected, try_again(&again, "a", wait_ms, NULL));
    fake_slow(0, 0);
    assert_status(LOST, rowlock_check(lock));
    if (again != NULL) {
        assert_true(rowlock_fence(again) > fence);
        assert_status(OK, rowlock_release(&again, NULL));
        assert_false(fake_is_live("a"));
    } else {
        assert_true(fake_is_live("a"));
        assert_int_equal(fake_find("a")->hold_count, 1);
        assert_status(BUSY, try_again(&again, "a", 0, NULL));
        fake_clock_advance_us(10000 * MS);
        assert_status(OK, try_again(&again, "a", 0, NULL));
        assert_true(rowlock_fence(again) > fence);
        assert_status(OK, rowlock_release(&again, NULL));
    }
    assert_status(LOST, rowlock_release(&lock, NULL));
}

static void test_what_was_lost_meanwhile_is_not_re_entered(void **state)
{
    (void)state;
    re_enters_too_late(0, ROWLOCK_ECONNECT);
}

static void test_what_was_lost_meanwhile_is_waited_for(void **state)
{
    (void)state;
    re_enters_too_late(60000, ROWLOCK_OK);
}

static void test_a_database_that_does_not_answer_is_no_grant(void **state)
{
    rowlock_lock *lock = hold_and_lose("a"), *again = NULL;

    (void)state;
    fake_plan(1, FAKE_CUT_BEFORE, 1);
    assert_status(ECONNECT, try_again(&again, "a", 0, NULL));
    fake_plan(0, FAKE_NONE, 0);
    assert_null(again);
    rowlock_release(&lock, NULL);
}

static void test_what_is_over_is_not_asked_for(void **state)
{
    rowlock_lock *lock = hold_and_lose("a"), *again = NULL;

    (void)state;
    rowlock_release(&lock, NULL);
    fake_clock_advance_us(10000 * MS);
    fake_plan(0, FAKE_NONE, 0);
    assert_status(OK, try_again(&again, "a", 0, NULL));
    assert_int_equal(fake_calls(), 1);
    assert_status(OK, rowlock_release(&again, NULL));
}

static void test_a_remnant_can_be_adopted(void **state)
{
    rowlock_lock *lock = hold_and_lose("a"), *adopted = NULL;
    uint64_t fence = rowlock_fence(lock);
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;

    (void)state;
    rowlock_release(&lock, NULL);
    options.owner = "x";
    assert_status(OK, rowlock_adopt(&adopted, client, "a", fence, &options, NULL));
    assert_status(OK, rowlock_release(&adopted, NULL));
    assert_false(fake_is_live("a"));
}

/* They are forgotten in time, and at the close; leaks are the sanitizer's to find. */
static void test_many_remnants_go_in_any_order(void **state)
{
    char name[16];

    (void)state;
    for (int i = 0; i < 200; i++) {
        rowlock_lock *lock;

        snprintf(name, sizeof name, "n%03d", i);
        lock = hold(client, name, 1000 + i * 37 % 900, "x");
        fake_clock_advance_us(1710 * MS);
        rowlock_release(&lock, NULL);
    }
    assert_true(client->tenures.count <= 3);
}

/* The answers are lost, the lease is longer all the same. */
static void test_a_renewal_of_unknown_outcome_is_remembered(void **state)
{
    rowlock_lock *lock = hold(client, "a", 10000, "x"), *again = NULL;

    (void)state;
    fake_plan(1, FAKE_CUT_AFTER, 1);
    assert_status(EUNKNOWN, rowlock_renew(lock, 60000, NULL));
    fake_plan(0, FAKE_NONE, 0);
    fake_clock_advance_us(20000 * MS);
    assert_status(LOST, rowlock_release(&lock, NULL));
    assert_true(fake_is_live("a"));
    assert_status(BUSY, try_again(&again, "a", 0, NULL));
    assert_int_equal(fake_find("a")->hold_count, 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_lost_handle_sends_nothing),
        TEST(a_lost_handle_leaves_the_adopters_lock_alone),
        TEST(after_the_release_the_owner_does_not_re_enter),
        TEST(before_the_release_the_owner_does_not_re_enter),
        TEST(a_wait_that_is_too_short_says_who_is_in_the_way),
        TEST(several_names_wait_for_the_one),
        TEST(a_late_renewal_is_a_remnant_too),
        TEST(a_renewal_of_unknown_outcome_is_remembered),
        TEST(what_was_lost_meanwhile_is_not_re_entered),
        TEST(what_was_lost_meanwhile_is_waited_for),
        TEST(a_database_that_does_not_answer_is_no_grant),
        TEST(what_is_over_is_not_asked_for),
        TEST(a_remnant_can_be_adopted),
        TEST(many_remnants_go_in_any_order),
    };

    return cmocka_run_group_tests_name("core/remnant", tests, NULL, NULL);
}
