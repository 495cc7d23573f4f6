/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "text.h"
#include "unit.h"

static void test_an_empty_addition_gives_an_empty_string(void **state)
{
    rlk_text text = {0};

    (void)state;
    rlk_text_add(&text, NULL, 0);
    assert_string_equal(text.data, "");
    assert_int_equal(text.length, 0);
    rlk_text_free(&text);
}

/* Each length around the steps of growth, so that a missing byte for the NUL shows. */
static void test_growth_keeps_bytes_and_the_final_nul(void **state)
{
    static const size_t lengths[] = {1, 254, 255, 256, 257, 511, 512, 513, 100000};
    char *bytes = malloc(100000);

    (void)state;
    assert_non_null(bytes);
    for (size_t i = 0; i < 100000; i++)
        bytes[i] = (char)(i % 251);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        rlk_text text = {0};

        rlk_text_add(&text, bytes, lengths[i]);
        assert_int_equal(text.length, lengths[i]);
        assert_true(text.capacity > text.length);
        assert_memory_equal(text.data, bytes, lengths[i]);
        assert_int_equal(text.data[lengths[i]], 0);
        rlk_text_free(&text);
    }
    free(bytes);
}

static void test_growth_byte_by_byte(void **state)
{
    rlk_text text = {0};

    (void)state;
    for (size_t i = 0; i < 3000; i++) {
        rlk_text_str(&text, "z");
        assert_int_equal(text.length, i + 1);
        assert_int_equal(text.data[i + 1], 0);
    }
    assert_int_equal(strspn(text.data, "z"), 3000);
    rlk_text_free(&text);
}

static void test_bytes_may_be_nul(void **state)
{
    rlk_text text = {0};

    (void)state;
    rlk_text_add(&text, "a\0b", 3);
    rlk_text_str(&text, "c");
    assert_int_equal(text.length, 4);
    assert_memory_equal(text.data, "a\0bc", 5);
    rlk_text_free(&text);
}

static void test_int(void **state)
{
    rlk_text text = {0};

    (void)state;
    rlk_text_int(&text, 0);
    rlk_text_str(&text, " ");
    rlk_text_int(&text, INT64_MAX);
    rlk_text_str(&text, " ");
    rlk_text_int(&text, INT64_MIN);
    assert_string_equal(text.data, "0 9223372036854775807 -9223372036854775808");
    rlk_text_free(&text);
}

static void test_hex(void **state)
{
    rlk_text text = {0};
    unsigned char bytes[512];

    (void)state;
    rlk_text_hex(&text, "\x00\x09\x0f\xa0\xff", 5);
    assert_string_equal(text.data, "00090fa0ff");
    rlk_text_hex(&text, "", 0);
    assert_int_equal(text.length, 10);
    memset(bytes, 0xab, sizeof bytes);
    rlk_text_hex(&text, bytes, sizeof bytes);
    assert_int_equal(text.length, 10 + 2 * sizeof bytes);
    assert_int_equal(text.data[text.length], 0);
    assert_int_equal(strspn(text.data + 10, "ab"), 2 * sizeof bytes);
    rlk_text_free(&text);
}

static void test_clear_keeps_memory_and_free_forgets_it(void **state)
{
    rlk_text text = {0};
    char *data;

    (void)state;
    rlk_text_clear(&text);
    assert_null(text.data);
    rlk_text_str(&text, "something");
    data = text.data;
    rlk_text_clear(&text);
    assert_ptr_equal(text.data, data);
    assert_string_equal(text.data, "");
    rlk_text_str(&text, "else");
    assert_string_equal(text.data, "else");
    rlk_text_free(&text);
    assert_null(text.data);
    assert_int_equal(text.capacity, 0);
    rlk_text_free(&text);
}

static void test_after_a_failure_additions_do_nothing(void **state)
{
    rlk_text text = {0};

    (void)state;
    rlk_text_str(&text, "kept");
    text.failed = 1;
    rlk_text_str(&text, "not");
    rlk_text_int(&text, 1);
    rlk_text_hex(&text, "x", 1);
    assert_int_equal(text.length, 4);
    rlk_text_free(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_empty_addition_gives_an_empty_string),
        cmocka_unit_test(test_growth_keeps_bytes_and_the_final_nul),
        cmocka_unit_test(test_growth_byte_by_byte),
        cmocka_unit_test(test_bytes_may_be_nul),
        cmocka_unit_test(test_int),
        cmocka_unit_test(test_hex),
        cmocka_unit_test(test_clear_keeps_memory_and_free_forgets_it),
        cmocka_unit_test(test_after_a_failure_additions_do_nothing),
    };

    return cmocka_run_group_tests_name("text", tests, NULL, NULL);
}
