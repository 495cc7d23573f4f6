/* SPDX-License-Identifier: MIT
 *
 * The database: a model of the contract in rowlock/driver.h, and the network before it. */
#ifndef SIM_MODEL_H
#define SIM_MODEL_H

#include "sim.h"

enum { MOST_ROWS = 48, MOST_TICKETS = 200, MOST_SHARES = 12, OWNER_ROOM = 100, NOTE_ROOM = 16 };

/* ---- sessions: one for each connection (net.c) ---- */

typedef struct sim_session {
    struct sim_session *next; /* of all that the server has */
    uint64_t id;
    sim_process *process;
    int is_known_dead; /* the client knows that it is gone */
    int is_ended;      /* the server does not have it any more */
    int is_limited;    /* counts against the limit */
    int in_transaction;
    int is_failed;                      /* the transaction is, until it is rolled back */
    int is_native;                      /* a connection of the application's own */
    int64_t to_server_us, to_client_us; /* when the last message in each direction arrives */
} sim_session;

/* ---- requests ---- */

typedef enum request_kind {
    ASK_ACQUIRE,
    ASK_RENEW,
    ASK_RELEASE,
    ASK_EXCHANGE,
    ASK_FORCE,
    ASK_REAP,
    ASK_LIST,
    ASK_VERSION,
    ASK_APPLY,
    ASK_PREPARE,
    ASK_LOCATE,
    ASK_LOCK,
    ASK_GUARD,
    ASK_BEGIN,
    ASK_END,
    ASK_ENQUEUE,
    ASK_TURN,
    ASK_LEAVE,
    ASK_LOOK,
    ASK_WAITERS,
    ASK_DIAGNOSE,
    ASKS
} request_kind;

typedef struct sim_row {
    char name[ROWLOCK_NAME_MAX + 1];
    size_t name_length;
    char owner[OWNER_ROOM], note[NOTE_ROOM];
    uint64_t fence;
    uint32_t hold_count;
    uint8_t attempt[ROWLOCK_ATTEMPT_SIZE];
    int64_t acquire_time, expire_time;
    uint64_t ticket; /* by which it was last taken */
} sim_row;

/* A deep copy, in the simulator's memory: its caller may be gone when it arrives. */
typedef struct sim_request {
    request_kind kind;
    uint64_t number;
    sim_session *session;
    rowlock_op *ops; /* n, and behind them m */
    size_t n, m;
    int all, commit, in_line, with_bell, wait_forever;
    int from, to;
    int64_t life_us, retention_us;
    uint32_t limit;
    int64_t wait_us;  /* for rows that are locked, or for a bell */
    int64_t bound_us; /* the driver's timeout */
    int64_t since_us; /* true time at which it arrived */
    rowlock_mark mark;
    uint64_t count;
    int version;
    sim_row *rows; /* of a listing */
    size_t row_count;
    struct sim_ticket *tickets;
    size_t ticket_count;
    /* where it is */
    uint64_t incarnation; /* of the server it was sent to */
    int is_blocked, is_answered, is_given_up, is_repeat;
    int refusal;      /* the server answers with this instead: a fault; or none */
    int is_cancelled; /* the caller wants a turn back */
    int is_cut;       /* and the client has noticed */
    int rc;
    rowlock_error err;
} sim_request;

typedef struct sim_ticket {
    char name[ROWLOCK_NAME_MAX + 1];
    size_t name_length;
    char owner[OWNER_ROOM];
    uint64_t number;
    int64_t since_time, expire_time;
} sim_ticket;

/* ---- net.c ---- */

void net_reset(void);
sim_session *net_connect(uint32_t timeout_ms, rowlock_error *err);
void net_disconnect(sim_session *session); /* the client's end of it */
sim_request *net_request(sim_session *session, request_kind kind);
void net_ops(sim_request *request, const rowlock_op *ops, size_t n, const rowlock_op *more,
             size_t m);

/* Sends it and waits for the answer. What the driver returns; with OK it is in the request. */
int net_call(sim_request *request, uint32_t timeout_ms, const int *fds, int n_fds,
             rowlock_error *err);
void net_kill(const sim_process *process); /* it is gone: the server will notice */
void net_crash(int64_t down_us);
size_t net_sessions(const sim_process *process); /* whose client's end is open */
int net_is_calm(int64_t since_us);               /* nothing was wrong since */
void net_trouble(int64_t until_us);              /* something is */
extern int64_t net_last_trouble_us;
void net_retry(void); /* a row was unlocked */

/* ---- model.c ---- */

extern sim_row model_rows[MOST_ROWS];
extern size_t model_row_count;
extern int64_t model_step_us; /* by how much the server's clock has been set back */

void model_reset(void);
int64_t model_now(void);
sim_row *model_find(const char *name, size_t length);
int model_is_live(const sim_row *row);

/* 0: it has to wait for a row or a bell. Else rc and the ops are the answer; *is_durable: it may be
 * given only when that is on disk. */
int model_execute(sim_request *request, int is_last, int *is_durable);
void model_flush(void); /* everything is durable */
void model_lose(void);  /* all that is not */
void model_end_session(sim_session *session);
int model_is_locked(const sim_row *row, const sim_session *by);

/* model_tx.c */
void model_tx_reset(void);
int model_prepare(sim_request *request);
int model_lock(sim_request *request, int is_last);
int model_guard(sim_request *request);
int model_end(sim_request *request);
void model_seize(sim_row *row, const sim_session *session);
int model_is_shared(const sim_row *row, const sim_session *by);
void model_unlock(const sim_session *session);
void model_move_locks(const sim_row *from, sim_row *to);

/* model_queue.c */
void model_queue_reset(void);
int model_enqueue(sim_request *request, int is_last);
int model_turn(sim_request *request, int is_last);
int model_leave(sim_request *request);
int model_look(sim_request *request);
void model_list_tickets(sim_request *request);
int model_is_barred(const rowlock_op *op);
void model_ticket_used(const rowlock_op *op, sim_row *row);
void model_bell_ring(uint64_t ticket);
void model_session_rings(const sim_session *session);
void model_reap_tickets(void);
/* Does somebody wait for it and for other names at once? Then it may be free, and kept for them. */
int model_is_wanted_with_others(const char *name, size_t length);

/* For those: the part of acquire for one row; its answers. */
int model_is_own(const rowlock_op *op);
int model_is_stale(const rowlock_op *op);
void model_take_one(rowlock_op *op);
void model_answer_busy(rowlock_op *op, const sim_row *row);
sim_row *model_make(const char *name, size_t length);
uint64_t model_next_fence(const sim_row *row);
void model_note_fence(const sim_row *row, uint64_t fence);

const rowlock_driver *sim_driver(void);

/* A connection of the application's own, for rowlock_native_*(). */
sim_session *native_open(rowlock_error *err);
int native_begin(sim_session *session, rowlock_error *err);
int native_end(sim_session *session, int commit, rowlock_error *err);
void native_close(sim_session *session);

#endif
