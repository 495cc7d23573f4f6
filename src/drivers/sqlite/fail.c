/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "lite.h"

/* For messages: which file. */
static const char *file_of(const lite_conn *conn)
{
    const char *path = conn->path;

    if (path == NULL && conn->db != NULL)
        path = sqlite3_db_filename(conn->db, "main");
    return path == NULL || path[0] == '\0' ? "the database file" : path;
}

/* An input or output error. A page that could not be read or written ends in a rollback: the commit
 * mark comes last, in the log and in the journal. Of any other (sync, removal of the journal)
 * nobody knows whether the commit will be there after a crash. */
static int fail_io(lite_conn *conn, int rc)
{
    int number = sqlite3_system_errno(conn->db);
    const char *why = number != 0 ? strerror(number) : sqlite3_errstr(rc);

    switch (rc) {
    case SQLITE_IOERR_NOMEM:
        return rlk_fail_memory(conn->err);
    case SQLITE_IOERR_READ:
    case SQLITE_IOERR_SHORT_READ:
    case SQLITE_IOERR_WRITE:
        /* By now the errno may have been overwritten: name the usual cause. */
        return rlk_fail_native(conn->err, ROWLOCK_EDRIVER, rc, NULL, 0,
                               "cannot read or write %s, is the disk full? %s", file_of(conn), why);
    default:
        return rlk_fail_native(conn->err, ROWLOCK_EUNKNOWN, rc, NULL, 0,
                               "%s failed, the outcome is unknown: %s", file_of(conn), why);
    }
}

static int fail_statement(lite_conn *conn, int rc)
{
    const char *message = sqlite3_errmsg(conn->db);

    if (strncmp(message, "no such table", 13) == 0 || strncmp(message, "no such column", 14) == 0)
        return rlk_fail_native(conn->err, ROWLOCK_ESCHEMA, rc, NULL, 0,
                               "%s: run 'rowlock migrate up'", message);
    return rlk_fail_native(conn->err, ROWLOCK_EDRIVER, rc, NULL, 0, "%s", message);
}

int lite_is_busy(const lite_conn *conn)
{
    return (conn->rc & 0xff) == SQLITE_BUSY || conn->rc == SQLITE_LOCKED_SHAREDCACHE;
}

int lite_fail(lite_conn *conn, int rc)
{
    int number = conn->db != NULL ? sqlite3_system_errno(conn->db) : 0;

    /* An application's connection may tell only half of the code. */
    if (conn->db != NULL && (sqlite3_extended_errcode(conn->db) & 0xff) == rc)
        rc = sqlite3_extended_errcode(conn->db);
    conn->rc = rc;
    switch (rc & 0xff) {
    case SQLITE_NOMEM:
        return rlk_fail_memory(conn->err);
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_PROTOCOL:
        return rlk_fail_native(
            conn->err, ROWLOCK_EDRIVER, rc, NULL, 1,
            "the database is locked by another connection: try again, or look for "
            "a transaction that is left open");
    case SQLITE_SCHEMA:
        return rlk_fail_native(conn->err, ROWLOCK_EDRIVER, rc, NULL, 1,
                               "the tables are being changed by another connection: try again");
    case SQLITE_FULL:
        return rlk_fail_native(conn->err, ROWLOCK_EDRIVER, rc, NULL, 0,
                               "the disk is full: make room on it");
    case SQLITE_READONLY:
        return rlk_fail_native(conn->err, ROWLOCK_ECONNECT, rc, NULL, 0, "%s is read-only: %s",
                               file_of(conn), sqlite3_errstr(rc));
    case SQLITE_PERM:
    case SQLITE_AUTH:
    case SQLITE_CANTOPEN:
        return rlk_fail_native(conn->err, ROWLOCK_ECONNECT, rc, NULL, 0,
                               "cannot open %s or the files beside it: %s", file_of(conn),
                               number != 0 ? strerror(number) : sqlite3_errstr(rc));
    case SQLITE_NOTADB:
    case SQLITE_CORRUPT:
        return rlk_fail_native(conn->err, ROWLOCK_ECONNECT, rc, NULL, 0,
                               "%s is not an SQLite database, or is damaged: %s", file_of(conn),
                               sqlite3_errmsg(conn->db));
    case SQLITE_IOERR:
        return fail_io(conn, rc);
    default:
        return fail_statement(conn, rc);
    }
}
