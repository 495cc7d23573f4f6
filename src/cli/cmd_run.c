/* SPDX-License-Identifier: MIT
 *
 * rowlock run: acquire, run a command, release. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

#define NO_BOUND ((int64_t)-1) /* --max-hold is not given */

typedef struct run {
    cli_db db;
    int64_t ttl_ms, wait_ms, max_hold_ms;
    int nonblock, pass_db;
    const char *note, *owner, *name;
    char shown[4 * ROWLOCK_NAME_MAX + 1]; /* the name in messages */
    char **command;
    cli_held held; /* once it is */
} run;

/* ---- arguments ------------------------------------------------------------------------------- */

static int check(run *r, const cli_args *args)
{
    if (args->count == 0)
        return cli_usage("no lock name given; see 'rowlock run --help'");
    if (args->count > 1)
        return cli_usage("'%.*s' is one word too many; the command goes after '--'",
                         cli_shown(args->words[1]), args->words[1]);
    if (!args->command || !args->command[0])
        return cli_usage("no command given; write it after '--'");
    r->name = args->words[0];
    r->command = args->command;
    if (strlen(r->name) < 1 || strlen(r->name) > ROWLOCK_NAME_MAX)
        return cli_usage("a lock name has 1 to %d bytes, not %zu", ROWLOCK_NAME_MAX,
                         strlen(r->name));
    if (r->ttl_ms < ROWLOCK_TTL_MIN_MS || r->ttl_ms > ROWLOCK_TTL_MAX_MS)
        return cli_usage("--ttl must be between 50ms and 31d");
    if (r->max_hold_ms != NO_BOUND && r->max_hold_ms < ROWLOCK_TTL_MIN_MS)
        return cli_usage("--max-hold must be 50ms or more");
    if (r->nonblock && r->wait_ms != ROWLOCK_FOREVER)
        return cli_usage("--nonblock and --wait exclude each other");
    if (r->owner && !*r->owner)
        return cli_usage("--owner is empty");
    if (r->nonblock)
        r->wait_ms = 0;
    if (r->max_hold_ms == NO_BOUND)
        r->max_hold_ms = 0; /* as the library says it */
    cli_printable(r->shown, r->name, strlen(r->name));
    return CLI_GO_ON;
}

/* ---- acquiring ------------------------------------------------------------------------------- */

static rowlock_acquire_options options_of(const run *r)
{
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;

    options.ttl_ms = r->ttl_ms;
    options.max_hold_ms = r->max_hold_ms;
    options.owner = r->owner;
    options.note = r->note;
    options.renew = 1;
    return options;
}

/* Re-enters what a run around this one holds. 1 if it did. The fence tells that it is that tenure
 * and not one which we began ourselves, on another database or after the outer one was lost. */
static int reenter(rowlock_lock **lock, rowlock_client *client, const run *r)
{
    rowlock_acquire_options options = options_of(r);
    cli_held held;

    if (r->owner || !cli_held_find(&held, r->name))
        return 0;
    options.owner = held.owner;
    if (rowlock_acquire(lock, client, r->name, &options, NULL) != ROWLOCK_OK)
        return 0;
    if (rowlock_fence(*lock) == held.fence)
        return 1;
    rowlock_release(lock, NULL);
    return 0;
}

static int not_acquired(const run *r, const rowlock_holder *holder)
{
    char left[32];

    cli_duration_text(left, holder->remaining_ms);
    if (holder->owner[0])
        cli_message("'%s' is held by %s, for another %s unless renewed", r->shown, holder->owner,
                    left);
    else
        cli_message("'%s' is locked by a transaction", r->shown);
    return CLI_BUSY;
}

static int acquire(rowlock_lock **lock, rowlock_client *client, const run *r,
                   rowlock_cancel *cancel)
{
    rowlock_acquire_options options = options_of(r);
    rowlock_holder holder = {.owner = ""};
    rowlock_error err;
    int status;

    if (reenter(lock, client, r))
        return CLI_GO_ON;
    options.wait_ms = r->wait_ms;
    options.cancel = cancel;
    options.holder = &holder;
    status = rowlock_acquire(lock, client, r->name, &options, &err);
    if (status == ROWLOCK_OK)
        return CLI_GO_ON;
    if (status == ROWLOCK_CANCELLED && cli_signals_caught())
        return CLI_SIGNAL + cli_signals_caught();
    if (status == ROWLOCK_BUSY || status == ROWLOCK_TIMEOUT)
        return not_acquired(r, &holder);
    return cli_fail(&err);
}

static int release(cli_watch *w, int result)
{
    rowlock_error err;
    int status = rowlock_release(&w->lock, &err);

    if (status == ROWLOCK_OK || w->lost)
        return result;
    if (status == ROWLOCK_LOST) {
        cli_message("lost '%s': its lease ended before the command did", w->shown);
        return CLI_LOST;
    }
    cli_message("'%s' could not be released and frees itself later: %s", w->shown, err.message);
    return result;
}

/* ---- the subcommand -------------------------------------------------------------------------- */

/* In the child alone: the library's thread may be reading our environment. An empty ROWLOCK_DB
 * makes a rowlock inside stop and ask, see from_environment() in db.c. */
static int export_variables(const void *payload)
{
    const run *r = payload;
    char fence[24];

    snprintf(fence, sizeof(fence), "%" PRIu64, r->held.fence);
    if (setenv("ROWLOCK_NAME", r->name, 1) || setenv("ROWLOCK_FENCE", fence, 1) ||
        setenv("ROWLOCK_OWNER", r->held.owner, 1) || cli_held_export(&r->held, r->name))
        return -1;
    return r->db.address ? setenv("ROWLOCK_DB", r->pass_db ? r->db.address : "", 1) : 0;
}

static int run_command(cli_watch *w, run *r)
{
    const cli_program program = {r->command, export_variables, r};

    r->held.fence = rowlock_fence(w->lock);
    snprintf(r->held.owner, sizeof(r->held.owner), "%s", rowlock_owner(w->lock));
    return cli_watch_run(w, &program);
}

/* A short lease wants short calls: after a loss the release must not be what we wait for. */
static int open_client(cli_watch *w, run *r)
{
    rowlock_options options = ROWLOCK_OPTIONS_INIT;
    int64_t sixth = r->ttl_ms / 6;

    options.ttl_ms = r->ttl_ms;
    options.call_timeout_ms = sixth < 200 ? 200 : sixth > 5000 ? 5000 : sixth;
    options.on_event = cli_watch_event;
    options.event_payload = w;
    return cli_db_open(&w->client, &r->db, &options);
}

static int run_locked(run *r)
{
    cli_watch w = {
        .name = r->name, .shown = r->shown, .ttl_ms = r->ttl_ms, .max_hold_ms = r->max_hold_ms};
    rowlock_cancel *cancel = NULL;
    rowlock_error err;
    int result = open_client(&w, r);

    if (result != CLI_GO_ON)
        return result;
    if (rowlock_cancel_new(&cancel, &err) != ROWLOCK_OK) {
        rowlock_close(&w.client);
        return cli_fail(&err);
    }
    cli_signals_start(cancel);
    result = acquire(&w.lock, w.client, r, cancel);
    if (result == CLI_GO_ON)
        result = release(&w, run_command(&w, r));
    rowlock_close(&w.client);
    return result; /* `cancel` stays: a signal may still come, and the process ends now */
}

static int cmd_run(const cli_command *self, int argc, char **argv)
{
    run r = {.ttl_ms = 30000, .wait_ms = ROWLOCK_FOREVER, .max_hold_ms = NO_BOUND};
    const cli_option options[] = {CLI_DB_OPTIONS(r.db),
                                  {'t', "ttl", CLI_DURATION, &r.ttl_ms},
                                  {'n', "nonblock", CLI_FLAG, &r.nonblock},
                                  {'w', "wait", CLI_DURATION, &r.wait_ms},
                                  {0, "max-hold", CLI_DURATION, &r.max_hold_ms},
                                  {0, "note", CLI_TEXT, &r.note},
                                  {0, "owner", CLI_TEXT, &r.owner},
                                  {0, "pass-db", CLI_FLAG, &r.pass_db},
                                  CLI_OPTION_END};
    cli_args args;
    int result = cli_parse(&args, self, options, argc, argv);

    if (result == CLI_GO_ON)
        result = check(&r, &args);
    return result == CLI_GO_ON ? run_locked(&r) : result;
}

const cli_command cli_run = {
    .name = "run",
    .summary = "run a command while holding a lock",
    .help =
        "usage: rowlock run [OPTION...] NAME -- COMMAND [ARG...]\n"
        "\n"
        "Acquires the lock NAME, runs COMMAND, renews the lease while it runs, and releases the\n"
        "lock. If the lease is lost, COMMAND is ended: TERM, then KILL.\n"
        "\n"
        "  -d, --db ADDRESS     the database (see 'rowlock --help'); default: $ROWLOCK_DB\n"
        "  -t, --ttl DURATION   the lease: how long the lock outlives a crash (30s)\n"
        "  -n, --nonblock       give up at once if somebody else holds it\n"
        "  -w, --wait DURATION  give up after so long; default: wait for ever\n"
        "      --max-hold DURATION\n"
        "                       hold it no longer than this, and end COMMAND before\n"
        "      --note TEXT      what is being done, shown by 'rowlock list'\n"
        "      --owner ID       hold it under this owner; the same owner may enter again\n"
        "      --pass-db        let COMMAND have the address as ROWLOCK_DB\n"
        "      --prefix PREFIX  of the tables' names (rowlock_)\n"
        "      --schema SCHEMA  where the tables are\n"
        "\n"
        "Durations: 500ms, 30s, 5m, 1h30m; a bare number is seconds.\n"
        "COMMAND gets ROWLOCK_NAME, ROWLOCK_FENCE and ROWLOCK_OWNER. A 'rowlock run' of the same\n"
        "NAME inside enters the lock again.\n"
        "\n"
        "Exit status: that of COMMAND, 128 + signal if it was killed, or\n"
        "  64 usage                         75 not acquired\n"
        "  69 database not usable           78 tables missing or of another version\n"
        "  70 other error                   79 the lock was lost while COMMAND ran\n"
        "  126 COMMAND cannot be run        127 COMMAND not found\n",
    .run = cmd_run,
};
