/* SPDX-License-Identifier: MIT
 *
 * The slot `diagnose` and rowlock_diagnose(). What is found depends on the server, so that cases
 * break something and look for that. */
#include <stdio.h>

#include "conformance.h"

struct found {
    int32_t grade;
    char subject[32], message[600];
};

struct findings {
    struct found items[64];
    size_t count;
    size_t stop_at; /* 0: never */
    rowlock_client *client;
};

static int is_line(const char *text)
{
    return text != NULL && text[0] != '\0' && strpbrk(text, "\n\r\t") == NULL;
}

static int collect(const rowlock_finding *finding, void *payload)
{
    struct findings *all = payload;
    assert_true(all->count < COUNT(all->items));
    struct found *item = &all->items[all->count++];
    assert_true(finding->size >= sizeof(*finding));
    assert_true(is_line(finding->subject));
    assert_true(is_line(finding->message));
    assert_true(finding->grade >= ROWLOCK_GRADE_GOOD && finding->grade <= ROWLOCK_GRADE_BAD);
    /* What is not good has a remedy, and nothing else has. */
    assert_int_equal(finding->remedy != NULL, finding->grade != ROWLOCK_GRADE_GOOD);
    assert_true(finding->remedy == NULL || is_line(finding->remedy));
    item->grade = finding->grade;
    snprintf(item->subject, sizeof(item->subject), "%s", finding->subject);
    snprintf(item->message, sizeof(item->message), "%s", finding->message);
    return all->stop_at != 0 && all->count >= all->stop_at;
}

static struct findings diagnose(struct fixture *f, void *conn)
{
    struct findings all = {.count = 0};
    expect_ok(f->driver->diagnose(conn, collect, &all, CALL_MS, &f->err), &f->err);
    return all;
}

/* The worst grade that a subject has, -1 if nothing was said of it. */
static int grade_of(const struct findings *all, const char *subject)
{
    int worst = -1;
    for (size_t i = 0; i < all->count; i++) {
        if (strcmp(all->items[i].subject, subject) == 0 && all->items[i].grade > worst)
            worst = all->items[i].grade;
    }
    return worst;
}

/* Fails the case with the message of what is bad besides. */
static void expect_bad(const struct findings *all, const char *subject)
{
    if (subject != NULL)
        assert_int_equal(grade_of(all, subject), ROWLOCK_GRADE_BAD);
    for (size_t i = 0; i < all->count; i++) {
        const struct found *item = &all->items[i];
        if (item->grade == ROWLOCK_GRADE_BAD &&
            (subject == NULL || strcmp(item->subject, subject) != 0))
            fail_msg("%s: %s", item->subject, item->message);
    }
}

static void *without_tables(struct fixture *f)
{
    char prefix[40];
    snprintf(prefix, sizeof(prefix), "x%s", f->prefix);
    expect_ok(conn_begin(f, &f->others[0], f->backend->address, prefix), &f->err);
    return f->others[0];
}

static void test_fresh_tables_are_good(void **state)
{
    struct fixture *f = *state;
    struct findings all = diagnose(f, f->conn);
    expect_bad(&all, NULL);
    assert_int_equal(grade_of(&all, "server"), ROWLOCK_GRADE_GOOD);
    assert_int_equal(grade_of(&all, "tables"), ROWLOCK_GRADE_GOOD);
    assert_true(grade_of(&all, "waiters") >= ROWLOCK_GRADE_GOOD);
}

static void test_missing_tables_are_bad(void **state)
{
    struct fixture *f = *state;
    struct findings all = diagnose(f, without_tables(f));
    expect_bad(&all, "tables");
    assert_int_equal(grade_of(&all, "storage"), -1); /* there is nothing to be said of it */
    assert_int_equal(grade_of(&all, "rights"), -1);
}

static void test_older_tables_are_bad(void **state)
{
    struct fixture *f = *state;
    for (int version = f->driver->migration_count - 1; version > 0; version--) {
        expect_ok(tables_to(f, f->conn, version), &f->err);
        struct findings all = diagnose(f, f->conn);
        expect_bad(&all, "tables");
    }
}

static void test_newer_tables_are_bad(void **state)
{
    struct fixture *f = *state;
    sql_run(f, "INSERT INTO rowlock_schema (version) VALUES (99)", NULL, 0);
    struct findings all = diagnose(f, f->conn);
    sql_run(f, "DELETE FROM rowlock_schema WHERE version = 99", NULL, 0);
    expect_bad(&all, "tables");
}

static void test_other_columns_are_bad(void **state)
{
    struct fixture *f = *state;
    static const char *const renames[] = {"ALTER TABLE rowlock_locks RENAME COLUMN note TO word",
                                          "ALTER TABLE rowlock_waiters RENAME COLUMN owner TO who"};
    for (size_t i = 0; i < COUNT(renames); i++) {
        sql_run(f, renames[i], NULL, 0);
        struct findings all = diagnose(f, f->conn);
        tables_anew(f);
        expect_bad(&all, "tables");
    }
}

static void test_unsafe_storage_is_bad(void **state)
{
    struct fixture *f = *state;
    for (size_t i = 0; f->backend->kind->unsafe != NULL && f->backend->kind->unsafe[i]; i++) {
        sql_run(f, f->backend->kind->unsafe[i], NULL, 0);
        struct findings all = diagnose(f, f->conn);
        tables_anew(f);
        expect_bad(&all, "storage");
    }
}

static void test_nothing_is_changed(void **state)
{
    struct fixture *f = *state;
    static char query[1024], before[8192], after[8192];
    f->backend->kind->describe(query, sizeof(query), f->prefix);
    sql_run(f, query, before, sizeof(before));
    rowlock_op op = grant(f, "lock", "ann");
    grant_released(f, "free", "ann");
    struct rows rows = rows_read(f);
    diagnose(f, f->conn);
    struct rows now = rows_read(f);
    expect_same_rows(&rows, &now);
    rows_free(&rows);
    rows_free(&now);
    sql_run(f, query, after, sizeof(after));
    assert_string_equal(before, after);
    expect_ok(try_renew(f, f->conn, &op), NULL);
}

static void test_nothing_is_made(void **state)
{
    struct fixture *f = *state;
    void *conn = without_tables(f);
    int version = -1;
    diagnose(f, conn);
    expect_ok(f->driver->schema_version(conn, &version, CALL_MS, &f->err), &f->err);
    assert_int_equal(version, 0);
}

/* Tables cannot be dropped while somebody's transaction has read them. */
static void test_nothing_is_kept_locked(void **state)
{
    struct fixture *f = *state;
    void *conn = another(f);
    diagnose(f, conn);
    tables_anew(f);
    rowlock_op op = op_new("lock", "ann");
    expect_ok(try_acquire(f, conn, &op), NULL);
}

static void test_it_stops_when_told(void **state)
{
    struct fixture *f = *state;
    for (size_t at = 1; at <= 3; at++) {
        struct findings all = {.stop_at = at};
        expect_ok(f->driver->diagnose(f->conn, collect, &all, CALL_MS, &f->err), &f->err);
        assert_int_equal(all.count, at);
        expect_ok(
            rowlock_diagnose(client_open(f), collect, &(struct findings){.stop_at = at}, &f->err),
            &f->err);
        rowlock_close(&f->clients[0]);
    }
}

static void test_api_finds_what_the_driver_finds(void **state)
{
    struct fixture *f = *state;
    struct findings all = diagnose(f, f->conn), api = {.count = 0};
    expect_ok(rowlock_diagnose(client_open(f), collect, &api, &f->err), &f->err);
    assert_int_equal(api.count, all.count + 1); /* the core's own proof */
    for (size_t i = 0; i < all.count; i++)
        assert_string_equal(api.items[i].subject, all.items[i].subject);
}

static void test_api_proves_exclusion(void **state)
{
    struct fixture *f = *state;
    struct findings all = {.count = 0};
    expect_ok(rowlock_diagnose(client_open(f), collect, &all, &f->err), &f->err);
    assert_int_equal(grade_of(&all, "exclusion"), ROWLOCK_GRADE_GOOD);
    assert_non_null(strstr(all.items[all.count - 1].message, "leases, transactions and guards"));
    struct rows held = rows_query(f, NULL, 0, 0);
    assert_int_equal(held.count, 0);
    rows_free(&held);
}

static int use_client(const rowlock_finding *finding, void *payload)
{
    struct findings *all = payload;
    int version = 0;
    assert_int_equal(rowlock_schema_version(&version, all->client, NULL), ROWLOCK_OK);
    assert_true(version > 0);
    return collect(finding, payload);
}

static void test_api_callback_may_use_the_client(void **state)
{
    struct fixture *f = *state;
    struct findings all = {.client = client_open(f)};
    expect_ok(rowlock_diagnose(all.client, use_client, &all, &f->err), &f->err);
    assert_true(all.count > 3);
}

static void test_api_works_without_tables(void **state)
{
    struct fixture *f = *state;
    rowlock_options options = ROWLOCK_OPTIONS_INIT;
    struct findings all = {.count = 0};
    char prefix[40];
    snprintf(prefix, sizeof(prefix), "x%s", f->prefix);
    options.prefix = prefix;
    options.schema_policy = ROWLOCK_SCHEMA_IGNORE;
    expect_ok(rowlock_open(&f->clients[0], f->driver, f->backend->address, &options, &f->err),
              &f->err);
    expect_ok(rowlock_diagnose(f->clients[0], collect, &all, &f->err), &f->err);
    expect_bad(&all, "tables");
    assert_int_equal(grade_of(&all, "exclusion"), -1);
}

static void test_api_needs_a_callback(void **state)
{
    struct fixture *f = *state;
    expect_status(ROWLOCK_EINVAL, rowlock_diagnose(client_open(f), NULL, NULL, &f->err), &f->err);
    expect_status(ROWLOCK_EINVAL, rowlock_diagnose(NULL, collect, NULL, &f->err), &f->err);
}

static const struct test_case cases[] = {
    CASE_IF(test_fresh_tables_are_good, BACKEND_FINDINGS),
    CASE_IF(test_missing_tables_are_bad, BACKEND_FINDINGS),
    CASE_IF(test_older_tables_are_bad, BACKEND_FINDINGS),
    CASE_IF(test_newer_tables_are_bad, BACKEND_FINDINGS | BACKEND_SQL),
    CASE_IF(test_other_columns_are_bad, BACKEND_FINDINGS | BACKEND_SQL),
    CASE_IF(test_unsafe_storage_is_bad, BACKEND_FINDINGS | BACKEND_SQL),
    CASE_IF(test_nothing_is_changed, BACKEND_FINDINGS | BACKEND_SQL),
    CASE_IF(test_nothing_is_made, BACKEND_FINDINGS),
    CASE_IF(test_nothing_is_kept_locked, BACKEND_FINDINGS),
    CASE_IF(test_it_stops_when_told, BACKEND_FINDINGS),
    CASE_IF(test_api_finds_what_the_driver_finds, BACKEND_FINDINGS),
    CASE_IF(test_api_proves_exclusion, BACKEND_FINDINGS),
    CASE_IF(test_api_callback_may_use_the_client, BACKEND_FINDINGS),
    CASE_IF(test_api_works_without_tables, BACKEND_FINDINGS),
    CASE_IF(test_api_needs_a_callback, BACKEND_FINDINGS),
};

const struct suite diagnose_suite = SUITE("diagnose", cases);
