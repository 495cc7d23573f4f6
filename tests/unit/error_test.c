/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "error.h"
#include "unit.h"

static rowlock_error dirty(void)
{
    rowlock_error err;

    memset(&err, 'x', sizeof err);
    return err;
}

static void test_the_struct_has_256_bytes(void **state)
{
    (void)state;
    assert_int_equal(sizeof(rowlock_error), 256);
    assert_int_equal(offsetof(rowlock_error, message), 16);
}

static void test_ok_clears_everything(void **state)
{
    rowlock_error err = dirty();
    const rowlock_error zero = {0};

    (void)state;
    assert_int_equal(rlk_ok(&err), ROWLOCK_OK);
    assert_memory_equal(&err, &zero, sizeof err);
    assert_int_equal(rlk_ok(NULL), ROWLOCK_OK);
}

static void test_fail_sets_status_and_message_only(void **state)
{
    rowlock_error err = dirty();

    (void)state;
    assert_int_equal(rlk_fail(&err, ROWLOCK_EINVAL, "ttl_ms is %d", 7), ROWLOCK_EINVAL);
    assert_int_equal(err.status, ROWLOCK_EINVAL);
    assert_string_equal(err.message, "ttl_ms is 7");
    assert_int_equal(err.native_code, 0);
    assert_int_equal(err.retryable, 0);
    assert_string_equal(err.sqlstate, "");
}

static void test_fail_without_struct_returns_the_status(void **state)
{
    (void)state;
    assert_int_equal(rlk_fail(NULL, ROWLOCK_BUSY, "x"), ROWLOCK_BUSY);
    assert_int_equal(rlk_fail_native(NULL, ROWLOCK_EDRIVER, 1, "40001", 1, "x"), ROWLOCK_EDRIVER);
    assert_int_equal(rlk_fail_memory(NULL), ROWLOCK_ENOMEM);
}

static void test_message_is_one_line_without_full_stop(void **state)
{
    rowlock_error err;

    (void)state;
    rlk_fail(&err, ROWLOCK_EDRIVER, "ERROR:\tno\r\nluck\x7f\x01now. .\n");
    assert_string_equal(err.message, "ERROR: no  luck  now");
    rlk_fail(&err, ROWLOCK_EDRIVER, " . \n");
    assert_string_equal(err.message, "");
    rlk_fail(&err, ROWLOCK_EDRIVER,
             "gr\xc3\xbc\xc3\x9f"
             "e");
    assert_string_equal(err.message, "gr\xc3\xbc\xc3\x9f"
                                     "e");
}

static void test_long_message_is_cut(void **state)
{
    rowlock_error err;
    char text[400];

    (void)state;
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    rlk_fail(&err, ROWLOCK_EDRIVER, "%s", text);
    assert_int_equal(strlen(err.message), sizeof err.message - 1);
    text[sizeof err.message - 1] = '\0';
    assert_string_equal(err.message, text);
}

static void test_native_fields(void **state)
{
    rowlock_error err = dirty();

    (void)state;
    rlk_fail_native(&err, ROWLOCK_EDRIVER, 1213, "40001", 5, "deadlock");
    assert_int_equal(err.native_code, 1213);
    assert_string_equal(err.sqlstate, "40001");
    assert_int_equal(err.retryable, 1);
    rlk_fail_native(&err, ROWLOCK_EDRIVER, 5, NULL, 0, "x");
    assert_string_equal(err.sqlstate, "");
    rlk_fail_native(&err, ROWLOCK_EDRIVER, 5, "1234567", 0, "x");
    assert_string_equal(err.sqlstate, "12345");
}

/* A message cut in the middle of a character would not be UTF-8 any more. */
static void test_cut_leaves_no_partial_character(void **state)
{
    rowlock_error err;
    char text[400];

    (void)state;
    for (size_t shift = 0; shift < 3; shift++) {
        size_t length = shift;

        memset(text, 'a', shift);
        while (length + 3 < sizeof text) {
            memcpy(text + length, "\xe2\x82\xac", 3);
            length += 3;
        }
        text[length] = '\0';
        rlk_fail(&err, ROWLOCK_EDRIVER, "%s", text);
        assert_int_equal((strlen(err.message) - shift) % 3, 0);
    }
}

static void test_memory(void **state)
{
    rowlock_error err = dirty();

    (void)state;
    assert_int_equal(rlk_fail_memory(&err), ROWLOCK_ENOMEM);
    assert_int_equal(err.status, ROWLOCK_ENOMEM);
    assert_int_equal(err.retryable, 1);
    assert_string_equal(err.message, "out of memory");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_struct_has_256_bytes),
        cmocka_unit_test(test_ok_clears_everything),
        cmocka_unit_test(test_fail_sets_status_and_message_only),
        cmocka_unit_test(test_fail_without_struct_returns_the_status),
        cmocka_unit_test(test_message_is_one_line_without_full_stop),
        cmocka_unit_test(test_long_message_is_cut),
        cmocka_unit_test(test_cut_leaves_no_partial_character),
        cmocka_unit_test(test_native_fields),
        cmocka_unit_test(test_memory),
    };

    return cmocka_run_group_tests_name("error", tests, NULL, NULL);
}
