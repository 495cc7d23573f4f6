/* SPDX-License-Identifier: MIT
 *
 * Four workers sell the last items in stock. Each sale takes a lease lock, reads the stock, thinks,
 * and writes one less. At its fifth sale a worker falls asleep for longer than its lease lasts, so
 * that others sell meanwhile; when it wakes up it would write a stock that is long gone. The guard
 * keeps it from that: a transaction that is guarded commits under the lock, or not at all.
 *
 *     stock_guard_sqlite FILE */
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "rowlock/sqlite.h"
#include "workers.h"

enum { ITEMS = 40, LEASE_MS = 300, SLEEP_MS = 500 };

struct shop {
    const char *path;
    rowlock_client *client; /* one for all workers */
    atomic_int refused;
};

/* ---- SQLite alone ---- */

static int run(sqlite3 *db, const char *sql)
{
    if (sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK)
        return 0;
    fprintf(stderr, "stock: %s\n", sqlite3_errmsg(db));
    return -1;
}

/* The one number that a query gives, -1 if there is none. */
static int number(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *query = NULL;
    int n = -1;

    sqlite3_prepare_v2(db, sql, -1, &query, NULL);
    if (sqlite3_step(query) == SQLITE_ROW)
        n = sqlite3_column_int(query, 0);
    sqlite3_finalize(query);
    return n;
}

static int write_sale(sqlite3 *db, int left)
{
    char sql[100];

    snprintf(sql, sizeof(sql), "UPDATE example_stock SET items = %d", left);
    return run(db, sql) == 0 ? run(db, "INSERT INTO example_sales DEFAULT VALUES") : -1;
}

/* ---- under a lease ---- */

/* Sells an item. What was in stock before, or -1 after a message. */
static int sell(struct shop *shop, rowlock_lock *lock, sqlite3 *db, int sleepy)
{
    int items = number(db, "SELECT items FROM example_stock");
    rowlock_error err = {0};
    int rc;

    if (items <= 0)
        return items;
    usleep(sleepy ? SLEEP_MS * 1000 : 1000); /* think: ask the payment service, say */
    if (run(db, "BEGIN") != 0)
        return -1;
    rc = rowlock_sqlite_guard(lock, db, &err);
    if (rc == ROWLOCK_OK && write_sale(db, items - 1) == 0 && run(db, "COMMIT") == 0)
        return items;
    run(db, "ROLLBACK");
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
    sqlite3 *db = NULL; /* the application's own */
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;
    rowlock_lock *lock;
    rowlock_error err;
    int items = sqlite3_open(shop->path, &db) == SQLITE_OK ? 1 : -1;

    (void)worker;
    sqlite3_busy_timeout(db, 5000); /* for reading and COMMIT */
    options.ttl_ms = LEASE_MS;
    options.wait_ms = 30000;
    for (int i = 0; i < 10 * ITEMS && items > 0; i++) {
        if (rowlock_acquire(&lock, shop->client, "stock", &options, &err) == ROWLOCK_OK) {
            items = sell(shop, lock, db, i == 4);
            rowlock_release(&lock, NULL); /* after COMMIT; LOST if the lease has ended */
        } else if (!err.retryable) { /* it is if so short a lease had ended before it was known */
            fprintf(stderr, "stock: %s\n", err.message);
            items = -1;
        }
    }
    sqlite3_close(db);
    return items == 0 ? 0 : -1;
}

int main(int argc, char **argv)
{
    rowlock_options options = ROWLOCK_OPTIONS_INIT;
    struct shop shop = {.path = argc == 2 ? argv[1] : ""};
    rowlock_error err;
    sqlite3 *db = NULL;
    int left, sold, failed = 1;

    options.schema_policy = ROWLOCK_SCHEMA_CREATE; /* in the same file */
    if (rowlock_open(&shop.client, rowlock_sqlite(), shop.path, &options, &err) != ROWLOCK_OK)
        return fprintf(stderr, "stock: %s\n", err.message), 1;
    if (sqlite3_open(shop.path, &db) == SQLITE_OK &&
        run(db, "DROP TABLE IF EXISTS example_stock; DROP TABLE IF EXISTS example_sales;"
                "CREATE TABLE example_stock AS SELECT 40 AS items;"
                "CREATE TABLE example_sales (id INTEGER PRIMARY KEY)") == 0)
        failed = run_workers(work, &shop);
    left = number(db, "SELECT items FROM example_stock");
    sold = number(db, "SELECT count(*) FROM example_sales");
    printf("%d of %d sold, %d left, %d refused by the guard\n", sold, ITEMS, left, shop.refused);
    if (!failed)
        run(db, "DROP TABLE example_stock; DROP TABLE example_sales");
    sqlite3_close(db);
    rowlock_close(&shop.client);
    return failed || sold != ITEMS || left != 0 || shop.refused == 0;
}
