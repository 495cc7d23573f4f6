/* SPDX-License-Identifier: MIT
 *
 * What the cases of the conformance suite share. Each case starts with empty tables and a
 * connection of the driver's; it asserts in the main thread only. */
#ifndef ROWLOCK_TESTS_CONFORMANCE_H
#define ROWLOCK_TESTS_CONFORMANCE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "backend.h"

#define CALL_MS      60000                    /* timeout of driver calls: none is about speed */
#define LONG_US      ((int64_t)600 * 1000000) /* a lease that no case outlives */
#define SHORT_US     ((int64_t)20 * 1000)     /* a lease to be outlived */
#define BRIEF_MS     200                      /* the same for hold_briefly() */
#define SLACK_US     ((int64_t)10 * 1000000)  /* how late a loaded machine may be */
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

struct fixture {
    const struct backend *backend;
    const rowlock_driver *driver;
    char prefix[32];            /* of this run's tables */
    void *conn;                 /* open in every case */
    void *others[4];            /* more connections of the case, closed after it */
    rowlock_client *clients[4]; /* likewise */
    rowlock_tx *txs[4];         /* for the case's transactions; those left are rolled back */
    void *sessions[8];          /* of sql_begin() and session_open(), likewise */
    int has_shop;               /* shop_open() was called */
    rowlock_error err;          /* of the last call */
};

/* ---- cases and suites ------------------------------------------------------------------------ */

struct test_case {
    const char *name;
    void (*run)(void **state);
    unsigned caps; /* runs where the backend has them all */
};

struct suite {
    const char *name;
    const struct test_case *cases;
    size_t count;
};

#define CASE(function)         \
    {                          \
#function, function, 0 \
    }
#define CASE_IF(function, caps)   \
    {                             \
#function, function, caps \
    }
#define SUITE(name, cases)        \
    {                             \
        name, cases, COUNT(cases) \
    }

extern const struct suite acquire_suite, release_suite, renew_suite, force_suite, reap_suite;
extern const struct suite list_suite, batch_suite, text_suite, schema_suite, open_suite;
extern const struct suite locked_suite, diagnose_suite;
extern const struct suite api_acquire_suite, api_hold_suite, api_wait_suite, api_many_suite;
extern const struct suite api_client_suite, api_tables_suite, api_look_suite, api_arguments_suite;
extern const struct suite steps_suite, api_combine_suite, after_free_suite;
extern const struct suite tx_prepare_suite, tx_lock_suite, tx_guard_suite;
extern const struct suite api_tx_suite, api_tx_wait_suite, api_tx_input_suite, api_modes_suite;
extern const struct suite api_native_suite, api_native_wait_suite, api_guard_suite;
extern const struct suite native_input_suite;
extern const struct suite queue_order_suite, queue_turn_suite, queue_bell_suite, queue_steps_suite;
extern const struct suite queue_look_suite, queue_list_suite, queue_heard_suite, queue_again_suite;
extern const struct suite queue_wait_suite, queue_marked_suite, queue_chain_suite;
extern const struct suite exchange_suite, exchange_twin_suite, exchange_beside_suite;
extern const struct suite exchange_hand_suite, clock_back_suite, floor_suite, late_suite;
extern const struct suite future_suite, between_suite, changed_suite;

/* ---- fixture --------------------------------------------------------------------------------- */

int case_setup(void **state);
int case_teardown(void **state);

/* Takes the tables of that connection to a version, step by step. What schema_apply returned. */
int tables_to(struct fixture *f, void *conn, int version);

/* Makes them anew; asserts. Their fences are the time, whatever cases before have left behind. */
void tables_anew(struct fixture *f);

/* A further connection, closed after the case, or by another_end(). */
void *another(struct fixture *f);
void another_end(struct fixture *f, void *conn);

/* A connection with its own address and prefix; `*conn` is memory to give to conn_end() in any
 * case. Returns what open returned. */
int conn_begin(struct fixture *f, void **conn, const char *address, const char *prefix);
void conn_end(struct fixture *f, void *conn);

/* Fails the case with the message of the error if the status is not as expected. */
void expect_status_(int expected, int got, const rowlock_error *err, const char *file, int line);
#define expect_status(expected, got, err) expect_status_(expected, got, err, __FILE__, __LINE__)
#define expect_ok(got, err)               expect_status_(ROWLOCK_OK, got, err, __FILE__, __LINE__)

/* low <= value <= high, with all three in the message. */
void expect_between_(int64_t value, int64_t low, int64_t high, const char *file, int line);
#define expect_between(value, low, high) expect_between_(value, low, high, __FILE__, __LINE__)

/* Runs the statement until it takes no longer than that, five times at most: whatever a loaded
 * machine adds, it adds to some of them. For statements that may be repeated; asserts. */
struct soon {
    int64_t bound_us, start_us;
    int tries;
};
int soon_again(struct soon *soon, const char *file, int line);
#define expect_soon(us, ...)                                                      \
    for (struct soon soon = {us, 0, 0}; soon_again(&soon, __FILE__, __LINE__);) { \
        __VA_ARGS__;                                                              \
    }

/* ---- driver calls of one operation ------------------------------------------------------------
 */

/* An operation with a fresh attempt, the long lease and no note. `name` ends at its NUL. */
rowlock_op op_new(const char *name, const char *owner);
rowlock_op op_bytes(const void *name, size_t length, const char *owner);

/* The same tenure as a granted op, with a fresh attempt: for renew, release, force_release. */
rowlock_op op_of(const rowlock_op *granted);

/* Call the slot, assert that the call as a whole is OK, and return the op's status. */
int try_acquire(struct fixture *f, void *conn, rowlock_op *op);
int try_renew(struct fixture *f, void *conn, rowlock_op *op);
int try_release(struct fixture *f, void *conn, rowlock_op *op);
int try_force(struct fixture *f, void *conn, rowlock_op *op);

/* Acquires and asserts that it was granted. */
rowlock_op grant(struct fixture *f, const char *name, const char *owner);
rowlock_op grant_for(struct fixture *f, const char *name, const char *owner, int64_t ttl_us);

/* Acquires with the short lease and returns when it has ended by the database's clock. */
rowlock_op grant_expired(struct fixture *f, const char *name, const char *owner);

/* Acquires and gives back. */
rowlock_op grant_released(struct fixture *f, const char *name, const char *owner);

/* One call of the slot. */
int reap_behind(struct fixture *f, uint64_t *out, rowlock_mark *mark, int64_t retention_us,
                uint32_t limit);

/* A pass over the table that ends when `limit` rows are deleted. How many; asserts. */
uint64_t reap(struct fixture *f, int64_t retention_us, uint64_t limit);

/* ---- arrays of operations -------------------------------------------------------------------- */

/* By name as driver.h asks for: memcmp, then length. */
void ops_sort(rowlock_op *ops, size_t n);
void ops_acquire(struct fixture *f, void *conn, rowlock_op *ops, size_t n, int all);
void ops_renew(struct fixture *f, void *conn, rowlock_op *ops, size_t n);
void ops_release(struct fixture *f, void *conn, rowlock_op *ops, size_t n);

/* BACKEND_EXCHANGE: n releases and m acquires. */
void ops_exchange(struct fixture *f, void *conn, rowlock_op *releases, size_t n,
                  rowlock_op *acquires, size_t m);

/* ---- what the tables hold -------------------------------------------------------------------- */

struct row {
    char name[ROWLOCK_NAME_MAX + 1], owner[ROWLOCK_OWNER_MAX + 1], note[ROWLOCK_NOTE_MAX + 1];
    size_t name_length;
    uint64_t fence;
    uint32_t hold_count;
    int64_t held_ms, remaining_ms;
};

struct rows {
    struct row *items;
    size_t count, capacity;
};

/* All rows, free ones too, through the driver's list slot. Free with rows_free(). */
struct rows rows_read(struct fixture *f);
struct rows rows_query(struct fixture *f, const void *starts_with, size_t length, int expired);
void rows_free(struct rows *rows);

/* The row of that name; fails the case if there is none. */
struct row row_of(struct fixture *f, const char *name);
int row_exists(struct fixture *f, const char *name);

/* Fails the case unless both hold the same rows: everything but the passing of time. */
void expect_same_rows(const struct rows *before, const struct rows *after);

/* Collects into a struct rows; a rowlock_row_fn. */
int rows_collect(const rowlock_row *row, void *rows);

/* ---- API level ------------------------------------------------------------------------------- */

/* A client on this run's tables, closed after the case. */
rowlock_client *client_open(struct fixture *f);
rowlock_client *client_open_as(struct fixture *f, const char *owner);

/* Closes now instead of after the case. */
void client_close(struct fixture *f, rowlock_client **client);

rowlock_lock *hold(struct fixture *f, rowlock_client *client, const char *name);
rowlock_lock *hold_for(struct fixture *f, rowlock_client *client, const char *name, int64_t ttl_ms);

/* For a lease that shall end soon. Clients refuse a grant that comes when its lease has ended: then
 * with twice as long a lease, and so on. *ttl_ms is the first to be tried, and tells the last;
 * NULL: BRIEF_MS. */
rowlock_lock *hold_briefly(struct fixture *f, rowlock_client *client, const char *name,
                           int64_t *ttl_ms);

/* Returns when the lease has ended by the database's clock. */
void outlive(struct fixture *f, const char *name);

void let_go(struct fixture *f, rowlock_lock **lock);

/* ---- time, and looking behind the driver's back -----------------------------------------------
 */

int64_t now_us(void);
void sleep_us(int64_t us);

/* Until another thread has set it. */
void await_flag(atomic_int *flag);

/* BACKEND_SQL: one statement in a session of its own, tables written as in migrations/. */
void sql_run(struct fixture *f, const char *sql, char *out, size_t size);
void *sql_begin(struct fixture *f);
void sql_in(struct fixture *f, void *session, const char *sql);
void sql_end(struct fixture *f, void *session);

/* Takes a session over that was opened otherwise: closed after the case, or by sql_end(). */
void session_keep(struct fixture *f, void *session);

/* ---- transactions: an application's sessions and table ----------------------------------------
 */

/* A table of the application's for this case, with a column of numbers; removed after it. */
void shop_open(struct fixture *f);
int shop_add(struct fixture *f, void *session, int number); /* what sql_run returned */
int shop_has(struct fixture *f, int number);                /* seen from a session of its own */

/* A session in the state that a mood asks for, in its transaction, with `number` added to the shop.
 * The mood's last statements wait for mood_settle(): after them the shop may not be found. */
void *mood_open(struct fixture *f, const struct backend_mood *mood, int number);
void mood_settle(struct fixture *f, void *session, const struct backend_mood *mood);

/* Fails the case with the mood's name unless the status is OK. */
void expect_mood_ok_(struct fixture *f, const struct backend_mood *mood, int status,
                     const char *file, int line);
#define expect_mood_ok(f, mood, status) expect_mood_ok_(f, mood, status, __FILE__, __LINE__)

/* A session with BEGIN. */
void *session_open(struct fixture *f);

/* Everything set in the session; compare with expect_settings(), which frees it. */
char *settings_of(struct fixture *f, void *session);
void expect_settings_(struct fixture *f, void *session, char *before, const char *mood,
                      const char *file, int line);
#define expect_settings(f, session, before, mood) \
    expect_settings_(f, session, before, mood, __FILE__, __LINE__)

/* The driver's header's functions with one name. The fence, if any, goes to *fence. */
int lock_in(struct fixture *f, rowlock_client *client, void *session, const char *name,
            int64_t wait_ms, uint64_t *fence);
int guard_in(struct fixture *f, rowlock_lock *lock, void *session);

/* Gives names of different lengths different fences, far apart and in the future: the next grants
 * cannot be taken for each other's. */
void spread_fences(struct fixture *f);

/* rowlock_tx_begin() of one name. */
int tx_begin(struct fixture *f, rowlock_tx **tx, rowlock_client *client, const char *name,
             int64_t wait_ms);

/* Begins a transaction on `name` in a thread, and commits it if that was granted. */
struct tx_waiter {
    rowlock_client *client;
    const char *name;
    int64_t wait_ms;
    int in_line;
    rowlock_cancel *cancel;
    int status, ended; /* of rowlock_tx_begin(), rowlock_tx_commit() */
    uint64_t fence;
    atomic_int is_running;
    int64_t granted_us; /* when rowlock_tx_begin() returned */
    uintptr_t thread;
};

/* Returns when the thread is about to call. */
void waiter_start(struct tx_waiter *waiter);
void waiter_join(struct tx_waiter *waiter);

/* BACKEND_QUEUE: returns 1 when so many sessions wait for locks of this run, 0 after SLACK_US. */
int waiters_seen(struct fixture *f, int count);

#endif
