/* SPDX-License-Identifier: MIT
 *
 * What the fuzzers share. A fuzzer aborts when a promise is broken; the sanitizers see the rest. */
#ifndef ROWLOCK_FUZZ_H
#define ROWLOCK_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(condition)                                                             \
    do {                                                                            \
        if (!(condition)) {                                                         \
            fprintf(stderr, "%s:%d: broken: %s\n", __FILE__, __LINE__, #condition); \
            abort();                                                                \
        }                                                                           \
    } while (0)

/* A copy with a NUL behind it; NULs inside become spaces. Free with free(). */
static inline char *fuzz_string(const uint8_t *data, size_t size)
{
    char *string = malloc(size + 1);

    MUST(string != NULL);
    for (size_t i = 0; i < size; i++)
        string[i] = (char)(data[i] == 0 ? ' ' : data[i]);
    string[size] = '\0';
    return string;
}

/* One line, of characters that a terminal and a log can take. */
static inline void fuzz_check_message(const char *message)
{
    MUST(message[0] != '\0');
    for (const char *c = message; *c != '\0'; c++)
        MUST((unsigned char)*c >= ' ' && *c != 0x7f);
}

#endif
