/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lite.h"
#include "text.h"

/* ---- reap */

/* Rows are found first and deleted then: the write lock, for which everybody waits who acquires, is
 * had for the deletion alone. */
typedef struct reaping {
    uint64_t *out;
    const rowlock_mark *after;
    rowlock_mark mark; /* the last one looked at, or none */
    int64_t retention_us;
    uint32_t limit, found;
    rlk_text names; /* each behind its length, a byte */
} reaping;

static void keep_name(reaping *r, const void *name, unsigned char length)
{
    rlk_text_add(&r->names, (const char *)&length, 1);
    rlk_text_add(&r->names, name, length);
    r->found++;
}

static void look_at(reaping *r, sqlite3_stmt *statement)
{
    const void *name = sqlite3_column_blob(statement, 0);
    int length = sqlite3_column_bytes(statement, 0);

    memcpy(r->mark.name, name, (size_t)length);
    r->mark.length = (size_t)length;
    if (sqlite3_column_int(statement, 1))
        keep_name(r, name, (unsigned char)length);
}

static int find_rows(lite_conn *conn, reaping *r)
{
    int rc = SQLITE_OK, status;
    int64_t looks = 0, most = (int64_t)r->limit * ROWLOCK_REAP_LOOK;
    sqlite3_stmt *statement = lite_statement(conn, SQL_REAP_FIND, &status);

    rlk_text_clear(&r->names);
    r->found = 0;
    if (statement == NULL)
        return status;
    sqlite3_bind_int64(statement, 1, r->retention_us);
    sqlite3_bind_blob(statement, 2, r->after->name, (int)r->after->length, SQLITE_STATIC);
    while (looks < most && r->found < r->limit && (rc = sqlite3_step(statement)) == SQLITE_ROW) {
        look_at(r, statement);
        looks++;
    }
    if (rc == SQLITE_DONE)
        r->mark.length = 0;
    status = lite_done(conn, statement, rc == SQLITE_ROW ? SQLITE_OK : rc); /* no row more */
    return status == ROWLOCK_OK && r->names.failed ? rlk_fail_memory(conn->err) : status;
}

/* One of the two statements about a row. *count: what it deleted. */
static int delete_by(lite_conn *conn, enum sql_statement which, const reaping *r, const char *name,
                     int length, int *count)
{
    int status;
    sqlite3_stmt *statement = lite_statement(conn, which, &status);

    *count = 0;
    if (statement == NULL)
        return status;
    sqlite3_bind_int64(statement, 1, r->retention_us);
    sqlite3_bind_blob(statement, 2, name, length, SQLITE_STATIC);
    status = lite_done(conn, statement, sqlite3_step(statement));
    if (status == ROWLOCK_OK)
        *count = sqlite3_changes(conn->db);
    return status;
}

/* Adds to *count. */
static int delete_row(lite_conn *conn, const reaping *r, const char *name, int length, int *count)
{
    int deleted;
    int status = delete_by(conn, SQL_REAP_PAST, r, name, length, &deleted);

    if (status != ROWLOCK_OK)
        return status;
    status = delete_by(conn, SQL_REAP, r, name, length, &deleted);
    *count += deleted;
    return status;
}

static int delete_rows(lite_conn *conn, const reaping *r)
{
    const char *name = r->names.data, *end = name + r->names.length;
    int status = lite_begin(conn), count = 0;

    while (status == ROWLOCK_OK && name < end) {
        int length = (unsigned char)*name++;

        status = delete_row(conn, r, name, length, &count);
        name += length;
    }
    if (status == ROWLOCK_OK)
        status = lite_commit(conn);
    if (status == ROWLOCK_OK)
        *r->out += (uint64_t)count;
    return status;
}

#define TICKET_RETENTION_US INT64_C(60000000)

static int delete_tickets(lite_conn *conn, uint32_t limit)
{
    int status;
    sqlite3_stmt *statement = lite_statement(conn, SQL_REAP_TICKETS, &status);

    if (statement == NULL)
        return status;
    sqlite3_bind_int64(statement, 1, TICKET_RETENTION_US);
    sqlite3_bind_int64(statement, 2, limit);
    return lite_done(conn, statement, sqlite3_step(statement));
}

/* Whoever queues up takes away the dead of the same name: these are of names nobody wants now. */
static int reap_tickets(lite_conn *conn, uint32_t limit)
{
    int rc, found, status;
    sqlite3_stmt *statement = lite_statement(conn, SQL_REAP_TICKETS_FIND, &status);

    if (statement == NULL)
        return status;
    sqlite3_bind_int64(statement, 1, TICKET_RETENTION_US);
    rc = sqlite3_step(statement);
    found = rc == SQLITE_ROW;
    status = lite_done(conn, statement, rc);
    return status == ROWLOCK_OK && found ? delete_tickets(conn, limit) : status;
}

static int reap(lite_conn *conn, void *payload)
{
    reaping *r = payload;
    int status = find_rows(conn, r);

    if (status == ROWLOCK_OK && r->found > 0)
        status = delete_rows(conn, r);
    return status == ROWLOCK_OK ? reap_tickets(conn, r->limit) : status;
}

int lite_reap(void *conn, uint64_t *out, rowlock_mark *mark, int64_t retention_us, uint32_t limit,
              uint32_t timeout_ms, rowlock_error *err)
{
    reaping r = {.out = out, .after = mark, .retention_us = retention_us, .limit = limit};
    int status;

    *out = 0;
    status = lite_call(conn, reap, &r, timeout_ms, err);
    *mark = r.mark;
    rlk_text_free(&r.names);
    return status;
}

/* ---- list */

enum { PAGE = 128 };

typedef struct entry {
    rowlock_row row;
    char name[ROWLOCK_NAME_MAX + 1];
    char owner[ROWLOCK_OWNER_MAX + 1];
    char note[ROWLOCK_NOTE_MAX + 1];
} entry;

/* Rows are read by the page and shown when the statement is at rest: where the journal is not a
 * write-ahead log, an open read would keep everybody from writing while fn takes its time. */
typedef struct listing {
    const rowlock_list_query *query;
    entry *page;
    int count;
    lite_range range;
} listing;

/* The end is the same with the last byte one higher. No byte to raise: more than the longest name.
 */
void lite_range_set(lite_range *range, const rowlock_list_query *query)
{
    size_t n = query->starts_with_length;

    n = n > LITE_KEY_MAX ? LITE_KEY_MAX : n;
    if (n > 0) {
        memcpy(range->from, query->starts_with, n);
        memcpy(range->end, query->starts_with, n);
    }
    range->from_length = (int)n;
    while (n > 0 && range->end[n - 1] == 0xff)
        n--;
    range->end_length = n > 0 ? (int)n : LITE_KEY_MAX;
    if (n > 0)
        range->end[n - 1]++;
    else
        memset(range->end, 0xff, LITE_KEY_MAX);
}

/* The smallest name after this one is this one and a NUL. */
static void go_on_after(listing *l, const char *name, size_t length)
{
    memcpy(l->range.from, name, length);
    l->range.from[length] = 0;
    l->range.from_length = (int)length + 1;
}

int64_t lite_left_ms(int64_t us)
{
    return us > 0 ? (us + 999) / 1000 : us / 1000;
}

void lite_copy_text(char *out, size_t size, sqlite3_stmt *statement, int column)
{
    const char *text = (const char *)sqlite3_column_text(statement, column);

    snprintf(out, size, "%s", text == NULL ? "" : text);
}

size_t lite_copy_name(char *out, sqlite3_stmt *statement, int column)
{
    const void *name = sqlite3_column_blob(statement, column);
    size_t length = (size_t)sqlite3_column_bytes(statement, column);

    length = name == NULL ? 0 : length > ROWLOCK_NAME_MAX ? ROWLOCK_NAME_MAX : length;
    if (length > 0)
        memcpy(out, name, length);
    out[length] = '\0';
    return length;
}

static void copy_row(entry *e, sqlite3_stmt *statement)
{
    size_t length = lite_copy_name(e->name, statement, 0);

    lite_copy_text(e->owner, sizeof e->owner, statement, 1);
    lite_copy_text(e->note, sizeof e->note, statement, 2);
    e->row = (rowlock_row){.size = sizeof e->row,
                           .name = e->name,
                           .name_length = length,
                           .owner = e->owner,
                           .note = e->note,
                           .fence = (uint64_t)sqlite3_column_int64(statement, 3),
                           .hold_count = (uint32_t)sqlite3_column_int64(statement, 4),
                           .held_ms = sqlite3_column_int64(statement, 5) / 1000,
                           .remaining_ms = lite_left_ms(sqlite3_column_int64(statement, 6))};
}

static int read_page(lite_conn *conn, void *payload)
{
    listing *l = payload;
    int status;
    sqlite3_stmt *statement = lite_statement(conn, SQL_LIST, &status);
    int rc;

    l->count = 0;
    if (statement == NULL)
        return status;
    /* An empty blob needs an address; without one SQLite would bind NULL. */
    sqlite3_bind_blob(statement, 1, l->range.from, l->range.from_length, SQLITE_STATIC);
    sqlite3_bind_blob(statement, 2, l->range.end, l->range.end_length, SQLITE_STATIC);
    sqlite3_bind_int(statement, 3, l->query->expired != 0);
    sqlite3_bind_int(statement, 4, PAGE);
    while ((rc = sqlite3_step(statement)) == SQLITE_ROW && l->count < PAGE)
        copy_row(&l->page[l->count++], statement);
    return lite_done(conn, statement, rc);
}

static int show_pages(lite_conn *conn, listing *l, rowlock_row_fn fn, void *payload,
                      uint32_t timeout_ms, rowlock_error *err)
{
    int64_t deadline_us = lite_deadline(timeout_ms);

    do {
        int status = lite_call_until(conn, read_page, l, deadline_us, err);

        if (status != ROWLOCK_OK)
            return status;
        for (int i = 0; i < l->count; i++) {
            if (fn(&l->page[i].row, payload) != 0)
                return ROWLOCK_OK;
        }
        if (l->count == PAGE)
            go_on_after(l, l->page[PAGE - 1].row.name, l->page[PAGE - 1].row.name_length);
    } while (l->count == PAGE);
    return ROWLOCK_OK;
}

int lite_list(void *conn, const rowlock_list_query *query, rowlock_row_fn fn, void *payload,
              uint32_t timeout_ms, rowlock_error *err)
{
    listing l = {.query = query, .page = malloc(PAGE * sizeof(entry))};
    int status;

    if (l.page == NULL)
        return rlk_fail_memory(err);
    lite_range_set(&l.range, query);
    if (query->size >= sizeof *query && query->after != NULL)
        go_on_after(&l, query->after, query->after_length);
    status = show_pages(conn, &l, fn, payload, timeout_ms, err);
    free(l.page);
    return status;
}
