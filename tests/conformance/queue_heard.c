/* SPDX-License-Identifier: MIT
 *
 * A bell that was heard is a word to try, and no more: the lock goes to who is first, lives and has
 * not been served. */
#include "queue.h"

#define WAIT_MS ROWLOCK_TURN_MAX_MS

/* Ann holds by ticket, Bob waits for her bell. */
struct pair {
    void *a, *b;
    rowlock_op held, op;
};

static struct pair pair_open(struct fixture *f)
{
    struct pair p = {.a = another(f), .b = another(f)};
    p.held = grant_by_ticket(f, p.a, "lock", "ann", LONG_US);
    p.op = queue_up(f, p.b, "lock", "bob");
    return p;
}

/* Bob's ticket is spoiled by a statement. Ann gives the lock back: it stays free. */
static void play_spoiled(struct fixture *f, const char *sql)
{
    struct pair p = pair_open(f);
    if (p.op.before == 0)
        return;
    sql_run(f, sql, NULL, 0);
    give_back(f, p.a, &p.held);
    expect_status(ROWLOCK_LOST, try_turn(f, p.b, &p.op, WAIT_MS), NULL);
    assert_int_equal(row_of(f, "lock").hold_count, 0);
    assert_int_equal(row_of(f, "lock").fence, p.held.fence);
}

static void test_bell_is_not_for_a_ticket_of_the_past(void **state)
{
    play_spoiled(*state, "UPDATE rowlock_locks SET ticket = ticket + 3600000000");
}

static void test_bell_is_not_for_a_ticket_that_has_died(void **state)
{
    play_spoiled(*state, "UPDATE rowlock_waiters SET expire_time = since_time - 1000000");
}

/* Who came in between is not seen by everybody at the same moment: Col waits for the bell that Bob
 * waits for. */
static void test_bell_is_for_the_lowest_ticket(void **state)
{
    struct fixture *f = *state;
    struct pair p = pair_open(f);
    void *c = another(f);
    rowlock_op last = queue_up(f, c, "lock", "col");
    if (last.before == 0)
        return;
    last.before = p.op.before;
    give_back(f, p.a, &p.held);
    expect_status(ROWLOCK_BUSY, try_turn(f, c, &last, WAIT_MS), NULL);
    assert_string_equal(last.holder, "");
    expect_ok(await_turn(f, p.b, &p.op), NULL);
    give_back(f, p.b, &p.op);
    expect_ok(await_turn(f, c, &last), NULL);
}

/* The lock is free and Bob is about to take it, when Col dies: Dan has heard that, and is not next.
 */
static void test_bell_of_one_who_died_is_not_that_of_the_holder(void **state)
{
    struct fixture *f = *state;
    void *b = another(f), *c = another(f), *d = another(f);
    grant_released(f, "lock", "ann");
    rowlock_op first = queue_up(f, b, "lock", "bob");
    queue_up(f, c, "lock", "col");
    rowlock_op last = queue_up(f, d, "lock", "dan");
    if (last.before == 0)
        return;
    another_end(f, c);
    expect_status(ROWLOCK_BUSY, try_turn(f, d, &last, WAIT_MS), NULL);
    expect_ok(try_turn(f, b, &first, 0), NULL);
    give_back(f, b, &first);
}

/* Who waits behind is not in the way. */
static void test_bell_is_heard_whoever_is_behind(void **state)
{
    struct fixture *f = *state;
    struct pair p = pair_open(f);
    rowlock_op last = queue_up_for(f, "lock", "col", LONG_US);
    give_back(f, p.a, &p.held);
    expect_ok(await_turn(f, p.b, &p.op), NULL);
    assert_true(p.op.fence > p.held.fence);
    assert_true(in_queue(f, &last) && !in_queue(f, &p.op));
    expect_status(ROWLOCK_BUSY, try_turn(f, f->conn, &last, 0), NULL);
    assert_string_equal(last.holder, "bob");
}

/* Its row may be left, and live; nobody is to be served by it again. */
static void test_turn_by_a_bell_uses_the_ticket_up(void **state)
{
    struct fixture *f = *state;
    struct pair p = pair_open(f);
    give_back(f, p.a, &p.held);
    expect_ok(await_turn(f, p.b, &p.op), NULL);
    assert_false(in_queue(f, &p.op));
    rowlock_op op = p.op;
    give_back(f, p.b, &p.op);
    expect_status(ROWLOCK_LOST, try_look(f, &op, 0), NULL);
    expect_status(ROWLOCK_LOST, try_look(f, &op, LONG_US), NULL);
    expect_status(ROWLOCK_LOST, try_turn(f, p.b, &op, 0), NULL);
    expect_status(ROWLOCK_LOST, try_turn(f, f->conn, &op, 0), NULL);
    assert_int_equal(row_of(f, "lock").hold_count, 0);
}

/* The same attempt on another connection, as after a reply that was lost; and when all is over. */
static void test_turn_by_a_bell_can_be_repeated(void **state)
{
    struct fixture *f = *state;
    struct pair p = pair_open(f);
    give_back(f, p.a, &p.held);
    expect_ok(await_turn(f, p.b, &p.op), NULL);
    rowlock_op again = p.op;
    for (int i = 0; i < 2; i++) {
        expect_ok(try_turn(f, f->conn, &again, 0), NULL);
        assert_int_equal(again.fence, p.op.fence);
        assert_int_equal(again.hold_count, 1);
    }
    give_back(f, p.b, &p.op);
    expect_status(ROWLOCK_LOST, try_turn(f, f->conn, &again, 0), NULL);
    assert_int_equal(row_of(f, "lock").hold_count, 0);
}

/* The lease has ended, its holder's connection too, and somebody keeps the row locked. */
static void test_bell_beside_a_locked_row_is_heard_for_nothing(void **state)
{
    struct fixture *f = *state;
    struct pair p = pair_open(f);
    if (p.op.before == 0)
        return;
    sql_run(f, "UPDATE rowlock_locks SET expire_time = acquire_time", NULL, 0);
    void *session = sql_begin(f);
    sql_in(f, session, "BEGIN");
    sql_in(f, session, "SELECT fence FROM rowlock_locks WHERE name = 'lock' FOR UPDATE");
    another_end(f, p.a);
    expect_status(ROWLOCK_BUSY, try_turn(f, p.b, &p.op, WAIT_MS), NULL);
    assert_true(in_queue(f, &p.op));
    sql_end(f, session);
    expect_ok(await_turn(f, p.b, &p.op), NULL);
}

/* Tickets are read, and not locked: those who come and go meanwhile are in nobody's way, nor is who
 * takes the lock in theirs. */
static void test_bell_beside_locked_tickets_is_heard(void **state)
{
    struct fixture *f = *state;
    struct pair p = pair_open(f);
    if (p.op.before == 0)
        return;
    rowlock_op last = queue_up_for(f, "lock", "col", LONG_US);
    void *session = sql_begin(f);
    sql_in(f, session, "BEGIN");
    sql_in(f, session, "SELECT MAX(ticket) FROM (SELECT ticket FROM rowlock_waiters FOR UPDATE) q");
    give_back(f, p.a, &p.held);
    expect_ok(try_turn(f, p.b, &p.op, WAIT_MS), NULL);
    sql_end(f, session);
    assert_true(in_queue(f, &last) && !in_queue(f, &p.op));
}

#define SQL (BACKEND_TICKETS | BACKEND_SQL)

static const struct test_case cases[] = {
    CASE_IF(test_bell_is_not_for_a_ticket_of_the_past, SQL),
    CASE_IF(test_bell_is_not_for_a_ticket_that_has_died, SQL),
    CASE_IF(test_bell_is_for_the_lowest_ticket, BACKEND_TICKETS),
    CASE_IF(test_bell_of_one_who_died_is_not_that_of_the_holder, BACKEND_TICKETS),
    CASE_IF(test_bell_is_heard_whoever_is_behind, BACKEND_TICKETS),
    CASE_IF(test_turn_by_a_bell_uses_the_ticket_up, BACKEND_TICKETS),
    CASE_IF(test_turn_by_a_bell_can_be_repeated, BACKEND_TICKETS),
    CASE_IF(test_bell_beside_a_locked_row_is_heard_for_nothing, SQL | BACKEND_ROW_LOCKS),
    CASE_IF(test_bell_beside_locked_tickets_is_heard, SQL | BACKEND_ROW_LOCKS),
};

const struct suite queue_heard_suite = SUITE("queue_heard", cases);
