/* SPDX-License-Identifier: MIT
 *
 * Releases and acquires in one request, on a driver that can send both; and how many requests are
 * under way at once there. */
#include <stdio.h>

#include "combine_scene.h"

/* With four connections three may be under way, one operation in each, while there are few. */
enum { AT_ONCE = 4, N = 20 };

static int set_up(void **state)
{
    scene_set_up(state);
    scene_open_joint(NULL);
    return 0;
}

static void come(size_t from, size_t to, int (*ask)(struct asker *asker))
{
    for (size_t i = from; i < to; i++) {
        askers[i].ask = ask;
        start(&askers[i]);
        await_wait(&askers[i]);
    }
}

/* The first ones are at the gate, each alone. */
static void fill(void)
{
    gate_hold(AT_ONCE);
    for (int i = 0; i < AT_ONCE; i++) {
        askers[i].ask = ask_acquire;
        start(&askers[i]);
        await_held(i + 1);
    }
}

/* Numbers `AT_ONCE` to `middle` hold their locks and release them, those up to N acquire, all while
 * the first ones are under way. */
static void meet(size_t middle)
{
    for (size_t i = AT_ONCE; i < middle; i++)
        assert_status(OK, ask_acquire(&askers[i]));
    request_count = 0;
    fill();
    come(AT_ONCE, middle, ask_release);
    come(middle, N, ask_acquire);
}

static void part(void)
{
    gate_open();
    join_all(N);
    expect_ok(N);
}

static void expect_live(size_t from, size_t to, int is_live)
{
    for (size_t i = from; i < to; i++) {
        assert_int_equal(fake_is_live(askers[i].name), is_live);
        if (is_live)
            assert_int_equal(rowlock_fence(askers[i].lock), fake_find(askers[i].name)->fence);
    }
}

static void test_both_travel_in_one_request(void **state)
{
    (void)state;
    meet(10);
    part();
    assert_int_equal(request_count, AT_ONCE + 1);
    assert_int_equal(requests[AT_ONCE].n, N - AT_ONCE);
    assert_int_equal(requests[AT_ONCE].releases, 10 - AT_ONCE);
    assert_true(requests[AT_ONCE].is_sorted);
    expect_live(AT_ONCE, 10, 0);
    expect_live(10, N, 1);
    assert_int_equal(combined(), N - AT_ONCE - 1);
}

static void test_one_kind_alone_is_no_exchange(void **state)
{
    (void)state;
    meet(N);
    part();
    assert_int_equal(request_count, AT_ONCE + 1);
    assert_int_equal(requests[AT_ONCE].kind, RLK_RELEASE);
    assert_int_equal(requests[AT_ONCE].n, N - AT_ONCE);
}

static void test_what_is_released_in_a_request_is_acquired_in_it(void **state)
{
    (void)state;
    for (size_t i = 0; i < 4; i++)
        memcpy(askers[10 + i].name, askers[AT_ONCE + i].name, sizeof askers[0].name);
    meet(10);
    part();
    assert_int_equal(request_count, AT_ONCE + 1);
    assert_true(requests[AT_ONCE].is_sorted);
    expect_live(10, N, 1);
}

static void test_no_name_is_twice_in_a_half(void **state)
{
    (void)state;
    snprintf(askers[N - 1].name, sizeof askers[0].name, "%s", askers[N - 2].name);
    snprintf(askers[N - 1].owner, sizeof askers[0].owner, "%s", askers[N - 2].owner);
    meet(10);
    part();
    assert_int_equal(request_count, AT_ONCE + 2);
    assert_int_equal(requests[AT_ONCE].n, N - AT_ONCE - 1);
    assert_int_equal(requests[AT_ONCE + 1].n, 1);
    assert_int_equal(fake_find(askers[N - 1].name)->hold_count, 2);
}

static void test_where_one_can_write_there_is_one_request(void **state)
{
    (void)state;
    scene_open_one_writer();
    for (size_t i = 1; i < 10; i++)
        assert_status(OK, ask_acquire(&askers[i]));
    request_count = 0;
    gate_hold(1);
    askers[0].ask = ask_acquire;
    start(&askers[0]);
    await_held(1);
    come(1, 10, ask_release);
    come(10, N, ask_acquire);
    part();
    assert_int_equal(request_count, 2);
    assert_int_equal(requests[1].n, N - 1);
    assert_int_equal(requests[1].releases, 9);
    assert_int_equal(fake_most_connections(), 2); /* one is reserved */
}

/* ---- requests that fail ---- */

static void test_half_that_is_refused_is_asked_for_one_by_one(void **state)
{
    (void)state;
    refuse_half(RLK_ACQUIRE);
    meet(10);
    part();
    assert_int_equal(request_count, AT_ONCE + 1 + N - 10);
    expect_live(10, N, 1);
    for (size_t i = 0; i < N; i++)
        rowlock_release(&askers[i].lock, NULL);
    refuse_half(RLK_RELEASE);
    meet(10);
    part();
    assert_int_equal(request_count, AT_ONCE + 1 + 10 - AT_ONCE);
    expect_live(AT_ONCE, 10, 0);
    expect_live(10, N, 1);
}

static void test_each_is_carried_out_once_whatever_happens_to_the_request(void **state)
{
    static const enum fake_fault faults[] = {FAKE_NO_CONNECTION, FAKE_CUT_BEFORE, FAKE_CUT_AFTER,
                                             FAKE_DEADLOCK};

    (void)state;
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        rowlock_lock *outer[10];

        for (size_t k = AT_ONCE; k < 10; k++)
            outer[k] = hold(client, askers[k].name, 0, askers[k].owner);
        plan_batch(faults[i], FAKE_NONE);
        meet(10);
        part();
        for (size_t k = AT_ONCE; k < N; k++)
            assert_int_equal(fake_find(askers[k].name)->hold_count, 1);
        for (size_t k = AT_ONCE; k < 10; k++)
            assert_status(OK, rowlock_release(&outer[k], NULL));
        for (size_t k = 0; k < N; k++)
            rowlock_release(&askers[k].lock, NULL);
    }
}

/* ---- how many at once ---- */

static void test_few_have_a_connection_each(void **state)
{
    (void)state;
    fill();
    come(AT_ONCE, AT_ONCE + 1, ask_acquire);
    gate_open();
    join_all(AT_ONCE + 1);
    expect_ok(AT_ONCE + 1);
    assert_int_equal(request_count, AT_ONCE + 1);
    assert_int_equal(combined(), 0);
    /* If it comes when some have their locks, one connection is reserved and another is opened. */
    assert_in_range(fake_most_connections(), AT_ONCE, AT_ONCE + 1);
}

static void test_one_at_a_time_where_there_are_two_connections(void **state)
{
    rowlock_options options = ROWLOCK_OPTIONS_INIT;

    (void)state;
    options.max_connections = 2;
    scene_open_joint(&options);
    gather(ask_acquire, N);
    gate_open();
    join_all(N);
    expect_ok(N);
    assert_int_equal(request_count, 2);
    assert_true(fake_most_connections() <= 2); /* one is reserved as soon as the first has it */
}

/* Neither few nor many: those who come while a request is under way wait for it. */
static void test_some_send_one_at_a_time(void **state)
{
    (void)state;
    meet(AT_ONCE);
    gate_hold(1);
    for (int i = 0; i < AT_ONCE; i++)
        gate_let_first();
    await_held(1); /* with all who had come */
    come(N, 2 * N - 8, ask_acquire);
    await_held(1);
    gate_open();
    join_all(2 * N - 8);
    expect_ok(2 * N - 8);
    assert_int_equal(request_count, AT_ONCE + 2);
}

/* A third of them may be on their way while others are being served, and not less. */
static void test_third_of_many_travels_meanwhile(void **state)
{
    enum { FIRST = AT_ONCE + 33, THIRD = 11 };

    (void)state;
    fill();
    come(AT_ONCE, FIRST, ask_acquire);
    gate_hold(2);
    for (int i = 0; i < AT_ONCE; i++)
        gate_let_first();
    for (int i = 0; i < AT_ONCE; i++)
        await_return(&askers[i]); /* else they are of the crowd */
    await_held(1);
    come(FIRST, FIRST + THIRD - 1, ask_acquire);
    await_held(1);
    askers[FIRST + THIRD - 1].ask = ask_acquire;
    start(&askers[FIRST + THIRD - 1]);
    await_held(2);
    gate_open();
    join_all(FIRST + THIRD);
    expect_ok(FIRST + THIRD);
    assert_int_equal(request_count, AT_ONCE + 2);
    assert_int_equal(requests[AT_ONCE].n, 33);
    assert_int_equal(requests[AT_ONCE + 1].n, THIRD);
}

/* Who loses patience sends another in the place of one that is stuck; that one, when it comes back,
 * leaves no more at once behind than there were. */
static void test_stuck_request_that_comes_back_leaves_as_many_as_before(void **state)
{
    const rlk_combiner *combiner = &client->combiners[RLK_RELEASE];

    (void)state;
    fill();
    come(AT_ONCE, AT_ONCE + 1, ask_acquire);
    fake_clock_advance_us(PATIENCE_US);
    join(&askers[AT_ONCE]);
    pthread_mutex_lock(&client->mutex);
    assert_int_equal(combiner->flights_in[RLK_IN_FLIGHT] + combiner->flights_in[RLK_REPLACED],
                     AT_ONCE);
    pthread_mutex_unlock(&client->mutex);
    gate_open();
    join_all(AT_ONCE);
    expect_ok(AT_ONCE + 1);
    assert_null(combiner->flights);
    assert_int_equal(combiner->flights_in[RLK_IN_FLIGHT], 0);
    assert_int_equal(combiner->flights_in[RLK_REPLACED], 0);
    assert_int_equal(combiner->ops_in_flight, 0);
    assert_int_equal(combiner->waiting, 0);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, set_up, scene_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_both_travel_in_one_request),
        CASE(test_one_kind_alone_is_no_exchange),
        CASE(test_where_one_can_write_there_is_one_request),
        CASE(test_what_is_released_in_a_request_is_acquired_in_it),
        CASE(test_no_name_is_twice_in_a_half),
        CASE(test_half_that_is_refused_is_asked_for_one_by_one),
        CASE(test_each_is_carried_out_once_whatever_happens_to_the_request),
        CASE(test_few_have_a_connection_each),
        CASE(test_one_at_a_time_where_there_are_two_connections),
        CASE(test_some_send_one_at_a_time),
        CASE(test_third_of_many_travels_meanwhile),
        CASE(test_stuck_request_that_comes_back_leaves_as_many_as_before),
    };

    return cmocka_run_group_tests_name("core/combine_joint", tests, NULL, NULL);
}
