/* SPDX-License-Identifier: MIT
 *
 * Four workers move money between two accounts, in both directions, and none is lost. The locks are
 * taken inside the transaction that moves the money, on the application's own connection: COMMIT
 * writes the balances and frees the locks in one.
 *
 *     transfer_postgresql ADDRESS */
#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>

#include "rowlock/postgresql.h"
#include "workers.h"

enum { TRANSFERS = 25, TRIES = 10 };

struct bank {
    const char *address;
    rowlock_client *client; /* one for all workers */
};

/* ---- libpq alone ---- */

/* A statement without rows. 0, or -1 after a message. */
static int run(PGconn *conn, const char *sql)
{
    PGresult *result = PQexec(conn, sql);
    int ok = PQresultStatus(result) == PGRES_COMMAND_OK;

    if (!ok)
        fprintf(stderr, "transfer: %s", PQerrorMessage(conn));
    PQclear(result);
    return ok ? 0 : -1;
}

/* -1 if it cannot be read. */
static long balance(PGconn *conn, int account)
{
    char sql[100];
    PGresult *result;
    long amount;

    snprintf(sql, sizeof(sql), "SELECT balance FROM example_accounts WHERE id = %d", account);
    result = PQexec(conn, sql);
    amount = PQntuples(result) == 1 ? atol(PQgetvalue(result, 0, 0)) : -1;
    PQclear(result);
    return amount;
}

static int set_balance(PGconn *conn, int account, long amount)
{
    char sql[100];

    snprintf(sql, sizeof(sql), "UPDATE example_accounts SET balance = %ld WHERE id = %d", amount,
             account);
    return run(conn, sql);
}

/* Reads, thinks, writes: right only if nobody else does so meanwhile. */
static int move(PGconn *conn, int from, int to, long amount)
{
    long giver = balance(conn, from), taker = balance(conn, to);

    if (giver < amount || taker < 0)
        return -1;
    if (set_balance(conn, from, giver - amount) != 0)
        return -1;
    return set_balance(conn, to, taker + amount);
}

/* ---- under locks ---- */

/* One try. 0, or -1; if the locks were the reason, err says so. */
static int transfer(rowlock_client *client, PGconn *conn, int from, int to, rowlock_error *err)
{
    /* Direction does not matter: names are locked in one and the same order. */
    const char *const names[] = {from == 1 ? "account 1" : "account 2",
                                 to == 1 ? "account 1" : "account 2"};
    rowlock_tx_options options = ROWLOCK_TX_OPTIONS_INIT;

    /* At the higher levels, which may be the server's default, who has waited for a lock sees too
     * old rows, and has to begin again and again. */
    options.wait_ms = 10000;
    if (run(conn, "BEGIN ISOLATION LEVEL READ COMMITTED") == 0 &&
        rowlock_postgresql_lock(NULL, client, conn, names, 2, &options, err) == ROWLOCK_OK &&
        move(conn, from, to, from == 1 ? 10 : 8) == 0 && run(conn, "COMMIT") == 0)
        return 0;
    run(conn, "ROLLBACK");
    return -1;
}

static int work(int number, void *payload)
{
    struct bank *bank = payload;
    PGconn *conn = PQconnectdb(bank->address); /* the application's own */
    int from = 1 + number % 2, to = 2 - number % 2;
    int tries = TRIES;

    for (int i = 0; i < TRANSFERS && tries > 0; i++) {
        rowlock_error err = {0};

        tries = TRIES;
        while (tries > 0 && transfer(bank->client, conn, from, to, &err) != 0)
            tries = err.retryable ? tries - 1 : 0;
        if (tries == 0)
            fprintf(stderr, "transfer: gave up: %s\n", err.message);
    }
    PQfinish(conn);
    return tries > 0 ? 0 : -1;
}

int main(int argc, char **argv)
{
    rowlock_options options = ROWLOCK_OPTIONS_INIT;
    struct bank bank = {.address = argc == 2 ? argv[1] : ""};
    rowlock_error err;
    PGconn *conn;
    long first, second;
    int failed = 1;

    options.prefix = "example_";
    options.schema_policy = ROWLOCK_SCHEMA_CREATE;
    if (rowlock_open(&bank.client, rowlock_postgresql(), bank.address, &options, &err) !=
        ROWLOCK_OK)
        return fprintf(stderr, "transfer: %s\n", err.message), 1;
    conn = PQconnectdb(bank.address);
    if (run(conn, "SET client_min_messages = warning; DROP TABLE IF EXISTS example_accounts;"
                  "CREATE TABLE example_accounts (id int PRIMARY KEY, balance bigint NOT NULL);"
                  "INSERT INTO example_accounts VALUES (1, 1000), (2, 1000)") == 0)
        failed = run_workers(work, &bank);
    first = balance(conn, 1);
    second = balance(conn, 2);
    printf("account 1 has %ld, account 2 has %ld\n", first, second);
    if (!failed)
        run(conn, "DROP TABLE example_accounts");
    PQfinish(conn);
    rowlock_close(&bank.client);
    return failed || first != 900 || second != 1100; /* 50 times 10 to and 8 fro */
}
