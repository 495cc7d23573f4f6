/* SPDX-License-Identifier: MIT */
#include "pg.h"

#include <string.h>

#include "clock.h"

/* NULL: there is nothing behind. */
static void set_mark(rowlock_mark *mark, const PGresult *result, int column)
{
    size_t n = (size_t)PQgetlength(result, 0, column);

    mark->length = n > sizeof mark->name ? sizeof mark->name : n;
    if (mark->length > 0)
        memcpy(mark->name, PQgetvalue(result, 0, column), mark->length);
}

int pg_reap(void *memory, uint64_t *out, rowlock_mark *mark, int64_t retention_us, uint32_t limit,
            uint32_t timeout_ms, rowlock_error *err)
{
    pg_link *conn = memory;
    int64_t deadline = rlk_clock_us() + (int64_t)timeout_ms * 1000;
    PGresult *result;
    int status;

    pg_params_clear(&conn->params);
    pg_param(&conn->params);
    pg_put_i64(&conn->params, retention_us);
    pg_param(&conn->params);
    pg_put_i64(&conn->params, limit);
    pg_param(&conn->params);
    pg_put_bytes(&conn->params, mark->name, mark->length);
    pg_param(&conn->params);
    pg_put_i64(&conn->params, (int64_t)limit * ROWLOCK_REAP_LOOK);
    status = pg_call(conn, PG_REAP, &result, deadline, err);
    if (status != ROWLOCK_OK)
        return status;
    *out = (uint64_t)pg_get_int(result, 0, 0);
    set_mark(mark, result, 1);
    PQclear(result);
    return rlk_ok(err);
}

/* ---- list: page by page, so that a large table is not held in memory */

enum { PAGE_ROWS = 1000, BOUND_SIZE = ROWLOCK_NAME_MAX + 1 };
enum { LIST_NAME, LIST_OWNER, LIST_NOTE, LIST_FENCE, LIST_COUNT, LIST_HELD, LIST_REMAINING };

/* Names from first (included) to last (not included). */
typedef struct range {
    unsigned char first[BOUND_SIZE], last[BOUND_SIZE];
    size_t first_length, last_length;
} range;

/* All names that start so: up to the next one of the same length; all bytes 0xff, longer than any
 * name, is behind everything. */
static void range_of(range *names, const rowlock_list_query *query)
{
    size_t n = query->starts_with_length;

    memset(names->last, 0xff, sizeof names->last);
    names->last_length = sizeof names->last;
    names->first_length = n;
    if (n == 0)
        return;
    memcpy(names->first, query->starts_with, n);
    while (n > 0 && names->first[n - 1] == 0xff)
        n--;
    if (n == 0)
        return;
    memcpy(names->last, names->first, n);
    names->last[n - 1]++;
    names->last_length = n;
}

/* From the last name of a page on. */
static void range_from(range *names, const PGresult *page)
{
    int row = PQntuples(page) - 1;
    size_t n = (size_t)PQgetlength(page, row, 0);

    if (n >= BOUND_SIZE)
        n = BOUND_SIZE - 1;
    memcpy(names->first, PQgetvalue(page, row, 0), n);
    names->first_length = n;
}

/* The name right behind another is that with a zero byte added. */
static void range_behind(range *names, const char *name, size_t n)
{
    if (n >= BOUND_SIZE)
        n = BOUND_SIZE - 1;
    memcpy(names->first, name, n);
    names->first[n] = 0;
    names->first_length = n + 1;
}

static void range_after(range *names, const PGresult *page)
{
    int row = PQntuples(page) - 1;

    range_behind(names, PQgetvalue(page, row, 0), (size_t)PQgetlength(page, row, 0));
}

/* Are the texts of a page no longer than the tables allow? Nobody has to be ready for more.
 * `other`: a third one, besides name and owner, and its bound. */
static int check_page(PGresult **page, int owner, int other, int most, int status,
                      rowlock_error *err)
{
    int is_fit = 1;

    for (int row = 0; status == ROWLOCK_OK && row < PQntuples(*page); row++)
        is_fit &= PQgetlength(*page, row, 0) <= ROWLOCK_NAME_MAX &&
                  PQgetlength(*page, row, owner) <= ROWLOCK_OWNER_MAX &&
                  PQgetlength(*page, row, other) <= most;
    if (is_fit)
        return status;
    PQclear(*page);
    *page = NULL;
    return rlk_fail(err, ROWLOCK_EDRIVER, "the server's answer makes no sense: a text is too long");
}

/* Up to a whole millisecond, so that a live lease never looks ended. */
static int64_t to_ms(int64_t us)
{
    return us > 0 ? (us + 999) / 1000 : us / 1000;
}

static int show_row(const PGresult *page, int row, rowlock_row_fn fn, void *payload)
{
    rowlock_row shown = {
        .size = sizeof shown,
        .name = PQgetvalue(page, row, LIST_NAME),
        .name_length = (size_t)PQgetlength(page, row, LIST_NAME),
        .owner = PQgetvalue(page, row, LIST_OWNER),
        .note = PQgetvalue(page, row, LIST_NOTE),
        .fence = (uint64_t)pg_get_int(page, row, LIST_FENCE),
        .hold_count = (uint32_t)pg_get_int(page, row, LIST_COUNT),
        .held_ms = to_ms(pg_get_int(page, row, LIST_HELD)),
        .remaining_ms = to_ms(pg_get_int(page, row, LIST_REMAINING)),
    };

    return fn(&shown, payload);
}

static int get_page(pg_link *conn, const range *names, int expired, PGresult **out,
                    int64_t deadline, rowlock_error *err)
{
    pg_params_clear(&conn->params);
    pg_param(&conn->params);
    pg_put_bytes(&conn->params, names->first, names->first_length);
    pg_param(&conn->params);
    pg_put_bytes(&conn->params, names->last, names->last_length);
    pg_param(&conn->params);
    pg_put_bool(&conn->params, expired);
    pg_param(&conn->params);
    pg_put_i64(&conn->params, PAGE_ROWS);
    return check_page(out, LIST_OWNER, LIST_NOTE, ROWLOCK_NOTE_MAX,
                      pg_unchanged(pg_call(conn, PG_LIST, out, deadline, err), err), err);
}

int pg_list(void *memory, const rowlock_list_query *query, rowlock_row_fn fn, void *payload,
            uint32_t timeout_ms, rowlock_error *err)
{
    int64_t left_us = (int64_t)timeout_ms * 1000; /* what fn takes does not count */
    range names;
    int rows, stop = 0;

    if (query->starts_with_length > ROWLOCK_NAME_MAX)
        return rlk_ok(err);
    range_of(&names, query);
    if (query->size >= sizeof *query && query->after != NULL)
        range_behind(&names, query->after, query->after_length);
    do {
        int64_t start = rlk_clock_us();
        PGresult *page;
        int status = get_page(memory, &names, query->expired, &page, start + left_us, err);

        if (status != ROWLOCK_OK)
            return status;
        left_us -= rlk_clock_us() - start;
        rows = PQntuples(page);
        for (int row = 0; row < rows && !stop; row++)
            stop = show_row(page, row, fn, payload);
        if (rows > 0)
            range_after(&names, page);
        PQclear(page);
    } while (rows == PAGE_ROWS && !stop);
    return rlk_ok(err);
}

/* ---- waiters */

enum { WAITER_NAME, WAITER_OWNER, WAITER_TICKET, WAITER_WAITED, WAITER_REMAINING, WAITER_HOLDER };

static int show_waiter(const PGresult *page, int row, rowlock_waiter_fn fn, void *payload)
{
    rowlock_waiter shown = {
        .size = sizeof shown,
        .name = PQgetvalue(page, row, WAITER_NAME),
        .name_length = (size_t)PQgetlength(page, row, WAITER_NAME),
        .owner = PQgetvalue(page, row, WAITER_OWNER),
        .ticket = (uint64_t)pg_get_int(page, row, WAITER_TICKET),
        .waited_ms = to_ms(pg_get_int(page, row, WAITER_WAITED)),
        .remaining_ms = to_ms(pg_get_int(page, row, WAITER_REMAINING)),
        .holder =
            PQgetisnull(page, row, WAITER_HOLDER) ? NULL : PQgetvalue(page, row, WAITER_HOLDER),
    };

    return fn(&shown, payload);
}

/* The tickets behind `ticket` of the first name, and of the names behind it. */
static int get_waiters(pg_link *conn, const range *names, int64_t ticket, PGresult **out,
                       int64_t deadline, rowlock_error *err)
{
    pg_params_clear(&conn->params);
    pg_param(&conn->params);
    pg_put_bytes(&conn->params, names->first, names->first_length);
    pg_param(&conn->params);
    pg_put_i64(&conn->params, ticket);
    pg_param(&conn->params);
    pg_put_bytes(&conn->params, names->last, names->last_length);
    pg_param(&conn->params);
    pg_put_i64(&conn->params, PAGE_ROWS);
    return check_page(out, WAITER_OWNER, WAITER_HOLDER, ROWLOCK_OWNER_MAX,
                      pg_unchanged(pg_call(conn, PG_WAITERS, out, deadline, err), err), err);
}

int pg_waiters(void *memory, const rowlock_list_query *query, rowlock_waiter_fn fn, void *payload,
               uint32_t timeout_ms, rowlock_error *err)
{
    int64_t left_us = (int64_t)timeout_ms * 1000, ticket = 0;
    range names;
    int rows, stop = 0;

    if (query->starts_with_length > ROWLOCK_NAME_MAX)
        return rlk_ok(err);
    range_of(&names, query);
    do {
        int64_t start = rlk_clock_us();
        PGresult *page;
        int status = get_waiters(memory, &names, ticket, &page, start + left_us, err);

        if (status != ROWLOCK_OK)
            return status;
        left_us -= rlk_clock_us() - start;
        rows = PQntuples(page);
        for (int row = 0; row < rows && !stop; row++)
            stop = show_waiter(page, row, fn, payload);
        if (rows > 0) {
            range_from(&names, page);
            ticket = pg_get_int(page, rows - 1, WAITER_TICKET);
        }
        PQclear(page);
    } while (rows == PAGE_ROWS && !stop);
    return rlk_ok(err);
}
