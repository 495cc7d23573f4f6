/* SPDX-License-Identifier: MIT */
#include "backend.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Every kind of database the suites know. A driver of your own: one more line, here and below. */
extern const struct backend_kind backend_postgresql, backend_mysql, backend_sqlite;

static const struct backend_kind *const kinds[] = {
#ifdef ROWLOCK_HAVE_POSTGRESQL
    &backend_postgresql,
#endif
#ifdef ROWLOCK_HAVE_MYSQL
    &backend_mysql,
#endif
#ifdef ROWLOCK_HAVE_SQLITE
    &backend_sqlite,
#endif
    NULL};

const char *backend_names(void)
{
    static char names[256];
    names[0] = '\0';
    for (size_t i = 0; kinds[i] != NULL; i++)
        snprintf(names + strlen(names), sizeof(names) - strlen(names), "%s%s", i > 0 ? "|" : "",
                 kinds[i]->name);
    return names;
}

const struct backend_kind *backend_find(const char *name)
{
    for (size_t i = 0; kinds[i] != NULL; i++) {
        if (strcmp(kinds[i]->name, name) == 0)
            return kinds[i];
    }
    return NULL;
}

const struct backend_kind *backend_other(const struct backend_kind *kind)
{
    for (size_t i = 0; kinds[i] != NULL; i++) {
        if (kinds[i] != kind && (kinds[i]->caps & BACKEND_TRANSACTIONS) != 0)
            return kinds[i];
    }
    return NULL;
}

static int skip(const struct backend_kind *kind)
{
    const char *forbidden = getenv("ROWLOCK_TEST_NO_SKIP");
    int fails = forbidden != NULL && strcmp(forbidden, "1") == 0;
    fprintf(stderr, "*** %s: %s is not set, so NOTHING WAS TESTED%s ***\n",
            fails ? "FAILED" : "SKIPPED", kind->variable, fails ? " (ROWLOCK_TEST_NO_SKIP=1)" : "");
    return fails ? 1 : 77;
}

int backend_open(struct backend *out, const char *name)
{
    const struct backend_kind *kind = backend_find(name);
    if (kind == NULL) {
        fprintf(stderr, "no backend '%s', there is %s\n", name, backend_names());
        return 2;
    }
    const char *value = getenv(kind->variable);
    if (value == NULL || value[0] == '\0')
        return skip(kind);
    *out = (struct backend){.kind = kind, .driver = kind->driver(), .caps = kind->caps};
    if (out->driver->size > offsetof(rowlock_driver, enqueue) && out->driver->enqueue != NULL)
        out->caps |= BACKEND_TICKETS;
    if (out->driver->size > offsetof(rowlock_driver, diagnose) && out->driver->diagnose != NULL)
        out->caps |= BACKEND_FINDINGS;
    if (out->driver->size > offsetof(rowlock_driver, exchange) && out->driver->exchange != NULL)
        out->caps |= BACKEND_EXCHANGE;
    if (kind->prepare != NULL)
        kind->prepare(out, value);
    else
        snprintf(out->address, sizeof(out->address), "%s", value);
    return 0;
}

void backend_close(struct backend *backend)
{
    if (backend->kind->cleanup != NULL)
        backend->kind->cleanup(backend);
}

void backend_append(char *out, size_t size, const char *text)
{
    if (out == NULL)
        return;
    size_t length = strlen(out);
    if (length + 1 < size)
        snprintf(out + length, size - length, "%s", text);
}
