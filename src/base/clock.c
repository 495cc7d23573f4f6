/* SPDX-License-Identifier: MIT */
#include "clock.h"

#include <poll.h>
#include <time.h>

/* A suspended machine stops the timer of poll() but not the clock: look again at least so often. */
#define LONGEST_SLEEP_US (60 * INT64_C(1000000))

enum { MOST_DESCRIPTORS = 4 };

int64_t rlk_clock_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

int rlk_sleep_until(int64_t until_us, const int *fds, int n)
{
    struct pollfd polled[MOST_DESCRIPTORS];

    for (int i = 0; i < n && i < MOST_DESCRIPTORS; i++)
        polled[i] = (struct pollfd){.fd = fds[i], .events = POLLIN};
    for (;;) {
        int64_t left = until_us - rlk_clock_us();
        struct timespec slice;

        if (left > LONGEST_SLEEP_US)
            left = LONGEST_SLEEP_US;
        if (left < 0)
            left = 0;
        slice.tv_sec = (time_t)(left / 1000000);
        slice.tv_nsec = (long)(left % 1000000) * 1000;
        if (ppoll(polled, (nfds_t)n, &slice, NULL) > 0) {
            for (int i = 0; i < n; i++) {
                if (polled[i].revents != 0)
                    return i;
            }
        }
        if (rlk_clock_us() >= until_us)
            return -1;
    }
}
