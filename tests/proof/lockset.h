/* SPDX-License-Identifier: MIT
 *
 * Jepsen's lock-set: processes add numbers to a set, each by reading it, thinking, and writing it
 * back, under a lock. Holders are stopped for longer than their lease lasts. Numbers whose write
 * was acknowledged and that are not in the set at the end are lost updates. */
#ifndef PROOF_LOCKSET_H
#define PROOF_LOCKSET_H

#include <stddef.h>
#include <stdint.h>

enum {
    LOCKSET_TTL_MS = 2000,   /* etcd has no shorter leases */
    LOCKSET_PAUSE_MS = 3000, /* from this on; up to 1.5 times as long */
    LOCKSET_THINK_MS = 20,
    LOCKSET_SET_SIZE = 1 << 18 /* room for a set as text */
};

/* How a write is protected. */
enum lockset_mode {
    LOCKSET_LEASE, /* by the lease alone */
    LOCKSET_CHECK, /* rowlock_check() before it */
    LOCKSET_FENCE, /* reads and writes carry the fence, the store refuses a smaller one */
    LOCKSET_GUARD, /* in a transaction with the guard */
    LOCKSET_MODES
};

enum lockset_outcome { LOCKSET_DONE, LOCKSET_REFUSED, LOCKSET_UNKNOWN };

/* One member of a set's processes; what a way of locking keeps lies behind `own`. */
struct lockset {
    const char *address;
    const char *store; /* path of the set, for those who keep it in a file */
    enum lockset_mode mode;
    int number; /* of the set: its lock's name */
    int *stage; /* shared with whoever stops us: nonzero while the lock is held */
    void *own;
};

struct lockset_kind {
    const char *name;
    unsigned modes;                     /* 1 << enum lockset_mode, or-ed */
    int (*create)(struct lockset *set); /* an empty set; 0 or -1 */
    int (*open)(struct lockset *set);   /* a session; 0 or -1 */
    enum lockset_outcome (*add)(struct lockset *set, long number);
    int (*read)(struct lockset *set, char *out); /* at the end; 0 or -1 */
    void (*close)(struct lockset *set);
};

extern const struct lockset_kind lockset_postgresql, lockset_mysql, lockset_sqlite, lockset_redis,
    lockset_etcd;

/* Marks that the lock is held from now on, or is not. */
void lockset_stage(struct lockset *set, int held);

/* Between the read and the write. */
void lockset_think(void);

/* A set as text, "1,2,3,", with one more number. */
void lockset_append(char *text, long number);

/* Sets in files, for locks that have no place for data; written by a rename. 0 or -1. */
int lockset_file_create(struct lockset *set);
int lockset_file_read(struct lockset *set, char *out);

/* Reads, thinks and writes. */
enum lockset_outcome lockset_file_add(struct lockset *set, long number);

#endif
