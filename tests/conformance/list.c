/* SPDX-License-Identifier: MIT
 *
 * The list slot. */
#include "conformance.h"

static void expect_names(struct fixture *f, const char *starts_with, int expired,
                         const char *const *names, size_t n)
{
    struct rows rows =
        rows_query(f, starts_with, starts_with != NULL ? strlen(starts_with) : 0, expired);
    assert_int_equal(rows.count, n);
    for (size_t i = 0; i < n; i++)
        assert_string_equal(rows.items[i].name, names[i]);
    rows_free(&rows);
}

static void test_list_of_an_empty_table_calls_nobody(void **state)
{
    struct fixture *f = *state;
    expect_names(f, NULL, 1, NULL, 0);
}

static void test_list_is_in_byte_order(void **state)
{
    struct fixture *f = *state;
    static const char *const sorted[] = {"A",  "Z",         "_",        "a",   "a ",
                                         "aa", "e\xcc\x81", "\xc3\xa9", "\xff"};
    for (size_t i = COUNT(sorted); i-- > 0;)
        grant(f, sorted[i], "ann");
    expect_names(f, NULL, 0, sorted, COUNT(sorted));
}

static void test_list_leaves_out_free_rows(void **state)
{
    struct fixture *f = *state;
    grant_released(f, "released", "ann");
    grant_expired(f, "expired", "ann");
    grant(f, "held", "ann");
    expect_names(f, NULL, 0, (const char *const[]){"held"}, 1);
}

static void test_list_with_expired_shows_free_rows(void **state)
{
    struct fixture *f = *state;
    grant_released(f, "released", "ann");
    grant_expired(f, "expired", "ann");
    grant(f, "held", "ann");
    expect_names(f, NULL, 1, (const char *const[]){"expired", "held", "released"}, 3);
    assert_true(row_of(f, "expired").remaining_ms <= 0);
    assert_true(row_of(f, "released").remaining_ms <= 0);
    assert_true(row_of(f, "held").remaining_ms > 0);
}

static void test_list_filters_by_the_start_of_the_name(void **state)
{
    struct fixture *f = *state;
    static const char *const names[] = {"job", "job/1", "job/2", "jobs", "Job/3", "ob/4", "jo"};
    for (size_t i = 0; i < COUNT(names); i++)
        grant(f, names[i], "ann");
    expect_names(f, "job/", 0, (const char *const[]){"job/1", "job/2"}, 2);
    expect_names(f, "job", 0, (const char *const[]){"job", "job/1", "job/2", "jobs"}, 4);
    expect_names(f, "job/11", 0, NULL, 0);
}

/* Wildcards and escapes of LIKE, and bytes without a successor, stand for themselves. */
static void test_list_takes_the_filter_as_bytes(void **state)
{
    struct fixture *f = *state;
    static const char *const names[] = {"%1",
                                        "_1",
                                        "\\1",
                                        "*1",
                                        "[1",
                                        "'1",
                                        "\xff"
                                        "1",
                                        "\xff\xff",
                                        "x1"};
    for (size_t i = 0; i < COUNT(names); i++)
        grant(f, names[i], "ann");
    for (size_t i = 0; i < 6; i++) {
        char first[2] = {names[i][0], '\0'};
        expect_names(f, first, 0, &names[i], 1);
    }
    expect_names(f, "\xff", 0,
                 (const char *const[]){"\xff"
                                       "1",
                                       "\xff\xff"},
                 2);
    expect_names(f, "\xff\xff", 0, (const char *const[]){"\xff\xff"}, 1);
    expect_names(f, "\xff\xff\xff", 0, NULL, 0);
}

static void test_list_takes_nul_bytes_in_the_filter(void **state)
{
    struct fixture *f = *state;
    rowlock_op ops[] = {op_bytes("a", 1, "ann"), op_bytes("a\0", 2, "ann"),
                        op_bytes("a\0b", 3, "ann"), op_bytes("ab", 2, "ann")};
    ops_acquire(f, f->conn, ops, COUNT(ops), 1);
    struct rows rows = rows_query(f, "a\0", 2, 0);
    assert_int_equal(rows.count, 2);
    assert_int_equal(rows.items[0].name_length, 2);
    assert_int_equal(rows.items[1].name_length, 3);
    assert_memory_equal(rows.items[1].name, "a\0b", 4);
    rows_free(&rows);
}

static int stop_at_second(const rowlock_row *row, void *payload)
{
    (void)row;
    int *calls = payload;
    return ++*calls == 2;
}

static void test_list_stops_when_told(void **state)
{
    struct fixture *f = *state;
    static const char *const names[] = {"a", "b", "c", "d"};
    for (size_t i = 0; i < COUNT(names); i++)
        grant(f, names[i], "ann");
    rowlock_list_query query = {.size = sizeof(query)};
    int calls = 0;
    expect_ok(f->driver->list(f->conn, &query, stop_at_second, &calls, CALL_MS, &f->err), &f->err);
    assert_int_equal(calls, 2);
    expect_names(f, NULL, 0, names, COUNT(names)); /* the connection is in order */
}

static void test_list_tells_every_field(void **state)
{
    struct fixture *f = *state;
    rowlock_op op = op_new("lock", "ann");
    op.note = "what is done";
    expect_ok(try_acquire(f, f->conn, &op), NULL);
    int64_t before = now_us();
    grant(f, "lock", "ann");
    sleep_us(20000);
    struct row row = row_of(f, "lock");
    assert_int_equal(row.name_length, 4);
    assert_string_equal(row.name, "lock");
    assert_string_equal(row.owner, "ann");
    assert_string_equal(row.note, "what is done");
    assert_int_equal(row.fence, op.fence);
    assert_int_equal(row.hold_count, 2);
    expect_between(row.held_ms, 19, 20 + SLACK_US / 1000);
    expect_between(row.remaining_ms, (LONG_US - (now_us() - before)) / 1000 - 5,
                   LONG_US / 1000 - 19);
}

static int check_shape(const rowlock_row *row, void *payload)
{
    int *good = payload;
    *good += row->size == sizeof(rowlock_row) && row->name[row->name_length] == '\0' &&
             row->owner != NULL && row->note != NULL;
    return 0;
}

static void test_list_gives_whole_rows(void **state)
{
    struct fixture *f = *state;
    grant(f, "a", "ann");
    grant_released(f, "b", "ann");
    rowlock_list_query query = {.size = sizeof(query), .expired = 1};
    int good = 0;
    expect_ok(f->driver->list(f->conn, &query, check_shape, &good, CALL_MS, &f->err), &f->err);
    assert_int_equal(good, 2);
}

static int count_and_check(const rowlock_row *row, void *payload)
{
    const char *const **next = payload;
    assert_string_equal(row->name, **next);
    ++*next;
    return 0;
}

static void test_list_goes_on_behind_a_name(void **state)
{
    struct fixture *f = *state;
    static const char *const names[] = {"a", "job", "job ", "job/1", "job/2", "z", NULL};
    static const struct {
        const char *starts_with, *after;
        int first, end;
    } ranges[] = {{NULL, "a", 1, 6},      {NULL, "job", 2, 6},  {NULL, "j", 1, 6},
                  {NULL, "z", 6, 6},      {"job", "job", 2, 5}, {"job/", "job/1", 4, 5},
                  {"job/", "job/2", 5, 5}};
    for (size_t i = 0; names[i] != NULL; i++)
        grant(f, names[i], "ann");
    for (size_t i = 0; i < COUNT(ranges); i++) {
        const char *starts_with = ranges[i].starts_with;
        rowlock_list_query query = {.size = sizeof(query),
                                    .starts_with = starts_with,
                                    .starts_with_length =
                                        starts_with != NULL ? strlen(starts_with) : 0,
                                    .after = ranges[i].after,
                                    .after_length = strlen(ranges[i].after)};
        const char *const *next = names + ranges[i].first;
        expect_ok(f->driver->list(f->conn, &query, count_and_check, &next, CALL_MS, &f->err),
                  &f->err);
        assert_ptr_equal(next, names + ranges[i].end);
    }
}

static const struct test_case cases[] = {
    CASE(test_list_of_an_empty_table_calls_nobody),
    CASE(test_list_is_in_byte_order),
    CASE(test_list_leaves_out_free_rows),
    CASE(test_list_with_expired_shows_free_rows),
    CASE(test_list_filters_by_the_start_of_the_name),
    CASE(test_list_takes_the_filter_as_bytes),
    CASE(test_list_takes_nul_bytes_in_the_filter),
    CASE(test_list_stops_when_told),
    CASE(test_list_tells_every_field),
    CASE(test_list_gives_whole_rows),
    CASE(test_list_goes_on_behind_a_name),
};

const struct suite list_suite = SUITE("list", cases);
