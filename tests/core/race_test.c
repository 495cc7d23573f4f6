/* SPDX-License-Identifier: MIT
 *
 * Calls that meet in the middle of each other: each case is an order of events in which there were
 * two holders, a lock that nobody freed, or memory that was gone. A driver that does more than it
 * is asked puts the second event inside the first. */
#include <pthread.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core_test.h"

static rowlock_client *client, *other;
static rowlock_lock *shared, *second;
static int answer, happened;

static int set_up(void **state)
{
    fresh(state);
    client = other = NULL;
    shared = second = NULL;
    answer = 99;
    happened = 0;
    return 0;
}

static rowlock_client *open_with(const rowlock_driver *driver)
{
    rowlock_client *opened = NULL;

    assert_status(OK, rowlock_open(&opened, driver, "fake", NULL, NULL));
    return opened;
}

static int try_acquire(rowlock_lock **out, rowlock_client *who, const char *owner)
{
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;

    options.owner = owner;
    return rowlock_acquire(out, who, "a", &options, NULL);
}

/* ---- close ---- */

static void *release_shared(void *unused)
{
    (void)unused;
    answer = rowlock_release(&shared, NULL);
    return NULL;
}

static int release_during_release(void *conn, rowlock_op *ops, size_t n, uint32_t timeout_ms,
                                  rowlock_error *err)
{
    pthread_t thread;

    if (shared != NULL && pthread_create(&thread, NULL, release_shared, NULL) == 0)
        pthread_join(thread, NULL);
    return fake_driver()->release(conn, ops, n, timeout_ms, err);
}

static void test_handle_released_while_close_releases_it(void **state)
{
    rowlock_driver driver = *fake_driver();

    (void)state;
    driver.release = release_during_release;
    client = open_with(&driver);
    shared = hold(client, "a", 0, NULL);
    rowlock_close(&client);
    assert_int_equal(answer, ROWLOCK_ECLOSED);
    assert_false(fake_is_live("a"));
}

static void *close_other(void *unused)
{
    (void)unused;
    rowlock_close(&other);
    return NULL;
}

/* Runs inside rowlock_list(), for which close waits. */
static int release_while_close_waits(const rowlock_row *row, void *payload)
{
    pthread_t *thread = payload;

    (void)row;
    if (pthread_create(thread, NULL, close_other, NULL) != 0)
        return 1;
    while (rowlock_check(shared) != ROWLOCK_ECLOSED)
        sched_yield();
    answer = rowlock_release(&shared, NULL);
    return 1;
}

static void test_handle_released_while_close_waits_is_released_by_close(void **state)
{
    pthread_t thread;

    (void)state;
    fake_clock_freeze();
    client = other = open_client();
    shared = hold(client, "a", 0, NULL);
    assert_status(OK, rowlock_list(client, NULL, release_while_close_waits, &thread, NULL));
    pthread_join(thread, NULL);
    assert_int_equal(answer, ROWLOCK_ECLOSED);
    assert_false(fake_is_live("a"));
}

static void test_close_leaves_the_holds_of_others_under_a_generated_owner(void **state)
{
    rowlock_lock *third = NULL;

    (void)state;
    client = open_client();
    other = open_client();
    shared = hold(client, "a", 0, NULL);
    second = hold(other, "a", 0, rowlock_owner(shared));
    rowlock_close(&client);
    assert_int_equal(try_acquire(&third, other, "third"), ROWLOCK_BUSY);
    assert_status(OK, rowlock_check(second));
    rowlock_release(&shared, NULL);
    assert_status(OK, rowlock_release(&second, NULL));
    assert_false(fake_is_live("a"));
    rowlock_close(&other);
}

static void test_close_tries_again_on_another_connection(void **state)
{
    (void)state;
    client = open_client();
    shared = hold(client, "a", 0, NULL);
    fake_plan(1, FAKE_NO_CONNECTION, 0);
    rowlock_close(&client);
    assert_false(fake_is_live("a"));
    rowlock_release(&shared, NULL);
}

/* ---- force ---- */

static void enter_second(void)
{
    if (second == NULL)
        answer = try_acquire(&second, other, "second");
}

static void test_forced_release_that_is_repeated_spares_the_successor(void **state)
{
    rowlock_lock *third = NULL;

    (void)state;
    client = open_client();
    other = open_client();
    shared = hold(client, "a", 0, "dead");
    open_another(client);
    fake_plan(2, FAKE_CUT_AFTER, 0); /* 1 looks up the fence */
    fake_clock_on_sleep(enter_second);
    assert_status(OK, rowlock_force_release(client, "a", NULL, NULL));
    assert_int_equal(answer, ROWLOCK_OK);
    assert_status(OK, rowlock_renew(second, 0, NULL));
    assert_int_equal(try_acquire(&third, client, "third"), ROWLOCK_BUSY);
    assert_status(LOST, rowlock_release(&shared, NULL));
    assert_status(OK, rowlock_release(&second, NULL));
    rowlock_close(&client);
    rowlock_close(&other);
}

/* Between the grant and its being handed out somebody ends it, and another thread gets the next. */
static int overtaken_acquire(void *conn, rowlock_op *ops, size_t n, int all, uint32_t timeout_ms,
                             rowlock_error *err)
{
    int rc = fake_driver()->acquire(conn, ops, n, all, timeout_ms, err);

    if (!happened) {
        happened = 1;
        rowlock_force_release(client, "a", NULL, NULL);
        fake_clock_advance_us(200000); /* so slow that others do not wait for its answer */
        answer = try_acquire(&second, client, "o");
    }
    return rc;
}

static void test_grant_that_was_overtaken_does_not_end_the_newer(void **state)
{
    rowlock_driver driver = *fake_driver();

    (void)state;
    driver.acquire = overtaken_acquire;
    client = open_with(&driver);
    assert_int_equal(try_acquire(&shared, client, "o"), ROWLOCK_OK);
    assert_int_equal(answer, ROWLOCK_OK);
    assert_true(rowlock_fence(second) > rowlock_fence(shared));
    assert_status(LOST, rowlock_check(shared));
    assert_status(OK, rowlock_check(second));
    assert_status(LOST, rowlock_release(&shared, NULL));
    assert_status(OK, rowlock_release(&second, NULL));
    assert_false(fake_is_live("a"));
    rowlock_close(&client);
}

/* ---- adopt ---- */

static rowlock_lock *adopt(rowlock_client *who, rowlock_lock *lock)
{
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;
    rowlock_lock *adopted = NULL;

    options.owner = rowlock_owner(lock);
    options.ttl_ms = 1000;
    assert_status(OK, rowlock_adopt(&adopted, who, "a", rowlock_fence(lock), &options, NULL));
    return adopted;
}

static void test_adopter_whose_renewal_is_late_leaves_the_hold_to_its_owner(void **state)
{
    rowlock_lock *inner, *third = NULL;

    (void)state;
    client = open_client();
    other = open_client();
    shared = hold(client, "a", 1000, "o");
    second = adopt(other, shared);
    inner = hold(other, "a", 1000, "o");
    assert_status(OK, rowlock_release(&inner, NULL));
    fake_clock_advance_us(500 * MS);
    assert_status(OK, rowlock_renew(shared, 60000, NULL));
    fake_slow(0, 500 * MS);
    assert_status(LOST, rowlock_renew(second, 1000, NULL));
    fake_slow(0, 0);
    assert_status(OK, rowlock_check(shared));
    assert_int_equal(try_acquire(&third, other, "third"), ROWLOCK_BUSY);
    rowlock_release(&second, NULL);
    assert_status(OK, rowlock_release(&shared, NULL));
    rowlock_close(&client);
    rowlock_close(&other);
}

static void test_adopted_handle_is_lost_when_the_hold_is_released(void **state)
{
    (void)state;
    client = open_client();
    shared = hold(client, "a", 30000, "o");
    second = adopt(client, shared);
    assert_status(OK, rowlock_release(&shared, NULL));
    assert_false(fake_is_live("a"));
    assert_status(LOST, rowlock_check(second));
    assert_status(LOST, rowlock_release(&second, NULL));
    rowlock_close(&client);
}

/* ---- fork ---- */

static void test_cancel_fired_in_a_child_leaves_the_parents_wait(void **state)
{
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;
    rowlock_cancel *cancel = NULL;
    pid_t pid;

    (void)state;
    client = open_client();
    shared = hold(client, "a", 5000, "x");
    assert_status(OK, rowlock_cancel_new(&cancel, NULL));
    pid = fork();
    if (pid == 0) {
        rowlock_cancel_fire(cancel);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    options.wait_ms = 100;
    options.cancel = cancel;
    assert_status(TIMEOUT, rowlock_acquire(&second, client, "a", &options, NULL));
    rowlock_cancel_free(&cancel);
    rowlock_release(&shared, NULL);
    rowlock_close(&client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_handle_released_while_close_releases_it, set_up),
        cmocka_unit_test_setup(test_handle_released_while_close_waits_is_released_by_close, set_up),
        cmocka_unit_test_setup(test_close_leaves_the_holds_of_others_under_a_generated_owner,
                               set_up),
        cmocka_unit_test_setup(test_close_tries_again_on_another_connection, set_up),
        cmocka_unit_test_setup(test_forced_release_that_is_repeated_spares_the_successor, set_up),
        cmocka_unit_test_setup(test_grant_that_was_overtaken_does_not_end_the_newer, set_up),
        cmocka_unit_test_setup(test_adopter_whose_renewal_is_late_leaves_the_hold_to_its_owner,
                               set_up),
        cmocka_unit_test_setup(test_adopted_handle_is_lost_when_the_hold_is_released, set_up),
        cmocka_unit_test_setup(test_cancel_fired_in_a_child_leaves_the_parents_wait, set_up),
    };

    return cmocka_run_group_tests_name("core/race", tests, NULL, NULL);
}
