/* SPDX-License-Identifier: MIT */
#include "my.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int failed(MYSQL *my)
{
    return bench_fail("mysql: %s", mysql_error(my));
}

typedef struct target {
    char user[100], password[100], host[100], database[100];
    unsigned port;
} target;

static MYSQL *dial_once(const target *to)
{
    MYSQL *my = mysql_init(NULL);

    if (mysql_real_connect(my, to->host, to->user, to->password, to->database, to->port, NULL,
                           CLIENT_MULTI_STATEMENTS | CLIENT_FOUND_ROWS) != NULL)
        return my;
    failed(my);
    mysql_close(my);
    return NULL;
}

/* mysql://user:password@host:port/database, nothing encoded. */
static MYSQL *dial(const bench_rival *rival)
{
    target to;
    MYSQL *my;

    if (sscanf(bench_address(rival->server), "mysql://%99[^:@]:%99[^@]@%99[^:/]:%u/%99[^?]",
               to.user, to.password, to.host, &to.port, to.database) != 5) {
        bench_fail("%s: not mysql://user:password@host:port/database", rival->server);
        return NULL;
    }
    my = dial_once(&to);
    for (int i = 1; i < BENCH_DIALS && my == NULL; i++) {
        usleep(BENCH_DIAL_PAUSE_US);
        my = dial_once(&to);
    }
    return my;
}

int my_open(void **session, const bench_rival *rival, void *shared)
{
    my_session *s = calloc(1, sizeof *s);

    (void)shared;
    *session = s;
    s->rival = rival;
    snprintf(s->owner, sizeof s->owner, "host-1:%ld:%p", (long)getpid(), (void *)s);
    s->my = dial(rival);
    if (s->my == NULL)
        return BENCH_FAILED;
    return my_run(s, NULL, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED");
}

int my_open_manual(void **session, const bench_rival *rival, void *shared)
{
    int rc = my_open(session, rival, shared);

    return rc == BENCH_OK ? my_run(*session, NULL, "SET autocommit = 0") : rc;
}

void my_close(void *session)
{
    my_session *s = session;

    if (s->my != NULL)
        mysql_close(s->my);
    mysql_thread_end();
    free(s);
}

static void read_row(my_answer *out, MYSQL_RES *result)
{
    MYSQL_ROW row = mysql_fetch_row(result);
    unsigned n = mysql_num_fields(result);

    out->has_row = row != NULL;
    for (unsigned i = 0; row != NULL && i < n && i < MY_COLUMNS; i++)
        out->values[i] = row[i] == NULL ? 0 : strtoll(row[i], NULL, 10);
}

/* Of several answers, that of the last statement with rows, and what the last one changed. */
static int read_all(my_session *s, my_answer *out)
{
    int more = 0;

    for (; more == 0; more = mysql_next_result(s->my)) {
        MYSQL_RES *result = mysql_store_result(s->my);

        if (result == NULL && mysql_errno(s->my) != 0)
            return failed(s->my);
        if (result != NULL)
            read_row(out, result);
        else
            out->affected = mysql_affected_rows(s->my);
        out->inserted = mysql_insert_id(s->my);
        mysql_free_result(result);
    }
    return more < 0 ? BENCH_OK : failed(s->my);
}

int my_run(my_session *s, my_answer *out, const char *format, ...)
{
    my_answer unwanted;
    char text[8192];
    va_list arguments;
    int n;

    va_start(arguments, format);
    n = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (n < 0 || (size_t)n >= sizeof text)
        return bench_fail("mysql: a statement is too long");
    out = out == NULL ? &unwanted : out;
    memset(out, 0, sizeof *out);
    if (mysql_real_query(s->my, text, (unsigned long)n) != 0)
        return failed(s->my);
    return read_all(s, out);
}

int my_setup(const bench_rival *rival)
{
    void *session = NULL;
    int rc = my_open(&session, rival, NULL);

    if (rc == BENCH_OK)
        rc = my_run(session, NULL, "%s", (const char *)rival->detail);
    my_close(session);
    return rc;
}

int64_t my_statements(const bench_rival *rival)
{
    void *session = NULL;
    my_answer answer = {0};
    int rc = my_open(&session, rival, NULL);

    if (rc == BENCH_OK)
        rc = my_run(session, &answer,
                    "SELECT variable_value FROM information_schema.global_status "
                    "WHERE variable_name = 'QUESTIONS'");
    my_close(session);
    return rc == BENCH_OK && answer.has_row ? answer.values[0] : -1;
}
