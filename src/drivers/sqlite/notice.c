/* SPDX-License-Identifier: MIT
 *
 * How a waiter learns that others have written, without asking all the time: inotify tells of every
 * write to the write-ahead log. The files are never opened for that: closing one would drop the
 * locks that SQLite has on it in this process.
 *
 * The notice comes a little early: a commit is seen by others only after the last write to the log
 * (the index beside it is shared memory, of which inotify knows nothing). So whoever is woken looks
 * once more soon after; see turn.c.
 *
 * Where there is no log, or the user has as many inotify instances as the kernel allows, the
 * waiter asks for PRAGMA data_version instead. */
#include <sys/inotify.h>
#include <unistd.h>

#include "clock.h"
#include "lite.h"

enum { FDS_MAX = 4 }; /* of rlk_sleep_until() */

/* The instance is kept: to close one takes the kernel milliseconds. */
static int instance(lite_conn *conn)
{
    if (conn->notice == 0)
        conn->notice = inotify_init1(IN_CLOEXEC | IN_NONBLOCK) + 1;
    return conn->notice - 1;
}

int lite_notice_start(lite_conn *conn)
{
    int watch;

    if (conn->watch != 0)
        return 1;
    if (!conn->sync_normal || instance(conn) < 0)
        return 0;
    watch = inotify_add_watch(
        conn->notice - 1, sqlite3_filename_wal(sqlite3_db_filename(conn->db, "main")), IN_MODIFY);
    conn->watch = watch > 0 ? watch : 0;
    return conn->watch != 0;
}

void lite_notice_stop(lite_conn *conn)
{
    if (conn->watch != 0)
        inotify_rm_watch(conn->notice - 1, conn->watch);
    conn->watch = 0;
}

void lite_notice_close(lite_conn *conn)
{
    if (conn->notice != 0)
        close(conn->notice - 1);
    conn->notice = conn->watch = 0;
}

int lite_notice_wait(lite_conn *conn, int64_t until_us, const int *fds, int n_fds, int *is_ended)
{
    int all[FDS_MAX], n = 0, which;

    for (; n < n_fds && n < FDS_MAX - 1; n++)
        all[n] = fds[n];
    all[n] = conn->notice - 1;
    which = rlk_sleep_until(until_us, all, n + 1);
    *is_ended = which >= 0 && which < n;
    return which == n;
}

void lite_notice_drain(lite_conn *conn)
{
    char events[4096];

    while (conn->notice != 0 && read(conn->notice - 1, events, sizeof events) > 0)
        continue;
}
