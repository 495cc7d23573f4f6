/* SPDX-License-Identifier: MIT
 *
 * A connection that was served by ticket takes the next one, which may be the old one's row: a new
 * number, a new bell, and everything that a ticket has to be. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "queue.h"

#define HOUR_US ((uint64_t)3600 * 1000000)
#define WAIT_MS ROWLOCK_TURN_MAX_MS

/* ---- the number ------------------------------------------------------------------------------ */

static void test_again_is_above_the_ticket_of_the_lock(void **state)
{
    struct fixture *f = *state;
    struct served s = served_before(f);
    sql_run(f, "UPDATE rowlock_locks SET ticket = ticket + 3600000000", NULL, 0);
    rowlock_op op = queue_up(f, s.b, "lock", "bob");
    assert_int_equal(op.ticket, s.last.ticket + HOUR_US + 1);
}

static void test_again_is_above_those_of_the_future(void **state)
{
    struct fixture *f = *state;
    struct served s = served_before(f);
    rowlock_op other = queue_up_for(f, "lock", "col", LONG_US);
    sql_run(f, "UPDATE rowlock_waiters SET ticket = ticket + 3600000000 WHERE owner = 'col'", NULL,
            0);
    rowlock_op op = queue_up(f, s.b, "lock", "bob");
    assert_int_equal(op.ticket, other.ticket + HOUR_US + 1);
}

/* What was left behind is used again only if it is past. Here it is not, any more. */
static void test_again_leaves_a_ticket_alone_that_is_not_past(void **state)
{
    struct fixture *f = *state;
    struct served s = served_before(f);
    sql_run(f, "UPDATE rowlock_locks SET ticket = 0", NULL, 0);
    int was_there = in_queue(f, &s.last);
    rowlock_op op = queue_up(f, s.b, "lock", "bob");
    assert_int_equal(in_queue(f, &s.last), was_there);
    assert_true(in_queue(f, &op) && op.ticket > s.last.ticket);
}

static void test_again_is_a_new_ticket_in_all(void **state)
{
    struct fixture *f = *state;
    struct served s = served_before(f);
    struct queue queue = {.count = 0};
    sql_run(f,
            "UPDATE rowlock_waiters"
            " SET since_time = since_time - 3600000000, expire_time = since_time",
            NULL, 0);
    rowlock_op op = queue_up(f, s.b, "lock", "eve");
    queue_read(f, &queue);
    assert_int_equal(queue.count, 1);
    assert_int_equal(queue.places[0].ticket, op.ticket);
    assert_string_equal(queue.places[0].owner, "eve");
    expect_between(queue.places[0].waited_ms, 0, SLACK_US / 1000);
    expect_between(queue.places[0].remaining_ms, (LONG_US - SLACK_US) / 1000, LONG_US / 1000);
    sql_run(f, "UPDATE rowlock_waiters SET expire_time = since_time - 1", NULL, 0);
    expect_status(ROWLOCK_LOST, try_turn(f, s.b, &op, 0), NULL);
    op = queue_up(f, s.b, "lock", "eve");
    expect_ok(await_turn(f, s.b, &op), NULL);
    assert_string_equal(row_of(f, "lock").owner, "eve");
}

/* ---- the mark -------------------------------------------------------------------------------- */

static void test_again_keeps_newcomers_away(void **state)
{
    struct fixture *f = *state;
    struct served s = served_before(f);
    sql_run(f, "UPDATE rowlock_locks SET wait_until = 0", NULL, 0);
    rowlock_op op = queue_up(f, s.b, "lock", "bob"), plain = op_new("lock", "col");
    expect_status(ROWLOCK_BUSY, try_acquire(f, f->conn, &plain), NULL);
    assert_int_equal(plain.is_queue, 1);
    expect_ok(await_turn(f, s.b, &op), NULL);
}

/* The mark ends before the ticket would. */
static void test_again_renews_a_mark_that_is_too_short(void **state)
{
    struct fixture *f = *state;
    struct served s = served_before(f);
    char sql[160], out[64];
    snprintf(sql, sizeof(sql), "UPDATE rowlock_locks SET wait_until = acquire_time + %lld",
             (long long)SLACK_US);
    sql_run(f, sql, NULL, 0);
    queue_up(f, s.b, "lock", "bob");
    sql_run(f, "SELECT MAX(wait_until - acquire_time) FROM rowlock_locks", out, sizeof(out));
    assert_true(strtoll(out, NULL, 10) > LONG_US / 2);
}

/* ---- the bell -------------------------------------------------------------------------------- */

static void test_again_has_a_bell(void **state)
{
    struct fixture *f = *state;
    struct served s = served_before(f);
    void *c = another(f);
    rowlock_op op = queue_up(f, s.b, "lock", "bob"), next = queue_up(f, c, "lock", "col");
    if (!s.has_bells)
        return;
    assert_int_equal(op.rings, 1);
    assert_int_equal(next.before, op.ticket);
    assert_int_equal(next.can_wait, 1);
    expect_status(ROWLOCK_BUSY, try_turn(f, c, &next, 200), NULL); /* it has not rung */
    try_leave(f, s.b, &op);
    expect_ok(try_turn(f, c, &next, WAIT_MS), NULL);
}

static void test_again_without_a_bell_has_none(void **state)
{
    struct fixture *f = *state;
    struct served s = served_before(f);
    rowlock_op op = op_new("lock", "bob");
    expect_ok(f->driver->enqueue(s.b, &op, 1, LONG_US, 0, CALL_MS, &f->err), &f->err);
    assert_true(in_queue(f, &op) && !op.rings && !op.can_wait);
    rowlock_op next = queue_up(f, s.a, "lock", "ann");
    assert_true(next.ticket > op.ticket);
    assert_true(!s.has_bells || !next.can_wait);
}

/* Bob's lease has ended unnoticed. Col waits for his bell, which he would keep for ever. */
static void test_again_rings_the_bell_that_was_left(void **state)
{
    struct fixture *f = *state;
    struct served s = served_before(f);
    rowlock_op held = grant_by_ticket(f, s.a, "lock", "ann", LONG_US);
    rowlock_op op = queue_up(f, s.b, "lock", "bob");
    give_back(f, s.a, &held);
    expect_ok(await_turn(f, s.b, &op), NULL);
    rowlock_op next = queue_up(f, s.a, "lock", "col");
    if (!s.has_bells)
        return;
    assert_int_equal(next.before, op.ticket);
    sql_run(f, "UPDATE rowlock_locks SET expire_time = acquire_time", NULL, 0);
    queue_up(f, s.b, "lock", "bob");
    expect_ok(try_turn(f, s.a, &next, WAIT_MS), NULL);
}

/* Where the number alone is the key of a bell, those of two locks may have it in common. Who has
 * none is not to be waited for by it. */
static void test_again_whose_bell_is_anothers_says_so(void **state)
{
    struct fixture *f = *state;
    struct served s = served_before(f);
    void *c = another(f), *d = another(f);
    grant_released(f, "other", "dan");
    sql_run(f, "UPDATE rowlock_locks SET ticket = 5000000000000000", NULL, 0);
    rowlock_op other = queue_up(f, c, "other", "dan"), op = queue_up(f, s.b, "lock", "bob");
    rowlock_op next = queue_up(f, d, "lock", "col");
    assert_int_equal(op.ticket, other.ticket);
    if (!s.has_bells)
        return;
    assert_int_equal(next.before, op.ticket);
    assert_int_equal(next.can_wait, op.rings);
    expect_status(ROWLOCK_BUSY, try_turn(f, d, &next, 0), NULL);
    try_leave(f, s.b, &op);
    expect_ok(try_turn(f, d, &next, next.can_wait ? WAIT_MS : 0), NULL);
    expect_ok(await_turn(f, c, &other), NULL);
}

/* A transaction that ends while somebody waits for what it has changed, and before that is given
 * up. */
struct change {
    struct fixture *f;
    void *session;
    int rc;
};

static void *commit_soon(void *arg)
{
    struct change *c = arg;
    sleep_us(SHORT_US);
    c->rc = c->f->backend->kind->sql_run(c->session, "COMMIT", NULL, 0);
    return NULL;
}

/* The life of the ticket that was left is prolonged at this moment, as its process does for all
 * that it knows of. A bell that was hung up twice would stay silent when it is rung. */
static void test_again_has_one_bell_although_the_row_was_locked(void **state)
{
    struct fixture *f = *state;
    struct served s = served_before(f);
    struct change change = {.f = f, .session = sql_begin(f), .rc = -1};
    void *c = another(f);
    pthread_t thread;
    sql_in(f, change.session, "BEGIN");
    sql_in(f, change.session, "UPDATE rowlock_waiters SET expire_time = expire_time + 1");
    assert_int_equal(pthread_create(&thread, NULL, commit_soon, &change), 0);
    rowlock_op op = op_new("lock", "bob");
    int status = f->driver->enqueue(s.b, &op, 1, LONG_US, 1, CALL_MS, &f->err);
    pthread_join(thread, NULL);
    expect_ok(status, &f->err);
    assert_int_equal(change.rc, 0);
    rowlock_op next = queue_up(f, c, "lock", "col");
    if (!s.has_bells)
        return;
    assert_int_equal(next.before, op.ticket);
    expect_ok(await_turn(f, s.b, &op), NULL);
    give_back(f, s.b, &op);
    expect_ok(try_turn(f, c, &next, WAIT_MS), NULL);
}

/* ---- the place ------------------------------------------------------------------------------- */

/* Col holds, whose ticket was deleted. That of Bob, who was served before, is past. */
static void test_again_waits_for_the_holder(void **state)
{
    struct fixture *f = *state;
    struct served s = served_before(f);
    void *c = another(f);
    rowlock_op op = queue_up(f, s.a, "lock", "ann"), other = queue_up(f, s.b, "lock", "bob");
    rowlock_op last = queue_up(f, c, "lock", "col");
    expect_ok(await_turn(f, s.a, &op), NULL);
    give_back(f, s.a, &op);
    expect_ok(await_turn(f, s.b, &other), NULL);
    give_back(f, s.b, &other);
    expect_ok(await_turn(f, c, &last), NULL);
    sql_run(f, "DELETE FROM rowlock_waiters WHERE owner = 'col'", NULL, 0);
    op = queue_up(f, s.a, "lock", "ann");
    assert_string_equal(op.holder, "col");
    expect_between(op.remaining_us, LONG_US - SLACK_US, LONG_US);
    assert_int_equal(op.before, s.has_bells ? last.ticket : 0);
    give_back(f, c, &last);
    expect_ok(await_turn(f, s.a, &op), NULL);
}

static void test_again_waits_for_the_last_who_lives(void **state)
{
    struct fixture *f = *state;
    struct served s = served_before(f);
    void *c = another(f);
    grant(f, "lock", "dan");
    rowlock_op other = queue_up(f, c, "lock", "col");
    queue_up_dead(f, "lock", "zoe");
    rowlock_op op = queue_up(f, s.b, "lock", "bob");
    assert_int_equal(op.before, s.has_bells ? other.ticket : 0);
    expect_between(op.remaining_us, LONG_US - SLACK_US, LONG_US);
}

static void test_again_cannot_wait_for_one_without_a_bell(void **state)
{
    struct fixture *f = *state;
    struct served s = served_before(f);
    rowlock_op other = queue_up_for(f, "lock", "col", LONG_US);
    rowlock_op op = queue_up(f, s.b, "lock", "bob");
    assert_true(!s.has_bells || !op.can_wait);
    try_leave(f, f->conn, &other);
    expect_ok(await_turn(f, s.b, &op), NULL);
}

/* The holder came without a ticket: the row's ticket names nobody's bell. */
static void test_again_behind_a_plain_holder_has_no_bell_to_wait_for(void **state)
{
    struct fixture *f = *state;
    struct served s = served_before(f);
    rowlock_op held = grant(f, "lock", "dan"), op = queue_up(f, s.b, "lock", "bob");
    assert_int_equal(op.before, 0);
    assert_string_equal(op.holder, "dan");
    expect_between(op.remaining_us, LONG_US - SLACK_US, LONG_US);
    give_back(f, f->conn, &held);
    expect_ok(await_turn(f, s.b, &op), NULL);
}

static void test_again_for_another_lock_is_in_its_queue(void **state)
{
    struct fixture *f = *state;
    struct served s = served_before(f);
    grant_released(f, "other", "dan");
    rowlock_op op = queue_up(f, s.b, "other", "bob");
    assert_true(in_queue(f, &op));
    expect_ok(await_turn(f, s.b, &op), NULL);
    assert_string_equal(row_of(f, "other").owner, "bob");
    assert_int_equal(row_of(f, "lock").hold_count, 0);
    give_back(f, s.b, &op);
    op = queue_up(f, s.b, "lock", "bob");
    assert_true(in_queue(f, &op));
    expect_ok(await_turn(f, s.b, &op), NULL);
}

/* ---- what is left behind --------------------------------------------------------------------- */

#define MOMENT_US ((int64_t)3 * 1000000)

static void test_again_does_not_wait_for_a_locked_lock(void **state)
{
    struct fixture *f = *state;
    struct served s = served_before(f);
    void *session = sql_begin(f);
    sql_in(f, session, "BEGIN");
    sql_in(f, session, "SELECT fence FROM rowlock_locks WHERE name = 'lock' FOR UPDATE");
    int64_t began = now_us();
    rowlock_op op = queue_up(f, s.b, "lock", "bob");
    expect_between(now_us() - began, 0, MOMENT_US);
    assert_true(in_queue(f, &op));
}

/* Without the row that says so a ticket would not be past any more. */
static void test_reap_takes_tickets_that_are_past_by_the_row(void **state)
{
    struct fixture *f = *state;
    queue_clear(f);
    struct served s = served_before(f);
    rowlock_op other = queue_up_for(f, "lock", "col", LONG_US);
    sql_run(f, "UPDATE rowlock_locks SET ticket = ticket + 3600000000", NULL, 0);
    rowlock_op live = queue_up_for(f, "lock", "dan", LONG_US);
    assert_true(!in_queue(f, &other) && in_queue(f, &live));
    assert_int_equal(reap(f, 1, 100), 1);
    assert_false(row_exists(f, "lock"));
    assert_true(!in_queue(f, &other) && !in_queue(f, &s.last) && in_queue(f, &live));
    expect_ok(try_turn(f, f->conn, &live, 0), NULL);
}

#define SQL (BACKEND_TICKETS | BACKEND_SQL)

static const struct test_case cases[] = {
    CASE_IF(test_again_is_above_the_ticket_of_the_lock, SQL),
    CASE_IF(test_again_is_above_those_of_the_future, SQL),
    CASE_IF(test_again_leaves_a_ticket_alone_that_is_not_past, SQL),
    CASE_IF(test_again_is_a_new_ticket_in_all, SQL),
    CASE_IF(test_again_keeps_newcomers_away, SQL),
    CASE_IF(test_again_renews_a_mark_that_is_too_short, SQL),
    CASE_IF(test_again_has_a_bell, BACKEND_TICKETS),
    CASE_IF(test_again_without_a_bell_has_none, BACKEND_TICKETS),
    CASE_IF(test_again_rings_the_bell_that_was_left, SQL),
    CASE_IF(test_again_whose_bell_is_anothers_says_so, SQL),
    CASE_IF(test_again_has_one_bell_although_the_row_was_locked, SQL | BACKEND_ROW_LOCKS),
    CASE_IF(test_again_waits_for_the_holder, SQL),
    CASE_IF(test_again_waits_for_the_last_who_lives, BACKEND_TICKETS),
    CASE_IF(test_again_cannot_wait_for_one_without_a_bell, BACKEND_TICKETS),
    CASE_IF(test_again_behind_a_plain_holder_has_no_bell_to_wait_for, BACKEND_TICKETS),
    CASE_IF(test_again_for_another_lock_is_in_its_queue, BACKEND_TICKETS),
    CASE_IF(test_again_does_not_wait_for_a_locked_lock, SQL | BACKEND_ROW_LOCKS),
    CASE_IF(test_reap_takes_tickets_that_are_past_by_the_row, SQL),
};

const struct suite queue_again_suite = SUITE("queue_again", cases);
