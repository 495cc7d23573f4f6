/* SPDX-License-Identifier: MIT
 *
 * Faults at every call: what is repeated is not done twice, and unknown is never yes. */
#include "core.h"
#include "core_test.h"

static const enum fake_fault passing[] = {FAKE_NO_CONNECTION, FAKE_CUT_BEFORE, FAKE_CUT_AFTER,
                                          FAKE_DEADLOCK};

/* Each kind of fault that passes, at each of the first calls after opening. */
#define FOR_EACH_PASSING_FAULT(at, kind) \
    for (int at = 1; at <= 3; at++)      \
        for (size_t kind = 0; kind < sizeof passing / sizeof *passing; kind++)

static void test_acquire_survives_a_fault_at_any_call_and_counts_once(void **state)
{
    FOR_EACH_PASSING_FAULT(at, kind)
    {
        rowlock_client *client;
        rowlock_lock *lock;

        fresh(state);
        client = open_client();
        fake_plan(at, passing[kind], 0);
        lock = hold(client, "a", 0, NULL);
        assert_int_equal(fake_find("a")->hold_count, 1);
        assert_true(fake_find("a")->fence == rowlock_fence(lock));
        assert_status(OK, rowlock_release(&lock, NULL));
        assert_false(fake_is_live("a"));
        rowlock_close(&client);
    }
}

static void test_reentry_survives_a_fault_at_any_call_and_counts_once(void **state)
{
    FOR_EACH_PASSING_FAULT(at, kind)
    {
        rowlock_client *client;
        rowlock_lock *one, *two;

        fresh(state);
        client = open_client();
        one = hold(client, "a", 0, NULL);
        fake_plan(at, passing[kind], 0);
        two = hold(client, "a", 0, NULL);
        assert_int_equal(fake_find("a")->hold_count, 2);
        assert_true(rowlock_fence(one) == rowlock_fence(two));
        fake_plan(at, passing[kind], 0);
        assert_status(OK, rowlock_release(&two, NULL));
        assert_int_equal(fake_find("a")->hold_count, 1);
        fake_plan(at, passing[kind], 0);
        assert_status(OK, rowlock_release(&one, NULL));
        assert_int_equal(fake_find("a")->hold_count, 0);
        assert_false(fake_is_live("a"));
        rowlock_close(&client);
    }
}

static void test_renew_and_force_survive_a_fault_at_any_call(void **state)
{
    FOR_EACH_PASSING_FAULT(at, kind)
    {
        rowlock_client *client;
        rowlock_lock *lock;
        uint64_t fence;

        fresh(state);
        client = open_client();
        lock = hold(client, "a", 10000, NULL);
        fence = rowlock_fence(lock);
        fake_clock_advance_us(5000 * MS);
        fake_plan(at, passing[kind], 0);
        assert_status(OK, rowlock_renew(lock, 0, NULL));
        assert_true(rowlock_remaining(lock) > 8000);
        fake_plan(at, passing[kind], 0);
        assert_status(OK, rowlock_force_release(client, "a", NULL, NULL));
        assert_true(fake_find("a")->fence > fence);
        fake_plan(0, FAKE_NONE, 0);
        assert_status(LOST, rowlock_release(&lock, NULL));
        rowlock_close(&client);
    }
}

static void test_retry_after_the_lease_ended_is_a_new_tenure(void **state)
{
    rowlock_client *client = open_client();
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;
    rowlock_lock *lock = NULL;

    (void)state;
    options.ttl_ms = 50;
    fake_slow(0, 60 * MS); /* each answer takes longer than the lease */
    fake_plan(1, FAKE_CUT_AFTER, 0);
    assert_status(ECONNECT, rowlock_acquire(&lock, client, "a", &options, NULL));
    assert_int_equal(fake_find("a")->hold_count, 1);
    rowlock_close(&client);
}

static void test_lost_answer_and_no_database_after_it_is_unknown(void **state)
{
    rowlock_client *client = open_client();
    rowlock_lock *lock = NULL;
    rowlock_error err;

    (void)state;
    fake_plan(1, FAKE_CUT_AFTER, 1); /* done, then nothing answers */
    assert_status(EUNKNOWN, rowlock_acquire(&lock, client, "a", NULL, &err));
    assert_null(lock);
    assert_int_equal(err.status, ROWLOCK_EUNKNOWN);
    assert_true(err.message[0] != '\0');
    assert_true(fake_is_live("a")); /* a ghost, until its lease ends */
    fake_plan(0, FAKE_NONE, 0);
    fake_clock_advance_us(30000 * MS);
    assert_false(fake_is_live("a"));
    rowlock_close(&client);
}

static void test_no_database_at_all_is_econnect_by_the_bound(void **state)
{
    rowlock_options options = ROWLOCK_OPTIONS_INIT;
    rowlock_client *client;
    rowlock_lock *lock = NULL;
    rowlock_error err;

    (void)state;
    options.call_timeout_ms = 700;
    client = open_client_with(&options);
    fake_plan(1, FAKE_NO_CONNECTION, 1);
    assert_status(ECONNECT, rowlock_acquire(&lock, client, "a", NULL, &err));
    assert_true(fake_clock_slept_us() <= 700 * MS);
    assert_true(fake_calls() > 2); /* it did try again */
    assert_null(fake_find("a"));
    fake_plan(0, FAKE_NONE, 0);
    rowlock_close(&client);
}

static void test_open_does_not_try_again(void **state)
{
    rowlock_client *client = NULL;

    (void)state;
    fake_plan(1, FAKE_NO_CONNECTION, 0);
    assert_status(ECONNECT, rowlock_open(&client, fake_driver(), "fake", NULL, NULL));
    assert_int_equal(fake_calls(), 1);
    assert_int_equal(fake_clock_sleeps(), 0);
    assert_null(client);
}

static void test_refusal_is_reported_at_once(void **state)
{
    rowlock_client *client = open_client();
    rowlock_lock *lock = NULL;
    rowlock_error err;

    (void)state;
    fake_plan(1, FAKE_REFUSED, 1);
    assert_status(EDRIVER, rowlock_acquire(&lock, client, "a", NULL, &err));
    assert_int_equal(fake_calls(), 1);
    assert_int_equal(err.native_code, 1142);
    assert_string_equal(err.sqlstate, "42000");
    assert_int_equal(err.retryable, 0);
    fake_plan(0, FAKE_NONE, 0);
    rowlock_close(&client);
}

static void take_over(void)
{
    fake_row *row = fake_find("a");

    row->fence++;
    row->owner[0] = 'x';
}

/* The first request freed it and somebody was quick, or it was taken by force before: nobody can
 * say. */
static void test_repeated_release_that_finds_another_owner_is_unknown(void **state)
{
    rowlock_client *client = open_client();
    rowlock_lock *lock = hold(client, "a", 0, NULL);
    uint64_t fence = rowlock_fence(lock);

    (void)state;
    fake_plan(1, FAKE_CUT_AFTER, 0);
    fake_clock_on_sleep(take_over);
    assert_status(EUNKNOWN, rowlock_release(&lock, NULL));
    assert_true(fake_find("a")->fence == fence + 1);
    rowlock_close(&client);
}

static rowlock_client *other_process;
static rowlock_lock *entered;

static void enter_again(void)
{
    if (entered == NULL)
        entered = hold(other_process, "a", 0, "shared");
}

/* Somebody of the same owner enters between two requests: the release is still the one it was. */
static void test_release_finds_the_row_changed_and_goes_on(void **state)
{
    rowlock_client *client = open_client();
    rowlock_lock *lock = hold(client, "a", 0, "shared");

    (void)state;
    other_process = open_client();
    entered = NULL;
    enter_again();
    assert_int_equal(fake_find("a")->hold_count, 2);
    assert_status(OK, rowlock_release(&lock, NULL));
    assert_int_equal(fake_find("a")->hold_count, 1);
    assert_status(OK, rowlock_release(&entered, NULL));
    assert_false(fake_is_live("a"));
    rowlock_close(&client);
    rowlock_close(&other_process);
}

/* The answer was lost and the row is not as it was: to count once more could free what is held. */
static void test_release_never_counts_twice_when_others_enter_meanwhile(void **state)
{
    rowlock_client *client = open_client();
    rowlock_lock *one = hold(client, "a", 0, "shared"), *two = hold(client, "a", 0, "shared");

    (void)state;
    other_process = open_client();
    entered = NULL;
    fake_plan(1, FAKE_CUT_AFTER, 0);
    fake_clock_on_sleep(enter_again);
    assert_status(EUNKNOWN, rowlock_release(&two, NULL));
    assert_int_equal(fake_find("a")->hold_count, 2); /* `one` and `entered` */
    assert_status(OK, rowlock_release(&one, NULL));
    assert_true(fake_is_live("a"));
    assert_status(OK, rowlock_release(&entered, NULL));
    assert_false(fake_is_live("a"));
    rowlock_close(&client);
    rowlock_close(&other_process);
}

static void test_failed_renew_leaves_the_lock_held_until_its_deadline(void **state)
{
    rowlock_client *client = open_client();
    rowlock_lock *lock = hold(client, "a", 20000, NULL);

    (void)state;
    fake_plan(1, FAKE_NO_CONNECTION, 1);
    assert_status(ECONNECT, rowlock_renew(lock, 0, NULL));
    assert_status(OK, rowlock_check(lock));
    fake_plan(2, FAKE_CUT_BEFORE, 1); /* the first is the reconnect */
    assert_status(EUNKNOWN, rowlock_renew(lock, 0, NULL));
    assert_status(OK, rowlock_check(lock));
    fake_clock_advance_us(18000 * MS);
    assert_status(LOST, rowlock_check(lock));
    fake_plan(0, FAKE_NONE, 0);
    rowlock_release(&lock, NULL);
    rowlock_close(&client);
}

static void test_many_locks_survive_a_fault_all_or_none(void **state)
{
    static const char *const names[] = {"b", "a", "c"};

    FOR_EACH_PASSING_FAULT(at, kind)
    {
        rowlock_client *client;
        rowlock_lock *locks[3];

        fresh(state);
        client = open_client();
        fake_plan(at, passing[kind], 0);
        assert_status(OK, rowlock_acquire_many(locks, client, names, 3, NULL, NULL));
        for (int i = 0; i < 3; i++) {
            assert_true(fake_find(names[i])->fence == rowlock_fence(locks[i]));
            assert_int_equal(fake_find(names[i])->hold_count, 1);
            assert_status(OK, rowlock_release(&locks[i], NULL));
        }
        rowlock_close(&client);
    }
}

static void test_dead_connections_are_replaced_and_none_leaks(void **state)
{
    rowlock_client *client = open_client();

    (void)state;
    for (int i = 0; i < 20; i++) {
        rowlock_lock *lock;

        fake_plan(1, FAKE_CUT_AFTER, 0);
        lock = hold(client, "a", 0, NULL);
        assert_status(OK, rowlock_release(&lock, NULL));
    }
    assert_int_equal(fake_connections(), 1);
    rowlock_close(&client);
    assert_int_equal(fake_connections(), 0);
}

static void test_migrate_survives_faults_and_others(void **state)
{
    FOR_EACH_PASSING_FAULT(at, kind)
    {
        rowlock_options options = ROWLOCK_OPTIONS_INIT;
        rowlock_client *client;
        int version;

        fresh(state);
        fake_set_version(0);
        options.schema_policy = ROWLOCK_SCHEMA_IGNORE;
        client = open_client_with(&options);
        fake_plan(at, passing[kind], 0);
        assert_status(OK, rowlock_migrate(client, ROWLOCK_SCHEMA_LATEST, NULL));
        assert_status(OK, rowlock_schema_version(&version, client, NULL));
        assert_int_equal(version, 1);
        rowlock_close(&client);
    }
}

/* ---- taken for late ---- */

/* Another thread of the same owner was faster, by so many calls of the client's. */
static void outrun(const char *name, uint8_t by)
{
    fake_find(name)->attempt[ROWLOCK_ATTEMPT_SIZE - 1] =
        (uint8_t)(fake_find(name)->attempt[ROWLOCK_ATTEMPT_SIZE - 1] + by);
}

static void use(rowlock_client *client, const char *name)
{
    rowlock_lock *lock = hold(client, name, 0, NULL);

    assert_status(OK, rowlock_release(&lock, NULL));
}

static void test_acquire_that_is_taken_for_late_asks_anew(void **state)
{
    rowlock_client *client = open_client();
    rowlock_lock *lock;

    (void)state;
    use(client, "a");
    outrun("a", 3);
    lock = hold(client, "a", 0, NULL);
    assert_int_equal(fake_find("a")->hold_count, 1);
    assert_status(OK, rowlock_renew(lock, 0, NULL));
    assert_status(OK, rowlock_release(&lock, NULL));
    assert_false(fake_is_live("a"));
    rowlock_close(&client);
}

static void test_many_that_are_taken_for_late_ask_anew(void **state)
{
    rowlock_client *client = open_client();
    const char *names[] = {"a", "b", "c"};
    rowlock_lock *locks[3];

    (void)state;
    for (int i = 0; i < 3; i++)
        use(client, names[i]);
    outrun("a", 7);
    outrun("c", 3);
    assert_status(OK, rowlock_acquire_many(locks, client, names, 3, NULL, NULL));
    for (int i = 0; i < 3; i++) {
        assert_int_equal(fake_find(names[i])->hold_count, 1);
        assert_status(OK, rowlock_release(&locks[i], NULL));
        assert_false(fake_is_live(names[i]));
    }
    rowlock_close(&client);
}

/* The first answer grants one and takes the other for late; there is no second answer. */
static int grant_one_then_break(void *conn, rowlock_op *ops, size_t n, int all, uint32_t timeout_ms,
                                rowlock_error *err)
{
    (void)conn;
    (void)all;
    (void)timeout_ms;
    assert_int_equal(2, n);
    if (ops[0].status == ROWLOCK_OK) {
        *err = (rowlock_error){.status = ROWLOCK_ECONNECT};
        return ROWLOCK_ECONNECT;
    }
    ops[0].status = ROWLOCK_OK;
    ops[1].status = ROWLOCK_LOST;
    return ROWLOCK_OK;
}

static void test_grant_beside_a_late_one_is_unknown_if_that_fails(void **state)
{
    rowlock_op ops[2] = {{.status = ROWLOCK_BUSY}, {.status = ROWLOCK_BUSY}};
    rowlock_client *client = open_client();
    rowlock_error err;

    (void)state;
    client->driver.acquire = grant_one_then_break;
    assert_int_equal(ROWLOCK_EUNKNOWN, rlk_send_acquire(client, NULL, ops, 2, 0, 1000, &err));
    assert_int_equal(ROWLOCK_EUNKNOWN, err.status);
    rowlock_close(&client);
}

/* Of two attempts of a client the later one is larger. */
static void test_attempts_rise(void **state)
{
    rowlock_client *client = open_client();
    uint8_t last[ROWLOCK_ATTEMPT_SIZE] = {0};

    (void)state;
    for (int i = 0; i < 600; i++) {
        use(client, "a");
        if (i > 0)
            assert_memory_equal(last, fake_find("a")->attempt, ROWLOCK_ATTEMPT_SIZE / 2);
        assert_true(i == 0 || memcmp(last, fake_find("a")->attempt, sizeof last) < 0);
        memcpy(last, fake_find("a")->attempt, sizeof last);
    }
    rowlock_close(&client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_acquire_survives_a_fault_at_any_call_and_counts_once, fresh),
        cmocka_unit_test_setup(test_reentry_survives_a_fault_at_any_call_and_counts_once, fresh),
        cmocka_unit_test_setup(test_renew_and_force_survive_a_fault_at_any_call, fresh),
        cmocka_unit_test_setup(test_retry_after_the_lease_ended_is_a_new_tenure, fresh),
        cmocka_unit_test_setup(test_lost_answer_and_no_database_after_it_is_unknown, fresh),
        cmocka_unit_test_setup(test_no_database_at_all_is_econnect_by_the_bound, fresh),
        cmocka_unit_test_setup(test_open_does_not_try_again, fresh),
        cmocka_unit_test_setup(test_refusal_is_reported_at_once, fresh),
        cmocka_unit_test_setup(test_repeated_release_that_finds_another_owner_is_unknown, fresh),
        cmocka_unit_test_setup(test_release_finds_the_row_changed_and_goes_on, fresh),
        cmocka_unit_test_setup(test_release_never_counts_twice_when_others_enter_meanwhile, fresh),
        cmocka_unit_test_setup(test_failed_renew_leaves_the_lock_held_until_its_deadline, fresh),
        cmocka_unit_test_setup(test_many_locks_survive_a_fault_all_or_none, fresh),
        cmocka_unit_test_setup(test_dead_connections_are_replaced_and_none_leaks, fresh),
        cmocka_unit_test_setup(test_migrate_survives_faults_and_others, fresh),
        cmocka_unit_test_setup(test_acquire_that_is_taken_for_late_asks_anew, fresh),
        cmocka_unit_test_setup(test_many_that_are_taken_for_late_ask_anew, fresh),
        cmocka_unit_test_setup(test_grant_beside_a_late_one_is_unknown_if_that_fails, fresh),
        cmocka_unit_test_setup(test_attempts_rise, fresh),
    };

    return cmocka_run_group_tests_name("core/retry", tests, NULL, NULL);
}
