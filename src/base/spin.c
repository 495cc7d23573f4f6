/* SPDX-License-Identifier: MIT */
#include "spin.h"

#include <poll.h>
#include <sched.h>

#include "clock.h"

void rlk_spin(int fd, uint32_t us)
{
    struct pollfd polled = {.fd = fd, .events = POLLIN};
    int64_t end = us == 0 ? 0 : rlk_clock_us() + us;

    while (us > 0 && poll(&polled, 1, 0) == 0 && rlk_clock_us() < end)
        sched_yield();
}
