/* SPDX-License-Identifier: MIT
 *
 * Leases by the local clock: deadlines, late answers, re-entry, and what is lost stays lost. */
#include <stdio.h>

#include "core_test.h"

static void test_deadline_counts_from_before_the_request(void **state)
{
    rowlock_client *client = open_client();
    rowlock_lock *lock;

    (void)state;
    fake_slow(0, 300 * MS); /* the answer travels for 300 ms */
    lock = hold(client, "a", 1000, NULL);
    /* 1000 ms less the way back less a tenth */
    assert_int_equal(rowlock_remaining(lock), 600);
    fake_slow(0, 0);
    fake_clock_advance_us(600 * MS - 1);
    assert_status(OK, rowlock_check(lock));
    fake_clock_advance_us(1);
    assert_status(LOST, rowlock_check(lock));
    assert_int_equal(rowlock_remaining(lock), 0);
    /* By the database's clock it is still there: local comes first. */
    assert_true(fake_is_live("a"));
    rowlock_release(&lock, NULL);
    rowlock_close(&client);
}

static void test_slow_way_there_shortens_the_local_lease_too(void **state)
{
    rowlock_client *client = open_client();
    rowlock_lock *lock;

    (void)state;
    fake_slow(200 * MS, 0);
    lock = hold(client, "a", 1000, NULL);
    assert_int_equal(rowlock_remaining(lock), 700);
    rowlock_release(&lock, NULL);
    rowlock_close(&client);
}

static void test_renew_extends_from_before_its_request(void **state)
{
    rowlock_client *client = open_client();
    rowlock_lock *lock = hold(client, "a", 1000, NULL);
    uint64_t fence = rowlock_fence(lock);

    (void)state;
    fake_clock_advance_us(500 * MS);
    assert_status(OK, rowlock_renew(lock, 0, NULL));
    assert_int_equal(rowlock_remaining(lock), 900);
    assert_status(OK, rowlock_renew(lock, 5000, NULL));
    assert_int_equal(rowlock_remaining(lock), 4500);
    assert_true(rowlock_fence(lock) == fence);
    assert_status(OK, rowlock_release(&lock, NULL));
    rowlock_close(&client);
}

static void test_renew_after_the_deadline_is_lost_without_a_request(void **state)
{
    rowlock_client *client = open_client();
    rowlock_lock *lock = hold(client, "a", 1000, NULL);

    (void)state;
    fake_clock_advance_us(950 * MS); /* past the local deadline, live in the database */
    fake_plan(0, FAKE_NONE, 0);
    assert_status(LOST, rowlock_renew(lock, 0, NULL));
    assert_int_equal(fake_calls(), 0);
    assert_status(LOST, rowlock_check(lock));
    rowlock_release(&lock, NULL);
    rowlock_close(&client);
}

static void test_renew_answered_after_the_deadline_stays_lost_and_the_release_sends_nothing(
    void **state)
{
    rowlock_client *client = open_client();
    rowlock_lock *lock = hold(client, "a", 1000, NULL);

    (void)state;
    fake_clock_advance_us(800 * MS);
    fake_slow(0, 150 * MS);
    assert_status(LOST, rowlock_renew(lock, 0, NULL));
    fake_slow(0, 0);
    assert_status(LOST, rowlock_check(lock));
    fake_plan(0, FAKE_NONE, 0);
    assert_status(LOST, rowlock_release(&lock, NULL));
    assert_int_equal(fake_calls(), 0);
    assert_true(fake_is_live("a"));
    rowlock_close(&client);
}

static void test_late_reentry_gives_back_its_own_hold_only(void **state)
{
    rowlock_options patient = ROWLOCK_OPTIONS_INIT;
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;
    rowlock_client *client;
    rowlock_lock *outer, *inner = NULL;

    (void)state;
    patient.call_timeout_ms = 90000;
    client = open_client_with(&patient);
    outer = hold(client, "a", 60000, NULL);
    options.ttl_ms = 100;
    open_another(client);
    fake_slow(0, 59000 * MS); /* by now even the outer lease has ended here, but not there */
    assert_status(ECONNECT, rowlock_acquire(&inner, client, "a", &options, NULL));
    fake_slow(0, 0);
    assert_int_equal(fake_find("a")->hold_count, 1);
    assert_status(LOST, rowlock_check(outer));
    rowlock_release(&outer, NULL);
    rowlock_close(&client);
}

static void test_taken_over_is_lost_for_all_handles_for_ever(void **state)
{
    rowlock_client *client = open_client();
    rowlock_lock *one = hold(client, "a", 1000, "me");
    rowlock_lock *two = hold(client, "a", 1000, "me");
    fake_row *row = fake_find("a");

    (void)state;
    assert_true(rowlock_fence(one) == rowlock_fence(two));
    row->fence += 5; /* somebody forced it */
    assert_status(LOST, rowlock_renew(one, 0, NULL));
    assert_status(LOST, rowlock_check(two));
    row->fence -= 5;
    assert_status(LOST, rowlock_renew(two, 0, NULL));
    assert_status(LOST, rowlock_release(&one, NULL));
    assert_status(LOST, rowlock_release(&two, NULL));
    assert_int_equal(row->hold_count, 2); /* untouched */
    rowlock_close(&client);
}

static void test_reentry_counts_and_shares_the_tenure(void **state)
{
    rowlock_client *client = open_client();
    rowlock_lock *one = hold(client, "a", 1000, NULL);
    rowlock_lock *two = hold(client, "a", 3000, NULL);

    (void)state;
    assert_int_equal(fake_find("a")->hold_count, 2);
    assert_true(rowlock_fence(one) == rowlock_fence(two));
    assert_int_equal(rowlock_remaining(one), 2700); /* the later lease holds for both */
    assert_status(OK, rowlock_release(&two, NULL));
    assert_status(OK, rowlock_check(one));
    assert_true(fake_is_live("a"));
    assert_status(OK, rowlock_release(&one, NULL));
    assert_false(fake_is_live("a"));
    rowlock_close(&client);
}

static void test_reentry_with_a_shorter_ttl_does_not_shorten(void **state)
{
    rowlock_client *client = open_client();
    rowlock_lock *one = hold(client, "a", 10000, NULL);
    rowlock_lock *two = hold(client, "a", 100, NULL);

    (void)state;
    fake_clock_advance_us(5000 * MS);
    assert_status(OK, rowlock_check(one));
    assert_true(fake_is_live("a"));
    rowlock_release(&two, NULL);
    rowlock_release(&one, NULL);
    rowlock_close(&client);
}

static void test_new_tenure_of_the_same_owner_ends_the_old_handles(void **state)
{
    rowlock_client *client = open_client();
    rowlock_lock *old = hold(client, "a", 1000, NULL), *new;

    (void)state;
    fake_clock_advance_us(2000 * MS);
    new = hold(client, "a", 1000, NULL);
    assert_true(rowlock_fence(new) > rowlock_fence(old));
    assert_status(LOST, rowlock_check(old));
    assert_status(OK, rowlock_check(new));
    assert_status(LOST, rowlock_release(&old, NULL));
    assert_status(OK, rowlock_check(new));
    assert_true(fake_is_live("a"));
    assert_status(OK, rowlock_release(&new, NULL));
    rowlock_close(&client);
}

static void test_renew_of_a_row_that_a_transaction_locks_is_busy_not_lost(void **state)
{
    rowlock_client *client = open_client();
    rowlock_lock *lock = hold(client, "a", 1000, NULL);

    (void)state;
    fake_find("a")->locked = 1;
    assert_status(BUSY, rowlock_renew(lock, 0, NULL));
    assert_status(OK, rowlock_check(lock));
    fake_find("a")->locked = 0;
    assert_status(OK, rowlock_renew(lock, 0, NULL));
    rowlock_release(&lock, NULL);
    rowlock_close(&client);
}

static void unlock_row(void)
{
    fake_find("a")->locked = 0;
}

static void test_renew_asks_again_for_a_row_that_is_locked_for_a_moment(void **state)
{
    rowlock_client *client = open_client();
    rowlock_lock *lock = hold(client, "a", 1000, NULL);

    (void)state;
    fake_find("a")->locked = 1;
    fake_clock_on_sleep(unlock_row);
    assert_status(OK, rowlock_renew(lock, 0, NULL));
    assert_int_equal(fake_clock_sleeps(), 1);
    rowlock_release(&lock, NULL);
    rowlock_close(&client);
}

static void test_close_releases_everything_in_a_batch(void **state)
{
    rowlock_client *client = open_client();
    rowlock_lock *locks[50], *again;
    char name[16];

    (void)state;
    for (int i = 0; i < 50; i++) {
        snprintf(name, sizeof name, "n%02d", i);
        locks[i] = hold(client, name, 0, NULL);
    }
    again = hold(client, "n00", 0, NULL);
    fake_plan(0, FAKE_NONE, 0);
    rowlock_close(&client);
    assert_null(client);
    assert_int_equal(fake_calls(), 2); /* one batch, and one for the re-entry */
    assert_int_equal(fake_connections(), 0);
    for (int i = 0; i < 50; i++) {
        snprintf(name, sizeof name, "n%02d", i);
        assert_false(fake_is_live(name));
        assert_status(ECLOSED, rowlock_check(locks[i]));
        assert_status(ECLOSED, rowlock_renew(locks[i], 0, NULL));
        assert_status(ECLOSED, rowlock_release(&locks[i], NULL));
    }
    assert_status(ECLOSED, rowlock_release(&again, NULL));
}

static void test_close_gives_back_only_its_own_holds_of_a_shared_owner(void **state)
{
    rowlock_client *one = open_client(), *two = open_client();
    rowlock_lock *a = hold(one, "a", 0, "shared"), *b = hold(one, "a", 0, "shared");
    rowlock_lock *c = hold(two, "a", 0, "shared");

    (void)state;
    assert_int_equal(fake_find("a")->hold_count, 3);
    rowlock_close(&one);
    assert_int_equal(fake_find("a")->hold_count, 1);
    assert_true(fake_is_live("a"));
    assert_status(OK, rowlock_release(&c, NULL));
    rowlock_release(&a, NULL);
    rowlock_release(&b, NULL);
    rowlock_close(&two);
}

static int collect(rowlock_lock *lock, void *payload)
{
    *(uint64_t *)payload = rowlock_fence(lock);
    fake_clock_advance_us(*(uint64_t *)payload == 0 ? 0 : 500 * MS);
    return 42;
}

static void test_with_runs_and_releases_and_tells_of_a_loss(void **state)
{
    rowlock_client *client = open_client();
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;
    uint64_t fence = 0;
    int result = 0;

    (void)state;
    assert_status(OK, rowlock_with(&result, client, "a", NULL, collect, &fence, NULL));
    assert_int_equal(result, 42);
    assert_true(fence > 0);
    assert_false(fake_is_live("a"));
    options.ttl_ms = 500;
    assert_status(LOST, rowlock_with(&result, client, "a", &options, collect, &fence, NULL));
    rowlock_close(&client);
}

static void test_adopt_continues_a_tenure(void **state)
{
    rowlock_client *one = open_client(), *two = open_client();
    rowlock_lock *lock = hold(one, "a", 1000, "me"), *same = NULL;
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;

    (void)state;
    options.owner = "me";
    options.ttl_ms = 2000;
    assert_status(OK, rowlock_adopt(&same, two, "a", rowlock_fence(lock), &options, NULL));
    assert_int_equal(rowlock_remaining(same), 1800);
    assert_int_equal(fake_find("a")->hold_count, 1);
    assert_status(OK, rowlock_release(&same, NULL));
    assert_false(fake_is_live("a"));
    assert_status(LOST, rowlock_adopt(&same, two, "a", rowlock_fence(lock), &options, NULL));
    options.owner = "somebody else";
    assert_status(LOST, rowlock_adopt(&same, two, "a", rowlock_fence(lock), &options, NULL));
    assert_null(same);
    rowlock_release(&lock, NULL);
    rowlock_close(&one);
    rowlock_close(&two);
}

static void test_detach_leaves_the_lock_held_for_its_ttl(void **state)
{
    rowlock_client *one = open_client(), *two = open_client();
    rowlock_lock *lock = hold(one, "a", 1000, "me"), *same = NULL;
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;
    uint64_t fence = rowlock_fence(lock);

    (void)state;
    assert_status(OK, rowlock_detach(&lock, NULL));
    assert_null(lock);
    rowlock_close(&one);
    assert_true(fake_is_live("a"));
    options.owner = "me";
    assert_status(OK, rowlock_adopt(&same, two, "a", fence, &options, NULL));
    assert_status(OK, rowlock_release(&same, NULL));
    assert_false(fake_is_live("a"));
    lock = hold(two, "a", 1000, "me");
    assert_status(OK, rowlock_detach(&lock, NULL));
    fake_clock_advance_us(1000 * MS);
    assert_false(fake_is_live("a"));
    rowlock_close(&two);
}

static void test_detach_of_one_handle_leaves_the_others_their_holds(void **state)
{
    rowlock_client *client = open_client();
    rowlock_lock *first = hold(client, "a", 1000, "me"), *second = hold(client, "a", 1000, "me");

    (void)state;
    assert_status(OK, rowlock_detach(&first, NULL));
    assert_status(OK, rowlock_renew(second, 0, NULL));
    assert_status(OK, rowlock_release(&second, NULL));
    assert_int_equal(fake_find("a")->hold_count, 1);
    assert_true(fake_is_live("a"));
    rowlock_close(&client);
    assert_true(fake_is_live("a"));
}

static void test_detach_says_when_there_is_nothing_to_leave(void **state)
{
    rowlock_client *client = open_client();
    rowlock_lock *late = hold(client, "a", 1000, NULL), *closed = hold(client, "b", 10000, NULL);
    rowlock_error err;

    (void)state;
    fake_clock_advance_us(950 * MS);
    assert_status(LOST, rowlock_detach(&late, &err));
    assert_status(EINVAL, rowlock_detach(&late, &err));
    assert_status(EINVAL, rowlock_detach(NULL, &err));
    rowlock_close(&client);
    assert_false(fake_is_live("b"));
    assert_status(ECLOSED, rowlock_detach(&closed, &err));
    assert_null(closed);
}

/* The database's clock was set back by an hour: its leases end an hour later than they should. */
static void step_back(const char *name)
{
    fake_find(name)->expire_time += INT64_C(3600000) * MS;
}

static void test_a_step_of_the_clock_lengthens_no_lease(void **state)
{
    rowlock_client *client = open_client();
    rowlock_lock *outer = hold(client, "a", 1000, NULL), *inner, *adopted = NULL;

    (void)state;
    step_back("a");
    assert_int_equal(rowlock_remaining(outer), 900);
    fake_clock_advance_us(500 * MS);
    assert_status(OK, rowlock_renew(outer, 0, NULL));
    assert_int_equal(rowlock_remaining(outer), 900);
    inner = hold(client, "a", 1200, NULL);
    assert_int_equal(rowlock_remaining(inner), 1080);
    rowlock_release(&inner, NULL);
    assert_status(OK, rowlock_adopt(&adopted, client, "a", rowlock_fence(outer), NULL, NULL));
    assert_true(rowlock_remaining(adopted) <= 30000);
    rowlock_release(&adopted, NULL);
    rowlock_release(&outer, NULL);
    rowlock_close(&client);
}

/* The old handles have not asked since, and would believe that they hold what is another grant's.
 */
static void test_grant_after_a_forced_release_ends_the_old_handles(void **state)
{
    rowlock_client *client = open_client();
    rowlock_lock *old = hold(client, "a", 0, "me"), *new;

    (void)state;
    assert_status(OK, rowlock_force_release(client, "a", NULL, NULL));
    new = hold(client, "a", 0, "me");
    assert_true(rowlock_fence(new) > rowlock_fence(old));
    assert_status(LOST, rowlock_check(old));
    assert_status(LOST, rowlock_release(&old, NULL));
    assert_status(OK, rowlock_check(new));
    assert_status(OK, rowlock_release(&new, NULL));
    rowlock_close(&client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_deadline_counts_from_before_the_request, fresh),
        cmocka_unit_test_setup(test_a_step_of_the_clock_lengthens_no_lease, fresh),
        cmocka_unit_test_setup(test_slow_way_there_shortens_the_local_lease_too, fresh),
        cmocka_unit_test_setup(test_renew_extends_from_before_its_request, fresh),
        cmocka_unit_test_setup(test_renew_after_the_deadline_is_lost_without_a_request, fresh),
        cmocka_unit_test_setup(
            test_renew_answered_after_the_deadline_stays_lost_and_the_release_sends_nothing, fresh),
        cmocka_unit_test_setup(test_late_reentry_gives_back_its_own_hold_only, fresh),
        cmocka_unit_test_setup(test_taken_over_is_lost_for_all_handles_for_ever, fresh),
        cmocka_unit_test_setup(test_reentry_counts_and_shares_the_tenure, fresh),
        cmocka_unit_test_setup(test_reentry_with_a_shorter_ttl_does_not_shorten, fresh),
        cmocka_unit_test_setup(test_new_tenure_of_the_same_owner_ends_the_old_handles, fresh),
        cmocka_unit_test_setup(test_grant_after_a_forced_release_ends_the_old_handles, fresh),
        cmocka_unit_test_setup(test_renew_of_a_row_that_a_transaction_locks_is_busy_not_lost,
                               fresh),
        cmocka_unit_test_setup(test_renew_asks_again_for_a_row_that_is_locked_for_a_moment, fresh),
        cmocka_unit_test_setup(test_close_releases_everything_in_a_batch, fresh),
        cmocka_unit_test_setup(test_close_gives_back_only_its_own_holds_of_a_shared_owner, fresh),
        cmocka_unit_test_setup(test_with_runs_and_releases_and_tells_of_a_loss, fresh),
        cmocka_unit_test_setup(test_adopt_continues_a_tenure, fresh),
        cmocka_unit_test_setup(test_detach_leaves_the_lock_held_for_its_ttl, fresh),
        cmocka_unit_test_setup(test_detach_of_one_handle_leaves_the_others_their_holds, fresh),
        cmocka_unit_test_setup(test_detach_says_when_there_is_nothing_to_leave, fresh),
    };

    return cmocka_run_group_tests_name("core/lease", tests, NULL, NULL);
}
