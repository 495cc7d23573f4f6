/* SPDX-License-Identifier: MIT
 *
 * rowlock reap: delete the rows of locks that nobody has held for long. */
#include <inttypes.h>

#include "cli.h"

#define LEAST_RETENTION_MS   1000 /* what the library takes */
#define DEFAULT_RETENTION_MS ((int64_t)7 * 86400000)

/* What was deleted before an error counts, too. */
static int reap(rowlock_client *client, const rowlock_reap_options *options)
{
    rowlock_error err;
    uint64_t count = 0;
    int status = rowlock_reap(&count, client, options, &err);

    printf("reaped %" PRIu64 "\n", count);
    return status == ROWLOCK_OK ? CLI_OK : cli_fail(&err);
}

static int cmd_reap(const cli_command *self, int argc, char **argv)
{
    cli_db db = {.address = NULL};
    int64_t retention_ms = DEFAULT_RETENTION_MS;
    int limit = -1;
    const cli_option options[] = {CLI_DB_OPTIONS(db),
                                  {0, "retention", CLI_DURATION, &retention_ms},
                                  {0, "limit", CLI_NUMBER, &limit},
                                  CLI_OPTION_END};
    rowlock_options client_options = ROWLOCK_OPTIONS_INIT;
    rowlock_reap_options reap_options = ROWLOCK_REAP_OPTIONS_INIT;
    rowlock_client *client = NULL;
    cli_args args;
    int result = cli_parse(&args, self, options, argc, argv);

    if (result == CLI_GO_ON && (args.count > 0 || args.command))
        result = cli_usage("'rowlock reap' takes options only; see 'rowlock reap --help'");
    if (result == CLI_GO_ON && retention_ms < LEAST_RETENTION_MS)
        result = cli_usage("--retention must be 1s or more, so that no fence is given twice");
    if (result == CLI_GO_ON && limit == 0)
        result = cli_usage("--limit must be 1 or more; without it there is none");
    if (result == CLI_GO_ON)
        result = cli_db_open(&client, &db, &client_options);
    if (result != CLI_GO_ON)
        return result;
    reap_options.retention_ms = retention_ms;
    reap_options.limit = limit > 0 ? (uint64_t)limit : UINT64_MAX;
    result = reap(client, &reap_options);
    rowlock_close(&client);
    return result;
}

const cli_command cli_reap = {
    .name = "reap",
    .summary = "delete rows of locks that nobody has held for long",
    .help = "usage: rowlock reap [OPTION...]\n"
            "\n"
            "Deletes rows of locks that have been free for long, in small batches that are in\n"
            "nobody's way, and prints how many. A lock needs no row to be acquired: it gets a\n"
            "new one.\n"
            "\n"
            "  -d, --db ADDRESS          the database (see 'rowlock --help'); $ROWLOCK_DB\n"
            "      --local               a file for this user on this host alone\n"
            "      --retention DURATION  free for longer than this, at least 1s (7d)\n"
            "      --limit N             at most so many rows; default: all\n"
            "      --prefix PREFIX       of the tables' names (rowlock_)\n"
            "      --schema SCHEMA       where the tables are\n"
            "\n"
            "Any number of them may run at once. In a crontab, once a night:\n"
            "\n"
            "  15 3 * * *  rowlock reap >/dev/null\n",
    .run = cmd_reap,
};
