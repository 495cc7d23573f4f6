/* SPDX-License-Identifier: MIT */
#include "fake_clock.h"

#include <poll.h>
#include <stdatomic.h>
#include <stddef.h>

#include "clock.h"

#define START_US INT64_C(1000000000)

static _Atomic int64_t now_us = START_US;
static _Atomic int64_t slept_us;
static atomic_int sleeps;
static atomic_int reads;
static atomic_int frozen;
static void (*on_sleep)(void);

void fake_clock_reset(void)
{
    atomic_store(&now_us, START_US);
    atomic_store(&slept_us, 0);
    atomic_store(&sleeps, 0);
    atomic_store(&reads, 0);
    atomic_store(&frozen, 0);
    on_sleep = NULL;
}

void fake_clock_advance_us(int64_t us)
{
    atomic_fetch_add(&now_us, us);
}

void fake_clock_freeze(void)
{
    atomic_store(&frozen, 1);
}

int fake_clock_sleeps(void)
{
    return atomic_load(&sleeps);
}

int64_t fake_clock_slept_us(void)
{
    return atomic_load(&slept_us);
}

void fake_clock_on_sleep(void (*fn)(void))
{
    on_sleep = fn;
}

int fake_clock_reads(void)
{
    return atomic_load(&reads);
}

int64_t rlk_clock_us(void)
{
    atomic_fetch_add(&reads, 1);
    return atomic_load(&now_us);
}

int rlk_sleep_until(int64_t until_us, const int *fds, int n)
{
    int64_t left = until_us - rlk_clock_us();

    if (on_sleep != NULL)
        on_sleep();
    atomic_fetch_add(&sleeps, 1);
    for (int i = 0; i < n; i++) {
        struct pollfd one = {.fd = fds[i], .events = POLLIN};

        if (poll(&one, 1, 0) > 0)
            return i;
    }
    if (atomic_load(&frozen)) {
        poll(NULL, 0, 1);
        return -1;
    }
    if (left > 0 && until_us != RLK_NEVER) {
        atomic_fetch_add(&slept_us, left);
        fake_clock_advance_us(left);
    }
    return -1;
}
