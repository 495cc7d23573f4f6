/* SPDX-License-Identifier: MIT
 *
 * The parts of the PostgreSQL driver:
 *
 *   driver.c   the table of functions, opening and closing
 *   address.c  the user's address and the defaults that are added to it
 *   lease.c    acquire, renew, release, force_release
 *   table.c    reap, list
 *   schema.c   the version of the tables, migration steps
 *   exec.c     one statement, sent and answered by a deadline
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
    PG_STATEMENT_COUNT
} pg_statement;

/* Parameters of one statement, all in binary form, in one buffer that is used again and again. */
typedef struct pg_params {
    rlk_text bytes;
    int count;
    size_t starts[PG_PARAMS_MAX];
} pg_params;

typedef struct pg_conn {
    PGconn *pg;
    int is_pooled; /* a pooler stands in between: no session state, no named statements */
    char prefix[32], schema[64];
    rlk_text sql[PG_STATEMENT_COUNT]; /* with the user's prefix and schema, made when first used */
    uint8_t is_prepared[PG_STATEMENT_COUNT];
    unsigned generation; /* in the names of prepared statements; raised to prepare them anew */
    int64_t limit_ms;    /* the bound that the session's timeouts were made for */
    pg_params params, session_params;
} pg_conn;

/* ---- driver.c */

/* The text of a statement for this connection; NULL if memory is out. */
const char *pg_sql(pg_conn *conn, pg_statement statement);
const char *pg_schema_or_null(const pg_conn *conn);
/* Step `version` of the tables' history, 1 and up. */
const rowlock_migration *pg_migration(int version);

/* ---- address.c */

/* Starts to connect. EINVAL: not an address; the message never quotes it, as it may hold a
 * password. */
int pg_connect_start(PGconn **out, const char *address, uint32_t timeout_ms, rowlock_error *err);

/* ---- exec.c */

/* Waits until the connection is made. ECONNECT. */
int pg_connect_wait(pg_conn *conn, int64_t deadline, rowlock_error *err);

/* Runs one statement with conn->params in a transaction of its own, in one round trip. *out is its
 * result, to be given to PQclear(); NULL on failure. Statuses as in driver.h. */
int pg_call(pg_conn *conn, pg_statement statement, PGresult **out, int64_t deadline,
            rowlock_error *err);

/* The same without a transaction or any setting; for statements that come before or form one. */
int pg_call_bare(pg_conn *conn, pg_statement statement, PGresult **out, int64_t deadline,
                 rowlock_error *err);

/* Runs a script of several statements. What it does stands or falls with the open transaction. */
int pg_script(pg_conn *conn, const char *sql, int64_t deadline, rowlock_error *err);

/* The parameters of PG_SESSION, so that the server gives up before the caller does. */
void pg_session_params(pg_params *params, int64_t left_ms, int only_transaction);

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

/* ---- lease.c, table.c, schema.c: the slots of driver.h */

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

#endif
