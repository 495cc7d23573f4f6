/* SPDX-License-Identifier: MIT
 *
 * The usual cases of acquire and release: one statement for each lock. What came of it is in the
 * server's OK, so that nothing is read. Alone it is its own transaction; several are in one packet
 * and one transaction. Many are faster as JSON. */
#include <string.h>

#include "batch.h"

enum { DIRECT_MAX = 8, LITERALS_MAX = 5 };
enum { BYTES_MAX = 8192 }; /* of what is sent for one lock */

_Static_assert(MY_TOLD_MAX >= 2 * DIRECT_MAX + 3, "all that is told is kept");

/* After a transaction of the application's the session is to be set up again first. And no
 * transaction may be open, in which a statement would not be its own: with completion_type CHAIN,
 * there is one after every COMMIT. */
int my_is_direct(const my_conn *conn, size_t n)
{
    return n <= DIRECT_MAX && n * BYTES_MAX < conn->packet_max && !conn->foreign &&
           !my_has_transaction(conn->mysql);
}

static void end_literals(my_conn *conn, rlk_text *texts)
{
    for (size_t i = 0; i < LITERALS_MAX; i++) {
        if (texts[i].failed)
            conn->packet.failed = 1;
        rlk_text_free(&texts[i]);
    }
}

static void add_acquire(my_conn *conn, const rowlock_op *op)
{
    const char *note = op->note != NULL ? op->note : "";
    rlk_text texts[LITERALS_MAX] = {{0}};
    const char *literals[] = {my_number(&texts[0], op->ttl_us),
                              my_bytes(&texts[1], op->name, op->name_length),
                              my_bytes(&texts[2], op->owner, strlen(op->owner)),
                              my_bytes(&texts[3], op->attempt, sizeof op->attempt),
                              my_bytes(&texts[4], note, strlen(note))};

    my_add(conn, SQL_ACQUIRE_FREE, literals, sizeof literals / sizeof *literals);
    end_literals(conn, texts);
}

static void add_release(my_conn *conn, const rowlock_op *op, int looks)
{
    rlk_text texts[LITERALS_MAX] = {{0}};
    const char *name = my_bytes(&texts[0], op->name, op->name_length);
    const char *attempt = my_bytes(&texts[1], op->attempt, sizeof op->attempt);
    const char *seen = my_seen(&texts[2], op);
    const char *literals[] = {attempt,
                              name,
                              my_bytes(&texts[3], op->owner, strlen(op->owner)),
                              my_number(&texts[4], (int64_t)op->fence),
                              attempt,
                              seen,
                              seen};

    if (looks)
        my_add(conn, SQL_RELEASE_LOOK_ONE, &name, 1);
    my_add(conn, SQL_RELEASE_ONE, literals, sizeof literals / sizeof *literals);
    end_literals(conn, texts);
}

static int take_free(my_conn *conn, rowlock_op *ops, size_t n, int64_t deadline, rowlock_error *err)
{
    const my_told *told = &conn->told[n > 1];
    int status;

    my_start(conn);
    if (n > 1)
        my_add(conn, SQL_START, NULL, 0);
    for (size_t i = 0; i < n; i++)
        add_acquire(conn, &ops[i]);
    if (n > 1)
        my_add(conn, SQL_COMMIT, NULL, 0);
    status = my_run(conn, deadline, NULL, err);
    for (size_t i = 0; i < n && status == ROWLOCK_OK; i++, told++) {
        if (told->changed == 0 || told->number == 0)
            continue;
        ops[i].fence = told->number;
        ops[i].hold_count = 1;
        ops[i].remaining_us = ops[i].ttl_us;
        ops[i].status = ROWLOCK_OK;
    }
    return status;
}

/* One that is held: a plain read, which decides only if it shows a lease of somebody else's. */
static int look_held(my_conn *conn, rowlock_op *op, int64_t deadline, rowlock_error *err)
{
    rlk_text texts[LITERALS_MAX] = {{0}};
    const char *literals[] = {my_bytes(&texts[0], op->owner, strlen(op->owner)),
                              my_bytes(&texts[1], op->name, op->name_length)};
    MYSQL_RES *result = NULL;
    MYSQL_ROW row;
    int status;

    my_start(conn);
    my_add(conn, SQL_ACQUIRE_LOOK, literals, 2);
    end_literals(conn, texts);
    status = my_run(conn, deadline, &result, err);
    row = status == ROWLOCK_OK ? mysql_fetch_row(result) : NULL;
    if (row != NULL)
        my_read_acquired(conn, op, row, mysql_fetch_lengths(result));
    if (op->status == STATUS_OPEN)
        my_clear_answer(op);
    mysql_free_result(result);
    return status;
}

int my_acquire_direct(my_conn *conn, rowlock_op *ops, size_t n, int64_t deadline,
                      rowlock_error *err)
{
    if (!my_is_direct(conn, n))
        return ROWLOCK_OK;
    if (conn->guess == MY_GUESS_FREE)
        return take_free(conn, ops, n, deadline, err);
    if (conn->guess == MY_GUESS_HELD && n == 1)
        return look_held(conn, ops, deadline, err);
    return ROWLOCK_OK;
}

int my_release_direct(my_conn *conn, rowlock_op *ops, size_t n, int looks, const char *bell,
                      int64_t deadline, rowlock_error *err)
{
    int several = n > 1 || looks, status;
    const my_told *told = &conn->told[several];

    my_start(conn);
    if (several)
        my_add(conn, SQL_START, NULL, 0);
    for (size_t i = 0; i < n; i++)
        add_release(conn, &ops[i], looks);
    if (several)
        my_add(conn, SQL_COMMIT, NULL, 0);
    if (bell != NULL)
        my_add(conn, SQL_RING, &bell, 1);
    status = my_run(conn, deadline, NULL, err);
    for (size_t i = 0; i < n && status == ROWLOCK_OK; i++, told++) {
        told += looks != 0;
        if (told->changed == 0 || told->number == 0)
            continue;
        ops[i].hold_count = (uint32_t)(told->number - 1);
        ops[i].status = ROWLOCK_OK;
    }
    return status;
}
