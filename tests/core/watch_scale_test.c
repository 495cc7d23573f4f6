/* SPDX-License-Identifier: MIT
 *
 * What many locks cost those who have nothing to do with them. Whoever looks at a lease looks at
 * the clock, so the looks are counted. */
#include "watch_step.h"

#include <stdio.h>
#include <unistd.h>

enum { LOCKS = 1500, FEW = 100 };

static rowlock_lock *locks[LOCKS];

static void take_many(const rowlock_acquire_options *options)
{
    char name[16];

    for (int i = 0; i < LOCKS; i++) {
        snprintf(name, sizeof name, "n%04d", i);
        locks[i] = take(name, options);
        fake_clock_advance_us(10);
    }
}

static void release_many(void)
{
    for (int i = 0; i < LOCKS; i++)
        rowlock_release(&locks[i], NULL);
}

static int looks_since(int *before)
{
    int looks = fake_clock_reads() - *before;

    *before = fake_clock_reads();
    return looks;
}

static void cycle(void)
{
    held = take("plain", NULL);
    assert_status(OK, rowlock_release(&held, NULL));
}

static void test_a_cycle_beside_many_renewed_locks_looks_at_none_of_them(void **state)
{
    rowlock_acquire_options options = renewing(30000);
    int looks = 0;

    (void)state;
    take_many(&options);
    step();
    looks_since(&looks);
    cycle();
    step();
    cycle();
    assert_in_range(looks_since(&looks), 1, FEW);
    release_many();
}

static void test_numbers_of_many_locks_are_not_counted_anew(void **state)
{
    rowlock_acquire_options options = renewing(30000);
    int looks = 0;

    (void)state;
    take_many(&options);
    looks_since(&looks);
    assert_int_equal(COUNTER(held), LOCKS);
    assert_in_range(looks_since(&looks), 0, FEW);
    release_many();
    assert_int_equal(COUNTER(held), 0);
}

static int is_awake(const rlk_worker *worker)
{
    uint64_t wakes;

    return read(worker->sleeper.wake_fd, &wakes, sizeof wakes) == sizeof wakes;
}

/* As if the threads slept until then. */
static void fall_asleep(void)
{
    is_awake(&client->watch.teller);
    is_awake(&client->watch.keeper);
    atomic_store(&client->watch.teller.sleeps_until_us, rlk_teller_step(client));
    atomic_store(&client->watch.keeper.sleeps_until_us, rlk_keeper_step(client));
}

static void test_a_cycle_wakes_nobody(void **state)
{
    rowlock_acquire_options options = renewing(30000), shorter = renewing(3000);

    (void)state;
    second = take("a", &options);
    fall_asleep();
    cycle();
    assert_false(is_awake(&client->watch.teller));
    assert_false(is_awake(&client->watch.keeper));
    held = take("b", &shorter); /* that one is to be looked at sooner */
    assert_true(is_awake(&client->watch.teller));
    assert_true(is_awake(&client->watch.keeper));
}

static void test_held_is_what_has_not_ended(void **state)
{
    rowlock_acquire_options brief = renewing(1000), longer = renewing(10000);
    rowlock_lock *inner;

    (void)state;
    brief.renew = longer.renew = 0;
    brief.on_lost = longer.on_lost = NULL;
    held = take("a", &brief);
    second = take("b", &longer);
    inner = take("b", &longer);
    assert_int_equal(COUNTER(held), 2);
    assert_status(OK, rowlock_release(&inner, NULL));
    assert_int_equal(COUNTER(held), 2);
    fake_clock_advance_us(900 * MS);
    assert_int_equal(COUNTER(held), 1);
    assert_status(LOST, rowlock_release(&held, NULL));
    assert_int_equal(COUNTER(held), 1);
    fake_clock_advance_us(5000 * MS);
    assert_status(OK, rowlock_renew(second, 0, NULL));
    fake_clock_advance_us(5000 * MS);
    assert_int_equal(COUNTER(held), 1);
    assert_status(OK, rowlock_force_release(client, "b", NULL, NULL));
    assert_status(LOST, rowlock_renew(second, 0, NULL));
    assert_int_equal(COUNTER(held), 0);
    held = take("b", &longer);
    assert_int_equal(COUNTER(held), 1);
    fake_clock_advance_us(10000 * MS);
    inner = take("b", &longer); /* in the place of the one that ended */
    assert_int_equal(COUNTER(held), 1);
    assert_status(OK, rowlock_release(&inner, NULL));
    assert_int_equal(COUNTER(held), 0);
}

/* After a pause all are due at once; those with the shortest time left go first. */
static void test_of_many_that_are_due_the_one_that_ends_first_is_renewed_first(void **state)
{
    rowlock_acquire_options options = renewing(60000), brief = renewing(6000);

    (void)state;
    take_many(&options);
    fake_clock_advance_us(26000 * MS);
    held = take("z", &brief);
    fake_clock_advance_us(5000 * MS);
    fake_plan(2, FAKE_CUT_BEFORE, 1); /* one batch has an answer */
    rlk_keeper_step(client);
    fake_plan(0, FAKE_NONE, 0);
    assert_status(OK, rowlock_check(held));
    run_for(30000);
    assert_int_equal(told, 0);
    release_many();
}

/* A callback takes long, and another lock is lost meanwhile. */
static rowlock_lock *next_lost;
static int told_next;

static void take_long(rowlock_lock *lock, int loss, void *payload)
{
    on_lost(lock, loss, payload);
    if (lock != next_lost)
        fake_clock_advance_us(2000 * MS);
    else
        told_next = told;
}

static void test_what_is_lost_during_a_callback_is_told_after_it(void **state)
{
    rowlock_acquire_options options = renewing(1000);

    (void)state;
    options.renew = 0;
    options.on_lost = take_long;
    held = take("a", &options);
    options.ttl_ms = 2000;
    next_lost = second = take("b", &options);
    fake_clock_advance_us(1000 * MS);
    rlk_teller_step(client);
    assert_int_equal(told, 2);
    assert_int_equal(told_next, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_cycle_beside_many_renewed_locks_looks_at_none_of_them),
        TEST(numbers_of_many_locks_are_not_counted_anew),
        TEST(a_cycle_wakes_nobody),
        TEST(held_is_what_has_not_ended),
        TEST(of_many_that_are_due_the_one_that_ends_first_is_renewed_first),
        TEST(what_is_lost_during_a_callback_is_told_after_it),
    };

    return cmocka_run_group_tests_name("core/watch_scale", tests, NULL, NULL);
}
