/* SPDX-License-Identifier: MIT
 *
 * The slot exchange answers what release and, after it, acquire answer. Each scene is made twice,
 * with names of its own. One of the twins is asked in one call and the other in two, and both must
 * have had the same answers and have the same rows. */
#include <stdio.h>

#include "queue.h"

/* One name of a scene, and what is asked about it. */
struct part {
    const char *kind;
    char name[32];
    int gives, takes;            /* is it in that half? */
    rowlock_op release, acquire; /* the questions, and then the answers */
    rowlock_op last;             /* after what a release has seen */
    uint64_t fence;              /* of the row, when it was asked; 0: none */
};

static void give(struct part *p, const rowlock_op *held)
{
    p->gives = 1;
    p->release = op_of(held);
}

static void want(struct part *p, const char *owner)
{
    p->takes = 1;
    p->acquire = op_new(p->name, owner);
}

/* ---- what may be given back ------------------------------------------------------------------ */

static void give_last(struct fixture *f, struct part *p)
{
    rowlock_op held = grant(f, p->name, "ann");
    give(p, &held);
}

static void give_one_of_two(struct fixture *f, struct part *p)
{
    grant(f, p->name, "ann");
    give_last(f, p);
}

static void give_expired(struct fixture *f, struct part *p)
{
    rowlock_op held = grant_expired(f, p->name, "ann");
    give(p, &held);
}

static void give_taken_over(struct fixture *f, struct part *p)
{
    give_expired(f, p);
    grant(f, p->name, "cid");
}

static void give_free(struct fixture *f, struct part *p)
{
    rowlock_op held = grant_released(f, p->name, "ann");
    give(p, &held);
}

/* As if the answer had been lost. */
static void give_last_again(struct fixture *f, struct part *p)
{
    give_last(f, p);
    rowlock_op sent = p->release;
    expect_ok(try_release(f, f->conn, &sent), NULL);
}

static void give_one_of_two_again(struct fixture *f, struct part *p)
{
    grant(f, p->name, "ann");
    give_last_again(f, p);
}

static void give_forced(struct fixture *f, struct part *p)
{
    give_last(f, p);
    rowlock_op op = op_of(&p->release);
    expect_ok(try_force(f, f->conn, &op), NULL);
}

static void give_anothers(struct fixture *f, struct part *p)
{
    give_last(f, p);
    p->release.owner = "cid";
}

static void give_other_fence(struct fixture *f, struct part *p)
{
    give_last(f, p);
    p->release.fence++;
}

static void give_absent(struct fixture *f, struct part *p)
{
    (void)f;
    rowlock_op held = op_new(p->name, "ann");
    held.fence = 7;
    give(p, &held);
}

static void give_as_seen(struct fixture *f, struct part *p)
{
    rowlock_op held = grant(f, p->name, "ann");
    give(p, &held);
    memcpy(p->release.seen, held.attempt, sizeof(held.attempt));
}

static void give_changed_since(struct fixture *f, struct part *p)
{
    give_as_seen(f, p);
    p->last = grant(f, p->name, "ann");
}

static void give_waited_for(struct fixture *f, struct part *p)
{
    give_last(f, p);
    queue_up_for(f, p->name, "cid", LONG_US);
}

static void give_one_of_two_waited_for(struct fixture *f, struct part *p)
{
    give_one_of_two(f, p);
    queue_up_for(f, p->name, "cid", LONG_US);
}

/* ---- what may be taken ----------------------------------------------------------------------- */

static void take_free(struct fixture *f, struct part *p)
{
    grant_released(f, p->name, "cid");
    want(p, "bob");
    p->acquire.note = "free";
}

static void take_absent(struct fixture *f, struct part *p)
{
    (void)f;
    want(p, "bob");
    p->acquire.note = "new";
}

static void take_held(struct fixture *f, struct part *p)
{
    grant(f, p->name, "cid");
    want(p, "bob");
}

static void take_own(struct fixture *f, struct part *p)
{
    rowlock_op op = op_new(p->name, "bob");
    op.note = "kept";
    expect_ok(try_acquire(f, f->conn, &op), NULL);
    want(p, "bob");
}

static void take_own_for_longer(struct fixture *f, struct part *p)
{
    take_own(f, p);
    p->acquire.ttl_us = 2 * LONG_US;
    p->acquire.note = "longer";
}

static void take_expired(struct fixture *f, struct part *p)
{
    grant_expired(f, p->name, "cid");
    want(p, "bob");
}

static void take_own_expired(struct fixture *f, struct part *p)
{
    grant_expired(f, p->name, "bob");
    want(p, "bob");
}

static void take_again(struct fixture *f, struct part *p)
{
    p->acquire = grant(f, p->name, "bob");
    p->acquire.fence = 0;
    p->takes = 1;
}

static void take_own_again(struct fixture *f, struct part *p)
{
    grant(f, p->name, "bob");
    take_again(f, p);
}

static void take_waited_for(struct fixture *f, struct part *p)
{
    take_free(f, p);
    queue_up_for(f, p->name, "cid", LONG_US);
}

static void take_absent_waited_for(struct fixture *f, struct part *p)
{
    queue_up_for(f, p->name, "cid", LONG_US);
    want(p, "bob");
}

static void take_held_waited_for(struct fixture *f, struct part *p)
{
    take_held(f, p);
    queue_up_for(f, p->name, "dan", LONG_US);
}

static void take_by_barging(struct fixture *f, struct part *p)
{
    take_waited_for(f, p);
    p->acquire.barge = 1;
}

static void take_by_ticket(struct fixture *f, struct part *p)
{
    take_free(f, p);
    p->acquire = queue_up_for(f, p->name, "bob", LONG_US);
    queue_up_for(f, p->name, "cid", LONG_US);
}

static void take_by_second_ticket(struct fixture *f, struct part *p)
{
    take_waited_for(f, p);
    p->acquire = queue_up_for(f, p->name, "bob", LONG_US);
}

/* ---- one name in both halves ----------------------------------------------------------------- */

static void pass_on(struct fixture *f, struct part *p)
{
    give_last(f, p);
    want(p, "bob");
}

static void pass_on_to_oneself(struct fixture *f, struct part *p)
{
    give_last(f, p);
    want(p, "ann");
}

static void pass_on_one_of_two(struct fixture *f, struct part *p)
{
    give_one_of_two(f, p);
    want(p, "bob");
}

static void pass_on_one_of_two_to_oneself(struct fixture *f, struct part *p)
{
    give_one_of_two(f, p);
    want(p, "ann");
}

static void pass_on_expired(struct fixture *f, struct part *p)
{
    give_expired(f, p);
    want(p, "bob");
}

static void pass_on_taken_over(struct fixture *f, struct part *p)
{
    give_taken_over(f, p);
    want(p, "bob");
}

static void pass_on_changed_since(struct fixture *f, struct part *p)
{
    give_changed_since(f, p);
    want(p, "bob");
}

static void pass_on_waited_for(struct fixture *f, struct part *p)
{
    give_waited_for(f, p);
    want(p, "bob");
}

static void pass_on_by_ticket(struct fixture *f, struct part *p)
{
    give_last(f, p);
    p->acquire = queue_up_for(f, p->name, "bob", LONG_US);
    p->takes = 1;
}

#define KIND(function, caps)      \
    {                             \
#function, function, caps \
    }

static const struct kind {
    const char *name;
    void (*make)(struct fixture *f, struct part *p);
    unsigned caps;
} kinds[] = {
    KIND(give_last, 0),
    KIND(give_one_of_two, 0),
    KIND(give_expired, 0),
    KIND(give_taken_over, 0),
    KIND(give_free, 0),
    KIND(give_last_again, 0),
    KIND(give_one_of_two_again, 0),
    KIND(give_forced, 0),
    KIND(give_anothers, 0),
    KIND(give_other_fence, 0),
    KIND(give_absent, 0),
    KIND(give_as_seen, 0),
    KIND(give_changed_since, 0),
    KIND(give_waited_for, BACKEND_TICKETS),
    KIND(give_one_of_two_waited_for, BACKEND_TICKETS),
    KIND(take_free, 0),
    KIND(take_absent, 0),
    KIND(take_held, 0),
    KIND(take_own, 0),
    KIND(take_own_for_longer, 0),
    KIND(take_expired, 0),
    KIND(take_own_expired, 0),
    KIND(take_again, 0),
    KIND(take_own_again, 0),
    KIND(take_waited_for, BACKEND_TICKETS),
    KIND(take_absent_waited_for, BACKEND_TICKETS),
    KIND(take_held_waited_for, BACKEND_TICKETS),
    KIND(take_by_barging, BACKEND_TICKETS),
    KIND(pass_on, 0),
    KIND(pass_on_to_oneself, 0),
    KIND(pass_on_one_of_two, 0),
    KIND(pass_on_one_of_two_to_oneself, 0),
    KIND(pass_on_expired, 0),
    KIND(pass_on_taken_over, 0),
    KIND(pass_on_changed_since, 0),
    KIND(pass_on_waited_for, BACKEND_TICKETS),
    KIND(take_by_ticket, BACKEND_TICKETS), /* from here on NUMBERED */
    KIND(take_by_second_ticket, BACKEND_TICKETS),
    KIND(pass_on_by_ticket, BACKEND_TICKETS),
};

/* ---- scenes ---------------------------------------------------------------------------------- */

enum { PARTS = COUNT(kinds) + 2, NUMBERED = 3 };

struct scene {
    struct part parts[PARTS];
    size_t count;
};

/* A name that no other scene of the case has, later than those of the scene's other parts. */
static void add_part(struct fixture *f, struct scene *s, char twin, const struct kind *kind)
{
    static unsigned number;
    struct part *p = &s->parts[s->count];
    if ((kind->caps & ~f->backend->caps) != 0)
        return;
    s->count++;
    *p = (struct part){.kind = kind->name};
    snprintf(p->name, sizeof(p->name), "%c%06u", twin, ++number);
    kind->make(f, p);
}

/* Those kinds, and one more of each half, so that there are two. */
static void scene_make(struct fixture *f, struct scene *s, char twin, size_t first, size_t count)
{
    size_t gives = 0, takes = 0;
    s->count = 0;
    for (size_t i = first; i < first + count; i++)
        add_part(f, s, twin, &kinds[i]);
    for (size_t i = 0; i < s->count; i++) {
        gives += s->parts[i].gives;
        takes += s->parts[i].takes;
    }
    if (gives == 0)
        add_part(f, s, twin, &(struct kind)KIND(give_last, 0));
    if (takes == 0)
        add_part(f, s, twin, &(struct kind)KIND(take_free, 0));
}

static size_t gather(const struct scene *s, rowlock_op *ops, int takes)
{
    size_t n = 0;
    for (size_t i = 0; i < s->count; i++) {
        const struct part *p = &s->parts[i];
        if (takes ? p->takes : p->gives)
            ops[n++] = takes ? p->acquire : p->release;
    }
    for (size_t i = 0; i < n; i++)
        ops[i].status = INT32_MIN;
    return n;
}

static void spread(struct scene *s, const rowlock_op *ops, int takes)
{
    for (size_t i = 0; i < s->count; i++) {
        struct part *p = &s->parts[i];
        if (takes && p->takes)
            p->acquire = *ops++;
        else if (!takes && p->gives)
            p->release = *ops++;
    }
}

static void note_fences(struct fixture *f, struct scene *s)
{
    for (size_t i = 0; i < s->count; i++) {
        struct part *p = &s->parts[i];
        p->fence = row_exists(f, p->name) ? row_of(f, p->name).fence : 0;
    }
}

/* What a connection has met last may decide how it begins. */
static void meet(struct fixture *f, int is_free)
{
    for (int i = 0; i < 3; i++) {
        rowlock_op op = op_new("met", "ann");
        if (is_free)
            grant_released(f, "met free", "ann");
        else
            expect_status(ROWLOCK_BUSY, try_acquire(f, f->conn, &op), NULL);
    }
}

static void ask(struct fixture *f, struct scene *s, int is_free, int at_once)
{
    rowlock_op releases[PARTS], acquires[PARTS];
    size_t n = gather(s, releases, 0), m = gather(s, acquires, 1);
    note_fences(f, s);
    meet(f, is_free);
    if (at_once) {
        ops_exchange(f, f->conn, releases, n, acquires, m);
    } else {
        ops_release(f, f->conn, releases, n);
        ops_acquire(f, f->conn, acquires, m, 0);
    }
    spread(s, releases, 0);
    spread(s, acquires, 1);
}

/* ---- comparing ------------------------------------------------------------------------------- */

static int order(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

/* In whole leases, of which all are long: 0, 1 or 2. */
static int leases(int64_t us)
{
    return (int)((us + LONG_US / 2) / LONG_US);
}

static int describe_release(const struct part *p, char *out, size_t size)
{
    const rowlock_op *op = &p->release;
    if (!p->gives)
        return 0;
    if (op->status == ROWLOCK_OK)
        return snprintf(out, size, "released to %u; ", op->hold_count);
    return snprintf(out, size, "not released: %d, found as it is %d; ", op->status,
                    memcmp(op->seen, p->last.attempt, sizeof(op->seen)) == 0);
}

static int describe_acquire(const struct part *p, char *out, size_t size)
{
    const rowlock_op *op = &p->acquire;
    if (!p->takes)
        return 0;
    if (op->status == ROWLOCK_OK)
        return snprintf(out, size, "acquired %u, fence %+d, leases %d; ", op->hold_count,
                        order(op->fence, p->fence), leases(op->remaining_us));
    return snprintf(out, size, "not acquired: %d, holder '%s', fence %+d, leases %d, queue %d; ",
                    op->status, op->holder, order(op->holder_fence, p->fence),
                    leases(op->remaining_us), op->is_queue);
}

static int describe_row(struct fixture *f, const struct part *p, char *out, size_t size)
{
    if (!row_exists(f, p->name))
        return snprintf(out, size, "no row; ");
    struct row row = row_of(f, p->name);
    if (p->takes && p->acquire.status == ROWLOCK_OK)
        assert_int_equal(row.fence, p->acquire.fence);
    return snprintf(out, size, "row of '%s', note '%s', count %u, fence %+d, live %d, leases %d; ",
                    row.owner, row.note, row.hold_count, order(row.fence, p->fence),
                    row.remaining_ms > 0, leases(row.remaining_ms * 1000));
}

static int describe_queue(struct fixture *f, const struct part *p, char *out, size_t size)
{
    struct queue queue = {.count = 0};
    if ((f->backend->caps & BACKEND_TICKETS) != 0)
        queue_query(f, &queue, p->name, strlen(p->name));
    return snprintf(out, size, "%zu wait", queue.count);
}

struct outcome {
    char text[1024];
};

static struct outcome describe(struct fixture *f, const struct part *p)
{
    struct outcome out;
    size_t size = sizeof(out.text);
    int at = snprintf(out.text, size, "%s: ", p->kind);
    at += describe_release(p, out.text + at, size - (size_t)at);
    at += describe_acquire(p, out.text + at, size - (size_t)at);
    at += describe_row(f, p, out.text + at, size - (size_t)at);
    describe_queue(f, p, out.text + at, size - (size_t)at);
    return out;
}

/* Twice with the same attempts: what was done is not done again. */
static void play(struct fixture *f, size_t first, size_t count, int is_free)
{
    static struct scene one, two;
    scene_make(f, &one, 'a', first, count);
    scene_make(f, &two, 'b', first, count);
    assert_int_equal(one.count, two.count);
    for (int repeated = 0; repeated < 2; repeated++) {
        ask(f, &one, is_free, 1);
        ask(f, &two, is_free, 0);
        for (size_t i = 0; i < one.count; i++) {
            struct outcome at_once = describe(f, &one.parts[i]);
            struct outcome apart = describe(f, &two.parts[i]);
            assert_string_equal(at_once.text, apart.text);
        }
    }
}

static void test_exchange_answers_what_release_and_acquire_answer(void **state)
{
    play(*state, 0, COUNT(kinds) - NUMBERED, 1);
}

static void test_exchange_by_ticket_answers_what_release_and_acquire_answer(void **state)
{
    play(*state, 0, COUNT(kinds), 1);
}

static void test_exchange_after_held_ones_answers_what_release_and_acquire_answer(void **state)
{
    struct fixture *f = *state;
    grant(f, "met", "eve");
    play(f, 0, COUNT(kinds), 0);
}

static void test_exchange_of_one_and_one_answers_what_release_and_acquire_answer(void **state)
{
    struct fixture *f = *state;
    grant(f, "met", "eve");
    for (size_t i = 0; i < 2 * COUNT(kinds); i++)
        play(f, i / 2, 1, i % 2 == 0);
}

static const struct test_case cases[] = {
    CASE_IF(test_exchange_answers_what_release_and_acquire_answer, BACKEND_EXCHANGE),
    CASE_IF(test_exchange_by_ticket_answers_what_release_and_acquire_answer,
            BACKEND_EXCHANGE | BACKEND_TICKETS),
    CASE_IF(test_exchange_after_held_ones_answers_what_release_and_acquire_answer,
            BACKEND_EXCHANGE),
    CASE_IF(test_exchange_of_one_and_one_answers_what_release_and_acquire_answer, BACKEND_EXCHANGE),
};

const struct suite exchange_twin_suite = SUITE("exchange_twin", cases);
