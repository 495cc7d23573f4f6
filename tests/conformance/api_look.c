/* SPDX-License-Identifier: MIT
 *
 * Looking and mending: list, force_release, reap. */
#include "conformance.h"

static struct rows list(struct fixture *f, rowlock_client *client, const char *starts_with,
                        int expired)
{
    struct rows rows = {0};
    rowlock_list_options options = ROWLOCK_LIST_OPTIONS_INIT;
    options.starts_with = starts_with;
    options.expired = expired;
    expect_ok(rowlock_list(client, &options, rows_collect, &rows, &f->err), &f->err);
    return rows;
}

static void test_list_shows_held_locks(void **state)
{
    struct fixture *f = *state;
    rowlock_client *client = client_open_as(f, "ann");
    rowlock_lock *a = hold(f, client, "b"), *b = hold(f, client, "a"), *c = hold(f, client, "c");
    let_go(f, &c);
    struct rows rows = list(f, client, NULL, 0);
    assert_int_equal(rows.count, 2);
    assert_string_equal(rows.items[0].name, "a");
    assert_string_equal(rows.items[1].name, "b");
    assert_string_equal(rows.items[1].owner, "ann");
    assert_int_equal(rows.items[1].fence, rowlock_fence(a));
    assert_int_equal(rows.items[1].hold_count, 1);
    expect_between(rows.items[1].remaining_ms, 30000 - SLACK_US / 1000, 30000);
    expect_between(rows.items[1].held_ms, 0, SLACK_US / 1000);
    rows_free(&rows);
    let_go(f, &a);
    let_go(f, &b);
}

static void test_list_shows_free_rows_when_asked(void **state)
{
    struct fixture *f = *state;
    grant_released(f, "free", "ann");
    grant(f, "held", "ann");
    rowlock_client *client = client_open(f);
    struct rows rows = list(f, client, NULL, 1);
    assert_int_equal(rows.count, 2);
    assert_true(rows.items[0].remaining_ms <= 0);
    rows_free(&rows);
}

static void test_list_shows_names_that_start_so(void **state)
{
    struct fixture *f = *state;
    grant(f, "job/1", "ann");
    grant(f, "job_2", "ann");
    rowlock_client *client = client_open(f);
    struct rows rows = list(f, client, "job/", 0);
    assert_int_equal(rows.count, 1);
    assert_string_equal(rows.items[0].name, "job/1");
    rows_free(&rows);
}

static void test_list_takes_the_length_of_the_start(void **state)
{
    struct fixture *f = *state;
    rowlock_op ops[] = {op_bytes("a", 1, "ann"), op_bytes("a\0b", 3, "ann"),
                        op_bytes("ab", 2, "ann")};
    ops_acquire(f, f->conn, ops, COUNT(ops), 1);
    struct rows rows = {0};
    rowlock_list_options options = ROWLOCK_LIST_OPTIONS_INIT;
    options.starts_with = "a\0";
    options.starts_with_length = 2;
    expect_ok(rowlock_list(client_open(f), &options, rows_collect, &rows, &f->err), &f->err);
    assert_int_equal(rows.count, 1);
    assert_int_equal(rows.items[0].name_length, 3);
    rows_free(&rows);
}

static int count_and_stop(const rowlock_row *row, void *payload)
{
    (void)row;
    ++*(int *)payload;
    return 1;
}

static void test_list_stops_and_is_ok(void **state)
{
    struct fixture *f = *state;
    grant(f, "a", "ann");
    grant(f, "b", "ann");
    int calls = 0;
    expect_ok(rowlock_list(client_open(f), NULL, count_and_stop, &calls, &f->err), &f->err);
    assert_int_equal(calls, 1);
}

struct user {
    rowlock_client *client;
    int failed, calls;
};

static int use_client(const rowlock_row *row, void *payload)
{
    (void)row;
    struct user *u = payload;
    rowlock_lock *lock = NULL;
    u->calls++;
    u->failed += rowlock_acquire(&lock, u->client, "inside", NULL, NULL) != ROWLOCK_OK;
    u->failed += rowlock_release(&lock, NULL) != ROWLOCK_OK;
    return 0;
}

static void test_list_callback_may_use_the_client(void **state)
{
    struct fixture *f = *state;
    grant(f, "a", "ann");
    grant(f, "b", "ann");
    rowlock_options options = ROWLOCK_OPTIONS_INIT;
    options.prefix = f->prefix;
    options.max_connections = 1;
    expect_ok(rowlock_open(&f->clients[0], f->driver, f->backend->address, &options, &f->err),
              &f->err);
    struct user user = {f->clients[0], 0, 0};
    expect_ok(rowlock_list(f->clients[0], NULL, use_client, &user, &f->err), &f->err);
    assert_int_equal(user.calls, 2);
    assert_int_equal(user.failed, 0);
}

static void test_force_release_ends_anothers_hold(void **state)
{
    struct fixture *f = *state;
    rowlock_client *first = client_open(f), *second = client_open(f);
    rowlock_lock *old = hold(f, first, "lock");
    expect_ok(rowlock_force_release(second, "lock", NULL, &f->err), &f->err);
    rowlock_lock *next = hold(f, second, "lock");
    assert_true(rowlock_fence(next) > rowlock_fence(old));
    expect_status(ROWLOCK_LOST, rowlock_renew(old, 0, &f->err), &f->err);
    expect_status(ROWLOCK_LOST, rowlock_check(old), NULL);
    expect_status(ROWLOCK_LOST, rowlock_release(&old, &f->err), &f->err);
    expect_ok(rowlock_renew(next, 0, &f->err), &f->err);
    let_go(f, &next);
}

static void test_force_release_of_the_given_fence_only(void **state)
{
    struct fixture *f = *state;
    rowlock_client *client = client_open(f);
    rowlock_lock *lock = hold(f, client, "lock");
    rowlock_force_options options = ROWLOCK_FORCE_OPTIONS_INIT;
    options.fence = rowlock_fence(lock) - 1;
    expect_status(ROWLOCK_LOST, rowlock_force_release(client, "lock", &options, &f->err), &f->err);
    expect_ok(rowlock_renew(lock, 0, &f->err), &f->err);
    options.fence = rowlock_fence(lock);
    expect_ok(rowlock_force_release(client, "lock", &options, &f->err), &f->err);
    expect_status(ROWLOCK_LOST, rowlock_release(&lock, &f->err), &f->err);
}

static void test_force_release_of_a_free_lock_is_lost(void **state)
{
    struct fixture *f = *state;
    rowlock_client *client = client_open(f);
    expect_status(ROWLOCK_LOST, rowlock_force_release(client, "absent", NULL, &f->err), &f->err);
    grant_released(f, "free", "ann");
    expect_status(ROWLOCK_LOST, rowlock_force_release(client, "free", NULL, &f->err), &f->err);
    assert_int_equal(f->err.status, ROWLOCK_LOST);
}

static void test_force_release_takes_the_length_of_the_name(void **state)
{
    struct fixture *f = *state;
    rowlock_op ops[] = {op_bytes("a", 1, "ann"), op_bytes("a\0b", 3, "ann")};
    ops_acquire(f, f->conn, ops, COUNT(ops), 1);
    rowlock_force_options options = ROWLOCK_FORCE_OPTIONS_INIT;
    options.name_length = 3;
    expect_ok(rowlock_force_release(client_open(f), "a\0b", &options, &f->err), &f->err);
    struct rows rows = rows_query(f, NULL, 0, 0);
    assert_int_equal(rows.count, 1);
    assert_int_equal(rows.items[0].name_length, 1);
    rows_free(&rows);
}

static void test_reap_deletes_and_counts(void **state)
{
    struct fixture *f = *state;
    static const char *const names[] = {"a", "b", "c"};
    for (size_t i = 0; i < COUNT(names); i++)
        grant_released(f, names[i], "ann");
    grant(f, "held", "ann");
    rowlock_client *client = client_open(f);
    rowlock_reap_options options = ROWLOCK_REAP_OPTIONS_INIT;
    options.retention_ms = 999;
    expect_status(ROWLOCK_EINVAL, rowlock_reap(NULL, client, &options, &f->err), &f->err);
    options.retention_ms = 1000;
    sleep_us(1010000);
    options.limit = 2;
    uint64_t count = 0;
    expect_ok(rowlock_reap(&count, client, &options, &f->err), &f->err);
    assert_int_equal(count, 2);
    expect_ok(rowlock_reap(&count, client, &options, &f->err), &f->err);
    assert_int_equal(count, 1);
    assert_true(row_exists(f, "held"));
}

static void test_reap_keeps_rows_for_days_by_default(void **state)
{
    struct fixture *f = *state;
    grant_released(f, "free", "ann");
    uint64_t count = 77;
    rowlock_client *client = client_open(f);
    expect_ok(rowlock_reap(&count, client, NULL, &f->err), &f->err);
    assert_int_equal(count, 0);
    expect_ok(rowlock_reap(NULL, client, NULL, &f->err), &f->err);
    assert_true(row_exists(f, "free"));
}

static const struct test_case cases[] = {
    CASE(test_list_shows_held_locks),
    CASE(test_list_shows_free_rows_when_asked),
    CASE(test_list_shows_names_that_start_so),
    CASE(test_list_takes_the_length_of_the_start),
    CASE(test_list_stops_and_is_ok),
    CASE(test_list_callback_may_use_the_client),
    CASE(test_force_release_ends_anothers_hold),
    CASE(test_force_release_of_the_given_fence_only),
    CASE(test_force_release_of_a_free_lock_is_lost),
    CASE(test_force_release_takes_the_length_of_the_name),
    CASE(test_reap_deletes_and_counts),
    CASE(test_reap_keeps_rows_for_days_by_default),
};

const struct suite api_look_suite = SUITE("api_look", cases);
