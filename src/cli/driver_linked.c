/* SPDX-License-Identifier: MIT
 *
 * Drivers of a static build: all of them are in the command. */
#include <string.h>

#include "cli.h"

#ifdef ROWLOCK_HAVE_POSTGRESQL
#include "rowlock/postgresql.h"
#endif
#ifdef ROWLOCK_HAVE_MYSQL
#include "rowlock/mysql.h"
#endif
#ifdef ROWLOCK_HAVE_SQLITE
#include "rowlock/sqlite.h"
#endif

int cli_driver(const rowlock_driver **out, const char *dialect)
{
#ifdef ROWLOCK_HAVE_POSTGRESQL
    if (strcmp(dialect, "postgresql") == 0)
        return *out = rowlock_postgresql(), CLI_GO_ON;
#endif
#ifdef ROWLOCK_HAVE_MYSQL
    if (strcmp(dialect, "mysql") == 0)
        return *out = rowlock_mysql(), CLI_GO_ON;
#endif
#ifdef ROWLOCK_HAVE_SQLITE
    if (strcmp(dialect, "sqlite") == 0)
        return *out = rowlock_sqlite(), CLI_GO_ON;
#endif
    *out = NULL;
    return cli_usage("this rowlock was built without its %s driver", dialect);
}
