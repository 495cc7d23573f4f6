/* SPDX-License-Identifier: MIT
 *
 * The driver for MySQL and MariaDB; link with rowlock-mysql.
 *
 * Addresses: mysql://user:password@host:port/database?key=value&..., parts percent-encoded;
 * mariadb:// is the same. Keys: socket, ssl-ca, ssl-cert, ssl-key, ssl-mode (disabled, preferred,
 * required, verify_ca, verify_identity; with ssl-ca it is verify_ca). Without them the [client]
 * groups of my.cnf and MYSQL_PWD apply.
 */
#ifndef ROWLOCK_MYSQL_H
#define ROWLOCK_MYSQL_H

#include "rowlock.h"

#ifdef __cplusplus
extern "C" {
#endif

/* For rowlock_open(). A constant. */
ROWLOCK_API const rowlock_driver *rowlock_mysql(void);

#ifdef __cplusplus
}
#endif

#endif
