/* SPDX-License-Identifier: MIT
 *
 * The slot exchange: releases and acquires in one call, as they are every day. */
#include <stdio.h>
#include <stdlib.h>

#include "conformance.h"

static void expect_held(struct fixture *f, const rowlock_op *op, uint32_t count)
{
    expect_ok(op->status, NULL);
    assert_int_equal(op->hold_count, count);
    expect_between(op->remaining_us, LONG_US - SLACK_US, LONG_US);
    struct row row = row_of(f, op->name);
    assert_string_equal(row.owner, op->owner);
    assert_int_equal(row.fence, op->fence);
    assert_int_equal(row.hold_count, count);
    expect_between(row.remaining_ms, (LONG_US - SLACK_US) / 1000, LONG_US / 1000);
}

static void expect_given_back(struct fixture *f, const rowlock_op *op)
{
    expect_ok(op->status, NULL);
    assert_int_equal(op->hold_count, 0);
    struct row row = row_of(f, op->name);
    assert_string_equal(row.owner, op->owner);
    assert_int_equal(row.fence, op->fence);
    assert_int_equal(row.hold_count, 0);
    assert_true(row.remaining_ms <= 0);
}

static void test_exchange_frees_one_and_takes_another(void **state)
{
    struct fixture *f = *state;
    rowlock_op old = grant_released(f, "next", "cid");
    rowlock_op held = grant(f, "last", "ann");
    rowlock_op back = op_of(&held), op = op_new("next", "bob");
    op.note = "work";
    ops_exchange(f, f->conn, &back, 1, &op, 1);
    expect_given_back(f, &back);
    expect_held(f, &op, 1);
    assert_true(op.fence > old.fence);
    assert_string_equal(row_of(f, "next").note, "work");
}

static void test_exchange_takes_what_was_never_there(void **state)
{
    struct fixture *f = *state;
    rowlock_op held = grant(f, "last", "ann");
    rowlock_op back = op_of(&held), op = op_new("new", "ann");
    ops_exchange(f, f->conn, &back, 1, &op, 1);
    expect_given_back(f, &back);
    expect_held(f, &op, 1);
}

static void test_exchange_hands_a_lock_over(void **state)
{
    struct fixture *f = *state;
    const char *owners[] = {"ann", "bob"};
    rowlock_op held = grant(f, "lock", "bob");
    for (int i = 0; i < 10; i++) {
        rowlock_op back = op_of(&held), op = op_new("lock", owners[i % 2]);
        ops_exchange(f, f->conn, &back, 1, &op, 1);
        expect_ok(back.status, NULL);
        assert_int_equal(back.hold_count, 0);
        expect_held(f, &op, 1);
        assert_true(op.fence > held.fence);
        rowlock_op late = op_of(&held);
        expect_status(ROWLOCK_LOST, try_release(f, f->conn, &late), NULL);
        held = op;
    }
}

/* A driver may learn from the first rounds how to do the others. The longest of everything. */
static void test_exchange_of_long_values_round_by_round(void **state)
{
    struct fixture *f = *state;
    char names[2][ROWLOCK_NAME_MAX + 1], owner[ROWLOCK_OWNER_MAX + 1], note[ROWLOCK_NOTE_MAX + 1];
    memset(names, 'n', sizeof(names));
    memset(owner, 'o', sizeof(owner));
    memset(note, 't', sizeof(note));
    names[0][0] = 'm';
    names[0][ROWLOCK_NAME_MAX] = names[1][ROWLOCK_NAME_MAX] = '\0';
    owner[ROWLOCK_OWNER_MAX] = note[ROWLOCK_NOTE_MAX] = '\0';
    rowlock_op held = grant(f, names[0], "ann");
    for (int i = 1; i < 6; i++) {
        rowlock_op back = op_of(&held), op = op_new(names[i % 2], owner);
        op.note = note;
        ops_exchange(f, f->conn, &back, 1, &op, 1);
        expect_given_back(f, &back);
        expect_held(f, &op, 1);
        assert_string_equal(row_of(f, names[i % 2]).note, note);
        held = op;
    }
}

static void test_exchange_gives_back_and_enters_again(void **state)
{
    struct fixture *f = *state;
    rowlock_op outer = grant(f, "own", "ann");
    rowlock_op inner = grant(f, "nested", "ann");
    grant(f, "nested", "ann");
    rowlock_op back = op_of(&inner), op = op_new("own", "ann");
    ops_exchange(f, f->conn, &back, 1, &op, 1);
    expect_ok(back.status, NULL);
    assert_int_equal(back.hold_count, 1);
    assert_int_equal(row_of(f, "nested").hold_count, 1);
    assert_true(row_of(f, "nested").remaining_ms > 0);
    expect_held(f, &op, 2);
    assert_int_equal(op.fence, outer.fence);
}

static void test_exchange_tells_who_holds_what_is_held(void **state)
{
    struct fixture *f = *state;
    rowlock_op held = grant(f, "theirs", "bob"), own = grant(f, "own", "ann");
    rowlock_op back = op_of(&own), op = op_new("theirs", "ann");
    memset(op.holder, 'x', sizeof(op.holder));
    op.is_queue = 1;
    ops_exchange(f, f->conn, &back, 1, &op, 1);
    expect_given_back(f, &back);
    expect_status(ROWLOCK_BUSY, op.status, NULL);
    assert_string_equal(op.holder, "bob");
    assert_int_equal(op.holder_fence, held.fence);
    assert_int_equal(op.is_queue, 0);
    expect_between(op.remaining_us, LONG_US - SLACK_US, LONG_US);
    assert_string_equal(row_of(f, "theirs").owner, "bob");
    assert_int_equal(row_of(f, "theirs").hold_count, 1);
}

static void test_exchange_leaves_what_another_has_taken_over(void **state)
{
    struct fixture *f = *state;
    rowlock_op old = grant_expired(f, "lock", "ann");
    rowlock_op held = grant(f, "lock", "bob");
    rowlock_op back = op_of(&old), op = op_new("other", "ann");
    ops_exchange(f, f->conn, &back, 1, &op, 1);
    expect_status(ROWLOCK_LOST, back.status, NULL);
    expect_held(f, &op, 1);
    assert_string_equal(row_of(f, "lock").owner, "bob");
    assert_int_equal(row_of(f, "lock").fence, held.fence);
    assert_int_equal(row_of(f, "lock").hold_count, 1);
}

/* ---- many ------------------------------------------------------------------------------------ */

struct half {
    rowlock_op *ops;
    char (*names)[32];
    size_t n;
};

/* Every second name is one of a number both halves may have, the others have the letter's. */
static struct half half_new(size_t n, char letter, const char *owner)
{
    struct half h = {calloc(n, sizeof(*h.ops)), calloc(n, sizeof(*h.names)), n};
    assert_non_null(h.ops);
    assert_non_null(h.names);
    for (size_t i = 0; i < n; i++) {
        if (i % 2 == 0)
            snprintf(h.names[i], sizeof(h.names[i]), "many/%05zu", i);
        else
            snprintf(h.names[i], sizeof(h.names[i]), "many/%05zu/%c", i, letter);
        h.ops[i] = op_new(h.names[i], owner);
    }
    return h;
}

static void half_free(struct half *h)
{
    free(h->ops);
    free(h->names);
}

static int is_among(const struct half *h, size_t number)
{
    return number % 2 == 0 && number < h->n;
}

/* The rows of both: what was taken is held, the rest of what was given back is free. */
static void expect_many(struct fixture *f, const struct half *given, const struct half *taken)
{
    struct rows rows = rows_read(f), live = rows_query(f, NULL, 0, 0);
    size_t common = given->n < taken->n ? given->n : taken->n;
    assert_int_equal(rows.count, given->n + taken->n - (common + 1) / 2);
    assert_int_equal(live.count, taken->n);
    for (size_t i = 0; i < taken->n; i++) {
        assert_string_equal(live.items[i].name, taken->names[i]);
        assert_string_equal(live.items[i].owner, "bob");
        assert_int_equal(live.items[i].fence, taken->ops[i].fence);
        assert_int_equal(live.items[i].hold_count, 1);
    }
    rows_free(&rows);
    rows_free(&live);
}

static void expect_answers(const struct half *given, const struct half *taken, int repeated)
{
    for (size_t i = 0; i < given->n; i++) {
        /* What was given back and taken by another since is not to be found again. */
        int is_gone = repeated && is_among(taken, i);
        expect_status(is_gone ? ROWLOCK_LOST : ROWLOCK_OK, given->ops[i].status, NULL);
        if (!is_gone)
            assert_int_equal(given->ops[i].hold_count, 0);
    }
    for (size_t i = 0; i < taken->n; i++) {
        expect_ok(taken->ops[i].status, NULL);
        assert_int_equal(taken->ops[i].hold_count, 1);
        if (is_among(given, i))
            assert_true(taken->ops[i].fence > given->ops[i].fence);
    }
}

/* n are given back and m taken, some of them the same; then it is all said once more. */
static void exchange_many(struct fixture *f, size_t n, size_t m)
{
    struct half given = half_new(n, 'a', "ann"), taken = half_new(m, 'b', "bob");
    uint64_t *fences = calloc(m, sizeof(*fences));
    assert_non_null(fences);
    ops_acquire(f, f->conn, given.ops, n, 1);
    for (size_t i = 0; i < n; i++)
        given.ops[i] = op_of(&given.ops[i]);
    ops_exchange(f, f->conn, given.ops, n, taken.ops, m);
    expect_answers(&given, &taken, 0);
    expect_many(f, &given, &taken);
    for (size_t i = 0; i < m; i++)
        fences[i] = taken.ops[i].fence;
    void *conn = another(f);
    ops_exchange(f, conn, given.ops, n, taken.ops, m);
    another_end(f, conn);
    expect_answers(&given, &taken, 1);
    expect_many(f, &given, &taken);
    for (size_t i = 0; i < m; i++)
        assert_int_equal(taken.ops[i].fence, fences[i]);
    free(fences);
    half_free(&given);
    half_free(&taken);
}

#define MANY_CASE(n, m)                                                               \
    static void test_exchange_of_##n##_and_##m##_does_each_of_them_once(void **state) \
    {                                                                                 \
        exchange_many(*state, n, m);                                                  \
    }
MANY_CASE(1, 1)
MANY_CASE(1, 100)
MANY_CASE(100, 1)
MANY_CASE(100, 100)
MANY_CASE(37, 256)
MANY_CASE(256, 37)
MANY_CASE(1000, 1000)

static void test_largest_exchange_does_each_of_them_once(void **state)
{
    exchange_many(*state, ROWLOCK_BATCH_MAX, ROWLOCK_BATCH_MAX);
}

/* Rows that are there and free, as they are mostly, and again and again. */
static void test_exchange_to_and_fro_raises_every_fence(void **state)
{
    enum { N = 50, ROUNDS = 20 };
    struct fixture *f = *state;
    struct half halves[] = {half_new(N, 'a', "ann"), half_new(N, 'b', "bob")};
    ops_acquire(f, f->conn, halves[0].ops, N, 1);
    for (int round = 0; round < ROUNDS; round++) {
        struct half *given = &halves[round % 2], *taken = &halves[(round + 1) % 2];
        uint64_t before[N];
        for (size_t i = 0; i < N; i++) {
            before[i] = i % 2 == 0 ? given->ops[i].fence : taken->ops[i].fence;
            given->ops[i] = op_of(&given->ops[i]);
            taken->ops[i] = op_new(taken->names[i], taken->ops[i].owner);
        }
        ops_exchange(f, f->conn, given->ops, N, taken->ops, N);
        expect_answers(given, taken, 0);
        for (size_t i = 0; i < N; i++)
            assert_true(taken->ops[i].fence > before[i]);
    }
    half_free(&halves[0]);
    half_free(&halves[1]);
}

static const struct test_case cases[] = {
    CASE_IF(test_exchange_frees_one_and_takes_another, BACKEND_EXCHANGE),
    CASE_IF(test_exchange_takes_what_was_never_there, BACKEND_EXCHANGE),
    CASE_IF(test_exchange_hands_a_lock_over, BACKEND_EXCHANGE),
    CASE_IF(test_exchange_of_long_values_round_by_round, BACKEND_EXCHANGE),
    CASE_IF(test_exchange_gives_back_and_enters_again, BACKEND_EXCHANGE),
    CASE_IF(test_exchange_tells_who_holds_what_is_held, BACKEND_EXCHANGE),
    CASE_IF(test_exchange_leaves_what_another_has_taken_over, BACKEND_EXCHANGE),
    CASE_IF(test_exchange_of_1_and_1_does_each_of_them_once, BACKEND_EXCHANGE),
    CASE_IF(test_exchange_of_1_and_100_does_each_of_them_once, BACKEND_EXCHANGE),
    CASE_IF(test_exchange_of_100_and_1_does_each_of_them_once, BACKEND_EXCHANGE),
    CASE_IF(test_exchange_of_100_and_100_does_each_of_them_once, BACKEND_EXCHANGE),
    CASE_IF(test_exchange_of_37_and_256_does_each_of_them_once, BACKEND_EXCHANGE),
    CASE_IF(test_exchange_of_256_and_37_does_each_of_them_once, BACKEND_EXCHANGE),
    CASE_IF(test_exchange_of_1000_and_1000_does_each_of_them_once, BACKEND_EXCHANGE),
    CASE_IF(test_largest_exchange_does_each_of_them_once, BACKEND_EXCHANGE),
    CASE_IF(test_exchange_to_and_fro_raises_every_fence, BACKEND_EXCHANGE),
};

const struct suite exchange_suite = SUITE("exchange", cases);
