/* SPDX-License-Identifier: MIT
 *
 * rowlock renew and rowlock release: what follows `rowlock acquire` in a script. */
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "view.h"

enum { NOT_CONFIRMED = 1 }; /* exit status */

typedef struct tenure {
    cli_db db;
    rowlock_acquire_options lock; /* owner and ttl */
    uint64_t fence;
    const char *name;
    char shown[4 * ROWLOCK_NAME_MAX + 1];
    int force, yes;
} tenure;

static int check(tenure *t, const cli_command *self, const cli_args *args)
{
    int result = cli_name_check(&t->name, self, args);

    if (result != CLI_GO_ON)
        return result;
    if (args->command)
        return cli_usage("'rowlock %s' runs no command", self->name);
    if (t->lock.ttl_ms < ROWLOCK_TTL_MIN_MS || t->lock.ttl_ms > ROWLOCK_TTL_MAX_MS)
        return cli_usage("--ttl must be between 50ms and 31d");
    if (!t->force && (!t->lock.owner || !*t->lock.owner || t->fence == 0))
        return cli_usage("give --owner and --fence, as 'rowlock acquire' has printed them");
    if (t->force && t->lock.owner)
        return cli_usage("--force and --owner exclude each other");
    if (t->yes && !t->force)
        return cli_usage("--yes belongs to --force");
    if (t->force && !t->yes && !isatty(STDIN_FILENO))
        return cli_usage("--force asks on a terminal; elsewhere give --yes");
    cli_printable(t->shown, t->name, strlen(t->name));
    return CLI_GO_ON;
}

static int not_held(const tenure *t)
{
    cli_message("'%s' is not held by that owner with that fence, or not any more", t->shown);
    return CLI_LOST;
}

static int adopt(rowlock_lock **lock, rowlock_client *client, const tenure *t)
{
    rowlock_error err;
    int status = rowlock_adopt(lock, client, t->name, t->fence, &t->lock, &err);

    if (status == ROWLOCK_OK)
        return CLI_GO_ON;
    return status == ROWLOCK_LOST ? not_held(t) : cli_fail(&err);
}

/* ---- renew ----------------------------------------------------------------------------------- */

static int renew(tenure *t)
{
    rowlock_options options = ROWLOCK_OPTIONS_INIT;
    rowlock_client *client = NULL;
    rowlock_lock *lock = NULL;
    int result = cli_db_open(&client, &t->db, &options);

    if (result != CLI_GO_ON)
        return result;
    result = adopt(&lock, client, t);
    if (result == CLI_GO_ON)
        result = rowlock_detach(&lock, NULL) == ROWLOCK_OK ? CLI_OK : not_held(t);
    rowlock_close(&client);
    return result;
}

static int cmd_renew(const cli_command *self, int argc, char **argv)
{
    tenure t = {.lock = ROWLOCK_ACQUIRE_OPTIONS_INIT};
    const cli_option options[] = {CLI_DB_OPTIONS(t.db),
                                  {'t', "ttl", CLI_DURATION, &t.lock.ttl_ms},
                                  {0, "owner", CLI_TEXT, &t.lock.owner},
                                  {0, "fence", CLI_FENCE, &t.fence},
                                  CLI_OPTION_END};
    cli_args args;
    int result;

    t.lock.ttl_ms = 30000;
    result = cli_parse(&args, self, options, argc, argv);
    if (result == CLI_GO_ON)
        result = check(&t, self, &args);
    return result == CLI_GO_ON ? renew(&t) : result;
}

const cli_command cli_renew = {
    .name = "renew",
    .summary = "extend the lease of a lock that 'rowlock acquire' has got",
    .help = "usage: rowlock renew --fence N --owner ID [OPTION...] NAME\n"
            "\n"
            "Extends the lease of the lock NAME to --ttl from now; never shortens it. The\n"
            "exit status is 79 if the lock is not held any more: stop what you are doing.\n"
            "\n"
            "  -d, --db ADDRESS     the database (see 'rowlock --help'); default: $ROWLOCK_DB\n"
            "      --local          a file for this user on this host alone\n"
            "      --fence N        as 'rowlock acquire' has printed it\n"
            "      --owner ID       likewise\n"
            "  -t, --ttl DURATION   the lease (30s)\n"
            "      --prefix PREFIX  of the tables' names (rowlock_)\n"
            "      --schema SCHEMA  where the tables are\n",
    .run = cmd_renew,
};

/* ---- release --------------------------------------------------------------------------------- */

static int release_own(const tenure *t, rowlock_client *client)
{
    rowlock_lock *lock = NULL;
    rowlock_error err;
    int result = adopt(&lock, client, t);
    int status;

    if (result != CLI_GO_ON)
        return result;
    status = rowlock_release(&lock, &err);
    if (status == ROWLOCK_OK)
        return CLI_OK;
    return status == ROWLOCK_LOST ? not_held(t) : cli_fail(&err);
}

/* 1 if the answer is yes. */
static int confirm(const tenure *t, const cli_lock *held)
{
    char since[32], answer[16];
    char owner[4 * ROWLOCK_OWNER_MAX + 1];

    cli_duration_text(since, held->held_ms);
    cli_printable(owner, held->owner, strlen(held->owner));
    fprintf(stderr,
            "'%s' has been held by %s for %s. It goes on working until it notices, while the next\n"
            "one begins: do this only if it is dead. Release the lock? [y/N] ",
            t->shown, owner, since);
    return fgets(answer, sizeof(answer), stdin) && (answer[0] == 'y' || answer[0] == 'Y');
}

/* Only the tenure that was looked at, so that nobody is hit who has come since. */
static int release_by_force(const tenure *t, rowlock_client *client)
{
    rowlock_force_options options = ROWLOCK_FORCE_OPTIONS_INIT;
    cli_view view;
    rowlock_error err;
    int result = cli_view_read(&view, client, t->name, 0);
    int status = ROWLOCK_LOST;

    if (result == CLI_GO_ON && view.lock_count > 0 && !t->yes && !confirm(t, &view.locks[0])) {
        cli_message("'%s' was not released", t->shown);
        result = NOT_CONFIRMED;
    }
    if (result == CLI_GO_ON && view.lock_count > 0) {
        options.fence = t->fence ? t->fence : view.locks[0].fence;
        status = rowlock_force_release(client, t->name, &options, &err);
    }
    cli_view_end(&view);
    if (result != CLI_GO_ON)
        return result;
    if (status == ROWLOCK_LOST) {
        cli_message("nobody holds '%s'%s", t->shown, t->fence ? " with that fence" : "");
        return CLI_LOST;
    }
    return status == ROWLOCK_OK ? CLI_OK : cli_fail(&err);
}

static int release(tenure *t)
{
    rowlock_options options = ROWLOCK_OPTIONS_INIT;
    rowlock_client *client = NULL;
    int result = cli_db_open(&client, &t->db, &options);

    if (result != CLI_GO_ON)
        return result;
    result = t->force ? release_by_force(t, client) : release_own(t, client);
    rowlock_close(&client);
    return result;
}

static int cmd_release(const cli_command *self, int argc, char **argv)
{
    tenure t = {.lock = ROWLOCK_ACQUIRE_OPTIONS_INIT};
    const cli_option options[] = {CLI_DB_OPTIONS(t.db),
                                  {0, "owner", CLI_TEXT, &t.lock.owner},
                                  {0, "fence", CLI_FENCE, &t.fence},
                                  {'f', "force", CLI_FLAG, &t.force},
                                  {'y', "yes", CLI_FLAG, &t.yes},
                                  CLI_OPTION_END};
    cli_args args;
    int result;

    t.lock.ttl_ms = ROWLOCK_TTL_MIN_MS * 20; /* of the adoption, until the release */
    result = cli_parse(&args, self, options, argc, argv);
    if (result == CLI_GO_ON)
        result = check(&t, self, &args);
    return result == CLI_GO_ON ? release(&t) : result;
}

const cli_command cli_release = {
    .name = "release",
    .summary = "release a lock that 'rowlock acquire' has got, or by force",
    .help = "usage: rowlock release --fence N --owner ID [OPTION...] NAME\n"
            "       rowlock release --force [--yes] [--fence N] [OPTION...] NAME\n"
            "\n"
            "Releases the lock NAME. The exit status is 79 if it is not held any more: then\n"
            "somebody else may have had it while you worked.\n"
            "\n"
            "  -d, --db ADDRESS     the database (see 'rowlock --help'); default: $ROWLOCK_DB\n"
            "      --local          a file for this user on this host alone\n"
            "      --fence N        as 'rowlock acquire' has printed it\n"
            "      --owner ID       likewise\n"
            "  -f, --force          whoever holds it (with --fence: that one only). It goes\n"
            "                       on working until it notices: for holders that are dead.\n"
            "                       Asks first; the exit status is 1 if the answer is not yes\n"
            "  -y, --yes            do not ask\n"
            "      --prefix PREFIX  of the tables' names (rowlock_)\n"
            "      --schema SCHEMA  where the tables are\n",
    .run = cmd_release,
};
