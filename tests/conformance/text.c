/* SPDX-License-Identifier: MIT
 *
 * Names are bytes; owners and notes come back as they went in. */
#include "conformance.h"

/* Each name by an owner of its own, all at once; then each is busy for a stranger. */
static void expect_distinct(struct fixture *f, rowlock_op *ops, size_t n)
{
    ops_sort(ops, n);
    ops_acquire(f, f->conn, ops, n, 1);
    for (size_t i = 0; i < n; i++)
        expect_ok(ops[i].status, NULL);
    struct rows rows = rows_read(f);
    assert_int_equal(rows.count, n);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(rows.items[i].name_length, ops[i].name_length);
        assert_memory_equal(rows.items[i].name, ops[i].name, ops[i].name_length);
        assert_int_equal(rows.items[i].fence, ops[i].fence);
        assert_int_equal(rows.items[i].hold_count, 1);
    }
    rows_free(&rows);
    for (size_t i = 0; i < n; i++) {
        rowlock_op op = op_bytes(ops[i].name, ops[i].name_length, "stranger");
        expect_status(ROWLOCK_BUSY, try_acquire(f, f->conn, &op), NULL);
        assert_int_equal(op.holder_fence, ops[i].fence);
    }
}

static void test_names_differ_by_case_and_spaces(void **state)
{
    rowlock_op ops[] = {op_new("a", "ann"),  op_new("A", "ann"),   op_new("a ", "ann"),
                        op_new(" a", "ann"), op_new("a  ", "ann"), op_new("a\t", "ann")};
    expect_distinct(*state, ops, COUNT(ops));
}

static void test_names_differ_by_nul_bytes(void **state)
{
    rowlock_op ops[] = {op_bytes("a", 1, "ann"),    op_bytes("a\0", 2, "ann"),
                        op_bytes("a\0b", 3, "ann"), op_bytes("a\0c", 3, "ann"),
                        op_bytes("\0", 1, "ann"),   op_bytes("\0\0", 2, "ann"),
                        op_bytes("\0a", 2, "ann")};
    expect_distinct(*state, ops, COUNT(ops));
}

static void test_names_differ_by_unicode_form(void **state)
{
    rowlock_op ops[] = {op_new("caf\xc3\xa9", "ann"),
                        op_new("cafe\xcc\x81", "ann"),
                        op_new("cafe", "ann"),
                        op_new("caf\xe9", "ann"),
                        op_new("stra\xc3\x9f"
                               "e",
                               "ann"),
                        op_new("strasse", "ann")};
    expect_distinct(*state, ops, COUNT(ops));
}

static void test_names_may_be_any_single_byte(void **state)
{
    static unsigned char bytes[256];
    static rowlock_op ops[256];
    for (size_t i = 0; i < COUNT(bytes); i++) {
        bytes[i] = (unsigned char)i;
        ops[i] = op_bytes(&bytes[i], 1, "ann");
    }
    expect_distinct(*state, ops, COUNT(ops));
}

static void test_names_may_have_255_bytes(void **state)
{
    static char high[ROWLOCK_NAME_MAX], zero[ROWLOCK_NAME_MAX], text[ROWLOCK_NAME_MAX];
    memset(high, 0xff, sizeof(high));
    memset(text, 'x', sizeof(text));
    rowlock_op ops[] = {
        op_bytes(high, sizeof(high), "ann"), op_bytes(high, sizeof(high) - 1, "ann"),
        op_bytes(zero, sizeof(zero), "ann"), op_bytes(zero, sizeof(zero) - 1, "ann"),
        op_bytes(text, sizeof(text), "ann"), op_bytes(text, sizeof(text) - 1, "ann")};
    expect_distinct(*state, ops, COUNT(ops));
}

static void test_names_are_never_sql(void **state)
{
    rowlock_op ops[] = {
        op_new("'", "ann"),     op_new("\\", "ann"),  op_new("\\'", "ann"),
        op_new("\\x61", "ann"), op_new("a", "ann"),   op_new("');--", "ann"),
        op_new("$1", "ann"),    op_new("?", "ann"),   op_new("{\"a\",\"b\"}", "ann"),
        op_new("a,b", "ann"),   op_new("NULL", "ann")};
    expect_distinct(*state, ops, COUNT(ops));
}

static void test_names_work_in_every_slot(void **state)
{
    struct fixture *f = *state;
    rowlock_op held = op_bytes("\0'\\\xff%", 5, "ann");
    expect_ok(try_acquire(f, f->conn, &held), NULL);
    rowlock_op op = op_of(&held);
    expect_ok(try_renew(f, f->conn, &op), NULL);
    rowlock_op force = op_bytes("\0'\\\xff%", 5, "");
    expect_ok(try_force(f, f->conn, &force), NULL);
    expect_status(ROWLOCK_LOST, try_release(f, f->conn, &op), NULL);
    rowlock_op next = op_bytes("\0'\\\xff%", 5, "ann");
    expect_ok(try_acquire(f, f->conn, &next), NULL);
    rowlock_op back = op_of(&next);
    expect_ok(try_release(f, f->conn, &back), NULL);
}

static const char *const texts[] = {
    "plain",
    "o'hara",
    "\"quoted\"",
    "back\\slash",
    "\\",
    "`tick`",
    "\\x41",
    "a,b{c}[d]",
    "NULL",
    "%s %n",
    "gr\xc3\xbc\xc3\x9f",
    "\xe6\x97\xa5\xe6\x9c\xac",
    "\xf0\x9f\x94\x92",
    "e\xcc\x81",
    " spaces ",
};

static void test_owners_come_back_as_given(void **state)
{
    struct fixture *f = *state;
    for (size_t i = 0; i < COUNT(texts); i++) {
        char name[] = {'n', (char)('a' + i), '\0'};
        rowlock_op held = op_new(name, texts[i]);
        expect_ok(try_acquire(f, f->conn, &held), NULL);
        rowlock_op op = op_new(name, "stranger");
        expect_status(ROWLOCK_BUSY, try_acquire(f, f->conn, &op), NULL);
        assert_string_equal(op.holder, texts[i]);
        assert_string_equal(row_of(f, name).owner, texts[i]);
        rowlock_op back = op_of(&held);
        expect_ok(try_release(f, f->conn, &back), NULL);
    }
}

static void test_owners_are_compared_by_bytes(void **state)
{
    struct fixture *f = *state;
    static const char *const others[] = {"Ann", "ann ", " ann", "an", "annn", "a\xc3\xb1n"};
    grant(f, "lock", "ann");
    for (size_t i = 0; i < COUNT(others); i++) {
        rowlock_op op = op_new("lock", others[i]);
        expect_status(ROWLOCK_BUSY, try_acquire(f, f->conn, &op), NULL);
    }
    grant(f, "accent", "caf\xc3\xa9");
    rowlock_op op = op_new("accent", "cafe\xcc\x81");
    expect_status(ROWLOCK_BUSY, try_acquire(f, f->conn, &op), NULL);
    grant(f, "accent", "caf\xc3\xa9");
}

static void test_owners_may_have_255_bytes(void **state)
{
    struct fixture *f = *state;
    char owner[ROWLOCK_OWNER_MAX + 1];
    memset(owner, 'o', sizeof(owner));
    memcpy(owner + ROWLOCK_OWNER_MAX - 4, "\xf0\x9f\x94\x92", 5);
    rowlock_op held = grant(f, "lock", owner);
    rowlock_op op = op_new("lock", "stranger");
    expect_status(ROWLOCK_BUSY, try_acquire(f, f->conn, &op), NULL);
    assert_string_equal(op.holder, owner);
    rowlock_op back = op_of(&held);
    expect_ok(try_release(f, f->conn, &back), NULL);
}

static void test_notes_come_back_as_given(void **state)
{
    struct fixture *f = *state;
    for (size_t i = 0; i < COUNT(texts); i++) {
        rowlock_op op = op_new("lock", "ann");
        op.note = texts[i];
        expect_ok(try_acquire(f, f->conn, &op), NULL);
        assert_string_equal(row_of(f, "lock").note, texts[i]);
    }
}

static void test_notes_may_have_1000_bytes(void **state)
{
    struct fixture *f = *state;
    static char note[ROWLOCK_NOTE_MAX + 1];
    for (size_t i = 0; i < ROWLOCK_NOTE_MAX; i += 2)
        memcpy(note + i, "\xc3\xbc", 2);
    rowlock_op op = op_new("lock", "ann");
    op.note = note;
    expect_ok(try_acquire(f, f->conn, &op), NULL);
    assert_string_equal(row_of(f, "lock").note, note);
}

static const struct test_case cases[] = {
    CASE(test_names_differ_by_case_and_spaces), CASE(test_names_differ_by_nul_bytes),
    CASE(test_names_differ_by_unicode_form),    CASE(test_names_may_be_any_single_byte),
    CASE(test_names_may_have_255_bytes),        CASE(test_names_are_never_sql),
    CASE(test_names_work_in_every_slot),        CASE(test_owners_come_back_as_given),
    CASE(test_owners_are_compared_by_bytes),    CASE(test_owners_may_have_255_bytes),
    CASE(test_notes_come_back_as_given),        CASE(test_notes_may_have_1000_bytes),
};

const struct suite text_suite = SUITE("text", cases);
