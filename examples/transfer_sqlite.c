/* SPDX-License-Identifier: MIT
 *
 * Four workers move money between two accounts, in both directions, and none is lost. The locks are
 * taken inside the transaction that moves the money, on the application's own connection: COMMIT
 * writes the balances and frees the locks in one.
 *
 *     transfer_sqlite FILE */
#include <sqlite3.h>
#include <stdio.h>

#include "rowlock/sqlite.h"
#include "workers.h"

enum { TRANSFERS = 25, TRIES = 10 };

struct bank {
    const char *path;
    rowlock_client *client; /* one for all workers */
};

/* ---- SQLite alone ---- */

static int run(sqlite3 *db, const char *sql)
{
    if (sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK)
        return 0;
    fprintf(stderr, "transfer: %s\n", sqlite3_errmsg(db));
    return -1;
}

/* -1 if it cannot be read. */
static long balance(sqlite3 *db, int account)
{
    sqlite3_stmt *query = NULL;
    long amount = -1;

    sqlite3_prepare_v2(db, "SELECT balance FROM example_accounts WHERE id = ?1", -1, &query, NULL);
    sqlite3_bind_int(query, 1, account);
    if (sqlite3_step(query) == SQLITE_ROW)
        amount = (long)sqlite3_column_int64(query, 0);
    sqlite3_finalize(query);
    return amount;
}

static int set_balance(sqlite3 *db, int account, long amount)
{
    char sql[100];

    snprintf(sql, sizeof(sql), "UPDATE example_accounts SET balance = %ld WHERE id = %d", amount,
             account);
    return run(db, sql);
}

/* Reads, thinks, writes: right only if nobody else does so meanwhile. */
static int move(sqlite3 *db, int from, int to, long amount)
{
    long giver = balance(db, from), taker = balance(db, to);

    if (giver < amount || taker < 0)
        return -1;
    if (set_balance(db, from, giver - amount) != 0)
        return -1;
    return set_balance(db, to, taker + amount);
}

/* ---- under locks ---- */

/* One try. 0, or -1; if the locks were the reason, err says so. */
static int transfer(rowlock_client *client, sqlite3 *db, int from, int to, rowlock_error *err)
{
    /* Direction does not matter: names are locked in one and the same order. */
    const char *const names[] = {from == 1 ? "account 1" : "account 2",
                                 to == 1 ? "account 1" : "account 2"};
    rowlock_tx_options options = ROWLOCK_TX_OPTIONS_INIT;

    options.wait_ms = 10000;
    if (run(db, "BEGIN") == 0 &&
        rowlock_sqlite_lock(NULL, client, db, names, 2, &options, err) == ROWLOCK_OK &&
        move(db, from, to, from == 1 ? 10 : 8) == 0 && run(db, "COMMIT") == 0)
        return 0;
    run(db, "ROLLBACK");
    return -1;
}

static int work(int number, void *payload)
{
    struct bank *bank = payload;
    sqlite3 *db = NULL; /* the application's own */
    int from = 1 + number % 2, to = 2 - number % 2;
    int tries = sqlite3_open(bank->path, &db) == SQLITE_OK ? TRIES : 0;

    sqlite3_busy_timeout(db, 5000); /* for COMMIT: somebody may be reading */
    for (int i = 0; i < TRANSFERS && tries > 0; i++) {
        rowlock_error err = {0};

        tries = TRIES;
        while (tries > 0 && transfer(bank->client, db, from, to, &err) != 0)
            tries = err.retryable ? tries - 1 : 0;
        if (tries == 0)
            fprintf(stderr, "transfer: gave up: %s\n", err.message);
    }
    sqlite3_close(db);
    return tries > 0 ? 0 : -1;
}

int main(int argc, char **argv)
{
    rowlock_options options = ROWLOCK_OPTIONS_INIT;
    struct bank bank = {.path = argc == 2 ? argv[1] : ""};
    rowlock_error err;
    sqlite3 *db = NULL;
    long first, second;
    int failed = 1;

    options.schema_policy = ROWLOCK_SCHEMA_CREATE; /* in the same file */
    if (rowlock_open(&bank.client, rowlock_sqlite(), bank.path, &options, &err) != ROWLOCK_OK)
        return fprintf(stderr, "transfer: %s\n", err.message), 1;
    if (sqlite3_open(bank.path, &db) == SQLITE_OK &&
        run(db, "DROP TABLE IF EXISTS example_accounts;"
                "CREATE TABLE example_accounts (id INTEGER PRIMARY KEY, balance INTEGER NOT NULL);"
                "INSERT INTO example_accounts VALUES (1, 1000), (2, 1000)") == 0)
        failed = run_workers(work, &bank);
    first = balance(db, 1);
    second = balance(db, 2);
    printf("account 1 has %ld, account 2 has %ld\n", first, second);
    if (!failed)
        run(db, "DROP TABLE example_accounts");
    sqlite3_close(db);
    rowlock_close(&bank.client);
    return failed || first != 900 || second != 1100; /* 50 times 10 to and 8 fro */
}
