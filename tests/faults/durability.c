/* SPDX-License-Identifier: MIT
 *
 * What a client's durability makes of its commits: a trigger writes down how each change of a
 * lock's row is committed, at the COMMIT. The application's own transactions never change. */
#include "fault.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TIMEOUT_MS = 5000 };

static void record_commits(void)
{
    fault_sql("DROP TABLE IF EXISTS rowlock_fault_commits");
    fault_sql("CREATE TABLE rowlock_fault_commits (mode text, hold_count int)");
    fault_sql(
        "CREATE OR REPLACE FUNCTION rowlock_fault_record() RETURNS trigger LANGUAGE plpgsql AS "
        "'BEGIN INSERT INTO public.rowlock_fault_commits VALUES "
        "(current_setting(''synchronous_commit''), NEW.hold_count); RETURN NEW; END'");
    fault_sql("DROP TRIGGER IF EXISTS rowlock_fault_record ON {locks}");
    fault_sql("CREATE CONSTRAINT TRIGGER rowlock_fault_record AFTER INSERT OR UPDATE ON {locks} "
              "DEFERRABLE INITIALLY DEFERRED "
              "FOR EACH ROW EXECUTE FUNCTION rowlock_fault_record()");
}

static void forget_commits(void)
{
    fault_sql("DROP FUNCTION rowlock_fault_record() CASCADE");
    fault_sql("DROP TABLE rowlock_fault_commits");
}

/* How rows with this many holds were written, since the last look. */
static void assert_commits(int hold_count, const char *expected)
{
    char sql[256], modes[256] = "";

    snprintf(sql, sizeof sql,
             "SELECT coalesce(string_agg(DISTINCT mode, ' '), '') FROM rowlock_fault_commits "
             "WHERE hold_count = %d",
             hold_count);
    fault_sql_text(modes, sizeof modes, sql);
    modes[strcspn(modes, "|")] = '\0';
    assert_string_equal(modes, expected);
}

static rowlock_client *open_with(int durability)
{
    rowlock_options options = ROWLOCK_OPTIONS_INIT;

    options.durability = durability;
    return fault_open(fault.backend.address, &options);
}

static void take_and_give_back(rowlock_client *client)
{
    rowlock_error err;
    rowlock_lock *lock = fault_acquire(client, "durability", 10000);

    assert_status(ROWLOCK_OK, rowlock_renew(lock, 0, &err), &err);
    fault_release(&lock);
}

static void durable_waits_for_acquire_and_renew(void **state)
{
    rowlock_client *client = open_with(ROWLOCK_DURABLE);

    (void)state;
    record_commits();
    take_and_give_back(client);
    assert_commits(1, "on");
    assert_commits(0, "off");
    forget_commits();
    rowlock_close(&client);
}

/* One row held and one free; then the one is given back and the other taken, in one call. */
static void exchange_two(const rowlock_driver *driver, void *conn)
{
    rowlock_op held = {
        .name = "one", .name_length = 3, .owner = "o", .note = "", .ttl_us = 9000000};
    rowlock_op next = held;
    rowlock_error err;

    next.name = "two";
    for (int i = 0; i < 3; i++) { /* the last time the rows are known to be free */
        rowlock_op back;

        held.attempt[0] = (uint8_t)(3 * i + 1);
        assert_status(ROWLOCK_OK, driver->acquire(conn, &held, 1, 0, TIMEOUT_MS, &err), &err);
        back = held;
        memcpy(back.seen, held.attempt, sizeof back.seen);
        back.attempt[0] = (uint8_t)(3 * i + 2);
        next.attempt[0] = (uint8_t)(3 * i + 3);
        assert_status(ROWLOCK_OK, driver->exchange(conn, &back, 1, &next, 1, TIMEOUT_MS, &err),
                      &err);
        assert_int_equal(back.status, ROWLOCK_OK);
        assert_int_equal(next.status, ROWLOCK_OK);
        back = next;
        memcpy(back.seen, next.attempt, sizeof back.seen);
        back.attempt[1] = 1;
        assert_status(ROWLOCK_OK, driver->release(conn, &back, 1, TIMEOUT_MS, &err), &err);
    }
}

/* Releases that travel with acquires are committed with them: those give the mode. */
static void durable_waits_for_acquires_beside_releases(void **state)
{
    const rowlock_driver *driver = fault.backend.driver;
    const rowlock_config config = {
        .size = sizeof config, .address = fault.backend.address, .prefix = fault.prefix};
    rowlock_client *client = open_with(ROWLOCK_DURABLE); /* makes the tables */
    void *conn = calloc(1, driver->conn_size);
    rowlock_error err;

    (void)state;
    record_commits();
    assert_non_null(conn);
    assert_status(ROWLOCK_OK, driver->open(conn, &config, TIMEOUT_MS, &err), &err);
    exchange_two(driver, conn);
    assert_commits(1, "on");
    assert_commits(0, "off on"); /* by themselves, and together */
    driver->close(conn);
    free(conn);
    forget_commits();
    rowlock_close(&client);
}

static void relaxed_waits_for_nothing(void **state)
{
    rowlock_client *client = open_with(ROWLOCK_RELAXED);

    (void)state;
    record_commits();
    take_and_give_back(client);
    assert_commits(1, "off");
    assert_commits(0, "off");
    forget_commits();
    rowlock_close(&client);
}

static void relaxed_leaves_transactions_durable(void **state)
{
    rowlock_client *client = open_with(ROWLOCK_RELAXED);
    rowlock_tx *tx = NULL;
    rowlock_error err;
    const char *name = "durability";
    char mode[64] = "";

    (void)state;
    assert_status(ROWLOCK_OK, rowlock_tx_begin(&tx, client, &name, 1, NULL, &err), &err);
    assert_int_equal(fault.backend.kind->sql_run(fault.backend.kind->connection(tx),
                                                 "SHOW synchronous_commit", mode, sizeof mode),
                     0);
    assert_status(ROWLOCK_OK, rowlock_tx_commit(&tx, &err), &err);
    assert_string_equal(mode, "on|\n");
    rowlock_close(&client);
}

static void unknown_is_refused(void **state)
{
    rowlock_client *client = NULL;
    rowlock_options options = ROWLOCK_OPTIONS_INIT;
    rowlock_error err;

    (void)state;
    options.durability = 2;
    assert_status(ROWLOCK_EINVAL, fault_try_open(&client, fault.backend.address, &options, &err),
                  &err);
    assert_null(client);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(durable_waits_for_acquire_and_renew),
        cmocka_unit_test(durable_waits_for_acquires_beside_releases),
        cmocka_unit_test(relaxed_waits_for_nothing),
        cmocka_unit_test(relaxed_leaves_transactions_durable),
        cmocka_unit_test(unknown_is_refused),
    };

    return FAULT_MAIN(argc, argv, 0, cases);
}
