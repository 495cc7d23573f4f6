/* SPDX-License-Identifier: MIT
 *
 * Drivers of a shared build: the one that the address names is loaded. To link the client libraries
 * of three databases, with all that these need in turn, takes several times as long as to lock in a
 * file; and a host needs only those that it uses. */
#include <dlfcn.h>
#include <limits.h>
#include <string.h>

#include "cli.h"

/* CMake names the files of those that are built. */
#ifndef ROWLOCK_HAVE_POSTGRESQL
#define ROWLOCK_HAVE_POSTGRESQL NULL
#endif
#ifndef ROWLOCK_HAVE_MYSQL
#define ROWLOCK_HAVE_MYSQL NULL
#endif
#ifndef ROWLOCK_HAVE_SQLITE
#define ROWLOCK_HAVE_SQLITE NULL
#endif

static const struct driver {
    const char *dialect, *file, *function;
} drivers[] = {
    {"postgresql", ROWLOCK_HAVE_POSTGRESQL, "rowlock_postgresql"},
    {"mysql", ROWLOCK_HAVE_MYSQL, "rowlock_mysql"},
    {"sqlite", ROWLOCK_HAVE_SQLITE, "rowlock_sqlite"},
};

static const struct driver *find(const char *dialect)
{
    for (size_t i = 0; i < sizeof(drivers) / sizeof(drivers[0]); i++)
        if (strcmp(drivers[i].dialect, dialect) == 0)
            return &drivers[i];
    return NULL;
}

/* Beside the library that the command is linked with, so that both are of one version. */
static void name_file(char path[PATH_MAX], const char *file)
{
    const char *(*function)(int) = rowlock_strstatus;
    Dl_info info;
    const char *slash;

    if (!dladdr(*(void **)&function, &info) || !(slash = strrchr(info.dli_fname, '/')))
        snprintf(path, PATH_MAX, "%s", file);
    else
        snprintf(path, PATH_MAX, "%.*s/%s", (int)(slash - info.dli_fname), info.dli_fname, file);
}

/* Never unloaded. */
int cli_driver(const rowlock_driver **out, const char *dialect)
{
    const struct driver *driver = find(dialect);
    const rowlock_driver *(*function)(void) = NULL;
    char path[PATH_MAX];
    void *library;

    *out = NULL;
    if (!driver || !driver->file)
        return cli_usage("this rowlock was built without its %s driver", dialect);
    name_file(path, driver->file);
    library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library)
        *(void **)&function = dlsym(library, driver->function);
    if (!function) {
        cli_message("cannot load the %s driver: %s", dialect, dlerror());
        return CLI_NO_DB;
    }
    *out = function();
    return CLI_GO_ON;
}
