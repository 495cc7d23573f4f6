/* SPDX-License-Identifier: MIT
 *
 * What locks in a file depend on. Nothing here asks for the time by rowlock_now(), which would fix
 * it for this boot. */
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>

#include "finding.h"
#include "lite.h"

#define SMALL_FILE_BYTES INT64_C(64000000) /* is read through in less than a second */
#define SMALL_ROOM_BYTES UINT64_C(16000000)

typedef struct facts {
    int64_t others, triggers, bytes;
    char pages[256]; /* what SQLite says of them */
} facts;

/* ---- the file */

static void find_place(rlk_findings *f, const char *path)
{
    rowlock_error err;
    struct statfs kind;
    struct statvfs room;

    if (lite_check_place(path, &err) != ROWLOCK_OK)
        rlk_find_bad(f, "file",
                     "give rowlock a file with one name, in a folder on a local disk that this "
                     "user may write to",
                     "%s", err.message);
    else if (statfs(path, &kind) != 0)
        rlk_find_warning(f, "file", "see that it is on a local disk",
                         "on which file system it is cannot be told");
    else if ((uint32_t)kind.f_type == FUSE_SUPER_MAGIC)
        rlk_find_warning(f, "file", "if it is reached through a network (sshfs, s3fs): move it",
                         "it is on a FUSE file system, which may be another host's");
    else
        rlk_find_good(f, "file", "it is on a local file system and can be written to");
    if (statvfs(path, &room) == 0 && (uint64_t)room.f_bavail * room.f_frsize < SMALL_ROOM_BYTES)
        rlk_find_warning(f, "space", "make room: locks that cannot be written cannot be had",
                         "the disk is nearly full");
}

/* Said by the process that uses the locks: the command has one SQLite only. Each call, this one
 * too, has seen to it that the process has the lock on the file. */
static void find_process(rlk_findings *f, const lite_conn *conn, const char *path)
{
    rowlock_error err;

    if (lite_check_copies(path, ROWLOCK_ECONNECT, &err) != ROWLOCK_OK)
        rlk_find_bad(f, "process", "link one SQLite, as a shared library", "%s", err.message);
    else if (conn->sync_normal)
        rlk_find_good(f, "process", "one copy of SQLite uses the file, and has its locks");
}

static void find_pages(rlk_findings *f, const facts *have)
{
    if (have->bytes > SMALL_FILE_BYTES)
        rlk_find_good(f, "integrity", "not looked at: the file is large (%lld MB)",
                      (long long)(have->bytes / 1000000));
    else if (strcmp(have->pages, "ok") == 0)
        rlk_find_good(f, "integrity", "the file is whole");
    else
        rlk_find_bad(f, "integrity", "restore it, or delete it and run 'rowlock migrate up'",
                     "the file is damaged: %s", have->pages);
}

/* ---- the log */

/* A checkpoint while another connection resets the log can damage the file: 3.7.0 to 3.51.2, but
 * mended in 3.44.6 and 3.50.7. */
static int has_reset_bug(int version)
{
    int release = version / 1000 % 1000;

    if (release == 44)
        return version < 3044006;
    if (release == 50)
        return version < 3050007;
    return version < 3051003;
}

static void find_journal(rlk_findings *f, const lite_conn *conn, const facts *have)
{
    if (!conn->sync_normal) {
        rlk_find_warning(
            f, "journal", "run: PRAGMA journal_mode = WAL",
            "there is no write-ahead log: readers and writers keep each other waiting, "
            "and each commit waits for the disk");
        return;
    }
    if (has_reset_bug(sqlite3_libversion_number()) && have->others > 0)
        rlk_find_warning(f, "journal",
                         "give rowlock a file of its own, or upgrade SQLite to 3.51.3 or later",
                         "other programs' tables are in the file, and with automatic checkpoints "
                         "this SQLite may damage a file in WAL mode (rowlock makes none)");
    else
        rlk_find_good(f, "journal", "there is a write-ahead log");
}

static void find_waiters(rlk_findings *f, lite_conn *conn)
{
    int was_watched = conn->watch != 0;

    if (lite_notice_start(conn))
        rlk_find_good(f, "waiters", "they are woken (inotify)");
    else if (!conn->sync_normal)
        rlk_find_good(f, "waiters", "they ask again and again, as there is no write-ahead log");
    else
        rlk_find_warning(f, "waiters", "raise fs.inotify.max_user_instances and max_user_watches",
                         "they ask again and again: inotify cannot be used");
    if (!was_watched)
        lite_notice_stop(conn);
}

/* ---- the tables */

/* To prepare a statement is to look up every column it has. */
static void find_columns(rlk_findings *f, lite_conn *conn, int version)
{
    static const enum sql_statement all[] = {SQL_ACQUIRE,    SQL_RENEW,      SQL_RELEASE,
                                             SQL_REAP,       SQL_LIST,       SQL_CLOCK_READ,
                                             SQL_QUEUE_JOIN, SQL_QUEUE_LOOK, SQL_WAITERS};
    int status = ROWLOCK_OK;

    for (size_t i = 0; i < sizeof all / sizeof *all && status == ROWLOCK_OK; i++)
        (void)lite_statement(conn, all[i], &status);
    if (status != ROWLOCK_OK)
        rlk_find_bad(f, "tables",
                     "compare them with 'rowlock migrate print'; delete what is left "
                     "of them and run 'rowlock migrate up'",
                     "they are not as version %d has them: %s", version, sqlite3_errmsg(conn->db));
}

static void find_triggers(rlk_findings *f, const facts *have)
{
    if (have->triggers > 0)
        rlk_find_warning(f, "triggers", "drop them: locks must be what rowlock wrote",
                         "there are %lld triggers on the lock tables", (long long)have->triggers);
}

/* ---- the slot */

static int read_facts(lite_conn *conn, void *payload)
{
    facts *out = payload;
    int status, rc;
    sqlite3_stmt *statement = lite_statement(conn, SQL_DIAGNOSE_FILE, &status);

    if (statement == NULL)
        return status;
    sqlite3_bind_text(statement, 1, conn->prefix, -1, SQLITE_STATIC);
    rc = sqlite3_step(statement);
    if (rc == SQLITE_ROW) {
        out->others = sqlite3_column_int64(statement, 0);
        out->triggers = sqlite3_column_int64(statement, 1);
        out->bytes = sqlite3_column_int64(statement, 2);
    }
    return lite_done(conn, statement, rc);
}

/* Of a file that is badly damaged SQLite says so by an error. */
static int read_pages(lite_conn *conn, void *payload)
{
    facts *out = payload;
    int status, rc;
    sqlite3_stmt *statement = lite_statement(conn, SQL_DIAGNOSE_PAGES, &status);

    if (statement == NULL)
        return status;
    rc = sqlite3_step(statement);
    if (rc == SQLITE_ROW)
        lite_copy_text(out->pages, sizeof out->pages, statement, 0);
    status = lite_done(conn, statement, rc);
    if (status == ROWLOCK_OK || (conn->rc & 0xff) != SQLITE_CORRUPT)
        return status;
    snprintf(out->pages, sizeof out->pages, "%s", sqlite3_errmsg(conn->db));
    return rlk_ok(conn->err);
}

typedef struct telling {
    rlk_findings findings;
    facts have;
    int version;
} telling;

static int tell(lite_conn *conn, void *payload)
{
    telling *t = payload;
    rlk_findings *f = &t->findings;
    const char *path = sqlite3_db_filename(conn->db, "main");

    rlk_find_good(f, "server", "SQLite %s, %s", sqlite3_libversion(), path);
    find_place(f, path);
    find_process(f, conn, path);
    find_pages(f, &t->have);
    find_journal(f, conn, &t->have);
    if (rlk_find_version(f, t->version, MIGRATION_COUNT))
        find_columns(f, conn, t->version);
    find_triggers(f, &t->have);
    find_waiters(f, conn);
    return rlk_ok(conn->err);
}

int lite_diagnose(void *conn, rowlock_finding_fn fn, void *payload, uint32_t timeout_ms,
                  rowlock_error *err)
{
    telling t = {.findings = {.fn = fn, .payload = payload}};
    int64_t deadline_us = lite_deadline(timeout_ms);
    int status = lite_schema_version(conn, &t.version, timeout_ms, err);

    if (status == ROWLOCK_OK)
        status = lite_call_until(conn, read_facts, &t.have, deadline_us, err);
    if (status == ROWLOCK_OK && t.have.bytes <= SMALL_FILE_BYTES)
        status = lite_call_until(conn, read_pages, &t.have, deadline_us, err);
    return status == ROWLOCK_OK ? lite_call_until(conn, tell, &t, deadline_us, err) : status;
}
