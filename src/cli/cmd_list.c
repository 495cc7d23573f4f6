/* SPDX-License-Identifier: MIT
 *
 * rowlock list: who holds what. */
#include "view.h"

typedef struct list {
    cli_db db;
    int json, csv, all;
} list;

static int print_table(const cli_view *v, const char *database)
{
    if (v->lock_count == 0) {
        cli_message("no locks are held in %s", database);
        return CLI_OK;
    }
    cli_message("locks in %s", database);
    if (cli_locks_table(v, stdout, cli_width(), cli_colours()) != 0)
        return cli_out_of_memory();
    return CLI_OK;
}

static int print_records(const cli_view *v, int csv)
{
    cli_writer w = {.out = stdout, .csv = csv};

    if (csv)
        fputs(CLI_LOCK_CSV, stdout);
    for (size_t i = 0; i < v->lock_count; i++) {
        cli_record_start(&w);
        cli_put_lock(&w, &v->locks[i]);
        cli_record_end(&w);
    }
    cli_writer_end(&w);
    return CLI_OK;
}

static int show(list *l)
{
    rowlock_options options = ROWLOCK_OPTIONS_INIT;
    rowlock_client *client = NULL;
    cli_view view;
    int result = cli_db_open(&client, &l->db, &options);

    if (result != CLI_GO_ON)
        return result;
    result = cli_view_read(&view, client, NULL, l->all ? CLI_VIEW_FREE : 0);
    rowlock_close(&client);
    if (result == CLI_GO_ON) {
        cli_view_sort(&view, CLI_BY_TIME);
        result = l->json || l->csv ? print_records(&view, l->csv) : print_table(&view, l->db.name);
    }
    cli_view_end(&view);
    return result;
}

static int cmd_list(const cli_command *self, int argc, char **argv)
{
    list l = {.json = 0};
    const cli_option options[] = {CLI_DB_OPTIONS(l.db),
                                  {0, "json", CLI_FLAG, &l.json},
                                  {0, "csv", CLI_FLAG, &l.csv},
                                  {'a', "all", CLI_FLAG, &l.all},
                                  CLI_OPTION_END};
    cli_args args;
    int result = cli_parse(&args, self, options, argc, argv);

    if (result == CLI_GO_ON && (args.count > 0 || args.command))
        result = cli_usage("'rowlock list' takes options only; see 'rowlock list --help'");
    if (result == CLI_GO_ON && l.json && l.csv)
        result = cli_usage("--json and --csv exclude each other");
    return result == CLI_GO_ON ? show(&l) : result;
}

const cli_command cli_list = {
    .name = "list",
    .summary = "show which locks are held, by whom, and for how long",
    .help = "usage: rowlock list [OPTION...]\n"
            "\n"
            "Shows the locks that are held; the one with the least time left comes first. The\n"
            "database is named on stderr.\n"
            "\n"
            "  -d, --db ADDRESS     the database (see 'rowlock --help'); default: $ROWLOCK_DB\n"
            "      --local          a file for this user on this host alone\n"
            "  -a, --all            free locks that are still in the table, too\n"
            "      --json           an array of objects: name, owner, host, pid, fence,\n"
            "                       held_ms, left_ms, count, waiters, note\n"
            "      --csv            the same, with a line of titles\n"
            "      --prefix PREFIX  of the tables' names (rowlock_)\n"
            "      --schema SCHEMA  where the tables are\n"
            "\n"
            "HELD is for how long it has been held, LEFT what is left of the lease unless it\n"
            "is renewed, WAIT how many wait for it. HOST and PID are those of an owner that\n"
            "nobody gave a name. On a terminal long texts are cut so that a line fits;\n"
            "colours are left out elsewhere, and with NO_COLOR.\n"
            "\n"
            "Names may hold any bytes. Table and CSV show those that are not printable as\n"
            "\\xNN. In JSON, bytes that are not UTF-8 become U+FFFD, and name_hex has the\n"
            "whole name.\n",
    .run = cmd_list,
};
