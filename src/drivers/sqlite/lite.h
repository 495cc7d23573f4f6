/* SPDX-License-Identifier: MIT
 *
 * The SQLite driver's own declarations.
 *
 *   driver.c     the table of functions, opening and closing
 *   address.c    addresses, and whether the file can be used at all
 *   proc.c       what the kernel says in /proc
 *   filelock.c   whether this process has the lock that SQLite believes it has
 *   vfs.c        ... and whether it takes the locks that others take
 *   statement.c  prepared statements, calls, transactions, waiting for other writers, checkpoints
 *   fail.c       SQLite's codes as statuses
 *   clock.c      rowlock_now()
 *   lease.c      acquire, renew, release, force_release
 *   rows.c       reap, list
 *   queue.c      enqueue, leave, look
 *   turn.c       turn: waiting
 *   notice.c     ... for others to write
 *   process.c    ... or to be found dead
 *   waiters.c    the list of those who wait
 *   schema.c     the tables' version
 *   diagnose.c   what locks in a file depend on
 *   tx.c         transaction mode: waiting for the write lock, taking locks under it
 *   own.c        ... on a connection of the driver's
 *   native.c     ... and the guard, on one of the application's
 *
 * The application's connection is a lite_conn, too, for the time of a call: see native.c.
 *
 * Functions return a status of rowlock.h and have filled conn->err if it is not ROWLOCK_OK. */
#ifndef RLK_LITE_H
#define RLK_LITE_H

#include <sqlite3.h>
#include <stdio.h>

#include "error.h"
#include "rowlock/driver.h"
#include "sql_sqlite.h"

enum { LITE_PATH_MAX = 4096, LITE_BOOT_SIZE = 40, LITE_PREFIX_SIZE = 32, LITE_PROCESS_SIZE = 64 };

/* How long to wait for the write lock for a lock that may be free: the one who writes may have a
 * large batch of renewals. */
#define LITE_LOCK_WAIT_MS 500

/* The same for each step of one who waits, which is repeated, and for its leaving the queue after
 * the last one. Two steps and the leaving take no more than the above: so much longer than it was
 * asked to may a call wait beside a transaction that writes. */
#define LITE_TURN_WAIT_MS  100
#define LITE_LEAVE_WAIT_MS 300

typedef struct lite_conn {
    sqlite3 *db;
    sqlite3_stmt *statements[SQL_COUNT]; /* prepared on first use */
    const char *schema;                  /* where the tables are in it, as attached: "main" */
    rowlock_error *err;                  /* of the call under way, may be NULL */
    int rc;                              /* SQLite's code of the last failure */
    int64_t deadline_us;                 /* of the call under way */
    int64_t lock_us;                     /* ... for having the write lock, if that is earlier */
    uint32_t lock_ms;                    /* the same for the next call; 0: as long as the call */
    int64_t now_us;    /* rowlock_now() of this statement or transaction, 0: not read */
    int64_t floor_us;  /* of the fences, read with it */
    int clock_missing; /* rowlock_now() found no offset for this boot, rowlock_fence() no floor */
    int log_pages;     /* of the write-ahead log after the last commit */
    int checkpoint_at; /* do one when the log has more pages than this */
    int checkpointing;
    int committing;   /* the work is done: what fails now is the commit */
    int is_held;      /* in the hands of the application, with the transaction of `lock` open */
    int sync_normal;  /* commits of leases need not be synced */
    const char *path; /* while opening, NULL later */
    int is_counted;   /* among the connections of this process */
    uint64_t ticket;  /* the one that was taken on this connection, to be waited with */
    int notice;       /* a descriptor of inotify's plus 1, 0: none yet; watch: of the log, or 0 */
    int watch;
    int lock_fd;   /* SQLite's descriptor that has the lock of this process on the file */
    int lock_info; /* its fdinfo, 0: none */
    char process[LITE_PROCESS_SIZE]; /* what tickets say of this one, once asked for */
    char prefix[LITE_PREFIX_SIZE];
    char boot[LITE_BOOT_SIZE]; /* the kernel's name of this boot */
} lite_conn;

/* ---- address.c */

/* The path in an address, a pointer into it. EINVAL if it is no address of a file. */
int lite_address(const char **path, const char *address, rowlock_error *err);

/* Before opening: a folder that is not there, a file that cannot be a database. ECONNECT. */
int lite_check_path(const char *path, rowlock_error *err);

/* After opening, with the file's real path: folder not writable, network file system, several names
 * of one file. ECONNECT. */
int lite_check_place(const char *path, rowlock_error *err);

/* The folder of a path, as "x/" or ".", so that a link to a folder is followed. LITE_PATH_MAX. */
void lite_folder(char *out, const char *path);

/* ---- proc.c */

/* Opens a file of the kernel's. NULL and errno; EMEDIUMTYPE if it is somebody else's. */
FILE *lite_proc_open(const char *path);

/* Is something mounted at the path itself, and not on a folder above it? Zero if it cannot be told.
 */
int lite_is_mount_point(int *out, const char *path);

/* ---- filelock.c: has this process the lock on the file that SQLite believes it has? */

/* Of a connection that is reading, or has a log open. lite_file_lock_open() finds it, and
 * lite_file_lock_is_kept() looks again, which is quick. */
int lite_file_lock_open(lite_conn *conn);
int lite_file_lock_is_kept(lite_conn *conn);
void lite_file_lock_close(lite_conn *conn);

/* The same of a connection of the application's. */
int lite_has_file_lock(const char *path);

/* Has another copy of SQLite in this process opened the file? Then the status is returned. It is
 * seen if the file has a log. */
int lite_check_copies(const char *path, int status, rowlock_error *err);

/* The same, but looks once a second at most, since it looks at all descriptors. */
int lite_check_copies_sometimes(const char *path, int status, rowlock_error *err);

/* ---- vfs.c */

/* Does the connection lock this database as everybody else does? If not, the status is returned. */
int lite_check_vfs(sqlite3 *db, const char *schema, int status, rowlock_error *err);

/* ---- statement.c */

/* One call of a slot: notes timeout and err in conn, runs body(conn, payload), which may be run a
 * second time after the clock has been set. Whatever happens, no transaction is left open, unless
 * the body has set is_held. */
int lite_call(lite_conn *conn, int (*body)(lite_conn *conn, void *payload), void *payload,
              uint32_t timeout_ms, rowlock_error *err);

/* The same with the time at which it must be done, for slots that make several calls: they have one
 * timeout for all of them. */
int lite_call_until(lite_conn *conn, int (*body)(lite_conn *conn, void *payload), void *payload,
                    int64_t deadline_us, rowlock_error *err);
int64_t lite_deadline(uint32_t timeout_ms);

/* The prepared statement, NULL on failure; *status is set. Outside of a transaction it gets a new
 * reading of the clock. Bind, step, and give it back with lite_done(). */
sqlite3_stmt *lite_statement(lite_conn *conn, enum sql_statement which, int *status);

/* Steps to the end, which is where an autocommit commits, resets and unbinds. `rc` is what the last
 * sqlite3_step() or bind answered. */
int lite_done(lite_conn *conn, sqlite3_stmt *statement, int rc);

/* A statement without parameters, its rows ignored. */
int lite_run(lite_conn *conn, enum sql_statement which);

/* Somebody else's transaction was in the way of what failed last. */
int lite_is_busy(const lite_conn *conn);

/* Forgets all prepared statements. */
void lite_finalize(lite_conn *conn);

/* Is there a statement that changes something and was begun, but not stepped to its end? Then
 * SQLite neither commits nor opens a savepoint. */
int lite_is_writing(sqlite3 *db);

int lite_begin(lite_conn *conn); /* BEGIN IMMEDIATE; the clock is read anew */
int lite_commit(lite_conn *conn);
int lite_rollback(lite_conn *conn);

/* Installs the busy handler and the hook on the log. */
void lite_watch(lite_conn *conn);

/* ---- fail.c */

/* The status of a result code of SQLite's, with conn->err filled from the connection. */
int lite_fail(lite_conn *conn, int rc);

/* ---- clock.c */

int lite_clock_open(lite_conn *conn); /* this boot's name, the SQL function */
void lite_clock_close(lite_conn *conn);
int lite_boot(lite_conn *conn); /* this boot's name alone */

/* First use after a boot: fixes the offset, frees every lock; or raises the floor of the fences
 * that the time has reached. In a transaction of its own, which is synced. */
int lite_clock_set(lite_conn *conn);

/* The same two in the transaction that is open and has the write lock. */
int lite_clock_start(lite_conn *conn);
int lite_clock_raise(lite_conn *conn, int64_t now_us); /* nothing, if it is above */

/* The database's clock, read anew through this connection, for statements that take the time as a
 * parameter. 0: not set since the boot, so that no lease lives. */
int lite_now(lite_conn *conn, int64_t *out);

/* ---- lease.c: what transaction mode and the queue share */

void lite_bind_name(sqlite3_stmt *statement, const rowlock_op *op); /* ?1 */
void lite_no_holder(rowlock_op *op);                                /* BUSY, and no more is known */
void lite_refuse(rowlock_op *ops, size_t n);                        /* so for all that are OK */

/* Owner, fence and remaining, from this column on. */
void lite_read_holder(sqlite3_stmt *statement, int column, rowlock_op *op);

/* Runs a statement that answers (owner, fence, remaining): BUSY with these; or no row: OK. */
int lite_holder(lite_conn *conn, sqlite3_stmt *statement, rowlock_op *op);

/* Is the tenure (name, owner, fence) alive at this time? */
int lite_is_live(lite_conn *conn, const rowlock_op *op, int64_t now_us, int *out);

/* A call could not have the write lock, and has done nothing. In the way of a commit are readers,
 * who lock no row: that stays an error. */
int lite_was_locked_out(const lite_conn *conn, int status);

/* `acquire` of one op with a ticket, by whoever has looked whether it is worth it. A call. */
int lite_take_turn(lite_conn *conn, rowlock_op *op, int64_t deadline_us, rowlock_error *err);

/* ---- queue.c */

/* Where a ticket stands. */
typedef struct lite_place {
    int is_there;    /* it is in the queue, and lives */
    int is_repeated; /* the lock was taken by the op's own attempt */
    int is_held;     /* by somebody else */
    int64_t before;  /* so many live tickets come before, LITE_FAR at most */
} lite_place;

enum { LITE_FAR = 32 };

/* It is worth a try. */
int lite_is_turn(const lite_place *place);

/* Reads it, in a call: BUSY with what is known of the holder, OK if it is worth a try, or LOST. */
int lite_queue_look(lite_conn *conn, rowlock_op *op, lite_place *place);

/* Takes a ticket off the queue. */
int lite_queue_leave(lite_conn *conn, rowlock_op *op);

/* ---- process.c: who has died waiting */

/* What `process` in rowlock_waiters says of this one; empty if it cannot be known. */
const char *lite_process(lite_conn *conn);

/* Takes those off the queue who come first, before the op, and whose processes are dead. */
int lite_bury(lite_conn *conn, const rowlock_op *op, int *buried);

/* ---- notice.c: that others have written */

/* Begins to watch the file. Zero if that cannot be done here. */
int lite_notice_start(lite_conn *conn);
void lite_notice_stop(lite_conn *conn);
void lite_notice_close(lite_conn *conn);

/* While it is watched: sleeps until then, or until it has been written to (nonzero), or one of the
 * descriptors is readable (*is_ended). */
int lite_notice_wait(lite_conn *conn, int64_t until_us, const int *fds, int n_fds, int *is_ended);

/* Forgets what has been noticed so far. */
void lite_notice_drain(lite_conn *conn);

/* ---- rows.c: names that start with the query's bytes are those from <= name < end */

enum { LITE_KEY_MAX = ROWLOCK_NAME_MAX + 1 };

typedef struct lite_range {
    unsigned char from[LITE_KEY_MAX], end[LITE_KEY_MAX];
    int from_length, end_length;
} lite_range;

void lite_range_set(lite_range *range, const rowlock_list_query *query);

/* Time left in ms: a part of a millisecond that is left is time left. */
int64_t lite_left_ms(int64_t us);

void lite_copy_text(char *out, size_t size, sqlite3_stmt *statement, int column);
size_t lite_copy_name(char *out, sqlite3_stmt *statement, int column); /* its length */

/* ---- tx.c */

/* Until when `lock` waits for the write lock. */
int64_t lite_tx_until(uint32_t wait_ms, int in_line);

/* Runs a statement that takes the write lock, again and again while another transaction has it.
 * *had: zero if that has not ended by until_us. EDRIVER and retryable if waiting cannot help. */
int lite_tx_write(lite_conn *conn, enum sql_statement which, int64_t until_us, int *had);

/* Looks at one lock: OK, or BUSY with the lease that lives at this time (0: none does). */
int lite_tx_look(lite_conn *conn, rowlock_op *op, int64_t now_us);

/* Under the write lock: takes all of them or none, and sets every op's status. *all: it was all.
 * What it wrote is undone unless it was. */
int lite_tx_take(lite_conn *conn, rowlock_op *ops, size_t n, int *all);

/* ---- the slots */

int lite_acquire(void *conn, rowlock_op *ops, size_t n, int all, uint32_t timeout_ms,
                 rowlock_error *err);
int lite_renew(void *conn, rowlock_op *ops, size_t n, uint32_t timeout_ms, rowlock_error *err);
int lite_release(void *conn, rowlock_op *ops, size_t n, uint32_t timeout_ms, rowlock_error *err);
int lite_exchange(void *conn, rowlock_op *releases, size_t n, rowlock_op *acquires, size_t m,
                  uint32_t timeout_ms, rowlock_error *err);
int lite_force_release(void *conn, rowlock_op *op, uint32_t timeout_ms, rowlock_error *err);
int lite_reap(void *conn, uint64_t *out, rowlock_mark *mark, int64_t retention_us, uint32_t limit,
              uint32_t timeout_ms, rowlock_error *err);
int lite_list(void *conn, const rowlock_list_query *query, rowlock_row_fn fn, void *payload,
              uint32_t timeout_ms, rowlock_error *err);
int lite_enqueue(void *conn, rowlock_op *ops, size_t n, int64_t life_us, int with_bell,
                 uint32_t timeout_ms, rowlock_error *err);
int lite_turn(void *conn, rowlock_op *op, uint32_t wait_ms, const int *fds, int n_fds,
              uint32_t timeout_ms, rowlock_error *err);
int lite_leave(void *conn, rowlock_op *ops, size_t n, uint32_t timeout_ms, rowlock_error *err);
int lite_look(void *conn, rowlock_op *ops, size_t n, int64_t life_us, uint32_t timeout_ms,
              rowlock_error *err);
int lite_waiters(void *conn, const rowlock_list_query *query, rowlock_waiter_fn fn, void *payload,
                 uint32_t timeout_ms, rowlock_error *err);
int lite_diagnose(void *conn, rowlock_finding_fn fn, void *payload, uint32_t timeout_ms,
                  rowlock_error *err);
int lite_schema_version(void *conn, int *out, uint32_t timeout_ms, rowlock_error *err);
int lite_schema_apply(void *conn, int from, int to, uint32_t timeout_ms, rowlock_error *err);
int lite_prepare(void *conn, rowlock_op *ops, size_t n, uint32_t timeout_ms, rowlock_error *err);
int lite_locate(void *conn, char *out, size_t size, uint32_t timeout_ms, rowlock_error *err);
int lite_lock(const rowlock_target *target, rowlock_op *ops, size_t n, uint32_t wait_ms,
              int in_line, uint32_t timeout_ms, rowlock_error *err);
int lite_guard(const rowlock_target *target, rowlock_op *op, uint32_t timeout_ms,
               rowlock_error *err);
int lite_end(void *conn, int commit, uint32_t timeout_ms, rowlock_error *err);
void *lite_native(void *conn);

/* SQL_SYNC_FULL, and back to SQL_SYNC_NORMAL: for a commit that must not be lost with the power.
 * Outside of transactions; nothing, where all commits are synced. */
int lite_set_sync(lite_conn *conn, enum sql_statement which);

/* The part of `lock` on a connection of the driver's own. */
int lite_lock_own(lite_conn *conn, rowlock_op *ops, size_t n, uint32_t wait_ms, int in_line,
                  uint32_t timeout_ms, rowlock_error *err);

#endif
