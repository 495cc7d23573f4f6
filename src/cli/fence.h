/* SPDX-License-Identifier: MIT */
#ifndef ROWLOCK_CLI_FENCE_H
#define ROWLOCK_CLI_FENCE_H

#include "cli.h"

/* The names that a template is filled with, as they are: not quoted. */
typedef struct fence_names {
    char quote;         /* the dialect's quotation mark for names */
    const char *schema; /* NULL: none given */
    const char *table, *column;
    char trigger[64]; /* fits all dialects */
} fence_names;

/* Makes the trigger's name, which differs for each table and column. */
void cli_fence_trigger_name(fence_names *names);

/* Prints a template with the names, quoted, in place of its words. */
void cli_fence_render(const fence_names *names, const char *text);

#endif
