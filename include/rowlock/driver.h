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
 *  - A lease is live while hold_count > 0 AND expire_time > now, a row is free otherwise: a clock
 * that is set back brings nothing back that was given up.
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
    uint8_t attempt[ROWLOCK_ATTEMPT_SIZE]; /* a repeated call carries the same. The first half is
                                            * the client's, at random; the other counts its calls,
                                            * the most significant byte first */
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
    /* the queue; zero for drivers that have none */
    uint64_t ticket;   /* in: under which it waits, 0: none; out of enqueue. release: the bell that
                        * this connection is to ring */
    uint64_t before;   /* BUSY, out of enqueue and turn, and back in to turn: the ticket whose bell
                        * is to be waited for; 0: the holder has none, or is not known */
    uint8_t barge;     /* in, acquire without a ticket: whoever waits */
    uint8_t is_queue;  /* BUSY, out: the lock is free, but others wait for it and come first */
    uint8_t can_wait;  /* BUSY, out of enqueue and turn: turn has something to wait for. Else the
                        * core asks by `look` from time to time */
    uint8_t rings;     /* out of enqueue, and of turn with OK: this connection has the bell of the
                        * ticket, and is to be kept until the release. OK without it: it has none
                        * any more */
    int64_t waited_us; /* OK, out of turn: of the time since the call, by this host's clock, this
                        * much at least had passed before the lock was taken */
    uint32_t wait_ms;  /* in, enqueue with a bell: it may wait for so long, right behind its commit,
                        * for what the first turn would wait for */
} rowlock_op;

/* What a connection needs to know; copied or used up during open. */
typedef struct rowlock_config {
    size_t size;
    const char *address; /* the user's, as given */
    const char *prefix;  /* validated: [a-z_][a-z0-9_]{0,30} */
    const char *schema;  /* validated, or NULL */
    int may_create;      /* nonzero: a database that is a file is made if it is not there */
    int is_relaxed;      /* nonzero: acquire, renew and turn need not be durable, if that is faster;
                          * transactions stay as they are */
    uint32_t spin_us;    /* for so long an answer may be looked for without sleeping; 0: not */
    uint32_t reserved;   /* 0 */
} rowlock_config;

typedef struct rowlock_list_query {
    size_t size;
    const char *starts_with; /* starts_with_length bytes; NULL with 0 */
    size_t starts_with_length;
    int expired;  /* nonzero: rows whose lease has ended, too */
    int reserved; /* 0 */
    /* `list`, where size says that it is there: only names behind this one; NULL: all. The core
     * passes over others, so that to ignore it costs time, no more. */
    const char *after;
    size_t after_length;
} rowlock_list_query;

/* A place in the byte order of names. */
typedef struct rowlock_mark {
    size_t length; /* 0: before the first; else right behind this name */
    char name[ROWLOCK_NAME_MAX];
} rowlock_mark;

#define ROWLOCK_REAP_MAX  1000 /* rows that one `reap` deletes at most, */
#define ROWLOCK_REAP_LOOK 10   /* and that it looks at for each of them */

/* In what `turn` waits no longer at once: a statement that is blocked in the database keeps a
 * snapshot, and others may wait for the end of that. */
#define ROWLOCK_TURN_MAX_MS ((uint32_t)1000)

/* Where `lock` and `guard` work: a connection of the driver's own, or one of the application's. */
typedef struct rowlock_target {
    size_t size;
    void *conn;         /* the driver's own; then the rest is not set. NULL: the application's */
    void *native;       /* PGconn *, MYSQL *, sqlite3 *; never NULL */
    const char *prefix; /* as in rowlock_config */
    const char *place;  /* what `locate` said */
} rowlock_target;

#define ROWLOCK_WAIT_NONE    ((uint32_t)0)
#define ROWLOCK_WAIT_FOREVER UINT32_MAX /* wait_ms: no bound */
#define ROWLOCK_PLACE_MAX    4096       /* bytes of what `locate` says, its NUL included */

/* native_code of an EINVAL: the connection is on another server or database than the place is. The
 * core asks `locate` anew and repeats the call, once. */
#define ROWLOCK_NATIVE_ELSEWHERE (-1)

/* native_code of an ECONNECT or EDRIVER: the time was up before anything was sent. */
#define ROWLOCK_NATIVE_NO_TIME (-2)

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
     * ESCHEMA for a file that is not there and may not be made, or tables of which cannot be said
     * where they are), sets up the session. Does not look into the tables. `close` is called after
     * a failed open, too. */
    int (*open)(void *conn, const rowlock_config *config, uint32_t timeout_ms, rowlock_error *err);

    /* MUST. Frees everything, may say goodbye, must not wait for the server. */
    void (*close)(void *conn);

    /* MUST. For each op, under the row's lock, `now` being the database's clock:
     *   row absent or free: a new tenure. fence = max(row's fence + 1, now in us),
     *       hold_count 1, acquire_time now.
     *   live, owner equal: same fence; hold_count + 1, or unchanged if the row's attempt is the
     *       op's (a repeated call).
     *   owner equal, free or live, and the row's attempt has the same first half as the op's and is
     *       larger: the request is late, its client has gone on. LOST; writes nothing. (The core
     *       asks again with a new attempt if it is still wanted. Not where a request cannot outlive
     *       its call, as in SQLite; by ticket, which can be used but once, only if it is live.)
     *   else: BUSY with holder, holder_fence, remaining_us; writes nothing, keeps no lock.
     * The first two set owner, attempt, note (kept if the op's is empty and the tenure goes on) and
     * expire_time = now + ttl_us (never earlier than it was while the tenure goes on: an outer hold
     * may count on it), and answer OK with fence, hold_count and remaining_us.
     * A row that somebody's open transaction keeps locked is BUSY, too, with what can be seen of
     * it, after timeout_ms at the latest; where n is above 1 and not all are wanted, at once, since
     * the others do not concern it (the core asks for it again, alone, unless a live lease of
     * another owner is seen). With a queue (see enqueue) a new tenure also needs that no live
     * ticket of the name comes before: without op->ticket none at all, unless op->barge; with it
     * none that is lower. Else BUSY with is_queue and an empty holder. A new tenure by ticket takes
     * the ticket off the queue in the same commit; a ticket that is not there any more makes no
     * difference. `all` nonzero: all ops get it or none does; then those that could have been had
     * are answered BUSY with an empty holder, and nothing is written if a plain look shows one to
     * be held. A second round trip is allowed where a row was created or locked by somebody else in
     * between, and where it is not as those of the call before, free or held; several that are not
     * wanted all or none may be had in two commits. Absent rows may be left as free ones. Durable
     * when it returns. */
    int (*acquire)(void *conn, rowlock_op *ops, size_t n, int all, uint32_t timeout_ms,
                   rowlock_error *err);

    /* MUST. Where name, owner and fence match and it is live: expire_time becomes the later
     * of itself and now + ttl_us; OK with hold_count and remaining_us. Where they match but the row
     * is locked by a transaction at this moment: BUSY (not waited for, not lost). Else LOST.
     * Durable. */
    int (*renew)(void *conn, rowlock_op *ops, size_t n, uint32_t timeout_ms, rowlock_error *err);

    /* MUST. Where name, owner and fence match: if the row's attempt is the op's, a repeated call:
     * OK with the count as it is. Else if it is live: if `seen` is
     * neither zero nor the row's attempt: BUSY with the row's attempt in `seen`, nothing done. (A
     * request that was held up on its way and arrives after its own repetition finds the row
     * changed by others since, and must not count twice.) Otherwise one hold less; at zero
     * expire_time becomes now; attempt is the op's; OK with the count that is left. Else LOST.
     * The owner stays in the row. Need not be durable: a lost release runs out. With a queue: an op
     * with a ticket rings the bell of it, which this connection has, in the same round trip, after
     * the commit; one without tells the first waiter by other means, if there are any and the row
     * says that somebody waits. No failure to tell is a failure to release. Several may be released
     * in two steps, if not all are last holds that nobody waits for: after an error some are, and a
     * repetition finds them so. */
    int (*release)(void *conn, rowlock_op *ops, size_t n, uint32_t timeout_ms, rowlock_error *err);

    /* MUST. Ends a live lock (of tenure op->fence only, if that is not 0): fence = max(fence + 1,
     * now), hold_count 0, expire_time now, attempt the op's; OK, also if the row's attempt is the
     * op's already. LOST if there is no such live lock. Name, fence and attempt are set. Durable.
     */
    int (*force_release)(void *conn, rowlock_op *op, uint32_t timeout_ms, rowlock_error *err);

    /* MUST. Deletes at most `limit` (1..ROWLOCK_REAP_MAX) rows behind *mark whose expire_time is
     * below now - retention_us, in byte order of names, passing over rows that are locked. A row
     * that is made later has a larger fence than all that were ever deleted, whichever way the
     * clock was set in between, and however long the making took: what `reap` deletes it must
     * remember before (sql/README.md: the floor), or leave. Looks at limit * ROWLOCK_REAP_LOOK rows
     * at most, so that no call takes as long as the table. *out: how many were deleted. *mark:
     * where to go on; length 0: there is nothing behind. Only that says so, not a small *out. After
     * an error neither is of use. With a queue: also some tickets, at most `limit`, whose life
     * ended a minute ago or more, and those that are past by a row that is deleted; they are not
     * counted. */
    int (*reap)(void *conn, uint64_t *out, rowlock_mark *mark, int64_t retention_us, uint32_t limit,
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

    /* Transaction mode: all of the following, or none (then it is ENOTSUP). */

    /* Makes sure that the rows are there: absent ones are created as free ones (owner empty,
     * hold_count 0, fence and expire_time now) in a transaction of its own, except where a database
     * admits one writer at a time and `lock` creates them itself. Each op: OK if no lease lives,
     * whoever asks; else BUSY with holder, holder_fence and remaining_us. Rows that are there are
     * neither locked nor waited for. One round trip if all are there. Name and name_length are set,
     * also in `lock`; owner and attempt in `lock`. */
    int (*prepare)(void *conn, rowlock_op *ops, size_t n, uint32_t timeout_ms, rowlock_error *err);

    /* Writes to `out`, NUL-terminated, where this connection finds its tables, for the statements
     * on another one: the schema, the database, the file's path, and what tells this server and
     * database from others. Opaque to the core. ESCHEMA if they are not there. */
    int (*locate)(void *conn, char *out, size_t size, uint32_t timeout_ms, rowlock_error *err);

    /* Locks the rows of all ops, or none, FOR UPDATE, in order, and raises their fences: under the
     * locks, `now` being the database's clock, if each is free: fence = max(fence + 1,
     * now), owner and attempt the op's, hold_count 0, acquire_time and expire_time now, note empty;
     * OK with fence. Else nothing is written, and the ops are answered BUSY, those of live leases
     * with holder, holder_fence and remaining_us, others with an empty holder and 0. An op whose
     * row is not there is LOST.
     *
     * wait_ms: how long to wait for rows that other transactions have locked. ROWLOCK_WAIT_NONE:
     * not at all. Otherwise in the database's own queue as far as it has one, so that it detects
     * deadlocks; where it has none, looking again at short jittered intervals. A lease is never
     * waited for. Not `in_line`: for a few seconds at most (longer than the database takes to
     * notice a deadlock), then BUSY. timeout_ms is the bound of all the rest.
     *
     * On a connection of the driver's: begins the transaction (READ COMMITTED), in the same round
     * trip where it can. When all is OK the connection is as the application expects it: open
     * transaction, settings as the server gave them, no results pending, no pipeline. On any other
     * answer no transaction is left.
     *
     * On the application's: checks first (with n 0: no more than that), and answers EINVAL with a
     * line that says what to do, nothing sent, for one that is not connected, has no open
     * transaction, a failed one, results not read or pipeline mode; and, once it can be known,
     * ROWLOCK_NATIVE_ELSEWHERE. Whatever is answered, the
     * transaction goes on as it was, with all that was written in it, and every setting of the
     * session is as it was, unless the database has ended it (deadlock on InnoDB, connection lost),
     * which the message says. Locks of rows that were not all to be had are given back where the
     * database can do so within a transaction (PostgreSQL), else they end with it. EDRIVER and
     * retryable: deadlock, serialization failure, a snapshot older than the row; also a lease that
     * was found with a wait, if the row stays locked, since its holder could not give it back: to
     * be rolled back and begun again. ECONNECT: the connection is gone. Never EUNKNOWN: nothing of
     * this counts before the COMMIT. */
    int (*lock)(const rowlock_target *target, rowlock_op *ops, size_t n, uint32_t wait_ms,
                int in_line, uint32_t timeout_ms, rowlock_error *err);

    /* On the application's connection, with the same checks and the same care: where name, owner
     * and fence match and expire_time > now: keeps the row from being changed by others until the
     * transaction ends (FOR SHARE; several transactions may guard one row); op OK. Where it matches
     * but the row is locked by somebody else at this moment: op BUSY, not waited for. Else op LOST;
     * the row may stay locked until the transaction ends. */
    int (*guard)(const rowlock_target *target, rowlock_op *op, uint32_t timeout_ms,
                 rowlock_error *err);

    /* Ends the transaction that `lock` began on the driver's own connection. The application may
     * have done anything to it. Commit: OK only if the server says that it is committed; EDRIVER if
     * it is certain that it is not (refused, failed before, ended by the application); ECONNECT if
     * the connection was gone before the COMMIT was sent; EUNKNOWN if it may be committed. Commit
     * zero: rolls back. The connection is used again only after OK and EDRIVER, and only if
     * `native` was not asked for. */
    int (*end)(void *conn, int commit, uint32_t timeout_ms, rowlock_error *err);

    /* The PGconn *, MYSQL *, sqlite3 * of a connection in which `lock` has begun a transaction. */
    void *(*native)(void *conn);

    /* The queue: all of the following, or none (then waiters try again from time to time).
     *
     * A ticket is a place in the queue of a name (or of several, with the same number in each), a
     * row of a table of its own: ticket = max(now in us, every ticket of these names + 1, the one
     * that the lock's row was last taken by + 1). It lives until its expire_time. The lower one
     * comes first; one that is not above the ticket that the lock was last taken by is past: off
     * the queue, seen by nobody and in nobody's way, though its row may stay for a while (so the
     * search has a lower end however many rows are dead). Tickets are an order, and never decide
     * who owns a lock: its row alone does. So losing one costs a place, and they need not be
     * durable.
     *
     * A bell is something of the database's that a connection has from `enqueue` until it rings it,
     * by `leave` or by `release`, and that rings by itself when the connection ends; another
     * connection can wait for that. Whoever waits, waits for the bell of the one right before it,
     * and the first one for the bell of the holder, if that came by a ticket. */

    /* Puts the owner of the ops in the queue of all their names, under one ticket, for life_us, and
     * marks the locks' rows (wait_until) as waited for, in one commit, so that a release that does
     * not see the mark is seen by the try that follows. Rows that are locked for longer than a
     * moment stay unmarked; absent ones are not made. Ticket 0: there is none to be had at this
     * moment, because somebody keeps the tables from being written; the core asks again. Takes away
     * some dead tickets of the names. with_bell: n is 1, and this connection gets a bell, if bells
     * can be used here. All ops: BUSY with ticket, rings, before, can_wait (0 without a bell) and
     * remaining_us, as `turn` says them. With op->wait_ms (up to ROWLOCK_TURN_MAX_MS) it may go on
     * and wait for the bell of op->before, in the same round trip; not if a try may succeed earlier
     * although nobody rings. If that has rung the `turn` that follows tries at once. Answers are of
     * the time before that wait. */
    int (*enqueue)(void *conn, rowlock_op *ops, size_t n, int64_t life_us, int with_bell,
                   uint32_t timeout_ms, rowlock_error *err);

    /* On the connection that has the bell of op->ticket, or a try with wait_ms 0 on any. Waits at
     * most wait_ms (up to ROWLOCK_TURN_MAX_MS) for the bell of op->before, or if that is 0 for what
     * else tells of a release; then, unless the time has passed without it, and always with wait_ms
     * 0, tries as `acquire` does. Gives up soon when one of n_fds descriptors (-1: none) is
     * readable, if it can. Whose bell has been heard is off the queue, if it had not gone itself.
     * Op: OK as `acquire`, with rings. LOST: the ticket is not in the queue any more, or the
     * request is late; the core takes another ticket, with a new attempt. BUSY: not
     * yet; after a try with holder, before, can_wait, and remaining_us: how long until a try may
     * succeed although nobody rings (the rest of the holder's lease, or of the life of the ticket
     * before), else with these unchanged. Durable. */
    int (*turn)(void *conn, rowlock_op *op, uint32_t wait_ms, const int *fds, int n_fds,
                uint32_t timeout_ms, rowlock_error *err);

    /* Takes the tickets off the queue and rings the bell, if this connection has it. Always OK for
     * ops whose tickets are not there. */
    int (*leave)(void *conn, rowlock_op *ops, size_t n, uint32_t timeout_ms, rowlock_error *err);

    /* Is it worth a try? Each op, with ticket: OK if it is (the row is absent, free or the owner's,
     * and no live ticket comes before); BUSY with remaining_us as `turn`; LOST if the ticket is not
     * there or its life has ended. Sorted by name; a name may come twice, with two tickets. Reads
     * only, if life_us is 0; else first gives the tickets that live life_us from now, and renews
     * the marks, passing over rows that are locked. */
    int (*look)(void *conn, rowlock_op *ops, size_t n, int64_t life_us, uint32_t timeout_ms,
                rowlock_error *err);

    /* Calls fn for each live ticket, by name and ticket; stops when it returns nonzero. */
    int (*waiters)(void *conn, const rowlock_list_query *query, rowlock_waiter_fn fn, void *payload,
                   uint32_t timeout_ms, rowlock_error *err);

    /* MAY. Looks at what locks depend on and calls fn for each thing looked at: the server and its
     * version, whether it takes writes, the tables and their version, kind and storage, the rights
     * of this user, durability, isolation, poolers, clusters, replication, whether waiters can be
     * woken, how its clock and this host's differ. Changes nothing and keeps nothing locked. What
     * cannot be found out (a right that is missing) is a finding, not an error. */
    int (*diagnose)(void *conn, rowlock_finding_fn fn, void *payload, uint32_t timeout_ms,
                    rowlock_error *err);

    /* MAY. What `release` and after it `acquire` (not all or none) do, in one round trip, where
     * both do without a second one; so a name may stand in both. (A release that was sent before is
     * repeated by `release`: beside an acquire of the same name it may be LOST.) Where one half
     * fails, and the other was carried out or may have been, the whole is OK, and the ops of the
     * half that failed are BUSY with nothing known: an acquire with an empty holder, a release with
     * `seen` as it was. The core asks for them again, alone. A driver that has this slot answers
     * several connections at the same time, unless it says otherwise: */
    int (*exchange)(void *conn, rowlock_op *releases, size_t n, rowlock_op *acquires, size_t m,
                    uint32_t timeout_ms, rowlock_error *err);

    /* Nonzero: of all connections one writes at a time. The core sends what is joined by `exchange`
     * in one request at a time. */
    uint8_t has_one_writer;

    /* MAY. The schema in which this connection has found the tables where config.schema did not
     * say; NULL: nowhere yet. Valid until it is closed. Once the tables are as needed the core
     * gives it to all further connections of the client as their config.schema. */
    const char *(*schema_of)(const void *conn);
};

/* ---- for the functions of drivers' headers --------------------------------------------------- */

/* What rowlock_<driver>_lock(), _guard() and _connection() do; the drivers only add the type of
 * their connections. EINVAL if the client, lock or transaction is of another driver. */
ROWLOCK_API int rowlock_native_lock(uint64_t *fences, rowlock_client *client,
                                    const rowlock_driver *driver, void *native,
                                    const char *const *names, size_t n,
                                    const rowlock_tx_options *options, rowlock_error *err);
ROWLOCK_API int rowlock_native_guard(rowlock_lock *lock, const rowlock_driver *driver, void *native,
                                     rowlock_error *err);
ROWLOCK_API void *rowlock_native_connection(rowlock_tx *tx, const rowlock_driver *driver);

#ifdef __cplusplus
}
#endif

#endif
