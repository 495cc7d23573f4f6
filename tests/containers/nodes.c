/* SPDX-License-Identifier: MIT
 *
 * containers_nodes SECONDS ADDRESS...: threads on several nodes of one cluster fight for one lock.
 * Prints what they saw: "grants N, refused N, errors N, together N, fallen N", with the first error
 * behind it; ends with 0 if nobody ever held it together with another, and no fence fell. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "process.h"
#include "rowlock/mysql.h"
#include "rowlock/rowlock.h"

enum { THREADS = 2, NODES_MAX = 8, TTL_MS = 10000 };

static atomic_int holders;
static _Atomic uint64_t last_fence;
static int64_t until_ms;

struct fighter {
    pthread_t thread;
    rowlock_client *client;
    long grants, refused, errors, together, fallen;
    char message[240];
};

static void hold(struct fighter *f, rowlock_lock *lock)
{
    f->grants++;
    f->together += atomic_fetch_add(&holders, 1) != 0;
    f->fallen += atomic_exchange(&last_fence, rowlock_fence(lock)) >= rowlock_fence(lock);
    process_sleep_ms(1);
    atomic_fetch_sub(&holders, 1);
}

static void complain(struct fighter *f, const rowlock_error *err)
{
    if (f->errors++ == 0)
        snprintf(f->message, sizeof(f->message), "%s", err->message);
}

static void *fight(void *argument)
{
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;
    struct fighter *f = argument;

    options.ttl_ms = TTL_MS;
    while (process_now_ms() < until_ms) {
        rowlock_lock *lock = NULL;
        rowlock_error err;
        int status = rowlock_acquire(&lock, f->client, "nodes", &options, &err);

        if (status == ROWLOCK_OK) {
            hold(f, lock);
            if (rowlock_release(&lock, &err) != ROWLOCK_OK)
                complain(f, &err);
        } else if (status == ROWLOCK_BUSY) {
            f->refused++;
            process_sleep_ms(1);
        } else {
            complain(f, &err);
        }
    }
    return NULL;
}

static int open_node(rowlock_client **out, const char *address)
{
    rowlock_options options = ROWLOCK_OPTIONS_INIT;
    rowlock_error err;

    options.schema_policy = ROWLOCK_SCHEMA_CREATE;
    if (rowlock_open(out, rowlock_mysql(), address, &options, &err) == ROWLOCK_OK)
        return 0;
    fprintf(stderr, "%s\n", err.message);
    return -1;
}

static int report(const struct fighter *fighters, int n)
{
    struct fighter all = {0};

    for (int i = 0; i < n; i++) {
        all.grants += fighters[i].grants;
        all.refused += fighters[i].refused;
        all.errors += fighters[i].errors;
        all.together += fighters[i].together;
        all.fallen += fighters[i].fallen;
        if (all.message[0] == '\0')
            memcpy(all.message, fighters[i].message, sizeof(all.message));
    }
    printf("grants %ld, refused %ld, errors %ld, together %ld, fallen %ld %s\n", all.grants,
           all.refused, all.errors, all.together, all.fallen, all.message);
    return all.grants == 0 || all.together > 0 || all.fallen > 0;
}

int main(int argc, char **argv)
{
    static struct fighter fighters[NODES_MAX * THREADS];
    rowlock_client *clients[NODES_MAX] = {NULL};
    int nodes = argc - 2, started = 0, failed;

    if (nodes < 1 || nodes > NODES_MAX)
        return 2;
    for (int i = 0; i < nodes; i++) {
        if (open_node(&clients[i], argv[i + 2]) != 0)
            return 1;
    }
    until_ms = process_now_ms() + 1000 * atoi(argv[1]);
    for (; started < nodes * THREADS; started++) {
        fighters[started].client = clients[started % nodes];
        if (pthread_create(&fighters[started].thread, NULL, fight, &fighters[started]) != 0)
            break;
    }
    for (int i = 0; i < started; i++)
        pthread_join(fighters[i].thread, NULL);
    failed = report(fighters, started);
    for (int i = 0; i < nodes; i++)
        rowlock_close(&clients[i]);
    return failed;
}
