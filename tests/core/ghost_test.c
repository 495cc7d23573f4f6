/* SPDX-License-Identifier: MIT
 *
 * Holds that nobody has a handle for, because an answer was lost: the same owner does not keep them
 * alive by acquiring again, and no fence is given to two handles one after the other. */
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
    fake_plan(0, FAKE_NONE, 0);
    rowlock_close(&client);
    rowlock_close(&other);
    return 0;
}

/* Every answer from now on is lost, and no connection can be opened; but the first request is
 * carried out, or is not. It goes out on a connection that is there. */
static void lose_answers(int is_done)
{
    if (client->idle == NULL || client->handles > 0)
        open_another(client);
    fake_plan(1, is_done ? FAKE_CUT_AFTER : FAKE_CUT_BEFORE, 1);
}

static void find_answers(void)
{
    fake_plan(0, FAKE_NONE, 0);
}

static void acquire_without_answer(int is_done)
{
    rowlock_lock *lock = NULL;

    lose_answers(is_done);
    assert_status(EUNKNOWN, rowlock_acquire(&lock, client, "a", NULL, NULL));
    find_answers();
}

static int try(rowlock_client *with)
{
    rowlock_lock *lock = NULL;
    int rc = rowlock_acquire(&lock, with, "a", NULL, NULL);

    return rc != ROWLOCK_OK ? rc : rowlock_release(&lock, NULL);
}

/* One grant: counted once, free afterwards. Its fence. */
static uint64_t cycle(void)
{
    rowlock_lock *lock = hold(client, "a", 0, NULL);
    uint64_t fence = rowlock_fence(lock);

    assert_int_equal(fake_find("a")->hold_count, 1);
    assert_status(OK, rowlock_release(&lock, NULL));
    assert_int_equal(fake_find("a")->hold_count, 0);
    assert_false(fake_is_live("a"));
    return fence;
}

static void test_the_next_acquire_gets_the_hold_of_the_unknown_one(void **state)
{
    uint64_t fence;

    (void)state;
    acquire_without_answer(1);
    assert_int_equal(fake_find("a")->hold_count, 1);
    fence = cycle();
    assert_true(cycle() > fence);
    assert_status(OK, try(other));
}

static void test_an_unknown_acquire_that_was_not_carried_out_changes_nothing(void **state)
{
    uint64_t fence;

    (void)state;
    acquire_without_answer(0);
    fence = cycle();
    assert_true(cycle() > fence);
}

static void test_it_is_remembered_as_long_as_nothing_is_known(void **state)
{
    rowlock_lock *lock = NULL;

    (void)state;
    acquire_without_answer(1);
    fake_plan(1, FAKE_NO_CONNECTION, 1);
    assert_int_not_equal(rowlock_acquire(&lock, client, "a", NULL, NULL), ROWLOCK_OK);
    find_answers();
    acquire_without_answer(1);
    assert_int_equal(fake_find("a")->hold_count, 1);
    cycle();
}

static void test_several_names_are_remembered_each(void **state)
{
    static const char *const names[] = {"b", "a"};
    rowlock_lock *locks[2];

    (void)state;
    lose_answers(1);
    assert_status(EUNKNOWN, rowlock_acquire_many(locks, client, names, 2, NULL, NULL));
    find_answers();
    cycle();
    assert_status(OK, rowlock_acquire_many(locks, client, names, 2, NULL, NULL));
    assert_int_equal(fake_find("a")->hold_count, 1);
    assert_int_equal(fake_find("b")->hold_count, 1);
    assert_status(OK, rowlock_release_many(NULL, locks, 2, NULL));
    assert_false(fake_is_live("b"));
}

static void test_it_is_forgotten_with_its_lease(void **state)
{
    (void)state;
    acquire_without_answer(1);
    fake_clock_advance_us(60000 * MS);
    assert_status(OK, try(other));
    cycle();
    assert_int_equal(client->tenures.count, 0);
}

/* It cannot be told from a hold of another process of the same owner. */
static void test_an_unknown_re_entry_is_not_kept_alive(void **state)
{
    rowlock_lock *lock = hold(client, "a", 10000, NULL), *again = NULL;
    uint64_t fence = rowlock_fence(lock);

    (void)state;
    acquire_without_answer(1);
    assert_int_equal(fake_find("a")->hold_count, 2);
    assert_status(OK, rowlock_release(&lock, NULL));
    assert_int_equal(fake_find("a")->hold_count, 1);
    assert_status(BUSY, rowlock_acquire(&again, client, "a", NULL, NULL));
    fake_clock_advance_us(60000 * MS);
    assert_true(cycle() > fence);
}

static void test_a_re_entry_that_was_not_carried_out_is_nobodys_concern(void **state)
{
    rowlock_lock *lock = hold(client, "a", 0, NULL);

    (void)state;
    acquire_without_answer(0);
    assert_status(OK, rowlock_release(&lock, NULL));
    assert_false(fake_is_live("a"));
    cycle();
}

static void failed_release(enum fake_fault fault, int status)
{
    rowlock_lock *lock = hold(client, "a", 0, NULL);
    uint64_t fence = rowlock_fence(lock);

    fake_plan(1, fault, 1);
    assert_int_equal(rowlock_release(&lock, NULL), status);
    find_answers();
    assert_true(cycle() > fence);
    assert_status(OK, try(other));
}

static void test_a_release_that_failed_is_sent_before_the_next_acquire(void **state)
{
    (void)state;
    failed_release(FAKE_CUT_BEFORE, ROWLOCK_EUNKNOWN);
    failed_release(FAKE_CUT_AFTER, ROWLOCK_EUNKNOWN);
    failed_release(FAKE_REFUSED, ROWLOCK_EDRIVER);
}

static void test_a_release_of_several_that_failed_is_sent_too(void **state)
{
    rowlock_lock *lock = hold(client, "a", 0, NULL);
    uint64_t fence = rowlock_fence(lock);

    (void)state;
    lose_answers(0);
    assert_status(EUNKNOWN, rowlock_release_many(NULL, &lock, 1, NULL));
    find_answers();
    assert_true(cycle() > fence);
}

static void test_until_it_can_be_sent_nothing_is_acquired(void **state)
{
    rowlock_lock *lock = hold(client, "a", 0, NULL);

    (void)state;
    lose_answers(0);
    assert_status(EUNKNOWN, rowlock_release(&lock, NULL));
    assert_status(ECONNECT, rowlock_acquire(&lock, client, "a", NULL, NULL));
    find_answers();
    assert_int_equal(fake_find("a")->hold_count, 1);
    cycle();
}

/* The hold of the handle that is left counts on its own. */
static void test_a_failed_release_of_an_inner_hold_is_not_kept_alive(void **state)
{
    rowlock_lock *outer = hold(client, "a", 10000, NULL), *inner = hold(client, "a", 10000, NULL);
    rowlock_lock *again = NULL;

    (void)state;
    lose_answers(0);
    assert_status(EUNKNOWN, rowlock_release(&inner, NULL));
    find_answers();
    assert_status(OK, rowlock_check(outer));
    assert_status(OK, rowlock_release(&outer, NULL));
    assert_int_equal(fake_find("a")->hold_count, 1);
    assert_status(BUSY, rowlock_acquire(&again, client, "a", NULL, NULL));
    fake_clock_advance_us(60000 * MS);
    cycle();
}

/* Somebody else has it by then. */
static void test_a_failed_release_touches_nobody_elses_lock(void **state)
{
    rowlock_lock *lock = hold(client, "a", 1000, NULL), *theirs;

    (void)state;
    lose_answers(0);
    assert_int_not_equal(rowlock_release(&lock, NULL), ROWLOCK_OK);
    find_answers();
    fake_find("a")->expire_time -= 60000 * MS;
    theirs = hold(other, "a", 0, "x");
    assert_status(BUSY, try(client));
    assert_status(OK, rowlock_renew(theirs, 0, NULL));
    assert_status(OK, rowlock_release(&theirs, NULL));
    cycle();
}

/* The outer hold ends while the re-entry waits for its answer. */
static void test_an_unknown_re_entry_into_a_lost_tenure_is_not_entered(void **state)
{
    rowlock_lock *lock, *again = NULL;

    (void)state;
    lock = hold(client, "a", 4900, NULL);
    acquire_without_answer(1); /* which takes five seconds, and has prolonged the lease */
    assert_status(LOST, rowlock_check(lock));
    assert_true(fake_is_live("a"));
    assert_int_equal(fake_find("a")->hold_count, 2);
    for (int is_released = 0; is_released < 2; is_released++) {
        assert_status(BUSY, rowlock_acquire(&again, client, "a", NULL, NULL));
        rowlock_release(&lock, NULL);
    }
    fake_clock_advance_us(60000 * MS);
    cycle();
}

#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_next_acquire_gets_the_hold_of_the_unknown_one),
        TEST(an_unknown_acquire_that_was_not_carried_out_changes_nothing),
        TEST(it_is_remembered_as_long_as_nothing_is_known),
        TEST(several_names_are_remembered_each),
        TEST(it_is_forgotten_with_its_lease),
        TEST(an_unknown_re_entry_is_not_kept_alive),
        TEST(a_re_entry_that_was_not_carried_out_is_nobodys_concern),
        TEST(a_release_that_failed_is_sent_before_the_next_acquire),
        TEST(a_release_of_several_that_failed_is_sent_too),
        TEST(until_it_can_be_sent_nothing_is_acquired),
        TEST(a_failed_release_of_an_inner_hold_is_not_kept_alive),
        TEST(a_failed_release_touches_nobody_elses_lock),
        TEST(an_unknown_re_entry_into_a_lost_tenure_is_not_entered),
    };

    return cmocka_run_group_tests_name("core/ghost", tests, NULL, NULL);
}
