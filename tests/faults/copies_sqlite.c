/* SPDX-License-Identifier: MIT
 *
 * Two copies of SQLite in one process, as with a program that has one built in and uses a library
 * that is linked to the system's. Their locks are the process's and do not exclude each other, and
 * each drops those of the other by closing the file. Each case is a process of its own. */
#include "fault.h"
#include "rowlock/sqlite.h"

#include <dlfcn.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The other copy, in a namespace of its own. */
static struct copy {
    int (*open)(const char *path, sqlite3 **out);
    int (*exec)(sqlite3 *db, const char *sql, int (*fn)(void *, int, char **, char **), void *arg,
                char **message);
    int (*close)(sqlite3 *db);
} copy;

enum { NOT_LOADED = 100 };

static int load_function(void *out, void *library, const char *name)
{
    void *function = dlsym(library, name);

    memcpy(out, &function, sizeof(function));
    return function != NULL;
}

/* From the file that the first copy is in. */
static int load_copy(void)
{
    Dl_info info;
    void *address = dlsym(RTLD_DEFAULT, "sqlite3_libversion"), *library;

    if (address == NULL || dladdr(address, &info) == 0)
        return 0;
    library = dlmopen(LM_ID_NEWLM, info.dli_fname, RTLD_NOW | RTLD_LOCAL);
    return library != NULL && load_function(&copy.open, library, "sqlite3_open") &&
           load_function(&copy.exec, library, "sqlite3_exec") &&
           load_function(&copy.close, library, "sqlite3_close");
}

static sqlite3 *open_in_copy(const char *path)
{
    sqlite3 *db = NULL;

    if (copy.open(path, &db) != SQLITE_OK ||
        copy.exec(db, "SELECT count(*) FROM sqlite_schema", NULL, NULL, NULL) != SQLITE_OK)
        _exit(NOT_LOADED);
    return db;
}

struct board {
    char path[700];
    int (*scene)(void);
    int status, later, guard, grade;
    char message[240];
};

static struct board *board;

/* ---- in the child ------------------------------------------------------------------------------
 */

static int copy_comes_first(void)
{
    rowlock_client *client = NULL;
    rowlock_error err;
    sqlite3 *db = open_in_copy(board->path);

    board->status = fault_try_open(&client, board->path, NULL, &err);
    snprintf(board->message, sizeof(board->message), "%s", err.message);
    copy.close(db);
    board->later = fault_try_open(&client, board->path, NULL, &err);
    rowlock_close(&client);
    return 0;
}

static int note_process(const rowlock_finding *finding, void *payload)
{
    (void)payload;
    if (strcmp(finding->subject, "process") == 0)
        board->grade = finding->grade;
    return 0;
}

static int guard_in_ours(rowlock_lock *lock)
{
    sqlite3 *db = NULL;
    rowlock_error err;
    int status = ROWLOCK_EDRIVER;

    if (sqlite3_open(board->path, &db) == SQLITE_OK &&
        sqlite3_exec(db, "BEGIN", NULL, NULL, NULL) == SQLITE_OK)
        status = rowlock_sqlite_guard(lock, db, &err);
    sqlite3_close(db);
    return status;
}

static int copy_comes_later(void)
{
    rowlock_client *client = NULL, *other = NULL;
    rowlock_lock *lock = NULL;
    rowlock_error err;
    sqlite3 *db;

    board->status = fault_try_open(&client, board->path, NULL, &err);
    board->status += rowlock_acquire(&lock, client, "one", NULL, &err);
    board->status += rowlock_diagnose(client, note_process, NULL, &err); /* opens all it needs */
    board->status += guard_in_ours(lock);
    process_sleep_ms(1100); /* lock and guard look once a second */
    db = open_in_copy(board->path);
    board->later = fault_try_open(&other, board->path, NULL, &err);
    if (copy.exec(db, "BEGIN", NULL, NULL, NULL) != SQLITE_OK)
        return NOT_LOADED;
    board->guard = rowlock_sqlite_guard(lock, db, &err);
    snprintf(board->message, sizeof(board->message), "%s", err.message);
    copy.exec(db, "ROLLBACK", NULL, NULL, NULL);
    rowlock_diagnose(client, note_process, NULL, &err);
    copy.close(db);
    rowlock_close(&client);
    return 0;
}

/* A copy that is there but has nothing to do with the file does no harm. */
static int copy_is_elsewhere(void)
{
    rowlock_client *client = NULL;
    rowlock_lock *lock = NULL;
    rowlock_error err;
    sqlite3 *db = open_in_copy(":memory:");

    board->status = fault_try_open(&client, board->path, NULL, &err);
    board->status += rowlock_acquire(&lock, client, "elsewhere", NULL, &err);
    rowlock_diagnose(client, note_process, NULL, &err);
    rowlock_close(&client);
    copy.close(db);
    return 0;
}

static int child(void *payload)
{
    (void)payload;
    return load_copy() ? board->scene() : NOT_LOADED;
}

/* ---- cases -------------------------------------------------------------------------------------
 */

static void run_scene(int (*scene)(void))
{
    int status;

    board = process_shared(sizeof(*board));
    assert_non_null(board);
    snprintf(board->path, sizeof(board->path), "%.600s", fault.backend.address);
    board->scene = scene;
    board->grade = -1;
    status = process_wait(process_start(child, NULL), 30000);
    print_message("%d, %d, guard %d: %s\n", board->status, board->later, board->guard,
                  board->message);
    assert_int_equal(0, status); /* 100: the copy cannot be loaded */
}

static void first(void **state)
{
    (void)state;
    run_scene(copy_comes_first);
    assert_int_equal(ROWLOCK_ECONNECT, board->status);
    assert_non_null(strstr(board->message, "copy of SQLite"));
    assert_int_equal(ROWLOCK_OK, board->later);
}

static void later(void **state)
{
    (void)state;
    run_scene(copy_comes_later);
    assert_int_equal(ROWLOCK_OK, board->status);
    assert_int_equal(ROWLOCK_ECONNECT, board->later);
    assert_int_equal(ROWLOCK_EINVAL, board->guard);
    assert_non_null(strstr(board->message, "copy of SQLite"));
    assert_int_equal(ROWLOCK_GRADE_BAD, board->grade);
}

static void elsewhere(void **state)
{
    (void)state;
    run_scene(copy_is_elsewhere);
    assert_int_equal(ROWLOCK_OK, board->status);
    assert_int_equal(ROWLOCK_GRADE_GOOD, board->grade);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(first),
        cmocka_unit_test(later),
        cmocka_unit_test(elsewhere),
    };
    return FAULT_MAIN(argc, argv, 0, cases);
}
