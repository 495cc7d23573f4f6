/* SPDX-License-Identifier: MIT
 *
 * Somebody else answers at the address: what they ask for they must not get, whatever the option
 * files say. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "refused.h"
#include "rogue.h"

#define SECRET    "s3cret-Pa55w0rd"
#define FILE_TEXT "the text of a private key"

/* A home folder with an option file in it. */
static char home[] = "/tmp/rowlock-rogue.XXXXXX", option_file[64];

static const char *const plain_modes[] = {"", "?ssl-mode=disabled", "?ssl-mode=preferred"};
static const char *const tls_modes[] = {"?ssl-mode=required", "?ssl-mode=verify_ca",
                                        "?ssl-mode=verify_identity"};
static const char *const clear_plugins[] = {"mysql_clear_password", "dialog"};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void write_options(const char *text)
{
    FILE *file = fopen(option_file, "w");

    assert_non_null(file);
    fprintf(file, "[client]\n%s", text);
    assert_int_equal(0, fclose(file));
}

static int remove_option_file(void **state)
{
    (void)state;
    unlink(option_file);
    return 0;
}

/* Opens a client at a rogue of this plan, in vain and with a message that holds one of the words
 * (NULL: any). The rogue, to be asked what it has heard. */
static rogue *visit(const rogue_plan *plan, const char *mode, const char *words)
{
    rogue *r = rogue_start(plan);
    char address[256];

    assert_non_null(r);
    snprintf(address, sizeof(address), "mysql://user:" SECRET "@127.0.0.1:%u/db%s", rogue_port(r),
             mode);
    assert_refused(ROWLOCK_ECONNECT, address, ROWLOCK_SCHEMA_REQUIRE, NULL, words);
    return r;
}

static void no_password_in_clear(void **state)
{
    (void)state;
    for (size_t m = 0; m < COUNT(plain_modes); m++) {
        for (size_t p = 0; p < COUNT(clear_plugins); p++) {
            rogue *r = visit(&(rogue_plan){.plugin = clear_plugins[p]}, plain_modes[m],
                             "ssl-mode=required|plugin");
            int heard = rogue_heard_text(r, SECRET);

            rogue_stop(r);
            if (heard)
                fail_msg("'%s': %s got the password", plain_modes[m], clear_plugins[p]);
        }
    }
}

/* Not even its name: nothing is sent to a server that does not offer what the address asks for. */
static void nothing_without_tls(void **state)
{
    (void)state;
    for (size_t m = 0; m < COUNT(tls_modes); m++) {
        rogue *r = visit(&(rogue_plan){.plugin = "mysql_clear_password"}, tls_modes[m], "TLS|SSL");
        size_t heard = rogue_heard(r);

        rogue_stop(r);
        if (heard != 0)
            fail_msg("'%s': %zu bytes before TLS", tls_modes[m], heard);
    }
}

/* One that is asked for TLS and then says nothing: the call ends in time. */
static void silent_instead_of_tls(void **state)
{
    (void)state;
    for (size_t m = 0; m < COUNT(tls_modes); m++) {
        int64_t start = process_now_ms();
        rogue *r = visit(&(rogue_plan){.says_tls = 1, .is_silent = 1}, tls_modes[m], "in time");

        rogue_stop(r);
        assert_in_range(process_now_ms() - start, 0, 2000 + FAULT_SLACK_MS);
    }
}

/* What the address says goes before what the files say. */
static void nothing_whatever_the_files_say(void **state)
{
    write_options("ssl-verify-server-cert=0\nssl-enforce=0\ndefault-auth=mysql_clear_password\n");
    nothing_without_tls(state);
    no_password_in_clear(state);
}

/* An address that says nothing of TLS leaves it to them. MariaDB's library and Oracle's have keys
 * of their own, and pass over each other's. */
static void nothing_if_the_files_ask_for_tls(void **state)
{
    static const char *const asks[] = {"ssl-enforce=1\nssl-mode=REQUIRED\n",
                                       "ssl-verify-server-cert=1\nssl-mode=VERIFY_CA\n",
                                       "ssl-ca=/nonexistent\n"};

    (void)state;
    for (size_t i = 0; i < COUNT(asks); i++) {
        rogue *r;
        size_t heard;

        write_options(asks[i]);
        r = visit(&(rogue_plan){.plugin = "mysql_clear_password"}, "", "TLS|SSL");
        heard = rogue_heard(r);
        rogue_stop(r);
        if (heard != 0)
            fail_msg("%s: %zu bytes before TLS", asks[i], heard);
    }
}

/* A socket in the address goes before a host in the files. */
static void no_other_host(void **state)
{
    rogue *r = rogue_start(&(rogue_plan){.plugin = NULL});
    char options[64];
    size_t heard;

    (void)state;
    assert_non_null(r);
    snprintf(options, sizeof(options), "host=127.0.0.1\nport=%u\nprotocol=tcp\n", rogue_port(r));
    write_options(options);
    assert_refused(ROWLOCK_ECONNECT, "mysql://user:" SECRET "@/db?socket=/nonexistent",
                   ROWLOCK_SCHEMA_REQUIRE, NULL, "/nonexistent|socket");
    heard = rogue_heard(r);
    rogue_stop(r);
    assert_int_equal(0, heard);
}

/* One that offers TLS and goes on in plain text. */
static void nothing_before_tls(void **state)
{
    (void)state;
    for (size_t m = 0; m < COUNT(tls_modes); m++) {
        rogue *r = visit(&(rogue_plan){.plugin = "mysql_clear_password", .says_tls = 1},
                         tls_modes[m], "TLS|SSL");
        int heard = rogue_heard_text(r, SECRET) || rogue_heard_text(r, "user");

        rogue_stop(r);
        if (heard)
            fail_msg("'%s': the user's name or password before TLS", tls_modes[m]);
    }
}

/* It lets us in and wants a file for an answer to the first statement. */
static void no_file(void **state)
{
    char path[80];
    FILE *file;

    (void)state;
    snprintf(path, sizeof(path), "%s/key", home);
    file = fopen(path, "w");
    assert_non_null(file);
    fputs(FILE_TEXT, file);
    assert_int_equal(0, fclose(file));
    for (int with_options = 0; with_options < 2; with_options++) {
        rogue *r;
        int heard;

        if (with_options)
            write_options("local-infile=1\n");
        r = visit(&(rogue_plan){.file = path}, "", NULL);
        heard = rogue_heard_text(r, FILE_TEXT);
        rogue_stop(r);
        if (heard)
            fail_msg("it got the file%s", with_options ? ", by the option files" : "");
    }
    unlink(path);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test_teardown(no_password_in_clear, remove_option_file),
        cmocka_unit_test_teardown(nothing_without_tls, remove_option_file),
        cmocka_unit_test_teardown(nothing_before_tls, remove_option_file),
        cmocka_unit_test_teardown(silent_instead_of_tls, remove_option_file),
        cmocka_unit_test_teardown(nothing_whatever_the_files_say, remove_option_file),
        cmocka_unit_test_teardown(nothing_if_the_files_ask_for_tls, remove_option_file),
        cmocka_unit_test_teardown(no_other_host, remove_option_file),
        cmocka_unit_test_teardown(no_file, remove_option_file),
    };
    int status;

    if (mkdtemp(home) == NULL || setenv("HOME", home, 1) != 0)
        return 1;
    snprintf(option_file, sizeof(option_file), "%s/.my.cnf", home);
    unsetenv("MYSQL_PWD");
    status = FAULT_MAIN(argc, argv, 0, cases);
    rmdir(home);
    return status;
}
