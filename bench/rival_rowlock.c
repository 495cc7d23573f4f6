/* SPDX-License-Identifier: MIT
 *
 * rowlock as an application uses it: one client for all threads of a process, default options. */
#include <rowlock/mysql.h>
#include <rowlock/postgresql.h>
#include <rowlock/rowlock.h>
#include <rowlock/sqlite.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "my.h"

enum { STATS_EVERY_MS = 100 }; /* until something was renewed */
enum { HOLDS = 2 };            /* of one session at a time: a lock and its re-entry */

/* Of all threads of a process. */
typedef struct house {
    rowlock_client *client;
    rowlock_lock **many; /* of hold() */
    size_t held;
} house;

typedef struct session {
    house *house;
    rowlock_client *client;
    rowlock_lock *locks[HOLDS];
    int n;
    uint64_t renewed;
} session;

static int failed(const rowlock_error *err)
{
    return bench_fail("%s: %s", rowlock_strstatus(err->status), err->message);
}

static const rowlock_driver *driver_of(const bench_rival *rival)
{
    const rowlock_driver *(*driver)(void) = *(const rowlock_driver *(*const *)(void))rival->detail;

    return driver();
}

/* SQLite's address is a file in the folder. */
static void address_of(char *out, size_t size, const bench_rival *rival)
{
    const char *address = bench_address(rival->server);

    if (address != NULL)
        snprintf(out, size, "%s", address);
    else
        snprintf(out, size, "%s/rowlock.db", bench_folder());
}

static int open_client(rowlock_client **out, const bench_rival *rival, rowlock_options *options)
{
    rowlock_error err;
    char address[500];

    address_of(address, sizeof address, rival);
    options->prefix = rival->table;
    options->durability = rival->is_relaxed ? ROWLOCK_RELAXED : ROWLOCK_DURABLE;
    options->spin_us = rival->is_sleeping ? ROWLOCK_SPIN_NEVER : 0;
    if (rowlock_open(out, driver_of(rival), address, options, &err) != ROWLOCK_OK)
        return failed(&err);
    return BENCH_OK;
}

static int setup(const bench_rival *rival)
{
    rowlock_options options = ROWLOCK_OPTIONS_INIT;
    rowlock_client *client;

    options.schema_policy = ROWLOCK_SCHEMA_CREATE;
    if (open_client(&client, rival, &options) != BENCH_OK)
        return BENCH_FAILED;
    rowlock_close(&client);
    return BENCH_OK;
}

static int start(void **shared, const bench_rival *rival)
{
    rowlock_options options = ROWLOCK_OPTIONS_INIT;
    house *h = calloc(1, sizeof *h);

    *shared = h;
    return open_client(&h->client, rival, &options);
}

/* Closing the client releases what is held, in one batch; the handles are left. */
static void stop(void *shared)
{
    house *h = shared;

    rowlock_close(&h->client);
    for (size_t i = 0; i < h->held; i++)
        rowlock_release(&h->many[i], NULL);
    free(h->many);
    free(h);
}

static int open_session(void **out, const bench_rival *rival, void *shared)
{
    session *s = calloc(1, sizeof *s);

    (void)rival;
    s->house = shared;
    s->client = s->house->client;
    *out = s;
    return BENCH_OK;
}

static int acquire(void *state, const char *name, int waits)
{
    session *s = state;
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;
    rowlock_error err;
    int status;

    options.wait_ms = waits ? BENCH_WAIT_MS : 0;
    if (s->n == HOLDS)
        return bench_fail("a session holds no more than %d", HOLDS);
    status = rowlock_acquire(&s->locks[s->n], s->client, name, &options, &err);
    if (status == ROWLOCK_BUSY)
        return BENCH_BUSY;
    if (status != ROWLOCK_OK)
        return failed(&err);
    s->n++;
    return BENCH_OK;
}

static int release(void *state, const char *name)
{
    session *s = state;
    rowlock_error err;

    (void)name;
    return rowlock_release(&s->locks[--s->n], &err) == ROWLOCK_OK ? BENCH_OK : failed(&err);
}

static void close_session(void *state)
{
    session *s = state;
    rowlock_error err;

    while (s->n > 0)
        rowlock_release(&s->locks[--s->n], &err);
    free(s);
}

/* ---- many, renewed in the background ---- */

static int hold(void *state, size_t n, int ttl_ms)
{
    session *s = state;
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;
    rowlock_error err;
    char(*texts)[32] = calloc(n, sizeof *texts);
    const char **names = calloc(n, sizeof *names);
    int status = ROWLOCK_OK;

    for (size_t i = 0; i < n; i++) {
        snprintf(texts[i], sizeof texts[i], "held-%zu", i);
        names[i] = texts[i];
    }
    options.ttl_ms = ttl_ms;
    options.renew = 1;
    s->house->many = calloc(n, sizeof *s->house->many);
    s->house->held = n;
    for (size_t i = 0; i < n && status == ROWLOCK_OK; i += ROWLOCK_BATCH_MAX)
        status = rowlock_acquire_many(s->house->many + i, s->client, names + i,
                                      n - i < ROWLOCK_BATCH_MAX ? n - i : ROWLOCK_BATCH_MAX,
                                      &options, &err);
    free(names);
    free(texts);
    return status == ROWLOCK_OK ? BENCH_OK : failed(&err);
}

/* Until something was renewed. */
static int renew(void *state, uint64_t *renewed)
{
    session *s = state;
    const struct timespec pause = {0, STATS_EVERY_MS * 1000000};
    rowlock_counters counters = ROWLOCK_COUNTERS_INIT;
    rowlock_error err;

    for (int i = 0; i < BENCH_WAIT_MS / STATS_EVERY_MS; i++) {
        if (rowlock_stats(&counters, s->client, &err) != ROWLOCK_OK)
            return failed(&err);
        if (counters.lost > 0)
            return bench_fail("%llu locks were lost", (unsigned long long)counters.lost);
        if (counters.renewed > s->renewed)
            break;
        nanosleep(&pause, NULL);
    }
    *renewed = counters.renewed - s->renewed;
    s->renewed = counters.renewed;
    return BENCH_OK;
}

static int look(void *state)
{
    session *s = state;
    rowlock_counters counters = ROWLOCK_COUNTERS_INIT;
    rowlock_error err;

    if (rowlock_stats(&counters, s->client, &err) != ROWLOCK_OK)
        return failed(&err);
    return counters.held == s->house->held ? BENCH_OK : bench_fail("some are not held");
}

/* See stop(). */
static int drop(void *state)
{
    (void)state;
    return BENCH_OK;
}

static int reap(void *state, uint64_t *rows)
{
    session *s = state;
    rowlock_reap_options options = ROWLOCK_REAP_OPTIONS_INIT;
    rowlock_error err;

    options.retention_ms = 60000;
    return rowlock_reap(rows, s->client, &options, &err) == ROWLOCK_OK ? BENCH_OK : failed(&err);
}

static const rowlock_driver *(*const postgresql)(void) = rowlock_postgresql;
static const rowlock_driver *(*const mysql)(void) = rowlock_mysql;
static const rowlock_driver *(*const sqlite)(void) = rowlock_sqlite;

#define ROWLOCK_SLOTS                                                                           \
    .setup = setup, .start = start, .stop = stop, .open = open_session, .close = close_session, \
    .acquire = acquire, .release = release, .hold = hold, .renew = renew, .drop = drop,         \
    .look = look, .is_paced = 1, .reap = reap

enum {
    LOADS = BENCH_WAITING | IN(LOAD_REENTRY) | IN(LOAD_RENEW) | IN(LOAD_BESIDE) | IN(LOAD_TABLE) |
            IN(LOAD_REAP)
};

const bench_rival bench_rowlock_sqlite = {
    .name = "rowlock sqlite",
    .server = "SQLITE",
    .floor = "floor sqlite",
    .loads = LOADS,
    .detail = &sqlite,
    .fill = bench_fill_sqlite,
    ROWLOCK_SLOTS,
};
const bench_rival bench_rowlock_postgresql = {
    .name = "rowlock postgresql",
    .server = "POSTGRESQL",
    .floor = "floor postgresql",
    .loads = LOADS,
    .detail = &postgresql,
    .fill = bench_fill_postgresql,
    ROWLOCK_SLOTS,
};
const bench_rival bench_rowlock_relaxed = {
    .name = "rowlock relaxed",
    .server = "POSTGRESQL",
    .floor = "floor postgresql",
    .loads = BENCH_WAITING | IN(LOAD_REENTRY) | IN(LOAD_RENEW),
    .detail = &postgresql,
    .is_relaxed = 1,
    ROWLOCK_SLOTS,
};
const bench_rival bench_rowlock_sleeping = {
    .name = "rowlock sleeping",
    .server = "POSTGRESQL",
    .floor = "floor postgresql",
    .loads = IN(LOAD_CYCLE),
    .detail = &postgresql,
    .is_sleeping = 1,
    ROWLOCK_SLOTS,
};
const bench_rival bench_rowlock_mariadb = {
    .name = "rowlock mariadb",
    .server = "MARIADB",
    .floor = "floor mariadb",
    .loads = LOADS,
    .detail = &mysql,
    .fill = bench_fill_mysql,
    .statements = my_statements,
    ROWLOCK_SLOTS,
};
const bench_rival bench_rowlock_mysql = {
    .name = "rowlock mysql",
    .server = "MYSQL",
    .floor = "floor mysql",
    .loads = LOADS,
    .detail = &mysql,
    .fill = bench_fill_mysql,
    ROWLOCK_SLOTS,
};
