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

static void assert_accepted(const char *name)
{
    rowlock_client *client = fault_open(fault.backend.address, NULL);
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
    assert_accepted(path);
    unlink(path);
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
    snprintf(path, sizeof(path), "%.600s.hard", fault.backend.address);
    assert_int_equal(0, link(fault.backend.address, path));
    db = begin_on(path);
    assert_status(ROWLOCK_EINVAL, rowlock_sqlite_lock(NULL, client, db, names, 1, NULL, &err),
                  &err);
    assert_says(&err, "another name");
    assert_status(ROWLOCK_EINVAL, rowlock_sqlite_guard(lock, db, &err), &err);
    assert_int_equal(ROWLOCK_ECONNECT, fault_try_open(&late, fault.backend.address, NULL, &err));
    assert_says(&err, "hard link");
    assert_int_equal(ROWLOCK_ECONNECT, fault_try_open(&late, path, NULL, &err));
    assert_int_equal(SQLITE_OK, sqlite3_exec(db, "COMMIT", NULL, NULL, NULL));
    assert_int_equal(SQLITE_OK, sqlite3_close(db));
    unlink(path);
    fault_release(&lock);
    rowlock_close(&client);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(symbolic_link),
        cmocka_unit_test(hard_link),
    };
    return FAULT_MAIN(argc, argv, 0, cases);
}
