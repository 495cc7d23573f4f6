/* SPDX-License-Identifier: MIT
 *
 * Locks and the guard in the application's own transaction. */
#include "core_test.h"

#include "core.h"

static const char *const ab[] = {"b", "a"};

static int lock(uint64_t *fences, rowlock_client *client, fake_session *session, rowlock_error *err)
{
    return rowlock_native_lock(fences, client, fake_driver(), session, ab, 2, NULL, err);
}

static int guard(rowlock_lock *held, fake_session *session, rowlock_error *err)
{
    return rowlock_native_guard(held, fake_driver(), session, err);
}

static void test_locks_stand_until_the_application_ends_them(void **state)
{
    rowlock_client *client = open_client();
    fake_session one = {1, "here"}, two = {1, "here"};
    uint64_t fences[2] = {0};

    (void)state;
    assert_status(OK, lock(fences, client, &one, NULL));
    assert_int_equal(fences[0], fake_find("b")->new_fence);
    assert_int_equal(fences[1], fake_find("a")->new_fence);
    assert_status(OK, lock(NULL, client, &one, NULL)); /* its own are not in its way */
    assert_status(BUSY, lock(NULL, client, &two, NULL));
    fake_session_end(&one, 1);
    assert_true(fake_find("a")->fence >= fences[1]);
    assert_status(OK, lock(NULL, client, &two, NULL));
    fake_session_end(&two, 0);
    assert_int_equal(fake_connections(), 1); /* looks only */
    rowlock_close(&client);
}

/* The client's own connection fails, in the question for the place and in the look at the rows: the
 * application's connection, and its transaction, do not. */
static void test_a_failure_of_the_clients_own_connection_is_told_apart(void **state)
{
    static const enum fake_fault faults[] = {FAKE_NO_CONNECTION, FAKE_CUT_BEFORE};

    (void)state;
    for (int i = 0; i < 4; i++) {
        rowlock_client *client = open_client();
        fake_session session = {1, "here"};
        rowlock_lock *held = hold(client, "held", 60000, NULL);
        rowlock_error err;

        fake_plan(1 + i / 2, faults[i % 2], 1);
        assert_status(EPOOL, lock(NULL, client, &session, &err));
        assert_int_equal(err.status, ROWLOCK_EPOOL);
        assert_true(err.retryable && err.message[0] != '\0');
        fake_plan(1, faults[i % 2], 1);
        if (i < 2) /* the place is not known */
            assert_status(EPOOL, guard(held, &session, NULL));
        fake_plan(0, FAKE_NONE, 0);
        assert_status(OK, lock(NULL, client, &session, NULL));
        fake_session_end(&session, 1);
        rowlock_release(&held, NULL);
        rowlock_close(&client);
    }
}

static void test_nothing_of_it_is_repeated_on_the_applications_connection(void **state)
{
    static const struct {
        enum fake_fault fault;
        int status;
    } faults[] = {{FAKE_DEADLOCK, ROWLOCK_EDRIVER}, {FAKE_NO_CONNECTION, ROWLOCK_ECONNECT}};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        rowlock_client *client = open_client();
        fake_session session = {1, "here"};
        rowlock_error err;

        fake_plan(3, faults[i].fault, 0); /* after the place and the look */
        assert_int_equal(lock(NULL, client, &session, &err), faults[i].status);
        assert_int_equal(fake_calls(), 3);
        assert_int_equal(err.retryable, 1);
        rowlock_close(&client);
    }
}

static void test_the_place_is_asked_for_once(void **state)
{
    rowlock_client *client = open_client();
    fake_session session = {1, "here"};

    (void)state;
    assert_status(OK, lock(NULL, client, &session, NULL));
    fake_plan(0, FAKE_NONE, 0);
    assert_status(OK, lock(NULL, client, &session, NULL));
    assert_int_equal(fake_calls(), 2);
    fake_session_end(&session, 0);
    rowlock_close(&client);
}

static void test_another_database_is_refused(void **state)
{
    rowlock_client *client = open_client();
    rowlock_lock *held = hold(client, "held", 1000, "x");
    fake_session there = {1, "there"};
    rowlock_error err;

    (void)state;
    assert_status(EINVAL, lock(NULL, client, &there, &err));
    assert_non_null(strstr(err.message, "another server or database"));
    assert_status(EINVAL, guard(held, &there, &err));
    assert_int_equal(rowlock_check(held), ROWLOCK_OK);
    rowlock_release(&held, NULL);
    rowlock_close(&client);
}

static void test_a_server_that_was_started_anew_is_asked_again(void **state)
{
    rowlock_client *client = open_client();
    rowlock_lock *held = hold(client, "held", 1000, "x");
    fake_session session = {1, "here"};

    (void)state;
    assert_status(OK, guard(held, &session, NULL));
    fake_session_end(&session, 1);
    fake_here = "anew";
    session = (fake_session){1, "anew"};
    assert_status(OK, guard(held, &session, NULL));
    assert_status(OK, lock(NULL, client, &session, NULL));
    fake_here = "anew again";
    session.place = "anew again";
    assert_status(OK, lock(NULL, client, &session, NULL));
    fake_session_end(&session, 1);
    rowlock_release(&held, NULL);
    rowlock_close(&client);
}

static void test_a_bad_connection_changes_nothing(void **state)
{
    rowlock_client *client = open_client();
    rowlock_lock *held = hold(client, "held", 1000, "x");
    fake_session none = {0, "here"}, open = {1, "here"};
    rowlock_driver other = *fake_driver();
    rowlock_error err;

    (void)state;
    other.name = "another";
    assert_status(EINVAL, lock(NULL, client, &none, &err));
    assert_non_null(strstr(err.message, "transaction"));
    assert_status(EINVAL, lock(NULL, client, NULL, &err));
    assert_status(EINVAL, rowlock_native_lock(NULL, client, &other, &open, ab, 2, NULL, &err));
    assert_non_null(strstr(err.message, "another"));
    assert_status(EINVAL, rowlock_native_lock(NULL, client, NULL, &open, ab, 2, NULL, &err));
    assert_null(fake_find("a"));
    assert_status(EINVAL, guard(held, &none, &err));
    assert_status(EINVAL, guard(held, NULL, &err));
    assert_status(EINVAL, guard(NULL, &open, &err));
    assert_status(EINVAL, rowlock_native_guard(held, &other, &open, &err));
    assert_int_equal(rowlock_check(held), ROWLOCK_OK);
    rowlock_close(&client);
    assert_status(ECLOSED, guard(held, &open, &err));
    rowlock_release(&held, NULL);
}

static void test_a_guarded_lock_is_nobody_elses_until_the_commit(void **state)
{
    rowlock_client *client = open_client();
    rowlock_lock *held = hold(client, "a", 1000, "x"), *thief = NULL;
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;
    fake_session session = {1, "here"};
    uint64_t fence = rowlock_fence(held);

    (void)state;
    options.owner = "thief";
    assert_status(OK, guard(held, &session, NULL));
    assert_status(BUSY, rowlock_renew(held, 0, NULL));
    assert_int_equal(rowlock_check(held), ROWLOCK_OK);
    fake_clock_advance_us(2000 * MS);
    assert_int_equal(rowlock_check(held), ROWLOCK_LOST); /* by the clock, not by the guard */
    assert_status(BUSY, rowlock_acquire(&thief, client, "a", &options, NULL));
    fake_session_end(&session, 1);
    assert_status(OK, rowlock_acquire(&thief, client, "a", &options, NULL));
    assert_true(rowlock_fence(thief) > fence);
    rowlock_release(&held, NULL);
    rowlock_release(&thief, NULL);
    rowlock_close(&client);
}

static void test_lost_is_told_without_asking_once_the_deadline_is_past(void **state)
{
    rowlock_client *client = open_client();
    rowlock_lock *held = hold(client, "a", 1000, "x");
    fake_session session = {1, "here"};

    (void)state;
    fake_clock_advance_us(950 * MS); /* the margin: the database would still say yes */
    assert_true(fake_is_live("a"));
    fake_plan(0, FAKE_NONE, 0);
    assert_status(LOST, guard(held, &session, NULL));
    assert_int_equal(fake_calls(), 0);
    assert_false(fake_find("a")->locked);
    rowlock_release(&held, NULL);
    rowlock_close(&client);
}

static void test_lost_by_the_databases_word_is_for_ever(void **state)
{
    rowlock_client *client = open_client();
    rowlock_lock *held = hold(client, "a", 1000, "x");
    fake_session session = {1, "here"};

    (void)state;
    assert_status(OK, rowlock_force_release(client, "a", NULL, NULL));
    assert_int_equal(rowlock_check(held), ROWLOCK_OK);
    assert_status(LOST, guard(held, &session, NULL));
    assert_int_equal(rowlock_check(held), ROWLOCK_LOST);
    assert_status(LOST, rowlock_release(&held, NULL));
    rowlock_close(&client);
}

static void let_go(void)
{
    if (fake_clock_sleeps() == 3)
        fake_find("a")->locked = 0;
}

static void test_a_row_locked_for_a_moment_is_asked_for_again(void **state)
{
    rowlock_client *client = open_client();
    rowlock_lock *held = hold(client, "a", 60000, "x");
    fake_session session = {1, "here"};
    rowlock_error err;

    (void)state;
    fake_find("a")->locked = 1;
    fake_clock_on_sleep(let_go);
    assert_status(OK, guard(held, &session, NULL));
    fake_clock_on_sleep(NULL);
    fake_find("a")->locker = NULL;
    fake_clock_reset();
    assert_status(EDRIVER, guard(held, &session, &err));
    assert_int_equal(err.retryable, 1);
    assert_in_range(fake_clock_slept_us(), 4900 * MS, 5000 * MS);
    assert_int_equal(rowlock_check(held), ROWLOCK_OK);
    rowlock_release(&held, NULL);
    rowlock_close(&client);
}

static int set_up(void **state)
{
    fake_here = "here";
    return fresh(state);
}

#define TEST(name) cmocka_unit_test_setup(test_##name, set_up)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(locks_stand_until_the_application_ends_them),
        TEST(a_failure_of_the_clients_own_connection_is_told_apart),
        TEST(nothing_of_it_is_repeated_on_the_applications_connection),
        TEST(the_place_is_asked_for_once),
        TEST(another_database_is_refused),
        TEST(a_server_that_was_started_anew_is_asked_again),
        TEST(a_bad_connection_changes_nothing),
        TEST(a_guarded_lock_is_nobody_elses_until_the_commit),
        TEST(lost_is_told_without_asking_once_the_deadline_is_past),
        TEST(lost_by_the_databases_word_is_for_ever),
        TEST(a_row_locked_for_a_moment_is_asked_for_again),
    };

    return cmocka_run_group_tests_name("core/guard", tests, NULL, NULL);
}
