/* SPDX-License-Identifier: MIT
 *
 * Faults between the workers and the server: those of the proxy and of the pooler. */
#include "nemesis.h"

#include "process.h"

#include <signal.h>
#include <stdio.h>
#include <unistd.h>

/* Waits a little for the request that it is meant for. */
static int arm(struct nemesis *n, enum proxy_fault fault, int hold_ms)
{
    proxy_plan plan = {.fault = fault, .hold_ms = hold_ms};
    int before = proxy_disarm(n->proxy);

    plan.skip = nemesis_random(n, 10);
    proxy_arm(n->proxy, &plan);
    process_sleep_ms(50);
    return proxy_disarm(n->proxy) > before;
}

int net_cut_all(struct nemesis *n)
{
    proxy_cut_all(n->proxy);
    return 1;
}

int net_cut_before(struct nemesis *n)
{
    return arm(n, PROXY_CUT_BEFORE, 0);
}

int net_cut_half(struct nemesis *n)
{
    return arm(n, PROXY_CUT_HALF, 0);
}

int net_cut_reply(struct nemesis *n)
{
    return arm(n, PROXY_CUT_REPLY, 0);
}

int net_late(struct nemesis *n)
{
    return arm(n, PROXY_HOLD, 20 + nemesis_random(n, 3000));
}

static int blackhole(struct nemesis *n, int directions)
{
    proxy_blackhole(n->proxy, directions);
    return 1;
}

int net_blackhole_there(struct nemesis *n)
{
    return blackhole(n, PROXY_TO_SERVER);
}

int net_blackhole_back(struct nemesis *n)
{
    return blackhole(n, PROXY_TO_CLIENT);
}

int net_blackhole(struct nemesis *n)
{
    return blackhole(n, PROXY_TO_SERVER | PROXY_TO_CLIENT);
}

void net_see(struct nemesis *n)
{
    proxy_blackhole(n->proxy, 0);
}

int net_stall_there(struct nemesis *n)
{
    proxy_stall(n->proxy, PROXY_TO_SERVER);
    return 1;
}

int net_stall_back(struct nemesis *n)
{
    proxy_stall(n->proxy, PROXY_TO_CLIENT);
    return 1;
}

int net_stall(struct nemesis *n)
{
    proxy_stall(n->proxy, PROXY_TO_SERVER | PROXY_TO_CLIENT);
    return 1;
}

void net_flow(struct nemesis *n)
{
    proxy_stall(n->proxy, 0);
}

int net_refuse(struct nemesis *n)
{
    return proxy_refuse(n->proxy, 1) == 0;
}

void net_admit(struct nemesis *n)
{
    for (int i = 0; i < 100 && proxy_refuse(n->proxy, 0) != 0; i++)
        process_sleep_ms(10);
}

/* ---- the pooler ------------------------------------------------------------------------------ */

int pooler_kill(struct nemesis *n)
{
    return n->pooled[0] != '\0' && watch_server_kill(&n->pooler) == 0;
}

/* It does not start while there is the file of the one that was killed. */
void pooler_start(struct nemesis *n)
{
    char path[512];

    snprintf(path, sizeof(path), "%s/pgbouncer/pid", n->servers);
    unlink(path);
    if (watch_server_again(&n->pooler) == 0)
        return;
    fprintf(stderr, "proof_run: the pooler cannot be started\n");
    n->failures++;
}

int pooler_stop(struct nemesis *n)
{
    return n->pooled[0] != '\0' && watch_server_signal(&n->pooler, SIGSTOP) == 0;
}

void pooler_continue(struct nemesis *n)
{
    watch_server_signal(&n->pooler, SIGCONT);
}
