/* SPDX-License-Identifier: MIT */
#include "queue_scene.h"

rowlock_client *client;
rowlock_lock *holder;

int queue_set_up(void **state)
{
    fresh(state);
    assert_status(OK, rowlock_open(&client, fake_queue_driver(), "fake", NULL, NULL));
    client->watch.is_by_hand = 1;
    holder = NULL;
    return 0;
}

int queue_tear_down(void **state)
{
    (void)state;
    rowlock_release(&holder, NULL);
    rowlock_close(&client);
    assert_int_equal(fake_connections(), 0);
    return 0;
}

rowlock_counters counters(void)
{
    rowlock_counters all = ROWLOCK_COUNTERS_INIT;

    assert_status(OK, rowlock_stats(&all, client, NULL));
    return all;
}
