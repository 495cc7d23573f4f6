/* SPDX-License-Identifier: MIT
 *
 * Servers that are not as they should be: wrong addresses, wrong tables, read-only servers, and
 * defaults of roles and servers that must not matter. Each is refused with the documented status
 * and one clear line, and nothing is changed; or it works. */
#include "fault.h"
#include "hammer.h"

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#define WRONG_PASSWORD "wr0ng-Pa55w0rd"
#define ROLE           "rowlock_fault"
#define ROLE_PASSWORD  "r0le-Pa55w0rd"

/* ---- helpers --------------------------------------------------------------------------------- */

/* Opening fails with the status and one line that holds one of the words (NULL: any). */
static void assert_refused(int expected, const char *address, int policy, const char *prefix,
                           const char *words)
{
    rowlock_options options = ROWLOCK_OPTIONS_INIT;
    rowlock_client *client = NULL;
    rowlock_error err;
    char list[128];
    int found = words == NULL;

    options.prefix = prefix;
    options.schema_policy = policy;
    options.connect_timeout_ms = 2000;
    assert_status(expected, fault_try_open(&client, address, &options, &err), &err);
    assert_null(client);
    assert_int_equal(expected, err.status);
    assert_int_not_equal(0, err.message[0]);
    assert_null(strchr(err.message, '\n'));
    snprintf(list, sizeof(list), "%s", words != NULL ? words : "");
    for (char *word = strtok(list, "|"); word != NULL; word = strtok(NULL, "|"))
        found |= strcasestr(err.message, word) != NULL;
    if (!found)
        fail_msg("\"%s\" holds none of: %s", err.message, words);
    assert_null(strstr(err.message, WRONG_PASSWORD));
}

static void assert_works(const char *address)
{
    struct hammer_result result = hammer(address, 4, 4, 1000);

    if (result.errors > 0 || result.wrongs > 0)
        fail_msg("%ld grants, %ld errors (first %d: %s), %ld wrong", result.grants, result.errors,
                 result.status, result.message, result.wrongs);
    assert_true(result.grants > 0);
}

static void changed(char *out, size_t size, const struct fault_address *change)
{
    assert_int_equal(0, fault_address(out, size, fault.backend.address, change));
}

/* For what this server or environment does not offer. */
static void skip_or_fail(const char *why)
{
    const char *no_skip = getenv("ROWLOCK_TEST_NO_SKIP");

    print_error("NOT TESTED: %s\n", why);
    if (no_skip != NULL && strcmp(no_skip, "1") == 0)
        fail();
    skip();
}

/* ---- addresses ------------------------------------------------------------------------------- */

static void wrong_password(void **state)
{
    char address[1024], out[64];

    (void)state;
    changed(address, sizeof(address), &(struct fault_address){.password = WRONG_PASSWORD});
    if (fault_sql_on(address, "SELECT 1", out, sizeof(out)) == 0)
        skip_or_fail("wrong password: this server does not check passwords");
    assert_refused(ROWLOCK_ECONNECT, address, 0, NULL, "password|denied|authentication");
}

static void unknown_user(void **state)
{
    char address[1024], out[64];

    (void)state;
    changed(address, sizeof(address),
            &(struct fault_address){.user = "rowlock_nobody", .password = WRONG_PASSWORD});
    if (fault_sql_on(address, "SELECT 1", out, sizeof(out)) == 0)
        skip_or_fail("unknown user: this server lets anybody in");
    assert_refused(ROWLOCK_ECONNECT, address, 0, NULL, "rowlock_nobody");
}

static void missing_database(void **state)
{
    char address[1024];

    (void)state;
    changed(address, sizeof(address), &(struct fault_address){.database = "rowlock_no_such"});
    assert_refused(ROWLOCK_ECONNECT, address, 0, NULL, "rowlock_no_such");
    assert_refused(ROWLOCK_ECONNECT, address, ROWLOCK_SCHEMA_CREATE, NULL, "rowlock_no_such");
}

/* A label of more than 63 characters: the resolver refuses it without asking anybody. */
static void no_such_host(void **state)
{
    char address[1024], host[80];

    (void)state;
    memset(host, 'h', 70);
    memcpy(host + 70, ".test", sizeof(".test"));
    changed(address, sizeof(address), &(struct fault_address){.host = host});
    assert_refused(ROWLOCK_ECONNECT, address, 0, NULL, NULL);
}

static int closed_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t length = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(0, bind(fd, (struct sockaddr *)&address, sizeof(address)));
    assert_int_equal(0, getsockname(fd, (struct sockaddr *)&address, &length));
    close(fd);
    return ntohs(address.sin_port);
}

static void port_closed(void **state)
{
    char address[1024];
    int64_t start = process_now_ms();

    (void)state;
    changed(address, sizeof(address), &(struct fault_address){.port = closed_port()});
    assert_refused(ROWLOCK_ECONNECT, address, 0, NULL, NULL);
    assert_in_range(process_now_ms() - start, 0, 2000 + FAULT_SLACK_MS);
}

/* ---- tables ---------------------------------------------------------------------------------- */

static void schema_missing(void **state)
{
    (void)state;
    assert_refused(ROWLOCK_ESCHEMA, fault.backend.address, ROWLOCK_SCHEMA_REQUIRE, "no_such_",
                   "migrate");
}

static void schema_newer(void **state)
{
    rowlock_options options = ROWLOCK_OPTIONS_INIT;
    rowlock_client *client;
    rowlock_error err;
    int version = 0;

    (void)state;
    fault_sql("UPDATE {schema} SET version = version + 98");
    assert_refused(ROWLOCK_ESCHEMA, fault.backend.address, ROWLOCK_SCHEMA_REQUIRE, NULL, "newer");
    assert_refused(ROWLOCK_ESCHEMA, fault.backend.address, ROWLOCK_SCHEMA_CREATE, NULL, "newer");
    options.schema_policy = ROWLOCK_SCHEMA_IGNORE;
    client = fault_open(fault.backend.address, &options);
    assert_status(ROWLOCK_ESCHEMA, rowlock_migrate(client, ROWLOCK_SCHEMA_LATEST, &err), &err);
    assert_status(ROWLOCK_ESCHEMA, rowlock_migrate(client, 0, &err), &err);
    assert_status(ROWLOCK_OK, rowlock_schema_version(&version, client, &err), &err);
    assert_int_equal(rowlock_migration_count(fault.backend.driver) + 98, version);
    rowlock_close(&client);
}

static void schema_older(void **state)
{
    (void)state;
    fault_sql("UPDATE {schema} SET version = version - 1");
    assert_refused(ROWLOCK_ESCHEMA, fault.backend.address, ROWLOCK_SCHEMA_REQUIRE, NULL, "migrate");
}

static int restore_version(void **state)
{
    char sql[128], out[64];

    (void)state;
    snprintf(sql, sizeof(sql), "UPDATE {schema} SET version = %d",
             rowlock_migration_count(fault.backend.driver));
    return fault_sql_on(fault.backend.address, sql, out, sizeof(out));
}

/* A client that is open while somebody takes the table away. */
static void table_vanishes(void **state)
{
    rowlock_client *client = fault_open(fault.backend.address, NULL);
    rowlock_lock *lock = fault_acquire(client, "vanishes", 0);
    rowlock_lock *none = NULL;
    rowlock_error err;

    (void)state;
    fault_sql("ALTER TABLE {locks} RENAME TO {elsewhere}");
    assert_int_equal(ROWLOCK_ESCHEMA, rowlock_acquire(&none, client, "other", NULL, &err));
    assert_null(none);
    assert_int_equal(ROWLOCK_ESCHEMA, rowlock_renew(lock, 0, &err));
    fault_sql("ALTER TABLE {elsewhere} RENAME TO {locks}");
    assert_status(ROWLOCK_OK, rowlock_renew(lock, 0, &err), &err);
    fault_release(&lock);
    rowlock_close(&client);
}

static int restore_table(void **state)
{
    char out[64];

    (void)state;
    fault_sql_on(fault.backend.address, "ALTER TABLE {elsewhere} RENAME TO {locks}", out,
                 sizeof(out));
    return 0;
}

static void prefix_injection(void **state)
{
    static const char *const prefixes[] = {"x\"; DROP TABLE y; --",
                                           "x`; DROP TABLE y; --",
                                           "x'; --",
                                           "x y",
                                           "x;",
                                           "x.y",
                                           "x\\",
                                           "X",
                                           "1x",
                                           "\xc3\xa4",
                                           "x/*",
                                           "a_prefix_of_more_than_31_characters_"};

    (void)state;
    for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++)
        assert_refused(ROWLOCK_EINVAL, fault.backend.address, ROWLOCK_SCHEMA_CREATE, prefixes[i],
                       "prefix");
}

static void schema_injection(void **state)
{
    static const char *const schemas[] = {"s\"; DROP TABLE y; --", "s`.x", "s'", "s;", "1s", "s s"};

    (void)state;
    for (size_t i = 0; i < sizeof(schemas) / sizeof(schemas[0]); i++) {
        rowlock_options options = ROWLOCK_OPTIONS_INIT;
        rowlock_client *client = NULL;
        rowlock_error err;
        options.schema = schemas[i];
        assert_status(ROWLOCK_EINVAL,
                      fault_try_open(&client, fault.backend.address, &options, &err), &err);
        assert_null(client);
    }
}

/* ---- PostgreSQL: standby and roles ----------------------------------------------------------- */

static void standby(void **state)
{
    const char *address = getenv("ROWLOCK_TEST_STANDBY");

    (void)state;
    if (!fault_is("postgresql"))
        skip();
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
    changed(address, size, &(struct fault_address){.user = ROLE, .password = ROLE_PASSWORD});
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
    if (!fault_is("postgresql"))
        skip();
    for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
        print_message("%s\n", settings[i]);
        with_role(address, sizeof(address), settings[i]);
        assert_works(address);
    }
}

/* Either it writes all the same, or it says plainly why not. */
static void role_read_only(void **state)
{
    struct hammer_result result;
    char address[1024];

    (void)state;
    if (!fault_is("postgresql"))
        skip();
    with_role(address, sizeof(address), "default_transaction_read_only = on");
    result = hammer(address, 2, 2, 300);
    if (result.errors > 0 && result.grants == 0 && result.status == ROWLOCK_ECONNECT) {
        assert_refused(ROWLOCK_ECONNECT, address, 0, NULL, "read-only|read only");
        return;
    }
    if (result.errors > 0)
        fail_msg("%ld grants, %ld errors, first %d: %s", result.grants, result.errors,
                 result.status, result.message);
    assert_true(result.grants > 0);
}

static int drop_role(void **state)
{
    char out[64];

    (void)state;
    if (fault_is("postgresql"))
        return fault_sql_on(fault.backend.address, "DROP ROLE IF EXISTS " ROLE, out, sizeof(out));
    return 0;
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
    changed(address, size, &(struct fault_address){.user = ROLE, .password = ROLE_PASSWORD});
}

static void read_only_server(void **state)
{
    rowlock_client *client;
    rowlock_lock *lock = NULL;
    rowlock_error err;
    char address[1024];
    int status;

    (void)state;
    if (!fault_is("mysql"))
        skip();
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

/* What the server's global settings are while a test changes them. */
static char saved[8][160];

static const struct global globals[] = {
    {"autocommit", "0"},
    {"sql_mode", "'ANSI_QUOTES,NO_BACKSLASH_ESCAPES,PIPES_AS_CONCAT'"},
    {"time_zone", "'+05:45'"},
    {"character_set_server", "'latin1'"},
    {"completion_type", "'CHAIN'"},
    {"innodb_lock_wait_timeout", "1"},
};

enum { GLOBALS = sizeof(globals) / sizeof(globals[0]) };

static void global_defaults(void **state)
{
    char sql[256];

    (void)state;
    if (!fault_is("mysql"))
        skip();
    fault_sql("SET GLOBAL TRANSACTION ISOLATION LEVEL SERIALIZABLE");
    print_message("isolation level serializable\n");
    assert_works(fault.backend.address);
    for (int i = 0; i < GLOBALS; i++) {
        print_message("%s = %s\n", globals[i].name, globals[i].value);
        snprintf(sql, sizeof(sql), "SET GLOBAL %s = %s", globals[i].name, globals[i].value);
        fault_sql(sql);
        assert_works(fault.backend.address);
    }
}

static int save_globals(void **state)
{
    char sql[256];

    (void)state;
    for (int i = 0; fault_is("mysql") && i < GLOBALS; i++) {
        snprintf(sql, sizeof(sql), "SELECT @@GLOBAL.%s", globals[i].name);
        if (fault_sql_on(fault.backend.address, sql, saved[i], sizeof(saved[i])) != 0)
            return -1;
        saved[i][strcspn(saved[i], "\n")] = '\0';
    }
    return 0;
}

/* Back to what was saved; the isolation level to the server's own default. In a session that has
 * its own sane modes, since new ones start with the broken ones. */
static int restore_globals(void **state)
{
    char sql[256], out[64];
    int failed = 0;

    (void)state;
    if (!fault_is("mysql"))
        return 0;
    for (int i = 0; i < GLOBALS; i++) {
        int number = saved[i][strspn(saved[i], "0123456789")] == '\0' && saved[i][0] != '\0';
        snprintf(sql, sizeof(sql), number ? "SET GLOBAL %s = %s" : "SET GLOBAL %s = '%s'",
                 globals[i].name, saved[i]);
        failed |= fault_sql_on(fault.backend.address, sql, out, sizeof(out));
    }
    failed |= fault_sql_on(fault.backend.address, "SET GLOBAL read_only = OFF", out, sizeof(out));
    failed |=
        fault_sql_on(fault.backend.address,
                     "SET GLOBAL TRANSACTION ISOLATION LEVEL REPEATABLE READ", out, sizeof(out));
    failed |= fault_sql_on(fault.backend.address, "DROP USER IF EXISTS " ROLE, out, sizeof(out));
    return failed;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(wrong_password),
        cmocka_unit_test(unknown_user),
        cmocka_unit_test(missing_database),
        cmocka_unit_test(no_such_host),
        cmocka_unit_test(port_closed),
        cmocka_unit_test(schema_missing),
        cmocka_unit_test_teardown(schema_newer, restore_version),
        cmocka_unit_test_teardown(schema_older, restore_version),
        cmocka_unit_test_teardown(table_vanishes, restore_table),
        cmocka_unit_test(prefix_injection),
        cmocka_unit_test(schema_injection),
        cmocka_unit_test(standby),
        cmocka_unit_test_teardown(role_defaults, drop_role),
        cmocka_unit_test_teardown(role_read_only, drop_role),
        cmocka_unit_test_setup_teardown(read_only_server, save_globals, restore_globals),
        cmocka_unit_test_setup_teardown(global_defaults, save_globals, restore_globals),
    };
    return FAULT_MAIN(argc, argv, 0, cases);
}
