/* SPDX-License-Identifier: MIT
 *
 * The driver for PostgreSQL; link with rowlock-postgresql.
 *
 * Addresses: everything libpq takes, a URI (postgresql://user@host:5432/db?sslmode=verify-full) or
 * a conninfo string (host=db dbname=shop). Passwords also from PGPASSWORD and .pgpass. Works
 * through PgBouncer in transaction mode.
 */
#ifndef ROWLOCK_POSTGRESQL_H
#define ROWLOCK_POSTGRESQL_H

#include "rowlock.h"

#ifdef __cplusplus
extern "C" {
#endif

/* For rowlock_open(). A constant. */
ROWLOCK_API const rowlock_driver *rowlock_postgresql(void);

#ifdef __cplusplus
}
#endif

#endif
