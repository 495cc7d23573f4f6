/* SPDX-License-Identifier: MIT
 *
 * Commits that fail: the rows of a statement come before its commit, and mean nothing without it. A
 * deferred trigger refuses the COMMIT. */
#include "fault.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TIMEOUT_MS = 5000 };

static void *conn;

/* What happens at a COMMIT from now on. */
static void do_at_commit(const char *body)
{
    char sql[512];

    snprintf(sql, sizeof sql,
             "CREATE OR REPLACE FUNCTION rowlock_fault_refuse() RETURNS trigger LANGUAGE plpgsql "
             "AS 'BEGIN %s END'",
             body);
    fault_sql(sql);
    fault_sql("CREATE CONSTRAINT TRIGGER rowlock_fault_refuse AFTER INSERT OR UPDATE ON {locks} "
              "DEFERRABLE INITIALLY DEFERRED "
              "FOR EACH ROW EXECUTE FUNCTION rowlock_fault_refuse()");
}

static void refuse_commits(void)
{
    do_at_commit("RAISE EXCEPTION ''not today'';");
}

static void allow_commits(void)
{
    fault_sql("DROP FUNCTION rowlock_fault_refuse() CASCADE");
}

static int set_up(void **state)
{
    const rowlock_config config = {
        .size = sizeof config, .address = fault.proxied, .prefix = fault.prefix};
    rowlock_error err;

    (void)state;
    conn = calloc(1, fault.backend.driver->conn_size);
    assert_non_null(conn);
    assert_status(ROWLOCK_OK, fault.backend.driver->open(conn, &config, TIMEOUT_MS, &err), &err);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    fault.backend.driver->close(conn);
    free(conn);
    return 0;
}

static rowlock_op op_of(const char *name, uint8_t attempt)
{
    return (rowlock_op){.name = name,
                        .name_length = strlen(name),
                        .owner = "o",
                        .note = "",
                        .ttl_us = 9000000,
                        .attempt = {attempt}};
}

/* The first request of a connection is a transaction of several statements, later ones are one. */
static void acquire_whose_commit_fails_is_no_grant(void **state)
{
    const rowlock_driver *driver = fault.backend.driver;
    rowlock_error err;

    (void)state;
    refuse_commits();
    for (uint8_t i = 1; i <= 3; i++) {
        rowlock_op ops[] = {op_of("one", i), op_of("two", i)};

        assert_status(ROWLOCK_EDRIVER, driver->acquire(conn, ops, 1, 0, TIMEOUT_MS, &err), &err);
        assert_status(ROWLOCK_EDRIVER, driver->acquire(conn, ops, 2, 1, TIMEOUT_MS, &err), &err);
    }
    allow_commits();
    assert_int_equal(fault_sql_number("SELECT count(*) FROM {locks} WHERE hold_count > 0"), 0);
}

static void renewal_and_release_whose_commit_fails_are_none(void **state)
{
    const rowlock_driver *driver = fault.backend.driver;
    rowlock_op op = op_of("one", 10);
    rowlock_error err;

    (void)state;
    assert_status(ROWLOCK_OK, driver->acquire(conn, &op, 1, 0, TIMEOUT_MS, &err), &err);
    assert_int_equal(op.status, ROWLOCK_OK);
    refuse_commits();
    op.attempt[0] = 11;
    op.ttl_us = 900000000;
    assert_status(ROWLOCK_EDRIVER, driver->renew(conn, &op, 1, TIMEOUT_MS, &err), &err);
    assert_status(ROWLOCK_EDRIVER, driver->release(conn, &op, 1, TIMEOUT_MS, &err), &err);
    allow_commits();
    assert_int_equal(fault_sql_number("SELECT count(*) FROM {locks} WHERE hold_count > 0"), 1);
    assert_status(ROWLOCK_OK, driver->release(conn, &op, 1, TIMEOUT_MS, &err), &err);
    assert_int_equal(op.status, ROWLOCK_OK);
}

/* The server says why it ends the session; whether that was before or after the commit it does not
 * say. */
static void session_that_is_ended_at_its_commit_is_unknown(void **state)
{
    const rowlock_driver *driver = fault.backend.driver;
    rowlock_op op = op_of("one", 20);
    rowlock_error err;

    (void)state;
    do_at_commit("PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NEW;");
    assert_status(ROWLOCK_EUNKNOWN, driver->acquire(conn, &op, 1, 0, TIMEOUT_MS, &err), &err);
    allow_commits();
}

static void answer_that_is_lost_behind_the_commit_is_unknown(void **state)
{
    const rowlock_driver *driver = fault.backend.driver;
    const proxy_plan plan = {.fault = PROXY_CUT_REPLY};
    rowlock_op op = op_of("two", 30);
    rowlock_error err;

    (void)state;
    assert_status(ROWLOCK_OK, driver->acquire(conn, &op, 1, 0, TIMEOUT_MS, &err), &err);
    op.attempt[0] = 31;
    proxy_arm(fault.proxy, &plan);
    assert_status(ROWLOCK_EUNKNOWN, driver->release(conn, &op, 1, TIMEOUT_MS, &err), &err);
    assert_int_equal(fault_sql_number("SELECT count(*) FROM {locks} WHERE hold_count > 0"), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test_setup_teardown(acquire_whose_commit_fails_is_no_grant, set_up, tear_down),
        cmocka_unit_test_setup_teardown(session_that_is_ended_at_its_commit_is_unknown, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(answer_that_is_lost_behind_the_commit_is_unknown, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(renewal_and_release_whose_commit_fails_are_none, set_up,
                                        tear_down),
    };

    return FAULT_MAIN(argc, argv, 1, cases);
}
