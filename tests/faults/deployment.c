/* SPDX-License-Identifier: MIT
 *
 * Wrong addresses and wrong tables: each is refused with the documented status and one clear line,
 * and nothing is changed. */
#include "refused.h"

#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- addresses ------------------------------------------------------------------------------- */

static void wrong_password(void **state)
{
    char address[1024], out[64];

    (void)state;
    changed_address(address, sizeof(address), &(struct fault_address){.password = WRONG_PASSWORD});
    if (fault_sql_on(address, "SELECT 1", out, sizeof(out)) == 0)
        skip_or_fail("wrong password: this server does not check passwords");
    assert_refused(ROWLOCK_ECONNECT, address, 0, NULL, "password|denied|authentication");
}

static void unknown_user(void **state)
{
    char address[1024], out[64];

    (void)state;
    changed_address(address, sizeof(address),
                    &(struct fault_address){.user = "rowlock_nobody", .password = WRONG_PASSWORD});
    if (fault_sql_on(address, "SELECT 1", out, sizeof(out)) == 0)
        skip_or_fail("unknown user: this server lets anybody in");
    assert_refused(ROWLOCK_ECONNECT, address, 0, NULL, "rowlock_nobody");
}

static void missing_database(void **state)
{
    char address[1024];

    (void)state;
    changed_address(address, sizeof(address),
                    &(struct fault_address){.database = "rowlock_no_such"});
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
    changed_address(address, sizeof(address), &(struct fault_address){.host = host});
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
    changed_address(address, sizeof(address), &(struct fault_address){.port = closed_port()});
    assert_refused(ROWLOCK_ECONNECT, address, 0, NULL, NULL);
    assert_in_range(process_now_ms() - start, 0, 2000 + FAULT_SLACK_MS);
}

/* ---- tables ---------------------------------------------------------------------------------- */

/* MySQL makes itself certificates. */
static int server_has_tls(void)
{
    char out[128];

    if (!fault_is("mysql"))
        return 0;
    fault_sql_text(out, sizeof(out), "SHOW STATUS LIKE 'Ssl_server_not_after'");
    if (strpbrk(out, "0123456789") != NULL)
        return 1;
    fault_sql_text(out, sizeof(out), "SHOW VARIABLES LIKE 'have_ssl'"); /* of its own making */
    return strstr(out, "YES") != NULL;
}

/* Who asks for TLS must not be served in plain text, nor by a server that cannot be verified. */
static void tls_that_is_asked_for(void **state)
{
    static const char *const asks[] = {"ssl-mode=required", "ssl-mode=verify_ca",
                                       "ssl-ca=/nonexistent"};
    char address[2048];

    (void)state;
    for (size_t i = server_has_tls() ? 1 : 0; i < sizeof(asks) / sizeof(asks[0]); i++) {
        snprintf(address, sizeof(address), "%s?%s", fault.backend.address,
                 fault_is("mysql") ? asks[i] : "sslmode=require");
        assert_refused(ROWLOCK_ECONNECT, address, 0, NULL, "TLS|SSL");
    }
}

/* A password with @ / ? in it that was not encoded: no part of it may come back in a message. */
static void password_that_is_not_encoded(void **state)
{
    static const char *const passwords[] = {
        WRONG_PASSWORD "/more",         "more@" WRONG_PASSWORD "/more",
        "more/" WRONG_PASSWORD,         "more/" WRONG_PASSWORD "?more",
        "more@more/" WRONG_PASSWORD,    "more/more?" WRONG_PASSWORD,
        "more?" WRONG_PASSWORD,         "more@more?" WRONG_PASSWORD "/more",
        "more@" WRONG_PASSWORD "?/more"};
    const char *scheme = fault_is("mysql") ? "mysql" : "postgresql";
    char address[128];

    (void)state;
    for (size_t i = 0; i < sizeof(passwords) / sizeof(passwords[0]); i++) {
        snprintf(address, sizeof(address), "%s://user:%s@127.0.0.1:1/db", scheme, passwords[i]);
        assert_refused(ROWLOCK_EINVAL, address, 0, NULL, "password|database");
    }
    if (fault_is("mysql"))
        return; /* takes the last @ for the end of the password */
    snprintf(address, sizeof(address), "%s://user:more@" WRONG_PASSWORD "@127.0.0.1:1/db", scheme);
    assert_refused(ROWLOCK_EINVAL, address, 0, NULL, NULL);
}

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
    fault_sql("INSERT INTO {schema} (version) VALUES (99)");
    assert_refused(ROWLOCK_ESCHEMA, fault.backend.address, ROWLOCK_SCHEMA_REQUIRE, NULL, "newer");
    assert_refused(ROWLOCK_ESCHEMA, fault.backend.address, ROWLOCK_SCHEMA_CREATE, NULL, "newer");
    options.schema_policy = ROWLOCK_SCHEMA_IGNORE;
    client = fault_open(fault.backend.address, &options);
    assert_status(ROWLOCK_ESCHEMA, rowlock_migrate(client, ROWLOCK_SCHEMA_LATEST, &err), &err);
    assert_status(ROWLOCK_ESCHEMA, rowlock_migrate(client, 0, &err), &err);
    assert_status(ROWLOCK_OK, rowlock_schema_version(&version, client, &err), &err);
    assert_int_equal(99, version);
    rowlock_close(&client);
}

/* A statement with the number of the newest version between its two parts. */
static int sql_of_newest(const char *verb, const char *rest)
{
    char sql[128], out[64];

    snprintf(sql, sizeof(sql), "%s%d%s", verb, rowlock_migration_count(fault.backend.driver), rest);
    return fault_sql_on(fault.backend.address, sql, out, sizeof(out));
}

static void schema_older(void **state)
{
    (void)state;
    assert_int_equal(0, sql_of_newest("DELETE FROM {schema} WHERE version = ", ""));
    assert_refused(ROWLOCK_ESCHEMA, fault.backend.address, ROWLOCK_SCHEMA_REQUIRE, NULL, "migrate");
}

static int restore_newer(void **state)
{
    char out[64];

    (void)state;
    return fault_sql_on(fault.backend.address, "DELETE FROM {schema} WHERE version = 99", out,
                        sizeof(out));
}

static int restore_older(void **state)
{
    (void)state;
    return sql_of_newest("INSERT INTO {schema} (version) VALUES (", ")");
}

static int is_renamed;

/* A client that is open while somebody takes the table away. */
static void table_vanishes(void **state)
{
    rowlock_client *client = fault_open(fault.backend.address, NULL);
    rowlock_lock *lock = fault_acquire(client, "vanishes", 0);
    rowlock_lock *none = NULL;
    rowlock_error err;

    (void)state;
    fault_sql("ALTER TABLE {locks} RENAME TO {elsewhere}");
    is_renamed = 1;
    assert_int_equal(ROWLOCK_ESCHEMA, rowlock_acquire(&none, client, "other", NULL, &err));
    assert_null(none);
    assert_int_equal(ROWLOCK_ESCHEMA, rowlock_renew(lock, 0, &err));
    fault_sql("ALTER TABLE {elsewhere} RENAME TO {locks}");
    is_renamed = 0;
    assert_status(ROWLOCK_OK, rowlock_renew(lock, 0, &err), &err);
    fault_release(&lock);
    rowlock_close(&client);
}

static int restore_table(void **state)
{
    char out[64];

    (void)state;
    if (!is_renamed)
        return 0;
    return fault_sql_on(fault.backend.address, "ALTER TABLE {elsewhere} RENAME TO {locks}", out,
                        sizeof(out));
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

int main(int argc, char **argv)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(wrong_password),
        cmocka_unit_test(unknown_user),
        cmocka_unit_test(missing_database),
        cmocka_unit_test(no_such_host),
        cmocka_unit_test(port_closed),
        cmocka_unit_test(tls_that_is_asked_for),
        cmocka_unit_test(password_that_is_not_encoded),
        cmocka_unit_test(schema_missing),
        cmocka_unit_test_teardown(schema_newer, restore_newer),
        cmocka_unit_test_teardown(schema_older, restore_older),
        cmocka_unit_test_teardown(table_vanishes, restore_table),
        cmocka_unit_test(prefix_injection),
        cmocka_unit_test(schema_injection),
    };
    return FAULT_MAIN(argc, argv, 0, cases);
}
