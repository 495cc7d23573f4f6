/* SPDX-License-Identifier: MIT
 *
 * Bad arguments: EINVAL, one clear line, nothing changed. */
#include "conformance.h"

/* EINVAL with a message that a person can use. Spoils f->err for the next call to write. */
static void expect_einval_at(struct fixture *f, int status, int line)
{
    expect_status_(ROWLOCK_EINVAL, status, &f->err, __FILE__, line);
    assert_int_equal(f->err.status, ROWLOCK_EINVAL);
    size_t length = strnlen(f->err.message, sizeof(f->err.message));
    assert_true(length > 0 && length < sizeof(f->err.message));
    assert_null(strpbrk(f->err.message, "\r\n"));
    assert_true(f->err.message[length - 1] != '.');
    assert_int_equal(f->err.retryable, 0);
    memset(&f->err, 'x', sizeof(f->err));
}
#define expect_einval(f, status) expect_einval_at(f, status, __LINE__)

static int nothing(rowlock_lock *lock, void *payload)
{
    (void)lock;
    (void)payload;
    return 0;
}

static void expect_empty(struct fixture *f)
{
    struct rows rows = rows_read(f);
    assert_int_equal(rows.count, 0);
    rows_free(&rows);
}

static void test_null_for_open_is_einval(void **state)
{
    struct fixture *f = *state;
    rowlock_client *client = (rowlock_client *)f;
    expect_einval(f, rowlock_open(NULL, f->driver, f->backend->address, NULL, &f->err));
    expect_einval(f, rowlock_open(&client, NULL, f->backend->address, NULL, &f->err));
    assert_null(client);
    expect_einval(f, rowlock_open(&client, f->driver, NULL, NULL, &f->err));
    assert_null(client);
}

static void test_null_for_acquire_is_einval(void **state)
{
    struct fixture *f = *state;
    rowlock_client *client = client_open(f);
    rowlock_lock *lock = (rowlock_lock *)f;
    expect_einval(f, rowlock_acquire(NULL, client, "lock", NULL, &f->err));
    expect_einval(f, rowlock_acquire(&lock, NULL, "lock", NULL, &f->err));
    assert_null(lock);
    expect_einval(f, rowlock_acquire(&lock, client, NULL, NULL, &f->err));
    expect_einval(f, rowlock_adopt(NULL, client, "lock", 1, NULL, &f->err));
    expect_einval(f, rowlock_adopt(&lock, NULL, "lock", 1, NULL, &f->err));
    expect_einval(f, rowlock_adopt(&lock, client, NULL, 1, NULL, &f->err));
    assert_null(lock);
    expect_empty(f);
}

static void test_null_for_acquire_many_is_einval(void **state)
{
    struct fixture *f = *state;
    rowlock_client *client = client_open(f);
    static const char *const names[] = {"a", NULL};
    rowlock_lock *locks[2] = {(rowlock_lock *)f, (rowlock_lock *)f};
    expect_einval(f, rowlock_acquire_many(NULL, client, names, 1, NULL, &f->err));
    expect_einval(f, rowlock_acquire_many(locks, NULL, names, 1, NULL, &f->err));
    assert_null(locks[0]);
    expect_einval(f, rowlock_acquire_many(locks, client, NULL, 1, NULL, &f->err));
    expect_einval(f, rowlock_acquire_many(locks, client, names, 2, NULL, &f->err));
    assert_null(locks[0]);
    assert_null(locks[1]);
    expect_einval(f, rowlock_acquire_many(locks, client, names, 0, NULL, &f->err));
    expect_empty(f);
}

static void test_null_for_a_lock_is_einval(void **state)
{
    struct fixture *f = *state;
    rowlock_lock *lock = NULL;
    expect_einval(f, rowlock_renew(NULL, 0, &f->err));
    expect_einval(f, rowlock_release(NULL, &f->err));
    expect_einval(f, rowlock_release(&lock, &f->err));
    expect_status(ROWLOCK_EINVAL, rowlock_check(NULL), NULL);
    assert_int_equal(rowlock_remaining(NULL), 0);
    assert_int_equal(rowlock_fence(NULL), 0);
}

static void test_null_for_with_is_einval(void **state)
{
    struct fixture *f = *state;
    rowlock_client *client = client_open(f);
    int result = 5;
    expect_einval(f, rowlock_with(&result, NULL, "lock", NULL, nothing, NULL, &f->err));
    expect_einval(f, rowlock_with(&result, client, NULL, NULL, nothing, NULL, &f->err));
    expect_einval(f, rowlock_with(&result, client, "lock", NULL, NULL, NULL, &f->err));
    assert_int_equal(result, 5);
    expect_empty(f);
}

static void test_null_for_the_others_is_einval(void **state)
{
    struct fixture *f = *state;
    rowlock_client *client = client_open(f);
    struct rows rows = {0};
    int version = 0;
    uint64_t count = 0;
    char *sql = NULL;
    expect_einval(f, rowlock_list(NULL, NULL, rows_collect, &rows, &f->err));
    expect_einval(f, rowlock_list(client, NULL, NULL, NULL, &f->err));
    expect_einval(f, rowlock_force_release(NULL, "lock", NULL, &f->err));
    expect_einval(f, rowlock_force_release(client, NULL, NULL, &f->err));
    expect_einval(f, rowlock_reap(&count, NULL, NULL, &f->err));
    expect_einval(f, rowlock_schema_version(NULL, client, &f->err));
    expect_einval(f, rowlock_schema_version(&version, NULL, &f->err));
    expect_einval(f, rowlock_migrate(NULL, ROWLOCK_SCHEMA_LATEST, &f->err));
    expect_einval(f, rowlock_migration_sql(NULL, f->driver, 1, 1, NULL, &f->err));
    expect_einval(f, rowlock_migration_sql(&sql, NULL, 1, 1, NULL, &f->err));
    expect_einval(f, rowlock_cancel_new(NULL, &f->err));
}

static void test_error_struct_is_never_needed(void **state)
{
    struct fixture *f = *state;
    rowlock_client *client = client_open(f);
    rowlock_lock *lock = NULL;
    expect_status(ROWLOCK_EINVAL, rowlock_acquire(&lock, client, "", NULL, NULL), NULL);
    expect_ok(rowlock_acquire(&lock, client, "lock", NULL, NULL), NULL);
    expect_ok(rowlock_renew(lock, 0, NULL), NULL);
    expect_ok(rowlock_release(&lock, NULL), NULL);
    expect_status(ROWLOCK_LOST, rowlock_force_release(client, "lock", NULL, NULL), NULL);
}

static void test_error_is_cleared_on_success(void **state)
{
    struct fixture *f = *state;
    static const rowlock_error cleared;
    rowlock_client *client = client_open(f);
    rowlock_lock *lock = NULL;
    memset(&f->err, 'x', sizeof(f->err));
    expect_ok(rowlock_acquire(&lock, client, "lock", NULL, &f->err), NULL);
    assert_memory_equal(&f->err, &cleared, sizeof(cleared));
    memset(&f->err, 'x', sizeof(f->err));
    expect_ok(rowlock_renew(lock, 0, &f->err), NULL);
    assert_memory_equal(&f->err, &cleared, sizeof(cleared));
    memset(&f->err, 'x', sizeof(f->err));
    expect_ok(rowlock_release(&lock, &f->err), NULL);
    assert_memory_equal(&f->err, &cleared, sizeof(cleared));
    memset(&f->err, 'x', sizeof(f->err));
    expect_ok(rowlock_reap(NULL, client, NULL, &f->err), NULL);
    assert_memory_equal(&f->err, &cleared, sizeof(cleared));
}

static void test_name_out_of_bounds_is_einval(void **state)
{
    struct fixture *f = *state;
    rowlock_client *client = client_open(f);
    char longer[ROWLOCK_NAME_MAX + 2];
    memset(longer, 'n', sizeof(longer));
    longer[ROWLOCK_NAME_MAX + 1] = '\0';
    rowlock_lock *lock = (rowlock_lock *)f;
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;
    expect_einval(f, rowlock_acquire(&lock, client, "", NULL, &f->err));
    expect_einval(f, rowlock_acquire(&lock, client, longer, NULL, &f->err));
    options.name_length = ROWLOCK_NAME_MAX + 1;
    expect_einval(f, rowlock_acquire(&lock, client, longer, &options, &f->err));
    assert_null(lock);
    expect_einval(f, rowlock_force_release(client, "", NULL, &f->err));
    expect_einval(f, rowlock_force_release(client, longer, NULL, &f->err));
    expect_einval(f, rowlock_with(NULL, client, longer, NULL, nothing, NULL, &f->err));
    expect_empty(f);
    longer[ROWLOCK_NAME_MAX] = '\0';
    lock = hold(f, client, longer);
    let_go(f, &lock);
}

static void test_ttl_out_of_bounds_is_einval(void **state)
{
    struct fixture *f = *state;
    static const int64_t wrong[] = {
        -1, 1, ROWLOCK_TTL_MIN_MS - 1, ROWLOCK_TTL_MAX_MS + 1, INT64_MAX, INT64_MIN};
    rowlock_client *client = client_open(f), *other = NULL;
    rowlock_lock *lock = NULL, *held = hold(f, client, "held");
    for (size_t i = 0; i < COUNT(wrong); i++) {
        rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;
        options.ttl_ms = wrong[i];
        expect_einval(f, rowlock_acquire(&lock, client, "lock", &options, &f->err));
        expect_einval(f, rowlock_renew(held, wrong[i], &f->err));
        rowlock_options client_options = ROWLOCK_OPTIONS_INIT;
        client_options.prefix = f->prefix;
        client_options.ttl_ms = wrong[i];
        expect_einval(
            f, rowlock_open(&other, f->driver, f->backend->address, &client_options, &f->err));
    }
    assert_false(row_exists(f, "lock"));
    let_go(f, &held);
}

static void test_wait_below_forever_is_einval(void **state)
{
    struct fixture *f = *state;
    rowlock_lock *lock = NULL;
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;
    options.wait_ms = -2;
    expect_einval(f, rowlock_acquire(&lock, client_open(f), "lock", &options, &f->err));
}

static void test_owner_and_note_out_of_bounds_are_einval(void **state)
{
    struct fixture *f = *state;
    static char long_owner[ROWLOCK_OWNER_MAX + 2], long_note[ROWLOCK_NOTE_MAX + 2];
    memset(long_owner, 'o', sizeof(long_owner) - 1);
    memset(long_note, 'n', sizeof(long_note) - 1);
    const char *const owners[] = {"",         long_owner, "line\nbreak", "bell\a",
                                  "\xff\xfe", "\xc3",     "\xed\xa0\x80"};
    const char *const notes[] = {long_note, "line\nbreak", "\xff\xfe"};
    rowlock_client *client = client_open(f);
    rowlock_lock *lock = NULL;
    for (size_t i = 0; i < COUNT(owners); i++) {
        rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;
        options.owner = owners[i];
        expect_einval(f, rowlock_acquire(&lock, client, "lock", &options, &f->err));
    }
    for (size_t i = 0; i < COUNT(notes); i++) {
        rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;
        options.note = notes[i];
        expect_einval(f, rowlock_acquire(&lock, client, "lock", &options, &f->err));
    }
    expect_empty(f);
}

static void test_prefix_that_is_none_is_einval(void **state)
{
    struct fixture *f = *state;
    static const char *const wrong[] = {
        "",       "a'",  "a\"",  "a;b",      "a b", "Upper",
        "1first", "a-b", "a.b_", "\xc3\xa9", "a`",  "a23456789012345678901234567890_2"};
    for (size_t i = 0; i < COUNT(wrong); i++) {
        rowlock_client *client = NULL;
        rowlock_options options = ROWLOCK_OPTIONS_INIT;
        options.prefix = wrong[i];
        options.schema_policy = ROWLOCK_SCHEMA_IGNORE;
        expect_einval(f, rowlock_open(&client, f->driver, f->backend->address, &options, &f->err));
        assert_null(client);
    }
}

static void test_schema_that_is_none_is_einval(void **state)
{
    struct fixture *f = *state;
    static char too_long[65];
    memset(too_long, 's', sizeof(too_long) - 1);
    const char *const wrong[] = {"", "a'", "a\"", "a;b", "a b", "1first", "a.b", "a`", too_long};
    for (size_t i = 0; i < COUNT(wrong); i++) {
        rowlock_client *client = NULL;
        rowlock_options options = ROWLOCK_OPTIONS_INIT;
        options.schema = wrong[i];
        options.schema_policy = ROWLOCK_SCHEMA_IGNORE;
        expect_einval(f, rowlock_open(&client, f->driver, f->backend->address, &options, &f->err));
        assert_null(client);
    }
    if (!f->driver->has_schemas) {
        rowlock_client *client = NULL;
        rowlock_options options = ROWLOCK_OPTIONS_INIT;
        options.schema = "public";
        expect_einval(f, rowlock_open(&client, f->driver, f->backend->address, &options, &f->err));
    }
}

/* Options of a newer header: longer, and known only as far as this library goes. */
struct longer_options {
    rowlock_acquire_options known;
    uint64_t newer[2];
};

static void test_options_with_an_unknown_field_set_are_einval(void **state)
{
    struct fixture *f = *state;
    struct longer_options options;
    memset(&options, 0, sizeof(options));
    options.known.size = sizeof(options);
    options.newer[1] = 1;
    rowlock_lock *lock = NULL;
    expect_einval(f, rowlock_acquire(&lock, client_open(f), "lock", &options.known, &f->err));
    expect_empty(f);
}

static void test_options_with_an_unknown_field_of_zero_are_fine(void **state)
{
    struct fixture *f = *state;
    struct longer_options options;
    memset(&options, 0, sizeof(options));
    options.known.size = sizeof(options);
    rowlock_lock *lock = NULL;
    expect_ok(rowlock_acquire(&lock, client_open(f), "lock", &options.known, &f->err), &f->err);
    let_go(f, &lock);
}

static void test_options_with_a_reserved_field_set_are_einval(void **state)
{
    struct fixture *f = *state;
    rowlock_client *client = client_open(f);
    rowlock_acquire_options acquire = ROWLOCK_ACQUIRE_OPTIONS_INIT;
    rowlock_list_options list = ROWLOCK_LIST_OPTIONS_INIT;
    rowlock_lock *lock = NULL;

    acquire.reserved = 1;
    assert_int_equal(rowlock_acquire(&lock, client, "a", &acquire, &f->err), ROWLOCK_EINVAL);
    assert_non_null(strstr(f->err.message, "rowlock_acquire_options"));
    assert_null(lock);
    list.reserved = 1;
    assert_int_equal(rowlock_list(client, &list, rows_collect, NULL, &f->err), ROWLOCK_EINVAL);
    assert_non_null(strstr(f->err.message, "rowlock_list_options"));
}

static void test_options_without_a_size_are_einval(void **state)
{
    struct fixture *f = *state;
    rowlock_client *client = client_open(f), *other = NULL;
    rowlock_lock *lock = NULL;
    rowlock_acquire_options acquire = {.size = 0};
    rowlock_options open = {.size = 0};
    rowlock_list_options list = {.size = 0};
    rowlock_force_options force = {.size = 0};
    rowlock_reap_options reaping = {.size = 0};
    struct rows rows = {0};
    expect_einval(f, rowlock_acquire(&lock, client, "lock", &acquire, &f->err));
    expect_einval(f, rowlock_open(&other, f->driver, f->backend->address, &open, &f->err));
    expect_einval(f, rowlock_list(client, &list, rows_collect, &rows, &f->err));
    expect_einval(f, rowlock_force_release(client, "lock", &force, &f->err));
    expect_einval(f, rowlock_reap(NULL, client, &reaping, &f->err));
}

static void test_reap_with_a_negative_retention_is_einval(void **state)
{
    struct fixture *f = *state;
    rowlock_reap_options options = ROWLOCK_REAP_OPTIONS_INIT;
    options.retention_ms = -1;
    grant(f, "live", "ann");
    expect_einval(f, rowlock_reap(NULL, client_open(f), &options, &f->err));
    assert_true(row_exists(f, "live"));
}

static void test_reap_with_an_enormous_retention_deletes_nothing(void **state)
{
    struct fixture *f = *state;
    rowlock_reap_options options = ROWLOCK_REAP_OPTIONS_INIT;
    options.retention_ms = INT64_MAX;
    options.limit = UINT64_MAX;
    grant_released(f, "free", "ann");
    sleep_us(2000);
    int status = rowlock_reap(NULL, client_open(f), &options, &f->err);
    assert_true(status == ROWLOCK_OK || status == ROWLOCK_EINVAL);
    assert_true(row_exists(f, "free"));
}

static void test_statuses_have_texts(void **state)
{
    (void)state;
#define EXPECT_TEXT(name, number, text)       \
    assert_int_equal(ROWLOCK_##name, number); \
    assert_string_equal(rowlock_strstatus(number), text);
    ROWLOCK_STATUS_MAP(EXPECT_TEXT)
#undef EXPECT_TEXT
    assert_string_equal(rowlock_strstatus(12345), "unknown status");
    assert_int_equal(sizeof(rowlock_error), 256);
}

static const struct test_case cases[] = {
    CASE(test_null_for_open_is_einval),
    CASE(test_null_for_acquire_is_einval),
    CASE(test_null_for_acquire_many_is_einval),
    CASE(test_null_for_a_lock_is_einval),
    CASE(test_null_for_with_is_einval),
    CASE(test_null_for_the_others_is_einval),
    CASE(test_error_struct_is_never_needed),
    CASE(test_error_is_cleared_on_success),
    CASE(test_name_out_of_bounds_is_einval),
    CASE(test_ttl_out_of_bounds_is_einval),
    CASE(test_wait_below_forever_is_einval),
    CASE(test_owner_and_note_out_of_bounds_are_einval),
    CASE(test_prefix_that_is_none_is_einval),
    CASE(test_schema_that_is_none_is_einval),
    CASE(test_options_with_an_unknown_field_set_are_einval),
    CASE(test_options_with_an_unknown_field_of_zero_are_fine),
    CASE(test_options_with_a_reserved_field_set_are_einval),
    CASE(test_options_without_a_size_are_einval),
    CASE(test_reap_with_a_negative_retention_is_einval),
    CASE(test_reap_with_an_enormous_retention_deletes_nothing),
    CASE(test_statuses_have_texts),
};

const struct suite api_arguments_suite = SUITE("api_arguments", cases);
