/* SPDX-License-Identifier: MIT
 *
 * Statements that are sent again and again are prepared, on MariaDB, where EXECUTE takes values: to
 * read the text of one takes the server a seventh of its time. A connection prepares a statement
 * when it sends it for the second time, in the same packet, in front of everything else: so it
 * takes no round trip, and who needs it once does not pay for it. */
#include <stdio.h>
#include <string.h>

#include "my.h"

enum { UNUSED, USED, ASKED_FOR, PREPARED };

enum { NAME_SIZE = 48 };

/* Not with the application's settings, by which a text may be read differently. */
static int may_prepare(const my_conn *conn)
{
    return my_is_maria(conn) && !conn->foreign && !conn->no_prepare;
}

/* Appends to what comes before the packet. */
static void add_prepare(my_conn *conn, const char *name, const char *sql)
{
    rlk_text *out = &conn->prologue;

    rlk_text_str(out, "PREPARE ");
    rlk_text_str(out, name);
    rlk_text_str(out, " FROM '");
    while (*sql != '\0') {
        size_t plain = strcspn(sql, "'");

        rlk_text_add(out, sql, plain);
        sql += plain;
        if (*sql == '\'') {
            rlk_text_str(out, "''");
            sql++;
        }
    }
    rlk_text_str(out, "';");
    conn->unheard++;
}

static void add_execute(my_conn *conn, const char *name, const my_value *values, size_t n)
{
    rlk_text *out = &conn->packet;

    rlk_text_str(out, " EXECUTE ");
    rlk_text_str(out, name);
    rlk_text_str(out, " USING ");
    for (size_t i = 0; i < n; i++) {
        if (i > 0)
            rlk_text_add(out, ",", 1);
        my_put(out, &values[i]);
    }
    rlk_text_str(out, ";");
}

/* Is it sent by its name? *prepare: after it has got one. */
static int has_name(const my_conn *conn, uint8_t *state, int *prepare)
{
    *prepare = may_prepare(conn) && *state == USED;
    if (*prepare)
        *state = ASKED_FOR;
    else if (*state == UNUSED)
        *state = USED;
    return may_prepare(conn) && *state >= ASKED_FOR;
}

void my_add_often(my_conn *conn, enum sql_statement which, const my_value *values, size_t n)
{
    char name[NAME_SIZE];
    int prepare;

    if (!has_name(conn, &conn->often[which], &prepare)) {
        my_add_values(conn, which, values, n);
        return;
    }
    snprintf(name, sizeof name, "rowlock_%d", (int)which);
    if (prepare)
        add_prepare(conn, name, my_sql(conn, which));
    add_execute(conn, name, values, n);
}

size_t my_rows_often(size_t n)
{
    size_t padded = (n + MY_ROWS_STEP - 1) / MY_ROWS_STEP * MY_ROWS_STEP;

    return padded <= MY_ROWS_OFTEN ? padded : n;
}

static void put_marks(my_conn *conn, enum sql_statement types, size_t columns, size_t n)
{
    rlk_text *out = &conn->batch;

    rlk_text_clear(out);
    rlk_text_str(out, my_sql(conn, types));
    for (size_t i = 0; i < n; i++) {
        rlk_text_str(out, ",(?");
        for (size_t k = 1; k < columns; k++)
            rlk_text_str(out, ",?");
        rlk_text_str(out, ")");
    }
}

int my_add_rows_often(my_conn *conn, enum sql_statement which, enum sql_statement types,
                      const my_value *values, size_t columns, size_t n)
{
    const char *marks;
    char name[NAME_SIZE];
    rlk_text sql = {0};
    int prepare;

    if (n > MY_ROWS_OFTEN || n % MY_ROWS_STEP != 0 ||
        !has_name(conn, &conn->rows_often[n / MY_ROWS_STEP], &prepare))
        return 0;
    snprintf(name, sizeof name, "rowlock_%d_%zu", (int)which, n);
    if (prepare) {
        put_marks(conn, types, columns, n);
        marks = conn->batch.failed ? "NULL" : conn->batch.data;
        my_fill(&sql, my_sql(conn, which), &marks, 1);
        add_prepare(conn, name, sql.failed ? "" : sql.data);
        conn->packet.failed |= sql.failed;
        rlk_text_free(&sql);
    }
    add_execute(conn, name, values, columns * n);
    return 1;
}

static void settle(uint8_t *states, size_t n, int is_done, int is_lost)
{
    for (size_t i = 0; i < n; i++) {
        if (states[i] == ASKED_FOR)
            states[i] = is_done ? PREPARED : USED;
        if (is_lost)
            states[i] = UNUSED;
    }
}

void my_prepared_settle(my_conn *conn, int code)
{
    enum { UNKNOWN_STATEMENT = 1243, TOO_MANY_STATEMENTS = 1461 };
    int is_lost = code == UNKNOWN_STATEMENT;

    if (code == TOO_MANY_STATEMENTS)
        conn->no_prepare = 1;
    if (conn->prologue.length == 0 && !is_lost)
        return;
    settle(conn->often, SQL_COUNT, code == 0, is_lost);
    settle(conn->rows_often, sizeof conn->rows_often, code == 0, is_lost);
    rlk_text_clear(&conn->prologue);
}
