/* SPDX-License-Identifier: MIT
 *
 * From thread to thread: who releases a lock gives it to the front of its client's line in one
 * request, on a driver that can be held up in the middle of it. The clock stands still unless a
 * case moves it. */
#include <stdio.h>

#include "fake_tx.h"
#include "hand_scene.h"

#include "fake_queue.h"

#define OPEN_US  (20 * MS)   /* for how long the front one waits without a ticket */
#define CROWD_US (1000 * MS) /* for how long nobody tries to go before others */

static void expect_held_by(const struct comer *comer, uint64_t above)
{
    const fake_row *row = fake_find("a");

    assert_status(OK, comer->status);
    assert_non_null(comer->lock);
    assert_true(rowlock_fence(comer->lock) > above);
    assert_int_equal(row->fence, rowlock_fence(comer->lock));
    assert_string_equal(row->owner, rowlock_owner(comer->lock));
    assert_int_equal(row->hold_count, 1);
    assert_true(rowlock_remaining(comer->lock) > TTL_MS / 2);
    assert_int_equal(scene_counters().waiting, 0);
}

/* ---- given ---- */

static void test_release_gives_the_lock_to_the_front_of_the_line(void **state)
{
    uint64_t fence = rowlock_fence(holder);

    (void)state;
    come(&comers[0]);
    atomic_store(&requests, 0);
    assert_status(OK, rowlock_release(&holder, NULL));
    join(&comers[0]);
    expect_held_by(&comers[0], fence);
    assert_int_equal(exchanges, 1);
    assert_int_equal(requests, 1);
    assert_int_equal(scene_counters().queued, 0);
    assert_int_equal(scene_counters().released, 1);
}

/* An owner of its own tries first, since it may hold the lock already. */
static void test_who_has_tried_is_given_it_with_the_same_attempt(void **state)
{
    uint64_t fence = rowlock_fence(holder);

    (void)state;
    comers[0].options.owner = "bob";
    comers[0].options.note = "work";
    come(&comers[0]);
    atomic_store(&requests, 0);
    assert_status(OK, rowlock_release(&holder, NULL));
    join(&comers[0]);
    expect_held_by(&comers[0], fence);
    assert_int_equal(requests, 1);
    assert_string_equal(fake_find("a")->owner, "bob");
    assert_string_equal(fake_find("a")->note, "work");
    assert_memory_equal(fake_find("a")->attempt, last_attempt, ROWLOCK_ATTEMPT_SIZE);
}

static void test_line_is_served_in_the_order_of_arrival(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        comers[i].goes = 1;
        come(&comers[i]);
    }
    atomic_store(&requests, 0);
    assert_status(OK, rowlock_release(&holder, NULL));
    for (int i = 0; i < 3; i++) {
        join(&comers[i]);
        assert_status(OK, comers[i].status);
        assert_int_equal(comers[i].place, i);
    }
    assert_int_equal(exchanges, 3);
    assert_int_equal(requests, 4); /* the last one has nobody to give it to */
    assert_int_equal(scene_counters().queued, 0);
    assert_false(fake_is_live("a"));
}

/* The connection that has the bell is the one to give it on; the bell has rung then. */
static void test_bell_goes_with_the_hold(void **state)
{
    uint64_t ticket, fence;

    (void)state;
    come(&comers[0]);
    fake_clock_advance_us(OPEN_US);
    await(&enqueued, 1);
    assert_status(OK, rowlock_release(&holder, NULL));
    join(&comers[0]);
    assert_status(OK, comers[0].status);
    ticket = fake_find("a")->ticket;
    fence = rowlock_fence(comers[0].lock);
    assert_true(fake_has_bell(ticket));
    come(&comers[1]);
    assert_status(OK, rowlock_release(&comers[0].lock, NULL));
    join(&comers[1]);
    expect_held_by(&comers[1], fence);
    assert_int_equal(exchanges, 1);
    assert_int_equal(last_ticket, ticket);
    assert_false(fake_has_bell(ticket));
}

/* ---- not given ---- */

static void test_others_who_wait_in_the_database_come_first(void **state)
{
    (void)state;
    fake_queue_without_bells();
    come(&comers[0]);
    fake_ticket_add("a", "outsider", 300 * MS, 0);
    assert_status(OK, rowlock_release(&holder, NULL));
    await(&enqueued, 1);
    assert_int_equal(exchanges, 1);
    let_time_pass(&comers[0], 10 * MS); /* until the outsider's ticket has died */
    expect_held_by(&comers[0], 0);
    come(&comers[1]); /* within the second: nobody tries to go before others */
    await(&enqueued, 2);
    assert_status(OK, rowlock_release(&comers[0].lock, NULL));
    let_time_pass(&comers[1], 10 * MS);
    expect_held_by(&comers[1], 0);
    assert_int_equal(exchanges, 1);
    fake_clock_advance_us(CROWD_US);
    come(&comers[2]);
    assert_status(OK, rowlock_release(&comers[1].lock, NULL));
    join(&comers[2]);
    expect_held_by(&comers[2], 0);
    assert_int_equal(exchanges, 2);
    assert_int_equal(enqueued, 2);
}

static void test_long_hold_is_waited_for_in_the_database(void **state)
{
    uint64_t fence = rowlock_fence(holder);

    (void)state;
    come(&comers[0]);
    fake_clock_advance_us(OPEN_US - 1);
    await_sleeps(3);
    assert_int_equal(enqueued, 0);
    fake_clock_advance_us(1);
    await(&enqueued, 1);
    assert_status(OK, rowlock_release(&holder, NULL));
    join(&comers[0]);
    expect_held_by(&comers[0], fence);
    assert_int_equal(exchanges, 0);
    assert_int_equal(scene_counters().queued, 1);
}

/* The thread that had it has lost it, and has not noticed: another process has it now. */
static void test_lock_of_another_process_is_waited_for_in_the_database(void **state)
{
    fake_row *row = fake_find("a");

    (void)state;
    fake_clock_advance_us(2 * TTL_MS * MS);
    snprintf(row->owner, sizeof row->owner, "outsider");
    row->fence++;
    row->expire_time = fake_now() + 300 * MS;
    come(&comers[0]);
    await(&enqueued, 1);
    let_time_pass(&comers[0], 10 * MS); /* until the other one's lease has ended */
    expect_held_by(&comers[0], 0);
    assert_int_equal(exchanges, 0);
}

static void test_driver_without_exchange_gives_a_ticket_at_once(void **state)
{
    (void)state;
    scene_open(0);
    come(&comers[0]);
    await(&enqueued, 1);
    assert_status(OK, rowlock_release(&holder, NULL));
    join(&comers[0]);
    expect_held_by(&comers[0], 0);
    assert_int_equal(exchanges, 0);
}

static void test_first_of_two_holds_is_not_given_on(void **state)
{
    rowlock_lock *inner = hold(client, "a", TTL_MS, "alice");
    uint64_t fence = rowlock_fence(holder);

    (void)state;
    come(&comers[0]);
    assert_status(OK, rowlock_release(&inner, NULL));
    assert_int_equal(exchanges, 0);
    assert_int_equal(fake_find("a")->hold_count, 1);
    assert_string_equal(fake_find("a")->owner, "alice");
    assert_status(OK, rowlock_release(&holder, NULL));
    join(&comers[0]);
    expect_held_by(&comers[0], fence);
    assert_int_equal(exchanges, 1);
}

/* A transaction may keep its row locked. */
static void test_guarded_hold_is_not_given_on(void **state)
{
    (void)state;
    come(&comers[0]);
    pthread_mutex_lock(&client->mutex);
    holder->tenure->is_guarded = 1;
    pthread_mutex_unlock(&client->mutex);
    assert_status(OK, rowlock_release(&holder, NULL));
    join(&comers[0]);
    expect_held_by(&comers[0], 0);
    assert_int_equal(exchanges, 0);
}

/* ---- requests that fail ---- */

static void play_fault(enum fake_fault fault, int expected)
{
    uint64_t fence = rowlock_fence(holder);
    int before = exchanges;

    exchange_fault = fault;
    come(&comers[0]);
    assert_int_equal(rowlock_release(&holder, NULL), expected);
    let_time_pass(&comers[0], 100 * MS); /* nobody has rung: it looks by itself */
    expect_held_by(&comers[0], fence);
    assert_int_equal(exchanges, before + 1);
    assert_status(OK, rowlock_release(&comers[0].lock, NULL));
    assert_false(fake_is_live("a"));
    assert_int_equal(fake_find("a")->hold_count, 0);
    assert_int_equal(fake_tickets("a"), 0);
    holder = hold(client, "a", TTL_MS, "alice");
}

static void test_exchange_that_fails_is_done_one_by_one(void **state)
{
    static const enum fake_fault faults[] = {FAKE_NO_CONNECTION, FAKE_CUT_BEFORE, FAKE_DEADLOCK,
                                             FAKE_REFUSED};

    (void)state;
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        play_fault(faults[i], ROWLOCK_OK);
}

/* The next one has it, and finds that out. Who has released cannot know by itself. */
static void test_lost_answer_leaves_the_lock_with_the_next(void **state)
{
    (void)state;
    play_fault(FAKE_CUT_AFTER, ROWLOCK_EUNKNOWN);
}

/* ---- waits that end meanwhile ---- */

static void test_wait_that_ends_before_leaves_nothing_to_give_to(void **state)
{
    (void)state;
    come(&comers[0]);
    rowlock_cancel_fire(cancel);
    join(&comers[0]);
    assert_status(CANCELLED, comers[0].status);
    assert_int_equal(scene_counters().waiting, 0);
    assert_status(OK, rowlock_release(&holder, NULL));
    assert_int_equal(exchanges, 0);
    assert_false(fake_is_live("a"));
}

/* What is under way is had, whatever has become of the wait. */
static void test_cancel_comes_too_late_for_what_is_given(void **state)
{
    uint64_t fence = rowlock_fence(holder);

    (void)state;
    come(&comers[0]);
    release_up_to_the_gate();
    rowlock_cancel_fire(cancel);
    await_sleeps(3);
    assert_false(comers[0].is_done);
    assert_status(OK, open_gate());
    join(&comers[0]);
    expect_held_by(&comers[0], fence);
}

static void test_timeout_comes_too_late_for_what_is_given(void **state)
{
    uint64_t fence = rowlock_fence(holder);

    (void)state;
    comers[0].options.wait_ms = 10;
    come(&comers[0]);
    release_up_to_the_gate();
    fake_clock_advance_us(15 * MS);
    await_sleeps(3);
    assert_false(comers[0].is_done);
    assert_status(OK, open_gate());
    join(&comers[0]);
    expect_held_by(&comers[0], fence);
}

/* One of them is behind when its wait ends, and the others are served as if it had not been there.
 */
static void test_who_leaves_the_line_is_passed_over(void **state)
{
    (void)state;
    comers[1].options.wait_ms = 10;
    for (int i = 0; i < 3; i++) {
        comers[i].goes = i != 2;
        come(&comers[i]);
    }
    fake_clock_advance_us(15 * MS);
    join(&comers[1]);
    assert_status(TIMEOUT, comers[1].status);
    assert_status(OK, rowlock_release(&holder, NULL));
    join(&comers[0]);
    join(&comers[2]);
    assert_int_equal(comers[0].place, 0);
    expect_held_by(&comers[2], 0);
    assert_int_equal(exchanges, 2);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, scene_set_up, scene_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_release_gives_the_lock_to_the_front_of_the_line),
        CASE(test_who_has_tried_is_given_it_with_the_same_attempt),
        CASE(test_line_is_served_in_the_order_of_arrival),
        CASE(test_bell_goes_with_the_hold),
        CASE(test_others_who_wait_in_the_database_come_first),
        CASE(test_long_hold_is_waited_for_in_the_database),
        CASE(test_lock_of_another_process_is_waited_for_in_the_database),
        CASE(test_driver_without_exchange_gives_a_ticket_at_once),
        CASE(test_first_of_two_holds_is_not_given_on),
        CASE(test_guarded_hold_is_not_given_on),
        CASE(test_exchange_that_fails_is_done_one_by_one),
        CASE(test_lost_answer_leaves_the_lock_with_the_next),
        CASE(test_wait_that_ends_before_leaves_nothing_to_give_to),
        CASE(test_cancel_comes_too_late_for_what_is_given),
        CASE(test_timeout_comes_too_late_for_what_is_given),
        CASE(test_who_leaves_the_line_is_passed_over),
    };

    return cmocka_run_group_tests_name("core/hand", tests, NULL, NULL);
}
