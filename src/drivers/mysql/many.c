/* SPDX-License-Identifier: MIT
 *
 * The usual cases of several locks: one statement for all of them, with their values as literals.
 * Against JSON it takes a third of the server's time, since nothing is put aside and read again for
 * each of the statements; against a statement for each lock half of it for four, a fifth for 32. */
#include <string.h>

#include "batch.h"

enum { MANY_MAX = 1000 };  /* locks */
enum { BYTES_MAX = 8192 }; /* of what is sent for one lock */

int my_is_many(const my_conn *conn, size_t n)
{
    return n <= MANY_MAX && n * BYTES_MAX < conn->packet_max && my_is_direct(conn);
}

static void put_row(my_conn *conn, const my_value *values, size_t n, int is_first)
{
    rlk_text *out = &conn->batch;

    rlk_text_str(out, my_sql(conn, is_first ? SQL_ROW_FIRST : SQL_ROW_NEXT));
    for (size_t i = 0; i < n; i++) {
        if (i > 0)
            rlk_text_add(out, ",", 1);
        my_put(out, &values[i]);
    }
}

/* The statement or the beginning of one, with what is in conn->batch. */
static void add_with_rows(my_conn *conn, enum sql_statement which)
{
    const char *rows = conn->batch.failed ? "NULL" : conn->batch.data;

    my_add(conn, which, &rows, 1);
}

void my_add_acquires(my_conn *conn, const rowlock_op *ops, size_t n)
{
    rlk_text_clear(&conn->batch);
    for (size_t i = 0; i < n; i++) {
        const my_value row[] = {my_name_of(&ops[i]), my_owner_of(&ops[i]), my_attempt_of(&ops[i]),
                                my_value_of(ops[i].ttl_us), my_note_of(&ops[i])};

        put_row(conn, row, sizeof row / sizeof *row, i == 0);
    }
    rlk_text_str(&conn->batch, my_sql(conn, SQL_ROW_LAST));
    add_with_rows(conn, SQL_ACQUIRE_MANY);
    if (!my_is_maria(conn))
        add_with_rows(conn, SQL_ACQUIRE_MANY_ANSWER);
}

void my_add_releases(my_conn *conn, const rowlock_op *ops, size_t n, enum my_if_locked if_locked)
{
    rlk_text_clear(&conn->batch);
    for (size_t i = 0; i < n; i++) {
        const my_value row[] = {my_name_of(&ops[i]), my_owner_of(&ops[i]),
                                my_value_of((int64_t)ops[i].fence), my_attempt_of(&ops[i]),
                                my_seen_of(&ops[i])};

        put_row(conn, row, sizeof row / sizeof *row, i == 0);
    }
    rlk_text_str(&conn->batch, my_sql(conn, SQL_ROW_LAST));
    add_with_rows(conn, SQL_RELEASE_MANY);
    if (if_locked == MY_IF_LOCKED_FAIL)
        my_add(conn, SQL_RELEASE_NOWAIT, NULL, 0);
    else if (if_locked == MY_IF_LOCKED_SKIP)
        my_add(conn, SQL_RELEASE_SKIP, NULL, 0);
    my_add(conn, SQL_RELEASE_MANY_END, NULL, 0);
    if (!my_is_maria(conn))
        add_with_rows(conn, SQL_RELEASE_MANY_ANSWER);
}

enum { EXCHANGE_COLUMNS = 7 };

/* Of a release, an acquire, or neither: no lock has such a name. */
static void exchange_row(my_value row[EXCHANGE_COLUMNS], const rowlock_op *release,
                         const rowlock_op *acquire)
{
    const my_value nothing = {.bytes = ""}, zero = my_value_of(0);
    const rowlock_op *op = release != NULL ? release : acquire;

    row[0] = op != NULL ? my_name_of(op) : nothing;
    row[1] = op != NULL ? my_owner_of(op) : nothing;
    row[2] = op != NULL ? my_attempt_of(op) : nothing;
    row[3] = acquire != NULL ? my_value_of(acquire->ttl_us) : zero;
    row[4] = acquire != NULL ? my_note_of(acquire) : nothing;
    row[5] = release != NULL ? my_value_of((int64_t)release->fence) : zero;
    row[6] = release != NULL ? my_seen_of(release) : nothing;
}

void my_add_exchange(my_conn *conn, const rowlock_op *releases, size_t n,
                     const rowlock_op *acquires, size_t m)
{
    my_value few[EXCHANGE_COLUMNS * MY_ROWS_OFTEN], row[EXCHANGE_COLUMNS];
    size_t padded = my_rows_often(n + m);

    if (padded <= MY_ROWS_OFTEN) {
        for (size_t i = 0; i < padded; i++)
            exchange_row(&few[EXCHANGE_COLUMNS * i], i < n ? &releases[i] : NULL,
                         i >= n && i < n + m ? &acquires[i - n] : NULL);
        if (my_add_rows_often(conn, SQL_EXCHANGE, SQL_EXCHANGE_TYPES, few, EXCHANGE_COLUMNS,
                              padded))
            return;
    }
    rlk_text_clear(&conn->batch);
    for (size_t i = 0; i < n + m; i++) {
        exchange_row(row, i < n ? &releases[i] : NULL, i < n ? NULL : &acquires[i - n]);
        put_row(conn, row, EXCHANGE_COLUMNS, i == 0);
    }
    rlk_text_str(&conn->batch, my_sql(conn, SQL_ROW_LAST));
    add_with_rows(conn, SQL_EXCHANGE);
}

static int is_named(const rowlock_op *op, const char *name, size_t length)
{
    return op->name_length == length && memcmp(op->name, name, length) == 0;
}

/* Whose row it is; NULL: nobody's. Both are sorted, so it is mostly found at *at. */
static rowlock_op *find_op(rowlock_op *ops, size_t n, size_t *at, const char *name, size_t length)
{
    for (size_t i = 0; i < n; i++) {
        rowlock_op *op = &ops[(*at + i) % n];

        if (is_named(op, name, length)) {
            *at = (*at + i + 1) % n;
            return op;
        }
    }
    return NULL;
}

/* name, fence, remaining */
void my_read_acquires(rowlock_op *ops, size_t n, MYSQL_RES *result)
{
    MYSQL_ROW row;
    size_t at = 0;

    while (result != NULL && (row = mysql_fetch_row(result)) != NULL) {
        rowlock_op *op = find_op(ops, n, &at, row[0], mysql_fetch_lengths(result)[0]);

        if (op != NULL)
            my_set_taken(op, (uint64_t)my_int(row[1]), my_int(row[2]));
    }
    mysql_free_result(result);
}

/* name, hold_count */
void my_read_releases(rowlock_op *ops, size_t n, MYSQL_RES *result)
{
    MYSQL_ROW row;
    size_t at = 0;

    while (result != NULL && (row = mysql_fetch_row(result)) != NULL) {
        rowlock_op *op = find_op(ops, n, &at, row[0], mysql_fetch_lengths(result)[0]);

        if (op == NULL)
            continue;
        op->hold_count = (uint32_t)my_int(row[1]);
        op->status = ROWLOCK_OK;
    }
    mysql_free_result(result);
}

/* name, fence, remaining, hold_count */
void my_read_exchange(rowlock_op *releases, size_t n, rowlock_op *acquires, size_t m,
                      MYSQL_RES *result)
{
    MYSQL_ROW row;
    size_t released = 0, taken = 0;

    while (result != NULL && (row = mysql_fetch_row(result)) != NULL) {
        unsigned long length = mysql_fetch_lengths(result)[0];
        int is_taken = my_int(row[3]) > 0;
        rowlock_op *op = is_taken ? find_op(acquires, m, &taken, row[0], length)
                                  : find_op(releases, n, &released, row[0], length);

        if (op == NULL)
            continue;
        if (is_taken)
            my_set_taken(op, (uint64_t)my_int(row[1]), my_int(row[2]));
        op->hold_count = (uint32_t)is_taken;
        op->status = ROWLOCK_OK;
    }
    mysql_free_result(result);
}

int my_acquire_many(my_conn *conn, rowlock_op *ops, size_t n, int64_t deadline, rowlock_error *err)
{
    MYSQL_RES *result = NULL;
    int status;

    if (!my_is_many(conn, n) || conn->guess != MY_GUESS_FREE)
        return ROWLOCK_OK;
    my_start(conn);
    my_add(conn, SQL_START, NULL, 0);
    my_add_acquires(conn, ops, n);
    my_add(conn, SQL_COMMIT, NULL, 0);
    my_add(conn, SQL_GRANTED, NULL, 0);
    status = my_run(conn, deadline, &result, err);
    if (status == ROWLOCK_OK)
        my_read_acquires(ops, n, result);
    return status;
}

int my_release_many(my_conn *conn, rowlock_op *ops, size_t n, int looks, const char *bell,
                    int64_t deadline, rowlock_error *err)
{
    MYSQL_RES *result = NULL;
    int status;

    my_start(conn);
    my_add(conn, SQL_START, NULL, 0);
    my_add_releases(conn, ops, n, looks ? MY_IF_LOCKED_FAIL : MY_IF_LOCKED_WAIT);
    my_add(conn, SQL_COMMIT, NULL, 0);
    if (bell != NULL)
        my_add(conn, SQL_RING, &bell, 1);
    status = my_run(conn, deadline, &result, err);
    if (status == ROWLOCK_OK)
        my_read_releases(ops, n, result);
    return status;
}
