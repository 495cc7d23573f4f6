/* SPDX-License-Identifier: MIT
 *
 * The driver for PostgreSQL; link with rowlock-postgresql.
 *
 * Addresses: everything libpq takes, a URI (postgresql://user@host:5432/db?sslmode=verify-full) or
 * a conninfo string (host=db dbname=shop). Passwords also from PGPASSWORD and .pgpass. Works
 * through PgBouncer in transaction mode.
 *
 * Without an sslmode libpq prefers TLS, but goes on without it where the server offers none, and
 * looks at no certificate; a server that asks for the password in clear gets it. Say
 * sslmode=verify-full, and sslrootcert, where others share the network.
 *
 * Servers that speak the protocol but do not lock like PostgreSQL are refused by name (ECONNECT):
 * CockroachDB, YugabyteDB, Redshift, Aurora DSQL, Spanner, Materialize and others, and PostgreSQL
 * before version 12.
 *
 * The time that is given for connecting holds for the names of hosts, too. They are looked up in a
 * thread of its own; one that gets no answer in time is left alone, 16 of them at most.
 *
 * A standby, and a server on which default_transaction_read_only is on for the client's role or
 * database, grant nothing: ECONNECT, retryable, at the moment of asking. Several hosts, in the
 * address (postgresql://user@a,b/db), in PGHOST or in a service file, are tried in turn until one
 * can be written, unless target_session_attrs says otherwise: so a client follows a switchover.
 *
 * Only functions, operators and types of pg_catalog run in our statements, whatever somebody else
 * has created in a schema of the search_path: the connections of the client search pg_catalog
 * alone, those of the application do so while our statements run. Our tables are always named with
 * their schema, so that no other table, view or temporary table of the same name is taken for
 * them. Without options.schema it is looked up by rowlock_open(): the schema on the role's
 * search_path that has the tables, or the first one if none has. If two have them,
 * or one has a view of that name, it is ESCHEMA: say which one. Name the schema if others may
 * create in one that is searched.
 */
#ifndef ROWLOCK_POSTGRESQL_H
#define ROWLOCK_POSTGRESQL_H

#include "rowlock.h"

#ifdef __cplusplus
extern "C" {
#endif

/* For rowlock_open(). A constant. */
ROWLOCK_API const rowlock_driver *rowlock_postgresql(void);

struct pg_conn; /* libpq's PGconn */

/* Locks n names, all or none, in byte order, in the transaction that is open on `conn`: see
 * TRANSACTION MODE in rowlock.h. `client` is open on the same database; it creates rows that are
 * missing, and looks for leases. `fences` is an array of n, or NULL.
 *
 * Our statements stand between a SAVEPOINT and its end: whatever the answer, the transaction goes
 * on with all that was written in it, and settings are as they were. wait_ms rules, whatever
 * lock_timeout and statement_timeout are. libpq's unnamed prepared statement is used up. At
 * REPEATABLE READ and SERIALIZABLE make this the transaction's first statement: a lock that
 * somebody has changed since its snapshot is a serialization failure. Who waits here keeps its
 * transaction open: CREATE INDEX CONCURRENTLY, run by the holder on another connection, waits for
 * its end in turn. Take a lease for such work.
 *
 * OK; BUSY, TIMEOUT, CANCELLED, ECLOSED; EINVAL (nothing done: a bad argument, a client of another
 * kind, a connection that is on another server or database than the client, closed, in pipeline
 * mode, with results not read, without a transaction or in a failed one); EDRIVER (retryable:
 * deadlock or serialization failure, roll back and begin again); ECONNECT (the connection is gone,
 * and the transaction with it); EPOOL (the client could not use the database on a connection of its
 * own, all were in use perhaps: nothing done, the transaction goes on); ESCHEMA; ENOMEM; EFORK. One
 * thread at a time for each connection.
 */
ROWLOCK_API int rowlock_postgresql_lock(uint64_t *fences, rowlock_client *client,
                                        struct pg_conn *conn, const char *const *names, size_t n,
                                        const rowlock_tx_options *options, rowlock_error *err);

/* THE GUARD: commit only if I still hold this lease. In the transaction that is open on `conn`,
 * proves by the database's clock that `lock` is held under its fence, and keeps the row locked (FOR
 * SHARE) until the transaction ends, so that nobody can take the lock over before, even if the
 * lease ends meanwhile. Renewals pass over the row: they answer BUSY, and the lock is not lost for
 * that. Release the lock after the COMMIT.
 *
 * OK: what the transaction writes is committed under the lock, or not at all (unless it goes back
 * to a savepoint that is older than this call, which frees the row). LOST: roll back. EDRIVER,
 * retryable: somebody else keeps the row locked; at REPEATABLE READ and SERIALIZABLE also if the
 * lock was renewed since the snapshot (guard first, or use READ COMMITTED). EINVAL, ECONNECT,
 * EPOOL, ESCHEMA, ECLOSED, EFORK as above. */
ROWLOCK_API int rowlock_postgresql_guard(rowlock_lock *lock, struct pg_conn *conn,
                                         rowlock_error *err);

/* The connection of a transaction that rowlock_tx_begin() began, for statements of the
 * application's; borrowed until its end. NULL if `tx` is, or is not PostgreSQL's. It is closed
 * afterwards, whatever was done to its session. */
ROWLOCK_API struct pg_conn *rowlock_postgresql_connection(rowlock_tx *tx);

#ifdef __cplusplus
}
#endif

#endif
