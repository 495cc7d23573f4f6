/* SPDX-License-Identifier: MIT
 *
 * How results are shown: tables for people; JSON and CSV for machines. */
#ifndef ROWLOCK_CLI_PRINT_H
#define ROWLOCK_CLI_PRINT_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* ---- tables (table.c) ------------------------------------------------------------------------ */

enum cli_column_kind {
    CLI_LEFT,  /* as wide as it is */
    CLI_RIGHT, /* likewise, for numbers */
    CLI_FREE,  /* text of any length: narrowed when a line does not fit */
    CLI_KEY    /* the same, but last */
};

typedef struct cli_column {
    const char *title;
    enum cli_column_kind kind;
    int drop; /* left out when narrowing is not enough, the highest first; 0: never */
} cli_column;

enum cli_colour { CLI_PLAIN, CLI_DIM, CLI_BOLD, CLI_RED, CLI_YELLOW };

/* The cells, row after row. */
typedef struct cli_table {
    const cli_column *columns;
    size_t n; /* columns */
    struct cli_cell *cells;
    size_t count, room;
    int failed; /* out of memory */
} cli_table;

void cli_table_start(cli_table *t, const cli_column *columns, size_t n);

/* The next cell. Text is shown as cli_printable() says; a duration of 0 and less as "-". */
void cli_cell_text(cli_table *t, const char *text, size_t n);
void cli_cell_number(cli_table *t, uint64_t number);
void cli_cell_duration(cli_table *t, int64_t ms);

/* Colours the cell that was added last. */
void cli_cell_colour(cli_table *t, enum cli_colour colour);

/* In lines of at most `width` columns; 0: as wide as it is. 0, or -1 if memory was short. */
int cli_table_print(cli_table *t, FILE *out, size_t width, int colours);

void cli_table_end(cli_table *t);

/* Columns of the terminal; 0 if standard output goes elsewhere and nothing needs to be cut. */
size_t cli_width(void);

/* Whether standard output is a terminal that shows colours, and NO_COLOR is not set. */
int cli_colours(void);

/* `text` in a colour, if `colours`. */
void cli_put_coloured(FILE *out, const char *text, enum cli_colour colour, int colours);

/* ---- records (record.c) ---------------------------------------------------------------------- */

typedef struct cli_writer {
    FILE *out;
    int csv; /* else a JSON array of objects */
    size_t records, fields;
} cli_writer;

void cli_record_start(cli_writer *w);
void cli_record_end(cli_writer *w);
void cli_writer_end(cli_writer *w);

/* A lock's name, which may hold any bytes. JSON: those that are no UTF-8 become U+FFFD, and then
 * all of it follows in hexadecimal digits as KEY_hex. CSV: as in tables. */
void cli_put_name(cli_writer *w, const char *key, const char *name, size_t n);
void cli_put_text(cli_writer *w, const char *key, const char *text); /* NULL: null */
void cli_put_number(cli_writer *w, const char *key, int64_t number);
void cli_put_flag(cli_writer *w, const char *key, int flag);

/* Only the key and what stands before a value, for values that are no scalars. JSON only. */
void cli_put_key(cli_writer *w, const char *key);

#endif
