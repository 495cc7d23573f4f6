/* SPDX-License-Identifier: MIT
 *
 * What a driver finds of a deployment, on its way to the user. */
#include "core_test.h"

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
        cmocka_unit_test_setup(test_open_without_a_check_survives_a_refusal, fresh),
    };

    return cmocka_run_group_tests_name("core/diagnose", tests, NULL, NULL);
}
