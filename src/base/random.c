/* SPDX-License-Identifier: MIT */
#include "random.h"

#include <sys/random.h>

void rlk_random(void *out, size_t n)
{
    unsigned char *next = out;

    while (n > 0) {
        ssize_t got = getrandom(next, n, 0);

        if (got < 0) {
            /* Without flags the call fails only when interrupted; it is repeated. */
            continue;
        }
        next += got;
        n -= (size_t)got;
    }
}

int64_t rlk_random_below(int64_t limit)
{
    uint64_t value;

    if (limit < 1)
        return 0;
    rlk_random(&value, sizeof value);
    return (int64_t)(value % (uint64_t)limit);
}
