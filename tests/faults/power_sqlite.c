/* SPDX-License-Identifier: MIT
 *
 * The power fails, and the host comes back with a wall clock that is an hour behind. Commits of
 * leases are not synced: what is left of the file is what was there at the last sync, which the
 * functions below keep a copy of. Locks are gone with their holders, but the fences that they had
 * must not be given again. */
#include "fault.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { LOCKS = 50 };

static char folder[512];
static int is_on; /* the power */

static void in_folder(char *out, size_t size, const char *name)
{
    snprintf(out, size, "%.500s/%s", folder, name);
}

static void copy(const char *from, const char *to)
{
    char source[600], target[600], bytes[65536];
    size_t n;
    FILE *in, *out;

    in_folder(source, sizeof(source), from);
    in_folder(target, sizeof(target), to);
    in = fopen(source, "rb");
    out = fopen(target, "wb");
    while (in != NULL && out != NULL && (n = fread(bytes, 1, sizeof(bytes), in)) > 0)
        fwrite(bytes, 1, n, out);
    if (in != NULL)
        fclose(in);
    if (out != NULL)
        fclose(out);
}

/* Both stand before those of libc. What was written before a sync may be there after a power
 * failure; here it is. */
static int synced(long rc)
{
    if (is_on) {
        copy("locks.db", "left.db");
        copy("locks.db-wal", "left.db-wal");
    }
    return (int)rc;
}

__attribute__((visibility("default"))) int fsync(int fd)
{
    return synced(syscall(SYS_fsync, fd));
}

__attribute__((visibility("default"))) int fdatasync(int fd)
{
    return synced(syscall(SYS_fdatasync, fd));
}

static int setup(void **state)
{
    char path[600];

    (void)state;
    snprintf(path, sizeof(path), "%.400s", fault.backend.address);
    *strrchr(path, '/') = '\0';
    snprintf(folder, sizeof(folder), "%.400s/XXXXXX", path);
    return mkdtemp(folder) != NULL ? 0 : -1;
}

static int teardown(void **state)
{
    char command[1200];

    (void)state;
    snprintf(command, sizeof(command), "rm -r '%s'", folder);
    return system(command);
}

static rowlock_client *open_file(const char *path)
{
    rowlock_options options = ROWLOCK_OPTIONS_INIT;

    options.schema_policy = ROWLOCK_SCHEMA_CREATE;
    return fault_open(path, &options);
}

/* The clock of the running boot is an hour ahead of the wall clock from now on. */
static void run_ahead(const char *path)
{
    char sql[200], ignored[8];

    snprintf(sql, sizeof(sql), "UPDATE %sclock SET boot_offset = boot_offset + 3600000000",
             fault.prefix);
    assert_int_equal(0, fault_sql_on(path, sql, ignored, sizeof(ignored)));
}

static void start_again(const char *path)
{
    char sql[200], ignored[8];

    snprintf(sql, sizeof(sql), "UPDATE %sclock SET boot = 'before'", fault.prefix);
    assert_int_equal(0, fault_sql_on(path, sql, ignored, sizeof(ignored)));
}

static uint64_t use(rowlock_client *client, const char *name)
{
    rowlock_lock *lock = fault_acquire(client, name, 60000);
    uint64_t fence = rowlock_fence(lock);

    fault_release(&lock);
    return fence;
}

static void fences_rise(void **state)
{
    char path[600], left[600];
    uint64_t last = 0;
    rowlock_client *client;

    (void)state;
    in_folder(path, sizeof(path), "locks.db");
    in_folder(left, sizeof(left), "left.db");
    client = open_file(path);
    use(client, "before");
    run_ahead(path);
    is_on = 1;
    for (int i = 0; i < LOCKS; i++)
        last = use(client, "lock");
    is_on = 0;
    rowlock_close(&client);

    assert_int_equal(0, access(left, F_OK));
    start_again(left);
    client = open_file(left);
    assert_true(use(client, "lock") > last);
    rowlock_close(&client);
}

/* The same with a forced release, which gives a fence, too. */
static void fences_of_forced_releases_rise(void **state)
{
    char path[600], left[600];
    rowlock_client *client;
    rowlock_lock *lock;
    struct fault_row row;
    rowlock_error err;

    (void)state;
    in_folder(path, sizeof(path), "locks.db");
    in_folder(left, sizeof(left), "left.db");
    client = open_file(path);
    lock = fault_acquire(client, "lock", 3 * 3600 * 1000);
    run_ahead(path);
    is_on = 1;
    assert_status(ROWLOCK_OK, rowlock_force_release(client, "lock", NULL, &err), &err);
    row = fault_row(client, "lock");
    is_on = 0;
    rowlock_release(&lock, &err);
    rowlock_close(&client);

    start_again(left);
    client = open_file(left);
    assert_true(use(client, "lock") > row.fence);
    rowlock_close(&client);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test_setup_teardown(fences_rise, setup, teardown),
        cmocka_unit_test_setup_teardown(fences_of_forced_releases_rise, setup, teardown),
    };
    return FAULT_MAIN(argc, argv, 0, cases);
}
