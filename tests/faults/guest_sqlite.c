/* SPDX-License-Identifier: MIT
 *
 * Connections of the application's to the client's SQLite file that exclude nobody: neither lock
 * nor guard may say OK on them. */
#include "fault.h"
#include "rowlock/sqlite.h"

#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* A connection with an open transaction, by this name of the file (a URI or a path). */
static sqlite3 *begin_on(const char *name)
{
    sqlite3 *db = NULL;

    assert_int_equal(SQLITE_OK,
                     sqlite3_open_v2(name, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_URI, NULL));
    sqlite3_busy_timeout(db, 2000);
    assert_int_equal(SQLITE_OK, sqlite3_exec(db, "BEGIN", NULL, NULL, NULL));
    return db;
}

static void assert_says(const rowlock_error *err, const char *word)
{
    if (strstr(err->message, word) == NULL)
        fail_msg("\"%s\" does not hold \"%s\"", err->message, word);
}

/* Both calls are EINVAL, for this reason, and the transaction can go on. */
static void assert_refused(const char *path, const char *name, const char *word)
{
    rowlock_client *client = fault_open(path, NULL);
    rowlock_lock *lock = fault_acquire(client, fault_name("held"), 60000);
    const char *names[] = {"free"};
    sqlite3 *db = begin_on(name);
    rowlock_error err;

    assert_status(ROWLOCK_EINVAL, rowlock_sqlite_lock(NULL, client, db, names, 1, NULL, &err),
                  &err);
    assert_says(&err, word);
    assert_status(ROWLOCK_EINVAL, rowlock_sqlite_guard(lock, db, &err), &err);
    assert_says(&err, word);
    assert_int_equal(SQLITE_OK, sqlite3_exec(db, "COMMIT", NULL, NULL, NULL));
    assert_int_equal(SQLITE_OK, sqlite3_close(db));
    fault_release(&lock);
    rowlock_close(&client);
}

static void assert_accepted(const char *path, const char *name)
{
    rowlock_client *client = fault_open(path, NULL);
    rowlock_lock *lock = fault_acquire(client, fault_name("held"), 60000);
    const char *names[] = {"free"};
    sqlite3 *db = begin_on(name);
    rowlock_error err;

    assert_status(ROWLOCK_OK, rowlock_sqlite_lock(NULL, client, db, names, 1, NULL, &err), &err);
    assert_status(ROWLOCK_OK, rowlock_sqlite_guard(lock, db, &err), &err);
    assert_int_equal(SQLITE_OK, sqlite3_exec(db, "COMMIT", NULL, NULL, NULL));
    assert_int_equal(SQLITE_OK, sqlite3_close(db));
    fault_release(&lock);
    rowlock_close(&client);
}

static void symbolic_link(void **state)
{
    char path[700];

    (void)state;
    snprintf(path, sizeof(path), "%.600s.symbolic", fault.backend.address);
    assert_int_equal(0, symlink(fault.backend.address, path));
    assert_accepted(fault.backend.address, path);
    unlink(path);
}

/* Both on a connection that is as it should be, so that the client has opened all that it needs. */
static void warm_up(rowlock_client *client, rowlock_lock *lock)
{
    const char *names[] = {"free"};
    sqlite3 *db = begin_on(fault.backend.address);
    rowlock_error err;

    assert_status(ROWLOCK_OK, rowlock_sqlite_lock(NULL, client, db, names, 1, NULL, &err), &err);
    assert_status(ROWLOCK_OK, rowlock_sqlite_guard(lock, db, &err), &err);
    assert_int_equal(SQLITE_OK, sqlite3_close(db));
}

/* Made while the client has the file open; a client that comes later is refused altogether. */
static void hard_link(void **state)
{
    rowlock_client *client = fault_open(fault.backend.address, NULL), *late = NULL;
    rowlock_lock *lock = fault_acquire(client, fault_name("held"), 60000);
    const char *names[] = {"free"};
    rowlock_error err;
    char path[700];
    sqlite3 *db;

    (void)state;
    warm_up(client, lock);
    snprintf(path, sizeof(path), "%.600s.hard", fault.backend.address);
    assert_int_equal(0, link(fault.backend.address, path));
    db = begin_on(path);
    assert_status(ROWLOCK_EINVAL, rowlock_sqlite_lock(NULL, client, db, names, 1, NULL, &err),
                  &err);
    assert_says(&err, "another name");
    assert_status(ROWLOCK_EINVAL, rowlock_sqlite_guard(lock, db, &err), &err);
    assert_says(&err, "another name");
    assert_int_equal(ROWLOCK_ECONNECT, fault_try_open(&late, fault.backend.address, NULL, &err));
    assert_says(&err, "hard link");
    assert_int_equal(ROWLOCK_ECONNECT, fault_try_open(&late, path, NULL, &err));
    assert_int_equal(SQLITE_OK, sqlite3_exec(db, "COMMIT", NULL, NULL, NULL));
    assert_int_equal(SQLITE_OK, sqlite3_close(db));
    unlink(path);
    fault_release(&lock);
    rowlock_close(&client);
}

/* ---- SQLite without its locks ------------------------------------------------------------------
 */

/* A file without a log: with one, SQLite itself refuses most of these. */
static void make_plain_file(char *out, size_t size)
{
    rowlock_options options = ROWLOCK_OPTIONS_INIT;
    rowlock_client *client;
    sqlite3 *db = NULL;

    snprintf(out, size, "%.600s.plain", fault.backend.address);
    options.schema_policy = ROWLOCK_SCHEMA_CREATE;
    client = fault_open(out, &options);
    rowlock_close(&client);
    assert_int_equal(SQLITE_OK, sqlite3_open(out, &db));
    assert_int_equal(SQLITE_OK, sqlite3_exec(db, "PRAGMA journal_mode = DELETE", NULL, NULL, NULL));
    assert_int_equal(SQLITE_OK, sqlite3_close(db));
}

static void other_locking(void **state)
{
    static const struct {
        const char *parameter, *word;
    } refused[] = {{"nolock=1", "nolock"},
                   {"nolock=yes", "nolock"},
                   {"immutable=1", "immutable"},
                   {"vfs=unix-none", "unix-none"},
                   {"vfs=unix-dotfile", "unix-dotfile"},
                   {"vfs=unix-excl", "unix-excl"}};
    static const char *const accepted[] = {"", "nolock=0", "vfs=unix", "mode=rw&cache=private"};
    char path[700], name[760];

    (void)state;
    make_plain_file(path, sizeof(path));
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        snprintf(name, sizeof(name), "file:%s?%s", path, refused[i].parameter);
        assert_refused(path, name, refused[i].word);
    }
    for (size_t i = 0; i < sizeof(accepted) / sizeof(accepted[0]); i++) {
        snprintf(name, sizeof(name), "file:%s?%s", path, accepted[i]);
        assert_accepted(path, name);
    }
    unlink(path);
}

/* Attached, beside a main database that is as it should be. */
static void other_locking_attached(void **state)
{
    rowlock_client *client;
    const char *names[] = {"free"};
    char path[700], sql[800];
    rowlock_error err;
    sqlite3 *db;

    (void)state;
    make_plain_file(path, sizeof(path));
    client = fault_open(path, NULL);
    assert_int_equal(
        SQLITE_OK, sqlite3_open_v2(":memory:", &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_URI, NULL));
    snprintf(sql, sizeof(sql), "ATTACH 'file:%s?nolock=1' AS a; BEGIN", path);
    assert_int_equal(SQLITE_OK, sqlite3_exec(db, sql, NULL, NULL, NULL));
    assert_status(ROWLOCK_EINVAL, rowlock_sqlite_lock(NULL, client, db, names, 1, NULL, &err),
                  &err);
    assert_says(&err, "nolock");
    assert_int_equal(SQLITE_OK, sqlite3_close(db));
    rowlock_close(&client);
    unlink(path);
}

/* The driver's own connections use what the application has made the default. */
static void other_default(void **state)
{
    static const char *const kinds[] = {"unix-none", "unix-dotfile", "unix-excl"};
    sqlite3_vfs *usual = sqlite3_vfs_find(NULL);
    rowlock_client *client = NULL;
    rowlock_error err;
    char path[700];

    (void)state;
    make_plain_file(path, sizeof(path));
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        int status;

        assert_int_equal(SQLITE_OK, sqlite3_vfs_register(sqlite3_vfs_find(kinds[i]), 1));
        status = fault_try_open(&client, path, NULL, &err);
        assert_int_equal(SQLITE_OK, sqlite3_vfs_register(usual, 1));
        assert_status(ROWLOCK_ECONNECT, status, &err);
        assert_says(&err, kinds[i]);
    }
    unlink(path);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(symbolic_link), cmocka_unit_test(hard_link),
        cmocka_unit_test(other_locking), cmocka_unit_test(other_locking_attached),
        cmocka_unit_test(other_default),
    };
    return FAULT_MAIN(argc, argv, 0, cases);
}
