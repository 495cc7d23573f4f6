/* SPDX-License-Identifier: MIT
 *
 * The parts of the PostgreSQL driver:
 *
 *   driver.c   the table of functions, opening and closing
 *   address.c  the user's address and the defaults that are added to it
 *   hosts.c    names of hosts as addresses
 *   products.c servers that are refused, because they are not PostgreSQL
 *   acquire.c  acquire
 *   lease.c    renew, release, force_release
 *   exchange.c release and acquire at once
 *   queue.c    enqueue, leave, look
 *   turn.c     turn
 *   bell.c     bells and notifications: what a waiter's connection has besides its ticket
 *   table.c    reap, list, waiters
 *   schema.c   the version of the tables, migration steps
 *   diagnose.c what locks on the server depend on
 *   tx.c       transactions on a connection of ours, and what comes before them
 *   native.c   statements in a transaction of the application's, on its connection
 *   try.c      one try to lock rows in either, as parameters and answers
 *   exec.c     one statement, sent and answered by a deadline
 *   place.c    the schema of the tables
 *   wire.c     sending and waiting
 *   ops.c      operations as parameters, rows as their answers
 *   state.c    sqlstates and what they mean to us
 *   encode.c   parameters and results in binary form
 *
 * Deadlines are times of rlk_clock_us(). */
#ifndef RLK_PG_H
#define RLK_PG_H

#include <libpq-fe.h>
#include <stddef.h>
#include <stdint.h>

#include "error.h"
#include "rowlock/driver.h"
#include "spin.h"
#include "text.h"

enum { PG_PARAMS_MAX = 10 };

/* The statements of sql/postgresql.sql. */
typedef enum pg_statement {
    PG_ACQUIRE,
    PG_ACQUIRE_ONE,
    PG_ACQUIRE_FREE,
    PG_ACQUIRE_FREE_ONE,
    PG_RENEW,
    PG_RELEASE,
    PG_RELEASE_ONE,
    PG_RELEASE_FREE,
    PG_EXCHANGE,
    PG_HAND_OVER,
    PG_FORCE_RELEASE,
    PG_REAP,
    PG_LIST,
    PG_SCHEMA_VERSION,
    PG_SCHEMA_EXISTS,
    PG_SCHEMA_LOCK,
    PG_SERVER,
    PG_VERSION_TEXT,
    PG_PATH_GIVEN,
    PG_PLACE,
    PG_SESSION,
    PG_BEGIN,
    PG_BEGIN_POOLED,
    PG_COMMIT,
    PG_ROLLBACK,
    PG_PREPARE,
    PG_LOCATE,
    PG_TX_HERE,
    PG_TX_PATH,
    PG_TX_LIMITS,
    PG_TX_RESTORE,
    PG_TX_LOCK,
    PG_TX_LOOK,
    PG_TX_GUARD,
    PG_TX_RESET,
    PG_TX_READY,
    PG_TX_SAME,
    PG_TX_BOUND,
    PG_TX_UNBOUND,
    PG_SAVEPOINT,
    PG_SAVEPOINT_RELEASE,
    PG_SAVEPOINT_UNDO,
    PG_ENQUEUE,
    PG_ENQUEUE_AGAIN,
    PG_BELL,
    PG_BELL_BEFORE,
    PG_TURN,
    PG_TURN_FREE,
    PG_RING,
    PG_HUSH,
    PG_LISTEN,
    PG_UNLISTEN,
    PG_LEAVE,
    PG_LOOK,
    PG_WAITERS,
    PG_DIAGNOSE_SERVER,
    PG_DIAGNOSE_TABLES,
    PG_DIAGNOSE_PATH,
    PG_STATEMENT_COUNT
} pg_statement;

/* Parameters of one statement, all in binary form, in one buffer that is used again and again. */
typedef struct pg_params {
    rlk_text bytes;
    int count;
    size_t starts[PG_PARAMS_MAX];
} pg_params;

enum { PG_CHANNEL_SIZE = 25, PG_SCHEMA_SIZE = 128 };

/* Not pg_conn: that is libpq's own tag of PGconn. */
typedef struct pg_link {
    PGconn *pg;
    int is_pooled;  /* a pooler stands in between: no session state, no named statements */
    int is_relaxed; /* commits are not waited for */
    rlk_spin spin;
    char prefix[32];
    char schema[PG_SCHEMA_SIZE];      /* of the tables, ready to stand between double quotes */
    int is_placed;                    /* it was given, or the tables were seen there */
    rlk_text sql[PG_STATEMENT_COUNT]; /* with the user's prefix and schema, made when first used */
    uint8_t is_prepared[PG_STATEMENT_COUNT];
    unsigned generation; /* in the names of prepared statements; raised to prepare them anew */
    int64_t transaction; /* number of the one that `lock` has begun */
    int64_t limit_ms;    /* the bound that the session's timeouts were made for; 0: its settings may
                          * be any */
    int meets_free;      /* most rows of the last acquire were there and free */
    pg_params params, session_params;
    /* the queue */
    uint64_t bell;                 /* the ticket whose bell this connection has; 0: none */
    uint64_t left;                 /* one that was served and is still in its table; 0: none */
    uint64_t heard;                /* the bell that rang while the ticket was taken; 0: none */
    uint64_t silent;               /* fence of a tenure that was seen without a bell; 0: none */
    int64_t called;                /* when the turn that is under way was */
    int may_have_bells;            /* of tickets that nobody knows of */
    char channel[PG_CHANNEL_SIZE]; /* on which the one waiting with `bell` would be told */
    char listens[PG_CHANNEL_SIZE]; /* the one that is listened to; empty: none */
    int was_told;                  /* and what was heard there was not made use of yet */
} pg_link;

/* ---- driver.c */

/* The text of a statement as it stands in sql/postgresql.sql. */
const char *pg_text_of(pg_statement statement);
/* The text of a statement for this connection; NULL if memory is out. */
const char *pg_sql(pg_link *conn, pg_statement statement);
/* How many steps the tables' history has; step `version` of it, 1 and up. */
int pg_migration_count(void);
const rowlock_migration *pg_migration(int version);

/* ---- address.c */

/* Starts to connect. EINVAL: not an address; the message never quotes it, as it may hold a
 * password. */
int pg_connect_start(PGconn **out, const char *address, int64_t deadline, rowlock_error *err);

/* ---- hosts.c */

/* Lists as libpq takes them. */
typedef struct pg_hosts {
    int count; /* 0: nothing had to be looked up */
    rlk_text names, addresses, ports;
} pg_hosts;

/* Looks the names among the hosts up; those that cannot be had in time are left out. ECONNECT: none
 * is left. `out` is {0}; to be freed whatever the answer. */
int pg_find_hosts(pg_hosts *out, const char *hosts, const char *ports, int64_t deadline,
                  rowlock_error *err);
void pg_hosts_free(pg_hosts *hosts);

/* ---- products.c */

/* ECONNECT if the server is known not to lock like PostgreSQL: by its name, its parameters, what
 * version() says (NULL: not known), and whether it has sys.dsql_major_version(). */
int pg_check_product(const PGconn *pg, const char *version, int has_dsql_version,
                     rowlock_error *err);
/* ECONNECT if it is too old for our statements. */
int pg_check_age(const PGconn *pg, rowlock_error *err);

/* ---- wire.c */

/* 1: ready; 0: the deadline has passed. */
int pg_wait_socket(const PGconn *pg, short events, int64_t deadline);

/* So many milliseconds from now. */
int64_t pg_deadline_in(int64_t ms);

/* The deadline of what must still be sent when a statement has used up its time. */
int64_t pg_deadline_after(int64_t deadline);

/* Takes the next result (NULL ends a query's). 1: there it is; 0: the deadline; -1: no connection.
 */
int pg_next_result(PGconn *pg, PGresult **out, int64_t deadline);

/* An idle connection that the server has closed shows it here, while nothing has been asked:
 * ECONNECT. */
int pg_check_idle(PGconn *pg, rowlock_error *err);

/* Does this error end the connection? */
int pg_is_fatal(const PGresult *error);

/* Puts a query into libpq's buffer: `name` of a prepared statement, or `sql`. 0: cannot. */
int pg_send(PGconn *pg, const char *name, const char *sql, const pg_params *params);

enum { PG_TRIP_MAX = 10 };

/* Several statements in one round trip, on a connection in pipeline mode: each runs if those before
 * it, back to the last Sync, have succeeded. */
typedef struct pg_trip {
    PGconn *pg;
    int count;
    int failed;                     /* to send */
    int syncs, ends[PG_TRIP_MAX];   /* how many statements come before each Sync */
    PGresult *results[PG_TRIP_MAX]; /* of each statement; NULL if it did not run or failed */
    int prepares[PG_TRIP_MAX];      /* one more than the statement that it prepares */
    PGresult *error;                /* the first */
    unsigned failed_parts;          /* a bit for each part that had one; the first is part 0 */
    int error_part;                 /* of `error` */
    int base;                       /* Syncs of settings, whose errors matter least */
} pg_trip;

void pg_trip_add(pg_trip *trip, const char *sql, const pg_params *params);
/* Commits. What comes behind runs whatever has become of it. */
void pg_trip_sync(pg_trip *trip);
/* 1: all is answered; 0: the deadline; -1: no connection. */
int pg_trip_run(pg_trip *trip, int64_t deadline);
void pg_trip_clear(pg_trip *trip); /* to be used again */

/* ---- exec.c */

/* Waits until the connection is made. ECONNECT. */
int pg_connect_wait(pg_link *conn, int64_t deadline, rowlock_error *err);

/* Runs one statement with conn->params in a transaction of its own, in one round trip. *out is its
 * result, to be given to PQclear(); NULL on failure. Statuses as in driver.h. */
int pg_call(pg_link *conn, pg_statement statement, PGresult **out, int64_t deadline,
            rowlock_error *err);

/* The same without a transaction or any setting; for statements that come before or form one. */
int pg_call_bare(pg_link *conn, pg_statement statement, PGresult **out, int64_t deadline,
                 rowlock_error *err);

/* PG_SESSION on a direct connection, for timeouts of that bound. ECONNECT, EDRIVER. */
int pg_set_session(pg_link *conn, int64_t left_ms, rowlock_error *err);

/* Several statements at once on a direct connection: begin, add, end. Each part up to a Sync is a
 * transaction. `left_ms`: the bound that the session's timeouts are to have, if they are off. */
int pg_trip_begin(pg_link *conn, pg_trip *trip, int64_t left_ms, rowlock_error *err);
/* Adds a prepared statement with conn->params; answers its number among the results. */
int pg_trip_call(pg_link *conn, pg_trip *trip, pg_statement statement);
/* OK: all is answered, errors of statements are in the trip. */
int pg_trip_end(pg_link *conn, pg_trip *trip, int64_t deadline, rowlock_error *err);
/* Is statement number `query`, behind `part` Syncs of the caller's, done and committed? */
int pg_trip_is_done(const pg_trip *trip, int query, int part);

/* Runs a script of several statements. What it does stands or falls with the open transaction. */
int pg_script(pg_link *conn, const char *sql, int64_t deadline, rowlock_error *err);

/* The parameters of PG_SESSION, so that the server gives up before the caller does, and soon on a
 * row that a transaction keeps locked. A migration waits for as long as it can. */
void pg_session_params(pg_params *params, const pg_link *conn, int64_t left_ms,
                       int only_transaction);
void pg_migration_params(pg_params *params, int64_t left_ms);

/* Turns what the server said into a status. */
int pg_said_no(pg_link *conn, const PGresult *error, rowlock_error *err);

/* For calls that could have changed nothing: EUNKNOWN becomes ECONNECT, in err, too. */
int pg_unchanged(int status, rowlock_error *err);

/* ---- place.c */

/* A schema in which nobody can have tables of ours. */
#define PG_NOWHERE "pg_catalog"

/* Every statement names the schema of the tables, so that what else is on the search_path does not
 * matter. Without the user's word it is the one on the role's search_path that has them, and stays
 * that; as long as none has, the first one of all, and each call looks again. ESCHEMA: more than
 * one has them, or they are no tables. Else OK, or as pg_call(). */
int pg_find_place(pg_link *conn, int64_t deadline, rowlock_error *err);

const char *pg_schema_of(const void *conn); /* the slot of driver.h */

/* Runs one statement under the search_path that the session was given. Every function, operator
 * and type in it must have its schema. */
int pg_call_on_path(pg_link *conn, pg_statement statement, PGresult **out, int64_t deadline,
                    rowlock_error *err);

/* ---- state.c */

typedef enum pg_meaning {
    PG_MEANS_OTHER,      /* EDRIVER */
    PG_MEANS_RETRY,      /* EDRIVER, retryable */
    PG_MEANS_LOCKED,     /* EDRIVER, retryable: a row is kept locked */
    PG_MEANS_SLOW,       /* EDRIVER, retryable: the server's time for the statement was up */
    PG_MEANS_MISSING,    /* ESCHEMA */
    PG_MEANS_READ_ONLY,  /* ECONNECT */
    PG_MEANS_UNPREPARED, /* EDRIVER, retryable: prepare it again */
    PG_MEANS_RACED       /* EDRIVER, retryable: the statement asked to be run again */
} pg_meaning;

/* What an sqlstate means for a statement that the server refused. NULL or empty: OTHER. */
pg_meaning pg_meaning_of(const char *sqlstate);

/* May a connection that was refused so be had later? "" (no answer at all): yes. */
int pg_refusal_is_passing(const char *sqlstate);

/* ---- encode.c */

void pg_params_clear(pg_params *params);
void pg_params_free(pg_params *params);

/* Starts the next parameter; what is put after it is its value. */
void pg_param(pg_params *params);
void pg_put_array(pg_params *params, uint32_t element_type, size_t n);
void pg_put_item(pg_params *params, const void *bytes, size_t n); /* of an array */
void pg_put_item_i64(pg_params *params, int64_t number);
void pg_put_bytes(pg_params *params, const void *bytes, size_t n);
void pg_put_i64(pg_params *params, int64_t number);
void pg_put_bool(pg_params *params, int value);

enum { PG_BOOL = 16, PG_BYTEA = 17, PG_INT8 = 20, PG_TEXT = 25, PG_UUID = 2950 };

int64_t pg_get_int(const PGresult *result, int row, int column); /* int4, int8; 0 if NULL */
int pg_get_bool(const PGresult *result, int row, int column);

/* ---- ops.c */

/* An op that has no answer yet; never leaves the driver. */
#define PG_UNANSWERED INT32_MIN

typedef enum pg_field {
    PG_FIELD_NAME,
    PG_FIELD_OWNER,
    PG_FIELD_OWNER_BYTES, /* as bytea: whatever client_encoding is */
    PG_FIELD_NOTE,
    PG_FIELD_TTL,
    PG_FIELD_FENCE,
    PG_FIELD_ATTEMPT,
    PG_FIELD_SEEN,
    PG_FIELD_TICKET,
    PG_FIELD_PLACE /* see pg_place_of() */
} pg_field;

/* Tickets that are lower come first: op's ticket; 0: none does; INT64_MAX: all do. */
int64_t pg_place_of(const rowlock_op *op);

size_t pg_unanswered(const rowlock_op *ops, size_t n);
void pg_ask_all(rowlock_op *ops, size_t n);
/* Those without an answer get this one, with nothing known of a holder. */
void pg_answer_rest(rowlock_op *ops, size_t n, int status);

/* The first parameters of what acquires one lock: name, owner, note, ttl, attempt. */
void pg_start_with(pg_params *params, const rowlock_op *op);

/* The next parameters, of what releases one: owner, fence, attempt, seen, ticket of the bell or 0.
 */
void pg_add_release(pg_params *params, const rowlock_op *op, uint64_t bell);

/* The next parameter: an array of this field of the ops that have no answer yet. Its parts: the
 * type of the items, and the items. */
void pg_add_array(pg_params *params, pg_field field, const rowlock_op *ops, size_t n);
uint32_t pg_type_of(pg_field field);
void pg_put_fields(pg_params *params, pg_field field, const rowlock_op *ops, size_t n);

/* The op of this name, or NULL; the ops are sorted. */
rowlock_op *pg_op_of_name(rowlock_op *ops, size_t n, const char *name, size_t length);

/* The op that a row is about, whose first column is a name. NULL cannot be unless the server is out
 * of its mind. */
rowlock_op *pg_op_of_row(rowlock_op *ops, size_t n, const PGresult *result, int row);

/* BUSY, with what the columns of these numbers say. */
void pg_busy_seen(rowlock_op *op, const PGresult *result, int row, int holder, int fence,
                  int remaining);

/* BUSY, free, but waited for by others, of whom the first lives for so long. */
void pg_busy_queue(rowlock_op *op, int64_t life_us);

/* What PG_TURN and PG_LOOK say of a ticket. */
typedef enum pg_queue_verdict {
    PG_VERDICT_BUSY,
    PG_VERDICT_HAD,
    PG_VERDICT_GONE,
    PG_VERDICT_AGAIN
} pg_queue_verdict;

/* ---- acquire.c */

/* May the short statement for free rows come first? And one row that it has taken. */
int pg_may_acquire_free(const pg_link *conn, const rowlock_op *ops, size_t n, int all);
void pg_taken(rowlock_op *op, int64_t fence);

/* Asks by the long one for those without an answer; `free_rows` were taken before. `pass_over`:
 * rows that somebody keeps locked are not waited for. */
int pg_acquire_rest(pg_link *conn, rowlock_op *ops, size_t n, int all, int pass_over,
                    size_t free_rows, int64_t deadline, rowlock_error *err);

/* ---- lease.c */

/* The same for releases; the first who waits is told, if that can be. */
int pg_release_rest(pg_link *conn, rowlock_op *ops, size_t n, int64_t deadline, rowlock_error *err);

/* The op whose bell this connection has, or NULL. */
const rowlock_op *pg_find_ringer(const pg_link *conn, const rowlock_op *ops, size_t n);

/* ---- bell.c */

/* The channel of the op's name, and as a parameter: NULL, or not `tell`: empty, nobody is told. */
void pg_name_channel(char out[PG_CHANNEL_SIZE], const pg_link *conn, const rowlock_op *op);
void pg_add_channel(pg_link *conn, const rowlock_op *op);
void pg_add_channels(pg_link *conn, const rowlock_op *ops, size_t n, int tell);

/* A statement that tells others was refused: is it to be repeated without? */
int pg_is_telling_refused(int status, const rowlock_error *err);

/* Runs a statement with conn->params and then rings the bell of the op's ticket, which this
 * connection has, unless the op's tenure lives; in one round trip. Without an op the statement
 * rings it itself; after a failure of that it may or may not have rung: the connection is to be
 * closed, or it is rung again in vain. */
int pg_call_and_ring(pg_link *conn, pg_statement statement, const rowlock_op *op, PGresult **out,
                     int64_t deadline, rowlock_error *err);

/* The bound for pg_trip_begin() of a trip in which a bell is waited for. */
int64_t pg_limit_for_wait(const pg_link *conn, uint32_t wait_ms, int64_t deadline);

/* Gives up what an earlier wait has left, before another one begins. */
int pg_bells_clear(pg_link *conn, int64_t deadline, rowlock_error *err);

/* Makes sure that notifications of conn->channel come, and runs PG_TURN with conn->params. */
int pg_listen(pg_link *conn, PGresult **out, int64_t deadline, rowlock_error *err);

/* Waits for a notification: 1: there is one; 0: the time has passed, or a descriptor is readable;
 * -1: the connection is gone. */
int pg_wait_told(pg_link *conn, const int *fds, int n_fds, int64_t deadline);

/* ---- try.c */

/* One try to lock rows: PG_TX_LIMITS and then PG_TX_LOCK, in one trip. */
typedef struct pg_try {
    rowlock_op *ops;
    size_t n;
    int waits;
    int64_t start, deadline;
    pg_params limits, lock, look;
} pg_try;

typedef enum pg_verdict {
    PG_HAD,
    PG_BUSY,
    PG_LEASED,       /* busy; PG_TX_LOOK tells who holds it */
    PG_OLD_SNAPSHOT, /* the transaction cannot see a row */
    PG_REFUSED       /* an error */
} pg_verdict;

/* ENOMEM. The ops have no answers yet. */
int pg_try_init(pg_try *try, rowlock_op *ops, size_t n, uint32_t wait_ms, int in_line,
                uint32_t timeout_ms, rowlock_error *err);
void pg_try_free(pg_try *try);

/* What came of it; `limits` is the place of PG_TX_LIMITS in the trip. HAD: all ops are OK. BUSY:
 * all have their answers. */
pg_verdict pg_try_judge(const pg_try *try, const pg_trip *trip, int limits);

/* After LEASED: the answers of all ops. */
void pg_try_read_look(const pg_try *try, const PGresult *result);

/* ---- native.c: `lock` and `guard` on the application's connection */

int pg_native_lock(const rowlock_target *target, pg_try *try, rowlock_error *err);
int pg_guard(const rowlock_target *target, rowlock_op *op, uint32_t timeout_ms, rowlock_error *err);

/* ---- acquire.c, lease.c, exchange.c, table.c, schema.c, tx.c, queue.c, turn.c: the slots of
 * driver.h */

int pg_acquire(void *conn, rowlock_op *ops, size_t n, int all, uint32_t timeout_ms,
               rowlock_error *err);
int pg_renew(void *conn, rowlock_op *ops, size_t n, uint32_t timeout_ms, rowlock_error *err);
int pg_release(void *conn, rowlock_op *ops, size_t n, uint32_t timeout_ms, rowlock_error *err);
int pg_force_release(void *conn, rowlock_op *op, uint32_t timeout_ms, rowlock_error *err);
int pg_exchange(void *conn, rowlock_op *releases, size_t n, rowlock_op *acquires, size_t m,
                uint32_t timeout_ms, rowlock_error *err);
int pg_reap(void *conn, uint64_t *out, rowlock_mark *mark, int64_t retention_us, uint32_t limit,
            uint32_t timeout_ms, rowlock_error *err);
int pg_list(void *conn, const rowlock_list_query *query, rowlock_row_fn fn, void *payload,
            uint32_t timeout_ms, rowlock_error *err);
int pg_diagnose(void *conn, rowlock_finding_fn fn, void *payload, uint32_t timeout_ms,
                rowlock_error *err);
int pg_schema_version(void *conn, int *out, uint32_t timeout_ms, rowlock_error *err);
int pg_schema_apply(void *conn, int from, int to, uint32_t timeout_ms, rowlock_error *err);
int pg_prepare(void *conn, rowlock_op *ops, size_t n, uint32_t timeout_ms, rowlock_error *err);
int pg_locate(void *conn, char *out, size_t size, uint32_t timeout_ms, rowlock_error *err);
int pg_lock(const rowlock_target *target, rowlock_op *ops, size_t n, uint32_t wait_ms, int in_line,
            uint32_t timeout_ms, rowlock_error *err);
int pg_end(void *conn, int commit, uint32_t timeout_ms, rowlock_error *err);
void *pg_native(void *conn);
int pg_enqueue(void *conn, rowlock_op *ops, size_t n, int64_t life_us, int with_bell,
               uint32_t timeout_ms, rowlock_error *err);
int pg_turn(void *conn, rowlock_op *op, uint32_t wait_ms, const int *fds, int n_fds,
            uint32_t timeout_ms, rowlock_error *err);
int pg_leave(void *conn, rowlock_op *ops, size_t n, uint32_t timeout_ms, rowlock_error *err);
int pg_look(void *conn, rowlock_op *ops, size_t n, int64_t life_us, uint32_t timeout_ms,
            rowlock_error *err);
int pg_waiters(void *conn, const rowlock_list_query *query, rowlock_waiter_fn fn, void *payload,
               uint32_t timeout_ms, rowlock_error *err);

#endif
