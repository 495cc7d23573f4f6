/* SPDX-License-Identifier: MIT
 *
 * Connections of the application's on which nothing can be locked, and other wrong arguments: a
 * clear refusal, and everything as it was. */
#include <stdio.h>

#include "conformance.h"

static void expect_refused(struct fixture *f, int status, const char *what)
{
    if (status != ROWLOCK_EINVAL)
        print_error("%s:\n", what);
    expect_status(ROWLOCK_EINVAL, status, &f->err);
    assert_int_equal(f->err.status, ROWLOCK_EINVAL);
    assert_true(f->err.message[0] != '\0');
    assert_null(strchr(f->err.message, '\n'));
}

/* Makes the bad session, runs the case's call, and looks whether the session is as before. */
static void try_bad(struct fixture *f, const struct backend_bad *bad, rowlock_client *client,
                    rowlock_lock *lock)
{
    void *session = bad->open(f->backend->address);
    assert_non_null(session);
    session_keep(f, session);
    for (int i = 0; i < 2; i++) { /* the refusal itself changes nothing either */
        int status = lock != NULL ? guard_in(f, lock, session)
                                  : lock_in(f, client, session, "lock", i * 5000, NULL);
        expect_refused(f, status, bad->name);
    }
    int unharmed = bad->unharmed == NULL || bad->unharmed(session);
    if (!unharmed)
        print_error("'%s' was harmed\n", bad->name);
    assert_true(unharmed);
    sql_end(f, session);
}

static void test_native_lock_refuses_bad_connections_unharmed(void **state)
{
    struct fixture *f = *state;
    rowlock_client *client = client_open(f);
    const struct backend_bad *bad = f->backend->kind->bad;
    int64_t before = now_us();
    for (size_t i = 0; bad[i].name != NULL; i++)
        try_bad(f, &bad[i], client, NULL);
    expect_between(now_us() - before, 0, SLACK_US); /* waits for nothing */
    assert_false(row_exists(f, "lock"));
    expect_ok(tx_begin(f, &f->txs[0], client, "lock", 0), &f->err);
}

static void test_guard_refuses_bad_connections_unharmed(void **state)
{
    struct fixture *f = *state;
    rowlock_client *client = client_open(f);
    rowlock_lock *lock = hold(f, client, "lock");
    const struct backend_bad *bad = f->backend->kind->bad;
    for (size_t i = 0; bad[i].name != NULL; i++)
        try_bad(f, &bad[i], client, lock);
    expect_ok(rowlock_check(lock), NULL);
    expect_ok(rowlock_renew(lock, 0, &f->err), &f->err);
    let_go(f, &lock);
}

static void test_native_lock_with_bad_arguments_is_einval(void **state)
{
    struct fixture *f = *state;
    rowlock_client *client = client_open(f);
    void *session = session_open(f);
    static const char *const names[] = {"a", "b", "a"}, *const empty[] = {""};
    static const char *const missing[] = {NULL};
    rowlock_tx_options sizeless = {.size = 0}, early = ROWLOCK_TX_OPTIONS_INIT;
    early.wait_ms = -2;
    const struct backend_kind *kind = f->backend->kind;
    uint64_t fences[3];
    expect_refused(f, kind->lock(fences, NULL, session, names, 1, NULL, &f->err), "no client");
    expect_refused(f, kind->lock(fences, client, NULL, names, 1, NULL, &f->err), "no connection");
    expect_refused(f, kind->lock(fences, client, session, NULL, 1, NULL, &f->err), "no names");
    expect_refused(f, kind->lock(fences, client, session, names, 0, NULL, &f->err), "none");
    expect_refused(f, kind->lock(fences, client, session, missing, 1, NULL, &f->err), "NULL");
    expect_refused(f, kind->lock(fences, client, session, empty, 1, NULL, &f->err), "empty");
    expect_refused(f, kind->lock(fences, client, session, names, 3, NULL, &f->err), "twice");
    expect_refused(f, kind->lock(fences, client, session, names, 1, &sizeless, &f->err), "size");
    expect_refused(f, kind->lock(fences, client, session, names, 1, &early, &f->err), "wait_ms");
    expect_status(ROWLOCK_EINVAL, kind->lock(NULL, client, session, names, 0, NULL, NULL), NULL);
    struct rows rows = rows_read(f);
    assert_int_equal(rows.count, 0);
    rows_free(&rows);
    expect_ok(lock_in(f, client, session, "a", 0, fences), &f->err);
    sql_in(f, session, "COMMIT");
}

static void test_guard_with_bad_arguments_is_einval(void **state)
{
    struct fixture *f = *state;
    rowlock_lock *lock = hold(f, client_open(f), "lock");
    void *session = session_open(f);
    expect_refused(f, guard_in(f, NULL, session), "no lock");
    expect_refused(f, guard_in(f, lock, NULL), "no connection");
    expect_status(ROWLOCK_EINVAL, f->backend->kind->guard(NULL, session, NULL), NULL);
    expect_ok(guard_in(f, lock, session), &f->err);
    sql_in(f, session, "COMMIT");
    let_go(f, &lock);
}

/* The function of another driver gets this one's connection: it must not look into it. */
static void test_native_functions_of_another_driver_are_einval(void **state)
{
    struct fixture *f = *state;
    rowlock_client *client = client_open(f);
    rowlock_lock *lock = hold(f, client, "lock");
    void *session = session_open(f);
    static const char *const names[] = {"other"};
    const struct backend_kind *other = backend_other(f->backend->kind);
    rowlock_driver stranger = *f->driver;
    stranger.name = "stranger";
    if (other != NULL) {
        expect_refused(f, other->lock(NULL, client, session, names, 1, NULL, &f->err), "lock");
        expect_refused(f, other->guard(lock, session, &f->err), "guard");
    }
    expect_refused(
        f, rowlock_native_lock(NULL, client, &stranger, session, names, 1, NULL, &f->err), "lock");
    expect_refused(f, rowlock_native_guard(lock, &stranger, session, &f->err), "guard");
    expect_refused(f, rowlock_native_lock(NULL, client, NULL, session, names, 1, NULL, &f->err),
                   "no driver");
    expect_ok(guard_in(f, lock, session), &f->err);
    expect_ok(lock_in(f, client, session, "other", 0, NULL), &f->err);
    sql_in(f, session, "COMMIT");
    let_go(f, &lock);
}

static void test_guard_of_a_closed_client_is_eclosed(void **state)
{
    struct fixture *f = *state;
    rowlock_client *client = client_open(f);
    rowlock_lock *lock = hold(f, client, "lock");
    void *session = session_open(f);
    client_close(f, &client);
    expect_status(ROWLOCK_ECLOSED, guard_in(f, lock, session), &f->err);
    assert_true(f->err.message[0] != '\0');
    sql_in(f, session, "COMMIT");
    expect_status(ROWLOCK_ECLOSED, rowlock_release(&lock, &f->err), &f->err);
}

/* Another database of the server, with tables and the same rows. */
struct twin {
    char name[64], address[1100];
    void *conn;
};

static int twin_fill(struct fixture *f, struct twin *twin)
{
    rowlock_op free = op_new("free", "ann"), held = op_new("lock", "ann");
    int status = conn_begin(f, &twin->conn, twin->address, f->prefix);
    if (status == ROWLOCK_OK)
        status = tables_to(f, twin->conn, f->driver->migration_count);
    if (status == ROWLOCK_OK)
        status = f->driver->acquire(twin->conn, &held, 1, 1, CALL_MS, &f->err);
    if (status == ROWLOCK_OK)
        status = f->driver->acquire(twin->conn, &free, 1, 1, CALL_MS, &f->err);
    rowlock_op freed = op_of(&free);
    if (status == ROWLOCK_OK)
        status = f->driver->release(twin->conn, &freed, 1, CALL_MS, &f->err);
    return status;
}

static int is_elsewhere(struct fixture *f, int status)
{
    if (status == ROWLOCK_EINVAL && strstr(f->err.message, "another server or database") != NULL)
        return 1;
    print_error("status %d: %s\n", status, f->err.message);
    return 0;
}

/* Refused on a session of the twin's, whose row is as free as before and whose transaction goes on.
 */
static int twin_refuses(struct fixture *f, const struct twin *twin, rowlock_client *client,
                        rowlock_lock *lock)
{
    const struct backend_kind *kind = f->backend->kind;
    void *session = kind->sql_open(twin->address);
    rowlock_op op = op_new("free", "bob");
    int good = session != NULL && kind->sql_run(session, "BEGIN", NULL, 0) == 0;
    good = good && is_elsewhere(f, lock_in(f, client, session, "free", 0, NULL));
    good = good && is_elsewhere(f, lock_in(f, client, session, "free", 5000, NULL));
    good = good && is_elsewhere(f, guard_in(f, lock, session));
    good = good && f->driver->acquire(twin->conn, &op, 1, 1, CALL_MS, &f->err) == ROWLOCK_OK;
    good = good && op.status == ROWLOCK_OK && kind->sql_run(session, "COMMIT", NULL, 0) == 0;
    if (session != NULL)
        kind->sql_close(session);
    return good;
}

static void test_connections_to_another_database_are_refused(void **state)
{
    struct fixture *f = *state;
    rowlock_client *client = client_open(f);
    rowlock_lock *lock = hold(f, client, "lock");
    struct twin twin = {.conn = NULL};
    char sql[96];
    grant_released(f, "free", "ann");
    snprintf(twin.name, sizeof(twin.name), "%stwin", f->prefix);
    f->backend->kind->other_database(twin.address, sizeof(twin.address), f->backend->address,
                                     twin.name);
    snprintf(sql, sizeof(sql), "CREATE DATABASE %s", twin.name);
    sql_run(f, sql, NULL, 0);
    int filled = twin_fill(f, &twin);
    int good = filled == ROWLOCK_OK && twin_refuses(f, &twin, client, lock);
    conn_end(f, twin.conn);
    snprintf(sql, sizeof(sql), "DROP DATABASE %s", twin.name);
    sql_run(f, sql, NULL, 0);
    assert_int_equal(filled, ROWLOCK_OK);
    assert_true(good);
    expect_ok(rowlock_check(lock), NULL); /* not LOST */
    void *session = session_open(f);
    expect_ok(guard_in(f, lock, session), &f->err);
    expect_ok(lock_in(f, client, session, "free", 0, NULL), &f->err);
    sql_in(f, session, "COMMIT");
    let_go(f, &lock);
}

#define TX (BACKEND_TRANSACTIONS)

static const struct test_case cases[] = {
    CASE_IF(test_native_lock_refuses_bad_connections_unharmed, TX),
    CASE_IF(test_guard_refuses_bad_connections_unharmed, TX),
    CASE_IF(test_native_lock_with_bad_arguments_is_einval, TX),
    CASE_IF(test_guard_with_bad_arguments_is_einval, TX),
    CASE_IF(test_native_functions_of_another_driver_are_einval, TX),
    CASE_IF(test_guard_of_a_closed_client_is_eclosed, TX),
    CASE_IF(test_connections_to_another_database_are_refused, TX | BACKEND_APART),
};

const struct suite native_input_suite = SUITE("native_input", cases);
