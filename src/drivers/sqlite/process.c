/* SPDX-License-Identifier: MIT
 *
 * Who waits and has been killed leaves a ticket behind that lives on for seconds, and everybody
 * behind it would wait for that. All users of the file are on this host, so the one who comes next
 * can ask the kernel.
 *
 * A living one must not be taken for dead because it cannot be seen: what a pid means depends on
 * the namespace, so one of another namespace is left alone; /proc may hide the processes of other
 * users, so getpgid() says whether there is such a process. Its time of start tells it from one
 * that has got the same pid later. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lite.h"

enum { STAT_SIZE = 1024 };

/* From /proc/PID/stat. */
typedef struct life {
    char state;
    long threads;
    unsigned long long start;
} life;

/* Zero if it cannot be read. The name in it may hold anything, also parentheses: what follows the
 * last one does not. */
static int read_life(life *out, pid_t pid)
{
    char path[32], text[STAT_SIZE];
    const char *rest;
    size_t length;
    FILE *file;

    snprintf(path, sizeof path, "/proc/%ld/stat", (long)pid);
    file = fopen(path, "re");
    if (file == NULL)
        return 0;
    length = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[length] = '\0';
    rest = strrchr(text, ')');
    return rest != NULL &&
           sscanf(
               rest + 1,
               " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %ld %*d %llu",
               &out->state, &out->threads, &out->start) == 3;
}

/* The pid namespace's number; 0 if it is not known, or if /proc is that of another one. */
static unsigned long long read_space(void)
{
    char self[16] = "";
    struct stat info;

    if (readlink("/proc/self", self, sizeof self - 1) <= 0 || atol(self) != (long)getpid() ||
        stat("/proc/self/ns/pid", &info) != 0)
        return 0;
    return info.st_ino;
}

/* Asked for once: a connection does not outlive its process. */
const char *lite_process(lite_conn *conn)
{
    unsigned long long space;
    life own;

    if (conn->process[0] != '\0')
        return conn->process;
    space = read_space();
    if (space != 0 && read_life(&own, getpid()))
        snprintf(conn->process, sizeof conn->process, "%llu %ld %llu", space, (long)getpid(),
                 own.start);
    return conn->process;
}

/* Certainly not there any more. */
static int is_dead(const char *process)
{
    unsigned long long space, start;
    long pid;
    life found;

    if (sscanf(process, "%llu %ld %llu", &space, &pid, &start) != 3 || pid <= 0 ||
        space != read_space())
        return 0;
    if (getpgid((pid_t)pid) < 0 && errno == ESRCH)
        return 1;
    if (!read_life(&found, (pid_t)pid))
        return 0;
    /* A zombie with more threads is one whose first thread alone has ended. */
    return found.start != start ||
           ((found.state == 'Z' || found.state == 'X') && found.threads <= 1);
}

/* The first one before this op: its ticket, and whether it is dead. */
static int find_dead(lite_conn *conn, const rowlock_op *op, uint64_t *ticket, int *dead)
{
    int status, rc;
    sqlite3_stmt *statement = lite_statement(conn, SQL_QUEUE_FIRST, &status);

    *dead = 0;
    if (statement == NULL)
        return status;
    lite_bind_name(statement, op);
    sqlite3_bind_int64(statement, 2, (sqlite3_int64)op->ticket);
    rc = sqlite3_step(statement);
    if (rc == SQLITE_ROW) {
        const char *process = (const char *)sqlite3_column_text(statement, 1);

        *ticket = (uint64_t)sqlite3_column_int64(statement, 0);
        *dead = process != NULL && is_dead(process);
    }
    return lite_done(conn, statement, rc);
}

int lite_bury(lite_conn *conn, const rowlock_op *op, int *buried)
{
    rowlock_op dead = *op;
    int found, status;

    *buried = 0;
    while ((status = find_dead(conn, op, &dead.ticket, &found)) == ROWLOCK_OK && found) {
        status = lite_queue_leave(conn, &dead);
        if (status != ROWLOCK_OK)
            return status;
        *buried = 1;
    }
    return status;
}
