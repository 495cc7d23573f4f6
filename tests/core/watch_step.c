/* SPDX-License-Identifier: MIT */
#include "watch_step.h"

#include <unistd.h>

rowlock_client *client;
rowlock_lock *held, *second;
int told, told_loss;
int64_t told_at;
const rowlock_driver *step_driver;

rowlock_client *open_by_hand(const rowlock_options *options)
{
    const rowlock_driver *driver = step_driver != NULL ? step_driver : fake_driver();
    rowlock_client *opened = NULL;

    assert_status(OK, rowlock_open(&opened, driver, "fake", options, NULL));
    opened->watch.is_by_hand = 1;
    return opened;
}

void open_again(const rowlock_options *options)
{
    rowlock_close(&client);
    client = open_by_hand(options);
}

int step_set_up(void **state)
{
    fresh(state);
    told = told_loss = 0;
    told_at = 0;
    held = second = NULL;
    client = open_by_hand(NULL);
    return 0;
}

int step_tear_down(void **state)
{
    (void)state;
    if (held != NULL)
        rowlock_release(&held, NULL);
    if (second != NULL)
        rowlock_release(&second, NULL);
    rowlock_close(&client);
    return 0;
}

void on_lost(rowlock_lock *lock, int loss, void *payload)
{
    assert_ptr_equal(payload, &told);
    assert_int_equal(rowlock_check(lock), ROWLOCK_LOST);
    assert_int_equal(rowlock_loss(lock), loss);
    told++;
    told_loss = loss;
    told_at = rlk_clock_us();
}

rowlock_acquire_options renewing(int64_t ttl_ms)
{
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;

    options.owner = "me";
    options.ttl_ms = ttl_ms;
    options.renew = 1;
    options.on_lost = on_lost;
    options.lost_payload = &told;
    return options;
}

rowlock_lock *take(const char *name, const rowlock_acquire_options *options)
{
    rowlock_lock *lock = NULL;

    assert_status(OK, rowlock_acquire(&lock, client, name, options, NULL));
    return lock;
}

int64_t step(void)
{
    int64_t told_next, kept_next;

    rlk_teller_step(client);
    kept_next = rlk_keeper_step(client);
    told_next = rlk_teller_step(client);
    return told_next < kept_next ? told_next : kept_next;
}

void run_for(int64_t ms)
{
    int64_t end = rlk_clock_us() + ms * MS;
    int64_t next = step();

    for (int i = 0; i < 100000 && next < end; i++) {
        if (next > rlk_clock_us())
            fake_clock_advance_us(next - rlk_clock_us());
        next = step();
    }
    if (end > rlk_clock_us())
        fake_clock_advance_us(end - rlk_clock_us());
}

int is_woken(void)
{
    uint64_t wakes;

    return read(client->watch.teller.sleeper.wake_fd, &wakes, sizeof wakes) == sizeof wakes;
}

uint64_t counter_at(size_t offset)
{
    rowlock_counters counters = ROWLOCK_COUNTERS_INIT;
    uint64_t value;

    assert_status(OK, rowlock_stats(&counters, client, NULL));
    memcpy(&value, (char *)&counters + offset, sizeof value);
    return value;
}
