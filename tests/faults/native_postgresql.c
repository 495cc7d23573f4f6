/* SPDX-License-Identifier: MIT */
#include "native.h"
#include "rowlock/postgresql.h"

#include <libpq-fe.h>
#include <stdio.h>
#include <string.h>

extern const struct native_kind native_postgresql;

static void ignore_notice(void *payload, const PGresult *result)
{
    (void)payload;
    (void)result;
}

static void *open_(const char *address, unsigned flags)
{
    PGconn *conn = PQconnectdb(address);

    (void)flags;
    if (PQstatus(conn) == CONNECTION_OK) {
        PQsetNoticeReceiver(conn, ignore_notice, NULL);
        return conn;
    }
    fprintf(stderr, "%s", PQerrorMessage(conn));
    PQfinish(conn);
    return NULL;
}

static void close_(void *conn)
{
    PQfinish(conn);
}

static void add_rows(struct native *native, const PGresult *result)
{
    for (int row = 0; row < PQntuples(result); row++) {
        for (int i = 0; i < PQnfields(result); i++) {
            backend_append(native->out, sizeof(native->out), PQgetvalue(result, row, i));
            backend_append(native->out, sizeof(native->out), "|");
        }
        backend_append(native->out, sizeof(native->out), "\n");
    }
}

/* What the server's default is, only moods want to know; they say START TRANSACTION. */
static int run(struct native *native, const char *sql)
{
    int plain = strcmp(sql, "BEGIN") == 0;
    PGresult *result = PQexec(native->conn, plain ? "BEGIN ISOLATION LEVEL READ COMMITTED" : sql);
    ExecStatusType status = PQresultStatus(result);

    add_rows(native, result);
    PQclear(result);
    if (status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK)
        return 0;
    snprintf(native->message, sizeof(native->message), "%.250s", PQerrorMessage(native->conn));
    return 1;
}

/* A failed transaction answers COMMIT with success and the word ROLLBACK. */
static int commit(struct native *native)
{
    PGresult *result = PQexec(native->conn, "COMMIT");
    int done =
        PQresultStatus(result) == PGRES_COMMAND_OK && strcmp(PQcmdStatus(result), "COMMIT") == 0;

    PQclear(result);
    if (!done)
        snprintf(native->message, sizeof(native->message), "%.250s", PQerrorMessage(native->conn));
    return done ? 0 : 1;
}

static int lock(uint64_t *fences, rowlock_client *client, void *conn, const char *const *names,
                size_t n, const rowlock_tx_options *options, rowlock_error *err)
{
    return rowlock_postgresql_lock(fences, client, conn, names, n, options, err);
}

static int guard(rowlock_lock *held, void *conn, rowlock_error *err)
{
    return rowlock_postgresql_guard(held, conn, err);
}

static void *connection(rowlock_tx *tx)
{
    return rowlock_postgresql_connection(tx);
}

const struct native_kind native_postgresql = {
    .name = "postgresql",
    .open = open_,
    .close = close_,
    .run = run,
    .commit = commit,
    .lock = lock,
    .guard = guard,
    .connection = connection,
};
