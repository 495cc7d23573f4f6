/* SPDX-License-Identifier: MIT
 *
 * rowlock run: acquire, run a command, renew while it runs, release. */
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli.h"

typedef struct run {
    cli_db db;
    int64_t ttl_ms, wait_ms;
    int nonblock, pass_db;
    const char *note, *owner, *name;
    char shown[4 * ROWLOCK_NAME_MAX + 1]; /* the name in messages */
    char **command;
} run;

/* The lease while the command runs. Times are milliseconds of now_ms(). */
typedef struct watch {
    const run *run;
    rowlock_lock *lock;
    cli_child child;
    int64_t next_try; /* when to renew */
    int64_t kill_at;  /* after a loss: when TERM was not enough */
    int failing;      /* the last renewal failed; said once */
    int lost;
} watch;

static int64_t now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_BOOTTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static int64_t between(int64_t low, int64_t value, int64_t high)
{
    return value < low ? low : value > high ? high : value;
}

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
    if (r->nonblock && r->wait_ms != ROWLOCK_FOREVER)
        return cli_usage("--nonblock and --wait exclude each other");
    if (r->owner && !*r->owner)
        return cli_usage("--owner is empty");
    if (r->nonblock)
        r->wait_ms = 0;
    cli_printable(r->shown, r->name, strlen(r->name));
    return CLI_GO_ON;
}

/* ---- acquiring ------------------------------------------------------------------------------- */

/* Re-enters what a run around this one holds. 1 if it did. The fence tells that it is that tenure
 * and not one which we began ourselves, on another database or after the outer one was lost. */
static int reenter(rowlock_lock **lock, rowlock_client *client, const run *r)
{
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;
    cli_held held;

    if (r->owner || !cli_held_find(&held, r->name))
        return 0;
    options.ttl_ms = r->ttl_ms;
    options.owner = held.owner;
    options.note = r->note;
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
        cli_message("'%s' is held by somebody else", r->shown);
    return CLI_BUSY;
}

static int acquire(watch *w, rowlock_client *client, rowlock_cancel *cancel)
{
    const run *r = w->run;
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;
    rowlock_holder holder = {.owner = ""};
    rowlock_error err;
    int status;

    if (reenter(&w->lock, client, r))
        return CLI_GO_ON;
    options.ttl_ms = r->ttl_ms;
    options.wait_ms = r->wait_ms;
    options.owner = r->owner;
    options.note = r->note;
    options.cancel = cancel;
    options.holder = &holder;
    status = rowlock_acquire(&w->lock, client, r->name, &options, &err);
    if (status == ROWLOCK_OK)
        return CLI_GO_ON;
    if (status == ROWLOCK_CANCELLED && cli_signals_caught())
        return CLI_SIGNAL + cli_signals_caught();
    if (status == ROWLOCK_BUSY || status == ROWLOCK_TIMEOUT)
        return not_acquired(r, &holder);
    return cli_fail(&err);
}

/* ---- holding --------------------------------------------------------------------------------- */

/* TERM to the whole group now, KILL in grace_ms. */
static void lose(watch *w, int64_t grace_ms, const char *reason)
{
    cli_message("lost '%s': %s; stopping the command", w->run->shown, reason);
    w->lost = 1;
    w->kill_at = now_ms() + (grace_ms > 0 ? grace_ms : 0);
    cli_child_signal(&w->child, SIGTERM);
    cli_child_signal(&w->child, SIGCONT); /* a stopped process hears no TERM */
}

static void renew(watch *w)
{
    rowlock_error err;
    int status = rowlock_renew(w->lock, w->run->ttl_ms, &err);

    if (status == ROWLOCK_OK) {
        w->next_try = now_ms() + w->run->ttl_ms / 3;
        w->failing = 0;
        return;
    }
    if (status == ROWLOCK_LOST) {
        lose(w, between(0, w->run->ttl_ms / 4, 5000), err.message);
        return;
    }
    if (status != ROWLOCK_BUSY && !w->failing) { /* BUSY: a transaction has the row for a moment */
        cli_message("cannot renew '%s' yet: %s", w->run->shown, err.message);
        w->failing = 1;
    }
    w->next_try = now_ms() + between(20, w->run->ttl_ms / 20, 1000);
}

/* Time that the command gets, out of the lease, to end after TERM; and how long before the end of
 * the lease KILL is sent. One renewal lasts a sixth of the ttl at most (see open_client), so a
 * lease that cannot be renewed has the command gone before it ends. */
static int64_t term_lead(const watch *w)
{
    return between(0, w->run->ttl_ms / 3, 10000);
}

static int64_t kill_lead(const watch *w)
{
    return between(0, w->run->ttl_ms / 12, 2000);
}

/* Does what is due, and returns how long nothing else will be. */
static int64_t step(watch *w)
{
    int64_t now = now_ms();
    int64_t left = rowlock_remaining(w->lock) - term_lead(w);

    if (w->lost && now >= w->kill_at) {
        cli_child_signal(&w->child, SIGKILL);
        w->kill_at = now + 1000;
    } else if (!w->lost && left <= 0) {
        lose(w, rowlock_remaining(w->lock) - kill_lead(w),
             "its lease could not be renewed in time");
    } else if (!w->lost && now >= w->next_try) {
        renew(w);
        left = rowlock_remaining(w->lock) - term_lead(w);
    }
    now = now_ms();
    if (w->lost)
        return between(0, w->kill_at - now, 1000);
    return between(1, w->next_try - now < left ? w->next_try - now : left, 60000);
}

/* Runs the command; its exit status, or CLI_LOST. */
static int supervise(watch *w)
{
    int64_t idle = 0;
    int result = cli_child_start(&w->child, w->run->command);

    if (result != CLI_GO_ON)
        return result;
    w->next_try = now_ms() + w->run->ttl_ms / 3;
    while (!cli_child_wait(&w->child, idle))
        idle = step(w);
    if (w->lost)
        cli_child_signal(&w->child, SIGKILL); /* what it left behind in its group */
    cli_child_end(&w->child);
    return w->lost ? CLI_LOST : w->child.status;
}

static int release(watch *w, int result)
{
    rowlock_error err;
    int status = rowlock_release(&w->lock, &err);

    if (status == ROWLOCK_OK || w->lost)
        return result;
    if (status == ROWLOCK_LOST) {
        cli_message("lost '%s': its lease ended before the command did", w->run->shown);
        return CLI_LOST;
    }
    cli_message("'%s' could not be released and frees itself later: %s", w->run->shown,
                err.message);
    return result;
}

/* ---- the subcommand -------------------------------------------------------------------------- */

/* An empty ROWLOCK_DB makes a rowlock inside stop and ask, see from_environment() in db.c. */
static int export_variables(const watch *w)
{
    const run *r = w->run;
    cli_held held = {.fence = rowlock_fence(w->lock)};
    char fence[24];
    int failed;

    snprintf(held.owner, sizeof(held.owner), "%s", rowlock_owner(w->lock));
    snprintf(fence, sizeof(fence), "%" PRIu64, held.fence);
    failed = setenv("ROWLOCK_NAME", r->name, 1) || setenv("ROWLOCK_FENCE", fence, 1) ||
             setenv("ROWLOCK_OWNER", held.owner, 1) || cli_held_export(&held, r->name);
    if (!failed && r->db.address)
        failed = setenv("ROWLOCK_DB", r->pass_db ? r->db.address : "", 1);
    if (!failed)
        return CLI_GO_ON;
    cli_message("out of memory");
    return CLI_OTHER;
}

static int open_client(rowlock_client **out, run *r)
{
    rowlock_options options = ROWLOCK_OPTIONS_INIT;

    options.ttl_ms = r->ttl_ms;
    options.call_timeout_ms = between(200, r->ttl_ms / 6, 5000);
    return cli_db_open(out, &r->db, &options);
}

static int run_locked(run *r)
{
    watch w = {.run = r};
    rowlock_client *client = NULL;
    rowlock_cancel *cancel = NULL;
    rowlock_error err;
    int result = open_client(&client, r);

    if (result != CLI_GO_ON)
        return result;
    if (rowlock_cancel_new(&cancel, &err) != ROWLOCK_OK) {
        rowlock_close(&client);
        return cli_fail(&err);
    }
    cli_signals_start(cancel);
    result = acquire(&w, client, cancel);
    if (result == CLI_GO_ON) {
        result = export_variables(&w);
        if (result == CLI_GO_ON)
            result = supervise(&w);
        result = release(&w, result);
    }
    rowlock_close(&client);
    return result; /* `cancel` stays: a signal may still come, and the process ends now */
}

static int cmd_run(const cli_command *self, int argc, char **argv)
{
    run r = {.ttl_ms = 30000, .wait_ms = ROWLOCK_FOREVER};
    const cli_option options[] = {CLI_DB_OPTIONS(r.db),
                                  {'t', "ttl", CLI_DURATION, &r.ttl_ms},
                                  {'n', "nonblock", CLI_FLAG, &r.nonblock},
                                  {'w', "wait", CLI_DURATION, &r.wait_ms},
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
