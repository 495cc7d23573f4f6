/* SPDX-License-Identifier: MIT
 *
 * What goes wrong in a run, on purpose. Each kind of fault is a line in a table of nemesis.c. Of
 * each group at most one is active at a time; those of different groups overlap. */
#ifndef PROOF_NEMESIS_H
#define PROOF_NEMESIS_H

#include "backend.h"
#include "control.h"
#include "history.h"
#include "proxy.h"
#include "watch_server.h"

enum nemesis_database { ON_POSTGRESQL = 1, ON_MYSQL = 2, ON_SQLITE = 4 };
#define ON_SERVERS (ON_POSTGRESQL | ON_MYSQL)
#define ON_ALL     (ON_SERVERS | ON_SQLITE)

enum nemesis_group { GROUP_WORKER, GROUP_NETWORK, GROUP_SERVER, NEMESIS_GROUPS };

/* A process that works, or has ended and is to be replaced. */
struct worker {
    pid_t pid;
    uint32_t process;
    const char *address; /* the way it takes: direct, through the proxy, through a pooler */
    int is_expected;     /* to end: killed, or asked to */
};

struct nemesis {
    const struct backend_kind *kind;
    unsigned database;                            /* enum nemesis_database */
    const char *folder;                           /* of the history */
    const char *servers;                          /* of the servers */
    char address[512], proxied[512], pooled[512]; /* empty: there is none */
    struct control *control;
    struct history history; /* what the nemesis did that the checker must know */
    proxy *proxy;
    struct watch_server server, pooler;
    struct worker workers[PROOF_WORKERS];
    int n_workers, threads;
    int pace_ms;        /* between two faults of a group, on average */
    uint32_t processes; /* started so far */
    unsigned seed;
    int failures; /* workers that ended unasked, servers that did not come back */

    /* of faults that are active */
    struct worker *victim;
    pid_t backend;
    void *strangers[512];
    int n_strangers;
    int64_t clock_ms, ahead_ms; /* the server's clock; when it was last set ahead */
    char freezer[256];
    int filler; /* descriptor of the file that fills the disk */
};

struct nemesis_fault {
    const char *name;
    enum nemesis_group group;
    unsigned databases;
    int weight;                      /* how often it is chosen */
    int least_ms, most_ms;           /* how long it lasts until `heal` */
    int (*begin)(struct nemesis *n); /* 1: it has hit; 0: it could not */
    void (*heal)(struct nemesis *n); /* NULL: nothing to heal */
};

/* Begins and heals faults as time goes by; to be called often. `only`: names with commas between
 * them, or NULL. */
void nemesis_step(struct nemesis *n, const char *only);

/* Heals what is active. */
void nemesis_end(struct nemesis *n);

/* "fault NAME COUNT" for each that there is on this database. */
void nemesis_print(const struct nemesis *n);

/* A number from 0 to below `most`. */
int nemesis_random(struct nemesis *n, int most);

/* A worker that runs; NULL if there is none. */
struct worker *nemesis_worker(struct nemesis *n);

/* Waits until the server takes connections, and starts it if it has gone. 0 or -1. */
int nemesis_await_server(struct nemesis *n);

/* A plain session with the server that does not wait long for locks; NULL. */
void *nemesis_session(struct nemesis *n);

/* ---- the faults ------------------------------------------------------------------------------ */

/* fault_worker.c */
int worker_kill(struct nemesis *n);
int worker_stop(struct nemesis *n);
void worker_continue(struct nemesis *n);
int worker_end(struct nemesis *n);
int worker_fork(struct nemesis *n);
int worker_descriptors(struct nemesis *n);
int worker_interrupt(struct nemesis *n);
int worker_freeze(struct nemesis *n);
void worker_thaw(struct nemesis *n);

/* fault_network.c */
int net_cut_all(struct nemesis *n);
int net_cut_before(struct nemesis *n);
int net_cut_half(struct nemesis *n);
int net_cut_reply(struct nemesis *n);
int net_late(struct nemesis *n);
int net_blackhole_there(struct nemesis *n);
int net_blackhole_back(struct nemesis *n);
int net_blackhole(struct nemesis *n);
void net_see(struct nemesis *n);
int net_stall_there(struct nemesis *n);
int net_stall_back(struct nemesis *n);
int net_stall(struct nemesis *n);
void net_flow(struct nemesis *n);
int net_refuse(struct nemesis *n);
void net_admit(struct nemesis *n);
int pooler_kill(struct nemesis *n);
void pooler_start(struct nemesis *n);
int pooler_stop(struct nemesis *n);
void pooler_continue(struct nemesis *n);

/* fault_server.c */
int server_kill(struct nemesis *n);
int server_restart(struct nemesis *n);
void server_start(struct nemesis *n);
int server_stop(struct nemesis *n);
void server_continue(struct nemesis *n);
int backend_stop(struct nemesis *n);
void backend_continue(struct nemesis *n);
int backend_kill(struct nemesis *n);
int clock_ahead(struct nemesis *n);
int clock_back(struct nemesis *n);
int disk_full(struct nemesis *n);
void disk_free(struct nemesis *n);

/* fault_failover.c */
int failover(struct nemesis *n);

/* fault_sql.c */
int sql_terminate_some(struct nemesis *n);
int sql_terminate_all(struct nemesis *n);
int sql_cancel(struct nemesis *n);
int sql_lock_rows(struct nemesis *n);
int sql_lock_table(struct nemesis *n);
int sql_old_snapshot(struct nemesis *n);
int sql_stranger_killed(struct nemesis *n);
int sql_connections(struct nemesis *n);
void sql_leave(struct nemesis *n);
int sql_rewrite(struct nemesis *n);
int sql_alter(struct nemesis *n);
int sql_index(struct nemesis *n);
int sql_reindex(struct nemesis *n);
int sql_analyze(struct nemesis *n);
int sql_checkpoint(struct nemesis *n);
int sql_read_only(struct nemesis *n);
void sql_read_write(struct nemesis *n);

#endif
