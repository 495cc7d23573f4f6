/* SPDX-License-Identifier: MIT
 *
 * The history of a run: what each worker thread did and saw, and when, on one clock
 * (CLOCK_BOOTTIME) of one machine. Each process appends to a file of its own, mapped into memory: a
 * record is in the file as soon as it is written, also if the process is killed in the next moment.
 *
 * Stamps err on the side of the library: a belief begins when the call that gave it has returned,
 * and ends when the call that ends it begins. So a violation in a history is one in reality. */
#ifndef PROOF_HISTORY_H
#define PROOF_HISTORY_H

#include <stddef.h>
#include <stdint.h>

/* Kinds of records, and what their fields mean. `at_ns` is the time of each. */
enum history_kind {
    HISTORY_NONE = 0, /* a slot that was not filled: its process was killed */
    HISTORY_GRANT,    /* acquire has returned OK; value: when it was called (ns); left_ms; status:
                       * nonzero if it may have been held already, see below */
    HISTORY_CHECK,    /* before rowlock_check(), which said OK; left_ms */
    HISTORY_RELEASE,  /* before the last release of the tenure */
    HISTORY_LOST,     /* after rowlock_check(), which said LOST */
    HISTORY_FAILED,   /* a call that was no success; status; value: when it was called (ns) */
    HISTORY_GUARDED,  /* a write in a transaction with the guard; value: version; status: stage */
    HISTORY_FENCED,   /* a write that carries the fence; likewise */
    HISTORY_FINAL_GUARDED, /* at the end of the run: value: the version in the table; fence */
    HISTORY_FINAL_FENCED,
    HISTORY_CLOCK_BACK, /* the nemesis sets the clock of the server back now */
    HISTORY_KINDS
};

/* An acquire or release whose outcome is not known leaves a hold of its owner's, perhaps, which the
 * same owner enters again with its next acquire: a tenure that goes on, with the same fence. So it
 * may if the server's clock was set back: then a lease lives longer there than anybody knows. */

/* So many empty slots in a row are the end of a file: each thread leaves at most one. */
enum { HISTORY_GAP = 256 };

/* Stages of a write. One that was intended and has no further record may have happened or not. */
enum history_stage { HISTORY_INTENDED = 0, HISTORY_DONE = 1, HISTORY_UNDONE = 2 };

struct history_record {
    uint64_t at_ns;
    uint64_t fence;
    uint64_t value;
    uint32_t process; /* numbers of the run's own, never given twice */
    uint32_t name;
    uint32_t left_ms; /* rowlock_remaining(), asked after at_ns */
    uint16_t thread;
    int8_t status;
    uint8_t kind; /* written last */
};

_Static_assert(sizeof(struct history_record) == 40, "records are packed without gaps");

struct history {
    struct history_record *records;
    uint64_t room;
    uint64_t used; /* atomic */
    int fd;
};

/* Makes the file and maps it, with room for so many records; it grows as it is filled. 0 or -1. */
int history_open(struct history *out, const char *path, uint64_t room);

/* Appends; any thread. -1 if there is no room left: the run must not go on. */
int history_add(struct history *history, const struct history_record *record);

/* Cuts the file off behind the last record. */
void history_close(struct history *history);

/* Maps a file for reading: all slots, HISTORY_NONE among them. NULL if it cannot be read. */
const struct history_record *history_map(size_t *n, const char *path);
void history_unmap(const struct history_record *records, size_t n);

uint64_t history_now_ns(void);

#endif
