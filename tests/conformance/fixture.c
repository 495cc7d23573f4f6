/* SPDX-License-Identifier: MIT
 *
 * Set-up and tear-down of a case, and its connections. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "clock.h"
#include "queue.h"
#include "text.h"

void expect_status_(int expected, int got, const rowlock_error *err, const char *file, int line)
{
    if (expected == got)
        return;
    print_error("expected status %d (%s), got %d (%s)%s%s\n", expected, rowlock_strstatus(expected),
                got, rowlock_strstatus(got), err != NULL ? ": " : "",
                err != NULL ? err->message : "");
    _fail(file, line);
}

void expect_between_(int64_t value, int64_t low, int64_t high, const char *file, int line)
{
    if (low <= value && value <= high)
        return;
    print_error("%lld is not within %lld and %lld\n", (long long)value, (long long)low,
                (long long)high);
    _fail(file, line);
}

int soon_again(struct soon *soon, const char *file, int line)
{
    int64_t took = rlk_clock_us() - soon->start_us;
    if (soon->tries > 0 && took <= soon->bound_us)
        return 0;
    if (soon->tries == 5) {
        print_error("%lld us, and not less in %d tries, is more than %lld\n", (long long)took,
                    soon->tries, (long long)soon->bound_us);
        _fail(file, line);
    }
    soon->tries++;
    soon->start_us = rlk_clock_us();
    return 1;
}

int64_t now_us(void)
{
    return rlk_clock_us();
}

void sleep_us(int64_t us)
{
    rlk_sleep_until(rlk_clock_us() + us, NULL, 0);
}

void await_flag(atomic_int *flag)
{
    while (!atomic_load(flag))
        sleep_us(1000);
}

int conn_begin(struct fixture *f, void **conn, const char *address, const char *prefix)
{
    *conn = calloc(1, f->driver->conn_size);
    if (*conn == NULL)
        return ROWLOCK_ENOMEM;
    rowlock_config config = {
        .size = sizeof(config), .address = address, .prefix = prefix, .may_create = 1};
    memset(&f->err, 0, sizeof(f->err));
    return f->driver->open(*conn, &config, CALL_MS, &f->err);
}

void conn_end(struct fixture *f, void *conn)
{
    if (conn == NULL)
        return;
    f->driver->close(conn);
    free(conn);
}

void *another(struct fixture *f)
{
    for (size_t i = 0; i < COUNT(f->others); i++) {
        if (f->others[i] != NULL)
            continue;
        expect_ok(conn_begin(f, &f->others[i], f->backend->address, f->prefix), &f->err);
        return f->others[i];
    }
    fail_msg("a case may have %zu further connections", COUNT(f->others));
    return NULL;
}

void another_end(struct fixture *f, void *conn)
{
    for (size_t i = 0; i < COUNT(f->others); i++) {
        if (f->others[i] == conn)
            f->others[i] = NULL;
    }
    conn_end(f, conn);
}

int tables_to(struct fixture *f, void *conn, int version)
{
    int at = 0;
    int status = f->driver->schema_version(conn, &at, CALL_MS, &f->err);
    while (status == ROWLOCK_OK && at != version) {
        int next = at < version ? at + 1 : at - 1;
        status = f->driver->schema_apply(conn, at, next, CALL_MS, &f->err);
        at = next;
    }
    return status;
}

void tables_anew(struct fixture *f)
{
    expect_ok(tables_to(f, f->conn, 0), &f->err);
    expect_ok(tables_to(f, f->conn, f->driver->migration_count), &f->err);
}

/* Takes the first waiter's place in the queue for an op; a rowlock_waiter_fn. */
static int place_of_first(const rowlock_waiter *waiter, void *payload)
{
    struct place *first = payload;
    first->name_length = waiter->name_length;
    memcpy(first->name, waiter->name, waiter->name_length);
    first->ticket = waiter->ticket;
    return 1;
}

/* Live tickets would stand in the way of the next case. 0 if there are none. */
static int wipe_queue(struct fixture *f)
{
    rowlock_list_query query = {.size = sizeof(query)};
    struct place first = {.ticket = 1};
    int status = ROWLOCK_OK;
    if ((f->backend->caps & BACKEND_TICKETS) == 0)
        return 0;
    for (int i = 0; i < 100 && status == ROWLOCK_OK && first.ticket != 0; i++) {
        first.ticket = 0;
        status = f->driver->waiters(f->conn, &query, place_of_first, &first, CALL_MS, &f->err);
        rowlock_op op = op_bytes(first.name, first.name_length, "");
        op.ticket = first.ticket;
        if (status == ROWLOCK_OK && first.ticket != 0)
            status = f->driver->leave(f->conn, &op, 1, CALL_MS, &f->err);
    }
    return status != ROWLOCK_OK || first.ticket != 0;
}

/* Ends every live lock and reaps all rows. 0 if the table is empty then. */
static int wipe_by_reaping(struct fixture *f)
{
    struct rows rows = rows_read(f);
    if (rows.count > 100 && (f->backend->caps & BACKEND_SQL) != 0) { /* not one by one */
        rows_free(&rows);
        sql_run(f, "DELETE FROM rowlock_locks", NULL, 0);
        rows = rows_read(f);
    }
    for (size_t i = 0; i < rows.count; i++) {
        rowlock_op op = op_bytes(rows.items[i].name, rows.items[i].name_length, "");
        if (rows.items[i].remaining_ms > 0)
            f->driver->force_release(f->conn, &op, CALL_MS, &f->err);
    }
    size_t count = rows.count;
    rows_free(&rows);
    if (count == 0)
        return 0;
    uint64_t reaped = 0;
    rowlock_mark mark = {0};
    sleep_us(100); /* the rows ended just now, and reaping takes those that ended before now */
    while (reap_behind(f, &reaped, &mark, 0, ROWLOCK_REAP_MAX) == ROWLOCK_OK && mark.length > 0)
        continue;
    rows = rows_read(f);
    count = rows.count;
    rows_free(&rows);
    return count != 0;
}

/* Reaping is quick; what it leaves, because a case or the driver went wrong, goes with the tables.
 */
static int wipe(struct fixture *f)
{
    int version = 0;
    int status = f->driver->schema_version(f->conn, &version, CALL_MS, &f->err);
    if (status == ROWLOCK_OK && version == f->driver->migration_count && wipe_queue(f) == 0 &&
        wipe_by_reaping(f) == 0)
        return ROWLOCK_OK;
    status = tables_to(f, f->conn, 0);
    return status == ROWLOCK_OK ? tables_to(f, f->conn, f->driver->migration_count) : status;
}

int case_setup(void **state)
{
    struct fixture *f = *state;
    int status = conn_begin(f, &f->conn, f->backend->address, f->prefix);
    if (status == ROWLOCK_OK)
        status = wipe(f);
    if (status != ROWLOCK_OK)
        print_error("set-up: %s: %s\n", rowlock_strstatus(status), f->err.message);
    return status;
}

/* Transactions first: they keep locked what the rest wants to remove. */
static void end_transactions(struct fixture *f)
{
    for (size_t i = 0; i < COUNT(f->txs); i++) {
        if (f->txs[i] != NULL)
            rowlock_tx_rollback(&f->txs[i], NULL);
    }
    for (size_t i = 0; i < COUNT(f->sessions); i++) {
        if (f->sessions[i] != NULL)
            f->backend->kind->sql_close(f->sessions[i]);
        f->sessions[i] = NULL;
    }
}

static void drop_shop(struct fixture *f)
{
    char sql[64];
    void *session = f->has_shop ? f->backend->kind->sql_open(f->backend->address) : NULL;
    f->has_shop = 0;
    if (session == NULL)
        return;
    snprintf(sql, sizeof(sql), "DROP TABLE %sshop", f->prefix);
    f->backend->kind->sql_run(session, sql, NULL, 0);
    f->backend->kind->sql_close(session);
}

int case_teardown(void **state)
{
    struct fixture *f = *state;
    end_transactions(f);
    for (size_t i = 0; i < COUNT(f->clients); i++)
        rowlock_close(&f->clients[i]);
    for (size_t i = 0; i < COUNT(f->others); i++) {
        conn_end(f, f->others[i]);
        f->others[i] = NULL;
    }
    conn_end(f, f->conn);
    f->conn = NULL;
    drop_shop(f);
    return 0;
}

/* ---- clients --------------------------------------------------------------------------------- */

rowlock_client *client_open_as(struct fixture *f, const char *owner)
{
    rowlock_options options = ROWLOCK_OPTIONS_INIT;
    options.prefix = f->prefix;
    options.owner = owner;
    options.connect_timeout_ms = CALL_MS;
    for (size_t i = 0; i < COUNT(f->clients); i++) {
        if (f->clients[i] != NULL)
            continue;
        expect_ok(rowlock_open(&f->clients[i], f->driver, f->backend->address, &options, &f->err),
                  &f->err);
        return f->clients[i];
    }
    fail_msg("a case may have %zu clients", COUNT(f->clients));
    return NULL;
}

rowlock_client *client_open(struct fixture *f)
{
    return client_open_as(f, NULL);
}

void client_close(struct fixture *f, rowlock_client **client)
{
    for (size_t i = 0; i < COUNT(f->clients); i++) {
        if (f->clients[i] == *client)
            f->clients[i] = NULL;
    }
    rowlock_close(client);
}

rowlock_lock *hold_for(struct fixture *f, rowlock_client *client, const char *name, int64_t ttl_ms)
{
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;
    options.ttl_ms = ttl_ms;
    rowlock_lock *lock = NULL;
    expect_ok(rowlock_acquire(&lock, client, name, &options, &f->err), &f->err);
    assert_non_null(lock);
    return lock;
}

rowlock_lock *hold_briefly(struct fixture *f, rowlock_client *client, const char *name,
                           int64_t *ttl_ms)
{
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;
    rowlock_lock *lock = NULL;
    int status = ROWLOCK_ECONNECT;
    options.ttl_ms = ttl_ms != NULL ? *ttl_ms / 2 : BRIEF_MS / 2;
    while (status == ROWLOCK_ECONNECT && options.ttl_ms * 1000 < SLACK_US) {
        options.ttl_ms *= 2;
        status = rowlock_acquire(&lock, client, name, &options, &f->err);
    }
    expect_ok(status, &f->err);
    if (ttl_ms != NULL)
        *ttl_ms = options.ttl_ms;
    return lock;
}

void outlive(struct fixture *f, const char *name)
{
    int64_t until = now_us() + 2 * SLACK_US;
    while (row_of(f, name).remaining_ms > 0 && now_us() < until)
        sleep_us(20000);
    sleep_us(2000); /* remaining_ms is in whole milliseconds */
    assert_true(row_of(f, name).remaining_ms <= 0);
}

rowlock_lock *hold(struct fixture *f, rowlock_client *client, const char *name)
{
    return hold_for(f, client, name, 0);
}

void let_go(struct fixture *f, rowlock_lock **lock)
{
    expect_ok(rowlock_release(lock, &f->err), &f->err);
    assert_null(*lock);
}

/* ---- SQL ------------------------------------------------------------------------------------- */

void *sql_begin(struct fixture *f)
{
    void *session = f->backend->kind->sql_open(f->backend->address);
    assert_non_null(session);
    session_keep(f, session);
    return session;
}

static void sql_rendered(struct fixture *f, void *session, const char *sql, char *out, size_t size)
{
    rlk_text text = {0};
    rlk_sql_render(&text, sql, f->prefix, NULL, f->driver->quote);
    assert_false(text.failed);
    int status = f->backend->kind->sql_run(session, text.data, out, size);
    rlk_text_free(&text);
    assert_int_equal(status, 0);
}

void sql_in(struct fixture *f, void *session, const char *sql)
{
    char ignored[1024];
    sql_rendered(f, session, sql, ignored, sizeof(ignored));
}

void session_keep(struct fixture *f, void *session)
{
    for (size_t i = 0; i < COUNT(f->sessions); i++) {
        if (f->sessions[i] != NULL)
            continue;
        f->sessions[i] = session;
        return;
    }
    f->backend->kind->sql_close(session);
    fail_msg("a case may have %zu sessions", COUNT(f->sessions));
}

void sql_end(struct fixture *f, void *session)
{
    for (size_t i = 0; i < COUNT(f->sessions); i++) {
        if (f->sessions[i] == session)
            f->sessions[i] = NULL;
    }
    f->backend->kind->sql_close(session);
}

void sql_run(struct fixture *f, const char *sql, char *out, size_t size)
{
    void *session = sql_begin(f);
    sql_rendered(f, session, sql, out, size);
    sql_end(f, session);
}
