/* SPDX-License-Identifier: MIT */
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

/* One write(), so that lines of several processes do not mix. */
__attribute__((format(printf, 1, 0))) static void message(const char *format, va_list args)
{
    char line[1600] = "rowlock: ";
    size_t start = strlen(line);
    int n = vsnprintf(line + start, sizeof(line) - start - 1, format, args);
    size_t length = n < 0 ? start : start + (size_t)n;

    if (length > sizeof(line) - 2)
        length = sizeof(line) - 2;
    for (size_t i = start; i < length; i++)
        if ((unsigned char)line[i] < ' ' || line[i] == 0x7f)
            line[i] = '?';
    line[length++] = '\n';
    if (write(STDERR_FILENO, line, length) < 0)
        return; /* nowhere left to complain */
}

void cli_message(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    message(format, args);
    va_end(args);
}

int cli_usage(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    message(format, args);
    va_end(args);
    return CLI_USAGE;
}

int cli_out_of_memory(void)
{
    cli_message("out of memory");
    return CLI_OTHER;
}

void cli_say_busy(const char *what, const char *shown, const rowlock_holder *holder,
                  const rowlock_error *err)
{
    char left[32];

    cli_duration_text(left, holder->remaining_ms);
    if (holder->owner[0])
        cli_message("%s'%s' is held by %s, for another %s unless renewed", what, shown,
                    holder->owner, left);
    else
        cli_message("%s'%s' is %s", what, shown, err->message);
}

int cli_shown(const char *word)
{
    return (int)strcspn(word, ":=@");
}

int cli_fail(const rowlock_error *err)
{
    cli_message("%s", err->message[0] ? err->message : rowlock_strstatus(err->status));
    switch (err->status) {
    case ROWLOCK_BUSY:
    case ROWLOCK_TIMEOUT:
    case ROWLOCK_CANCELLED:
        return CLI_BUSY;
    case ROWLOCK_LOST:
        return CLI_LOST;
    case ROWLOCK_EINVAL:
    case ROWLOCK_ENOTSUP:
        return CLI_USAGE;
    case ROWLOCK_ECONNECT:
    case ROWLOCK_EUNKNOWN:
        return CLI_NO_DB;
    case ROWLOCK_ESCHEMA:
        return CLI_SCHEMA;
    default:
        return CLI_OTHER;
    }
}

size_t cli_utf8(const char *s, size_t n)
{
    const unsigned char *u = (const unsigned char *)s;
    static const unsigned long least[5] = {0, 0, 0x80, 0x800, 0x10000};
    size_t length = u[0] < 0x80 ? 1 : u[0] >= 0xf0 ? 4 : u[0] >= 0xe0 ? 3 : u[0] >= 0xc2 ? 2 : 0;
    unsigned long code = length == 1 ? u[0] : u[0] & (0x7fU >> length);

    if (length == 0 || length > n || u[0] > 0xf4)
        return 0;
    for (size_t i = 1; i < length; i++) {
        if ((u[i] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | (u[i] & 0x3f);
    }
    if (code < least[length] || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff))
        return 0;
    return length;
}

/* U+0080 to U+009F are control characters, too. */
static int is_control(const char *s, size_t length)
{
    const unsigned char *u = (const unsigned char *)s;

    return (length == 1 && (u[0] < ' ' || u[0] == 0x7f)) ||
           (length == 2 && u[0] == 0xc2 && u[1] < 0xa0);
}

int cli_characters(const char *s)
{
    size_t left = strlen(s);
    int count = 0;

    while (left > 0) {
        size_t length = cli_utf8(s, left);

        if (length == 0 || is_control(s, length))
            return -1;
        s += length;
        left -= length;
        count++;
    }
    return count;
}

void cli_printable(char *out, const char *s, size_t n)
{
    for (size_t i = 0; i < n;) {
        size_t length = cli_utf8(s + i, n - i);

        if (length == 0 || is_control(s + i, length)) {
            out += sprintf(out, "\\x%02x", (unsigned char)s[i]);
            i++;
            continue;
        }
        if (s[i] == '\\')
            *out++ = '\\';
        memcpy(out, s + i, length);
        out += length;
        i += length;
    }
    *out = '\0';
}

static int smallest(int a, int b, int c)
{
    int ab = a < b ? a : b;

    return ab < c ? ab : c;
}

/* Levenshtein's. Words longer than 30 are far from all. */
int cli_distance(const char *a, const char *b)
{
    int row[32];
    int n = (int)strlen(b);

    if (n > 30 || strlen(a) > 30)
        return 100;
    for (int j = 0; j <= n; j++)
        row[j] = j;
    for (int i = 1; a[i - 1]; i++) {
        int diagonal = row[0];

        row[0] = i;
        for (int j = 1; j <= n; j++) {
            int above = row[j];

            row[j] = smallest(above + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1]));
            diagonal = above;
        }
    }
    return row[n];
}
