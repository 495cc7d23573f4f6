/* SPDX-License-Identifier: MIT
 *
 * rowlock: distributed locks kept in a table of the SQL database you already have.
 *
 *     rowlock_client *client = NULL;
 *     rowlock_lock *lock = NULL;
 *     rowlock_error err;
 *
 *     if (rowlock_open(&client, rowlock_postgresql(), "host=db dbname=shop", NULL, &err) != 0)
 *         fail(err.message);
 *     if (rowlock_acquire(&lock, client, "nightly-report", NULL, &err) == ROWLOCK_OK) {
 *         work(rowlock_fence(lock));
 *         rowlock_release(&lock, &err);
 *     }
 *     rowlock_close(&client);
 *
 * THE RULE. A lock is a row whose expire_time lies in the future, by the database's clock.
 * Releasing moves expire_time to the past; a crash leaves it to the clock; both look the same to
 * the next owner. The lease (ttl) must therefore be renewed while the work goes on: by the library
 * in the background (the option `renew`), or by rowlock_renew().
 *
 * THE FENCE. Each grant carries a number that is larger than that of every grant before it of the
 * same name, for ever. Send it along with writes to other systems and let them refuse a smaller
 * one.
 *
 * STATUSES. Every function that can fail returns an int: 0 is success, a positive value is an
 * outcome to plan for (somebody else holds it, time is up, the lease was lost), a negative one is
 * an error. The numbers never change.
 *
 * ERRORS. `err` is the caller's struct and may be NULL. It is written on every return: on success
 * it is cleared, else it holds the status and one line that says what is wrong. No password ever
 * appears in it.
 *
 * OWNERSHIP. What comes through a `T **out` is the caller's and is given back with the function
 * named at its declaration. A returned pointer is borrowed and lives as long as the object it was
 * asked of. On failure `*out` is NULL. Strings passed in are copied.
 *
 * THREADS. A client may be used by any number of threads at once. A lock handle belongs to one
 * thread at a time; only rowlock_check(), rowlock_remaining(), rowlock_loss(), rowlock_fence(),
 * rowlock_name() and rowlock_owner() may be called while another thread uses it. The library starts
 * threads of its own, two for each client, with the first lock that has `renew`, `on_lost` or
 * rowlock_lost_fd(), with the first wait that reaches the queue in the database (an acquire with
 * wait_ms that finds the lock held), and for the reaper; they end with rowlock_close(), and all
 * signals are blocked in them. Names of hosts are looked up in a short-lived one. pthread_cancel()
 * takes effect when the call that the thread is in has returned, and callbacks run so, too; a
 * rowlock_cancel ends a wait. It keeps no global state but the list of clients that have threads,
 * calls no exit() or abort(), installs no signal handler and writes to no stream.
 *
 * EXIT. Close clients before the program ends: that releases what is held. Without it a lock stays
 * until its ttl has passed. exit() and the return from main() end the library's threads first, by
 * atexit(), so that they are not in a client library that is being taken apart; they wait for a
 * call of such a thread on the database, but no longer than a second. Whoever calls the library in
 * threads of its own has to end those by itself. _exit() and a signal end everything at once.
 *
 * FORK. Handles are dead in a child process: every call answers ROWLOCK_EFORK and touches nothing.
 * Open a client of the child's own.
 *
 * OPTIONS. Structs of options start with `size`, set by their _INIT macro; a zero field means the
 * default, and a NULL pointer to options means all defaults. Fields are only ever appended; a
 * `reserved` one must be zero.
 */
#ifndef ROWLOCK_ROWLOCK_H
#define ROWLOCK_ROWLOCK_H

#include <stddef.h>
#include <stdint.h>

#include "version.h"

/* What the _INIT macros are made of: all fields zero but the size. */
#ifdef __cplusplus
template <typename type> inline type rowlock_init_()
{
    type options = type();
    options.size = sizeof options;
    return options;
}
#define ROWLOCK_INIT_(type) rowlock_init_<type>()

extern "C" {
#else
#define ROWLOCK_INIT_(type)  \
    {                        \
        .size = sizeof(type) \
    }
#endif

#if defined(__GNUC__)
#define ROWLOCK_API __attribute__((visibility("default")))
#else
#define ROWLOCK_API
#endif

typedef struct rowlock_client rowlock_client; /* connections to one database */
typedef struct rowlock_lock rowlock_lock;     /* one hold on one lock */
typedef struct rowlock_tx rowlock_tx;         /* a transaction that holds locks until its end */
typedef struct rowlock_cancel rowlock_cancel; /* stops waiting calls from outside */
typedef struct rowlock_driver rowlock_driver; /* a kind of database, see driver.h */

/* ---- statuses -------------------------------------------------------------------------------- */

/* X(name, number, text). Stable: numbers and meanings never change, new ones may be added. */
#define ROWLOCK_STATUS_MAP(X)                                          \
    X(OK, 0, "success")                                                \
    X(BUSY, 1, "the lock is held by another owner")                    \
    X(TIMEOUT, 2, "the wait ended before the lock was free")           \
    X(LOST, 3, "the lock is not held, or not any more")                \
    X(CANCELLED, 4, "the wait was cancelled")                          \
    X(EINVAL, -1, "invalid argument")                                  \
    X(ENOMEM, -2, "out of memory")                                     \
    X(ENOTSUP, -3, "not supported by this driver")                     \
    X(ECONNECT, -4, "cannot use the database")                         \
    X(ESCHEMA, -5, "the lock table is missing or has another version") \
    X(EDRIVER, -6, "the database reported an error")                   \
    X(EUNKNOWN, -7, "the outcome is unknown")                          \
    X(ECLOSED, -8, "the client is closed")                             \
    X(EFORK, -9, "the handle belongs to another process")              \
    X(EPOOL, -10, "the client has no connection of its own for this")

enum rowlock_status {
#define ROWLOCK_STATUS_ENUM(name, number, text) ROWLOCK_##name = number,
    ROWLOCK_STATUS_MAP(ROWLOCK_STATUS_ENUM)
#undef ROWLOCK_STATUS_ENUM
};

/* The text of a status, a constant. "unknown status" for a number that is none. Any thread. */
ROWLOCK_API const char *rowlock_strstatus(int status);

/* What went wrong. The caller's; 256 bytes for ever. */
typedef struct rowlock_error {
    int32_t status;      /* one of enum rowlock_status */
    int32_t native_code; /* the database's own number (errno of MySQL, SQLite), 0 if none */
    char sqlstate[6];    /* five characters and NUL, empty if none */
    uint8_t retryable;   /* 1: the same call may succeed later without any change */
    uint8_t reserved;
    char message[240]; /* one line, no full stop, empty on success */
} rowlock_error;

/* ---- limits ---------------------------------------------------------------------------------- */

#define ROWLOCK_NAME_MAX   255                      /* bytes; any bytes, NUL included */
#define ROWLOCK_OWNER_MAX  255                      /* bytes of UTF-8, no control characters */
#define ROWLOCK_NOTE_MAX   1000                     /* likewise */
#define ROWLOCK_BATCH_MAX  10000                    /* names in one rowlock_acquire_many() */
#define ROWLOCK_TTL_MIN_MS ((int64_t)50)            /* shorter leases cannot be kept */
#define ROWLOCK_TTL_MAX_MS ((int64_t)31 * 86400000) /* 31 days */
#define ROWLOCK_FOREVER    ((int64_t)-1)            /* wait_ms: without bound */

/* ---- events ---------------------------------------------------------------------------------- */

/* Why a lock is not held any more. Numbers never change. */
enum rowlock_loss {
    ROWLOCK_LOSS_NONE = 0,        /* it is held, or was released */
    ROWLOCK_LOSS_EXPIRED = 1,     /* its time was up: not renewed, or the process was paused */
    ROWLOCK_LOSS_TAKEN = 2,       /* somebody else has it, or has had it since */
    ROWLOCK_LOSS_FORCED = 3,      /* ended by rowlock_force_release() */
    ROWLOCK_LOSS_UNREACHABLE = 4, /* the database did not answer, and the time was up */
    ROWLOCK_LOSS_MAX_HOLD = 5     /* held for as long as max_hold_ms allows */
};

enum rowlock_event_kind {
    ROWLOCK_EVENT_ACQUIRED = 1,    /* elapsed_us: of the wait */
    ROWLOCK_EVENT_RELEASED = 2,    /* elapsed_us: since it was acquired */
    ROWLOCK_EVENT_RENEWED = 3,     /* by the client's own thread; count: how many at once */
    ROWLOCK_EVENT_LOST = 4,        /* loss says why; elapsed_us: since it was acquired */
    ROWLOCK_EVENT_REAPED = 5,      /* by the client's own thread; count: how many rows */
    ROWLOCK_EVENT_RECONNECTED = 6, /* the first connection after one was lost */
    ROWLOCK_EVENT_ERROR = 7        /* a call on the database failed: status and message */
};

/* Borrowed: valid during the callback. What a kind does not have is zero, NULL or empty. */
typedef struct rowlock_event {
    size_t size;
    int32_t kind; /* enum rowlock_event_kind */
    int32_t loss; /* enum rowlock_loss */
    int32_t status;
    const char *name; /* bytes, NUL added */
    size_t name_length;
    const char *owner;
    uint64_t fence;
    int64_t elapsed_us;
    uint64_t count;
    const char *message;
} rowlock_event;

/* Called with no lock of the library's held, from whichever thread it happens in, several at once.
 * It may use the client, but not close it, nor release a lock whose ACQUIRED it is told, and should
 * return soon. */
typedef void (*rowlock_event_fn)(const rowlock_event *event, void *payload);

/* ---- client ---------------------------------------------------------------------------------- */

enum rowlock_schema_policy {
    ROWLOCK_SCHEMA_REQUIRE = 0, /* rowlock_open() answers ESCHEMA unless the tables are as needed */
    ROWLOCK_SCHEMA_CREATE = 1,  /* rowlock_open() brings missing or older tables up to date */
    ROWLOCK_SCHEMA_IGNORE = 2   /* no check: for tools that migrate */
};

/* What a grant survives. */
enum rowlock_durability {
    ROWLOCK_DURABLE = 0, /* a crash of the database's server, as far as its own settings allow */
    /* PostgreSQL: acquiring and renewing do not wait until they are on disk, as releasing never
     * does. Faster by a disk flush; and if the server crashes (not: if a client does), grants of
     * the last moments before, three times wal_writer_delay, are forgotten: another may get the
     * lock while the first holder still counts on it, until that one's next renewal or guard, or
     * the end of its lease, tells it. Transactions of the application's are as durable as ever.
     * Good for work that is safe to do twice, or guarded. MySQL has no such choice for a session,
     * and SQLite waits for no disk anyway (its locks end with the machine): there it changes
     * nothing. */
    ROWLOCK_RELAXED = 1
};

#define ROWLOCK_SPIN_MAX_US 10000
#define ROWLOCK_SPIN_NEVER  UINT32_MAX

typedef struct rowlock_options {
    size_t size;
    const char *prefix; /* of the tables' names: [a-z_][a-z0-9_]{0,30}; "rowlock_" */
    const char *schema; /* where the tables are: [A-Za-z_][A-Za-z0-9_$-]{0,62}; the connection's
                         * own. PostgreSQL: a schema, by default the one on the role's search_path
                         * that has them (two: ESCHEMA); MySQL: a database; SQLite has none */
    const char *owner;  /* of all locks, who may re-enter; by default host, pid, client and
                         * thread, so that each thread is an owner of its own */
    int64_t ttl_ms;     /* lease of locks that name none; 30,000 */
    int64_t call_timeout_ms;    /* what a call takes at most that waits for no lock, whatever hangs,
                                 * retries and new connections included; 5,000 */
    int64_t connect_timeout_ms; /* bound of one attempt to connect; 3,000 */
    uint32_t max_connections;   /* opened as needed; rowlock_tx_begin() may have as many again; 5.
                                 * While locks are held the last one is reserved for renewals and
                                 * releases; if this is 1 all calls share it, and these come first */
    int32_t schema_policy;      /* enum rowlock_schema_policy */
    rowlock_event_fn on_event;  /* told what happens, see rowlock_event; none */
    void *event_payload;
    int64_t reap_interval_ms;      /* the client reaps about so often; 0: only by rowlock_reap() */
    int64_t reap_retention_ms;     /* of that: as in rowlock_reap_options */
    uint32_t max_wait_connections; /* more connections, for threads that wait: one for each name
                                    * that is waited for, and until its release for one that was
                                    * waited for. Who gets none asks the database from time to time
                                    * instead, one question for all; 4 */
    int64_t ticket_ms;             /* a waiter that stops (SIGSTOP, a frozen machine) keeps its
                                    * place in the queue, and the others waiting, so long; 5,000 */
    int32_t durability;            /* enum rowlock_durability */
    uint32_t spin_us;              /* a call looks for its answer for so long, without sleeping,
                                    * before it waits for it: at most ROWLOCK_SPIN_MAX_US; 500. Only
                                    * while nobody else wants the processor, and hardly ever where
                                    * answers take longer. ROWLOCK_SPIN_NEVER: it sleeps at once.
                                    * SQLite: no effect */
} rowlock_options;

#define ROWLOCK_OPTIONS_INIT ROWLOCK_INIT_(rowlock_options)

/* Opens a client and connects once, so that a wrong address or a missing table shows here.
 *
 * `driver` is rowlock_postgresql(), rowlock_mysql() or rowlock_sqlite(), each from its own header
 * and library. `address` is what the driver takes: a libpq URI or conninfo string,
 * mysql://user:password@host:port/database?..., or a path. Close with rowlock_close().
 *
 * OK; EINVAL (bad argument, option or address); ECONNECT (unreachable, refused, read-only);
 * ESCHEMA (run `rowlock migrate up`, or set schema_policy); ENOMEM; EDRIVER. Any thread. */
ROWLOCK_API int rowlock_open(rowlock_client **out, const rowlock_driver *driver,
                             const char *address, const rowlock_options *options,
                             rowlock_error *err);

/* Closes the client and sets *client to NULL; NULL is allowed at both levels. Calls of other
 * threads that wait return ECLOSED, calls under way are waited for (each ends by its timeout).
 * Locks still held are released, in one batch (one more for each re-entry). Their handles stay
 * valid memory, answer ECLOSED, and must still be given to rowlock_release(). Not from a callback
 * of the library's.
 */
ROWLOCK_API void rowlock_close(rowlock_client **client);

/* ---- acquiring ------------------------------------------------------------------------------- */

/* Who stands in the way, by the database's word at the time of the last try. */
typedef struct rowlock_holder {
    int64_t remaining_ms; /* of the holder's lease */
    uint64_t fence;
    char name[ROWLOCK_NAME_MAX + 1]; /* which of the names (bytes; NUL added) */
    char owner[ROWLOCK_OWNER_MAX + 1];
} rowlock_holder;

/* The lock is lost: `loss` (enum rowlock_loss) says why. Told before the database lets anybody else
 * in, at the moment from which rowlock_check() answers LOST, or, if the database said so, as soon
 * as the reason is known, at the latest at the end of the lease as it was known; once for each
 * handle, by the client's own thread, with no lock of the library's held; never after
 * rowlock_release() has returned. It may use the library and release the lock (but not inside
 * rowlock_with()); it must not close the client nor wait for a thread that releases the lock, and
 * should return soon: others are told by the same thread.
 *
 * It is never called before *out of rowlock_acquire() is set, but it may be called before that call
 * has returned to the thread that made it: a lease that ends at once, a thread that is descheduled.
 * So it is best to leave the release to that thread; a callback that releases the handle must know
 * that nobody else uses it, the thread that acquired it included. */
typedef void (*rowlock_lost_fn)(rowlock_lock *lock, int loss, void *payload);

typedef struct rowlock_acquire_options {
    size_t size;
    int64_t ttl_ms;             /* lease, 50 ms to 31 days; the client's */
    int64_t wait_ms;            /* 0: one try, within call_timeout_ms; > 0: at most so long, and a
                                 * tenth or 30 ms more for the last request, whatever hangs (100 ms
                                 * in all are given to any); ROWLOCK_FOREVER. On SQLite a row that
                                 * a transaction has locked makes it half a second longer */
    const char *owner;          /* the client's, or this thread's */
    const char *note;           /* for the person who looks: what is being done */
    size_t name_length;         /* for names with NUL bytes; 0: the name ends at its NUL */
    const size_t *name_lengths; /* the same for rowlock_acquire_many(), one for each name */
    rowlock_cancel *cancel;     /* ends the wait when fired */
    rowlock_holder *holder;     /* out, filled with BUSY and TIMEOUT */
    int32_t renew;              /* nonzero: renewed in the background until it is released. A lease
                                 * that is shorter than call_timeout_ms may be lost when a call of
                                 * that thread's hangs */
    int64_t max_hold_ms;        /* held no longer than this, renewed or not; 0: no bound. Of several
                                 * handles of one hold the shortest counts */
    rowlock_lost_fn on_lost;    /* told when the lock is lost; none */
    void *lost_payload;
    int32_t barge;    /* nonzero: takes a free lock although others wait for it */
    int32_t reserved; /* 0 */
} rowlock_acquire_options;

#define ROWLOCK_ACQUIRE_OPTIONS_INIT ROWLOCK_INIT_(rowlock_acquire_options)

/* Acquires the lock `name`: 1 to 255 bytes, compared byte by byte.
 *
 * If the same owner holds it already, the hold is counted once more, the lease is extended, and the
 * new handle shares the tenure (and the fence) of the first. Each handle is released once. A tenure
 * that is LOST here is not re-entered: until its lease has ended in the database, too, the lock is
 * BUSY also to its last owner, who is shown as the holder.
 *
 * OK; BUSY (no wait asked for); TIMEOUT; CANCELLED; EINVAL; ECONNECT (certainly not acquired; also
 * if the answer came when the lease it granted had ended: within wait_ms it is asked for again);
 * EUNKNOWN (the answer was lost and could not be had again: there may be a hold in this owner's
 * name until the ttl has passed; never treat it as acquired. The owner's next acquire by this
 * client takes it over, counted once. If it was a re-entry the hold outlives the last release, and
 * the lock is BUSY also to its owner until the lease has ended); ESCHEMA; EDRIVER; ENOMEM; ECLOSED;
 * EFORK. Release with rowlock_release(). Any thread. */
ROWLOCK_API int rowlock_acquire(rowlock_lock **out, rowlock_client *client, const char *name,
                                const rowlock_acquire_options *options, rowlock_error *err);

/* Waiting is first come, first served: threads of a client queue for a name among themselves, and
 * the first of each client takes a ticket in the database (rowlock_waiters()). As long as somebody
 * waits, a lock that is free is BUSY to all others, unless they barge. Where the database can wake
 * the next one it does so at the release; else clients look for it. After a death the next one is
 * served within a second if it was a waiter that died, within the ttl if it was the holder. A wait
 * that is cancelled, or whose client is closed, ends at once or within a second. Transaction mode
 * takes no tickets. */

/* Acquires n locks, all or none, in one round trip. `out` is an array of n, in the order of
 * `names`; on failure it is filled with NULL. Names are taken in byte order, so that two callers
 * cannot block each other; a name given twice is EINVAL. Statuses as above; BUSY if any of them is.
 */
ROWLOCK_API int rowlock_acquire_many(rowlock_lock **out, rowlock_client *client,
                                     const char *const *names, size_t n,
                                     const rowlock_acquire_options *options, rowlock_error *err);

/* A handle for a tenure that was acquired elsewhere (another process, a script), known by its name,
 * owner and fence. Renews it, in one round trip, with the ttl of `options`, whose `owner` says
 * whose it is. The hold is the other's: release it once, here or there. OK; LOST if there is no
 * such tenure; else as rowlock_acquire(). */
ROWLOCK_API int rowlock_adopt(rowlock_lock **out, rowlock_client *client, const char *name,
                              uint64_t fence, const rowlock_acquire_options *options,
                              rowlock_error *err);

/* ---- holding --------------------------------------------------------------------------------- */

/* Extends the lease to ttl_ms from now (0: as acquired), not beyond max_hold_ms; never shortens it,
 * never brings a lost lock back. Always asks the database: OK proves that it was held after the
 * call began. OK; LOST; BUSY (a transaction keeps the row locked), ECONNECT or EUNKNOWN: still held
 * until the deadline, try again; EDRIVER; EINVAL; ECLOSED; EFORK. */
ROWLOCK_API int rowlock_renew(rowlock_lock *lock, int64_t ttl_ms, rowlock_error *err);

/* Renews it if less than `remaining_ms` is left, else does nothing: for work in steps of a known
 * length. Statuses as rowlock_renew(). OK says that it is held; for how long tells
 * rowlock_remaining(): not beyond max_hold_ms. */
ROWLOCK_API int rowlock_ensure(rowlock_lock *lock, int64_t remaining_ms, rowlock_error *err);

/* Is it held, by this process's own clock? No I/O. OK, LOST (for ever), ECLOSED, EFORK, EINVAL. The
 * deadline counts from before the request was sent, less a margin, so that the answer turns LOST
 * before the database's does; it is LOST at once if an answer of the database to this client says
 * so. Any thread. */
ROWLOCK_API int rowlock_check(const rowlock_lock *lock);

/* Milliseconds until rowlock_check() turns LOST; 0 if it has. No I/O. Any thread. */
ROWLOCK_API int64_t rowlock_remaining(const rowlock_lock *lock);

/* Why it was lost, enum rowlock_loss; NONE as long as rowlock_check() says OK. If the database said
 * so, EXPIRED until the reason is known. No I/O. Any thread. */
ROWLOCK_API int rowlock_loss(const rowlock_lock *lock);

/* A descriptor that becomes readable when the lock is lost, and stays so; for poll(). Those of all
 * locks that are lost at one time become so before the first on_lost is called. Borrowed: it is
 * closed by rowlock_release(). Made when first asked for. -1 and an error if there is none. */
ROWLOCK_API int rowlock_lost_fd(rowlock_lock *lock, rowlock_error *err);

/* The fencing token of this tenure, at most 2^63-1; 0 for NULL. Any thread. */
ROWLOCK_API uint64_t rowlock_fence(const rowlock_lock *lock);

/* The name of the lock, with a NUL added; *length (may be NULL) is that without it. Borrowed from
 * the handle; NULL and 0 for NULL. Any thread. */
ROWLOCK_API const char *rowlock_name(const rowlock_lock *lock, size_t *length);

/* The owner under which it is held; borrowed from the handle. Any thread. */
ROWLOCK_API const char *rowlock_owner(const rowlock_lock *lock);

/* Gives one hold back, frees the handle whatever the answer and sets *lock to NULL. The last hold
 * of a tenure frees the lock. A second release through the same variable is EINVAL. OK; LOST (the
 * lease had ended; nothing is sent, so that nothing of the next owner's, or of who has adopted the
 * lock, is touched; in the database the lease may live a little longer); ECONNECT, EUNKNOWN or
 * EDRIVER (if it is not free it frees itself when the ttl has passed, and before the owner's next
 * acquire by this client the release is sent again, so that it is not entered; EDRIVER also if a
 * transaction keeps the row locked all the time, one that guards it perhaps: commit first); ECLOSED
 * (released by rowlock_close()); EFORK; EINVAL. */
ROWLOCK_API int rowlock_release(rowlock_lock **lock, rowlock_error *err);

/* Gives back n holds of one client, in one round trip where no name is there twice: one more for
 * each re-entry, and for each that others of the same owner change at that moment. All handles are
 * freed and all of `locks` set to NULL, whatever the answer; entries that are NULL are passed over.
 * `statuses` is an array of n for the answer to each, or NULL: as rowlock_release(), OK for NULL.
 * Returns OK if all are, else the first of them that is not. EINVAL (locks of several clients, or
 * one twice) and ENOMEM: nothing is done. */
ROWLOCK_API int rowlock_release_many(int *statuses, rowlock_lock **locks, size_t n,
                                     rowlock_error *err);

/* Gives the handle up and leaves the lock as it is: nothing is sent, it is not renewed any more,
 * and rowlock_close() does not release it. It is free when its ttl has passed (a renewal under way
 * may still count), unless whoever knows name, owner and fence goes on with rowlock_adopt(), in
 * another process perhaps, and releases it there. Frees the handle whatever the answer and sets
 * *lock to NULL. OK; LOST (the lease had ended); ECLOSED (released by rowlock_close()); EFORK;
 * EINVAL. */
ROWLOCK_API int rowlock_detach(rowlock_lock **lock, rowlock_error *err);

/* Runs fn(lock, payload) under the lock and always releases it. *out is what fn returned; it is not
 * written if fn did not run. Returns what acquiring returned if that failed, else what releasing
 * returned: LOST says that the lease ended before fn did. */
ROWLOCK_API int rowlock_with(int *out, rowlock_client *client, const char *name,
                             const rowlock_acquire_options *options,
                             int (*fn)(rowlock_lock *lock, void *payload), void *payload,
                             rowlock_error *err);

/* ---- transactions ---------------------------------------------------------------------------- */

/* TRANSACTION MODE. The lock is the row itself, locked by SELECT ... FOR UPDATE inside a
 * transaction. COMMIT and ROLLBACK free it, and so does the end of the connection; also ROLLBACK TO
 * a savepoint that is older than the lock, and on MySQL every statement that commits implicitly
 * (CREATE TABLE and so on). No clock is
 * involved and nothing is to be renewed; what the transaction writes and the lock stand or fall
 * together. It is meant for work in the same database: if the server ends the transaction
 * (idle_in_transaction_session_timeout, an administrator, a crash) the lock is gone without a word,
 * but so are the writes.
 *
 * Both modes share the names: a lease that lives is BUSY to a transaction, whoever holds it, and a
 * lock that a transaction has is BUSY to a lease. Who holds a lock in a transaction cannot be seen
 * from outside: rowlock_list() does not show it, a rowlock_holder has no owner. The fence is raised
 * in the transaction and counts once that is committed.
 *
 * In a connection of the application's own, which is the usual place: rowlock_postgresql_lock(),
 * rowlock_mysql_lock(), rowlock_sqlite_lock(), in the drivers' headers. In one of the library's:
 * rowlock_tx_begin(). As in every transaction, statements of the application's own and the COMMIT
 * may fail by a deadlock or a serialization failure: roll back and begin again.
 *
 * THE GUARD joins both worlds: rowlock_postgresql_guard() and its sisters prove, inside a
 * transaction of the application's, that a lease lock is still held, and keep it from being taken
 * over before that transaction has ended. It is for the application to roll back when they say
 * LOST, and to release the lock after the COMMIT. */

typedef struct rowlock_tx_options {
    size_t size;
    int64_t wait_ms;            /* 0: no wait; > 0: at most so long; ROWLOCK_FOREVER. If the
                                 * database hangs, call_timeout_ms more */
    int32_t in_line;            /* nonzero: keeps its place among those who wait for the row, as the
                                 * database orders them: one statement waits all the time. Neither
                                 * cancel nor rowlock_close() is noticed before it ends. By default
                                 * a statement waits a few seconds and is then sent anew */
    const size_t *name_lengths; /* one for each name; NULL: names end at their NUL */
    rowlock_cancel *cancel;     /* ends the wait when fired */
    rowlock_holder *holder;     /* out, filled with BUSY and TIMEOUT as far as it is known */
} rowlock_tx_options;

#define ROWLOCK_TX_OPTIONS_INIT ROWLOCK_INIT_(rowlock_tx_options)

/* Begins a transaction (READ COMMITTED) on a connection of the library's and locks n names in it,
 * all or none, in byte order. Statements of the application's run in it by way of
 * rowlock_postgresql_connection() and its sisters. End it with rowlock_tx_commit() or
 * rowlock_tx_rollback(); rowlock_close() leaves it open. A handle belongs to one thread at a time.
 *
 * OK; BUSY (no wait asked for); TIMEOUT; CANCELLED; EINVAL; ENOTSUP (the driver has no
 * transactions); ECONNECT (also if max_connections transactions are open all the time), ESCHEMA,
 * EDRIVER, ENOMEM, ECLOSED, EFORK: nothing is locked. Any thread. */
ROWLOCK_API int rowlock_tx_begin(rowlock_tx **out, rowlock_client *client, const char *const *names,
                                 size_t n, const rowlock_tx_options *options, rowlock_error *err);

/* The fence of the i-th name as given; 0 for NULL and beyond the last. */
ROWLOCK_API uint64_t rowlock_tx_fence(const rowlock_tx *tx, size_t i);

/* Commits, frees the handle whatever the answer and sets *tx to NULL. OK; EDRIVER (refused, or it
 * had failed before: rolled back; err->retryable: begin again; or the application itself has ended
 * it, which the message says); ECONNECT (the connection was gone
 * before: rolled back); EUNKNOWN (the answer was lost: look); EFORK; EINVAL. */
ROWLOCK_API int rowlock_tx_commit(rowlock_tx **tx, rowlock_error *err);

/* Undoes it, frees the handle and sets *tx to NULL. OK, also if the connection is gone, or has a
 * statement under way and is closed: then the server does so, as soon as it notices; EFORK;
 * EINVAL. */
ROWLOCK_API int rowlock_tx_rollback(rowlock_tx **tx, rowlock_error *err);

/* ---- cancelling ------------------------------------------------------------------------------ */

/* A switch that ends every wait it was given to. Free with rowlock_cancel_free(). */
ROWLOCK_API int rowlock_cancel_new(rowlock_cancel **out, rowlock_error *err);

/* Waits in progress and later ones end with CANCELLED; for ever. Any thread, and signal handlers.
 */
ROWLOCK_API void rowlock_cancel_fire(rowlock_cancel *cancel);

/* When no call uses it any more. Sets *cancel to NULL; NULL is allowed. */
ROWLOCK_API void rowlock_cancel_free(rowlock_cancel **cancel);

/* ---- looking and mending --------------------------------------------------------------------- */

/* A row of the lock table. Borrowed: valid during the callback. */
typedef struct rowlock_row {
    size_t size;
    const char *name; /* bytes, NUL added */
    size_t name_length;
    const char *owner;
    const char *note;
    uint64_t fence;
    uint32_t hold_count;
    int64_t held_ms;      /* since it was acquired, by the database's clock */
    int64_t remaining_ms; /* of the lease; <= 0 if it has ended */
} rowlock_row;

/* Nonzero stops the listing. */
typedef int (*rowlock_row_fn)(const rowlock_row *row, void *payload);

typedef struct rowlock_list_options {
    size_t size;
    const char *starts_with;   /* only names that start so; all */
    size_t starts_with_length; /* 0: starts_with ends at its NUL */
    int32_t expired;           /* nonzero: free rows that have not been reaped, too */
    int32_t reserved;          /* 0 */
} rowlock_list_options;

#define ROWLOCK_LIST_OPTIONS_INIT ROWLOCK_INIT_(rowlock_list_options)

/* Calls fn for each held lock, in byte order of names. fn may use the client. Rows are read in
 * pages of 1,000, and no more than one is in memory; call_timeout_ms bounds each of them. It is no
 * snapshot: what changes meanwhile may be shown or not, no name is shown twice. OK also when fn
 * stopped it; else as rowlock_acquire(), after some rows perhaps. Any thread. */
ROWLOCK_API int rowlock_list(rowlock_client *client, const rowlock_list_options *options,
                             rowlock_row_fn fn, void *payload, rowlock_error *err);

/* Somebody who waits for a lock. Borrowed: valid during the callback. */
typedef struct rowlock_waiter {
    size_t size;
    const char *name; /* bytes, NUL added */
    size_t name_length;
    const char *owner;
    uint64_t ticket; /* the lower one comes first */
    int64_t waited_ms;
    int64_t remaining_ms; /* of the ticket's life: kept up as long as somebody waits with it */
    const char *holder;   /* who holds the lock; NULL: nobody, or a transaction */
} rowlock_waiter;

/* Nonzero stops the listing. */
typedef int (*rowlock_waiter_fn)(const rowlock_waiter *waiter, void *payload);

/* Calls fn for each waiter, in byte order of names, then in the order in which they are served; of
 * each client the first for each name. `expired` of the options is not looked at. fn may use the
 * client. All of them are read into memory first, less than 900 bytes each. OK also when fn
 * stopped it; ENOTSUP (the driver has no queue); else as rowlock_acquire(). Any thread. */
ROWLOCK_API int rowlock_waiters(rowlock_client *client, const rowlock_list_options *options,
                                rowlock_waiter_fn fn, void *payload, rowlock_error *err);

typedef struct rowlock_force_options {
    size_t size;
    size_t name_length; /* 0: the name ends at its NUL */
    uint64_t fence;     /* only this tenure; 0: whoever holds it */
} rowlock_force_options;

#define ROWLOCK_FORCE_OPTIONS_INIT ROWLOCK_INIT_(rowlock_force_options)

/* Ends somebody else's hold, all counts of it, and raises the fence, so that the old holder's renew
 * and release are refused, and its fenced writes too. The old holder goes on working until it asks:
 * use it for holders that are dead. OK; LOST (nobody holds it, or not with that fence). Any thread.
 */
ROWLOCK_API int rowlock_force_release(rowlock_client *client, const char *name,
                                      const rowlock_force_options *options, rowlock_error *err);

typedef struct rowlock_reap_options {
    size_t size;
    int64_t retention_ms; /* rows whose lease ended longer ago than this, at least 1,000; 7 days */
    uint64_t limit;       /* at most so many rows; 10,000 */
} rowlock_reap_options;

#define ROWLOCK_REAP_OPTIONS_INIT ROWLOCK_INIT_(rowlock_reap_options)

/* Deletes rows of locks that nobody has held for long, and puts their number into *out (may be
 * NULL). Their fences are not given again, whichever way the server's clock is set. Any thread; any
 * number of processes at once. */
ROWLOCK_API int rowlock_reap(uint64_t *out, rowlock_client *client,
                             const rowlock_reap_options *options, rowlock_error *err);

/* ---- numbers --------------------------------------------------------------------------------- */

/* Bucket i counts what took 2^i microseconds and more, but less than 2^(i+1); the first also what
 * took less, the last what took longer. */
#define ROWLOCK_BUCKETS 40

/* Of one client since it was opened, unless said otherwise. Fields are only ever appended. */
typedef struct rowlock_counters {
    size_t size;
    uint64_t acquired, busy, timed_out, cancelled;
    uint64_t released, lost, renewed, reaped;
    uint64_t errors;                        /* calls that failed in the end */
    uint64_t retries;                       /* requests that were sent again */
    uint64_t deadlock_retries;              /* of these: because the database asked for it */
    uint64_t reconnects;                    /* connections opened after one was lost */
    uint64_t held;                          /* now */
    uint64_t connections;                   /* now, with those of transactions */
    uint64_t wait_buckets[ROWLOCK_BUCKETS]; /* of acquiring, granted or not */
    uint64_t hold_buckets[ROWLOCK_BUCKETS]; /* of holding, until released or lost */
    uint64_t waiting;                       /* threads, now */
    uint64_t queued;                        /* tickets taken */
    uint64_t polled;   /* of these: those that the database could not wake, so that it was asked */
    uint64_t combined; /* operations that travelled in the request of another thread */
} rowlock_counters;

#define ROWLOCK_COUNTERS_INIT ROWLOCK_INIT_(rowlock_counters)

/* Fills *out, whose size is set. Cheap: no I/O, no lock that a call under way could hold. Any
 * thread. OK; EINVAL; EFORK; ECLOSED. */
ROWLOCK_API int rowlock_stats(rowlock_counters *out, rowlock_client *client, rowlock_error *err);

/* ---- checking a deployment ------------------------------------------------------------------- */

enum rowlock_grade {
    ROWLOCK_GRADE_GOOD = 0,    /* as it should be */
    ROWLOCK_GRADE_WARNING = 1, /* works, but less safely or less well than it could */
    ROWLOCK_GRADE_BAD = 2      /* locks do not work here, or are not safe */
};

/* One thing that was looked at. Borrowed: valid during the callback. */
typedef struct rowlock_finding {
    size_t size;
    int32_t grade;       /* enum rowlock_grade */
    const char *subject; /* a word or two, stable: "server", "tables", "durability" */
    const char *message; /* one line: how it is */
    const char *remedy;  /* one line: what to do about it; NULL if it is good */
} rowlock_finding;

/* Nonzero stops it. */
typedef int (*rowlock_finding_fn)(const rowlock_finding *finding, void *payload);

/* Looks at the server, the tables and the settings that locks depend on, and tells fn about each,
 * good or not. If nothing is bad, two sessions then ask for the same locks, and the second must not
 * get them ("exclusion"): for about a second, under random names "rowlock-doctor-...", of which two
 * free rows stay for the reaper. Changes nothing else. Works without tables: open the client with
 * ROWLOCK_SCHEMA_IGNORE. fn may use the client. OK also when fn stopped it; ENOTSUP (the driver
 * does not know); else as rowlock_acquire(). Any thread. */
ROWLOCK_API int rowlock_diagnose(rowlock_client *client, rowlock_finding_fn fn, void *payload,
                                 rowlock_error *err);

/* ---- tables ---------------------------------------------------------------------------------- */

#define ROWLOCK_SCHEMA_LATEST (-1)

/* The version of the tables, 0 if there are none. Any thread. */
ROWLOCK_API int rowlock_schema_version(int *out, rowlock_client *client, rowlock_error *err);

/* Brings the tables to `version`, up or down, 0 (no tables) to ROWLOCK_SCHEMA_LATEST. Several
 * processes may do so at once. Each step may take a minute, for those who do so meanwhile. ESCHEMA
 * if the tables are newer than this library. */
ROWLOCK_API int rowlock_migrate(rowlock_client *client, int version, rowlock_error *err);

/* How many versions the driver's tables have had; the newest has this number. */
ROWLOCK_API int rowlock_migration_count(const rowlock_driver *driver);

/* The name of step `version` (1 and up), like "locks", a constant; NULL if there is none. */
ROWLOCK_API const char *rowlock_migration_name(const rowlock_driver *driver, int version);

/* The SQL of step `version`, up or down, with the prefix and schema of `options` (others are not
 * looked at). Give back with rowlock_free(). */
ROWLOCK_API int rowlock_migration_sql(char **out, const rowlock_driver *driver, int version, int up,
                                      const rowlock_options *options, rowlock_error *err);

/* Frees memory that the library gave away. NULL is allowed. */
ROWLOCK_API void rowlock_free(void *memory);

#ifdef __cplusplus
}
#endif

#endif
