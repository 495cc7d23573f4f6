/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "my.h"

#define ROLLBACK_US ((int64_t)100000)

/* What the server's errors mean for a call. The packet is one transaction that ends with COMMIT, so
 * an error of a statement before it certainly did nothing. */
typedef struct my_errno_class {
    int code;
    int status;
    int retryable;
} my_errno_class;

static const my_errno_class classes[] = {
    {1020, ROWLOCK_EDRIVER, 1},  /* row changed since it was read (innodb_snapshot_isolation) */
    {1205, ROWLOCK_EDRIVER, 1},  /* lock wait timeout */
    {1213, ROWLOCK_EDRIVER, 1},  /* deadlock; certification failure of a cluster */
    {1243, ROWLOCK_EDRIVER, 1},  /* no such prepared statement */
    {1317, ROWLOCK_EDRIVER, 1},  /* KILL QUERY */
    {1461, ROWLOCK_EDRIVER, 1},  /* too many prepared statements */
    {1969, ROWLOCK_EDRIVER, 1},  /* max_statement_time */
    {3024, ROWLOCK_EDRIVER, 1},  /* max_execution_time */
    {3101, ROWLOCK_EDRIVER, 1},  /* rolled back by group replication */
    {3572, ROWLOCK_EDRIVER, 1},  /* locked, NOWAIT */
    {1049, ROWLOCK_ESCHEMA, 0},  /* no such database */
    {1054, ROWLOCK_ESCHEMA, 0},  /* no such column */
    {1146, ROWLOCK_ESCHEMA, 0},  /* no such table */
    {1047, ROWLOCK_ECONNECT, 1}, /* cluster node not ready */
    {1153, ROWLOCK_ECONNECT, 0}, /* packet too large: the server hangs up */
    {1290, ROWLOCK_ECONNECT, 1}, /* read_only, super_read_only */
    {1792, ROWLOCK_ECONNECT, 1}, /* read-only transaction */
    {1836, ROWLOCK_ECONNECT, 1}, /* read-only mode */
    {1874, ROWLOCK_ECONNECT, 1}, /* innodb_read_only */
    {3100, ROWLOCK_ECONNECT, 1}, /* group replication refused the transaction before it ran */
    {4031, ROWLOCK_ECONNECT, 1}, /* had been idle for too long when the request arrived */
    {1053, ROWLOCK_EUNKNOWN, 1}, /* shutdown in progress */
    {1158, ROWLOCK_EUNKNOWN, 1}, /* network errors, as the server saw them */
    {1159, ROWLOCK_EUNKNOWN, 1}, {1160, ROWLOCK_EUNKNOWN, 1},
    {1161, ROWLOCK_EUNKNOWN, 1}, {1180, ROWLOCK_EUNKNOWN, 0}, /* error during COMMIT */
    {1927, ROWLOCK_EUNKNOWN, 1},                              /* KILL CONNECTION */
    {3169, ROWLOCK_EUNKNOWN, 1},                              /* session was killed */
};

static my_errno_class classify(int code)
{
    if (code >= 2000 && code < 3000) /* the client library's own: the connection broke */
        return (my_errno_class){code, ROWLOCK_EUNKNOWN, 1};
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++) {
        if (classes[i].code == code)
            return classes[i];
    }
    return (my_errno_class){code, ROWLOCK_EDRIVER, 0};
}

int my_is_read_only(MYSQL *mysql)
{
    enum { OUT_OF_RANGE = 1690 };

    return mysql_errno(mysql) == OUT_OF_RANGE && strstr(mysql_error(mysql), "OFF") != NULL;
}

/* The connection is given up in any case: open() looks for a primary. */
static int read_only(my_conn *conn, rowlock_error *err)
{
    int is_committed = strstr(mysql_error(conn->mysql), "9223372036854775806") != NULL;

    conn->dead = 1;
    if (is_committed)
        return rlk_fail_native(err, ROWLOCK_EUNKNOWN, 0, NULL, 1,
                               "the server became read-only while it granted the lock");
    return rlk_fail_native(err, ROWLOCK_ECONNECT, 0, NULL, 1, MY_READ_ONLY);
}

int my_is_denied(int code)
{
    enum { DATABASE_DENIED = 1044, TABLE_DENIED = 1142, COLUMN_DENIED = 1143 };

    return code == DATABASE_DENIED || code == TABLE_DENIED || code == COLUMN_DENIED;
}

int my_errno_status(int code, int *retryable)
{
    my_errno_class class = classify(code);

    *retryable = class.retryable;
    return class.status;
}

int my_connect_error(MYSQL *mysql, rowlock_error *err)
{
    static const int later[] = {1040, 1047, 1053, 1203, 1226, 2002, 2003, 2005, 2006, 2013, 2055};
    int code = (int)mysql_errno(mysql), retryable = 0;

    for (size_t i = 0; i < sizeof later / sizeof *later; i++)
        retryable |= later[i] == code;
    return rlk_fail_native(err, ROWLOCK_ECONNECT, code, mysql_sqlstate(mysql), retryable,
                           "cannot connect: %s", mysql_error(mysql));
}

void my_start(my_conn *conn)
{
    rlk_text_clear(&conn->packet);
    rlk_text_clear(&conn->prologue);
    conn->unheard = 0;
    if (conn->foreign)
        my_add(conn, SQL_SESSION, NULL, 0);
}

const char *my_sql(my_conn *conn, enum sql_statement which)
{
    rlk_text text = {0};

    if (conn->sql[which] != NULL)
        return conn->sql[which];
    rlk_sql_render(&text, sql_text[which], conn->prefix, conn->schema, '`');
    if (text.failed) {
        rlk_text_free(&text);
        conn->packet.failed = 1;
        return "";
    }
    conn->sql[which] = text.data;
    return text.data;
}

void my_add(my_conn *conn, enum sql_statement which, const char *const *literals, size_t n)
{
    my_fill(&conn->packet, my_sql(conn, which), literals, n);
}

void my_fill(rlk_text *out, const char *sql, const char *const *literals, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        size_t before = strcspn(sql, "?");

        rlk_text_add(out, sql, before);
        rlk_text_str(out, literals[i]);
        sql += before + (sql[before] == '?');
    }
    rlk_text_str(out, sql);
}

void my_put(rlk_text *out, const my_value *value)
{
    if (value->bytes == NULL) {
        rlk_text_int(out, value->number);
        return;
    }
    rlk_text_add(out, "x'", 2);
    rlk_text_hex(out, value->bytes, value->length);
    rlk_text_add(out, "'", 1);
}

void my_add_values(my_conn *conn, enum sql_statement which, const my_value *values, size_t n)
{
    const char *sql = my_sql(conn, which);

    for (size_t i = 0; i < n; i++) {
        size_t before = strcspn(sql, "?");

        rlk_text_add(&conn->packet, sql, before);
        my_put(&conn->packet, &values[i]);
        sql += before + (sql[before] == '?');
    }
    rlk_text_str(&conn->packet, sql);
}

const char *my_bytes(rlk_text *out, const void *bytes, size_t n)
{
    rlk_text_clear(out);
    rlk_text_str(out, "x'");
    rlk_text_hex(out, bytes, n);
    rlk_text_str(out, "'");
    return out->failed ? "NULL" : out->data;
}

const char *my_number(rlk_text *out, int64_t number)
{
    rlk_text_clear(out);
    rlk_text_int(out, number);
    return out->failed ? "NULL" : out->data;
}

int64_t my_int(const char *column)
{
    return column != NULL ? strtoll(column, NULL, 10) : 0;
}

static int unknown(my_conn *conn, rowlock_error *err)
{
    conn->dead = 1;
    return rlk_fail_native(err, ROWLOCK_EUNKNOWN, 0, NULL, 1,
                           "the server did not answer within the call's timeout");
}

/* A failed statement leaves the transaction open, with locks. If it cannot be ended the connection
 * must be, which does the same. The error may have come with the last of the time. */
static int end_transaction(my_conn *conn, int64_t deadline)
{
    const char *sql = sql_text[SQL_ROLLBACK];
    int64_t least = rlk_clock_us() + ROLLBACK_US;

    deadline = deadline > least ? deadline : least;
    return my_client_query(conn->mysql, sql, strlen(sql), &conn->spin, deadline) &&
           mysql_errno(conn->mysql) == 0;
}

/* What to do about an error; NULL: its text says enough. */
static const char *advice(const my_errno_class *class)
{
    enum { NO_DATABASE = 1049 };

    if (class->status == ROWLOCK_ESCHEMA)
        return class->code == NO_DATABASE ? "create it first" : "run 'rowlock migrate up'";
    if (my_is_denied(class->code))
        return "grant SELECT, INSERT, UPDATE and DELETE on it to the client's user";
    return NULL;
}

/* Of the options that prevent a statement one is of primaries that were demoted: another server may
 * take it. */
static my_errno_class class_of(MYSQL *mysql)
{
    enum { OPTION_PREVENTS = 1290 };
    int code = (int)mysql_errno(mysql);

    if (code == OPTION_PREVENTS && strstr(mysql_error(mysql), "read-only") == NULL &&
        strstr(mysql_error(mysql), "read_only") == NULL)
        return (my_errno_class){code, ROWLOCK_EDRIVER, 0};
    return classify(code);
}

static int server_error(my_conn *conn, int64_t deadline, rowlock_error *err)
{
    my_errno_class class = class_of(conn->mysql);
    const char *what = advice(&class);
    char state[6] = "";

    if (my_is_read_only(conn->mysql))
        return read_only(conn, err);
    memcpy(state, mysql_sqlstate(conn->mysql), 5);
    rlk_fail_native(err, class.status, class.code, state, class.retryable, "%s%s%s%s",
                    mysql_error(conn->mysql), what == NULL ? "" : " (", what == NULL ? "" : what,
                    what == NULL ? "" : ")");
    if (class.status == ROWLOCK_ECONNECT || class.status == ROWLOCK_EUNKNOWN) {
        conn->dead = 1;
    } else if (!end_transaction(conn, deadline)) {
        conn->dead = 1;
        class.status = rlk_fail_native(err, ROWLOCK_ECONNECT, class.code, state, 1,
                                       "the connection broke after server error %d", class.code);
    }
    return class.status;
}

/* What came behind the COMMIT was refused: KILL QUERY ends that, too. */
static int refused_late(my_conn *conn, rowlock_error *err)
{
    conn->dead = 1;
    return rlk_fail_native(err, ROWLOCK_EUNKNOWN, (int)mysql_errno(conn->mysql),
                           mysql_sqlstate(conn->mysql), 1, "an error after the commit: %s",
                           mysql_error(conn->mysql));
}

static int refused(my_conn *conn, int64_t deadline, rowlock_error *err)
{
    int code = (int)mysql_errno(conn->mysql);
    int is_late = conn->is_committed && !my_is_read_only(conn->mysql);
    int status = is_late ? refused_late(conn, err) : server_error(conn, deadline, err);

    my_prepared_settle(conn, code);
    return status;
}

static int check_packet(my_conn *conn, const rlk_text *whole, rowlock_error *err)
{
    if (conn->packet.failed || conn->prologue.failed || conn->json.failed || conn->batch.failed) {
        rlk_text_free(&conn->packet);
        rlk_text_free(&conn->prologue);
        rlk_text_free(&conn->json);
        rlk_text_free(&conn->batch);
        return rlk_fail_memory(err);
    }
    if (whole->length + 1 > conn->packet_max)
        return rlk_fail(err, ROWLOCK_EINVAL,
                        "the request has %zu bytes, the server takes %zu: use fewer or shorter "
                        "names, or raise max_allowed_packet",
                        whole->length + 1, conn->packet_max);
    if (conn->dead || my_client_hung_up(conn->mysql)) {
        conn->dead = 1;
        return rlk_fail_native(err, ROWLOCK_ECONNECT, 0, NULL, 1,
                               "the server has closed the connection");
    }
    return ROWLOCK_OK;
}

/* Keeps a result set as the last one of n. */
static void keep_set(MYSQL_RES **sets, size_t n, MYSQL_RES *result)
{
    mysql_free_result(sets[0]);
    memmove(sets, sets + 1, (n - 1) * sizeof *sets);
    sets[n - 1] = result;
}

static int is_in_transaction(const my_conn *conn)
{
    return (conn->mysql->server_status & SERVER_STATUS_IN_TRANS) != 0;
}

/* Reads the result of one statement, then goes to the next. *more: -1 at the end. */
static int read_result(my_conn *conn, int64_t deadline, MYSQL_RES **sets, size_t n, int *more)
{
    int was_in_transaction = conn->in_transaction;
    MYSQL_RES *result = NULL;

    if (mysql_errno(conn->mysql) != 0)
        return 1;
    if (mysql_field_count(conn->mysql) > 0) {
        if (!my_client_store(conn->mysql, &result, deadline))
            return 0;
        keep_set(sets, n, result);
        if (mysql_errno(conn->mysql) != 0)
            return 1;
    } else if (conn->unheard > 0) {
        conn->unheard--;
    } else if (conn->told_count < MY_TOLD_MAX) {
        conn->told[conn->told_count++] =
            (my_told){mysql_affected_rows(conn->mysql), mysql_insert_id(conn->mysql)};
    }
    conn->in_transaction = (uint8_t)is_in_transaction(conn);
    conn->is_committed |= was_in_transaction && !conn->in_transaction;
    return my_client_next(conn->mysql, more, deadline);
}

/* A long packet is that of many threads, who wake up or come meanwhile and want the processor. */
static int send_packet(my_conn *conn, const rlk_text *whole, int64_t deadline)
{
    enum { LONG = 1000 };
    rlk_spin none = {0};

    return my_client_query(conn->mysql, whole->data, whole->length,
                           whole->length < LONG ? &conn->spin : &none, deadline);
}

int my_run_sets(my_conn *conn, int64_t deadline, MYSQL_RES **sets, size_t n, rowlock_error *err)
{
    const rlk_text *whole = conn->prologue.length > 0 ? &conn->prologue : &conn->packet;
    int more = 0, status, in_time;

    memset(sets, 0, n * sizeof *sets);
    if (whole == &conn->prologue)
        rlk_text_str(&conn->prologue, conn->packet.failed ? "" : conn->packet.data);
    status = check_packet(conn, whole, err);
    if (status != ROWLOCK_OK)
        return status;
    conn->told_count = 0;
    conn->in_transaction = (uint8_t)is_in_transaction(conn);
    conn->is_committed = 0;
    in_time = send_packet(conn, whole, deadline);
    while (in_time && mysql_errno(conn->mysql) == 0 && more == 0)
        in_time = read_result(conn, deadline, sets, n, &more);
    if (!in_time)
        status = unknown(conn, err);
    else if (mysql_errno(conn->mysql) != 0)
        status = refused(conn, deadline, err);
    if (status == ROWLOCK_OK) {
        my_prepared_settle(conn, 0);
        conn->foreign = 0;
        return status;
    }
    for (size_t i = 0; i < n; i++)
        keep_set(sets, n, NULL);
    return status;
}

int my_run(my_conn *conn, int64_t deadline, MYSQL_RES **out, rowlock_error *err)
{
    MYSQL_RES *last = NULL;
    int status = my_run_sets(conn, deadline, &last, 1, err);

    if (out != NULL)
        *out = last;
    else
        mysql_free_result(last);
    return status;
}
