/* SPDX-License-Identifier: MIT */
#include "overloads.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fault.h"
#include "parse_tree.h"
#include "pg.h"

/* ---- SQL */

long long overloads_sql(PGconn *session, const char *sql)
{
    PGresult *result = PQexec(session, sql);
    ExecStatusType status = PQresultStatus(result);
    long long number = 0;

    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
        fail_msg("%s: %.200s", PQerrorMessage(session), sql);
    for (int row = 0; row < PQntuples(result); row++)
        number = strtoll(PQgetvalue(result, row, 0), NULL, 10);
    PQclear(result);
    return number;
}

static char *file_read(const char *path)
{
    FILE *file = fopen(path, "r");
    char *text = calloc(1, 65536);

    if (file == NULL || text == NULL || fread(text, 1, 65535, file) == 0)
        fail_msg("cannot read %s", path);
    fclose(file);
    return text;
}

/* ---- reading */

struct reader {
    PGconn *session;
    const char *path, *schema, *statement;
    rlk_text rows; /* of harness.uses */
    int trees, failed;
};

static void add_use(const struct parse_tree_use *use, void *payload)
{
    struct reader *r = payload;
    char row[256];

    snprintf(row, sizeof row, "%s('%s', '%s', '%c', %u, %u, ARRAY[", r->rows.length > 0 ? ", " : "",
             r->path, r->statement, (char)use->kind, use->oid, use->result);
    rlk_text_str(&r->rows, row);
    for (int i = 0; i < use->count; i++) {
        snprintf(row, sizeof row, "%s%u", i > 0 ? ", " : "", use->types[i]);
        rlk_text_str(&r->rows, row);
    }
    rlk_text_str(&r->rows, "]::oid[])");
}

/* The tree is the detail of a message. */
static void on_notice(void *payload, const PGresult *notice)
{
    struct reader *r = payload;
    const char *title = PQresultErrorField(notice, PG_DIAG_MESSAGE_PRIMARY);
    const char *tree = PQresultErrorField(notice, PG_DIAG_MESSAGE_DETAIL);

    if (title == NULL || tree == NULL || strncmp(title, "parse tree", 10) != 0)
        return;
    r->trees++;
    r->failed |= parse_tree_read(tree, add_use, r) != 0;
}

static void ignore_notice(void *payload, const PGresult *notice)
{
    (void)payload;
    (void)notice;
}

static void write_rows(struct reader *r)
{
    rlk_text sql = {0};

    if (r->rows.length == 0)
        return;
    rlk_text_str(&sql, "INSERT INTO harness.uses (path, statement, kind, oid, result, types) "
                       "SELECT DISTINCT * FROM (VALUES ");
    rlk_text_str(&sql, r->rows.data);
    rlk_text_str(&sql, ") AS v");
    assert_false(sql.failed || r->rows.failed);
    overloads_sql(r->session, sql.data);
    rlk_text_free(&sql);
    rlk_text_free(&r->rows);
}

static PGresult *ask(PGconn *session, const rlk_text *sql, int is_script)
{
    assert_false(sql->failed);
    return is_script ? PQexec(session, sql->data) : PQprepare(session, "", sql->data, 0, NULL);
}

/* Parses (or runs: a script) a text of ours. What it names is searched for under the path. */
static int read_text(struct reader *r, const char *text, int is_script)
{
    char set[256];
    rlk_text sql = {0};
    PGresult *result;
    ExecStatusType status;

    rlk_sql_render(&sql, text, is_script ? "script_" : "rowlock_", r->schema, '"');
    snprintf(set, sizeof set,
             "SET search_path = %s; SET debug_print_parse = on; SET client_min_messages = log",
             r->path);
    overloads_sql(r->session, set);
    PQsetNoticeReceiver(r->session, on_notice, r);
    result = ask(r->session, &sql, is_script);
    PQsetNoticeReceiver(r->session, ignore_notice, NULL);
    status = PQresultStatus(result);
    PQclear(result);
    rlk_text_free(&sql);
    overloads_sql(r->session, "RESET debug_print_parse; RESET client_min_messages;"
                              "SET search_path = pg_catalog");
    write_rows(r);
    assert_false(r->failed);
    return status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK;
}

int overloads_read_statement(PGconn *session, const char *path, const char *schema, int statement)
{
    char name[32];
    struct reader r = {.session = session, .path = path, .schema = schema, .statement = name};

    if (statement == PG_LISTEN) /* lacks its channel */
        return 1;
    snprintf(name, sizeof name, "%d", statement);
    return read_text(&r, pg_text_of(statement), 0) && r.trees == 1;
}

static void prepare_to_read(PGconn *session)
{
    PQsetNoticeReceiver(session, ignore_notice, NULL);
    overloads_sql(session, "SET log_min_messages = panic; SET debug_pretty_print = off;"
                           "SET search_path = pg_catalog;"
                           "CREATE SCHEMA IF NOT EXISTS harness;"
                           "CREATE TABLE IF NOT EXISTS harness.uses (path text, statement text,"
                           " kind text, oid oid, result oid, types oid[]);"
                           "TRUNCATE harness.uses");
}

void overloads_read_all(PGconn *session, const char *schema)
{
    struct reader r = {
        .session = session, .path = OVERLOADS_OURS, .schema = schema, .statement = "migration"};

    prepare_to_read(session);
    for (int i = 0; i < PG_STATEMENT_COUNT; i++)
        assert_true(overloads_read_statement(session, OVERLOADS_OURS, schema, i));
    overloads_sql(session, "BEGIN");
    for (int version = 1; version <= pg_migration_count(); version++)
        assert_true(read_text(&r, pg_migration(version)->up, 1));
    for (int version = pg_migration_count(); version > 0; version--)
        assert_true(read_text(&r, pg_migration(version)->down, 1));
    overloads_sql(session, "COMMIT");
}

/* ---- making and looking */

void overloads_make(PGconn *session)
{
    char *script = file_read(ROWLOCK_OVERLOADS_SQL);

    overloads_sql(session,
                  "SET search_path = pg_catalog; CREATE SCHEMA first; CREATE SCHEMA types");
    overloads_sql(session, script);
    free(script);
}

void overloads_assert_uncalled(PGconn *session)
{
    PGresult *result =
        PQexec(session, "SELECT o.place || ': ' || o.label FROM harness.overloads AS o "
                        "JOIN pg_catalog.pg_sequences AS s ON s.schemaname = 'harness' "
                        "AND s.sequencename = 'call ' || o.number AND s.last_value IS NOT NULL");

    assert_int_equal(PGRES_TUPLES_OK, PQresultStatus(result));
    for (int row = 0; row < PQntuples(result); row++)
        print_error("called: %s\n", PQgetvalue(result, row, 0));
    assert_int_equal(0, PQntuples(result));
    PQclear(result);
}
