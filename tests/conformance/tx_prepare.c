/* SPDX-License-Identifier: MIT
 *
 * The slots prepare and locate. */
#include <stdio.h>

#include "conformance.h"

static void prepare(struct fixture *f, void *conn, rowlock_op *ops, size_t n)
{
    expect_ok(f->driver->prepare(conn, ops, n, CALL_MS, &f->err), &f->err);
}

/* As the core asks: with the names alone. */
static rowlock_op op_named(const char *name)
{
    return (rowlock_op){.name = name, .name_length = strlen(name), .status = INT32_MIN};
}

static void test_prepare_makes_absent_rows_as_free_ones(void **state)
{
    struct fixture *f = *state;
    rowlock_op old = grant_released(f, "b", "ann");
    rowlock_op ops[] = {op_named("a"), op_named("b"), op_named("c")};
    prepare(f, f->conn, ops, COUNT(ops));
    for (size_t i = 0; i < COUNT(ops); i++)
        expect_ok(ops[i].status, NULL);
    struct row row = row_of(f, "c");
    assert_string_equal(row.owner, "");
    assert_string_equal(row.note, "");
    assert_int_equal(row.hold_count, 0);
    assert_true(row.remaining_ms <= 0);
    assert_true(row.fence > old.fence); /* now, in microseconds */
    assert_true(row_exists(f, "a"));
    assert_int_equal(row_of(f, "b").fence, old.fence);
}

static void test_prepare_tells_a_live_lease_whoever_asks(void **state)
{
    struct fixture *f = *state;
    rowlock_op held = grant(f, "b", "ann");
    rowlock_op ops[] = {op_named("a"), op_new("b", "ann"), op_named("c")};
    prepare(f, f->conn, ops, COUNT(ops));
    expect_ok(ops[0].status, NULL);
    expect_ok(ops[2].status, NULL);
    expect_status(ROWLOCK_BUSY, ops[1].status, NULL);
    assert_string_equal(ops[1].holder, "ann");
    assert_int_equal(ops[1].holder_fence, held.fence);
    expect_between(ops[1].remaining_us, LONG_US - SLACK_US, LONG_US);
}

static void test_prepare_of_expired_and_released_rows_is_ok(void **state)
{
    struct fixture *f = *state;
    grant_expired(f, "a", "ann");
    grant_released(f, "b", "ann");
    rowlock_op ops[] = {op_named("a"), op_named("b")};
    prepare(f, f->conn, ops, COUNT(ops));
    expect_ok(ops[0].status, NULL);
    expect_ok(ops[1].status, NULL);
}

static void test_prepare_changes_no_row_that_is_there(void **state)
{
    struct fixture *f = *state;
    grant(f, "a", "ann");
    grant_released(f, "b", "bob");
    struct rows before = rows_read(f);
    rowlock_op ops[] = {op_named("a"), op_named("b")};
    prepare(f, f->conn, ops, COUNT(ops));
    struct rows after = rows_read(f);
    expect_same_rows(&before, &after);
    rows_free(&before);
    rows_free(&after);
}

static void test_prepare_does_not_wait_for_a_transaction(void **state)
{
    struct fixture *f = *state;
    grant_released(f, "a", "ann");
    rowlock_op locked = op_new("a", "bob");
    void *conn = another(f);
    rowlock_target target = {.size = sizeof(target), .conn = conn};
    expect_ok(f->driver->lock(&target, &locked, 1, ROWLOCK_WAIT_NONE, 0, CALL_MS, &f->err),
              &f->err);
    expect_ok(locked.status, NULL);
    rowlock_op ops[] = {op_named("a"), op_named("b")};
    expect_soon(2000000, prepare(f, f->conn, ops, COUNT(ops)));
    expect_ok(f->driver->end(conn, 0, CALL_MS, &f->err), &f->err);
    expect_ok(ops[0].status, NULL);
    expect_ok(ops[1].status, NULL);
}

static void test_prepare_of_a_guarded_lease_tells_its_holder(void **state)
{
    struct fixture *f = *state;
    grant(f, "a", "ann");
    void *session = session_open(f);
    sql_in(f, session, "SELECT fence FROM rowlock_locks WHERE name = 'a' FOR UPDATE");
    rowlock_op ops[] = {op_named("a"), op_named("b")};
    expect_soon(2000000, prepare(f, f->conn, ops, COUNT(ops)));
    expect_status(ROWLOCK_BUSY, ops[0].status, NULL);
    assert_string_equal(ops[0].holder, "ann");
    expect_ok(ops[1].status, NULL);
    sql_end(f, session);
}

static void test_prepare_takes_any_bytes(void **state)
{
    struct fixture *f = *state;
    static const char names[][4] = {{'\0'}, {'\'', '\\', '"', '\n'}, {'\xff', '\0', '\xfe'}};
    static const size_t lengths[] = {1, 4, 3};
    rowlock_op ops[3];
    for (size_t i = 0; i < COUNT(ops); i++)
        ops[i] = op_bytes(names[i], lengths[i], "ann");
    rowlock_target target = {.size = sizeof(target), .conn = f->conn};
    for (int i = 0; i < 2; i++) {
        spread_fences(f);
        prepare(f, f->conn, ops, COUNT(ops));
        expect_ok(f->driver->lock(&target, ops, COUNT(ops), ROWLOCK_WAIT_NONE, 0, CALL_MS, &f->err),
                  &f->err);
        for (size_t k = 0; k < COUNT(ops); k++)
            expect_ok(ops[k].status, NULL);
        expect_ok(f->driver->end(f->conn, 1, CALL_MS, &f->err), &f->err);
    }
    struct rows rows = rows_read(f);
    assert_int_equal(rows.count, 3);
    for (size_t i = 0; i < rows.count; i++) {
        assert_int_equal(rows.items[i].name_length, lengths[i]);
        assert_memory_equal(rows.items[i].name, names[i], lengths[i]);
        assert_int_equal(rows.items[i].fence, ops[i].fence);
    }
    rows_free(&rows);
}

static void test_prepare_and_lock_take_a_thousand(void **state)
{
    struct fixture *f = *state;
    static rowlock_op ops[1000];
    static char names[1000][8];
    for (size_t i = 0; i < COUNT(ops); i++) {
        snprintf(names[i], sizeof(names[i]), "n%03u", (unsigned)i % 1000);
        ops[i] = op_new(names[i], "ann");
    }
    prepare(f, f->conn, ops, COUNT(ops));
    rowlock_target target = {.size = sizeof(target), .conn = f->conn};
    expect_ok(f->driver->lock(&target, ops, COUNT(ops), ROWLOCK_WAIT_NONE, 0, CALL_MS, &f->err),
              &f->err);
    expect_ok(f->driver->end(f->conn, 1, CALL_MS, &f->err), &f->err);
    struct rows rows = rows_read(f);
    assert_int_equal(rows.count, COUNT(ops));
    for (size_t i = 0; i < rows.count; i++) {
        expect_ok(ops[i].status, NULL);
        assert_int_equal(rows.items[i].fence, ops[i].fence);
        assert_string_equal(rows.items[i].owner, "ann");
    }
    rows_free(&rows);
}

static void test_prepare_without_tables_is_eschema(void **state)
{
    struct fixture *f = *state;
    void *conn = NULL;
    expect_ok(conn_begin(f, &conn, f->backend->address, "rowlock_none_"), &f->err);
    rowlock_op op = op_named("a");
    int status = f->driver->prepare(conn, &op, 1, CALL_MS, &f->err);
    conn_end(f, conn);
    expect_status(ROWLOCK_ESCHEMA, status, &f->err);
}

static void test_locate_says_the_same_on_every_connection(void **state)
{
    struct fixture *f = *state;
    static char first[ROWLOCK_PLACE_MAX], second[ROWLOCK_PLACE_MAX];
    memset(first, 'x', sizeof(first));
    memset(second, 'y', sizeof(second));
    expect_ok(f->driver->locate(f->conn, first, sizeof(first), CALL_MS, &f->err), &f->err);
    expect_ok(f->driver->locate(another(f), second, sizeof(second), CALL_MS, &f->err), &f->err);
    assert_true(strnlen(first, sizeof(first)) > 0);
    assert_true(strnlen(first, sizeof(first)) < sizeof(first));
    assert_string_equal(first, second);
}

static void test_locate_without_tables_is_eschema(void **state)
{
    struct fixture *f = *state;
    static char place[ROWLOCK_PLACE_MAX];
    void *conn = NULL;
    expect_ok(conn_begin(f, &conn, f->backend->address, "rowlock_none_"), &f->err);
    int status = f->driver->locate(conn, place, sizeof(place), CALL_MS, &f->err);
    conn_end(f, conn);
    expect_status(ROWLOCK_ESCHEMA, status, &f->err);
}

#define TX (BACKEND_TRANSACTIONS)

static const struct test_case cases[] = {
    CASE_IF(test_prepare_makes_absent_rows_as_free_ones, TX | BACKEND_ROW_LOCKS),
    CASE_IF(test_prepare_tells_a_live_lease_whoever_asks, TX),
    CASE_IF(test_prepare_of_expired_and_released_rows_is_ok, TX),
    CASE_IF(test_prepare_changes_no_row_that_is_there, TX),
    CASE_IF(test_prepare_does_not_wait_for_a_transaction, TX),
    CASE_IF(test_prepare_of_a_guarded_lease_tells_its_holder, TX | BACKEND_ROW_LOCKS),
    CASE_IF(test_prepare_takes_any_bytes, TX),
    CASE_IF(test_prepare_and_lock_take_a_thousand, TX),
    CASE_IF(test_prepare_without_tables_is_eschema, TX),
    CASE_IF(test_locate_says_the_same_on_every_connection, TX),
    CASE_IF(test_locate_without_tables_is_eschema, TX),
};

const struct suite tx_prepare_suite = SUITE("tx_prepare", cases);
