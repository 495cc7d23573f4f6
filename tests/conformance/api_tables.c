/* SPDX-License-Identifier: MIT
 *
 * Versions and migrations of the tables. */
#include <pthread.h>
#include <stdio.h>

#include "conformance.h"

static int version_of(struct fixture *f, rowlock_client *client)
{
    int version = -1;
    expect_ok(rowlock_schema_version(&version, client, &f->err), &f->err);
    return version;
}

static rowlock_client *client_for_migrating(struct fixture *f)
{
    rowlock_options options = ROWLOCK_OPTIONS_INIT;
    options.prefix = f->prefix;
    options.schema_policy = ROWLOCK_SCHEMA_IGNORE;
    expect_ok(rowlock_open(&f->clients[0], f->driver, f->backend->address, &options, &f->err),
              &f->err);
    return f->clients[0];
}

static void test_migrate_goes_down_and_up(void **state)
{
    struct fixture *f = *state;
    int latest = rowlock_migration_count(f->driver);
    rowlock_client *client = client_for_migrating(f);
    assert_int_equal(version_of(f, client), latest);
    for (int round = 0; round < 2; round++) {
        expect_ok(rowlock_migrate(client, 0, &f->err), &f->err);
        assert_int_equal(version_of(f, client), 0);
        expect_ok(rowlock_migrate(client, ROWLOCK_SCHEMA_LATEST, &f->err), &f->err);
        assert_int_equal(version_of(f, client), latest);
        rowlock_lock *lock = hold(f, client, "lock");
        let_go(f, &lock);
    }
}

static void test_migrate_to_where_it_is_does_nothing(void **state)
{
    struct fixture *f = *state;
    grant(f, "lock", "ann");
    rowlock_client *client = client_open(f);
    expect_ok(rowlock_migrate(client, ROWLOCK_SCHEMA_LATEST, &f->err), &f->err);
    expect_ok(rowlock_migrate(client, rowlock_migration_count(f->driver), &f->err), &f->err);
    assert_true(row_exists(f, "lock"));
}

static void test_migrate_to_an_unknown_version_is_einval(void **state)
{
    struct fixture *f = *state;
    rowlock_client *client = client_open(f);
    int latest = rowlock_migration_count(f->driver);
    expect_status(ROWLOCK_EINVAL, rowlock_migrate(client, latest + 1, &f->err), &f->err);
    expect_status(ROWLOCK_EINVAL, rowlock_migrate(client, -2, &f->err), &f->err);
    assert_int_equal(version_of(f, client), latest);
}

static void test_migrate_of_newer_tables_is_eschema(void **state)
{
    struct fixture *f = *state;
    rowlock_client *client = client_open(f);
    sql_run(f, "UPDATE rowlock_schema SET version = version + 900", NULL, 0);
    int version = 0;
    int read = rowlock_schema_version(&version, client, NULL);
    int up = rowlock_migrate(client, ROWLOCK_SCHEMA_LATEST, &f->err);
    int down = rowlock_migrate(client, 0, NULL);
    sql_run(f, "UPDATE rowlock_schema SET version = version - 900", NULL, 0);
    expect_ok(read, NULL);
    assert_int_equal(version, rowlock_migration_count(f->driver) + 900);
    expect_status(ROWLOCK_ESCHEMA, up, &f->err);
    expect_status(ROWLOCK_ESCHEMA, down, NULL);
}

struct migrator {
    rowlock_client *client;
    int status;
    rowlock_error err;
};

static void *migrate_up(void *payload)
{
    struct migrator *m = payload;
    m->status = rowlock_migrate(m->client, ROWLOCK_SCHEMA_LATEST, &m->err);
    return NULL;
}

static void test_migrate_by_several_at_once_succeeds(void **state)
{
    struct fixture *f = *state;
    rowlock_client *client = client_for_migrating(f);
    struct migrator migrators[4];
    pthread_t threads[4];
    for (int round = 0; round < 3; round++) {
        expect_ok(rowlock_migrate(client, 0, &f->err), &f->err);
        for (size_t i = 0; i < COUNT(threads); i++) {
            migrators[i] = (struct migrator){.client = client, .status = INT32_MIN};
            assert_int_equal(pthread_create(&threads[i], NULL, migrate_up, &migrators[i]), 0);
        }
        for (size_t i = 0; i < COUNT(threads); i++)
            pthread_join(threads[i], NULL);
        for (size_t i = 0; i < COUNT(threads); i++)
            expect_ok(migrators[i].status, &migrators[i].err);
        rowlock_lock *lock = hold(f, client, "lock");
        let_go(f, &lock);
    }
}

static void test_migrations_have_names_and_an_end(void **state)
{
    struct fixture *f = *state;
    int count = rowlock_migration_count(f->driver);
    assert_int_equal(count, f->driver->migration_count);
    for (int i = 1; i <= count; i++)
        assert_string_equal(rowlock_migration_name(f->driver, i),
                            f->driver->migrations[i - 1].name);
    assert_null(rowlock_migration_name(f->driver, 0));
    assert_null(rowlock_migration_name(f->driver, count + 1));
    assert_null(rowlock_migration_name(f->driver, -1));
}

static void test_migration_sql_has_the_prefix(void **state)
{
    struct fixture *f = *state;
    rowlock_options options = ROWLOCK_OPTIONS_INIT;
    options.prefix = "my_own_";
    for (int up = 0; up <= 1; up++) {
        char *sql = NULL;
        expect_ok(rowlock_migration_sql(&sql, f->driver, 1, up, &options, &f->err), &f->err);
        assert_non_null(strstr(sql, "my_own_locks"));
        assert_null(strstr(sql, "rowlock_locks"));
        rowlock_free(sql);
    }
    char *sql = (char *)f;
    expect_status(
        ROWLOCK_EINVAL,
        rowlock_migration_sql(&sql, f->driver, f->driver->migration_count + 1, 1, NULL, &f->err),
        &f->err);
    assert_null(sql);
    options.prefix = "bad'";
    expect_status(ROWLOCK_EINVAL, rowlock_migration_sql(&sql, f->driver, 1, 1, &options, &f->err),
                  &f->err);
    rowlock_free(NULL);
}

/* With every kind of character that is allowed in its name. */
struct place {
    char name[64], create[96], drop[96];
};

static struct place place_of(struct fixture *f)
{
    struct place p;
    char q = f->driver->quote;
    snprintf(p.name, sizeof(p.name), "%s-Sch$ema", f->prefix);
    snprintf(p.create, sizeof(p.create), "CREATE SCHEMA %c%s%c", q, p.name, q);
    snprintf(p.drop, sizeof(p.drop), "DROP SCHEMA %c%s%c", q, p.name, q);
    return p;
}

static void test_tables_may_live_in_a_schema(void **state)
{
    struct fixture *f = *state;
    struct place place = place_of(f);
    rowlock_options options = ROWLOCK_OPTIONS_INIT;
    options.prefix = f->prefix;
    options.schema = place.name;
    options.schema_policy = ROWLOCK_SCHEMA_CREATE;
    sql_run(f, place.create, NULL, 0);
    rowlock_client *client = NULL;
    rowlock_lock *lock = NULL;
    int status = rowlock_open(&client, f->driver, f->backend->address, &options, &f->err);
    if (status == ROWLOCK_OK)
        status = rowlock_acquire(&lock, client, "lock", NULL, &f->err);
    int elsewhere = row_exists(f, "lock"); /* in the connection's own schema */
    if (status == ROWLOCK_OK)
        status = rowlock_release(&lock, &f->err);
    if (status == ROWLOCK_OK)
        status = rowlock_migrate(client, 0, &f->err);
    rowlock_close(&client);
    sql_run(f, place.drop, NULL, 0); /* fails if anything is left in it */
    expect_ok(status, &f->err);
    assert_false(elsewhere);
}

static void test_missing_schema_is_eschema(void **state)
{
    struct fixture *f = *state;
    struct place place = place_of(f);
    rowlock_options options = ROWLOCK_OPTIONS_INIT;
    options.prefix = f->prefix;
    options.schema = place.name;
    rowlock_client *client = NULL;
    expect_status(ROWLOCK_ESCHEMA,
                  rowlock_open(&client, f->driver, f->backend->address, &options, &f->err),
                  &f->err);
    assert_null(client);
}

static const struct test_case cases[] = {
    CASE(test_migrate_goes_down_and_up),
    CASE(test_migrate_to_where_it_is_does_nothing),
    CASE(test_migrate_to_an_unknown_version_is_einval),
    CASE_IF(test_migrate_of_newer_tables_is_eschema, BACKEND_SQL),
    CASE(test_migrate_by_several_at_once_succeeds),
    CASE(test_migrations_have_names_and_an_end),
    CASE(test_migration_sql_has_the_prefix),
    CASE_IF(test_tables_may_live_in_a_schema, BACKEND_SCHEMAS | BACKEND_SQL),
    CASE_IF(test_missing_schema_is_eschema, BACKEND_SCHEMAS),
};

const struct suite api_tables_suite = SUITE("api_tables", cases);
