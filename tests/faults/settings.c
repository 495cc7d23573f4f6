/* SPDX-License-Identifier: MIT
 *
 * Servers with settings of their own: read-only ones are refused, defaults of roles and servers
 * must not matter. Changes settings of the server and puts them back. */
#include "hammer.h"
#include "refused.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROLE          "rowlock_fault"
#define ROLE_PASSWORD "r0le-Pa55w0rd"

/* One after the other, undisturbed, as often as a driver may need to learn what to expect. */
static void assert_cycles(const char *address)
{
    rowlock_client *client = fault_open(address, NULL);

    for (int i = 0; i < 6; i++) {
        rowlock_lock *lock = fault_acquire(client, "cycle", 0);

        fault_release(&lock);
    }
    rowlock_close(&client);
}

/* Several locks in one statement, absent at first and then free, the same as a transaction's; names
 * that differ at their end alone. */
static void assert_batches(const char *address)
{
    enum { N = 4, PAD = 100 };
    rowlock_client *client = fault_open(address, NULL), *other = fault_open(address, NULL);
    const char *names[N];
    rowlock_lock *locks[N];
    char text[N][160];
    rowlock_tx *tx = NULL;
    rowlock_error err;

    for (int i = 0; i < N; i++) {
        snprintf(text[i], sizeof(text[i]), "%0*d.%d", PAD, 0, i);
        names[i] = text[i];
    }
    for (int i = 0; i < 3; i++) {
        assert_status(ROWLOCK_OK, rowlock_acquire_many(locks, client, names, N, NULL, &err), &err);
        assert_status(ROWLOCK_BUSY, rowlock_tx_begin(&tx, other, names, N, NULL, &err), &err);
        assert_status(ROWLOCK_OK, rowlock_release_many(NULL, locks, N, &err), &err);
        assert_status(ROWLOCK_OK, rowlock_tx_begin(&tx, other, names, N, NULL, &err), &err);
        assert_status(ROWLOCK_OK, rowlock_tx_commit(&tx, &err), &err);
    }
    rowlock_close(&other);
    rowlock_close(&client);
}

static void assert_works(const char *address)
{
    struct hammer_result result = hammer(address, 4, 4, 1000);

    if (result.errors > 0 || result.wrongs > 0)
        fail_msg("%ld grants, %ld errors (first %d: %s), %ld wrong", result.grants, result.errors,
                 result.status, result.message, result.wrongs);
    assert_true(result.grants > 0);
    assert_cycles(address);
    assert_batches(address);
}

/* ---- PostgreSQL: standby and roles ----------------------------------------------------------- */

static void standby(void **state)
{
    const char *address = getenv("ROWLOCK_TEST_STANDBY");

    (void)state;
    if (address == NULL)
        skip_or_fail("standby: ROWLOCK_TEST_STANDBY is not set");
    assert_refused(ROWLOCK_ECONNECT, address, ROWLOCK_SCHEMA_REQUIRE, NULL,
                   "read-only|read only|standby|recovery|primary");
    assert_refused(ROWLOCK_ECONNECT, address, ROWLOCK_SCHEMA_CREATE, NULL,
                   "read-only|read only|standby|recovery|primary");
}

/* A role whose sessions start with `setting`. */
static void with_role(char *address, size_t size, const char *setting)
{
    char sql[256];

    fault_sql("DROP ROLE IF EXISTS " ROLE);
    fault_sql("CREATE ROLE " ROLE " SUPERUSER LOGIN PASSWORD '" ROLE_PASSWORD "'");
    snprintf(sql, sizeof(sql), "ALTER ROLE " ROLE " SET %s", setting);
    fault_sql(sql);
    changed_address(address, size,
                    &(struct fault_address){.user = ROLE, .password = ROLE_PASSWORD});
}

static void role_defaults(void **state)
{
    static const char *const settings[] = {
        "default_transaction_isolation = 'serializable'",
        "default_transaction_isolation = 'repeatable read'",
        "default_transaction_deferrable = on",
        "TimeZone = 'Asia/Kathmandu'",
        "DateStyle = 'SQL, DMY'",
        "bytea_output = 'escape'",
        "standard_conforming_strings = off",
        "client_encoding = 'LATIN1'",
        "extra_float_digits = -15",
        "idle_in_transaction_session_timeout = 100",
    };
    char address[1024];

    (void)state;
    for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
        print_message("%s\n", settings[i]);
        with_role(address, sizeof(address), settings[i]);
        assert_works(address);
    }
}

/* Rows are found by their key, whatever the planner may use otherwise. The numbers of a session are
 * there when it has ended. */
static void role_without_index_scans(void **state)
{
    static const char count[] = "SELECT seq_scan FROM pg_stat_all_tables "
                                "WHERE relid = '{locks}'::regclass";
    struct fault_batch batch;
    rowlock_client *client;
    char address[1024];
    rowlock_error err;
    long long before;

    (void)state;
    with_role(address, sizeof(address), "enable_indexscan = off");
    fault_batch_init(&batch, "index");
    before = fault_sql_number(count);
    client = fault_open(address, NULL);
    assert_status(ROWLOCK_OK,
                  rowlock_acquire_many(batch.locks, client, batch.names, FAULT_BATCH, NULL, &err),
                  &err);
    for (int i = 0; i < FAULT_BATCH; i++)
        fault_release(&batch.locks[i]);
    rowlock_close(&client);
    for (int i = 0; i < 5000 && fault_sql_number("SELECT count(*) FROM pg_stat_activity "
                                                 "WHERE usename = '" ROLE "'") > 0;
         i++)
        process_sleep_ms(1);
    assert_int_equal(before, fault_sql_number(count));
}

/* It ends the session, not the statement: a wait for a lock must not be a series of them. */
static void role_transaction_timeout(void **state)
{
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;
    rowlock_counters counters = {.size = sizeof(counters)};
    rowlock_client *holder, *waiter;
    rowlock_lock *held, *lock = NULL;
    rowlock_error err;
    char address[1024];

    (void)state;
    if (fault_sql_number("SELECT current_setting('server_version_num')") < 170000) {
        print_error("NOT TESTED: this server has no transaction_timeout, 17 and later have\n");
        return;
    }
    with_role(address, sizeof(address), "transaction_timeout = 300");
    assert_works(address);
    holder = fault_open(fault.backend.address, NULL);
    waiter = fault_open(address, NULL);
    held = fault_acquire(holder, "transaction_timeout", 60000);
    options.wait_ms = 1500;
    assert_status(ROWLOCK_TIMEOUT,
                  rowlock_acquire(&lock, waiter, "transaction_timeout", &options, &err), &err);
    assert_status(ROWLOCK_OK, rowlock_stats(&counters, waiter, &err), &err);
    assert_int_equal(0, counters.reconnects);
    fault_release(&held);
    rowlock_close(&waiter);
    rowlock_close(&holder);
}

/* As a primary that was replaced says it; faults.read_only has more. */
static void role_read_only(void **state)
{
    char address[1024];

    (void)state;
    with_role(address, sizeof(address), "default_transaction_read_only = on");
    assert_refused(ROWLOCK_ECONNECT, address, 0, NULL, "default_transaction_read_only");
}

static int drop_role(void **state)
{
    char out[64];

    (void)state;
    return fault_sql_on(fault.backend.address, "DROP ROLE IF EXISTS " ROLE, out, sizeof(out));
}

/* ---- MySQL: read_only and global defaults ---------------------------------------------------- */

/* An ordinary account: all on our database, nothing global, so that read_only applies to it. */
static void with_account(char *address, size_t size)
{
    char database[128];
    char sql[512];

    fault_sql_text(database, sizeof(database), "SELECT DATABASE()");
    database[strcspn(database, "\n|")] = '\0';
    fault_sql("DROP USER IF EXISTS " ROLE);
    fault_sql("CREATE USER " ROLE " IDENTIFIED BY '" ROLE_PASSWORD "'");
    snprintf(sql, sizeof(sql), "GRANT ALL ON `%s`.* TO " ROLE, database);
    fault_sql(sql);
    changed_address(address, size,
                    &(struct fault_address){.user = ROLE, .password = ROLE_PASSWORD});
}

static void read_only_server(void **state)
{
    rowlock_client *client;
    rowlock_lock *lock = NULL;
    rowlock_error err;
    char address[1024];
    int status;

    (void)state;
    with_account(address, sizeof(address));
    client = fault_open(address, NULL);
    fault_sql("SET GLOBAL read_only = ON");
    assert_refused(ROWLOCK_ECONNECT, address, 0, NULL, "read-only|read only|read_only");
    status = rowlock_acquire(&lock, client, "demoted", NULL, &err);
    assert_status(ROWLOCK_ECONNECT, status, &err);
    assert_null(lock);
    fault_sql("SET GLOBAL read_only = OFF");
    lock = fault_acquire(client, "demoted", 0);
    fault_release(&lock);
    rowlock_close(&client);
}

struct global {
    const char *name, *value;
};

static const struct global globals[] = {
    {"autocommit", "0"},
    {"sql_mode", "'ANSI_QUOTES,NO_BACKSLASH_ESCAPES,PIPES_AS_CONCAT'"},
    {"time_zone", "'+05:45'"},
    {"character_set_server", "'latin1'"},
    {"completion_type", "'CHAIN'"},
    {"completion_type", "'RELEASE'"},
    {"innodb_lock_wait_timeout", "1"},
    {"max_prepared_stmt_count", "0"},
    {"sql_select_limit", "1"},
    {"sql_safe_updates", "1"},
    {"max_join_size", "1"}, /* and sql_big_selects = 0 by it */
    {"max_sort_length", "8"},
    {"unique_checks", "0"},
    {"max_statement_time", "0.000001"}, /* MariaDB's, in seconds */
    {"max_execution_time", "1"},        /* MySQL's, in milliseconds */
};

enum { GLOBALS = sizeof(globals) / sizeof(globals[0]) };

/* What a setting was while a test changes it; "": it is not changed. */
static char saved[GLOBALS][160];

static int is_number(const char *text)
{
    return text[0] != '\0' && text[strspn(text, "0123456789.")] == '\0';
}

/* -1: this server does not know it. */
static int change(int i)
{
    char sql[256], out[64];

    snprintf(sql, sizeof(sql), "SELECT @@GLOBAL.%s", globals[i].name);
    if (fault_sql_on(fault.backend.address, sql, saved[i], sizeof(saved[i])) != 0) {
        saved[i][0] = '\0';
        return -1;
    }
    saved[i][strcspn(saved[i], "\n")] = '\0';
    snprintf(sql, sizeof(sql), "SET GLOBAL %s = %s", globals[i].name, globals[i].value);
    return fault_sql_on(fault.backend.address, sql, out, sizeof(out));
}

static int restore(int i)
{
    char sql[256], out[64];

    if (saved[i][0] == '\0')
        return 0;
    snprintf(sql, sizeof(sql), is_number(saved[i]) ? "SET GLOBAL %s = %s" : "SET GLOBAL %s = '%s'",
             globals[i].name, saved[i]);
    saved[i][0] = '\0';
    return fault_sql_on(fault.backend.address, sql, out, sizeof(out));
}

/* Both families have all but one of them. */
static void global_defaults(void **state)
{
    int absent = 0;

    (void)state;
    fault_sql("SET GLOBAL TRANSACTION ISOLATION LEVEL SERIALIZABLE");
    print_message("isolation level serializable\n");
    assert_works(fault.backend.address);
    for (int i = 0; i < GLOBALS; i++) {
        int changed = change(i) == 0;

        print_message("%s = %s%s\n", globals[i].name, globals[i].value,
                      changed ? "" : ": not known here");
        absent += !changed;
        if (changed)
            assert_works(fault.backend.address);
        assert_int_equal(0, restore(i));
    }
    assert_int_equal(1, absent);
}

static int restore_joins(void **state)
{
    char out[64];

    (void)state;
    return fault_sql_on(fault.backend.address, "SET GLOBAL optimizer_switch = DEFAULT", out,
                        sizeof(out)) |
           fault_sql_on(fault.backend.address,
                        "SET /*M! GLOBAL join_cache_level = DEFAULT, */ "
                        "GLOBAL max_sort_length = DEFAULT",
                        out, sizeof(out));
}

enum { CALL_MS = 5000 };

static rowlock_op op_of(const char *name, uint8_t number)
{
    rowlock_op op = {.name = name,
                     .name_length = strlen(name),
                     .owner = "settings",
                     .note = "",
                     .ttl_us = 60000000};

    memset(op.attempt, number, sizeof op.attempt);
    return op;
}

/* Of two that are released together one is locked: none is, and who asked is answered so. MariaDB
 * passes over such a row where it fetches rows in batches. */
static void batched_joins(void **state)
{
    const rowlock_driver *driver = fault.backend.kind->driver();
    rowlock_config config = {
        .size = sizeof config, .address = fault.backend.address, .prefix = fault.prefix};
    void *conn = calloc(1, driver->conn_size), *session;
    rowlock_op ops[] = {op_of("joins a", 1), op_of("joins b", 1)};
    rowlock_error err;
    char sql[256];

    (void)state;
    assert_non_null(conn);
    fault_sql("SET /*M! GLOBAL join_cache_level = 8, */ "
              "GLOBAL optimizer_switch = 'mrr=on,mrr_cost_based=off,mrr_sort_keys=on'");
    assert_status(ROWLOCK_OK, driver->open(conn, &config, CALL_MS, &err), &err);
    for (int i = 0; i < 2; i++)
        assert_status(ROWLOCK_OK, driver->acquire(conn, &ops[i], 1, 0, CALL_MS, &err), &err);
    session = fault.backend.kind->sql_open(fault.backend.address);
    assert_non_null(session);
    snprintf(sql, sizeof(sql), "SELECT 1 FROM %slocks WHERE name = 'joins b' FOR UPDATE",
             fault.prefix);
    assert_int_equal(0, fault.backend.kind->sql_run(session, "START TRANSACTION", NULL, 0));
    assert_int_equal(0, fault.backend.kind->sql_run(session, sql, NULL, 0));
    for (int i = 0; i < 2; i++)
        memset(ops[i].attempt, 2, sizeof ops[i].attempt);
    assert_status(ROWLOCK_EDRIVER, driver->release(conn, ops, 2, CALL_MS, &err), &err);
    assert_int_equal(2, fault_sql_number("SELECT SUM(hold_count) FROM {locks} "
                                         "WHERE name LIKE 'joins%'"));
    fault.backend.kind->sql_close(session);
    assert_status(ROWLOCK_OK, driver->release(conn, ops, 2, CALL_MS, &err), &err);
    driver->close(conn);
    free(conn);
}

/* A server that makes tables of another engine, whatever is asked for: such a table locks nothing.
 */
static void other_engine(void **state)
{
    char out[64];

    (void)state;
    if (fault_sql_on(fault.backend.address, "SET GLOBAL enforce_storage_engine = 'MyISAM'", out,
                     sizeof(out)) != 0) {
        print_error("NOT TESTED: this server has no enforce_storage_engine, MariaDB has\n");
        return;
    }
    assert_refused(ROWLOCK_EDRIVER, fault.backend.address, ROWLOCK_SCHEMA_CREATE,
                   "settings_engine_", "ENGINE");
}

static int restore_engine(void **state)
{
    char out[64];

    (void)state;
    fault_sql_on(fault.backend.address, "SET GLOBAL enforce_storage_engine = NULL", out,
                 sizeof(out));
    return fault_sql_on(fault.backend.address,
                        "DROP TABLE IF EXISTS settings_engine_locks, settings_engine_waiters, "
                        "settings_engine_schema, settings_engine_floor",
                        out, sizeof(out));
}

/* Also after a failure. The isolation level becomes the server's own default. */
static int restore_globals(void **state)
{
    char out[64];
    int failed = 0;

    (void)state;
    for (int i = 0; i < GLOBALS; i++)
        failed |= restore(i);
    failed |= fault_sql_on(fault.backend.address, "SET GLOBAL read_only = OFF", out, sizeof(out));
    failed |=
        fault_sql_on(fault.backend.address,
                     "SET GLOBAL TRANSACTION ISOLATION LEVEL REPEATABLE READ", out, sizeof(out));
    failed |= fault_sql_on(fault.backend.address, "DROP USER IF EXISTS " ROLE, out, sizeof(out));
    return failed;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest postgresql[] = {
        cmocka_unit_test(standby),
        cmocka_unit_test_teardown(role_defaults, drop_role),
        cmocka_unit_test_teardown(role_without_index_scans, drop_role),
        cmocka_unit_test_teardown(role_transaction_timeout, drop_role),
        cmocka_unit_test_teardown(role_read_only, drop_role),
    };
    const struct CMUnitTest mysql[] = {
        cmocka_unit_test_teardown(read_only_server, restore_globals),
        cmocka_unit_test_teardown(global_defaults, restore_globals),
        cmocka_unit_test_teardown(batched_joins, restore_joins),
        cmocka_unit_test_teardown(other_engine, restore_engine),
    };

    if (argc == 2 && strcmp(argv[1], "mysql") == 0)
        return FAULT_MAIN(argc, argv, 0, mysql);
    return FAULT_MAIN(argc, argv, 0, postgresql);
}
