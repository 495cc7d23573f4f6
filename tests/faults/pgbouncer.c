/* SPDX-License-Identifier: MIT
 *
 * Through PgBouncer in transaction mode: each statement may run on another server connection, so
 * nothing may be kept in a session, and nothing may be left behind in one. */
#include "fault.h"
#include "hammer.h"
#include "queue_scene.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *bouncer;

static void everything_works(void **state)
{
    struct hammer_result result = hammer(bouncer, 4, 4, 2000);

    (void)state;
    if (result.errors > 0 || result.wrongs > 0)
        fail_msg("%ld grants, %ld errors (first %d: %s), %ld wrong", result.grants, result.errors,
                 result.status, result.message, result.wrongs);
    assert_true(result.grants > 0);
}

static void batches(void **state)
{
    rowlock_client *client = fault_open(bouncer, NULL);
    static struct fault_batch batch;
    rowlock_error err;

    (void)state;
    fault_batch_init(&batch, "bouncer");
    for (int i = 0; i < 3; i++) {
        assert_status(
            ROWLOCK_OK,
            rowlock_acquire_many(batch.locks, client, batch.names, FAULT_BATCH, NULL, &err), &err);
        for (int k = 0; k < FAULT_BATCH; k++)
            fault_release(&batch.locks[k]);
    }
    rowlock_close(&client);
}

static void migrate_down_and_up(void **state)
{
    rowlock_options options = ROWLOCK_OPTIONS_INIT;
    rowlock_client *client;
    rowlock_error err;
    int version = 0;

    (void)state;
    options.prefix = "bouncer_";
    options.schema_policy = ROWLOCK_SCHEMA_IGNORE;
    client = fault_open(bouncer, &options);
    assert_status(ROWLOCK_OK, rowlock_migrate(client, ROWLOCK_SCHEMA_LATEST, &err), &err);
    assert_status(ROWLOCK_OK, rowlock_schema_version(&version, client, &err), &err);
    assert_int_equal(rowlock_migration_count(fault.backend.driver), version);
    assert_status(ROWLOCK_OK, rowlock_migrate(client, 0, &err), &err);
    assert_status(ROWLOCK_OK, rowlock_schema_version(&version, client, &err), &err);
    assert_int_equal(0, version);
    rowlock_close(&client);
}

/* No bells here: a session's locks would stay with a server connection that is somebody else's by
 * then. The queue is kept all the same, and those who wait ask. */
static void queue_is_kept(void **state)
{
    const struct queue_part how = {.ttl_ms = 60000, .hold_ms = 1, .address = bouncer};
    struct queue_scene scene;
    char order[64];

    (void)state;
    queue_open(&scene, "bouncer", 4);
    for (int i = 0; i < 4; i++)
        queue_join(&scene, &how);
    queue_release(&scene);
    for (int i = 0; i < 4; i++)
        queue_await_end(&scene, i, 30000);
    queue_order(&scene, order, sizeof(order));
    for (int i = 0; i < 4; i++)
        assert_int_equal(1, scene.shared->parts[i].polled);
    assert_string_equal("0 1 2 3", order);
    queue_close(&scene);
}

enum { POOL = 2 }; /* server connections of tests/support/servers */

/* On every server connection of the pool, which is kept busy until all have begun. */
static void on_the_whole_pool(const char *sql)
{
    const struct backend_kind *kind = fault.backend.kind;
    void *sessions[POOL];

    for (int i = 0; i < POOL; i++) {
        sessions[i] = kind->sql_open(bouncer);
        assert_non_null(sessions[i]);
        assert_int_equal(0, kind->sql_run(sessions[i], "BEGIN", NULL, 0));
    }
    for (int i = 0; i < POOL; i++) {
        assert_int_equal(0, kind->sql_run(sessions[i], sql, NULL, 0));
        assert_int_equal(0, kind->sql_run(sessions[i], "COMMIT", NULL, 0));
    }
    for (int i = 0; i < POOL; i++)
        kind->sql_close(sessions[i]);
}

/* Other clients of the pool have left search paths and temporary tables behind. */
static void the_tables_are_the_same_on_every_connection(void **state)
{
    rowlock_client *direct = fault_open(fault.backend.address, NULL), *client;
    const char *name = fault_name("pool");
    rowlock_lock *lock, *other = NULL;
    rowlock_error err;
    char sql[256];

    (void)state;
    fault_sql("CREATE SCHEMA elsewhere");
    fault_sql("CREATE TABLE elsewhere.{locks} (LIKE public.{locks} INCLUDING ALL)");
    fault_sql("CREATE TABLE elsewhere.{schema} AS SELECT * FROM public.{schema}");
    snprintf(sql, sizeof sql,
             "SET search_path = elsewhere; "
             "CREATE TEMPORARY TABLE %slocks (LIKE public.%slocks INCLUDING ALL)",
             fault.prefix, fault.prefix);
    on_the_whole_pool(sql);
    client = fault_open(bouncer, NULL);
    lock = fault_acquire(client, name, 60000);
    assert_status(ROWLOCK_BUSY, rowlock_acquire(&other, direct, name, NULL, &err), &err);
    assert_int_equal(0, fault_sql_number("SELECT count(*) FROM elsewhere.{locks}"));
    fault_release(&lock);
    rowlock_close(&client);
    rowlock_close(&direct);
    snprintf(sql, sizeof sql, "DROP TABLE pg_temp.%slocks; RESET search_path", fault.prefix);
    on_the_whole_pool(sql);
    fault_sql("DROP SCHEMA elsewhere CASCADE");
}

/* The next user of the server connections finds them as they were: asked often enough, through the
 * pooler, to see each of them. */
static void nothing_is_left_behind(void **state)
{
    static const char *const questions[] = {
        "SELECT count(*) FROM pg_prepared_statements",
        "SELECT count(*) FROM pg_cursors",
        "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'",
        "SELECT count(*) FROM pg_listening_channels()",
        /* but for the one that the pooler itself carries over */
        "SELECT count(*) FROM pg_settings WHERE source = 'session' AND name <> 'application_name'",
        "SELECT count(*) FROM pg_class WHERE relpersistence = 't'",
    };
    struct hammer_result result = hammer(bouncer, 4, 4, 300);
    char out[256];

    (void)state;
    assert_int_equal(0, result.errors);
    for (size_t i = 0; i < sizeof(questions) / sizeof(questions[0]); i++) {
        for (int k = 0; k < 10; k++) {
            assert_int_equal(0, fault_sql_on(bouncer, questions[i], out, sizeof(out)));
            out[strcspn(out, "\n")] = '\0';
            if (strcmp(out, "0") != 0)
                print_error("%s: %s\n", questions[i], out);
            assert_string_equal("0", out);
        }
    }
    assert_int_equal(0, fault_sql_on(bouncer,
                                     "SELECT count(*) FROM pg_stat_activity WHERE state LIKE "
                                     "'idle in transaction%' AND datname = current_database()",
                                     out, sizeof(out)));
    assert_string_equal("0", strtok(out, "\n"));
}

/* ---- settings that another client of the pool has left in its sessions ----------------------- */

static const char *left_setting;

/* Each of several sessions has a transaction open at the same time, so that each has a server
 * connection of its own; with more than the pool has they wait for each other. */
static void leave_setting(const char *sql)
{
    const struct backend_kind *kind = fault.backend.kind;
    void *first = kind->sql_open(bouncer), *second = kind->sql_open(bouncer);

    assert_non_null(first);
    assert_non_null(second);
    assert_int_equal(0, kind->sql_run(first, "BEGIN", NULL, 0));
    assert_int_equal(0, kind->sql_run(second, "BEGIN", NULL, 0));
    assert_int_equal(0, kind->sql_run(first, sql, NULL, 0));
    assert_int_equal(0, kind->sql_run(second, sql, NULL, 0));
    assert_int_equal(0, kind->sql_run(first, "COMMIT", NULL, 0));
    assert_int_equal(0, kind->sql_run(second, "COMMIT", NULL, 0));
    kind->sql_close(first);
    kind->sql_close(second);
    left_setting = sql;
}

static int read_only_by_default(const char *value)
{
    int64_t until = process_now_ms() + 30000;
    char sql[128], out[64];

    snprintf(sql, sizeof(sql), "ALTER SYSTEM SET default_transaction_read_only = %s", value);
    if (fault_sql_on(fault.backend.address, sql, out, sizeof(out)) != 0 ||
        fault_sql_on(fault.backend.address, "SELECT pg_reload_conf()", out, sizeof(out)) != 0)
        return -1;
    do {
        process_sleep_ms(5);
        if (fault_sql_on(fault.backend.address, "SHOW default_transaction_read_only", out,
                         sizeof(out)) != 0)
            return -1;
    } while (strncmp(out, value, strlen(value)) != 0 && process_now_ms() < until);
    return strncmp(out, value, strlen(value)) == 0 ? 0 : -1;
}

static int clean_sessions(void **state)
{
    (void)state;
    if (left_setting != NULL)
        leave_setting("RESET default_transaction_read_only");
    left_setting = NULL;
    return read_only_by_default("off");
}

static void left_read_only(void **state)
{
    leave_setting("SET default_transaction_read_only = on");
    everything_works(state);
}

/* The server is to be obeyed, not the other client. */
static void left_writable(void **state)
{
    rowlock_options options = ROWLOCK_OPTIONS_INIT;
    rowlock_client *client, *none = NULL;
    rowlock_lock *lock = NULL;
    rowlock_tx *tx = NULL;
    const char *name = "left";
    rowlock_error err;

    (void)state;
    options.call_timeout_ms = 500;
    client = fault_open(bouncer, &options);
    leave_setting("SET default_transaction_read_only = off");
    assert_int_equal(0, read_only_by_default("on"));
    assert_int_not_equal(ROWLOCK_OK, rowlock_acquire(&lock, client, name, NULL, &err));
    assert_int_not_equal(ROWLOCK_OK, rowlock_tx_begin(&tx, client, &name, 1, NULL, &err));
    assert_status(ROWLOCK_ECONNECT, fault_try_open(&none, bouncer, &options, &err), &err);
    assert_string_equal("25006", err.sqlstate);
    assert_int_equal(0, read_only_by_default("off"));
    lock = fault_acquire(client, name, 0);
    fault_release(&lock);
    rowlock_close(&client);
}

int main(int argc, char **argv)
{
    const char *no_skip = getenv("ROWLOCK_TEST_NO_SKIP");
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(everything_works),
        cmocka_unit_test(batches),
        cmocka_unit_test(migrate_down_and_up),
        cmocka_unit_test(queue_is_kept),
        cmocka_unit_test(the_tables_are_the_same_on_every_connection),
        cmocka_unit_test(nothing_is_left_behind),
        cmocka_unit_test_teardown(left_read_only, clean_sessions),
        cmocka_unit_test_teardown(left_writable, clean_sessions),
    };

    bouncer = getenv("ROWLOCK_TEST_PGBOUNCER");
    if (bouncer == NULL) {
        int fails = no_skip != NULL && strcmp(no_skip, "1") == 0;
        fprintf(stderr, "*** %s: ROWLOCK_TEST_PGBOUNCER is not set, so NOTHING WAS TESTED ***\n",
                fails ? "FAILED" : "SKIPPED");
        return fails ? 1 : 77;
    }
    return FAULT_MAIN(argc, argv, 0, cases);
}
