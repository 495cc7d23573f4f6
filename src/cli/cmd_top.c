/* SPDX-License-Identifier: MIT
 *
 * rowlock top: locks, waiters and rates, drawn anew again and again. */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "screen.h"
#include "view.h"

enum { HEAD_LINES = 2 };

typedef struct top {
    cli_db db;
    int64_t interval_ms;
    rowlock_client *client;
    cli_view view;    /* of the last look, by name */
    int64_t seen_at;  /* when that was; 0: never */
    int64_t since_ms; /* it and the one before it are so far apart */
    cli_changes changes;
    rowlock_error err; /* of the last try */
} top;

/* ---- looking --------------------------------------------------------------------------------- */

/* What was seen before stays if the database does not answer. */
static void look(top *t)
{
    cli_view now;
    int64_t at = cli_now_ms();

    if (cli_view_try(&now, t->client, NULL, CLI_VIEW_FREE, &t->err) != ROWLOCK_OK) {
        cli_view_end(&now);
        return;
    }
    t->changes = cli_view_changes(&t->view, &now);
    t->since_ms = t->seen_at ? at - t->seen_at : 0;
    t->seen_at = at;
    cli_view_end(&t->view);
    t->view = now;
}

/* ---- drawing --------------------------------------------------------------------------------- */

static double per_second(size_t n, int64_t ms)
{
    return ms > 0 ? (double)n * 1000 / (double)ms : 0;
}

static void put_head(const top *t, const cli_view *held, FILE *out, int width, int colours)
{
    char line[256], oldest[32], clock[16] = "";
    int64_t longest = 0;
    time_t now = time(NULL);
    struct tm local;

    for (size_t i = 0; i < t->view.waiter_count; i++)
        if (t->view.waiters[i].waited_ms > longest)
            longest = t->view.waiters[i].waited_ms;
    cli_duration_text(oldest, longest);
    if (localtime_r(&now, &local))
        strftime(clock, sizeof(clock), "%H:%M:%S", &local);
    snprintf(line, sizeof(line),
             "%s  held %zu  waiting %zu (%s)  granted %.1f/s  freed %.1f/s   q quits", clock,
             held->lock_count, t->view.waiter_count, longest ? oldest : "-",
             per_second(t->changes.granted, t->since_ms),
             per_second(t->changes.freed, t->since_ms));
    line[(size_t)width < sizeof(line) ? (size_t)width : sizeof(line) - 1] = '\0';
    cli_put_coloured(out, line, CLI_BOLD, colours);
    fputc('\n', out);
    if (t->err.status != ROWLOCK_OK) {
        snprintf(line, sizeof(line), "%.*s", width, t->err.message);
        cli_put_coloured(out, line, CLI_RED, colours);
    }
    fputc('\n', out);
}

/* The first `most` lines of a table; the last of them says how many more there are. */
static void put_lines(FILE *out, const char *text, size_t rows, size_t most)
{
    size_t shown = rows + 1 <= most ? rows + 1 : most > 1 ? most - 1 : 0;

    for (size_t i = 0; i < shown; i++) {
        size_t n = strcspn(text, "\n") + 1;

        fwrite(text, 1, n, out);
        text += n;
    }
    if (shown < rows + 1 && most > 0)
        fprintf(out, "... and %zu more\n", rows + 1 - shown);
}

typedef int (*table_fn)(const cli_view *v, FILE *out, size_t width, int colours);

static int waiters_table(const cli_view *v, FILE *out, size_t width, int colours)
{
    return cli_waiters_table(v, NULL, out, width, colours);
}

static int put_table(table_fn table, const cli_view *v, size_t rows, FILE *out, size_t width,
                     size_t most, int colours)
{
    char *text = NULL;
    size_t size = 0;
    FILE *memory = open_memstream(&text, &size);
    int failed = !memory;

    if (memory) {
        failed = table(v, memory, width, colours);
        failed |= fclose(memory) != 0;
    }
    if (!failed)
        put_lines(out, text, rows, most);
    free(text);
    return failed;
}

/* Waiters have up to a third of the lines, and what the locks leave of the others. */
static int put_page(const top *t, const cli_view *held, FILE *out)
{
    int colours = cli_colours();
    size_t columns, rows, for_locks, for_waiters;
    int failed = 0;

    cli_screen_size(&columns, &rows);
    put_head(t, held, out, (int)columns, colours);
    rows -= rows > HEAD_LINES ? HEAD_LINES : rows;
    for_waiters = held->waiter_count > 0 ? held->waiter_count + 2 : 0;
    if (for_waiters > rows / 3 && held->lock_count + 1 + for_waiters > rows)
        for_waiters =
            held->lock_count + 1 < rows - rows / 3 ? rows - held->lock_count - 1 : rows / 3;
    for_locks = rows - for_waiters;
    failed = put_table(cli_locks_table, held, held->lock_count, out, columns, for_locks, colours);
    if (for_waiters > 1 && !failed) {
        fputc('\n', out);
        failed = put_table(waiters_table, held, held->waiter_count, out, columns, for_waiters - 1,
                           colours);
    }
    return failed;
}

/* 0, or -1 if memory was short. */
static int draw(top *t)
{
    cli_view held;
    char *page = NULL;
    size_t size = 0, free_count = 0;
    FILE *out = open_memstream(&page, &size);
    int failed = !out;

    cli_view_sort(&t->view, CLI_BY_TIME);
    while (free_count < t->view.lock_count && t->view.locks[free_count].left_ms <= 0)
        free_count++;
    held = t->view;
    held.lock_count -= free_count;
    if (free_count > 0)
        held.locks += free_count;
    if (out) {
        failed = put_page(t, &held, out);
        failed |= fclose(out) != 0;
    }
    if (!failed)
        cli_screen_draw(page);
    free(page);
    cli_view_sort(&t->view, CLI_BY_NAME);
    return failed ? -1 : 0;
}

/* ---- the subcommand -------------------------------------------------------------------------- */

/* Keys are looked at before each pause and ended by q, Q, Ctrl-C or the end of the terminal. */
static int watch(top *t)
{
    for (;;) {
        int64_t next = cli_now_ms() + t->interval_ms;
        int64_t left;

        look(t);
        do {
            int key = cli_screen_key();

            if (key == 'q' || key == 'Q' || key < 0)
                return CLI_OK;
            if (draw(t) != 0)
                return CLI_OTHER;
            left = next - cli_now_ms();
            if (left > 0 && cli_signals_pause(STDIN_FILENO, left))
                return CLI_SIGNAL + cli_signals_caught();
        } while (next > cli_now_ms());
    }
}

static int show(top *t)
{
    rowlock_options options = ROWLOCK_OPTIONS_INIT;
    rowlock_cancel *cancel = NULL;
    rowlock_error err;
    int result = cli_db_open(&t->client, &t->db, &options);

    if (result != CLI_GO_ON)
        return result;
    if (rowlock_cancel_new(&cancel, &err) != ROWLOCK_OK) {
        result = cli_fail(&err);
    } else if (cli_signals_start(cancel), cli_screen_start() != 0) {
        result = cli_usage("'rowlock top' needs a terminal; see 'rowlock list'");
    } else {
        result = watch(t);
        cli_screen_end();
        if (result == CLI_OTHER)
            cli_out_of_memory();
    }
    cli_view_end(&t->view);
    rowlock_close(&t->client);
    return result; /* the switch stays, as in job.c */
}

static int cmd_top(const cli_command *self, int argc, char **argv)
{
    top t = {.interval_ms = 2000};
    const cli_option options[] = {
        CLI_DB_OPTIONS(t.db), {'i', "interval", CLI_DURATION, &t.interval_ms}, CLI_OPTION_END};
    cli_args args;
    int result = cli_parse(&args, self, options, argc, argv);

    if (result == CLI_GO_ON && (args.count > 0 || args.command))
        result = cli_usage("'rowlock top' takes options only; see 'rowlock top --help'");
    if (result == CLI_GO_ON && (t.interval_ms < 100 || t.interval_ms > 3600000))
        result = cli_usage("--interval must be between 100ms and 1h");
    if (result == CLI_GO_ON && (!isatty(STDOUT_FILENO) || !isatty(STDIN_FILENO)))
        result = cli_usage("'rowlock top' needs a terminal; see 'rowlock list'");
    return result == CLI_GO_ON ? show(&t) : result;
}

const cli_command cli_top = {
    .name = "top",
    .summary = "watch locks, waiters and rates on a terminal",
    .help = "usage: rowlock top [OPTION...]\n"
            "\n"
            "Shows the locks that are held and who waits, as 'rowlock list' and 'rowlock\n"
            "waiters' do, again and again; q quits.\n"
            "\n"
            "  -d, --db ADDRESS         the database (see 'rowlock --help'); $ROWLOCK_DB\n"
            "      --local              a file for this user on this host alone\n"
            "  -i, --interval DURATION  look so often, 100ms to 1h (2s)\n"
            "      --prefix PREFIX      of the tables' names (rowlock_)\n"
            "      --schema SCHEMA      where the tables are\n"
            "\n"
            "granted and freed: how many locks were, per second, since the last look. Of each\n"
            "lock the last grant is seen: one that changes hands faster than the interval is\n"
            "counted once. If the database does not answer the reason is shown, and what was\n"
            "seen last.\n",
    .run = cmd_top,
};
