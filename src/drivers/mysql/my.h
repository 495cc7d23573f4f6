/* SPDX-License-Identifier: MIT
 *
 * The MySQL and MariaDB driver's inside.
 *
 *   driver.c    the table, opening and closing
 *   products.c  servers that are refused, because they are neither MySQL nor MariaDB
 *   address.c   mysql://user:password@host:port/database?...
 *   client.c    the two client libraries, made one; every wait ends by a deadline
 *   options.c   option files and address as the libraries' options: TLS, passwords
 *   exec.c      one packet there, its results back, errors put into classes
 *   batch.c     operations as packets, and their rows back
 *   direct.c    acquire and release of one lock in the usual cases
 *   many.c      the same of several locks: one statement for all of them
 *   acquire.c   acquire, whatever the case
 *   lease.c     renew, release, force_release
 *   exchange.c  releases and acquires in one round trip
 *   queue.c     tickets: enqueue, leave, look
 *   turn.c      waiting for a bell, and taking the lock
 *   bell.c      what bells are called
 *   admin.c     reap, list, waiters
 *   tx.c        transaction mode on the driver's own connections
 *   lock.c      locking rows in a transaction, whosever connection it is
 *   native.c    connections of the application's: checks, statements, the guard
 *   schema.c    the tables' version and steps
 *   diagnose.c  what locks on the server depend on */
#ifndef MY_H
#define MY_H

#include <mysql.h>
#include <stdint.h>

#include "clock.h"
#include "error.h"
#include "spin.h"
#include "sql_mysql.h"
#include "text.h"

typedef struct my_address {
    char *user, *password, *host, *database, *socket; /* NULL: not given */
    char *ssl_ca, *ssl_cert, *ssl_key;
    int ssl_mode; /* enum my_ssl_mode */
    unsigned port;
} my_address;

enum my_ssl_mode {
    MY_SSL_DEFAULT, /* what option files say, or the client library does */
    MY_SSL_DISABLED,
    MY_SSL_PREFERRED,
    MY_SSL_REQUIRED,
    MY_SSL_VERIFY_CA,
    MY_SSL_VERIFY_IDENTITY
};

#define MY_BELL_SIZE 65 /* the longest name of a lock of the server's, with its NUL */

#define MY_TOLD_MAX 8

/* Of how many rows a statement that is prepared may be, and in what steps. */
enum { MY_ROWS_OFTEN = 64, MY_ROWS_STEP = 8 };

/* Marked: as waited for; then a free one may be others' to take. */
enum my_guess {
    MY_GUESS_NONE,
    MY_GUESS_FREE,
    MY_GUESS_HELD,
    MY_GUESS_MARKED_FREE,
    MY_GUESS_MARKED_HELD
};

/* What the server tells of a statement that has no rows to show. */
typedef struct my_told {
    uint64_t changed; /* rows */
    uint64_t number;  /* of LAST_INSERT_ID(number) */
} my_told;

/* A literal of a statement: x'...' of bytes, or if they are NULL a number. */
typedef struct my_value {
    const void *bytes;
    size_t length;
    int64_t number;
} my_value;

typedef struct my_conn {
    MYSQL *mysql;
    int dead;             /* must not be used again */
    int borrowed;         /* of the application's, see my_native_run() */
    int foreign;          /* has the application's settings, until the next packet */
    int no_bells;         /* where they would be known to one server of several, or were refused */
    int unmarked;         /* rows that the last enqueue found locked */
    int in_line;          /* the last lock was absent, or marked as waited for */
    int guess;            /* enum my_guess: what the next locks will be like, by the last ones */
    int64_t marked_until; /* for so long a mark is reckoned with after it was seen */
    size_t met_free;      /* of the last locks, how many a short statement has got or would have */
    char bell[MY_BELL_SIZE];    /* the one that it has; empty: none */
    uint32_t leap;              /* so many places ahead was looked for whom to wait for; or 0 */
    uint64_t first;             /* a ticket that was the first one, of a lock that was free */
    uint64_t left;              /* a ticket that was served and stayed behind; 0: none */
    char left_in[MY_BELL_SIZE]; /* ... in that queue: the bells of its lock, without a ticket */
    size_t packet_max;
    rlk_spin spin;
    char *prefix, *schema;
    char *database;       /* the connection's own */
    char *sql[SQL_COUNT]; /* with the tables' names, once used */
    rlk_text packet;      /* what the next my_run() sends, */
    rlk_text prologue;    /* behind this; empty but where statements are prepared, */
    size_t unheard;       /* so many */
    rlk_text json;        /* the batch in it */
    rlk_text batch;       /* of many.c and of transaction mode */
    rlk_text here;        /* ... if borrowed: the condition that it is the client's server */
    my_told
        told[MY_TOLD_MAX]; /* by the statements of the last packet without rows, the first ones */
    size_t told_count;
    uint8_t in_transaction; /* after the last statement that was answered */
    uint8_t is_committed;   /* the last packet has ended a transaction: what fails then was late */
    /* prepared.c */
    uint8_t often[SQL_COUNT], rows_often[MY_ROWS_OFTEN / MY_ROWS_STEP + 1];
    int no_prepare; /* the server has refused to */
} my_conn;

/* Reads an address. The caller frees it with my_address_free(), also after a failure. */
int my_address_parse(my_address *out, const char *text, rowlock_error *err);
void my_address_free(my_address *address);

/* One of these ends before its deadline (rlk_clock_us()) or answers 0: then the connection can only
 * be closed. Answer 1: done; what came of it is in mysql_errno() and the out parameter; if there is
 * no connection, though, it is -1. Connecting may take the rest of a second more while the other
 * side is silent in the handshake of TLS. */
int my_client_connect(MYSQL *mysql, const my_address *address, int64_t deadline);
int my_client_query(MYSQL *mysql, const char *sql, size_t length, rlk_spin *spin, int64_t deadline);
int my_client_store(MYSQL *mysql, MYSQL_RES **out, int64_t deadline);
int my_client_next(MYSQL *mysql, int *out, int64_t deadline); /* *out: 0 one more, -1 no more */

/* Readies the client library for the calling thread: at the start of every slot. */
void my_client_enter(void);

/* A handle that is ready to connect, with all its options; NULL: no memory. What the address says
 * goes before what option files say. */
MYSQL *my_client_new(const my_address *address);

/* Has the server hung up while nothing was going on? Then the request need not be sent to find out,
 * and nothing is unknown. */
int my_client_hung_up(MYSQL *mysql);

/* Lets the kernel notice a peer that is gone. */
void my_client_keep_alive(MYSQL *mysql);

/* Was it connected, and not closed since? */
int my_client_connected(MYSQL *mysql);

/* Closes without waiting for the server; says no goodbye if `dead`. NULL is allowed. */
void my_client_close(MYSQL *mysql, int dead);

/* The time by which a call must be back. */
int64_t my_deadline(uint32_t timeout_ms);

/* Empties the packet, and appends a statement whose n question marks become the literals given. The
 * first statements of a packet may be those that set the session up. */
void my_start(my_conn *conn);
void my_add(my_conn *conn, enum sql_statement which, const char *const *literals, size_t n);

/* The same with values, which need no memory of their own; and one of them, appended. */
void my_add_values(my_conn *conn, enum sql_statement which, const my_value *values, size_t n);
void my_put(rlk_text *out, const my_value *value);

/* The same for a statement that is sent often: prepared, where that can be done. It must be a
 * single one, and nothing but my_add() of what its beginning is may come before it. */
void my_add_often(my_conn *conn, enum sql_statement which, const my_value *values, size_t n);

/* The same for one of n rows of values, n being what my_rows_often() makes of their number. `types`
 * is a row that comes before them and says what they are: marks in a list of values have no type,
 * and without one whatever is sent becomes nothing. 0: it is to be sent as text. */
int my_add_rows_often(my_conn *conn, enum sql_statement which, enum sql_statement types,
                      const my_value *values, size_t columns, size_t n);
size_t my_rows_often(size_t n);

/* After a packet: the server's error, or 0. */
void my_prepared_settle(my_conn *conn, int code);

/* The text of a statement, which lives as long as the connection. */
const char *my_sql(my_conn *conn, enum sql_statement which);

/* my_add() for any text. */
void my_fill(rlk_text *out, const char *sql, const char *const *literals, size_t n);

/* Literals: x'...' of bytes, and a number. `out` is cleared first. */
const char *my_bytes(rlk_text *out, const void *bytes, size_t n);
const char *my_number(rlk_text *out, int64_t number);

/* Sends the packet, reads all results. *out (may be NULL): the last result set that has columns, to
 * be freed by the caller; NULL on failure. After an error of the server's no transaction is open.
 */
int my_run(my_conn *conn, int64_t deadline, MYSQL_RES **out, rowlock_error *err);

/* The same with the last n result sets, NULL first where there are fewer. */
int my_run_sets(my_conn *conn, int64_t deadline, MYSQL_RES **sets, size_t n, rowlock_error *err);

/* The same on a connection of the application's: one statement, no deadline but the connection's
 * own, no ROLLBACK after an error. Never EUNKNOWN: nothing counts before the COMMIT. */
int my_native_run(my_conn *conn, MYSQL_RES **out, rowlock_error *err);

/* What an error of the server's means for a call that was one transaction. */
int my_errno_status(int code, int *retryable);
int my_is_denied(int code); /* a privilege is missing */

/* Was it refused because the server is read-only? See sql/mysql.sql. */
int my_is_read_only(MYSQL *mysql);
#define MY_READ_ONLY "the server is read-only: connect to the primary"
#define MY_REPLICA \
    "the server replicates from another one: connect to the primary, or stop the replication"

/* Frees what a connection has but its MYSQL *. */
void my_conn_free(my_conn *conn);

/* ECONNECT if it is a product that only speaks the protocol. The comment may be NULL. */
int my_check_product(const char *version, const char *comment, rowlock_error *err);

/* An error while connecting. */
int my_connect_error(MYSQL *mysql, rowlock_error *err);

/* Columns of a row as numbers; NULL is 0. */
int64_t my_int(const char *column);

int my_acquire(void *conn, rowlock_op *ops, size_t n, int all, uint32_t timeout_ms,
               rowlock_error *err);
int my_renew(void *conn, rowlock_op *ops, size_t n, uint32_t timeout_ms, rowlock_error *err);
int my_release(void *conn, rowlock_op *ops, size_t n, uint32_t timeout_ms, rowlock_error *err);
int my_exchange(void *conn, rowlock_op *releases, size_t n, rowlock_op *acquires, size_t m,
                uint32_t timeout_ms, rowlock_error *err);
int my_force_release(void *conn, rowlock_op *op, uint32_t timeout_ms, rowlock_error *err);
int my_reap(void *conn, uint64_t *out, rowlock_mark *mark, int64_t retention_us, uint32_t limit,
            uint32_t timeout_ms, rowlock_error *err);
int my_list(void *conn, const rowlock_list_query *query, rowlock_row_fn fn, void *payload,
            uint32_t timeout_ms, rowlock_error *err);
int my_waiters(void *conn, const rowlock_list_query *query, rowlock_waiter_fn fn, void *payload,
               uint32_t timeout_ms, rowlock_error *err);

int my_enqueue(void *conn, rowlock_op *ops, size_t n, int64_t life_us, int with_bell,
               uint32_t timeout_ms, rowlock_error *err);
int my_turn(void *conn, rowlock_op *op, uint32_t wait_ms, const int *fds, int n_fds,
            uint32_t timeout_ms, rowlock_error *err);
int my_leave(void *conn, rowlock_op *ops, size_t n, uint32_t timeout_ms, rowlock_error *err);
int my_look(void *conn, rowlock_op *ops, size_t n, int64_t life_us, uint32_t timeout_ms,
            rowlock_error *err);

/* The bell that this connection has, as a literal, if it is that of one of the ops; else NULL. And
 * whether it is. */
int my_rings(const my_conn *conn, const rowlock_op *ops, size_t n);
const char *my_bell_literal(const my_conn *conn, const rowlock_op *ops, size_t n, rlk_text *out);

/* FNV-1a, begun with MY_HASH_START: of what is too long for the name of a lock of the server's. */
#define MY_HASH_START 14695981039346656037ULL
uint64_t my_hash(uint64_t hash, const void *bytes, size_t n);

/* No answer yet. */
void my_clear(rowlock_op *op, int status);

/* Who holds it, from a column of a row; NULL: not known. */
void my_set_holder(rowlock_op *op, const char *owner, size_t length);

/* `lock`, on a connection that is fit for it. */
int my_lock_rows(my_conn *conn, rowlock_op *ops, size_t n, uint32_t wait_ms, int in_line,
                 uint32_t timeout_ms, rowlock_error *err);

/* A my_conn for one call on the application's connection; EINVAL or ECONNECT if it is not fit. Free
 * it with my_conn_free(), also after a failure. */
int my_native_borrow(my_conn *out, const rowlock_target *target, uint32_t timeout_ms,
                     rowlock_error *err);

/* Is one open, or will be as soon as something is done (autocommit off)? By the last answer. */
int my_has_transaction(const MYSQL *mysql);

/* After a statement: is the transaction still open? EDRIVER if not. */
int my_native_open(const my_conn *conn, rowlock_error *err);

/* The literal for (?) in place of SQL_HERE; and EINVAL if a statement's answer to it is no. */
const char *my_here(const my_conn *conn);
int my_check_here(const char *column, rowlock_error *err);

/* Appends to the packet what bounds the next statement on a MariaDB server. */
void my_bound(my_conn *conn, int64_t bound_us);
int my_is_maria(const my_conn *conn);

/* EDRIVER if a column that is made from the clock is NULL: see sql/mysql.sql. */
int my_check_clock(const char *column, rowlock_error *err);

int my_prepare(void *conn, rowlock_op *ops, size_t n, uint32_t timeout_ms, rowlock_error *err);
int my_locate(void *conn, char *out, size_t size, uint32_t timeout_ms, rowlock_error *err);
int my_lock(const rowlock_target *target, rowlock_op *ops, size_t n, uint32_t wait_ms, int in_line,
            uint32_t timeout_ms, rowlock_error *err);
int my_guard(const rowlock_target *target, rowlock_op *op, uint32_t timeout_ms, rowlock_error *err);
int my_end(void *conn, int commit, uint32_t timeout_ms, rowlock_error *err);
void *my_native(void *conn);
int my_diagnose(void *conn, rowlock_finding_fn fn, void *payload, uint32_t timeout_ms,
                rowlock_error *err);
int my_schema_version(void *conn, int *out, uint32_t timeout_ms, rowlock_error *err);
int my_schema_apply(void *conn, int from, int to, uint32_t timeout_ms, rowlock_error *err);

#endif
