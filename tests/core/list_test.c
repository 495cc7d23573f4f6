/* SPDX-License-Identifier: MIT
 *
 * Listing many rows, in pages; and finding one among them. */
#include <stdio.h>

#include "core_test.h"
#include "fake_tx.h"

enum { ROWS = 1500 };

static rowlock_client *client;
static int seen, stop_at;

/* In byte order, each once; the client may be used. */
static int see(const rowlock_row *row, void *payload)
{
    char name[16];

    assert_null(payload);
    snprintf(name, sizeof name, "n%04d", seen);
    assert_string_equal(row->name, name);
    if (seen == 0) {
        rowlock_lock *lock = hold(client, "a-while", 1000, "x");

        assert_status(OK, rowlock_release(&lock, NULL));
    }
    return ++seen == stop_at;
}

static int ignoring_list(void *conn, const rowlock_list_query *query, rowlock_row_fn fn,
                         void *payload, uint32_t timeout_ms, rowlock_error *err)
{
    rowlock_list_query all = *query;

    all.after = NULL;
    all.after_length = 0;
    return fake_driver()->list(conn, &all, fn, payload, timeout_ms, err);
}

static void open_with(const rowlock_driver *driver)
{
    assert_status(OK, rowlock_open(&client, driver, "fake", NULL, NULL));
}

static int set_up(void **state)
{
    char name[16];

    fresh(state);
    for (int i = ROWS - 1; i >= 0; i--) {
        fake_row *row;

        snprintf(name, sizeof name, "n%04d", i);
        row = fake_row_new(name, strlen(name));
        row->fence = (uint64_t)i + 1;
        row->hold_count = 1;
        row->expire_time = INT64_MAX;
        strcpy(row->owner, "somebody");
    }
    seen = stop_at = 0;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    rowlock_close(&client);
    return 0;
}

static int list_calls(void)
{
    fake_plan(0, FAKE_NONE, 0);
    assert_status(OK, rowlock_list(client, NULL, see, NULL, NULL));
    return fake_calls() - (seen > 0 ? 2 : 0); /* without those of see() */
}

static void test_many_rows_are_listed_in_pages(void **state)
{
    (void)state;
    open_with(fake_driver());
    assert_int_equal(list_calls(), 2);
    assert_int_equal(seen, ROWS);
}

static void test_who_stops_is_shown_no_more(void **state)
{
    (void)state;
    open_with(fake_driver());
    stop_at = 1000;
    assert_int_equal(list_calls(), 1);
    assert_int_equal(seen, 1000);
    seen = 0;
    stop_at = 1001;
    assert_int_equal(list_calls(), 2);
    assert_int_equal(seen, 1001);
}

static void test_a_driver_that_begins_anew_shows_each_row_once(void **state)
{
    rowlock_driver driver = *fake_driver();

    (void)state;
    driver.list = ignoring_list;
    open_with(&driver);
    assert_int_equal(list_calls(), 2);
    assert_int_equal(seen, ROWS);
}

static void test_a_page_that_fails_is_asked_for_again(void **state)
{
    (void)state;
    open_with(fake_driver());
    fake_plan(4, FAKE_CUT_AFTER, 0); /* the second page; two are those of see() */
    assert_status(OK, rowlock_list(client, NULL, see, NULL, NULL));
    assert_int_equal(seen, ROWS);
}

static void test_a_forced_release_finds_the_very_name(void **state)
{
    (void)state;
    fake_row_new("n00", 3)->fence = 1;
    open_with(fake_driver());
    assert_status(OK, rowlock_force_release(client, "n0040", NULL, NULL));
    assert_int_equal(fake_find("n0040")->hold_count, 0);
    assert_int_equal(fake_find("n0041")->hold_count, 1);
    assert_status(LOST, rowlock_force_release(client, "n00", NULL, NULL));
    assert_status(LOST, rowlock_force_release(client, "n004", NULL, NULL));
}

#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(many_rows_are_listed_in_pages),
        TEST(who_stops_is_shown_no_more),
        TEST(a_driver_that_begins_anew_shows_each_row_once),
        TEST(a_page_that_fails_is_asked_for_again),
        TEST(a_forced_release_finds_the_very_name),
    };

    return cmocka_run_group_tests_name("core/list", tests, NULL, NULL);
}
