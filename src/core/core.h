/* SPDX-License-Identifier: MIT
 *
 * What the files of the core share. The design note is README.md beside this file.
 *
 * Lock order: there is one mutex, the client's. It is never held while the database, a callback of
 * the user's or a sleep is under way. */
#ifndef RLK_CORE_H
#define RLK_CORE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/types.h>

#include "clock.h"
#include "error.h"
#include "rowlock/driver.h"

/* ---- tenures: what this process holds (tenure.c) ---- */

/* One grant: (name, owner, fence). Re-entrant handles share it. Identity never changes; ttl,
 * seen, handles, refs and next belong to the client's mutex; deadline and lost are read without it.
 */
typedef struct rlk_tenure {
    struct rlk_tenure *next;
    size_t name_length;
    const char *owner;
    uint64_t fence;
    int64_t ttl_us;
    uint32_t handles;                   /* not released yet */
    uint32_t refs;                      /* handles whose memory is there */
    uint8_t seen[ROWLOCK_ATTEMPT_SIZE]; /* the row's attempt as last known */
    uint8_t is_adopted;          /* one of the holds is another process's own: not ours to undo */
    _Atomic int64_t deadline_us; /* local clock; held before it */
    atomic_int lost;             /* once set, for ever */
    char name[];                 /* NUL-terminated copy; the owner follows */
} rlk_tenure;

typedef struct rlk_tenures {
    rlk_tenure **slots;
    size_t slot_count, count;
} rlk_tenures;

/* A tenure that is in no table yet, without handles. NULL: out of memory. */
rlk_tenure *rlk_tenure_new(const char *name, size_t name_length, const char *owner);

/* Makes room for n more, so that n rlk_tenures_attach() cannot fail. 0: out of memory. */
int rlk_tenures_reserve(rlk_tenures *tenures, size_t n);

/* Counts one handle more on the tenure that `fresh` describes: on the one in the table if that is
 * the same grant and not lost (`fresh` is freed), else on `fresh` itself, which takes its place. */
rlk_tenure *rlk_tenures_attach(rlk_tenures *tenures, rlk_tenure *fresh);

/* One handle less; at zero it leaves the table. The handle's memory is given up apart from that, by
 * rlk_tenure_unref(). */
void rlk_tenures_detach(rlk_tenures *tenures, rlk_tenure *tenure);
void rlk_tenure_unref(rlk_tenure *tenure);

/* Empties the table. */
void rlk_tenures_clear(rlk_tenures *tenures);

/* All in the table, as an array of `count` pointers for the caller to free. NULL: none, or no
 * memory. */
rlk_tenure **rlk_tenures_all(const rlk_tenures *tenures, size_t *count);

/* Is it over, by the local clock? Says so for ever after. */
int rlk_tenure_is_lost(rlk_tenure *tenure);

/* ---- client (client.c, pool.c, call.c) ---- */

typedef struct rlk_conn {
    struct rlk_conn *next;
    max_align_t state[]; /* the driver's */
} rlk_conn;

struct rowlock_client {
    rowlock_driver
        driver; /* a copy, with defaults for slots that the driver's is too old to have */
    pid_t pid;
    char *address; /* may hold a password: wiped before it is freed */
    char *prefix;
    char *schema;         /* or NULL */
    char *owner;          /* or NULL: one for each thread */
    char owner_head[128]; /* of generated owners */
    int64_t ttl_us, call_timeout_us, connect_timeout_us;
    uint32_t max_connections;
    int may_create; /* the database itself, while the client is being opened */
    int close_fd;   /* readable once the client is closed */
    atomic_int closed;
    int settling; /* close is alone with it, and its own retries are not to be cut short */

    pthread_mutex_t mutex;  /* guards what follows */
    pthread_cond_t changed; /* a connection came back, a call left */
    rlk_conn *idle;
    uint32_t connections; /* idle ones and those in use */
    uint32_t calls;       /* threads inside the library with this client */
    size_t refs;          /* the user's pointer and each handle */
    rlk_tenures tenures;
};

struct rowlock_lock {
    rowlock_client *client;
    rlk_tenure *tenure;
};

/* Every public call on a client stands between these two. Enter fails with EINVAL (NULL), EFORK or
 * ECLOSED, and then leave must not be called. */
int rlk_enter(rowlock_client *client, rowlock_error *err);
void rlk_leave(rowlock_client *client);

/* One reference less; at zero the memory goes. */
void rlk_client_unref(rowlock_client *client);

/* A connection, an idle one or a new one, by the deadline (local clock); else a status. It goes
 * back by rlk_pool_put(), or, if it must not be used again, by rlk_pool_drop(), which also closes
 * the idle ones: what killed one has most likely killed the others. */
int rlk_pool_get(rlk_conn **out, rowlock_client *client, int64_t deadline_us, rowlock_error *err);
void rlk_pool_put(rowlock_client *client, rlk_conn *conn);
void rlk_pool_drop(rowlock_client *client, rlk_conn *conn);
void rlk_pool_close_idle(rowlock_client *client);

/* What a call needs done on a connection: one slot of the driver. May run several times. */
typedef int (*rlk_call_fn)(rowlock_client *client, void *conn, uint32_t timeout_ms, void *arg,
                           rowlock_error *err);

typedef struct rlk_sent {
    int64_t at_us; /* local time just before the request that was answered was sent */
    int repeated;  /* an earlier request of this call may have been carried out */
} rlk_sent;

/* Runs fn with retries and reconnects for at most bound_us. Never longer than the connection's own
 * timeouts allow past that. EUNKNOWN if a request may have been carried out and no answer came. */
int rlk_call(rowlock_client *client, int64_t bound_us, rlk_call_fn fn, void *arg, rlk_sent *sent,
             rowlock_error *err);

/* ---- operations on locks (lock.c) ---- */

/* The local deadline of a lease: counted from before the request, less a margin. */
int64_t rlk_deadline(const rlk_sent *sent, int64_t remaining_us, int64_t ttl_us);

/* Gives back a hold that came too late to count; `seen` of the ops is set. Only the one hold:
 * others may count on theirs. The lease's end does the same if this fails. */
void rlk_undo(rowlock_client *client, rowlock_op *ops, size_t n);

/* Fills an op from a tenure, with a fresh attempt. */
void rlk_op_of(rowlock_op *op, const rlk_tenure *tenure);

/* Send ops, sorted by name, through the driver's slot. Renew answers BUSY for a row that stays
 * locked for more than a moment. */
int rlk_send_release(rowlock_client *client, rowlock_op *ops, size_t n, int64_t bound_us,
                     rlk_sent *sent, rowlock_error *err);
int rlk_send_renew(rowlock_client *client, rowlock_op *op, rlk_sent *sent, rowlock_error *err);

/* ---- waiting (wait.c): the one place that decides when to try again ---- */

typedef struct rlk_wait {
    rowlock_client *client;
    rowlock_cancel *cancel; /* or NULL */
    int64_t until_us;       /* end of the wait; RLK_NEVER */
    int64_t since_us;       /* its start */
    int64_t interval_us;    /* the next pause, before jitter */
} rlk_wait;

void rlk_wait_begin(rlk_wait *wait, rowlock_client *client, int64_t wait_ms,
                    rowlock_cancel *cancel);

/* Sleeps until it is worth trying again, given what the holder has left (0: not known).
 * OK: try; TIMEOUT, CANCELLED, ECLOSED: do not. */
int rlk_wait_next(rlk_wait *wait, int64_t holder_remaining_us, rowlock_error *err);

/* ---- small parts ---- */

int rlk_cancel_fd(const rowlock_cancel *cancel);

/* Copies options that start with `size` over zeroes; NULL is all zeroes. EINVAL for a size that
 * cannot be, or a tail from a newer header that this library does not know and that is not zero. */
int rlk_options_copy(void *out, size_t out_size, const void *in, const char *type,
                     rowlock_error *err);

/* Checks of arguments, each with its own line of explanation. 0 is OK. */
int rlk_check_name(const char *name, size_t *length, rowlock_error *err);
int rlk_check_ttl(int64_t ttl_ms, rowlock_error *err);
int rlk_check_owner(const char *owner, rowlock_error *err);
int rlk_check_tables(const rowlock_driver *driver, const rowlock_options *options,
                     rowlock_error *err);

/* The driver's table, checked and completed. */
int rlk_driver_check(rowlock_driver *out, const rowlock_driver *driver, rowlock_error *err);

/* The owner for a call of this thread: the client's, or one made for the thread, in `buffer`. */
const char *rlk_owner(const rowlock_client *client, char buffer[ROWLOCK_OWNER_MAX + 1]);
void rlk_owner_head(char *out, size_t size);

/* Schema steps at open (schema.c). */
int rlk_schema_check(rowlock_client *client, int policy, rowlock_error *err);

#endif
