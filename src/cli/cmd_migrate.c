/* SPDX-License-Identifier: MIT
 *
 * rowlock migrate: the tables' versions. */
#include <string.h>

#include "migrate.h"

typedef struct versions {
    int now, latest;
} versions;

/* Opens the database whatever its tables look like. */
static int open_any(rowlock_client **client, versions *v, migrate *m)
{
    rowlock_options options = ROWLOCK_OPTIONS_INIT;
    const rowlock_driver *driver = NULL;
    rowlock_error err;
    int result;

    options.schema_policy = ROWLOCK_SCHEMA_IGNORE;
    result = cli_db_open(client, &m->db, &options);
    if (result != CLI_GO_ON)
        return result;
    result = cli_db_driver(&driver, &m->db, NULL);
    if (result == CLI_GO_ON) {
        v->latest = rowlock_migration_count(driver);
        if (rowlock_schema_version(&v->now, *client, &err) != ROWLOCK_OK)
            result = cli_fail(&err);
    }
    if (result != CLI_GO_ON)
        rowlock_close(client);
    return result;
}

/* Goes from the present version to another and tells. */
static int move_to(rowlock_client *client, const versions *v, int to)
{
    rowlock_error err;

    if (rowlock_migrate(client, to, &err) != ROWLOCK_OK)
        return cli_fail(&err);
    if (to == v->now)
        printf("already at version %d\n", v->now);
    else
        printf("from version %d to %d\n", v->now, to);
    return CLI_OK;
}

static int up(migrate *m, rowlock_client *client, const versions *v)
{
    int to = m->to < 0 ? v->latest : m->to;

    if (to > v->latest)
        return cli_usage("--to %d: the latest version is %d", to, v->latest);
    if (m->to >= 0 && to < v->now)
        return cli_usage("--to %d is below version %d; use 'rowlock migrate down'", to, v->now);
    return move_to(client, v, to);
}

static int down(migrate *m, rowlock_client *client, const versions *v)
{
    int to = m->to >= 0 ? m->to : v->now > 0 ? v->now - 1 : 0;

    if (to > v->now)
        return cli_usage("--to %d is above version %d; use 'rowlock migrate up'", to, v->now);
    if (m->to < 0 && to < v->now)
        cli_message("no --to given: going down one step, to version %d", to);
    return move_to(client, v, to);
}

static int status(migrate *m, rowlock_client *client, const versions *v)
{
    (void)m;
    (void)client;
    printf("version %d\nlatest %d\n", v->now, v->latest);
    return v->now == v->latest ? CLI_OK : CLI_SCHEMA;
}

static const struct action {
    const char *name;
    int (*run)(migrate *m, rowlock_client *client, const versions *v);
} actions[] = {{"up", up}, {"down", down}, {"status", status}};

enum { ACTIONS = sizeof(actions) / sizeof(actions[0]) };

static int act(const struct action *action, migrate *m)
{
    rowlock_client *client = NULL;
    versions v = {0, 0};
    int result = open_any(&client, &v, m);

    if (result != CLI_GO_ON)
        return result;
    result = action->run(m, client, &v);
    rowlock_close(&client);
    return result;
}

/* Options of `print` make no sense elsewhere, and --to none there. */
static int check(const migrate *m, int print, int is_status)
{
    if (!print && (m->dialect || m->format || m->as || m->output))
        return cli_usage(
            "--dialect, --format, --as and --output belong to 'rowlock migrate print'");
    if ((print || is_status) && m->to >= 0)
        return cli_usage("--to belongs to 'rowlock migrate up' and 'down'");
    return CLI_GO_ON;
}

static int cmd_migrate(const cli_command *self, int argc, char **argv)
{
    migrate m = {.to = -1};
    const cli_option options[] = {CLI_DB_OPTIONS(m.db),
                                  {0, "to", CLI_NUMBER, &m.to},
                                  {0, "dialect", CLI_TEXT, &m.dialect},
                                  {0, "format", CLI_TEXT, &m.format},
                                  {0, "as", CLI_TEXT, &m.as},
                                  {'o', "output", CLI_TEXT, &m.output},
                                  CLI_OPTION_END};
    cli_args args;
    int result = cli_parse(&args, self, options, argc, argv);
    const char *word = args.count > 0 ? args.words[0] : "";

    if (result != CLI_GO_ON)
        return result;
    if (args.count != 1 || args.command)
        return cli_usage("say one of up, down, status, print; see 'rowlock migrate --help'");
    result = check(&m, strcmp(word, "print") == 0, strcmp(word, "status") == 0);
    if (result != CLI_GO_ON)
        return result;
    if (strcmp(word, "print") == 0)
        return cli_migrate_print(&m);
    for (int i = 0; i < ACTIONS; i++)
        if (strcmp(word, actions[i].name) == 0)
            return act(&actions[i], &m);
    return cli_usage("unknown 'migrate %.*s'; say one of up, down, status, print", cli_shown(word),
                     word);
}

const cli_command cli_migrate = {
    .name = "migrate",
    .summary = "create the tables, upgrade them, or print their SQL",
    .help = "usage: rowlock migrate up|down [--to VERSION] [OPTION...]\n"
            "       rowlock migrate status [OPTION...]\n"
            "       rowlock migrate print --dialect DIALECT [--format FORMAT] [OPTION...]\n"
            "\n"
            "  up       brings the tables to the latest version, or to --to\n"
            "  down     goes back one version, or to --to; version 0 is no tables at all\n"
            "  status   shows the version and the latest; exit status 78 if they differ\n"
            "  print    prints the SQL for another tool; needs no database\n"
            "\n"
            "  -d, --db ADDRESS     the database (see 'rowlock --help'); default: $ROWLOCK_DB\n"
            "      --local          a file for this user on this host alone\n"
            "      --to VERSION     for up and down\n"
            "      --prefix PREFIX  of the tables' names (rowlock_)\n"
            "      --schema SCHEMA  where the tables are\n"
            "      --dialect NAME   postgresql, mysql or sqlite; default: that of the address\n"
            "      --format FORMAT  plain (default), golang-migrate, flyway, dbmate or goose\n"
            "      --as NUMBER      the number of the (first) file among your own; default:\n"
            "                       0001\n"
            "  -o, --output FOLDER  write the files there, and print their paths; files that\n"
            "                       exist are left alone, and that is an error\n"
            "\n"
            "Several processes may run 'migrate up' at once.\n",
    .run = cmd_migrate,
};
