/* SPDX-License-Identifier: MIT
 *
 * A server that speaks just enough of the MySQL protocol to ask for what it must not get: one
 * thread inside the test's own process, loopback only. It greets, asks for a password by a plugin
 * of its choice, lets everybody in, and answers the first statement with a request for a file of
 * the client's, or statements as the product does that it pretends to be. It keeps all that clients
 * send. It has no TLS, whatever it says of that.
 *
 * All functions may be called by any thread; nothing here asserts. */
#ifndef TEST_ROGUE_H
#define TEST_ROGUE_H

#include <stddef.h>
#include <stdint.h>

/* What a statement gets that it does not know, with error 1064. */
#define ROGUE_ERROR "the rogue knows no such statement"

typedef struct rogue rogue;

typedef struct rogue_plan {
    const char *plugin;  /* what it switches the authentication to; NULL: to nothing */
    const char *file;    /* what it asks for; NULL: it hangs up after the authentication */
    int says_tls;        /* nonzero: it claims to have TLS, and goes on in plain text ... */
    int is_silent;       /* ... or, nonzero, says nothing more from then on */
    const char *version; /* of the greeting and of VERSION(); NULL: a MariaDB's */
    const char *comment; /* @@version_comment; not NULL: it answers statements, the first ones of a
                          * session if `does_all`, and others by ROGUE_ERROR */
    int does_all;
} rogue_plan;

/* Starts one on a free port of 127.0.0.1; NULL if that fails. The plan is copied, its texts are
 * not. Stop with rogue_stop(). */
rogue *rogue_start(const rogue_plan *plan);

/* Ends the thread. NULL is allowed. */
void rogue_stop(rogue *r);

uint16_t rogue_port(const rogue *r);

/* How many bytes clients have sent so far, and whether these are among them. */
size_t rogue_heard(rogue *r);
int rogue_heard_text(rogue *r, const char *text);

#endif
