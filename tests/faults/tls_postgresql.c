/* SPDX-License-Identifier: MIT
 *
 * PostgreSQL with TLS and without: each sslmode on servers that offer it, demand it or refuse it,
 * with right and wrong certificates and names. What comes of it, whether the connection is
 * encrypted, and what is said if there is none; never the password. */
#include "fake_postgresql.h"
#include "refused.h"
#include "rowlock/postgresql.h"

#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { AWAIT_MS = 30000 };

enum outcome { PLAIN, TLS, REFUSED };

struct expectation {
    const char *user, *mode;
    const char *root; /* the client's authority; "" for none */
    const char *host; /* the name that the client uses, always for the same server */
    enum outcome outcome;
    const char *words; /* of the message: a part of it */
};

static char port[16], password[64], certificates[256];

static void take(char *out, size_t size, const char *address, const char *key)
{
    PQconninfoOption *all = PQconninfoParse(address, NULL);

    out[0] = '\0';
    for (PQconninfoOption *option = all; all != NULL && option->keyword != NULL; option++) {
        if (strcmp(option->keyword, key) == 0 && option->val != NULL)
            snprintf(out, size, "%s", option->val);
    }
    PQconninfoFree(all);
}

static void need_tls(void)
{
    if (getenv("ROWLOCK_TEST_POSTGRESQL_TLS") == NULL)
        skip_or_fail("TLS: ROWLOCK_TEST_POSTGRESQL_TLS is not set");
}

static int on_tls_server(void **state)
{
    const char *address = getenv("ROWLOCK_TEST_POSTGRESQL_TLS");
    const char *folder = getenv("ROWLOCK_TEST_POSTGRESQL_TLS_CERTIFICATES");

    (void)state;
    if (address == NULL)
        return 0; /* need_tls() says so */
    take(port, sizeof(port), address, "port");
    take(password, sizeof(password), address, "password");
    snprintf(certificates, sizeof(certificates), "%s", folder);
    return 0;
}

static int on_plain_server(void **state)
{
    int failed = on_tls_server(state);

    take(port, sizeof(port), fault.backend.address, "port");
    take(password, sizeof(password), fault.backend.address, "password");
    return failed;
}

static void make_address(char *out, size_t size, const struct expectation *e)
{
    char root[320];

    snprintf(root, sizeof(root), "%s/%s.pem", certificates, e->root[0] == '\0' ? "none" : e->root);
    snprintf(out, size,
             "host=%s %s port=%s user=%s password=%s dbname=rowlock_test sslmode=%s sslrootcert=%s",
             e->host, strcmp(e->host, "localhost") == 0 ? "" : "hostaddr=127.0.0.1", port, e->user,
             password, e->mode, root);
}

/* Is the client's connection encrypted? */
static enum outcome look(rowlock_client *client)
{
    const char *name = "tls";
    rowlock_tx *tx = NULL;
    rowlock_error err;
    int is_encrypted;

    assert_status(ROWLOCK_OK, rowlock_tx_begin(&tx, client, &name, 1, NULL, &err), &err);
    is_encrypted = PQsslInUse(rowlock_postgresql_connection(tx));
    assert_status(ROWLOCK_OK, rowlock_tx_commit(&tx, &err), &err);
    return is_encrypted ? TLS : PLAIN;
}

static void expect(const struct expectation *e)
{
    static const char *const outcomes[] = {"plain", "TLS", "refused"};
    rowlock_options options = ROWLOCK_OPTIONS_INIT;
    rowlock_client *client = NULL;
    enum outcome outcome = REFUSED;
    rowlock_error err;
    char address[1024];
    int status;

    make_address(address, sizeof(address), e);
    options.schema_policy = ROWLOCK_SCHEMA_CREATE;
    options.connect_timeout_ms = AWAIT_MS;
    status = fault_try_open(&client, address, &options, &err);
    if (status == ROWLOCK_OK)
        outcome = look(client);
    rowlock_close(&client);
    print_message("%-7s %-11s root %-5s host %-9s: %s %s\n", e->user, e->mode, e->root, e->host,
                  outcomes[outcome], status == ROWLOCK_OK ? "" : err.message);
    assert_int_equal(e->outcome, outcome);
    if (outcome != REFUSED)
        return;
    assert_int_equal(ROWLOCK_ECONNECT, status);
    assert_null(strchr(err.message, '\n'));
    assert_null(strstr(err.message, password));
    if (strstr(err.message, e->words) == NULL)
        fail_msg("\"%s\" says nothing of %s", err.message, e->words);
}

#define EXPECT_ALL(table) expect_all(table, sizeof(table) / sizeof((table)[0]))

static void expect_all(const struct expectation *table, size_t n)
{
    need_tls();
    for (size_t i = 0; i < n; i++)
        expect(&table[i]);
}

#define UNVERIFIED "certificate verify failed"
#define NO_ROOT    "root certificate file"
#define OTHER_NAME "does not match host name"

/* "prefer" and "allow" go on without TLS when they do not like the certificate. */
static void offered(void **state)
{
    static const struct expectation table[] = {
        {"rowlock", "disable", "", "localhost", PLAIN, NULL},
        {"rowlock", "allow", "", "localhost", PLAIN, NULL},
        {"rowlock", "prefer", "", "localhost", TLS, NULL},
        {"rowlock", "prefer", "other", "localhost", PLAIN, NULL},
        {"rowlock", "require", "", "localhost", TLS, NULL},
        {"rowlock", "require", "ca", "127.0.0.1", TLS, NULL},
        {"rowlock", "require", "other", "localhost", REFUSED, UNVERIFIED},
        {"rowlock", "verify-ca", "", "localhost", REFUSED, NO_ROOT},
        {"rowlock", "verify-ca", "ca", "localhost", TLS, NULL},
        {"rowlock", "verify-ca", "ca", "127.0.0.1", TLS, NULL},
        {"rowlock", "verify-ca", "other", "localhost", REFUSED, UNVERIFIED},
        {"rowlock", "verify-full", "", "localhost", REFUSED, NO_ROOT},
        {"rowlock", "verify-full", "ca", "localhost", TLS, NULL},
        {"rowlock", "verify-full", "ca", "127.0.0.1", REFUSED, OTHER_NAME},
        {"rowlock", "verify-full", "ca", "db.test", REFUSED, OTHER_NAME},
        {"rowlock", "verify-full", "other", "localhost", REFUSED, UNVERIFIED},
    };

    (void)state;
    EXPECT_ALL(table);
}

static void demanded(void **state)
{
    static const struct expectation table[] = {
        {"secure", "disable", "", "localhost", REFUSED, "no encryption"},
        {"secure", "allow", "", "localhost", TLS, NULL},
        {"secure", "prefer", "", "localhost", TLS, NULL},
        {"secure", "prefer", "other", "localhost", REFUSED, UNVERIFIED},
        {"secure", "require", "", "localhost", TLS, NULL},
        {"secure", "verify-ca", "ca", "localhost", TLS, NULL},
        {"secure", "verify-full", "ca", "localhost", TLS, NULL},
    };

    (void)state;
    EXPECT_ALL(table);
}

static void refused(void **state)
{
    static const struct expectation table[] = {
        {"plain", "disable", "", "localhost", PLAIN, NULL},
        {"plain", "allow", "", "localhost", PLAIN, NULL},
        {"plain", "prefer", "", "localhost", PLAIN, NULL},
        {"plain", "require", "", "localhost", REFUSED, "pg_hba.conf"},
        {"plain", "verify-ca", "ca", "localhost", REFUSED, "pg_hba.conf"},
        {"plain", "verify-full", "ca", "localhost", REFUSED, "pg_hba.conf"},
    };

    (void)state;
    EXPECT_ALL(table);
}

static void not_offered(void **state)
{
    static const struct expectation table[] = {
        {"rowlock", "disable", "", "localhost", PLAIN, NULL},
        {"rowlock", "allow", "", "localhost", PLAIN, NULL},
        {"rowlock", "prefer", "", "localhost", PLAIN, NULL},
        {"rowlock", "require", "", "localhost", REFUSED, "does not support SSL"},
        {"rowlock", "verify-ca", "ca", "localhost", REFUSED, "does not support SSL"},
        {"rowlock", "verify-full", "ca", "localhost", REFUSED, "does not support SSL"},
    };

    (void)state;
    EXPECT_ALL(table);
}

/* ---- a server without TLS that asks for the password in clear ----------------------------------
 */

/* What a mode with TLS sends to it is the request for TLS, of so many bytes, and nothing else. */
enum { TLS_REQUEST = 8 };

static void no_password_without_tls(void **state)
{
    static const char *const modes[] = {"require", "verify-ca", "verify-full"};
    static const char *const parameters[] = {"server_version", "15.0", NULL};
    const fake_plan plan = {.parameters = parameters, .asks_password = 1};
    char address[256];

    (void)state;
    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
        fake_postgresql *fake = fake_postgresql_start(&plan);

        assert_non_null(fake);
        snprintf(address, sizeof(address),
                 "host=127.0.0.1 port=%d user=u dbname=db sslmode=%s sslrootcert=%s password=%s",
                 (int)fake_postgresql_port(fake), modes[i], "/dev/null", WRONG_PASSWORD);
        assert_refused(ROWLOCK_ECONNECT, address, 0, NULL, "SSL");
        assert_in_range(fake_postgresql_heard(fake), 0, TLS_REQUEST);
        assert_int_equal(0, fake_postgresql_heard_text(fake, WRONG_PASSWORD));
        fake_postgresql_stop(fake);
    }
}

/* libpq's own choice, said in postgresql.h: it is here so that a change of it is noticed. */
static void prefer_is_no_protection(void **state)
{
    static const char *const parameters[] = {"server_version", "15.0", NULL};
    const fake_plan plan = {.parameters = parameters, .asks_password = 1};
    fake_postgresql *fake = fake_postgresql_start(&plan);
    char address[256];

    (void)state;
    assert_non_null(fake);
    snprintf(address, sizeof(address), "postgresql://u:" WRONG_PASSWORD "@127.0.0.1:%d/db",
             (int)fake_postgresql_port(fake));
    assert_refused(ROWLOCK_ECONNECT, address, 0, NULL, NULL);
    assert_int_equal(1, fake_postgresql_heard_text(fake, WRONG_PASSWORD));
    fake_postgresql_stop(fake);
}

/* ---- a certificate that has expired ---------------------------------------------------------- */

static int sql(const char *text, const char *expected)
{
    char out[320];

    if (fault_sql_on(getenv("ROWLOCK_TEST_POSTGRESQL_TLS"), text, out, sizeof(out)) != 0)
        return -1;
    out[strcspn(out, "|\n")] = '\0';
    return expected == NULL || strcmp(out, expected) == 0 ? 0 : -1;
}

/* Read by new connections once it is the setting of one. */
static int use_certificate(const char *name)
{
    int64_t until = process_now_ms() + AWAIT_MS;
    char path[320], text[400];

    snprintf(path, sizeof(path), "%s/%s.pem", certificates, name);
    snprintf(text, sizeof(text), "ALTER SYSTEM SET ssl_cert_file = '%s'", path);
    if (sql(text, NULL) != 0 || sql("SELECT pg_reload_conf()", "t") != 0)
        return -1;
    while (sql("SHOW ssl_cert_file", path) != 0) {
        if (process_now_ms() > until)
            return -1;
        process_sleep_ms(10);
    }
    return 0;
}

static int use_valid_certificate(void **state)
{
    (void)state;
    return getenv("ROWLOCK_TEST_POSTGRESQL_TLS") == NULL ? 0 : use_certificate("server");
}

static void expired(void **state)
{
    static const struct expectation table[] = {
        {"rowlock", "prefer", "", "localhost", TLS, NULL},
        {"rowlock", "require", "", "localhost", TLS, NULL},
        {"rowlock", "require", "ca", "localhost", REFUSED, UNVERIFIED},
        {"rowlock", "verify-ca", "ca", "localhost", REFUSED, UNVERIFIED},
        {"rowlock", "verify-full", "ca", "localhost", REFUSED, UNVERIFIED},
    };

    (void)state;
    need_tls();
    assert_int_equal(0, use_certificate("expired"));
    EXPECT_ALL(table);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test_setup(offered, on_tls_server),
        cmocka_unit_test_setup(demanded, on_tls_server),
        cmocka_unit_test_setup(refused, on_tls_server),
        cmocka_unit_test_setup_teardown(expired, on_tls_server, use_valid_certificate),
        cmocka_unit_test_setup(not_offered, on_plain_server),
        cmocka_unit_test(no_password_without_tls),
        cmocka_unit_test(prefer_is_no_protection),
    };
    return FAULT_MAIN(argc, argv, 0, cases);
}
