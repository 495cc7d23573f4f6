/* SPDX-License-Identifier: MIT */
#include "rowlock/mysql.h"

#include <stdlib.h>
#include <string.h>

#include "my.h"
#include "resolve.h"

/* "8.0.36", "10.11.6-MariaDB-...", also "5.5.5-10.11.6-MariaDB" of old protocols. */
static int check_version(const char *version, rowlock_error *err)
{
    int maria = strstr(version, "MariaDB") != NULL;
    const char *start = maria && strncmp(version, "5.5.5-", 6) == 0 ? version + 6 : version;
    char *dot = NULL;
    long major = strtol(start, &dot, 10), minor = *dot == '.' ? strtol(dot + 1, NULL, 10) : 0;

    if (maria ? major > 10 || (major == 10 && minor >= 6) : major >= 8)
        return ROWLOCK_OK;
    return rlk_fail(err, ROWLOCK_ECONNECT,
                    "the server is %.60s: MySQL 8.0 or MariaDB 10.6 is needed (SKIP LOCKED)",
                    version);
}

/* A question that may well be refused, whatever for: NULL then. */
static MYSQL_RES *ask(my_conn *conn, enum sql_statement which, int64_t deadline)
{
    const char *sql = sql_text[which];
    MYSQL_RES *result = NULL;

    if (my_client_query(conn->mysql, sql, strlen(sql), &conn->spin, deadline) &&
        (mysql_errno(conn->mysql) != 0 || my_client_store(conn->mysql, &result, deadline)))
        return result;
    conn->dead = 1;
    return NULL;
}

/* Our first statements were refused. If that is so because it is none of our servers, that is the
 * better answer. */
static int explain_refusal(my_conn *conn, int64_t deadline, int status, rowlock_error *err)
{
    MYSQL_RES *result = conn->dead ? NULL : ask(conn, SQL_PRODUCT, deadline);
    MYSQL_ROW row = result == NULL ? NULL : mysql_fetch_row(result);

    if (row != NULL && my_check_product(NULL, row[0], err) != ROWLOCK_OK)
        status = ROWLOCK_ECONNECT;
    mysql_free_result(result);
    return status;
}

/* Is a replication running on MySQL, as far as the user may see? */
static int applies_changes(my_conn *conn, int64_t deadline)
{
    MYSQL_RES *result = ask(conn, SQL_REPLICA, deadline);
    unsigned columns = result == NULL ? 0 : mysql_num_fields(result);
    MYSQL_ROW row;
    int found = 0;

    while (result != NULL && (row = mysql_fetch_row(result)) != NULL) {
        for (unsigned i = 0; i < columns; i++)
            found |=
                strcmp(mysql_fetch_field_direct(result, i)->name, "Replica_SQL_Running") == 0 &&
                row[i] != NULL && strcmp(row[i], "Yes") == 0;
    }
    mysql_free_result(result);
    return found;
}

/* version, read-only, packet size, many, comment, applies */
static int check_server(MYSQL_ROW row, rowlock_error *err)
{
    int status;

    if (row == NULL || row[0] == NULL)
        return rlk_fail(err, ROWLOCK_ECONNECT, "the server does not tell its version");
    status = my_check_product(row[0], row[4], err);
    if (status == ROWLOCK_OK)
        status = check_version(row[0], err);
    if (status == ROWLOCK_OK && my_int(row[1]) != 0)
        status = rlk_fail_native(err, ROWLOCK_ECONNECT, 0, NULL, 1, MY_READ_ONLY);
    if (status == ROWLOCK_OK && my_int(row[5]) != 0)
        status = rlk_fail_native(err, ROWLOCK_ECONNECT, 0, NULL, 1, MY_REPLICA);
    return status;
}

/* Sets the session up and looks at the server, in one round trip; MySQL takes another one. */
static int start_session(my_conn *conn, int64_t deadline, rowlock_error *err)
{
    MYSQL_RES *result = NULL;
    MYSQL_ROW row;
    int status;

    conn->packet_max = 65536;
    conn->foreign = 1;
    my_start(conn);
    my_add(conn, SQL_SERVER, NULL, 0);
    status = my_run(conn, deadline, &result, err);
    if (status == ROWLOCK_EUNKNOWN && err != NULL)
        err->status = ROWLOCK_ECONNECT;
    if (status != ROWLOCK_OK)
        return status == ROWLOCK_EUNKNOWN ? ROWLOCK_ECONNECT
                                          : explain_refusal(conn, deadline, status, err);
    row = mysql_fetch_row(result);
    status = check_server(row, err);
    if (status == ROWLOCK_OK) {
        conn->packet_max = (size_t)my_int(row[2]);
        conn->no_bells = my_int(row[3]) != 0;
    }
    mysql_free_result(result);
    if (status == ROWLOCK_OK && !my_is_maria(conn) && applies_changes(conn, deadline))
        status = rlk_fail_native(err, ROWLOCK_ECONNECT, 0, NULL, 1, MY_REPLICA);
    return status;
}

static int tell_why(MYSQL *mysql, rowlock_error *err)
{
    enum { PLUGIN_NOT_ALLOWED = 5010 }; /* see options.c; MariaDB's client library */

    if (mysql_errno(mysql) != PLUGIN_NOT_ALLOWED)
        return my_connect_error(mysql, err);
    return rlk_fail_native(err, ROWLOCK_ECONNECT, PLUGIN_NOT_ALLOWED, mysql_sqlstate(mysql), 0,
                           "cannot connect: the server asks for the password in clear text, which "
                           "takes ssl-mode=required, or a stricter one, in the address");
}

/* The libraries look a name up without a bound, and need it to verify the server's certificate, so
 * they are not given an address instead: it is looked up before, only to know that there is an
 * answer. A socket has no name to look up, nor has localhost without a port, which means one. */
static int look_up(const my_address *address, int64_t deadline, rowlock_error *err)
{
    rlk_addresses found;
    const char *host = address->host, *why;

    if (address->socket != NULL || host == NULL || rlk_is_address(host) ||
        (address->port == 0 && strcmp(host, "localhost") == 0))
        return ROWLOCK_OK;
    why = rlk_resolve(&found, host, deadline);
    if (why == NULL)
        return ROWLOCK_OK;
    return rlk_fail_native(err, ROWLOCK_ECONNECT, 0, NULL, 1, "cannot connect to %s: %s", host,
                           why);
}

static int connect_to(my_conn *conn, my_address *address, int64_t deadline, rowlock_error *err)
{
    const char *password = getenv("MYSQL_PWD");
    int connected, status = look_up(address, deadline, err);

    if (status != ROWLOCK_OK)
        return status;
    if (address->password == NULL && password != NULL) {
        address->password = strdup(password);
        if (address->password == NULL)
            return rlk_fail_memory(err);
    }
    conn->mysql = my_client_new(address);
    if (conn->mysql == NULL)
        return rlk_fail_memory(err);
    conn->dead = 1; /* until it lives */
    connected = my_client_connect(conn->mysql, address, deadline);
    if (connected == 0)
        return rlk_fail_native(err, ROWLOCK_ECONNECT, 0, NULL, 1,
                               "cannot connect: the server did not answer in time");
    if (connected < 0)
        return tell_why(conn->mysql, err);
    /* The libraries have refused it before they sent a password; this is to be sure. */
    if (address->ssl_mode >= MY_SSL_REQUIRED && mysql_get_ssl_cipher(conn->mysql) == NULL)
        return rlk_fail(err, ROWLOCK_ECONNECT,
                        "cannot connect: the server offers no TLS, which the address asks for");
    if (my_check_product(mysql_get_server_info(conn->mysql), NULL, err) != ROWLOCK_OK)
        return ROWLOCK_ECONNECT;
    conn->dead = 0;
    my_client_keep_alive(conn->mysql);
    return start_session(conn, deadline, err);
}

static int my_open(void *handle, const rowlock_config *config, uint32_t timeout_ms,
                   rowlock_error *err)
{
    my_conn *conn = handle;
    int64_t deadline = my_deadline(timeout_ms);
    my_address address;
    int status;

    my_client_enter();
    rlk_ok(err);
    status = my_address_parse(&address, config->address, err);
    if (status == ROWLOCK_OK) {
        conn->spin.most_us = config->spin_us;
        conn->prefix = strdup(config->prefix);
        conn->schema = config->schema != NULL ? strdup(config->schema) : NULL;
        conn->database = strdup(address.database);
        if (conn->prefix == NULL || conn->database == NULL ||
            (config->schema != NULL && conn->schema == NULL))
            status = rlk_fail_memory(err);
    }
    if (status == ROWLOCK_OK)
        status = connect_to(conn, &address, deadline, err);
    my_address_free(&address);
    return status;
}

void my_conn_free(my_conn *conn)
{
    for (int i = 0; i < SQL_COUNT; i++)
        free(conn->sql[i]);
    free(conn->prefix);
    free(conn->schema);
    free(conn->database);
    rlk_text_free(&conn->packet);
    rlk_text_free(&conn->prologue);
    rlk_text_free(&conn->json);
    rlk_text_free(&conn->batch);
    rlk_text_free(&conn->here);
    *conn = (my_conn){0};
}

static void my_close(void *handle)
{
    my_conn *conn = handle;

    my_client_enter();
    my_client_close(conn->mysql, conn->dead);
    my_conn_free(conn);
}

static const rowlock_driver my_driver = {
    .size = sizeof(rowlock_driver),
    .name = "mysql",
    .conn_size = sizeof(my_conn),
    .quote = '`',
    .has_schemas = 1,
    .migration_count = MIGRATION_COUNT,
    .migrations = migrations,
    .open = my_open,
    .close = my_close,
    .acquire = my_acquire,
    .renew = my_renew,
    .release = my_release,
    .force_release = my_force_release,
    .reap = my_reap,
    .list = my_list,
    .schema_version = my_schema_version,
    .schema_apply = my_schema_apply,
    .prepare = my_prepare,
    .locate = my_locate,
    .lock = my_lock,
    .guard = my_guard,
    .end = my_end,
    .native = my_native,
    .enqueue = my_enqueue,
    .turn = my_turn,
    .leave = my_leave,
    .look = my_look,
    .waiters = my_waiters,
    .diagnose = my_diagnose,
    .exchange = my_exchange,
};

const rowlock_driver *rowlock_mysql(void)
{
    return &my_driver;
}
