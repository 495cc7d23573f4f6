/* SPDX-License-Identifier: MIT
 *
 * The numbers, and the events. */
#include "watch_step.h"

static int events[8];
static int last_loss;

static void on_event(const rowlock_event *event, void *payload)
{
    assert_ptr_equal(payload, events);
    assert_true(event->kind >= 1 && event->kind <= 7);
    events[event->kind]++;
    if (event->kind == ROWLOCK_EVENT_LOST) {
        assert_string_equal(event->name, "a");
        last_loss = event->loss;
    }
    if (event->kind == ROWLOCK_EVENT_ERROR)
        assert_true(event->status < 0 && event->message[0] != '\0');
}

static void test_events_and_numbers(void **state)
{
    rowlock_options options = ROWLOCK_OPTIONS_INIT;
    rowlock_acquire_options plain = renewing(1000);
    rowlock_counters counters = ROWLOCK_COUNTERS_INIT;
    uint64_t waits = 0, holds = 0;

    (void)state;
    memset(events, 0, sizeof events);
    options.on_event = on_event;
    options.event_payload = events;
    open_again(&options);
    plain.on_lost = NULL;
    held = take("a", &plain);
    run_for(1000);
    assert_status(OK, rowlock_release(&held, NULL));
    held = take("a", &plain);
    plain.owner = "other";
    assert_status(BUSY, rowlock_acquire(&(rowlock_lock *){NULL}, client, "a", &plain, NULL));
    rowlock_force_release(client, "a", NULL, NULL);
    run_for(1000);
    assert_status(OK, rowlock_stats(&counters, client, NULL));
    assert_int_equal(counters.acquired, 2);
    assert_int_equal(counters.busy, 1);
    assert_int_equal(counters.released, 1);
    assert_int_equal(counters.lost, 1);
    assert_true(counters.renewed >= 2);
    assert_int_equal(counters.held, 0);
    for (int i = 0; i < ROWLOCK_BUCKETS; i++) {
        waits += counters.wait_buckets[i];
        holds += counters.hold_buckets[i];
    }
    assert_int_equal(waits, 3);
    assert_int_equal(holds, 2);
    assert_int_equal(events[ROWLOCK_EVENT_ACQUIRED], 2);
    assert_int_equal(events[ROWLOCK_EVENT_RELEASED], 1);
    assert_int_equal(events[ROWLOCK_EVENT_LOST], 1);
    assert_int_equal(last_loss, ROWLOCK_LOSS_FORCED);
    assert_true(events[ROWLOCK_EVENT_RENEWED] >= 2);
    counters.size = 4;
    assert_status(EINVAL, rowlock_stats(&counters, client, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(events_and_numbers),
    };

    return cmocka_run_group_tests_name("core/watch_numbers", tests, NULL, NULL);
}
