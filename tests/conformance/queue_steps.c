/* SPDX-License-Identifier: MIT
 *
 * No wake-up is lost: the holder lets go at every point of the way of the one who comes to wait. */
#include "queue.h"

/* Bob's steps, as the core takes them. The holder lets go before one of them; before the last, in
 * the middle of his wait. */
enum step { ACQUIRE, ENQUEUE, TURN, WAITING, STEPS };

static const char *const step_names[] = {"acquire", "enqueue", "turn", "waiting"};

/* How Ann came to the lock. */
struct way {
    const char *name;
    int by_ticket;
};

struct scene {
    struct fixture *f;
    const struct way *way;
    enum step at;
    void *a, *b;
    rowlock_op held, op;
    int was_let_go, woken;
};

static void let_go_at(struct scene *s, enum step at)
{
    if (s->at != at)
        return;
    rowlock_op op = s->held.rings ? op_ringing(&s->held) : op_of(&s->held);
    expect_ok(try_release(s->f, s->a, &op), NULL);
    s->was_let_go = 1;
}

/* Waits without a try of its own; lets Ann go meanwhile, if that is the scene. */
static void wait_in_thread(struct scene *s)
{
    struct turner t = {
        .f = s->f, .conn = s->b, .op = &s->op, .wait_ms = ROWLOCK_TURN_MAX_MS, .calls = 5};
    turner_start(&t);
    sleep_us(s->was_let_go ? 0 : 100000);
    let_go_at(s, WAITING);
    turner_join(&t);
    s->woken = s->op.status == ROWLOCK_OK && turner_woken(&t);
}

static void walk(struct scene *s)
{
    let_go_at(s, ACQUIRE);
    s->op = op_new("lock", "bob");
    if (try_acquire(s->f, s->f->conn, &s->op) == ROWLOCK_OK)
        return;
    assert_false(s->was_let_go);
    let_go_at(s, ENQUEUE);
    s->op = queue_up(s->f, s->b, "lock", "bob");
    let_go_at(s, TURN);
    if (s->op.remaining_us == 0) { /* it was free, so a try is worth it */
        try_turn(s->f, s->b, &s->op, 0);
        return;
    }
    if (s->op.can_wait) {
        wait_in_thread(s);
    } else {
        let_go_at(s, WAITING);
        await_turn(s->f, s->b, &s->op);
    }
}

/* 1 if Bob got the lock without having to wait until a time had passed. */
static int play(struct fixture *f, const struct way *way, enum step at)
{
    struct scene s = {.f = f, .way = way, .at = at, .a = another(f), .b = another(f), .woken = 1};
    if (way->by_ticket) {
        s.held = grant_by_ticket(f, s.a, "lock", "ann", LONG_US);
    } else {
        s.held = op_new("lock", "ann");
        expect_ok(try_acquire(f, s.a, &s.held), NULL);
    }
    walk(&s);
    if (s.op.status == ROWLOCK_OK)
        give_back(f, at == ACQUIRE ? f->conn : s.b, &s.op);
    else if (s.op.ticket != 0)
        try_leave(f, s.b, &s.op);
    if (s.op.status != ROWLOCK_OK || !s.woken)
        print_error("a holder %s who let go before '%s': the waiter %s\n", way->name,
                    step_names[at], s.op.status == ROWLOCK_OK ? "was late" : "has not got it");
    another_end(f, s.a);
    another_end(f, s.b);
    return s.op.status == ROWLOCK_OK && s.woken;
}

/* More than once only for machines that are too busy to tell. */
static void play_all(struct fixture *f, const struct way *way)
{
    for (int at = ACQUIRE; at < STEPS; at++) {
        int good = 0;
        for (int i = 0; i < 3 && !good; i++)
            good = play(f, way, (enum step)at);
        assert_true(good);
    }
}

static void test_release_by_ticket_is_never_missed(void **state)
{
    play_all(*state, &(struct way){.name = "by ticket", .by_ticket = 1});
}

static void test_plain_release_is_never_missed(void **state)
{
    play_all(*state, &(struct way){.name = "without a ticket"});
}

static const struct test_case cases[] = {
    CASE_IF(test_release_by_ticket_is_never_missed, BACKEND_TICKETS),
    CASE_IF(test_plain_release_is_never_missed, BACKEND_TICKETS),
};

const struct suite queue_steps_suite = SUITE("queue_steps", cases);
