/* SPDX-License-Identifier: MIT
 *
 * Several PostgreSQL hosts, the standby before the primary, wherever libpq takes them from: the one
 * that can be written is found, unless the user said which one is wanted. */
#include "refused.h"

#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What the addresses under test are made of. */
static char user[64], password[64], database[64], ports[64], ports_of_standby[64];
static char service_file[] = "/tmp/rowlock-hosts.XXXXXX";

static const char *const variables[] = {"PGHOST",     "PGHOSTADDR",    "PGPORT",
                                        "PGSERVICE",  "PGSERVICEFILE", "PGUSER",
                                        "PGPASSWORD", "PGDATABASE",    "PGTARGETSESSIONATTRS"};

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

static int clear(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++)
        unsetenv(variables[i]);
    unlink(service_file);
    return 0;
}

static int set_up(void **state)
{
    const char *standby = getenv("ROWLOCK_TEST_STANDBY");
    char first[16], second[16];

    if (standby == NULL)
        return 0; /* need_standby() says so */
    take(first, sizeof(first), standby, "port");
    take(second, sizeof(second), fault.backend.address, "port");
    snprintf(ports, sizeof(ports), "%s,%s", first, second);
    snprintf(ports_of_standby, sizeof(ports_of_standby), "%s,%s", first, first);
    take(user, sizeof(user), fault.backend.address, "user");
    take(password, sizeof(password), fault.backend.address, "password");
    take(database, sizeof(database), fault.backend.address, "dbname");
    clear(state);
    return setenv("PGPASSWORD", password, 1);
}

static void need_standby(void)
{
    if (getenv("ROWLOCK_TEST_STANDBY") == NULL)
        skip_or_fail("several hosts: ROWLOCK_TEST_STANDBY is not set");
}

static void assert_opens(const char *address)
{
    rowlock_client *client = fault_open(address, NULL);
    rowlock_lock *lock = fault_acquire(client, fault_name("hosts"), 0);

    fault_release(&lock);
    rowlock_close(&client);
}

/* Nobody but the standby was found, which may be the primary soon. */
static void assert_only_standby(const char *address)
{
    rowlock_client *client = NULL;
    rowlock_error err;

    assert_status(ROWLOCK_ECONNECT, fault_try_open(&client, address, NULL, &err), &err);
    assert_null(client);
    assert_int_equal(1, err.retryable);
    assert_true(strstr(err.message, "standby") != NULL || strstr(err.message, "read-only") != NULL);
    assert_null(strstr(err.message, password));
}

static void in_the_address(void **state)
{
    char address[512];

    (void)state;
    need_standby();
    snprintf(address, sizeof(address), "host=127.0.0.1,127.0.0.1 port=%s user=%s dbname=%s", ports,
             user, database);
    assert_opens(address);
    snprintf(address, sizeof(address), "host=127.0.0.1,127.0.0.1 port=%s user=%s dbname=%s",
             ports_of_standby, user, database);
    assert_only_standby(address);
}

static void in_the_environment(void **state)
{
    static const char *const keys[] = {"PGHOST", "PGHOSTADDR"};
    char address[256];

    (void)state;
    need_standby();
    snprintf(address, sizeof(address), "user=%s dbname=%s", user, database);
    for (int i = 0; i < 2; i++) {
        setenv(keys[i], "127.0.0.1,127.0.0.1", 1);
        setenv("PGPORT", ports, 1);
        assert_opens(address);
        setenv("PGPORT", ports_of_standby, 1);
        assert_only_standby(address);
        unsetenv(keys[i]);
    }
}

static void write_service(const char *more)
{
    FILE *file;

    snprintf(service_file, sizeof(service_file), "/tmp/rowlock-hosts.XXXXXX");
    file = fdopen(mkstemp(service_file), "w");
    assert_non_null(file);
    fprintf(file, "[both]\nhost=127.0.0.1,127.0.0.1\nport=%s\nuser=%s\ndbname=%s\n%s", ports, user,
            database, more);
    fclose(file);
    setenv("PGSERVICEFILE", service_file, 1);
}

static void in_a_service_file(void **state)
{
    char address[128];

    (void)state;
    need_standby();
    write_service("");
    assert_opens("service=both");
    setenv("PGSERVICE", "both", 1);
    snprintf(address, sizeof(address), "dbname=%s", database);
    assert_opens(address);
}

/* The user's word counts, wherever it stands. */
static void what_the_user_wants(void **state)
{
    char address[512];

    (void)state;
    need_standby();
    snprintf(address, sizeof(address),
             "host=127.0.0.1,127.0.0.1 port=%s user=%s dbname=%s target_session_attrs=any", ports,
             user, database);
    assert_only_standby(address);
    *strstr(address, " target_session_attrs") = '\0';
    setenv("PGTARGETSESSIONATTRS", "any", 1);
    assert_only_standby(address);
    unsetenv("PGTARGETSESSIONATTRS");
    write_service("target_session_attrs=standby\n");
    assert_only_standby("service=both");
}

static void unknown_service(void **state)
{
    (void)state;
    assert_refused(ROWLOCK_ECONNECT, "service=rowlock_no_such", 0, NULL, "rowlock_no_such|service");
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, clear)

int main(int argc, char **argv)
{
    const struct CMUnitTest cases[] = {
        CASE(in_the_address),      CASE(in_the_environment), CASE(in_a_service_file),
        CASE(what_the_user_wants), CASE(unknown_service),
    };
    return FAULT_MAIN(argc, argv, 0, cases);
}
