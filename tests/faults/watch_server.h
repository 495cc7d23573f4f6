/* SPDX-License-Identifier: MIT
 *
 * A database server of the test's own, made by tests/support/servers, that it may kill and start
 * again. */
#ifndef TEST_WATCH_SERVER_H
#define TEST_WATCH_SERVER_H

#include <stdint.h>
#include <sys/types.h>

struct watch_server {
    const char *kind;
    char folder[64];
    char address[512], standby[512]; /* the standby's: empty without one */
    pid_t pid;
    int is_child;       /* started again by us */
    char command[2048]; /* its arguments, each ended by NUL, as they were when it was started */
    size_t command_length;
    char environment[8192]; /* likewise, of one that was attached to; else empty: ours */
    size_t environment_length;
    uid_t uid;
    gid_t gid;
};

/* Makes and starts one of that kind, "postgresql" or "mysql"; 0 or -1 after a message. Takes some
 * seconds. Give back with watch_server_end(). */
int watch_server_start(struct watch_server *out, const char *kind);

/* One that tests/support/servers has started in `folder`, by its name there: "postgresql", "mysql",
 * "pgbouncer". It is started again with the environment that it has. 0 or -1. */
int watch_server_attach(struct watch_server *out, const char *kind, const char *folder);

/* A PostgreSQL server and a hot standby of it. */
int watch_server_start_pair(struct watch_server *out);

/* One whose wall clock can be set, to so many seconds from the true time. 0 or -1. */
int watch_server_start_clock(struct watch_server *out, const char *kind);
int watch_server_set_clock(const struct watch_server *server, int seconds);
int watch_server_set_clock_ms(const struct watch_server *server, int64_t ms);

/* Sends a signal to all of its processes, the parent first. 0 or -1. */
int watch_server_signal(const struct watch_server *server, int number);

/* Its parent process has ended. */
int watch_server_is_gone(const struct watch_server *server);

/* Kills all of its processes with SIGKILL; returns when they are gone: 0, or -1. */
int watch_server_kill(struct watch_server *server);

/* Starts a killed one with the same command; does not wait until it accepts connections. 0 or -1.
 */
int watch_server_again(struct watch_server *server);

/* To be called while it is waited for: a server that has given up, because it met traces of the one
 * that was killed, is started once more. 0 or -1. */
int watch_server_nudge(struct watch_server *server);

void watch_server_end(struct watch_server *server);

#endif
