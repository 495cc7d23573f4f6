/* SPDX-License-Identifier: MIT
 *
 * Judges a history (history.h). A tenure is a grant and what its thread did with it: it is believed
 * to be held from the return of acquire to the call of release, or to the deadline that the library
 * gave last (rowlock_remaining()), whichever comes first. That of a killed process lasts until its
 * deadline: the database cannot know that it is dead.
 *
 * Time and memory: tenures and writes are gathered in one pass (32 bytes each) and sorted once. */
#ifndef PROOF_CHECK_H
#define PROOF_CHECK_H

#include "history.h"

/* X(name, text): what can be wrong. */
#define CHECK_VIOLATIONS(X)                                                                 \
    X(FENCE_TWICE, "two tenures of one name have the same fence")                           \
    X(FENCE_ORDER, "a later tenure has a smaller fence")                                    \
    X(OVERLAP, "two tenures of one name overlap")                                           \
    X(GUARD_LATE, "a guarded transaction was committed after the next tenure had begun")    \
    X(LOST_EARLY, "a tenure was lost before the deadline that the library had given")       \
    X(HELD_AGAIN, "a tenure was held again after it had been lost")                         \
    X(LOST_UPDATE, "two writes made the same version of a counter")                         \
    X(STALE_WRITE, "a write has a smaller fence than the one before it")                    \
    X(COUNTER, "a counter is not what the writes make it: one is missing, or one too many") \
    X(MALFORMED, "the history contradicts itself")

enum check_violation {
#define CHECK_ENUM(name, text) CHECK_##name,
    CHECK_VIOLATIONS(CHECK_ENUM)
#undef CHECK_ENUM
        CHECK_KINDS
};

enum { CHECK_MESSAGES = 20 };

struct check_report {
    uint64_t records, grants, checks, failed, lost;
    uint64_t guarded, fenced; /* writes that were done */
    uint64_t refused;         /* ... that were not, since the lock was lost */
    uint64_t unknown;         /* ... that may have been */
    uint64_t takeovers;       /* tenures that ended by their deadline, and had a successor */
    uint64_t statuses[256];   /* of FAILED, by status + 128 */
    uint64_t violations[CHECK_KINDS];
    uint64_t violated;                  /* the sum of them */
    char messages[CHECK_MESSAGES][240]; /* of the first ones */
};

struct check; /* what has been gathered */

struct check *check_new(void);
void check_free(struct check *check);

/* Adds the records of one process, in the order of its file. -1: out of memory. */
int check_add(struct check *check, const struct history_record *records, size_t n);

/* Sorts, compares, and fills the report; once. */
void check_finish(struct check_report *out, struct check *check);

const char *check_text(enum check_violation violation);

#endif
