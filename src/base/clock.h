/* SPDX-License-Identifier: MIT
 *
 * Local time and sleeping: the seam at which tests put a clock of their own. */
#ifndef RLK_CLOCK_H
#define RLK_CLOCK_H

#include <stdint.h>

#define RLK_NEVER INT64_MAX

/* Microseconds of a clock that only goes forward and counts while the machine sleeps
 * (CLOCK_BOOTTIME). Comparable within one boot of one host. */
int64_t rlk_clock_us(void);

/* Sleeps until the clock reads until_us (RLK_NEVER: for ever) or one of the n descriptors (-1:
 * none) is readable. Returns the index of a readable one, or -1 when the time has come. */
int rlk_sleep_until(int64_t until_us, const int *fds, int n);

#endif
