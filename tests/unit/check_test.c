/* SPDX-License-Identifier: MIT
 *
 * The checks of what users pass in: owners, notes, prefixes, schemas. */
#include <string.h>

#include "text.h"
#include "unit.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const char *letters(char *buffer, size_t n)
{
    memset(buffer, 'a', n);
    buffer[n] = '\0';
    return buffer;
}

static void test_printable_texts(void **state)
{
    static const char *const good[] = {
        " ",
        "~",
        "host/1234;'\"\\`",
        "\xc2\xa0",         /* U+00A0, the first after the C1 controls */
        "\xc3\xa9",         /* U+00E9 */
        "\xdf\xbf",         /* U+07FF */
        "\xe0\xa0\x80",     /* U+0800, the least of three bytes */
        "\xed\x9f\xbf",     /* U+D7FF, before the surrogates */
        "\xee\x80\x80",     /* U+E000, after them */
        "\xef\xbf\xbd",     /* U+FFFD */
        "\xf0\x90\x80\x80", /* U+10000, the least of four bytes */
        "\xf4\x8f\xbf\xbf", /* U+10FFFF, the last */
    };

    (void)state;
    for (size_t i = 0; i < COUNT(good); i++) {
        if (!rlk_is_printable(good[i], 1, 255))
            fail_msg("refused: %zu", i);
    }
}

static void test_unprintable_texts(void **state)
{
    static const char *const bad[] = {
        "\n",
        "a\tb",
        "\x01",
        "\x1b[31m",
        "\x1f",
        "\x7f",
        "\xc2\x80", /* the C1 controls, first */
        "\xc2\x9b"
        "31m",      /* CSI */
        "\xc2\x9f", /* last */
        "\x80",     /* a continuation alone */
        "\xbf"
        "a",                /* the same */
        "\xc0\x80",         /* NUL, overlong */
        "\xc0\xaf",         /* slash, overlong */
        "\xc1\xbf",         /* DEL, overlong */
        "\xe0\x80\xaf",     /* slash in three bytes */
        "\xe0\x9f\xbf",     /* U+07FF in three bytes */
        "\xf0\x80\x80\xaf", /* slash in four bytes */
        "\xf0\x8f\xbf\xbf", /* U+FFFF in four bytes */
        "\xed\xa0\x80",     /* surrogates, first and last */
        "\xed\xbf\xbf",
        "\xf4\x90\x80\x80", /* past U+10FFFF */
        "\xf5\x80\x80\x80",
        "\xff",
        "\xc3", /* ends too early */
        "\xe2\x82",
        "\xf0\x9f\x94",
        "\xe2\x82"
        "a", /* broken off */
        "\xc3(",
        "good until here \xc3",
    };

    (void)state;
    for (size_t i = 0; i < COUNT(bad); i++) {
        if (rlk_is_printable(bad[i], 1, 255))
            fail_msg("accepted: %zu", i);
    }
}

static void test_printable_length(void **state)
{
    char text[300];

    (void)state;
    assert_false(rlk_is_printable("", 1, 255));
    assert_true(rlk_is_printable("", 0, 255));
    assert_true(rlk_is_printable(letters(text, 255), 1, 255));
    assert_false(rlk_is_printable(letters(text, 256), 1, 255));
    assert_true(rlk_is_printable("\xc3\xa9", 1, 2));
    assert_false(rlk_is_printable("\xc3\xa9", 1, 1));
}

static void test_prefix(void **state)
{
    static const char *const good[] = {"rowlock_", "a", "_", "_1", "z9_", "app1_locks_"};
    static const char *const bad[] = {"",
                                      "1a",
                                      "A",
                                      "aB",
                                      "a b",
                                      "a-b",
                                      "a$",
                                      "a.b",
                                      "a\"",
                                      "a'",
                                      "a`",
                                      "a;",
                                      "a;drop table x",
                                      "a--",
                                      "a\n",
                                      "\xc3\xa9",
                                      "a\\"};
    char text[64];

    (void)state;
    for (size_t i = 0; i < COUNT(good); i++) {
        if (!rlk_is_prefix(good[i]))
            fail_msg("refused: %s", good[i]);
    }
    for (size_t i = 0; i < COUNT(bad); i++) {
        if (rlk_is_prefix(bad[i]))
            fail_msg("accepted: %s", bad[i]);
    }
    assert_true(rlk_is_prefix(letters(text, 31)));
    assert_false(rlk_is_prefix(letters(text, 32)));
}

static void test_schema(void **state)
{
    static const char *const good[] = {"public", "App", "_x", "my-db", "a$b", "Z9", "a--b"};
    static const char *const bad[] = {
        "",    "1a",       "$a", "-a", "a b", "a.b", "a\"", "a'", "a`", "a;", "a\";drop schema x",
        "a\n", "\xc3\xa9", "a\\"};
    char text[80];

    (void)state;
    for (size_t i = 0; i < COUNT(good); i++) {
        if (!rlk_is_schema(good[i]))
            fail_msg("refused: %s", good[i]);
    }
    for (size_t i = 0; i < COUNT(bad); i++) {
        if (rlk_is_schema(bad[i]))
            fail_msg("accepted: %s", bad[i]);
    }
    assert_true(rlk_is_schema(letters(text, 63)));
    assert_false(rlk_is_schema(letters(text, 64)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_printable_texts),  cmocka_unit_test(test_unprintable_texts),
        cmocka_unit_test(test_printable_length), cmocka_unit_test(test_prefix),
        cmocka_unit_test(test_schema),
    };

    return cmocka_run_group_tests_name("check", tests, NULL, NULL);
}
