/* SPDX-License-Identifier: MIT
 *
 * rowlock show: everything about one lock. */
#include <inttypes.h>
#include <string.h>

#include "view.h"

/* ---- for people ------------------------------------------------------------------------------ */

static void print_text(const char *title, const char *text, size_t n)
{
    char shown[4 * ROWLOCK_NOTE_MAX + 1];

    cli_printable(shown, text, n);
    printf("%-9s %s\n", title, shown);
}

static void print_duration(const char *title, int64_t ms)
{
    char text[32];

    cli_duration_text(text, ms);
    printf("%-9s %s\n", title, text);
}

static void print_held(const cli_lock *lock)
{
    cli_process process;

    cli_process_of(&process, lock->owner);
    print_text("owner", lock->owner, strlen(lock->owner));
    if (process.pid)
        printf("%-9s %s\n%-9s %" PRIu64 "\n", "host", process.host, "pid", process.pid);
    printf("%-9s %" PRIu64 "\n", "fence", lock->fence);
    print_duration("held for", lock->held_ms);
    print_duration("left", lock->left_ms);
    printf("%-9s %" PRIu32 "\n", "count", lock->count);
    if (lock->note[0])
        print_text("note", lock->note, strlen(lock->note));
}

static void print_free(const cli_lock *lock)
{
    printf("%-9s %s\n", "owner", "nobody");
    if (!lock)
        return;
    print_text("last one", lock->owner, strlen(lock->owner));
    printf("%-9s %" PRIu64 "\n", "fence", lock->fence);
    print_duration("free for", -lock->left_ms);
}

/* A lock without a row may be waited for. */
static size_t count_waiters(const cli_view *v, const char *name)
{
    size_t n = 0;

    for (size_t i = 0; i < v->waiter_count; i++)
        n += (size_t)cli_view_is(v->waiters[i].name, v->waiters[i].name_length, name);
    return n;
}

static int print_page(const cli_view *v, const char *name, const char *database)
{
    const cli_lock *lock = v->lock_count > 0 ? &v->locks[0] : NULL;
    size_t waiters;

    printf("%-9s %s\n", "database", database);
    print_text("name", name, strlen(name));
    if (lock && lock->left_ms > 0)
        print_held(lock);
    else
        print_free(lock);
    waiters = count_waiters(v, name);
    printf("%-9s %zu\n", "waiting", waiters);
    if (waiters == 0)
        return 0;
    putchar('\n');
    return cli_waiters_table(v, name, stdout, cli_width(), cli_colours());
}

/* ---- for machines ---------------------------------------------------------------------------- */

static int print_json(const cli_view *v, const char *name)
{
    const cli_lock *lock = v->lock_count > 0 ? &v->locks[0] : NULL;
    cli_writer w = {.out = stdout}, queue = {.out = stdout};
    int failed;

    putchar('{');
    if (lock)
        cli_put_lock(&w, lock);
    else
        cli_put_name(&w, "name", name, strlen(name));
    cli_put_flag(&w, "held", lock && lock->left_ms > 0);
    cli_put_key(&w, "queue");
    failed = cli_put_waiters(&queue, v, name);
    fputs(queue.records ? "\n]}\n" : "[]}\n", stdout);
    return failed;
}

/* ---- the subcommand -------------------------------------------------------------------------- */

static int show(cli_db *db, const char *name, int json)
{
    rowlock_options options = ROWLOCK_OPTIONS_INIT;
    rowlock_client *client = NULL;
    cli_view view;
    int result = cli_db_open(&client, db, &options);

    if (result != CLI_GO_ON)
        return result;
    result = cli_view_read(&view, client, name, CLI_VIEW_FREE);
    rowlock_close(&client);
    if (result == CLI_GO_ON) {
        int failed = json ? print_json(&view, name) : print_page(&view, name, db->name);

        result = failed ? cli_out_of_memory() : CLI_OK;
    }
    cli_view_end(&view);
    return result;
}

static int cmd_show(const cli_command *self, int argc, char **argv)
{
    cli_db db = {.address = NULL};
    int json = 0;
    const char *name = NULL;
    const cli_option options[] = {CLI_DB_OPTIONS(db), {0, "json", CLI_FLAG, &json}, CLI_OPTION_END};
    cli_args args;
    int result = cli_parse(&args, self, options, argc, argv);

    if (result == CLI_GO_ON && args.command)
        result = cli_usage("'rowlock show' runs no command; see 'rowlock show --help'");
    if (result == CLI_GO_ON)
        result = cli_name_check(&name, self, &args);
    return result == CLI_GO_ON ? show(&db, name, json) : result;
}

const cli_command cli_show = {
    .name = "show",
    .summary = "show everything about one lock, its holder and its queue",
    .help = "usage: rowlock show [OPTION...] NAME\n"
            "\n"
            "Shows the database, who holds the lock NAME, or who was the last to, and who\n"
            "waits for it.\n"
            "\n"
            "  -d, --db ADDRESS     the database (see 'rowlock --help'); default: $ROWLOCK_DB\n"
            "      --local          a file for this user on this host alone\n"
            "      --json           an object: that of 'rowlock list', held, and as queue\n"
            "                       those of 'rowlock waiters'. If there is no such row:\n"
            "                       name, held and queue\n"
            "      --prefix PREFIX  of the tables' names (rowlock_)\n"
            "      --schema SCHEMA  where the tables are\n",
    .run = cmd_show,
};
