/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "job.h"

/* ---- arguments ------------------------------------------------------------------------------- */

static int check_command(cli_job *j, const cli_args *args)
{
    static char shell[] = "/bin/sh", option[] = "-c";

    if (j->line && args->command)
        return cli_usage("-c and a command after '--' exclude each other");
    if (j->line && !*j->line)
        return cli_usage("-c: the line is empty");
    if (j->line) {
        j->shell[0] = shell;
        j->shell[1] = option;
        j->shell[2] = (char *)(uintptr_t)j->line;
        j->command = j->shell;
        return CLI_GO_ON;
    }
    if (!args->command || !args->command[0])
        return cli_usage("no command given; write it after '--'");
    j->command = args->command;
    return CLI_GO_ON;
}

static int check_options(const cli_job *j)
{
    if (j->ttl_ms < ROWLOCK_TTL_MIN_MS || j->ttl_ms > ROWLOCK_TTL_MAX_MS)
        return cli_usage("--ttl must be between 50ms and 31d");
    if (j->max_hold_ms != CLI_NOT_GIVEN && j->max_hold_ms < ROWLOCK_TTL_MIN_MS)
        return cli_usage("--max-hold must be 50ms or more");
    if (j->hold_at_least_ms > ROWLOCK_TTL_MAX_MS)
        return cli_usage("--hold-at-least must be 31d or less");
    if (j->max_hold_ms != CLI_NOT_GIVEN && j->hold_at_least_ms > j->max_hold_ms)
        return cli_usage("--hold-at-least is longer than --max-hold");
    if (j->busy_status > 255)
        return cli_usage("--conflict-exit-code must be between 0 and 255");
    if (j->busy_quiet && j->verbose)
        return cli_usage("--quiet and --verbose exclude each other");
    if (j->owner && !*j->owner)
        return cli_usage("--owner is empty");
    return CLI_GO_ON;
}

int cli_job_check(cli_job *job, const cli_command *self, const cli_args *args)
{
    int result;

    if (args->count > 1 && !args->command && !job->line)
        return cli_usage("write the command after '--': rowlock %s NAME -- COMMAND", self->name);
    result = cli_name_check(&job->name, self, args);
    if (result == CLI_GO_ON)
        result = check_command(job, args);
    if (result == CLI_GO_ON)
        result = check_options(job);
    if (result != CLI_GO_ON)
        return result;
    if (job->max_hold_ms == CLI_NOT_GIVEN)
        job->max_hold_ms = 0; /* as the library says it */
    if (!job->owner && !cli_held_inner(job->inner))
        job->inner[0] = '\0';
    cli_printable(job->shown, job->name, strlen(job->name));
    return CLI_GO_ON;
}

/* ---- acquiring ------------------------------------------------------------------------------- */

static rowlock_acquire_options options_of(const cli_job *j)
{
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;

    options.ttl_ms = j->ttl_ms;
    options.max_hold_ms = j->max_hold_ms;
    options.owner = j->owner ? j->owner : j->inner[0] ? j->inner : NULL;
    options.note = j->note;
    options.renew = 1;
    return options;
}

/* Re-enters what a run around this one holds. 1 if it did. The fence tells that it is that tenure
 * and not one which we began ourselves, on another database or after the outer one was lost. */
static int reenter(rowlock_lock **lock, rowlock_client *client, const cli_job *j)
{
    rowlock_acquire_options options = options_of(j);
    cli_held held;

    if (j->owner || j->every_ms > 0 || !cli_held_find(&held, j->name))
        return 0;
    options.owner = held.owner;
    if (rowlock_acquire(lock, client, j->name, &options, NULL) != ROWLOCK_OK)
        return 0;
    if (rowlock_fence(*lock) == held.fence)
        return 1;
    rowlock_release(lock, NULL);
    return 0;
}

/* A look before the wait, so that there is something to say. */
static int try_verbosely(rowlock_lock **lock, rowlock_client *client, const cli_job *j)
{
    rowlock_acquire_options options = options_of(j);
    rowlock_holder holder = {.owner = ""};
    rowlock_error err;
    int status;

    options.holder = &holder;
    status = rowlock_acquire(lock, client, j->name, &options, &err);
    if (status == ROWLOCK_BUSY)
        cli_say_busy("waiting: ", j->shown, &holder, &err);
    return status == ROWLOCK_OK;
}

static int acquire(rowlock_lock **lock, rowlock_client *client, const cli_job *j,
                   rowlock_cancel *cancel)
{
    rowlock_acquire_options options = options_of(j);
    rowlock_holder holder = {.owner = ""};
    rowlock_error err;
    int status;

    if (reenter(lock, client, j) ||
        (j->verbose && j->wait_ms != 0 && try_verbosely(lock, client, j)))
        return CLI_GO_ON;
    options.wait_ms = j->wait_ms;
    options.cancel = cancel;
    options.holder = &holder;
    status = rowlock_acquire(lock, client, j->name, &options, &err);
    if (status == ROWLOCK_OK)
        return CLI_GO_ON;
    if (status == ROWLOCK_CANCELLED && cli_signals_caught())
        return CLI_SIGNAL + cli_signals_caught();
    if (status != ROWLOCK_BUSY && status != ROWLOCK_TIMEOUT)
        return cli_fail(&err);
    if (!j->busy_quiet)
        cli_say_busy("", j->shown, &holder, &err);
    return j->busy_status;
}

static void say_acquired(const cli_job *j, const rowlock_lock *lock, int64_t since)
{
    char waited[32];

    cli_duration_text(waited, cli_now_ms() - since);
    if (j->verbose)
        cli_message("acquired '%s' after %s, fence %" PRIu64 ", owner %s", j->shown, waited,
                    rowlock_fence(lock), rowlock_owner(lock));
}

/* ---- running --------------------------------------------------------------------------------- */

/* In the child alone: the library's thread may be reading our environment. An empty ROWLOCK_DB
 * makes a rowlock inside stop and ask, see choose_address() in db.c. "local" is no secret. */
static int export_variables(const void *payload)
{
    const cli_job *j = payload;
    char fence[24];

    snprintf(fence, sizeof(fence), "%" PRIu64, j->held.fence);
    if (setenv("ROWLOCK_NAME", j->name, 1) || setenv("ROWLOCK_FENCE", fence, 1) ||
        setenv("ROWLOCK_OWNER", j->held.owner, 1) || cli_held_export(&j->held, j->name))
        return -1;
    return setenv("ROWLOCK_DB", j->pass_db || cli_db_is_local(&j->db) ? j->db.address : "", 1);
}

static int run_command(cli_watch *w, cli_job *j)
{
    const cli_program program = {j->command, export_variables, j};
    int64_t since = cli_now_ms();
    char took[32];
    int status;

    j->held.fence = rowlock_fence(w->lock);
    snprintf(j->held.owner, sizeof(j->held.owner), "%s", rowlock_owner(w->lock));
    status = cli_watch_run(w, &program);
    cli_duration_text(took, cli_now_ms() - since);
    if (j->verbose)
        cli_message("the command ended with status %d after %s", status, took);
    return status;
}

static int release(cli_watch *w, const cli_job *j, int result)
{
    rowlock_error err;
    int status = rowlock_release(&w->lock, &err);

    if (status == ROWLOCK_OK && j->verbose)
        cli_message("released '%s'", j->shown);
    if (status == ROWLOCK_OK || w->lost)
        return result;
    if (status == ROWLOCK_LOST) {
        cli_message("lost '%s': its lease ended before the command did", w->shown);
        return CLI_LOST;
    }
    cli_message("'%s' could not be released and frees itself later: %s", w->shown, err.message);
    return result;
}

static int run_locked(cli_watch *w, cli_job *j, rowlock_cancel *cancel)
{
    int64_t before = cli_now_ms();
    enum cli_tail_end end = CLI_TAIL_RELEASE;
    cli_tail tail;
    int result = acquire(&w->lock, w->client, j, cancel);

    if (result != CLI_GO_ON)
        return result;
    say_acquired(j, w->lock, before);
    result = cli_tail_start(&tail, j, w->lock, before);
    if (result == CLI_GO_ON) {
        result = run_command(w, j);
        if (w->started && !w->lost)
            end = cli_tail_wait(&tail, j, w->lock, result);
    }
    if (end == CLI_TAIL_LOST) {
        cli_message("lost '%s', but not before the command had ended", j->shown);
        w->lost = 1;
    }
    if (end != CLI_TAIL_DETACH)
        return release(w, j, result);
    rowlock_detach(&w->lock, NULL);
    return result;
}

/* A short lease wants short calls: after a loss the release must not be what we wait for. */
static int open_client(cli_watch *w, cli_job *j)
{
    rowlock_options options = ROWLOCK_OPTIONS_INIT;
    int64_t sixth = j->ttl_ms / 6;

    options.ttl_ms = j->ttl_ms;
    options.call_timeout_ms = sixth < 200 ? 200 : sixth > 5000 ? 5000 : sixth;
    options.on_event = cli_watch_event;
    options.event_payload = w;
    return cli_db_open(&w->client, &j->db, &options);
}

int cli_job_run(cli_job *job)
{
    cli_watch w = {.name = job->name,
                   .shown = job->shown,
                   .ttl_ms = job->ttl_ms,
                   .max_hold_ms = job->max_hold_ms,
                   .kill_after_ms = job->kill_after_ms};
    rowlock_cancel *cancel = NULL;
    rowlock_error err;
    int result = open_client(&w, job);

    if (result != CLI_GO_ON)
        return result;
    if (job->verbose)
        cli_message("database: %s", job->db.name);
    if (rowlock_cancel_new(&cancel, &err) != ROWLOCK_OK) {
        rowlock_close(&w.client);
        return cli_fail(&err);
    }
    cli_signals_start(cancel);
    result = run_locked(&w, job, cancel);
    rowlock_close(&w.client);
    return result; /* `cancel` stays: a signal may still come, and the process ends now */
}
