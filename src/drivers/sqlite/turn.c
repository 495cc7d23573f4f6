/* SPDX-License-Identifier: MIT
 *
 * Waiting for a turn. Whoever waits reads and never writes until it is its turn, so that the one
 * who holds the lock is not hindered.
 *
 * The kernel could tell all who wait of every commit, and all of them would look, each time. So
 * only the next ones in line ask to be told; the others look again after half of the time in which
 * it can become their turn, as fast as the line has moved so far. */
#include <string.h>

#include "clock.h"
#include "lite.h"
#include "random.h"

#define SHORTEST_US INT64_C(200)    /* looks once more so long after a notice, which comes early */
#define LONGEST_US  INT64_C(50000)  /* ... and after so long a silence */
#define POLL_US     INT64_C(500)    /* where there are no notices */
#define VAIN_US     INT64_C(1000)   /* too many looks in vain: about so long before the next */
#define PLACE_US    INT64_C(1000)   /* far behind: looks at least so often, for each place, */
#define FAR_US      INT64_C(50000)  /* but in a line that stands still only so often */
#define BURY_US     INT64_C(100000) /* looks so often for the dead */

enum {
    NEAR = 2, /* the first so many are told, */
    MANY = 8  /* and look at once unless it was in vain so many times: others use this file */
};

typedef struct waiting {
    rowlock_op seen; /* the op as the last look or try has found it */
    lite_place place;
    int64_t start_us;
    int64_t until_us; /* 0: does not wait */
    int64_t deadline_us;
    int64_t silence_us; /* after that it looks although nobody has written */
    int64_t bury_us;    /* when to look for the dead */
    int64_t moved_us;   /* when the line was seen to move last */
    int64_t pace_us;    /* ... and how long it takes for a place */
    int64_t version;    /* of the data, as polled last */
    int64_t in_vain;    /* looks since something was new */
    int has_tried, is_ended;
    const int *fds;
    int n_fds;
} waiting;

static int look(lite_conn *conn, void *payload)
{
    waiting *w = payload;

    return lite_queue_look(conn, &w->seen, &w->place);
}

/* The lock is free and whoever comes first does not take it: is it dead? If the file cannot be
 * written to now, another time. */
static int bury(lite_conn *conn, void *payload)
{
    waiting *w = payload;
    int buried, status = lite_bury(conn, &w->seen, &buried);

    if (lite_was_locked_out(conn, status))
        return rlk_ok(conn->err);
    return status == ROWLOCK_OK && buried ? look(conn, w) : status;
}

/* ---- between two looks */

static int read_version(lite_conn *conn, void *payload)
{
    int64_t *out = payload;
    int status, rc;
    sqlite3_stmt *statement = lite_statement(conn, SQL_DATA_VERSION, &status);

    if (statement == NULL)
        return status;
    rc = sqlite3_step(statement);
    if (rc == SQLITE_ROW)
        *out = sqlite3_column_int64(statement, 0);
    return lite_done(conn, statement, rc);
}

static void sleep_for(waiting *w, int64_t us, int64_t until_us)
{
    int64_t until = rlk_clock_us() + us;

    if (us > 0)
        w->is_ended = rlk_sleep_until(until < until_us ? until : until_us, w->fds, w->n_fds) >= 0;
}

/* Without notices: nonzero when the file has changed, zero when the time has come. */
static int poll_version(lite_conn *conn, waiting *w, int64_t until_us)
{
    int64_t version = w->version;

    while (version == w->version && !w->is_ended && rlk_clock_us() < until_us) {
        sleep_for(w, POLL_US / 2 + rlk_random_below(POLL_US), until_us);
        /* Should it fail, the next look tells why. */
        (void)lite_call(conn, read_version, &version, 0, NULL);
    }
    if (version == w->version)
        return 0;
    w->version = version;
    return 1;
}

static int wait_for_notice(lite_conn *conn, waiting *w, int64_t until_us)
{
    if (!lite_notice_wait(conn, until_us, w->fds, w->n_fds, &w->is_ended))
        return 0;
    if (w->in_vain > MANY)
        sleep_for(w, VAIN_US / 2 + rlk_random_below(VAIN_US), until_us);
    lite_notice_drain(conn);
    return 1;
}

/* Near the front: sleeps until a look may show something new, because somebody has written, or the
 * lease or ticket in the way has ended, or it has been quiet for long. */
static void rest_near(lite_conn *conn, waiting *w)
{
    int64_t now = rlk_clock_us();
    int64_t until = now + w->silence_us;
    int was_watching = conn->watch != 0, is_watching = lite_notice_start(conn), woken;

    if (is_watching && !was_watching)
        return; /* what came before the watch is to be seen first */
    if (w->seen.remaining_us > 0 && now + w->seen.remaining_us < until)
        until = now + w->seen.remaining_us;
    if (w->until_us < until)
        until = w->until_us;
    woken = is_watching ? wait_for_notice(conn, w, until) : poll_version(conn, w, until);
    w->in_vain = woken ? w->in_vain + 1 : 0;
    w->silence_us = woken ? SHORTEST_US : w->silence_us * 4;
    if (w->silence_us > LONGEST_US)
        w->silence_us = LONGEST_US;
}

/* Far behind. A line that has stood still for long need not be looked at often. Jittered, lest all
 * come at once. */
static void rest_far(lite_conn *conn, waiting *w)
{
    int64_t each = w->pace_us / 2 < PLACE_US ? w->pace_us / 2 : PLACE_US;
    int64_t pause = w->place.before * each, still = (rlk_clock_us() - w->moved_us) / 4;

    lite_notice_stop(conn);
    pause = pause > still ? pause : still;
    pause = pause < FAR_US ? pause : FAR_US;
    sleep_for(w, pause / 2 + rlk_random_below(pause), w->until_us);
}

/* How fast is the line? */
static void note_pace(waiting *w, int64_t before)
{
    int64_t now = rlk_clock_us(), moved = before - w->place.before;

    if (moved > 0) {
        w->pace_us = (now - w->moved_us) / moved;
        w->moved_us = now;
        w->in_vain = 0;
    } else if (now - w->moved_us > w->pace_us) {
        w->pace_us = now - w->moved_us;
    }
    if (w->pace_us < SHORTEST_US)
        w->pace_us = SHORTEST_US;
}

/* ---- turn */

/* Looks, and tries if that is worth it. */
static int step(lite_conn *conn, waiting *w, rowlock_error *err)
{
    int64_t before = w->place.before;
    int status;

    conn->lock_ms = LITE_TURN_WAIT_MS;
    status = lite_call_until(conn, look, w, w->deadline_us, err);
    if (lite_was_locked_out(conn, status)) { /* where there is no log, a writer keeps out readers */
        lite_no_holder(&w->seen);
        return rlk_ok(err);
    }
    note_pace(w, before);
    if (status == ROWLOCK_OK && w->seen.is_queue && rlk_clock_us() >= w->bury_us) {
        w->bury_us = rlk_clock_us() + BURY_US;
        conn->lock_ms = LITE_TURN_WAIT_MS;
        status = lite_call_until(conn, bury, w, w->deadline_us, err);
    }
    if (status != ROWLOCK_OK || !lite_is_turn(&w->place))
        return status;
    w->has_tried = 1;
    w->seen.waited_us = rlk_clock_us() - w->start_us;
    return lite_take_turn(conn, &w->seen, w->deadline_us, err);
}

/* Only what is an answer: others may look at the name meanwhile. */
static void answer(rowlock_op *op, const rowlock_op *seen)
{
    op->fence = seen->fence;
    op->hold_count = seen->hold_count;
    op->remaining_us = seen->remaining_us;
    op->holder_fence = seen->holder_fence;
    memcpy(op->holder, seen->holder, sizeof op->holder);
    op->is_queue = seen->is_queue;
    op->waited_us = seen->waited_us;
}

static void end(lite_conn *conn, const waiting *w, rowlock_op *op)
{
    if (w->has_tried || w->seen.status != ROWLOCK_BUSY || w->until_us == 0)
        answer(op, &w->seen);
    op->status = w->seen.status;
    op->before = 0;
    op->rings = 0;
    if (op->status != ROWLOCK_BUSY && conn->ticket == op->ticket) {
        lite_notice_stop(conn);
        conn->ticket = 0;
    }
    op->can_wait = op->status == ROWLOCK_BUSY && conn->ticket == op->ticket;
}

int lite_turn(void *state, rowlock_op *op, uint32_t wait_ms, const int *fds, int n_fds,
              uint32_t timeout_ms, rowlock_error *err)
{
    lite_conn *conn = state;
    waiting w = {.seen = *op,
                 .start_us = rlk_clock_us(),
                 .deadline_us = lite_deadline(timeout_ms) + (int64_t)wait_ms * 1000,
                 .silence_us = SHORTEST_US,
                 .fds = fds,
                 .n_fds = n_fds};
    int status;

    if (wait_ms > 0) {
        w.until_us = w.start_us + (int64_t)wait_ms * 1000;
        w.bury_us = w.start_us + BURY_US;
    }
    w.moved_us = w.start_us;
    while ((status = step(conn, &w, err)) == ROWLOCK_OK && w.seen.status == ROWLOCK_BUSY &&
           !w.is_ended && rlk_clock_us() < w.until_us) {
        if (w.place.before < NEAR)
            rest_near(conn, &w);
        else
            rest_far(conn, &w);
    }
    if (status == ROWLOCK_OK)
        end(conn, &w, op);
    return status;
}
