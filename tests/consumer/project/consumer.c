/* SPDX-License-Identifier: MIT
 *
 * consumer FILE: takes and gives back one lock in a SQLite file. */
#include <stdio.h>
#include <string.h>

#include <rowlock/rowlock.h>
#include <rowlock/sqlite.h>
#ifdef HAVE_postgresql
#include <rowlock/postgresql.h>
#endif
#ifdef HAVE_mysql
#include <rowlock/mysql.h>
#endif

static int failed(const char *what, const rowlock_error *err)
{
    fprintf(stderr, "%s: %s (%d)\n", what, err->message, (int)err->status);
    return 1;
}

/* The other drivers are linked, too, and each knows its own tables. */
static int drivers_have_tables(void)
{
    int count = rowlock_migration_count(rowlock_sqlite());

#ifdef HAVE_postgresql
    count = count > 0 ? rowlock_migration_count(rowlock_postgresql()) : 0;
#endif
#ifdef HAVE_mysql
    count = count > 0 ? rowlock_migration_count(rowlock_mysql()) : 0;
#endif
    return count > 0;
}

int main(int argc, char **argv)
{
    rowlock_options options = ROWLOCK_OPTIONS_INIT;
    rowlock_client *client = NULL;
    rowlock_lock *lock = NULL;
    rowlock_error err;
    uint64_t fence;

    if (argc != 2 || !drivers_have_tables() || strcmp(rowlock_strstatus(0), "success") != 0)
        return 2;
    options.schema_policy = ROWLOCK_SCHEMA_CREATE;
    if (rowlock_open(&client, rowlock_sqlite(), argv[1], &options, &err) != ROWLOCK_OK)
        return failed("open", &err);
    if (rowlock_acquire(&lock, client, "job", NULL, &err) != ROWLOCK_OK)
        return failed("acquire", &err);
    fence = rowlock_fence(lock);
    if (fence == 0 || rowlock_check(lock) != ROWLOCK_OK)
        return 3;
    if (rowlock_release(&lock, &err) != ROWLOCK_OK)
        return failed("release", &err);
    rowlock_close(&client);
    puts("locked and released");
    return 0;
}
