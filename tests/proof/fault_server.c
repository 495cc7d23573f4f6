/* SPDX-License-Identifier: MIT
 *
 * Faults of the server's processes, its clock and its disk. */
#include "nemesis.h"

#include "process.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

enum { END_MS = 20000 };

int server_kill(struct nemesis *n)
{
    return watch_server_kill(&n->server) == 0;
}

void server_start(struct nemesis *n)
{
    nemesis_await_server(n);
}

/* In order: sessions are ended, what is known is on disk. */
int server_restart(struct nemesis *n)
{
    int64_t until = process_now_ms() + END_MS;

    if (kill(n->server.pid, n->database == ON_POSTGRESQL ? SIGINT : SIGTERM) != 0)
        return 0;
    while (!watch_server_is_gone(&n->server) && process_now_ms() < until)
        process_sleep_ms(5);
    if (!watch_server_is_gone(&n->server))
        watch_server_kill(&n->server);
    nemesis_await_server(n);
    return 1;
}

int server_stop(struct nemesis *n)
{
    return watch_server_signal(&n->server, SIGSTOP) == 0;
}

void server_continue(struct nemesis *n)
{
    watch_server_signal(&n->server, SIGCONT);
}

/* ---- one process of PostgreSQL's ------------------------------------------------------------- */

/* Its title tells whether it serves a client: "postgres: rowlock rowlock_test 127.0.0.1(...". */
static int serves_client(int pid)
{
    char path[64], title[256];
    FILE *file;
    size_t length;

    snprintf(path, sizeof(path), "/proc/%d/cmdline", pid);
    file = fopen(path, "r");
    if (file == NULL)
        return 0;
    length = fread(title, 1, sizeof(title) - 1, file);
    title[length] = '\0';
    fclose(file);
    return strstr(title, "rowlock_test 127.0.0.1") != NULL;
}

static pid_t pick_backend(struct nemesis *n)
{
    char path[64];
    pid_t found[256];
    int count = 0, pid;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)n->server.pid,
             (int)n->server.pid);
    file = fopen(path, "r");
    while (file != NULL && count < 256 && fscanf(file, "%d", &pid) == 1)
        if (serves_client(pid))
            found[count++] = (pid_t)pid;
    if (file != NULL)
        fclose(file);
    return count > 0 ? found[nemesis_random(n, count)] : 0;
}

int backend_stop(struct nemesis *n)
{
    n->backend = pick_backend(n);
    return n->backend > 0 && kill(n->backend, SIGSTOP) == 0;
}

void backend_continue(struct nemesis *n)
{
    kill(n->backend, SIGCONT);
}

/* The server ends all other sessions then, and recovers. */
int backend_kill(struct nemesis *n)
{
    pid_t pid = pick_backend(n);

    if (pid <= 0 || kill(pid, SIGKILL) != 0)
        return 0;
    process_sleep_ms(100);
    nemesis_await_server(n);
    return 1;
}

/* ---- the clock ------------------------------------------------------------------------------- */

/* The margin of the shortest lease is 30 ms: that is what is promised. */
enum { AHEAD_MS = 10, AHEAD_EVERY_MS = 3000, BACK_MS = 300 };

static int has_clock(const struct nemesis *n)
{
    char path[512];

    snprintf(path, sizeof(path), "%s/clock", n->servers);
    return access(path, F_OK) == 0;
}

int clock_ahead(struct nemesis *n)
{
    int64_t now = process_now_ms();

    if (!has_clock(n) || now < n->ahead_ms + AHEAD_EVERY_MS)
        return 0;
    n->ahead_ms = now;
    n->clock_ms += 1 + nemesis_random(n, AHEAD_MS);
    return watch_server_set_clock_ms(&n->server, n->clock_ms) == 0;
}

int clock_back(struct nemesis *n)
{
    struct history_record record;

    if (!has_clock(n))
        return 0;
    n->clock_ms -= 1 + nemesis_random(n, BACK_MS);
    record = (struct history_record){.at_ns = history_now_ns(), .kind = HISTORY_CLOCK_BACK};
    return history_add(&n->history, &record) == 0 &&
           watch_server_set_clock_ms(&n->server, n->clock_ms) == 0;
}

/* ---- the disk -------------------------------------------------------------------------------- */

enum { TMPFS = 0x01021994, MOST_BYTES = 1 << 30 };

/* A file system of the run's own: nothing else must be filled. */
static int is_small(const char *folder, uint64_t *available)
{
    struct statfs info;

    if (statfs(folder, &info) != 0 || info.f_type != TMPFS)
        return 0;
    *available = (uint64_t)info.f_bavail * (uint64_t)info.f_bsize;
    return (uint64_t)info.f_blocks * (uint64_t)info.f_bsize <= MOST_BYTES;
}

int disk_full(struct nemesis *n)
{
    char path[512];
    uint64_t available;
    static int is_told;

    if (!is_small(n->servers, &available)) {
        if (!is_told++)
            fprintf(stderr,
                    "*** proof_run: %s is no small file system of its own: "
                    "server-disk-full is NOT TESTED ***\n",
                    n->servers);
        return 0;
    }
    snprintf(path, sizeof(path), "%s/filler", n->servers);
    n->filler = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    if (n->filler < 0)
        return 0;
    unlink(path);
    while (available >= 4096 && posix_fallocate(n->filler, 0, (off_t)available) != 0)
        available = available > 1 << 20 ? available - (1 << 20) : available / 2;
    return 1;
}

void disk_free(struct nemesis *n)
{
    close(n->filler);
    nemesis_await_server(n);
}
