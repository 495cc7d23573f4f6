/* SPDX-License-Identifier: MIT */
#include "text.h"
#include "unit.h"

struct example {
    const char *sql, *prefix, *schema;
    char quote;
    const char *expected;
};

static const struct example examples[] = {
    /* each table, unqualified */
    {"rowlock_locks", "rowlock_", NULL, '"', "\"rowlock_locks\""},
    {"rowlock_held", "p_", NULL, '"', "\"p_held\""},
    {"rowlock_schema", "p_", NULL, '"', "\"p_schema\""},
    {"rowlock_clock", "p_", NULL, '`', "`p_clock`"},
    {"rowlock_floor", "p_", NULL, '`', "`p_floor`"},
    /* with a schema */
    {"FROM rowlock_locks l", "p_", "App-1", '"', "FROM \"App-1\".\"p_locks\" l"},
    {"rowlock_locks,rowlock_held", "p_", "d", '`', "`d`.`p_locks`,`d`.`p_held`"},
    /* what stands beside a name ends the word */
    {"(rowlock_locks)", "p", NULL, '"', "(\"plocks\")"},
    {"rowlock_locks.name", "p_", NULL, '"', "\"p_locks\".name"},
    {"x=rowlock_locks;", "p_", NULL, '"', "x=\"p_locks\";"},
    {"rowlock_locks\n", "p_", NULL, '"', "\"p_locks\"\n"},
    /* no word of its own: untouched */
    {"rowlock_locks_pkey", "p_", "s", '"', "rowlock_locks_pkey"},
    {"rowlock_locks2", "p_", "s", '"', "rowlock_locks2"},
    {"my_rowlock_locks", "p_", "s", '"', "my_rowlock_locks"},
    {"xrowlock_locks", "p_", "s", '"', "xrowlock_locks"},
    {"9rowlock_locks", "p_", "s", '"', "9rowlock_locks"},
    {"rowlock_lock", "p_", "s", '"', "rowlock_lock"},
    {"rowlock_acquire(1)", "p_", "s", '"', "rowlock_acquire(1)"},
    {"rowlock_", "p_", "s", '"', "rowlock_"},
    {"rowlock", "p_", "s", '"', "rowlock"},
    {"ROWLOCK_LOCKS", "p_", "s", '"', "ROWLOCK_LOCKS"},
    {"locks held schema clock", "p_", "s", '"', "locks held schema clock"},
    /* other text, bytes included */
    {"", "p_", NULL, '"', ""},
    {"$1 ? 'it''s' [a] \"b\" \\ \xc3\xa9", "p_", NULL, '"', "$1 ? 'it''s' [a] \"b\" \\ \xc3\xa9"},
};

static void test_examples(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
        rlk_text out = {0};

        rlk_text_str(&out, "<");
        rlk_sql_render(&out, examples[i].sql, examples[i].prefix, examples[i].schema,
                       examples[i].quote);
        assert_string_equal(out.data + 1, examples[i].expected);
        rlk_text_free(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_examples)};

    return cmocka_run_group_tests_name("render", tests, NULL, NULL);
}
