/* SPDX-License-Identifier: MIT
 *
 * What check.c gathers and check_judge.c judges. */
#ifndef PROOF_CHECK_LISTS_H
#define PROOF_CHECK_LISTS_H

#include "check.h"

struct tenure {
    uint64_t fence, start_ns, end_ns;
    uint32_t name;
    uint32_t process : 20, thread : 8;
    uint32_t may_go_on : 1; /* its owner may have held it already */
    uint32_t is_lost : 1;
    uint32_t is_released : 1; /* else it ended by its deadline */
    uint32_t is_guarded : 1;  /* end_ns: a guarded transaction was not committed yet */
};

/* One version of a counter, or the attempt to make it. */
struct written {
    uint64_t version, fence;
    uint32_t name;
    uint32_t process : 22, thread : 8;
    uint8_t kind, stage;
};

struct final {
    uint64_t version, fence;
    uint32_t name;
    uint8_t kind;
};

/* A growing array. */
struct list {
    void *items;
    size_t n, room;
};

struct check {
    struct list tenures, writes, finals;
    struct list clocks; /* uint64_t: when the server's clock was set back */
    struct check_report report;
};

/* Counts it, and keeps the message if it is one of the first. */
__attribute__((format(printf, 3, 4))) void check_violated(struct check_report *report,
                                                          enum check_violation kind,
                                                          const char *format, ...);

/* Sort the lists and compare neighbours. */
void check_judge_tenures(struct check *check);
void check_judge_writes(struct check *check);

#endif
