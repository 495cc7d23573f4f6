/* SPDX-License-Identifier: MIT
 *
 * The driver for SQLite; link with rowlock-sqlite.
 *
 * Addresses: a path, or sqlite:path. The file is created, if its folder exists, by
 * ROWLOCK_SCHEMA_CREATE and for migrations. SQLite locks work among processes of one host, and a
 * restart of the host frees them all.
 *
 * rowlock_open() refuses (ECONNECT) where SQLite's locks would not exclude:
 *
 * - Network file systems.
 * - A file that is a mount point (docker run -v ./locks.db:/app/locks.db) or has hard links, since
 *   each of its names has a log of its own. Mount the folder; symbolic links do no harm.
 * - Containers that have another /proc/sys/kernel/random/boot_id than the host (LXC, Incus,
 *   systemd-nspawn), or a time namespace of their own: they cannot tell whether the host was
 *   restarted, or what time it is.
 * - A process that was forked while a client was open, or while the application had a connection of
 *   its own to the file open: SQLite itself is not safe there. Open clients and connections after
 *   fork(), or exec() in the child; a connection that was inherited must be closed first.
 * - A file with a log that another copy of SQLite in the same process has opened (below).
 * - A default VFS other than "unix" or a layer above it.
 *
 * A process that opens the file by itself and closes it (for a copy, or a checksum) drops all of
 * SQLite's locks in it: that is how POSIX locks work. The client notices; it replaces its
 * connections, or, while the application has one, calls fail (ECONNECT, EUNKNOWN) until all are
 * closed. Copy the file with sqlite3_backup_init() or VACUUM INTO, or in another process.
 *
 * Two copies of SQLite in one process (one that is built in, and the system's) do not exclude each
 * other, and drop each other's locks. Link the application and rowlock-sqlite to the same one; a
 * sqlite3 * of another copy must not be given to the functions below. If the file has a log, this
 * is seen when a client or one more connection is opened, once a second by lock and guard (EINVAL),
 * and by rowlock_diagnose(); it is not seen by a client that is open already, nor without a log.
 */
#ifndef ROWLOCK_SQLITE_H
#define ROWLOCK_SQLITE_H

#include "rowlock.h"

#ifdef __cplusplus
extern "C" {
#endif

/* For rowlock_open(). A constant. */
ROWLOCK_API const rowlock_driver *rowlock_sqlite(void);

struct sqlite3; /* SQLite's own */

/* Locks n names, all or none, in byte order, in the transaction that is open on `db`: see
 * TRANSACTION MODE in rowlock.h. `client` is open on the same file, which may be any of those
 * attached to `db`. `fences` is an array of n, or NULL.
 *
 * SQLite admits one transaction that writes: with a lock in one, all other locks in the file are
 * BUSY, and with BEGIN IMMEDIATE the wait for it is SQLite's. After a plain BEGIN this call waits,
 * as long as wait_ms says, whatever the busy timeout is (a busy handler of the application's own is
 * asked as usual). A transaction that has read already and is behind cannot write any more: EDRIVER
 * and retryable. Whatever the answer, it goes on with all that was written in it. Do not
 * wait for a lease in a transaction that has written, or was begun with BEGIN IMMEDIATE: its holder
 * cannot give it back before that ends. In a file without a write-ahead log the COMMIT itself may
 * be SQLITE_BUSY, and may be sent again.
 *
 * OK; BUSY, TIMEOUT, CANCELLED, ECLOSED; EINVAL (nothing done: a bad argument, a client of another
 * kind, no open transaction, another file, or one that was opened by another name than the
 * client's, with nolock=1, immutable=1 or a VFS such as unix-none or unix-dotfile); EDRIVER
 * (retryable: roll back and begin again, with BEGIN IMMEDIATE); EPOOL (the client could not use the
 * database on a connection of its own, all were in use perhaps: nothing done, the transaction goes
 * on, and is yours to end); ESCHEMA; ENOMEM; EFORK. One thread at a time for each connection. */
ROWLOCK_API int rowlock_sqlite_lock(uint64_t *fences, rowlock_client *client, struct sqlite3 *db,
                                    const char *const *names, size_t n,
                                    const rowlock_tx_options *options, rowlock_error *err);

/* THE GUARD: commit only if I still hold this lease. In the transaction that is open on `db`,
 * proves by the database's clock that `lock` is held under its fence, and makes it the one that
 * writes, so that nobody can take the lock over before it ends, even if the lease ends meanwhile.
 * Until then all other calls on locks in the file wait or are BUSY, renewals too. Release the lock
 * after the COMMIT.
 *
 * OK: what the transaction writes is committed under the lock, or not at all. LOST: roll back.
 * EDRIVER, retryable: another transaction writes. EINVAL, EPOOL, ESCHEMA, ECLOSED, EFORK as above.
 */
ROWLOCK_API int rowlock_sqlite_guard(rowlock_lock *lock, struct sqlite3 *db, rowlock_error *err);

/* The connection of a transaction that rowlock_tx_begin() began, for statements of the
 * application's; borrowed until its end. NULL if `tx` is, or is not SQLite's. It is closed
 * afterwards, whatever was done to it. */
ROWLOCK_API struct sqlite3 *rowlock_sqlite_connection(rowlock_tx *tx);

#ifdef __cplusplus
}
#endif

#endif
