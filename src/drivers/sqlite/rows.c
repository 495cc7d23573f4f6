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
    int64_t retention_us;
    uint64_t limit, found;
    rlk_text names; /* each behind its length, a byte */
} reaping;

static void keep_name(reaping *r, sqlite3_stmt *statement)
{
    const char *name = sqlite3_column_blob(statement, 0);
    unsigned char length = (unsigned char)sqlite3_column_bytes(statement, 0);

    rlk_text_add(&r->names, (const char *)&length, 1);
    rlk_text_add(&r->names, name, length);
    r->found++;
}

static int find_rows(lite_conn *conn, reaping *r, uint64_t limit)
{
    int rc, status;
    sqlite3_stmt *statement = lite_statement(conn, SQL_REAP_FIND, &status);

    rlk_text_clear(&r->names);
    r->found = 0;
    if (statement == NULL)
        return status;
    sqlite3_bind_int64(statement, 1, r->retention_us);
    sqlite3_bind_int64(statement, 2, limit > INT64_MAX ? INT64_MAX : (int64_t)limit);
    while ((rc = sqlite3_step(statement)) == SQLITE_ROW)
        keep_name(r, statement);
    status = lite_done(conn, statement, rc);
    return status == ROWLOCK_OK && r->names.failed ? rlk_fail_memory(conn->err) : status;
}

/* Adds to *count. */
static int delete_row(lite_conn *conn, const reaping *r, const char *name, int length, int *count)
{
    int status;
    sqlite3_stmt *statement = lite_statement(conn, SQL_REAP, &status);

    if (statement == NULL)
        return status;
    sqlite3_bind_int64(statement, 1, r->retention_us);
    sqlite3_bind_blob(statement, 2, name, length, SQLITE_STATIC);
    status = lite_done(conn, statement, sqlite3_step(statement));
    if (status == ROWLOCK_OK)
        *count += sqlite3_changes(conn->db);
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
    if (status == ROWLOCK_OK && count > 0)
        status = lite_run(conn, SQL_CLOCK_FLOOR);
    if (status == ROWLOCK_OK)
        status = lite_commit(conn);
    if (status == ROWLOCK_OK)
        *r->out += (uint64_t)count;
    return status;
}

/* Fewer than the limit says that there are no more: what has been used since it was found is made
 * up for. */
static int reap(lite_conn *conn, void *payload)
{
    reaping *r = payload;
    uint64_t before, limit;
    int status;

    do {
        before = *r->out;
        limit = r->limit - before;
        status = find_rows(conn, r, limit);
        if (status == ROWLOCK_OK && r->found > 0)
            status = delete_rows(conn, r);
    } while (status == ROWLOCK_OK && r->found == limit && *r->out > before && *r->out < r->limit);
    return status;
}

int lite_reap(void *conn, uint64_t *out, int64_t retention_us, uint64_t limit, uint32_t timeout_ms,
              rowlock_error *err)
{
    reaping r = {.out = out, .retention_us = retention_us, .limit = limit};
    int status;

    *out = 0;
    status = lite_call(conn, reap, &r, timeout_ms, err);
    rlk_text_free(&r.names);
    return status;
}

/* ---- list */

enum { PAGE = 128, KEY_MAX = ROWLOCK_NAME_MAX + 1 };

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
    unsigned char from[KEY_MAX], end[KEY_MAX]; /* names from <= name < end */
    int from_length, end_length;
} listing;

/* Names that start with the query's bytes are those from these up to the same with the last byte
 * one higher. No byte to raise: up to more than the longest name. */
static void start(listing *l)
{
    size_t n = l->query->starts_with_length;

    n = n > KEY_MAX ? KEY_MAX : n;
    if (n > 0) {
        memcpy(l->from, l->query->starts_with, n);
        memcpy(l->end, l->query->starts_with, n);
    }
    l->from_length = (int)n;
    while (n > 0 && l->end[n - 1] == 0xff)
        n--;
    l->end_length = n > 0 ? (int)n : KEY_MAX;
    if (n > 0)
        l->end[n - 1]++;
    else
        memset(l->end, 0xff, KEY_MAX);
}

/* The smallest name after this one is this one and a NUL. */
static void go_on_after(listing *l, const rowlock_row *row)
{
    memcpy(l->from, row->name, row->name_length + 1);
    l->from_length = (int)row->name_length + 1;
}

/* A part of a millisecond that is left is time left. */
static int64_t left_ms(int64_t us)
{
    return us > 0 ? (us + 999) / 1000 : us / 1000;
}

static void copy_text(char *out, size_t size, sqlite3_stmt *statement, int column)
{
    const char *text = (const char *)sqlite3_column_text(statement, column);

    snprintf(out, size, "%s", text == NULL ? "" : text);
}

static void copy_row(entry *e, sqlite3_stmt *statement)
{
    const void *name = sqlite3_column_blob(statement, 0);
    size_t length = (size_t)sqlite3_column_bytes(statement, 0);

    length = name == NULL ? 0 : length > ROWLOCK_NAME_MAX ? ROWLOCK_NAME_MAX : length;
    if (length > 0)
        memcpy(e->name, name, length);
    e->name[length] = '\0';
    copy_text(e->owner, sizeof e->owner, statement, 1);
    copy_text(e->note, sizeof e->note, statement, 2);
    e->row = (rowlock_row){.size = sizeof e->row,
                           .name = e->name,
                           .name_length = length,
                           .owner = e->owner,
                           .note = e->note,
                           .fence = (uint64_t)sqlite3_column_int64(statement, 3),
                           .hold_count = (uint32_t)sqlite3_column_int64(statement, 4),
                           .held_ms = sqlite3_column_int64(statement, 5) / 1000,
                           .remaining_ms = left_ms(sqlite3_column_int64(statement, 6))};
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
    sqlite3_bind_blob(statement, 1, l->from, l->from_length, SQLITE_STATIC);
    sqlite3_bind_blob(statement, 2, l->end, l->end_length, SQLITE_STATIC);
    sqlite3_bind_int(statement, 3, l->query->expired != 0);
    sqlite3_bind_int(statement, 4, PAGE);
    while ((rc = sqlite3_step(statement)) == SQLITE_ROW && l->count < PAGE)
        copy_row(&l->page[l->count++], statement);
    return lite_done(conn, statement, rc);
}

static int show_pages(lite_conn *conn, listing *l, rowlock_row_fn fn, void *payload,
                      uint32_t timeout_ms, rowlock_error *err)
{
    do {
        int status = lite_call(conn, read_page, l, timeout_ms, err);

        if (status != ROWLOCK_OK)
            return status;
        for (int i = 0; i < l->count; i++) {
            if (fn(&l->page[i].row, payload) != 0)
                return ROWLOCK_OK;
        }
        if (l->count == PAGE)
            go_on_after(l, &l->page[PAGE - 1].row);
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
    start(&l);
    status = show_pages(conn, &l, fn, payload, timeout_ms, err);
    free(l.page);
    return status;
}
