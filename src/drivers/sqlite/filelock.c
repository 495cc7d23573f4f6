/* SPDX-License-Identifier: MIT
 *
 * Does this process have the lock on the file that SQLite believes it has?
 *
 * As long as a connection has a log open, or reads, SQLite has a shared lock on the file, one for
 * all its connections in the process, and others may not remove the log. But such a lock is the
 * process's: a child that was forked meanwhile has SQLite's notes of it, and not the lock; and
 * whoever closes any descriptor of the file drops it. SQLite notices neither. The kernel tells, in
 * /proc/self/fdinfo, which locks this process has through a descriptor.
 *
 * For the same reason two copies of SQLite in one process do not exclude each other. Each opens the
 * index of the log once for all its connections, so that two descriptors of it are two copies. */
#include <dirent.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fcntl.h>

#include "clock.h"
#include "lite.h"

#define SHARED_FIRST 0x40000002LL /* of SQLite's file format, and so are the others */
#define SHARED_SIZE  510

#define COPIES_EVERY_US INT64_C(1000000)

enum { INFO_SIZE = 4096 };

/* A line of fdinfo: is it a lock on the bytes? "lock: 1: POSIX ADVISORY READ 42 08:01:7 10 20" */
static int is_shared_lock(const char *line)
{
    long long first, last;

    return sscanf(line, "lock: %*d: POSIX %*s %*s %*d %*s %lld %lld", &first, &last) == 2 &&
           first <= SHARED_FIRST && last >= SHARED_FIRST + SHARED_SIZE - 1;
}

/* `info` is a descriptor of a file of fdinfo. */
static int shows_lock(int info)
{
    char text[INFO_SIZE];
    ssize_t length = pread(info, text, sizeof text - 1, 0);
    char *rest = text, *line;

    if (length <= 0)
        return 0;
    text[length] = '\0';
    while ((line = strsep(&rest, "\n")) != NULL) {
        if (is_shared_lock(line))
            return 1;
    }
    return 0;
}

static int open_info(int fd)
{
    char path[48];

    snprintf(path, sizeof path, "/proc/self/fdinfo/%d", fd);
    return open(path, O_RDONLY | O_CLOEXEC);
}

/* What is looked for among the descriptors of this process, and found. */
typedef struct scan {
    struct stat file, index;
    int has_index;
    int copies;   /* descriptors of the log's index */
    int fd, info; /* the descriptor that has the lock, and its fdinfo; -1: none has */
} scan;

static int is_same(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* By its name in /proc: other threads may be closing it, and a sanitizer takes fstat() for a use.
 */
static void look_at(scan *s, DIR *folder, const char *name)
{
    int fd = atoi(name);
    struct stat found;

    if (fstatat(dirfd(folder), name, &found, 0) != 0)
        return;
    if (s->has_index && is_same(&found, &s->index))
        s->copies++;
    if (s->fd != -1 || !is_same(&found, &s->file))
        return;
    s->info = open_info(fd);
    if (s->info >= 0 && shows_lock(s->info)) {
        s->fd = fd;
        return;
    }
    if (s->info >= 0)
        close(s->info);
    s->info = -1;
}

/* The caller closes `info`. */
static void run_scan(scan *s, const char *path)
{
    char index[LITE_PATH_MAX + 8];
    const struct dirent *entry;
    DIR *folder;

    *s = (scan){.fd = -1, .info = -1};
    snprintf(index, sizeof index, "%s-shm", path);
    s->has_index = stat(index, &s->index) == 0;
    folder = stat(path, &s->file) == 0 ? opendir("/proc/self/fd") : NULL;
    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        if (entry->d_name[0] != '.')
            look_at(s, folder, entry->d_name);
    }
    if (folder != NULL)
        closedir(folder);
}

/* The first of all locks that an owner other than the descriptor has, and this process is one: a
 * quick answer if it is the only one that uses the file, or has done so for longest. */
static int is_first(int fd)
{
    struct flock lock = {
        .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = SHARED_FIRST, .l_len = SHARED_SIZE};

    return fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK && lock.l_pid == getpid();
}

int lite_check_copies(const char *path, int status, rowlock_error *err)
{
    scan s;

    run_scan(&s, path);
    if (s.info >= 0)
        close(s.info);
    if (s.copies < 2)
        return ROWLOCK_OK;
    return rlk_fail(err, status,
                    "another copy of SQLite in this process has opened the file, and their locks "
                    "do not exclude each other: link one SQLite only");
}

/* Two threads that find the time has come both look, which does no harm. */
int lite_check_copies_sometimes(const char *path, int status, rowlock_error *err)
{
    static _Atomic int64_t next_us;
    int64_t now = rlk_clock_us();

    if (now < atomic_load(&next_us))
        return ROWLOCK_OK;
    status = lite_check_copies(path, status, err);
    if (status == ROWLOCK_OK)
        atomic_store(&next_us, now + COPIES_EVERY_US);
    return status;
}

static int has_lock(int fd, const struct stat *file)
{
    char path[48];
    struct stat found;
    int info, shown;

    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (fd < 0 || stat(path, &found) != 0 || !is_same(&found, file))
        return 0;
    if (is_first(fd))
        return 1;
    info = open_info(fd);
    shown = info >= 0 && shows_lock(info);
    if (info >= 0)
        close(info);
    return shown;
}

/* To look at all descriptors takes long if there are many: first at the one that had it last. */
int lite_has_file_lock(const char *path)
{
    static atomic_int last = -1;
    scan s;

    if (path == NULL || stat(path, &s.file) != 0)
        return 0;
    if (has_lock(atomic_load(&last), &s.file))
        return 1;
    run_scan(&s, path);
    if (s.info >= 0)
        close(s.info);
    atomic_store(&last, s.fd);
    return s.fd != -1;
}

void lite_file_lock_close(lite_conn *conn)
{
    if (conn->lock_info > 0)
        close(conn->lock_info);
    conn->lock_info = 0;
}

int lite_file_lock_open(lite_conn *conn)
{
    scan s;

    lite_file_lock_close(conn);
    run_scan(&s, sqlite3_db_filename(conn->db, "main"));
    conn->lock_fd = s.fd;
    conn->lock_info = s.info > 0 ? s.info : 0;
    return s.fd != -1;
}

int lite_file_lock_is_kept(lite_conn *conn)
{
    return is_first(conn->lock_fd) || shows_lock(conn->lock_info) || lite_file_lock_open(conn);
}
