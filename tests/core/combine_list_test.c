/* SPDX-License-Identifier: MIT
 *
 * The order of those who wait for a request to come back: the list by itself, against a model, and
 * who sends next after some were put back. */
#include <poll.h>
#include <stdio.h>

#include "batch.h"
#include "combine_scene.h"

/* ---- the list ---- */

enum { RIDERS = 6, STEPS = 20000 };

static rlk_combiner list;
static rlk_rider riders[RIDERS];
static size_t model[RIDERS], count; /* the riders in the list, in its order */

static size_t place_of(size_t rider)
{
    size_t at = 0;

    while (at < count && model[at] != rider)
        at++;
    return at;
}

static void model_put(size_t at, size_t rider)
{
    memmove(model + at + 1, model + at, (count - at) * sizeof *model);
    model[at] = rider;
    count++;
}

static void model_take(size_t at)
{
    count--;
    memmove(model + at, model + at + 1, (count - at) * sizeof *model);
}

static void expect_like_model(void)
{
    const rlk_rider *at = list.first;

    assert_int_equal(list.waiting, count);
    for (size_t i = 0; i < count; i++, at = at->next)
        assert_ptr_equal(at, &riders[model[i]]);
    assert_null(at);
    if (count > 0)
        assert_ptr_equal(list.last, &riders[model[count - 1]]);
}

static uint32_t random_state = 1;

static uint32_t random_below(uint32_t limit)
{
    random_state = random_state * 1664525 + 1013904223;
    return (random_state >> 16) % limit;
}

/* Whatever was withdrawn or taken before, from whichever place. */
static void test_list_is_like_its_model(void **state)
{
    (void)state;
    for (int i = 0; i < STEPS; i++) {
        size_t rider = random_below(RIDERS), at = place_of(rider);

        switch (random_below(4)) {
        case 0:
            if (at == count) {
                rlk_riders_append(&list, &riders[rider]);
                model_put(count, rider);
            }
            break;
        case 1:
            if (at == count) {
                rlk_riders_put_first(&list, &riders[rider]);
                model_put(0, rider);
            }
            break;
        case 2:
            assert_int_equal(rlk_riders_withdraw(&list, &riders[rider]), at < count);
            if (at < count)
                model_take(at);
            break;
        default:
            assert_ptr_equal(rlk_riders_take_first(&list), count == 0 ? NULL : &riders[model[0]]);
            if (count > 0)
                model_take(0);
        }
        expect_like_model();
    }
}

/* ---- who sends next ---- */

enum { MOST_SENT = 64, LONGEST_MS = 60000 };

static size_t senders[MOST_SENT]; /* of each request, by number */
static atomic_size_t sent;

static void note_sender(rlk_kind kind, rowlock_op *ops, size_t n, int is_done)
{
    size_t i = 0;

    (void)kind;
    (void)ops;
    (void)n;
    if (is_done || atomic_load(&sent) >= MOST_SENT)
        return;
    while (i < MOST_ASKERS - 1 && !pthread_equal(askers[i].thread, pthread_self()))
        i++;
    senders[atomic_fetch_add(&sent, 1)] = i;
}

static int set_up(void **state)
{
    int rc = scene_set_up(state);

    atomic_store(&sent, 0);
    on_request = note_sender;
    return rc;
}

static void name(size_t i, const char *lock, const char *owner)
{
    snprintf(askers[i].name, sizeof askers[i].name, "%s", lock);
    if (owner != NULL)
        snprintf(askers[i].owner, sizeof askers[i].owner, "%s", owner);
}

static void come(size_t i)
{
    askers[i].ask = ask_acquire;
    start(&askers[i]);
    await_wait(&askers[i]);
}

static size_t waiting(void)
{
    size_t n;

    rlk_mutex_lock(&client->mutex);
    n = client->combiners[RLK_ACQUIRE].waiting;
    rlk_mutex_unlock(&client->mutex);
    return n;
}

/* Lets the request that is held up go, and holds the next one. */
static void step(void)
{
    gate_hold(1);
    gate_let_first();
    await_held(1);
}

/* Those of one owner for one name go one after the other: all but the first are put back before it
 * is sent, and who comes later stands behind them. */
static void test_who_is_put_back_keeps_its_place(void **state)
{
    (void)state;
    for (size_t i = 1; i <= 4; i++)
        name(i, "same", "me");
    name(5, "other", NULL); /* the last of the list travels, others stay */
    gather(ask_acquire, 6);
    step();
    assert_int_equal(waiting(), 3);
    name(6, "same", "me");
    come(6);
    assert_int_equal(waiting(), 4);
    for (size_t i = 2; i <= 4; i++)
        step();
    step();
    gate_open();
    join_all(7);
    expect_ok(7);
    assert_int_equal(fake_find("same")->hold_count, 5);
    assert_int_equal(atomic_load(&sent), 6);
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(senders[i], i);
    assert_int_equal(senders[5], 6);
}

/* Those who ask for a lock that another one got are put back when the answer is there: before those
 * who came meanwhile. */
static void test_who_came_along_comes_before_later_ones(void **state)
{
    (void)state;
    for (size_t i = 1; i <= 3; i++)
        name(i, "same", NULL);
    gather(ask_acquire, 4);
    step(); /* number 1 asks, also for 2 and 3 */
    come(4);
    come(5);
    step();
    gate_open();
    join_all(6);
    assert_int_equal(askers[1].status, ROWLOCK_OK);
    assert_int_equal(askers[2].status, ROWLOCK_BUSY);
    assert_int_equal(askers[3].status, ROWLOCK_BUSY);
    assert_int_equal(askers[4].status, ROWLOCK_OK);
    assert_int_equal(atomic_load(&sent), 3);
    assert_int_equal(senders[2], 2);
}

/* ---- time ---- */

/* What was taken off the list is under way, whatever the time: it is not sent a second time. */
static void test_request_in_flight_is_waited_for_although_its_time_is_up(void **state)
{
    int over, begun;

    (void)state;
    fake_clock_freeze();
    gather(ask_acquire, 3);
    step(); /* number 1, with 2 */
    over = waits_over();
    fake_clock_advance_us(8000 * MS);
    for (int ms = 0; waits_over() == over && ms < LONGEST_MS; ms++)
        poll(NULL, 0, 1);
    begun = waits_begun();
    for (int ms = 0;
         waits_begun() == begun && !atomic_load(&askers[2].has_returned) && ms < LONGEST_MS; ms++)
        poll(NULL, 0, 1);
    assert_int_equal(atomic_load(&askers[2].has_returned), 0);
    gate_open();
    join_all(3);
    expect_ok(3);
    assert_int_equal(request_count, 2);
}

/* A connection that is stuck does not count: one request at a time goes on beside it. */
static void test_replaced_request_keeps_nobody_waiting(void **state)
{
    (void)state;
    gather(ask_acquire, 2);
    fake_clock_advance_us(PATIENCE_US);
    join(&askers[1]);
    askers[2].ask = ask_acquire;
    start(&askers[2]);
    for (int ms = 0; !atomic_load(&askers[2].has_returned) && !atomic_load(&askers[2].has_waited) &&
                     ms < LONGEST_MS;
         ms++)
        poll(NULL, 0, 1);
    assert_int_equal(atomic_load(&askers[2].has_waited), 0);
    gate_open();
    join(&askers[0]);
    join(&askers[2]);
    expect_ok(3);
}

/* Number 2 has the least time, and is the last by name; number 3 asks for what number 1 does. */
static void test_shared_request_has_the_least_time_of_all(void **state)
{
    (void)state;
    for (size_t shortest = 1; shortest <= 3; shortest++) {
        for (size_t i = 0; i <= 3; i++) {
            askers[i].options.wait_ms = i == shortest ? 1000 : 0;
            if (askers[i].lock != NULL)
                assert_status(OK, ask_release(&askers[i]));
        }
        name(0, "a", NULL);
        name(1, "b", NULL);
        name(2, "c", NULL);
        name(3, "b", NULL);
        request_count = 0;
        gather(ask_acquire, 4);
        step();
        assert_int_equal(requests[1].n, 2);
        assert_in_range(requests[1].timeout_ms, 1, 1100);
        gate_open();
        join_all(4);
    }
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, set_up, scene_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_list_is_like_its_model),
        CASE(test_who_is_put_back_keeps_its_place),
        CASE(test_who_came_along_comes_before_later_ones),
        CASE(test_request_in_flight_is_waited_for_although_its_time_is_up),
        CASE(test_replaced_request_keeps_nobody_waiting),
        CASE(test_shared_request_has_the_least_time_of_all),
    };

    return cmocka_run_group_tests_name("core/combine_list", tests, NULL, NULL);
}
