/* SPDX-License-Identifier: MIT
 *
 * Transaction mode on a connection of the driver's own. */
#include <stdio.h>
#include <string.h>

#include "lite.h"

/* ---- prepare, locate
 *
 * Both are asked while the application's own transaction may have the write lock, or, without a
 * write-ahead log, keep everybody from reading. So they write nothing and wait for no more than
 * somebody's commit, and what they cannot read is left to `lock`, which works in that transaction.
 */

#define READ_WAIT_MS 10

typedef struct looking {
    rowlock_op *ops;
    size_t n;
} looking;

static int look(lite_conn *conn, void *payload)
{
    looking *l = payload;
    int64_t now_us;
    int status = lite_run(conn, SQL_BEGIN_READ);

    if (status == ROWLOCK_OK)
        status = lite_now(conn, &now_us);
    for (size_t i = 0; i < l->n && status == ROWLOCK_OK; i++)
        status = lite_tx_look(conn, &l->ops[i], now_us);
    return status == ROWLOCK_OK ? lite_commit(conn) : status;
}

int lite_prepare(void *conn, rowlock_op *ops, size_t n, uint32_t timeout_ms, rowlock_error *err)
{
    looking l = {.ops = ops, .n = n};
    int status =
        lite_call(conn, look, &l, timeout_ms < READ_WAIT_MS ? timeout_ms : READ_WAIT_MS, err);

    if (status != ROWLOCK_EDRIVER || !lite_is_busy(conn))
        return status;
    for (size_t i = 0; i < n; i++)
        ops[i].status = ROWLOCK_OK;
    return rlk_ok(err);
}

static int find_tables(lite_conn *conn, void *payload)
{
    (void)payload;
    return lite_run(conn, SQL_SCHEMA_VERSION);
}

int lite_locate(void *state, char *out, size_t size, uint32_t timeout_ms, rowlock_error *err)
{
    lite_conn *conn = state;
    const char *path = sqlite3_db_filename(conn->db, "main");
    int status = lite_call(conn, find_tables, NULL,
                           timeout_ms < READ_WAIT_MS ? timeout_ms : READ_WAIT_MS, err);

    if (status == ROWLOCK_EDRIVER && lite_is_busy(conn))
        status = rlk_ok(err);
    if (status != ROWLOCK_OK)
        return status;
    if (path == NULL || strlen(path) >= size)
        return rlk_fail(err, ROWLOCK_EINVAL, "the path of the database file is too long");
    snprintf(out, size, "%s", path);
    return ROWLOCK_OK;
}

/* ---- lock, end */

typedef struct locking {
    rowlock_op *ops;
    size_t n;
    int64_t until_us;
} locking;

/* SQLite sets this when it compiles the statement, not when it runs it, so each time anew. */
int lite_set_sync(lite_conn *conn, enum sql_statement which)
{
    if (!conn->sync_normal)
        return ROWLOCK_OK;
    sqlite3_finalize(conn->statements[which]);
    conn->statements[which] = NULL;
    return lite_run(conn, which);
}

/* What a transaction writes is the application's, and more than a lease that dies with the machine:
 * its commit is synced. If that cannot be set back, commits are slower than need be. */
static int lock(lite_conn *conn, void *payload)
{
    locking *l = payload;
    int64_t deadline_us = conn->deadline_us;
    int had, all = 0;
    int status = lite_set_sync(conn, SQL_SYNC_FULL);

    if (status != ROWLOCK_OK)
        return status;
    conn->deadline_us = 0; /* the wait is not the busy handler's */
    status = lite_tx_write(conn, SQL_BEGIN_WRITE, l->until_us, &had);
    conn->deadline_us = deadline_us;
    if (status == ROWLOCK_OK && !had) {
        for (size_t i = 0; i < l->n; i++)
            lite_no_holder(&l->ops[i]);
    } else if (status == ROWLOCK_OK) {
        status = lite_tx_take(conn, l->ops, l->n, &all);
    }
    if (status == ROWLOCK_OK && all)
        status = lite_run(conn, SQL_TX_MARK);
    conn->is_held = status == ROWLOCK_OK && all;
    return status;
}

static int restore_sync(lite_conn *conn, void *payload)
{
    (void)payload;
    return lite_set_sync(conn, SQL_SYNC_NORMAL);
}

int lite_lock_own(lite_conn *conn, rowlock_op *ops, size_t n, uint32_t wait_ms, int in_line,
                  uint32_t timeout_ms, rowlock_error *err)
{
    locking l = {.ops = ops, .n = n, .until_us = lite_tx_until(wait_ms, in_line)};
    int status = lite_call(conn, lock, &l, timeout_ms, err);

    if (!conn->is_held)
        (void)lite_call(conn, restore_sync, NULL, 0, NULL);
    return status;
}

/* If the savepoint is not there, the application has ended the transaction and begun another. */
static int check_mark(lite_conn *conn)
{
    int status;

    if (lite_is_writing(conn->db))
        return rlk_fail(conn->err, ROWLOCK_EDRIVER,
                        "a statement that writes has not come to its end, rolled back: step it "
                        "until SQLITE_DONE, or reset it, before the commit");
    status = sqlite3_get_autocommit(conn->db) ? ROWLOCK_EDRIVER : lite_run(conn, SQL_TX_UNMARK);
    if (sqlite3_get_autocommit(conn->db) ||
        (status == ROWLOCK_EDRIVER && (conn->rc & 0xff) == SQLITE_ERROR))
        return rlk_fail(conn->err, ROWLOCK_EDRIVER,
                        "the transaction had ended before, by a COMMIT or ROLLBACK of the "
                        "application's, or by SQLite after an error: leave its end to rowlock");
    return status;
}

static int commit_tx(lite_conn *conn, void *payload)
{
    int status = check_mark(conn);

    (void)payload;
    return status == ROWLOCK_OK ? lite_commit(conn) : status;
}

static int roll_back_tx(lite_conn *conn, void *payload)
{
    (void)conn; /* lite_call() rolls back what a body has left open */
    (void)payload;
    return ROWLOCK_OK;
}

int lite_end(void *conn, int commit, uint32_t timeout_ms, rowlock_error *err)
{
    int status = lite_call(conn, commit ? commit_tx : roll_back_tx, NULL, timeout_ms, err);

    if (status == ROWLOCK_OK || status == ROWLOCK_EDRIVER)
        (void)lite_call(conn, restore_sync, NULL, 0, NULL);
    return status;
}

void *lite_native(void *state)
{
    lite_conn *conn = state;

    return conn->db;
}
