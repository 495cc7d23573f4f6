/* SPDX-License-Identifier: MIT
 *
 * The usual case in one statement: acquire of a row that is there and free, release, a try on a
 * lock that is held. And each case that is not the usual one, met by a connection that expects it:
 * the answer is the contract's, and nothing is counted twice. Statements are counted by the server,
 * for all its sessions, so nobody else may use it meanwhile. */
#include "fault.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TIMEOUT_MS = 5000, NAMES = 5, WARM = 5 };

#define TTL_US ((int64_t)60000000)

/* ---- connections and operations -------------------------------------------------------------- */

static void *open_conn(const char *address)
{
    rowlock_config config = {.size = sizeof(config), .address = address, .prefix = fault.prefix};
    void *conn = calloc(1, fault.backend.driver->conn_size);
    rowlock_error err;

    assert_non_null(conn);
    assert_status(ROWLOCK_OK, fault.backend.driver->open(conn, &config, TIMEOUT_MS, &err), &err);
    return conn;
}

static void close_conn(void *conn)
{
    fault.backend.driver->close(conn);
    free(conn);
}

static rowlock_op op_of(const char *name, const char *owner)
{
    static uint32_t number;
    rowlock_op op = {
        .name = name, .name_length = strlen(name), .owner = owner, .note = "", .ttl_us = TTL_US};

    number++;
    memcpy(op.attempt, &number, sizeof(number));
    return op;
}

static int acquire(void *conn, rowlock_op *op)
{
    rowlock_error err = {0};

    assert_status(ROWLOCK_OK, fault.backend.driver->acquire(conn, op, 1, 0, TIMEOUT_MS, &err),
                  &err);
    return op->status;
}

/* One hold of what `held` has, under an attempt of its own. */
static rowlock_op release_op(const rowlock_op *held)
{
    rowlock_op op = op_of(held->name, held->owner);

    op.fence = held->fence;
    memcpy(op.seen, held->attempt, sizeof(op.seen));
    return op;
}

static int release(void *conn, rowlock_op *op)
{
    rowlock_error err = {0};

    assert_status(ROWLOCK_OK, fault.backend.driver->release(conn, op, 1, TIMEOUT_MS, &err), &err);
    return op->status;
}

/* Statements so far; not "Questions", nor "Com_admin_commands", which count goodbyes, too, whenever
 * they arrive. What EXECUTE executes is counted by itself, and that a statement is prepared, once
 * for a connection, is not. */
static long long counted(void)
{
    static char out[65536];
    long long sum = 0;

    fault_sql_text(out, sizeof(out),
                   "SHOW GLOBAL STATUS WHERE Variable_name LIKE 'Com\\_%'"
                   " AND Variable_name NOT IN ('Com_admin_commands', 'Com_execute_sql',"
                   " 'Com_stmt_execute', 'Com_prepare_sql', 'Com_stmt_prepare')");
    for (const char *at = strchr(out, '|'); at != NULL; at = strchr(at + 1, '|'))
        sum += strtoll(at + 1, NULL, 10); /* after a name, its number; after that, another name */
    return sum;
}

/* How many since then, without what the counting does. */
static long long since(long long before)
{
    long long now = counted();

    return now - before - (counted() - now);
}

static long long acquire_counted(void *conn, rowlock_op *op)
{
    long long before = counted();

    acquire(conn, op);
    return since(before);
}

static long long release_counted(void *conn, rowlock_op *op)
{
    long long before = counted();

    release(conn, op);
    return since(before);
}

/* Lets a connection meet free locks until it expects the next one to be so, and has prepared for
 * it.
 */
static void *warm_conn(const char *address)
{
    void *conn = open_conn(address);
    const char *name = fault_name("warm");
    long long made = 0;

    for (int i = 0; i < WARM; i++) {
        rowlock_op op = op_of(name, "warm"), off;

        made = acquire_counted(conn, &op);
        assert_int_equal(ROWLOCK_OK, op.status);
        off = release_op(&op);
        assert_int_equal(ROWLOCK_OK, release(conn, &off));
    }
    assert_int_equal(1, made);
    return conn;
}

static struct fault_row row_of(const char *name)
{
    rowlock_client *client = fault_open(fault.backend.address, NULL);
    struct fault_row row = fault_row(client, name);

    rowlock_close(&client);
    return row;
}

/* A row that is there and free. */
static const char *free_row(const char *what)
{
    const char *name = fault_name(what);
    void *conn = open_conn(fault.backend.address);
    rowlock_op op = op_of(name, "before"), off;

    assert_int_equal(ROWLOCK_OK, acquire(conn, &op));
    off = release_op(&op);
    assert_int_equal(ROWLOCK_OK, release(conn, &off));
    close_conn(conn);
    return name;
}

/* ---- the usual case -------------------------------------------------------------------------- */

static void one_statement_each(void **state)
{
    void *conn = warm_conn(fault.proxied);
    const char *name = free_row("usual");
    uint64_t fence = row_of(name).fence;

    (void)state;
    for (int i = 0; i < 3; i++) {
        rowlock_op op = op_of(name, "usual"), off;
        struct fault_row row;
        int trips;

        op.note = "noted";
        assert_int_equal(1, acquire_counted(conn, &op));
        assert_int_equal(ROWLOCK_OK, op.status);
        assert_int_equal(1, op.hold_count);
        assert_int_equal(TTL_US, op.remaining_us);
        assert_true(op.fence > fence);
        row = row_of(name);
        assert_int_equal(2, row.found);
        assert_int_equal(op.fence, row.fence);
        assert_int_equal(1, row.hold_count);
        assert_string_equal("usual", row.owner);
        assert_in_range(row.remaining_ms, TTL_US / 2000, TTL_US / 1000);
        fence = op.fence;
        off = release_op(&op);
        trips = proxy_round_trips(fault.proxy);
        assert_int_equal(1, release_counted(conn, &off));
        assert_int_equal(1, proxy_round_trips(fault.proxy) - trips);
        assert_int_equal(ROWLOCK_OK, off.status);
        assert_int_equal(0, off.hold_count);
        assert_int_not_equal(2, row_of(name).found);
        assert_int_equal(fence, row_of(name).fence);
    }
    close_conn(conn);
}

/* START TRANSACTION, one for all, COMMIT; on MySQL the answer is one more. */
static void some_together(void **state)
{
    void *conn = warm_conn(fault.backend.address), *other = open_conn(fault.backend.address);
    rowlock_op ops[NAMES], held;
    rowlock_error err;
    long long before;

    (void)state;
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < NAMES; i++)
            ops[i] = op_of(free_row("some"), "some");
        if (round > 0) {
            held = op_of(ops[1].name, "other");
            assert_int_equal(ROWLOCK_OK, acquire(other, &held));
        }
        before = counted();
        assert_status(ROWLOCK_OK,
                      fault.backend.driver->acquire(conn, ops, NAMES, 0, TIMEOUT_MS, &err), &err);
        if (round == 0)
            assert_in_range(since(before), 3, 4);
        for (int i = 0; i < NAMES; i++) {
            assert_int_equal(round > 0 && i == 1 ? ROWLOCK_BUSY : ROWLOCK_OK, ops[i].status);
            assert_int_equal(row_of(ops[i].name).fence,
                             ops[i].status == ROWLOCK_OK ? ops[i].fence : ops[i].holder_fence);
            ops[i] = release_op(&ops[i]);
        }
        before = counted();
        assert_status(ROWLOCK_OK, fault.backend.driver->release(conn, ops, NAMES, TIMEOUT_MS, &err),
                      &err);
        if (round == 0)
            assert_in_range(since(before), 3, 4);
        for (int i = 0; i < NAMES; i++)
            assert_int_equal(round > 0 && i == 1 ? ROWLOCK_LOST : ROWLOCK_OK, ops[i].status);
    }
    close_conn(other);
    close_conn(conn);
}

/* ---- each of the others, where a free row was expected --------------------------------------- */

static void held_by_another(void **state)
{
    void *conn = warm_conn(fault.backend.address), *other = open_conn(fault.backend.address);
    const char *name = free_row("held");
    rowlock_op held = op_of(name, "other"), off;

    (void)state;
    assert_int_equal(ROWLOCK_OK, acquire(other, &held));
    for (int i = 0; i < 3; i++) {
        rowlock_op op = op_of(name, "late comer");
        long long made = acquire_counted(conn, &op);

        assert_int_equal(ROWLOCK_BUSY, op.status);
        assert_string_equal("other", op.holder);
        assert_int_equal(held.fence, op.holder_fence);
        assert_in_range(op.remaining_us, TTL_US / 2, TTL_US);
        if (i > 0) /* as expected by now */
            assert_int_equal(1, made);
    }
    assert_int_equal(1, row_of(name).hold_count);
    off = release_op(&held);
    assert_int_equal(ROWLOCK_OK, release(other, &off));
    for (int i = 0; i < 2; i++) { /* a held one was expected */
        rowlock_op op = op_of(name, "late comer");
        long long made = acquire_counted(conn, &op);

        assert_int_equal(ROWLOCK_OK, op.status);
        assert_true(op.fence > held.fence);
        if (i > 0)
            assert_int_equal(1, made);
        held = op;
        off = release_op(&op);
        assert_int_equal(ROWLOCK_OK, release(conn, &off));
    }
    close_conn(other);
    close_conn(conn);
}

static void absent(void **state)
{
    void *conn = warm_conn(fault.backend.address);
    rowlock_op op = op_of(fault_name("absent"), "first"), off;

    (void)state;
    assert_int_equal(ROWLOCK_OK, acquire(conn, &op));
    assert_int_equal(1, op.hold_count);
    assert_int_equal(op.fence, row_of(op.name).fence);
    off = release_op(&op);
    assert_int_equal(1, release_counted(conn, &off));
    assert_int_equal(ROWLOCK_OK, off.status);
    close_conn(conn);
}

static void held_by_oneself(void **state)
{
    void *conn = warm_conn(fault.backend.address);
    const char *name = free_row("again");
    rowlock_op first = op_of(name, "same"), second = op_of(name, "same"), off;

    (void)state;
    assert_int_equal(ROWLOCK_OK, acquire(conn, &first));
    assert_int_equal(ROWLOCK_OK, acquire(conn, &second));
    assert_int_equal(2, second.hold_count);
    assert_int_equal(first.fence, second.fence);
    off = release_op(&second);
    assert_int_equal(1, release_counted(conn, &off));
    assert_int_equal(ROWLOCK_OK, off.status);
    assert_int_equal(1, off.hold_count);
    assert_int_equal(2, row_of(name).found);
    first.attempt[0] ^= 0xff; /* not what the row has */
    second = release_op(&first);
    assert_int_equal(ROWLOCK_BUSY, release(conn, &second));
    assert_memory_equal(off.attempt, second.seen, sizeof(second.seen));
    assert_int_equal(ROWLOCK_OK, release(conn, &second));
    assert_int_equal(0, second.hold_count);
    assert_int_equal(ROWLOCK_OK, release(conn, &second)); /* the same once more */
    second = release_op(&second);
    assert_int_equal(ROWLOCK_LOST, release(conn, &second));
    close_conn(conn);
}

static void expired(void **state)
{
    void *conn = warm_conn(fault.backend.address);
    const char *name = free_row("expired");
    rowlock_op held = op_of(name, "gone"), op = op_of(name, "next"), off;

    (void)state;
    held.ttl_us = 1000;
    assert_int_equal(ROWLOCK_OK, acquire(conn, &held));
    while (row_of(name).found == 2) {
    }
    assert_int_equal(1, acquire_counted(conn, &op));
    assert_int_equal(ROWLOCK_OK, op.status);
    assert_true(op.fence > held.fence);
    off = release_op(&held);
    assert_int_equal(ROWLOCK_LOST, release(conn, &off));
    assert_int_equal(2, row_of(name).found);
    close_conn(conn);
}

static void waited_for(void **state)
{
    void *conn = warm_conn(fault.backend.address), *other = open_conn(fault.backend.address);
    const char *name = free_row("queue");
    rowlock_op waiter = op_of(name, "waiter"), op = op_of(name, "late comer");
    rowlock_error err;

    (void)state;
    assert_status(ROWLOCK_OK,
                  fault.backend.driver->enqueue(other, &waiter, 1, TTL_US, 0, TIMEOUT_MS, &err),
                  &err);
    assert_int_equal(ROWLOCK_BUSY, acquire(conn, &op));
    assert_int_equal(1, op.is_queue);
    assert_string_equal("", op.holder);
    assert_in_range(op.remaining_us, TTL_US / 2, TTL_US);
    assert_int_equal(ROWLOCK_OK, acquire(other, &waiter));
    waiter = release_op(&waiter);
    assert_int_equal(ROWLOCK_OK, release(other, &waiter));
    assert_int_equal(ROWLOCK_OK, acquire(conn, &op)); /* marked, and yet nobody waits */
    close_conn(other);
    close_conn(conn);
}

/* Nobody waits for it to acquire; to release, for a while. */
static void locked(void **state)
{
    void *conn = warm_conn(fault.backend.address);
    const struct backend_kind *kind = fault.backend.kind;
    void *session = kind->sql_open(fault.backend.address);
    rowlock_op op = op_of(free_row("locked"), "patient"), off;
    rowlock_error err = {0};
    char sql[256];

    (void)state;
    assert_non_null(session);
    snprintf(sql, sizeof(sql), "SELECT fence FROM %slocks WHERE name = '%s' FOR UPDATE",
             fault.prefix, op.name);
    assert_int_equal(0, kind->sql_run(session, "START TRANSACTION", NULL, 0));
    assert_int_equal(0, kind->sql_run(session, sql, NULL, 0));
    assert_int_equal(ROWLOCK_BUSY, acquire(conn, &op));
    assert_string_equal("", op.holder);
    assert_int_equal(0, kind->sql_run(session, "ROLLBACK", NULL, 0));
    assert_int_equal(ROWLOCK_OK, acquire(conn, &op));
    off = release_op(&op);
    assert_int_equal(0, kind->sql_run(session, "START TRANSACTION", NULL, 0));
    assert_int_equal(0, kind->sql_run(session, sql, NULL, 0));
    for (uint32_t timeout_ms = 1000; timeout_ms <= TIMEOUT_MS; timeout_ms += 4000) {
        assert_status(ROWLOCK_EDRIVER,
                      fault.backend.driver->release(conn, &off, 1, timeout_ms, &err), &err);
        assert_int_equal(1, err.retryable);
    }
    assert_int_equal(0, kind->sql_run(session, "ROLLBACK", NULL, 0));
    assert_status(ROWLOCK_OK, fault.backend.driver->release(conn, &off, 1, 1000, &err), &err);
    assert_int_equal(ROWLOCK_OK, off.status);
    kind->sql_close(session);
    close_conn(conn);
}

/* Done, and the answer lost: the same call on another connection knows it for its own. */
static void repeated(void **state)
{
    const proxy_plan cut = {.fault = PROXY_CUT_REPLY};
    const char *name = free_row("repeated");
    void *conn = warm_conn(fault.proxied), *next = warm_conn(fault.backend.address);
    rowlock_op op = op_of(name, "repeated"), off;
    rowlock_error err;
    uint64_t fence;

    (void)state;
    proxy_arm(fault.proxy, &cut);
    assert_status(ROWLOCK_EUNKNOWN,
                  fault.backend.driver->acquire(conn, &op, 1, 0, TIMEOUT_MS, &err), &err);
    close_conn(conn);
    assert_int_equal(2, row_of(name).found);
    fence = row_of(name).fence;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(ROWLOCK_OK, acquire(next, &op));
        assert_int_equal(1, op.hold_count);
        assert_int_equal(fence, op.fence);
    }
    conn = open_conn(fault.proxied);
    off = release_op(&op);
    proxy_arm(fault.proxy, &cut);
    assert_status(ROWLOCK_EUNKNOWN, fault.backend.driver->release(conn, &off, 1, TIMEOUT_MS, &err),
                  &err);
    close_conn(conn);
    assert_int_not_equal(2, row_of(name).found);
    assert_int_equal(ROWLOCK_OK, release(next, &off));
    assert_int_equal(0, off.hold_count);
    close_conn(next);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(one_statement_each), cmocka_unit_test(some_together),
        cmocka_unit_test(held_by_another),    cmocka_unit_test(absent),
        cmocka_unit_test(held_by_oneself),    cmocka_unit_test(expired),
        cmocka_unit_test(waited_for),         cmocka_unit_test(locked),
        cmocka_unit_test(repeated),
    };
    return FAULT_MAIN(argc, argv, 1, cases);
}
