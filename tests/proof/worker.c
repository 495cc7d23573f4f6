/* SPDX-License-Identifier: MIT
 *
 *   proof_worker FOLDER DATABASE ADDRESS PROCESS SLOT THREADS
 *
 * One process of a run: threads that lock and write (work.h), with one client. The first thread
 * waits for signals, by which the nemesis makes it fork (SIGUSR1), run out of descriptors (SIGUSR2)
 * or end in order (SIGTERM). */
#include "work.h"

#include "process.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS_MAX = 32, SHORTAGE_MS = 400 };

static struct history history;
static int stop;

static int fail(const char *what)
{
    fprintf(stderr, "proof_worker: %s\n", what);
    _exit(3);
}

static void *run_thread(void *argument)
{
    const char *trouble = work_on(argument);

    if (trouble != NULL)
        fail(trouble);
    return NULL;
}

/* A server that is being killed at this moment is no reason not to start. */
static rowlock_client *open_client(const struct work *work, unsigned *seed)
{
    rowlock_options options = ROWLOCK_OPTIONS_INIT;
    rowlock_client *client = NULL;
    rowlock_error err;

    options.prefix = PROOF_PREFIX;
    options.max_connections = 1 + (unsigned)rand_r(seed) % 5;
    options.max_wait_connections = 1 + (unsigned)rand_r(seed) % 4;
    options.call_timeout_ms = 300 + rand_r(seed) % 2000;
    options.connect_timeout_ms = 500;
    options.ticket_ms = 1000;
    options.spin_us = ROWLOCK_SPIN_NEVER;
    options.reap_interval_ms = rand_r(seed) % 4 == 0 ? 2000 : 0;
    options.reap_retention_ms = 1000;
    while (!__atomic_load_n(&work->control->stop, __ATOMIC_ACQUIRE)) {
        int status = rowlock_open(&client, work->kind->driver(), work->address, &options, &err);

        if (status == ROWLOCK_OK)
            break;
        fprintf(stderr, "proof_worker: %s\n", err.message);
        if (status == ROWLOCK_EINVAL)
            _exit(3);
        process_sleep_ms(50);
    }
    return client;
}

/* ---- what the nemesis asks for --------------------------------------------------------------- */

/* The handles of the parent are dead in a child, which must not disturb it. */
static void fork_now(rowlock_client *client)
{
    pid_t pid = fork();
    int status = 0;

    if (pid == 0) {
        rowlock_lock *lock = NULL;
        rowlock_error err;

        _exit(rowlock_acquire(&lock, client, "proof-0", NULL, &err) == ROWLOCK_EFORK ? 0 : 1);
    }
    if (pid > 0 && (waitpid(pid, &status, 0) != pid || status != 0))
        fail("a handle is alive in a forked child");
}

static rlim_t open_files(void)
{
    DIR *folder = opendir("/proc/self/fd");
    rlim_t most = 0;

    for (struct dirent *e = folder != NULL ? readdir(folder) : NULL; e != NULL;
         e = readdir(folder)) {
        rlim_t number = (rlim_t)atoi(e->d_name) + 1;
        most = number > most ? number : most;
    }
    if (folder != NULL)
        closedir(folder);
    return most;
}

static void run_out_of_descriptors(void)
{
    struct rlimit limit, none;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return;
    none = (struct rlimit){open_files() - 1, limit.rlim_max};
    setrlimit(RLIMIT_NOFILE, &none);
    process_sleep_ms(SHORTAGE_MS);
    setrlimit(RLIMIT_NOFILE, &limit);
}

static void serve_signals(const struct work *work)
{
    const struct timespec pause = {.tv_nsec = 50000000};
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGUSR2);
    sigaddset(&set, SIGTERM);
    while (!__atomic_load_n(&work->control->stop, __ATOMIC_ACQUIRE)) {
        int number = sigtimedwait(&set, NULL, &pause);

        if (number == SIGUSR1)
            fork_now(work->client);
        else if (number == SIGUSR2)
            run_out_of_descriptors();
        else if (number == SIGTERM)
            break;
    }
    __atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
}

static void interrupted(int number)
{
    (void)number;
}

/* We were started with all signals blocked. Those that are sent to interrupt system calls do so, in
 * any thread. */
static void prepare_signals(void)
{
    struct sigaction action = {.sa_handler = interrupted};
    sigset_t set;

    sigaction(SIGRTMIN, &action, NULL);
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGUSR2);
    sigaddset(&set, SIGTERM);
    pthread_sigmask(SIG_SETMASK, &set, NULL);
}

static void run(const struct work *common, int threads)
{
    static struct work works[THREADS_MAX];
    pthread_t ids[THREADS_MAX];
    int n = 0;

    for (; n < threads && n < THREADS_MAX; n++) {
        works[n] = *common;
        works[n].thread = (uint16_t)n;
        works[n].seed = common->seed * 31 + (unsigned)n;
        if (pthread_create(&ids[n], NULL, run_thread, &works[n]) != 0)
            break;
    }
    serve_signals(common);
    for (int i = 0; i < n; i++)
        pthread_join(ids[i], NULL);
}

int main(int argc, char **argv)
{
    struct work work = {.history = &history, .stop = &stop};
    char path[512];

    if (argc != 7)
        return fail("usage: proof_worker FOLDER DATABASE ADDRESS PROCESS SLOT THREADS");
    prepare_signals();
    work.kind = backend_find(argv[2]);
    work.address = argv[3];
    work.process = (uint32_t)atoi(argv[4]);
    work.slot = (uint32_t)atoi(argv[5]) % PROOF_WORKERS;
    work.seed = (unsigned)history_now_ns() ^ work.process * 2654435761U;
    work.control = control_map(argv[1], 0);
    snprintf(path, sizeof(path), "%s/history.%u", argv[1], work.process);
    if (work.kind == NULL || work.control == NULL || history_open(&history, path, PROOF_ROOM) != 0)
        return fail("cannot begin");
    work.client = open_client(&work, &work.seed);
    if (work.client != NULL)
        run(&work, atoi(argv[6]));
    rowlock_close(&work.client);
    history_close(&history);
    return 0;
}
