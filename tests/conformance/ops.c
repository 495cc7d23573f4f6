/* SPDX-License-Identifier: MIT
 *
 * Operations and rows: short words for what most cases do. */
#include <stdlib.h>

#include "conformance.h"
#include "random.h"

/* ---- operations ------------------------------------------------------------------------------ */

rowlock_op op_bytes(const void *name, size_t length, const char *owner)
{
    rowlock_op op = {.name = name,
                     .name_length = length,
                     .owner = owner,
                     .note = "",
                     .ttl_us = LONG_US,
                     .status = INT32_MIN};
    if (rlk_random(op.attempt, sizeof(op.attempt)) != 0)
        abort();
    return op;
}

rowlock_op op_new(const char *name, const char *owner)
{
    return op_bytes(name, strlen(name), owner);
}

rowlock_op op_of(const rowlock_op *granted)
{
    rowlock_op op = op_bytes(granted->name, granted->name_length, granted->owner);
    op.fence = granted->fence;
    return op;
}

int try_acquire(struct fixture *f, void *conn, rowlock_op *op)
{
    expect_ok(f->driver->acquire(conn, op, 1, 0, CALL_MS, &f->err), &f->err);
    return op->status;
}

int try_renew(struct fixture *f, void *conn, rowlock_op *op)
{
    expect_ok(f->driver->renew(conn, op, 1, CALL_MS, &f->err), &f->err);
    return op->status;
}

int try_release(struct fixture *f, void *conn, rowlock_op *op)
{
    expect_ok(f->driver->release(conn, op, 1, CALL_MS, &f->err), &f->err);
    return op->status;
}

int try_force(struct fixture *f, void *conn, rowlock_op *op)
{
    expect_ok(f->driver->force_release(conn, op, CALL_MS, &f->err), &f->err);
    return op->status;
}

rowlock_op grant_for(struct fixture *f, const char *name, const char *owner, int64_t ttl_us)
{
    rowlock_op op = op_new(name, owner);
    op.ttl_us = ttl_us;
    expect_ok(try_acquire(f, f->conn, &op), NULL);
    return op;
}

rowlock_op grant(struct fixture *f, const char *name, const char *owner)
{
    return grant_for(f, name, owner, LONG_US);
}

rowlock_op grant_expired(struct fixture *f, const char *name, const char *owner)
{
    rowlock_op op = grant_for(f, name, owner, SHORT_US);
    sleep_us(SHORT_US);
    for (int i = 0; i < 1000 && row_of(f, name).remaining_ms > 0; i++)
        sleep_us(1000);
    sleep_us(1000); /* remaining_ms is in whole milliseconds */
    return op;
}

rowlock_op grant_released(struct fixture *f, const char *name, const char *owner)
{
    rowlock_op op = grant(f, name, owner);
    rowlock_op back = op_of(&op);
    expect_ok(try_release(f, f->conn, &back), NULL);
    return op;
}

int reap_behind(struct fixture *f, uint64_t *out, rowlock_mark *mark, int64_t retention_us,
                uint32_t limit)
{
    return f->driver->reap(f->conn, out, mark, retention_us, limit, CALL_MS, &f->err);
}

uint64_t reap(struct fixture *f, int64_t retention_us, uint64_t limit)
{
    rowlock_mark mark = {0};
    uint64_t sum = 0;
    do {
        uint64_t left = limit - sum, count = UINT64_MAX;
        uint32_t most = left < ROWLOCK_REAP_MAX ? (uint32_t)left : ROWLOCK_REAP_MAX;
        expect_ok(reap_behind(f, &count, &mark, retention_us, most), &f->err);
        assert_true(count <= most);
        sum += count;
    } while (mark.length > 0 && sum < limit);
    return sum;
}

/* ---- arrays ---------------------------------------------------------------------------------- */

static int compare_names(const void *left, const void *right)
{
    const rowlock_op *a = left, *b = right;
    size_t shorter = a->name_length < b->name_length ? a->name_length : b->name_length;
    int order = memcmp(a->name, b->name, shorter);
    if (order != 0)
        return order;
    return (a->name_length > b->name_length) - (a->name_length < b->name_length);
}

void ops_sort(rowlock_op *ops, size_t n)
{
    qsort(ops, n, sizeof(*ops), compare_names);
}

void ops_acquire(struct fixture *f, void *conn, rowlock_op *ops, size_t n, int all)
{
    expect_ok(f->driver->acquire(conn, ops, n, all, CALL_MS, &f->err), &f->err);
}

void ops_renew(struct fixture *f, void *conn, rowlock_op *ops, size_t n)
{
    expect_ok(f->driver->renew(conn, ops, n, CALL_MS, &f->err), &f->err);
}

void ops_release(struct fixture *f, void *conn, rowlock_op *ops, size_t n)
{
    expect_ok(f->driver->release(conn, ops, n, CALL_MS, &f->err), &f->err);
}

void ops_exchange(struct fixture *f, void *conn, rowlock_op *releases, size_t n,
                  rowlock_op *acquires, size_t m)
{
    expect_ok(f->driver->exchange(conn, releases, n, acquires, m, CALL_MS, &f->err), &f->err);
}

/* ---- rows ------------------------------------------------------------------------------------ */

int rows_collect(const rowlock_row *row, void *payload)
{
    struct rows *rows = payload;
    if (rows->count == rows->capacity) {
        size_t capacity = rows->capacity == 0 ? 16 : rows->capacity * 2;
        struct row *items = realloc(rows->items, capacity * sizeof(*items));
        if (items == NULL)
            return 1;
        rows->items = items;
        rows->capacity = capacity;
    }
    struct row *to = &rows->items[rows->count++];
    memset(to, 0, sizeof(*to));
    to->name_length = row->name_length;
    memcpy(to->name, row->name, row->name_length < sizeof(to->name) ? row->name_length : 0);
    memcpy(to->owner, row->owner, strnlen(row->owner, sizeof(to->owner) - 1));
    memcpy(to->note, row->note, strnlen(row->note, sizeof(to->note) - 1));
    to->fence = row->fence;
    to->hold_count = row->hold_count;
    to->held_ms = row->held_ms;
    to->remaining_ms = row->remaining_ms;
    return 0;
}

struct rows rows_query(struct fixture *f, const void *starts_with, size_t length, int expired)
{
    struct rows rows = {0};
    rowlock_list_query query = {.size = sizeof(query),
                                .starts_with = starts_with,
                                .starts_with_length = length,
                                .expired = expired};
    expect_ok(f->driver->list(f->conn, &query, rows_collect, &rows, CALL_MS, &f->err), &f->err);
    return rows;
}

struct rows rows_read(struct fixture *f)
{
    return rows_query(f, NULL, 0, 1);
}

void rows_free(struct rows *rows)
{
    free(rows->items);
    *rows = (struct rows){0};
}

static int row_find(struct fixture *f, const char *name, struct row *out)
{
    struct rows rows = rows_query(f, name, strlen(name), 1);
    int found = 0;
    for (size_t i = 0; i < rows.count && !found; i++) {
        found = rows.items[i].name_length == strlen(name);
        if (found)
            *out = rows.items[i];
    }
    rows_free(&rows);
    return found;
}

struct row row_of(struct fixture *f, const char *name)
{
    struct row row;
    memset(&row, 0, sizeof(row));
    if (!row_find(f, name, &row))
        fail_msg("there is no row of the name '%s'", name);
    return row;
}

int row_exists(struct fixture *f, const char *name)
{
    struct row row;
    return row_find(f, name, &row);
}

void expect_same_rows(const struct rows *before, const struct rows *after)
{
    assert_int_equal(before->count, after->count);
    for (size_t i = 0; i < before->count; i++) {
        const struct row *a = &before->items[i], *b = &after->items[i];
        assert_int_equal(a->name_length, b->name_length);
        assert_memory_equal(a->name, b->name, a->name_length);
        assert_string_equal(a->owner, b->owner);
        assert_string_equal(a->note, b->note);
        assert_int_equal(a->fence, b->fence);
        assert_int_equal(a->hold_count, b->hold_count);
        /* held + remaining is the length of the lease: nearly constant while nothing is written */
        expect_between(b->held_ms + b->remaining_ms, a->held_ms + a->remaining_ms - 50,
                       a->held_ms + a->remaining_ms + 50);
    }
}
