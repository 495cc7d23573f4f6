/* SPDX-License-Identifier: MIT
 *
 * The driver for SQLite; link with rowlock-sqlite.
 *
 * Addresses: a path, or sqlite:path. The file is created, if its folder exists, by
 * ROWLOCK_SCHEMA_CREATE and for migrations. SQLite locks work among
 * processes of one host, and a restart of the host frees them all. Network file systems are
 * refused.
 *
 * A process that was forked while its parent had a client on SQLite open is refused (ECONNECT):
 * SQLite itself is not safe there. Open clients after fork(), or exec() in the child.
 */
#ifndef ROWLOCK_SQLITE_H
#define ROWLOCK_SQLITE_H

#include "rowlock.h"

#ifdef __cplusplus
extern "C" {
#endif

/* For rowlock_open(). A constant. */
ROWLOCK_API const rowlock_driver *rowlock_sqlite(void);

#ifdef __cplusplus
}
#endif

#endif
