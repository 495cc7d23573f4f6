/* SPDX-License-Identifier: MIT */
#include "clock.h"
#include "lite.h"
#include "random.h"
#include "text.h"

#define SHORTEST_SLEEP_US  100
#define LONGEST_SLEEP_US   5000
#define CHECKPOINT_WAIT_US 100000
#define CHECKPOINT_PAGES   1000
#define DOUBLINGS          6
#define HELD_WAIT_US       5000000

/* SQLite asks this when another connection is in the way. Writers are done within microseconds, so
 * the sleeps start short; SQLite's own handler would soon sleep 100 ms at a time. They are
 * jittered, lest many waiters come back at the same moment. */
static int on_busy(void *payload, int count)
{
    lite_conn *conn = payload;
    int64_t now = rlk_clock_us();
    int64_t sleep = count < DOUBLINGS ? SHORTEST_SLEEP_US << count : LONGEST_SLEEP_US;
    int64_t until;

    /* A statement of the application's, in the transaction that `lock` began for it. */
    if (conn->is_held && count == 0)
        conn->deadline_us = now + HELD_WAIT_US;
    until = conn->is_held || conn->committing || conn->deadline_us < conn->lock_us
                ? conn->deadline_us
                : conn->lock_us;
    if (now >= until) {
        /* See checkpoint(). */
        if (conn->checkpointing)
            sqlite3_interrupt(conn->db);
        return 0;
    }
    sleep = sleep / 2 + rlk_random_below(sleep);
    if (sleep > until - now)
        sleep = until - now;
    rlk_sleep_until(now + sleep, NULL, 0);
    return 1;
}

/* After each commit in WAL mode. Being registered, it also takes the place of SQLite's automatic
 * checkpoints. No statement may be run here, so it only takes notes. */
static int on_log(void *payload, sqlite3 *db, const char *name, int pages)
{
    lite_conn *conn = payload;

    (void)db;
    (void)name;
    if (pages < conn->log_pages)
        conn->checkpoint_at = CHECKPOINT_PAGES; /* the log has been begun anew */
    conn->log_pages = pages;
    return SQLITE_OK;
}

void lite_watch(lite_conn *conn)
{
    conn->checkpoint_at = CHECKPOINT_PAGES;
    sqlite3_busy_handler(conn->db, on_busy, conn);
    sqlite3_wal_hook(conn->db, on_log, conn);
}

/* Moves the log's pages into the database file when there are many.
 *
 * Versions of SQLite before 3.51.3 have a race that can damage the file: a checkpoint that runs
 * while another connection commits and resets the log. Automatic checkpoints run so. A FULL
 * checkpoint holds the write lock, so nobody can; but when it cannot get that lock, it goes on as a
 * passive one without it. on_busy() interrupts it then, which ends it before it copies a page.
 * After a failure, for example because of a reader that stays, the next try comes when the log has
 * grown by as much again.
 *
 * The call's own work is done and committed, so that a failure here is nobody's error. */
static void checkpoint(lite_conn *conn)
{
    int64_t latest = rlk_clock_us() + CHECKPOINT_WAIT_US;

    if (conn->log_pages <= conn->checkpoint_at)
        return;
    conn->checkpoint_at = conn->log_pages + CHECKPOINT_PAGES;
    if (conn->deadline_us > latest)
        conn->deadline_us = latest;
    conn->checkpointing = 1;
    sqlite3_wal_checkpoint_v2(conn->db, NULL, SQLITE_CHECKPOINT_FULL, NULL, NULL);
    conn->checkpointing = 0;
}

/* The statement with the names of the tables. Whoever attached the database chose its name: quotes
 * in it are doubled. */
static void render(rlk_text *sql, const lite_conn *conn, enum sql_statement which)
{
    rlk_text schema = {0};

    for (const char *c = conn->schema; *c != '\0'; c++) {
        rlk_text_add(&schema, c, 1);
        if (*c == '"')
            rlk_text_add(&schema, c, 1);
    }
    if (schema.failed)
        sql->failed = 1;
    else
        rlk_sql_render(sql, sql_text[which], conn->prefix, schema.data, '"');
    rlk_text_free(&schema);
}

static sqlite3_stmt *prepare(lite_conn *conn, enum sql_statement which, int *status)
{
    sqlite3_stmt *statement = NULL;
    rlk_text sql = {0};
    int rc;

    render(&sql, conn, which);
    if (sql.failed) {
        rlk_text_free(&sql);
        *status = rlk_fail_memory(conn->err);
        return NULL;
    }
    rc = sqlite3_prepare_v3(conn->db, sql.data, -1, SQLITE_PREPARE_PERSISTENT, &statement, NULL);
    rlk_text_free(&sql);
    *status = rc == SQLITE_OK ? ROWLOCK_OK : lite_fail(conn, rc);
    conn->statements[which] = statement;
    return statement;
}

sqlite3_stmt *lite_statement(lite_conn *conn, enum sql_statement which, int *status)
{
    if (sqlite3_get_autocommit(conn->db) && which != SQL_CLOCK_READ)
        conn->now_us = 0;
    *status = ROWLOCK_OK;
    if (conn->statements[which] != NULL)
        return conn->statements[which];
    return prepare(conn, which, status);
}

int lite_done(lite_conn *conn, sqlite3_stmt *statement, int rc)
{
    while (rc == SQLITE_ROW)
        rc = sqlite3_step(statement);
    if (rc == SQLITE_OK || rc == SQLITE_DONE) {
        sqlite3_reset(statement);
        sqlite3_clear_bindings(statement);
        conn->committing = 0;
        return ROWLOCK_OK;
    }
    rc = lite_fail(conn, rc);
    sqlite3_reset(statement);
    sqlite3_clear_bindings(statement);
    return rc;
}

int lite_run(lite_conn *conn, enum sql_statement which)
{
    int status;
    sqlite3_stmt *statement = lite_statement(conn, which, &status);

    return statement == NULL ? status : lite_done(conn, statement, sqlite3_step(statement));
}

int lite_begin(lite_conn *conn)
{
    return lite_run(conn, SQL_BEGIN_WRITE);
}

void lite_finalize(lite_conn *conn)
{
    for (int i = 0; i < SQL_COUNT; i++) {
        sqlite3_finalize(conn->statements[i]);
        conn->statements[i] = NULL;
    }
}

int lite_is_writing(sqlite3 *db)
{
    sqlite3_stmt *statement = NULL;

    while ((statement = sqlite3_next_stmt(db, statement)) != NULL) {
        if (sqlite3_stmt_busy(statement) && !sqlite3_stmt_readonly(statement))
            return 1;
    }
    return 0;
}

int lite_commit(lite_conn *conn)
{
    conn->committing = 1;
    return lite_run(conn, SQL_COMMIT);
}

int lite_rollback(lite_conn *conn)
{
    return lite_run(conn, SQL_ROLLBACK);
}

/* A failed body may have left its transaction open; SQLite has ended it itself after some errors.
 */
static int clean_up(lite_conn *conn, int status)
{
    rowlock_error *err = conn->err;
    int rc = conn->rc, committing = conn->committing;

    if (sqlite3_get_autocommit(conn->db) || conn->is_held)
        return status;
    conn->err = NULL; /* what the body said is worth more */
    (void)lite_rollback(conn);
    conn->err = err;
    conn->rc = rc;
    conn->committing = committing;
    if (sqlite3_get_autocommit(conn->db))
        return status;
    return rlk_fail(err, ROWLOCK_ECONNECT, "cannot roll back: %s", sqlite3_errmsg(conn->db));
}

/* Whoever opens the path now gets another file, with locks of its own: this one is worth nothing
 * any more. SQLite notices by itself only where there is no write-ahead log. */
static int has_moved(lite_conn *conn)
{
    int moved = 0;

    sqlite3_file_control(conn->db, "main", SQLITE_FCNTL_HAS_MOVED, &moved);
    return moved;
}

/* Has what was read and written meanwhile been so under the lock on the file? If not, the log may
 * have been one that others have removed: nobody else has seen it, and it must not be moved into
 * the file when the connection is closed. The lock does not come back while one is open, so that a
 * look at the end is enough. Without a log SQLite takes a lock for each transaction. */
static int check_lock(lite_conn *conn, int changes)
{
    if (!conn->sync_normal || conn->lock_info == 0 || lite_file_lock_is_kept(conn))
        return ROWLOCK_OK;
    sqlite3_db_config(conn->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    return rlk_fail(
        conn->err, sqlite3_total_changes(conn->db) == changes ? ROWLOCK_ECONNECT : ROWLOCK_EUNKNOWN,
        "this process has lost SQLite's locks on the file, as some code in it has "
        "closed a descriptor of it: close all connections and open them anew");
}

int64_t lite_deadline(uint32_t timeout_ms)
{
    return rlk_clock_us() + (int64_t)timeout_ms * 1000;
}

int lite_call(lite_conn *conn, int (*body)(lite_conn *conn, void *payload), void *payload,
              uint32_t timeout_ms, rowlock_error *err)
{
    return lite_call_until(conn, body, payload, lite_deadline(timeout_ms), err);
}

int lite_call_until(lite_conn *conn, int (*body)(lite_conn *conn, void *payload), void *payload,
                    int64_t deadline_us, rowlock_error *err)
{
    /* Of a transaction that was open before, all is unknown. */
    int changes = sqlite3_get_autocommit(conn->db) ? sqlite3_total_changes(conn->db) : -1;
    int status;

    if (has_moved(conn))
        return rlk_fail(err, ROWLOCK_ECONNECT, "the database file was moved or deleted");
    conn->err = err;
    conn->rc = SQLITE_OK;
    conn->deadline_us = deadline_us;
    conn->lock_us = conn->lock_ms == 0 ? RLK_NEVER : lite_deadline(conn->lock_ms);
    conn->lock_ms = 0;
    conn->clock_missing = 0;
    conn->committing = 0;
    conn->is_held = 0;
    rlk_ok(err);
    status = clean_up(conn, body(conn, payload));
    if (conn->clock_missing) {
        conn->clock_missing = 0;
        rlk_ok(err);
        status = clean_up(conn, lite_clock_set(conn));
        if (status == ROWLOCK_OK)
            status = clean_up(conn, body(conn, payload));
    }
    if (status == ROWLOCK_OK && !conn->is_held)
        status = check_lock(conn, changes);
    if (status == ROWLOCK_OK && !conn->is_held)
        checkpoint(conn);
    return status;
}
