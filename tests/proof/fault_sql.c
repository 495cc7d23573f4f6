/* SPDX-License-Identifier: MIT
 *
 * Faults by SQL: what administrators and other applications do to the table of locks. Statements
 * that have to wait for a lock give up soon: then the fault has not hit. */
#include "nemesis.h"

#include "process.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LOCKS PROOF_PREFIX "locks"

/* One statement of each dialect; those of one fault that are NULL are not run. */
struct statements {
    const char *postgresql, *mysql, *sqlite;
};

static const char *dialect(const struct nemesis *n, const struct statements *s)
{
    if (n->database == ON_POSTGRESQL)
        return s->postgresql;
    return n->database == ON_MYSQL ? s->mysql : s->sqlite;
}

/* All of them in one session of their own; did they succeed? */
static int run_all(struct nemesis *n, const struct statements *s, size_t count)
{
    void *session = nemesis_session(n);
    int failed = session == NULL;

    for (size_t i = 0; i < count && !failed; i++) {
        const char *sql = dialect(n, &s[i]);

        if (sql != NULL)
            failed = n->kind->sql_run(session, sql, NULL, 0);
    }
    if (session != NULL)
        n->kind->sql_close(session);
    return !failed;
}

/* The same, and the session stays open until sql_leave(). */
static int run_and_stay(struct nemesis *n, const struct statements *s, size_t count)
{
    void *session = nemesis_session(n);
    char out[64];
    int failed = session == NULL;

    for (size_t i = 0; i < count && !failed; i++) {
        const char *sql = dialect(n, &s[i]);

        if (sql != NULL)
            failed = n->kind->sql_run(session, sql, out, sizeof(out));
    }
    if (failed && session != NULL)
        n->kind->sql_close(session);
    if (failed)
        return 0;
    n->strangers[0] = session;
    n->n_strangers = 1;
    return 1;
}

#define RUN(...)                                                 \
    do {                                                         \
        static const struct statements list[] = {__VA_ARGS__};   \
        return run_all(n, list, sizeof(list) / sizeof(list[0])); \
    } while (0)
#define STAY(...)                                                     \
    do {                                                              \
        static const struct statements list[] = {__VA_ARGS__};        \
        return run_and_stay(n, list, sizeof(list) / sizeof(list[0])); \
    } while (0)

void sql_leave(struct nemesis *n)
{
    for (int i = 0; i < n->n_strangers; i++)
        n->kind->sql_close(n->strangers[i]);
    n->n_strangers = 0;
}

/* ---- strangers ------------------------------------------------------------------------------- */

#define HOT_ROWS               \
    "SELECT fence FROM " LOCKS \
    " WHERE name IN ('proof-0', 'proof-1', 'proof-2', 'proof-9') FOR UPDATE"

int sql_lock_rows(struct nemesis *n)
{
    STAY({"BEGIN", "BEGIN", "BEGIN IMMEDIATE"}, {HOT_ROWS, HOT_ROWS, NULL});
}

int sql_lock_table(struct nemesis *n)
{
    STAY({"BEGIN", NULL, NULL}, {"LOCK TABLE " LOCKS " IN ACCESS EXCLUSIVE MODE",
                                 "LOCK TABLES " LOCKS " WRITE", "BEGIN EXCLUSIVE"});
}

int sql_old_snapshot(struct nemesis *n)
{
    STAY({NULL, "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ", NULL},
         {"BEGIN", "START TRANSACTION WITH CONSISTENT SNAPSHOT", "BEGIN"},
         {"SET TRANSACTION ISOLATION LEVEL REPEATABLE READ", NULL, NULL},
         {"SELECT count(*) FROM " LOCKS, "SELECT count(*) FROM " LOCKS,
          "SELECT count(*) FROM " LOCKS});
}

/* A process that has written, and is killed before it commits. */
static int write_and_wait(void *payload)
{
    struct nemesis *n = payload;
    void *session = nemesis_session(n);

    if (session == NULL ||
        n->kind->sql_run(session, n->database == ON_SQLITE ? "BEGIN IMMEDIATE" : "BEGIN", NULL, 0))
        return 1;
    n->kind->sql_run(session, "UPDATE " LOCKS " SET fence = fence + 1, expire_time = 0", NULL, 0);
    pause();
    return 0;
}

int sql_stranger_killed(struct nemesis *n)
{
    pid_t pid = process_start(write_and_wait, n);

    if (pid <= 0)
        return 0;
    process_sleep_ms(100 + nemesis_random(n, 200));
    kill(pid, SIGKILL);
    return process_wait(pid, 1000) == 1000 + SIGKILL;
}

int sql_connections(struct nemesis *n)
{
    const int most = sizeof(n->strangers) / sizeof(n->strangers[0]);

    while (n->n_strangers < most) {
        n->strangers[n->n_strangers] = n->kind->sql_open(n->address);
        if (n->strangers[n->n_strangers] == NULL)
            return 1;
        n->n_strangers++;
    }
    sql_leave(n);
    return 0;
}

/* ---- administrators -------------------------------------------------------------------------- */

int sql_rewrite(struct nemesis *n)
{
    RUN({"VACUUM FULL " LOCKS, "OPTIMIZE TABLE " LOCKS, "VACUUM"});
}

int sql_alter(struct nemesis *n)
{
    RUN({"ALTER TABLE " LOCKS " ADD CONSTRAINT proof_check CHECK (hold_count >= 0)",
         "ALTER TABLE " LOCKS " FORCE, ALGORITHM = COPY",
         "ALTER TABLE " PROOF_PREFIX "counter ADD COLUMN more INTEGER"},
        {"ALTER TABLE " LOCKS " DROP CONSTRAINT proof_check", "ALTER TABLE " LOCKS " FORCE",
         "ALTER TABLE " PROOF_PREFIX "counter DROP COLUMN more"});
}

#define DROP_INVALID                                                                       \
    "DO $$DECLARE i text; BEGIN FOR i IN SELECT indexrelid::regclass::text FROM pg_index " \
    "WHERE NOT indisvalid LOOP EXECUTE 'DROP INDEX ' || i; END LOOP; END$$"

int sql_index(struct nemesis *n)
{
    RUN({DROP_INVALID, "DROP INDEX IF EXISTS proof_index ON " LOCKS,
         "DROP INDEX IF EXISTS proof_index"},
        {"DROP INDEX IF EXISTS proof_index", NULL, NULL},
        {"CREATE INDEX CONCURRENTLY proof_index ON " LOCKS " (expire_time)",
         "CREATE INDEX proof_index ON " LOCKS " (expire_time)",
         "CREATE INDEX proof_index ON " LOCKS " (expire_time)"},
        {"DROP INDEX CONCURRENTLY proof_index", "DROP INDEX proof_index ON " LOCKS,
         "DROP INDEX proof_index"});
}

int sql_reindex(struct nemesis *n)
{
    RUN({DROP_INVALID, NULL, NULL}, {"REINDEX TABLE CONCURRENTLY " LOCKS, NULL, "REINDEX"},
        {"REINDEX TABLE " LOCKS, NULL, NULL});
}

int sql_analyze(struct nemesis *n)
{
    RUN({"ANALYZE " LOCKS, "ANALYZE TABLE " LOCKS, "ANALYZE"});
}

int sql_checkpoint(struct nemesis *n)
{
    RUN({"CHECKPOINT", "FLUSH TABLES", "PRAGMA wal_checkpoint(TRUNCATE)"});
}

int sql_read_only(struct nemesis *n)
{
    RUN({"ALTER SYSTEM SET default_transaction_read_only = on", "SET GLOBAL read_only = ON", NULL},
        {"SELECT pg_reload_conf()", NULL, NULL});
}

static int read_write(struct nemesis *n)
{
    RUN({"SET default_transaction_read_only = off", "SET GLOBAL read_only = OFF", NULL},
        {"ALTER SYSTEM RESET default_transaction_read_only", NULL, NULL},
        {"SELECT pg_reload_conf()", NULL, NULL});
}

void sql_read_write(struct nemesis *n)
{
    for (int i = 0; i < 20; i++)
        if (nemesis_await_server(n) == 0 && read_write(n))
            return;
    fprintf(stderr, "proof_run: the server stays read-only\n");
    n->failures++;
}

/* ---- sessions -------------------------------------------------------------------------------- */

/* KILL has to be sent for each of them. */
static int kill_mysql(struct nemesis *n, const char *what, int percent)
{
    char ids[16384] = "", sql[64];
    void *session = nemesis_session(n);
    int count = 0;

    if (session == NULL)
        return 0;
    n->kind->sql_run(session,
                     "SELECT id FROM information_schema.processlist WHERE user = 'rowlock' AND "
                     "id <> CONNECTION_ID()",
                     ids, sizeof(ids));
    for (char *id = strtok(ids, "|\n"); id != NULL; id = strtok(NULL, "|\n")) {
        if (nemesis_random(n, 100) >= percent)
            continue;
        snprintf(sql, sizeof(sql), "%s %llu", what, strtoull(id, NULL, 10));
        count += n->kind->sql_run(session, sql, NULL, 0) == 0;
    }
    n->kind->sql_close(session);
    return count > 0;
}

#define OTHERS \
    "FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"

int sql_terminate_some(struct nemesis *n)
{
    if (n->database == ON_MYSQL)
        return kill_mysql(n, "KILL", 30);
    RUN({"SELECT pg_terminate_backend(pid) " OTHERS " AND random() < 0.3", NULL, NULL});
}

int sql_terminate_all(struct nemesis *n)
{
    if (n->database == ON_MYSQL)
        return kill_mysql(n, "KILL", 100);
    RUN({"SELECT pg_terminate_backend(pid) " OTHERS, NULL, NULL});
}

int sql_cancel(struct nemesis *n)
{
    if (n->database == ON_MYSQL)
        return kill_mysql(n, "KILL QUERY", 100);
    RUN({"SELECT pg_cancel_backend(pid) " OTHERS, NULL, NULL});
}
