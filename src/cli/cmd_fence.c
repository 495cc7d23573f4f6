/* SPDX-License-Identifier: MIT
 *
 * rowlock fence-sql: how a table of the user's refuses a write of an older holder. */
#include <string.h>

#include "fence.h"
#include "fence_sql.h"

typedef struct dialect {
    const char *name;
    char quote;
    int longest, in_bytes; /* how long a name may be */
    const char *column, *update, *trigger;
} dialect;

static const dialect dialects[] = {
    {"postgresql", '"', 63, 1, fence_postgresql_column, fence_postgresql_update,
     fence_postgresql_trigger},
    {"mysql", '`', 64, 0, fence_mysql_column, fence_mysql_update, fence_mysql_trigger},
    {"sqlite", '"', 255, 1, fence_sqlite_column, fence_sqlite_update, fence_sqlite_trigger},
};

enum { DIALECTS = sizeof(dialects) / sizeof(dialects[0]) };

static int check_name(const dialect *d, const char *option, const char *name)
{
    int characters = cli_characters(name);
    size_t length = d->in_bytes ? strlen(name) : (size_t)characters;

    if (!*name)
        return cli_usage("%s: a name is empty", option);
    if (characters < 0)
        return cli_usage("%s: a name has control characters or is not UTF-8", option);
    if (length > (size_t)d->longest)
        return cli_usage("%s: a name is too long; it may have %d %s", option, d->longest,
                         d->in_bytes ? "bytes" : "characters");
    return CLI_GO_ON;
}

/* "table" or "schema.table", cut at the dot. */
static int split_table(fence_names *names, const dialect *d, char *text)
{
    char *dot = strchr(text, '.');
    int result = CLI_GO_ON;

    names->table = text;
    if (dot) {
        if (strchr(dot + 1, '.'))
            return cli_usage("--table: give a table or schema.table, with one dot");
        *dot = '\0';
        names->schema = text;
        names->table = dot + 1;
        result = check_name(d, "--table", names->schema);
    }
    return result == CLI_GO_ON ? check_name(d, "--table", names->table) : result;
}

static int print(const dialect *d, const char *table, const char *column, int trigger)
{
    fence_names names = {.quote = d->quote, .column = column};
    char copy[1024]; /* longer than two names of any dialect */
    int result;

    if (snprintf(copy, sizeof(copy), "%s", table) >= (int)sizeof(copy))
        return cli_usage("--table: a name is too long");
    result = split_table(&names, d, copy);
    if (result == CLI_GO_ON)
        result = check_name(d, "--column", column);
    if (result != CLI_GO_ON)
        return result;
    cli_fence_trigger_name(&names);
    cli_fence_render(&names, d->column);
    putchar('\n');
    cli_fence_render(&names, trigger ? d->trigger : d->update);
    return CLI_OK;
}

static int cmd_fence(const cli_command *self, int argc, char **argv)
{
    cli_db db = {0};
    const char *name = NULL, *table = NULL, *column = NULL;
    int trigger = 0;
    const cli_option options[] = {
        {'d', "db", CLI_TEXT, &db.address}, {0, "dialect", CLI_TEXT, &name},
        {0, "table", CLI_TEXT, &table},     {0, "column", CLI_TEXT, &column},
        {0, "trigger", CLI_FLAG, &trigger}, CLI_OPTION_END};
    cli_args args;
    int result = cli_parse(&args, self, options, argc, argv);

    if (result != CLI_GO_ON)
        return result;
    if (args.count > 0 || args.command)
        return cli_usage("'rowlock fence-sql' takes options only");
    if (!table || !column)
        return cli_usage("give --table and --column; see 'rowlock fence-sql --help'");
    result = cli_db_dialect(&name, &db, name);
    if (result != CLI_GO_ON)
        return result;
    for (int i = 0; i < DIALECTS; i++)
        if (strcmp(dialects[i].name, name) == 0)
            return print(&dialects[i], table, column, trigger);
    return CLI_OTHER;
}

const cli_command cli_fence = {
    .name = "fence-sql",
    .summary = "print SQL by which a table of yours refuses older holders",
    .help = "usage: rowlock fence-sql --table TABLE --column COLUMN [--trigger] [OPTION...]\n"
            "\n"
            "Prints SQL that adds a column for the fence to a table of yours, and shows the\n"
            "UPDATE that changes nothing if a later holder of the lock has written the row.\n"
            "Needs no database.\n"
            "\n"
            "      --table TABLE    the table, or SCHEMA.TABLE\n"
            "      --column COLUMN  the column that keeps the highest fence; it is created\n"
            "      --trigger        add a trigger that refuses a lower fence by an error\n"
            "      --dialect NAME   postgresql, mysql or sqlite; default: that of the address\n"
            "  -d, --db ADDRESS     whose kind tells the dialect; default: $ROWLOCK_DB\n"
            "\n"
            "Names are quoted: write them as the database stores them (PostgreSQL: in lower\n"
            "case, unless the table was created with quotes).\n"
            "\n"
            "  rowlock fence-sql --dialect postgresql --table orders --column fence \\\n"
            "    --trigger | psql shop\n",
    .run = cmd_fence,
};
