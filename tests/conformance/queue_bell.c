/* SPDX-License-Identifier: MIT
 *
 * The slot turn with a wait, and who wakes it: the bells. Where there are none (can_wait is 0) the
 * same scenes are played with looks from time to time. */
#include <unistd.h>

#include "queue.h"

#define WAIT_MS ROWLOCK_TURN_MAX_MS

/* A scene is played again if the machine was too busy to tell a call from a wait that passed. */
#define TRIES 3

static struct turner turner_of(struct fixture *f, void *conn, rowlock_op *op)
{
    return (struct turner){.f = f, .conn = conn, .op = op, .wait_ms = WAIT_MS, .calls = 5};
}

/* Ann holds by ticket, Bob waits. `end` happens while he does. Was he woken by it? */
static int play_release(struct fixture *f, void (*end)(struct fixture *, void *, rowlock_op *))
{
    void *a = another(f), *b = another(f);
    rowlock_op held = grant_by_ticket(f, a, "lock", "ann", LONG_US);
    rowlock_op op = queue_up(f, b, "lock", "bob");
    struct turner t = turner_of(f, b, &op);
    int woken = 1;
    if (op.can_wait) {
        turner_start(&t);
        sleep_us(100000);
        end(f, a, &held);
        turner_join(&t);
        woken = turner_woken(&t);
        expect_between(op.waited_us, 0, t.ended_us - t.began_us);
    } else {
        end(f, a, &held);
        await_turn(f, b, &op);
    }
    expect_ok(op.status, NULL);
    assert_true(op.fence > held.fence);
    give_back(f, b, &op);
    another_end(f, b);
    if (f->others[0] == a)
        another_end(f, a);
    return woken;
}

static void expect_woken(struct fixture *f, void (*end)(struct fixture *, void *, rowlock_op *))
{
    int woken = 0;
    for (int i = 0; i < TRIES && !woken; i++)
        woken = play_release(f, end);
    assert_true(woken);
}

static void release_it(struct fixture *f, void *conn, rowlock_op *held)
{
    give_back(f, conn, held);
}

static void test_release_wakes_the_next(void **state)
{
    expect_woken(*state, release_it);
}

/* Another connection gives the lock back, as after a connection that broke; the bell's then ends.
 */
static void release_elsewhere(struct fixture *f, void *conn, rowlock_op *held)
{
    rowlock_op op = op_of(held);
    expect_ok(try_release(f, f->conn, &op), NULL);
    another_end(f, conn);
}

static void test_end_of_the_holders_connection_wakes_the_next(void **state)
{
    expect_woken(*state, release_elsewhere);
}

/* Ann has come without a ticket, and gives back two locks at once. Bob waits for one of them, and
 * is told, if that can be. */
static int play_release_of_several(struct fixture *f, void *b)
{
    rowlock_op held[] = {grant(f, "lock", "ann"), grant(f, "other", "ann")};
    rowlock_op op = queue_up(f, b, "lock", "bob");
    struct turner t = turner_of(f, b, &op);
    expect_status(ROWLOCK_BUSY, try_turn(f, b, &op, 0), NULL);
    int can_wait = op.can_wait;
    if (can_wait) {
        turner_start(&t);
        sleep_us(100000);
    }
    for (size_t i = 0; i < COUNT(held); i++)
        held[i] = op_of(&held[i]);
    ops_release(f, f->conn, held, COUNT(held));
    for (size_t i = 0; i < COUNT(held); i++)
        expect_ok(held[i].status, NULL);
    if (can_wait)
        turner_join(&t);
    else
        await_turn(f, b, &op);
    expect_ok(op.status, NULL);
    give_back(f, b, &op);
    return !can_wait || turner_woken(&t);
}

static void test_release_of_several_wakes_the_next(void **state)
{
    struct fixture *f = *state;
    void *b = another(f);
    int woken = 0;
    for (int i = 0; i < TRIES && !woken; i++)
        woken = play_release_of_several(f, b);
    assert_true(woken);
}

/* A connection is an ordinary one after its bell has rung. */
static void test_connection_takes_one_ticket_after_another(void **state)
{
    struct fixture *f = *state;
    void *conns[] = {another(f), another(f)};
    rowlock_op held = grant_by_ticket(f, conns[0], "lock", "ann", LONG_US);
    for (int i = 1; i <= 10; i++) {
        void *here = conns[(i + 1) % 2], *there = conns[i % 2];
        rowlock_op next = queue_up(f, there, "lock", i % 2 ? "bob" : "ann");
        give_back(f, here, &held);
        rowlock_op plain = op_new("plain", "ann");
        expect_ok(try_acquire(f, here, &plain), NULL);
        give_back(f, here, &plain);
        expect_ok(await_turn(f, there, &next), NULL);
        assert_true(next.fence > held.fence);
        held = next;
    }
}

/* Of those who were served one each may be left in the table, or none; nobody sees it. */
static void test_tickets_that_were_served_do_not_pile_up(void **state)
{
    struct fixture *f = *state;
    void *conns[] = {another(f), another(f)};
    rowlock_op held = grant_by_ticket(f, conns[0], "lock", "ann", LONG_US);
    for (int i = 1; i <= 20; i++) {
        rowlock_op next = queue_up(f, conns[i % 2], "lock", i % 2 ? "bob" : "ann");
        assert_true(next.ticket > held.ticket);
        give_back(f, conns[(i + 1) % 2], &held);
        expect_ok(await_turn(f, conns[i % 2], &next), NULL);
        assert_false(in_queue(f, &next));
        held = next;
        if (i == 10)
            queue_clear(f);
    }
    assert_in_range(queue_rows(f), 0, COUNT(conns));
    give_back(f, conns[0], &held);
    rowlock_op plain = op_new("lock", "col");
    expect_ok(try_acquire(f, f->conn, &plain), NULL);
}

/* Bob has been served after a wait, and comes again while Ann waits for Col. */
static void test_who_was_served_comes_again_behind_those_who_wait(void **state)
{
    struct fixture *f = *state;
    void *a = another(f), *b = another(f), *c = another(f);
    rowlock_op held = grant_by_ticket(f, a, "lock", "ann", LONG_US);
    rowlock_op bob = queue_up(f, b, "lock", "bob"), col = queue_up(f, c, "lock", "col");
    give_back(f, a, &held);
    expect_ok(await_turn(f, b, &bob), NULL);
    rowlock_op ann = queue_up(f, a, "lock", "ann");
    give_back(f, b, &bob);
    expect_ok(await_turn(f, c, &col), NULL);
    bob = queue_up(f, b, "lock", "bob");
    assert_true(bob.ticket > ann.ticket);
    give_back(f, c, &col);
    expect_status(ROWLOCK_BUSY, try_turn(f, b, &bob, 0), NULL);
    expect_ok(await_turn(f, a, &ann), NULL);
    give_back(f, a, &ann);
    expect_ok(await_turn(f, b, &bob), NULL);
}

static void test_leaving_wakes_the_next(void **state)
{
    struct fixture *f = *state;
    void *b = another(f), *c = another(f);
    grant_released(f, "lock", "ann");
    int woken = 0;
    for (int i = 0; i < TRIES && !woken; i++) {
        rowlock_op first = queue_up(f, b, "lock", "bob"), op = queue_up(f, c, "lock", "col");
        struct turner t = turner_of(f, c, &op);
        int can_wait = op.can_wait;
        woken = !can_wait;
        if (can_wait)
            turner_start(&t);
        sleep_us(100000);
        try_leave(f, b, &first);
        if (can_wait) {
            turner_join(&t);
            woken = turner_woken(&t);
        } else {
            await_turn(f, c, &op);
        }
        expect_ok(op.status, NULL);
        give_back(f, c, &op);
    }
    assert_true(woken);
}

/* Bob in the middle dies: Col, who waited for his bell, takes him off the queue and waits for Ann,
 * who is before both. */
static void test_waiter_in_the_middle_who_dies_is_passed_over(void **state)
{
    struct fixture *f = *state;
    void *a = another(f), *b = another(f), *c = another(f);
    rowlock_op held = grant_by_ticket(f, a, "lock", "ann", LONG_US);
    rowlock_op middle = queue_up(f, b, "lock", "bob"), op = queue_up(f, c, "lock", "col");
    if (op.before == 0)
        return;
    another_end(f, b);
    for (int i = 0; i < 5 && op.before == middle.ticket; i++)
        expect_status(ROWLOCK_BUSY, try_turn(f, c, &op, WAIT_MS), NULL);
    assert_int_equal(op.before, held.ticket);
    assert_false(in_queue(f, &middle));
    assert_true(in_queue(f, &op));
    give_back(f, a, &held);
    expect_ok(await_turn(f, c, &op), NULL);
}

static void test_head_who_dies_is_passed_over(void **state)
{
    struct fixture *f = *state;
    void *b = another(f), *c = another(f);
    rowlock_op head = queue_up(f, b, "lock", "bob"), op = queue_up(f, c, "lock", "col");
    if (op.before == 0)
        return;
    another_end(f, b);
    for (int i = 0; i < 5 && op.status == ROWLOCK_BUSY; i++)
        try_turn(f, c, &op, WAIT_MS);
    expect_ok(op.status, NULL);
    assert_false(in_queue(f, &head));
}

/* The holder's connection is gone, the lease is not: the bell has been heard, and to wait for it
 * once more would be to ask the database without end. */
static void test_bell_that_was_heard_is_not_waited_for_again(void **state)
{
    struct fixture *f = *state;
    void *a = another(f), *b = another(f);
    grant_by_ticket(f, a, "lock", "ann", LONG_US);
    rowlock_op op = queue_up(f, b, "lock", "bob");
    if (op.before == 0)
        return;
    another_end(f, a);
    int64_t began = now_us();
    int calls = 0;
    for (; calls < 8 && op.can_wait; calls++)
        expect_status(ROWLOCK_BUSY, try_turn(f, b, &op, 200), NULL);
    if (calls == 8) /* two may have been heard: the bell itself, and whatever came before it */
        expect_between(now_us() - began, 6 * 190000, 8 * SLACK_US);
    assert_string_equal(op.holder, "ann");
    expect_between(op.remaining_us, LONG_US - 2 * SLACK_US, LONG_US);
}

static void test_end_of_the_lease_serves_the_next(void **state)
{
    struct fixture *f = *state;
    void *a = another(f), *b = another(f);
    rowlock_op held = grant_by_ticket(f, a, "lock", "ann", 10 * SHORT_US);
    rowlock_op op = queue_up(f, b, "lock", "bob");
    expect_ok(await_turn(f, b, &op), NULL);
    assert_true(op.fence > held.fence);
    rowlock_op late = op_ringing(&held);
    expect_status(ROWLOCK_LOST, try_release(f, a, &late), NULL);
}

static void test_wait_that_passes_is_busy(void **state)
{
    struct fixture *f = *state;
    void *a = another(f), *b = another(f), *c = another(f);
    rowlock_op held = grant_by_ticket(f, a, "lock", "ann", LONG_US);
    rowlock_op ops[] = {queue_up(f, b, "lock", "bob"), queue_up(f, c, "lock", "col")};
    for (size_t i = 0; i < 2; i++) {
        uint64_t before = ops[i].before;
        int64_t began = now_us();
        if (!ops[i].can_wait)
            continue;
        expect_status(ROWLOCK_BUSY, try_turn(f, i == 0 ? b : c, &ops[i], 200), NULL);
        expect_between(now_us() - began, 190000, SLACK_US);
        assert_int_equal(ops[i].before, before);
        assert_int_equal(ops[i].can_wait, 1);
        assert_true(in_queue(f, &ops[i]));
    }
    give_back(f, a, &held); /* both can still be woken */
    expect_ok(await_turn(f, b, &ops[0]), NULL);
    give_back(f, b, &ops[0]);
    expect_ok(await_turn(f, c, &ops[1]), NULL);
}

static void test_readable_descriptor_ends_the_wait(void **state)
{
    struct fixture *f = *state;
    void *a = another(f), *b = another(f);
    rowlock_op held = grant_by_ticket(f, a, "lock", "ann", LONG_US);
    rowlock_op op = queue_up(f, b, "lock", "bob");
    if (!op.can_wait)
        return;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    int fds[] = {-1, ends[0]};
    struct turner t = turner_of(f, b, &op);
    t.calls = 1;
    t.fds = fds;
    t.n_fds = 2;
    turner_start(&t);
    sleep_us(100000);
    ssize_t wrote = write(ends[1], "x", 1);
    turner_join(&t);
    close(ends[0]);
    close(ends[1]);
    assert_int_equal(wrote, 1);
    expect_status(ROWLOCK_BUSY, op.status, NULL);
    expect_between(t.ended_us - t.began_us, 0, WAIT_MS * 1000 + SLACK_US);
    give_back(f, a, &held); /* and it can be waited on */
    expect_ok(await_turn(f, b, &op), NULL);
}

static const struct test_case cases[] = {
    CASE_IF(test_release_wakes_the_next, BACKEND_TICKETS),
    CASE_IF(test_release_of_several_wakes_the_next, BACKEND_TICKETS),
    CASE_IF(test_end_of_the_holders_connection_wakes_the_next, BACKEND_TICKETS),
    CASE_IF(test_connection_takes_one_ticket_after_another, BACKEND_TICKETS),
    CASE_IF(test_tickets_that_were_served_do_not_pile_up, BACKEND_TICKETS | BACKEND_SQL),
    CASE_IF(test_who_was_served_comes_again_behind_those_who_wait, BACKEND_TICKETS),
    CASE_IF(test_leaving_wakes_the_next, BACKEND_TICKETS),
    CASE_IF(test_waiter_in_the_middle_who_dies_is_passed_over, BACKEND_TICKETS),
    CASE_IF(test_head_who_dies_is_passed_over, BACKEND_TICKETS),
    CASE_IF(test_bell_that_was_heard_is_not_waited_for_again, BACKEND_TICKETS),
    CASE_IF(test_end_of_the_lease_serves_the_next, BACKEND_TICKETS),
    CASE_IF(test_wait_that_passes_is_busy, BACKEND_TICKETS),
    CASE_IF(test_readable_descriptor_ends_the_wait, BACKEND_TICKETS),
};

const struct suite queue_bell_suite = SUITE("queue_bell", cases);
