/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "lite.h"
#include "rowlock/sqlite.h"

static int pragma_value(lite_conn *conn, enum sql_statement which, char *out, size_t size)
{
    int status;
    sqlite3_stmt *statement = lite_statement(conn, which, &status);
    int rc;

    if (statement == NULL)
        return status;
    out[0] = '\0';
    rc = sqlite3_step(statement);
    if (rc == SQLITE_ROW) {
        const char *text = (const char *)sqlite3_column_text(statement, 0);

        snprintf(out, size, "%s", text == NULL ? "" : text);
    }
    return lite_done(conn, statement, rc);
}

/* A new file gets a write-ahead log: readers and the writer do not hinder each other, and a commit
 * is one write without a sync. A file that is there already belongs to somebody who chose its
 * journal. */
static int choose_journal(lite_conn *conn)
{
    char value[32];
    int status = pragma_value(conn, SQL_PAGE_COUNT, value, sizeof value);

    if (status == ROWLOCK_OK && strcmp(value, "0") == 0)
        status = lite_run(conn, SQL_JOURNAL_WAL);
    if (status == ROWLOCK_OK)
        status = pragma_value(conn, SQL_JOURNAL_MODE, value, sizeof value);
    if (status != ROWLOCK_OK)
        return status;
    /* NORMAL may lose the last commits when the machine dies, and with it died all who held a lock.
     * It keeps the file whole only in WAL mode. */
    conn->sync_normal = strcmp(value, "wal") == 0;
    return lite_run(conn, conn->sync_normal ? SQL_SYNC_NORMAL : SQL_SYNC_FULL);
}

/* Two processes that make the same new file a WAL database both hold a read lock and want more;
 * SQLite sends one of them away without asking the busy handler. */
static int set_up_journal(lite_conn *conn, void *payload)
{
    rowlock_error *err = conn->err;
    rowlock_error local = {0};
    int status;

    (void)payload;
    conn->err = &local;
    while ((status = choose_journal(conn)) == ROWLOCK_EDRIVER && local.retryable &&
           rlk_clock_us() < conn->deadline_us)
        rlk_sleep_until(rlk_clock_us() + 1000, NULL, 0);
    conn->err = err;
    if (status != ROWLOCK_OK && err != NULL)
        *err = local;
    return status;
}

static int begin_reading(lite_conn *conn)
{
    char value[32];
    int status = lite_run(conn, SQL_BEGIN_READ);

    return status == ROWLOCK_OK ? pragma_value(conn, SQL_PAGE_COUNT, value, sizeof value) : status;
}

static int check_lock(lite_conn *conn)
{
    int status = begin_reading(conn);

    if (status == ROWLOCK_OK && !lite_file_lock_open(conn))
        status = rlk_fail(conn->err, ROWLOCK_ECONNECT,
                          "SQLite believes that this process has a lock on the file, but it has "
                          "none: a connection was open at a fork(), or a descriptor of the file "
                          "was closed; close all connections and open them anew");
    if (status == ROWLOCK_OK)
        status =
            lite_check_copies(sqlite3_db_filename(conn->db, "main"), ROWLOCK_ECONNECT, conn->err);
    return status == ROWLOCK_OK ? lite_commit(conn) : status;
}

static int set_up(lite_conn *conn, void *payload)
{
    const char *path = sqlite3_db_filename(conn->db, "main");
    int status = lite_check_place(path, conn->err);

    if (status == ROWLOCK_OK)
        status = lite_check_vfs(conn->db, "main", ROWLOCK_ECONNECT, conn->err);
    if (status == ROWLOCK_OK && sqlite3_db_readonly(conn->db, "main") == 1)
        status =
            rlk_fail(conn->err, ROWLOCK_ECONNECT, "%s is read-only: locks need to write", path);
    if (status == ROWLOCK_OK)
        status = lite_clock_open(conn);
    if (status == ROWLOCK_OK)
        status = set_up_journal(conn, payload);
    return status == ROWLOCK_OK ? check_lock(conn) : status;
}

/* Opening does no more than opening: whatever the database answered, it cannot be used. */
static int as_connect_error(int status, rowlock_error *err)
{
    if (status == ROWLOCK_OK || status == ROWLOCK_EINVAL || status == ROWLOCK_ENOMEM)
        return status;
    if (err != NULL)
        err->status = ROWLOCK_ECONNECT;
    return ROWLOCK_ECONNECT;
}

/* SQLite keeps one list of open files for each process, and a child inherits it: it would believe
 * that it has the locks on the file that only its parent has. So the driver counts the connections
 * of this process, and a child that was born while there were some may not open any. */
static atomic_uint open_count;
static _Atomic pid_t open_pid; /* whose; set before the count rises */

static int enter_process(lite_conn *conn, rowlock_error *err)
{
    if (atomic_load(&open_count) > 0 && atomic_load(&open_pid) != getpid())
        return rlk_fail(err, ROWLOCK_ECONNECT,
                        "this process was forked while a client on SQLite was open, and cannot use "
                        "SQLite safely: open clients after fork(), or exec() in the child");
    atomic_store(&open_pid, getpid());
    atomic_fetch_add(&open_count, 1);
    conn->is_counted = 1;
    return ROWLOCK_OK;
}

static void leave_process(const lite_conn *conn)
{
    if (conn->is_counted)
        atomic_fetch_sub(&open_count, 1);
}

static int lite_open(void *state, const rowlock_config *config, uint32_t timeout_ms,
                     rowlock_error *err)
{
    /* NOMUTEX: one call at a time for each connection, from whichever thread. A private cache: in a
     * shared one, connections of one process lock tables against each other. */
    const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE |
                      (config->may_create ? SQLITE_OPEN_CREATE : 0);
    lite_conn *conn = state;
    const char *path;
    int status = lite_address(&path, config->address, err);
    int rc;

    if (status == ROWLOCK_OK)
        status = lite_check_path(path, err);
    if (status == ROWLOCK_OK && !config->may_create && access(path, F_OK) != 0 && errno == ENOENT)
        status =
            rlk_fail(err, ROWLOCK_ESCHEMA, "%s does not exist: run 'rowlock migrate up'", path);
    if (status == ROWLOCK_OK)
        status = enter_process(conn, err);
    if (status != ROWLOCK_OK)
        return status;
    if (!sqlite3_threadsafe())
        return rlk_fail(err, ROWLOCK_ECONNECT, "this SQLite was built without support for threads");
    conn->err = err;
    conn->path = path;
    conn->schema = "main";
    snprintf(conn->prefix, sizeof conn->prefix, "%s", config->prefix);
    rc = sqlite3_open_v2(path, &conn->db, flags, NULL);
    if (rc != SQLITE_OK)
        return as_connect_error(lite_fail(conn, rc), err);
    sqlite3_extended_result_codes(conn->db, 1);
    lite_watch(conn);
    status = as_connect_error(lite_call(conn, set_up, NULL, timeout_ms, err), err);
    conn->path = NULL;
    return status;
}

/* Statements that the application has left behind keep SQLite from closing a connection: it lives
 * on until they are finalized. It must have no lock then, nor call functions with this `conn`. */
static void let_go(lite_conn *conn)
{
    sqlite3_stmt *statement = NULL;

    if (conn->db == NULL)
        return;
    while ((statement = sqlite3_next_stmt(conn->db, statement)) != NULL)
        sqlite3_reset(statement);
    sqlite3_busy_handler(conn->db, NULL, NULL);
    sqlite3_wal_hook(conn->db, NULL, NULL);
    if (!sqlite3_get_autocommit(conn->db)) {
        conn->err = NULL;
        (void)lite_rollback(conn);
    }
    lite_finalize(conn);
    lite_clock_close(conn);
}

/* The last connection to leave a database moves the log into the file and removes it. That is done
 * under an exclusive lock, with nobody else there to reset the log (see checkpoint()), so SQLite
 * may. It does not wait for the lock. */
static void lite_close(void *state)
{
    lite_conn *conn = state;

    lite_notice_close(conn);
    lite_file_lock_close(conn);
    let_go(conn);
    sqlite3_close_v2(conn->db);
    leave_process(conn);
    memset(conn, 0, sizeof *conn);
}

static const rowlock_driver driver = {
    .size = sizeof(rowlock_driver),
    .name = "sqlite",
    .conn_size = sizeof(lite_conn),
    .quote = '"',
    .has_schemas = 0,
    .migration_count = MIGRATION_COUNT,
    .migrations = migrations,
    .open = lite_open,
    .close = lite_close,
    .acquire = lite_acquire,
    .renew = lite_renew,
    .release = lite_release,
    .force_release = lite_force_release,
    .reap = lite_reap,
    .list = lite_list,
    .schema_version = lite_schema_version,
    .schema_apply = lite_schema_apply,
    .prepare = lite_prepare,
    .locate = lite_locate,
    .lock = lite_lock,
    .guard = lite_guard,
    .end = lite_end,
    .native = lite_native,
    .enqueue = lite_enqueue,
    .turn = lite_turn,
    .leave = lite_leave,
    .look = lite_look,
    .waiters = lite_waiters,
    .diagnose = lite_diagnose,
    .exchange = lite_exchange,
    .has_one_writer = 1,
};

const rowlock_driver *rowlock_sqlite(void)
{
    return &driver;
}
