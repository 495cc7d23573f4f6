/* SPDX-License-Identifier: MIT
 *
 * What the core's tests share: a client on the fake driver and the fake clock. */
#ifndef CORE_TEST_H
#define CORE_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "fake_clock.h"
#include "fake_driver.h"
#include "rowlock/rowlock.h"

#define MS INT64_C(1000) /* of microseconds */

/* A clean database and clock. */
int fresh(void **state);

/* A client with all defaults. */
rowlock_client *open_client(void);
rowlock_client *open_client_with(const rowlock_options *options);

/* Acquires; fails the test if that fails. */
rowlock_lock *hold(rowlock_client *client, const char *name, int64_t ttl_ms, const char *owner);

/* While a lock is held: opens the connection that calls use beside the one that is reserved. */
void open_another(rowlock_client *client);

#define assert_status(status, call) assert_int_equal((call), ROWLOCK_##status)

#endif
