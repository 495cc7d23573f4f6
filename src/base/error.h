/* SPDX-License-Identifier: MIT
 *
 * Filling the caller's error struct. All functions accept err == NULL and return the status, so
 * that a failure reads `return rlk_fail(err, ROWLOCK_EINVAL, "...")`. Messages: one line, lower
 * case, no full stop, what is wrong and what to do. Line breaks in arguments become spaces. */
#ifndef RLK_ERROR_H
#define RLK_ERROR_H

#include "rowlock/rowlock.h"

#if defined(__GNUC__)
#define RLK_PRINTF(string, args) __attribute__((format(printf, string, args)))
#else
#define RLK_PRINTF(string, args)
#endif

/* Clears err and returns ROWLOCK_OK. */
int rlk_ok(rowlock_error *err);

/* Sets status and message; the other fields become zero. */
int rlk_fail(rowlock_error *err, int status, const char *format, ...) RLK_PRINTF(3, 4);

/* The same with the database's code, sqlstate (NULL: none) and whether trying again may help. */
int rlk_fail_native(rowlock_error *err, int status, int native_code, const char *sqlstate,
                    int retryable, const char *format, ...) RLK_PRINTF(6, 7);

/* ENOMEM. */
int rlk_fail_memory(rowlock_error *err);

#endif
