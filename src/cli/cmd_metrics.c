/* SPDX-License-Identifier: MIT
 *
 * rowlock metrics: numbers of one database, as Prometheus reads them. None is told by the name of a
 * lock: there are as many names as the users like. */
#include <inttypes.h>
#include <string.h>

#include "view.h"

#define CALL_TIMEOUT_MS 30000 /* all rows are read */

typedef struct numbers {
    int64_t held, expired, waiting;
    int64_t oldest_held_ms, oldest_expired_ms, oldest_wait_ms;
} numbers;

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static numbers numbers_of(const cli_view *v)
{
    numbers n = {.waiting = (int64_t)v->waiter_count};

    for (size_t i = 0; i < v->lock_count; i++) {
        const cli_lock *lock = &v->locks[i];

        if (lock->left_ms > 0) {
            n.held++;
            n.oldest_held_ms = larger(n.oldest_held_ms, lock->held_ms);
        } else {
            n.expired++;
            n.oldest_expired_ms = larger(n.oldest_expired_ms, -lock->left_ms);
        }
    }
    for (size_t i = 0; i < v->waiter_count; i++)
        n.oldest_wait_ms = larger(n.oldest_wait_ms, v->waiters[i].waited_ms);
    return n;
}

/* ---- the label ------------------------------------------------------------------------------- */

/* NAME=VALUE. Names with two underscores in front are Prometheus's own. */
static int check_label(const char *label)
{
    const char *letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_";
    size_t n = strspn(label, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789");

    if (n == 0 || label[n] != '=' || !strchr(letters, label[0]) || strncmp(label, "__", 2) == 0)
        return cli_usage("--label: give NAME=VALUE, like database=shop, with letters, digits and _ "
                         "in NAME");
    if (cli_characters(label + n + 1) < 0)
        return cli_usage("--label: the value has control characters or is not UTF-8");
    return CLI_GO_ON;
}

static void print_label(const char *label)
{
    size_t n = strcspn(label, "=");

    printf("{%.*s=\"", (int)n, label);
    for (const char *c = label + n + 1; *c; c++) {
        if (*c == '"' || *c == '\\')
            putchar('\\');
        putchar(*c);
    }
    fputs("\"}", stdout);
}

/* ---- the text -------------------------------------------------------------------------------- */

/* A gauge, but for its value. */
static void print_head(const char *name, const char *help, const char *label)
{
    printf("# HELP %s %s\n# TYPE %s gauge\n%s", name, help, name, name);
    if (label)
        print_label(label);
    putchar(' ');
}

static void print_count(const char *name, const char *help, const char *label, int64_t value)
{
    print_head(name, help, label);
    printf("%" PRId64 "\n", value);
}

static void print_seconds(const char *name, const char *help, const char *label, int64_t ms)
{
    print_head(name, help, label);
    printf("%" PRId64 ".%03" PRId64 "\n", ms / 1000, ms % 1000);
}

/* n NULL: they could not be had. */
static void print_all(const numbers *n, const char *label)
{
    print_count("rowlock_up", "Whether the lock table could be read.", label, n != NULL);
    if (!n)
        return;
    print_count("rowlock_held", "Locks that are held.", label, n->held);
    print_seconds("rowlock_oldest_held_seconds",
                  "How long the lock that is held longest has been held, 0 if none is.", label,
                  n->oldest_held_ms);
    print_count("rowlock_expired", "Rows of free locks that have not been reaped.", label,
                n->expired);
    print_seconds(
        "rowlock_oldest_expired_seconds",
        "How long the lock that is free longest has been free, 0 if there is no such row.", label,
        n->oldest_expired_ms);
    print_count("rowlock_waiting", "Tickets of those who wait for a lock.", label, n->waiting);
    print_seconds("rowlock_oldest_wait_seconds",
                  "How long the one that waits longest has waited, 0 if nobody waits.", label,
                  n->oldest_wait_ms);
}

/* ---- the subcommand -------------------------------------------------------------------------- */

/* Nothing is printed before all is known. A database that cannot be used is an answer, too; only
 * what is wrong with the call itself has an exit status. */
static int measure(cli_db *db, const char *label)
{
    rowlock_options options = ROWLOCK_OPTIONS_INIT;
    rowlock_client *client = NULL;
    cli_view view = {.locks = NULL};
    numbers n;
    int result;

    options.call_timeout_ms = CALL_TIMEOUT_MS;
    result = cli_db_open(&client, db, &options);
    if (result == CLI_USAGE)
        return result;
    if (result == CLI_GO_ON)
        result = cli_view_read(&view, client, NULL, CLI_VIEW_FREE);
    rowlock_close(&client);
    n = numbers_of(&view);
    print_all(result == CLI_GO_ON ? &n : NULL, label);
    cli_view_end(&view);
    return CLI_OK;
}

static int cmd_metrics(const cli_command *self, int argc, char **argv)
{
    cli_db db = {.address = NULL};
    const char *label = NULL;
    const cli_option options[] = {
        CLI_DB_OPTIONS(db), {0, "label", CLI_TEXT, &label}, CLI_OPTION_END};
    cli_args args;
    int result = cli_parse(&args, self, options, argc, argv);

    if (result == CLI_GO_ON && (args.count > 0 || args.command))
        result = cli_usage("'rowlock metrics' takes options only; see 'rowlock metrics --help'");
    if (result == CLI_GO_ON && label)
        result = check_label(label);
    return result == CLI_GO_ON ? measure(&db, label) : result;
}

const cli_command cli_metrics = {
    .name = "metrics",
    .summary = "print numbers of a database for Prometheus",
    .help = "usage: rowlock metrics [OPTION...]\n"
            "\n"
            "Prints, in the text format of Prometheus, how many locks are held and for how\n"
            "long, how many rows of free locks wait to be reaped, and how many wait for a\n"
            "lock.\n"
            "\n"
            "  -d, --db ADDRESS        the database (see 'rowlock --help'); $ROWLOCK_DB\n"
            "      --local             a file for this user on this host alone\n"
            "      --label NAME=VALUE  on all of them, to tell several databases apart\n"
            "      --prefix PREFIX     of the tables' names (rowlock_)\n"
            "      --schema SCHEMA     where the tables are\n"
            "\n"
            "If the database cannot be used, rowlock_up is 0 and there are no other numbers;\n"
            "the reason goes to standard error, and the exit status is 0, so that the news is\n"
            "not thrown away.\n"
            "\n"
            "For the textfile collector of node_exporter, in a crontab:\n"
            "\n"
            "  * * * * *  cd /var/lib/prom && rowlock metrics >locks && mv locks locks.prom\n",
    .run = cmd_metrics,
};
