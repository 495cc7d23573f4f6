/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli.h"
#include "print.h"

enum { NARROWEST = 6, GAP = 2, MOST_COLUMNS = 16 };

struct cli_cell {
    char *text; /* NULL: there was no memory */
    enum cli_colour colour;
};

/* ---- filling --------------------------------------------------------------------------------- */

void cli_table_start(cli_table *t, const cli_column *columns, size_t n)
{
    *t = (cli_table){.columns = columns, .n = n};
}

/* Takes over the text. */
static void add(cli_table *t, char *text)
{
    if (t->count == t->room) {
        size_t room = t->room ? 2 * t->room : 256;
        struct cli_cell *cells = realloc(t->cells, room * sizeof(*cells));

        if (!cells) {
            free(text);
            t->failed = 1;
            return;
        }
        t->cells = cells;
        t->room = room;
    }
    if (!text)
        t->failed = 1;
    t->cells[t->count++] = (struct cli_cell){text, CLI_PLAIN};
}

void cli_cell_text(cli_table *t, const char *text, size_t n)
{
    char *copy = malloc(4 * n + 1);

    if (copy)
        cli_printable(copy, text, n);
    add(t, copy);
}

void cli_cell_number(cli_table *t, uint64_t number)
{
    char text[24];

    snprintf(text, sizeof(text), "%" PRIu64, number);
    add(t, strdup(text));
}

void cli_cell_duration(cli_table *t, int64_t ms)
{
    char text[32];

    cli_duration_text(text, ms);
    add(t, strdup(ms > 0 ? text : "-"));
}

void cli_cell_colour(cli_table *t, enum cli_colour colour)
{
    if (t->count > 0)
        t->cells[t->count - 1].colour = colour;
}

void cli_table_end(cli_table *t)
{
    for (size_t i = 0; i < t->count; i++)
        free(t->cells[i].text);
    free(t->cells);
    *t = (cli_table){.columns = t->columns, .n = t->n};
}

/* ---- fitting --------------------------------------------------------------------------------- */

typedef struct layout {
    size_t width[MOST_COLUMNS];
    int dropped[MOST_COLUMNS];
    size_t last; /* the last column that is shown */
} layout;

/* Characters of a UTF-8 string. */
static size_t characters(const char *text)
{
    size_t n = 0;

    for (; *text; text++)
        n += ((unsigned char)*text & 0xc0) != 0x80;
    return n;
}

static size_t line_width(const cli_table *t, const layout *l)
{
    size_t total = 0;

    for (size_t i = 0; i < t->n; i++)
        if (!l->dropped[i])
            total += l->width[i] + (total ? GAP : 0);
    return total;
}

/* Takes one character off the widest column of that kind. 0 if all are narrow. */
static int narrow(const cli_table *t, layout *l, enum cli_column_kind kind)
{
    size_t *widest = NULL;

    for (size_t i = 0; i < t->n; i++)
        if (t->columns[i].kind == kind && !l->dropped[i] && l->width[i] > NARROWEST &&
            (!widest || l->width[i] >= *widest))
            widest = &l->width[i];
    if (!widest)
        return 0;
    (*widest)--;
    return 1;
}

static int drop(const cli_table *t, layout *l)
{
    size_t found = t->n;

    for (size_t i = 0; i < t->n; i++)
        if (!l->dropped[i] && t->columns[i].drop > 0 &&
            (found == t->n || t->columns[i].drop > t->columns[found].drop))
            found = i;
    if (found == t->n)
        return 0;
    l->dropped[found] = 1;
    return 1;
}

static void widen(layout *l, size_t column, const char *text)
{
    size_t width = characters(text);

    if (width > l->width[column])
        l->width[column] = width;
}

static void measure(const cli_table *t, layout *l)
{
    memset(l->width, 0, sizeof(l->width));
    for (size_t i = 0; i < t->n; i++)
        widen(l, i, t->columns[i].title);
    for (size_t i = 0; i < t->count; i++)
        widen(l, i % t->n, t->cells[i].text);
}

/* What a column that is left out leaves is the others'. */
static void lay_out(const cli_table *t, layout *l, size_t width)
{
    int fits;

    *l = (layout){.last = 0};
    do {
        measure(t, l);
        do
            fits = width == 0 || line_width(t, l) <= width;
        while (!fits && (narrow(t, l, CLI_FREE) || narrow(t, l, CLI_KEY)));
    } while (!fits && drop(t, l));
    for (size_t i = 0; i < t->n; i++)
        if (!l->dropped[i])
            l->last = i;
}

/* ---- printing -------------------------------------------------------------------------------- */

void cli_put_coloured(FILE *out, const char *text, enum cli_colour colour, int colours)
{
    static const char *const codes[] = {"", "\033[2m", "\033[1m", "\033[31m", "\033[33m"};
    int coloured = colours && colour != CLI_PLAIN;

    fprintf(out, "%s%s%s", coloured ? codes[colour] : "", text, coloured ? "\033[0m" : "");
}

/* The text, cut with "..." to `width` columns if need be. The caller's to free. */
static char *cut(const char *text, size_t width)
{
    size_t keep = width > 3 ? width - 3 : 0;
    size_t bytes = 0;
    char *copy;

    if (characters(text) <= width)
        return strdup(text);
    while (text[bytes] && (keep > 0 || ((unsigned char)text[bytes] & 0xc0) == 0x80))
        keep -= ((unsigned char)text[bytes++] & 0xc0) != 0x80;
    copy = malloc(bytes + 4);
    if (copy) {
        memcpy(copy, text, bytes);
        strcpy(copy + bytes, "...");
    }
    return copy;
}

/* Whether nothing but empty cells follows in the line. */
static int ends_here(const cli_table *t, const layout *l, size_t column,
                     const struct cli_cell *cells)
{
    for (size_t i = column + 1; i < t->n; i++)
        if (!l->dropped[i] && cells && cells[i].text[0])
            return 0;
    return cells != NULL || column == l->last;
}

/* Lines end where their text does. */
static int print_cell(const cli_table *t, const layout *l, size_t column, struct cli_cell cell,
                      int is_end, FILE *out, int colours)
{
    int right = t->columns[column].kind == CLI_RIGHT;
    char *text = cut(cell.text, l->width[column]);
    int fill;

    if (!text)
        return -1;
    fill = (int)(l->width[column] - characters(text));
    if (right)
        fprintf(out, "%*s", fill, "");
    cli_put_coloured(out, text, cell.colour, colours);
    if (!is_end)
        fprintf(out, "%*s", (right ? 0 : fill) + GAP, "");
    free(text);
    return 0;
}

/* `cells` NULL: the titles. */
static int print_line(const cli_table *t, const layout *l, const struct cli_cell *cells, FILE *out,
                      int colours)
{
    int failed = 0;

    for (size_t i = 0; i < t->n && !failed; i++) {
        char *title = (char *)(uintptr_t)t->columns[i].title;
        const struct cli_cell cell = cells ? cells[i] : (struct cli_cell){title, CLI_BOLD};
        int is_end = ends_here(t, l, i, cells);

        if (l->dropped[i])
            continue;
        failed = print_cell(t, l, i, cell, is_end, out, colours);
        if (is_end)
            break;
    }
    fputc('\n', out);
    return failed;
}

int cli_table_print(cli_table *t, FILE *out, size_t width, int colours)
{
    layout l;
    int failed = t->failed;

    if (failed)
        return -1;
    lay_out(t, &l, width);
    failed = print_line(t, &l, NULL, out, colours);
    for (size_t i = 0; i + t->n <= t->count && !failed; i += t->n)
        failed = print_line(t, &l, t->cells + i, out, colours);
    return failed;
}

size_t cli_width(void)
{
    struct winsize size;

    if (!isatty(STDOUT_FILENO))
        return 0;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
        return 80;
    return size.ws_col;
}

int cli_colours(void)
{
    const char *no = getenv("NO_COLOR");
    const char *term = getenv("TERM");

    return isatty(STDOUT_FILENO) && !(no && *no) && term && strcmp(term, "dumb") != 0;
}
