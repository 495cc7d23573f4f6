/* SPDX-License-Identifier: MIT
 *
 * SQLite's locks on a file are the process's, and the kernel takes them away without SQLite's
 * knowing: a child has none of its parent's, and whoever closes any descriptor of the file drops
 * them all. A client that is let in must exclude; else it must be refused. */
#include "fault.h"
#include "rowlock/sqlite.h"

#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <fcntl.h>

/* What the application does with its own connection to the client's file. */
enum way {
    OPENED_BEFORE, /* before it becomes a daemon, and keeps it */
    READING,       /* the same, in a transaction that has read */
    CLOSED_AFTER,  /* before; the daemon closes what it inherited first */
    OPENED_AFTER   /* in the daemon */
};

struct board {
    char path[700];
    int opened, go, held, end, ended;
    int status, later, guard, anew;
    char message[240];
};

static struct board *board;

static sqlite3 *open_own(int with_transaction)
{
    sqlite3 *db = NULL;

    if (sqlite3_open(board->path, &db) != SQLITE_OK ||
        (with_transaction && sqlite3_exec(db, "BEGIN", NULL, NULL, NULL) != SQLITE_OK) ||
        sqlite3_exec(db, "SELECT count(*) FROM sqlite_schema", NULL, NULL, NULL) != SQLITE_OK)
        _exit(3);
    return db;
}

/* Takes "one", then "two" after others have come and gone, and keeps them. */
static void hold(void)
{
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;
    rowlock_client *client = NULL;
    rowlock_lock *one = NULL, *two = NULL;
    rowlock_error err;

    options.ttl_ms = 60000;
    board->status = fault_try_open(&client, board->path, NULL, &err);
    if (board->status == ROWLOCK_OK)
        board->status = rowlock_acquire(&one, client, "one", &options, &err);
    snprintf(board->message, sizeof(board->message), "%s", err.message);
    process_signal(&board->opened, 1);
    process_await(&board->go, 1, 20000);
    if (board->status == ROWLOCK_OK)
        board->later = rowlock_acquire(&two, client, "two", &options, &err);
    process_signal(&board->held, 1);
    process_await(&board->end, 1, 20000);
    rowlock_close(&client);
}

/* As daemon(3) does it, twice, so that the parent and its locks are gone. */
static int become_daemon(void *payload)
{
    enum way way = *(enum way *)payload;
    sqlite3 *db = way != OPENED_AFTER ? open_own(way == READING) : NULL;

    if (fork() != 0)
        return 0; /* the parent's exit drops its locks */
    setsid();
    if (fork() != 0)
        _exit(0);
    if (way == CLOSED_AFTER)
        sqlite3_close(db);
    if (way == CLOSED_AFTER || way == OPENED_AFTER)
        db = open_own(0);
    hold();
    process_signal(&board->ended, 1);
    _exit(0);
}

/* Comes and goes: the last one to leave removes the log. */
static int pass_by(void *payload)
{
    rowlock_client *client = NULL;
    rowlock_lock *lock = NULL;
    rowlock_error err;
    int wrong;

    (void)payload;
    wrong = fault_try_open(&client, board->path, NULL, &err) != ROWLOCK_OK;
    wrong += rowlock_acquire(&lock, client, "other", NULL, &err) != ROWLOCK_OK;
    wrong += rowlock_release(&lock, &err) != ROWLOCK_OK;
    rowlock_close(&client);
    return wrong;
}

/* How many of the two can be had beside the holder? */
static int rival(void *payload)
{
    rowlock_client *client = NULL;
    rowlock_lock *lock = NULL;
    rowlock_error err;
    int had = 0;

    (void)payload;
    if (fault_try_open(&client, board->path, NULL, &err) != ROWLOCK_OK)
        return 9;
    had += rowlock_acquire(&lock, client, "one", NULL, &err) == ROWLOCK_OK;
    had += rowlock_acquire(&lock, client, "two", NULL, &err) == ROWLOCK_OK;
    rowlock_close(&client);
    return had;
}

static int in_child(int (*fn)(void *payload), void *payload)
{
    return process_wait(process_start(fn, payload), 30000);
}

static int setup(void **state)
{
    rowlock_options options = ROWLOCK_OPTIONS_INIT;
    rowlock_client *client;

    (void)state;
    board = process_shared(sizeof(*board));
    if (board == NULL)
        return -1;
    snprintf(board->path, sizeof(board->path), "%.600s.daemon", fault.backend.address);
    options.schema_policy = ROWLOCK_SCHEMA_CREATE;
    client = fault_open(board->path, &options);
    rowlock_close(&client);
    return 0;
}

static int teardown(void **state)
{
    char path[720];

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        snprintf(path, sizeof(path), "%s%s", board->path, (const char *[]){"", "-wal", "-shm"}[i]);
        unlink(path);
    }
    process_unshare(board, sizeof(*board));
    return 0;
}

static void without_a_log(void)
{
    sqlite3 *db = open_own(0);

    assert_int_equal(SQLITE_OK, sqlite3_exec(db, "PRAGMA journal_mode = DELETE", NULL, NULL, NULL));
    assert_int_equal(SQLITE_OK, sqlite3_close(db));
}

static void run_daemon(enum way way, int expected)
{
    int had;

    assert_int_equal(0, in_child(become_daemon, &way));
    assert_int_equal(0, process_await(&board->opened, 1, 20000));
    assert_int_equal(0, in_child(pass_by, NULL));
    process_signal(&board->go, 1);
    assert_int_equal(0, process_await(&board->held, 1, 20000));
    had = in_child(rival, NULL);
    process_signal(&board->end, 1);
    assert_int_equal(0, process_await(&board->ended, 1, 20000));
    print_message("the daemon: %d: %s\n", board->status, board->message);
    assert_int_equal(expected, board->status);
    assert_int_equal(expected == ROWLOCK_OK ? 0 : 2, had);
}

static void daemon_inherits(void **state)
{
    (void)state;
    run_daemon(OPENED_BEFORE, ROWLOCK_ECONNECT);
    assert_non_null(strstr(board->message, "fork"));
}

static void daemon_inherits_a_transaction(void **state)
{
    (void)state;
    without_a_log();
    run_daemon(READING, ROWLOCK_ECONNECT);
    assert_non_null(strstr(board->message, "fork"));
}

/* There SQLite has no locks between transactions. */
static void daemon_inherits_without_a_log(void **state)
{
    (void)state;
    without_a_log();
    run_daemon(OPENED_BEFORE, ROWLOCK_OK);
}

static void daemon_closes_what_it_inherited(void **state)
{
    (void)state;
    run_daemon(CLOSED_AFTER, ROWLOCK_OK);
}

static void daemon_opens_its_own(void **state)
{
    (void)state;
    run_daemon(OPENED_AFTER, ROWLOCK_OK);
}

/* ---- a descriptor of the file that is closed ---------------------------------------------------
 */

/* As a copy for a backup, or a checksum, does. */
static void look_into_file(void)
{
    int fd = open(board->path, O_RDONLY | O_CLOEXEC);

    if (fd >= 0)
        close(fd);
}

static int guard_in_own(rowlock_lock *lock)
{
    sqlite3 *db = open_own(1);
    rowlock_error err;
    int status = rowlock_sqlite_guard(lock, db, &err);

    sqlite3_close(db);
    return status;
}

static int drop_locks(void *payload)
{
    int with_own = *(int *)payload;
    sqlite3 *db = with_own ? open_own(0) : NULL;
    rowlock_client *client = NULL;
    rowlock_lock *one = NULL, *two = NULL;
    rowlock_error err;

    board->status = fault_try_open(&client, board->path, NULL, &err);
    board->status += rowlock_acquire(&one, client, "one", NULL, &err);
    board->status += guard_in_own(one);
    look_into_file();
    process_signal(&board->opened, 1);
    process_await(&board->go, 1, 20000);
    board->later = rowlock_acquire(&two, client, "two", NULL, &err);
    snprintf(board->message, sizeof(board->message), "%s", err.message);
    board->guard = guard_in_own(one);
    process_signal(&board->held, 1);
    process_await(&board->end, 1, 20000);
    rowlock_close(&client);
    sqlite3_close(db);
    board->anew = fault_try_open(&client, board->path, NULL, &err);
    board->anew += rowlock_acquire(&two, client, "three", NULL, &err);
    rowlock_close(&client);
    return 0;
}

static int run_drop_locks(int with_own)
{
    pid_t child = process_start(drop_locks, &with_own);
    int had;

    assert_int_equal(0, process_await(&board->opened, 1, 20000));
    assert_int_equal(0, in_child(pass_by, NULL));
    process_signal(&board->go, 1);
    assert_int_equal(0, process_await(&board->held, 1, 20000));
    had = in_child(rival, NULL);
    process_signal(&board->end, 1);
    assert_int_equal(0, process_wait(child, 20000));
    print_message("%d, guard %d: %s\n", board->later, board->guard, board->message);
    assert_int_equal(ROWLOCK_OK, board->status);
    assert_int_equal(ROWLOCK_OK, board->anew);
    assert_int_equal(0, in_child(pass_by, NULL));
    return had;
}

/* The client's only connection is replaced by one that has the locks again. */
static void a_descriptor_is_closed(void **state)
{
    (void)state;
    assert_int_equal(0, run_drop_locks(0));
    assert_int_equal(ROWLOCK_OK, board->later);
}

/* A connection of the application's keeps SQLite in its belief: the client cannot be used. */
static void a_descriptor_is_closed_beside(void **state)
{
    (void)state;
    assert_int_equal(1, run_drop_locks(1)); /* "one" is held, "two" is not */
    assert_true(board->later == ROWLOCK_ECONNECT || board->later == ROWLOCK_EUNKNOWN);
    assert_non_null(strstr(board->message, "closed"));
    assert_int_equal(ROWLOCK_EDRIVER, board->guard);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test_setup_teardown(daemon_inherits, setup, teardown),
        cmocka_unit_test_setup_teardown(daemon_inherits_a_transaction, setup, teardown),
        cmocka_unit_test_setup_teardown(daemon_inherits_without_a_log, setup, teardown),
        cmocka_unit_test_setup_teardown(daemon_closes_what_it_inherited, setup, teardown),
        cmocka_unit_test_setup_teardown(daemon_opens_its_own, setup, teardown),
        cmocka_unit_test_setup_teardown(a_descriptor_is_closed, setup, teardown),
        cmocka_unit_test_setup_teardown(a_descriptor_is_closed_beside, setup, teardown),
    };
    return FAULT_MAIN(argc, argv, 0, cases);
}
