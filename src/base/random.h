/* SPDX-License-Identifier: MIT */
#ifndef RLK_RANDOM_H
#define RLK_RANDOM_H

#include <stddef.h>
#include <stdint.h>

/* Fills `out` with random bytes of the kernel's: getrandom(), or /dev/urandom where that is denied.
 * 0, or an errno if neither works: then `out` must not be used. */
int rlk_random(void *out, size_t n);

/* A number from 0 to limit - 1, to spread retries; 0 if limit < 1. Without a source of random bytes
 * it is taken from the clock. */
int64_t rlk_random_below(int64_t limit);

#endif
