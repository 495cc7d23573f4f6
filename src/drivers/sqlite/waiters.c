/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "lite.h"

enum { PAGE = 128 };

typedef struct entry {
    rowlock_waiter waiter;
    char name[ROWLOCK_NAME_MAX + 1];
    char owner[ROWLOCK_OWNER_MAX + 1];
    char holder[ROWLOCK_OWNER_MAX + 1];
} entry;

/* By the page, as `list` does. */
typedef struct listing {
    entry *page;
    int count;
    lite_range range;
    int64_t ticket; /* after this one of the name at which the range begins */
} listing;

static void copy_waiter(entry *e, sqlite3_stmt *statement)
{
    int has_holder = sqlite3_column_type(statement, 5) != SQLITE_NULL;
    size_t length = lite_copy_name(e->name, statement, 0);

    lite_copy_text(e->owner, sizeof e->owner, statement, 2);
    lite_copy_text(e->holder, sizeof e->holder, statement, 5);
    e->waiter = (rowlock_waiter){.size = sizeof e->waiter,
                                 .name = e->name,
                                 .name_length = length,
                                 .owner = e->owner,
                                 .ticket = (uint64_t)sqlite3_column_int64(statement, 1),
                                 .waited_ms = sqlite3_column_int64(statement, 3) / 1000,
                                 .remaining_ms = lite_left_ms(sqlite3_column_int64(statement, 4)),
                                 .holder = has_holder ? e->holder : NULL};
}

static int read_page(lite_conn *conn, void *payload)
{
    listing *l = payload;
    int status, rc;
    sqlite3_stmt *statement = lite_statement(conn, SQL_WAITERS, &status);

    l->count = 0;
    if (statement == NULL)
        return status;
    sqlite3_bind_blob(statement, 1, l->range.from, l->range.from_length, SQLITE_STATIC);
    sqlite3_bind_int64(statement, 2, l->ticket);
    sqlite3_bind_blob(statement, 3, l->range.end, l->range.end_length, SQLITE_STATIC);
    sqlite3_bind_int(statement, 4, PAGE);
    while ((rc = sqlite3_step(statement)) == SQLITE_ROW && l->count < PAGE)
        copy_waiter(&l->page[l->count++], statement);
    return lite_done(conn, statement, rc);
}

static void go_on_after(listing *l, const rowlock_waiter *waiter)
{
    memcpy(l->range.from, waiter->name, waiter->name_length);
    l->range.from_length = (int)waiter->name_length;
    l->ticket = (int64_t)waiter->ticket;
}

static int show_pages(lite_conn *conn, listing *l, rowlock_waiter_fn fn, void *payload,
                      uint32_t timeout_ms, rowlock_error *err)
{
    int64_t deadline_us = lite_deadline(timeout_ms);

    do {
        int status = lite_call_until(conn, read_page, l, deadline_us, err);

        if (status != ROWLOCK_OK)
            return status;
        for (int i = 0; i < l->count; i++) {
            if (fn(&l->page[i].waiter, payload) != 0)
                return ROWLOCK_OK;
        }
        if (l->count == PAGE)
            go_on_after(l, &l->page[PAGE - 1].waiter);
    } while (l->count == PAGE);
    return ROWLOCK_OK;
}

int lite_waiters(void *conn, const rowlock_list_query *query, rowlock_waiter_fn fn, void *payload,
                 uint32_t timeout_ms, rowlock_error *err)
{
    listing l = {.page = malloc(PAGE * sizeof(entry)), .ticket = -1};
    int status;

    if (l.page == NULL)
        return rlk_fail_memory(err);
    lite_range_set(&l.range, query);
    status = show_pages(conn, &l, fn, payload, timeout_ms, err);
    free(l.page);
    return status;
}
