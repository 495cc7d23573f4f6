/* SPDX-License-Identifier: MIT
 *
 * Events: descriptors that are readable while they are set, for rlk_sleep_until() and poll(). And
 * what a thread of the library sleeps on. */
#ifndef RLK_EVENT_H
#define RLK_EVENT_H

#include <stdint.h>

/* Not set. -1 and errno if there is no descriptor to be had. */
int rlk_event_new(void);
void rlk_event_free(int event);

/* Also in signal handlers. -1: does nothing. */
void rlk_event_set(int event);
void rlk_event_clear(int event);

/* Zeroed memory is one that may be freed. */
typedef struct rlk_sleeper {
    int wake_fd, timer_fd;
} rlk_sleeper;

/* 0, or -1 and errno; rlk_sleeper_free() follows in any case. */
int rlk_sleeper_init(rlk_sleeper *sleeper);
void rlk_sleeper_free(rlk_sleeper *sleeper);

/* Sleeps until rlk_clock_us() reads until_us, also if the machine is suspended meanwhile
 * (RLK_NEVER: for ever), or until it is woken; at once if it was since the last sleep. */
void rlk_sleeper_sleep(rlk_sleeper *sleeper, int64_t until_us);
void rlk_sleeper_wake(const rlk_sleeper *sleeper);

#endif
