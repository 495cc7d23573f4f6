/* SPDX-License-Identifier: MIT
 *
 * The slot exchange with one name in both halves: a lock that goes from owner to owner. Whatever
 * stands in the way of that, each half is answered as if it had come alone. */
#include "queue.h"

#define NOTE "of the next one"

/* Ann's hold goes to bob, on that connection. */
static rowlock_op hand_over(struct fixture *f, void *conn, rowlock_op *back)
{
    rowlock_op op = op_new("lock", "bob");
    op.note = NOTE;
    op.ttl_us = LONG_US / 2;
    memset(op.holder, 'x', sizeof(op.holder)); /* answers must be written */
    op.hold_count = 77;
    back->hold_count = 77;
    back->status = INT32_MIN;
    ops_exchange(f, conn, back, 1, &op, 1);
    return op;
}

static void expect_handed(struct fixture *f, const rowlock_op *back, const rowlock_op *op)
{
    expect_ok(back->status, NULL);
    assert_int_equal(back->hold_count, 0);
    expect_ok(op->status, NULL);
    assert_int_equal(op->hold_count, 1);
    assert_true(op->fence > back->fence);
    expect_between(op->remaining_us, LONG_US / 2 - SLACK_US, LONG_US / 2);
    struct row row = row_of(f, "lock");
    assert_string_equal(row.owner, "bob");
    assert_string_equal(row.note, NOTE);
    assert_int_equal(row.fence, op->fence);
    assert_int_equal(row.hold_count, 1);
    expect_between(row.held_ms, 0, SLACK_US / 1000);
    expect_between(row.remaining_ms, (LONG_US / 2 - SLACK_US) / 1000, LONG_US / 2000);
}

/* ---- nobody else ----------------------------------------------------------------------------- */

static void test_hand_over_begins_a_tenure_of_its_own(void **state)
{
    struct fixture *f = *state;
    rowlock_op held = op_new("lock", "ann");
    held.note = "of the first one";
    expect_ok(try_acquire(f, f->conn, &held), NULL);
    sleep_us(50000);
    rowlock_op back = op_of(&held);
    int64_t began = now_us();
    rowlock_op op = hand_over(f, f->conn, &back);
    expect_handed(f, &back, &op);
    int64_t held_ms = row_of(f, "lock").held_ms; /* since the hand-over, and not since ann came */
    expect_between(held_ms, 0, (now_us() - began) / 1000 + 20);
    rowlock_op late = op_of(&held);
    expect_status(ROWLOCK_LOST, try_renew(f, f->conn, &late), NULL);
    give_back(f, f->conn, &op);
}

/* A lease that has less left than the next one's, and one that has more. */
static void test_hand_over_takes_the_next_ones_lease(void **state)
{
    static const int64_t ttls[] = {LONG_US / 10, LONG_US * 10};
    struct fixture *f = *state;
    for (size_t i = 0; i < COUNT(ttls); i++) {
        rowlock_op held = grant_for(f, "lock", "ann", ttls[i]);
        rowlock_op back = op_of(&held);
        rowlock_op op = hand_over(f, f->conn, &back);
        expect_handed(f, &back, &op);
        give_back(f, f->conn, &op);
    }
}

static void test_hand_over_of_what_was_seen(void **state)
{
    struct fixture *f = *state;
    rowlock_op held = grant(f, "lock", "ann"), back = op_of(&held);
    memcpy(back.seen, held.attempt, sizeof(back.seen));
    rowlock_op op = hand_over(f, f->conn, &back);
    expect_handed(f, &back, &op);
}

/* ---- holds that are not the last, or not there ----------------------------------------------- */

static void test_hand_over_of_one_of_two_holds(void **state)
{
    struct fixture *f = *state;
    rowlock_op held = grant(f, "lock", "ann");
    grant(f, "lock", "ann");
    rowlock_op back = op_of(&held);
    rowlock_op op = hand_over(f, f->conn, &back);
    expect_ok(back.status, NULL);
    assert_int_equal(back.hold_count, 1);
    expect_status(ROWLOCK_BUSY, op.status, NULL);
    assert_string_equal(op.holder, "ann");
    assert_int_equal(op.holder_fence, held.fence);
    assert_int_equal(op.is_queue, 0);
    assert_string_equal(row_of(f, "lock").owner, "ann");
    assert_int_equal(row_of(f, "lock").fence, held.fence);
    assert_int_equal(row_of(f, "lock").hold_count, 1);
    back = op_of(&held); /* the last one can be had */
    op = hand_over(f, f->conn, &back);
    expect_handed(f, &back, &op);
}

/* The lease has ended, and cid has the lock; or the fence is another. */
static void test_hand_over_of_what_another_holds(void **state)
{
    struct fixture *f = *state;
    rowlock_op old = grant_expired(f, "lock", "ann"), held = grant(f, "lock", "cid");
    rowlock_op backs[] = {op_of(&old), op_of(&held), op_of(&held)};
    backs[1].fence = old.fence;
    backs[2].owner = "ann";
    for (size_t i = 0; i < COUNT(backs); i++) {
        rowlock_op op = hand_over(f, f->conn, &backs[i]);
        expect_status(ROWLOCK_LOST, backs[i].status, NULL);
        expect_status(ROWLOCK_BUSY, op.status, NULL);
        assert_string_equal(op.holder, "cid");
        assert_int_equal(op.holder_fence, held.fence);
        assert_int_equal(op.is_queue, 0);
        assert_int_equal(row_of(f, "lock").fence, held.fence);
        assert_int_equal(row_of(f, "lock").hold_count, 1);
    }
}

/* Nobody holds it: what was lost is not given back, and what is free is taken. */
static void test_hand_over_of_what_has_ended(void **state)
{
    struct fixture *f = *state;
    rowlock_op held = grant_expired(f, "lock", "ann"), back = op_of(&held);
    rowlock_op op = hand_over(f, f->conn, &back);
    expect_status(ROWLOCK_LOST, back.status, NULL);
    expect_ok(op.status, NULL);
    assert_true(op.fence > held.fence);
    assert_int_equal(row_of(f, "lock").fence, op.fence);
}

/* Another of the same owner has changed the row since it was seen. */
static void test_hand_over_of_what_has_changed_since(void **state)
{
    struct fixture *f = *state;
    rowlock_op held = grant(f, "lock", "ann"), back = op_of(&held);
    memset(back.seen, 0x5a, sizeof(back.seen));
    rowlock_op op = hand_over(f, f->conn, &back);
    expect_status(ROWLOCK_BUSY, back.status, NULL);
    assert_memory_equal(back.seen, held.attempt, sizeof(back.seen));
    expect_status(ROWLOCK_BUSY, op.status, NULL);
    assert_string_equal(op.holder, "ann");
    assert_int_equal(row_of(f, "lock").fence, held.fence);
    assert_int_equal(row_of(f, "lock").hold_count, 1);
    op = hand_over(f, f->conn, &back); /* now it has been seen */
    expect_handed(f, &back, &op);
}

/* A release that was carried out is not carried out again on the hold that is left. */
static void test_hand_over_that_repeats_a_release(void **state)
{
    struct fixture *f = *state;
    rowlock_op held = grant(f, "lock", "ann");
    grant(f, "lock", "ann");
    rowlock_op back = op_of(&held);
    expect_ok(try_release(f, f->conn, &back), NULL);
    rowlock_op op = hand_over(f, f->conn, &back);
    expect_ok(back.status, NULL);
    assert_int_equal(back.hold_count, 1);
    expect_status(ROWLOCK_BUSY, op.status, NULL);
    assert_int_equal(row_of(f, "lock").hold_count, 1);
    assert_string_equal(row_of(f, "lock").owner, "ann");
}

#define LOCK_ROW "SELECT fence FROM rowlock_locks WHERE name = 'lock' FOR UPDATE"

/* Somebody's transaction keeps the row locked: that is over soon, and can be said once more. */
static void test_hand_over_of_a_row_that_is_locked(void **state)
{
    struct fixture *f = *state;
    rowlock_op held = grant(f, "lock", "ann"), back = op_of(&held), op = op_new("lock", "bob");
    op.note = NOTE;
    op.ttl_us = LONG_US / 2;
    void *session = sql_begin(f);
    sql_in(f, session, "BEGIN");
    sql_in(f, session, LOCK_ROW);
    int status = INT32_MIN;
    expect_soon(3000000, status = f->driver->exchange(f->conn, &back, 1, &op, 1, CALL_MS, &f->err));
    sql_end(f, session);
    if (status == ROWLOCK_OK) {
        expect_status(ROWLOCK_BUSY, back.status, NULL);
        expect_status(ROWLOCK_BUSY, op.status, NULL);
    } else {
        expect_status(ROWLOCK_EDRIVER, status, &f->err);
        assert_int_equal(f->err.retryable, 1);
    }
    assert_int_equal(row_of(f, "lock").fence, held.fence);
    ops_exchange(f, f->conn, &back, 1, &op, 1);
    expect_handed(f, &back, &op);
}

/* ---- those who wait -------------------------------------------------------------------------- */

/* Cid has a ticket, with a bell or without: the lock is his. */
static void hand_over_past(struct fixture *f, void *conn, rowlock_op *back, void *c,
                           rowlock_op *cid)
{
    rowlock_op op = hand_over(f, conn, back);
    expect_ok(back->status, NULL);
    assert_int_equal(back->hold_count, 0);
    expect_status(ROWLOCK_BUSY, op.status, NULL);
    assert_int_equal(op.is_queue, 1);
    assert_int_equal(row_of(f, "lock").hold_count, 0);
    expect_ok(await_turn(f, c, cid), NULL);
    assert_true(cid->fence > back->fence);
    give_back(f, c, cid);
}

static void test_hand_over_leaves_the_lock_to_who_waits(void **state)
{
    struct fixture *f = *state;
    void *c = another(f);
    rowlock_op held = grant(f, "lock", "ann"), back = op_of(&held);
    rowlock_op cid = queue_up(f, c, "lock", "cid");
    hand_over_past(f, f->conn, &back, c, &cid);
    held = grant(f, "lock", "ann");
    back = op_of(&held);
    cid = queue_up_for(f, "lock", "cid", LONG_US);
    hand_over_past(f, f->conn, &back, f->conn, &cid);
}

static void test_hand_over_by_ticket_leaves_the_lock_to_who_waits(void **state)
{
    struct fixture *f = *state;
    void *a = another(f), *c = another(f);
    rowlock_op held = grant_by_ticket(f, a, "lock", "ann", LONG_US), back = op_ringing(&held);
    rowlock_op cid = queue_up(f, c, "lock", "cid");
    hand_over_past(f, a, &back, c, &cid);
}

/* The mark on the row lasts longer than those who waited, who have gone or died. */
static void test_hand_over_passes_the_mark_of_who_has_gone(void **state)
{
    struct fixture *f = *state;
    void *c = another(f);
    rowlock_op held = grant(f, "lock", "ann"), back = op_of(&held);
    rowlock_op cid = queue_up(f, c, "lock", "cid");
    try_leave(f, c, &cid);
    rowlock_op op = hand_over(f, f->conn, &back);
    expect_handed(f, &back, &op);
    queue_up_dead(f, "lock", "cid");
    back = op_of(&op);
    op = hand_over(f, f->conn, &back);
    expect_ok(back.status, NULL);
    expect_ok(op.status, NULL);
}

static void test_hand_over_passes_who_waits_for_another_lock(void **state)
{
    struct fixture *f = *state;
    rowlock_op held = grant(f, "lock", "ann"), back = op_of(&held);
    rowlock_op gone = queue_up_for(f, "lock", "cid", LONG_US); /* which marks the row */
    try_leave(f, f->conn, &gone);
    grant(f, "lock2", "ann");
    queue_up_for(f, "lock2", "cid", LONG_US);
    rowlock_op op = hand_over(f, f->conn, &back);
    expect_handed(f, &back, &op);
}

/* ---- bells ----------------------------------------------------------------------------------- */

#define TRIES 3 /* the machine may be too busy to tell a call from a wait that passed */

/* Ann came by ticket, and gives the lock to bob, and her bell up. Cid comes, finds no bell of bob's
 * to wait for in vain, and is woken when bob goes. */
static int play_bell(struct fixture *f, void *a, void *c)
{
    rowlock_op held = grant_by_ticket(f, a, "lock", "ann", LONG_US), back = op_ringing(&held);
    rowlock_op op = hand_over(f, a, &back);
    expect_handed(f, &back, &op);
    rowlock_op cid = queue_up(f, c, "lock", "cid");
    assert_true(cid.before != held.ticket || held.ticket == 0);
    struct turner t = {.f = f, .conn = c, .op = &cid, .wait_ms = ROWLOCK_TURN_MAX_MS, .calls = 5};
    expect_status(ROWLOCK_BUSY, try_turn(f, c, &cid, 0), NULL);
    assert_string_equal(cid.holder, "bob");
    int can_wait = cid.can_wait;
    if (can_wait) {
        turner_start(&t);
        sleep_us(100000);
    }
    give_back(f, f->conn, &op);
    if (can_wait)
        turner_join(&t);
    else
        await_turn(f, c, &cid);
    expect_ok(cid.status, NULL);
    assert_true(cid.fence > op.fence);
    give_back(f, c, &cid);
    return !can_wait || turner_woken(&t);
}

static void test_hand_over_gives_the_bell_up(void **state)
{
    struct fixture *f = *state;
    void *a = another(f), *c = another(f);
    int woken = 0;
    for (int i = 0; i < TRIES && !woken; i++)
        woken = play_bell(f, a, c);
    assert_true(woken);
}

/* Cid waits for ann's bell, and has the lock when she wants to give it to bob. */
static int play_refusal(struct fixture *f, void *a, void *c)
{
    rowlock_op held = grant_by_ticket(f, a, "lock", "ann", LONG_US), back = op_ringing(&held);
    rowlock_op cid = queue_up(f, c, "lock", "cid");
    struct turner t = {.f = f, .conn = c, .op = &cid, .wait_ms = ROWLOCK_TURN_MAX_MS, .calls = 5};
    int can_wait = cid.can_wait;
    if (can_wait) {
        turner_start(&t);
        sleep_us(100000);
    }
    rowlock_op op = hand_over(f, a, &back);
    if (can_wait)
        turner_join(&t);
    else
        await_turn(f, c, &cid);
    expect_ok(back.status, NULL);
    expect_status(ROWLOCK_BUSY, op.status, NULL);
    expect_ok(cid.status, NULL);
    give_back(f, c, &cid);
    return !can_wait || turner_woken(&t);
}

static void test_hand_over_that_is_refused_rings_the_bell(void **state)
{
    struct fixture *f = *state;
    void *a = another(f), *c = another(f);
    int woken = 0;
    for (int i = 0; i < TRIES && !woken; i++)
        woken = play_refusal(f, a, c);
    assert_true(woken);
}

/* A connection that has given its bell up takes a ticket, and has a bell, as any other. */
static void test_connection_that_gave_its_bell_up_waits_again(void **state)
{
    struct fixture *f = *state;
    void *a = another(f), *c = another(f);
    for (int i = 0; i < 5; i++) {
        rowlock_op held = grant_by_ticket(f, a, "lock", "ann", LONG_US), back = op_ringing(&held);
        rowlock_op op = hand_over(f, a, &back);
        expect_handed(f, &back, &op);
        rowlock_op ann = queue_up(f, a, "lock", "ann"), cid = queue_up(f, c, "lock", "cid");
        assert_int_equal(ann.rings, cid.rings);
        assert_true(cid.ticket > ann.ticket);
        give_back(f, f->conn, &op);
        expect_ok(await_turn(f, a, &ann), NULL);
        give_back(f, a, &ann);
        expect_ok(await_turn(f, c, &cid), NULL);
        give_back(f, c, &cid);
    }
}

#define QUEUE (BACKEND_EXCHANGE | BACKEND_TICKETS)
#define ROWS  (BACKEND_EXCHANGE | BACKEND_SQL | BACKEND_ROW_LOCKS)

static const struct test_case cases[] = {
    CASE_IF(test_hand_over_begins_a_tenure_of_its_own, BACKEND_EXCHANGE),
    CASE_IF(test_hand_over_takes_the_next_ones_lease, BACKEND_EXCHANGE),
    CASE_IF(test_hand_over_of_what_was_seen, BACKEND_EXCHANGE),
    CASE_IF(test_hand_over_of_one_of_two_holds, BACKEND_EXCHANGE),
    CASE_IF(test_hand_over_of_what_another_holds, BACKEND_EXCHANGE),
    CASE_IF(test_hand_over_of_what_has_ended, BACKEND_EXCHANGE),
    CASE_IF(test_hand_over_of_what_has_changed_since, BACKEND_EXCHANGE),
    CASE_IF(test_hand_over_that_repeats_a_release, BACKEND_EXCHANGE),
    CASE_IF(test_hand_over_of_a_row_that_is_locked, ROWS),
    CASE_IF(test_hand_over_leaves_the_lock_to_who_waits, QUEUE),
    CASE_IF(test_hand_over_by_ticket_leaves_the_lock_to_who_waits, QUEUE),
    CASE_IF(test_hand_over_passes_the_mark_of_who_has_gone, QUEUE),
    CASE_IF(test_hand_over_passes_who_waits_for_another_lock, QUEUE),
    CASE_IF(test_hand_over_gives_the_bell_up, QUEUE),
    CASE_IF(test_hand_over_that_is_refused_rings_the_bell, QUEUE),
    CASE_IF(test_connection_that_gave_its_bell_up_waits_again, QUEUE),
};

const struct suite exchange_hand_suite = SUITE("exchange_hand", cases);
