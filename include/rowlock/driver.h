/* SPDX-License-Identifier: MIT
 *
 * The contract between the core and a driver: one const table of functions at the altitude of
 * locks. Users need rowlock.h only. How to write a driver and prove it right:
 * src/drivers/README.md.
 *
 * The core knows no SQL and no database; a driver knows no threads, no retries and no local clock
 * beyond its own timeouts. What a driver must keep, whichever slot is called:
 *
 *  - `conn` is conn_size bytes of the core's, zeroed before open. One call at a time for each conn,
 *    from any thread, with no lock of the core held. Never call back into the core.
 *  - Operations come sorted by name (memcmp, then length) without doubles. Each carries its own
 *    answer in `status`; the return value is that of the whole call. Lock rows in this order.
 *  - One round trip and one commit per call, for any n from 1 to ROWLOCK_BATCH_MAX, for acquire,
 *    renew and release. Strict exceptions are said at the slot.
 *  - All decisions about time are made by the database's clock in the statement that holds the
 * row's lock. No wall-clock time crosses this table: only durations do.
 *  - Return within timeout_ms, give or take scheduling, whatever the server or the network does.
 *
 * Return values of the slots that talk to the database:
 *
 *   ROWLOCK_OK        done; every op's status is set
 *   ROWLOCK_ECONNECT  certainly nothing was done; the connection must not be used again
 *   ROWLOCK_EUNKNOWN  it may or may not have been done; the connection must not be used again
 *   ROWLOCK_EDRIVER   the database refused, certainly nothing was done; the connection is fine.
 *                     err->retryable: deadlock, serialization failure, lock timeout and the like
 *   ROWLOCK_ESCHEMA   the tables are not there; nothing was done
 *   ROWLOCK_EINVAL, ROWLOCK_ENOMEM, ROWLOCK_ENOTSUP   nothing was done
 *
 * Every errno and sqlstate must be mapped with care: what is not known for certain to have done
 * nothing is EUNKNOWN, and nothing unknown is ever BUSY. After an error, ops[] holds garbage.
 */
#ifndef ROWLOCK_DRIVER_H
#define ROWLOCK_DRIVER_H

#include "rowlock.h"

#ifdef __cplusplus
extern "C" {
#endif

#define ROWLOCK_ATTEMPT_SIZE 16

/* One lock's part of a batch, question and answer side by side. */
typedef struct rowlock_op {
    /* in; the core's memory, valid during the call */
    const char *name; /* name_length bytes, 1..255, any bytes */
    size_t name_length;
    const char *owner; /* 1..255 bytes of UTF-8, no control characters, NUL-terminated */
    const char *note;  /* acquire: at most 1000 bytes of the same kind; never NULL */
    int64_t ttl_us;    /* acquire, renew */
    uint8_t attempt[ROWLOCK_ATTEMPT_SIZE]; /* random; a repeated call carries the same */
    uint8_t seen[ROWLOCK_ATTEMPT_SIZE];    /* release: the row's attempt as last known; zeroes: any.
                                            * Out with BUSY: what it is */
    /* in (renew, release, force_release) and out (acquire) */
    uint64_t fence;
    /* out */
    int32_t status;
    uint32_t hold_count;  /* OK: the count after the call */
    int64_t remaining_us; /* OK (acquire, renew): of this lease; BUSY: of the holder's; by the
                           * database's clock, read after the request arrived, 0 if not known */
    uint64_t holder_fence;
    char holder[ROWLOCK_OWNER_MAX + 1]; /* BUSY: who holds it */
} rowlock_op;

/* What a connection needs to know; copied or used up during open. */
typedef struct rowlock_config {
    size_t size;
    const char *address; /* the user's, as given */
    const char *prefix;  /* validated: [a-z_][a-z0-9_]{0,30} */
    const char *schema;  /* validated, or NULL */
    int may_create;      /* nonzero: a database that is a file is made if it is not there */
} rowlock_config;

typedef struct rowlock_list_query {
    size_t size;
    const char *starts_with; /* starts_with_length bytes; NULL with 0 */
    size_t starts_with_length;
    int expired; /* nonzero: rows whose lease has ended, too */
} rowlock_list_query;

/* One step of the tables' history. Text as in migrations/, see rlk_sql_render(). */
typedef struct rowlock_migration {
    int version; /* 1, 2, 3 ... without gaps */
    const char *name;
    const char *up;
    const char *down;
} rowlock_migration;

struct rowlock_driver {
    /* sizeof(rowlock_driver) as the driver was compiled. Slots are only ever appended; the core
     * gives a driver with an older size the defaults of those it lacks. */
    size_t size;
    const char *name;        /* "postgresql" */
    size_t conn_size;        /* bytes of private state for each connection */
    char quote;              /* around identifiers: '"' or '`' */
    uint8_t has_schemas;     /* 0: a schema in the options is refused */
    int32_t migration_count; /* newest version of the tables, the one this driver works with */
    const rowlock_migration *migrations;

    /* MUST. Checks the address (EINVAL), connects to a server that accepts writes (ECONNECT;
     * ESCHEMA for a file that is not there and may not be made), sets up the session. Does not look
     * at the tables. `close` is called after a failed open, too. */
    int (*open)(void *conn, const rowlock_config *config, uint32_t timeout_ms, rowlock_error *err);

    /* MUST. Frees everything, may say goodbye, must not wait for the server. */
    void (*close)(void *conn);

    /* MUST. For each op, under the row's lock, `now` being the database's clock:
     *   row absent or expire_time <= now: a new tenure. fence = max(row's fence + 1, now in us),
     *       hold_count 1, acquire_time now.
     *   live, owner equal: same fence; hold_count + 1, or unchanged if the row's attempt is the
     *       op's (a repeated call).
     *   else: BUSY with holder, holder_fence, remaining_us; writes nothing, takes no lock.
     * The first two set owner, attempt, note (kept if the op's is empty and the tenure goes on) and
     * expire_time = now + ttl_us (never earlier than it was while the tenure goes on: an outer hold
     * may count on it), and answer OK with fence, hold_count and remaining_us.
     * A row that somebody's open transaction keeps locked is BUSY, too, with what can be seen of
     * it, after timeout_ms at the latest. `all` nonzero: all ops get it or none does; then those
     * that could have been had are answered BUSY with an empty holder, and nothing is written if a
     * plain look shows one to be held. A second round trip is allowed where a row was created or
     * locked by somebody else in between; absent rows may then be left as free ones. Durable when
     * it returns. */
    int (*acquire)(void *conn, rowlock_op *ops, size_t n, int all, uint32_t timeout_ms,
                   rowlock_error *err);

    /* MUST. Where name, owner and fence match and expire_time > now: expire_time becomes the later
     * of itself and now + ttl_us; OK with hold_count and remaining_us. Where they match but the row
     * is locked by a transaction at this moment: BUSY (not waited for, not lost). Else LOST.
     * Durable. */
    int (*renew)(void *conn, rowlock_op *ops, size_t n, uint32_t timeout_ms, rowlock_error *err);

    /* MUST. Where name, owner and fence match: if the row's attempt is the op's, a repeated call:
     * OK with the count as it is. Else if expire_time > now and hold_count > 0: if `seen` is
     * neither zero nor the row's attempt: BUSY with the row's attempt in `seen`, nothing done. (A
     * request that was held up on its way and arrives after its own repetition finds the row
     * changed by others since, and must not count twice.) Otherwise one hold less; at zero
     * expire_time becomes now; attempt is the op's; OK with the count that is left. Else LOST.
     * The owner stays in the row. Need not be durable: a lost release runs out. */
    int (*release)(void *conn, rowlock_op *ops, size_t n, uint32_t timeout_ms, rowlock_error *err);

    /* MUST. Ends a live lock (of tenure op->fence only, if that is not 0): fence = max(fence + 1,
     * now), hold_count 0, expire_time now, attempt the op's; OK, also if the row's attempt is the
     * op's already. LOST if there is no such live lock. Name, fence and attempt are set. Durable.
     */
    int (*force_release)(void *conn, rowlock_op *op, uint32_t timeout_ms, rowlock_error *err);

    /* MUST. Deletes at most `limit` rows whose expire_time AND fence are below now - retention_us,
     * in byte order of names, passing over rows that are locked. *out: how many. The core asks for
     * a retention of a second or more; an acquire that inserts a row and takes as long as that
     * between making the fence and having the row must undo it and begin again. */
    int (*reap)(void *conn, uint64_t *out, int64_t retention_us, uint64_t limit,
                uint32_t timeout_ms, rowlock_error *err);

    /* MUST. Calls fn for each row, by name; stops when it returns nonzero. fn gets no access to the
     * connection. Holds no lock on rows. */
    int (*list)(void *conn, const rowlock_list_query *query, rowlock_row_fn fn, void *payload,
                uint32_t timeout_ms, rowlock_error *err);

    /* MUST. *out: the version recorded in the tables, 0 if there are none. */
    int (*schema_version)(void *conn, int *out, uint32_t timeout_ms, rowlock_error *err);

    /* MUST. One step from version `from` to `to` (one up or one down), while no other process does
     * so. If the recorded version is no longer `from`: BUSY, nothing done. */
    int (*schema_apply)(void *conn, int from, int to, uint32_t timeout_ms, rowlock_error *err);
};

#ifdef __cplusplus
}
#endif

#endif
