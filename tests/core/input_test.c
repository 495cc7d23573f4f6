/* SPDX-License-Identifier: MIT
 *
 * What users may get wrong: one clear line, the documented status, nothing changed. */
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core_test.h"

/* The call fails so, with one line that says something, and sends nothing. */
#define assert_refused(expected, call)                    \
    do {                                                  \
        int calls_before = fake_calls();                  \
        memset(&err, 0, sizeof err);                      \
        assert_int_equal((call), ROWLOCK_##expected);     \
        assert_int_equal(err.status, ROWLOCK_##expected); \
        assert_true(strlen(err.message) > 5);             \
        assert_null(strchr(err.message, '\n'));           \
        assert_int_equal(fake_calls(), calls_before);     \
    } while (0)

static rowlock_error err;

static void test_names(void **state)
{
    rowlock_client *client = open_client();
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;
    rowlock_lock *lock = (void *)1;
    char name[300];

    (void)state;
    memset(name, 'x', sizeof name);
    name[256] = '\0';
    assert_refused(EINVAL, rowlock_acquire(&lock, client, "", NULL, &err));
    assert_null(lock);
    assert_refused(EINVAL, rowlock_acquire(&lock, client, NULL, NULL, &err));
    assert_refused(EINVAL, rowlock_acquire(&lock, client, name, NULL, &err));
    options.name_length = 256;
    assert_refused(EINVAL, rowlock_acquire(&lock, client, name, &options, &err));
    assert_refused(EINVAL, rowlock_force_release(client, "", NULL, &err));
    assert_refused(EINVAL, rowlock_force_release(client, name, NULL, &err));
    name[255] = '\0';
    assert_status(OK, rowlock_acquire(&lock, client, name, NULL, &err));
    assert_status(OK, rowlock_release(&lock, &err));
    assert_int_equal(err.status, 0);
    assert_string_equal(err.message, "");
    rowlock_close(&client);
}

static void test_ttls_waits_owners_and_notes(void **state)
{
    static const int64_t bad_ttls[] = {-1, 1, 49, INT64_MIN, INT64_MAX, ROWLOCK_TTL_MAX_MS + 1};
    rowlock_client *client = open_client();
    rowlock_lock *lock = NULL;
    char text[1002];

    (void)state;
    memset(text, 'x', sizeof text);
    text[1001] = '\0';
    for (size_t i = 0; i < sizeof bad_ttls / sizeof *bad_ttls; i++) {
        rowlock_acquire_options o = ROWLOCK_ACQUIRE_OPTIONS_INIT;
        rowlock_options c = ROWLOCK_OPTIONS_INIT;
        rowlock_client *none = NULL;

        o.ttl_ms = bad_ttls[i];
        assert_refused(EINVAL, rowlock_acquire(&lock, client, "a", &o, &err));
        c.ttl_ms = bad_ttls[i];
        assert_refused(EINVAL, rowlock_open(&none, fake_driver(), "fake", &c, &err));
    }
    {
        rowlock_acquire_options o = ROWLOCK_ACQUIRE_OPTIONS_INIT;

        o.wait_ms = -2;
        assert_refused(EINVAL, rowlock_acquire(&lock, client, "a", &o, &err));
        o.wait_ms = 0;
        o.note = text;
        assert_refused(EINVAL, rowlock_acquire(&lock, client, "a", &o, &err));
        o.note = "two\nlines";
        assert_refused(EINVAL, rowlock_acquire(&lock, client, "a", &o, &err));
        o.note = NULL;
        o.owner = "";
        assert_refused(EINVAL, rowlock_acquire(&lock, client, "a", &o, &err));
        o.owner = "\xff";
        assert_refused(EINVAL, rowlock_acquire(&lock, client, "a", &o, &err));
        o.owner = text;
        assert_refused(EINVAL, rowlock_acquire(&lock, client, "a", &o, &err));
    }
    assert_status(OK, rowlock_acquire(&lock, client, "a", NULL, &err));
    assert_refused(EINVAL, rowlock_renew(lock, 1, &err));
    assert_refused(EINVAL, rowlock_renew(lock, -1, &err));
    rowlock_release(&lock, NULL);
    rowlock_close(&client);
}

static void test_open(void **state)
{
    static const char *const bad_prefixes[] = {
        "",      "1a",  "a;b", "a\"b", "a'b",      "a b",
        "Upper", "a`b", "a.b", "a-b",  "\xc3\xa9", "a23456789012345678901234567890123"};
    static const char *const bad_schemas[] = {"", "1a", "a;b", "a\"b", "a'b", "a b", "a`b", "a.b"};
    rowlock_client *client = NULL;
    rowlock_driver small = *fake_driver(), hollow = *fake_driver();
    rowlock_options spinning = ROWLOCK_OPTIONS_INIT;

    (void)state;
    spinning.spin_us = ROWLOCK_SPIN_MAX_US + 1;
    assert_refused(EINVAL, rowlock_open(&client, fake_driver(), "fake", &spinning, &err));
    assert_refused(EINVAL, rowlock_open(NULL, fake_driver(), "fake", NULL, &err));
    assert_refused(EINVAL, rowlock_open(&client, NULL, "fake", NULL, &err));
    assert_refused(EINVAL, rowlock_open(&client, fake_driver(), NULL, NULL, &err));
    small.size = 16;
    assert_refused(EINVAL, rowlock_open(&client, &small, "fake", NULL, &err));
    hollow.renew = NULL;
    assert_refused(EINVAL, rowlock_open(&client, &hollow, "fake", NULL, &err));
    for (size_t i = 0; i < sizeof bad_prefixes / sizeof *bad_prefixes; i++) {
        rowlock_options o = ROWLOCK_OPTIONS_INIT;
        char *sql = NULL;

        o.prefix = bad_prefixes[i];
        assert_refused(EINVAL, rowlock_open(&client, fake_driver(), "fake", &o, &err));
        assert_refused(EINVAL, rowlock_migration_sql(&sql, fake_driver(), 1, 1, &o, &err));
    }
    for (size_t i = 0; i < sizeof bad_schemas / sizeof *bad_schemas; i++) {
        rowlock_options o = ROWLOCK_OPTIONS_INIT;

        o.schema = bad_schemas[i];
        assert_refused(EINVAL, rowlock_open(&client, fake_driver(), "fake", &o, &err));
    }
    assert_null(client);
}

static void test_unknown_tail_of_options(void **state)
{
    struct {
        rowlock_options known;
        int64_t unknown;
    } larger = {.known = {.size = sizeof larger}};
    rowlock_options none = {0};
    rowlock_client *client = NULL;

    (void)state;
    larger.unknown = 1;
    assert_refused(EINVAL, rowlock_open(&client, fake_driver(), "fake", &larger.known, &err));
    larger.unknown = 0;
    assert_status(OK, rowlock_open(&client, fake_driver(), "fake", &larger.known, &err));
    rowlock_close(&client);
    assert_refused(EINVAL, rowlock_open(&client, fake_driver(), "fake", &none, &err));
    /* An older header: only the first fields are there. */
    none.size = offsetof(rowlock_options, ttl_ms);
    none.ttl_ms = -5; /* not looked at */
    assert_status(OK, rowlock_open(&client, fake_driver(), "fake", &none, &err));
    rowlock_close(&client);
}

static void test_nulls_and_doubles(void **state)
{
    static const char *const twice[] = {"a", "b", "a"};
    rowlock_client *client = open_client(), *closed = NULL;
    rowlock_lock *lock = NULL, *locks[3];
    int version;

    (void)state;
    assert_refused(EINVAL, rowlock_acquire(NULL, client, "a", NULL, &err));
    assert_refused(EINVAL, rowlock_acquire(&lock, NULL, "a", NULL, &err));
    assert_refused(EINVAL, rowlock_acquire_many(NULL, client, twice, 3, NULL, &err));
    assert_refused(EINVAL, rowlock_acquire_many(locks, client, NULL, 3, NULL, &err));
    assert_refused(EINVAL, rowlock_acquire_many(locks, client, twice, 0, NULL, &err));
    assert_refused(EINVAL, rowlock_acquire_many(locks, client, twice, 3, NULL, &err));
    assert_refused(EINVAL, rowlock_adopt(&lock, client, "a", 0, NULL, &err));
    assert_refused(EINVAL, rowlock_with(NULL, client, "a", NULL, NULL, NULL, &err));
    assert_refused(EINVAL, rowlock_list(client, NULL, NULL, NULL, &err));
    assert_refused(EINVAL, rowlock_reap(NULL, NULL, NULL, &err));
    assert_refused(EINVAL, rowlock_schema_version(NULL, client, &err));
    assert_refused(EINVAL, rowlock_migrate(client, 2, &err));
    assert_refused(EINVAL, rowlock_migrate(client, -2, &err));
    assert_refused(EINVAL, rowlock_renew(NULL, 0, &err));
    assert_refused(EINVAL, rowlock_release(NULL, &err));
    assert_refused(EINVAL, rowlock_release(&lock, &err));
    assert_refused(EINVAL, rowlock_cancel_new(NULL, &err));
    assert_status(EINVAL, rowlock_check(NULL));
    assert_int_equal(rowlock_remaining(NULL), 0);
    assert_true(rowlock_fence(NULL) == 0);
    assert_null(rowlock_owner(NULL));
    rowlock_cancel_fire(NULL);
    rowlock_cancel_free(NULL);
    rowlock_close(NULL);
    rowlock_close(&closed);
    rowlock_free(NULL);
    lock = hold(client, "a", 0, NULL);
    assert_status(OK, rowlock_release(&lock, &err));
    assert_refused(EINVAL, rowlock_release(&lock, &err)); /* double release */
    rowlock_close(&client);
    assert_refused(EINVAL, rowlock_schema_version(&version, client, &err)); /* use after close */
}

static void test_schema_policies(void **state)
{
    rowlock_options options = ROWLOCK_OPTIONS_INIT;
    rowlock_client *client = NULL;

    (void)state;
    fake_set_version(0);
    assert_status(ESCHEMA, rowlock_open(&client, fake_driver(), "fake", NULL, &err));
    assert_non_null(strstr(err.message, "migrate up"));
    fake_set_version(2);
    assert_status(ESCHEMA, rowlock_open(&client, fake_driver(), "fake", NULL, &err));
    assert_non_null(strstr(err.message, "upgrade"));
    options.schema_policy = ROWLOCK_SCHEMA_CREATE;
    assert_status(ESCHEMA, rowlock_open(&client, fake_driver(), "fake", &options, &err));
    fake_set_version(0);
    assert_status(OK, rowlock_open(&client, fake_driver(), "fake", &options, &err));
    rowlock_close(&client);
    options.schema_policy = 7;
    assert_refused(EINVAL, rowlock_open(&client, fake_driver(), "fake", &options, &err));
    assert_int_equal(fake_connections(), 0);
}

static void test_child_process_gets_efork_and_harms_nothing(void **state)
{
    rowlock_client *client = open_client();
    rowlock_lock *lock = hold(client, "a", 0, NULL);
    int status;
    pid_t pid = fork();

    (void)state;
    assert_true(pid >= 0);
    if (pid == 0) {
        /* Nothing of the parent's is freed here; a leak checker must still see it. */
        static rowlock_client *volatile seen;
        rowlock_lock *other = NULL;
        int wrong = 0;

        seen = client;
        (void)seen;

        wrong += rowlock_acquire(&other, client, "b", NULL, &err) != ROWLOCK_EFORK;
        wrong += rowlock_renew(lock, 0, &err) != ROWLOCK_EFORK;
        wrong += rowlock_check(lock) != ROWLOCK_EFORK;
        wrong += rowlock_remaining(lock) != 0;
        wrong += rowlock_release(&lock, &err) != ROWLOCK_EFORK || lock != NULL;
        wrong += fake_find("b") != NULL || !fake_is_live("a");
        rowlock_close(&client);
        wrong += fake_connections() != 1;
        _exit(wrong);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_status(OK, rowlock_check(lock));
    assert_status(OK, rowlock_release(&lock, NULL));
    rowlock_close(&client);
}

static void test_statuses_have_texts(void **state)
{
    (void)state;
    assert_string_equal(rowlock_strstatus(ROWLOCK_OK), "success");
    assert_string_equal(rowlock_strstatus(ROWLOCK_EFORK), "the handle belongs to another process");
    assert_string_equal(rowlock_strstatus(1234), "unknown status");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_names, fresh),
        cmocka_unit_test_setup(test_ttls_waits_owners_and_notes, fresh),
        cmocka_unit_test_setup(test_open, fresh),
        cmocka_unit_test_setup(test_unknown_tail_of_options, fresh),
        cmocka_unit_test_setup(test_nulls_and_doubles, fresh),
        cmocka_unit_test_setup(test_schema_policies, fresh),
        cmocka_unit_test_setup(test_child_process_gets_efork_and_harms_nothing, fresh),
        cmocka_unit_test_setup(test_statuses_have_texts, fresh),
    };

    return cmocka_run_group_tests_name("core/input", tests, NULL, NULL);
}
