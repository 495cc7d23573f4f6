/* SPDX-License-Identifier: MIT
 *
 * What locks on this server depend on: the server is asked for facts in three statements, the
 * judgement is here. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "clock.h"
#include "finding.h"
#include "pg.h"

enum { OLDEST = 120000, QUEUE_PERCENT_MAX = 50, CLIENTS_PERCENT_MAX = 90 };

/* The columns of PG_DIAGNOSE_SERVER. */
enum server_column {
    VERSION,
    NUMBER,
    DATABASE,
    ROLE,
    IS_STANDBY,
    FSYNC,
    FULL_PAGES,
    COMMITS,
    ISOLATION,
    READ_ONLY,
    AUTOVACUUM,
    STANDBYS,
    IS_SYNCHRONOUS,
    QUEUE_PERCENT,
    CLIENTS,
    CLIENTS_MAX,
    NOW
};

/* ... and of PG_DIAGNOSE_TABLES. */
enum table_column {
    NAME,
    IS_THERE,
    KIND,
    PERSISTENCE,
    HAS_POLICIES,
    IS_LEFT_UNCLEAN,
    TRIGGERS,
    DENIED,
    LACKING
};

/* ---- the server */

static int is_on(const PGresult *server, enum server_column column)
{
    return pg_get_bool(server, 0, column);
}

static int64_t number(const PGresult *server, enum server_column column)
{
    return pg_get_int(server, 0, column);
}

static const char *text(const PGresult *server, enum server_column column)
{
    return PQgetvalue(server, 0, column);
}

static void find_server(rlk_findings *f, const PGresult *server)
{
    if (number(server, NUMBER) < OLDEST)
        rlk_find_bad(f, "server", "upgrade it to PostgreSQL 12 or later",
                     "PostgreSQL %s is older than what rowlock is made for", text(server, VERSION));
    else
        rlk_find_good(f, "server", "PostgreSQL %s, database %s, user %s", text(server, VERSION),
                      text(server, DATABASE), text(server, ROLE));
    if (is_on(server, IS_STANDBY))
        rlk_find_bad(f, "writes", "connect to the primary", "the server is a standby, read-only");
    else if (strcmp(text(server, READ_ONLY), "on") == 0)
        rlk_find_bad(f, "writes", "connect to the primary, or reset default_transaction_read_only",
                     "default_transaction_read_only is on: nothing is granted");
    else
        rlk_find_good(f, "writes", "the server is a primary");
    if (number(server, CLIENTS) * 100 > number(server, CLIENTS_MAX) * CLIENTS_PERCENT_MAX)
        rlk_find_warning(f, "connections", "raise max_connections, or put PgBouncer in between",
                         "%" PRId64 " of %" PRId64 " are in use", number(server, CLIENTS),
                         number(server, CLIENTS_MAX));
}

/* synchronous_commit = off is overridden where it matters, see `session`. */
static void find_durability(rlk_findings *f, const PGresult *server)
{
    if (!is_on(server, FSYNC))
        rlk_find_warning(f, "durability", "set fsync = on and reload the server",
                         "fsync is off: when the server's machine crashes the database may be "
                         "damaged, and locks may be given twice");
    else if (!is_on(server, FULL_PAGES))
        rlk_find_warning(f, "durability", "set full_page_writes = on and reload the server",
                         "full_page_writes is off: a crash of the machine may damage the tables");
    else
        rlk_find_good(f, "durability", "what is committed is on the disk%s",
                      strcmp(text(server, COMMITS), "off") == 0
                          ? "; synchronous_commit is off by default, which rowlock overrides"
                          : "");
}

static void find_replication(rlk_findings *f, const PGresult *server)
{
    int64_t standbys = number(server, STANDBYS);

    if (standbys == 0)
        rlk_find_good(f, "replication", "no standby is connected");
    else if (is_on(server, IS_SYNCHRONOUS) && strcmp(text(server, COMMITS), "local") != 0)
        rlk_find_good(f, "replication", "commits wait for a standby: a failover loses no lock");
    else
        rlk_find_warning(
            f, "replication", "set synchronous_standby_names, or check fences where it matters",
            "standbys follow asynchronously (%" PRId64 "): a failover may forget locks "
            "that were just given, and give them again",
            standbys);
}

static void find_waking(rlk_findings *f, const pg_link *conn, const PGresult *server)
{
    if (conn->is_pooled)
        rlk_find_warning(f, "waiters", "give those who wait an address without the pooler",
                         "a pooler stands in between (PgBouncer): they cannot be woken and ask "
                         "again and again");
    else
        rlk_find_good(f, "waiters", "they are woken: no pooler stands in between");
    if (number(server, QUEUE_PERCENT) > QUEUE_PERCENT_MAX)
        rlk_find_warning(f, "notifications", "end the session that listens in a long transaction",
                         "the server's queue of notifications is %" PRId64 " %% full",
                         number(server, QUEUE_PERCENT));
}

static int look_at_server(pg_link *conn, rlk_findings *f, int64_t deadline, rowlock_error *err)
{
    PGresult *server;
    int64_t before_us = rlk_wall_us();
    int status;

    pg_params_clear(&conn->params);
    status = pg_call(conn, PG_DIAGNOSE_SERVER, &server, deadline, err);
    if (status != ROWLOCK_OK)
        return status;
    find_server(f, server);
    find_durability(f, server);
    find_replication(f, server);
    rlk_find_good(f, "isolation", "rowlock works at READ COMMITTED; the default is %s",
                  text(server, ISOLATION));
    if (!is_on(server, AUTOVACUUM))
        rlk_find_warning(f, "vacuum", "set autovacuum = on and track_counts = on",
                         "autovacuum is off: the tables grow and get slow");
    find_waking(f, conn, server);
    rlk_find_clock(f, number(server, NOW), before_us, rlk_wall_us());
    PQclear(server);
    return ROWLOCK_OK;
}

/* ---- the search_path */

enum { PATH_SCHEMA, PATH_CREATORS };

/* Our own statements find nothing there; see place.c for the tables. */
static int look_at_path(pg_link *conn, rlk_findings *f, int64_t deadline, rowlock_error *err)
{
    PGresult *path;
    int status;

    pg_params_clear(&conn->params);
    status = pg_call_on_path(conn, PG_DIAGNOSE_PATH, &path, deadline, err);
    if (status != ROWLOCK_OK)
        return status;
    for (int row = 0; row < PQntuples(path); row++)
        rlk_find_warning(f, "search_path",
                         "run REVOKE CREATE ON SCHEMA ... FROM ..., or take the schema out of the "
                         "search_path",
                         "others may create in its schema %s: %s. rowlock uses nothing of theirs, "
                         "but other programs of this user may run their functions, and tables with "
                         "the names of rowlock's there keep clients from opening",
                         PQgetvalue(path, row, PATH_SCHEMA), PQgetvalue(path, row, PATH_CREATORS));
    if (PQntuples(path) == 0)
        rlk_find_good(f, "search_path", "nobody else may create in its schemas");
    PQclear(path);
    return ROWLOCK_OK;
}

/* ---- the tables */

typedef struct table {
    const PGresult *tables;
    int row;
    char name[64]; /* with the prefix */
} table;

static int is_true(const table *t, enum table_column column)
{
    return pg_get_bool(t->tables, t->row, column);
}

static const char *value(const table *t, enum table_column column)
{
    return PQgetvalue(t->tables, t->row, column);
}

/* Whether it is as the newest version has it. */
static void find_form(rlk_findings *f, const table *t)
{
    static const char remedy[] = "compare it with 'rowlock migrate print --dialect postgresql'";

    if (!is_true(t, IS_THERE))
        rlk_find_bad(f, "tables", remedy, "%s is missing", t->name);
    else if (value(t, LACKING)[0] != '\0')
        rlk_find_bad(f, "tables", remedy, "%s lacks columns or has them with other types: %s",
                     t->name, value(t, LACKING));
}

/* 1 if nothing is wrong with it. */
static int find_storage(rlk_findings *f, const table *t)
{
    int is_sequence = strcmp(value(t, NAME), "floor") == 0;

    if (strcmp(value(t, KIND), is_sequence ? "S" : "r") != 0)
        rlk_find_bad(f, "storage", "drop it and run 'rowlock migrate up'", "%s is no %s", t->name,
                     is_sequence ? "sequence" : "plain table");
    else if (strcmp(value(t, PERSISTENCE), "p") != 0)
        rlk_find_bad(f, "storage", "run ALTER TABLE ... SET LOGGED",
                     "%s is unlogged or temporary: a crash of the server empties it, and locks are "
                     "given twice",
                     t->name);
    else
        return 1;
    return 0;
}

static int find_rights(rlk_findings *f, const table *t)
{
    if (value(t, DENIED)[0] != '\0')
        rlk_find_bad(f, "rights", "GRANT them to this user", "this user lacks %s on %s",
                     value(t, DENIED), t->name);
    if (is_true(t, HAS_POLICIES))
        rlk_find_warning(f, "rights", "run ALTER TABLE ... DISABLE ROW LEVEL SECURITY",
                         "%s has row level security: locks that cannot be seen cannot be had",
                         t->name);
    return value(t, DENIED)[0] == '\0' && !is_true(t, HAS_POLICIES);
}

static void find_habits(rlk_findings *f, const table *t)
{
    if (pg_get_int(t->tables, t->row, TRIGGERS) > 0)
        rlk_find_warning(f, "triggers", "drop them: locks must be what rowlock wrote",
                         "%s has triggers", t->name);
    if (is_true(t, IS_LEFT_UNCLEAN))
        rlk_find_warning(f, "vacuum", "run ALTER TABLE ... RESET (autovacuum_enabled)",
                         "autovacuum is off for %s: it grows and gets slow", t->name);
}

static void judge_tables(rlk_findings *f, const pg_link *conn, const PGresult *tables,
                         int is_newest)
{
    int sound = 1, permitted = 1, count = 0;

    for (int row = 0; row < PQntuples(tables); row++) {
        table t = {.tables = tables, .row = row};

        snprintf(t.name, sizeof t.name, "%s%s", conn->prefix, value(&t, NAME));
        if (is_newest)
            find_form(f, &t);
        if (!is_true(&t, IS_THERE))
            continue;
        count++;
        sound &= find_storage(f, &t);
        permitted &= find_rights(f, &t);
        find_habits(f, &t);
    }
    if (sound && count > 0)
        rlk_find_good(f, "storage", "the tables are logged and survive a crash");
    if (permitted && count > 0)
        rlk_find_good(f, "rights", "this user has those that locks need");
}

/* What this user may not even ask is a finding. */
static int as_finding(rlk_findings *f, int status, const rowlock_error *err)
{
    if (status != ROWLOCK_EDRIVER && status != ROWLOCK_ESCHEMA)
        return status;
    rlk_find_bad(f, "rights",
                 "GRANT USAGE on the schema, and SELECT, INSERT, UPDATE, DELETE on the tables",
                 "%s", err->message);
    return ROWLOCK_OK;
}

static int look_at_tables(pg_link *conn, rlk_findings *f, int is_newest, int64_t deadline,
                          rowlock_error *err)
{
    PGresult *tables;
    int status;

    pg_params_clear(&conn->params);
    status = pg_call(conn, PG_DIAGNOSE_TABLES, &tables, deadline, err);
    if (status == ROWLOCK_OK)
        judge_tables(f, conn, tables, is_newest);
    PQclear(tables);
    return as_finding(f, status, err);
}

/* ---- the slot */

static uint32_t left_ms(int64_t deadline)
{
    int64_t left = (deadline - rlk_clock_us()) / 1000;

    return left > 0 ? (uint32_t)left : 0;
}

static int look_at_all(pg_link *conn, rlk_findings *f, int64_t deadline, rowlock_error *err)
{
    int version = 0, is_newest = 0;
    int status = look_at_server(conn, f, deadline, err);

    if (status == ROWLOCK_OK)
        status = look_at_path(conn, f, deadline, err);
    if (status != ROWLOCK_OK)
        return status;
    status = pg_schema_version(conn, &version, left_ms(deadline), err);
    if (status == ROWLOCK_OK)
        is_newest = rlk_find_version(f, version, pg_migration_count());
    else
        status = as_finding(f, status, err);
    return status == ROWLOCK_OK ? look_at_tables(conn, f, is_newest, deadline, err) : status;
}

int pg_diagnose(void *memory, rowlock_finding_fn fn, void *payload, uint32_t timeout_ms,
                rowlock_error *err)
{
    rlk_findings findings = {.fn = fn, .payload = payload};
    rowlock_error own = {0};
    int status =
        pg_unchanged(look_at_all(memory, &findings, pg_deadline_in(timeout_ms), &own), &own);

    if (err != NULL)
        *err = own;
    return status;
}
