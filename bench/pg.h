/* SPDX-License-Identifier: MIT
 *
 * What rivals on libpq share: one connection, its statements prepared, several of them sent in one
 * round trip where the original does so. */
#ifndef BENCH_PG_H
#define BENCH_PG_H

#include <libpq-fe.h>

#include "rivals.h"

enum { PG_STATEMENTS_MAX = 8, PG_PARAMS_MAX = 8 };

typedef struct pg_session {
    PGconn *pg;
    const bench_rival *rival;
    char owner[64];
    int64_t number; /* of what is held: a fence, a version */
    uint8_t attempt[16];
    size_t held;
    int meets_free; /* the last lock that was asked for was had */
    int64_t door;   /* a lock of the server's that goes with what is held; 0: none */
} pg_session;

/* A parameter: text unless `size` is set, then so many bytes in binary form. */
typedef struct pg_value {
    const char *data;
    int size;
} pg_value;

/* One statement of a trip: a prepared one by its name, or a plain command ("BEGIN"). */
typedef struct pg_step {
    const char *statement, *command;
    pg_value values[PG_PARAMS_MAX];
    int n;
} pg_step;

/* The texts that a session prepares; rival->detail of rivals that use pg_open(). */
typedef struct pg_texts {
    struct {
        const char *name, *sql;
    } list[PG_STATEMENTS_MAX];
    const char *tables; /* of setup; NULL: none */
} pg_texts;

int pg_setup(const bench_rival *rival);
int pg_open(void **session, const bench_rival *rival, void *shared);
void pg_close(void *session);

/* Sends all steps at once, waits for all answers; *last, if wanted, is the result of the last step
 * but the plain commands, and the caller's to clear. */
int pg_trip(pg_session *s, const pg_step *steps, int n, PGresult **last);

/* The same for one prepared statement. How many rows it answered or changed; -1: it failed. */
int pg_one(pg_session *s, const pg_step *step, PGresult **result);

/* Slots of rivals whose acquire renews, too: n locks, one statement for each. */
int pg_hold_each(void *session, size_t n, int ttl_ms);
int pg_renew_each(void *session, uint64_t *renewed);
int pg_drop_each(void *session);

/* A number for pg_step: binary, big-endian. */
pg_value pg_i64(char buffer[8], int64_t number);
int64_t pg_get_i64(const PGresult *result, int row, int column);

#endif
