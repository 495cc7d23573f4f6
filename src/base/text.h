/* SPDX-License-Identifier: MIT
 *
 * Strings: growing buffers, checks of what users pass in, and the table names in SQL text. */
#ifndef RLK_TEXT_H
#define RLK_TEXT_H

#include <stddef.h>
#include <stdint.h>

#include "error.h"

/* A growing, always NUL-terminated string. {0} is empty. After a failed allocation `failed` is set,
 * further additions do nothing, and the text must not be used. Free with rlk_text_free(). */
typedef struct rlk_text {
    char *data;
    size_t length, capacity;
    int failed;
} rlk_text;

void rlk_text_add(rlk_text *text, const char *bytes, size_t n);
void rlk_text_str(rlk_text *text, const char *string);
void rlk_text_int(rlk_text *text, int64_t number);
void rlk_text_hex(rlk_text *text, const void *bytes, size_t n); /* lower-case digits only */
void rlk_text_clear(rlk_text *text);                            /* empty, memory kept */
void rlk_text_free(rlk_text *text);

/* Valid UTF-8 of min..max bytes without control characters. */
int rlk_is_printable(const char *string, size_t min, size_t max);

/* Fit for a table prefix: [a-z_][a-z0-9_]{0,30}; for a schema: [A-Za-z_][A-Za-z0-9_$-]{0,62}. */
int rlk_is_prefix(const char *string);
int rlk_is_schema(const char *string);

/* Puts the user's prefix and schema into SQL text. In the text the tables are written plainly as
 * rowlock_locks, rowlock_held, rowlock_schema, rowlock_clock, rowlock_floor, rowlock_waiters,
 * rowlock_queue; each of these words becomes the quoted name, "schema"."prefix_locks". Other words
 * that start with rowlock_ stay as they are. The caller has checked prefix and schema (NULL:
 * unqualified). Appends to `out`. */
void rlk_sql_render(rlk_text *out, const char *sql, const char *prefix, const char *schema,
                    char quote);

#endif
