/* SPDX-License-Identifier: MIT
 *
 * What a driver finds of a deployment, on its way to the user. */
#include <stdio.h>

#include "core_test.h"
#include "error.h"

static int told;   /* times the slot was called */
static int cut_at; /* the call whose connection breaks half-way */
static rowlock_client *client;

static int diagnose(void *conn, rowlock_finding_fn fn, void *payload, uint32_t timeout_ms,
                    rowlock_error *err)
{
    char subject[] = "server", message[] = "it is there";
    rowlock_finding finding = {.size = sizeof finding,
                               .grade = ROWLOCK_GRADE_GOOD,
                               .subject = subject,
                               .message = message};

    (void)conn;
    (void)timeout_ms;
    if (fn(&finding, payload) != 0)
        return ROWLOCK_OK;
    if (++told == cut_at) {
        memset(err, 0, sizeof *err);
        err->retryable = 1;
        return err->status = ROWLOCK_ECONNECT;
    }
    finding.grade = ROWLOCK_GRADE_BAD;
    finding.remedy = "mend it";
    fn(&finding, payload);
    memset(subject, 'x', sizeof subject - 1); /* what was lent is gone */
    memset(message, 'x', sizeof message - 1);
    return ROWLOCK_OK;
}

static void open_with(rowlock_driver *driver)
{
    told = cut_at = 0;
    assert_status(OK, rowlock_open(&client, driver, "fake", NULL, NULL));
}

static int count(const rowlock_finding *finding, void *payload)
{
    int *n = payload;

    assert_int_equal(finding->size, sizeof *finding);
    assert_string_equal(finding->subject, "server");
    assert_string_equal(finding->message, "it is there");
    if (finding->grade == ROWLOCK_GRADE_GOOD)
        assert_null(finding->remedy);
    else
        assert_string_equal(finding->remedy, "mend it");
    return ++*n < 0;
}

static void test_findings_are_kept_until_they_are_told(void **state)
{
    rowlock_driver driver = *fake_driver();
    int n = 0;

    (void)state;
    driver.diagnose = diagnose;
    open_with(&driver);
    assert_status(OK, rowlock_diagnose(client, count, &n, NULL));
    assert_int_equal(n, 2);
    rowlock_close(&client);
}

/* Those of a try that broke off are not told a second time. */
static void test_a_second_try_begins_anew(void **state)
{
    rowlock_driver driver = *fake_driver();
    int n = 0;

    (void)state;
    driver.diagnose = diagnose;
    open_with(&driver);
    cut_at = 1;
    assert_status(OK, rowlock_diagnose(client, count, &n, NULL));
    assert_int_equal(told, 2);
    assert_int_equal(n, 2);
    rowlock_close(&client);
}

static void test_drivers_may_know_nothing(void **state)
{
    rowlock_driver driver = *fake_driver();
    int n = 0;

    (void)state;
    driver.diagnose = diagnose;
    driver.size = offsetof(rowlock_driver, diagnose); /* of before there was the slot */
    open_with(&driver);
    assert_status(ENOTSUP, rowlock_diagnose(client, count, &n, NULL));
    assert_int_equal(n, 0);
    rowlock_close(&client);
}

/* ---- exclusion ---- */

static rowlock_driver sound; /* the fake one, for those that lack something */

static int find_nothing(void *conn, rowlock_finding_fn fn, void *payload, uint32_t timeout_ms,
                        rowlock_error *err)
{
    (void)conn;
    (void)fn;
    (void)payload;
    (void)timeout_ms;
    return rlk_ok(err);
}

/* Servers that accept the statements and lock nothing, or not all. */
static int everybody_gets_a_lease(void *conn, rowlock_op *ops, size_t n, int all,
                                  uint32_t timeout_ms, rowlock_error *err)
{
    int rc = sound.acquire(conn, ops, n, all, timeout_ms, err);

    ops[0].status = ROWLOCK_OK;
    return rc;
}

static int a_lease_ignores_transactions(void *conn, rowlock_op *ops, size_t n, int all,
                                        uint32_t timeout_ms, rowlock_error *err)
{
    int rc = sound.acquire(conn, ops, n, all, timeout_ms, err);

    if (ops[0].status == ROWLOCK_BUSY && ops[0].remaining_us <= 0)
        ops[0].status = ROWLOCK_OK;
    return rc;
}

static int everybody_gets_the_row(const rowlock_target *target, rowlock_op *ops, size_t n,
                                  uint32_t wait_ms, int in_line, uint32_t timeout_ms,
                                  rowlock_error *err)
{
    int rc = sound.lock(target, ops, n, wait_ms, in_line, timeout_ms, err);

    if (ops[0].remaining_us <= 0)
        ops[0].status = ROWLOCK_OK;
    return rc;
}

static int a_row_ignores_leases(const rowlock_target *target, rowlock_op *ops, size_t n,
                                uint32_t wait_ms, int in_line, uint32_t timeout_ms,
                                rowlock_error *err)
{
    int rc = sound.lock(target, ops, n, wait_ms, in_line, timeout_ms, err);

    ops[0].status = ROWLOCK_OK;
    return rc;
}

static int a_guard_locks_nothing(const rowlock_target *target, rowlock_op *op, uint32_t timeout_ms,
                                 rowlock_error *err)
{
    (void)target;
    (void)timeout_ms;
    op->status = ROWLOCK_OK;
    return rlk_ok(err);
}

typedef struct last_finding {
    int count, grade;
    char subject[32], message[512];
} last_finding;

static int keep_last(const rowlock_finding *finding, void *payload)
{
    last_finding *last = payload;

    last->count++;
    last->grade = finding->grade;
    snprintf(last->subject, sizeof last->subject, "%s", finding->subject);
    snprintf(last->message, sizeof last->message, "%s", finding->message);
    return 0;
}

static last_finding proof_with(const rowlock_driver *driver)
{
    last_finding last = {0};

    assert_status(OK, rowlock_open(&client, driver, "fake", NULL, NULL));
    assert_status(OK, rowlock_diagnose(client, keep_last, &last, NULL));
    rowlock_close(&client);
    assert_int_equal(last.count, 1);
    assert_string_equal(last.subject, "exclusion");
    assert_int_equal(fake_connections(), 0);
    return last;
}

static void refute(const rowlock_driver *driver, const char *words)
{
    last_finding last = proof_with(driver);

    assert_int_equal(last.grade, ROWLOCK_GRADE_BAD);
    assert_non_null(strstr(last.message, words));
}

static int begin_sound(void **state)
{
    sound = *fake_driver();
    sound.diagnose = find_nothing;
    return fresh(state);
}

static void test_a_database_that_locks_is_good(void **state)
{
    last_finding last = proof_with(&sound);

    (void)state;
    assert_int_equal(last.grade, ROWLOCK_GRADE_GOOD);
    assert_non_null(strstr(last.message, "leases, transactions and guards"));
}

static void test_a_database_that_does_not_lock_is_bad(void **state)
{
    rowlock_driver driver = sound;

    (void)state;
    driver.acquire = everybody_gets_a_lease;
    refute(&driver, "the same lease");
    driver.acquire = a_lease_ignores_transactions;
    refute(&driver, "a transaction's lock and a lease");
    driver = sound;
    driver.lock = a_row_ignores_leases;
    refute(&driver, "a lease and a transaction's lock");
    driver.lock = everybody_gets_the_row;
    refute(&driver, "the same row in two transactions");
    driver = sound;
    driver.guard = a_guard_locks_nothing;
    refute(&driver, "a guarded row");
}

static void test_what_fails_is_not_proved(void **state)
{
    last_finding last;

    (void)state;
    for (int at = 3; at < 16; at++) { /* behind those of rowlock_open() */
        fresh(state);
        fake_plan(at, FAKE_CUT_BEFORE, 0);
        last = proof_with(&sound);
        assert_int_not_equal(last.grade, ROWLOCK_GRADE_BAD);
        if (at > 4 && at < 12)
            assert_non_null(strstr(last.message, "not proved: "));
        fresh(state);
        fake_plan(at, FAKE_REFUSED, 0);
        last = proof_with(&sound);
        assert_true(last.grade == ROWLOCK_GRADE_GOOD || strstr(last.message, "not proved: "));
    }
}

static void test_nothing_is_proved_where_something_is_bad(void **state)
{
    rowlock_driver driver = sound;
    last_finding last = {0};

    (void)state;
    driver.diagnose = diagnose;
    open_with(&driver);
    assert_status(OK, rowlock_diagnose(client, keep_last, &last, NULL));
    assert_string_equal(last.subject, "server");
    rowlock_close(&client);
}

/* Whoever may not read the version of the tables may still ask what is wrong. */
static void test_open_without_a_check_survives_a_refusal(void **state)
{
    rowlock_options options = ROWLOCK_OPTIONS_INIT;

    (void)state;
    fake_plan(2, FAKE_REFUSED, 0); /* the first call opens the connection */
    assert_status(EDRIVER, rowlock_open(&client, fake_driver(), "fake", &options, NULL));
    options.schema_policy = ROWLOCK_SCHEMA_IGNORE;
    fake_plan(2, FAKE_REFUSED, 0);
    assert_status(OK, rowlock_open(&client, fake_driver(), "fake", &options, NULL));
    rowlock_close(&client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_findings_are_kept_until_they_are_told, fresh),
        cmocka_unit_test_setup(test_a_second_try_begins_anew, fresh),
        cmocka_unit_test_setup(test_drivers_may_know_nothing, fresh),
        cmocka_unit_test_setup(test_a_database_that_locks_is_good, begin_sound),
        cmocka_unit_test_setup(test_a_database_that_does_not_lock_is_bad, begin_sound),
        cmocka_unit_test_setup(test_what_fails_is_not_proved, begin_sound),
        cmocka_unit_test_setup(test_nothing_is_proved_where_something_is_bad, begin_sound),
        cmocka_unit_test_setup(test_open_without_a_check_survives_a_refusal, fresh),
    };

    return cmocka_run_group_tests_name("core/diagnose", tests, NULL, NULL);
}
