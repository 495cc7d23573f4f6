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
    MYSQL *mysql = mysql_init(NULL);
    if (mysql == NULL)
        return NULL;
    if (mysql_real_connect(mysql, parts.host, parts.user, parts.password, parts.database,
                           parts.port, parts.socket[0] != '\0' ? parts.socket : NULL, 0) != NULL &&
        mysql_query(mysql, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED") == 0)
        return mysql; /* a row is locked without the gaps beside it */
    fprintf(stderr, "%s\n", mysql_error(mysql));
    mysql_close(mysql);
    return NULL;
}

static int sql_run(void *session, const char *sql, char *out, size_t size)
{
    if (out != NULL)
        out[0] = '\0';
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

static const char *const malformed[] = {"",
                                        "127.0.0.1",
                                        "http://127.0.0.1/x",
                                        "mysql://u@127.0.0.1:port/x",
                                        "mysql://u@127.0.0.1:70000/x",
                                        "mysql://u%zz@127.0.0.1/x",
                                        "mysql://u@127.0.0.1:1/x?no_such_word=1",
                                        NULL};

/* The host name is malformed, so that no name server is asked. */
static const char *const unreachable[] = {"mysql://u@127.0.0.1:1/x",
                                          "mysql://u@no..such..host:3306/x", NULL};

static const char *const secret[] = {"mysql://u:" BACKEND_SECRET "@127.0.0.1:1/x",
                                     "mysql://u:" BACKEND_SECRET "@127.0.0.1:port/x",
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
            BACKEND_ROW_LOCKS | BACKEND_SCHEMAS,
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
};
