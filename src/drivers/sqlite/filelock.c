/* SPDX-License-Identifier: MIT
 *
 * Does this process have the lock on the file that SQLite believes it has?
 *
 * As long as a connection has a log open, or reads, SQLite has a shared lock on the file, one for
 * all its connections in the process, and others may not remove the log. But such a lock is the
 * process's: a child that was forked meanwhile has SQLite's notes of it, and not the lock; and
 * whoever closes any descriptor of the file drops it. SQLite notices neither. The kernel tells, in
 * /proc/self/fdinfo, which locks this process has through a descriptor. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fcntl.h>

#include "lite.h"

#define SHARED_FIRST 0x40000002LL /* of SQLite's file format, and so are the others */
#define SHARED_SIZE  510

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

/* The descriptor through which this process has the lock; -1: none. *out: its fdinfo. */
static int find_lock(int *out, const struct stat *file)
{
    DIR *folder = opendir("/proc/self/fd");
    const struct dirent *entry;
    int found = -1;

    while (folder != NULL && found == -1 && (entry = readdir(folder)) != NULL) {
        int fd = atoi(entry->d_name), info; /* "." and ".." are 0: harmless */
        struct stat other;

        if (fstat(fd, &other) != 0 || other.st_dev != file->st_dev || other.st_ino != file->st_ino)
            continue;
        info = open_info(fd);
        if (info >= 0 && shows_lock(info)) {
            found = fd;
            *out = info;
        } else if (info >= 0) {
            close(info);
        }
    }
    if (folder != NULL)
        closedir(folder);
    return found;
}

/* The first of all locks that an owner other than the descriptor has, and this process is one: a
 * quick answer if it is the only one that uses the file, or has done so for longest. */
static int is_first(int fd)
{
    struct flock lock = {
        .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = SHARED_FIRST, .l_len = SHARED_SIZE};

    return fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK && lock.l_pid == getpid();
}

int lite_has_file_lock(const char *path)
{
    struct stat file;
    int info = -1;

    if (path == NULL || stat(path, &file) != 0 || find_lock(&info, &file) == -1)
        return 0;
    close(info);
    return 1;
}

void lite_file_lock_close(lite_conn *conn)
{
    if (conn->lock_info > 0)
        close(conn->lock_info);
    conn->lock_info = 0;
}

int lite_file_lock_open(lite_conn *conn)
{
    struct stat file;
    const char *path = sqlite3_db_filename(conn->db, "main");

    lite_file_lock_close(conn);
    if (stat(path, &file) == 0)
        conn->lock_fd = find_lock(&conn->lock_info, &file);
    return conn->lock_info > 0;
}

int lite_file_lock_is_kept(lite_conn *conn)
{
    return is_first(conn->lock_fd) || shows_lock(conn->lock_info) || lite_file_lock_open(conn);
}
