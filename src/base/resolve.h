/* SPDX-License-Identifier: MIT
 *
 * Host names by a deadline, which the resolver's own function does not know: it is asked in a
 * thread of its own, which is left alone when the time has passed. */
#ifndef RLK_RESOLVE_H
#define RLK_RESOLVE_H

#include <stdint.h>

enum { RLK_ADDRESSES_MAX = 8, RLK_ADDRESS_SIZE = 64, RLK_HOST_MAX = 255 };

/* Numeric, in the order in which they should be tried. */
typedef struct rlk_addresses {
    int count;
    char text[RLK_ADDRESSES_MAX][RLK_ADDRESS_SIZE];
} rlk_addresses;

/* Answers NULL: *out has one at least; or why not, a constant text. `deadline` as of
 * rlk_clock_us(). */
const char *rlk_resolve(rlk_addresses *out, const char *host, int64_t deadline);

/* Is it an address already? */
int rlk_is_address(const char *host);

#endif
