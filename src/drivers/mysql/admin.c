/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "my.h"

enum { REAP_BATCH = 500, LIST_PAGE = 1000 };

/* One batch behind the name in `after` (a literal), which moves on. *found: rows that were dead. */
static int reap_batch(my_conn *conn, rlk_text *after, int64_t retention_us, int64_t limit,
                      int64_t deadline, int64_t *found, int64_t *deleted, rowlock_error *err)
{
    rlk_text retention = {0}, count = {0};
    const char *literals[] = {my_number(&retention, retention_us), after->data,
                              my_number(&count, limit)};
    MYSQL_RES *result = NULL;
    int status;

    my_start(conn);
    my_add(conn, SQL_REAP, literals, 3);
    if (retention.failed || count.failed)
        status = rlk_fail_memory(err);
    else
        status = my_run(conn, deadline, &result, err);
    if (status == ROWLOCK_OK) {
        MYSQL_ROW row = mysql_fetch_row(result);

        *found = row != NULL ? my_int(row[0]) : 0;
        *deleted = row != NULL ? my_int(row[1]) : 0;
        rlk_text_clear(after);
        rlk_text_str(after, "x'");
        rlk_text_str(after, row != NULL && row[2] != NULL ? row[2] : "");
        rlk_text_str(after, "'");
        if (after->failed)
            status = rlk_fail_memory(err);
    }
    mysql_free_result(result);
    rlk_text_free(&retention);
    rlk_text_free(&count);
    return status;
}

int my_reap(void *handle, uint64_t *out, int64_t retention_us, uint64_t limit, uint32_t timeout_ms,
            rowlock_error *err)
{
    int64_t deadline = my_deadline(timeout_ms), found = 0, deleted = 0, batch;
    rlk_text after = {0};
    int status = ROWLOCK_OK;

    my_client_enter();
    rlk_ok(err);
    *out = 0;
    if (my_bytes(&after, "", 0) == NULL || after.failed)
        status = rlk_fail_memory(err);
    do {
        if (status != ROWLOCK_OK || *out >= limit)
            break;
        batch = limit - *out < REAP_BATCH ? (int64_t)(limit - *out) : REAP_BATCH;
        status = reap_batch(handle, &after, retention_us, batch, deadline, &found, &deleted, err);
        if (status == ROWLOCK_OK)
            *out += (uint64_t)deleted;
    } while (found == batch);
    rlk_text_free(&after);
    return status;
}

/* Where a listing stands. Literals, and the last name as bytes. */
typedef struct my_cursor {
    rlk_text first, last, end;
    int has_end;
} my_cursor;

/* The names that start with a prefix end before the prefix with its last byte raised; bytes 0xff at
 * its end have nothing above them and are left out. */
static void set_end(my_cursor *cursor, const rowlock_list_query *query)
{
    size_t n = query->starts_with_length;
    unsigned char *bytes = malloc(n + 1);

    if (bytes == NULL) {
        cursor->end.failed = 1;
        return;
    }
    if (n > 0)
        memcpy(bytes, query->starts_with, n);
    while (n > 0 && bytes[n - 1] == 0xff)
        n--;
    if (n > 0)
        bytes[n - 1]++;
    cursor->has_end = n > 0;
    my_bytes(&cursor->end, bytes, n);
    free(bytes);
}

/* name, owner, note, fence, hold_count, held, remaining */
static int show_row(MYSQL_ROW row, const unsigned long *lengths, rowlock_row_fn fn, void *payload)
{
    rowlock_row shown = {.size = sizeof shown,
                         .name = row[0],
                         .name_length = lengths[0],
                         .owner = row[1],
                         .note = row[2],
                         .fence = (uint64_t)my_int(row[3]),
                         .hold_count = (uint32_t)my_int(row[4]),
                         .held_ms = my_int(row[5]),
                         .remaining_ms = my_int(row[6])};

    return fn(&shown, payload);
}

/* Shows a page's rows. 1: there may be another page. */
static int show_page(my_cursor *cursor, MYSQL_RES *result, rowlock_row_fn fn, void *payload)
{
    int full = mysql_num_rows(result) == LIST_PAGE, stop = 0;
    MYSQL_ROW row;

    while (!stop && (row = mysql_fetch_row(result)) != NULL) {
        const unsigned long *lengths = mysql_fetch_lengths(result);

        my_bytes(&cursor->last, row[0], lengths[0]);
        stop = show_row(row, lengths, fn, payload);
    }
    my_bytes(&cursor->first, "", 0);
    if (cursor->last.length > 0 && !cursor->last.failed) {
        rlk_text_clear(&cursor->first);
        rlk_text_str(&cursor->first, cursor->last.data);
    }
    return full && !stop;
}

/* Pages, so that no result waits in the server while fn takes its time. */
int my_list(void *handle, const rowlock_list_query *query, rowlock_row_fn fn, void *payload,
            uint32_t timeout_ms, rowlock_error *err)
{
    my_conn *conn = handle;
    int64_t deadline = my_deadline(timeout_ms);
    my_cursor cursor = {0};
    rlk_text page = {0};
    int status = ROWLOCK_OK, more = 1;

    my_client_enter();
    rlk_ok(err);
    my_bytes(&cursor.first, query->starts_with, query->starts_with_length);
    my_bytes(&cursor.last, "", 0);
    set_end(&cursor, query);
    my_number(&page, LIST_PAGE);
    while (status == ROWLOCK_OK && more) {
        const char *literals[] = {cursor.first.data,          cursor.last.data,
                                  cursor.has_end ? "1" : "0", cursor.end.data,
                                  query->expired ? "1" : "0", page.data};
        MYSQL_RES *result = NULL;

        if (cursor.first.failed || cursor.last.failed || cursor.end.failed || page.failed) {
            status = rlk_fail_memory(err);
            break;
        }
        my_start(conn);
        my_add(conn, SQL_LIST, literals, 6);
        status = my_run(conn, deadline, &result, err);
        more = status == ROWLOCK_OK && show_page(&cursor, result, fn, payload);
        mysql_free_result(result);
    }
    rlk_text_free(&cursor.first);
    rlk_text_free(&cursor.last);
    rlk_text_free(&cursor.end);
    rlk_text_free(&page);
    return status;
}
