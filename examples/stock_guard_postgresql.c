/* SPDX-License-Identifier: MIT
 *
 * Four workers sell the last items in stock. Each sale takes a lease lock, reads the stock, thinks,
 * and writes one less. At its fifth sale a worker falls asleep for longer than its lease lasts, so
 * that others sell meanwhile; when it wakes up it would write a stock that is long gone. The guard
 * keeps it from that: a transaction that is guarded commits under the lock, or not at all.
 *
 *     stock_guard_postgresql ADDRESS */
#include <libpq-fe.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "rowlock/postgresql.h"
#include "workers.h"

enum { ITEMS = 40, LEASE_MS = 300, SLEEP_MS = 500 };

struct shop {
    const char *address;
    rowlock_client *client; /* one for all workers */
    atomic_int refused;
};

/* ---- libpq alone ---- */

/* For statements without rows. 0, or -1 after a message. */
static int run(PGconn *conn, const char *sql)
{
    PGresult *result = PQexec(conn, sql);
    int ok = PQresultStatus(result) == PGRES_COMMAND_OK;

    if (!ok)
        fprintf(stderr, "stock: %s", PQerrorMessage(conn));
    PQclear(result);
    return ok ? 0 : -1;
}

/* The one number that a query gives, -1 if there is none. */
static int number(PGconn *conn, const char *sql)
{
    PGresult *result = PQexec(conn, sql);
    int n = PQntuples(result) == 1 ? atoi(PQgetvalue(result, 0, 0)) : -1;

    PQclear(result);
    return n;
}

static int write_sale(PGconn *conn, int left)
{
    char sql[100];

    snprintf(sql, sizeof(sql), "UPDATE example_stock SET items = %d", left);
    return run(conn, sql) == 0 ? run(conn, "INSERT INTO example_sales DEFAULT VALUES") : -1;
}

/* ---- under a lease ---- */

/* Sells an item. What was in stock before, or -1 after a message. */
static int sell(struct shop *shop, rowlock_lock *lock, PGconn *conn, int sleepy)
{
    int items = number(conn, "SELECT items FROM example_stock");
    rowlock_error err = {0};
    int rc;

    if (items <= 0)
        return items;
    usleep(sleepy ? SLEEP_MS * 1000 : 1000); /* think: ask the payment service, say */
    if (run(conn, "BEGIN") != 0)
        return -1;
    rc = rowlock_postgresql_guard(lock, conn, &err);
    if (rc == ROWLOCK_OK && write_sale(conn, items - 1) == 0 && run(conn, "COMMIT") == 0)
        return items;
    run(conn, "ROLLBACK");
    if (rc == ROWLOCK_LOST || err.retryable) { /* not sold: the customer stands in line again */
        shop->refused++;
        return items;
    }
    if (rc != ROWLOCK_OK)
        fprintf(stderr, "stock: %s\n", err.message);
    return -1;
}

static int work(int worker, void *payload)
{
    struct shop *shop = payload;
    PGconn *conn = PQconnectdb(shop->address); /* the application's own */
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;
    rowlock_lock *lock;
    rowlock_error err;
    int items = 1;

    (void)worker;
    options.ttl_ms = LEASE_MS;
    options.wait_ms = 30000;
    for (int i = 0; i < 10 * ITEMS && items > 0; i++) {
        if (rowlock_acquire(&lock, shop->client, "stock", &options, &err) == ROWLOCK_OK) {
            items = sell(shop, lock, conn, i == 4);
            rowlock_release(&lock, NULL); /* after COMMIT; LOST if the lease has ended */
        } else if (!err.retryable) { /* it is if so short a lease had ended before it was known */
            fprintf(stderr, "stock: %s\n", err.message);
            items = -1;
        }
    }
    PQfinish(conn);
    return items == 0 ? 0 : -1;
}

int main(int argc, char **argv)
{
    rowlock_options options = ROWLOCK_OPTIONS_INIT;
    struct shop shop = {.address = argc == 2 ? argv[1] : ""};
    rowlock_error err;
    PGconn *conn;
    int left, sold, failed = 1;

    options.prefix = "example_";
    options.schema_policy = ROWLOCK_SCHEMA_CREATE;
    if (rowlock_open(&shop.client, rowlock_postgresql(), shop.address, &options, &err) !=
        ROWLOCK_OK)
        return fprintf(stderr, "stock: %s\n", err.message), 1;
    conn = PQconnectdb(shop.address);
    if (run(conn, "SET client_min_messages = warning;"
                  "DROP TABLE IF EXISTS example_stock, example_sales;"
                  "CREATE TABLE example_stock AS SELECT 40 AS items;"
                  "CREATE TABLE example_sales (id serial)") == 0)
        failed = run_workers(work, &shop);
    left = number(conn, "SELECT items FROM example_stock");
    sold = number(conn, "SELECT count(*) FROM example_sales");
    printf("%d of %d sold, %d left, %d refused by the guard\n", sold, ITEMS, left, shop.refused);
    if (!failed)
        run(conn, "DROP TABLE example_stock, example_sales");
    PQfinish(conn);
    rowlock_close(&shop.client);
    return failed || sold != ITEMS || left != 0 || shop.refused == 0;
}
