/* SPDX-License-Identifier: MIT
 *
 * Transaction mode. SQLite has no locks on rows: whoever writes has the whole file, until the end
 * of the transaction. So to lock a row is to have the write lock, and all the rest is to look at
 * the leases under it and to raise the fences. */
#include <unistd.h>

#include "clock.h"
#include "lite.h"
#include "random.h"

/* SQLite has no queue. Whoever looks more rarely than the others, who look every 5 ms (on_busy()),
 * may find the lock taken each time. */
#define SHORTEST_PAUSE_US INT64_C(1000)
#define LONGEST_PAUSE_US  INT64_C(10000)
#define LONGEST_WAIT_US   INT64_C(3000000) /* not in line */

/* A call that does not wait for transactions must not be sent away by a lease that is being written
 * for some milliseconds, of whatever name. */
#define PASSING_US INT64_C(20000)

int64_t lite_tx_until(uint32_t wait_ms, int in_line)
{
    int64_t wait = (int64_t)wait_ms * 1000;

    if (wait_ms == ROWLOCK_WAIT_FOREVER && in_line)
        return RLK_NEVER;
    if (wait_ms == ROWLOCK_WAIT_NONE)
        wait = PASSING_US;
    else if (!in_line && wait > LONGEST_WAIT_US)
        wait = LONGEST_WAIT_US;
    return rlk_clock_us() + wait;
}

/* A write-ahead log is there as long as somebody has a database open that uses one. */
static int has_log(const lite_conn *conn)
{
    const char *path = sqlite3_db_filename(conn->db, conn->schema);

    return path != NULL && access(sqlite3_filename_wal(path), F_OK) == 0;
}

/* The transaction has read, so that it cannot write but on what it has seen, and another one
 * writes.
 *
 * With a log both can go on; once the other has committed, this one is behind for good
 * (BUSY_SNAPSHOT), but it may roll back instead: so waiting does no harm and may help. Without a
 * log the other cannot commit before this one has given up its read lock, and waiting for it is a
 * deadlock. The same is true of asking again later in this transaction, so that it is not BUSY
 * either. */
static int check_snapshot(lite_conn *conn)
{
    int rc = conn->rc;

    if (rc == SQLITE_BUSY_SNAPSHOT)
        return rlk_fail_native(conn->err, ROWLOCK_EDRIVER, rc, NULL, 1,
                               "the transaction has read and others have written since: roll back "
                               "and begin again, with BEGIN IMMEDIATE");
    if (!has_log(conn))
        return rlk_fail_native(conn->err, ROWLOCK_EDRIVER, rc, NULL, 1,
                               "the transaction has read and keeps another one from committing: "
                               "roll back and begin again, with BEGIN IMMEDIATE");
    return ROWLOCK_OK;
}

int lite_tx_write(lite_conn *conn, enum sql_statement which, int64_t until_us, int *had)
{
    int64_t pause = SHORTEST_PAUSE_US;

    for (*had = 0;;) {
        int has_read = sqlite3_txn_state(conn->db, conn->schema) == SQLITE_TXN_READ;
        int64_t now, next;
        int status = lite_run(conn, which);

        *had = status == ROWLOCK_OK;
        if (*had || !lite_is_busy(conn))
            return status;
        status = has_read ? check_snapshot(conn) : ROWLOCK_OK;
        now = rlk_clock_us();
        if (status != ROWLOCK_OK || now >= until_us)
            return status == ROWLOCK_OK ? rlk_ok(conn->err) : status;
        next = now + pause / 2 + rlk_random_below(pause);
        rlk_sleep_until(next < until_us ? next : until_us, NULL, 0);
        pause = pause * 2 < LONGEST_PAUSE_US ? pause * 2 : LONGEST_PAUSE_US;
    }
}

int lite_tx_look(lite_conn *conn, rowlock_op *op, int64_t now_us)
{
    int status;
    sqlite3_stmt *statement;

    op->status = ROWLOCK_OK;
    if (now_us == 0)
        return ROWLOCK_OK;
    statement = lite_statement(conn, SQL_TX_LOOK, &status);
    if (statement == NULL)
        return status;
    lite_bind_name(statement, op);
    sqlite3_bind_int64(statement, 2, now_us);
    return lite_holder(conn, statement, op);
}

/* OK or, against what was seen just now, BUSY. */
static int take(lite_conn *conn, rowlock_op *op, int64_t now_us)
{
    int status, rc;
    sqlite3_stmt *statement = lite_statement(conn, SQL_TX_TAKE, &status);

    if (statement == NULL)
        return status;
    lite_bind_name(statement, op);
    sqlite3_bind_text(statement, 2, op->owner, -1, SQLITE_STATIC);
    sqlite3_bind_blob(statement, 3, op->attempt, ROWLOCK_ATTEMPT_SIZE, SQLITE_STATIC);
    sqlite3_bind_int64(statement, 4, now_us);
    rc = sqlite3_step(statement);
    lite_no_holder(op);
    if (rc == SQLITE_ROW) {
        op->status = ROWLOCK_OK;
        op->fence = (uint64_t)sqlite3_column_int64(statement, 0);
        op->hold_count = 0;
    }
    return lite_done(conn, statement, rc);
}

/* now_us is 0 if this is the first use since the boot. Should the transaction be rolled back, the
 * clock, its floor and the fences that it has given vanish together. */
static int take_each(lite_conn *conn, rowlock_op *ops, size_t n, int64_t now_us, int *all)
{
    int status = ROWLOCK_OK;
    size_t taken = 0;

    if (now_us == 0) {
        status = lite_clock_start(conn);
        if (status == ROWLOCK_OK)
            status = lite_now(conn, &now_us);
    }
    if (status == ROWLOCK_OK)
        status = lite_clock_raise(conn, now_us);
    for (size_t i = 0; i < n && status == ROWLOCK_OK; i++) {
        status = take(conn, &ops[i], now_us);
        taken += ops[i].status == ROWLOCK_OK;
    }
    *all = status == ROWLOCK_OK && taken == n;
    return status;
}

/* After an error SQLite may have rolled back the whole transaction, and the savepoint with it. */
static int undo(lite_conn *conn, int status)
{
    rowlock_error *err = conn->err;
    int rc = conn->rc;
    int undone;

    if (sqlite3_get_autocommit(conn->db))
        return status;
    conn->err = NULL;
    undone = lite_run(conn, SQL_TX_UNDO) == ROWLOCK_OK && lite_run(conn, SQL_TX_KEEP) == ROWLOCK_OK;
    conn->err = err;
    if (!undone)
        return rlk_fail_native(err, ROWLOCK_EDRIVER, conn->rc, NULL, 0,
                               "cannot undo a part of the transaction, roll back: %s",
                               sqlite3_errmsg(conn->db));
    conn->rc = rc;
    return status;
}

int lite_tx_take(lite_conn *conn, rowlock_op *ops, size_t n, int *all)
{
    int64_t now_us;
    size_t busy = 0;
    int status = lite_now(conn, &now_us);

    *all = 0;
    for (size_t i = 0; i < n && status == ROWLOCK_OK; i++) {
        status = lite_tx_look(conn, &ops[i], now_us);
        busy += ops[i].status == ROWLOCK_BUSY;
    }
    if (status == ROWLOCK_OK && busy == 0) {
        status = lite_run(conn, SQL_TX_SAVEPOINT);
        if (status != ROWLOCK_OK)
            return status;
        status = take_each(conn, ops, n, now_us, all);
        status = *all ? lite_run(conn, SQL_TX_KEEP) : undo(conn, status);
    }
    if (status == ROWLOCK_OK && !*all)
        lite_refuse(ops, n);
    return status;
}
