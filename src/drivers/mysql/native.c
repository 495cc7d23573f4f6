/* SPDX-License-Identifier: MIT
 *
 * Connections of the application's. They are looked at before anything is sent, used with the
 * library's blocking calls (those without need an option that is set before connecting), one
 * statement at a time, and left as they were. */
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "my.h"
#include "rowlock/mysql.h"

int my_has_transaction(const MYSQL *mysql)
{
    return (mysql->server_status & SERVER_STATUS_IN_TRANS) != 0 ||
           (mysql->server_status & SERVER_STATUS_AUTOCOMMIT) == 0;
}

static int check(MYSQL *mysql, rowlock_error *err)
{
    if (!my_client_connected(mysql))
        return rlk_fail(err, ROWLOCK_EINVAL,
                        "the connection is not open: connect it and begin a transaction");
    if (mysql->status != MYSQL_STATUS_READY || mysql_more_results(mysql))
        return rlk_fail(err, ROWLOCK_EINVAL,
                        "the connection has results that were not read: read or free them first");
    if (!my_has_transaction(mysql))
        return rlk_fail(err, ROWLOCK_EINVAL,
                        "no transaction is open on the connection: START TRANSACTION first");
    if ((mysql->server_status & SERVER_STATUS_IN_TRANS_READONLY) != 0)
        return rlk_fail(err, ROWLOCK_EINVAL,
                        "the connection's transaction is read-only: begin one that may write");
    if (my_client_hung_up(mysql))
        return rlk_fail(err, ROWLOCK_ECONNECT,
                        "the server has closed the connection; the transaction is undone");
    return ROWLOCK_OK;
}

/* ---- statements ---- */

static int native_error(MYSQL *mysql, rowlock_error *err)
{
    enum { CHANGED = 1020, TABLES = 1100, TOO_LARGE = 1153, DEADLOCK = 1213 };
    enum { READ_ONLY = 1792, IDLE = 4031 };
    int code = (int)mysql_errno(mysql), retryable = 0;
    int status = my_errno_status(code, &retryable);
    const char *before = "", *after = "";

    if (my_is_read_only(mysql))
        return rlk_fail_native(err, ROWLOCK_EDRIVER, code, mysql_sqlstate(mysql), 0, MY_READ_ONLY);
    if (status == ROWLOCK_EUNKNOWN || code == TOO_LARGE || code == IDLE) {
        status = ROWLOCK_ECONNECT;
        retryable = 0;
        after = " (the connection is gone, and its transaction undone)";
    } else if (status == ROWLOCK_ESCHEMA) {
        after = " (run 'rowlock migrate up', or connect to the server that the client is open on)";
    } else {
        /* What would make the driver connect elsewhere is the application's to decide here. */
        retryable = retryable && code != READ_ONLY;
        status = ROWLOCK_EDRIVER;
    }
    if (code == TABLES)
        return rlk_fail_native(err, status, code, mysql_sqlstate(mysql), 0,
                               "the session has LOCK TABLES: UNLOCK TABLES first");
    if (my_is_denied(code))
        after = " (grant SELECT and UPDATE on it to the connection's user)";
    if (code == DEADLOCK)
        before = "the server has rolled the whole transaction back, begin it again: ";
    else if (code == CHANGED)
        before = "the transaction's snapshot is older than the lock's row, roll back and begin "
                 "again: ";
    else if (code == READ_ONLY)
        before = "the transaction must be one that may write: ";
    return rlk_fail_native(err, status, code, mysql_sqlstate(mysql), retryable, "%s%s%s", before,
                           mysql_error(mysql), after);
}

/* *out: NULL if there are no rows to show. */
static int run(my_conn *conn, MYSQL_RES **out, rowlock_error *err)
{
    MYSQL *mysql = conn->mysql;

    *out = NULL;
    if (conn->packet.failed || conn->batch.failed)
        return rlk_fail_memory(err);
    if (mysql_real_query(mysql, conn->packet.data, (unsigned long)conn->packet.length) != 0)
        return native_error(mysql, err);
    if (mysql_field_count(mysql) == 0)
        return ROWLOCK_OK;
    *out = mysql_store_result(mysql);
    return *out != NULL ? ROWLOCK_OK : native_error(mysql, err);
}

/* With character_set_results = utf16 and the like. */
static int unreadable(rowlock_error *err)
{
    return rlk_fail(
        err, ROWLOCK_EDRIVER,
        "the session's character_set_results is none that holds ASCII: SET NAMES first");
}

/* All answers begin with a number. */
static int check_readable(MYSQL_RES *result, rowlock_error *err)
{
    MYSQL_ROW row = mysql_fetch_row(result);
    int readable = row == NULL || (row[0] != NULL && row[0][0] >= '0' && row[0][0] <= '9');

    mysql_data_seek(result, 0);
    return readable ? ROWLOCK_OK : unreadable(err);
}

int my_native_run(my_conn *conn, MYSQL_RES **out, rowlock_error *err)
{
    MYSQL_RES *result = NULL;
    int status;

    if (out != NULL)
        *out = NULL;
    status = run(conn, &result, err);
    if (status == ROWLOCK_OK && result != NULL)
        status = check_readable(result, err);
    if (status == ROWLOCK_OK && out != NULL)
        *out = result;
    else
        mysql_free_result(result);
    return status;
}

/* ---- the connection ---- */

/* "identity in hexadecimal\ndatabase", as `locate` has written it. */
static void set_place(my_conn *conn, const char *place)
{
    size_t length = strcspn(place, "\n");
    rlk_text identity = {0};
    const char *literal;

    rlk_text_str(&identity, "x'");
    rlk_text_add(&identity, place, length);
    rlk_text_str(&identity, "'");
    literal = identity.failed ? "NULL" : identity.data;
    my_fill(&conn->here, sql_text[SQL_HERE], &literal, 1);
    conn->here.failed |= identity.failed;
    rlk_text_free(&identity);
    conn->schema = strdup(place + length + (place[length] != '\0'));
}

/* Is it the table that others lock? A copy would be this session's alone, and any application may
 * have made one since the last call. Who renames or alters the table is waited for: on MySQL, which
 * cannot bound this, for as long as the session's lock_wait_timeout. */
static int check_table(my_conn *conn, uint32_t timeout_ms, rowlock_error *err)
{
    MYSQL_RES *result = NULL;
    MYSQL_ROW row;
    int status;

    my_start(conn);
    if (my_is_maria(conn))
        my_bound(conn, (int64_t)timeout_ms * 1000);
    my_add(conn, SQL_NATIVE_TABLE, NULL, 0);
    status = run(conn, &result, err);
    if (status != ROWLOCK_OK)
        return status;
    row = mysql_fetch_row(result);
    if (row == NULL || row[1] == NULL || strncmp(row[1], "CREATE ", 7) != 0)
        status = unreadable(err);
    else if (strncmp(row[1], "CREATE TEMPORARY ", 17) == 0)
        status = rlk_fail(err, ROWLOCK_EINVAL,
                          "the session has a TEMPORARY table of the name of the lock table, which "
                          "locks nothing for others: drop it, or use another connection");
    else if (strncmp(row[1], "CREATE TABLE ", 13) != 0)
        status = rlk_fail(err, ROWLOCK_ESCHEMA, "the lock table is a view, or something else");
    mysql_free_result(result);
    return status;
}

int my_native_borrow(my_conn *out, const rowlock_target *target, uint32_t timeout_ms,
                     rowlock_error *err)
{
    int status = check(target->native, err);

    *out = (my_conn){.mysql = target->native, .borrowed = 1};
    if (status != ROWLOCK_OK)
        return status;
    out->prefix = strdup(target->prefix);
    set_place(out, target->place);
    if (out->prefix == NULL || out->schema == NULL || out->here.failed)
        return rlk_fail_memory(err);
    return check_table(out, timeout_ms, err);
}

const char *my_here(const my_conn *conn)
{
    return conn->borrowed ? conn->here.data : "1";
}

int my_check_here(const char *column, rowlock_error *err)
{
    if (my_int(column) != 0)
        return ROWLOCK_OK;
    return rlk_fail_native(err, ROWLOCK_EINVAL, ROWLOCK_NATIVE_ELSEWHERE, NULL, 0,
                           "the connection is on another server or database than the client");
}

/* Errors do not tell whether the transaction goes on; answers do. After a deadlock that the
 * application has not noticed the client still believes in it, and every statement is committed at
 * once. */
int my_native_open(const my_conn *conn, rowlock_error *err)
{
    if (my_has_transaction(conn->mysql))
        return ROWLOCK_OK;
    return rlk_fail(err, ROWLOCK_EDRIVER,
                    "the connection's transaction had been ended by the server, after a deadlock "
                    "perhaps: begin it again");
}

/* ---- the guard ---- */

enum { GUARD_LITERALS = 5 };

/* "held,remaining" */
static int read_guard(rowlock_op *op, const char *locked, rowlock_error *err)
{
    const char *comma = strchr(locked, ',');
    int64_t remaining = comma != NULL ? my_int(comma + 1) : 0;

    op->status = my_int(locked) != 0 && remaining > 0 ? ROWLOCK_OK : ROWLOCK_LOST;
    op->remaining_us = remaining > 0 ? remaining : 0;
    return my_check_clock(comma, err);
}

/* *found: there was a row, and the op has its answer. */
static int ask(my_conn *conn, rowlock_op *op, enum sql_statement which, const char *const *literals,
               int64_t bound_us, int *found, rowlock_error *err)
{
    MYSQL_RES *result = NULL;
    MYSQL_ROW row;
    int status;

    my_start(conn);
    if (my_is_maria(conn))
        my_bound(conn, bound_us);
    my_add(conn, which, literals, GUARD_LITERALS);
    status = my_native_run(conn, &result, err);
    if (status != ROWLOCK_OK)
        return status;
    status = my_native_open(conn, err);
    row = mysql_fetch_row(result);
    *found = row != NULL && row[1] != NULL;
    if (status == ROWLOCK_OK)
        status = my_check_here(row != NULL ? row[0] : NULL, err);
    if (status == ROWLOCK_OK && *found)
        status = read_guard(op, row[1], err);
    mysql_free_result(result);
    return status;
}

/* A plain read would tell a locked row from one that is gone, but would make the transaction's
 * snapshot: so it is asked for again, and an error says that it is locked. */
static int guard_row(my_conn *conn, rowlock_op *op, const char *const *literals,
                     uint32_t timeout_ms, rowlock_error *err)
{
    enum { STATEMENT_TIMEOUT = 1969, LOCKED = 3572, AGAIN_US = 10000 };
    rowlock_error own = {0};
    int64_t until;
    int found = 0;
    int status = ask(conn, op, SQL_GUARD, literals, (int64_t)timeout_ms * 1000, &found, err);

    if (status != ROWLOCK_OK || found)
        return status;
    until = rlk_clock_us() + AGAIN_US / 2;
    status = ask(conn, op, SQL_GUARD_AGAIN, literals, AGAIN_US, &found, &own);
    if (own.native_code == STATEMENT_TIMEOUT || own.native_code == LOCKED)
        return ROWLOCK_OK;
    /* MariaDB may show a wait that its bound has cut off in a subquery as no row, instead of an
     * error: nothing is concluded from an answer that came near it. */
    if (status == ROWLOCK_OK && !found)
        op->status = rlk_clock_us() < until ? ROWLOCK_LOST : ROWLOCK_BUSY;
    else if (status != ROWLOCK_OK && err != NULL)
        *err = own;
    return status;
}

int my_guard(const rowlock_target *target, rowlock_op *op, uint32_t timeout_ms, rowlock_error *err)
{
    rlk_text name = {0}, owner = {0}, fence = {0};
    const char *literals[GUARD_LITERALS] = {NULL, my_bytes(&owner, op->owner, strlen(op->owner)),
                                            my_number(&fence, (int64_t)op->fence),
                                            my_bytes(&name, op->name, op->name_length), NULL};
    my_conn conn;
    int status;

    my_client_enter();
    rlk_ok(err);
    my_clear(op, ROWLOCK_BUSY);
    status = my_native_borrow(&conn, target, timeout_ms, err);
    if (status == ROWLOCK_OK && (name.failed || owner.failed || fence.failed))
        status = rlk_fail_memory(err);
    literals[0] = literals[GUARD_LITERALS - 1] = my_here(&conn);
    if (status == ROWLOCK_OK)
        status = guard_row(&conn, op, literals, timeout_ms, err);
    my_conn_free(&conn);
    rlk_text_free(&name);
    rlk_text_free(&owner);
    rlk_text_free(&fence);
    return status;
}

/* ---- public ---- */

int rowlock_mysql_lock(uint64_t *fences, rowlock_client *client, void *conn,
                       const char *const *names, size_t n, const rowlock_tx_options *options,
                       rowlock_error *err)
{
    return rowlock_native_lock(fences, client, rowlock_mysql(), conn, names, n, options, err);
}

int rowlock_mysql_guard(rowlock_lock *lock, void *conn, rowlock_error *err)
{
    return rowlock_native_guard(lock, rowlock_mysql(), conn, err);
}

void *rowlock_mysql_connection(rowlock_tx *tx)
{
    return rowlock_native_connection(tx, rowlock_mysql());
}
