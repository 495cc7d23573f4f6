/* SPDX-License-Identifier: MIT
 *
 * What the tests of bad deployments share. */
#ifndef TEST_REFUSED_H
#define TEST_REFUSED_H

#include "fault.h"

/* A password that no message may hold. */
#define WRONG_PASSWORD "wr0ng-Pa55w0rd"

/* Asserts that opening fails with this status and one line that holds one of the words, "a|b"
 * (NULL: any line), and not the password. The prefix may be NULL. */
void assert_refused(int expected, const char *address, int policy, const char *prefix,
                    const char *words);

/* The backend's address with parts replaced; asserts that it can be. */
void changed_address(char *out, size_t size, const struct fault_address *change);

/* Leaves the case, loudly: this server or environment does not offer what it needs. Fails it where
 * ROWLOCK_TEST_NO_SKIP=1. */
void skip_or_fail(const char *why);

#endif
