/* SPDX-License-Identifier: MIT
 *
 * The databases that the suites run on. To run the conformance suite on a driver of your own, write
 * a struct backend_kind like the one in backend_sqlite.c and add it to the table in backend.c: that
 * is the only place that knows drivers by name. `caps`, the lists and the functions may stay empty
 * as far as their comments allow; cases that need more are left out. */
#ifndef ROWLOCK_TESTS_BACKEND_H
#define ROWLOCK_TESTS_BACKEND_H

#include "rowlock/driver.h"

/* What a backend can do beyond the contract of driver.h. Cases ask for these, never for a name. */
enum backend_caps {
    BACKEND_SERVER = 1 << 0,    /* reached through a network: has hosts and ports */
    BACKEND_DATABASES = 1 << 1, /* the address names a database that may be missing */
    BACKEND_PASSWORDS = 1 << 2, /* the address may hold a password */
    BACKEND_SQL = 1 << 3,       /* sql_* below are there: cases may look behind the driver's back */
    BACKEND_ROW_LOCKS = 1 << 4, /* a transaction can lock one row: SELECT ... FOR UPDATE */
    BACKEND_SCHEMAS = 1 << 5,   /* CREATE SCHEMA makes a place for tables */

    /* Transaction mode; each of these needs BACKEND_SQL. */
    BACKEND_TRANSACTIONS = 1 << 6, /* the driver has it, and the fields for it below are filled */
    BACKEND_KILL = 1 << 7,         /* a session can end another */
    BACKEND_QUEUE = 1 << 8,        /* who waits for a row gets it in the order of arrival */
    BACKEND_SHARED = 1 << 9,       /* several transactions can guard one row */
    BACKEND_SNAPSHOT = 1 << 10,    /* a transaction whose snapshot is older than the row cannot
                                    * lock it; `snapshot` begins one */
    BACKEND_GIVES_BACK = 1 << 11,  /* row locks can be given back within a transaction */
    BACKEND_FAILED = 1 << 12,      /* a statement that fails spoils the transaction */
    BACKEND_APART = 1 << 13,       /* a session reaches the tables of its own database only;
                                    * needs BACKEND_DATABASES */

    BACKEND_TICKETS = 1 << 14,  /* the driver has the queue; backend_open() finds out */
    BACKEND_FINDINGS = 1 << 15, /* ... and `diagnose`; likewise */
    BACKEND_EXCHANGE = 1 << 16  /* ... and `exchange`; likewise */
};

/* The password in `secret` addresses; must appear in no message. */
#define BACKEND_SECRET "s3cr3t-Pa55"

/* Before the tests' own statements, where it matters whose a statement is. */
#define BACKEND_TEST_SQL "/* test */ "

struct backend;

/* A state of an application's session in which transaction mode must work. The table of them ends
 * with a NULL name. */
struct backend_mood {
    const char *name;
    void *(*open)(const char *address); /* NULL: sql_open */
    const char *const *before;          /* statements before the transaction, or NULL */
    const char *begin;                  /* NULL: the session needs none */
    const char *const *inside;          /* in it, after the application's own; or NULL */
};

/* A session that lock and guard must refuse. The table ends with a NULL name. */
struct backend_bad {
    const char *name;
    void *(*open)(const char *address);

    /* Reads what was pending, ends the transaction. Nonzero if all that worked as it does when
     * nobody has touched the session. NULL: it could not be used before either. */
    int (*unharmed)(void *session);
};

/* How to reach one kind of database. Lists end with NULL. */
struct backend_kind {
    const char *name;     /* the command's argument */
    const char *variable; /* environment variable that holds the address */
    const rowlock_driver *(*driver)(void);
    unsigned caps; /* enum backend_caps */

    /* Turns the variable's value into backend->address, and cleans up; NULL: the value is the
     * address. */
    void (*prepare)(struct backend *backend, const char *value);
    void (*cleanup)(struct backend *backend);

    const char *const *malformed; /* addresses that open must answer with EINVAL */
    const char *const
        *unreachable;          /* with ECONNECT: nobody listens, no such host, no such folder */
    const char *const *secret; /* wrong in some way, and with BACKEND_SECRET in them */

    /* BACKEND_DATABASES: the same server, a database that is not there. */
    void (*missing_database)(char *out, size_t size, const char *address);

    /* BACKEND_APART: the same server, another database. */
    void (*other_database)(char *out, size_t size, const char *address, const char *name);

    /* BACKEND_PASSWORDS: the same server, with BACKEND_SECRET for a password. */
    void (*wrong_password)(char *out, size_t size, const char *address);

    /* BACKEND_SQL: a plain session of the client library: its PGconn *, MYSQL *, sqlite3 *. `run`
     * executes one statement and appends its rows to `out` (NULL: nowhere), each field followed by
     * '|' and each row by '\n'. 0 is success. `close` ends an open transaction. */
    void *(*sql_open)(const char *address);
    int (*sql_run)(void *session, const char *sql, char *out, size_t size);
    void (*sql_close)(void *session);

    /* BACKEND_SQL: makes the planner learn what the table holds now. */
    const char *analyze;

    /* BACKEND_SQL: writes a query that tells all columns of the tables with that prefix. */
    void (*describe)(char *out, size_t size, const char *prefix);

    /* BACKEND_FINDINGS and BACKEND_SQL: statements each of which makes the tables unsafe in a way
     * that `diagnose` calls bad storage; or NULL. */
    const char *const *unsafe;

    /* BACKEND_TRANSACTIONS: the functions of the driver's header. */
    int (*lock)(uint64_t *fences, rowlock_client *client, void *session, const char *const *names,
                size_t n, const rowlock_tx_options *options, rowlock_error *err);
    int (*guard)(rowlock_lock *lock, void *session, rowlock_error *err);
    void *(*connection)(rowlock_tx *tx);

    /* BACKEND_TRANSACTIONS and BACKEND_SERVER: makes what `locate` said that of another server. */
    void (*displace)(char *place);

    /* BACKEND_TRANSACTIONS: writes down everything that can be set in a session. */
    void (*settings)(void *session, char *out, size_t size);

    /* BACKEND_TRANSACTIONS: a query for settings that a transaction of the library's must have as
     * the server gives them to any new session. */
    const char *given;

    const struct backend_mood *moods;
    const struct backend_bad *bad;

    /* BACKEND_TRANSACTIONS: what an application may do to its session that must not harm the next
     * user of the connection; run in a transaction. */
    const char *const *disturb;

    /* BACKEND_KILL: ends the connection of another session. 0 is success. */
    int (*kill)(void *session, void *victim);

    /* BACKEND_QUEUE: writes a query for the number of sessions that wait for rows of the table of
     * locks with that prefix. */
    void (*waiters)(char *out, size_t size, const char *prefix);

    /* BACKEND_SNAPSHOT: begins a transaction that sees what was there at its first look. */
    const char *snapshot;
};

struct backend {
    const struct backend_kind *kind;
    const rowlock_driver *driver;
    unsigned caps;
    char address[1024];
};

/* Finds the kind by name and its address in the environment. Returns 0, or the exit status to end
 * with after a message on stderr: 2 for an unknown name; 77 (skipped) if the variable is not set,
 * or 1 if ROWLOCK_TEST_NO_SKIP=1 forbids to skip. Give back with backend_close(). */
int backend_open(struct backend *out, const char *name);
void backend_close(struct backend *backend);

/* The kind of that name, for programs that are given an address; NULL if there is none. */
const struct backend_kind *backend_find(const char *name);

/* The names that backend_open() knows, for usage texts: "postgresql|mysql|sqlite". */
const char *backend_names(void);

/* Another kind that has transactions, whatever its database; NULL if there is none. */
const struct backend_kind *backend_other(const struct backend_kind *kind);

/* For sql_run functions: appends to a string as far as there is room. `out` may be NULL. */
void backend_append(char *out, size_t size, const char *text);

#endif
