/* SPDX-License-Identifier: MIT
 *
 * Many handles released at once. */
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "core_test.h"

enum { N = 50 };

static rowlock_client *client;
static rowlock_lock *locks[N];
static int statuses[N];

static int set_up(void **state)
{
    char name[16];

    fresh(state);
    client = open_client();
    for (int i = 0; i < N; i++) {
        snprintf(name, sizeof name, "n%02d", N - i);
        locks[i] = hold(client, name, 10000, "me");
        statuses[i] = 99;
    }
    fake_plan(0, FAKE_NONE, 0);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    for (int i = 0; i < N; i++)
        rowlock_release(&locks[i], NULL);
    rowlock_close(&client);
    assert_int_equal(fake_connections(), 0);
    return 0;
}

static size_t live_rows(void)
{
    size_t live = 0;
    char name[16];

    for (int i = 0; i < N; i++) {
        snprintf(name, sizeof name, "n%02d", N - i);
        live += fake_is_live(name) != 0;
    }
    return live;
}

static uint64_t released(void)
{
    rowlock_counters counters = ROWLOCK_COUNTERS_INIT;

    assert_status(OK, rowlock_stats(&counters, client, NULL));
    assert_int_equal(counters.held, 0);
    return counters.released;
}

static void test_all_go_in_one_request(void **state)
{
    rowlock_error err;

    (void)state;
    assert_status(OK, rowlock_release_many(statuses, locks, N, &err));
    assert_int_equal(fake_calls(), 1);
    assert_int_equal(live_rows(), 0);
    for (int i = 0; i < N; i++) {
        assert_null(locks[i]);
        assert_int_equal(statuses[i], ROWLOCK_OK);
    }
    assert_int_equal(released(), N);
}

static void test_a_re_entry_is_one_request_more(void **state)
{
    rowlock_lock *pair[2] = {hold(client, "twice", 10000, "me"),
                             hold(client, "twice", 10000, "me")};

    (void)state;
    fake_plan(0, FAKE_NONE, 0);
    assert_status(OK, rowlock_release_many(NULL, pair, 2, NULL));
    assert_int_equal(fake_calls(), 2);
    assert_false(fake_is_live("twice"));
    pair[0] = hold(client, "twice", 10000, "me");
    pair[1] = hold(client, "twice", 10000, "me");
    assert_status(OK, rowlock_release_many(NULL, pair, 1, NULL));
    assert_int_equal(fake_find("twice")->hold_count, 1);
    assert_status(OK, rowlock_check(pair[1]));
    assert_status(OK, rowlock_release(&pair[1], NULL));
}

static void test_each_has_its_own_answer(void **state)
{
    rowlock_error err;

    (void)state;
    assert_status(OK, rowlock_release(&locks[2], NULL));
    assert_status(OK, rowlock_force_release(client, "n40", NULL, NULL)); /* locks[10] */
    assert_status(LOST, rowlock_release_many(statuses, locks, N, &err));
    assert_int_equal(err.status, ROWLOCK_LOST);
    for (int i = 0; i < N; i++)
        assert_int_equal(statuses[i], i == 10 ? ROWLOCK_LOST : ROWLOCK_OK);
    assert_int_equal(live_rows(), 0);
    assert_int_equal(released(), N - 1);
}

static void test_what_is_lost_is_not_sent(void **state)
{
    (void)state;
    fake_clock_advance_us(9500 * MS);
    assert_status(LOST, rowlock_release_many(statuses, locks, N, NULL));
    assert_int_equal(fake_calls(), 0);
    assert_int_equal(live_rows(), N);
    for (int i = 0; i < N; i++)
        assert_true(locks[i] == NULL && statuses[i] == ROWLOCK_LOST);
}

static void test_a_row_that_others_of_the_owner_changed_is_sent_again(void **state)
{
    rowlock_client *other = open_client();
    rowlock_lock *theirs = hold(other, "n40", 10000, "me");

    (void)state;
    fake_plan(0, FAKE_NONE, 0);
    assert_status(OK, rowlock_release_many(NULL, locks, N, NULL));
    assert_int_equal(fake_calls(), 2);
    assert_int_equal(fake_find("n40")->hold_count, 1);
    assert_status(OK, rowlock_release(&theirs, NULL));
    rowlock_close(&other);
}

static void test_a_lost_answer_is_asked_for_again(void **state)
{
    (void)state;
    fake_plan(1, FAKE_CUT_AFTER, 0);
    assert_status(OK, rowlock_release_many(statuses, locks, N, NULL));
    assert_int_equal(live_rows(), 0);
    assert_int_equal(released(), N);
}

static void test_a_dead_database_takes_one_bound(void **state)
{
    int64_t start = rlk_clock_us();
    rowlock_error err;

    (void)state;
    fake_plan(1, FAKE_NO_CONNECTION, 1);
    assert_status(ECONNECT, rowlock_release_many(statuses, locks, N, &err));
    fake_plan(0, FAKE_NONE, 0);
    assert_true(rlk_clock_us() - start <= 5500 * MS);
    assert_true(err.message[0] != '\0');
    for (int i = 0; i < N; i++)
        assert_true(locks[i] == NULL && statuses[i] == ROWLOCK_ECONNECT);
}

static void test_wrong_arguments_do_nothing(void **state)
{
    rowlock_client *other = open_client();
    rowlock_lock *theirs = hold(other, "other", 10000, "me");
    rowlock_lock *several[2] = {locks[0], theirs}, *twice[2] = {locks[0], locks[0]};
    rowlock_lock *none[2] = {NULL, NULL};
    rowlock_error err;

    (void)state;
    assert_status(EINVAL, rowlock_release_many(statuses, several, 2, &err));
    assert_status(EINVAL, rowlock_release_many(statuses, twice, 2, &err));
    assert_status(EINVAL, rowlock_release_many(statuses, NULL, 2, &err));
    assert_status(OK, rowlock_check(locks[0]));
    assert_status(OK, rowlock_release_many(NULL, NULL, 0, &err));
    assert_status(OK, rowlock_release_many(statuses, none, 2, &err));
    assert_int_equal(statuses[1], ROWLOCK_OK);
    assert_status(OK, rowlock_release(&theirs, NULL));
    rowlock_close(&other);
}

static void test_after_the_close_the_handles_are_freed(void **state)
{
    (void)state;
    rowlock_close(&client);
    assert_status(ECLOSED, rowlock_release_many(statuses, locks, N, NULL));
    for (int i = 0; i < N; i++)
        assert_true(locks[i] == NULL && statuses[i] == ROWLOCK_ECLOSED);
}

static void test_in_a_child_nothing_is_touched(void **state)
{
    int status = 0;
    pid_t pid = fork();

    (void)state;
    if (pid == 0)
        _exit(rowlock_release_many(statuses, locks, N, NULL) == ROWLOCK_EFORK && locks[0] == NULL &&
                      statuses[0] == ROWLOCK_EFORK
                  ? 0
                  : 1);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(live_rows(), N);
}

#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(all_go_in_one_request),
        TEST(a_re_entry_is_one_request_more),
        TEST(each_has_its_own_answer),
        TEST(what_is_lost_is_not_sent),
        TEST(a_row_that_others_of_the_owner_changed_is_sent_again),
        TEST(a_lost_answer_is_asked_for_again),
        TEST(a_dead_database_takes_one_bound),
        TEST(wrong_arguments_do_nothing),
        TEST(after_the_close_the_handles_are_freed),
        TEST(in_a_child_nothing_is_touched),
    };

    return cmocka_run_group_tests_name("core/release_many", tests, NULL, NULL);
}
