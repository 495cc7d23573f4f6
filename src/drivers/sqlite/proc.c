/* SPDX-License-Identifier: MIT
 *
 * What the kernel says of this process and its files, in /proc. A container manager may have
 * mounted a file of its own over one there: such a file is not the kernel's, and is not read. */
#include <errno.h>
#include <linux/magic.h>
#include <stdio.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <fcntl.h>

#include "lite.h"

enum { LINE_SIZE = 256 };

FILE *lite_proc_open(const char *path)
{
    struct statfs info;
    FILE *file = fopen(path, "re");

    if (file == NULL || (fstatfs(fileno(file), &info) == 0 && info.f_type == PROC_SUPER_MAGIC))
        return file;
    fclose(file);
    errno = EMEDIUMTYPE;
    return NULL;
}

/* Of the mount that a descriptor was opened through; -1 if it cannot be told. */
static long mount_of(int fd)
{
    char path[48], line[LINE_SIZE];
    long id = -1;
    FILE *file;

    snprintf(path, sizeof path, "/proc/self/fdinfo/%d", fd);
    file = lite_proc_open(path);
    if (file == NULL)
        return -1;
    while (id == -1 && fgets(line, sizeof line, file) != NULL) {
        if (sscanf(line, "mnt_id: %ld", &id) != 1)
            id = -1;
    }
    fclose(file);
    return id;
}

/* O_PATH: closing such a descriptor leaves alone the locks that SQLite has on the file. */
static long mount_of_path(const char *path, int flags)
{
    int fd = open(path, O_PATH | O_CLOEXEC | flags);
    long id = fd < 0 ? -1 : mount_of(fd);

    if (fd >= 0)
        close(fd);
    return id;
}

int lite_is_mount_point(int *out, const char *path)
{
    char folder[LITE_PATH_MAX];
    long own = mount_of_path(path, 0), above;

    lite_folder(folder, path);
    above = mount_of_path(folder, O_DIRECTORY);
    *out = own != above;
    return own != -1 && above != -1;
}
