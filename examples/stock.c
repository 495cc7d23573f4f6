/* SPDX-License-Identifier: MIT
 *
 * A seller of the last items in stock. The stock is a number in a plain file; a sale reads it,
 * thinks for a moment, and writes one less: right for one process at a time, and only then.
 *
 *     stock FILE                 sells without a lock
 *     stock FILE LOCK-DATABASE   sells one at a time with all others that use the same database
 *
 * Prints a line for each sale: when the stock was read and when it was written, in microseconds,
 * and the fence of the lock (0 without). */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "rowlock/rowlock.h"
#include "rowlock/sqlite.h"

static long long now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (long long)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static void pause_ms(long least, long most)
{
    usleep((useconds_t)(least * 1000 + random() % ((most - least) * 1000)));
}

static int read_stock(const char *path)
{
    FILE *file = fopen(path, "r");
    int items = -1;

    if (!file || fscanf(file, "%d", &items) != 1)
        items = -1; /* somebody is writing it right now, or it is not there */
    if (file)
        fclose(file);
    return items;
}

static void write_stock(const char *path, int items)
{
    FILE *file = fopen(path, "w");

    if (!file)
        return;
    fprintf(file, "%d\n", items);
    fclose(file);
}

/* Sells one item. Returns what was left before, 0 if there was nothing to sell. */
static int sell(const char *path, uint64_t fence)
{
    long long start = now_us();
    int items = read_stock(path);

    if (items <= 0)
        return items;
    pause_ms(2, 5); /* think */
    write_stock(path, items - 1);
    printf("%lld %lld %" PRIu64 "\n", start, now_us(), fence);
    return items;
}

static int sell_unlocked(const char *path)
{
    int again = 1000; /* in case the file is not there at all */

    while (again > 0) {
        int items = sell(path, 0);

        if (items == 0)
            return 0;
        again -= items < 0;
        pause_ms(5, 25); /* the next customer comes */
    }
    return 1;
}

static int fail(const rowlock_error *err)
{
    fprintf(stderr, "stock: %s\n", err->message);
    return 1;
}

static int sell_locked(const char *path, rowlock_client *client)
{
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;
    rowlock_error err;
    int items = 1;

    options.ttl_ms = 5000; /* if we crash, the others go on after 5 s */
    options.wait_ms = ROWLOCK_FOREVER;
    options.note = "selling";
    while (items > 0) {
        rowlock_lock *lock;

        if (rowlock_acquire(&lock, client, "stock", &options, &err) != ROWLOCK_OK)
            return fail(&err);
        items = sell(path, rowlock_fence(lock));
        if (rowlock_release(&lock, &err) != ROWLOCK_OK)
            return fail(&err);
        pause_ms(5, 25);
    }
    return items == 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
    rowlock_options options = ROWLOCK_OPTIONS_INIT;
    rowlock_client *client;
    rowlock_error err;
    int result;

    if (argc != 2 && argc != 3) {
        fputs("usage: stock FILE [LOCK-DATABASE]\n", stderr);
        return 64;
    }
    srandom((unsigned)getpid());
    if (argc == 2)
        return sell_unlocked(argv[1]);
    options.schema_policy = ROWLOCK_SCHEMA_CREATE; /* the first one makes the tables */
    if (rowlock_open(&client, rowlock_sqlite(), argv[2], &options, &err) != ROWLOCK_OK)
        return fail(&err);
    result = sell_locked(argv[1], client);
    rowlock_close(&client);
    return result;
}
