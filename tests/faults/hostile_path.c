/* SPDX-License-Identifier: MIT
 *
 * Nobody else's code runs in our statements. In a database of its own there is an overload of every
 * function, operator and type that they use, in a schema that the client's role searches before
 * pg_catalog and in `public`; none may ever be called, whatever we do. Tables and views of the
 * names of ours, too, in other schemas and temporary, must not be taken for them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fault.h"
#include "native.h"
#include "overloads.h"
#include "pg.h"

#define DATABASE "rowlock_hostile"
#define ROLE     "rowlock_guest"
#define PASSWORD "r0le-Pa55w0rd"
#define SCHEMA   "shop"
#define LOCKS    SCHEMA ".rowlock_locks"

static char owner[1024], guest[1024]; /* addresses: a superuser's, and that of a plain role */
static PGconn *session;               /* the superuser's */
static int is_made;

/* ---- set-up */

static void run(const char *sql)
{
    overloads_sql(session, sql);
}

static void make_tables(void)
{
    rowlock_options options = ROWLOCK_OPTIONS_INIT;
    rowlock_client *client;
    rowlock_error err;

    options.prefix = "rowlock_";
    options.schema = SCHEMA;
    options.schema_policy = ROWLOCK_SCHEMA_IGNORE;
    client = fault_open(owner, &options);
    assert_status(ROWLOCK_OK, rowlock_migrate(client, ROWLOCK_SCHEMA_LATEST, &err), &err);
    rowlock_close(&client);
}

static void make_role(void)
{
    run("DROP ROLE IF EXISTS " ROLE);
    run("CREATE ROLE " ROLE " LOGIN CREATEDB PASSWORD '" PASSWORD "'");
    run("GRANT CREATE, TEMPORARY ON DATABASE " DATABASE " TO " ROLE);
    run("GRANT USAGE ON SCHEMA " SCHEMA ", harness TO " ROLE);
    run("GRANT USAGE, CREATE ON SCHEMA first, types TO " ROLE);
    run("GRANT SELECT, INSERT, UPDATE, DELETE ON " LOCKS ", " SCHEMA ".rowlock_waiters TO " ROLE);
    run("GRANT SELECT ON " SCHEMA ".rowlock_schema TO " ROLE);
    run("GRANT SELECT, UPDATE ON SEQUENCE " SCHEMA ".rowlock_floor TO " ROLE);
}

static int drop_all(void **state)
{
    char out[64];

    (void)state;
    PQfinish(session);
    session = NULL;
    is_made = 0;
    fault_sql_on(fault.backend.address, "DROP DATABASE IF EXISTS " DATABASE " WITH (FORCE)", out,
                 sizeof out);
    return fault_sql_on(fault.backend.address, "DROP ROLE IF EXISTS " ROLE, out, sizeof out);
}

/* Once, by the first case. */
static int make_all(void **state)
{
    const char *address = fault.backend.address;

    if (is_made)
        return 0;
    drop_all(state);
    fault_sql("CREATE DATABASE " DATABASE);
    assert_int_equal(0, fault_address(owner, sizeof owner, address,
                                      &(struct fault_address){.database = DATABASE}));
    assert_int_equal(0, fault_address(guest, sizeof guest, owner,
                                      &(struct fault_address){.user = ROLE, .password = PASSWORD}));
    session = PQconnectdb(owner);
    assert_int_equal(CONNECTION_OK, PQstatus(session));
    run("CREATE SCHEMA " SCHEMA);
    make_tables();
    overloads_read_all(session, SCHEMA);
    overloads_make(session);
    make_role();
    is_made = 1;
    return 0;
}

/* The search_path that the role's next sessions get. */
static void search(const char *path)
{
    char sql[256];

    snprintf(sql, sizeof sql, "ALTER ROLE " ROLE " SET search_path = %s", path);
    run(sql);
}

/* ---- by the parser */

static long long count_uses(const char *path, const char *where)
{
    char sql[1024];

    snprintf(sql, sizeof sql,
             "SELECT count(DISTINCT u.oid) FROM harness.uses AS u "
             "LEFT JOIN pg_proc AS p ON u.kind IN ('f', 'a') AND p.oid = u.oid "
             "LEFT JOIN pg_operator AS o ON u.kind = 'o' AND o.oid = u.oid "
             "LEFT JOIN pg_type AS t ON u.kind = 't' AND t.oid = u.oid "
             "JOIN pg_namespace AS n ON n.oid IN (p.pronamespace, o.oprnamespace, t.typnamespace) "
             "WHERE u.path = '%s' AND %s",
             path, where);
    return overloads_sql(session, sql);
}

/* The overloads are what an unqualified name means: this test would see them called. One statement
 * is refused on account of one. */
static void a_plain_statement_finds_the_overloads(void **state)
{
    static const char *const of_public[] = {"n.nspname = 'public' AND o.oprname = '*'",
                                            "n.nspname = 'public' AND p.proname = 'unnest'",
                                            "n.nspname = 'public' AND p.proname = 'cardinality'"};
    long long made = overloads_sql(session, "SELECT count(*) FROM harness.overloads AS o "
                                            "WHERE o.place = 'first'");
    int refused = 0;

    (void)state;
    for (int i = 0; i < PG_STATEMENT_COUNT; i++) {
        refused += !overloads_read_statement(session, OVERLOADS_FIRST, SCHEMA, i);
        refused += !overloads_read_statement(session, OVERLOADS_TYPES, SCHEMA, i);
        refused += !overloads_read_statement(session, OVERLOADS_PUBLIC, SCHEMA, i);
    }
    assert_in_range(refused, 0, 3);
    assert_true(count_uses(OVERLOADS_FIRST, "n.nspname = 'first'") > made / 2);
    assert_true(count_uses(OVERLOADS_TYPES, "n.nspname = 'types'") > 3);
    for (size_t i = 0; i < sizeof of_public / sizeof *of_public; i++)
        assert_true(count_uses(OVERLOADS_PUBLIC, of_public[i]) > 0);
}

static void our_search_path_finds_none(void **state)
{
    (void)state;
    overloads_read_all(session, SCHEMA);
    assert_int_equal(0,
                     count_uses(OVERLOADS_OURS, "n.nspname NOT IN ('pg_catalog', '" SCHEMA "')"));
    assert_true(count_uses(OVERLOADS_OURS, "u.kind = 'o'") > 10);
    assert_true(count_uses(OVERLOADS_OURS, "u.kind = 'f'") > 10);
}

/* Those that run under any search_path. */
static void what_comes_before_finds_none(void **state)
{
    static const pg_statement before[] = {PG_SERVER,  PG_PATH_GIVEN, PG_PLACE,        PG_SESSION,
                                          PG_TX_PATH, PG_TX_SAME,    PG_DIAGNOSE_PATH};

    (void)state;
    for (size_t i = 0; i < sizeof before / sizeof *before; i++) {
        assert_true(
            overloads_read_statement(session, "first, types, pg_catalog", SCHEMA, (int)before[i]));
        if (count_uses("first, types, pg_catalog", "n.nspname <> 'pg_catalog'") != 0)
            fail_msg("finds an overload: %s", pg_text_of(before[i]));
    }
}

/* ---- by what is called */

static rowlock_client *open_client(const char *address, const char *schema)
{
    rowlock_options options = ROWLOCK_OPTIONS_INIT;

    options.prefix = "rowlock_";
    options.schema = schema;
    return fault_open(address, &options);
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

static void own_transaction(rowlock_client *client)
{
    const char *name = "hostile tx";
    rowlock_tx *tx = NULL;
    rowlock_error err;

    assert_status(ROWLOCK_OK, rowlock_tx_begin(&tx, client, &name, 1, NULL, &err), &err);
    assert_status(ROWLOCK_OK, rowlock_tx_commit(&tx, &err), &err);
}

/* On a connection of the application's; `before` is run there first, if it is not NULL. */
static void native_transaction(rowlock_client *client, const char *path, const char *before)
{
    const char *name = "hostile tx", *held = "hostile guard";
    struct native own = {0};
    rowlock_lock *lock;
    rowlock_error err;
    char shown[256];

    assert_int_equal(0, native_open(&own, guest, 0));
    if (before != NULL)
        assert_int_equal(0, native_run(&own, "%s", before));
    assert_int_equal(0, native_run(&own, "BEGIN"));
    assert_status(ROWLOCK_OK, native_lock(NULL, client, &own, &name, 1, NULL, &err), &err);
    lock = fault_acquire(client, held, 5000);
    assert_status(ROWLOCK_OK, native_guard(lock, &own, &err), &err);
    assert_status(ROWLOCK_BUSY, native_lock(NULL, client, &own, &held, 1, NULL, &err), &err);
    assert_int_equal(0, native_run(&own, "SHOW search_path"));
    snprintf(shown, sizeof shown, "%s|\n", path);
    assert_string_equal(own.out, shown);
    assert_int_equal(0, native_commit(&own));
    fault_release(&lock);
    native_close(&own);
}

static void nothing_of_theirs_is_called(void **state)
{
    static const char *const paths[] = {"first, types, pg_catalog, " SCHEMA ", public",
                                        "\"$user\", public, first, types, " SCHEMA};

    (void)state;
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        rowlock_client *client;

        search(paths[i]);
        client = open_client(guest, NULL);
        leases(client);
        own_transaction(client);
        native_transaction(client, paths[i], NULL);
        rowlock_close(&client);
        overloads_assert_uncalled(session);
    }
}

/* ---- tables and views of the same names */

#define LIKE_OURS "rowlock_locks (LIKE " LOCKS " INCLUDING ALL)"

static void refused_at_open(const char *word)
{
    rowlock_options options = ROWLOCK_OPTIONS_INIT;
    rowlock_client *client = NULL;
    rowlock_error err;

    options.prefix = "rowlock_";
    assert_status(ROWLOCK_ESCHEMA, fault_try_open(&client, guest, &options, &err), &err);
    if (strstr(err.message, word) == NULL)
        fail_msg("\"%s\" is not in: %s", word, err.message);
}

static void temporary_ones_are_not_ours(void **state)
{
    static const char path[] = "pg_temp, " SCHEMA;
    rowlock_client *client;

    (void)state;
    search(path);
    client = open_client(guest, NULL);
    native_transaction(client, path, "CREATE TEMPORARY TABLE " LIKE_OURS);
    native_transaction(client, path, "CREATE TEMPORARY VIEW rowlock_locks AS SELECT * FROM " LOCKS);
    rowlock_close(&client);
}

/* Nobody can say which are meant. */
static void two_schemas_that_have_them_are_refused(void **state)
{
    static const char path[] = "first, " SCHEMA;
    rowlock_client *client;

    (void)state;
    search(path);
    run("CREATE TABLE first." LIKE_OURS);
    refused_at_open("first and shop");
    client = open_client(guest, SCHEMA);
    leases(client);
    own_transaction(client);
    native_transaction(client, path, NULL);
    rowlock_close(&client);
    assert_int_equal(0, overloads_sql(session, "SELECT count(*) FROM first.rowlock_locks"));
    run("DROP TABLE first.rowlock_locks");
    run("CREATE VIEW first.rowlock_locks AS SELECT * FROM " LOCKS);
    refused_at_open("first and shop");
    search("first");
    refused_at_open("is not a table");
    run("DROP VIEW first.rowlock_locks");
}

/* Tables that come up later do not change where a client works, on new connections, too. */
static void a_later_one_does_not_shadow(void **state)
{
    rowlock_client *client;

    (void)state;
    search("first, " SCHEMA);
    client = open_client(guest, NULL);
    run("CREATE TABLE first." LIKE_OURS);
    leases(client);
    own_transaction(client);
    assert_int_equal(0, overloads_sql(session, "SELECT count(*) FROM first.rowlock_locks"));
    run("DROP TABLE first.rowlock_locks");
    rowlock_close(&client);
}

/* ---- the conformance suite */

enum { PARTS = 6, SUITE_MS = 400000 };

static char logs[PARTS][64];

static int run_part(void *payload)
{
    const int *part = payload;
    char fraction[32];

    snprintf(fraction, sizeof fraction, "%d/%d", *part, PARTS);
    if (setenv("ROWLOCK_TEST_POSTGRESQL", guest, 1) != 0 ||
        freopen(logs[*part], "w", stdout) == NULL || dup2(1, 2) < 0)
        return 1;
    execl(ROWLOCK_CONFORMANCE, ROWLOCK_CONFORMANCE, "postgresql", "*", fraction, (char *)NULL);
    return 1;
}

static void show(const char *path)
{
    FILE *file = fopen(path, "r");
    char line[512];

    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        print_error("%s", line);
    if (file != NULL)
        fclose(file);
}

static void the_conformance_suite_calls_none(void **state)
{
    int numbers[PARTS], failed = 0;
    pid_t pids[PARTS];

    (void)state;
    search("first, types, pg_catalog, public");
    for (int i = 0; i < PARTS; i++) {
        numbers[i] = i;
        snprintf(logs[i], sizeof logs[i], "hostile_path.%d.log", i);
        pids[i] = process_start(run_part, &numbers[i]);
    }
    for (int i = 0; i < PARTS; i++) {
        int status = process_wait(pids[i], SUITE_MS);

        failed += status != 0;
        if (status != 0)
            show(logs[i]);
        remove(logs[i]);
    }
    overloads_assert_uncalled(session);
    assert_int_equal(0, failed);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test_setup(a_plain_statement_finds_the_overloads, make_all),
        cmocka_unit_test_setup(our_search_path_finds_none, make_all),
        cmocka_unit_test_setup(what_comes_before_finds_none, make_all),
        cmocka_unit_test_setup(nothing_of_theirs_is_called, make_all),
        cmocka_unit_test_setup(temporary_ones_are_not_ours, make_all),
        cmocka_unit_test_setup(two_schemas_that_have_them_are_refused, make_all),
        cmocka_unit_test_setup(a_later_one_does_not_shadow, make_all),
        cmocka_unit_test_setup_teardown(the_conformance_suite_calls_none, make_all, drop_all),
    };

    return FAULT_MAIN(argc, argv, 0, cases);
}
