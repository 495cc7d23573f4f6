/* SPDX-License-Identifier: MIT */
#include "event.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "clock.h"

int rlk_event_new(void)
{
    return eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
}

void rlk_event_free(int event)
{
    close(event);
}

void rlk_event_set(int event)
{
    const uint64_t one = 1;

    if (event >= 0 && write(event, &one, sizeof one) < 0) {
        /* The counter is full: it is readable already. */
    }
}

void rlk_event_clear(int event)
{
    uint64_t count;

    if (event >= 0 && read(event, &count, sizeof count) < 0) {
        /* It was not set. */
    }
}

int rlk_sleeper_init(rlk_sleeper *sleeper)
{
    sleeper->wake_fd = rlk_event_new();
    /* Unlike poll() it does not stand still while the machine is suspended. */
    sleeper->timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    return sleeper->wake_fd >= 0 && sleeper->timer_fd >= 0 ? 0 : -1;
}

void rlk_sleeper_free(rlk_sleeper *sleeper)
{
    if (sleeper->wake_fd > 0)
        close(sleeper->wake_fd);
    if (sleeper->timer_fd > 0)
        close(sleeper->timer_fd);
}

void rlk_sleeper_wake(const rlk_sleeper *sleeper)
{
    rlk_event_set(sleeper->wake_fd);
}

void rlk_sleeper_sleep(rlk_sleeper *sleeper, int64_t until_us)
{
    struct pollfd polled[] = {{.fd = sleeper->wake_fd, .events = POLLIN},
                              {.fd = sleeper->timer_fd, .events = POLLIN}};
    struct itimerspec timer = {.it_value = {.tv_sec = (time_t)(until_us / 1000000),
                                            .tv_nsec = (long)(until_us % 1000000) * 1000}};

    if (until_us == RLK_NEVER)
        memset(&timer, 0, sizeof timer);
    timerfd_settime(sleeper->timer_fd, TFD_TIMER_ABSTIME, &timer, NULL);
    while (poll(polled, 2, -1) < 0 && errno == EINTR) {
    }
    for (int i = 0; i < 2; i++) {
        if (polled[i].revents != 0)
            rlk_event_clear(polled[i].fd);
    }
}
