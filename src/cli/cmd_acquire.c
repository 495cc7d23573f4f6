/* SPDX-License-Identifier: MIT
 *
 * rowlock acquire: a lock that outlives the process, for scripts. */
#include <inttypes.h>
#include <string.h>

#include "cli.h"
#include "print.h"

typedef struct acquiring {
    cli_db db;
    rowlock_acquire_options lock;
    int nonblock, quiet, json;
    int busy_status;
    const char *name;
    char shown[4 * ROWLOCK_NAME_MAX + 1];
} acquiring;

static int check(acquiring *a)
{
    if (a->lock.ttl_ms < ROWLOCK_TTL_MIN_MS || a->lock.ttl_ms > ROWLOCK_TTL_MAX_MS)
        return cli_usage("--ttl must be between 50ms and 31d");
    if (a->nonblock && a->lock.wait_ms != ROWLOCK_FOREVER)
        return cli_usage("--nonblock and --wait exclude each other");
    if (a->lock.owner && !*a->lock.owner)
        return cli_usage("--owner is empty");
    if (a->busy_status > 255)
        return cli_usage("--conflict-exit-code must be between 0 and 255");
    if (a->nonblock)
        a->lock.wait_ms = 0;
    cli_printable(a->shown, a->name, strlen(a->name));
    return CLI_GO_ON;
}

static void print(const acquiring *a, const rowlock_lock *lock)
{
    cli_writer w = {.out = stdout};

    if (!a->json) {
        printf("%" PRIu64 " %s\n", rowlock_fence(lock), rowlock_owner(lock));
        return;
    }
    putchar('{');
    cli_put_name(&w, "name", a->name, strlen(a->name));
    cli_put_text(&w, "owner", rowlock_owner(lock));
    cli_put_number(&w, "fence", (int64_t)rowlock_fence(lock));
    cli_put_number(&w, "ttl_ms", a->lock.ttl_ms);
    fputs("}\n", stdout);
}

/* A lock that nobody knows of would be held for nothing: if it cannot be told, it is released. */
static int hand_over(const acquiring *a, rowlock_lock **lock)
{
    rowlock_error err;

    if (!cli_signals_caught()) {
        print(a, *lock);
        if (fflush(stdout) == 0)
            return rowlock_detach(lock, &err) == ROWLOCK_OK ? CLI_OK : cli_fail(&err);
    }
    rowlock_release(lock, NULL);
    return cli_signals_caught() ? CLI_SIGNAL + cli_signals_caught() : CLI_OK;
}

static int acquire(acquiring *a, rowlock_client *client)
{
    rowlock_holder holder = {.owner = ""};
    rowlock_lock *lock = NULL;
    rowlock_error err;
    int status;

    if (rowlock_cancel_new(&a->lock.cancel, &err) != ROWLOCK_OK)
        return cli_fail(&err);
    cli_signals_start(a->lock.cancel);
    a->lock.holder = &holder;
    status = rowlock_acquire(&lock, client, a->name, &a->lock, &err);
    if (status == ROWLOCK_OK)
        return hand_over(a, &lock);
    if (status == ROWLOCK_CANCELLED && cli_signals_caught())
        return CLI_SIGNAL + cli_signals_caught();
    if (status != ROWLOCK_BUSY && status != ROWLOCK_TIMEOUT)
        return cli_fail(&err);
    if (!a->quiet)
        cli_say_busy("", a->shown, &holder, &err);
    return a->busy_status;
}

static int cmd_acquire(const cli_command *self, int argc, char **argv)
{
    acquiring a = {.lock = ROWLOCK_ACQUIRE_OPTIONS_INIT, .busy_status = CLI_BUSY};
    const cli_option options[] = {CLI_DB_OPTIONS(a.db),
                                  {'t', "ttl", CLI_DURATION, &a.lock.ttl_ms},
                                  {'n', "nonblock", CLI_FLAG, &a.nonblock},
                                  {'w', "wait", CLI_DURATION, &a.lock.wait_ms},
                                  {'E', "conflict-exit-code", CLI_NUMBER, &a.busy_status},
                                  {'q', "quiet", CLI_FLAG, &a.quiet},
                                  {0, "note", CLI_TEXT, &a.lock.note},
                                  {0, "owner", CLI_TEXT, &a.lock.owner},
                                  {0, "json", CLI_FLAG, &a.json},
                                  CLI_OPTION_END};
    rowlock_options client_options = ROWLOCK_OPTIONS_INIT;
    rowlock_client *client = NULL;
    cli_args args;
    int result;

    a.lock.ttl_ms = 30000;
    a.lock.wait_ms = ROWLOCK_FOREVER;
    result = cli_parse(&args, self, options, argc, argv);
    if (result == CLI_GO_ON && args.command)
        result = cli_usage("'rowlock acquire' runs no command; 'rowlock run' does");
    if (result == CLI_GO_ON)
        result = cli_name_check(&a.name, self, &args);
    if (result == CLI_GO_ON)
        result = check(&a);
    if (result == CLI_GO_ON)
        result = cli_db_open(&client, &a.db, &client_options);
    if (result != CLI_GO_ON)
        return result;
    result = acquire(&a, client);
    rowlock_close(&client);
    return result; /* the switch stays, as in job.c */
}

const cli_command cli_acquire = {
    .name = "acquire",
    .summary = "acquire a lock that outlives this process, for scripts",
    .help = "usage: rowlock acquire [OPTION...] NAME\n"
            "\n"
            "Acquires the lock NAME, prints its fence and its owner, and ends. Nobody renews\n"
            "the lease: the lock is free again after --ttl, unless 'rowlock renew' is called\n"
            "before, or as soon as 'rowlock release' is. Where one command can do the work\n"
            "use 'rowlock run' instead.\n"
            "\n"
            "  -d, --db ADDRESS     the database (see 'rowlock --help'); default: $ROWLOCK_DB\n"
            "      --local          a file for this user on this host alone\n"
            "  -t, --ttl DURATION   the lease (30s)\n"
            "  -n, --nonblock       give up at once if somebody else holds it\n"
            "  -w, --wait DURATION  give up after so long; default: wait for ever\n"
            "  -E, --conflict-exit-code N  status when given up, instead of 75\n"
            "  -q, --quiet          say nothing when given up\n"
            "      --note TEXT      what is being done, shown by 'rowlock list'\n"
            "      --owner ID       hold it under this owner, instead of one that nobody else\n"
            "                       has\n"
            "      --json           an object: name, owner, fence, ttl_ms\n"
            "      --prefix PREFIX  of the tables' names (rowlock_)\n"
            "      --schema SCHEMA  where the tables are\n"
            "\n"
            "  line=$(rowlock acquire -t 10m deploy) && read -r fence owner <<<\"$line\"\n"
            "  rowlock renew -t 10m --fence $fence --owner $owner deploy\n"
            "  rowlock release --fence $fence --owner $owner deploy\n",
    .run = cmd_acquire,
};
