/* SPDX-License-Identifier: MIT
 *
 * A TCP proxy in front of a database server, inside the test's own process: one thread, loopback
 * only. It counts round trips and breaks connections at a chosen point of a chosen request.
 *
 * It knows no protocol. A request is what a client sends after the server has spoken (or first on a
 * connection); an answer is complete when the server has been silent for PROXY_QUIET_MS. Arm faults
 * between calls, when the handshake is over: then the next bytes of the client are the request.
 *
 * All functions may be called by any thread; they fail only for want of resources, and then say so
 * by their return value. Nothing here asserts.
 */
#ifndef TEST_PROXY_H
#define TEST_PROXY_H

#include <stdint.h>

/* How long the server must be silent before its answer counts as given in full. */
#define PROXY_QUIET_MS 80

typedef struct proxy proxy;

enum proxy_fault {
    PROXY_CUT_BEFORE, /* the request is read and thrown away, both sides are closed */
    PROXY_CUT_HALF,   /* half of its bytes reach the server, then both sides are closed */
    PROXY_CUT_REPLY,  /* it reaches the server, the answer is read and thrown away, then closed */
    PROXY_HOLD        /* the client is cut off; the server gets the request hold_ms later */
};

enum proxy_direction { PROXY_TO_SERVER = 1, PROXY_TO_CLIENT = 2 };

/* What to do to one request. */
typedef struct proxy_plan {
    enum proxy_fault fault;
    int skip;        /* so many requests pass unharmed before */
    int then_refuse; /* nonzero: as if proxy_refuse(1) in the same instant */
    int hold_ms;     /* PROXY_HOLD */
} proxy_plan;

/* Starts a proxy on a free port of 127.0.0.1 in front of host (an IPv4 address):port. NULL if that
 * fails. Stop with proxy_stop(). */
proxy *proxy_start(const char *host, uint16_t port);

/* Closes all connections and ends the thread. NULL is allowed. */
void proxy_stop(proxy *p);

uint16_t proxy_port(const proxy *p);

/* Arms a fault; it strikes once. A plan that has not struck is replaced. */
void proxy_arm(proxy *p, const proxy_plan *plan);

/* Takes an unused plan back. Returns how many plans have struck since the start. */
int proxy_disarm(proxy *p);

/* Nonzero: connections are refused (no listening socket) until it is called with 0. Those that
 * stand are left alone. Returns when it is so; -1 if the port could not be had again. */
int proxy_refuse(proxy *p, int refuse);

/* Bytes in these directions (enum proxy_direction, or-ed; 0: none) vanish from now on, also of new
 * connections. Connections that were blackholed are closed when the directions change. */
void proxy_blackhole(proxy *p, int directions);

/* Bytes in these directions (0: none) are kept back from now on, and delivered when they are not in
 * it any more. */
void proxy_stall(proxy *p, int directions);

/* Closes all connections that stand. Returns when it is done. */
void proxy_cut_all(proxy *p);

/* Round trips since the start, handshakes included. */
int proxy_round_trips(proxy *p);

/* Waits until all held requests have been delivered and answered; -1 after timeout_ms. */
int proxy_wait_delivered(proxy *p, int timeout_ms);

#endif
