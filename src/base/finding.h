/* SPDX-License-Identifier: MIT
 *
 * What the drivers' `diagnose` share: telling findings, and those that all of them have. Once fn
 * has asked to stop, nothing more is told. */
#ifndef RLK_FINDING_H
#define RLK_FINDING_H

#include <stdint.h>

#include "error.h"

typedef struct rlk_findings {
    rowlock_finding_fn fn;
    void *payload;
    int is_stopped;
} rlk_findings;

/* Tell of one thing. The message is cut after some hundred bytes and has no control characters. */
void rlk_find_good(rlk_findings *f, const char *subject, const char *format, ...) RLK_PRINTF(3, 4);
void rlk_find_warning(rlk_findings *f, const char *subject, const char *remedy, const char *format,
                      ...) RLK_PRINTF(4, 5);
void rlk_find_bad(rlk_findings *f, const char *subject, const char *remedy, const char *format, ...)
    RLK_PRINTF(4, 5);

/* What the tables are, by their version; 0: there are none. 1 if it is the newest. */
int rlk_find_version(rlk_findings *f, int version, int newest);

/* What this host's clock shows, in microseconds since 1970: for the next one alone. */
int64_t rlk_wall_us(void);

/* The database's clock, which was read between these two times of this host's. */
void rlk_find_clock(rlk_findings *f, int64_t database_us, int64_t before_us, int64_t after_us);

#endif
