/* SPDX-License-Identifier: MIT
 *
 * PostgreSQL: the variable holds a URI or conninfo string. */
#include "backend.h"
#include "rowlock/postgresql.h"

#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

extern const struct backend_kind backend_postgresql;

static void other_database(char *out, size_t size, const char *address, const char *name)
{
    const char *scheme = strstr(address, "://");
    if (scheme == NULL) { /* of a word given twice the last one counts */
        snprintf(out, size, "%s dbname=%s", address, name);
        return;
    }
    size_t host = strcspn(scheme + 3, "/?");
    const char *query = strchr(scheme + 3 + host, '?');
    snprintf(out, size, "%.*s/%s%s", (int)(scheme + 3 + host - address), address, name,
             query != NULL ? query : "");
}

static void missing_database(char *out, size_t size, const char *address)
{
    other_database(out, size, address, "rowlock_no_such_database");
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

static PGresult *exec_marked(PGconn *conn, const char *sql)
{
    size_t size = sizeof(BACKEND_TEST_SQL) + strlen(sql);
    char *text = malloc(size);
    if (text == NULL)
        return NULL;
    snprintf(text, size, "%s%s", BACKEND_TEST_SQL, sql);
    PGresult *result = PQexec(conn, text);
    free(text);
    return result;
}

/* What the server's default is, only moods want to know. */
static int sql_run(void *session, const char *sql, char *out, size_t size)
{
    if (strcmp(sql, "BEGIN") == 0)
        sql = "BEGIN ISOLATION LEVEL READ COMMITTED";
    PGresult *result = exec_marked(session, sql);
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

/* ---- transaction mode ------------------------------------------------------------------------ */

static int lock(uint64_t *fences, rowlock_client *client, void *session, const char *const *names,
                size_t n, const rowlock_tx_options *options, rowlock_error *err)
{
    return rowlock_postgresql_lock(fences, client, session, names, n, options, err);
}

static int guard(rowlock_lock *held, void *session, rowlock_error *err)
{
    return rowlock_postgresql_guard(held, session, err);
}

static void *connection(rowlock_tx *tx)
{
    return rowlock_postgresql_connection(tx);
}

/* It begins with the number of the database. */
static void displace(char *place)
{
    place[0] = place[0] == '1' ? '2' : '1';
}

static void settings(void *session, char *out, size_t size)
{
    char state[64];
    sql_run(session, "SHOW ALL", out, size);
    snprintf(state, sizeof(state), "pid %d nonblocking %d pipeline %d", PQbackendPID(session),
             PQisnonblocking(session), PQpipelineStatus(session));
    backend_append(out, size, state);
}

static int kill_session(void *session, void *victim)
{
    char sql[64], out[64];
    snprintf(sql, sizeof(sql), "SELECT pg_terminate_backend(%d)", PQbackendPID(victim));
    return sql_run(session, sql, out, sizeof(out)) != 0 || strcmp(out, "t|\n") != 0;
}

static void *open_nonblocking(const char *address)
{
    PGconn *conn = sql_open(address);
    if (conn != NULL)
        PQsetnonblocking(conn, 1);
    return conn;
}

#define LIST(...) ((const char *const[]){__VA_ARGS__, NULL})

static const struct backend_mood moods[] = {
    {"plain", .begin = "BEGIN TRANSACTION"},
    {"read committed", .begin = "BEGIN ISOLATION LEVEL READ COMMITTED"},
    {"repeatable read", .begin = "BEGIN ISOLATION LEVEL REPEATABLE READ"},
    {"serializable", .begin = "BEGIN ISOLATION LEVEL SERIALIZABLE"},
    {"serializable by default",
     .before = LIST("SET default_transaction_isolation = 'serializable'"),
     .begin = "BEGIN TRANSACTION"},
    {"read only by default", .before = LIST("SET default_transaction_read_only = on"),
     .begin = "BEGIN READ WRITE"},
    {"lock_timeout", .before = LIST("SET lock_timeout = '77ms'"), .begin = "BEGIN TRANSACTION"},
    {"local lock_timeout", .begin = "BEGIN TRANSACTION",
     .inside = LIST("SET LOCAL lock_timeout = '7777ms'")},
    {"statement_timeout", .begin = "BEGIN TRANSACTION",
     .inside = LIST("SET LOCAL statement_timeout = '400ms'")},
    {"search_path", .begin = "BEGIN TRANSACTION",
     .inside = LIST("SET LOCAL search_path = pg_catalog")},
    {"table of the same name", .before = LIST("CREATE TEMP TABLE rowlock_locks (name integer)"),
     .begin = "BEGIN TRANSACTION"},
    {"client_encoding", .before = LIST("SET client_encoding = 'LATIN1'"),
     .begin = "BEGIN TRANSACTION"},
    {"formats",
     .before = LIST("SET bytea_output = 'escape'", "SET standard_conforming_strings = off",
                    "SET DateStyle = 'German'", "SET IntervalStyle = 'iso_8601'",
                    "SET extra_float_digits = -15", "SET escape_string_warning = on"),
     .begin = "BEGIN TRANSACTION"},
    {"nonblocking", .open = open_nonblocking, .begin = "BEGIN TRANSACTION"},
    {.name = NULL}};

/* Nonzero if the next result holds the number 42. */
static int has_answer(PGconn *conn)
{
    PGresult *result = PQgetResult(conn);
    int good = PQntuples(result) == 1 && strcmp(PQgetvalue(result, 0, 0), "42") == 0;
    PQclear(result);
    return good;
}

static int ends_with(PGconn *conn, PGTransactionStatusType status, const char *end)
{
    return PQtransactionStatus(conn) == status && sql_run(conn, end, NULL, 0) == 0 &&
           PQtransactionStatus(conn) == PQTRANS_IDLE && sql_run(conn, "SELECT 1", NULL, 0) == 0;
}

static int idle_unharmed(void *session)
{
    return ends_with(session, PQTRANS_IDLE, "SELECT 1");
}

static void *open_begun(const char *address)
{
    void *conn = sql_open(address);
    if (conn != NULL)
        sql_run(conn, "BEGIN", NULL, 0);
    return conn;
}

static void *open_failed(const char *address)
{
    void *conn = open_begun(address);
    if (conn != NULL)
        PQclear(PQexec(conn, BACKEND_TEST_SQL "SELECT 1 / 0"));
    return conn;
}

static int failed_unharmed(void *session)
{
    return ends_with(session, PQTRANS_INERROR, "ROLLBACK");
}

static void *open_pipeline(const char *address)
{
    void *conn = open_begun(address);
    if (conn != NULL)
        PQenterPipelineMode(conn);
    return conn;
}

static int pipeline_unharmed(void *session)
{
    return PQpipelineStatus(session) == PQ_PIPELINE_ON && PQexitPipelineMode(session) == 1 &&
           ends_with(session, PQTRANS_INTRANS, "COMMIT");
}

static void *open_pipelined(const char *address)
{
    void *conn = open_pipeline(address);
    if (conn != NULL) {
        PQsendQueryParams(conn, "SELECT 42", 0, NULL, NULL, NULL, NULL, 0);
        PQpipelineSync(conn);
    }
    return conn;
}

static int pipelined_unharmed(void *session)
{
    int good = has_answer(session);
    good &= PQgetResult(session) == NULL;
    PGresult *sync = PQgetResult(session);
    good &= PQresultStatus(sync) == PGRES_PIPELINE_SYNC;
    PQclear(sync);
    return good && pipeline_unharmed(session);
}

static void *open_unread(const char *address)
{
    void *conn = open_begun(address);
    if (conn != NULL)
        PQsendQuery(conn, "SELECT 42");
    return conn;
}

static int unread_unharmed(void *session)
{
    return has_answer(session) && PQgetResult(session) == NULL &&
           ends_with(session, PQTRANS_INTRANS, "COMMIT");
}

static void *open_half_read(const char *address)
{
    PGconn *conn = open_begun(address);
    if (conn != NULL) {
        PQsendQuery(conn, "SELECT v FROM (VALUES (41), (42)) AS two (v) ORDER BY v");
        PQsetSingleRowMode(conn);
        PQclear(PQgetResult(conn));
    }
    return conn;
}

static int half_read_unharmed(void *session)
{
    int good = has_answer(session);
    PQclear(PQgetResult(session)); /* says that there are no more rows */
    return good && PQgetResult(session) == NULL && ends_with(session, PQTRANS_INTRANS, "COMMIT");
}

static void *open_copying(const char *address)
{
    PGconn *conn = open_begun(address);
    if (conn != NULL)
        PQclear(PQexec(conn, "COPY (SELECT 42) TO STDOUT"));
    return conn;
}

static int copying_unharmed(void *session)
{
    char *line = NULL;
    int good = PQgetCopyData(session, &line, 0) == 3 && strcmp(line, "42\n") == 0;
    PQfreemem(line);
    good &= PQgetCopyData(session, &line, 0) == -1;
    PGresult *result = PQgetResult(session);
    good &= PQresultStatus(result) == PGRES_COMMAND_OK;
    PQclear(result);
    return good && PQgetResult(session) == NULL && ends_with(session, PQTRANS_INTRANS, "COMMIT");
}

/* Cut, and aware of it. */
static void *open_cut(const char *address)
{
    PGconn *conn = open_begun(address);
    if (conn != NULL) {
        shutdown(PQsocket(conn), SHUT_RDWR);
        PQclear(PQexec(conn, "SELECT 1"));
    }
    return conn;
}

static int cut_unharmed(void *session)
{
    return PQstatus(session) == CONNECTION_BAD;
}

static const struct backend_bad bad[] = {
    {"no transaction", sql_open, idle_unharmed},
    {"failed transaction", open_failed, failed_unharmed},
    {"pipeline mode", open_pipeline, pipeline_unharmed},
    {"pipeline mode with results", open_pipelined, pipelined_unharmed},
    {"results not read", open_unread, unread_unharmed},
    {"results read in part", open_half_read, half_read_unharmed},
    {"copying", open_copying, copying_unharmed},
    {"closed connection", open_cut, cut_unharmed},
    {.name = NULL}};

static const char *const disturb[] = {
    "SET search_path = pg_catalog", "SET client_encoding = 'LATIN1'",
    "SET default_transaction_read_only = on", "SET statement_timeout = 1", NULL};

/* ---- addresses ------------------------------------------------------------------------------- */

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
    "postgresql://u:p@127.0.0.1:1/x?sslmode=" BACKEND_SECRET "@127.0.0.1:1/x",
    "postgresql://u:1?sslmode=" BACKEND_SECRET "@127.0.0.1:1/x",
    "password=" BACKEND_SECRET " nonsense",
    "password='" BACKEND_SECRET,
    "http://u:" BACKEND_SECRET "@127.0.0.1:1/x",
    NULL};

const struct backend_kind backend_postgresql = {
    .name = "postgresql",
    .variable = "ROWLOCK_TEST_POSTGRESQL",
    .driver = rowlock_postgresql,
    .caps = BACKEND_SERVER | BACKEND_DATABASES | BACKEND_PASSWORDS | BACKEND_SQL |
            BACKEND_ROW_LOCKS | BACKEND_SCHEMAS | BACKEND_TRANSACTIONS | BACKEND_KILL |
            BACKEND_SHARED | BACKEND_SNAPSHOT | BACKEND_GIVES_BACK | BACKEND_FAILED | BACKEND_APART,
    .malformed = malformed,
    .unreachable = unreachable,
    .secret = secret,
    .missing_database = missing_database,
    .other_database = other_database,
    .wrong_password = wrong_password,
    .sql_open = sql_open,
    .sql_run = sql_run,
    .sql_close = sql_close,
    .analyze = "VACUUM ANALYZE rowlock_locks",
    .describe = describe,
    .unsafe =
        LIST("ALTER TABLE rowlock_locks SET UNLOGGED", "ALTER TABLE rowlock_waiters SET UNLOGGED"),
    .lock = lock,
    .guard = guard,
    .connection = connection,
    .displace = displace,
    .settings = settings,
    .given = "SELECT name, setting FROM pg_settings WHERE name IN"
             " ('lock_timeout', 'statement_timeout', 'search_path', 'synchronous_commit', 'jit',"
             "  'default_transaction_isolation', 'enable_seqscan',"
             "  'transaction_read_only', 'random_page_cost', 'bytea_output') ORDER BY name",
    .moods = moods,
    .bad = bad,
    .disturb = disturb,
    .kill = kill_session,
    .snapshot = "BEGIN ISOLATION LEVEL REPEATABLE READ",
};
