/* SPDX-License-Identifier: MIT
 *
 * The command and its lease, side by side. The library renews; here the command is ended when the
 * lock is lost, or is about to be: TERM comes while there is time left to end in. */
#include <signal.h>
#include <string.h>

#include "cli.h"

/* Times are milliseconds of cli_now_ms(). */
typedef struct guard {
    cli_watch *watch;
    cli_child child;
    int lost_fd;
    int64_t since;   /* the lock was acquired before */
    int64_t kill_at; /* when TERM, or another signal, was not enough; 0: none was sent */
} guard;

static int64_t between(int64_t low, int64_t value, int64_t high)
{
    return value < low ? low : value > high ? high : value;
}

/* ---- when ------------------------------------------------------------------------------------ */

/* What the lease is at its longest. */
static int64_t lease(const cli_watch *w)
{
    return w->max_hold_ms > 0 && w->max_hold_ms < w->ttl_ms ? w->max_hold_ms : w->ttl_ms;
}

/* How long before the end of the lease KILL is sent. */
static int64_t kill_lead(const cli_watch *w)
{
    return between(0, lease(w) / 12, 2000);
}

/* Time that the command gets, out of the lease, to end after TERM. The library renews at a third of
 * the lease, so that more than half of it is left whenever the database answers. */
static int64_t term_lead(const cli_watch *w)
{
    if (w->kill_after_ms >= 0)
        return between(kill_lead(w), w->kill_after_ms + kill_lead(w), lease(w) / 2);
    return between(0, lease(w) / 3, 10000);
}

/* From TERM to KILL. If it is another's already, nothing is won by a hurry that costs the command
 * its cleaning up; else it must be gone before it becomes another's. */
static int64_t grace(const cli_watch *w, int loss)
{
    int64_t asked = w->kill_after_ms;

    if (loss == ROWLOCK_LOSS_TAKEN || loss == ROWLOCK_LOSS_FORCED)
        return asked >= 0 ? asked : between(0, w->ttl_ms / 4, 5000);
    return between(0, rowlock_remaining(w->lock) - kill_lead(w), asked >= 0 ? asked : 10000);
}

/* ---- why ------------------------------------------------------------------------------------- */

typedef struct taker {
    size_t name_length;
    char owner[ROWLOCK_OWNER_MAX + 1];
} taker;

/* The first row whose name starts so is the one with that very name, if there is one. */
static int note_taker(const rowlock_row *row, void *payload)
{
    taker *t = payload;

    if (row->name_length == t->name_length)
        snprintf(t->owner, sizeof(t->owner), "%s", row->owner);
    return 1;
}

static void say_taken(const cli_watch *w)
{
    rowlock_list_options options = ROWLOCK_LIST_OPTIONS_INIT;
    taker t = {.name_length = strlen(w->name), .owner = ""};

    options.starts_with = w->name;
    rowlock_list(w->client, &options, note_taker, &t, NULL);
    cli_message("lost '%s': taken by %s; stopping the command", w->shown,
                t.owner[0] ? t.owner : "somebody else");
}

static const char *reason(const guard *g, int loss)
{
    const cli_watch *w = g->watch;

    if (loss == ROWLOCK_LOSS_FORCED)
        return "it was force-released";
    if (loss == ROWLOCK_LOSS_EXPIRED)
        return "its lease expired before it was renewed";
    if (loss == ROWLOCK_LOSS_UNREACHABLE || (loss == ROWLOCK_LOSS_NONE && w->failing))
        return "the database did not answer in time";
    if (loss == ROWLOCK_LOSS_MAX_HOLD ||
        (w->max_hold_ms > 0 && cli_now_ms() + w->ttl_ms >= g->since + w->max_hold_ms))
        return "held for as long as --max-hold allows";
    return "its lease could not be renewed in time";
}

/* ---- holding --------------------------------------------------------------------------------- */

/* TERM to the whole group first, words after it. */
static void lose(guard *g)
{
    cli_watch *w = g->watch;
    int loss = rowlock_loss(w->lock);

    w->lost = 1;
    g->kill_at = cli_now_ms() + grace(w, loss);
    cli_child_signal(&g->child, SIGTERM);
    cli_child_signal(&g->child, SIGCONT); /* a stopped process hears no TERM */
    w->running = 0;
    if (loss == ROWLOCK_LOSS_TAKEN)
        say_taken(w);
    else
        cli_message("lost '%s': %s; stopping the command", w->shown, reason(g, loss));
}

/* Kills the group when its time is over, and returns how long nothing else will be. */
static int64_t kill_in_time(guard *g)
{
    if (cli_now_ms() >= g->kill_at) {
        cli_child_signal(&g->child, SIGKILL);
        g->kill_at = cli_now_ms() + 1000;
    }
    return between(0, g->kill_at - cli_now_ms(), 1000);
}

/* Does what is due, and returns how long nothing else will be. A signal that was passed on is
 * looked for from time to time: it may come right before we wait. */
static int64_t step(guard *g)
{
    cli_watch *w = g->watch;
    int64_t left = rowlock_remaining(w->lock) - term_lead(w);

    if (!w->lost && left <= 0)
        lose(g);
    if (!w->lost && w->kill_after_ms >= 0 && g->kill_at == 0 && cli_signals_passed_on())
        g->kill_at = cli_now_ms() + w->kill_after_ms;
    if (g->kill_at > 0)
        return kill_in_time(g);
    return between(1, left, w->kill_after_ms >= 0 ? 500 : 60000);
}

void cli_watch_event(const rowlock_event *event, void *payload)
{
    cli_watch *w = payload;

    if (!w->running)
        return;
    if (event->kind == ROWLOCK_EVENT_RENEWED)
        w->failing = 0;
    else if (event->kind == ROWLOCK_EVENT_ERROR && !atomic_exchange(&w->failing, 1))
        cli_message("cannot renew '%s' yet: %s", w->shown, event->message);
}

int cli_watch_run(cli_watch *watch, const cli_program *program)
{
    guard g = {.watch = watch, .since = cli_now_ms()};
    int64_t idle = 0;
    rowlock_error err;
    int result;

    g.lost_fd = rowlock_lost_fd(watch->lock, &err);
    if (g.lost_fd < 0)
        return cli_fail(&err);
    watch->running = 1;
    result = cli_child_start(&g.child, program);
    watch->started = result == CLI_GO_ON && g.child.started;
    while (result == CLI_GO_ON && !cli_child_wait(&g.child, watch->lost ? -1 : g.lost_fd, idle))
        idle = step(&g);
    watch->running = 0;
    if (result != CLI_GO_ON)
        return result;
    if (watch->lost)
        cli_child_signal(&g.child, SIGKILL); /* what it left behind in its group */
    cli_child_end(&g.child);
    return watch->lost ? CLI_LOST : g.child.status;
}
