/* SPDX-License-Identifier: MIT
 *
 * Requests that threads share: who travels with whom, and that each gets its own answer, whatever
 * becomes of the request. */
#include <stdio.h>

#include "combine_scene.h"

enum { N = 20 };

static uint32_t holds_of(const struct asker *a)
{
    const fake_row *row = fake_find(a->name);

    return row == NULL || !fake_is_live(a->name) ? 0 : row->hold_count;
}

/* Each holds its own lock, so many times. */
static void expect_holds(uint32_t holds)
{
    for (size_t i = 0; i < N; i++)
        assert_int_equal(holds_of(&askers[i]), holds);
}

static void expect_own_fences(void)
{
    for (size_t i = 0; i < N; i++)
        assert_int_equal(rowlock_fence(askers[i].lock), fake_find(askers[i].name)->fence);
}

/* One alone, and all who came meanwhile in the next. */
static void expect_two_requests(rlk_kind kind)
{
    assert_int_equal(request_count, 2);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(requests[i].kind, kind);
        assert_int_equal(requests[i].n, i == 0 ? 1 : N - 1);
        assert_true(requests[i].is_sorted);
    }
}

static void test_who_comes_meanwhile_travels_in_the_next_request(void **state)
{
    (void)state;
    ask_together(ask_acquire, N);
    expect_ok(N);
    expect_two_requests(RLK_ACQUIRE);
    expect_holds(1);
    expect_own_fences();
    assert_int_equal(combined(), N - 2); /* one of the nineteen sent it */
    fake_clock_advance_us(1000 * MS);
    ask_together(ask_renew, N);
    expect_ok(N);
    expect_two_requests(RLK_RENEW);
    for (size_t i = 0; i < N; i++)
        assert_int_equal(rowlock_remaining(askers[i].lock), 28000);
    ask_together(ask_release, N);
    expect_ok(N);
    expect_two_requests(RLK_RELEASE);
    expect_holds(0);
    assert_int_equal(combined(), 3 * (N - 2));
}

static void test_who_is_alone_sends_its_own(void **state)
{
    (void)state;
    for (size_t i = 0; i < 3; i++)
        assert_status(OK, ask_acquire(&askers[i]));
    assert_int_equal(request_count, 3);
    assert_int_equal(combined(), 0);
    assert_int_equal(fake_most_connections(), 2); /* one is reserved */
}

static void test_acquire_and_release_do_not_wait_for_each_other(void **state)
{
    (void)state;
    assert_status(OK, ask_acquire(&askers[1]));
    gate_hold(1);
    askers[0].ask = ask_acquire;
    start(&askers[0]);
    await_held(1);
    assert_status(OK, ask_release(&askers[1]));
    gate_open();
    join(&askers[0]);
    expect_ok(1);
}

static void test_no_request_has_a_name_twice(void **state)
{
    int had[3] = {0};

    (void)state;
    for (size_t i = 0; i < N; i++)
        snprintf(askers[i].name, sizeof askers[i].name, "shared%zu", i % 3);
    ask_together(ask_acquire, N);
    for (size_t i = 0; i < request_count; i++) {
        assert_true(requests[i].is_sorted);
        assert_in_range(requests[i].n, 1, 3);
    }
    for (size_t i = 0; i < N; i++) {
        had[i % 3] += askers[i].status == ROWLOCK_OK;
        assert_int_equal(askers[i].status, i < 3 ? ROWLOCK_OK : ROWLOCK_BUSY); /* in their order */
        assert_int_equal(askers[i].err.status, askers[i].status);
    }
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(had[i], 1);
}

static void test_same_owner_enters_and_leaves_as_often_as_it_asks(void **state)
{
    (void)state;
    for (size_t i = 0; i < N; i++) {
        snprintf(askers[i].name, sizeof askers[i].name, "same");
        snprintf(askers[i].owner, sizeof askers[i].owner, "me");
    }
    ask_together(ask_acquire, N);
    expect_ok(N);
    expect_holds(N);
    expect_own_fences();
    ask_together(ask_release, N);
    expect_ok(N);
    expect_holds(0);
}

/* ---- one that is not like the others ---- */

static void test_bad_operation_fails_alone(void **state)
{
    rowlock_counters counters = ROWLOCK_COUNTERS_INIT;

    (void)state;
    bad_name = askers[5].name;
    ask_together(ask_acquire, N);
    for (size_t i = 0; i < N; i++) {
        assert_int_equal(askers[i].status, i == 5 ? ROWLOCK_EDRIVER : ROWLOCK_OK);
        assert_int_equal(askers[i].err.status, askers[i].status);
        assert_int_equal(holds_of(&askers[i]), i != 5);
    }
    assert_string_equal(askers[5].err.message, "bad");
    assert_int_equal(request_count, 2 + N - 1);
    assert_status(OK, rowlock_stats(&counters, client, NULL));
    assert_int_equal(counters.errors, 1);
    assert_int_equal(counters.retries, N - 1);
}

static void test_held_one_is_told_at_once_with_its_holder(void **state)
{
    rowlock_lock *theirs = hold(client, askers[5].name, 0, "them");

    (void)state;
    ask_together(ask_acquire, N);
    expect_two_requests(RLK_ACQUIRE);
    for (size_t i = 0; i < N; i++)
        assert_int_equal(askers[i].status, i == 5 ? ROWLOCK_BUSY : ROWLOCK_OK);
    assert_non_null(strstr(askers[5].err.message, "them"));
    rowlock_release(&theirs, NULL);
}

/* The row of number 5 is locked while a request with others asks for it, and not after it. */
static void lock_during_batch(rlk_kind kind, rowlock_op *ops, size_t n, int is_done)
{
    (void)ops;
    if (kind == RLK_ACQUIRE && n > 1)
        fake_find(askers[5].name)->locked = !is_done;
}

static void expect_asked_alone(uint32_t holds)
{
    on_request = lock_during_batch;
    ask_together(ask_acquire, N);
    expect_ok(N);
    assert_int_equal(request_count, 3);
    assert_int_equal(requests[2].n, 1);
    assert_int_equal(holds_of(&askers[5]), holds);
}

static void test_free_row_that_is_locked_is_asked_for_alone(void **state)
{
    rowlock_lock *before = hold(client, askers[5].name, 0, "before");

    (void)state;
    rowlock_release(&before, NULL);
    expect_asked_alone(1);
}

static void test_own_row_that_is_locked_is_asked_for_alone(void **state)
{
    rowlock_lock *outer = hold(client, askers[5].name, 0, askers[5].owner);

    (void)state;
    expect_asked_alone(2);
    assert_int_equal(rowlock_fence(outer), rowlock_fence(askers[5].lock));
    rowlock_release(&outer, NULL);
}

static void test_renewal_of_a_locked_row_leaves_the_others_alone(void **state)
{
    (void)state;
    ask_together(ask_acquire, N);
    expect_ok(N);
    fake_find(askers[5].name)->locked = 1;
    ask_together(ask_renew, N);
    for (size_t i = 0; i < N; i++)
        assert_int_equal(askers[i].status, i == 5 ? ROWLOCK_BUSY : ROWLOCK_OK);
    fake_find(askers[5].name)->locked = 0;
}

/* ---- requests that fail ---- */

static void acquire_through(enum fake_fault fault)
{
    plan_batch(fault, FAKE_NONE);
    ask_together(ask_acquire, N);
    expect_ok(N);
    expect_holds(1);
    expect_own_fences();
    assert_int_equal(request_count, 2 + N - 1);
}

static void release_through(enum fake_fault fault)
{
    rowlock_lock *outer[N];

    for (size_t i = 0; i < N; i++)
        outer[i] = hold(client, askers[i].name, 0, askers[i].owner);
    expect_holds(2);
    plan_batch(fault, FAKE_NONE);
    ask_together(ask_release, N);
    expect_ok(N);
    expect_holds(1);
    for (size_t i = 0; i < N; i++)
        assert_status(OK, rowlock_release(&outer[i], NULL));
    expect_holds(0);
}

static void renew_through(enum fake_fault fault)
{
    fake_clock_advance_us(1000 * MS);
    plan_batch(fault, FAKE_NONE);
    ask_together(ask_renew, N);
    expect_ok(N);
    for (size_t i = 0; i < N; i++)
        assert_int_equal(rowlock_remaining(askers[i].lock), 28000);
}

static void test_each_is_carried_out_once_whatever_happens_to_the_request(void **state)
{
    static const enum fake_fault faults[] = {FAKE_NO_CONNECTION, FAKE_CUT_BEFORE, FAKE_CUT_AFTER,
                                             FAKE_DEADLOCK};

    (void)state;
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        acquire_through(faults[i]);
        renew_through(faults[i]);
        release_through(faults[i]);
    }
}

static void test_deadlock_of_a_request_is_counted(void **state)
{
    rowlock_counters counters = ROWLOCK_COUNTERS_INIT;

    (void)state;
    acquire_through(FAKE_DEADLOCK);
    assert_status(OK, rowlock_stats(&counters, client, NULL));
    assert_int_equal(counters.deadlock_retries, N - 1);
}

/* The first one has got through before. */
static void expect_rest(int status)
{
    assert_int_equal(askers[0].status, ROWLOCK_OK);
    for (size_t i = 1; i < N; i++) {
        assert_int_equal(askers[i].status, status);
        assert_int_equal(askers[i].err.status, status);
        assert_null(askers[i].lock);
    }
    fake_plan(0, FAKE_NONE, 0);
}

static void test_lost_answer_that_cannot_be_had_again_is_unknown(void **state)
{
    (void)state;
    plan_batch(FAKE_CUT_AFTER, FAKE_NO_CONNECTION);
    ask_together(ask_acquire, N);
    expect_rest(ROWLOCK_EUNKNOWN);
}

static void test_release_whose_answer_is_lost_for_good_is_unknown(void **state)
{
    (void)state;
    ask_together(ask_acquire, N);
    plan_batch(FAKE_CUT_BEFORE, FAKE_NO_CONNECTION);
    ask_together(ask_release, N);
    expect_rest(ROWLOCK_EUNKNOWN);
}

static void test_request_that_was_never_sent_is_not_unknown(void **state)
{
    (void)state;
    plan_batch(FAKE_NO_CONNECTION, FAKE_NO_CONNECTION);
    ask_together(ask_acquire, N);
    expect_rest(ROWLOCK_ECONNECT);
    for (size_t i = 1; i < N; i++)
        assert_null(fake_find(askers[i].name));
}

/* ---- time ---- */

static void test_lease_is_counted_from_before_the_shared_request(void **state)
{
    rowlock_lock *outer = hold(client, "outer", 0, NULL);

    (void)state;
    open_another(client); /* beside the one that is reserved from now on */
    gather(ask_acquire, N);
    fake_slow(40 * MS, 50 * MS); /* nobody loses patience */
    gate_open();
    join_all(N);
    fake_slow(0, 0);
    expect_ok(N);
    /* Both requests have passed; the margin of 30 s is 2 s. */
    assert_int_equal(rowlock_remaining(askers[0].lock), 30000 - 2000 - 180);
    for (size_t i = 1; i < N; i++)
        assert_int_equal(rowlock_remaining(askers[i].lock), 30000 - 2000 - 90);
    rowlock_release(&outer, NULL);
}

/* What is sent after the batch must not move everybody's clock. */
static void fast_after_batch(rlk_kind kind, rowlock_op *ops, size_t n, int is_done)
{
    (void)kind;
    (void)ops;
    if (is_done && n > 1)
        fake_slow(0, 0);
}

static void test_grant_that_comes_too_late_is_given_back(void **state)
{
    (void)state;
    on_request = fast_after_batch;
    for (size_t i = 0; i < N; i++)
        askers[i].options.ttl_ms = i % 2 == 0 ? 60000 : 1000;
    gather(ask_acquire, N);
    fake_slow(0, 950 * MS);
    gate_open();
    join_all(N);
    fake_slow(0, 0);
    for (size_t i = 0; i < N; i++)
        assert_int_equal(askers[i].status, i % 2 == 0 ? ROWLOCK_OK : ROWLOCK_ECONNECT);
    for (size_t i = 0; i < N; i++)
        assert_int_equal(holds_of(&askers[i]), i % 2 == 0);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, scene_set_up, scene_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_who_comes_meanwhile_travels_in_the_next_request),
        CASE(test_who_is_alone_sends_its_own),
        CASE(test_acquire_and_release_do_not_wait_for_each_other),
        CASE(test_no_request_has_a_name_twice),
        CASE(test_same_owner_enters_and_leaves_as_often_as_it_asks),
        CASE(test_bad_operation_fails_alone),
        CASE(test_held_one_is_told_at_once_with_its_holder),
        CASE(test_free_row_that_is_locked_is_asked_for_alone),
        CASE(test_own_row_that_is_locked_is_asked_for_alone),
        CASE(test_renewal_of_a_locked_row_leaves_the_others_alone),
        CASE(test_each_is_carried_out_once_whatever_happens_to_the_request),
        CASE(test_deadlock_of_a_request_is_counted),
        CASE(test_lost_answer_that_cannot_be_had_again_is_unknown),
        CASE(test_release_whose_answer_is_lost_for_good_is_unknown),
        CASE(test_request_that_was_never_sent_is_not_unknown),
        CASE(test_lease_is_counted_from_before_the_shared_request),
        CASE(test_grant_that_comes_too_late_is_given_back),
    };

    return cmocka_run_group_tests_name("core/combine", tests, NULL, NULL);
}
