/* SPDX-License-Identifier: MIT
 *
 * The driver for MySQL and MariaDB; link with rowlock-mysql.
 *
 * Addresses: mysql://user:password@host:port/database?key=value&..., parts percent-encoded;
 * mariadb:// is the same. Keys: socket, ssl-mode, ssl-ca, ssl-cert, ssl-key. What the address does
 * not say is left to the [client] groups of option files (my.cnf) and to MYSQL_PWD; what it does
 * say goes before them.
 *
 *   ssl-mode=disabled   no TLS
 *   preferred           TLS where the server offers it, which whoever sits between can prevent
 *   required            TLS or no connection; the server may be anybody
 *   verify_ca           its certificate must be good, by ssl-ca or an authority of the system's;
 *                       given ssl-ca, this is the default
 *   verify_identity     and must have the host's name (MariaDB's library asks for it in verify_ca,
 *                       too)
 *
 * Without ssl-mode it is as option files say, else as the client library does: MariaDB's uses none
 * before its version 3.4, Oracle's what it is offered. From required on, and where option files or
 * certificates ask for TLS, nothing is sent before it, no name and no password. The password is
 * sent in clear text (to accounts of PAM or LDAP) in these modes only, or by a socket in the
 * address; with MariaDB's library from its version 3.3 on. Nevertheless only verify_ca and
 * verify_identity keep it from a server that is not yours: by caching_sha2_password others can ask
 * for it, too. A server that asks for a file (LOAD DATA LOCAL) gets none, whatever option files
 * say.
 *
 * The time that is given for connecting holds for the host's name, too: it is looked up first, as
 * postgresql.h says. The client library, which needs the name to verify the certificate, then looks
 * it up once more.
 *
 * A server with read_only is refused (ECONNECT, retryable) when connecting and by the statements
 * that acquire and renew, also for users whom read_only does not bind: a primary that is demoted
 * between two calls grants nothing. In transactions it is asked when locking, and by
 * rowlock_tx_commit(); on a connection of its own an application whose user may write in spite of
 * read_only can still COMMIT. A server that applies the changes of another one is refused when
 * connecting, also if it may be written, as in a ring of two; MySQL shows that only to users with
 * REPLICATION CLIENT, so there set read_only on replicas.
 *
 * Servers that speak the protocol without locking as InnoDB does are refused by name (ECONNECT):
 * TiDB, Vitess, SingleStore, OceanBase, PolarDB-X, MatrixOne, Dolt, StarRocks, Doris, ClickHouse,
 * Databend.
 */
#ifndef ROWLOCK_MYSQL_H
#define ROWLOCK_MYSQL_H

#include "rowlock.h"

#ifdef __cplusplus
extern "C" {
#endif

/* For rowlock_open(). A constant. */
ROWLOCK_API const rowlock_driver *rowlock_mysql(void);

/* Locks n names, all or none, in byte order, in the transaction that is open on `mysql`, a
 * MYSQL * of the client library that rowlock-mysql is linked with: see TRANSACTION MODE in
 * rowlock.h. (It is no typed pointer because MariaDB's and Oracle's libraries name their struct
 * differently.) `client` is open on the same database; it creates rows that are
 * missing, and looks for leases. `fences` is an array of n, or NULL.
 *
 * Whatever the answer, the transaction goes on with all that was written in it, and settings are as
 * they were. wait_ms rules, whatever innodb_lock_wait_timeout and max_statement_time are. InnoDB
 * gives row locks back only when the transaction ends: after BUSY or TIMEOUT with several names,
 * end it soon. At REPEATABLE READ, the default, lock before the first plain SELECT: that fixes what
 * the transaction sees. With autocommit off a transaction is always open, as far as the server says
 * so (MySQL does not if that is its own default: begin one). Waiting is bounded by the connection's
 * own read timeout, too.
 *
 * OK; BUSY, TIMEOUT, CANCELLED, ECLOSED; EINVAL (nothing done: a bad argument, a client of another
 * kind, a connection that is on another server (or node of a cluster) than the client, closed, with
 * results not read, without a transaction, or with a TEMPORARY table of the lock table's name, for
 * which it is asked each time, in a round trip of its own); EDRIVER (retryable: after a deadlock
 * InnoDB has rolled the whole transaction back, begin again); ECONNECT (the connection is gone, and
 * the transaction with it); EPOOL (the client could not use the database on a connection of its
 * own, all were in use perhaps: nothing done, the transaction goes on); ESCHEMA; ENOMEM; EFORK. One
 * thread at a time for each connection. */
ROWLOCK_API int rowlock_mysql_lock(uint64_t *fences, rowlock_client *client, void *mysql,
                                   const char *const *names, size_t n,
                                   const rowlock_tx_options *options, rowlock_error *err);

/* THE GUARD: commit only if I still hold this lease. In the transaction that is open on `mysql`,
 * proves by the database's clock that `lock` is held under its fence, and keeps the row locked (FOR
 * SHARE) until the transaction ends, so that nobody can take the lock over before, even if the
 * lease ends meanwhile. Renewals pass over the row: they answer BUSY, and the lock is not lost for
 * that. Release the lock after the COMMIT.
 *
 * OK: what the transaction writes is committed under the lock, or not at all (unless it goes back
 * to a savepoint that is older than this call, which may free the row). LOST: roll back. EDRIVER,
 * retryable: somebody else keeps the row locked; with MariaDB's innodb_snapshot_isolation also if
 * the lock was renewed since the snapshot (guard first, or use READ COMMITTED). EINVAL, ECONNECT,
 * EPOOL, ESCHEMA, ECLOSED, EFORK as above. */
ROWLOCK_API int rowlock_mysql_guard(rowlock_lock *lock, void *mysql, rowlock_error *err);

/* The MYSQL * of a transaction that rowlock_tx_begin() began, for statements of the application's;
 * borrowed until its end. NULL if `tx` is, or is not MySQL's. It is closed afterwards, whatever was
 * done to its session. */
ROWLOCK_API void *rowlock_mysql_connection(rowlock_tx *tx);

#ifdef __cplusplus
}
#endif

#endif
