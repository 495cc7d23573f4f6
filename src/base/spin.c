/* SPDX-License-Identifier: MIT */
#include "spin.h"

#include <poll.h>
#include <sched.h>

#include "clock.h"

/* Who comes back so late has let somebody else run. */
enum { YIELDED_US = 10 };

static void pass_over(rlk_spin *spin)
{
    spin->doubled = (uint8_t)(spin->doubled * 2 + 1);
    if (spin->doubled > RLK_SPIN_PASSES)
        spin->doubled = RLK_SPIN_PASSES;
    spin->passes = spin->doubled;
}

void rlk_spin_on(rlk_spin *spin, int fd)
{
    struct pollfd polled = {.fd = fd, .events = POLLIN};
    int64_t now, end;

    if (spin->most_us == 0)
        return;
    if (spin->passes > 0) {
        spin->passes--;
        return;
    }
    now = rlk_clock_us();
    end = now + spin->most_us;
    while (poll(&polled, 1, 0) == 0) {
        int64_t before = now;

        sched_yield();
        now = rlk_clock_us();
        if (now >= end || now - before > YIELDED_US) {
            pass_over(spin);
            return;
        }
    }
    spin->doubled /= 2;
}
