/* SPDX-License-Identifier: MIT
 *
 * Waiting in the queue: tickets, bells, who is served, and what is left behind. */
#include "fake_tx.h"
#include "queue_scene.h"

static rowlock_cancel *cancel;
static uint64_t outsider; /* ticket or bell of somebody outside */
static int turns;

static int set_up(void **state)
{
    cancel = NULL;
    outsider = 0;
    turns = 0;
    return queue_set_up(state);
}

static int tear_down(void **state)
{
    int rc = queue_tear_down(state);

    rowlock_cancel_free(&cancel);
    return rc;
}

static int wait_for(rowlock_lock **out, const char *name, int64_t wait_ms, rowlock_error *err)
{
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;

    options.wait_ms = wait_ms;
    options.cancel = cancel;
    options.owner = "bob";
    return rowlock_acquire(out, client, name, &options, err);
}

/* Somebody outside holds it, and came by a ticket, whose bell is to be waited for. */
static void hold_outside(const char *name, int64_t ttl_ms)
{
    holder = hold(client, name, ttl_ms, "alice");
    outsider = fake_ticket_add(name, "alice", 60000 * MS, 1);
    fake_ticket_remove(outsider); /* taken off at the grant; the bell stays */
    fake_find(name)->ticket = outsider;
}

static void release_outside(void)
{
    if (++turns < 2)
        return;
    fake_find("a")->expire_time = fake_now();
    fake_bell_ring(outsider);
}

/* ---- the way of a ticket ---- */

static void test_free_lock_takes_no_ticket(void **state)
{
    rowlock_lock *lock = NULL;

    (void)state;
    fake_plan(0, FAKE_NONE, 0);
    assert_status(OK, wait_for(&lock, "a", ROWLOCK_FOREVER, NULL));
    assert_int_equal(fake_calls(), 1);
    assert_int_equal(counters().queued, 0);
    assert_status(OK, rowlock_release(&lock, NULL));
    assert_int_equal(fake_calls(), 2);
}

static void test_bell_wakes_the_waiter(void **state)
{
    rowlock_lock *lock = NULL;
    uint64_t ticket;

    (void)state;
    hold_outside("a", 60000);
    fake_on_turn(release_outside);
    assert_status(OK, wait_for(&lock, "a", ROWLOCK_FOREVER, NULL));
    assert_int_equal(turns, 2);
    assert_int_equal(fake_tickets("a"), 0);
    ticket = fake_find("a")->ticket;
    assert_true(fake_has_bell(ticket)); /* the next one waits for this one's */
    assert_int_equal(counters().queued, 1);
    assert_int_equal(counters().polled, 0);
    assert_int_equal(counters().waiting, 0);
    assert_status(OK, rowlock_release(&lock, NULL));
    assert_false(fake_has_bell(ticket));
    assert_false(fake_is_live("a"));
}

/* The next one waits for it until the last hold is given back. */
static void test_bell_stays_until_the_last_hold_is_given_back(void **state)
{
    rowlock_lock *outer = NULL, *inner = NULL;
    uint64_t ticket;

    (void)state;
    hold_outside("a", 60000);
    fake_on_turn(release_outside);
    assert_status(OK, wait_for(&outer, "a", ROWLOCK_FOREVER, NULL));
    ticket = fake_find("a")->ticket;
    assert_status(OK, wait_for(&inner, "a", 0, NULL));
    assert_status(OK, rowlock_release(&inner, NULL));
    assert_true(fake_has_bell(ticket));
    assert_int_equal(client->connections[RLK_USE_WAIT], 1);
    assert_status(OK, rowlock_release(&outer, NULL));
    assert_false(fake_has_bell(ticket));
    assert_int_equal(client->connections[RLK_USE_WAIT], 0);
}

static void unlock_soon(void)
{
    if (++turns == 5)
        fake_find("a")->locked = 0;
}

/* In the line it would wait for those who wait for it. */
static void test_re_entry_into_a_row_that_is_locked_takes_no_ticket(void **state)
{
    rowlock_lock *outer = NULL, *inner = NULL;

    (void)state;
    assert_status(OK, wait_for(&outer, "a", 0, NULL));
    fake_ticket_add("a", "next", 60000 * MS, 1);
    fake_find("a")->locked = 1;
    fake_clock_on_sleep(unlock_soon);
    assert_status(OK, wait_for(&inner, "a", 10000, NULL));
    assert_int_equal(turns, 5);
    assert_int_equal(counters().queued, 0);
    assert_int_equal(fake_find("a")->hold_count, 2);
    assert_status(OK, rowlock_release(&inner, NULL));
    assert_status(OK, rowlock_release(&outer, NULL));
}

/* The lease ends while the row is locked, and another one has the lock. */
static void lose_soon(void)
{
    fake_row *row = fake_find("a");

    if (++turns != 5)
        return;
    row->locked = 0;
    strcpy(row->owner, "alice");
}

static void test_re_entry_that_comes_too_late_stands_in_line(void **state)
{
    rowlock_lock *outer = NULL, *inner = NULL;
    rowlock_error err;

    (void)state;
    assert_status(OK, wait_for(&outer, "a", 0, NULL));
    fake_find("a")->locked = 1;
    fake_clock_on_sleep(lose_soon);
    assert_status(TIMEOUT, wait_for(&inner, "a", 1000, &err));
    assert_int_equal(counters().queued, 1);
    assert_non_null(strstr(err.message, "alice"));
    rowlock_release(&outer, NULL);
}

static void test_connection_of_the_bell_is_used_again(void **state)
{
    rowlock_lock *lock = NULL;

    (void)state;
    for (int i = 0; i < 10; i++) {
        turns = 1;
        hold_outside("a", 60000);
        fake_on_turn(release_outside);
        assert_status(OK, wait_for(&lock, "a", ROWLOCK_FOREVER, NULL));
        assert_status(OK, rowlock_release(&lock, NULL));
        rowlock_release(&holder, NULL);
    }
    assert_in_range(fake_most_connections(), 1, 2);
}

/* Nobody rings: the lease of the holder ends by itself. */
static void test_end_of_the_lease_is_not_missed(void **state)
{
    rowlock_lock *lock = NULL;
    int64_t start = rlk_clock_us();

    (void)state;
    hold_outside("a", 1500);
    assert_status(OK, wait_for(&lock, "a", ROWLOCK_FOREVER, NULL));
    assert_in_range(rlk_clock_us() - start, 1500 * MS, 1600 * MS);
    rowlock_release(&lock, NULL);
}

static void test_time_that_the_turn_waited_is_not_of_the_lease(void **state)
{
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;
    rowlock_lock *lock = NULL;

    (void)state;
    hold_outside("a", 60000);
    fake_on_turn(release_outside);
    fake_slow(400 * MS, 0); /* in the turn: it is longer than the lease */
    options.wait_ms = ROWLOCK_FOREVER;
    options.ttl_ms = 300;
    options.owner = "bob";
    assert_status(OK, rowlock_acquire(&lock, client, "a", &options, NULL));
    assert_in_range(rowlock_remaining(lock), 200, 300);
    fake_slow(0, 0);
    rowlock_release(&lock, NULL);
}

/* The ticket is not prolonged meanwhile, and the caller is not listened to. */
static void test_first_wait_is_bounded(void **state)
{
    rowlock_lock *lock = NULL;

    (void)state;
    hold_outside("a", 60000);
    assert_status(TIMEOUT, wait_for(&lock, "a", 5000, NULL));
    assert_int_equal(fake_first_wait_ms(), ROWLOCK_TURN_MAX_MS);
    assert_status(TIMEOUT, wait_for(&lock, "a", 300, NULL));
    assert_in_range(fake_first_wait_ms(), 290, 300);
    client->ticket_us = 600 * MS;
    assert_status(TIMEOUT, wait_for(&lock, "a", 5000, NULL));
    assert_int_equal(fake_first_wait_ms(), 200);
}

static void test_first_wait_is_none_if_it_was_cancelled(void **state)
{
    rowlock_lock *lock = NULL;
    int64_t start = rlk_clock_us();

    (void)state;
    assert_status(OK, rowlock_cancel_new(&cancel, NULL));
    hold_outside("a", 60000);
    rowlock_cancel_fire(cancel);
    assert_status(CANCELLED, wait_for(&lock, "a", ROWLOCK_FOREVER, NULL));
    assert_in_range(rlk_clock_us() - start, 0, 100 * MS);
}

/* ---- ends of a wait ---- */

static void test_timeout_leaves_the_queue_and_names_the_holder(void **state)
{
    rowlock_lock *lock = NULL;
    rowlock_error err;
    int64_t start = rlk_clock_us();

    (void)state;
    hold_outside("a", 60000);
    assert_status(TIMEOUT, wait_for(&lock, "a", 700, &err));
    assert_non_null(strstr(err.message, "alice"));
    assert_in_range(rlk_clock_us() - start, 700 * MS, 705 * MS);
    assert_int_equal(fake_tickets("a"), 0);
    assert_int_equal(counters().waiting, 0);
    assert_int_equal(counters().timed_out, 1);
}

static void fire(void)
{
    rowlock_cancel_fire(cancel);
}

static void test_cancel_leaves_the_queue(void **state)
{
    rowlock_lock *lock = NULL;

    (void)state;
    assert_status(OK, rowlock_cancel_new(&cancel, NULL));
    hold_outside("a", 60000);
    fake_on_turn(fire);
    assert_status(CANCELLED, wait_for(&lock, "a", ROWLOCK_FOREVER, NULL));
    assert_null(lock);
    assert_int_equal(fake_tickets("a"), 0);
}

static void lose_ticket(void)
{
    if (++turns == 1)
        fake_ticket_remove(fake_ticket_at("a", 0));
    if (turns > 1)
        release_outside();
    else
        fake_bell_ring(outsider); /* so that it tries, and finds its ticket gone */
}

static void test_lost_ticket_is_taken_anew(void **state)
{
    rowlock_lock *lock = NULL;

    (void)state;
    hold_outside("a", 3000);
    fake_on_turn(lose_ticket);
    assert_status(OK, wait_for(&lock, "a", ROWLOCK_FOREVER, NULL));
    assert_int_equal(counters().queued, 2);
    rowlock_release(&lock, NULL);
}

/* ---- faults ---- */

static void cut_the_turn(void)
{
    if (++turns == 2)
        fake_plan(1, FAKE_CUT_AFTER, 0);
    if (turns == 2) {
        fake_find("a")->expire_time = fake_now();
        fake_bell_ring(outsider);
    }
}

static void test_lost_answer_of_a_turn_is_asked_again(void **state)
{
    rowlock_lock *lock = NULL;

    (void)state;
    hold_outside("a", 60000);
    fake_on_turn(cut_the_turn);
    assert_status(OK, wait_for(&lock, "a", ROWLOCK_FOREVER, NULL));
    assert_int_equal(fake_find("a")->hold_count, 1);
    assert_true(rowlock_fence(lock) == fake_find("a")->fence);
    assert_status(OK, rowlock_release(&lock, NULL));
    assert_false(fake_is_live("a"));
}

static void cut_the_turn_for_good(void)
{
    if (++turns < 2)
        return;
    fake_find("a")->expire_time = fake_now();
    fake_bell_ring(outsider);
    fake_plan(1, FAKE_CUT_AFTER, 1);
}

/* It was granted, and nobody can be asked any more. */
static void test_lost_answer_of_a_turn_that_cannot_be_had_again_is_unknown(void **state)
{
    rowlock_lock *lock = NULL;
    rowlock_error err;

    (void)state;
    hold_outside("a", 60000);
    fake_on_turn(cut_the_turn_for_good);
    assert_status(EUNKNOWN, wait_for(&lock, "a", ROWLOCK_FOREVER, &err));
    assert_int_equal(err.status, ROWLOCK_EUNKNOWN);
    assert_null(lock);
    assert_true(fake_is_live("a"));
    fake_plan(0, FAKE_NONE, 0);
    fake_on_turn(NULL);
}

/* The database goes down while the ticket is asked for: nothing can be held. */
static void test_lost_answer_of_a_ticket_is_no_lock(void **state)
{
    rowlock_lock *lock = NULL;

    (void)state;
    hold_outside("a", 60000);
    open_another(client);
    fake_plan(2, FAKE_CUT_AFTER, 1); /* a try, and then the ticket */
    assert_status(ECONNECT, wait_for(&lock, "a", ROWLOCK_FOREVER, NULL));
    fake_plan(0, FAKE_NONE, 0);
}

static void test_lost_answer_of_a_release_counts_once(void **state)
{
    rowlock_lock *lock = NULL;

    (void)state;
    turns = 1;
    hold_outside("a", 60000);
    fake_on_turn(release_outside);
    assert_status(OK, wait_for(&lock, "a", ROWLOCK_FOREVER, NULL));
    fake_plan(1, FAKE_CUT_AFTER, 0);
    assert_status(OK, rowlock_release(&lock, NULL));
    assert_false(fake_is_live("a"));
}

static void test_refusal_ends_the_wait(void **state)
{
    rowlock_lock *lock = NULL;

    (void)state;
    hold_outside("a", 60000);
    fake_plan(2, FAKE_REFUSED, 1); /* the ticket */
    assert_status(EDRIVER, wait_for(&lock, "a", ROWLOCK_FOREVER, NULL));
    fake_plan(0, FAKE_NONE, 0);
    assert_int_equal(counters().waiting, 0);
}

/* ---- without bells ---- */

/* The keeper's work between two sleeps of the waiter. */
static void keep(void)
{
    if (++turns == 20)
        fake_find("a")->expire_time = fake_now();
    rlk_keeper_step(client);
}

static void test_without_bells_the_client_asks(void **state)
{
    rowlock_lock *lock = NULL;

    (void)state;
    fake_queue_without_bells();
    hold_outside("a", 60000);
    fake_clock_on_sleep(keep);
    assert_status(OK, wait_for(&lock, "a", ROWLOCK_FOREVER, NULL));
    fake_clock_on_sleep(NULL);
    assert_int_equal(counters().polled, 1);
    assert_int_equal(fake_tickets("a"), 0);
    rowlock_release(&lock, NULL);
}

static void beat(void)
{
    rlk_keeper_step(client);
    if (++turns == 30)
        fake_find("a")->expire_time = fake_now();
    assert_int_equal(fake_tickets("a"), 1); /* it lives on */
}

static void test_tickets_are_kept_alive(void **state)
{
    rowlock_lock *lock = NULL;
    int64_t start = rlk_clock_us();

    (void)state;
    hold_outside("a", 600000);
    fake_on_turn(beat);
    assert_status(OK, wait_for(&lock, "a", ROWLOCK_FOREVER, NULL));
    assert_true(rlk_clock_us() - start > 10000 * MS);
    rowlock_release(&lock, NULL);
}

static int asked_young, asked_old;
static int64_t ticket_since;

/* The keeper is awake all the time. */
static void count_questions(void)
{
    int before = fake_calls(), is_old = rlk_clock_us() - ticket_since >= client->ticket_us / 3;

    rlk_keeper_step(client);
    *(is_old ? &asked_old : &asked_young) += fake_calls() - before;
    if (is_old)
        fake_find("a")->expire_time = fake_now();
    turns++;
}

/* A ticket is prolonged when it gets old, and not when the keeper is awake for another's sake. */
static void test_young_tickets_are_left_alone(void **state)
{
    rowlock_lock *lock = NULL;

    (void)state;
    hold_outside("a", 600000);
    fake_on_turn(release_outside);
    assert_status(OK, wait_for(&lock, "a", ROWLOCK_FOREVER, NULL));
    rowlock_release(&lock, NULL);
    rowlock_release(&holder, NULL);
    hold_outside("a", 600000);
    turns = asked_young = asked_old = 0;
    ticket_since = rlk_clock_us();
    fake_on_turn(count_questions);
    assert_status(OK, wait_for(&lock, "a", ROWLOCK_FOREVER, NULL));
    assert_true(turns > 2);
    assert_int_equal(asked_young, 0);
    assert_true(asked_old > 0);
    rowlock_release(&lock, NULL);
}

static void test_who_comes_late_stands_behind(void **state)
{
    rowlock_lock *lock = NULL;
    rowlock_error err;
    uint64_t ticket = fake_ticket_add("a", "carol", 5000 * MS, 0);
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;

    (void)state;
    assert_status(BUSY, wait_for(&lock, "a", 0, &err));
    assert_non_null(strstr(err.message, "waited for"));
    options.barge = 1;
    assert_status(OK, rowlock_acquire(&lock, client, "a", &options, NULL));
    rowlock_release(&lock, NULL);
    fake_ticket_remove(ticket);
    assert_status(OK, wait_for(&lock, "a", 0, NULL));
    rowlock_release(&lock, NULL);
}

static void test_dead_ticket_is_passed_over(void **state)
{
    rowlock_lock *lock = NULL;
    int64_t start = rlk_clock_us();

    (void)state;
    fake_ticket_add("a", "carol", 2000 * MS, 0);
    assert_status(OK, wait_for(&lock, "a", ROWLOCK_FOREVER, NULL));
    assert_in_range(rlk_clock_us() - start, 2000 * MS, 2300 * MS);
    rowlock_release(&lock, NULL);
}

static void test_many_wait_under_one_ticket(void **state)
{
    static const char *const names[] = {"a", "b"};
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;
    rowlock_lock *locks[2];

    (void)state;
    hold_outside("a", 2000);
    options.wait_ms = ROWLOCK_FOREVER;
    options.owner = "bob";
    assert_status(OK, rowlock_acquire_many(locks, client, names, 2, &options, NULL));
    assert_int_equal(fake_tickets("a") + fake_tickets("b"), 0);
    for (int i = 0; i < 2; i++)
        assert_status(OK, rowlock_release(&locks[i], NULL));
}

static rowlock_lock *beside;
static int beside_rc;

/* The holder outside releases, and another handle of the waiter's owner is the first to acquire. */
static void acquire_beside(void)
{
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;

    release_outside();
    if (turns != 2)
        return;
    options.owner = "bob";
    options.barge = 1;
    beside_rc = rowlock_acquire(&beside, client, "a", &options, NULL);
}

/* The waiter's grant is a re-entry: it leaves the local queue by names that are still its own. */
static void test_waiter_that_re_enters_leaves_the_queue(void **state)
{
    rowlock_lock *lock = NULL;

    (void)state;
    hold_outside("a", 60000);
    fake_on_turn(acquire_beside);
    assert_status(OK, wait_for(&lock, "a", ROWLOCK_FOREVER, NULL));
    assert_int_equal(beside_rc, ROWLOCK_OK);
    assert_int_equal(rowlock_fence(lock), rowlock_fence(beside));
    assert_int_equal(fake_find("a")->hold_count, 2);
    assert_int_equal(counters().waiting, 0);
    assert_status(OK, rowlock_release(&lock, NULL));
    assert_status(OK, rowlock_release(&beside, NULL));
    assert_false(fake_is_live("a"));
}

/* Its tenure has made room for a later one of the same owner. */
static void test_a_bell_that_is_left_goes_with_its_handle(void **state)
{
    rowlock_lock *lost = NULL, *lock = NULL;

    (void)state;
    hold_outside("a", 1500);
    assert_status(OK, wait_for(&lost, "a", ROWLOCK_FOREVER, NULL));
    assert_non_null(lost->tenure->bell);
    fake_clock_advance_us(60000 * MS);
    assert_status(OK, wait_for(&lock, "a", 0, NULL));
    rowlock_release(&holder, NULL);
    rowlock_close(&client);
    assert_status(ECLOSED, rowlock_release(&lost, NULL));
    assert_status(ECLOSED, rowlock_release(&lock, NULL));
    assert_int_equal(fake_connections(), 0);
}

#define case_of(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        case_of(test_free_lock_takes_no_ticket),
        case_of(test_bell_wakes_the_waiter),
        case_of(test_bell_stays_until_the_last_hold_is_given_back),
        case_of(test_re_entry_into_a_row_that_is_locked_takes_no_ticket),
        case_of(test_re_entry_that_comes_too_late_stands_in_line),
        case_of(test_connection_of_the_bell_is_used_again),
        case_of(test_end_of_the_lease_is_not_missed),
        case_of(test_time_that_the_turn_waited_is_not_of_the_lease),
        case_of(test_first_wait_is_bounded),
        case_of(test_first_wait_is_none_if_it_was_cancelled),
        case_of(test_timeout_leaves_the_queue_and_names_the_holder),
        case_of(test_cancel_leaves_the_queue),
        case_of(test_lost_ticket_is_taken_anew),
        case_of(test_lost_answer_of_a_turn_is_asked_again),
        case_of(test_lost_answer_of_a_turn_that_cannot_be_had_again_is_unknown),
        case_of(test_lost_answer_of_a_ticket_is_no_lock),
        case_of(test_lost_answer_of_a_release_counts_once),
        case_of(test_refusal_ends_the_wait),
        case_of(test_without_bells_the_client_asks),
        case_of(test_tickets_are_kept_alive),
        case_of(test_young_tickets_are_left_alone),
        case_of(test_who_comes_late_stands_behind),
        case_of(test_dead_ticket_is_passed_over),
        case_of(test_many_wait_under_one_ticket),
        case_of(test_waiter_that_re_enters_leaves_the_queue),
        case_of(test_a_bell_that_is_left_goes_with_its_handle),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
