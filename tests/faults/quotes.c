/* SPDX-License-Identifier: MIT
 *
 * Tables in a schema, or a database, whose name has the quote of identifiers in it: leases,
 * transactions and the guard find them there. */
#include "fault.h"

#include <stdio.h>
#include <string.h>

static const char *const name = "lock";

/* The address with that schema on the search_path, or with that database. */
static void address_of(char *out, size_t size)
{
    const struct fault_address change = {.database = "we%60ird"};

    if (fault_is("mysql")) {
        assert_int_equal(fault_address(out, size, fault.backend.address, &change), 0);
        return;
    }
    snprintf(out, size, "%s%coptions=-csearch_path%%3D%%22we%%22%%22ird%%22", fault.backend.address,
             strchr(fault.backend.address, '?') == NULL ? '?' : '&');
}

static int set_up(void **state)
{
    (void)state;
    fault_sql(fault_is("mysql") ? "CREATE DATABASE `we``ird`" : "CREATE SCHEMA \"we\"\"ird\"");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    fault_sql(fault_is("mysql") ? "DROP DATABASE `we``ird`" : "DROP SCHEMA \"we\"\"ird\" CASCADE");
    return 0;
}

static void use_leases(rowlock_client *client)
{
    rowlock_lock *lock = fault_acquire(client, name, 10000);
    rowlock_error err;

    assert_status(ROWLOCK_OK, rowlock_renew(lock, 0, &err), &err);
    assert_int_equal(fault_row(client, name).found, 2);
    fault_release(&lock);
    assert_int_equal(fault_row(client, name).found, 1);
}

static void use_transactions(rowlock_client *client)
{
    rowlock_tx *tx = NULL;
    rowlock_error err;

    assert_status(ROWLOCK_OK, rowlock_tx_begin(&tx, client, &name, 1, NULL, &err), &err);
    assert_status(ROWLOCK_OK, rowlock_tx_commit(&tx, &err), &err);
}

/* On a connection of the application's, whose own schema or database is another one. */
static void use_native(rowlock_client *client)
{
    const struct backend_kind *kind = fault.backend.kind;
    void *session = kind->sql_open(fault.backend.address);
    rowlock_lock *lock = fault_acquire(client, "leased", 10000);
    rowlock_error err;
    int locked, guarded;

    assert_non_null(session);
    assert_int_equal(kind->sql_run(session, "BEGIN", NULL, 0), 0);
    locked = kind->lock(NULL, client, session, &name, 1, NULL, &err);
    if (locked == ROWLOCK_OK)
        guarded = kind->guard(lock, session, &err);
    else
        guarded = locked;
    kind->sql_run(session, "ROLLBACK", NULL, 0);
    kind->sql_close(session);
    fault_release(&lock);
    assert_status(ROWLOCK_OK, guarded, &err);
}

static void tables_are_found_whatever_their_place_is_called(void **state)
{
    char address[2048];
    rowlock_options options = ROWLOCK_OPTIONS_INIT;
    rowlock_client *client;

    (void)state;
    address_of(address, sizeof address);
    options.schema_policy = ROWLOCK_SCHEMA_CREATE;
    client = fault_open(address, &options);
    use_leases(client);
    use_transactions(client);
    use_native(client);
    assert_int_equal(fault_sql_number(fault_is("mysql")
                                          ? "SELECT COUNT(*) FROM information_schema.tables "
                                            "WHERE table_schema = 'we`ird'"
                                          : "SELECT count(*) FROM pg_tables "
                                            "WHERE schemaname = 'we\"ird'") > 0,
                     1);
    rowlock_close(&client);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test_setup_teardown(tables_are_found_whatever_their_place_is_called, set_up,
                                        tear_down),
    };

    return FAULT_MAIN(argc, argv, 0, cases);
}
