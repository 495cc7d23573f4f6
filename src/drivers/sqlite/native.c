/* SPDX-License-Identifier: MIT
 *
 * Locks and the guard in a transaction of the application's, on its own connection.
 *
 * For the time of a call the connection is a lite_conn, so that statements, errors and the clock
 * work as on the driver's own; but nothing is registered on it, and all statements are finalized at
 * the end. Nothing that is written here counts before the application's COMMIT: no outcome is
 * unknown. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "clock.h"
#include "lite.h"
#include "rowlock/sqlite.h"

#define GUARD_WAIT_MS 300

typedef struct guest {
    lite_conn conn;
    char *schema;
    int busy_timeout_ms;
} guest;

/* ---- which of the attached databases */

static int is_same_file(const char *a, const char *b)
{
    struct stat one, other;

    return stat(a, &one) == 0 && stat(b, &other) == 0 && one.st_dev == other.st_dev &&
           one.st_ino == other.st_ino;
}

static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash == NULL ? path : slash + 1;
}

/* In the same folder as well, by the same name there, so that both have the same log. */
static int is_same_name(const char *a, const char *b)
{
    char one[LITE_PATH_MAX], other[LITE_PATH_MAX];

    lite_folder(one, a);
    lite_folder(other, b);
    return strcmp(last_part(a), last_part(b)) == 0 && is_same_file(one, other);
}

/* A file that is attached twice: the one in which the transaction has gone further, since the other
 * would wait for it. */
static int consider(guest *g, const char *schema, int *best)
{
    int state = sqlite3_txn_state(g->conn.db, schema);
    char *copy;

    if (state <= *best)
        return ROWLOCK_OK;
    copy = strdup(schema);
    if (copy == NULL)
        return rlk_fail_memory(g->conn.err);
    free(g->schema);
    g->schema = copy;
    *best = state;
    return ROWLOCK_OK;
}

static int find_schema(guest *g, const char *path)
{
    int best = -1, has_other_name = 0, status, rc, failed = ROWLOCK_OK;
    sqlite3_stmt *statement = lite_statement(&g->conn, SQL_DATABASES, &status);

    if (statement == NULL)
        return status;
    while ((rc = sqlite3_step(statement)) == SQLITE_ROW && failed == ROWLOCK_OK) {
        const char *name = (const char *)sqlite3_column_text(statement, 1);
        const char *file = (const char *)sqlite3_column_text(statement, 2);

        /* In memory, or temporary: no file. */
        if (name == NULL || file == NULL || file[0] == '\0' || !is_same_file(file, path))
            continue;
        if (is_same_name(file, path))
            failed = consider(g, name, &best);
        else
            has_other_name = 1;
    }
    status = lite_done(&g->conn, statement, rc);
    if (status != ROWLOCK_OK || failed != ROWLOCK_OK)
        return status != ROWLOCK_OK ? status : failed;
    if (g->schema == NULL && has_other_name)
        return rlk_fail(g->conn.err, ROWLOCK_EINVAL,
                        "the connection has opened the client's file by another name (a hard link, "
                        "or a mount), by which SQLite's locks do not exclude: open %s",
                        path);
    if (g->schema == NULL)
        return rlk_fail(g->conn.err, ROWLOCK_EINVAL,
                        "the connection has not opened the client's file: open or attach %s", path);
    g->conn.schema = g->schema;
    return ROWLOCK_OK;
}

/* ---- checks */

static int check_transaction(const guest *g)
{
    if (sqlite3_get_autocommit(g->conn.db))
        return rlk_fail(g->conn.err, ROWLOCK_EINVAL,
                        "no transaction is open on the connection: begin one, with BEGIN "
                        "IMMEDIATE");
    if (lite_is_writing(g->conn.db))
        return rlk_fail(g->conn.err, ROWLOCK_EINVAL,
                        "a statement that writes has not come to its end: step it until "
                        "SQLITE_DONE, or reset it");
    return ROWLOCK_OK;
}

static int check_file(guest *g, const char *path)
{
    int moved = 0;
    int status = find_schema(g, path);

    if (status == ROWLOCK_OK)
        status = lite_check_vfs(g->conn.db, g->schema, ROWLOCK_EINVAL, g->conn.err);
    if (status != ROWLOCK_OK)
        return status;
    if (sqlite3_db_readonly(g->conn.db, g->schema) == 1)
        return rlk_fail(g->conn.err, ROWLOCK_EINVAL,
                        "the connection has opened %s read-only: locks need to write", path);
    sqlite3_file_control(g->conn.db, g->schema, SQLITE_FCNTL_HAS_MOVED, &moved);
    if (moved)
        return rlk_fail(g->conn.err, ROWLOCK_EDRIVER,
                        "the file of the connection was moved or deleted: open it anew");
    return ROWLOCK_OK;
}

/* ---- in and out */

/* The application's timeout would add to the wait that was asked for. A busy handler of its own
 * shows as no timeout; it cannot be asked for and put back, and so it stays. */
static int pause_timeout(guest *g)
{
    int status, rc;
    sqlite3_stmt *statement = lite_statement(&g->conn, SQL_BUSY_TIMEOUT, &status);

    if (statement == NULL)
        return status;
    rc = sqlite3_step(statement);
    if (rc == SQLITE_ROW)
        g->busy_timeout_ms = sqlite3_column_int(statement, 0);
    status = lite_done(&g->conn, statement, rc);
    if (status == ROWLOCK_OK && g->busy_timeout_ms > 0)
        sqlite3_busy_timeout(g->conn.db, 0);
    return status;
}

static int enter(guest *g, const rowlock_target *target, rowlock_error *err)
{
    int status;

    rlk_ok(err);
    *g = (guest){.conn = {.db = target->native, .schema = "main", .err = err}};
    g->conn.path = target->place;
    snprintf(g->conn.prefix, sizeof g->conn.prefix, "%s", target->prefix);
    /* First of all: the connection may be the other one's. */
    status = lite_check_copies_sometimes(target->place, ROWLOCK_EINVAL, err);
    if (status != ROWLOCK_OK)
        return status;
    status = check_transaction(g);
    if (status == ROWLOCK_OK)
        status = check_file(g, target->place);
    if (status == ROWLOCK_OK)
        status = lite_boot(&g->conn);
    return status == ROWLOCK_OK ? pause_timeout(g) : status;
}

/* What lite_fail() says of a connection of the driver's, said of the application's. */
static int reword(const guest *g)
{
    rowlock_error *err = g->conn.err;

    if ((g->conn.rc & 0xff) == SQLITE_IOERR)
        return rlk_fail_native(err, ROWLOCK_EDRIVER, g->conn.rc, NULL, 0,
                               "cannot read or write %s: %s", g->conn.path,
                               sqlite3_errstr(g->conn.rc));
    switch (g->conn.rc) {
    case SQLITE_AUTH:
        return rlk_fail_native(err, ROWLOCK_EDRIVER, g->conn.rc, NULL, 0,
                               "the authorizer of the connection forbids what locks need: let it "
                               "allow reading and writing of %slocks and %sclock, savepoints, and "
                               "the pragmas database_list and busy_timeout",
                               g->conn.prefix, g->conn.prefix);
    case SQLITE_READONLY:
        return rlk_fail_native(err, ROWLOCK_EDRIVER, g->conn.rc, NULL, 0,
                               "the connection may not write, and locks need to: is PRAGMA "
                               "query_only on?");
    default:
        if (err != NULL)
            err->status = ROWLOCK_EDRIVER;
        return ROWLOCK_EDRIVER;
    }
}

/* Some errors make SQLite roll back on its own (disk full, interrupted, no memory). */
static int tell_the_end(const guest *g, int status)
{
    rowlock_error *err = g->conn.err;
    rowlock_error last = {0};

    if (status == ROWLOCK_EINVAL || !sqlite3_get_autocommit(g->conn.db))
        return status;
    if (err != NULL)
        last = *err;
    return rlk_fail_native(err, ROWLOCK_EDRIVER, g->conn.rc, NULL, last.retryable,
                           "SQLite has rolled back the whole transaction: %.180s",
                           status == ROWLOCK_OK ? "ended from elsewhere" : last.message);
}

static int leave(guest *g, int status)
{
    lite_finalize(&g->conn);
    if (g->busy_timeout_ms > 0)
        sqlite3_busy_timeout(g->conn.db, g->busy_timeout_ms);
    if (status == ROWLOCK_EDRIVER || status == ROWLOCK_ECONNECT || status == ROWLOCK_EUNKNOWN)
        status = reword(g);
    status = tell_the_end(g, status);
    free(g->schema);
    return status;
}

/* With the write lock, which SQLite has only together with that on the file. */
static int check_lock(guest *g)
{
    if (lite_has_file_lock(sqlite3_db_filename(g->conn.db, g->schema)))
        return ROWLOCK_OK;
    return rlk_fail(g->conn.err, ROWLOCK_EDRIVER,
                    "SQLite believes that this process has a lock on the file, but it has none: "
                    "the connection was open at a fork(), or a descriptor of the file was closed; "
                    "roll back, and open it anew");
}

/* ---- lock */

/* The transaction has the write lock from here on, and would keep the lease's holder from renewing
 * and releasing while it waits for it. */
static int take(guest *g, rowlock_op *ops, size_t n, int waits)
{
    int all;
    int status = lite_tx_take(&g->conn, ops, n, &all);

    if (status != ROWLOCK_OK || all || !waits)
        return status;
    return rlk_fail_native(g->conn.err, ROWLOCK_EDRIVER, 0, NULL, 1,
                           "a lease was taken at this very moment: roll the transaction back and "
                           "begin again");
}

static int lock(guest *g, rowlock_op *ops, size_t n, int waits, int64_t until_us)
{
    int had;
    int status = lite_tx_write(&g->conn, SQL_TX_WRITE, until_us, &had);

    if (status == ROWLOCK_OK && had)
        status = check_lock(g);
    if (status != ROWLOCK_OK)
        return status;
    if (had)
        return take(g, ops, n, waits);
    for (size_t i = 0; i < n; i++)
        lite_no_holder(&ops[i]);
    return ROWLOCK_OK;
}

int lite_lock(const rowlock_target *target, rowlock_op *ops, size_t n, uint32_t wait_ms,
              int in_line, uint32_t timeout_ms, rowlock_error *err)
{
    guest g;
    int status;

    if (target->conn != NULL)
        return lite_lock_own(target->conn, ops, n, wait_ms, in_line, timeout_ms, err);
    status = enter(&g, target, err);
    if (status == ROWLOCK_OK && n > 0) /* none: the core wants the checks alone */
        status = lock(&g, ops, n, wait_ms != ROWLOCK_WAIT_NONE, lite_tx_until(wait_ms, in_line));
    return leave(&g, status);
}

/* ---- guard */

/* Nobody else can write until the transaction ends: that guards the row, and all others. */
static int guard(guest *g, rowlock_op *op, int64_t until_us)
{
    int64_t now_us;
    int had, is_live = 0;
    int status = lite_tx_write(&g->conn, SQL_TX_WRITE, until_us, &had);

    op->status = ROWLOCK_BUSY;
    if (status == ROWLOCK_OK && had)
        status = check_lock(g);
    if (status != ROWLOCK_OK || !had)
        return status;
    status = lite_now(&g->conn, &now_us);
    if (status == ROWLOCK_OK && now_us != 0)
        status = lite_is_live(&g->conn, op, now_us, &is_live);
    op->status = is_live ? ROWLOCK_OK : ROWLOCK_LOST;
    return status;
}

int lite_guard(const rowlock_target *target, rowlock_op *op, uint32_t timeout_ms,
               rowlock_error *err)
{
    guest g;
    int status = enter(&g, target, err);

    if (status == ROWLOCK_OK)
        status = guard(&g, op,
                       lite_tx_until(timeout_ms < GUARD_WAIT_MS ? timeout_ms : GUARD_WAIT_MS, 0));
    return leave(&g, status);
}

/* ---- the functions of rowlock/sqlite.h */

int rowlock_sqlite_lock(uint64_t *fences, rowlock_client *client, struct sqlite3 *db,
                        const char *const *names, size_t n, const rowlock_tx_options *options,
                        rowlock_error *err)
{
    return rowlock_native_lock(fences, client, rowlock_sqlite(), db, names, n, options, err);
}

int rowlock_sqlite_guard(rowlock_lock *lock, struct sqlite3 *db, rowlock_error *err)
{
    return rowlock_native_guard(lock, rowlock_sqlite(), db, err);
}

struct sqlite3 *rowlock_sqlite_connection(rowlock_tx *tx)
{
    return rowlock_native_connection(tx, rowlock_sqlite());
}
