/* SPDX-License-Identifier: MIT */
#include "error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

_Static_assert(sizeof(rowlock_error) == 256, "rowlock_error is part of the ABI");

int rlk_ok(rowlock_error *err)
{
    if (err != NULL)
        memset(err, 0, sizeof *err);
    return ROWLOCK_OK;
}

/* A message that was cut off may end within a UTF-8 character: drop what is left of it. */
static void drop_partial(char *message)
{
    size_t end = strlen(message), start = end;

    while (start > 0 && end - start < 4 && ((unsigned char)message[start - 1] & 0xc0) == 0x80)
        start--;
    if (start > 0 && (unsigned char)message[start - 1] >= 0xc0) {
        unsigned char head = (unsigned char)message[start - 1];
        size_t whole = head >= 0xf0 ? 4 : head >= 0xe0 ? 3 : 2;

        if (end - (start - 1) < whole)
            message[start - 1] = '\0';
    }
}

/* Messages of servers come with line breaks and a final full stop; ours are one line without. */
static void tidy(char *message)
{
    size_t length = strlen(message);

    for (char *c = message; *c != '\0'; c++) {
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            *c = ' ';
    }
    while (length > 0 && (message[length - 1] == ' ' || message[length - 1] == '.'))
        message[--length] = '\0';
}

RLK_PRINTF(3, 0)
static int fail(rowlock_error *err, int status, const char *format, va_list args)
{
    if (err == NULL)
        return status;
    memset(err, 0, sizeof *err);
    err->status = status;
    if (vsnprintf(err->message, sizeof err->message, format, args) >= (int)sizeof err->message)
        drop_partial(err->message);
    tidy(err->message);
    return status;
}

int rlk_fail(rowlock_error *err, int status, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    fail(err, status, format, args);
    va_end(args);
    return status;
}

int rlk_fail_native(rowlock_error *err, int status, int native_code, const char *sqlstate,
                    int retryable, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    fail(err, status, format, args);
    va_end(args);
    if (err == NULL)
        return status;
    err->native_code = native_code;
    err->retryable = retryable != 0;
    if (sqlstate != NULL)
        snprintf(err->sqlstate, sizeof err->sqlstate, "%.5s", sqlstate);
    return status;
}

int rlk_fail_memory(rowlock_error *err)
{
    return rlk_fail_native(err, ROWLOCK_ENOMEM, 0, NULL, 1, "out of memory");
}
