/* SPDX-License-Identifier: MIT
 *
 * SQLite files that cannot be used: no such folder, not writable, not a database, no room, on a
 * network file system. */
#include "fault.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { NOBODY = 65534 };

static char folder[512];

/* What a child tells its parent. */
struct report {
    int status, opened;
    long grants;
    char message[240];
    char path[600];
};

static struct report *report;

static int setup(void **state)
{
    char path[600];

    (void)state;
    snprintf(path, sizeof(path), "%.400s", fault.backend.address);
    *strrchr(path, '/') = '\0';
    snprintf(folder, sizeof(folder), "%.400s/XXXXXX", path);
    report = process_shared(sizeof(*report));
    return mkdtemp(folder) != NULL && chmod(folder, 0755) == 0 && report != NULL ? 0 : -1;
}

static int teardown(void **state)
{
    char command[1200];

    (void)state;
    process_unshare(report, sizeof(*report));
    snprintf(command, sizeof(command), "chmod -R u+w '%s' && rm -r '%s'", folder, folder);
    return system(command);
}

/* Stands before that of libc: every folder is of this kind, unless it is 0. */
static unsigned long file_system;

int statfs(const char *path, struct statfs *out)
{
    long rc = syscall(SYS_statfs, path, out);

    if (rc == 0 && file_system != 0)
        out->f_type = (__typeof__(out->f_type))file_system;
    return (int)rc;
}

static void in_folder(char *out, size_t size, const char *name)
{
    snprintf(out, size, "%s/%s", folder, name);
}

static void assert_refused(const char *path, const char *word)
{
    rowlock_options options = ROWLOCK_OPTIONS_INIT;
    rowlock_client *client = NULL;
    rowlock_error err;

    options.schema_policy = ROWLOCK_SCHEMA_CREATE;
    assert_status(ROWLOCK_ECONNECT, fault_try_open(&client, path, &options, &err), &err);
    assert_null(client);
    assert_null(strchr(err.message, '\n'));
    if (strstr(err.message, word) == NULL)
        fail_msg("\"%s\" does not hold \"%s\"", err.message, word);
}

static void make_tables(const char *path)
{
    rowlock_options options = ROWLOCK_OPTIONS_INIT;
    rowlock_client *client;

    options.schema_policy = ROWLOCK_SCHEMA_CREATE;
    client = fault_open(path, &options);
    rowlock_close(&client);
}

static void missing_folder(void **state)
{
    char path[600];
    struct stat st;

    (void)state;
    in_folder(path, sizeof(path), "none/locks.db");
    assert_refused(path, "none/locks.db");
    in_folder(path, sizeof(path), "none");
    assert_int_equal(-1, stat(path, &st));
}

/* Who only looks, or mistypes the path, leaves no file behind. */
static void missing_file_is_not_made(void **state)
{
    rowlock_client *client = NULL;
    rowlock_options options = ROWLOCK_OPTIONS_INIT;
    rowlock_error err;
    char path[1200];

    (void)state;
    in_folder(path, sizeof(path), "typo.db");
    options.schema_policy = ROWLOCK_SCHEMA_REQUIRE;
    options.prefix = fault.prefix;
    assert_status(ROWLOCK_ESCHEMA,
                  rowlock_open(&client, fault.backend.driver, path, &options, &err), &err);
    assert_non_null(strstr(err.message, path));
    assert_non_null(strstr(err.message, "migrate up"));
    assert_int_not_equal(access(path, F_OK), 0);
}

static void a_folder_instead(void **state)
{
    (void)state;
    assert_refused(folder, folder);
}

static void not_a_database(void **state)
{
    char path[600], before[8192], after[8192];
    FILE *file;

    (void)state;
    memset(before, 'x', sizeof(before));
    in_folder(path, sizeof(path), "text.db");
    file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(sizeof(before), fwrite(before, 1, sizeof(before), file));
    fclose(file);
    assert_refused(path, "text.db");
    file = fopen(path, "rb");
    assert_int_equal(sizeof(after), fread(after, 1, sizeof(after), file));
    fclose(file);
    assert_memory_equal(before, after, sizeof(before));
}

/* ---- permissions: in a child that is not root ------------------------------------------------ */

static int open_as_nobody(void *payload)
{
    rowlock_options options = ROWLOCK_OPTIONS_INIT;
    rowlock_client *client = NULL;
    rowlock_lock *lock = NULL;
    rowlock_error err;

    if (getuid() == 0 && (setgid(NOBODY) != 0 || setuid(NOBODY) != 0))
        return 1;
    options.schema_policy = *(int *)payload;
    report->status = fault_try_open(&client, report->path, &options, &err);
    report->opened = report->status == ROWLOCK_OK;
    if (report->opened)
        report->status = rowlock_acquire(&lock, client, "nobody", NULL, &err);
    snprintf(report->message, sizeof(report->message), "%s", err.message);
    return 0;
}

static void assert_nobody_is_refused(int policy)
{
    assert_int_equal(0, process_wait(process_start(open_as_nobody, &policy), 20000));
    if (report->status != ROWLOCK_ECONNECT || report->opened)
        print_error("opened %d, status %d: %s\n", report->opened, report->status, report->message);
    assert_int_equal(0, report->opened);
    assert_int_equal(ROWLOCK_ECONNECT, report->status);
    assert_non_null(strstr(report->message, report->path));
}

static void folder_not_writable(void **state)
{
    struct stat st;

    (void)state;
    assert_int_equal(0, chmod(folder, 0555));
    in_folder(report->path, sizeof(report->path), "new.db");
    assert_nobody_is_refused(ROWLOCK_SCHEMA_CREATE);
    assert_int_equal(-1, stat(report->path, &st));
}

static void file_not_writable(void **state)
{
    (void)state;
    in_folder(report->path, sizeof(report->path), "locks.db");
    make_tables(report->path);
    assert_int_equal(0, chmod(report->path, 0444));
    assert_nobody_is_refused(ROWLOCK_SCHEMA_REQUIRE);
    assert_int_equal(0, chmod(folder, 0777)); /* the folder is, the file is not */
    assert_nobody_is_refused(ROWLOCK_SCHEMA_REQUIRE);
}

static void file_not_readable(void **state)
{
    (void)state;
    in_folder(report->path, sizeof(report->path), "locks.db");
    make_tables(report->path);
    assert_int_equal(0, chmod(report->path, 0000));
    assert_nobody_is_refused(ROWLOCK_SCHEMA_REQUIRE);
}

/* ---- no room --------------------------------------------------------------------------------- */

/* Files may not grow beyond a limit: writes fail as on a full disk. */
static int fill(void *payload)
{
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;
    struct rlimit limit = {.rlim_cur = 200000, .rlim_max = 200000};
    static char note[ROWLOCK_NOTE_MAX + 1];
    rowlock_client *client = NULL;
    rowlock_error err;

    (void)payload;
    memset(note, 'n', ROWLOCK_NOTE_MAX);
    options.note = note;
    options.ttl_ms = 300000;
    signal(SIGXFSZ, SIG_IGN);
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0)
        return 1;
    report->status = fault_try_open(&client, report->path, NULL, &err);
    for (int i = 0; i < 5000 && report->status == ROWLOCK_OK; i++) {
        rowlock_lock *lock = NULL;
        char name[32];
        snprintf(name, sizeof(name), "full-%05d", i);
        report->status = rowlock_acquire(&lock, client, name, &options, &err);
        report->grants += report->status == ROWLOCK_OK;
        if ((report->status == ROWLOCK_OK) != (lock != NULL))
            return 2;
    }
    snprintf(report->message, sizeof(report->message), "%s", err.message);
    return 0;
}

static int count_rows(const rowlock_row *row, void *payload)
{
    (void)row;
    *(long *)payload += 1;
    return 0;
}

/* All that was granted is there and nothing else, and the file is as good as before. */
static void disk_full(void **state)
{
    rowlock_client *client;
    rowlock_lock *lock;
    rowlock_error err;
    long rows = 0;

    (void)state;
    in_folder(report->path, sizeof(report->path), "locks.db");
    make_tables(report->path);
    assert_int_equal(0, process_wait(process_start(fill, NULL), 60000));
    print_message("%ld grants, then %d: %s\n", report->grants, report->status, report->message);
    assert_true(report->grants > 0 && report->grants < 5000);
    assert_int_equal(ROWLOCK_EDRIVER, report->status);
    assert_int_not_equal(0, report->message[0]);
    client = fault_open(report->path, NULL);
    assert_status(ROWLOCK_OK, rowlock_list(client, NULL, count_rows, &rows, &err), &err);
    assert_int_equal(report->grants, rows);
    lock = fault_acquire(client, "room again", 0);
    fault_release(&lock);
    rowlock_close(&client);
}

static int note_file(const rowlock_finding *finding, void *payload)
{
    if (strcmp(finding->subject, "file") == 0)
        *(int *)payload = finding->grade;
    return 0;
}

static void network_file_system(void **state)
{
    /* NFS, CIFS, 9P, Ceph */
    static const unsigned long kinds[] = {0x6969, 0xff534d42, 0x01021997, 0x00c36400};
    rowlock_client *client;
    rowlock_error err;
    char path[600];
    int grade = -1;

    (void)state;
    in_folder(path, sizeof(path), "locks.db");
    make_tables(path);
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        file_system = kinds[i];
        assert_refused(path, "network file system");
    }
    file_system = 0x65735546; /* FUSE: that may be anything */
    client = fault_open(path, NULL);
    assert_status(ROWLOCK_OK, rowlock_diagnose(client, note_file, &grade, &err), &err);
    file_system = 0;
    assert_int_equal(ROWLOCK_GRADE_WARNING, grade);
    assert_status(ROWLOCK_OK, rowlock_diagnose(client, note_file, &grade, &err), &err);
    assert_int_equal(ROWLOCK_GRADE_GOOD, grade);
    rowlock_close(&client);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test_setup_teardown(missing_folder, setup, teardown),
        cmocka_unit_test_setup_teardown(missing_file_is_not_made, setup, teardown),
        cmocka_unit_test_setup_teardown(a_folder_instead, setup, teardown),
        cmocka_unit_test_setup_teardown(not_a_database, setup, teardown),
        cmocka_unit_test_setup_teardown(folder_not_writable, setup, teardown),
        cmocka_unit_test_setup_teardown(file_not_writable, setup, teardown),
        cmocka_unit_test_setup_teardown(file_not_readable, setup, teardown),
        cmocka_unit_test_setup_teardown(disk_full, setup, teardown),
        cmocka_unit_test_setup_teardown(network_file_system, setup, teardown),
    };
    return FAULT_MAIN(argc, argv, 0, cases);
}
