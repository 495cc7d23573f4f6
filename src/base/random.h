/* SPDX-License-Identifier: MIT */
#ifndef RLK_RANDOM_H
#define RLK_RANDOM_H

#include <stddef.h>
#include <stdint.h>

/* Fills `out` with random bytes of the kernel's. */
void rlk_random(void *out, size_t n);

/* A random number from 0 to limit - 1; 0 if limit < 1. */
int64_t rlk_random_below(int64_t limit);

#endif
