/* SPDX-License-Identifier: MIT
 *
 * Transaction mode and the guard on roles and servers with settings of their own. Most must not
 * matter; where one forbids the work (read-only, a session that is ended for being idle) the answer
 * is a clear error and never a wrong OK. Makes a role; changes settings of a MySQL server and puts
 * them back. */
#include "mood.h"
#include "refused.h"

#include <stdio.h>
#include <string.h>

#define ROLE          "rowlock_moods"
#define ROLE_PASSWORD "m00d-Pa55w0rd"

/* ---- what both have -------------------------------------------------------------------------- */

static void assert_clear_error(int status, const rowlock_error *err)
{
    print_message("  %d: %s\n", status, err->message);
    assert_true(status < 0);
    assert_int_equal(status, err->status);
    assert_true(err->message[0] != '\0');
}

/* Idle in its transaction until the server has ended it: lost with all that was written. */
static void idle(const char *address, const char *setting, int idle_ms)
{
    const char *names[2] = {mood_name(), mood_name()};
    struct native borrowed;
    rowlock_tx *tx = NULL;
    struct mood m;
    int rows[2];

    mood_open(&m, address, 0);
    assert_status(ROWLOCK_OK, rowlock_tx_begin(&tx, m.client, &names[0], 1, NULL, &m.err), &m.err);
    native_borrow(&borrowed, tx);
    assert_int_equal(0, native_run(&borrowed, "%s", setting));
    rows[0] = mood_write(&borrowed);
    assert_int_equal(0, native_run(&m.own, "%s", setting));
    mood_begin(&m);
    assert_status(ROWLOCK_OK, native_lock(NULL, m.client, &m.own, &names[1], 1, NULL, &m.err),
                  &m.err);
    rows[1] = mood_write(&m.own);
    process_sleep_ms(idle_ms);
    assert_clear_error(rowlock_tx_commit(&tx, &m.err), &m.err);
    assert_int_not_equal(ROWLOCK_EUNKNOWN, m.err.status);
    assert_int_not_equal(0, native_commit(&m.own));
    for (int i = 0; i < 2; i++) {
        assert_int_equal(0, mood_is_committed(rows[i]));
        assert_status(ROWLOCK_OK, mood_others_try(&m, names[i]), &m.err);
    }
    mood_close(&m);
}

/* The row is locked by somebody's transaction: our own bound counts, not the session's, and the
 * transaction goes on. */
static void waits(const char *address, unsigned flags, int64_t wait_ms)
{
    rowlock_tx_options options = ROWLOCK_TX_OPTIONS_INIT;
    const char *name = mood_name();
    rowlock_tx *tx = NULL, *other = NULL;
    struct mood m;
    int64_t start;
    int row;

    mood_open(&m, address, flags);
    options.wait_ms = wait_ms;
    assert_status(ROWLOCK_OK, rowlock_tx_begin(&other, m.direct, &name, 1, NULL, &m.err), &m.err);
    start = process_now_ms();
    assert_status(ROWLOCK_TIMEOUT, rowlock_tx_begin(&tx, m.client, &name, 1, &options, &m.err),
                  &m.err);
    assert_true(process_now_ms() - start >= wait_ms);
    mood_begin(&m);
    row = mood_write(&m.own);
    start = process_now_ms();
    assert_status(ROWLOCK_TIMEOUT, native_lock(NULL, m.client, &m.own, &name, 1, &options, &m.err),
                  &m.err);
    assert_true(process_now_ms() - start >= wait_ms);
    assert_int_equal(0, native_commit(&m.own));
    assert_int_equal(1, mood_is_committed(row));
    assert_status(ROWLOCK_OK, rowlock_tx_commit(&other, &m.err), &m.err);
    mood_close(&m);
}

/* ---- PostgreSQL: roles ----------------------------------------------------------------------- */

/* A role whose sessions start with `setting`. */
static void with_role(char *address, size_t size, const char *setting)
{
    char sql[256];

    print_message("%s\n", setting);
    fault_sql("DROP ROLE IF EXISTS " ROLE);
    fault_sql("CREATE ROLE " ROLE " SUPERUSER LOGIN PASSWORD '" ROLE_PASSWORD "'");
    snprintf(sql, sizeof(sql), "ALTER ROLE " ROLE " SET %s", setting);
    fault_sql(sql);
    changed_address(address, size,
                    &(struct fault_address){.user = ROLE, .password = ROLE_PASSWORD});
}

static int drop_role(void **state)
{
    char out[64];

    mood_teardown(state);
    return fault_sql_on(fault.backend.address, "DROP ROLE IF EXISTS " ROLE, out, sizeof(out));
}

static void role_defaults(void **state)
{
    static const char *const settings[] = {
        "default_transaction_isolation = 'serializable'",
        "default_transaction_isolation = 'repeatable read'",
        "default_transaction_deferrable = on",
        "lock_timeout = 50",
        "statement_timeout = 2000",
        "standard_conforming_strings = off",
        "client_encoding = 'LATIN1'",
    };
    char address[1024];

    (void)state;
    for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
        with_role(address, sizeof(address), settings[i]);
        mood_all(address, 0);
    }
}

/* The client knows where the tables are; what the application's connection finds under the same
 * name is another one. */
static void role_path(void **state)
{
    char address[1024], setting[96];

    (void)state;
    fault_sql("CREATE SCHEMA {shadow}");
    fault_sql("CREATE TABLE {shadow}.{locks} (LIKE {locks} INCLUDING ALL)");
    snprintf(setting, sizeof(setting), "search_path = %sshadow, public", fault.prefix);
    with_role(address, sizeof(address), setting);
    mood_all(address, MOOD_OWN_ONLY);
    assert_int_equal(0, fault_sql_number("SELECT count(*) FROM {shadow}.{locks}"));
}

static int drop_shadow(void **state)
{
    char out[64];

    fault_sql_on(fault.backend.address, "DROP SCHEMA IF EXISTS {shadow} CASCADE", out, sizeof(out));
    return drop_role(state);
}

static void role_timeouts(void **state)
{
    char address[1024];

    (void)state;
    with_role(address, sizeof(address), "lock_timeout = 50");
    waits(address, 0, 500);
    with_role(address, sizeof(address), "statement_timeout = 1000");
    waits(address, 0, 1300);
}

static void role_idle(void **state)
{
    char address[1024];

    (void)state;
    with_role(address, sizeof(address), "idle_in_transaction_session_timeout = 2000");
    idle(address, "SELECT 1", 3000);
}

/* Our locks write. A transaction that may not is told so, and goes on reading. */
static void role_read_only(void **state)
{
    rowlock_tx *tx = NULL;
    const char *name = mood_name();
    rowlock_lock *lock;
    char address[1024];
    struct mood m;
    int status;

    (void)state;
    with_role(address, sizeof(address), "default_transaction_read_only = on");
    mood_open(&m, address, MOOD_OWN_ONLY);
    mood_begin(&m);
    assert_clear_error(native_lock(NULL, m.client, &m.own, &name, 1, NULL, &m.err), &m.err);
    assert_int_equal(0, m.err.retryable);
    assert_int_equal(0, native_run(&m.own, "SELECT 1"));
    lock = fault_acquire(m.client, name, 0);
    assert_clear_error(native_guard(lock, &m.own, &m.err), &m.err);
    assert_int_equal(0, native_run(&m.own, "SELECT 1"));
    assert_int_equal(0, native_commit(&m.own));
    fault_release(&lock);
    mood_close(&m);

    status = fault_try_open(&m.client, address, NULL, &m.err);
    if (status == ROWLOCK_OK)
        status = rowlock_tx_begin(&tx, m.client, &name, 1, NULL, &m.err);
    if (status == ROWLOCK_OK)
        assert_status(ROWLOCK_OK, rowlock_tx_commit(&tx, &m.err), &m.err);
    else
        assert_clear_error(status, &m.err);
    rowlock_close(&m.client);
}

/* ---- MySQL: global settings ------------------------------------------------------------------ */

static const struct global {
    const char *name, *value;
    unsigned flags;
} globals[] = {
    {"autocommit", "0", 0},
    {"autocommit", "0", MOOD_NO_BEGIN},
    {"transaction_isolation", "'SERIALIZABLE'", 0},
    {"tx_isolation", "'SERIALIZABLE'", 0}, /* the same, as older MariaDB calls it */
    {"innodb_snapshot_isolation", "ON", 0},
    {"completion_type", "'CHAIN'", 0},
    {"sql_mode", "''", MOOD_FOUND_ROWS},
    {"sql_mode", "'ORACLE'", 0},
    {"sql_mode", "'ANSI_QUOTES'", 0},
    {"sql_mode", "'NO_BACKSLASH_ESCAPES'", 0},
    {"sql_mode", "'SIMULTANEOUS_ASSIGNMENT'", 0},
    {"sql_mode", "'PIPES_AS_CONCAT,NO_UNSIGNED_SUBTRACTION'", 0},
};

enum { GLOBALS = sizeof(globals) / sizeof(globals[0]) };

/* What the settings were: name and value. */
static char saved[160], saved_name[64];

/* 0 if this server has no such setting, or not that value. */
static int change(const struct global *global)
{
    struct native native;
    int failed;

    assert_int_equal(0, native_open(&native, fault.backend.address, 0));
    snprintf(saved_name, sizeof(saved_name), "%s", global->name);
    failed = native_run(&native, "SELECT @@GLOBAL.%s", global->name);
    native.out[strcspn(native.out, "|")] = '\0';
    snprintf(saved, sizeof(saved), "%.150s", native.out);
    if (failed)
        saved_name[0] = '\0';
    else
        failed = native_run(&native, "SET GLOBAL %s = %s", global->name, global->value);
    native_close(&native);
    print_message("%s = %s%s\n", global->name, global->value, failed ? ": not there" : "");
    return !failed;
}

static int restore(void **state)
{
    char sql[256], out[64];
    int number = saved[strspn(saved, "0123456789")] == '\0' && saved[0] != '\0';

    (void)state;
    if (saved_name[0] == '\0')
        return 0;
    snprintf(sql, sizeof(sql), number ? "SET GLOBAL %s = %s" : "SET GLOBAL %s = '%s'", saved_name,
             saved);
    saved_name[0] = '\0';
    return fault_sql_on(fault.backend.address, sql, out, sizeof(out));
}

static int restore_and_drop(void **state)
{
    int failed = restore(state);
    return mood_teardown(state) | failed;
}

/* Does a session that starts with autocommit off say that a transaction is open? MySQL's does not
 * until it has switched it off itself. */
static int is_always_open(void)
{
    const char *name = mood_name();
    struct mood m;
    int status;

    mood_open(&m, fault.backend.address, MOOD_NO_BEGIN);
    status = native_lock(NULL, m.client, &m.own, &name, 1, NULL, &m.err);
    if (status == ROWLOCK_EINVAL) {
        assert_int_equal(0, native_run(&m.own, "SET autocommit = 1"));
        assert_int_equal(0, native_run(&m.own, "SET autocommit = 0"));
        assert_status(ROWLOCK_OK, native_lock(NULL, m.client, &m.own, &name, 1, NULL, &m.err),
                      &m.err);
    }
    mood_close(&m);
    return status != ROWLOCK_EINVAL;
}

static void global_defaults(void **state)
{
    int had = 0;

    for (int i = 0; i < GLOBALS; i++) {
        if (change(&globals[i]) && (!(globals[i].flags & MOOD_NO_BEGIN) || is_always_open())) {
            mood_all(fault.backend.address, globals[i].flags);
            had++;
        }
        assert_int_equal(0, restore(state));
    }
    assert_true(had >= 7);
}

static void global_timeouts(void **state)
{
    (void)state;
    assert_int_equal(1, change(&(struct global){"innodb_lock_wait_timeout", "1", 0}));
    waits(fault.backend.address, 0, 2200);
}

static void session_idle(void **state)
{
    (void)state;
    idle(fault.backend.address, "SET SESSION wait_timeout = 1", 2500);
}

/* A transaction that is read-only by the session's default. */
static void session_read_only(void **state)
{
    const char *name = mood_name();
    rowlock_lock *lock;
    struct mood m;
    int status;

    (void)state;
    mood_open(&m, fault.backend.address, 0);
    assert_int_equal(0, native_run(&m.own, "SET SESSION TRANSACTION READ ONLY"));
    mood_begin(&m);
    assert_clear_error(native_lock(NULL, m.client, &m.own, &name, 1, NULL, &m.err), &m.err);
    assert_int_equal(0, m.err.retryable);
    assert_int_equal(0, native_run(&m.own, "ROLLBACK"));
    lock = fault_acquire(m.client, name, 0);
    mood_begin(&m);
    status = native_guard(lock, &m.own, &m.err);
    if (status != ROWLOCK_OK)
        assert_clear_error(status, &m.err);
    assert_int_equal(0, native_run(&m.own, "ROLLBACK"));
    fault_release(&lock);
    mood_close(&m);
}

#define CASE(name, teardown) cmocka_unit_test_setup_teardown(name, mood_setup, teardown)

int main(int argc, char **argv)
{
    const struct CMUnitTest postgresql[] = {
        CASE(role_defaults, drop_role),  CASE(role_path, drop_shadow),
        CASE(role_timeouts, drop_role),  CASE(role_idle, drop_role),
        CASE(role_read_only, drop_role),
    };
    const struct CMUnitTest mysql[] = {
        CASE(global_defaults, restore_and_drop),
        CASE(global_timeouts, restore_and_drop),
        CASE(session_idle, mood_teardown),
        CASE(session_read_only, mood_teardown),
    };

    if (argc == 2 && strcmp(argv[1], "mysql") == 0)
        return FAULT_MAIN(argc, argv, 0, mysql);
    return FAULT_MAIN(argc, argv, 0, postgresql);
}
