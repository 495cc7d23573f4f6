/* SPDX-License-Identifier: MIT */
#include "text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int grow(rlk_text *text, size_t extra)
{
    size_t capacity = text->capacity == 0 ? 256 : text->capacity;
    char *data;

    if (text->failed)
        return 0;
    if (text->length + extra < text->capacity)
        return 1;
    while (capacity <= text->length + extra)
        capacity *= 2;
    data = realloc(text->data, capacity);
    if (data == NULL) {
        text->failed = 1;
        return 0;
    }
    text->data = data;
    text->capacity = capacity;
    return 1;
}

void rlk_text_add(rlk_text *text, const char *bytes, size_t n)
{
    if (!grow(text, n))
        return;
    if (n > 0)
        memcpy(text->data + text->length, bytes, n);
    text->length += n;
    text->data[text->length] = '\0';
}

void rlk_text_str(rlk_text *text, const char *string)
{
    rlk_text_add(text, string, strlen(string));
}

void rlk_text_int(rlk_text *text, int64_t number)
{
    char digits[24];

    snprintf(digits, sizeof digits, "%lld", (long long)number);
    rlk_text_str(text, digits);
}

void rlk_text_hex(rlk_text *text, const void *bytes, size_t n)
{
    static const char digits[] = "0123456789abcdef";
    const unsigned char *in = bytes;

    if (!grow(text, 2 * n))
        return;
    for (size_t i = 0; i < n; i++) {
        text->data[text->length++] = digits[in[i] >> 4];
        text->data[text->length++] = digits[in[i] & 15];
    }
    text->data[text->length] = '\0';
}

void rlk_text_clear(rlk_text *text)
{
    text->length = 0;
    if (text->data != NULL)
        text->data[0] = '\0';
}

void rlk_text_free(rlk_text *text)
{
    free(text->data);
    *text = (rlk_text){0};
}

/* The length of the UTF-8 sequence at s, 0 if it is not one (overlong, surrogate, past U+10FFFF).
 */
static size_t sequence(const unsigned char *s)
{
    size_t n = s[0] < 0x80   ? 1
               : s[0] < 0xc2 ? 0
               : s[0] < 0xe0 ? 2
               : s[0] < 0xf0 ? 3
               : s[0] < 0xf5 ? 4
                             : 0;

    for (size_t i = 1; i < n; i++) {
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    }
    if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
        (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))
        return 0;
    return n;
}

int rlk_is_printable(const char *string, size_t min, size_t max)
{
    const unsigned char *s = (const unsigned char *)string;
    size_t length = strnlen(string, max + 1);

    if (length < min || length > max)
        return 0;
    while (*s != '\0') {
        size_t n = sequence(s);

        /* C0, DEL and C1 controls would break a terminal or a log line. */
        if (n == 0 || *s < 0x20 || *s == 0x7f || (n == 2 && s[0] == 0xc2 && s[1] < 0xa0))
            return 0;
        s += n;
    }
    return 1;
}

static int is_word(const char *string, const char *first, const char *rest, size_t max)
{
    size_t length = strnlen(string, max + 1);

    return length >= 1 && length <= max && strchr(first, string[0]) != NULL &&
           strspn(string, rest) == length;
}

#define LOWER "abcdefghijklmnopqrstuvwxyz_"
#define UPPER "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGIT "0123456789"

int rlk_is_prefix(const char *string)
{
    return is_word(string, LOWER, LOWER DIGIT, 31);
}

int rlk_is_schema(const char *string)
{
    return is_word(string, LOWER UPPER, LOWER UPPER DIGIT "$-", 63);
}

static void quoted(rlk_text *out, const char *head, const char *tail, size_t tail_length,
                   const char *quote)
{
    rlk_text_str(out, quote);
    rlk_text_str(out, head);
    rlk_text_add(out, tail, tail_length);
    rlk_text_str(out, quote);
}

/* The word at `sql` is one of our tables: the length of its own part ("locks"), else 0. */
static size_t table(const char *word, size_t length)
{
    static const char *const tables[] = {"locks", "held",    "schema", "clock",
                                         "floor", "waiters", "queue"};

    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        if (strlen(tables[i]) == length && memcmp(tables[i], word, length) == 0)
            return length;
    }
    return 0;
}

void rlk_sql_render(rlk_text *out, const char *sql, const char *prefix, const char *schema,
                    char quote)
{
    static const char ours[] = "rowlock_";
    const char mark[2] = {quote, '\0'};

    while (*sql != '\0') {
        size_t word = strspn(sql, LOWER UPPER DIGIT);
        size_t own = word > sizeof ours - 1 && memcmp(sql, ours, sizeof ours - 1) == 0
                         ? table(sql + sizeof ours - 1, word - (sizeof ours - 1))
                         : 0;

        if (own == 0) {
            word = word == 0 ? 1 : word;
            rlk_text_add(out, sql, word);
        } else {
            if (schema != NULL) {
                quoted(out, schema, "", 0, mark);
                rlk_text_str(out, ".");
            }
            quoted(out, prefix, sql + sizeof ours - 1, own, mark);
        }
        sql += word;
    }
}
