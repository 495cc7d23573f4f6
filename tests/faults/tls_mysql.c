/* SPDX-License-Identifier: MIT
 *
 * A server with TLS, and every way to ask for it: right and wrong certificates, right and wrong
 * names, with and without option files that say otherwise. */
#include <mysql.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "refused.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Of accounts: anybody; only by TLS; only by TLS with a certificate of the client's. */
#define ANY       "tls_any"
#define ONLY      "tls_only"
#define CERTIFIED "tls_certified"
#define PASSWORD  "tls-pa55"

/* The certificate has the first name, not the second; both lead to the server. */
#define RIGHT "localhost"
#define WRONG "127.0.0.1"

static const char *certificates;

/* One without TLS; that under test has it. */
static char plain_server[1024];

/* A home folder with an option file in it. */
static char home[] = "/tmp/rowlock-tls.XXXXXX", option_file[64];

static void write_options(const char *format, ...)
{
    FILE *file = fopen(option_file, "w");
    va_list list;

    assert_non_null(file);
    fprintf(file, "[client]\n");
    va_start(list, format);
    vfprintf(file, format, list);
    va_end(list);
    assert_int_equal(0, fclose(file));
}

/* The address of an account there; CA, OTHER, CERT and KEY in the options stand for the files. */
static void make_address(char *out, size_t size, const char *account, const char *host,
                         const char *options)
{
    static const struct {
        const char *word, *key, *file;
    } words[] = {{"CA", "ssl-ca", "ca.pem"},
                 {"OTHER", "ssl-ca", "other.pem"},
                 {"CERT", "ssl-cert", "client.pem"},
                 {"KEY", "ssl-key", "client.key"}};
    char copy[128];

    assert_int_equal(0, fault_address(out, size, fault.backend.address,
                                      &(struct fault_address){
                                          .user = account, .password = PASSWORD, .host = host}));
    snprintf(copy, sizeof(copy), "%s", options);
    for (char *word = strtok(copy, " "); word != NULL; word = strtok(NULL, " ")) {
        size_t length = strlen(out), i = 0;

        while (i < COUNT(words) && strcmp(word, words[i].word) != 0)
            i++;
        snprintf(out + length, size - length, "%c", strchr(out, '?') == NULL ? '?' : '&');
        length++;
        if (i < COUNT(words))
            snprintf(out + length, size - length, "%s=%s/%s", words[i].key, certificates,
                     words[i].file);
        else
            snprintf(out + length, size - length, "ssl-mode=%s", word);
    }
}

static void opens(const char *account, const char *host, const char *options)
{
    char address[1024];
    rowlock_client *client;
    rowlock_lock *lock;

    make_address(address, sizeof(address), account, host, options);
    print_message("opens: %s at %s, %s\n", account, host, options);
    client = fault_open(address, NULL);
    lock = fault_acquire(client, "tls", 0);
    fault_release(&lock);
    rowlock_close(&client);
}

static void refused(const char *account, const char *host, const char *options, const char *words)
{
    char address[1024];

    make_address(address, sizeof(address), account, host, options);
    print_message("refused: %s at %s, %s\n", account, host, options);
    assert_refused(ROWLOCK_ECONNECT, address, ROWLOCK_SCHEMA_CREATE, NULL, words);
}

#define DENIED          "denied"
#define BAD_CERTIFICATE "certificate|SSL|TLS"

static void disabled(void **state)
{
    (void)state;
    opens(ANY, RIGHT, "disabled");
    refused(ONLY, RIGHT, "disabled", DENIED);
    refused(ONLY, RIGHT, "disabled CA", DENIED);
}

static void preferred(void **state)
{
    rowlock_options options = ROWLOCK_OPTIONS_INIT;
    char address[2048];
    rowlock_client *client;

    (void)state;
    opens(ANY, RIGHT, "preferred");
    opens(ONLY, RIGHT, "preferred");
    opens(ONLY, WRONG, "preferred");
    snprintf(address, sizeof(address), "%s?ssl-mode=preferred", plain_server);
    options.schema_policy = ROWLOCK_SCHEMA_IGNORE;
    client = fault_open(address, &options);
    rowlock_close(&client);
}

static void required(void **state)
{
    (void)state;
    opens(ONLY, RIGHT, "required");
    opens(ONLY, WRONG, "required");
}

static void verified(void **state)
{
    static const char *const modes[] = {"verify_ca", "verify_identity"};
    char options[64];

    (void)state;
    for (size_t i = 0; i < COUNT(modes); i++) {
        snprintf(options, sizeof(options), "%s CA", modes[i]);
        opens(ONLY, RIGHT, options);
        snprintf(options, sizeof(options), "%s OTHER", modes[i]);
        refused(ONLY, RIGHT, options, BAD_CERTIFICATE);
        refused(ONLY, WRONG, options, BAD_CERTIFICATE);
        refused(ONLY, RIGHT, modes[i], BAD_CERTIFICATE); /* by the system's authorities */
    }
    refused(ONLY, WRONG, "verify_identity CA", BAD_CERTIFICATE);
    opens(ONLY, RIGHT, "CA");
    refused(ONLY, RIGHT, "OTHER", BAD_CERTIFICATE);
#ifdef LIBMARIADB
    refused(ONLY, WRONG, "verify_ca CA", BAD_CERTIFICATE);
#else
    opens(ONLY, WRONG, "verify_ca CA");
#endif
}

/* By an authority that the system trusts, without one in the address. */
static void verified_by_the_system(void **state)
{
    char path[256];

    (void)state;
    snprintf(path, sizeof(path), "%s/ca.pem", certificates);
    assert_int_equal(0, setenv("SSL_CERT_FILE", path, 1));
#ifdef LIBMARIADB
    opens(ONLY, RIGHT, "verify_identity");
#endif
    refused(ONLY, WRONG, "verify_identity", BAD_CERTIFICATE);
}

static void with_a_certificate_of_the_client(void **state)
{
    (void)state;
    opens(CERTIFIED, RIGHT, "verify_identity CA CERT KEY");
    opens(CERTIFIED, WRONG, "required CERT KEY");
    opens(CERTIFIED, RIGHT, "CERT KEY");
    refused(CERTIFIED, RIGHT, "verify_identity CA", DENIED);
}

static void option_files_do_not_win(void **state)
{
    (void)state;
    write_options("ssl-verify-server-cert=0\n");
    refused(ONLY, WRONG, "verify_identity CA", BAD_CERTIFICATE);
    write_options("ssl-verify-server-cert=0\nssl-enforce=0\nssl-ca=%s/other.pem\n", certificates);
    refused(ONLY, WRONG, "verify_identity CA", BAD_CERTIFICATE);
    refused(ONLY, RIGHT, "verify_identity", BAD_CERTIFICATE);
    opens(ONLY, RIGHT, "verify_identity CA");
    opens(ONLY, RIGHT, "preferred");
    opens(ONLY, WRONG, "required");
    refused(ONLY, RIGHT, "disabled", DENIED);
    opens(ANY, RIGHT, "disabled");
    write_options("ssl-verify-server-cert=1\nssl-enforce=1\nssl-fp=00:11:22\n");
    opens(ANY, WRONG, "disabled");
    refused(ONLY, RIGHT, "disabled", DENIED);
    opens(ONLY, WRONG, "preferred");
    opens(ONLY, WRONG, "required");
    opens(ONLY, RIGHT, "verify_identity CA");
}

static void option_files_fill_in(void **state)
{
    (void)state;
    write_options("ssl-ca=%s/ca.pem\n", certificates);
    opens(ONLY, RIGHT, "verify_identity");
    refused(ONLY, WRONG, "verify_identity", BAD_CERTIFICATE);
    write_options("ssl-enforce=1\n");
#ifdef LIBMARIADB
    opens(ONLY, RIGHT, "");
    write_options("ssl-fp=00:11:22:33:44:55:66:77:88:99:aa:bb:cc:dd:ee:ff:00:11:22:33\n");
    refused(ONLY, RIGHT, "", "fingerprint|certificate|SSL|TLS");
#endif
}

static int run_on_server(const char *sql)
{
    char out[64];

    return fault_sql_on(fault.backend.address, sql, out, sizeof(out));
}

/* Gives the server another certificate, by the name of its file. */
static int switch_certificate(const char *name)
{
    char command[512];

    snprintf(command, sizeof(command), "cp %s/%s %s/server.pem", certificates, name, certificates);
    return system(command) == 0 ? run_on_server("FLUSH SSL") : -1;
}

static void expired(void **state)
{
    (void)state;
    assert_int_equal(0, switch_certificate("expired.pem"));
    opens(ONLY, RIGHT, "required");
    refused(ONLY, RIGHT, "verify_ca CA", BAD_CERTIFICATE);
    refused(ONLY, RIGHT, "verify_identity CA", BAD_CERTIFICATE);
}

static int restore(void **state)
{
    (void)state;
    unsetenv("SSL_CERT_FILE");
    unlink(option_file);
    return 0;
}

static int restore_certificate(void **state)
{
    (void)state;
    return switch_certificate("valid.pem");
}

static int make_accounts(void **state)
{
    static const char *const accounts[][2] = {{ANY, "NONE"}, {ONLY, "SSL"}, {CERTIFIED, "X509"}};
    char sql[256], command[512];

    (void)state;
    for (size_t i = 0; i < COUNT(accounts); i++) {
        snprintf(sql, sizeof(sql),
                 "CREATE OR REPLACE USER %s IDENTIFIED BY '" PASSWORD "' REQUIRE %s",
                 accounts[i][0], accounts[i][1]);
        if (run_on_server(sql) != 0)
            return -1;
        snprintf(sql, sizeof(sql), "GRANT ALL ON rowlock_test.* TO %s", accounts[i][0]);
        if (run_on_server(sql) != 0)
            return -1;
    }
    snprintf(command, sizeof(command), "cp %s/server.pem %s/valid.pem", certificates, certificates);
    return system(command);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test_setup_teardown(disabled, make_accounts, restore),
        cmocka_unit_test_teardown(preferred, restore),
        cmocka_unit_test_teardown(required, restore),
        cmocka_unit_test_teardown(verified, restore),
        cmocka_unit_test_teardown(verified_by_the_system, restore),
        cmocka_unit_test_teardown(with_a_certificate_of_the_client, restore),
        cmocka_unit_test_teardown(option_files_do_not_win, restore),
        cmocka_unit_test_teardown(option_files_fill_in, restore),
        cmocka_unit_test_teardown(expired, restore_certificate),
    };
    const char *plain = getenv("ROWLOCK_TEST_MYSQL"), *server = getenv("ROWLOCK_TEST_MYSQL_TLS");
    int status;

    snprintf(plain_server, sizeof(plain_server), "%s", plain != NULL ? plain : "");
    certificates = getenv("ROWLOCK_TEST_MYSQL_TLS_CERTIFICATES");
    if (server != NULL && plain != NULL && certificates != NULL) {
        setenv("ROWLOCK_TEST_MYSQL", server, 1);
    } else {
        fprintf(stderr, "tests/support/servers --mysql --mysql-tls is needed\n");
        unsetenv("ROWLOCK_TEST_MYSQL");
    }
    if (mkdtemp(home) == NULL || setenv("HOME", home, 1) != 0)
        return 1;
    snprintf(option_file, sizeof(option_file), "%s/.my.cnf", home);
    unsetenv("MYSQL_PWD");
    status = FAULT_MAIN(argc, argv, 0, cases);
    rmdir(home);
    return status;
}
