/* SPDX-License-Identifier: MIT
 *
 * The open slot: wrong addresses, and what a message may say. */
#include <stdio.h>
#include <stdlib.h>

#include "conformance.h"

static void expect_clean_message(const rowlock_error *err)
{
    size_t length = strnlen(err->message, sizeof(err->message));
    assert_true(length > 0 && length < sizeof(err->message));
    assert_null(strpbrk(err->message, "\r\n"));
    assert_true(err->message[length - 1] != '.');
    assert_null(strstr(err->message, BACKEND_SECRET));
}

/* Opens the address, closes it again, and looks at status, message and time. */
static void expect_refused(struct fixture *f, const char *address, int status)
{
    void *conn = NULL;
    int64_t before = now_us();
    int got = conn_begin(f, &conn, address, f->prefix);
    conn_end(f, conn);
    if (got != status)
        print_error("address: %s\n", address);
    expect_status(status, got, &f->err);
    assert_int_equal(f->err.status, status);
    expect_clean_message(&f->err);
    expect_between(now_us() - before, 0, CALL_MS * 1000 + SLACK_US);
}

static void test_open_of_a_malformed_address_is_einval(void **state)
{
    struct fixture *f = *state;
    for (size_t i = 0; f->backend->kind->malformed[i] != NULL; i++)
        expect_refused(f, f->backend->kind->malformed[i], ROWLOCK_EINVAL);
}

static void test_open_of_an_unreachable_address_is_econnect(void **state)
{
    struct fixture *f = *state;
    for (size_t i = 0; f->backend->kind->unreachable[i] != NULL; i++)
        expect_refused(f, f->backend->kind->unreachable[i], ROWLOCK_ECONNECT);
}

static void test_open_of_a_missing_database_is_econnect(void **state)
{
    struct fixture *f = *state;
    char address[1100];
    f->backend->kind->missing_database(address, sizeof(address), f->backend->address);
    expect_refused(f, address, ROWLOCK_ECONNECT);
}

static void test_open_never_tells_the_password(void **state)
{
    struct fixture *f = *state;
    for (size_t i = 0; f->backend->kind->secret[i] != NULL; i++) {
        void *conn = NULL;
        int got = conn_begin(f, &conn, f->backend->kind->secret[i], f->prefix);
        conn_end(f, conn);
        if (got == ROWLOCK_OK || strstr(f->err.message, BACKEND_SECRET) != NULL)
            print_error("address: %s\nmessage: %s\n", f->backend->kind->secret[i], f->err.message);
        assert_true(got == ROWLOCK_ECONNECT || got == ROWLOCK_EINVAL);
        expect_clean_message(&f->err);
    }
}

/* A server that trusts everybody lets it pass; one that refuses must not repeat what it was given.
 */
static void test_open_with_a_wrong_password_is_econnect_and_silent(void **state)
{
    struct fixture *f = *state;
    char address[1100];
    f->backend->kind->wrong_password(address, sizeof(address), f->backend->address);
    void *conn = NULL;
    int status = conn_begin(f, &conn, address, f->prefix);
    conn_end(f, conn);
    if (status != ROWLOCK_OK) {
        expect_status(ROWLOCK_ECONNECT, status, &f->err);
        expect_clean_message(&f->err);
    }
}

static void test_open_accepts_no_error_struct(void **state)
{
    struct fixture *f = *state;
    rowlock_config config = {.size = sizeof(config),
                             .address = f->backend->kind->unreachable[0],
                             .prefix = f->prefix,
                             .may_create = 1};
    void *conn = calloc(1, f->driver->conn_size);
    assert_non_null(conn);
    int status = f->driver->open(conn, &config, CALL_MS, NULL);
    f->driver->close(conn);
    free(conn);
    expect_status(ROWLOCK_ECONNECT, status, NULL);
}

static void test_open_does_not_look_at_the_tables(void **state)
{
    struct fixture *f = *state;
    void *conn = NULL;
    int status = conn_begin(f, &conn, f->backend->address, "no_such_tables_");
    conn_end(f, conn);
    expect_ok(status, &f->err);
}

static void test_close_of_a_zeroed_connection_is_safe(void **state)
{
    struct fixture *f = *state;
    void *conn = calloc(1, f->driver->conn_size);
    assert_non_null(conn);
    f->driver->close(conn);
    free(conn);
}

/* The config is used up during open: its strings may go. */
static void test_open_copies_its_strings(void **state)
{
    struct fixture *f = *state;
    char *address = strdup(f->backend->address), *prefix = strdup(f->prefix);
    int status = conn_begin(f, &f->others[0], address, prefix);
    memset(address, 'x', strlen(address));
    memset(prefix, 'x', strlen(prefix));
    free(address);
    free(prefix);
    expect_ok(status, &f->err);
    rowlock_op op = op_new("lock", "ann");
    expect_ok(try_acquire(f, f->others[0], &op), NULL);
    assert_true(row_exists(f, "lock"));
}

static void test_close_keeps_the_locks(void **state)
{
    struct fixture *f = *state;
    void *conn = NULL;
    int status = conn_begin(f, &conn, f->backend->address, f->prefix);
    rowlock_op op = op_new("lock", "ann");
    if (status == ROWLOCK_OK)
        status = f->driver->acquire(conn, &op, 1, 0, CALL_MS, &f->err);
    conn_end(f, conn);
    expect_ok(status, &f->err);
    rowlock_op same = op_of(&op);
    expect_ok(try_renew(f, f->conn, &same), NULL);
}

static void test_driver_table_is_complete(void **state)
{
    struct fixture *f = *state;
    const rowlock_driver *d = f->driver;
    assert_true(d->size >= sizeof(*d));
    assert_string_equal(d->name, f->backend->kind->name);
    assert_true(d->conn_size > 0);
    assert_true(d->quote == '"' || d->quote == '`');
    assert_true(d->open && d->close && d->acquire && d->renew && d->release && d->force_release);
    assert_true(d->reap && d->list && d->schema_version && d->schema_apply);
}

static const struct test_case cases[] = {
    CASE(test_driver_table_is_complete),
    CASE(test_open_of_a_malformed_address_is_einval),
    CASE(test_open_of_an_unreachable_address_is_econnect),
    CASE_IF(test_open_of_a_missing_database_is_econnect, BACKEND_DATABASES),
    CASE_IF(test_open_never_tells_the_password, BACKEND_PASSWORDS),
    CASE_IF(test_open_with_a_wrong_password_is_econnect_and_silent, BACKEND_PASSWORDS),
    CASE(test_open_accepts_no_error_struct),
    CASE(test_open_does_not_look_at_the_tables),
    CASE(test_open_copies_its_strings),
    CASE(test_close_of_a_zeroed_connection_is_safe),
    CASE(test_close_keeps_the_locks),
};

const struct suite open_suite = SUITE("open", cases);
