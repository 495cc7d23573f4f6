/* SPDX-License-Identifier: MIT
 *
 * Transaction mode on the driver's own connections. */
#include <stdio.h>
#include <string.h>

#include "my.h"

enum { PACKET_SPARE = 16384 }; /* the statements around the batch */

/* Puts ops from `from` on into conn->json, as many as fit into `room` bytes, one at least. The
 * index of the first that is not in it. */
static size_t add_names(my_conn *conn, const rowlock_op *ops, size_t n, size_t from, size_t room)
{
    rlk_text *json = &conn->json;
    size_t i = from;

    rlk_text_clear(json);
    rlk_text_str(json, "'[");
    for (; i < n && !json->failed && (i == from || json->length < room); i++) {
        rlk_text_str(json, i > from ? ",[\"" : "[\"");
        rlk_text_hex(json, ops[i].name, ops[i].name_length);
        rlk_text_str(json, "\",");
        rlk_text_int(json, (int64_t)i);
        rlk_text_str(json, "]");
    }
    rlk_text_str(json, "]'");
    return i;
}

static int prepare_batch(my_conn *conn, rowlock_op *ops, size_t n, int64_t deadline,
                         rowlock_error *err)
{
    const char *literals[] = {conn->json.failed ? "NULL" : conn->json.data, "0"};
    MYSQL_RES *result = NULL;
    MYSQL_ROW row;
    int status;

    my_start(conn);
    my_add(conn, SQL_BEGIN, literals, 2);
    my_add(conn, SQL_PREPARE, NULL, 0);
    status = my_run(conn, deadline, &result, err);
    while (status == ROWLOCK_OK && (row = mysql_fetch_row(result)) != NULL) {
        size_t index = (size_t)my_int(row[0]), length = mysql_fetch_lengths(result)[3];
        rowlock_op *op = index < n ? &ops[index] : NULL;

        if (op == NULL)
            continue;
        op->status = ROWLOCK_BUSY;
        op->holder_fence = (uint64_t)my_int(row[1]);
        op->remaining_us = my_int(row[2]);
        my_set_holder(op, row[3], length);
    }
    mysql_free_result(result);
    return status;
}

int my_prepare(void *handle, rowlock_op *ops, size_t n, uint32_t timeout_ms, rowlock_error *err)
{
    my_conn *conn = handle;
    int64_t deadline = my_deadline(timeout_ms);
    size_t room = conn->packet_max > PACKET_SPARE ? conn->packet_max - PACKET_SPARE : 0;
    int status = ROWLOCK_OK;

    my_client_enter();
    rlk_ok(err);
    for (size_t i = 0; i < n; i++)
        my_clear(&ops[i], ROWLOCK_OK);
    for (size_t from = 0, to; from < n && status == ROWLOCK_OK; from = to) {
        to = add_names(conn, ops, n, from, room);
        status = prepare_batch(conn, ops, n, deadline, err);
    }
    return status;
}

/* The server's identity in hexadecimal digits, a line break, the database: native.c takes it apart.
 */
int my_locate(void *handle, char *out, size_t size, uint32_t timeout_ms, rowlock_error *err)
{
    my_conn *conn = handle;
    const char *database = NULL;
    MYSQL_RES *result = NULL;
    MYSQL_ROW row;
    int status;

    my_client_enter();
    rlk_ok(err);
    my_start(conn);
    my_add(conn, SQL_LOCATE, NULL, 0);
    status = my_run(conn, my_deadline(timeout_ms), &result, err);
    if (status != ROWLOCK_OK)
        return status;
    row = mysql_fetch_row(result);
    database = conn->schema != NULL ? conn->schema : row != NULL ? row[1] : NULL;
    if (database == NULL || row == NULL || row[0] == NULL)
        status = rlk_fail(err, ROWLOCK_ESCHEMA, "the connection has no database");
    else if ((size_t)snprintf(out, size, "%s\n%s", row[0], database) >= size)
        status = rlk_fail(err, ROWLOCK_ESCHEMA, "the names of server and database are too long");
    mysql_free_result(result);
    return status;
}

int my_lock(const rowlock_target *target, rowlock_op *ops, size_t n, uint32_t wait_ms, int in_line,
            uint32_t timeout_ms, rowlock_error *err)
{
    my_conn conn;
    int status;

    my_client_enter();
    rlk_ok(err);
    if (target->conn != NULL)
        return my_lock_rows(target->conn, ops, n, wait_ms, in_line, timeout_ms, err);
    status = my_native_borrow(&conn, target, timeout_ms, err);
    if (status == ROWLOCK_OK)
        status = my_lock_rows(&conn, ops, n, wait_ms, in_line, timeout_ms, err);
    my_conn_free(&conn);
    return status;
}

/* The application left results unread: no statement can be sent, only the connection closed. */
static int end_unread(my_conn *conn, int commit, rowlock_error *err)
{
    conn->dead = 1;
    if (!commit)
        return ROWLOCK_OK;
    return rlk_fail(err, ROWLOCK_EDRIVER,
                    "results on the connection were not read, the transaction is rolled back: read "
                    "or free them before the commit");
}

int my_end(void *handle, int commit, uint32_t timeout_ms, rowlock_error *err)
{
    enum { NO_SAVEPOINT = 1305 };
    my_conn *conn = handle;
    rowlock_error own = {0};
    int status;

    my_client_enter();
    rlk_ok(err);
    if (conn->mysql->status != MYSQL_STATUS_READY || mysql_more_results(conn->mysql))
        return end_unread(conn, commit, err);
    my_start(conn);
    my_add(conn, commit ? SQL_TX_COMMIT : SQL_ROLLBACK, NULL, 0);
    status = my_run(conn, my_deadline(timeout_ms), NULL, &own);
    conn->foreign = 1;
    if (own.native_code == NO_SAVEPOINT)
        return rlk_fail_native(err, ROWLOCK_EDRIVER, own.native_code, own.sqlstate, 0,
                               "the transaction had been ended already, by a statement of the "
                               "application's or after a deadlock: the lock was gone");
    if (err != NULL)
        *err = own;
    return status;
}

void *my_native(void *handle)
{
    my_conn *conn = handle;

    return conn->mysql;
}
