/* SPDX-License-Identifier: MIT
 *
 * The reaper in the background. */
#include <string.h>

#include "watch_step.h"

static void test_the_reaper_comes_and_backs_off(void **state)
{
    rowlock_options options = ROWLOCK_OPTIONS_INIT;

    (void)state;
    options.reap_retention_ms = 1000;
    open_again(&options); /* an interval would start a thread */
    client->reap_interval_us = client->watch.reap_pause_us = 1000 * MS;
    client->watch.reap_at_us = rlk_clock_us() + 1000 * MS;
    held = take("a", NULL);
    rowlock_release(&held, NULL);
    run_for(4000);
    assert_null(fake_find("a"));
    assert_int_equal(COUNTER(reaped), 1);
    fake_plan(0, FAKE_NONE, 0);
    run_for(80000);
    assert_in_range(fake_calls(), 8, 22); /* every 8 seconds in the end, not every second */
}

/* ---- a table of three batches that another driver pretends to have ---- */

static char begun_at[64]; /* the marks that it was given, as one letter each; '-' the start */
static int fails_at;      /* this call, counted from 1; 0: none */

static int reap_thrice(void *conn, uint64_t *out, rowlock_mark *mark, int64_t retention_us,
                       uint32_t limit, uint32_t timeout_ms, rowlock_error *err)
{
    char begun = mark->length == 0 ? '-' : mark->name[0];
    size_t n = strlen(begun_at);

    (void)conn;
    (void)retention_us;
    (void)timeout_ms;
    assert_in_range(limit, 1, ROWLOCK_REAP_MAX);
    assert_true(n + 1 < sizeof begun_at);
    begun_at[n] = begun;
    *out = 0;
    mark->length = begun != 'm';
    mark->name[0] = begun == '-' ? 'f' : 'm';
    if ((int)n + 1 == fails_at)
        return rlk_fail(err, ROWLOCK_EDRIVER, "refused");
    return rlk_ok(err);
}

static void open_on_three_batches(void)
{
    static rowlock_driver driver;

    driver = *fake_driver();
    driver.reap = reap_thrice;
    memset(begun_at, 0, sizeof begun_at);
    fails_at = 0;
    step_driver = &driver;
    open_again(NULL);
    step_driver = NULL;
    client->reap_interval_us = client->watch.reap_pause_us = 10000 * MS;
    client->watch.reap_at_us = rlk_clock_us();
}

static void test_the_reaper_goes_on_where_it_stopped(void **state)
{
    (void)state;
    open_on_three_batches();
    run_for(2000);
    assert_string_equal(begun_at, "-fm"); /* though the first two found nothing */
    run_for(31000); /* twice the interval, as nothing was found: half of it to one and a half */
    assert_memory_equal(begun_at, "-fm-fm", 6);
}

static void test_the_reaper_goes_on_after_a_failure(void **state)
{
    (void)state;
    open_on_three_batches();
    fails_at = 2;
    run_for(2000);
    assert_string_equal(begun_at, "-f");
    run_for(31000);
    assert_memory_equal(begun_at, "-ffm", 4);
}

static void test_reaping_by_hand_goes_to_the_end(void **state)
{
    (void)state;
    open_on_three_batches();
    assert_int_equal(ROWLOCK_OK, rowlock_reap(NULL, client, NULL, NULL));
    assert_string_equal(begun_at, "-fm");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_reaper_comes_and_backs_off),
        TEST(the_reaper_goes_on_where_it_stopped),
        TEST(the_reaper_goes_on_after_a_failure),
        TEST(reaping_by_hand_goes_to_the_end),
    };

    return cmocka_run_group_tests_name("core/watch_reaper", tests, NULL, NULL);
}
