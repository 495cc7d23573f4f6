/* SPDX-License-Identifier: MIT
 *
 * Tables and views that stand in for ours: a temporary table of the same name, which the server
 * prefers to the real one, in the application's session or in one that the application had in its
 * hands; the same name in another database; a view instead of a table. Two owners at once are
 * never the answer. */
#include <stdio.h>
#include <string.h>

#include "native.h"
#include "refused.h"

#define OTHER "rowlock_test_other"

static rowlock_client *client;  /* with one connection */
static rowlock_client *another; /* the one that must be excluded */
static const char *name;
static rowlock_error err;

static int set_up(void **state)
{
    rowlock_options options = ROWLOCK_OPTIONS_INIT;
    rowlock_lock *lock;

    (void)state;
    options.max_connections = 1;
    client = fault_open(fault.backend.address, &options);
    another = fault_open(fault.backend.address, NULL);
    name = fault_name("shadowed");
    lock = fault_acquire(client, name, 0); /* makes the row */
    fault_release(&lock);
    fault_sql("DROP TABLE IF EXISTS shadowed_copy");
    fault_sql("CREATE TABLE shadowed_copy LIKE {locks}");
    fault_sql("INSERT INTO shadowed_copy SELECT * FROM {locks}");
    fault_sql("DROP DATABASE IF EXISTS " OTHER);
    fault_sql("CREATE DATABASE " OTHER);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    rowlock_close(&client);
    rowlock_close(&another);
    fault_sql("DROP TABLE shadowed_copy");
    fault_sql("DROP DATABASE " OTHER);
    return 0;
}

/* A copy of the table of locks, which the session sees from now on. */
static void shadow(struct native *native)
{
    assert_int_equal(
        0, native_run(native, "CREATE TEMPORARY TABLE %slocks LIKE shadowed_copy", fault.prefix));
    assert_int_equal(
        0, native_run(native, "INSERT INTO %slocks SELECT * FROM shadowed_copy", fault.prefix));
}

static void assert_excludes(void)
{
    rowlock_lock *lock = fault_acquire(client, name, 0), *second = NULL;
    int status = rowlock_acquire(&second, another, name, NULL, &err);

    assert_status(ROWLOCK_BUSY, status, &err);
    fault_release(&lock);
}

static void assert_names_it(const char *word)
{
    if (strstr(err.message, word) == NULL)
        fail_msg("\"%s\" does not say %s", err.message, word);
}

/* What the application does on a connection of the client's lasts longer than its transaction. */
static void left_on_own_connection(void **state)
{
    struct native native;
    rowlock_tx *tx = NULL;

    (void)state;
    assert_status(ROWLOCK_OK, rowlock_tx_begin(&tx, client, &name, 1, NULL, &err), &err);
    native_borrow(&native, tx);
    shadow(&native);
    assert_status(ROWLOCK_OK, rowlock_tx_commit(&tx, &err), &err);
    assert_excludes();
}

static void other_database_on_own_connection(void **state)
{
    struct native native;
    rowlock_tx *tx = NULL, *second = NULL;

    (void)state;
    fault_sql("CREATE TABLE " OTHER ".{locks} LIKE {locks}");
    fault_sql("CREATE TABLE " OTHER ".{waiters} LIKE {waiters}");
    assert_status(ROWLOCK_OK, rowlock_tx_begin(&tx, client, &name, 1, NULL, &err), &err);
    native_borrow(&native, tx);
    assert_int_equal(0, native_run(&native, "USE " OTHER));
    assert_status(ROWLOCK_OK, rowlock_tx_commit(&tx, &err), &err);
    assert_excludes();
    assert_status(ROWLOCK_OK, rowlock_tx_begin(&tx, client, &name, 1, NULL, &err), &err);
    assert_int_equal(ROWLOCK_BUSY, rowlock_tx_begin(&second, another, &name, 1, NULL, &err));
    rowlock_tx_rollback(&tx, NULL);
}

static void application_locks(void **state)
{
    struct native native;
    uint64_t fence;

    (void)state;
    assert_int_equal(0, native_open(&native, fault.backend.address, 0));
    shadow(&native);
    assert_int_equal(0, native_run(&native, "START TRANSACTION"));
    assert_status(ROWLOCK_EINVAL, native_lock(&fence, client, &native, &name, 1, NULL, &err), &err);
    assert_names_it("TEMPORARY");
    assert_int_equal(
        0, native_run(&native, "DROP TEMPORARY TABLE %slocks", fault.prefix)); /* no COMMIT */
    assert_status(ROWLOCK_OK, native_lock(&fence, client, &native, &name, 1, NULL, &err), &err);
    assert_int_equal(0, native_commit(&native));
    native_close(&native);
}

static void application_guards(void **state)
{
    rowlock_lock *lock = fault_acquire(client, name, 0);
    struct native native;

    (void)state;
    fault_sql("TRUNCATE shadowed_copy");
    fault_sql("INSERT INTO shadowed_copy SELECT * FROM {locks}");
    assert_int_equal(0, native_open(&native, fault.backend.address, 0));
    shadow(&native);
    assert_int_equal(0, native_run(&native, "START TRANSACTION"));
    assert_status(ROWLOCK_EINVAL, native_guard(lock, &native, &err), &err);
    assert_names_it("TEMPORARY");
    native_close(&native);
    fault_release(&lock);
}

/* On the connection of a transaction that is open: the application's doing, as on its own. */
static void in_own_transaction(void **state)
{
    rowlock_lock *lock = fault_acquire(another, name, 0);
    const char *other = fault_name("shadowed");
    struct native native;
    rowlock_tx *tx = NULL;

    (void)state;
    assert_status(ROWLOCK_OK, rowlock_tx_begin(&tx, client, &other, 1, NULL, &err), &err);
    native_borrow(&native, tx);
    shadow(&native);
    assert_status(ROWLOCK_EINVAL, native_guard(lock, &native, &err), &err);
    rowlock_tx_rollback(&tx, NULL);
    fault_release(&lock);
}

static void view(void **state)
{
    static const char *const tables[] = {"locks", "waiters", "schema", "floor"};
    char sql[256];

    (void)state;
    for (size_t i = 0; i < sizeof(tables) / sizeof(*tables); i++) {
        snprintf(sql, sizeof(sql), "RENAME TABLE {%s} TO " OTHER ".{%s}", tables[i], tables[i]);
        fault_sql(sql);
        snprintf(sql, sizeof(sql), "CREATE VIEW {%s} AS SELECT * FROM " OTHER ".{%s}", tables[i],
                 tables[i]);
        fault_sql(sql);
        assert_refused(ROWLOCK_ESCHEMA, fault.backend.address, ROWLOCK_SCHEMA_REQUIRE, fault.prefix,
                       "is a view");
        snprintf(sql, sizeof(sql), "DROP VIEW {%s}", tables[i]);
        fault_sql(sql);
        snprintf(sql, sizeof(sql), "RENAME TABLE " OTHER ".{%s} TO {%s}", tables[i], tables[i]);
        fault_sql(sql);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test_setup_teardown(left_on_own_connection, set_up, tear_down),
        cmocka_unit_test_setup_teardown(other_database_on_own_connection, set_up, tear_down),
        cmocka_unit_test_setup_teardown(application_locks, set_up, tear_down),
        cmocka_unit_test_setup_teardown(application_guards, set_up, tear_down),
        cmocka_unit_test_setup_teardown(in_own_transaction, set_up, tear_down),
        cmocka_unit_test_setup_teardown(view, set_up, tear_down),
    };

    return FAULT_MAIN(argc, argv, 0, cases);
}
