/* SPDX-License-Identifier: MIT
 *
 * rowlock bench: how fast locks are in the user's own database, in tables made for it. */
#include <string.h>
#include <unistd.h>

#include "bench.h"
#include "print.h"

#define TIME_MIN_MS ((int64_t)1000)
#define TIME_MAX_MS ((int64_t)600000)

static const cli_bench_test tests[] = {
    {CLI_BENCH_CYCLE, "cycle", 1},         {CLI_BENCH_CYCLE, "cycle", 4},
    {CLI_BENCH_CYCLE, "cycle", 16},        {CLI_BENCH_CYCLE, "cycle", 64},
    {CLI_BENCH_HAND_OVER, "hand-over", 2}, {CLI_BENCH_HAND_OVER, "hand-over", 8},
    {CLI_BENCH_BUSY, "busy", 1},           {CLI_BENCH_REENTRY, "re-entry", 1},
};

enum { TESTS = sizeof(tests) / sizeof(tests[0]) };

typedef struct bench {
    cli_db db; /* with the prefix of our own tables */
    char prefix[32];
    int64_t time_ms;
    int json;
    rowlock_client *clients[CLI_BENCH_CLIENTS_MAX];
    cli_bench_result results[TESTS];
} bench;

/* ---- showing --------------------------------------------------------------------------------- */

static void put_json(const bench *b)
{
    cli_writer w = {.out = stdout};

    for (int i = 0; i < TESTS; i++) {
        const cli_bench_result *r = &b->results[i];

        cli_record_start(&w);
        cli_put_text(&w, "test", tests[i].name);
        cli_put_number(&w, "threads", tests[i].threads);
        cli_put_number(&w, "per_second", (int64_t)(r->per_second + 0.5));
        cli_put_number(&w, "p50_us", (int64_t)(r->p50_us + 0.5));
        cli_put_number(&w, "p99_us", (int64_t)(r->p99_us + 0.5));
        cli_put_number(&w, "p999_us", (int64_t)(r->p999_us + 0.5));
        cli_record_end(&w);
    }
    cli_writer_end(&w);
}

static int put_table(const bench *b)
{
    static const cli_column columns[] = {{"TEST", CLI_LEFT, 0},        {"THREADS", CLI_RIGHT, 0},
                                         {"PER SECOND", CLI_RIGHT, 0}, {"MEDIAN us", CLI_RIGHT, 0},
                                         {"99 % us", CLI_RIGHT, 0},    {"99.9 % us", CLI_RIGHT, 0}};
    cli_table t;
    int failed;

    cli_table_start(&t, columns, sizeof(columns) / sizeof(columns[0]));
    for (int i = 0; i < TESTS; i++) {
        const cli_bench_result *r = &b->results[i];

        cli_cell_text(&t, tests[i].name, strlen(tests[i].name));
        cli_cell_number(&t, (uint64_t)tests[i].threads);
        cli_cell_number(&t, (uint64_t)(r->per_second + 0.5));
        cli_cell_number(&t, (uint64_t)(r->p50_us + 0.5));
        cli_cell_number(&t, (uint64_t)(r->p99_us + 0.5));
        cli_cell_number(&t, (uint64_t)(r->p999_us + 0.5));
    }
    failed = cli_table_print(&t, stdout, 0, 0);
    cli_table_end(&t);
    return failed ? cli_out_of_memory() : CLI_OK;
}

/* Ten seconds are long to who sees nothing. */
static void put_progress(const cli_bench_test *test)
{
    if (!isatty(STDERR_FILENO))
        return;
    if (test)
        fprintf(stderr, "\r\033[K%s, %d thread%s ...", test->name, test->threads,
                test->threads == 1 ? "" : "s");
    else
        fputs("\r\033[K", stderr);
}

/* ---- measuring ------------------------------------------------------------------------------- */

static int measure(bench *b)
{
    int result = CLI_GO_ON;

    for (int i = 0; i < TESTS && result == CLI_GO_ON && !cli_signals_caught(); i++) {
        put_progress(&tests[i]);
        result = cli_bench_run(&b->results[i], &tests[i], b->clients, b->time_ms / TESTS);
    }
    put_progress(NULL);
    if (result == CLI_GO_ON && cli_signals_caught())
        return CLI_SIGNAL + cli_signals_caught();
    return result;
}

/* ---- tables of our own ----------------------------------------------------------------------- */

/* The user's tables are looked at and left alone: that they are there says that this is the right
 * database. */
static int check_tables(cli_db db)
{
    rowlock_options options = ROWLOCK_OPTIONS_INIT;
    rowlock_client *client = NULL;
    int result = cli_db_open(&client, &db, &options);

    rowlock_close(&client);
    return result;
}

static void drop_tables(bench *b)
{
    rowlock_error err;

    if (rowlock_migrate(b->clients[0], 0, &err) == ROWLOCK_OK)
        return;
    cli_message("tables are left: remove them with 'rowlock migrate down --to 0 --prefix %s' (%s)",
                b->prefix, err.message);
}

static int open_clients(bench *b)
{
    int result = CLI_GO_ON;

    for (int i = 0; i < CLI_BENCH_CLIENTS_MAX && result == CLI_GO_ON; i++) {
        rowlock_options options = ROWLOCK_OPTIONS_INIT;

        if (i == 0)
            options.schema_policy = ROWLOCK_SCHEMA_CREATE;
        result = cli_db_open(&b->clients[i], &b->db, &options);
    }
    return result;
}

static int run(bench *b)
{
    int result = open_clients(b);

    if (result == CLI_GO_ON)
        result = measure(b);
    for (int i = 1; i < CLI_BENCH_CLIENTS_MAX; i++)
        rowlock_close(&b->clients[i]);
    if (b->clients[0])
        drop_tables(b);
    rowlock_close(&b->clients[0]);
    return result;
}

static int cmd_bench(const cli_command *self, int argc, char **argv)
{
    bench b = {.time_ms = 10000};
    const cli_option options[] = {CLI_DB_OPTIONS(b.db),
                                  {0, "time", CLI_DURATION, &b.time_ms},
                                  {0, "json", CLI_FLAG, &b.json},
                                  CLI_OPTION_END};
    cli_args args;
    int result = cli_parse(&args, self, options, argc, argv);

    if (result == CLI_GO_ON && (args.count > 0 || args.command))
        result = cli_usage("'rowlock bench' takes options only; see 'rowlock bench --help'");
    if (result == CLI_GO_ON && (b.time_ms < TIME_MIN_MS || b.time_ms > TIME_MAX_MS))
        result = cli_usage("--time must be between 1s and 10m");
    if (result == CLI_GO_ON)
        result = check_tables(b.db);
    if (result != CLI_GO_ON)
        return result;
    snprintf(b.prefix, sizeof(b.prefix), "rowlock_bench_%ld_", (long)getpid());
    b.db.prefix = b.prefix;
    cli_signals_start(NULL);
    result = run(&b);
    if (result != CLI_GO_ON)
        return result;
    if (b.json)
        put_json(&b);
    return b.json ? CLI_OK : put_table(&b);
}

const cli_command cli_bench = {
    .name = "bench",
    .summary = "measure how fast locks are in this database",
    .help = "usage: rowlock bench [OPTION...]\n"
            "\n"
            "Measures locks in your own database, from where you are, in ten seconds:\n"
            "\n"
            "  cycle      acquire and release; each thread a lock of its own, on one client\n"
            "  hand-over  one lock, as many clients that wait for it as threads: how often\n"
            "             it changes hands; times from release to the next one's having it\n"
            "  busy       being told that somebody else holds a lock\n"
            "  re-entry   acquire and release once more what one holds\n"
            "\n"
            "  -d, --db ADDRESS     the database (see 'rowlock --help'); default: $ROWLOCK_DB\n"
            "      --local          a file for this user on this host alone\n"
            "      --time DURATION  about so long altogether, 1s to 10m (10s)\n"
            "      --json           an array of objects\n"
            "      --prefix PREFIX  of the tables' names (rowlock_)\n"
            "      --schema SCHEMA  where the tables are\n"
            "\n"
            "Your locks are not touched: it makes tables of its own beside yours, which\n"
            "takes the right to create tables, and drops them at the end, also when it is\n"
            "interrupted. Their names start with rowlock_bench_ and the number of this\n"
            "process; the locks in them are own-0 to own-63, busy and hand-over. It loads\n"
            "the server as hard as it can meanwhile, with up to 16 connections.\n",
    .run = cmd_bench,
};
