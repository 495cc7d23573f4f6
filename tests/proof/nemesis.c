/* SPDX-License-Identifier: MIT */
#include "nemesis.h"

#include "history.h"
#include "process.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { AWAIT_MS = 180000 };

static const struct nemesis_fault faults[] = {
    /* name, group, databases, weight, lasts from, to (ms), begin, heal */
    {"worker-kill", GROUP_WORKER, ON_ALL, 6, 0, 0, worker_kill, NULL},
    {"worker-stop", GROUP_WORKER, ON_ALL, 6, 50, 2500, worker_stop, worker_continue},
    {"worker-freeze", GROUP_WORKER, ON_ALL, 3, 50, 2500, worker_freeze, worker_thaw},
    {"worker-end", GROUP_WORKER, ON_ALL, 2, 0, 0, worker_end, NULL},
    {"worker-fork", GROUP_WORKER, ON_ALL, 2, 0, 0, worker_fork, NULL},
    {"worker-descriptors", GROUP_WORKER, ON_ALL, 2, 400, 500, worker_descriptors, NULL},
    {"worker-interrupt", GROUP_WORKER, ON_ALL, 2, 0, 0, worker_interrupt, NULL},

    {"net-cut-all", GROUP_NETWORK, ON_SERVERS, 2, 0, 0, net_cut_all, NULL},
    {"net-cut-before-request", GROUP_NETWORK, ON_SERVERS, 3, 0, 0, net_cut_before, NULL},
    {"net-cut-half-request", GROUP_NETWORK, ON_SERVERS, 3, 0, 0, net_cut_half, NULL},
    {"net-cut-reply", GROUP_NETWORK, ON_SERVERS, 3, 0, 0, net_cut_reply, NULL},
    {"net-request-late", GROUP_NETWORK, ON_SERVERS, 3, 0, 0, net_late, NULL},
    {"net-blackhole-to-server", GROUP_NETWORK, ON_SERVERS, 2, 50, 1200, net_blackhole_there,
     net_see},
    {"net-blackhole-to-client", GROUP_NETWORK, ON_SERVERS, 2, 50, 1200, net_blackhole_back,
     net_see},
    {"net-blackhole", GROUP_NETWORK, ON_SERVERS, 2, 50, 1200, net_blackhole, net_see},
    {"net-delay-to-server", GROUP_NETWORK, ON_SERVERS, 2, 20, 1500, net_stall_there, net_flow},
    {"net-delay-to-client", GROUP_NETWORK, ON_SERVERS, 2, 20, 1500, net_stall_back, net_flow},
    {"net-delay", GROUP_NETWORK, ON_SERVERS, 2, 20, 1500, net_stall, net_flow},
    {"net-refuse", GROUP_NETWORK, ON_SERVERS, 2, 50, 800, net_refuse, net_admit},
    {"pooler-kill", GROUP_NETWORK, ON_POSTGRESQL, 1, 50, 500, pooler_kill, pooler_start},
    {"pooler-stop", GROUP_NETWORK, ON_POSTGRESQL, 1, 50, 1500, pooler_stop, pooler_continue},

    {"server-kill", GROUP_SERVER, ON_SERVERS, 1, 0, 500, server_kill, server_start},
    {"server-restart", GROUP_SERVER, ON_SERVERS, 1, 0, 0, server_restart, NULL},
    {"server-stop", GROUP_SERVER, ON_SERVERS, 2, 50, 2000, server_stop, server_continue},
    {"server-failover", GROUP_SERVER, ON_POSTGRESQL, 1, 0, 0, failover, NULL},
    {"server-disk-full", GROUP_SERVER, ON_ALL, 1, 100, 600, disk_full, disk_free},
    {"server-clock-ahead", GROUP_SERVER, ON_SERVERS, 2, 0, 0, clock_ahead, NULL},
    {"server-clock-back", GROUP_SERVER, ON_SERVERS, 2, 0, 0, clock_back, NULL},
    {"server-read-only", GROUP_SERVER, ON_SERVERS, 1, 50, 600, sql_read_only, sql_read_write},
    {"server-connections", GROUP_SERVER, ON_SERVERS, 1, 100, 800, sql_connections, sql_leave},
    {"backend-stop", GROUP_SERVER, ON_POSTGRESQL, 3, 50, 1500, backend_stop, backend_continue},
    {"backend-kill", GROUP_SERVER, ON_POSTGRESQL, 1, 0, 0, backend_kill, NULL},
    {"sql-terminate-some", GROUP_SERVER, ON_SERVERS, 2, 0, 0, sql_terminate_some, NULL},
    {"sql-terminate-all", GROUP_SERVER, ON_SERVERS, 2, 0, 0, sql_terminate_all, NULL},
    {"sql-cancel", GROUP_SERVER, ON_SERVERS, 3, 0, 0, sql_cancel, NULL},
    {"sql-row-locks", GROUP_SERVER, ON_ALL, 3, 20, 1500, sql_lock_rows, sql_leave},
    {"sql-table-lock", GROUP_SERVER, ON_ALL, 2, 20, 1000, sql_lock_table, sql_leave},
    {"sql-old-snapshot", GROUP_SERVER, ON_ALL, 2, 500, 1500, sql_old_snapshot, sql_leave},
    {"sql-client-killed", GROUP_SERVER, ON_ALL, 2, 0, 0, sql_stranger_killed, NULL},
    {"sql-rewrite-table", GROUP_SERVER, ON_ALL, 2, 0, 0, sql_rewrite, NULL},
    {"sql-alter-table", GROUP_SERVER, ON_ALL, 2, 0, 0, sql_alter, NULL},
    {"sql-create-index", GROUP_SERVER, ON_ALL, 2, 0, 0, sql_index, NULL},
    {"sql-reindex", GROUP_SERVER, ON_POSTGRESQL | ON_SQLITE, 2, 0, 0, sql_reindex, NULL},
    {"sql-analyze", GROUP_SERVER, ON_ALL, 2, 0, 0, sql_analyze, NULL},
    {"sql-checkpoint", GROUP_SERVER, ON_ALL, 2, 0, 0, sql_checkpoint, NULL},
};

enum { FAULTS = sizeof(faults) / sizeof(faults[0]) };

static struct {
    const struct nemesis_fault *active;
    int64_t at_ms; /* to heal it, or to begin the next */
} groups[NEMESIS_GROUPS];

static long hits[FAULTS];

int nemesis_random(struct nemesis *n, int most)
{
    return most > 0 ? (int)((unsigned)rand_r(&n->seed) % (unsigned)most) : 0;
}

/* ---- choosing -------------------------------------------------------------------------------- */

static int is_wanted(const struct nemesis *n, const struct nemesis_fault *fault,
                     enum nemesis_group group, const char *only)
{
    const char *at = only != NULL ? strstr(only, fault->name) : NULL;
    size_t length = strlen(fault->name);

    if (fault->group != group || (fault->databases & n->database) == 0)
        return 0;
    return only == NULL || (at != NULL && (at == only || at[-1] == ',') &&
                            (at[length] == ',' || at[length] == '\0'));
}

static const struct nemesis_fault *choose(struct nemesis *n, enum nemesis_group group,
                                          const char *only)
{
    int sum = 0, dice;

    for (int i = 0; i < FAULTS; i++)
        sum += is_wanted(n, &faults[i], group, only) ? faults[i].weight : 0;
    dice = nemesis_random(n, sum);
    for (int i = 0; i < FAULTS && sum > 0; i++) {
        dice -= is_wanted(n, &faults[i], group, only) ? faults[i].weight : 0;
        if (dice < 0)
            return &faults[i];
    }
    return NULL;
}

/* The log of what was broken when, beside the history. */
static void note(const char *what, const struct nemesis_fault *fault, uint64_t began_ns)
{
    uint64_t now = history_now_ns();

    fprintf(stderr, "%llu %s %s, in %llu ms\n", (unsigned long long)began_ns, what, fault->name,
            (unsigned long long)(now - began_ns) / 1000000);
}

static void heal(struct nemesis *n, int group)
{
    const struct nemesis_fault *fault = groups[group].active;
    uint64_t began_ns = history_now_ns();

    if (fault != NULL && fault->heal != NULL) {
        fault->heal(n);
        note("heals", fault, began_ns);
    }
    groups[group].active = NULL;
    groups[group].at_ms = process_now_ms() + nemesis_random(n, 2 * n->pace_ms);
}

static void begin(struct nemesis *n, enum nemesis_group group, const char *only)
{
    const struct nemesis_fault *fault = choose(n, group, only);
    uint64_t began_ns = history_now_ns();
    int hit = fault != NULL && fault->begin(n);

    if (fault != NULL)
        note(hit ? "begins" : "misses", fault, began_ns);
    if (hit) {
        hits[fault - faults]++;
        groups[group].active = fault;
        groups[group].at_ms = process_now_ms() + fault->least_ms +
                              nemesis_random(n, fault->most_ms - fault->least_ms + 1);
    } else {
        groups[group].at_ms = process_now_ms() + nemesis_random(n, n->pace_ms);
    }
}

void nemesis_step(struct nemesis *n, const char *only)
{
    for (int group = 0; group < NEMESIS_GROUPS; group++) {
        if (process_now_ms() < groups[group].at_ms)
            continue;
        if (groups[group].active != NULL)
            heal(n, group);
        else
            begin(n, (enum nemesis_group)group, only);
    }
}

void nemesis_end(struct nemesis *n)
{
    for (int group = 0; group < NEMESIS_GROUPS; group++)
        heal(n, group);
}

void nemesis_print(const struct nemesis *n)
{
    for (int i = 0; i < FAULTS; i++)
        if (faults[i].databases & n->database)
            printf("fault %s %ld\n", faults[i].name, hits[i]);
}

/* ---- what faults share ----------------------------------------------------------------------- */

struct worker *nemesis_worker(struct nemesis *n)
{
    int first = nemesis_random(n, n->n_workers);

    for (int i = 0; i < n->n_workers; i++) {
        struct worker *worker = &n->workers[(first + i) % n->n_workers];

        if (worker->pid > 0 && !worker->is_expected)
            return worker;
    }
    return NULL;
}

int nemesis_await_server(struct nemesis *n)
{
    int64_t until = process_now_ms() + AWAIT_MS;

    if (n->database == ON_SQLITE)
        return 0;
    while (process_now_ms() < until) {
        void *session;

        if (watch_server_is_gone(&n->server) && watch_server_again(&n->server) != 0)
            break;
        session = n->kind->sql_open(n->address);
        if (session != NULL) {
            n->kind->sql_close(session);
            return 0;
        }
        watch_server_nudge(&n->server);
        process_sleep_ms(20);
    }
    fprintf(stderr, "proof_run: the server does not come back\n");
    n->failures++;
    return -1;
}

void *nemesis_session(struct nemesis *n)
{
    void *session = n->kind->sql_open(n->address);
    const char *patience = NULL;

    if (n->database == ON_POSTGRESQL)
        patience = "SET lock_timeout = 700; SET statement_timeout = 3000";
    if (n->database == ON_MYSQL)
        patience = "SET SESSION lock_wait_timeout = 1, innodb_lock_wait_timeout = 1, "
                   "max_statement_time = 3";
    if (session != NULL && patience != NULL)
        n->kind->sql_run(session, patience, NULL, 0);
    return session;
}
