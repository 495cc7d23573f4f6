/* SPDX-License-Identifier: MIT
 *
 * A role whose search_path begins with a schema of somebody else's, before pg_catalog, which has a
 * function, an operator or a type for each that pg_catalog has on common types, and those that
 * would be an exact match where pg_catalog needs a cast. Each raises an error when it is called.
 * Nothing of ours may call any. */
#include "fault.h"
#include "native.h"

#include <stdio.h>
#include <string.h>

#define ROLE          "rowlock_hostile"
#define ROLE_PASSWORD "r0le-Pa55w0rd"

static const char body[] = "LANGUAGE plpgsql AS ''BEGIN RAISE EXCEPTION ''''hostile''''; END''";

static void make_all(const char *find)
{
    char sql[2048];

    snprintf(sql, sizeof sql,
             "DO $do$ DECLARE made record; b text := '%s'; BEGIN FOR made IN %s LOOP "
             "BEGIN EXECUTE replace(made.sql, '@', b); EXCEPTION WHEN OTHERS THEN NULL; END; "
             "END LOOP; END $do$",
             body, find);
    fault_sql(sql);
}

static void make_functions(void)
{
    make_all("SELECT format('CREATE FUNCTION evil.%I(%s) RETURNS %s%s @', p.proname, "
             "pg_get_function_identity_arguments(p.oid), "
             "CASE WHEN p.proretset THEN 'SETOF ' ELSE '' END, "
             "format_type(p.prorettype, NULL)) AS sql FROM pg_proc AS p "
             "WHERE p.pronamespace = 'pg_catalog'::regnamespace AND p.prokind = 'f' "
             "AND p.prorettype <> 'internal'::regtype "
             "AND NOT 'internal'::regtype = ANY (p.proargtypes::oid[])");
}

static void make_operators(void)
{
    make_all(
        "SELECT format('CREATE FUNCTION evil.\"%s %s %s\"(%2$s, %3$s) RETURNS %s @', o.n, o.l, "
        "o.r, o.t) || format('; CREATE OPERATOR evil.%s (LEFTARG = %s, RIGHTARG = %s, "
        "FUNCTION = evil.\"%1$s %2$s %3$s\")', o.n, o.l, o.r) AS sql FROM "
        "(SELECT p.oprname AS n, format_type(p.oprleft, NULL) AS l, "
        "format_type(p.oprright, NULL) AS r, format_type(p.oprresult, NULL) AS t "
        "FROM pg_operator AS p WHERE p.oprnamespace = 'pg_catalog'::regnamespace "
        "AND p.oprleft <> 0 UNION "
        "SELECT n, l, r, CASE WHEN n < '0' AND n NOT LIKE '%=' THEN l ELSE 'boolean' END "
        "FROM unnest(ARRAY['+', '-', '*', '/', '=', '<', '>', '<=', '>=', '<>']) AS n, "
        "unnest(ARRAY['integer', 'bigint', 'numeric', 'double precision']) AS l, "
        "unnest(ARRAY['integer', 'bigint', 'numeric', 'double precision']) AS r) AS o");
}

static void make_hostile(char *address, size_t size)
{
    fault_sql("CREATE SCHEMA evil");
    make_functions();
    make_operators();
    fault_sql("CREATE DOMAIN evil.text AS pg_catalog.int4");
    fault_sql("CREATE DOMAIN evil.uuid AS pg_catalog.int4");
    fault_sql("CREATE DOMAIN evil.bytea AS pg_catalog.int4");
    fault_sql("CREATE ROLE " ROLE " LOGIN PASSWORD '" ROLE_PASSWORD "'");
    fault_sql("ALTER ROLE " ROLE " SET search_path = evil, pg_catalog, public");
    fault_sql("GRANT USAGE ON SCHEMA evil TO " ROLE);
    fault_sql("GRANT SELECT, INSERT, UPDATE, DELETE ON {locks}, {waiters}, {schema} TO " ROLE);
    fault_sql("GRANT SELECT, UPDATE ON {floor} TO " ROLE);
    assert_true(fault_sql_number("SELECT count(*) FROM pg_operator WHERE oprnamespace = "
                                 "'evil'::regnamespace") > 500);
    assert_true(fault_sql_number("SELECT count(*) FROM pg_proc WHERE pronamespace = "
                                 "'evil'::regnamespace") > 2000);
    assert_int_equal(
        0, fault_address(address, size, fault.backend.address,
                         &(struct fault_address){.user = ROLE, .password = ROLE_PASSWORD}));
}

static void leases(rowlock_client *client)
{
    static struct fault_batch batch;
    rowlock_lock *lock;
    rowlock_error err;

    for (int i = 0; i < 3; i++) {
        lock = fault_acquire(client, "hostile", 5000);
        assert_status(ROWLOCK_OK, rowlock_renew(lock, 0, &err), &err);
        assert_int_equal(2, fault_row(client, "hostile").found);
        fault_release(&lock);
    }
    fault_batch_init(&batch, "hostile");
    assert_status(ROWLOCK_OK,
                  rowlock_acquire_many(batch.locks, client, batch.names, FAULT_BATCH, NULL, &err),
                  &err);
    for (int k = 0; k < FAULT_BATCH; k++)
        fault_release(&batch.locks[k]);
}

static void transactions(rowlock_client *client, const char *address, const char *before)
{
    const char *name = "hostile tx", *held = "hostile guard";
    rowlock_tx *tx = NULL;
    rowlock_lock *lock;
    struct native own = {0};
    rowlock_error err;

    assert_status(ROWLOCK_OK, rowlock_tx_begin(&tx, client, &name, 1, NULL, &err), &err);
    assert_status(ROWLOCK_OK, rowlock_tx_commit(&tx, &err), &err);
    assert_int_equal(0, native_open(&own, address, 0));
    if (before != NULL)
        assert_int_equal(0, native_run(&own, "%s", before));
    assert_int_equal(0, native_run(&own, "BEGIN"));
    assert_status(ROWLOCK_OK, native_lock(NULL, client, &own, &name, 1, NULL, &err), &err);
    lock = fault_acquire(client, held, 5000);
    assert_status(ROWLOCK_OK, native_guard(lock, &own, &err), &err);
    assert_status(ROWLOCK_BUSY, native_lock(NULL, client, &own, &held, 1, NULL, &err), &err);
    assert_int_equal(0, native_run(&own, "SHOW search_path"));
    assert_string_equal(own.out, "evil, pg_catalog, public|\n");
    assert_int_equal(0, native_commit(&own));
    fault_release(&lock);
    native_close(&own);
}

static void nothing_hostile_is_called(void **state)
{
    rowlock_client *client;
    char address[1024], temporary[128];

    (void)state;
    make_hostile(address, sizeof address);
    client = fault_open(address, NULL);
    leases(client);
    transactions(client, address, NULL);
    snprintf(temporary, sizeof temporary, "CREATE TEMP TABLE %slocks (name int)", fault.prefix);
    transactions(client, address, temporary);
    rowlock_close(&client);
}

static int drop_hostile(void **state)
{
    char out[64];

    (void)state;
    fault_sql_on(fault.backend.address, "DROP SCHEMA IF EXISTS evil CASCADE", out, sizeof out);
    fault_sql_on(fault.backend.address, "DROP OWNED BY " ROLE, out, sizeof out);
    return fault_sql_on(fault.backend.address, "DROP ROLE IF EXISTS " ROLE, out, sizeof out);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test_teardown(nothing_hostile_is_called, drop_hostile)};

    return FAULT_MAIN(argc, argv, 0, cases);
}
