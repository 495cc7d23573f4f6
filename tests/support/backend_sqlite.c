/* SPDX-License-Identifier: MIT
 *
 * SQLite: the variable names a folder, in which a file is made for this process. */
#include "backend.h"
#include "rowlock/sqlite.h"

#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
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

/* ---- transaction mode ------------------------------------------------------------------------ */

static int lock(uint64_t *fences, rowlock_client *client, void *session, const char *const *names,
                size_t n, const rowlock_tx_options *options, rowlock_error *err)
{
    return rowlock_sqlite_lock(fences, client, session, names, n, options, err);
}

static int guard(rowlock_lock *held, void *session, rowlock_error *err)
{
    return rowlock_sqlite_guard(held, session, err);
}

static void *connection(rowlock_tx *tx)
{
    return rowlock_sqlite_connection(tx);
}

/* Those that can be asked without reading the file. */
static void settings(void *session, char *out, size_t size)
{
    static const char *const pragmas[] = {
        "busy_timeout",      "foreign_keys",       "query_only",
        "database_list",     "recursive_triggers", "reverse_unordered_selects",
        "read_uncommitted",  "automatic_index",    "ignore_check_constraints",
        "count_changes",     "full_column_names",  "short_column_names",
        "defer_foreign_keys"};
    out[0] = '\0';
    for (size_t i = 0; i < sizeof(pragmas) / sizeof(pragmas[0]); i++) {
        char sql[64], value[1024];
        snprintf(sql, sizeof(sql), "PRAGMA %s", pragmas[i]);
        sql_run(session, sql, value, sizeof(value));
        backend_append(out, size, pragmas[i]);
        backend_append(out, size, " ");
        backend_append(out, size, value);
    }
}

static void *open_attached(const char *address)
{
    char sql[1200];
    sqlite3 *db = sql_open(":memory:");
    snprintf(sql, sizeof(sql), "ATTACH '%s' AS \"the \"\"other\"", address);
    if (db != NULL)
        sql_run(db, sql, NULL, 0);
    return db;
}

static void *open_elsewhere(const char *address)
{
    (void)address;
    void *db = sql_open(":memory:");
    if (db != NULL)
        sql_run(db, "BEGIN; CREATE TABLE t (i); INSERT INTO t VALUES (42)", NULL, 0);
    return db;
}

static int elsewhere_unharmed(void *session)
{
    char out[16];
    return sql_run(session, "COMMIT; SELECT i FROM t", out, sizeof(out)) == 0 &&
           strcmp(out, "42|\n") == 0;
}

static int idle_unharmed(void *session)
{
    return sqlite3_get_autocommit(session) != 0 && sql_run(session, "SELECT 1", NULL, 0) == 0;
}

#define LIST(...) ((const char *const[]){__VA_ARGS__, NULL})

static const struct backend_mood moods[] = {
    {"deferred", .begin = "BEGIN"},
    {"immediate", .begin = "BEGIN IMMEDIATE"},
    {"exclusive", .begin = "BEGIN EXCLUSIVE"},
    {"savepoint", .begin = "SAVEPOINT mine"},
    {"no busy timeout", .before = LIST("PRAGMA busy_timeout = 0"), .begin = "BEGIN"},
    {"short busy timeout", .before = LIST("PRAGMA busy_timeout = 77"), .begin = "BEGIN"},
    {"table of the same name", .before = LIST("CREATE TEMP TABLE rowlock_locks (name)"),
     .begin = "BEGIN"},
    {"attached", .open = open_attached, .begin = "BEGIN"},
    {"pragmas",
     .before = LIST("PRAGMA foreign_keys = 1", "PRAGMA recursive_triggers = 1",
                    "PRAGMA reverse_unordered_selects = 1", "PRAGMA count_changes = 1",
                    "PRAGMA short_column_names = 0", "PRAGMA full_column_names = 1"),
     .begin = "BEGIN"},
    {.name = NULL}};

static const struct backend_bad bad[] = {{"no transaction", sql_open, idle_unharmed},
                                         {"another file", open_elsewhere, elsewhere_unharmed},
                                         {.name = NULL}};

static const char *const disturb[] = {"CREATE TEMP TABLE rowlock_locks (name)",
                                      "PRAGMA busy_timeout = 0", NULL};

/* ---- addresses ------------------------------------------------------------------------------- */

static const char *const malformed[] = {"", "sqlite:", NULL};
static const char *const unreachable[] = {"/no/such/folder/rowlock.db",
                                          "sqlite:/no/such/folder/rowlock.db", "/", NULL};
static const char *const secret[] = {NULL};

const struct backend_kind backend_sqlite = {
    .name = "sqlite",
    .variable = "ROWLOCK_TEST_SQLITE",
    .driver = rowlock_sqlite,
    .caps = BACKEND_SQL | BACKEND_TRANSACTIONS | BACKEND_SNAPSHOT,
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
    .lock = lock,
    .guard = guard,
    .connection = connection,
    .settings = settings,
    .given = "PRAGMA foreign_keys",
    .moods = moods,
    .bad = bad,
    .disturb = disturb,
    .snapshot = "BEGIN",
};
