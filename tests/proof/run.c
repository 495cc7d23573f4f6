/* SPDX-License-Identifier: MIT
 *
 *   proof_run DATABASE FOLDER SERVERS [--seconds N] [--grants N] [--workers N] [--threads N]
 *             [--pace MS] [--only FAULT,...] [--seed N]
 *
 * Runs workers and the nemesis on the servers that tests/support/servers has started in SERVERS,
 * and leaves the history in FOLDER, which must be empty. Prints counts, one "word number" a line.
 * Exit status 0; 1: a worker crashed, or the system did not recover when the faults were over; 2:
 * usage. */
#include "nemesis.h"

#include "history.h"
#include "process.h"
#include "store.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    TICK_MS = 5,
    RECOVERY_MS = 120000,
    END_MS = 60000,
    RECOVERED_GRANTS = 20,
    OWN_ROOM = 100000
};

static struct nemesis nemesis = {.n_workers = 4, .threads = 12, .pace_ms = 300};
static struct {
    int64_t seconds;
    uint64_t grants;
    const char *only;
} limits = {.seconds = 10};
static char worker_program[512];

static int fail(const char *what)
{
    fprintf(stderr, "proof_run: %s\n", what);
    return 2;
}

/* ---- workers --------------------------------------------------------------------------------- */

static int become_worker(void *payload)
{
    struct worker *worker = payload;
    char path[512], process[16], slot[16], threads[16];
    int fd;

    snprintf(path, sizeof(path), "%s/worker.log", nemesis.folder);
    snprintf(process, sizeof(process), "%u", worker->process);
    snprintf(slot, sizeof(slot), "%d", (int)(worker - nemesis.workers));
    snprintf(threads, sizeof(threads), "%d", nemesis.threads);
    fd = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (fd < 0 || dup2(fd, 2) < 0)
        return 126;
    execl(worker_program, worker_program, nemesis.folder, nemesis.kind->name, worker->address,
          process, slot, threads, (char *)NULL);
    return 127;
}

/* Signals are blocked in it: what it is sent before it is ready must not end it. */
static void start_worker(struct worker *worker)
{
    sigset_t all, before;

    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &before);
    worker->process = ++nemesis.processes;
    worker->is_expected = 0;
    worker->pid = process_start(become_worker, worker);
    sigprocmask(SIG_SETMASK, &before, NULL);
}

/* Waits for those that have ended, and replaces them. */
static void collect_workers(int replace)
{
    for (int i = 0; i < nemesis.n_workers; i++) {
        struct worker *worker = &nemesis.workers[i];
        int status;

        if (worker->pid <= 0 || waitpid(worker->pid, &status, WNOHANG) != worker->pid)
            continue;
        if (!worker->is_expected && (replace || status != 0)) {
            fprintf(stderr, "proof_run: worker %u ended by itself, with status %#x\n",
                    worker->process, (unsigned)status);
            nemesis.failures++;
        }
        worker->pid = 0;
        if (replace)
            start_worker(worker);
    }
}

static int count_workers(void)
{
    int n = 0;

    for (int i = 0; i < nemesis.n_workers; i++)
        n += nemesis.workers[i].pid > 0;
    return n;
}

static void start_workers(void)
{
    const char *ways[] = {nemesis.address, nemesis.proxied, nemesis.pooled, nemesis.proxied};

    for (int i = 0; i < nemesis.n_workers; i++) {
        const char *way = ways[i % 4];

        nemesis.workers[i].address = way[0] != '\0' ? way : nemesis.address;
        start_worker(&nemesis.workers[i]);
    }
}

static void end_workers(void)
{
    int64_t until = process_now_ms() + END_MS;

    __atomic_store_n(&nemesis.control->stop, 1, __ATOMIC_RELEASE);
    while (count_workers() > 0 && process_now_ms() < until) {
        collect_workers(0);
        process_sleep_ms(TICK_MS);
    }
    for (int i = 0; i < nemesis.n_workers; i++) {
        if (nemesis.workers[i].pid <= 0)
            continue;
        fprintf(stderr, "proof_run: worker %u does not end\n", nemesis.workers[i].process);
        nemesis.failures++;
        kill(nemesis.workers[i].pid, SIGKILL);
        waitpid(nemesis.workers[i].pid, NULL, 0);
    }
}

/* ---- the run --------------------------------------------------------------------------------- */

static uint64_t grants(void)
{
    return __atomic_load_n(&nemesis.control->grants, __ATOMIC_RELAXED);
}

static void run(void)
{
    int64_t until = process_now_ms() + limits.seconds * 1000;

    while (limits.grants > 0 ? grants() < limits.grants : process_now_ms() < until) {
        nemesis_step(&nemesis, limits.only);
        collect_workers(1);
        process_sleep_ms(TICK_MS);
    }
    nemesis_end(&nemesis);
}

/* When nothing is broken any more, every worker gets locks. */
static void recover(void)
{
    int64_t until = process_now_ms() + RECOVERY_MS;
    uint64_t before[PROOF_WORKERS];

    memcpy(before, nemesis.control->grants_of, sizeof(before));
    for (int i = 0; i < nemesis.n_workers; i++) {
        const uint64_t *count = &nemesis.control->grants_of[i];

        while (__atomic_load_n(count, __ATOMIC_RELAXED) < before[i] + RECOVERED_GRANTS &&
               process_now_ms() < until) {
            collect_workers(1);
            process_sleep_ms(TICK_MS);
        }
        if (__atomic_load_n(count, __ATOMIC_RELAXED) >= before[i] + RECOVERED_GRANTS)
            continue;
        fprintf(stderr, "proof_run: the worker in slot %d gets no locks after the last fault\n", i);
        nemesis.failures++;
    }
}

static void record_counters(void)
{
    struct store store = {nemesis.kind, nemesis.address, NULL};
    int failed = 0;

    for (uint32_t i = 0; i < 2 * PROOF_WRITTEN && !failed; i++) {
        int guarded = i < PROOF_WRITTEN;
        struct history_record r = {.at_ns = history_now_ns(), .name = i % PROOF_WRITTEN};

        r.kind = guarded ? HISTORY_FINAL_GUARDED : HISTORY_FINAL_FENCED;
        failed = store_read(&r.value, &r.fence, &store, guarded ? HISTORY_GUARDED : HISTORY_FENCED,
                            r.name) != 0 ||
                 history_add(&nemesis.history, &r) != 0;
    }
    if (failed) {
        fprintf(stderr, "proof_run: the counters cannot be read\n");
        nemesis.failures++;
    }
    store_disconnect(&store);
}

/* ---- setting up ------------------------------------------------------------------------------ */

static int with_port(char *out, size_t size, const char *address, int port)
{
    const char *at = strstr(address, "@127.0.0.1:");
    const char *rest = at != NULL ? strchr(at, '/') : NULL;

    if (rest == NULL)
        return -1;
    snprintf(out, size, "%.*s@127.0.0.1:%d%s", (int)(at - address), address, port, rest);
    return 0;
}

static int set_up_server(struct nemesis *n)
{
    int port;

    if (watch_server_attach(&n->server, n->kind->name, n->servers) != 0)
        return -1;
    snprintf(n->address, sizeof(n->address), "%s", n->server.address);
    port = atoi(strstr(n->address, "@127.0.0.1:") + strlen("@127.0.0.1:"));
    n->proxy = proxy_start("127.0.0.1", (uint16_t)port);
    if (n->proxy == NULL ||
        with_port(n->proxied, sizeof(n->proxied), n->address, proxy_port(n->proxy)) != 0)
        return -1;
    if (n->database == ON_POSTGRESQL) {
        if (watch_server_attach(&n->pooler, "pgbouncer", n->servers) != 0)
            return -1;
        snprintf(n->pooled, sizeof(n->pooled), "%s", n->pooler.address);
    }
    return 0;
}

static int create_tables(const struct nemesis *n)
{
    rowlock_options options = ROWLOCK_OPTIONS_INIT;
    rowlock_client *client = NULL;
    rowlock_error err;

    options.prefix = PROOF_PREFIX;
    options.schema_policy = ROWLOCK_SCHEMA_CREATE;
    if (rowlock_open(&client, n->kind->driver(), n->address, &options, &err) != ROWLOCK_OK) {
        fprintf(stderr, "proof_run: %s\n", err.message);
        return -1;
    }
    rowlock_close(&client);
    return store_create(n->kind, n->address);
}

static int set_up(struct nemesis *n, const char *database)
{
    char path[512];

    n->kind = backend_find(database);
    if (n->kind == NULL)
        return fail("no such database");
    n->database = strcmp(database, "postgresql") == 0 ? ON_POSTGRESQL
                  : strcmp(database, "mysql") == 0    ? ON_MYSQL
                                                      : ON_SQLITE;
    if (n->database == ON_SQLITE)
        snprintf(n->address, sizeof(n->address), "%s/sqlite/proof.db", n->servers);
    else if (set_up_server(n) != 0)
        return fail("no servers there");
    n->control = control_map(n->folder, 1);
    snprintf(path, sizeof(path), "%s/history.0", n->folder);
    if (n->control == NULL || history_open(&n->history, path, OWN_ROOM) != 0 ||
        create_tables(n) != 0)
        return fail("cannot begin");
    return 0;
}

static int read_options(int argc, char **argv)
{
    nemesis.seed = (unsigned)history_now_ns();
    for (int i = 4; i + 1 < argc; i += 2) {
        const char *name = argv[i], *value = argv[i + 1];

        if (strcmp(name, "--seconds") == 0)
            limits.seconds = atoll(value);
        else if (strcmp(name, "--grants") == 0)
            limits.grants = strtoull(value, NULL, 10);
        else if (strcmp(name, "--workers") == 0)
            nemesis.n_workers = atoi(value);
        else if (strcmp(name, "--threads") == 0)
            nemesis.threads = atoi(value);
        else if (strcmp(name, "--pace") == 0)
            nemesis.pace_ms = atoi(value);
        else if (strcmp(name, "--only") == 0)
            limits.only = value;
        else if (strcmp(name, "--seed") == 0)
            nemesis.seed = (unsigned)strtoul(value, NULL, 10);
        else
            return fail("unknown option");
    }
    return nemesis.n_workers >= 1 && nemesis.n_workers <= PROOF_WORKERS ? 0 : fail("--workers");
}

int main(int argc, char **argv)
{
    int64_t began = process_now_ms();

    if (argc < 4 || read_options(argc, argv) != 0)
        return fail("usage: proof_run DATABASE FOLDER SERVERS [options]");
    setenv("PGCONNECT_TIMEOUT", "10", 1); /* of plain sessions, ours and those of the workers */
    nemesis.folder = argv[2];
    nemesis.servers = argv[3];
    snprintf(worker_program, sizeof(worker_program), "%.*sproof_worker",
             (int)(strrchr(argv[0], '/') != NULL ? strrchr(argv[0], '/') + 1 - argv[0] : 0),
             argv[0]);
    if (set_up(&nemesis, argv[1]) != 0)
        return 2;
    printf("seed %u\n", nemesis.seed);
    start_workers();
    run();
    recover();
    end_workers();
    record_counters();
    history_close(&nemesis.history);
    nemesis_print(&nemesis);
    printf("processes %u\n", nemesis.processes);
    printf("seconds %lld\n", (long long)(process_now_ms() - began) / 1000);
    proxy_stop(nemesis.proxy);
    if (nemesis.server.is_child)
        watch_server_kill(&nemesis.server);
    return nemesis.failures == 0 ? 0 : 1;
}
