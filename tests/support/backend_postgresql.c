/* SPDX-License-Identifier: MIT
 *
 * PostgreSQL: the variable holds a URI or conninfo string. */
#include "backend.h"
#include "rowlock/postgresql.h"

#include <libpq-fe.h>
#include <stdio.h>
#include <string.h>

extern const struct backend_kind backend_postgresql;

static void missing_database(char *out, size_t size, const char *address)
{
    const char *scheme = strstr(address, "://");
    if (scheme == NULL) { /* of a word given twice the last one counts */
        snprintf(out, size, "%s dbname=rowlock_no_such_database", address);
        return;
    }
    size_t host = strcspn(scheme + 3, "/?");
    const char *query = strchr(scheme + 3 + host, '?');
    snprintf(out, size, "%.*s/rowlock_no_such_database%s", (int)(scheme + 3 + host - address),
             address, query != NULL ? query : "");
}

static void wrong_password(char *out, size_t size, const char *address)
{
    const char *before = strstr(address, "://") == NULL ? " " : strchr(address, '?') ? "&" : "?";
    snprintf(out, size, "%s%spassword=" BACKEND_SECRET, address, before);
}

static void ignore_notice(void *payload, const PGresult *result)
{
    (void)payload;
    (void)result;
}

static void *sql_open(const char *address)
{
    PGconn *conn = PQconnectdb(address);
    if (PQstatus(conn) == CONNECTION_OK) {
        PQsetNoticeReceiver(conn, ignore_notice, NULL);
        return conn;
    }
    PQfinish(conn);
    return NULL;
}

static int sql_run(void *session, const char *sql, char *out, size_t size)
{
    PGresult *result = PQexec(session, sql);
    if (out != NULL)
        out[0] = '\0';
    for (int row = 0; row < PQntuples(result); row++) {
        for (int i = 0; i < PQnfields(result); i++) {
            backend_append(out, size,
                           PQgetisnull(result, row, i) ? "NULL" : PQgetvalue(result, row, i));
            backend_append(out, size, "|");
        }
        backend_append(out, size, "\n");
    }
    ExecStatusType status = PQresultStatus(result);
    PQclear(result);
    if (status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK)
        return 0;
    fprintf(stderr, "%s", PQerrorMessage(session));
    return 1;
}

static void sql_close(void *session)
{
    PQclear(PQexec(session, "ROLLBACK"));
    PQfinish(session);
}

static void describe(char *out, size_t size, const char *prefix)
{
    snprintf(
        out, size,
        "SELECT table_name, column_name, data_type, is_nullable, column_default, collation_name"
        "  FROM information_schema.columns WHERE table_name LIKE '%s%%'"
        " ORDER BY table_name, ordinal_position",
        prefix);
}

static const char *const malformed[] = {"nonsense",
                                        "host=127.0.0.1 no_such_word=1",
                                        "host='127.0.0.1",
                                        "http://127.0.0.1/x",
                                        "postgresql://[::1/x",
                                        "postgresql://u%zz@127.0.0.1/x",
                                        NULL};

/* The host name is malformed, so that no name server is asked. */
static const char *const unreachable[] = {"host=127.0.0.1 port=1 user=u dbname=x sslmode=disable",
                                          "postgresql://u@127.0.0.1:1/x",
                                          "host=no..such..host user=u dbname=x", NULL};

static const char *const secret[] = {
    "postgresql://u:" BACKEND_SECRET "@127.0.0.1:1/x",
    "host=127.0.0.1 port=1 user=u dbname=x password=" BACKEND_SECRET,
    "postgresql://u:" BACKEND_SECRET "@[::1/x",
    "postgresql://u:" BACKEND_SECRET "%zz@127.0.0.1:1/x",
    "postgresql://u:" BACKEND_SECRET "@127.0.0.1:1/x?no_such_word=1",
    "postgresql://127.0.0.1:1/x?password=" BACKEND_SECRET "%zz",
    "password=" BACKEND_SECRET " nonsense",
    "password='" BACKEND_SECRET,
    "http://u:" BACKEND_SECRET "@127.0.0.1:1/x",
    NULL};

const struct backend_kind backend_postgresql = {
    .name = "postgresql",
    .variable = "ROWLOCK_TEST_POSTGRESQL",
    .driver = rowlock_postgresql,
    .caps = BACKEND_SERVER | BACKEND_DATABASES | BACKEND_PASSWORDS | BACKEND_SQL |
            BACKEND_ROW_LOCKS | BACKEND_SCHEMAS,
    .malformed = malformed,
    .unreachable = unreachable,
    .secret = secret,
    .missing_database = missing_database,
    .wrong_password = wrong_password,
    .sql_open = sql_open,
    .sql_run = sql_run,
    .sql_close = sql_close,
    .analyze = "VACUUM ANALYZE rowlock_locks",
    .describe = describe,
};
