/* SPDX-License-Identifier: MIT
 *
 * Connections as an application has them, made with the client library alone and left as the server
 * gives them, and rowlock's calls on them. Nothing here asserts: threads and children use it. */
#ifndef TEST_NATIVE_H
#define TEST_NATIVE_H

#include "fault.h"

enum native_flags {
    NATIVE_FOUND_ROWS = 1, /* MySQL: an UPDATE counts the rows it found, not those it changed */
    NATIVE_IMPATIENT = 2   /* MySQL: gives up reading after two seconds */
};

struct native {
    void *conn;        /* PGconn *, MYSQL *, sqlite3 *; NULL: not connected */
    char out[512];     /* rows of the last statement: fields end with '|', rows with '\n' */
    char message[256]; /* what the last statement that failed said */
};

/* What differs between the client libraries. */
struct native_kind {
    const char *name;
    void *(*open)(const char *address, unsigned flags);
    void (*close)(void *conn);
    int (*run)(struct native *native, const char *sql);
    int (*commit)(struct native *native);
    int (*lock)(uint64_t *fences, rowlock_client *client, void *conn, const char *const *names,
                size_t n, const rowlock_tx_options *options, rowlock_error *err);
    int (*guard)(rowlock_lock *lock, void *conn, rowlock_error *err);
    void *(*connection)(rowlock_tx *tx);
};

/* Connects; 0 or -1. Give back with native_close(), which ends an open transaction. */
int native_open(struct native *out, const char *address, unsigned flags);
void native_close(struct native *native);

/* One statement, printf-like; 0 if it succeeded. */
int native_run(struct native *native, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The same, and the number of the last field of the first row; -1 if there is none. */
long long native_number(struct native *native, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* COMMIT; 0 only if the server says that it has committed. */
int native_commit(struct native *native);

/* rowlock_<driver>_lock(), _guard() and _connection() of the backend under test. */
int native_lock(uint64_t *fences, rowlock_client *client, struct native *native,
                const char *const *names, size_t n, const rowlock_tx_options *options,
                rowlock_error *err);
int native_guard(rowlock_lock *lock, struct native *native, rowlock_error *err);

/* Drops the table with our prefix; not waiting long for transactions that a failed case has left.
 * 0 is success, as for teardowns. */
int native_drop(const char *table);

/* The connection of a transaction of the library's; not to be closed. */
void native_borrow(struct native *out, rowlock_tx *tx);

/* Ends the server's side of the connection; 0 if the server has done so. */
int native_kill(struct native *victim, struct native *by);

#endif
