/* SPDX-License-Identifier: MIT
 *
 * A server that speaks just enough of the PostgreSQL protocol to be taken for one: one thread
 * inside the test's own process, loopback only. It has no TLS, lets everybody in, reports the
 * parameters of its plan, and answers statements by their text. It keeps all that clients send.
 *
 * All functions may be called by any thread; nothing here asserts. */
#ifndef TEST_FAKE_POSTGRESQL_H
#define TEST_FAKE_POSTGRESQL_H

#include <stddef.h>
#include <stdint.h>

enum { FAKE_POSTGRESQL_PID = 4711, FAKE_POSTGRESQL_FIELDS = 8 };

/* What every statement gets that no answer fits, with sqlstate 42883. */
#define FAKE_POSTGRESQL_ERROR "the fake server knows no such statement"

/* One row, in binary form. */
typedef struct fake_answer {
    const char *to; /* a part of the statement's text; NULL ends the list; the first that fits */
    int n;          /* fields; 0: an error */
    struct {
        const void *bytes;
        size_t length;
    } fields[FAKE_POSTGRESQL_FIELDS];
} fake_answer;

typedef struct fake_plan {
    const char *const *parameters; /* name, value, ..., NULL; server_version should be there */
    const fake_answer *answers;
    int asks_password; /* nonzero: in clear */
} fake_plan;

typedef struct fake_postgresql fake_postgresql;

/* Starts one on a free port of 127.0.0.1; NULL if that fails. The plan is copied, what it points to
 * is not. */
fake_postgresql *fake_postgresql_start(const fake_plan *plan);

/* Ends the thread. NULL is allowed. */
void fake_postgresql_stop(fake_postgresql *fake);

uint16_t fake_postgresql_port(const fake_postgresql *fake);

/* How many bytes clients have sent so far, and whether these are among them. */
size_t fake_postgresql_heard(fake_postgresql *fake);
int fake_postgresql_heard_text(fake_postgresql *fake, const char *text);

#endif
