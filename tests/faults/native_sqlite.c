/* SPDX-License-Identifier: MIT */
#include "native.h"
#include "rowlock/sqlite.h"

#include <sqlite3.h>
#include <stdio.h>

extern const struct native_kind native_sqlite;

static void *open_(const char *address, unsigned flags)
{
    sqlite3 *db = NULL;

    (void)flags;
    if (sqlite3_open(address, &db) != SQLITE_OK) {
        sqlite3_close(db);
        return NULL;
    }
    sqlite3_busy_timeout(db, 10000);
    return db;
}

static void close_(void *conn)
{
    sqlite3_close(conn);
}

static int add_row(void *payload, int n, char **values, char **names)
{
    struct native *native = payload;

    (void)names;
    for (int i = 0; i < n; i++) {
        backend_append(native->out, sizeof(native->out), values[i] != NULL ? values[i] : "NULL");
        backend_append(native->out, sizeof(native->out), "|");
    }
    backend_append(native->out, sizeof(native->out), "\n");
    return 0;
}

static int run(struct native *native, const char *sql)
{
    if (sqlite3_exec(native->conn, sql, add_row, native, NULL) == SQLITE_OK)
        return 0;
    snprintf(native->message, sizeof(native->message), "%.250s", sqlite3_errmsg(native->conn));
    return 1;
}

static int commit(struct native *native)
{
    return run(native, "COMMIT");
}

static int lock(uint64_t *fences, rowlock_client *client, void *conn, const char *const *names,
                size_t n, const rowlock_tx_options *options, rowlock_error *err)
{
    return rowlock_sqlite_lock(fences, client, conn, names, n, options, err);
}

static int guard(rowlock_lock *held, void *conn, rowlock_error *err)
{
    return rowlock_sqlite_guard(held, conn, err);
}

static void *connection(rowlock_tx *tx)
{
    return rowlock_sqlite_connection(tx);
}

const struct native_kind native_sqlite = {
    .name = "sqlite",
    .open = open_,
    .close = close_,
    .run = run,
    .commit = commit,
    .lock = lock,
    .guard = guard,
    .connection = connection,
};
