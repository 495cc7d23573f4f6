/* SPDX-License-Identifier: MIT
 *
 * Passwords that are not in the address: from the environment and from the client library's own
 * files, as its other programs take them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "refused.h"

/* The address under test in two parts: without its password, and the password. */
static char bare[1024], password[256];

/* A new home folder, and the library's own kind of file in it, once it is written. */
static char home[] = "/tmp/rowlock-password.XXXXXX", path[64];

static int split(void **state)
{
    const char *address = fault.backend.address;
    const char *start = strstr(address, "://"), *at, *colon;

    (void)state;
    start = start == NULL ? address : start + 3;
    at = strchr(start, '@');
    colon = strchr(start, ':');
    if (at == NULL || colon == NULL || colon > at)
        return -1; /* the servers of the tests have one */
    snprintf(bare, sizeof bare, "%.*s%s", (int)(colon - address), address, at);
    snprintf(password, sizeof password, "%.*s", (int)(at - colon - 1), colon + 1);
    return 0;
}

static void assert_opens(void)
{
    rowlock_client *client = fault_open(bare, NULL);

    rowlock_close(&client);
}

static void without_one(void **state)
{
    (void)state;
    assert_refused(ROWLOCK_ECONNECT, bare, ROWLOCK_SCHEMA_REQUIRE, NULL, "password|denied");
}

static void from_the_environment(void **state)
{
    const char *variable = fault_is("postgresql") ? "PGPASSWORD" : "MYSQL_PWD";

    (void)state;
    assert_int_equal(setenv(variable, password, 1), 0);
    assert_opens();
    assert_int_equal(unsetenv(variable), 0);
}

static void from_a_file(void **state)
{
    FILE *file;

    (void)state;
    snprintf(path, sizeof path, "%s/%s", home, fault_is("postgresql") ? ".pgpass" : ".my.cnf");
    file = fopen(path, "w");
    assert_non_null(file);
    if (fault_is("postgresql"))
        fprintf(file, "*:*:*:*:%s\n", password);
    else
        fprintf(file, "[client]\npassword=%s\n", password);
    fclose(file);
    assert_int_equal(chmod(path, 0600), 0);
    if (fault_is("postgresql"))
        assert_int_equal(setenv("PGPASSFILE", path, 1), 0);
    assert_opens();
}

int main(int argc, char **argv)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test_setup(without_one, split),
        cmocka_unit_test_setup(from_the_environment, split),
        cmocka_unit_test_setup(from_a_file, split),
    };
    int status;

    unsetenv("PGPASSWORD");
    unsetenv("MYSQL_PWD");
    /* Oracle's library looks for it once, when it is used first. */
    if (mkdtemp(home) == NULL || setenv("HOME", home, 1) != 0)
        return 1;
    status = FAULT_MAIN(argc, argv, 0, cases);
    unlink(path);
    rmdir(home);
    return status;
}
