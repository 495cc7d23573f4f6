/* SPDX-License-Identifier: MIT
 *
 * Waits that end at the worst moment: when the lock is just being given to who does not want it any
 * more, and when the answer to that is lost. Whoever is answered that it has nothing has nothing.
 */
#include "hand_scene.h"

#include <poll.h>

enum { NOT_YET, STOP_NEXT_SLEEP, STOPPED, GO_ON, SLEEPS_AGAIN };

static atomic_int way;         /* of number 1 */
static atomic_int time_passes; /* with each sleep */

/* Number 1 is stopped where it begins to sleep. */
static void at_sleep(void)
{
    int stop = STOP_NEXT_SLEEP, go_on = GO_ON;

    if (atomic_load(&time_passes))
        fake_clock_advance_us(10 * MS);
    if (atomic_load(&way) == NOT_YET || !pthread_equal(pthread_self(), comers[1].thread))
        return;
    if (atomic_compare_exchange_strong(&way, &stop, STOPPED)) {
        while (atomic_load(&way) == STOPPED)
            poll(NULL, 0, 1);
        return;
    }
    atomic_compare_exchange_strong(&way, &go_on, SLEEPS_AGAIN);
}

static int set_up(void **state)
{
    atomic_store(&way, NOT_YET);
    atomic_store(&time_passes, 0);
    scene_set_up(state);
    fake_clock_on_sleep(at_sleep);
    return 0;
}

static int tear_down(void **state)
{
    atomic_store(&way, GO_ON);
    return scene_tear_down(state);
}

/* It has the lock, or else nobody has. */
static void expect_nothing_left_behind(struct comer *comer)
{
    join(comer);
    if (comer->status == ROWLOCK_OK) {
        assert_string_equal(fake_find("a")->owner, rowlock_owner(comer->lock));
        assert_int_equal(fake_find("a")->hold_count, 1);
        assert_status(OK, rowlock_release(&comer->lock, NULL));
    } else {
        assert_null(comer->lock);
    }
    assert_false(fake_is_live("a"));
    assert_int_equal(scene_counters().waiting, 0);
}

/* Number 1 stands behind number 0 and is cancelled; before it has left the line it is the front of
 * it, and number 0 gives it the lock. */
static void test_who_is_cancelled_behind_others_may_be_given_it_meanwhile(void **state)
{
    (void)state;
    come(&comers[0]);
    come(&comers[1]);
    atomic_store(&way, STOP_NEXT_SLEEP);
    await(&way, STOPPED);
    assert_status(OK, rowlock_release(&holder, NULL));
    join(&comers[0]);
    assert_status(OK, comers[0].status);
    holder = comers[0].lock;
    comers[0].lock = NULL;
    release_up_to_the_gate();
    rowlock_cancel_fire(cancel);
    atomic_store(&way, GO_ON);
    while (!atomic_load(&comers[1].is_done) && atomic_load(&way) != SLEEPS_AGAIN)
        poll(NULL, 0, 1);
    assert_status(OK, open_gate());
    expect_nothing_left_behind(&comers[1]);
}

static void play_lost_answer(enum fake_fault fault, const char *owner, int64_t wait_ms)
{
    comers[0].options.owner = owner;
    comers[0].options.wait_ms = wait_ms;
    exchange_fault = fault;
    come(&comers[0]);
    release_up_to_the_gate();
    if (wait_ms == ROWLOCK_FOREVER)
        rowlock_cancel_fire(cancel);
    else
        fake_clock_advance_us(wait_ms * MS);
    await_sleeps(3);
    open_gate();
    expect_nothing_left_behind(&comers[0]);
}

static void test_cancel_beside_a_lost_answer(void **state)
{
    (void)state;
    play_lost_answer(FAKE_CUT_AFTER, NULL, ROWLOCK_FOREVER);
}

static void test_timeout_beside_a_lost_answer(void **state)
{
    (void)state;
    play_lost_answer(FAKE_CUT_AFTER, NULL, 10);
}

static void test_timeout_of_who_has_tried_beside_a_lost_answer(void **state)
{
    (void)state;
    play_lost_answer(FAKE_CUT_AFTER, "bob", 10);
}

static void test_cancel_beside_a_request_that_was_not_carried_out(void **state)
{
    (void)state;
    play_lost_answer(FAKE_CUT_BEFORE, NULL, ROWLOCK_FOREVER);
}

/* The lock is just being given to it, and that hangs: it does not wait for longer than it may, and
 * who releases takes back what it has got after all. */
static void test_who_has_no_time_left_is_given_nothing(void **state)
{
    (void)state;
    comers[0].options.wait_ms = 200;
    come(&comers[0]);
    release_up_to_the_gate();
    let_time_pass(&comers[0], 50 * MS);
    assert_status(EUNKNOWN, comers[0].status);
    assert_null(comers[0].lock);
    assert_int_equal(scene_counters().waiting, 0);
    assert_status(OK, open_gate());
    assert_false(fake_is_live("a"));
}

/* It was given the lock, the answer was lost, and nobody can be asked any more: not even by who has
 * stopped waiting. */
static void play_unknown(int is_cancelled)
{
    exchange_fault = FAKE_CUT_AFTER;
    is_down_after = 1;
    come(&comers[0]);
    release_up_to_the_gate();
    if (is_cancelled)
        rowlock_cancel_fire(cancel);
    atomic_store(&time_passes, 1);
    open_gate();
    join(&comers[0]);
    assert_status(EUNKNOWN, comers[0].status);
    assert_null(comers[0].lock);
    fake_plan(0, FAKE_NONE, 0);
}

static void test_who_may_have_been_given_it_does_not_know(void **state)
{
    (void)state;
    play_unknown(0);
}

static void test_who_is_cancelled_and_may_have_been_given_it_does_not_know(void **state)
{
    (void)state;
    play_unknown(1);
}

/* It was had in the database, and who releases will take it back: it must not find that out and
 * keep it. */
static void test_who_has_given_up_does_not_have_what_is_taken_back(void **state)
{
    (void)state;
    is_gate_behind = 1;
    comers[0].options.wait_ms = 200;
    come(&comers[0]);
    release_up_to_the_gate();
    assert_true(fake_is_live("a"));
    let_time_pass(&comers[0], 50 * MS);
    assert_status(EUNKNOWN, comers[0].status);
    assert_null(comers[0].lock);
    assert_status(OK, open_gate());
    assert_false(fake_is_live("a"));
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_who_has_no_time_left_is_given_nothing),
        CASE(test_who_has_given_up_does_not_have_what_is_taken_back),
        CASE(test_who_may_have_been_given_it_does_not_know),
        CASE(test_who_is_cancelled_and_may_have_been_given_it_does_not_know),
        CASE(test_cancel_beside_a_lost_answer),
        CASE(test_timeout_beside_a_lost_answer),
        CASE(test_timeout_of_who_has_tried_beside_a_lost_answer),
        CASE(test_cancel_beside_a_request_that_was_not_carried_out),
        CASE(test_who_is_cancelled_behind_others_may_be_given_it_meanwhile),
    };

    return cmocka_run_group_tests_name("core/hand_late", tests, NULL, NULL);
}
