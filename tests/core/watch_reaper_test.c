/* SPDX-License-Identifier: MIT
 *
 * The reaper in the background. */
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_reaper_comes_and_backs_off),
    };

    return cmocka_run_group_tests_name("core/watch_reaper", tests, NULL, NULL);
}
