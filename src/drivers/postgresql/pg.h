/* SPDX-License-Identifier: MIT
 *
 * The parts of the PostgreSQL driver:
 *
 *   driver.c   the table of functions, opening and closing
 *   address.c  the user's address and the defaults that are added to it
 *   lease.c    acquire, renew, release, force_release
 *   table.c    reap, list
 *   schema.c   the version of the tables, migration steps
 *   tx.c       transactions on a connection of ours, and what comes before them
 *   native.c   statements in a transaction of the application's, on its connection
 *   try.c      one try to lock rows in either, as parameters and answers
 *   exec.c     one statement, sent and answered by a deadline
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
#include "text.h"

enum { PG_PARAMS_MAX = 8 };

/* The statements of sql/postgresql.sql. */
typedef enum pg_statement {
    PG_ACQUIRE,
    PG_ACQUIRE_ONE,
    PG_RENEW,
    PG_RELEASE,
    PG_RELEASE_ONE,
    PG_FORCE_RELEASE,
    PG_REAP,
    PG_LIST,
    PG_SCHEMA_VERSION,
    PG_SCHEMA_EXISTS,
    PG_SCHEMA_LOCK,
    PG_SERVER,
    PG_SESSION,
    PG_BEGIN,
    PG_COMMIT,
    PG_ROLLBACK,
    PG_PREPARE,
    PG_LOCATE,
    PG_TX_HERE,
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
    PG_STATEMENT_COUNT
} pg_statement;

/* Parameters of one statement, all in binary form, in one buffer that is used again and again. */
typedef struct pg_params {
    rlk_text bytes;
    int count;
    size_t starts[PG_PARAMS_MAX];
} pg_params;

/* Not pg_conn: that is libpq's own tag of PGconn. */
typedef struct pg_link {
    PGconn *pg;
    int is_pooled; /* a pooler stands in between: no session state, no named statements */
    char prefix[32], schema[64];
    rlk_text sql[PG_STATEMENT_COUNT]; /* with the user's prefix and schema, made when first used */
    uint8_t is_prepared[PG_STATEMENT_COUNT];
    unsigned generation; /* in the names of prepared statements; raised to prepare them anew */
    int64_t transaction; /* number of the one that `lock` has begun */
    int64_t limit_ms;    /* the bound that the session's timeouts were made for */
    pg_params params, session_params;
} pg_link;

/* ---- driver.c */

/* The text of a statement as it stands in sql/postgresql.sql. */
const char *pg_text_of(pg_statement statement);
/* The text of a statement for this connection; NULL if memory is out. */
const char *pg_sql(pg_link *conn, pg_statement statement);
const char *pg_schema_or_null(const pg_link *conn);
/* Step `version` of the tables' history, 1 and up. */
const rowlock_migration *pg_migration(int version);

/* ---- address.c */

/* Starts to connect. EINVAL: not an address; the message never quotes it, as it may hold a
 * password. */
int pg_connect_start(PGconn **out, const char *address, uint32_t timeout_ms, rowlock_error *err);

/* ---- wire.c */

/* 1: ready; 0: the deadline has passed. */
int pg_wait_socket(const PGconn *pg, short events, int64_t deadline);

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

enum { PG_TRIP_MAX = 6 };

/* Several statements in one round trip, on a connection in pipeline mode: each runs if those before
 * it have succeeded. */
typedef struct pg_trip {
    PGconn *pg;
    int count;
    int failed;                     /* to send */
    PGresult *results[PG_TRIP_MAX]; /* of each statement; NULL if it did not run or failed */
    PGresult *error;                /* the first */
} pg_trip;

void pg_trip_add(pg_trip *trip, const char *sql, const pg_params *params);
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

/* Runs a script of several statements. What it does stands or falls with the open transaction. */
int pg_script(pg_link *conn, const char *sql, int64_t deadline, rowlock_error *err);

/* The parameters of PG_SESSION, so that the server gives up before the caller does, and soon on a
 * row that a transaction keeps locked. A migration waits for as long as it can. */
void pg_session_params(pg_params *params, int64_t left_ms, int only_transaction);
void pg_migration_params(pg_params *params, int64_t left_ms);

/* Turns what the server said into a status. */
int pg_said_no(pg_link *conn, const PGresult *error, rowlock_error *err);

/* For calls that could have changed nothing: EUNKNOWN becomes ECONNECT, in err, too. */
int pg_unchanged(int status, rowlock_error *err);

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
    PG_FIELD_SEEN
} pg_field;

size_t pg_unanswered(const rowlock_op *ops, size_t n);
void pg_ask_all(rowlock_op *ops, size_t n);
/* Those without an answer get this one, with nothing known of a holder. */
void pg_answer_rest(rowlock_op *ops, size_t n, int status);

/* The next parameter: an array of this field of the ops that have no answer yet. */
void pg_add_array(pg_params *params, pg_field field, const rowlock_op *ops, size_t n);

/* The op that a row is about, whose first column is a name. The ops are sorted; NULL cannot be
 * unless the server is out of its mind. */
rowlock_op *pg_op_of_row(rowlock_op *ops, size_t n, const PGresult *result, int row);

/* BUSY, with what the columns of these numbers say. */
void pg_busy_seen(rowlock_op *op, const PGresult *result, int row, int holder, int fence,
                  int remaining);

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

/* ---- lease.c, table.c, schema.c, tx.c: the slots of driver.h */

int pg_acquire(void *conn, rowlock_op *ops, size_t n, int all, uint32_t timeout_ms,
               rowlock_error *err);
int pg_renew(void *conn, rowlock_op *ops, size_t n, uint32_t timeout_ms, rowlock_error *err);
int pg_release(void *conn, rowlock_op *ops, size_t n, uint32_t timeout_ms, rowlock_error *err);
int pg_force_release(void *conn, rowlock_op *op, uint32_t timeout_ms, rowlock_error *err);
int pg_reap(void *conn, uint64_t *out, int64_t retention_us, uint64_t limit, uint32_t timeout_ms,
            rowlock_error *err);
int pg_list(void *conn, const rowlock_list_query *query, rowlock_row_fn fn, void *payload,
            uint32_t timeout_ms, rowlock_error *err);
int pg_schema_version(void *conn, int *out, uint32_t timeout_ms, rowlock_error *err);
int pg_schema_apply(void *conn, int from, int to, uint32_t timeout_ms, rowlock_error *err);
int pg_prepare(void *conn, rowlock_op *ops, size_t n, uint32_t timeout_ms, rowlock_error *err);
int pg_locate(void *conn, char *out, size_t size, uint32_t timeout_ms, rowlock_error *err);
int pg_lock(const rowlock_target *target, rowlock_op *ops, size_t n, uint32_t wait_ms, int in_line,
            uint32_t timeout_ms, rowlock_error *err);
int pg_end(void *conn, int commit, uint32_t timeout_ms, rowlock_error *err);
void *pg_native(void *conn);

#endif
