/* SPDX-License-Identifier: MIT
 *
 * A standby is made, every commit waits for it, the primary is killed, the standby is promoted and
 * takes the primary's address. What was acknowledged is there: a grant is a grant. */
#include "nemesis.h"

#include "process.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COPY_MS = 30000, PROMOTE_MS = 20000, TRIES = 10 };

struct pair {
    struct nemesis *n;
    struct watch_server standby;
    char data[256], old[256], port[16], address[512];
};

/* ---- commands -------------------------------------------------------------------------------- */

static const char *argument(const struct watch_server *server, const char *option)
{
    const char *end = server->command + server->command_length;

    for (const char *at = server->command; at < end; at += strlen(at) + 1)
        if (strcmp(at, option) == 0)
            return at + strlen(at) + 1;
    return NULL;
}

/* The same command with another value of that option. */
static void set_argument(struct watch_server *server, const char *option, const char *value)
{
    struct watch_server old = *server;
    const char *replaced = argument(&old, option);
    size_t to = 0;

    for (size_t at = 0; at < old.command_length; at += strlen(old.command + at) + 1) {
        const char *text = old.command + at == replaced ? value : old.command + at;
        size_t length = strlen(text) + 1;

        if (to + length > sizeof(server->command))
            return;
        memcpy(server->command + to, text, length);
        to += length;
    }
    server->command_length = to;
}

static int copy_data(void *payload)
{
    struct pair *p = payload;
    char program[sizeof(p->n->server.command) + 16];

    snprintf(program, sizeof(program), "%s", p->n->server.command);
    strcpy(strrchr(program, '/') + 1, "pg_basebackup");
    if (getuid() == 0 && (setgid(p->n->server.gid) != 0 || setuid(p->n->server.uid) != 0))
        return 126;
    if (chdir("/") != 0)
        return 126;
    execl(program, program, "-d", p->n->address, "-D", p->data, "-R", "-X", "stream", "-c", "fast",
          "--no-sync", (char *)NULL);
    return 127;
}

static int remove_data(void *payload)
{
    execlp("rm", "rm", "-rf", (const char *)payload, (char *)NULL);
    return 127;
}

static int command(int (*fn)(void *), void *payload)
{
    pid_t pid = process_start(fn, payload);

    return pid > 0 && process_wait(pid, COPY_MS) == 0 ? 0 : -1;
}

/* ---- SQL ------------------------------------------------------------------------------------- */

static int ask(struct pair *p, const char *address, const char *sql, char *out, size_t size)
{
    void *session = p->n->kind->sql_open(address);
    int failed = session == NULL || p->n->kind->sql_run(session, sql, out, size) != 0;

    if (session != NULL)
        p->n->kind->sql_close(session);
    return failed ? -1 : 0;
}

static int await(struct pair *p, const char *address, const char *sql)
{
    int64_t until = process_now_ms() + PROMOTE_MS;
    char out[64];

    while (process_now_ms() < until) {
        if (ask(p, address, sql, out, sizeof(out)) == 0 && out[0] == 't')
            return 0;
        process_sleep_ms(20);
    }
    return -1;
}

static int set_synchronous(struct pair *p, const char *sql)
{
    return ask(p, p->n->address, sql, NULL, 0) == 0 &&
                   ask(p, p->n->address, "SELECT pg_reload_conf()", NULL, 0) == 0
               ? 0
               : -1;
}

/* Everything that was committed so far, and from now on before it is acknowledged, is with the
 * standby. Sessions take the setting over between two statements; they have a moment for that. */
static int synchronize(struct pair *p)
{
    char lsn[64], sql[256];

    if (set_synchronous(p, "ALTER SYSTEM SET synchronous_standby_names = '*'") != 0 ||
        await(p, p->n->address,
              "SELECT EXISTS (SELECT FROM pg_stat_replication WHERE sync_state = 'sync' AND state "
              "= 'streaming')") != 0)
        return -1;
    process_sleep_ms(500);
    if (ask(p, p->n->address, "SELECT pg_current_wal_insert_lsn()", lsn, sizeof(lsn)) != 0)
        return -1;
    lsn[strcspn(lsn, "|\n")] = '\0';
    snprintf(sql, sizeof(sql),
             "SELECT EXISTS (SELECT FROM pg_stat_replication WHERE flush_lsn >= '%s')", lsn);
    return await(p, p->n->address, sql);
}

/* ---- steps ----------------------------------------------------------------------------------- */

static int prepare(struct pair *p)
{
    static int number;
    const char *data = argument(&p->n->server, "-D");
    const char *port = argument(&p->n->server, "-p");
    char *at;

    if (data == NULL || port == NULL)
        return -1;
    snprintf(p->old, sizeof(p->old), "%s", data);
    snprintf(p->data, sizeof(p->data), "%s/postgresql/data.%d", p->n->servers, ++number);
    snprintf(p->port, sizeof(p->port), "%d", atoi(port) + 1 + number % 2);
    snprintf(p->address, sizeof(p->address), "%s", p->n->address);
    at = strstr(p->address, "@127.0.0.1:");
    if (at == NULL)
        return -1;
    snprintf(at, sizeof(p->address) - (size_t)(at - p->address), "@127.0.0.1:%s/rowlock_test",
             p->port);
    p->standby = p->n->server;
    p->standby.pid = 0;
    set_argument(&p->standby, "-D", p->data);
    set_argument(&p->standby, "-p", p->port);
    return 0;
}

/* The primary goes on alone; until it does, every commit waits for the standby. */
static void give_up(struct pair *p)
{
    int failed = 1;

    if (p->standby.pid > 0)
        watch_server_kill(&p->standby);
    for (int i = 0; i < TRIES && failed; i++)
        failed = nemesis_await_server(p->n) != 0 ||
                 set_synchronous(p, "ALTER SYSTEM RESET synchronous_standby_names") != 0;
    if (failed) {
        fprintf(stderr, "proof_run: the primary goes on waiting for a standby\n");
        p->n->failures++;
    }
    command(remove_data, p->data);
}

/* The promoted server starts anew with the address of the one that is gone. */
static int take_over(struct pair *p)
{
    const char *port = argument(&p->n->server, "-p");
    int64_t until = process_now_ms() + PROMOTE_MS;

    if (ask(p, p->address, "SELECT pg_promote(true, 20)", NULL, 0) != 0)
        return -1;
    kill(p->standby.pid, SIGINT);
    while (!watch_server_is_gone(&p->standby) && process_now_ms() < until)
        process_sleep_ms(5);
    if (!watch_server_is_gone(&p->standby))
        watch_server_kill(&p->standby);
    set_argument(&p->standby, "-p", port);
    p->n->server = p->standby;
    command(remove_data, p->old);
    return nemesis_await_server(p->n);
}

int failover(struct nemesis *n)
{
    struct pair p = {.n = n};

    if (prepare(&p) != 0)
        return 0;
    if (command(copy_data, &p) != 0 || watch_server_again(&p.standby) != 0 ||
        synchronize(&p) != 0) {
        give_up(&p);
        return 0;
    }
    process_sleep_ms(nemesis_random(n, 500));
    watch_server_kill(&n->server);
    if (take_over(&p) != 0) {
        fprintf(stderr, "proof_run: the standby could not take over\n");
        n->failures++;
    }
    return 1;
}
