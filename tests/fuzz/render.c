/* SPDX-License-Identifier: MIT
 *
 * Table names in SQL text: nothing but the names is changed, and rendering by the names as they
 * are and taking the quotes away again gives the text back. */
#include "fuzz.h"
#include "text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *sql = fuzz_string(data, size);
    rlk_text plain = {0}, other = {0};
    size_t quotes = 0, from = 0;

    for (char *c = sql; *c != '\0'; c++)
        *c = *c == '`' ? '\'' : *c; /* so that all quotes are the renderer's */
    rlk_sql_render(&plain, sql, "rowlock_", NULL, '`');
    rlk_sql_render(&other, sql, "p_", "App-1", '`');
    MUST(!plain.failed && !other.failed);
    for (size_t i = 0; i < plain.length; i++) {
        if (plain.data[i] == '`')
            quotes++;
        else
            MUST(from < size && plain.data[i] == sql[from++]);
    }
    MUST(from == size && quotes % 2 == 0);
    /* For each name: `App-1`. more, and p_ instead of rowlock_. */
    MUST(other.length == plain.length + quotes / 2 * (strlen("`App-1`.") - strlen("rowlock_") + 2));
    rlk_text_free(&plain);
    rlk_text_free(&other);
    free(sql);
    return 0;
}
