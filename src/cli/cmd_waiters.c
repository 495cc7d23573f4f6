/* SPDX-License-Identifier: MIT
 *
 * rowlock waiters: who waits for what, and who is in the way. */
#include "view.h"

static int print_table(const cli_view *v)
{
    if (v->waiter_count == 0) {
        cli_message("nobody waits");
        return CLI_OK;
    }
    if (cli_waiters_table(v, NULL, stdout, cli_width(), cli_colours()) != 0)
        return cli_out_of_memory();
    return CLI_OK;
}

static int print_json(const cli_view *v)
{
    cli_writer w = {.out = stdout};

    if (cli_put_waiters(&w, v, NULL) != 0)
        return cli_out_of_memory();
    cli_writer_end(&w);
    return CLI_OK;
}

static int show(cli_db *db, int json)
{
    rowlock_options options = ROWLOCK_OPTIONS_INIT;
    rowlock_client *client = NULL;
    cli_view view;
    int result = cli_db_open(&client, db, &options);

    if (result != CLI_GO_ON)
        return result;
    result = cli_view_read(&view, client, NULL, CLI_VIEW_WAITERS);
    rowlock_close(&client);
    if (result == CLI_GO_ON)
        result = json ? print_json(&view) : print_table(&view);
    cli_view_end(&view);
    return result;
}

static int cmd_waiters(const cli_command *self, int argc, char **argv)
{
    cli_db db = {.address = NULL};
    int json = 0;
    const cli_option options[] = {CLI_DB_OPTIONS(db), {0, "json", CLI_FLAG, &json}, CLI_OPTION_END};
    cli_args args;
    int result = cli_parse(&args, self, options, argc, argv);

    if (result == CLI_GO_ON && (args.count > 0 || args.command))
        result = cli_usage("'rowlock waiters' takes options only; see 'rowlock waiters --help'");
    return result == CLI_GO_ON ? show(&db, json) : result;
}

const cli_command cli_waiters = {
    .name = "waiters",
    .summary = "show who waits for which lock, and who is in the way",
    .help = "usage: rowlock waiters [OPTION...]\n"
            "\n"
            "Shows who waits, for which lock, at which place of the queue, for how long, and\n"
            "who is in the way: the holder, and if that one waits for another lock itself, >\n"
            "that lock and its holder, and so on. DEADLOCK: the chain comes back to where it\n"
            "has been, so that all of it waits until one gives up. Of each client the first\n"
            "one for each lock is seen.\n"
            "\n"
            "  -d, --db ADDRESS     the database (see 'rowlock --help'); default: $ROWLOCK_DB\n"
            "      --local          a file for this user on this host alone\n"
            "      --json           an array of objects: name, place, owner, ticket,\n"
            "                       waited_ms, holder, blocked_by (owner, holds), deadlock\n"
            "      --prefix PREFIX  of the tables' names (rowlock_)\n"
            "      --schema SCHEMA  where the tables are\n"
            "\n"
            "BLOCKED BY - is a lock that is being handed on, or that a transaction has.\n",
    .run = cmd_waiters,
};
