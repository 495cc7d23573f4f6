/* SPDX-License-Identifier: MIT
 *
 * What locks on this server depend on. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "finding.h"
#include "my.h"

enum { CLIENTS_PERCENT_MAX = 90 };

/* ---- settings by name */

/* The server's answer, as it came; a setting that it does not have is "". */
static const char *setting(MYSQL_RES *settings, const char *name)
{
    MYSQL_ROW row;

    mysql_data_seek(settings, 0);
    while ((row = mysql_fetch_row(settings)) != NULL) {
        if (row[0] != NULL && strcmp(row[0], name) == 0)
            return row[1] != NULL ? row[1] : "";
    }
    return "";
}

static int is(MYSQL_RES *settings, const char *name, const char *value)
{
    return strcasecmp(setting(settings, name), value) == 0;
}

static int is_on(MYSQL_RES *settings, const char *name)
{
    return is(settings, name, "ON") || is(settings, name, "1");
}

/* One that must have one of some values; not asked for where `only_with`, another one, is not on.
 */
typedef struct rule {
    const char *name, *only_with;
    const char *good[4];
    const char *message, *remedy;
} rule;

static const rule rules[] = {
    {"innodb_flush_log_at_trx_commit",
     NULL,
     {"1", "3"},
     "innodb_flush_log_at_trx_commit is not 1: a crash may forget the last second's locks, which "
     "are then given twice",
     "set innodb_flush_log_at_trx_commit = 1"},
    {"sync_binlog",
     "log_bin",
     {"1"},
     "sync_binlog is not 1: after a crash of the machine replicas may have other locks than this "
     "server",
     "set sync_binlog = 1"},
    {"innodb_doublewrite",
     NULL,
     {"ON", "1", "FAST", "DETECT_AND_RECOVER"},
     "innodb_doublewrite is off: a crash of the machine may damage the tables",
     "set innodb_doublewrite = ON, unless the file system writes whole pages"},
};

static int is_kept(MYSQL_RES *settings, const rule *r)
{
    if (setting(settings, r->name)[0] == '\0' ||
        (r->only_with != NULL && !is_on(settings, r->only_with)))
        return 1;
    for (size_t i = 0; i < sizeof r->good / sizeof *r->good && r->good[i] != NULL; i++) {
        if (is(settings, r->name, r->good[i]))
            return 1;
    }
    return 0;
}

static void find_durability(rlk_findings *f, MYSQL_RES *settings)
{
    int broken = 0;

    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        if (is_kept(settings, &rules[i]))
            continue;
        rlk_find_warning(f, "durability", rules[i].remedy, "%s", rules[i].message);
        broken = 1;
    }
    if (!broken)
        rlk_find_good(f, "durability", "what is committed is on the disk");
}

/* InnoDB refuses to write at READ COMMITTED into a log of statements. */
static void find_binlog(rlk_findings *f, MYSQL_RES *settings)
{
    if (!is_on(settings, "log_bin"))
        rlk_find_good(f, "binlog", "it is off");
    else if (is(settings, "binlog_format", "STATEMENT"))
        rlk_find_bad(f, "binlog", "set binlog_format = ROW (or MIXED)",
                     "binlog_format is STATEMENT: the server refuses writes at READ COMMITTED");
    else
        rlk_find_good(f, "binlog", "binlog_format is %s", setting(settings, "binlog_format"));
}

static void find_cluster(rlk_findings *f, MYSQL_RES *settings)
{
    static const char one[] = "let all clients of rowlock write to one and the same node";

    if (setting(settings, "wsrep_cluster_address")[0] != '\0') {
        if (!is(settings, "wsrep_cluster_status", "Primary"))
            rlk_find_bad(f, "cluster", "connect to a node of the primary component",
                         "this Galera node is not part of the primary component");
        else
            rlk_find_warning(
                f, "cluster", one,
                "a Galera cluster (nodes: %s): locks that are written at several nodes are "
                "given to two holders at times",
                setting(settings, "wsrep_cluster_size"));
    } else if (setting(settings, "group_replication_group_name")[0] != '\0' &&
               is(settings, "group_replication_single_primary_mode", "OFF")) {
        rlk_find_warning(f, "cluster", one,
                         "Group Replication with several primaries: locks that are written at "
                         "several of them may be given to two holders");
    } else {
        rlk_find_good(f, "cluster", "no cluster with several writers");
    }
}

static void find_replication(rlk_findings *f, MYSQL_RES *settings)
{
    int64_t replicas = my_int(setting(settings, "slaves_connected"));

    if (!is_on(settings, "log_bin"))
        rlk_find_good(f, "replication", "no replica can follow: the binlog is off");
    else if (is_on(settings, "rpl_semi_sync_master_enabled") ||
             is_on(settings, "rpl_semi_sync_source_enabled"))
        rlk_find_good(f, "replication", "commits wait for a replica (semi-synchronous)");
    else if (setting(settings, "slaves_connected")[0] == '\0')
        rlk_find_good(f, "replication",
                      "it cannot be told whether replicas follow; after a "
                      "failover to one, locks may be given twice");
    else if (replicas == 0)
        rlk_find_good(f, "replication", "no replica is connected");
    else
        rlk_find_warning(f, "replication",
                         "use semi-synchronous replication, or check fences where it matters",
                         "replicas follow asynchronously (%lld): a failover may forget locks that "
                         "were just given, and give them again",
                         (long long)replicas);
}

static void find_connections(rlk_findings *f, MYSQL_RES *settings)
{
    int64_t used = my_int(setting(settings, "threads_connected"));
    int64_t most = my_int(setting(settings, "max_connections"));

    if (used * 100 > most * CLIENTS_PERCENT_MAX)
        rlk_find_warning(f, "connections", "raise max_connections", "%lld of %lld are in use",
                         (long long)used, (long long)most);
}

static void find_writes(rlk_findings *f, MYSQL_RES *settings)
{
    if (!(is(settings, "read_only", "OFF") || is(settings, "read_only", "0")) ||
        is_on(settings, "innodb_read_only"))
        rlk_find_bad(f, "writes", "connect to the primary", "the server is read-only");
    else
        rlk_find_good(f, "writes", "the server takes writes");
}

static void find_waking(rlk_findings *f, const my_conn *conn, int is_proxied)
{
    if (conn->no_bells)
        rlk_find_warning(f, "waiters",
                         "use a single server, or put up with a quarter of a second at each turn",
                         "in a cluster with several writers they cannot be woken and ask again and "
                         "again");
    else if (is_proxied)
        rlk_find_warning(f, "waiters", "give rowlock an address without the proxy",
                         "a proxy stands in between: if it shares connections, those who wait are "
                         "not woken, and settings of the session are lost");
    else
        rlk_find_good(f, "waiters", "they are woken (GET_LOCK)");
}

/* ---- asking */

static int ask(my_conn *conn, enum sql_statement which, const char *const *literals, size_t n,
               MYSQL_RES **out, int64_t deadline, rowlock_error *err)
{
    my_start(conn);
    my_add(conn, which, literals, n);
    return my_run(conn, deadline, out, err);
}

/* Does what went wrong leave the connection fit for the next question? */
static int is_refusal(int status)
{
    return status == ROWLOCK_EDRIVER || status == ROWLOCK_ESCHEMA;
}

static int look_at_server(my_conn *conn, rlk_findings *f, int *is_proxied, int64_t deadline,
                          rowlock_error *err)
{
    MYSQL_RES *result = NULL;
    int64_t before_us = rlk_wall_us();
    MYSQL_ROW row;
    int status = ask(conn, SQL_DIAGNOSE_SERVER, NULL, 0, &result, deadline, err);

    if (status != ROWLOCK_OK)
        return status;
    row = mysql_fetch_row(result);
    if (row != NULL) {
        rlk_find_good(f, "server", "%s%s, database %s, user %s", my_is_maria(conn) ? "" : "MySQL ",
                      row[0] ? row[0] : "?", row[3] ? row[3] : "(none)", row[2] ? row[2] : "?");
        rlk_find_clock(f, my_int(row[4]), before_us, rlk_wall_us());
        *is_proxied = my_int(row[1]) != (int64_t)mysql_thread_id(conn->mysql);
    }
    mysql_free_result(result);
    return ROWLOCK_OK;
}

static int look_at_settings(my_conn *conn, rlk_findings *f, int64_t deadline, rowlock_error *err)
{
    MYSQL_RES *settings = NULL;
    int status = ask(conn, SQL_DIAGNOSE_SETTINGS, NULL, 0, &settings, deadline, err);

    if (is_refusal(status)) {
        rlk_find_warning(f, "settings", "see to durability, binlog and replication by hand",
                         "they cannot be read: %s", err->message);
        return ROWLOCK_OK;
    }
    if (status != ROWLOCK_OK)
        return status;
    find_writes(f, settings);
    find_durability(f, settings);
    find_binlog(f, settings);
    find_cluster(f, settings);
    find_replication(f, settings);
    find_connections(f, settings);
    rlk_find_good(f, "isolation", "rowlock works at READ COMMITTED; the default is %s",
                  setting(settings, setting(settings, "transaction_isolation")[0] != '\0'
                                        ? "transaction_isolation"
                                        : "tx_isolation"));
    mysql_free_result(settings);
    return ROWLOCK_OK;
}

/* ---- the tables */

static int find_engine(rlk_findings *f, MYSQL_ROW row)
{
    const char *engine = row[1] != NULL ? row[1] : "none";

    if (my_int(row[2]) > 0)
        rlk_find_warning(f, "triggers", "drop them: locks must be what rowlock wrote",
                         "%s has triggers", row[0]);
    if (strcasecmp(engine, "InnoDB") == 0)
        return 1;
    rlk_find_bad(f, "storage", "run ALTER TABLE ... ENGINE = InnoDB",
                 "%s is kept by the engine %s, which has no transactions and row locks as rowlock "
                 "needs them",
                 row[0], engine);
    return 0;
}

static int look_at_storage(my_conn *conn, rlk_findings *f, int64_t deadline, rowlock_error *err)
{
    rlk_text place = {0}, prefix = {0};
    const char *literals[] = {"NULL", my_bytes(&prefix, conn->prefix, strlen(conn->prefix))};
    MYSQL_RES *tables = NULL;
    MYSQL_ROW row;
    int sound = 1, count = 0, status;

    if (conn->schema != NULL)
        literals[0] = my_bytes(&place, conn->schema, strlen(conn->schema));
    status = place.failed || prefix.failed
                 ? rlk_fail_memory(err)
                 : ask(conn, SQL_DIAGNOSE_TABLES, literals, 2, &tables, deadline, err);
    rlk_text_free(&place);
    rlk_text_free(&prefix);
    if (is_refusal(status)) {
        rlk_find_warning(f, "storage", "see that they are kept by InnoDB",
                         "the tables' engine cannot be read: %s", err->message);
        return ROWLOCK_OK;
    }
    if (status != ROWLOCK_OK)
        return status;
    for (; (row = mysql_fetch_row(tables)) != NULL; count++)
        sound &= find_engine(f, row);
    mysql_free_result(tables);
    if (sound && count > 0)
        rlk_find_good(f, "storage", "the tables are kept by InnoDB");
    return ROWLOCK_OK;
}

typedef struct right {
    enum sql_statement statement;
    const char *name, *table;
} right;

static const right rights[] = {
    {SQL_DIAGNOSE_SELECT_LOCKS, "SELECT", "locks"},
    {SQL_DIAGNOSE_INSERT_LOCKS, "INSERT", "locks"},
    {SQL_DIAGNOSE_UPDATE_LOCKS, "UPDATE", "locks"},
    {SQL_DIAGNOSE_DELETE_LOCKS, "DELETE", "locks"},
    {SQL_DIAGNOSE_SELECT_WAITERS, "SELECT", "waiters"},
    {SQL_DIAGNOSE_INSERT_WAITERS, "INSERT", "waiters"},
    {SQL_DIAGNOSE_UPDATE_WAITERS, "UPDATE", "waiters"},
    {SQL_DIAGNOSE_DELETE_WAITERS, "DELETE", "waiters"},
    {SQL_DIAGNOSE_SELECT_FLOOR, "SELECT", "floor"},
    {SQL_DIAGNOSE_UPDATE_FLOOR, "UPDATE", "floor"},
};

static void find_refusal(rlk_findings *f, const my_conn *conn, const right *r,
                         const rowlock_error *err)
{
    if (my_is_denied(err->native_code))
        rlk_find_bad(f, "rights", "GRANT it to this user", "this user lacks %s on %s%s", r->name,
                     conn->prefix, r->table);
    else if (err->status == ROWLOCK_ESCHEMA)
        rlk_find_bad(f, "tables", "compare it with 'rowlock migrate print --dialect mysql'",
                     "%s%s is not as it should be: %s", conn->prefix, r->table, err->message);
    else
        rlk_find_warning(f, "rights", "see that this user has it",
                         "it cannot be told whether this user has %s on %s%s: %s", r->name,
                         conn->prefix, r->table, err->message);
}

static int look_at_rights(my_conn *conn, rlk_findings *f, int64_t deadline, rowlock_error *err)
{
    int refused = 0;

    for (size_t i = 0; i < sizeof rights / sizeof *rights; i++) {
        int status = ask(conn, rights[i].statement, NULL, 0, NULL, deadline, err);

        if (status != ROWLOCK_OK && !is_refusal(status))
            return status;
        if (status == ROWLOCK_OK)
            continue;
        find_refusal(f, conn, &rights[i], err);
        refused = 1;
    }
    if (!refused)
        rlk_find_good(f, "rights", "this user has those that locks need");
    return ROWLOCK_OK;
}

/* ---- the slot */

static int look_at_tables(my_conn *conn, rlk_findings *f, int64_t deadline, rowlock_error *err)
{
    int64_t left_ms = (deadline - rlk_clock_us()) / 1000;
    int version = 0, is_newest = 0;
    int status = my_schema_version(conn, &version, left_ms > 0 ? (uint32_t)left_ms : 0, err);

    if (status == ROWLOCK_OK)
        is_newest = rlk_find_version(f, version, MIGRATION_COUNT);
    else if (!is_refusal(status))
        return status;
    else
        rlk_find_bad(f, "rights", "GRANT SELECT on it to this user",
                     "the version of the tables cannot be read: %s", err->message);
    status = look_at_storage(conn, f, deadline, err);
    return status == ROWLOCK_OK && is_newest ? look_at_rights(conn, f, deadline, err) : status;
}

int my_diagnose(void *handle, rowlock_finding_fn fn, void *payload, uint32_t timeout_ms,
                rowlock_error *err)
{
    my_conn *conn = handle;
    rlk_findings f = {.fn = fn, .payload = payload};
    int64_t deadline = my_deadline(timeout_ms);
    rowlock_error own = {0};
    int is_proxied = 0, status;

    my_client_enter();
    status = look_at_server(conn, &f, &is_proxied, deadline, &own);
    if (status == ROWLOCK_OK)
        status = look_at_settings(conn, &f, deadline, &own);
    if (status == ROWLOCK_OK)
        status = look_at_tables(conn, &f, deadline, &own);
    if (status == ROWLOCK_OK) {
        find_waking(&f, conn, is_proxied);
        return rlk_ok(err);
    }
    if (status == ROWLOCK_EUNKNOWN) /* nothing was asked that could have changed anything */
        status = own.status = ROWLOCK_ECONNECT;
    if (err != NULL)
        *err = own;
    return status;
}
