/* SPDX-License-Identifier: MIT
 *
 * When to try again, for those who are in no queue: transactions, whoever barges, and drivers that
 * have none. A waiter sleeps until the holder's lease ends, and looks in between at
 * growing, jittered intervals, because a release is not announced. A pause is at most an eighth of
 * the time that was waited already: who came late among short holds is not left behind. */
#include "core.h"
#include "random.h"

#define FIRST_PAUSE_US   INT64_C(1000)
#define SHORT_PAUSE_US   INT64_C(10000)
#define LONGEST_PAUSE_US INT64_C(250000)

/* What the last request of a wait, and taking back what is left of it, may take beyond its end: a
 * tenth of the wait. And the least that a request has, from the beginning: less, and a database
 * that is only slow would leave most of them unknown. */
#define LEAST_REST_US  INT64_C(30000)
#define LEAST_BOUND_US INT64_C(100000)
#define LEAST_TRY_US   INT64_C(50000)

enum { REST_PART = 10 };

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t end_of(const rlk_wait *wait, int64_t wait_us)
{
    int64_t rest = most(least(wait_us / REST_PART, wait->client->call_timeout_us), LEAST_REST_US);

    return most(wait->until_us + rest, wait->since_us + LEAST_BOUND_US);
}

void rlk_wait_begin(rlk_wait *wait, rowlock_client *client, int64_t wait_ms, rowlock_cancel *cancel)
{
    int64_t now = rlk_clock_us();

    wait->client = client;
    wait->cancel = cancel;
    wait->until_us =
        wait_ms < 0 || wait_ms > (RLK_NEVER - now) / 1000 ? RLK_NEVER : now + wait_ms * 1000;
    wait->since_us = now;
    wait->interval_us = FIRST_PAUSE_US;
    if (wait_ms == 0)
        wait->end_us = now + client->call_timeout_us;
    else
        wait->end_us = wait->until_us == RLK_NEVER ? RLK_NEVER : end_of(wait, wait->until_us - now);
}

int64_t rlk_bound(const rowlock_client *client, int64_t deadline_us)
{
    return most(least(deadline_us - rlk_clock_us(), client->call_timeout_us), 0);
}

int64_t rlk_wait_bound(const rlk_wait *wait)
{
    return rlk_bound(wait->client, wait->end_us);
}

uint32_t rlk_bound_ms(const rowlock_client *client, int64_t deadline_us)
{
    return (uint32_t)most(rlk_bound(client, deadline_us) / 1000, 1);
}

uint32_t rlk_wait_rest_ms(const rlk_wait *wait, uint32_t wait_ms)
{
    return wait->end_us == RLK_NEVER
               ? rlk_call_timeout_ms(wait->client)
               : rlk_bound_ms(wait->client, wait->end_us - (int64_t)wait_ms * 1000);
}

/* Half of the interval and a random part of the other half: waiters that came together part. */
static int64_t next_pause(rlk_wait *wait, int64_t holder_remaining_us)
{
    int64_t pause = wait->interval_us / 2 + rlk_random_below(wait->interval_us / 2);
    int64_t longest = most((rlk_clock_us() - wait->since_us) / 8, SHORT_PAUSE_US);

    wait->interval_us += wait->interval_us / 2;
    wait->interval_us = least(wait->interval_us, least(longest, LONGEST_PAUSE_US));
    if (holder_remaining_us > 0 && holder_remaining_us < pause)
        pause = holder_remaining_us + rlk_random_below(FIRST_PAUSE_US);
    return pause;
}

/* Sleeps until then, or until somebody ends the wait or rings. */
static int sleep_until(const rlk_wait *wait, int64_t until, int ring_fd, rowlock_error *err)
{
    const int fds[] = {wait->client->close_fd, rlk_cancel_fd(wait->cancel), ring_fd};

    switch (rlk_sleep_until(until < wait->until_us ? until : wait->until_us, fds, 3)) {
    case 0:
        return rlk_fail(err, ROWLOCK_ECLOSED, "the client was closed during the wait");
    case 1:
        return rlk_fail(err, ROWLOCK_CANCELLED, "the wait was cancelled");
    default:
        return ROWLOCK_OK;
    }
}

int rlk_wait_has_time(const rlk_wait *wait)
{
    return rlk_wait_bound(wait) >= LEAST_TRY_US;
}

/* There is no time for another try: sleeps until the end. */
static int sleep_to_end(const rlk_wait *wait, rowlock_error *err)
{
    int rc = sleep_until(wait, wait->until_us, -1, err);

    return rc == ROWLOCK_OK ? ROWLOCK_TIMEOUT : rc;
}

int rlk_wait_next(rlk_wait *wait, int64_t holder_remaining_us, rowlock_error *err)
{
    int64_t now = rlk_clock_us();
    int64_t until = now + next_pause(wait, holder_remaining_us);

    int rc = now >= wait->until_us ? ROWLOCK_TIMEOUT : sleep_until(wait, until, -1, err);

    return rc == ROWLOCK_OK && !rlk_wait_has_time(wait) ? sleep_to_end(wait, err) : rc;
}

int rlk_wait_until(const rlk_wait *wait, int64_t until_us, int ring_fd, rowlock_error *err)
{
    return rlk_clock_us() >= wait->until_us ? ROWLOCK_TIMEOUT
                                            : sleep_until(wait, until_us, ring_fd, err);
}

int rlk_wait_look(const rlk_wait *wait, rowlock_error *err)
{
    return rlk_wait_until(wait, rlk_clock_us(), -1, err);
}

uint32_t rlk_wait_left_ms(const rlk_wait *wait)
{
    int64_t left_us = wait->until_us - rlk_clock_us();

    if (wait->until_us == RLK_NEVER)
        return ROWLOCK_WAIT_FOREVER;
    if (left_us <= 0)
        return ROWLOCK_WAIT_NONE;
    return left_us / 1000 >= ROWLOCK_WAIT_FOREVER - 1 ? ROWLOCK_WAIT_FOREVER - 1
                                                      : (uint32_t)((left_us + 999) / 1000);
}
