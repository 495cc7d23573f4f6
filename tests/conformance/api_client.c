/* SPDX-License-Identifier: MIT
 *
 * Opening and closing clients. */
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "conformance.h"

static void test_open_gives_a_client(void **state)
{
    struct fixture *f = *state;
    assert_non_null(client_open(f));
    assert_int_equal(f->err.status, ROWLOCK_OK);
    assert_string_equal(f->err.message, "");
}

static void expect_open_fails(struct fixture *f, const char *address, int status)
{
    rowlock_client *client = (rowlock_client *)f;
    rowlock_options options = ROWLOCK_OPTIONS_INIT;
    options.prefix = f->prefix;
    options.connect_timeout_ms = 1000;
    options.call_timeout_ms = 1000;
    int64_t before = now_us();
    expect_status(status, rowlock_open(&client, f->driver, address, &options, &f->err), &f->err);
    expect_between(now_us() - before, 0, 1000000 + SLACK_US / 2);
    assert_null(client);
    assert_int_equal(f->err.status, status);
    assert_true(f->err.message[0] != '\0');
    assert_null(strpbrk(f->err.message, "\r\n"));
    assert_true(f->err.message[strlen(f->err.message) - 1] != '.');
}

static void test_open_of_a_malformed_address_is_refused(void **state)
{
    struct fixture *f = *state;
    for (size_t i = 0; f->backend->kind->malformed[i] != NULL; i++)
        expect_open_fails(f, f->backend->kind->malformed[i], ROWLOCK_EINVAL);
}

static void test_open_of_an_unreachable_address_is_refused(void **state)
{
    struct fixture *f = *state;
    for (size_t i = 0; f->backend->kind->unreachable[i] != NULL; i++)
        expect_open_fails(f, f->backend->kind->unreachable[i], ROWLOCK_ECONNECT);
}

static void test_open_of_a_missing_database_is_refused(void **state)
{
    struct fixture *f = *state;
    char address[1100];
    f->backend->kind->missing_database(address, sizeof(address), f->backend->address);
    expect_open_fails(f, address, ROWLOCK_ECONNECT);
}

static void test_open_keeps_the_password_to_itself(void **state)
{
    struct fixture *f = *state;
    for (size_t i = 0; f->backend->kind->secret[i] != NULL; i++) {
        rowlock_client *client = NULL;
        rowlock_options options = ROWLOCK_OPTIONS_INIT;
        options.connect_timeout_ms = options.call_timeout_ms = 1000;
        int status =
            rowlock_open(&client, f->driver, f->backend->kind->secret[i], &options, &f->err);
        assert_true(status < 0);
        assert_null(strstr(f->err.message, BACKEND_SECRET));
    }
}

static void test_open_with_missing_or_older_tables_is_eschema(void **state)
{
    struct fixture *f = *state;
    for (int version = 0; version < f->driver->migration_count; version++) {
        expect_ok(tables_to(f, f->conn, version), &f->err);
        expect_open_fails(f, f->backend->address, ROWLOCK_ESCHEMA);
    }
}

static void test_open_with_newer_tables_is_eschema(void **state)
{
    struct fixture *f = *state;
    sql_run(f, "UPDATE rowlock_schema SET version = version + 900", NULL, 0);
    rowlock_client *client = NULL;
    rowlock_options options = ROWLOCK_OPTIONS_INIT;
    options.prefix = f->prefix;
    int required = rowlock_open(&client, f->driver, f->backend->address, &options, &f->err);
    rowlock_close(&client);
    options.schema_policy = ROWLOCK_SCHEMA_CREATE;
    int created = rowlock_open(&client, f->driver, f->backend->address, &options, &f->err);
    rowlock_close(&client);
    sql_run(f, "UPDATE rowlock_schema SET version = version - 900", NULL, 0);
    expect_status(ROWLOCK_ESCHEMA, required, NULL);
    expect_status(ROWLOCK_ESCHEMA, created, &f->err);
}

static void test_open_with_create_makes_the_tables(void **state)
{
    struct fixture *f = *state;
    expect_ok(tables_to(f, f->conn, 0), &f->err);
    rowlock_options options = ROWLOCK_OPTIONS_INIT;
    options.prefix = f->prefix;
    options.schema_policy = ROWLOCK_SCHEMA_CREATE;
    for (int i = 0; i < 2; i++) { /* the second time they are there */
        expect_ok(rowlock_open(&f->clients[0], f->driver, f->backend->address, &options, &f->err),
                  &f->err);
        rowlock_lock *lock = hold(f, f->clients[0], "lock");
        let_go(f, &lock);
        rowlock_close(&f->clients[0]);
    }
}

static void test_open_with_ignore_needs_no_tables(void **state)
{
    struct fixture *f = *state;
    expect_ok(tables_to(f, f->conn, 0), &f->err);
    rowlock_options options = ROWLOCK_OPTIONS_INIT;
    options.prefix = f->prefix;
    options.schema_policy = ROWLOCK_SCHEMA_IGNORE;
    expect_ok(rowlock_open(&f->clients[0], f->driver, f->backend->address, &options, &f->err),
              &f->err);
    rowlock_lock *lock = NULL;
    expect_status(ROWLOCK_ESCHEMA, rowlock_acquire(&lock, f->clients[0], "lock", NULL, &f->err),
                  &f->err);
    assert_null(lock);
}

static void test_close_of_null_is_allowed(void **state)
{
    (void)state;
    rowlock_client *client = NULL;
    rowlock_close(&client);
    rowlock_close(NULL);
}

static void test_close_sets_the_client_to_null(void **state)
{
    struct fixture *f = *state;
    rowlock_client *client = client_open(f);
    client_close(f, &client);
    assert_null(client);
}

static void test_close_releases_the_locks_held(void **state)
{
    struct fixture *f = *state;
    rowlock_client *first = client_open(f), *second = client_open(f);
    rowlock_lock *locks[4] = {hold(f, first, "a"), hold(f, first, "b"), hold(f, first, "b"),
                              hold(f, first, "c")};
    client_close(f, &first);
    static const char *const names[] = {"a", "b", "c"};
    for (size_t i = 0; i < COUNT(names); i++) {
        rowlock_lock *lock = hold(f, second, names[i]);
        let_go(f, &lock);
    }
    for (size_t i = 0; i < COUNT(locks); i++)
        expect_status(ROWLOCK_ECLOSED, rowlock_release(&locks[i], &f->err), &f->err);
}

/* Another client re-entered in the same owner's name: its hold must survive. */
static void test_close_releases_its_own_holds_only(void **state)
{
    struct fixture *f = *state;
    rowlock_client *first = client_open_as(f, "shared"), *second = client_open_as(f, "shared");
    rowlock_lock *a = hold(f, first, "lock"), *b = hold(f, second, "lock");
    client_close(f, &first);
    assert_int_equal(row_of(f, "lock").hold_count, 1);
    expect_ok(rowlock_renew(b, 0, &f->err), &f->err);
    let_go(f, &b);
    expect_status(ROWLOCK_ECLOSED, rowlock_release(&a, &f->err), &f->err);
}

static void test_handles_of_a_closed_client_answer_eclosed(void **state)
{
    struct fixture *f = *state;
    rowlock_client *client = client_open(f);
    rowlock_lock *lock = hold(f, client, "lock");
    uint64_t fence = rowlock_fence(lock);
    client_close(f, &client);
    expect_status(ROWLOCK_ECLOSED, rowlock_check(lock), NULL);
    expect_status(ROWLOCK_ECLOSED, rowlock_renew(lock, 0, &f->err), &f->err);
    assert_int_equal(f->err.status, ROWLOCK_ECLOSED);
    assert_int_equal(rowlock_fence(lock), fence);
    assert_int_equal(rowlock_remaining(lock), 0);
    assert_true(strlen(rowlock_owner(lock)) > 0);
    expect_status(ROWLOCK_ECLOSED, rowlock_release(&lock, &f->err), &f->err);
    assert_null(lock);
}

struct waiter {
    rowlock_client *client;
    atomic_int is_running;
    int status;
    int64_t took_us;
};

static void *wait_for_ever(void *payload)
{
    struct waiter *w = payload;
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;
    options.wait_ms = ROWLOCK_FOREVER;
    rowlock_lock *lock = NULL;
    int64_t before = now_us();
    atomic_store(&w->is_running, 1);
    w->status = rowlock_acquire(&lock, w->client, "lock", &options, NULL);
    w->took_us = now_us() - before;
    if (lock != NULL)
        rowlock_release(&lock, NULL);
    return NULL;
}

static void test_close_ends_the_waits_of_other_threads(void **state)
{
    struct fixture *f = *state;
    rowlock_client *holder = client_open(f), *client = client_open(f);
    rowlock_lock *lock = hold(f, holder, "lock");
    struct waiter waiter = {.client = client, .status = INT32_MIN};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, wait_for_ever, &waiter), 0);
    await_flag(&waiter.is_running);
    sleep_us(100000);
    client_close(f, &client);
    pthread_join(thread, NULL);
    expect_status(ROWLOCK_ECLOSED, waiter.status, NULL);
    expect_between(waiter.took_us, 0, SLACK_US);
    let_go(f, &lock);
}

/* The calls of a child process on what its parent opened; 0 if each answers EFORK. */
static int use_in_child(rowlock_client *client, rowlock_lock *lock)
{
    /* Nothing of the parent's is freed here; a leak checker must still see it. */
    static rowlock_client *volatile seen;
    rowlock_lock *other = NULL;
    int version = 0, wrong = 0;
    seen = client;
    (void)seen;
    wrong += rowlock_acquire(&other, client, "other", NULL, NULL) != ROWLOCK_EFORK;
    wrong += rowlock_renew(lock, 0, NULL) != ROWLOCK_EFORK;
    wrong += rowlock_check(lock) != ROWLOCK_EFORK;
    wrong += rowlock_schema_version(&version, client, NULL) != ROWLOCK_EFORK;
    wrong += rowlock_reap(NULL, client, NULL, NULL) != ROWLOCK_EFORK;
    wrong += rowlock_force_release(client, "lock", NULL, NULL) != ROWLOCK_EFORK;
    wrong += rowlock_release(&lock, NULL) != ROWLOCK_EFORK;
    rowlock_close(&client);
    return wrong;
}

static void test_handles_in_a_child_process_answer_efork(void **state)
{
    struct fixture *f = *state;
    rowlock_client *client = client_open(f);
    rowlock_lock *lock = hold(f, client, "lock");
    pid_t child = fork();
    if (child == 0)
        _exit(use_in_child(client, lock));
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    expect_ok(rowlock_renew(lock, 0, &f->err), &f->err); /* nothing of the parent's was touched */
    assert_int_equal(row_of(f, "lock").hold_count, 1);
    let_go(f, &lock);
}

static void test_options_set_the_defaults_of_locks(void **state)
{
    struct fixture *f = *state;
    rowlock_options options = ROWLOCK_OPTIONS_INIT;
    options.prefix = f->prefix;
    options.owner = "the owner";
    options.ttl_ms = 77000;
    expect_ok(rowlock_open(&f->clients[0], f->driver, f->backend->address, &options, &f->err),
              &f->err);
    rowlock_lock *lock = hold(f, f->clients[0], "lock");
    assert_string_equal(rowlock_owner(lock), "the owner");
    expect_between(row_of(f, "lock").remaining_ms, 77000 - SLACK_US / 1000, 77000);
    let_go(f, &lock);
}

static void test_client_locks_however_it_looks_for_answers(void **state)
{
    static const uint32_t spins[] = {1, ROWLOCK_SPIN_MAX_US, ROWLOCK_SPIN_NEVER};
    struct fixture *f = *state;
    rowlock_options options = ROWLOCK_OPTIONS_INIT;

    options.prefix = f->prefix;
    for (int i = 0; i < 3; i++) {
        options.spin_us = spins[i];
        expect_ok(rowlock_open(&f->clients[i], f->driver, f->backend->address, &options, &f->err),
                  &f->err);
        rowlock_lock *lock = hold(f, f->clients[i], "lock");
        expect_ok(rowlock_renew(lock, 0, &f->err), &f->err);
        let_go(f, &lock);
    }
}

static const struct test_case cases[] = {
    CASE(test_open_gives_a_client),
    CASE(test_open_of_a_malformed_address_is_refused),
    CASE(test_open_of_an_unreachable_address_is_refused),
    CASE_IF(test_open_of_a_missing_database_is_refused, BACKEND_DATABASES),
    CASE_IF(test_open_keeps_the_password_to_itself, BACKEND_PASSWORDS),
    CASE(test_open_with_missing_or_older_tables_is_eschema),
    CASE_IF(test_open_with_newer_tables_is_eschema, BACKEND_SQL),
    CASE(test_open_with_create_makes_the_tables),
    CASE(test_open_with_ignore_needs_no_tables),
    CASE(test_close_of_null_is_allowed),
    CASE(test_close_sets_the_client_to_null),
    CASE(test_close_releases_the_locks_held),
    CASE(test_close_releases_its_own_holds_only),
    CASE(test_handles_of_a_closed_client_answer_eclosed),
    CASE(test_close_ends_the_waits_of_other_threads),
    CASE(test_handles_in_a_child_process_answer_efork),
    CASE(test_options_set_the_defaults_of_locks),
    CASE(test_client_locks_however_it_looks_for_answers),
};

const struct suite api_client_suite = SUITE("api_client", cases);
