/* SPDX-License-Identifier: MIT
 *
 * Locks that are kept for a time, whatever the command does: --hold-at-least and `rowlock once`.
 *
 * A lease is never shortened by renewing it. So the lease keeps the lock, and the process ends, if
 * all that is left of the time is longer than the lease; else the process waits and releases.
 *
 * The periods of `once` are counted by the clock of the database, from 1970 on: whoever comes asks
 * the same clock, and all hosts mean the same period. The clock is read off the fence, which is the
 * time of the grant in microseconds (driver.h), or later if that clock was set back. The lease is
 * extended by what remains of the period after the grant, less what has passed since by our own
 * clock: that is less than what has passed for the database, so that it never ends too early. */
#include "job.h"

/* What is left of the period in which a lock was granted, rounded up. */
static int64_t rest_of_period(uint64_t fence, int64_t every_ms)
{
    uint64_t every = (uint64_t)every_ms * 1000;

    return (int64_t)((every - fence % every + 999) / 1000);
}

static int64_t at_least(int64_t ms)
{
    return ms < ROWLOCK_TTL_MIN_MS ? ROWLOCK_TTL_MIN_MS : ms;
}

int cli_tail_start(cli_tail *tail, const cli_job *job, rowlock_lock *lock, int64_t before)
{
    rowlock_error err;

    tail->until = job->hold_at_least_ms > 0 ? before + job->hold_at_least_ms : 0;
    if (job->every_ms <= 0)
        return CLI_GO_ON;
    tail->until = cli_now_ms() + rest_of_period(rowlock_fence(lock), job->every_ms);
    if (rowlock_renew(lock, at_least(tail->until - cli_now_ms()), &err) != ROWLOCK_OK)
        return cli_fail(&err);
    return CLI_GO_ON;
}

enum cli_tail_end cli_tail_wait(const cli_tail *tail, const cli_job *job, rowlock_lock *lock,
                                int status)
{
    int64_t rest = tail->until - cli_now_ms();
    char text[32];

    if (rest <= 0 || (job->every_ms > 0 && job->retry && status != 0))
        return CLI_TAIL_RELEASE;
    cli_duration_text(text, rest);
    if (job->verbose)
        cli_message("'%s' is kept for another %s", job->shown, text);
    if (rest >= rowlock_remaining(lock) && rowlock_renew(lock, at_least(rest), NULL) == ROWLOCK_OK)
        return CLI_TAIL_DETACH;
    while (rest > 0) {
        if (rowlock_check(lock) != ROWLOCK_OK)
            return CLI_TAIL_LOST;
        if (cli_signals_pause(-1, rest < 1000 ? rest : 1000))
            return CLI_TAIL_DETACH;
        rest = tail->until - cli_now_ms();
    }
    return CLI_TAIL_RELEASE;
}
