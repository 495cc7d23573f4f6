/* SPDX-License-Identifier: MIT
 *
 * A queue that is longer than a database may let its sessions wait for each other: everybody still
 * has something to wait for, and is served in its turn. */
#include <stdio.h>

#include "queue.h"

#define WAITERS 48 /* some databases take 32 in a chain for a deadlock */
#define WAIT_MS ROWLOCK_TURN_MAX_MS

struct chain {
    void *holder, *conns[WAITERS];
    rowlock_op held, ops[WAITERS];
    char owners[WAITERS][16];
};

static void chain_form(struct fixture *f, struct chain *c)
{
    c->holder = another(f);
    c->held = grant_by_ticket(f, c->holder, "lock", "ann", LONG_US);
    for (int i = 0; i < WAITERS; i++) {
        expect_ok(conn_begin(f, &c->conns[i], f->backend->address, f->prefix), &f->err);
        snprintf(c->owners[i], sizeof c->owners[i], "w%02d", i);
        c->ops[i] = queue_up(f, c->conns[i], "lock", c->owners[i]);
        assert_true(c->ops[i].ticket > (i > 0 ? c->ops[i - 1].ticket : c->held.ticket));
    }
}

/* All at once, as often as it takes a wait to be found too long, and another one in its place. */
static void chain_wait(struct fixture *f, struct chain *c)
{
    struct turner turners[WAITERS];
    for (int i = 0; i < WAITERS; i++) {
        turners[i] = (struct turner){
            .f = f, .conn = c->conns[i], .op = &c->ops[i], .wait_ms = WAIT_MS, .calls = 2};
        turner_start(&turners[i]);
    }
    for (int i = 0; i < WAITERS; i++)
        turner_join(&turners[i]);
}

static void test_all_of_a_long_queue_can_wait(void **state)
{
    struct fixture *f = *state;
    struct chain c;
    chain_form(f, &c);
    int can_wait = c.ops[0].can_wait;
    if (can_wait)
        chain_wait(f, &c);
    for (int i = 0; i < WAITERS; i++) {
        uint64_t before = c.ops[i].before;
        expect_status(ROWLOCK_BUSY, c.ops[i].status, NULL);
        assert_int_equal(c.ops[i].can_wait != 0, can_wait != 0);
        assert_true(before == 0 || (before >= c.held.ticket && before < c.ops[i].ticket));
    }
    give_back(f, c.holder, &c.held);
    for (int i = 0; i < WAITERS; i++) {
        if (i + 1 < WAITERS) /* not before its turn, whomever it waited for */
            expect_status(ROWLOCK_BUSY, try_turn(f, c.conns[i + 1], &c.ops[i + 1], 0), NULL);
        expect_ok(await_turn(f, c.conns[i], &c.ops[i]), NULL);
        give_back(f, c.conns[i], &c.ops[i]);
    }
    for (int i = 0; i < WAITERS; i++)
        conn_end(f, c.conns[i]);
}

static const struct test_case cases[] = {
    CASE_IF(test_all_of_a_long_queue_can_wait, BACKEND_TICKETS),
};

const struct suite queue_chain_suite = SUITE("queue_chain", cases);
