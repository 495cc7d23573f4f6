/* SPDX-License-Identifier: MIT
 *
 * Tables and views that stand in for ours: a temporary table of the same name, which the server
 * prefers to the real one, in the application's session or in one that the application had in its
 * hands; the same name in another database; a view instead of a table. Two owners at once are
 * never the answer. And a table that is being renamed: the look at it is bounded. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

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

/* Has the table of locks for itself, and waits for the other one until that is free or 20 s have
 * passed: tables are locked in the order of their names. */
static void *rename_both(void *payload)
{
    struct native *native = payload;

    native_run(native, "SET lock_wait_timeout = 20");
    native_run(native, "RENAME TABLE %slocks TO %sgone, zz_used TO zz_gone", fault.prefix,
               fault.prefix);
    return NULL;
}

/* The number of its session; 0: it never waited. */
static long long find_renaming(void)
{
    long long id = 0;

    for (int i = 0; i < 5000 && id == 0; i++) {
        usleep(1000);
        id =
            fault_sql_number("SELECT COALESCE(MAX(id), 0) FROM information_schema.processlist "
                             "WHERE info LIKE 'RENAME TABLE%' AND state LIKE 'Waiting for table%'");
    }
    return id;
}

static int is_maria(void)
{
    return fault_sql_number("SELECT VERSION() LIKE '%MariaDB%'") == 1;
}

static void renamed(void **state)
{
    rowlock_options options = ROWLOCK_OPTIONS_INIT;
    struct native uses, renames, guards;
    rowlock_client *hasty;
    rowlock_lock *lock;
    pthread_t thread;
    long long renaming, waited;

    (void)state;
    if (!is_maria())
        return; /* it cannot be bounded there */
    options.call_timeout_ms = 300;
    hasty = fault_open(fault.backend.address, &options);
    lock = fault_acquire(hasty, name, 60000);
    fault_sql("DROP TABLE IF EXISTS zz_used");
    fault_sql("CREATE TABLE zz_used (a INT)");
    assert_int_equal(0, native_open(&uses, fault.backend.address, 0));
    assert_int_equal(0, native_open(&renames, fault.backend.address, 0));
    assert_int_equal(0, native_open(&guards, fault.backend.address, 0));
    assert_int_equal(0, native_run(&uses, "START TRANSACTION"));
    assert_int_equal(0, native_run(&uses, "SELECT * FROM zz_used"));
    assert_int_equal(0, native_run(&guards, "START TRANSACTION"));
    assert_int_equal(0, pthread_create(&thread, NULL, rename_both, &renames));
    renaming = find_renaming();
    assert_int_not_equal(0, renaming);
    waited = fault_sql_number("SELECT UNIX_TIMESTAMP()");
    assert_int_not_equal(ROWLOCK_OK, native_guard(lock, &guards, &err));
    waited = fault_sql_number("SELECT UNIX_TIMESTAMP()") - waited;
    assert_int_equal(0, native_run(&guards, "KILL QUERY %lld", renaming));
    assert_int_equal(0, pthread_join(thread, NULL));
    assert_in_range(waited, 0, 10);
    native_close(&guards);
    native_close(&renames);
    native_close(&uses);
    fault_sql("DROP TABLE zz_used");
    fault_release(&lock);
    rowlock_close(&hasty);
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
        cmocka_unit_test_setup_teardown(renamed, set_up, tear_down),
    };

    return FAULT_MAIN(argc, argv, 0, cases);
}
