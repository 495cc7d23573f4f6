/* SPDX-License-Identifier: MIT
 *
 * An address that is refused is refused by one line, and no password is in it. Half of the inputs
 * are addresses, the other half passwords in one: its first bytes are the secret. */
#ifndef ROWLOCK_FUZZ_ADDRESS_H
#define ROWLOCK_FUZZ_ADDRESS_H

#include "fuzz.h"

#define SECRET "Zq7"

/* The address to be tried; *is_secret: SECRET is a part of its password. Free with free(). */
static inline char *fuzz_address(const uint8_t *data, size_t size, const char *scheme,
                                 int *is_secret)
{
    char *text, *address;
    size_t room;

    *is_secret = size > 0 && data[0] % 2 == 1;
    text = fuzz_string(data + (size > 0), size - (size > 0));
    if (!*is_secret)
        return text;
    /* What stands in the address besides must not be SECRET by chance: h0st and d8 are not. */
    room = strlen(scheme) + strlen(text) + 64;
    address = malloc(room);
    MUST(address != NULL);
    snprintf(address, room, "%su53r:" SECRET "%s" SECRET "@h0st:1/d8", scheme, text);
    free(text);
    return address;
}

static inline void fuzz_check_refusal(const char *message, int is_secret)
{
    fuzz_check_message(message);
    MUST(!is_secret || strstr(message, SECRET) == NULL);
}

#endif
