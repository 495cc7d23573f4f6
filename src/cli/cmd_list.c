/* SPDX-License-Identifier: MIT
 *
 * rowlock list: who holds what. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli.h"

enum { NAME, OWNER, FENCE, HELD, LEFT, COUNT, NOTE, COLUMNS, NARROWEST = 8 };

static const char *const titles[COLUMNS] = {"NAME", "OWNER", "FENCE", "HELD FOR",
                                            "LEFT", "COUNT", "NOTE"};

/* The cells of the table, row after row, and the widest of each column. */
typedef struct table {
    char **cells;
    size_t rows, room;
    size_t width[COLUMNS];
    int failed;
} table;

/* ---- the table ------------------------------------------------------------------------------- */

/* Characters of a UTF-8 string. */
static size_t columns_of(const char *text)
{
    size_t n = 0;

    for (; *text; text++)
        n += ((unsigned char)*text & 0xc0) != 0x80;
    return n;
}

/* Takes over the text; NULL is a failed allocation. */
static void add_cell(table *t, size_t row, int column, char *text)
{
    size_t width = text ? columns_of(text) : 0;

    if (!text)
        t->failed = 1;
    t->cells[row * COLUMNS + (size_t)column] = text;
    if (width > t->width[column])
        t->width[column] = width;
}

static char *printable_copy(const char *text, size_t n)
{
    char *copy = malloc(4 * n + 1);

    if (copy)
        cli_printable(copy, text, n);
    return copy;
}

static char *duration_copy(int64_t ms)
{
    char text[32];

    cli_duration_text(text, ms);
    return strdup(ms > 0 ? text : "-");
}

static char *number_copy(uint64_t number)
{
    char text[24];

    snprintf(text, sizeof(text), "%" PRIu64, number);
    return strdup(text);
}

static int add_row(const rowlock_row *row, void *payload)
{
    table *t = payload;
    size_t n = t->rows;

    if (n == t->room) {
        size_t room = t->room ? 2 * t->room : 64;
        char **cells = realloc(t->cells, room * COLUMNS * sizeof(*cells));

        if (!cells) {
            t->failed = 1;
            return 1;
        }
        t->cells = cells;
        t->room = room;
    }
    add_cell(t, n, NAME, printable_copy(row->name, row->name_length));
    add_cell(t, n, OWNER, printable_copy(row->owner, strlen(row->owner)));
    add_cell(t, n, FENCE, number_copy(row->fence));
    add_cell(t, n, HELD, duration_copy(row->remaining_ms > 0 ? row->held_ms : 0));
    add_cell(t, n, LEFT, duration_copy(row->remaining_ms));
    add_cell(t, n, COUNT, number_copy(row->hold_count));
    add_cell(t, n, NOTE, printable_copy(row->note, strlen(row->note)));
    t->rows++;
    return t->failed;
}

/* Columns of the terminal; 0 if the output goes elsewhere and nothing needs to be cut. */
static size_t terminal_columns(void)
{
    struct winsize size;

    if (!isatty(STDOUT_FILENO))
        return 0;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
        return 80;
    return size.ws_col;
}

/* Narrows the columns of free text, widest first, until a line fits. */
static void fit(table *t, size_t columns)
{
    static const int text_columns[] = {NOTE, OWNER, NAME};

    for (;;) {
        size_t total = 2 * (COLUMNS - 1);
        int widest = NOTE;

        for (int i = 0; i < COLUMNS; i++)
            total += t->width[i];
        for (int i = 0; i < 3; i++)
            if (t->width[text_columns[i]] > t->width[widest])
                widest = text_columns[i];
        if (total <= columns || t->width[widest] <= NARROWEST)
            return;
        t->width[widest]--;
    }
}

/* A text in `width` columns, cut with "..." if need be. The last column is not filled up. */
static void print_cell(const char *text, size_t width, int column)
{
    size_t length = columns_of(text);
    size_t keep = length <= width ? length : width - 3;
    int fill = length <= width ? (int)(width - length) : 0;
    int right = column == FENCE || column == HELD || column == LEFT || column == COUNT;
    int last = column == COLUMNS - 1;
    size_t bytes = 0;

    while (text[bytes] && (keep > 0 || ((unsigned char)text[bytes] & 0xc0) == 0x80))
        keep -= ((unsigned char)text[bytes++] & 0xc0) != 0x80;
    printf("%s%*s%.*s%s%*s%s", column > 0 && (!last || *text) ? "  " : "", right ? fill : 0, "",
           (int)bytes, text, length > width ? "..." : "", right || last ? 0 : fill, "",
           last ? "\n" : "");
}

static void print_table(table *t)
{
    size_t columns = terminal_columns();

    for (int i = 0; i < COLUMNS; i++)
        if (strlen(titles[i]) > t->width[i])
            t->width[i] = strlen(titles[i]);
    if (columns)
        fit(t, columns);
    for (int i = 0; i < COLUMNS; i++)
        print_cell(titles[i], t->width[i], i);
    for (size_t i = 0; i < t->rows * COLUMNS; i++)
        print_cell(t->cells[i], t->width[i % COLUMNS], (int)(i % COLUMNS));
}

static int list_table(rowlock_client *client, const rowlock_list_options *options)
{
    table t = {.cells = NULL};
    rowlock_error err;
    int status = rowlock_list(client, options, add_row, &t, &err);
    int result = CLI_OK;

    if (status != ROWLOCK_OK) {
        result = cli_fail(&err);
    } else if (t.failed) {
        cli_message("out of memory");
        result = CLI_OTHER;
    } else if (t.rows == 0) {
        cli_message("no locks are held");
    } else {
        print_table(&t);
    }
    for (size_t i = 0; i < t.rows * COLUMNS; i++)
        free(t.cells[i]);
    free(t.cells);
    return result;
}

/* ---- JSON ------------------------------------------------------------------------------------ */

/* A JSON string. Bytes that are no UTF-8 become U+FFFD; returns how many there were. */
static size_t print_json_string(const char *s, size_t n)
{
    size_t bad = 0;

    putchar('"');
    for (size_t i = 0; i < n;) {
        size_t length = cli_utf8(s + i, n - i);

        if (length == 0)
            fputs("\\ufffd", stdout);
        else if (length == 1 && (s[i] == '"' || s[i] == '\\'))
            printf("\\%c", s[i]);
        else if (length == 1 && ((unsigned char)s[i] < ' ' || s[i] == 0x7f))
            printf("\\u%04x", (unsigned)s[i]);
        else
            fwrite(s + i, 1, length, stdout);
        bad += length == 0;
        i += length ? length : 1;
    }
    putchar('"');
    return bad;
}

static int print_json_row(const rowlock_row *row, void *payload)
{
    size_t *rows = payload;

    fputs((*rows)++ ? ",\n {\"name\": " : "[\n {\"name\": ", stdout);
    if (print_json_string(row->name, row->name_length) > 0) {
        fputs(", \"name_hex\": \"", stdout);
        for (size_t i = 0; i < row->name_length; i++)
            printf("%02x", (unsigned char)row->name[i]);
        putchar('"');
    }
    fputs(", \"owner\": ", stdout);
    print_json_string(row->owner, strlen(row->owner));
    printf(", \"fence\": %" PRIu64 ", \"held_ms\": %" PRId64 ", \"left_ms\": %" PRId64
           ", \"count\": %" PRIu32 ", \"note\": ",
           row->fence, row->held_ms, row->remaining_ms, row->hold_count);
    print_json_string(row->note, strlen(row->note));
    putchar('}');
    return 0;
}

static int list_json(rowlock_client *client, const rowlock_list_options *options)
{
    size_t rows = 0;
    rowlock_error err;

    if (rowlock_list(client, options, print_json_row, &rows, &err) != ROWLOCK_OK)
        return cli_fail(&err);
    fputs(rows ? "\n]\n" : "[]\n", stdout);
    return CLI_OK;
}

/* ---- the subcommand -------------------------------------------------------------------------- */

static int cmd_list(const cli_command *self, int argc, char **argv)
{
    cli_db db = {.address = NULL};
    int json = 0, all = 0;
    const cli_option options[] = {CLI_DB_OPTIONS(db),
                                  {0, "json", CLI_FLAG, &json},
                                  {'a', "all", CLI_FLAG, &all},
                                  CLI_OPTION_END};
    rowlock_options client_options = ROWLOCK_OPTIONS_INIT;
    rowlock_list_options list_options = ROWLOCK_LIST_OPTIONS_INIT;
    rowlock_client *client = NULL;
    cli_args args;
    int result = cli_parse(&args, self, options, argc, argv);

    if (result == CLI_GO_ON && (args.count > 0 || args.command))
        result = cli_usage("'rowlock list' takes options only; see 'rowlock list --help'");
    if (result == CLI_GO_ON)
        result = cli_db_open(&client, &db, &client_options);
    if (result != CLI_GO_ON)
        return result;
    list_options.expired = all;
    result = json ? list_json(client, &list_options) : list_table(client, &list_options);
    rowlock_close(&client);
    return result;
}

const cli_command cli_list = {
    .name = "list",
    .summary = "show which locks are held, by whom, and for how long",
    .help =
        "usage: rowlock list [OPTION...]\n"
        "\n"
        "Shows the locks that are held, by name.\n"
        "\n"
        "  -d, --db ADDRESS     the database (see 'rowlock --help'); default: $ROWLOCK_DB\n"
        "  -a, --all            free locks that are still in the table, too\n"
        "      --json           an array of objects: name, owner, fence, held_ms, left_ms, count,\n"
        "                       note\n"
        "      --prefix PREFIX  of the tables' names (rowlock_)\n"
        "      --schema SCHEMA  where the tables are\n"
        "\n"
        "Names may hold any bytes. The table shows those that are not printable as \\xNN. In "
        "JSON,\n"
        "bytes that are not UTF-8 become U+FFFD, and the object has the whole name as name_hex.\n",
    .run = cmd_list,
};
