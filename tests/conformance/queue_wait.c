/* SPDX-License-Identifier: MIT
 *
 * A ticket that is taken along with the first wait for it (op->wait_ms). A driver may wait at once
 * or leave that to the turn; the answers are the same, and so is who is served. */
#include <pthread.h>

#include "queue.h"

#define WAIT_MS ROWLOCK_TURN_MAX_MS
#define WAIT_US ((int64_t)WAIT_MS * 1000)

/* Bob asks for a ticket on b, with that wait. How long it took, in us. */
static int64_t enqueue(struct fixture *f, const struct served *s, rowlock_op *out, uint32_t wait_ms)
{
    rowlock_op op = op_new("lock", "bob");
    int64_t began = now_us();
    op.wait_ms = wait_ms;
    int status = f->driver->enqueue(s->b, &op, 1, LONG_US, 1, CALL_MS, &f->err);
    int64_t took = now_us() - began;
    expect_ok(status, &f->err);
    expect_status(ROWLOCK_BUSY, op.status, NULL);
    assert_int_equal(op.rings, 1);
    *out = op;
    return took;
}

/* ---- it rings meanwhile ---------------------------------------------------------------------- */

/* Lets go of Ann's lock in a moment, one way or the other. */
struct leaver {
    struct fixture *f;
    void *conn;
    rowlock_op op;
    int hangs_up;
    int status;
    rowlock_error err;
};

static void *leave_soon(void *payload)
{
    struct leaver *l = payload;
    sleep_us(SHORT_US * 5);
    if (l->hangs_up)
        another_end(l->f, l->conn);
    else
        l->status = l->f->driver->release(l->conn, &l->op, 1, CALL_MS, &l->err);
    return NULL;
}

static void test_release_ends_the_wait(void **state)
{
    struct fixture *f = *state;
    struct served s = served_before(f);
    rowlock_op held = grant_by_ticket(f, s.a, "lock", "ann", LONG_US), op;
    struct leaver ann = {.f = f, .conn = s.a, .op = op_ringing(&held)};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, leave_soon, &ann), 0);
    enqueue(f, &s, &op, WAIT_MS);
    pthread_join(thread, NULL);
    expect_ok(ann.status, &ann.err);
    assert_int_equal(op.before, s.has_bells ? held.ticket : 0);
    assert_string_equal(op.holder, "ann");
    expect_ok(await_turn(f, s.b, &op), NULL);
    assert_true(op.fence > held.fence);
    expect_between(op.remaining_us, LONG_US - SLACK_US, LONG_US);
    give_back(f, s.b, &op);
}

/* The bell of one who waited in front and is gone says nothing of the holder. */
static void test_end_of_the_one_before_is_no_grant(void **state)
{
    struct fixture *f = *state;
    struct served s = served_before(f);
    void *c = another(f);
    rowlock_op held = grant_by_ticket(f, s.a, "lock", "ann", LONG_US), op;
    rowlock_op gone = queue_up(f, c, "lock", "col");
    struct leaver col = {.f = f, .conn = c, .hangs_up = 1};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, leave_soon, &col), 0);
    enqueue(f, &s, &op, WAIT_MS);
    pthread_join(thread, NULL);
    assert_int_equal(op.before, s.has_bells ? gone.ticket : 0);
    expect_status(ROWLOCK_BUSY, try_turn(f, s.b, &op, s.has_bells ? WAIT_MS : 0), NULL);
    assert_string_equal(op.holder, "ann");
    assert_int_equal(op.before, s.has_bells ? held.ticket : 0);
    give_back(f, s.a, &held);
    try_leave(f, f->conn, &gone);
    expect_ok(await_turn(f, s.b, &op), NULL);
}

/* ---- it does not ----------------------------------------------------------------------------- */

static void test_wait_in_vain_leaves_all_in_their_places(void **state)
{
    struct fixture *f = *state;
    struct served s = served_before(f);
    rowlock_op held = grant_by_ticket(f, s.a, "lock", "ann", LONG_US), op;
    void *c = another(f);
    rowlock_op first = queue_up(f, c, "lock", "col");
    enqueue(f, &s, &op, 50);
    assert_int_equal(op.before, s.has_bells ? first.ticket : 0);
    expect_status(ROWLOCK_BUSY, try_turn(f, s.b, &op, 50), NULL);
    assert_true(in_queue(f, &first) && in_queue(f, &op));
    give_back(f, s.a, &held);
    expect_status(ROWLOCK_BUSY, try_turn(f, s.b, &op, 0), NULL);
    expect_ok(await_turn(f, c, &first), NULL);
    give_back(f, c, &first);
    expect_ok(await_turn(f, s.b, &op), NULL);
}

/* Ann hangs. When her time is up somebody has to look, whoever rings. */
static void test_no_wait_beyond_the_end_of_the_lease(void **state)
{
    struct fixture *f = *state;
    struct served s = served_before(f);
    rowlock_op op;
    grant_by_ticket(f, s.a, "lock", "ann", WAIT_US * 9 / 10);
    expect_between(enqueue(f, &s, &op, WAIT_MS), 0, WAIT_US * 9 / 10);
    expect_between(op.remaining_us, 0, WAIT_US * 9 / 10);
    expect_ok(await_turn(f, s.b, &op), NULL);
}

static void test_no_wait_for_a_holder_without_a_bell(void **state)
{
    struct fixture *f = *state;
    struct served s = served_before(f);
    rowlock_op held = grant(f, "lock", "dan"), op;
    expect_between(enqueue(f, &s, &op, WAIT_MS), 0, WAIT_US * 9 / 10);
    assert_int_equal(op.before, 0);
    give_back(f, f->conn, &held);
    expect_ok(await_turn(f, s.b, &op), NULL);
}

/* Ann has hung since Bob waited for her; he was served for all that, by time, and again after Col.
 * Now the mark is gone, so that his ticket has to be taken the long way. */
static void test_no_wait_for_the_one_of_an_earlier_ticket(void **state)
{
    struct fixture *f = *state;
    struct served s = served_before(f);
    void *c = another(f);
    rowlock_op op, other;
    grant_by_ticket(f, s.a, "lock", "ann", LONG_US);
    enqueue(f, &s, &op, 50);
    sql_run(f, "UPDATE rowlock_locks SET expire_time = acquire_time", NULL, 0);
    expect_ok(try_turn(f, s.b, &op, 0), NULL);
    give_back(f, s.b, &op);
    other = grant_by_ticket(f, c, "lock", "col", LONG_US);
    op = queue_up(f, s.b, "lock", "bob");
    give_back(f, c, &other);
    expect_ok(await_turn(f, s.b, &op), NULL);
    give_back(f, s.b, &op);
    sql_run(f, "UPDATE rowlock_locks SET wait_until = 0", NULL, 0);
    expect_between(enqueue(f, &s, &op, WAIT_MS), 0, WAIT_US * 9 / 10);
    expect_ok(await_turn(f, s.b, &op), NULL);
}

/* ---- it cannot be ---------------------------------------------------------------------------- */

/* Somebody keeps the row that the ticket would be made of. The connection is as good as before. */
static void test_ticket_that_is_locked_is_taken_otherwise(void **state)
{
    struct fixture *f = *state;
    struct served s = served_before(f);
    rowlock_op held = grant_by_ticket(f, s.a, "lock", "ann", LONG_US), op;
    void *session = sql_begin(f);
    sql_in(f, session, "BEGIN");
    sql_in(f, session, "SELECT ticket FROM rowlock_waiters FOR UPDATE");
    enqueue(f, &s, &op, 50);
    assert_true(in_queue(f, &op));
    sql_in(f, session, "COMMIT");
    give_back(f, s.a, &held);
    expect_ok(await_turn(f, s.b, &op), NULL);
    give_back(f, s.b, &op);
    assert_int_equal(row_of(f, "lock").hold_count, 0);
}

#define SQL (BACKEND_TICKETS | BACKEND_SQL)

static const struct test_case cases[] = {
    CASE_IF(test_release_ends_the_wait, BACKEND_TICKETS),
    CASE_IF(test_end_of_the_one_before_is_no_grant, BACKEND_TICKETS),
    CASE_IF(test_wait_in_vain_leaves_all_in_their_places, BACKEND_TICKETS),
    CASE_IF(test_no_wait_beyond_the_end_of_the_lease, BACKEND_TICKETS),
    CASE_IF(test_no_wait_for_a_holder_without_a_bell, BACKEND_TICKETS),
    CASE_IF(test_no_wait_for_the_one_of_an_earlier_ticket, SQL),
    CASE_IF(test_ticket_that_is_locked_is_taken_otherwise, SQL | BACKEND_ROW_LOCKS),
};

const struct suite queue_wait_suite = SUITE("queue_wait", cases);
