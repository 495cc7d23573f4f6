/* SPDX-License-Identifier: MIT
 *
 * A little of everything from several threads at once, for deployments that may not suit the
 * library: whatever goes wrong there shows as an error here. */
#ifndef TEST_HAMMER_H
#define TEST_HAMMER_H

#include <stdint.h>

struct hammer_result {
    long grants;
    long errors; /* answers that are no outcome */
    long wrongs; /* right answers that are not true: two holders, a fence that fell */
    int status;  /* the first error's */
    char message[240];
};

/* `threads` threads acquire, re-enter, renew, list, release and reap on one name through one client
 * with so many connections, for `ms` milliseconds. Does not assert. */
struct hammer_result hammer(const char *address, int threads, int connections, int64_t ms);

#endif
