/* SPDX-License-Identifier: MIT
 *
 * A clock that moves only when told to, in place of src/base/clock.c: a test program that is linked
 * with fake_clock.c takes rlk_clock_us() and rlk_sleep_until() from here. Sleeping moves the clock
 * to the end of the sleep at once, unless a descriptor is readable. */
#ifndef FAKE_CLOCK_H
#define FAKE_CLOCK_H

#include <stdint.h>

void fake_clock_reset(void);

/* How often anybody looked: what it cost to find something. */
int fake_clock_reads(void);

void fake_clock_advance_us(int64_t us);

/* How often somebody slept since the reset, and for how long in all. */
int fake_clock_sleeps(void);
int64_t fake_clock_slept_us(void);

/* From now on sleeping does not move the clock but lasts a real millisecond: for tests with several
 * threads, where one thread's sleep must not make another one late. */
void fake_clock_freeze(void);

/* Called at the start of each sleep, for tests that change something during a wait. NULL: none. */
void fake_clock_on_sleep(void (*fn)(void));

#endif
