/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <fcntl.h>

#include "lite.h"

static int starts_with(const char *string, const char *start)
{
    return strncmp(string, start, strlen(start)) == 0;
}

int lite_address(const char **path, const char *address, rowlock_error *err)
{
    *path = starts_with(address, "sqlite:") ? address + 7 : address;
    if (**path == '\0')
        return rlk_fail(err, ROWLOCK_EINVAL, "the address names no file: write sqlite:path");
    if (starts_with(*path, ":memory:"))
        return rlk_fail(err, ROWLOCK_EINVAL,
                        "locks need a file that others can open, not :memory:");
    if (starts_with(*path, "file:"))
        return rlk_fail(err, ROWLOCK_EINVAL,
                        "file: addresses are not supported: write sqlite:path");
    if (*path != address && starts_with(*path, "//") && (*path)[2] != '/')
        return rlk_fail(err, ROWLOCK_EINVAL,
                        "an SQLite address has no host: write sqlite:path or sqlite:///path");
    if (*path == address && strstr(address, "://") != NULL)
        return rlk_fail(err, ROWLOCK_EINVAL, "not an address for SQLite: write sqlite:path");
    if (strlen(*path) >= LITE_PATH_MAX)
        return rlk_fail(err, ROWLOCK_EINVAL, "the path is too long");
    return ROWLOCK_OK;
}

void lite_folder(char *out, const char *path)
{
    const char *slash = strrchr(path, '/');
    size_t length = slash == NULL ? 0 : (size_t)(slash - path) + 1;

    if (length == 0 || length >= LITE_PATH_MAX) {
        strcpy(out, ".");
        return;
    }
    memcpy(out, path, length);
    out[length] = '\0';
}

/* Where other hosts may have the same file open, whose clock and locks are not ours. */
static int is_network(const char *folder)
{
    static const unsigned long network[] = {NFS_SUPER_MAGIC,
                                            SMB_SUPER_MAGIC,
                                            0xff534d42 /* CIFS */,
                                            0xfe534d42 /* SMB2 */,
                                            V9FS_MAGIC,
                                            AFS_SUPER_MAGIC,
                                            AFS_FS_MAGIC,
                                            CODA_SUPER_MAGIC,
                                            NCP_SUPER_MAGIC,
                                            CEPH_SUPER_MAGIC,
                                            OCFS2_SUPER_MAGIC,
                                            0x01161970 /* GFS2 */,
                                            0x0bd00bd0 /* Lustre */,
                                            0x47504653 /* GPFS */};
    struct statfs info;

    if (statfs(folder, &info) != 0)
        return 0;
    for (size_t i = 0; i < sizeof network / sizeof *network; i++) {
        /* f_type is signed and of 32 bits on some machines. */
        if ((uint32_t)info.f_type == (uint32_t)network[i])
            return 1;
    }
    return 0;
}

/* SQLite finds the log and its index by the path, so that a file with two names has two of each:
 * who comes by the one name is not excluded by who came by the other. */
static int check_names(const char *path, rowlock_error *err)
{
    struct stat info;
    int is_mount_point;

    if (stat(path, &info) != 0)
        return errno == ENOENT ? ROWLOCK_OK
                               : rlk_fail(err, ROWLOCK_ECONNECT, "cannot look at %s: %s", path,
                                          strerror(errno));
    if (info.st_nlink > 1)
        return rlk_fail(err, ROWLOCK_ECONNECT,
                        "%s has more than one hard link, and by another name SQLite's locks do not "
                        "exclude: remove the other links",
                        path);
    if (!lite_is_mount_point(&is_mount_point, path))
        return rlk_fail(err, ROWLOCK_ECONNECT,
                        "cannot tell whether %s is a mount point: /proc/self/fdinfo: %s", path,
                        strerror(errno));
    if (is_mount_point)
        return rlk_fail(err, ROWLOCK_ECONNECT,
                        "%s is a mount point, and SQLite's locks do not exclude those who open the "
                        "file elsewhere: mount the folder that it is in",
                        path);
    return ROWLOCK_OK;
}

int lite_check_place(const char *path, rowlock_error *err)
{
    char folder[LITE_PATH_MAX];

    lite_folder(folder, path);
    if (is_network(folder))
        return rlk_fail(
            err, ROWLOCK_ECONNECT,
            "%s is on a network file system, where SQLite's locks are not safe: use a local "
            "disk",
            path);
    if (faccessat(AT_FDCWD, folder, W_OK | X_OK, AT_EACCESS) != 0)
        return rlk_fail(err, ROWLOCK_ECONNECT, "cannot write to the folder of %s: %s", path,
                        strerror(errno));
    return check_names(path, err);
}

int lite_check_path(const char *path, rowlock_error *err)
{
    char folder[LITE_PATH_MAX];
    struct stat info;

    if (stat(path, &info) == 0) {
        if (S_ISDIR(info.st_mode))
            return rlk_fail(err, ROWLOCK_ECONNECT, "%s is a folder: name a file in it", path);
        if (!S_ISREG(info.st_mode))
            return rlk_fail(err, ROWLOCK_ECONNECT, "%s is not a regular file", path);
        return ROWLOCK_OK;
    }
    if (errno != ENOENT)
        return rlk_fail(err, ROWLOCK_ECONNECT, "cannot open %s: %s", path, strerror(errno));
    lite_folder(folder, path);
    if (stat(folder, &info) != 0)
        return rlk_fail(err, ROWLOCK_ECONNECT, "the folder of %s does not exist: create it", path);
    return lite_check_place(path, err);
}
