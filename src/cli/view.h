/* SPDX-License-Identifier: MIT
 *
 * What list, show, waiters, top and metrics look at: the locks of a database and who waits. */
#ifndef ROWLOCK_CLI_VIEW_H
#define ROWLOCK_CLI_VIEW_H

#include "cli.h"
#include "print.h"

typedef struct cli_lock {
    char *name; /* bytes, NUL added */
    size_t name_length;
    char *owner, *note;
    uint64_t fence;
    uint32_t count;
    int64_t held_ms, left_ms; /* left_ms <= 0: it is free */
    size_t waiters;
} cli_lock;

typedef struct cli_waiter {
    char *name;
    size_t name_length;
    char *owner;
    char *holder; /* NULL: nobody, or a transaction */
    uint64_t ticket;
    size_t place; /* 1: the next one */
    int64_t waited_ms;
} cli_waiter;

/* Both in byte order of names, waiters then in the order in which they are served. */
typedef struct cli_view {
    cli_lock *locks;
    size_t lock_count, lock_room;
    cli_waiter *waiters;
    size_t waiter_count, waiter_room;
    int failed; /* out of memory */
} cli_view;

enum {
    CLI_VIEW_FREE = 1,    /* locks that are free but still in the table, too */
    CLI_VIEW_WAITERS = 2, /* waiters alone */
};

/* Reads them. `name` NULL: all, else of the locks that one alone; of the waiters all, since the
 * holder may wait, too. CLI_GO_ON or an exit status. To be ended in either case. */
int cli_view_read(cli_view *v, rowlock_client *client, const char *name, int flags);

/* The same, but says nothing: a status of the library's. */
int cli_view_try(cli_view *v, rowlock_client *client, const char *name, int flags,
                 rowlock_error *err);
void cli_view_end(cli_view *v);

/* Whether a name is the wanted one; always if that is NULL. */
int cli_view_is(const char *name, size_t n, const char *wanted);

enum cli_order {
    CLI_BY_NAME, /* as they are read */
    CLI_BY_TIME  /* the lock that has the least time left comes first; free ones before all */
};
void cli_view_sort(cli_view *v, enum cli_order order);

/* What has happened between two looks, both by name and with free locks: of each lock the last
 * grant can be seen, so that there may have been more. */
typedef struct cli_changes {
    size_t granted, freed;
} cli_changes;

cli_changes cli_view_changes(const cli_view *before, const cli_view *now);

/* What the library's own owners are made of: host:pid:client:thread. Others have no host, and a
 * process id of 0. */
typedef struct cli_process {
    char host[ROWLOCK_OWNER_MAX + 1];
    uint64_t pid;
} cli_process;

void cli_process_of(cli_process *out, const char *owner);

/* ---- chains (chain.c) ------------------------------------------------------------------------ */

/* The waiters by owner, to find out what a holder waits for itself. */
typedef struct cli_chains {
    const cli_view *view;
    const cli_waiter **by_owner;
    const cli_waiter **steps; /* of the chain that was asked for last */
    size_t count;             /* of its steps */
    int deadlock;             /* it ends where it has been before */
} cli_chains;

/* 0, or -1 if memory was short. */
int cli_chains_start(cli_chains *c, const cli_view *view);

/* Follows `from` to who holds what it waits for, to what that one waits for, and so on. steps[0] is
 * `from`; the holder of each step's lock is the owner of the next one. If there is a way that comes
 * back to where it has been, it is the one that is shown. */
void cli_chains_follow(cli_chains *c, const cli_waiter *from);
void cli_chains_end(cli_chains *c);

/* ---- how they are shown (lines.c) ------------------------------------------------------------ */

/* Tables in lines of `width` columns, 0: as wide as they are; of waiters for `name`, NULL: for all.
 * 0, or -1 if memory was short. */
int cli_locks_table(const cli_view *v, FILE *out, size_t width, int colours);
int cli_waiters_table(const cli_view *v, const char *name, FILE *out, size_t width, int colours);

/* The fields of a lock's record; the records of waiters, without the array's end. 0 or -1. */
void cli_put_lock(cli_writer *w, const cli_lock *lock);
int cli_put_waiters(cli_writer *w, const cli_view *v, const char *name);

#define CLI_LOCK_CSV "name,owner,host,pid,fence,held_ms,left_ms,count,waiters,note\n"

#endif
