/* SPDX-License-Identifier: MIT
 *
 * SQLite: the variable names a folder, in which a file is made for this process. */
#include "backend.h"
#include "rowlock/sqlite.h"

#include <sqlite3.h>
#include <stdio.h>
#include <unistd.h>

extern const struct backend_kind backend_sqlite;

static void prepare(struct backend *backend, const char *value)
{
    snprintf(backend->address, sizeof(backend->address), "%s/rowlock-test-%ld.db", value,
             (long)getpid());
}

static void cleanup(struct backend *backend)
{
    static const char *const endings[] = {"", "-wal", "-shm", "-journal"};
    for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++) {
        char path[sizeof(backend->address) + 16];
        snprintf(path, sizeof(path), "%s%s", backend->address, endings[i]);
        unlink(path);
    }
}

static void *sql_open(const char *address)
{
    sqlite3 *db = NULL;
    if (sqlite3_open(address, &db) != SQLITE_OK) {
        sqlite3_close(db);
        return NULL;
    }
    sqlite3_busy_timeout(db, 3000);
    return db;
}

struct sink {
    char *out;
    size_t size;
};

static int add_row(void *payload, int n, char **values, char **names)
{
    (void)names;
    struct sink *sink = payload;
    for (int i = 0; i < n; i++) {
        backend_append(sink->out, sink->size, values[i] != NULL ? values[i] : "NULL");
        backend_append(sink->out, sink->size, "|");
    }
    backend_append(sink->out, sink->size, "\n");
    return 0;
}

static int sql_run(void *session, const char *sql, char *out, size_t size)
{
    struct sink sink = {out, size};
    if (out != NULL)
        out[0] = '\0';
    if (sqlite3_exec(session, sql, add_row, &sink, NULL) == SQLITE_OK)
        return 0;
    fprintf(stderr, "%s\n", sqlite3_errmsg(session));
    return 1;
}

static void sql_close(void *session)
{
    sqlite3_close(session);
}

static void describe(char *out, size_t size, const char *prefix)
{
    snprintf(
        out, size,
        "SELECT type, name, sql FROM sqlite_master WHERE tbl_name LIKE '%s%%' ORDER BY type, name",
        prefix);
}

static const char *const malformed[] = {"", "sqlite:", NULL};
static const char *const unreachable[] = {"/no/such/folder/rowlock.db",
                                          "sqlite:/no/such/folder/rowlock.db", "/", NULL};
static const char *const secret[] = {NULL};

const struct backend_kind backend_sqlite = {
    .name = "sqlite",
    .variable = "ROWLOCK_TEST_SQLITE",
    .driver = rowlock_sqlite,
    .caps = BACKEND_SQL,
    .prepare = prepare,
    .cleanup = cleanup,
    .malformed = malformed,
    .unreachable = unreachable,
    .secret = secret,
    .sql_open = sql_open,
    .sql_run = sql_run,
    .sql_close = sql_close,
    .analyze = "ANALYZE rowlock_locks",
    .describe = describe,
};
