/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "my.h"

enum { LIST_PAGE = 1000 };

/* Deleted, and behind which name to go on; NULL: there is nothing behind. */
static void read_reaped(uint64_t *out, rowlock_mark *mark, MYSQL_RES *result)
{
    MYSQL_ROW row = mysql_fetch_row(result);
    size_t n = row != NULL && row[1] != NULL ? mysql_fetch_lengths(result)[1] : 0;

    *out = row != NULL ? (uint64_t)my_int(row[0]) : 0;
    mark->length = n > sizeof mark->name ? sizeof mark->name : n;
    if (mark->length > 0)
        memcpy(mark->name, row[1], mark->length);
}

int my_reap(void *handle, uint64_t *out, rowlock_mark *mark, int64_t retention_us, uint32_t limit,
            uint32_t timeout_ms, rowlock_error *err)
{
    my_conn *conn = handle;
    int64_t deadline = my_deadline(timeout_ms);
    rlk_text retention = {0}, after = {0}, look = {0}, count = {0};
    const char *behind = my_bytes(&after, mark->name, mark->length);
    const char *most = my_number(&count, limit);
    const char *literals[] = {my_number(&retention, retention_us),
                              behind,
                              my_number(&look, (int64_t)limit * ROWLOCK_REAP_LOOK - 1),
                              behind,
                              most,
                              most};
    MYSQL_RES *result = NULL;
    int status;

    my_client_enter();
    rlk_ok(err);
    my_start(conn);
    my_add(conn, SQL_REAP_TICKETS, &most, 1);
    my_add(conn, SQL_REAP, literals, 6);
    if (retention.failed || after.failed || look.failed || count.failed)
        status = rlk_fail_memory(err);
    else
        status = my_run(conn, deadline, &result, err);
    if (status == ROWLOCK_OK)
        read_reaped(out, mark, result);
    mysql_free_result(result);
    rlk_text_free(&retention);
    rlk_text_free(&after);
    rlk_text_free(&look);
    rlk_text_free(&count);
    return status;
}

/* Where a listing stands. Literals, and the last name as bytes. */
typedef struct my_cursor {
    rlk_text first, last, end, ticket, page;
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

/* Whom the rows are shown to: one of both. */
typedef struct my_viewer {
    rowlock_row_fn lock;
    rowlock_waiter_fn waiter;
    void *payload;
} my_viewer;

/* name, owner, note, fence, hold_count, held, remaining */
static int show_lock(MYSQL_ROW row, const unsigned long *lengths, const my_viewer *viewer)
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

    return viewer->lock(&shown, viewer->payload);
}

/* name, owner, holder, ticket, waited, remaining */
static int show_waiter(MYSQL_ROW row, const unsigned long *lengths, const my_viewer *viewer)
{
    rowlock_waiter shown = {.size = sizeof shown,
                            .name = row[0],
                            .name_length = lengths[0],
                            .owner = row[1],
                            .ticket = (uint64_t)my_int(row[3]),
                            .waited_ms = my_int(row[4]),
                            .remaining_ms = my_int(row[5]),
                            .holder = row[2]};

    return viewer->waiter(&shown, viewer->payload);
}

/* Are the texts of a row there, and no longer than the tables allow? Nobody has to be ready for
 * more. The third one is a note, or a holder, who need not be. */
static int is_fit(MYSQL_ROW row, const unsigned long *lengths, const my_viewer *viewer)
{
    return row[0] != NULL && lengths[0] <= ROWLOCK_NAME_MAX && row[1] != NULL &&
           lengths[1] <= ROWLOCK_OWNER_MAX &&
           (viewer->waiter != NULL ? lengths[2] <= ROWLOCK_OWNER_MAX
                                   : row[2] != NULL && lengths[2] <= ROWLOCK_NOTE_MAX);
}

/* Shows a page's rows. 1: there may be another page; -1: they make no sense. */
static int show_page(my_cursor *cursor, MYSQL_RES *result, const my_viewer *viewer)
{
    int full = mysql_num_rows(result) == LIST_PAGE, stop = 0;
    MYSQL_ROW row;

    while (!stop && (row = mysql_fetch_row(result)) != NULL) {
        const unsigned long *lengths = mysql_fetch_lengths(result);

        if (!is_fit(row, lengths, viewer))
            return -1;
        my_bytes(&cursor->last, row[0], lengths[0]);
        if (viewer->waiter != NULL)
            my_number(&cursor->ticket, my_int(row[3]));
        stop = viewer->waiter != NULL ? show_waiter(row, lengths, viewer)
                                      : show_lock(row, lengths, viewer);
    }
    my_bytes(&cursor->first, "", 0);
    if (cursor->last.length > 0 && !cursor->last.failed) {
        rlk_text_clear(&cursor->first);
        rlk_text_str(&cursor->first, cursor->last.data);
    }
    return full && !stop;
}

/* Appends the question for the next page. */
static int add_page(my_conn *conn, const my_cursor *cursor, const rowlock_list_query *query,
                    int of_waiters, rowlock_error *err)
{
    const char *first = cursor->first.data, *last = cursor->last.data, *end = cursor->end.data;
    const char *has_end = cursor->has_end ? "1" : "0", *page = cursor->page.data;
    const char *locks[] = {first, last, has_end, end, query->expired ? "1" : "0", page};
    const char *waiters[] = {first, last, cursor->ticket.data, has_end, end, page};

    if (cursor->first.failed || cursor->last.failed || cursor->end.failed ||
        cursor->ticket.failed || cursor->page.failed)
        return rlk_fail_memory(err);
    my_start(conn);
    if (of_waiters)
        my_add(conn, SQL_WAITERS, waiters, 6);
    else
        my_add(conn, SQL_LIST, locks, 6);
    return ROWLOCK_OK;
}

/* Pages, so that no result waits in the server while the viewer takes its time. */
static int show(my_conn *conn, const rowlock_list_query *query, const my_viewer *viewer,
                int64_t deadline, rowlock_error *err)
{
    my_cursor cursor = {0};
    int status = ROWLOCK_OK, more = 1;

    my_client_enter();
    rlk_ok(err);
    if (viewer->lock != NULL && query->size >= sizeof *query && query->after != NULL) {
        my_bytes(&cursor.first, query->after, query->after_length);
        my_bytes(&cursor.last, query->after, query->after_length);
    } else {
        my_bytes(&cursor.first, query->starts_with, query->starts_with_length);
        my_bytes(&cursor.last, "", 0);
    }
    set_end(&cursor, query);
    my_number(&cursor.ticket, 0);
    my_number(&cursor.page, LIST_PAGE);
    while (status == ROWLOCK_OK && more) {
        MYSQL_RES *result = NULL;

        status = add_page(conn, &cursor, query, viewer->waiter != NULL, err);
        if (status == ROWLOCK_OK)
            status = my_run(conn, deadline, &result, err);
        more = status == ROWLOCK_OK ? show_page(&cursor, result, viewer) : 0;
        if (more < 0)
            status = rlk_fail(err, ROWLOCK_EDRIVER, "the server's answer makes no sense");
        mysql_free_result(result);
    }
    rlk_text_free(&cursor.first);
    rlk_text_free(&cursor.last);
    rlk_text_free(&cursor.end);
    rlk_text_free(&cursor.ticket);
    rlk_text_free(&cursor.page);
    return status;
}

int my_list(void *conn, const rowlock_list_query *query, rowlock_row_fn fn, void *payload,
            uint32_t timeout_ms, rowlock_error *err)
{
    const my_viewer viewer = {.lock = fn, .payload = payload};

    return show(conn, query, &viewer, my_deadline(timeout_ms), err);
}

int my_waiters(void *conn, const rowlock_list_query *query, rowlock_waiter_fn fn, void *payload,
               uint32_t timeout_ms, rowlock_error *err)
{
    const my_viewer viewer = {.waiter = fn, .payload = payload};

    return show(conn, query, &viewer, my_deadline(timeout_ms), err);
}
