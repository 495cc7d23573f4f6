/* SPDX-License-Identifier: MIT */
#ifndef ROWLOCK_CLI_MIGRATE_H
#define ROWLOCK_CLI_MIGRATE_H

#include "cli.h"

typedef struct migrate {
    cli_db db;
    int to; /* -1: not given */
    const char *dialect, *format, *as, *output;
} migrate;

/* rowlock migrate print: the tables' SQL for other tools. Needs no database. Exit status. */
int cli_migrate_print(migrate *m);

#endif
