/* SPDX-License-Identifier: MIT
 *
 * Clients that come and go leave nothing behind: the process has as many descriptors and threads as
 * before, and as much memory.
 *
 * Short: 300 clients on a server, 1,000 on SQLite. Long (watch_scene.h): 3,000 and 100,000. */
#include "watch_scene.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef __has_feature /* how clang says it */
#define __has_feature(name) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || \
    __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define IS_SANITIZED 1 /* keeps freed memory for a while, and what it knows about it */
#else
#define IS_SANITIZED 0
#endif

enum {
    SERVER_CLIENTS = 300,
    SQLITE_CLIENTS = 1000,
    SLOWED_CLIENTS = 30,
    LONG_FACTOR = 10,
    LONG_SQLITE_FACTOR = 100,
    WARM_UP_SHARE = 10, /* a tenth of the clients come before the first look */
    ROOM_KB = 1024,     /* some bytes for each client would be more, in the long form */
    PATIENCE_MS = 30000
};

/* ---- what the process has -------------------------------------------------------------------- */

struct usage {
    int descriptors, threads;
    long resident_kb;
};

static int count_descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    int n = 0;

    assert_non_null(folder);
    while (readdir(folder) != NULL)
        n++;
    closedir(folder);
    return n;
}

static long status_number(const char *word)
{
    FILE *file = fopen("/proc/self/status", "r");
    char line[256];
    long number = -1;

    assert_non_null(file);
    while (fgets(line, sizeof(line), file) != NULL) {
        if (strncmp(line, word, strlen(word)) == 0)
            number = strtol(line + strlen(word), NULL, 10);
    }
    fclose(file);
    assert_true(number > 0);
    return number;
}

static struct usage look(void)
{
    return (struct usage){.descriptors = count_descriptors(),
                          .threads = (int)status_number("Threads:"),
                          .resident_kb = status_number("VmRSS:")};
}

/* A thread that was joined is still listed until the kernel is through with it. */
static struct usage look_when_at_rest(const struct usage *before)
{
    int64_t until = process_now_ms() + PATIENCE_MS;
    struct usage now = look();

    while (now.threads > before->threads && process_now_ms() < until) {
        process_sleep_ms(1);
        now = look();
    }
    return now;
}

/* ---- the case -------------------------------------------------------------------------------- */

static void come_and_go(int clients)
{
    rowlock_acquire_options how = ROWLOCK_ACQUIRE_OPTIONS_INIT;
    rowlock_options options = ROWLOCK_OPTIONS_INIT;
    rowlock_error err;

    how.ttl_ms = PATIENCE_MS;
    how.renew = 1;
    options.call_timeout_ms = PATIENCE_MS;
    options.connect_timeout_ms = PATIENCE_MS;
    for (int i = 0; i < clients; i++) {
        rowlock_client *client = fault_open(fault.backend.address, &options);
        rowlock_lock *lock = NULL;

        assert_status(ROWLOCK_OK, rowlock_acquire(&lock, client, "flat", &how, &err), &err);
        assert_true(rowlock_lost_fd(lock, &err) >= 0);
        assert_status(ROWLOCK_OK, rowlock_release(&lock, &err), &err);
        rowlock_close(&client);
    }
}

static int clients_wanted(void)
{
    int is_sqlite = fault_is("sqlite");
    int clients = is_sqlite ? SQLITE_CLIENTS : SERVER_CLIENTS;

    if (watch_is_slowed())
        return SLOWED_CLIENTS;
    if (watch_is_long())
        clients *= is_sqlite ? LONG_SQLITE_FACTOR : LONG_FACTOR;
    return clients;
}

static void nothing_is_left_behind(void **state)
{
    int clients = clients_wanted();
    struct usage before, after;

    (void)state;
    come_and_go(clients / WARM_UP_SHARE);
    before = look();
    come_and_go(clients);
    after = look_when_at_rest(&before);
    print_message("%d clients: descriptors %d, then %d; threads %d, then %d; resident %ld kB, then "
                  "%ld kB\n",
                  clients, before.descriptors, after.descriptors, before.threads, after.threads,
                  before.resident_kb, after.resident_kb);
    assert_int_equal(before.descriptors, after.descriptors);
    assert_int_equal(before.threads, after.threads);
    if (!IS_SANITIZED && !watch_is_slowed())
        assert_in_range(after.resident_kb, 1, before.resident_kb + ROOM_KB);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest cases[] = {cmocka_unit_test(nothing_is_left_behind)};

    return FAULT_MAIN(argc, argv, 0, cases);
}
