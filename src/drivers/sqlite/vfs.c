/* SPDX-License-Identifier: MIT
 *
 * How a connection locks its file. SQLite can be told to do so by other means than everybody else,
 * which then exclude nobody, or not at all. */
#include <string.h>

#include "lite.h"

/* "unix" takes the kernel's locks; so do layers above it that say so, as in "cksmvfs/unix". */
static int takes_kernel_locks(const char *name)
{
    size_t length = strlen(name);

    if (length < 4 || strcmp(name + length - 4, "unix") != 0)
        return 0;
    return length == 4 || name[length - 5] == '/';
}

static int check_name(sqlite3 *db, const char *schema, int status, rowlock_error *err)
{
    sqlite3_vfs *vfs = NULL;
    char *full = NULL; /* with the layers */
    const char *name;
    int rc = ROWLOCK_OK;

    sqlite3_file_control(db, schema, SQLITE_FCNTL_VFSNAME, &full);
    sqlite3_file_control(db, schema, SQLITE_FCNTL_VFS_POINTER, &vfs);
    name = full != NULL ? full : vfs != NULL ? vfs->zName : "?";
    if (!takes_kernel_locks(name))
        rc = rlk_fail(err, status,
                      "the connection uses SQLite's VFS %s, whose locks do not exclude those who "
                      "use the usual one: open the file with the VFS unix",
                      name);
    sqlite3_free(full);
    return rc;
}

int lite_check_vfs(sqlite3 *db, const char *schema, int status, rowlock_error *err)
{
    static const char *const parameters[] = {"nolock", "immutable"};
    const char *file = sqlite3_db_filename(db, schema);

    for (size_t i = 0; i < sizeof parameters / sizeof *parameters; i++) {
        if (sqlite3_uri_boolean(file, parameters[i], 0))
            return rlk_fail(err, status,
                            "the connection was opened with %s=1, so that SQLite takes no locks on "
                            "the file: open it without",
                            parameters[i]);
    }
    return check_name(db, schema, status, err);
}
