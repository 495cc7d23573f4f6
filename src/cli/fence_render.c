/* SPDX-License-Identifier: MIT
 *
 * Templates of sql/fence, with names in place of words. */
#include <ctype.h>
#include <string.h>

#include "fence.h"

static void put_name(char quote, const char *name)
{
    putchar(quote);
    for (; *name; name++) {
        if (*name == quote)
            putchar(quote);
        putchar(*name);
    }
    putchar(quote);
}

static void put_in_schema(const fence_names *names, const char *name)
{
    if (names->schema) {
        put_name(names->quote, names->schema);
        putchar('.');
    }
    put_name(names->quote, name);
}

static void put_table(const fence_names *names)
{
    put_in_schema(names, names->table);
}

static void put_bare_table(const fence_names *names)
{
    put_name(names->quote, names->table);
}

static void put_column(const fence_names *names)
{
    put_name(names->quote, names->column);
}

/* PostgreSQL's triggers belong to their table and have no schema; its functions do. */
static void put_trigger(const fence_names *names)
{
    put_in_schema(names, names->trigger);
}

static void put_bare_trigger(const fence_names *names)
{
    put_name(names->quote, names->trigger);
}

static const struct word {
    const char *text;
    void (*put)(const fence_names *names);
} words[] = {
    {"the_table", put_table},     {"bare_table", put_bare_table},     {"the_column", put_column},
    {"the_trigger", put_trigger}, {"bare_trigger", put_bare_trigger}, {"the_function", put_trigger},
};

enum { WORDS = sizeof(words) / sizeof(words[0]) };

static const struct word *find_word(const char *text, size_t n)
{
    for (int i = 0; i < WORDS; i++)
        if (strlen(words[i].text) == n && memcmp(words[i].text, text, n) == 0)
            return &words[i];
    return NULL;
}

/* One pass: a name that looks like one of the words is not replaced again. */
void cli_fence_render(const fence_names *names, const char *text)
{
    while (*text) {
        size_t n = 0;
        const struct word *word;

        while (isalnum((unsigned char)text[n]) || text[n] == '_')
            n++;
        word = find_word(text, n);
        if (word)
            word->put(names);
        else
            printf("%.*s", (int)(n > 0 ? n : 1), text);
        text += n > 0 ? n : 1;
    }
}

/* FNV-1a, with the NUL at the end. */
static uint32_t hash(uint32_t h, const char *s)
{
    do
        h = (h ^ (unsigned char)*s) * 16777619U;
    while (*s++);
    return h;
}

/* The table's name, cut between two characters if it is long, and a number for what is cut off and
 * for the column. */
void cli_fence_trigger_name(fence_names *names)
{
    size_t n = strlen(names->table);
    uint32_t number = hash(hash(2166136261U, names->table), names->column);

    for (n = n < 40 ? n : 40; n > 0 && (names->table[n] & 0xc0) == 0x80;)
        n--;
    snprintf(names->trigger, sizeof(names->trigger), "rowlock_fence_%.*s_%08x", (int)n,
             names->table, (unsigned)number);
}
