/* SPDX-License-Identifier: MIT
 *
 * A busy answer writes nothing: a thousand of them leave the database's own counters of writes
 * where they were. The server's background work may write in between; a round counts only for the
 * difference it makes, and one round of several must make none at all: if tries wrote, each of them
 * would in each round. */
#include "fault.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fcntl.h>

enum { TRIES = 1000, ROUNDS = 5, COUNTERS_MAX = 8 };

/* Numbers that move when something is written. */
struct counters {
    int n;
    const char *names[COUNTERS_MAX];
    long long values[COUNTERS_MAX];
};

static void add(struct counters *c, const char *name, long long value)
{
    assert_in_range(c->n, 0, COUNTERS_MAX - 1);
    c->names[c->n] = name;
    c->values[c->n++] = value;
}

static void read_postgresql(struct counters *c)
{
    add(c, "wal position", fault_sql_number("SELECT pg_current_wal_insert_lsn() - '0/0'"));
    add(c, "transaction ids", fault_sql_number("SELECT pg_snapshot_xmax(pg_current_snapshot())"));
    add(c, "wal_records", fault_sql_number("SELECT wal_records FROM pg_stat_wal"));
    add(c, "wal_bytes", fault_sql_number("SELECT wal_bytes FROM pg_stat_wal"));
    add(c, "row changes",
        fault_sql_number("SELECT n_tup_ins + n_tup_upd + n_tup_del FROM pg_stat_user_tables "
                         "WHERE relname = '{locks}'"));
}

/* MariaDB has no Innodb_rows_ counters; there the handlers count the same changes. */
static void read_mysql(struct counters *c)
{
    static const char *const names[] = {
        "Innodb_rows_inserted", "Innodb_rows_updated", "Innodb_rows_deleted",
        "Innodb_lsn_current",   "Handler_update",      "Handler_delete",
    };

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char sql[128], out[128];
        snprintf(sql, sizeof(sql), "SHOW GLOBAL STATUS LIKE '%s'", names[i]);
        fault_sql_text(out, sizeof(out), sql);
        if (out[0] != '\0')
            add(c, names[i], fault_sql_number(sql));
    }
    assert_in_range(c->n, 3, COUNTERS_MAX);
}

/* Asked by one session that stays, since data_version compares with what that one saw before. */
static void *sqlite_session;

static void read_sqlite(struct counters *c)
{
    char out[64] = "";
    char path[1100];
    struct stat wal = {0};
    unsigned char header[100] = {0};
    static int file = -1; /* stays open: to close it would drop SQLite's locks in this process */

    assert_int_equal(
        0, fault.backend.kind->sql_run(sqlite_session, "PRAGMA data_version", out, sizeof(out)));
    add(c, "data_version", strtoll(out, NULL, 10));
    if (file < 0)
        file = open(fault.backend.address, O_RDONLY | O_CLOEXEC);
    assert_int_equal(sizeof(header), pread(file, header, sizeof(header), 0));
    add(c, "file change counter",
        header[24] << 24 | header[25] << 16 | header[26] << 8 | header[27]);
    snprintf(path, sizeof(path), "%s-wal", fault.backend.address);
    stat(path, &wal);
    add(c, "bytes of the write-ahead log", (long long)wal.st_size);
    add(c, "time of the write-ahead log",
        (long long)wal.st_mtim.tv_sec * 1000000000 + wal.st_mtim.tv_nsec);
}

static struct counters read_counters(void)
{
    struct counters c = {0};

    if (fault_is("postgresql"))
        read_postgresql(&c);
    else if (fault_is("mysql"))
        read_mysql(&c);
    else
        read_sqlite(&c);
    return c;
}

/* How many counters moved; says which. */
static int compare(const struct counters *before, const struct counters *after, int round)
{
    int moved = 0;

    for (int i = 0; i < before->n; i++) {
        if (before->values[i] == after->values[i])
            continue;
        print_message("round %d: %s moved by %lld\n", round, before->names[i],
                      after->values[i] - before->values[i]);
        moved++;
    }
    return moved;
}

/* Server statistics are handed in when a session ends: each round has a client of its own. */
static void busy_tries(const char *const *names, size_t n)
{
    rowlock_client *client = fault_open(fault.backend.address, NULL);

    for (int i = 0; i < TRIES; i++) {
        rowlock_lock *locks[2] = {NULL, NULL};
        rowlock_error err;
        int status = n == 1 ? rowlock_acquire(locks, client, names[0], NULL, &err)
                            : rowlock_acquire_many(locks, client, names, n, NULL, &err);
        assert_status(ROWLOCK_BUSY, status, &err);
    }
    rowlock_close(&client);
}

static void assert_writes_nothing(const char *const *names, size_t n)
{
    int moved = 1;

    for (int round = 0; round < ROUNDS && moved; round++) {
        struct counters before, after;
        process_sleep_ms(300); /* earlier sessions hand in their numbers */
        before = read_counters();
        busy_tries(names, n);
        process_sleep_ms(300);
        after = read_counters();
        moved = compare(&before, &after, round);
    }
    assert_int_equal(0, moved);
}

static void one_name(void **state)
{
    rowlock_client *holder = fault_open(fault.backend.address, NULL);
    const char *name = fault_name("busy");
    rowlock_lock *lock = fault_acquire(holder, name, 300000);

    (void)state;
    assert_writes_nothing(&name, 1);
    fault_release(&lock);
    rowlock_close(&holder);
}

/* All or none: one of the two could be had, and must be left alone. */
static void one_of_two(void **state)
{
    rowlock_client *holder = fault_open(fault.backend.address, NULL);
    const char *names[2] = {fault_name("two"), fault_name("two")};
    rowlock_lock *lock = fault_acquire(holder, names[0], 1000);
    rowlock_lock *busy = fault_acquire(holder, names[1], 300000);

    (void)state;
    fault_release(&lock);
    assert_writes_nothing(names, 2);
    fault_release(&busy);
    rowlock_close(&holder);
}

/* The counters can move: a grant moves at least one of them. */
static void a_grant_is_seen(void **state)
{
    rowlock_client *client = fault_open(fault.backend.address, NULL);
    struct counters before, after;
    rowlock_lock *lock;

    (void)state;
    before = read_counters();
    lock = fault_acquire(client, fault_name("seen"), 1000);
    fault_release(&lock);
    rowlock_close(&client);
    process_sleep_ms(300);
    after = read_counters();
    assert_in_range(compare(&before, &after, 0), 2, COUNTERS_MAX);
}

static int setup(void **state)
{
    (void)state;
    sqlite_session =
        fault_is("sqlite") ? fault.backend.kind->sql_open(fault.backend.address) : NULL;
    return fault_is("sqlite") && sqlite_session == NULL ? -1 : 0;
}

static int teardown(void **state)
{
    (void)state;
    if (sqlite_session != NULL)
        fault.backend.kind->sql_close(sqlite_session);
    sqlite_session = NULL;
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test_setup_teardown(a_grant_is_seen, setup, teardown),
        cmocka_unit_test_setup_teardown(one_name, setup, teardown),
        cmocka_unit_test_setup_teardown(one_of_two, setup, teardown),
    };
    return FAULT_MAIN(argc, argv, 0, cases);
}
