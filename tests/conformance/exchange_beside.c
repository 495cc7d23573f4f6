/* SPDX-License-Identifier: MIT
 *
 * The slot exchange beside others: rows that a transaction keeps locked, those who wait, and time
 * that is too short. */
#include <pthread.h>

#include "queue.h"

static void *lock_row(struct fixture *f, const char *sql)
{
    void *session = sql_begin(f);
    sql_in(f, session, "BEGIN");
    sql_in(f, session, sql);
    return session;
}

#define LOCK_ONE "SELECT fence FROM rowlock_locks WHERE name = 'lock' FOR UPDATE"
#define LOCK_ALL "SELECT fence FROM rowlock_locks ORDER BY name FOR UPDATE"

/* The connection has seen nothing else. */
static void meet_free(struct fixture *f, void *conn)
{
    for (int i = 0; i < 3; i++) {
        rowlock_op op = op_new("free", "ann");
        expect_ok(try_acquire(f, conn, &op), NULL);
        give_back(f, conn, &op);
    }
}

/* ---- locked rows ----------------------------------------------------------------------------- */

/* Either nothing was done, and the whole says so, or it is OK. */
static int is_done(struct fixture *f, int status, const struct rows *before)
{
    if (status == ROWLOCK_OK)
        return 1;
    struct rows after = rows_read(f);
    expect_status(ROWLOCK_EDRIVER, status, &f->err);
    assert_int_equal(f->err.retryable, 1);
    expect_same_rows(before, &after);
    rows_free(&after);
    return 0;
}

static void expect_nothing_known(const rowlock_op *op)
{
    static const uint8_t zeroes[ROWLOCK_ATTEMPT_SIZE];
    expect_status(ROWLOCK_BUSY, op->status, NULL);
    assert_string_equal(op->holder, "");
    assert_int_equal(op->is_queue, 0);
    assert_memory_equal(op->seen, zeroes, sizeof(zeroes));
}

/* "lock" is in the releases, and locked; "a" and "z" are in them, too. */
static void test_exchange_beside_a_locked_row_to_be_released(void **state)
{
    struct fixture *f = *state;
    rowlock_op held[] = {grant(f, "a", "ann"), grant(f, "lock", "ann"), grant(f, "z", "ann")};
    rowlock_op releases[] = {op_of(&held[0]), op_of(&held[1]), op_of(&held[2])};
    rowlock_op acquires[] = {op_new("free", "bob"), op_new("new", "bob")};
    meet_free(f, f->conn);
    struct rows before = rows_read(f);
    void *session = lock_row(f, LOCK_ONE);
    int status = INT32_MIN;
    expect_soon(2000000,
                status = f->driver->exchange(f->conn, releases, 3, acquires, 2, CALL_MS, &f->err));
    sql_end(f, session);
    if (is_done(f, status, &before)) {
        expect_nothing_known(&releases[1]);
        for (size_t i = 0; i < 2; i++) {
            expect_ok(acquires[i].status, NULL);
            assert_int_equal(row_of(f, acquires[i].name).fence, acquires[i].fence);
        }
    }
    rows_free(&before);
    ops_exchange(f, f->conn, releases, 3, acquires, 2);
    for (size_t i = 0; i < 3; i++) {
        expect_ok(releases[i].status, NULL);
        assert_int_equal(row_of(f, releases[i].name).hold_count, 0);
    }
    for (size_t i = 0; i < 2; i++) {
        expect_ok(acquires[i].status, NULL);
        assert_int_equal(row_of(f, acquires[i].name).hold_count, 1);
    }
}

/* "lock" is to be acquired by bob, is locked, and the others do not wait for it. */
static rowlock_op exchange_beside_locked(struct fixture *f)
{
    rowlock_op held = grant(f, "z", "ann"), back = op_of(&held);
    rowlock_op acquires[] = {op_new("a", "bob"), op_new("lock", "bob"), op_new("z", "bob")};
    meet_free(f, f->conn);
    void *session = lock_row(f, LOCK_ONE);
    int status = INT32_MIN;
    expect_soon(1000000,
                status = f->driver->exchange(f->conn, &back, 1, acquires, 3, CALL_MS, &f->err));
    sql_end(f, session);
    expect_ok(status, &f->err);
    expect_ok(acquires[0].status, NULL);
    expect_ok(acquires[2].status, NULL);
    assert_int_equal(row_of(f, "a").fence, acquires[0].fence);
    assert_int_equal(row_of(f, "z").fence, acquires[2].fence);
    assert_true(acquires[2].fence > held.fence);
    expect_status(ROWLOCK_BUSY, acquires[1].status, NULL);
    return acquires[1];
}

/* Of a transaction that keeps "lock", and where only one can write everything: what cannot be done
 * meanwhile is told so, soon, and done when it is asked for again. */
static void test_exchange_beside_a_transaction(void **state)
{
    struct fixture *f = *state;
    grant_released(f, "lock", "ann");
    rowlock_op held = grant(f, "z", "ann"), back = op_of(&held);
    rowlock_op op = op_new("lock", "bob"), kept = op_new("lock", "cid");
    void *conn = another(f);
    rowlock_target target = {.size = sizeof(target), .conn = conn};
    int status = INT32_MIN;
    meet_free(f, f->conn);
    expect_ok(f->driver->lock(&target, &kept, 1, ROWLOCK_WAIT_NONE, 0, CALL_MS, &f->err), &f->err);
    expect_ok(kept.status, NULL);
    expect_soon(2000000, status = f->driver->exchange(f->conn, &back, 1, &op, 1, CALL_MS, &f->err));
    expect_ok(status, &f->err);
    expect_status(ROWLOCK_BUSY, op.status, NULL);
    if (back.status != ROWLOCK_OK)
        expect_nothing_known(&back);
    expect_ok(f->driver->end(conn, 1, CALL_MS, &f->err), &f->err);
    expect_ok(try_release(f, f->conn, &back), NULL);
    assert_int_equal(row_of(f, "z").hold_count, 0);
    expect_ok(try_acquire(f, f->conn, &op), NULL);
    assert_true(op.fence > kept.fence);
}

static void test_exchange_beside_a_locked_free_row(void **state)
{
    struct fixture *f = *state;
    grant_released(f, "lock", "cid");
    rowlock_op op = exchange_beside_locked(f);
    assert_int_equal(op.remaining_us, 0);
    assert_int_equal(op.is_queue, 0);
    expect_ok(try_acquire(f, f->conn, &op), NULL);
    assert_int_equal(op.hold_count, 1);
}

static void test_exchange_beside_an_own_row_that_is_locked(void **state)
{
    struct fixture *f = *state;
    rowlock_op outer = grant(f, "lock", "bob");
    rowlock_op op = exchange_beside_locked(f);
    assert_true(op.holder[0] == '\0' || strcmp(op.holder, "bob") == 0);
    expect_ok(try_acquire(f, f->conn, &op), NULL);
    assert_int_equal(op.fence, outer.fence);
    assert_int_equal(op.hold_count, 2);
}

static void test_exchange_beside_a_locked_held_row(void **state)
{
    struct fixture *f = *state;
    rowlock_op held = grant(f, "lock", "cid");
    rowlock_op op = exchange_beside_locked(f);
    assert_string_equal(op.holder, "cid");
    assert_int_equal(op.holder_fence, held.fence);
    assert_true(op.remaining_us > 0);
}

/* ---- while one half is held up --------------------------------------------------------------- */

struct call {
    struct fixture *f;
    rowlock_op *release, *acquire;
    int status;
    atomic_int is_over;
    rowlock_error err;
};

static void *run_call(void *payload)
{
    struct call *c = payload;
    c->status = c->f->driver->exchange(c->f->conn, c->release, 1, c->acquire, 1, CALL_MS, &c->err);
    atomic_store(&c->is_over, 1);
    return NULL;
}

/* Who holds "new", as another connection sees it. */
static int is_held(struct fixture *f, void *conn)
{
    struct rows rows = {0};
    rowlock_list_query query = {
        .size = sizeof(query), .starts_with = "new", .starts_with_length = 3};
    int status = f->driver->list(conn, &query, rows_collect, &rows, CALL_MS, &f->err);
    int held = status == ROWLOCK_OK && rows.count == 1;
    rows_free(&rows);
    return held;
}

/* Ann's release is held up by a locked row. Bob's acquire may be done meanwhile, and before it is
 * answered another thread of his enters: that makes two holds, and not one for each time that the
 * driver has asked. */
static void test_exchange_counts_once_who_enters_beside_a_locked_row(void **state)
{
    struct fixture *f = *state;
    void *conn = another(f);
    rowlock_op held = grant(f, "lock", "ann"), back = op_of(&held);
    grant_released(f, "new", "cid");
    rowlock_op op = op_new("new", "bob"), inner = op_new("new", "bob");
    struct call call = {.f = f, .release = &back, .acquire = &op, .status = INT32_MIN};
    meet_free(f, f->conn);
    void *session = lock_row(f, LOCK_ONE);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, run_call, &call), 0);
    while (!atomic_load(&call.is_over) && !is_held(f, conn))
        sleep_us(1000);
    int status = f->driver->acquire(conn, &inner, 1, 0, CALL_MS, &f->err);
    pthread_join(thread, NULL);
    sql_end(f, session);
    expect_ok(status, &f->err);
    expect_ok(inner.status, NULL);
    uint32_t count = inner.hold_count;
    if (call.status == ROWLOCK_OK)
        expect_ok(op.status, NULL);
    else
        expect_status(ROWLOCK_EDRIVER, call.status, &call.err);
    assert_int_equal(count, call.status == ROWLOCK_OK ? 2 : 1);
    assert_int_equal(row_of(f, "new").hold_count, count);
}

/* ---- time that is too short ------------------------------------------------------------------ */

/* The connection is of no use after that. */
static void renew_connection(struct fixture *f)
{
    conn_end(f, f->conn);
    f->conn = NULL;
    expect_ok(conn_begin(f, &f->conn, f->backend->address, f->prefix), &f->err);
}

/* *given_up: the server may get to a request only when the rows are free again. */
static void exchange_in_time(struct fixture *f, rowlock_op *releases, rowlock_op *acquires,
                             uint32_t ms, int *given_up)
{
    rowlock_op asked[4] = {releases[0], releases[1], acquires[0], acquires[1]};
    int status = INT32_MIN;
    expect_soon((int64_t)ms * 1000 + 2000000,
                status = f->driver->exchange(f->conn, asked, 2, asked + 2, 2, ms, &f->err));
    if (status == ROWLOCK_EUNKNOWN || status == ROWLOCK_ECONNECT) {
        renew_connection(f);
        *given_up = 1;
    } else if (status == ROWLOCK_OK) {
        for (size_t i = 0; i < 4 && !*given_up; i++)
            expect_status(ROWLOCK_BUSY, asked[i].status, NULL);
    } else {
        expect_status(ROWLOCK_EDRIVER, status, &f->err);
        assert_int_equal(f->err.retryable, 1);
    }
}

/* Locked rows all over, with time to wait for them, with less than the server's own wait, with
 * almost none: then it is done, with the same attempts, once. */
static void test_exchange_of_locked_rows_returns_in_time_and_can_be_repeated(void **state)
{
    static const uint32_t times_ms[] = {3000, 1000, 300, 20, 1};
    struct fixture *f = *state;
    rowlock_op held[] = {grant(f, "a", "ann"), grant(f, "b", "ann")};
    rowlock_op old[] = {grant_released(f, "c", "cid"), grant(f, "d", "bob")};
    grant(f, "b", "ann");
    rowlock_op releases[] = {op_of(&held[0]), op_of(&held[1])};
    rowlock_op acquires[] = {op_new("c", "bob"), op_new("d", "bob")};
    int given_up = 0;
    for (size_t i = 0; i < 2 * COUNT(times_ms); i++) {
        if (i % 2 == 0)
            meet_free(f, f->conn);
        void *session = lock_row(f, LOCK_ALL);
        exchange_in_time(f, releases, acquires, times_ms[i / 2], &given_up);
        sql_end(f, session);
    }
    ops_exchange(f, f->conn, releases, 2, acquires, 2);
    for (size_t i = 0; i < 2; i++) {
        expect_ok(releases[i].status, NULL);
        assert_int_equal(releases[i].hold_count, i);
        assert_int_equal(row_of(f, releases[i].name).hold_count, i);
        expect_ok(acquires[i].status, NULL);
        assert_int_equal(acquires[i].hold_count, 1 + i);
        assert_int_equal(row_of(f, acquires[i].name).hold_count, 1 + i);
    }
    assert_true(acquires[0].fence > old[0].fence);
    assert_int_equal(acquires[1].fence, old[1].fence);
}

/* ---- those who wait -------------------------------------------------------------------------- */

#define TRIES 3 /* the machine may be too busy to tell a call from a wait that passed */

/* Bob waits on `b` for "lock", which ann holds. `held` is given back on `conn` in an exchange. Was
 * he woken by it? */
static int play_release(struct fixture *f, void *conn, rowlock_op *back, void *b)
{
    rowlock_op op = queue_up(f, b, "lock", "bob"), next = op_new("next", "ann");
    struct turner t = {.f = f, .conn = b, .op = &op, .wait_ms = ROWLOCK_TURN_MAX_MS, .calls = 5};
    expect_status(ROWLOCK_BUSY, try_turn(f, b, &op, 0), NULL);
    int can_wait = op.can_wait;
    if (can_wait) {
        turner_start(&t);
        sleep_us(100000);
    }
    ops_exchange(f, conn, back, 1, &next, 1);
    expect_ok(back->status, NULL);
    expect_ok(next.status, NULL);
    if (can_wait)
        turner_join(&t);
    else
        await_turn(f, b, &op);
    expect_ok(op.status, NULL);
    assert_true(op.fence > back->fence);
    give_back(f, b, &op);
    return !can_wait || turner_woken(&t);
}

static void test_exchange_wakes_who_waits_for_what_it_releases(void **state)
{
    struct fixture *f = *state;
    void *b = another(f);
    int woken = 0;
    for (int i = 0; i < TRIES && !woken; i++) {
        rowlock_op held = grant(f, "lock", "ann"), back = op_of(&held);
        meet_free(f, f->conn);
        woken = play_release(f, f->conn, &back, b);
    }
    assert_true(woken);
}

static void test_exchange_rings_the_bell_of_its_connection(void **state)
{
    struct fixture *f = *state;
    void *a = another(f), *b = another(f);
    int woken = 0;
    for (int i = 0; i < TRIES && !woken; i++) {
        rowlock_op held = grant_by_ticket(f, a, "lock", "ann", LONG_US), back = op_ringing(&held);
        meet_free(f, a);
        woken = play_release(f, a, &back, b);
    }
    assert_true(woken);
}

/* Takes a ticket with a bell on that connection, and the lock by it; returns when the life of the
 * ticket has ended. Again with twice as long a life where the machine is too slow for it. */
static rowlock_op grant_by_short_ticket(struct fixture *f, void *conn, const char *name)
{
    rowlock_op op;
    int64_t life_us = 5 * SHORT_US;
    do {
        op = op_new(name, "ann");
        life_us *= 2;
        expect_ok(f->driver->enqueue(conn, &op, 1, life_us, 1, CALL_MS, &f->err), &f->err);
    } while (try_turn(f, conn, &op, 0) != ROWLOCK_OK && life_us < SLACK_US);
    expect_ok(op.status, NULL);
    sleep_us(life_us + 2000);
    return op;
}

/* Nobody has come to wait for as long as a ticket lives, and the lock goes back, with its bell. Who
 * waits later, for ann who has come without a ticket, is woken when she goes, and does not wait for
 * a bell that nobody rings. */
static void test_exchange_leaves_no_bell_behind(void **state)
{
    struct fixture *f = *state;
    void *a = another(f), *b = another(f);
    int woken = 0;
    for (int i = 0; i < TRIES && !woken; i++) {
        rowlock_op first = grant_by_short_ticket(f, a, "lock"), held = op_new("lock", "ann");
        rowlock_op back = op_ringing(&first);
        meet_free(f, a);
        ops_exchange(f, a, &back, 1, &held, 1);
        expect_ok(back.status, NULL);
        expect_ok(held.status, NULL);
        back = op_of(&held);
        woken = play_release(f, f->conn, &back, b);
    }
    assert_true(woken);
}

#define ROWS (BACKEND_EXCHANGE | BACKEND_SQL | BACKEND_ROW_LOCKS)

static const struct test_case cases[] = {
    CASE_IF(test_exchange_beside_a_locked_row_to_be_released, ROWS),
    CASE_IF(test_exchange_beside_a_transaction, BACKEND_EXCHANGE | BACKEND_TRANSACTIONS),
    CASE_IF(test_exchange_beside_a_locked_free_row, ROWS),
    CASE_IF(test_exchange_beside_an_own_row_that_is_locked, ROWS),
    CASE_IF(test_exchange_beside_a_locked_held_row, ROWS),
    CASE_IF(test_exchange_counts_once_who_enters_beside_a_locked_row, ROWS),
    CASE_IF(test_exchange_of_locked_rows_returns_in_time_and_can_be_repeated, ROWS),
    CASE_IF(test_exchange_wakes_who_waits_for_what_it_releases, BACKEND_EXCHANGE | BACKEND_TICKETS),
    CASE_IF(test_exchange_rings_the_bell_of_its_connection, BACKEND_EXCHANGE | BACKEND_TICKETS),
    CASE_IF(test_exchange_leaves_no_bell_behind, BACKEND_EXCHANGE | BACKEND_TICKETS),
};

const struct suite exchange_beside_suite = SUITE("exchange_beside", cases);
