/* SPDX-License-Identifier: MIT
 *
 * What the fault tests share: the backend under test, clients of it, straight or through a proxy,
 * and a look at the rows. Each program takes the driver's name as its argument and works on tables
 * with a prefix of its own. */
#ifndef TEST_FAULT_H
#define TEST_FAULT_H

/* cmocka wants these before itself */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "backend.h"
#include "process.h"
#include "proxy.h"
#include "rowlock/rowlock.h"

/* Calls may exceed their timeout by this much: scheduling on a busy machine. */
#define FAULT_SLACK_MS 2000

/* Names in the batches that are cut; enough for several network packets. */
enum { FAULT_BATCH = 100 };

struct fault {
    struct backend backend;
    char prefix[32];
    char proxied[1024]; /* the address through the proxy; empty without one */
    proxy *proxy;
};

extern struct fault fault;

/* Runs the cases on the backend argv[1] and returns the exit status. `with_proxy` nonzero: starts
 * fault.proxy in front of it, if it is a server. The tables are made before the first case and
 * dropped after the last. */
int fault_main(int argc, char **argv, int with_proxy, const struct CMUnitTest *cases, size_t n);
#define FAULT_MAIN(argc, argv, with_proxy, cases) \
    fault_main(argc, argv, with_proxy, cases, sizeof(cases) / sizeof((cases)[0]))

/* Is the backend under test of this kind? For counters that only it has. */
int fault_is(const char *driver);

/* A client with our prefix; asserts, after some tries to connect. The options may be NULL; prefix
 * and schema policy (unless it is set) are filled in. */
rowlock_client *fault_open(const char *address, const rowlock_options *options);

/* The same for threads and children: no assertion, the status instead. */
int fault_try_open(rowlock_client **out, const char *address, const rowlock_options *options,
                   rowlock_error *err);

/* Asserts that a call answered `expected`, and prints the error's message if not. */
#define assert_status(expected, status, err) \
    fault_assert_status(expected, status, err, __FILE__, __LINE__)
void fault_assert_status(int expected, int status, const rowlock_error *err, const char *file,
                         int line);

/* A row as a second client sees it. */
struct fault_row {
    int found; /* 0: no such row; 1: free; 2: held, by the rule: its lease ends in the future */
    uint64_t fence;
    uint32_t hold_count;
    int64_t remaining_ms;
    char owner[ROWLOCK_OWNER_MAX + 1];
};

/* Asks for one row; asserts that the question can be put. */
struct fault_row fault_row(rowlock_client *client, const char *name);

/* Shorthands that assert success; acquiring, after some tries to connect. */
rowlock_lock *fault_acquire(rowlock_client *client, const char *name, int64_t ttl_ms);
void fault_release(rowlock_lock **lock);

/* While a lock is held: opens the connection that calls use beside the one that is reserved. */
void fault_open_another(rowlock_client *client);

/* A name that was not used before in this process. Valid until eight more have been asked for. */
const char *fault_name(const char *what);

/* FAULT_BATCH names of that kind, in byte order. */
struct fault_batch {
    char text[FAULT_BATCH][64];
    const char *names[FAULT_BATCH];
    rowlock_lock *locks[FAULT_BATCH];
};
void fault_batch_init(struct fault_batch *batch, const char *what);

/* Copies a server's address with parts of it replaced (NULL, 0: kept). 0, or -1 if the address is
 * not scheme://[user[:password]@]host[:port]/database[?options]. */
struct fault_address {
    const char *user, *password, *host, *database;
    int port;
};
int fault_address(char *out, size_t size, const char *address, const struct fault_address *change);

/* One statement in a plain session of the client library's, the tables' names written as {locks},
 * {waiters} and {schema}. fault_sql() asserts success; the number is that of the last field of the
 * first row.
 */
void fault_sql(const char *sql);
long long fault_sql_number(const char *sql);
void fault_sql_text(char *out, size_t size, const char *sql);
int fault_sql_on(const char *address, const char *sql, char *out, size_t size);

#endif
