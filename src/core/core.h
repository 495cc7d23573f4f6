/* SPDX-License-Identifier: MIT
 *
 * What the files of the core share. The design note is README.md beside this file.
 *
 * There is one mutex, the client's. It is not held while the database, a callback of the user's or
 * a sleep is under way. */
#ifndef RLK_CORE_H
#define RLK_CORE_H

#include <stdatomic.h>
#include <stddef.h>
#include <sys/types.h>

#include "clock.h"
#include "error.h"
#include "event.h"
#include "heap.h"
#include "rowlock/driver.h"
#include "thread.h"

/* ---- tenures: what this process holds (tenure.c) ---- */

/* One grant: (name, owner, fence). Re-entrant handles share it. Identity never changes; deadline,
 * lost and what they follow from are read without a lock; the rest belongs to the client's mutex.
 */
typedef struct rlk_tenure {
    struct rlk_tenure *next;
    size_t name_length;
    const char *owner;
    uint64_t fence;
    int64_t ttl_us;
    uint32_t handles; /* not released yet */
    uint32_t refs;    /* handles whose memory is there, the table, calls that use it */
    uint8_t seen[ROWLOCK_ATTEMPT_SIZE]; /* the row's attempt as last known */
    uint8_t is_adopted; /* one of the holds is another process's own: not ours to undo */
    uint8_t is_counted; /* among the lost ones */
    uint8_t is_guarded; /* was: a transaction may keep its row locked */
    uint8_t is_asked;   /* lost by the database's answer, and the reason is being looked for */
    uint8_t is_over;    /* lost, and not live in the database any more, as that has answered */
    uint8_t may_linger; /* the row may count a hold more than there are handles */
    uint8_t is_unknown; /* its acquire had no answer: `seen` is that attempt, no fence is known */
    uint8_t is_release_pending; /* its last release failed: `pending_attempt` is its */
    uint8_t pending_attempt[ROWLOCK_ATTEMPT_SIZE];
    uint32_t renewers;      /* handles that want it renewed */
    int64_t acquired_us;    /* local clock */
    int64_t row_until_us;   /* so long the row may live in the database, as far as is known here */
    rlk_heap_node end;      /* of the table: held, or a remnant */
    int64_t renew_from_us;  /* with others; it is planned for the time at which it is due */
    rowlock_lock *watchers; /* handles that are watched, and do not know of a loss */
    rlk_heap_node alarm;    /* of the watch: when to look whether it is lost, if it has watchers */
    rlk_heap_node renewal;  /* of the watch: planned or due, if it has renewers */
    struct rlk_conn *bell;  /* to release it on, which wakes the next in the queue; or NULL */
    uint64_t ticket;        /* of the bell */
    _Atomic int64_t hold_until_us; /* held no longer than this; RLK_NEVER */
    _Atomic int64_t deadline_us;   /* local clock; held before it */
    atomic_int is_last;            /* the lease was cut by hold_until_us: it is not renewed again */
    atomic_int is_unreachable;     /* the last renewal had no answer */
    atomic_int lost;               /* enum rowlock_loss; once set, for ever */
    char name[];                   /* NUL-terminated copy; the owner follows */
} rlk_tenure;

typedef struct rlk_tenures {
    rlk_tenure **slots;
    size_t slot_count, count;
    rlk_heap held;     /* all that are not known to be lost; by deadline_us */
    rlk_heap remnants; /* without handles, see rlk_tenures_remnant(); by row_until_us */
} rlk_tenures;

/* A tenure that is in no table yet, without handles; the caller's until rlk_tenure_unref(). NULL:
 * out of memory. */
rlk_tenure *rlk_tenure_new(const char *name, size_t name_length, const char *owner);

/* Makes room for n more, so that n rlk_tenures_attach() cannot fail. 0: out of memory. */
int rlk_tenures_reserve(rlk_tenures *tenures, size_t n);

/* Counts one handle more on the tenure that `fresh` describes: on the one in the table if that is
 * the same grant and not lost, else on `fresh` itself, which takes its place. The caller's
 * reference to `fresh` stays. */
rlk_tenure *rlk_tenures_attach(rlk_tenures *tenures, rlk_tenure *fresh);

/* Is a tenure of the same name and owner in the table, and not lost? Which one of this name, of
 * whatever owner, is? */
int rlk_tenures_has(const rlk_tenures *tenures, const rlk_tenure *like);
rlk_tenure *rlk_tenures_of_name(const rlk_tenures *tenures, const char *name, size_t length);

/* One handle less; at zero it leaves the table, or becomes a remnant. The handle's memory is given
 * up apart from that, by rlk_tenure_unref(). */
void rlk_tenures_detach(rlk_tenures *tenures, rlk_tenure *tenure);
void rlk_tenure_unref(rlk_tenure *tenure);

/* A tenure of the same name and owner that is lost here, but may live on in the database: who
 * acquired now would re-enter it, and its holds, which nobody gives back, would live on with that.
 * NULL: none. And: it is over. */
rlk_tenure *rlk_tenures_remnant(const rlk_tenures *tenures, const rlk_tenure *like);
void rlk_tenures_bury(rlk_tenures *tenures, rlk_tenure *remnant);

/* The row may live on with a hold that nobody has a handle for: the tenure, without handles, is
 * kept as a remnant for who acquires next; or, if a live one of its owner has its place, that one
 * knows.
 */
void rlk_tenures_leave_behind(rlk_tenures *tenures, rlk_tenure *tenure);

/* Takes an acquire without an answer, of the same name and owner, out of the table; a reference to
 * it is the caller's then. NULL: there is none. */
rlk_tenure *rlk_tenures_take_unknown(rlk_tenures *tenures, const rlk_tenure *like);

/* The tenure of the same name, owner and fence, if it is lost here. NULL: none. */
rlk_tenure *rlk_tenures_lost(const rlk_tenures *tenures, const rlk_tenure *like);

/* The database has answered that the row lives for so long from now on, or may have done so. */
void rlk_tenure_outlives(rlk_tenure *tenure, int64_t remaining_us);

/* Empties the table. */
void rlk_tenures_clear(rlk_tenures *tenures);

/* All in the table, as an array of `count` pointers for the caller to free. NULL: none, or no
 * memory. */
rlk_tenure **rlk_tenures_all(const rlk_tenures *tenures, size_t *count);

/* How many are held at this moment. */
size_t rlk_tenures_held(rlk_tenures *tenures);

/* Sets the deadline, unless it was later before; not beyond hold_until_us. Under the mutex, as soon
 * as others know of it. */
void rlk_tenure_prolong(rlk_tenure *tenure, int64_t deadline_us);

/* Orders pointers to tenures as drivers want their operations; for qsort(). */
int rlk_tenure_by_name(const void *a, const void *b);

/* Is it over, by the local clock? Says so for ever after. */
int rlk_tenure_is_lost(rlk_tenure *tenure);

/* It is over, for this reason unless there was one before. Under the mutex. */
void rlk_tenure_lose(rlk_tenure *tenure, int loss);

/* The ttl to ask for, so that the lease ends by hold_until_us; more than 0. */
int64_t rlk_tenure_ttl(const rlk_tenure *tenure, int64_t ttl_us);

/* ---- client (client.c, pool.c, call.c) ---- */

typedef struct rlk_conn {
    struct rlk_conn *next;
    int is_keeping;      /* in use by a renewal or a release */
    max_align_t state[]; /* the driver's */
} rlk_conn;

/* What connections are for; each use has a bound of its own. While there are handles the last
 * connection is reserved for RLK_USE_KEEP: the other uses open another one, or fail. Calls use one
 * less than max_connections then; if that is 1, they share it and KEEP comes first. Transactions
 * and waiters leave it to those, too, who are about to get a handle. */
typedef enum rlk_use {
    RLK_USE_CALL, /* one call; idle connections count here */
    RLK_USE_TX,   /* a transaction */
    RLK_USE_WAIT, /* a thread that waits, and then its lock, until that is released */
    RLK_USES,
    RLK_USE_KEEP = RLK_USES /* one call that renews or releases; counts as RLK_USE_CALL */
} rlk_use;

/* A call that waits, in its thread's own memory. Threads of one client that want the same name form
 * a line; the front one has the ticket in the database. */
/* The front of a line may be given the lock by the thread of its process that releases it. */
typedef enum rlk_hand {
    RLK_HAND_OPEN,      /* it may be */
    RLK_HAND_UNDER_WAY, /* a thread is doing so: only it changes this, or a waiter without time */
    RLK_HAND_HAD,       /* it was: the op has the answer */
    RLK_HAND_CLOSED     /* it asks the database itself */
} rlk_hand;

typedef struct rlk_sent {
    int64_t at_us; /* local time just before the request that was answered was sent */
    int repeated;  /* an earlier request of this call may have been carried out */
} rlk_sent;

typedef struct rlk_waiter {
    rowlock_client *client;
    rowlock_op *ops; /* name, length and owner are read by others, under the mutex */
    size_t n;
    int ring_fd; /* readable: look again; -1: there is none, and it looks more often */
    /* under the mutex */
    struct rlk_waiter *next_front;      /* of another name, in the same bucket */
    struct rlk_waiter *behind, *last;   /* of the same name; the front one knows the last */
    struct rlk_waiter *next, *previous; /* among all that have tickets */
    uint64_t ticket;
    int64_t keep_at_us; /* then its life is prolonged */
    int is_front;
    int is_polled; /* the database does not wake it: ask */
    int is_gone;   /* its ticket was not found */
    rlk_hand hand;
    struct rlk_handing *giver; /* while it is under way */
    rlk_sent handed;           /* when, if it was had */
    int is_hand_unknown;       /* it may have been: the answer was lost */
    int is_hand_left;          /* it may be: who waits gave up while it was under way */
} rlk_waiter;

/* A lock that is being given on, in the memory of the thread that releases it, with a copy of all
 * that the request needs: who waits may give up before the answer is there. */
typedef struct rlk_handing {
    rlk_waiter *next; /* under the mutex; NULL: nobody wants it, or has given up */
    rowlock_op acquire;
    char name[ROWLOCK_NAME_MAX];
    char owner[ROWLOCK_OWNER_MAX + 1];
    char note[ROWLOCK_NOTE_MAX + 1];
} rlk_handing;

/* In a request that has both, releases come before acquires. */
typedef enum rlk_kind { RLK_RELEASE, RLK_ACQUIRE, RLK_RENEW, RLK_KINDS } rlk_kind;

enum { RLK_COMBINE_MAX = 256 }; /* operations in one request */

/* Threads that wait for a request to come back, to send the next one. */
typedef struct rlk_rider rlk_rider;
typedef struct rlk_crate rlk_crate;

/* A request that threads share, from the moment at which a thread is to send it. Only
 * set_flight() in combine.c changes the state, and with it the combiner's numbers. */
typedef enum rlk_flight_state {
    RLK_NO_FLIGHT, /* not begun, or over */
    RLK_CALLED,    /* the thread that is to send it is woken, and has not begun */
    RLK_IN_FLIGHT,
    RLK_REPLACED, /* it takes too long: another was sent in its place */
    RLK_FLIGHT_STATES
} rlk_flight_state;

typedef struct rlk_flight {
    struct rlk_flight *next; /* the one that was begun after it */
    rlk_flight_state state;
    size_t ops;
} rlk_flight;

typedef struct rlk_combiner {
    rlk_rider *first, *last;                /* in the order in which they came, */
    size_t waiting;                         /* so many */
    rlk_flight *flights;                    /* all that are not over, the oldest first */
    uint32_t flights_in[RLK_FLIGHT_STATES]; /* so many of them are in this state */
    size_t ops_in_flight;                   /* of all of them */
    size_t crowd;       /* operations in flight and waiting, when the last one came back */
    int64_t sent_at_us; /* when one was last begun */
    rlk_crate *room;    /* where those wait who come now; or NULL */
    rlk_crate *crates;  /* not in use */
} rlk_combiner;

enum { RLK_LINE_BUCKETS = 64 };

typedef struct rlk_lines {
    rlk_waiter *fronts[RLK_LINE_BUCKETS];
    rlk_waiter *tickets;
    uint32_t waiting;
    char hot[ROWLOCK_NAME_MAX]; /* the name that was waited for last, in the database */
    size_t hot_length;          /* 0: none */
    int64_t crowd_until_us[RLK_LINE_BUCKETS]; /* others wait in the database, as was seen lately */
    int64_t beat_at_us;                       /* a ticket may have to be kept alive then */
    int64_t poll_at_us, poll_pause_us;
} rlk_lines;

/* Counters of rowlock_stats(), added to from any thread. */
typedef struct rlk_counters {
    _Atomic uint64_t acquired, busy, timed_out, cancelled, released, lost, renewed, reaped, errors,
        retries, deadlock_retries, reconnects, queued, polled, combined;
    _Atomic uint64_t wait_buckets[ROWLOCK_BUCKETS], hold_buckets[ROWLOCK_BUCKETS];
} rlk_counters;

/* One of the client's own threads, and what wakes it. */
typedef struct rlk_worker {
    rowlock_client *client;
    const char *name;
    int64_t (*step)(rowlock_client *client); /* all that is due now; when to come again */
    rlk_thread thread;
    int is_running;
    rlk_sleeper sleeper;
    _Atomic int64_t sleeps_until_us; /* 0: awake, and may have looked already */
} rlk_worker;

/* The keeper renews and reaps, which is I/O; the teller tells of losses, and waits for nothing but
 * the clock and the application's own callbacks (watch.c). */
typedef struct rlk_watch {
    rlk_worker keeper, teller;
    rowlock_client *next_running; /* among those of the process that have threads: exit.c */
    int is_listed;                /* it is, or was, among them */
    int is_by_hand;               /* tests run the steps themselves */
    atomic_int stop;
    rlk_heap alarms;       /* tenures that are watched, by the time of the next look */
    rlk_heap planned, due; /* tenures to renew: by the time for it; at once, by deadline_us */
    rowlock_lock *untold, *last_untold; /* handles whose loss is to be told, in this order */
    rowlock_lock *calling; /* whose on_lost is being called; NULL: none, or it was released in it */
    uint64_t caller;       /* by this thread: rlk_thread_number() */
    int64_t reap_at_us, reap_pause_us;
    rowlock_mark reap_mark; /* of the pass that is under way */
    uint64_t reap_count;    /* deleted in it */
    rowlock_op *ops;        /* of a batch of renewals, and whose they are */
    rlk_tenure **tenures;
} rlk_watch;

struct rowlock_client {
    rowlock_driver
        driver; /* a copy, with defaults for slots that the driver's is too old to have */
    pid_t pid;
    char *address; /* may hold a password: wiped before it is freed */
    char *prefix;
    char *schema;         /* or NULL */
    char *place;          /* where the tables were found, under the mutex; NULL: not asked yet */
    char *owner;          /* or NULL: one for each thread */
    char owner_head[128]; /* of generated owners */
    uint64_t attempt;     /* at random: the first half of this client's attempts */
    _Atomic uint64_t attempts; /* their number, which is the other half */
    int64_t ttl_us, call_timeout_us, connect_timeout_us, ticket_us;
    uint32_t max_connections[RLK_USES];
    int may_create; /* the database itself, while the client is being opened */
    int is_relaxed;
    uint32_t spin_us;
    int close_fd; /* readable once the client is closed */
    atomic_int closed;
    int settling; /* close is alone with it, and its own retries are not to be cut short */

    rlk_mutex mutex;  /* guards what follows */
    rlk_cond changed; /* a connection came back, a call left */
    rlk_conn *idle;
    uint32_t idle_count;
    uint32_t keeping;      /* connections in use by renewals and releases, */
    uint32_t keep_opening; /* of which so many are still being opened */
    uint32_t keep_waiting; /* renewals and releases that wait for one */
    uint32_t handles;      /* not released yet */
    uint32_t acquiring;    /* calls that may get some, and have no bell to release them on */
    uint32_t connections[RLK_USES];
    uint32_t calls; /* threads inside the library with this client */
    size_t refs;    /* the user's pointer and each handle */
    rlk_tenures tenures;
    rlk_lines lines;
    rlk_combiner combiners[RLK_KINDS];
    rlk_watch watch;
    int was_cut;         /* a connection was lost, and none opened since */
    int has_reconnected; /* one was, and nobody has been told */

    rowlock_event_fn on_event; /* from here on without the mutex */
    void *event_payload;
    int64_t reap_interval_us, reap_retention_us;
    rlk_counters counters;
};

struct rowlock_lock {
    rowlock_client *client;
    rlk_tenure *tenure;
    rowlock_lost_fn on_lost; /* or NULL */
    void *lost_payload;
    int renew;
    atomic_int lost_fd;            /* or -1 */
    int is_watched, is_told;       /* under the mutex, with the two that follow; told: not listed */
    rowlock_lock *next, *previous; /* among the tenure's watchers, or the untold */
};

/* Every public call on a client stands between these two, and cannot be cancelled there
 * (pthread_cancel()): others may wait for what it has begun. Enter fails with EINVAL (NULL), EFORK
 * or ECLOSED, and then leave must not be called. */
int rlk_enter(rowlock_client *client, rowlock_error *err);
void rlk_leave(rowlock_client *client);

/* One reference less; at zero the memory goes. */
void rlk_client_unref(rowlock_client *client);

/* A connection, an idle one or a new one, by the deadline (local clock); else a status. It goes
 * back by rlk_pool_put(), or, if it must not be used again, by rlk_pool_drop(), which also closes
 * the idle ones: what killed one has most likely killed the others. */
int rlk_pool_get(rlk_conn **out, rowlock_client *client, rlk_use use, int64_t deadline_us,
                 rowlock_error *err);
void rlk_pool_put(rowlock_client *client, rlk_conn *conn);
void rlk_pool_drop(rowlock_client *client, rlk_conn *conn);
void rlk_pool_close_idle(rowlock_client *client);

/* The same for the other uses, which may keep a connection for long and must not take the last one
 * from those who renew leases. Transactions' may come back after the client was closed. Nobody
 * waits here for one to come back: BUSY, with what to say of it in err. */
int rlk_pool_lend(rlk_conn **out, rowlock_client *client, rlk_use use, int64_t deadline_us,
                  rowlock_error *err);
void rlk_pool_return(rowlock_client *client, rlk_use use, rlk_conn *conn);
void rlk_pool_lose(rowlock_client *client, rlk_use use, rlk_conn *conn);

/* What a call needs done on a connection: one slot of the driver. May run several times. */
typedef int (*rlk_call_fn)(rowlock_client *client, void *conn, uint32_t timeout_ms, void *arg,
                           rowlock_error *err);

/* Runs fn with retries and reconnects for at most bound_us; ECONNECT, with nothing sent, if that is
 * over before there is a connection. EUNKNOWN if a request may have been carried out and no answer
 * came. */
int rlk_call(rowlock_client *client, int64_t bound_us, rlk_call_fn fn, void *arg, rlk_sent *sent,
             rowlock_error *err);

/* EUNKNOWN, for what err says (not NULL), after a request whose answer was lost. */
int rlk_unknown(rowlock_error *err);

/* The same, as RLK_USE_KEEP: for renewals and releases. */
int rlk_call_keep(rowlock_client *client, int64_t bound_us, rlk_call_fn fn, void *arg,
                  rlk_sent *sent, rowlock_error *err);

/* The same in two parts: the first try, by the deadline, with no callback of the user's (*again: it
 * leaves room for another); and all that comes after it. And once more, as a whole, after a try of
 * which `sent` still counts. err is not NULL in these. */
int rlk_call_first(rowlock_client *client, rlk_use use, int64_t deadline_us, rlk_call_fn fn,
                   void *arg, rlk_sent *sent, int *again, rowlock_error *err);
int rlk_call_rest(rowlock_client *client, rlk_use use, int64_t deadline_us, rlk_call_fn fn,
                  void *arg, rlk_sent *sent, int rc, int again, rowlock_error *err);
int rlk_call_again(rowlock_client *client, rlk_use use, int64_t deadline_us, rlk_call_fn fn,
                   void *arg, rlk_sent *sent, rowlock_error *err);

/* The same on a connection that is lent; after OK it stays with the caller, in *kept. BUSY: there
 * was none to be lent, and err says so. */
int rlk_call_lent(rlk_conn **kept, rowlock_client *client, rlk_use use, int64_t bound_us,
                  rlk_call_fn fn, void *arg, rowlock_error *err);

/* ---- sharing requests (combine.c) ---- */

/* As rlk_call() of the driver's slot with this one op, in one request with those of other threads.
 */
int rlk_combine(rowlock_client *client, rlk_kind kind, rowlock_op *op, int64_t bound_us,
                rlk_sent *sent, rowlock_error *err);
void rlk_combiners_free(rowlock_client *client);

/* ---- several names at once (names.c) ---- */

/* Orders operations as drivers want them. */
int rlk_op_by_name(const rowlock_op *a, const rowlock_op *b);

typedef struct rlk_name {
    const char *name;
    size_t length, number; /* number: its place in the caller's array */
} rlk_name;

/* Checked, in byte order, none twice; EINVAL says which. To be freed. */
int rlk_names_sorted(rlk_name **out, const char *const *names, const size_t *lengths, size_t n,
                     rowlock_error *err);
int rlk_check_names(const char *const *names, size_t n, rowlock_error *err);

/* The op that stands in the way longest; NULL if all were granted. */
const rowlock_op *rlk_obstacle(const rowlock_op *ops, size_t n);

/* BUSY or TIMEOUT because of it, also in *holder (may be NULL). */
int rlk_report_busy(rowlock_holder *holder, int status, const rowlock_op *op, rowlock_error *err);

/* ---- operations on locks (lock.c) ---- */

/* EINVAL for NULL, else as rlk_enter(). */
int rlk_enter_lock(const rowlock_lock *lock, rowlock_error *err);
int rlk_lost(rowlock_error *err);

/* What a handle and its client have in common is ended by `how`, unless the client is closed; then
 * the handle is freed and *lock set to NULL, whatever the answer. */
typedef int (*rlk_let_go_fn)(rowlock_client *client, rowlock_lock *lock, rowlock_error *err);
int rlk_let_go(rowlock_lock **lock, rlk_let_go_fn how, rowlock_error *err);

/* What the answer to a release means for its tenure: OK, LOST or EUNKNOWN. `is_repeated`: an
 * earlier request may have been carried out. Then numbers, events, and whoever waits in the line of
 * this process, unless it was handed the lock. */
int rlk_release_answer(rowlock_client *client, rlk_tenure *tenure, const rowlock_op *op,
                       int is_repeated, rowlock_error *err);
void rlk_release_note(rowlock_client *client, rlk_tenure *tenure, int rc, int handed);

/* Frees a handle that is not watched, and what it pins; after fork() nothing that is the parent's.
 */
void rlk_handle_free(rowlock_lock *lock, int is_forked);

/* The local deadline of a lease: counted from before the request, less a margin. No more than the
 * ttl that the request asked for, whatever is left by the database's clock, which may have been set
 * back. */
int64_t rlk_deadline(const rlk_sent *sent, int64_t remaining_us, int64_t ttl_us);

/* The database has renewed it. Under the mutex: 0 if the lease that was known before has ended
 * meanwhile, so that it does not count. */
int rlk_extend(rlk_tenure *tenure, const rlk_sent *sent, const rowlock_op *op);

/* Gives back a hold that came too late to count; `seen` of the ops is set. Only the one hold:
 * others may count on theirs. OK: there is none any more. Else the lease's end does the same. */
int rlk_undo(rowlock_client *client, rowlock_op *ops, size_t n, int64_t bound_us);

/* Are some of the tenures wanted, sorted by name, lost here and still live in the database? Then
 * their ops are answered BUSY, with their own owner as the holder, and the others OK
 * (*has_remnant). An error says that nothing was done. (remnant.c) */
int rlk_remnants_look(int *has_remnant, rowlock_client *client, rlk_tenure *const *wanted,
                      rowlock_op *ops, size_t n, int64_t bound_us, rowlock_error *err);

/* A release failed: the hold may still be there. */
void rlk_release_failed(rowlock_client *client, rlk_tenure *tenure, const rowlock_op *op);

/* A tenth of the lease, at most two seconds: for clocks whose rates differ and for the way back. */
int64_t rlk_margin(int64_t ttl_us);

/* Fills an op from a tenure, with a fresh attempt. */
void rlk_op_of(rowlock_op *op, rowlock_client *client, const rlk_tenure *tenure);

/* Send ops, sorted by name, through the driver's slot. The first way to renew answers BUSY for a
 * row that stays locked for more than a moment. */
int rlk_send_release(rowlock_client *client, rowlock_op *ops, size_t n, int64_t bound_us,
                     rlk_sent *sent, rowlock_error *err);
int rlk_send_renew(rowlock_client *client, rowlock_op *op, rlk_sent *sent, rowlock_error *err);
int rlk_send_renewals(rowlock_client *client, rowlock_op *ops, size_t n, int64_t bound_us,
                      rlk_sent *sent, rowlock_error *err);

/* ---- background (watch.c, renewal.c, reap.c, loss.c) ---- */

enum { RLK_RENEW_BATCH = 1000 }; /* locks in one statement */

/* Prepares it, without a thread; ends the thread, if there is one, and frees it. */
int rlk_watch_init(rowlock_client *client, rowlock_error *err);
void rlk_watch_end(rowlock_client *client);
void rlk_watch_free(rowlock_client *client);

/* Starts the threads, once. ENOMEM if that is not possible. */
int rlk_watch_start(rowlock_client *client, rowlock_error *err);

/* The threads of this client are to be ended at exit(), or not any more: it is being closed. */
void rlk_exit_add(rowlock_client *client);
void rlk_exit_remove(rowlock_client *client);

/* Something has changed that they should look at. Any thread, also under the mutex. */
void rlk_watch_wake(rowlock_client *client);

/* Under the mutex: an alarm or a renewal was planned, so that they may have to look earlier. */
void rlk_watch_planned(rowlock_client *client);

/* Wakes one of them, unless it will look in time anyway. */
void rlk_worker_wake(const rlk_worker *worker, int64_t time_us);

/* Everything that is due now; when to come again. The threads do no more than this. */
int64_t rlk_keeper_step(rowlock_client *client);
int64_t rlk_teller_step(rowlock_client *client);

/* Under the mutex: from now on, and rlk_watch_planned() is to follow; or no longer. Removing waits
 * for an on_lost that is being called, unless it is that which removes. */
void rlk_watch_add(rowlock_client *client, rowlock_lock *lock);
void rlk_watch_remove(rowlock_client *client, rowlock_lock *lock);

/* Renews what is due, in batches; when more will be. Deletes some old rows, if that is due; by
 * until_us. */
int64_t rlk_renew_due(rowlock_client *client);
void rlk_reap_due(rowlock_client *client, int64_t until_us);

/* What the keeper may take for anything but renewals: none of them is to be late for it. */
int64_t rlk_keeper_bound(int64_t bound_us, int64_t until_us);

/* Under the mutex: plans when to renew a lease that is known until deadline_us. */
void rlk_plan_renewal(rowlock_client *client, rlk_tenure *tenure, int64_t now_us);

/* Tells of all losses that have not been told. */
void rlk_tell_losses(rowlock_client *client);

/* The database says that a tenure is over: it is lost from here on. Under the mutex. Then the
 * reason is looked for, as far as the row shows by until_us; on_lost waits for it. Without. */
void rlk_lose_by_answer(rlk_tenure *tenure);
void rlk_refine_loss(rowlock_client *client, rlk_tenure *tenure, int64_t until_us);

/* Both. */
void rlk_lose_and_refine(rowlock_client *client, rlk_tenure *tenure, int64_t until_us);

/* Counts a tenure among the lost, once. */
void rlk_count_loss(rowlock_client *client, rlk_tenure *tenure);

/* ---- numbers and events (stats.c) ---- */

void rlk_count(_Atomic uint64_t *counter, uint64_t n);
void rlk_count_time(_Atomic uint64_t *buckets, int64_t us);
void rlk_emit(const rowlock_client *client, const rowlock_event *event);
void rlk_emit_tenure(const rowlock_client *client, int kind, const rlk_tenure *tenure,
                     int64_t elapsed_us);

/* ---- waiting (wait.c): the one place that decides when to try again ---- */

typedef struct rlk_wait {
    rowlock_client *client;
    rowlock_cancel *cancel; /* or NULL */
    int64_t until_us;       /* end of the wait; RLK_NEVER */
    int64_t end_us;         /* when the call returns, whatever hangs; RLK_NEVER */
    int64_t since_us;       /* its start */
    int64_t interval_us;    /* the next pause, before jitter */
} rlk_wait;

/* A call that does not wait has call_timeout_ms; one that does the wait and a little more for its
 * last request; one that waits for ever call_timeout_ms for each request. */
void rlk_wait_begin(rlk_wait *wait, rowlock_client *client, int64_t wait_ms,
                    rowlock_cancel *cancel);

/* What the next request of a call may take that has until deadline_us, or until the end of the
 * wait: no more than call_timeout_ms. 0: nothing may be sent any more. The second for drivers, 1 at
 * least. */
int64_t rlk_bound(const rowlock_client *client, int64_t deadline_us);
uint32_t rlk_bound_ms(const rowlock_client *client, int64_t deadline_us);
int64_t rlk_wait_bound(const rlk_wait *wait);

/* Enough for another try? With less, a row that is locked for a moment, or a database that is only
 * slow, would leave it unknown. */
int rlk_wait_has_time(const rlk_wait *wait);

/* The same for a driver that first waits for wait_ms itself. */
uint32_t rlk_wait_rest_ms(const rlk_wait *wait, uint32_t wait_ms);

/* Sleeps until it is worth trying again, given what the holder has left (0: not known).
 * OK: try; TIMEOUT, CANCELLED, ECLOSED: do not. */
int rlk_wait_next(rlk_wait *wait, int64_t holder_remaining_us, rowlock_error *err);

/* The same without sleeping, after the database itself has made us wait. */
int rlk_wait_look(const rlk_wait *wait, rowlock_error *err);

/* Has it ended? OK if not; sleeps until then, or until ring_fd (-1: none) is readable. */
int rlk_wait_until(const rlk_wait *wait, int64_t until_us, int ring_fd, rowlock_error *err);

/* What is left of the wait, as drivers are told: ROWLOCK_WAIT_NONE to ROWLOCK_WAIT_FOREVER. */
uint32_t rlk_wait_left_ms(const rlk_wait *wait);

/* ---- waiting in line (line.c, hand.c, queue.c, beat.c) ---- */

/* What is done with a grant, before the next one in the line of this process may look: `bell` is
 * the connection to release it on, or NULL, and stays whose it is made; sent says since when it is
 * held. */
typedef int (*rlk_granted_fn)(void *arg, rlk_conn *bell, const rlk_sent *sent, rowlock_error *err);

/* Waits until all ops, sorted by name and refused a moment ago or not tried at all, are granted.
 * Then what `granted` answers. Else nothing is left behind, and with TIMEOUT the ops say who is in
 * the way. */
int rlk_queue_acquire(rowlock_client *client, rowlock_op *ops, size_t n, const rlk_wait *wait,
                      rlk_granted_fn granted, void *arg, rowlock_error *err);

/* Gives up the tenure's bell, if it has one, which wakes the next in the queue. */
void rlk_bell_drop(rowlock_client *client, rlk_tenure *tenure);
void rlk_bells_drop(rowlock_client *client); /* all tenures' */

/* Does a thread of this client wait for this name, or had the last one to? Then a try is most
 * likely in vain. */
int rlk_line_exists(rowlock_client *client, const char *name, size_t length);

/* Whether who was granted the op in the database's queue had to wait there. */
void rlk_line_heat(rowlock_client *client, const rowlock_op *op, int had_to_wait);

/* The name has just been released by a thread of this client: its front may look again. */
void rlk_line_ring(rowlock_client *client, const char *name, size_t length);

/* Joins and leaves the line of its name; waits to be its front: OK, or as rlk_wait_next(). */
void rlk_line_join(rlk_waiter *waiter);
int rlk_line_wait(rlk_waiter *waiter, const rlk_wait *wait, rowlock_error *err);
void rlk_line_leave(rlk_waiter *waiter);

/* The front of the line of this name, or NULL. Under the mutex. And where names are sorted into. */
rlk_waiter *rlk_line_front(rowlock_client *client, const char *name, size_t length);
size_t rlk_line_bucket(const char *name, size_t length);

/* Does a thread of this client hold what this op wants, and may give it on? */
int rlk_hand_exists(rowlock_client *client, const rowlock_op *op);

/* The front one waits, for a while, to be given the lock by the thread of this client that holds
 * it. OK: *had, or the database has to be asked; else as rlk_wait_next(), and not had. `rc`: what
 * the wait for the front came to; whoever ends it is to be given nothing from here on, either. */
int rlk_hand_wait(rlk_waiter *waiter, const rlk_wait *wait, int rc, int *had, rowlock_error *err);

/* Who is to have the lock of a tenure that is about to be released; 0: nobody. Under the mutex,
 * with the tenure out of the table; rlk_hand_over() must follow. */
int rlk_hand_next(rlk_handing *out, rowlock_client *client, const rlk_tenure *tenure);

/* Releases and gives it to that one, in one request, by the deadline. 1: done. Else the usual way
 * is open; *repeated says whether this may have been carried out. */
int rlk_hand_over(rowlock_client *client, rlk_tenure *tenure, rlk_handing *handing, rowlock_op *op,
                  int64_t deadline_us, int *repeated);

/* Wakes the waiter; forgets that it was woken. */
void rlk_ring(const rlk_waiter *waiter);
void rlk_unring(const rlk_waiter *waiter);

/* The ticket is the waiter's, and is kept alive from now on; or not any more. */
void rlk_tickets_add(rlk_waiter *waiter, uint64_t ticket);
void rlk_tickets_remove(rlk_waiter *waiter);

/* From now on the database is asked for it from time to time, or not any more. */
void rlk_tickets_poll(rlk_waiter *waiter, int is_polled);

/* Keeps tickets alive and asks for those that the database does not wake, as far as it is time; by
 * until_us, when the next renewal is due. When to come again. */
int64_t rlk_tickets_due(rowlock_client *client, int64_t until_us);

/* ---- transactions (tx.c, native.c) ---- */

/* One call that locks rows: in a transaction of the library's or of the application's. Slot i of
 * ops is the i-th name in byte order; order[i] is its place in the caller's array. */
typedef struct rlk_tx_call {
    rowlock_client *client;
    rowlock_tx_options options;
    size_t n;
    rowlock_op *ops;
    size_t *order;
    rlk_wait wait;
    int is_native;         /* the application's connection */
    rowlock_error no_room; /* BUSY because no connection could be lent: what to say */
    char owner_buffer[ROWLOCK_OWNER_MAX + 1];
} rlk_tx_call;

/* Comes in, checks and prepares; whatever it answers, rlk_tx_leave() follows. */
int rlk_tx_enter(rlk_tx_call *call, rowlock_client *client, const char *const *names, size_t n,
                 const rowlock_tx_options *options, rowlock_error *err);
void rlk_tx_leave(rlk_tx_call *call);

/* Locks the rows by way of try_lock(), which calls the driver's slot once, until it is done or the
 * wait ends. */
typedef int (*rlk_try_lock_fn)(rlk_tx_call *call, const rlk_wait *wait, void *arg,
                               rowlock_error *err);
int rlk_tx_lock(rlk_tx_call *call, rlk_try_lock_fn try_lock, void *arg, rowlock_error *err);

/* What a call on a connection of the client's own came to, for who works in a transaction of the
 * application's: ECONNECT, and EUNKNOWN where nothing was to be changed, become EPOOL, since it is
 * not that transaction's connection that is gone. err is not NULL. */
int rlk_own_failure(int rc, rowlock_error *err);

/* Is the client's driver this one? */
int rlk_is_driver_of(const rowlock_client *client, const rowlock_driver *driver);

/* The driver's bound for one call that waits for nobody. */
uint32_t rlk_call_timeout_ms(const rowlock_client *client);

/* Proves by two sessions of its own that the database excludes, and calls fn once with what came
 * out. What cannot be proved is a finding, too. */
void rlk_prove_exclusion(rowlock_client *client, rowlock_finding_fn fn, void *payload);

/* ---- small parts ---- */

/* What drivers are asked for a listing; pointers are the options'. EINVAL. */
int rlk_list_query(rowlock_list_query *out, const rowlock_list_options *options,
                   rowlock_error *err);

int rlk_cancel_fd(const rowlock_cancel *cancel);

/* Copies options that start with `size` over zeroes; NULL is all zeroes. EINVAL for a size that
 * cannot be, or a tail from a newer header that this library does not know and that is not zero. */
int rlk_options_copy(void *out, size_t out_size, const void *in, const char *type,
                     rowlock_error *err);

/* EINVAL unless a `reserved` field of options is zero. */
int rlk_check_reserved(int32_t reserved, const char *type, rowlock_error *err);

/* Checks of arguments, each with its own line of explanation. 0 is OK. */
int rlk_check_name(const char *name, size_t *length, rowlock_error *err);
int rlk_check_ttl(int64_t ttl_ms, rowlock_error *err);
int rlk_check_wait(int64_t wait_ms, rowlock_error *err);
int rlk_check_retention(int64_t *retention_ms, rowlock_error *err); /* 0 becomes the default */
int rlk_check_owner(const char *owner, rowlock_error *err);
int rlk_check_tables(const rowlock_driver *driver, const rowlock_options *options,
                     rowlock_error *err);

/* The driver's table, checked and completed. */
int rlk_driver_check(rowlock_driver *out, const rowlock_driver *driver, rowlock_error *err);

/* The owner for a call of this thread: the client's, or one made for the thread, in `buffer`. */
const char *rlk_owner(const rowlock_client *client, char buffer[ROWLOCK_OWNER_MAX + 1]);

/* What the owners of a client begin with: host, pid, random bits. 0 or an errno. */
int rlk_owner_head(char *out, size_t size);

/* ---- stale.c */

/* The driver's slots; where an acquire is told to be late, again with a new attempt, which is in
 * the op then, or BUSY. */
int rlk_send_acquire(rowlock_client *client, void *conn, rowlock_op *ops, size_t n, int all,
                     uint32_t timeout_ms, rowlock_error *err);
int rlk_send_exchange(rowlock_client *client, void *conn, rowlock_op *releases, size_t n,
                      rowlock_op *acquires, size_t m, uint32_t timeout_ms, rowlock_error *err);

/* An attempt that no other call has: larger than those that this client had before, byte by byte,
 * and the same in its first half. Any thread. */
void rlk_new_attempt(uint8_t out[ROWLOCK_ATTEMPT_SIZE], rowlock_client *client);

/* Schema steps at open (schema.c). */
int rlk_schema_check(rowlock_client *client, int policy, rowlock_error *err);

#endif
