/* SPDX-License-Identifier: MIT
 *
 * MySQL and MariaDB: the variable holds mysql://user:password@host:port/database. */
#include "backend.h"
#include "rowlock/mysql.h"

#include <mysql.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern const struct backend_kind backend_mysql;

static void missing_database(char *out, size_t size, const char *address)
{
    const char *scheme = strstr(address, "://");
    size_t host = scheme != NULL ? strcspn(scheme + 3, "/?") : 0;
    const char *query = strchr(address, '?');
    snprintf(out, size, "%.*s/rowlock_no_such_database%s",
             scheme != NULL ? (int)(scheme + 3 + host - address) : 0, address,
             query != NULL ? query : "");
}

struct parts {
    char user[128], password[128], host[256], database[128], socket[256];
    unsigned port;
};

static void copy_part(char *out, size_t size, const char *from, size_t length)
{
    snprintf(out, size, "%.*s", (int)length, from);
}

/* Takes addresses as tests write them apart: nothing in them is percent-encoded. */
static void take_apart(struct parts *out, const char *address)
{
    memset(out, 0, sizeof(*out));
    const char *at = strstr(address, "://");
    at = at != NULL ? at + 3 : address;
    size_t authority = strcspn(at, "/?");
    const char *host = memchr(at, '@', authority);
    if (host != NULL) {
        size_t user = strcspn(at, ":@");
        copy_part(out->user, sizeof(out->user), at, user);
        if (at[user] == ':')
            copy_part(out->password, sizeof(out->password), at + user + 1,
                      (size_t)(host - at) - user - 1);
    }
    const char *start = host != NULL ? host + 1 : at;
    size_t length = strcspn(start, ":/?");
    copy_part(out->host, sizeof(out->host), start, length);
    if (start[length] == ':')
        out->port = (unsigned)strtoul(start + length + 1, NULL, 10);
    if (at[authority] == '/')
        copy_part(out->database, sizeof(out->database), at + authority + 1,
                  strcspn(at + authority + 1, "?"));
    const char *socket = strstr(at, "socket=");
    if (socket != NULL)
        copy_part(out->socket, sizeof(out->socket), socket + 7, strcspn(socket + 7, "&"));
}

static void wrong_password(char *out, size_t size, const char *address)
{
    struct parts parts;
    take_apart(&parts, address);
    const char *after = strchr(address, '@');
    snprintf(out, size, "mysql://%s:" BACKEND_SECRET "@%s", parts.user,
             after != NULL ? after + 1 : parts.host);
}

static void *sql_open(const char *address)
{
    struct parts parts;
    take_apart(&parts, address);
    unsigned long flags = getenv("ROWLOCK_TEST_FOUND_ROWS") != NULL ? CLIENT_FOUND_ROWS : 0;
    MYSQL *mysql = mysql_init(NULL);
    if (mysql == NULL)
        return NULL;
    if (mysql_real_connect(mysql, parts.host, parts.user, parts.password, parts.database,
                           parts.port, parts.socket[0] != '\0' ? parts.socket : NULL,
                           flags) != NULL &&
        mysql_query(mysql, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED") == 0)
        return mysql; /* a row is locked without the gaps beside it */
    fprintf(stderr, "%s\n", mysql_error(mysql));
    mysql_close(mysql);
    return NULL;
}

/* With sql_mode ORACLE, BEGIN is a block of statements. */
static int sql_run(void *session, const char *sql, char *out, size_t size)
{
    if (out != NULL)
        out[0] = '\0';
    if (strcmp(sql, "BEGIN") == 0)
        sql = "START TRANSACTION";
    if (mysql_query(session, sql) != 0) {
        fprintf(stderr, "%s\n", mysql_error(session));
        return 1;
    }
    MYSQL_RES *result = mysql_store_result(session);
    if (result == NULL)
        return mysql_errno(session) != 0;
    for (MYSQL_ROW row = mysql_fetch_row(result); row != NULL; row = mysql_fetch_row(result)) {
        for (unsigned i = 0; i < mysql_num_fields(result); i++) {
            backend_append(out, size, row[i] != NULL ? row[i] : "NULL");
            backend_append(out, size, "|");
        }
        backend_append(out, size, "\n");
    }
    mysql_free_result(result);
    return 0;
}

static void sql_close(void *session)
{
    mysql_query(session, "ROLLBACK");
    mysql_close(session);
}

static void describe(char *out, size_t size, const char *prefix)
{
    snprintf(out, size,
             "SELECT table_name, column_name, column_type, is_nullable, column_default, column_key"
             "  FROM information_schema.columns"
             " WHERE table_schema = DATABASE() AND table_name LIKE '%s%%'"
             " ORDER BY table_name, ordinal_position",
             prefix);
}

/* ---- transaction mode ------------------------------------------------------------------------ */

static int lock(uint64_t *fences, rowlock_client *client, void *session, const char *const *names,
                size_t n, const rowlock_tx_options *options, rowlock_error *err)
{
    return rowlock_mysql_lock(fences, client, session, names, n, options, err);
}

static int guard(rowlock_lock *held, void *session, rowlock_error *err)
{
    return rowlock_mysql_guard(held, session, err);
}

/* It begins with the server's identity in hexadecimal digits. */
static void displace(char *place)
{
    place[0] = place[0] == '1' ? '2' : '1';
}

/* All but what counts, or tells of other sessions. */
static void settings(void *session, char *out, size_t size)
{
    char state[256];
    sql_run(session,
            "SELECT v.* FROM /*M! information_schema */ /*!80000 performance_schema */"
            ".session_variables AS v"
            " WHERE v.variable_name NOT LIKE '%gtid%' AND v.variable_name NOT IN"
            " ('timestamp', 'rand_seed1', 'rand_seed2', 'last_insert_id', 'identity', 'insert_id',"
            "  'error_count', 'warning_count', 'in_transaction', 'statement_id')"
            " LIMIT 10000",
            out, size);
    sql_run(session, "SELECT DATABASE(), CONNECTION_ID() LIMIT 1", state, sizeof(state));
    backend_append(out, size, state);
}

static int kill_session(void *session, void *victim)
{
    char sql[64];
    snprintf(sql, sizeof(sql), "KILL %lu", mysql_thread_id(victim));
    return sql_run(session, sql, NULL, 0);
}

static void waiters(char *out, size_t size, const char *prefix)
{
    snprintf(out, size,
             "SELECT COUNT(*) FROM information_schema.innodb_trx"
             " WHERE trx_state = 'LOCK WAIT' AND trx_query LIKE '%%%slocks%%'",
             prefix);
}

#define LIST(...) ((const char *const[]){__VA_ARGS__, NULL})

static const struct backend_mood moods[] = {
    {"plain", .begin = "BEGIN"},
    {"read uncommitted", .before = LIST("SET SESSION TRANSACTION ISOLATION LEVEL READ UNCOMMITTED"),
     .begin = "BEGIN"},
    {"repeatable read", .before = LIST("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ"),
     .begin = "BEGIN"},
    {"snapshot isolation",
     .before = LIST("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
                    "SET /*M!101108 innodb_snapshot_isolation = 1, */ lock_wait_timeout = 77"),
     .begin = "BEGIN"},
    {"serializable", .before = LIST("SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE"),
     .begin = "BEGIN"},
    {"read only by default", .before = LIST("SET SESSION TRANSACTION READ ONLY"),
     .begin = "START TRANSACTION READ WRITE"},
    {"autocommit off", .before = LIST("SET autocommit = 0")},
    {"innodb_lock_wait_timeout", .before = LIST("SET innodb_lock_wait_timeout = 77"),
     .begin = "BEGIN"},
    {"short innodb_lock_wait_timeout",
     .before = LIST("SET innodb_lock_wait_timeout = 1", "SET lock_wait_timeout = 7"),
     .begin = "BEGIN"},
    {"statement time", .begin = "BEGIN",
     .inside = LIST("SET /*M! max_statement_time = 0.4, */ lock_wait_timeout = 77")},
    {"other database", .begin = "BEGIN", .inside = LIST("USE information_schema")},
    {"ansi", .before = LIST("SET sql_mode = 'ANSI,NO_BACKSLASH_ESCAPES'"), .begin = "BEGIN"},
    {"strict", .before = LIST("SET sql_mode = 'TRADITIONAL,HIGH_NOT_PRECEDENCE'"),
     .begin = "BEGIN"},
    {"oracle",
     .before = LIST("SET /*M! sql_mode = 'ORACLE,SIMULTANEOUS_ASSIGNMENT', */ lock_wait_timeout = "
                    "77"),
     .begin = "BEGIN"},
    {"no sql_mode", .before = LIST("SET sql_mode = ''"), .begin = "BEGIN"},
    {"character set", .before = LIST("SET NAMES latin1"), .begin = "BEGIN"},
    {"character sets that differ",
     .before = LIST("SET NAMES utf8mb4", "SET character_set_connection = utf32"), .begin = "BEGIN"},
    {"limits", .begin = "BEGIN",
     .inside = LIST("SET sql_select_limit = 0", "SET sql_safe_updates = 1")},
    {"time zone", .before = LIST("SET time_zone = '+13:00'"), .begin = "BEGIN"},
    {"time that stands still", .before = LIST("SET timestamp = 1000000000"), .begin = "BEGIN"},
    {.name = NULL}};

/* Nonzero if the first row holds the number 42; takes the result. */
static int has_answer(MYSQL_RES *result)
{
    MYSQL_ROW row = result != NULL ? mysql_fetch_row(result) : NULL;
    int good = row != NULL && strcmp(row[0], "42") == 0;
    if (result != NULL)
        mysql_free_result(result);
    return good;
}

static int ends(void *session)
{
    return sql_run(session, "COMMIT", NULL, 0) == 0 && sql_run(session, "SELECT 1", NULL, 0) == 0;
}

static void *open_begun(const char *address)
{
    void *mysql = sql_open(address);
    if (mysql != NULL)
        sql_run(mysql, "BEGIN", NULL, 0);
    return mysql;
}

static void *open_unread(const char *address)
{
    void *mysql = open_begun(address);
    if (mysql != NULL)
        mysql_query(mysql, "SELECT 42");
    return mysql;
}

static int unread_unharmed(void *session)
{
    return has_answer(mysql_store_result(session)) && ends(session);
}

static MYSQL_RES *half_read;

static void *open_half_read(const char *address)
{
    void *mysql = open_begun(address);
    if (mysql != NULL && mysql_query(mysql, "SELECT 41 UNION ALL SELECT 42") == 0) {
        half_read = mysql_use_result(mysql);
        mysql_fetch_row(half_read);
    }
    return mysql;
}

static int half_read_unharmed(void *session)
{
    return has_answer(half_read) && ends(session);
}

static void *open_more(const char *address)
{
    void *mysql = open_begun(address);
    if (mysql != NULL && mysql_set_server_option(mysql, MYSQL_OPTION_MULTI_STATEMENTS_ON) == 0 &&
        mysql_query(mysql, "SELECT 41; SELECT 42") == 0)
        mysql_free_result(mysql_store_result(mysql));
    return mysql;
}

static int more_unharmed(void *session)
{
    return mysql_more_results(session) && mysql_next_result(session) == 0 &&
           has_answer(mysql_store_result(session)) && ends(session);
}

static MYSQL_STMT *prepared;

static void *open_prepared(const char *address)
{
    static const char sql[] = "SELECT 42";
    void *mysql = open_begun(address);
    if (mysql == NULL || (prepared = mysql_stmt_init(mysql)) == NULL)
        return mysql;
    if (mysql_stmt_prepare(prepared, sql, sizeof(sql) - 1) == 0)
        mysql_stmt_execute(prepared);
    return mysql;
}

static int prepared_unharmed(void *session)
{
    int answer = 0;
    MYSQL_BIND bind = {.buffer_type = MYSQL_TYPE_LONG, .buffer = &answer};
    int good = mysql_stmt_bind_result(prepared, &bind) == 0 && mysql_stmt_fetch(prepared) == 0 &&
               answer == 42;
    mysql_stmt_close(prepared);
    return good && ends(session);
}

static void *open_never(const char *address)
{
    (void)address;
    return mysql_init(NULL);
}

/* Killed, and aware of it. */
static void *open_cut(const char *address)
{
    void *mysql = open_begun(address), *killer = sql_open(address);
    if (mysql != NULL && killer != NULL) {
        kill_session(killer, mysql);
        for (int i = 0; i < 100 && mysql_query(mysql, "DO SLEEP(0.1)") == 0; i++)
            continue;
    }
    if (killer != NULL)
        sql_close(killer);
    return mysql;
}

static const struct backend_bad bad[] = {
    {"no transaction", sql_open, ends},
    {"results not read", open_unread, unread_unharmed},
    {"results read in part", open_half_read, half_read_unharmed},
    {"more results", open_more, more_unharmed},
    {"results of a prepared statement", open_prepared, prepared_unharmed},
    {"never connected", open_never, NULL},
    {"closed connection", open_cut, NULL},
    {.name = NULL}};

static const char *const disturb[] = {"USE information_schema", "SET sql_mode = 'ANSI_QUOTES'",
                                      "SET autocommit = 0", "SET SESSION TRANSACTION READ ONLY",
                                      NULL};

/* ---- addresses ------------------------------------------------------------------------------- */

static const char *const malformed[] = {"",
                                        "127.0.0.1",
                                        "http://127.0.0.1/x",
                                        "mysql://u@127.0.0.1:port/x",
                                        "mysql://u@127.0.0.1:70000/x",
                                        "mysql://u%zz@127.0.0.1/x",
                                        "mysql://u@host%3D127.0.0.1%3Bport%3D1/x",
                                        "mysql://u@plugin%3A%2F%2F127.0.0.1/x",
                                        "mysql://u@127.0.0.1:1/x?socket=@x",
                                        "mysql://u@127.0.0.1:1/x?no_such_word=1",
                                        NULL};

/* The host name is malformed, so that no name server is asked. */
static const char *const unreachable[] = {"mysql://u@127.0.0.1:1/x",
                                          "mysql://u@no..such..host:3306/x", NULL};

static const char *const secret[] = {"mysql://u:" BACKEND_SECRET "@127.0.0.1:1/x",
                                     "mysql://u:" BACKEND_SECRET "@127.0.0.1:port/x",
                                     "mysql://u:a@" BACKEND_SECRET "/b@127.0.0.1/x",
                                     "mysql://u:a/b?" BACKEND_SECRET "@127.0.0.1/x",
                                     "mysql://u:" BACKEND_SECRET "%zz@127.0.0.1:1/x",
                                     "mysql://u:" BACKEND_SECRET "@127.0.0.1:1/x?no_such_word=1",
                                     "mysql://u:" BACKEND_SECRET "@127.0.0.1:1",
                                     "http://u:" BACKEND_SECRET "@127.0.0.1:1/x",
                                     "u:" BACKEND_SECRET "@127.0.0.1",
                                     NULL};

const struct backend_kind backend_mysql = {
    .name = "mysql",
    .variable = "ROWLOCK_TEST_MYSQL",
    .driver = rowlock_mysql,
    .caps = BACKEND_SERVER | BACKEND_DATABASES | BACKEND_PASSWORDS | BACKEND_SQL |
            BACKEND_ROW_LOCKS | BACKEND_SCHEMAS | BACKEND_TRANSACTIONS | BACKEND_KILL |
            BACKEND_QUEUE | BACKEND_SHARED,
    .malformed = malformed,
    .unreachable = unreachable,
    .secret = secret,
    .missing_database = missing_database,
    .wrong_password = wrong_password,
    .sql_open = sql_open,
    .sql_run = sql_run,
    .sql_close = sql_close,
    .analyze = "ANALYZE TABLE rowlock_locks",
    .describe = describe,
    .unsafe = LIST("ALTER TABLE rowlock_locks ENGINE = MyISAM",
                   "ALTER TABLE rowlock_waiters ENGINE = MyISAM"),
    .lock = lock,
    .guard = guard,
    .connection = rowlock_mysql_connection,
    .displace = displace,
    .settings = settings,
    .given = "SELECT @@innodb_lock_wait_timeout, @@lock_wait_timeout, @@sql_mode, @@time_zone,"
             " @@group_concat_max_len, @@sql_select_limit, DATABASE()"
             " /*M!110402 , @@innodb_snapshot_isolation */",
    .moods = moods,
    .bad = bad,
    .disturb = disturb,
    .kill = kill_session,
    .waiters = waiters,
};
