/* SPDX-License-Identifier: MIT
 *
 * Threads that ask for one and the same lock at the same time: what one is told of it is true of
 * the others, if it is that somebody else has it, and of nobody else's operation otherwise. */
#include <stdio.h>

#include "combine_scene.h"
#include "fake_queue.h"

enum { N = 20 };

/* Number 0 asks for something else, alone, while the others come. */
static int set_up(void **state)
{
    scene_set_up(state);
    for (size_t i = 1; i < N; i++)
        snprintf(askers[i].name, sizeof askers[i].name, "same");
    return 0;
}

/* Nobody is counted any more. */
static int tear_down(void **state)
{
    const rlk_combiner *combiner = &client->combiners[RLK_ACQUIRE];
    int is_counted =
        combiner->flights != NULL || combiner->ops_in_flight > 0 || combiner->waiting > 0;

    scene_tear_down(state);
    return is_counted ? -1 : 0;
}

static void expect_busy(size_t i, const char *why)
{
    assert_int_equal(askers[i].status, ROWLOCK_BUSY);
    assert_int_equal(askers[i].err.status, ROWLOCK_BUSY);
    assert_non_null(strstr(askers[i].err.message, why));
    assert_null(askers[i].lock);
}

static size_t served(void)
{
    size_t n = 0;

    for (size_t i = 1; i < N; i++)
        n += askers[i].status == ROWLOCK_OK;
    return n;
}

static void test_one_request_asks_in_vain_for_all(void **state)
{
    rowlock_lock *theirs = hold(client, "same", 0, "them");
    rowlock_holder holders[N];

    (void)state;
    for (size_t i = 1; i < N; i++)
        askers[i].options.holder = &holders[i];
    request_count = 0;
    ask_together(ask_acquire, N);
    for (size_t i = 1; i < N; i++) {
        expect_busy(i, "them");
        assert_string_equal(holders[i].owner, "them");
        assert_int_equal(holders[i].fence, rowlock_fence(theirs));
        assert_int_equal(holders[i].remaining_ms, 30000);
    }
    assert_int_equal(request_count, 2);
    assert_int_equal(requests[1].n, 1);
    assert_int_equal(combined(), N - 2);
    rowlock_release(&theirs, NULL);
}

/* Then the others are asked for once more, and it is somebody else's now. */
static void test_lock_that_one_gets_is_his_alone(void **state)
{
    (void)state;
    ask_together(ask_acquire, N);
    assert_int_equal(askers[1].status, ROWLOCK_OK);
    for (size_t i = 2; i < N; i++)
        expect_busy(i, askers[1].owner);
    assert_int_equal(request_count, 3);
    assert_int_equal(fake_find("same")->hold_count, 1);
}

static void test_who_holds_it_enters_again(void **state)
{
    rowlock_lock *outer = hold(client, "same", 0, askers[5].owner);

    (void)state;
    ask_together(ask_acquire, N);
    for (size_t i = 1; i < N; i++) {
        if (i != 5)
            expect_busy(i, askers[5].owner);
    }
    assert_int_equal(askers[5].status, ROWLOCK_OK);
    assert_int_equal(fake_find("same")->hold_count, 2);
    rowlock_release(&outer, NULL);
}

static void test_who_barges_does_not_stand_behind_a_queue(void **state)
{
    uint64_t ticket = fake_ticket_add("same", "carol", 5000 * MS, 0);

    (void)state;
    askers[5].options.barge = 1;
    ask_together(ask_acquire, N);
    assert_int_equal(served(), 1);
    assert_int_equal(askers[5].status, ROWLOCK_OK);
    for (size_t i = 1; i < 5; i++)
        expect_busy(i, "waited for");
    fake_ticket_remove(ticket);
}

/* Of a row that is locked for a moment nothing is known. */
static void lock_during_batch(rlk_kind kind, rowlock_op *ops, size_t n, int is_done)
{
    static atomic_int count;

    (void)ops;
    if (kind != RLK_ACQUIRE || n != 2)
        return;
    fake_find("same")->locked = !is_done && atomic_fetch_add(&count, 1) == 0;
}

static void test_locked_row_says_nothing_of_the_others(void **state)
{
    rowlock_lock *before = hold(client, "same", 0, "before");

    (void)state;
    rowlock_release(&before, NULL);
    snprintf(askers[1].name, sizeof askers[1].name, "other");
    on_request = lock_during_batch;
    ask_together(ask_acquire, N);
    assert_int_equal(askers[1].status, ROWLOCK_OK);
    assert_int_equal(served(), 2);
    for (size_t i = 2; i < N; i++) {
        if (askers[i].status != ROWLOCK_OK)
            expect_busy(i, fake_find("same")->owner);
    }
}

/* ---- requests that fail: number 1 makes it one of two operations ---- */

static void fail_batch(enum fake_fault fault, enum fake_fault afterwards)
{
    snprintf(askers[1].name, sizeof askers[1].name, "other");
    plan_batch(fault, afterwards);
    ask_together(ask_acquire, N);
}

static void test_failed_request_is_made_again_by_each(void **state)
{
    rowlock_counters counters = ROWLOCK_COUNTERS_INIT;
    rowlock_lock *theirs = hold(client, "same", 0, "them");

    (void)state;
    fail_batch(FAKE_CUT_AFTER, FAKE_NONE);
    assert_int_equal(askers[1].status, ROWLOCK_OK);
    for (size_t i = 2; i < N; i++)
        expect_busy(i, "them");
    assert_status(OK, rowlock_stats(&counters, client, NULL));
    assert_int_equal(counters.retries, N - 1);
    assert_int_equal(counters.combined, 1);
    rowlock_release(&theirs, NULL);
}

/* Only what was sent may have been carried out. */
static void test_who_came_along_has_asked_for_nothing(void **state)
{
    (void)state;
    fail_batch(FAKE_CUT_AFTER, FAKE_NO_CONNECTION);
    for (size_t i = 1; i < N; i++)
        assert_int_equal(askers[i].status, i <= 2 ? ROWLOCK_EUNKNOWN : ROWLOCK_ECONNECT);
    fake_plan(0, FAKE_NONE, 0);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_one_request_asks_in_vain_for_all),
        CASE(test_lock_that_one_gets_is_his_alone),
        CASE(test_who_holds_it_enters_again),
        CASE(test_who_barges_does_not_stand_behind_a_queue),
        CASE(test_locked_row_says_nothing_of_the_others),
        CASE(test_failed_request_is_made_again_by_each),
        CASE(test_who_came_along_has_asked_for_nothing),
    };

    return cmocka_run_group_tests_name("core/combine_same", tests, NULL, NULL);
}
