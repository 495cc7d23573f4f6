/* SPDX-License-Identifier: MIT */
#include "native.h"
#include "rowlock/mysql.h"

#include <mysql.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern const struct native_kind native_mysql;

struct parts {
    char user[128], password[128], host[128], database[128];
    unsigned port;
};

/* Addresses of the tests have all parts, the password perhaps not, and nothing is encoded. */
static int take_apart(struct parts *out, const char *address)
{
    const char *at = strstr(address, "://");

    memset(out, 0, sizeof(*out));
    if (at == NULL)
        return -1;
    at += 3;
    if (sscanf(at, "%127[^:@]:%127[^@]@%127[^:]:%u/%127[^?]", out->user, out->password, out->host,
               &out->port, out->database) == 5)
        return 0;
    out->password[0] = '\0';
    return sscanf(at, "%127[^:@]@%127[^:]:%u/%127[^?]", out->user, out->host, &out->port,
                  out->database) == 4
               ? 0
               : -1;
}

static void *open_(const char *address, unsigned flags)
{
    unsigned seconds = flags & NATIVE_IMPATIENT ? 2 : 30;
    MYSQL *mysql = mysql_init(NULL);
    struct parts p;

    if (mysql == NULL || take_apart(&p, address) != 0)
        return NULL;
    mysql_options(mysql, MYSQL_OPT_READ_TIMEOUT, &seconds);
    if (mysql_real_connect(mysql, p.host, p.user, p.password, p.database, p.port, NULL,
                           flags & NATIVE_FOUND_ROWS || getenv("ROWLOCK_TEST_FOUND_ROWS") != NULL
                               ? CLIENT_FOUND_ROWS
                               : 0) != NULL)
        return mysql;
    fprintf(stderr, "%s\n", mysql_error(mysql));
    mysql_close(mysql);
    return NULL;
}

static void close_(void *conn)
{
    mysql_close(conn);
}

/* With sql_mode ORACLE, BEGIN is a block of statements. */
static int run(struct native *native, const char *sql)
{
    MYSQL_RES *result = NULL;

    if (mysql_query(native->conn, strcmp(sql, "BEGIN") == 0 ? "START TRANSACTION" : sql) == 0)
        result = mysql_store_result(native->conn);
    if (mysql_errno(native->conn) != 0) {
        snprintf(native->message, sizeof(native->message), "%.250s", mysql_error(native->conn));
        return 1;
    }
    for (MYSQL_ROW row = result != NULL ? mysql_fetch_row(result) : NULL; row != NULL;
         row = mysql_fetch_row(result)) {
        for (unsigned i = 0; i < mysql_num_fields(result); i++) {
            backend_append(native->out, sizeof(native->out), row[i] != NULL ? row[i] : "NULL");
            backend_append(native->out, sizeof(native->out), "|");
        }
        backend_append(native->out, sizeof(native->out), "\n");
    }
    mysql_free_result(result);
    return 0;
}

static int commit(struct native *native)
{
    return run(native, "COMMIT");
}

static int lock(uint64_t *fences, rowlock_client *client, void *conn, const char *const *names,
                size_t n, const rowlock_tx_options *options, rowlock_error *err)
{
    return rowlock_mysql_lock(fences, client, conn, names, n, options, err);
}

static int guard(rowlock_lock *held, void *conn, rowlock_error *err)
{
    return rowlock_mysql_guard(held, conn, err);
}

const struct native_kind native_mysql = {
    .name = "mysql",
    .open = open_,
    .close = close_,
    .run = run,
    .commit = commit,
    .lock = lock,
    .guard = guard,
    .connection = rowlock_mysql_connection,
};
