/* SPDX-License-Identifier: MIT
 *
 * Locking rows FOR UPDATE in a transaction: the driver's own, or one of the application's. What the
 * statements rely on is said in sql/mysql.sql.
 *
 * Waiting is the servers' queue: each can end a statement in it after some milliseconds, and leaves
 * the transaction open. */
#include <stdlib.h>
#include <string.h>

#include "my.h"

enum { LOCK_TIMEOUT = 1205, STATEMENT_TIMEOUT = 1969, EXECUTION_TIMEOUT = 3024, LOCKED = 3572 };

/* What rows of a request may take, but for the last one; the rest is spare for it and the
 * statements around. The application's connections do not tell the server's max_allowed_packet. */
enum { BATCH_BYTES = 32768, BORROWED_BYTES = 8192, BATCH_SPARE = 6144 };

#define SLICE_US   ((int64_t)3500000)         /* in the queue at once, if not in line */
#define LONGEST_US ((int64_t)86400 * 1000000) /* in line */
#define MOMENT_US  ((int64_t)10000)

typedef struct my_locking {
    my_conn *conn;
    rowlock_op *ops;
    size_t n;
    enum sql_statement mode; /* SQL_LOCK_SKIP, _NOWAIT, _WAIT */
    int maria;
    int closed;    /* BUSY for a reason that waiting for rows does not end */
    int64_t until; /* of the wait; rlk_clock_us() */
    int64_t now;   /* the database's, when the last row was locked */
    uint32_t timeout_ms;
    rowlock_error *err;
} my_locking;

void my_clear(rowlock_op *op, int status)
{
    op->status = status;
    op->hold_count = 0;
    op->remaining_us = 0;
    op->holder_fence = 0;
    op->holder[0] = '\0';
}

void my_set_holder(rowlock_op *op, const char *owner, size_t length)
{
    if (length > ROWLOCK_OWNER_MAX)
        length = ROWLOCK_OWNER_MAX;
    if (owner != NULL)
        memcpy(op->holder, owner, length);
    op->holder[owner != NULL ? length : 0] = '\0';
}

int my_is_maria(const my_conn *conn)
{
    return strstr(mysql_get_server_info(conn->mysql), "MariaDB") != NULL;
}

int my_check_clock(const char *column, rowlock_error *err)
{
    if (column != NULL)
        return ROWLOCK_OK;
    return rlk_fail(err, ROWLOCK_EDRIVER,
                    "the server does not tell UTC in this session: SET time_zone = '+00:00' first");
}

/* 0 would be no bound. */
void my_bound(my_conn *conn, int64_t bound_us)
{
    int64_t ms = bound_us > 0 ? (bound_us + 999) / 1000 : 1;
    rlk_text bound = {0}, more = {0};
    const char *literals[2];

    rlk_text_int(&bound, ms / 1000);
    rlk_text_str(&bound, ".");
    rlk_text_int(&bound, ms / 100 % 10);
    rlk_text_int(&bound, ms / 10 % 10);
    rlk_text_int(&bound, ms % 10);
    literals[0] = bound.failed ? "NULL" : bound.data;
    literals[1] = my_number(&more, ms / 1000 + 60);
    my_add(conn, SQL_WAIT_BOUND, literals, 2);
    conn->packet.failed |= bound.failed || more.failed;
    rlk_text_free(&bound);
    rlk_text_free(&more);
}

static void add_row(rlk_text *out, const rowlock_op *op, size_t index, int first)
{
    rlk_text i = {0}, name = {0}, owner = {0}, attempt = {0}, fence = {0};
    const char *literals[] = {
        my_number(&i, (int64_t)index), my_bytes(&name, op->name, op->name_length),
        my_bytes(&owner, op->owner, strlen(op->owner)),
        my_bytes(&attempt, op->attempt, sizeof op->attempt), my_number(&fence, (int64_t)op->fence)};

    my_fill(out, sql_text[first ? SQL_BATCH_FIRST : SQL_BATCH_NEXT], literals, 5);
    out->failed |= i.failed || name.failed || owner.failed || attempt.failed || fence.failed;
    rlk_text_free(&i);
    rlk_text_free(&name);
    rlk_text_free(&owner);
    rlk_text_free(&attempt);
    rlk_text_free(&fence);
}

static size_t batch_bytes(const my_conn *conn)
{
    size_t room = conn->packet_max > BATCH_SPARE ? conn->packet_max - BATCH_SPARE : 0;

    if (conn->borrowed)
        return BORROWED_BYTES;
    return room < BATCH_BYTES ? room : BATCH_BYTES;
}

/* Puts ops from `from` on into conn->batch, and answers where the next one begins. */
static size_t add_rows(my_locking *l, size_t from)
{
    rlk_text *batch = &l->conn->batch;
    size_t i = from;

    rlk_text_clear(batch);
    do {
        add_row(batch, &l->ops[i], i, i == from);
        i++;
    } while (i < l->n && !batch->failed && batch->length < batch_bytes(l->conn));
    return i;
}

static int run(my_locking *l, int64_t wait_us, MYSQL_RES **out, rowlock_error *err)
{
    int status;

    if (l->conn->borrowed)
        return my_native_run(l->conn, out, err);
    status = my_run(l->conn, my_deadline(l->timeout_ms) + wait_us, out, err);
    if (status != ROWLOCK_EUNKNOWN)
        return status;
    /* Nothing of a transaction counts before its COMMIT. */
    if (err != NULL)
        err->status = ROWLOCK_ECONNECT;
    return ROWLOCK_ECONNECT;
}

/* ---- one statement ---- */

static void unhex(char *out, size_t size, const char *digits)
{
    size_t n = 0;

    for (; digits[0] != '\0' && digits[1] != '\0' && n + 1 < size; digits += 2) {
        char pair[3] = {digits[0], digits[1], '\0'};

        out[n++] = (char)strtol(pair, NULL, 16);
    }
    out[n] = '\0';
}

/* No row was seen: was it passed over, or gone? MariaDB may show a wait that its bound has cut off
 * in a subquery as no row, instead of an error. */
static int is_cut_off(const my_locking *l)
{
    return l->mode == SQL_LOCK_SKIP || (l->mode == SQL_LOCK_WAIT && rlk_clock_us() >= l->until);
}

/* "fence,expire_time,owner in hex", or NULL; and the clock. */
static void read_locked(my_locking *l, rowlock_op *op, const char *locked, int64_t now)
{
    char *end = NULL;
    int64_t fence, expire;

    if (locked == NULL) {
        op->status = is_cut_off(l) ? ROWLOCK_BUSY : ROWLOCK_LOST;
        l->closed |= op->status == ROWLOCK_LOST;
        return;
    }
    fence = strtoll(locked, &end, 10);
    expire = *end == ',' ? strtoll(end + 1, &end, 10) : 0;
    if (expire > now) {
        op->holder_fence = (uint64_t)fence;
        op->remaining_us = expire - now;
        unhex(op->holder, sizeof op->holder, *end == ',' ? end + 1 : "");
        l->closed = 1;
        return;
    }
    op->status = ROWLOCK_OK;
    op->fence = (uint64_t)(fence + 1 > now ? fence + 1 : now);
    l->now = now > l->now ? now : l->now;
}

/* BUSY if not all of the `count` rows of the batch are ours. Frees the result. */
static int read_batch(my_locking *l, MYSQL_RES *result, size_t count)
{
    int status = l->conn->borrowed ? my_native_open(l->conn, l->err) : ROWLOCK_OK;
    size_t had = 0;
    MYSQL_ROW row;

    while (status == ROWLOCK_OK && (row = mysql_fetch_row(result)) != NULL) {
        size_t index = (size_t)my_int(row[0]);

        status = my_check_here(row[3], l->err);
        if (status == ROWLOCK_OK)
            status = my_check_clock(row[2], l->err);
        if (status != ROWLOCK_OK || index >= l->n)
            continue;
        read_locked(l, &l->ops[index], row[1], my_int(row[2]));
        had += l->ops[index].status == ROWLOCK_OK;
    }
    mysql_free_result(result);
    return status == ROWLOCK_OK && had < count ? ROWLOCK_BUSY : status;
}

static int is_busy(const my_locking *l, int code)
{
    if (l->mode == SQL_LOCK_NOWAIT)
        return code == (l->maria ? LOCK_TIMEOUT : LOCKED);
    return l->mode == SQL_LOCK_WAIT && code == (l->maria ? STATEMENT_TIMEOUT : EXECUTION_TIMEOUT);
}

/* Locks the rows of conn->batch, `count` of them; the first batch begins the transaction. */
static int lock_batch(my_locking *l, size_t count, int first)
{
    int64_t wait_us = l->mode == SQL_LOCK_WAIT ? l->until - rlk_clock_us() : 0;
    const char *here = my_here(l->conn);
    rlk_text bound = {0};
    const char *literals[] = {my_number(&bound, wait_us > 0 ? (wait_us + 999) / 1000 : 1), here,
                              here, l->conn->batch.failed ? "NULL" : l->conn->batch.data};
    int bounded = l->mode == SQL_LOCK_WAIT;
    rowlock_error own = {0};
    MYSQL_RES *result = NULL;
    int status;

    my_start(l->conn);
    if (first && !l->conn->borrowed)
        my_add(l->conn, SQL_START, NULL, 0);
    if (l->maria)
        my_bound(l->conn, bounded ? wait_us : (int64_t)l->timeout_ms * 1000);
    my_add(l->conn, l->mode, literals + !bounded, bounded ? 4 : 3);
    l->conn->packet.failed |= bound.failed;
    rlk_text_free(&bound);
    status = run(l, wait_us > 0 ? wait_us : 0, &result, &own);
    if (status == ROWLOCK_OK)
        return read_batch(l, result, count);
    if (status == ROWLOCK_EDRIVER && is_busy(l, own.native_code))
        return ROWLOCK_BUSY;
    if (l->err != NULL)
        *l->err = own;
    return status;
}

/* ---- all rows ---- */

/* Everything that is not all is nothing. On the driver's own connection the locks are given back,
 * unless an error has done so; otherwise it would keep them while it is idle. */
static int give_up(my_locking *l, int status)
{
    my_conn *conn = l->conn;

    for (size_t i = 0; i < l->n; i++) {
        if (l->ops[i].status == ROWLOCK_OK)
            my_clear(&l->ops[i], ROWLOCK_BUSY);
    }
    if (conn->borrowed || conn->dead || (conn->mysql->server_status & SERVER_STATUS_IN_TRANS) == 0)
        return status;
    my_start(conn);
    my_add(conn, SQL_ROLLBACK, NULL, 0);
    if (run(l, 0, NULL, NULL) == ROWLOCK_OK)
        return status;
    conn->dead = 1;
    return rlk_fail_native(l->err, ROWLOCK_ECONNECT, 0, NULL, 1,
                           "the connection broke, the transaction is rolled back");
}

/* Locks all rows in order: OK, BUSY, or an error. */
static int lock_all(my_locking *l, enum sql_statement mode)
{
    int status = ROWLOCK_OK;

    l->mode = mode;
    for (size_t i = 0; i < l->n; i++)
        my_clear(&l->ops[i], ROWLOCK_BUSY);
    for (size_t from = 0, to; from < l->n && status == ROWLOCK_OK; from = to) {
        to = add_rows(l, from);
        status = lock_batch(l, to - from, from == 0);
    }
    return status == ROWLOCK_OK ? ROWLOCK_OK : give_up(l, status);
}

static int set_timeout(my_locking *l, int64_t seconds, rowlock_error *err)
{
    rlk_text number = {0};
    const char *literal = my_number(&number, seconds);
    int status;

    my_start(l->conn);
    my_add(l->conn, SQL_TIMEOUT_SET, &literal, 1);
    status = number.failed ? rlk_fail_memory(err) : run(l, 0, NULL, err);
    rlk_text_free(&number);
    return status;
}

/* MySQL's queue. The session's own bound must not end before the statement's. */
static int lock_queued(my_locking *l)
{
    int64_t least = (l->until - rlk_clock_us()) / 1000000 + 2, before;
    MYSQL_RES *result = NULL;
    MYSQL_ROW row;
    int status, restored;

    my_start(l->conn);
    my_add(l->conn, SQL_TIMEOUT_READ, NULL, 0);
    status = run(l, 0, &result, l->err);
    if (status != ROWLOCK_OK)
        return status;
    row = mysql_fetch_row(result);
    before = my_int(row != NULL ? row[0] : NULL);
    mysql_free_result(result);
    if (before >= least)
        return lock_all(l, SQL_LOCK_WAIT);
    status = set_timeout(l, least, l->err);
    if (status != ROWLOCK_OK)
        return status;
    status = lock_all(l, SQL_LOCK_WAIT);
    if (status < 0)
        set_timeout(l, before, NULL);
    else if ((restored = set_timeout(l, before, l->err)) != ROWLOCK_OK)
        status = give_up(l, restored);
    return status;
}

static int lock_mysql(my_locking *l)
{
    int status = lock_all(l, SQL_LOCK_NOWAIT);

    if (status == ROWLOCK_BUSY && !l->closed && rlk_clock_us() < l->until)
        status = lock_queued(l);
    return status;
}

/* MariaDB without a wait. In a session of the application's a row that was passed over is locked or
 * gone: to wait for it a moment tells which. */
static int lock_maria_now(my_locking *l)
{
    int status;

    if (!l->conn->borrowed)
        return lock_all(l, SQL_LOCK_NOWAIT);
    status = lock_all(l, SQL_LOCK_SKIP);
    if (status != ROWLOCK_BUSY || l->closed)
        return status;
    l->until = rlk_clock_us() + MOMENT_US;
    return lock_all(l, SQL_LOCK_WAIT);
}

/* ---- the new fences ---- */

static void add_write(my_locking *l, const rowlock_op *op)
{
    rlk_text name = {0}, owner = {0}, attempt = {0}, fence = {0}, time = {0};
    const char *now = my_number(&time, l->now);
    const char *literals[] = {my_bytes(&owner, op->owner, strlen(op->owner)),
                              my_number(&fence, (int64_t)op->fence),
                              my_bytes(&attempt, op->attempt, sizeof op->attempt),
                              now,
                              now,
                              my_bytes(&name, op->name, op->name_length)};

    my_add(l->conn, SQL_LOCK_WRITE_ONE, literals, sizeof literals / sizeof *literals);
    l->conn->packet.failed |=
        name.failed || owner.failed || attempt.failed || fence.failed || time.failed;
    rlk_text_free(&name);
    rlk_text_free(&owner);
    rlk_text_free(&attempt);
    rlk_text_free(&fence);
    rlk_text_free(&time);
}

/* A statement for each row. The driver's own connections take many in one packet; the last one
 * makes the connection the application's. */
static int write_rows(my_locking *l)
{
    my_conn *conn = l->conn;
    int status = ROWLOCK_OK;

    my_start(conn);
    for (size_t i = 0; i < l->n && status == ROWLOCK_OK; i++) {
        int last = i + 1 == l->n;

        add_write(l, &l->ops[i]);
        if (!last && !conn->borrowed && conn->packet.length < batch_bytes(conn))
            continue;
        if (last && !conn->borrowed)
            my_add(conn, SQL_TX_READY, NULL, 0);
        status = run(l, 0, NULL, l->err);
        my_start(conn);
    }
    conn->foreign = status != ROWLOCK_OK; /* whether the settings were changed is not known */
    return status;
}

static int write_batches(my_locking *l, rowlock_error *err)
{
    rlk_text number = {0};
    const char *literals[3] = {NULL, my_number(&number, l->now), number.data};
    int status = number.failed ? rlk_fail_memory(err) : ROWLOCK_OK;

    for (size_t from = 0, to; from < l->n && status == ROWLOCK_OK; from = to) {
        to = add_rows(l, from);
        literals[0] = l->conn->batch.failed ? "NULL" : l->conn->batch.data;
        my_start(l->conn);
        my_add(l->conn, SQL_LOCK_WRITE, literals, 3);
        status = run(l, 0, NULL, err);
    }
    rlk_text_free(&number);
    return status;
}

static int write_all(my_locking *l)
{
    enum { TOO_BIG_SELECT = 1104, SAFE_UPDATES = 1175 };
    rowlock_error own = {0};
    int status;

    if (!l->conn->borrowed)
        return write_rows(l);
    status = l->n > 1 ? write_batches(l, &own) : ROWLOCK_OK;
    if (l->n == 1 || own.native_code == SAFE_UPDATES || own.native_code == TOO_BIG_SELECT)
        status = write_rows(l);
    else if (status != ROWLOCK_OK && l->err != NULL)
        *l->err = own;
    return status == ROWLOCK_OK ? my_native_open(l->conn, l->err) : status;
}

/* How long one call may wait: not longer than the connection itself waits for an answer. */
static int64_t wait_of(const my_conn *conn, uint32_t wait_ms, int in_line)
{
    int64_t wait_us = wait_ms == ROWLOCK_WAIT_FOREVER ? LONGEST_US : (int64_t)wait_ms * 1000;
    int64_t most_us = in_line ? LONGEST_US : SLICE_US;
    unsigned read_s = 0;

    if (conn->borrowed && mysql_get_option(conn->mysql, MYSQL_OPT_READ_TIMEOUT, &read_s) == 0 &&
        read_s > 0 && (int64_t)read_s * 500000 < most_us)
        most_us = (int64_t)read_s * 500000;
    return wait_us < most_us ? wait_us : most_us;
}

/* InnoDB gives the row of a lease back only when the application's transaction ends: to wait for
 * the lease in it would keep the holder from renewing and releasing. */
static int conclude(const my_locking *l, int status, uint32_t wait_ms)
{
    if (status != ROWLOCK_BUSY)
        return status;
    for (size_t i = 0; i < l->n; i++) {
        if (l->conn->borrowed && wait_ms != ROWLOCK_WAIT_NONE && l->ops[i].remaining_us > 0)
            return rlk_fail_native(l->err, ROWLOCK_EDRIVER, 0, NULL, 1,
                                   "a lease was taken at this very moment: roll the transaction "
                                   "back and begin again");
    }
    return ROWLOCK_OK;
}

int my_lock_rows(my_conn *conn, rowlock_op *ops, size_t n, uint32_t wait_ms, int in_line,
                 uint32_t timeout_ms, rowlock_error *err)
{
    my_locking l = {.conn = conn, .ops = ops, .n = n, .timeout_ms = timeout_ms, .err = err};
    int status;

    l.maria = my_is_maria(conn);
    l.until = rlk_clock_us() + wait_of(conn, wait_ms, in_line);
    if (!l.maria)
        status = lock_mysql(&l);
    else if (wait_ms != ROWLOCK_WAIT_NONE)
        status = lock_all(&l, SQL_LOCK_WAIT);
    else
        status = lock_maria_now(&l);
    if (status == ROWLOCK_OK && (status = write_all(&l)) != ROWLOCK_OK)
        status = give_up(&l, status);
    return conclude(&l, status, wait_ms);
}
