/* SPDX-License-Identifier: MIT
 *
 * The schema slots, and every slot without tables. */
#include <stdio.h>

#include "conformance.h"

static int version_of(struct fixture *f, void *conn)
{
    int version = -1;
    expect_ok(f->driver->schema_version(conn, &version, CALL_MS, &f->err), &f->err);
    return version;
}

/* A connection whose tables do not exist; ended by the fixture. */
static void *without_tables(struct fixture *f)
{
    char prefix[40];
    snprintf(prefix, sizeof(prefix), "x%s", f->prefix);
    expect_ok(conn_begin(f, &f->others[0], f->backend->address, prefix), &f->err);
    return f->others[0];
}

static void test_version_without_tables_is_zero(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(version_of(f, without_tables(f)), 0);
}

static void test_version_of_a_fresh_table_is_the_newest(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(version_of(f, f->conn), f->driver->migration_count);
}

static void test_migrations_are_numbered_and_named(void **state)
{
    struct fixture *f = *state;
    assert_true(f->driver->migration_count >= 1);
    for (int i = 0; i < f->driver->migration_count; i++) {
        assert_int_equal(f->driver->migrations[i].version, i + 1);
        assert_true(f->driver->migrations[i].name[0] != '\0');
        assert_true(f->driver->migrations[i].up[0] != '\0');
        assert_true(f->driver->migrations[i].down[0] != '\0');
    }
}

static void test_apply_goes_down_step_by_step(void **state)
{
    struct fixture *f = *state;
    for (int at = f->driver->migration_count; at > 0; at--) {
        expect_ok(f->driver->schema_apply(f->conn, at, at - 1, CALL_MS, &f->err), &f->err);
        assert_int_equal(version_of(f, f->conn), at - 1);
    }
}

static void test_apply_goes_up_step_by_step(void **state)
{
    struct fixture *f = *state;
    expect_ok(tables_to(f, f->conn, 0), &f->err);
    for (int at = 0; at < f->driver->migration_count; at++) {
        expect_ok(f->driver->schema_apply(f->conn, at, at + 1, CALL_MS, &f->err), &f->err);
        assert_int_equal(version_of(f, f->conn), at + 1);
    }
}

static void test_apply_is_seen_by_other_connections(void **state)
{
    struct fixture *f = *state;
    void *conn = another(f);
    assert_int_equal(version_of(f, conn), f->driver->migration_count);
    expect_ok(tables_to(f, f->conn, 0), &f->err);
    assert_int_equal(version_of(f, conn), 0);
    expect_ok(tables_to(f, f->conn, f->driver->migration_count), &f->err);
    rowlock_op op = op_new("lock", "ann");
    expect_ok(try_acquire(f, conn, &op), NULL);
}

/* Statements prepared before the tables were replaced must work on the new ones. */
static void test_connection_survives_new_tables(void **state)
{
    struct fixture *f = *state;
    rowlock_op op = grant_released(f, "lock", "ann");
    void *conn = another(f);
    expect_ok(tables_to(f, conn, 0), &f->err);
    expect_ok(tables_to(f, conn, f->driver->migration_count), &f->err);
    struct rows rows = rows_read(f);
    assert_int_equal(rows.count, 0);
    rows_free(&rows);
    op = grant(f, "lock", "ann");
    rowlock_op same = op_of(&op);
    expect_ok(try_renew(f, f->conn, &same), NULL);
    expect_ok(try_release(f, f->conn, &same), NULL);
}

static void test_apply_up_from_a_stale_version_is_busy(void **state)
{
    struct fixture *f = *state;
    grant(f, "lock", "ann");
    expect_status(ROWLOCK_BUSY, f->driver->schema_apply(f->conn, 0, 1, CALL_MS, &f->err), &f->err);
    assert_int_equal(version_of(f, f->conn), f->driver->migration_count);
    assert_true(row_exists(f, "lock"));
}

static void test_apply_down_from_a_stale_version_is_busy(void **state)
{
    struct fixture *f = *state;
    void *conn = without_tables(f);
    expect_status(ROWLOCK_BUSY, f->driver->schema_apply(conn, 1, 0, CALL_MS, &f->err), &f->err);
    assert_int_equal(version_of(f, conn), 0);
}

static void test_tables_after_down_and_up_are_as_fresh(void **state)
{
    struct fixture *f = *state;
    static char query[1024], fresh[8192], again[8192];
    f->backend->kind->describe(query, sizeof(query), f->prefix);
    expect_ok(tables_to(f, f->conn, 0), &f->err);
    sql_run(f, query, fresh, sizeof(fresh));
    assert_string_equal(fresh, ""); /* nothing is left behind */
    expect_ok(tables_to(f, f->conn, f->driver->migration_count), &f->err);
    sql_run(f, query, fresh, sizeof(fresh));
    assert_true(strlen(fresh) > 100);
    expect_ok(tables_to(f, f->conn, 0), &f->err);
    expect_ok(tables_to(f, f->conn, f->driver->migration_count), &f->err);
    sql_run(f, query, again, sizeof(again));
    assert_string_equal(fresh, again);
}

static void test_acquire_without_tables_is_eschema(void **state)
{
    struct fixture *f = *state;
    void *conn = without_tables(f);
    rowlock_op op = op_new("lock", "ann");
    for (int all = 0; all <= 1; all++)
        expect_status(ROWLOCK_ESCHEMA, f->driver->acquire(conn, &op, 1, all, CALL_MS, &f->err),
                      &f->err);
    assert_int_equal(f->err.status, ROWLOCK_ESCHEMA);
    assert_true(f->err.message[0] != '\0');
}

static void test_renew_without_tables_is_eschema(void **state)
{
    struct fixture *f = *state;
    rowlock_op op = op_new("lock", "ann");
    expect_status(ROWLOCK_ESCHEMA, f->driver->renew(without_tables(f), &op, 1, CALL_MS, &f->err),
                  &f->err);
}

static void test_release_without_tables_is_eschema(void **state)
{
    struct fixture *f = *state;
    rowlock_op op = op_new("lock", "ann");
    expect_status(ROWLOCK_ESCHEMA, f->driver->release(without_tables(f), &op, 1, CALL_MS, &f->err),
                  &f->err);
}

static void test_force_without_tables_is_eschema(void **state)
{
    struct fixture *f = *state;
    rowlock_op op = op_new("lock", "ann");
    expect_status(ROWLOCK_ESCHEMA,
                  f->driver->force_release(without_tables(f), &op, CALL_MS, &f->err), &f->err);
}

static void test_reap_without_tables_is_eschema(void **state)
{
    struct fixture *f = *state;
    uint64_t count = 0;
    rowlock_mark mark = {0};
    expect_status(ROWLOCK_ESCHEMA,
                  f->driver->reap(without_tables(f), &count, &mark, 1, 10, CALL_MS, &f->err),
                  &f->err);
}

static void test_list_without_tables_is_eschema(void **state)
{
    struct fixture *f = *state;
    struct rows rows = {0};
    rowlock_list_query query = {.size = sizeof(query)};
    expect_status(ROWLOCK_ESCHEMA,
                  f->driver->list(without_tables(f), &query, rows_collect, &rows, CALL_MS, &f->err),
                  &f->err);
    assert_int_equal(rows.count, 0);
}

static void test_connection_is_fine_after_eschema(void **state)
{
    struct fixture *f = *state;
    rowlock_op op = op_new("lock", "ann");
    void *conn = without_tables(f);
    expect_status(ROWLOCK_ESCHEMA, f->driver->acquire(conn, &op, 1, 0, CALL_MS, &f->err), &f->err);
    expect_ok(tables_to(f, conn, f->driver->migration_count), &f->err);
    int status = f->driver->acquire(conn, &op, 1, 0, CALL_MS, &f->err);
    rowlock_error kept = f->err;
    expect_ok(tables_to(f, conn, 0), &f->err); /* this prefix is not the run's */
    expect_ok(status, &kept);
    expect_ok(op.status, NULL);
}

static const struct test_case cases[] = {
    CASE(test_version_without_tables_is_zero),
    CASE(test_version_of_a_fresh_table_is_the_newest),
    CASE(test_migrations_are_numbered_and_named),
    CASE(test_apply_goes_down_step_by_step),
    CASE(test_apply_goes_up_step_by_step),
    CASE(test_apply_is_seen_by_other_connections),
    CASE(test_connection_survives_new_tables),
    CASE(test_apply_up_from_a_stale_version_is_busy),
    CASE(test_apply_down_from_a_stale_version_is_busy),
    CASE_IF(test_tables_after_down_and_up_are_as_fresh, BACKEND_SQL),
    CASE(test_acquire_without_tables_is_eschema),
    CASE(test_renew_without_tables_is_eschema),
    CASE(test_release_without_tables_is_eschema),
    CASE(test_force_without_tables_is_eschema),
    CASE(test_reap_without_tables_is_eschema),
    CASE(test_list_without_tables_is_eschema),
    CASE(test_connection_is_fine_after_eschema),
};

const struct suite schema_suite = SUITE("schema", cases);
