/* SPDX-License-Identifier: MIT
 *
 * The database's clock: the host's time since boot plus an offset that is kept in the file. It
 * cannot jump while the host runs, whatever happens to the wall clock. All users of the file are on
 * this host (address.c sees to it), so all of them read the same clock. */
#include "clock.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "lite.h"

#define BOOT_ID "/proc/sys/kernel/random/boot_id"
#define OFFSETS "/proc/self/timens_offsets"

/* How far ahead of the clock the floor is set: a sync for each such time, and after a restart the
 * clock may be as much ahead of the wall clock. */
#define FLOOR_AHEAD_US INT64_C(60000000)

/* Asks the file for the offset, in the transaction of the statement that wants the time: so a
 * changed one (tables dropped and made anew by somebody else) is never missed. */
static int read_offset(lite_conn *conn, int64_t *offset, int64_t *floor_us)
{
    int status;
    sqlite3_stmt *statement = lite_statement(conn, SQL_CLOCK_READ, &status);
    int rc;

    if (statement == NULL)
        return status;
    rc = sqlite3_step(statement);
    conn->clock_missing = rc == SQLITE_DONE;
    if (rc == SQLITE_ROW) {
        const char *boot = (const char *)sqlite3_column_text(statement, 1);

        *offset = sqlite3_column_int64(statement, 0);
        *floor_us = sqlite3_column_int64(statement, 2);
        conn->clock_missing = boot == NULL || strcmp(boot, conn->boot) != 0;
    }
    if (rc == SQLITE_ROW || rc == SQLITE_DONE) {
        sqlite3_reset(statement); /* one row at most, no parameters: there is no more to come */
        return ROWLOCK_OK;
    }
    return lite_done(conn, statement, rc);
}

/* 0: the function has failed. */
static int read_clock(sqlite3_context *context, lite_conn *conn)
{
    int64_t offset = 0;

    if (conn->now_us != 0)
        return 1;
    if (read_offset(conn, &offset, &conn->floor_us) != ROWLOCK_OK) {
        int rc = sqlite3_extended_errcode(conn->db);

        sqlite3_result_error(context, sqlite3_errmsg(conn->db), -1);
        sqlite3_result_error_code(context, rc);
        return 0;
    }
    if (conn->clock_missing) {
        sqlite3_result_error(context, "the clock is not set", -1);
        return 0;
    }
    conn->now_us = rlk_clock_us() + offset;
    return 1;
}

/* rowlock_now() */
static void now(sqlite3_context *context, int n, sqlite3_value **values)
{
    lite_conn *conn = sqlite3_user_data(context);

    (void)n;
    (void)values;
    if (read_clock(context, conn))
        sqlite3_result_int64(context, conn->now_us);
}

/* rowlock_fence() */
static void fence(sqlite3_context *context, int n, sqlite3_value **values)
{
    lite_conn *conn = sqlite3_user_data(context);

    (void)n;
    (void)values;
    if (!read_clock(context, conn))
        return;
    conn->clock_missing = conn->now_us >= conn->floor_us;
    if (conn->clock_missing)
        sqlite3_result_error(context, "the floor of the fences is not set", -1);
    else
        sqlite3_result_int64(context, conn->now_us);
}

static int create_function(lite_conn *conn, const char *name,
                           void (*function)(sqlite3_context *, int, sqlite3_value **))
{
    /* Not SQLITE_DETERMINISTIC: it must not be computed before the write lock is there. */
    return sqlite3_create_function_v2(conn->db, name, 0, SQLITE_UTF8 | SQLITE_DIRECTONLY, conn,
                                      function, NULL, NULL, NULL);
}

/* A process in a time namespace of its own has another time since boot than its neighbours. */
static int check_namespace(lite_conn *conn)
{
    long long seconds, nanoseconds;
    int other = 0;
    char name[16];
    FILE *file = lite_proc_open(OFFSETS);

    if (file == NULL && errno == ENOENT)
        return ROWLOCK_OK; /* a kernel without time namespaces */
    if (file == NULL)
        return rlk_fail(conn->err, ROWLOCK_ECONNECT, "cannot read " OFFSETS ": %s",
                        strerror(errno));
    while (fscanf(file, "%15s %lld %lld", name, &seconds, &nanoseconds) == 3) {
        if (strcmp(name, "boottime") == 0 && (seconds != 0 || nanoseconds != 0))
            other = 1;
    }
    fclose(file);
    if (other)
        return rlk_fail(
            conn->err, ROWLOCK_ECONNECT,
            "this process is in a time namespace with a clock of its own: SQLite locks need "
            "the host's");
    return ROWLOCK_OK;
}

/* Whoever reads another one than the rest frees all their locks, as after a restart of the host.
 * Some container managers give each container one of its own. */
int lite_boot(lite_conn *conn)
{
    FILE *file = lite_proc_open(BOOT_ID);
    int read = 0;

    if (file == NULL && errno == EMEDIUMTYPE)
        return rlk_fail(conn->err, ROWLOCK_ECONNECT,
                        BOOT_ID " is not the kernel's (LXC, Incus and systemd-nspawn mount another "
                                "one over it): SQLite locks cannot be used in this container, use "
                                "those of a database server");
    if (file != NULL) {
        read = fscanf(file, "%39s", conn->boot) == 1;
        fclose(file);
    }
    if (!read)
        return rlk_fail(conn->err, ROWLOCK_ECONNECT, "cannot read " BOOT_ID ": is /proc mounted?");
    return ROWLOCK_OK;
}

int lite_clock_open(lite_conn *conn)
{
    int rc = lite_boot(conn);

    if (rc == ROWLOCK_OK)
        rc = check_namespace(conn);
    if (rc != ROWLOCK_OK)
        return rc;
    rc = create_function(conn, "rowlock_now", now);
    if (rc == SQLITE_OK)
        rc = create_function(conn, "rowlock_fence", fence);
    return rc == SQLITE_OK ? ROWLOCK_OK : lite_fail(conn, rc);
}

void lite_clock_close(lite_conn *conn)
{
    create_function(conn, "rowlock_now", NULL);
    create_function(conn, "rowlock_fence", NULL);
}

static int64_t wall_us(void)
{
    struct timespec wall;

    clock_gettime(CLOCK_REALTIME, &wall);
    return (int64_t)wall.tv_sec * 1000000 + wall.tv_nsec / 1000;
}

static int store_offset(lite_conn *conn)
{
    int status;
    sqlite3_stmt *statement = lite_statement(conn, SQL_CLOCK_SET, &status);

    if (statement == NULL)
        return status;
    sqlite3_bind_text(statement, 1, conn->boot, -1, SQLITE_STATIC);
    sqlite3_bind_int64(statement, 2, wall_us());
    sqlite3_bind_int64(statement, 3, rlk_clock_us());
    sqlite3_bind_int64(statement, 4, FLOOR_AHEAD_US);
    return lite_done(conn, statement, sqlite3_step(statement));
}

int lite_now(lite_conn *conn, int64_t *out)
{
    int64_t offset = 0, floor_us = 0;
    int status = read_offset(conn, &offset, &floor_us);

    *out = status == ROWLOCK_OK && !conn->clock_missing ? rlk_clock_us() + offset : 0;
    conn->clock_missing = 0; /* the caller knows what to do about it */
    return status;
}

int lite_clock_start(lite_conn *conn)
{
    int64_t now_us = 0;
    sqlite3_stmt *statement;
    int status = store_offset(conn);

    if (status == ROWLOCK_OK)
        status = lite_now(conn, &now_us);
    if (status != ROWLOCK_OK)
        return status;
    if (now_us == 0)
        return rlk_fail(conn->err, ROWLOCK_EDRIVER, "the clock cannot be set in %sclock",
                        conn->prefix);
    statement = lite_statement(conn, SQL_CLOCK_FREE, &status);
    if (statement == NULL)
        return status;
    sqlite3_bind_int64(statement, 1, now_us);
    status = lite_done(conn, statement, sqlite3_step(statement));
    return status == ROWLOCK_OK ? lite_run(conn, SQL_CLOCK_FREE_QUEUE) : status;
}

int lite_clock_raise(lite_conn *conn, int64_t now_us)
{
    int status;
    sqlite3_stmt *statement = lite_statement(conn, SQL_CLOCK_FLOOR, &status);

    if (statement == NULL)
        return status;
    sqlite3_bind_int64(statement, 1, now_us);
    sqlite3_bind_int64(statement, 2, FLOOR_AHEAD_US);
    return lite_done(conn, statement, sqlite3_step(statement));
}

/* Somebody else may have been faster. */
static int set_clock(lite_conn *conn)
{
    int64_t now_us = 0;
    int status = lite_begin(conn);

    if (status == ROWLOCK_OK)
        status = lite_now(conn, &now_us);
    if (status == ROWLOCK_OK)
        status = now_us == 0 ? lite_clock_start(conn) : lite_clock_raise(conn, now_us);
    return status == ROWLOCK_OK ? lite_commit(conn) : status;
}

int lite_clock_set(lite_conn *conn)
{
    int restored, status = lite_set_sync(conn, SQL_SYNC_FULL);

    if (status != ROWLOCK_OK)
        return status;
    status = set_clock(conn);
    restored = sqlite3_get_autocommit(conn->db) ? lite_set_sync(conn, SQL_SYNC_NORMAL) : ROWLOCK_OK;
    return status == ROWLOCK_OK ? restored : status;
}
