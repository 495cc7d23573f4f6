/* SPDX-License-Identifier: MIT
 *
 * One measurement. Workers open their sessions and warm up; the clock starts for all of them at
 * once; when the time is up each ends the operation that it is in, which does not count. Counters
 * are read before and after, while all sessions are open. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"
#include "gate.h"

enum { PHASE_WORK = 1, PHASE_LEAVE = 2 };
enum { OPEN_SECONDS = 120, END_SECONDS = 60 };

/* One mapping, shared with the processes that are forked. */
typedef struct arena {
    bench_gate gate;
    bench_board board;
    bench_job job;
    void *shared; /* of the threads of this process */
    bench_worker workers[];
} arena;

/* What a thread is given. */
typedef struct seat {
    arena *arena;
    bench_worker *worker;
} seat;

int bench_stopped(const bench_worker *worker)
{
    return atomic_load_explicit(&worker->job->board->stop, memory_order_relaxed);
}

/* ---- a worker ---- */

static void keep_why(bench_worker *w, int answer)
{
    if (answer == BENCH_OK || w->why[0] != '\0')
        return;
    snprintf(w->why, sizeof w->why, "%s",
             answer == BENCH_BUSY ? "busy, though nobody else wants it" : bench_why());
    atomic_store(&w->job->board->stop, 1);
}

static int prepare(bench_worker *w, void *shared)
{
    const bench_rival *rival = w->job->rival;
    int answer = rival->open(&w->session, rival, shared);

    if (answer == BENCH_OK && w->job->prepare != NULL)
        answer = w->job->prepare(w);
    return answer;
}

static void serve(arena *a, bench_worker *w, void *shared)
{
    int64_t cpu, requests;

    keep_why(w, prepare(w, shared));
    cpu = bench_client_ns();
    requests = a->job.processes ? bench_requests() : 0;
    bench_gate_arrive(&a->gate, PHASE_WORK);
    if (w->why[0] == '\0')
        keep_why(w, w->job->work(w));
    if (a->job.processes) {
        w->client_ns = bench_client_ns() - cpu;
        w->requests = bench_requests() - requests;
    }
    bench_gate_arrive(&a->gate, PHASE_LEAVE);
    if (w->why[0] == '\0' && w->job->finish != NULL)
        keep_why(w, w->job->finish(w));
    if (w->session != NULL)
        w->job->rival->close(w->session);
    w->session = NULL;
}

static void *thread_main(void *payload)
{
    seat *s = payload;

    serve(s->arena, s->worker, s->arena->shared);
    return NULL;
}

/* Dies with its parent, should that be killed. */
static void process_main(arena *a, bench_worker *w)
{
    const bench_rival *rival = a->job.rival;
    void *shared = NULL;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (rival->start != NULL)
        keep_why(w, rival->start(&shared, rival));
    if (w->why[0] != '\0') {
        bench_gate_arrive(&a->gate, PHASE_WORK);
        bench_gate_arrive(&a->gate, PHASE_LEAVE);
    } else {
        serve(a, w, shared);
    }
    if (rival->stop != NULL && shared != NULL)
        rival->stop(shared);
    _exit(0);
}

/* ---- the leader ---- */

static void sleep_until_stop(const arena *a)
{
    int64_t end = bench_now_ns() + (int64_t)(a->job.seconds * 1e9);

    while (bench_now_ns() < end && !atomic_load(&a->board.stop)) {
        int64_t left = end - bench_now_ns();
        struct timespec pause = {0, left > 20000000 ? 20000000 : left > 0 ? left : 0};

        nanosleep(&pause, NULL);
    }
}

static int64_t statements(const bench_rival *rival)
{
    return rival->statements == NULL ? -1 : rival->statements(rival);
}

static void read_usage(const arena *a, bench_usage *u)
{
    u->client_ns = bench_client_ns();
    u->requests = bench_requests();
    u->server_ns = bench_server_ns(a->job.rival);
}

/* A worker that hangs would be waited for without end. */
static void give_up(const arena *a, const char *what)
{
    fprintf(stderr, "bench: %s: workers do not %s\n", a->job.rival->name, what);
    exit(EX_SOFTWARE);
}

static double lead(arena *a, bench_usage *before, bench_usage *after)
{
    int64_t start, end;

    if (bench_gate_gather(&a->gate, OPEN_SECONDS) != 0)
        give_up(a, "start");
    before->statements = statements(a->job.rival);
    read_usage(a, before);
    start = bench_now_ns();
    bench_gate_open(&a->gate, PHASE_WORK);
    sleep_until_stop(a);
    end = bench_now_ns();
    atomic_store(&a->board.stop, 1);
    if (bench_gate_gather(&a->gate, END_SECONDS) != 0)
        give_up(a, "end");
    read_usage(a, after);
    after->statements = statements(a->job.rival);
    bench_gate_open(&a->gate, PHASE_LEAVE);
    return (double)(end - start) / 1e9;
}

static void collect(bench_outcome *out, const arena *a, char *why, size_t why_size)
{
    out->least = UINT64_MAX;
    for (int i = 0; i < a->job.workers; i++) {
        const bench_worker *w = &a->workers[i];

        out->done += w->done;
        out->all += w->all;
        out->least = w->done < out->least ? w->done : out->least;
        out->most = w->done > out->most ? w->done : out->most;
        bench_histogram_merge(&out->times, &w->times);
        if (a->job.processes) {
            out->usage.client_ns += w->client_ns;
            out->usage.requests += w->requests;
        }
        if (w->why[0] != '\0' && why[0] == '\0')
            snprintf(why, why_size, "%s", w->why);
    }
    out->extra = atomic_load(&a->board.extra);
    out->extra_ns = atomic_load(&a->board.free_ns);
}

static double run_threads(arena *a, bench_usage *before, bench_usage *after)
{
    int n = a->job.workers;
    pthread_t *threads = calloc((size_t)n, sizeof *threads);
    seat *seats = calloc((size_t)n, sizeof *seats);
    pthread_attr_t attributes;
    double seconds;

    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 1 << 20);
    for (int i = 0; i < n; i++) {
        seats[i] = (seat){a, &a->workers[i]};
        if (pthread_create(&threads[i], &attributes, thread_main, &seats[i]) != 0) {
            perror("bench: pthread_create");
            exit(EX_OSERR);
        }
    }
    seconds = lead(a, before, after);
    for (int i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    pthread_attr_destroy(&attributes);
    free(threads);
    free(seats);
    return seconds;
}

static double run_processes(arena *a, bench_usage *before, bench_usage *after)
{
    double seconds;

    fflush(NULL);
    for (int i = 0; i < a->job.workers; i++) {
        pid_t pid = fork();

        if (pid == 0)
            process_main(a, &a->workers[i]);
        if (pid < 0) {
            perror("bench: fork");
            exit(EX_OSERR);
        }
    }
    seconds = lead(a, before, after);
    while (wait(NULL) > 0 || errno == EINTR)
        ;
    return seconds;
}

static arena *make_arena(const bench_job *job, size_t *size)
{
    arena *a;

    *size = sizeof *a + (size_t)job->workers * sizeof a->workers[0];
    a = mmap(NULL, *size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (a == MAP_FAILED || bench_gate_init(&a->gate, job->workers) != 0) {
        perror("bench: mmap");
        exit(EX_OSERR);
    }
    a->job = *job;
    a->job.board = &a->board;
    atomic_store(&a->board.last, -1);
    for (int i = 0; i < job->workers; i++) {
        a->workers[i].job = &a->job;
        a->workers[i].index = i;
    }
    return a;
}

int bench_run(bench_outcome *out, bench_job *job, char *why, size_t why_size)
{
    size_t size;
    arena *a = make_arena(job, &size);
    bench_usage before = {0}, after = {0};

    memset(out, 0, sizeof *out);
    why[0] = '\0';
    if (!job->processes && job->rival->start != NULL &&
        job->rival->start(&a->shared, job->rival) != BENCH_OK) {
        snprintf(why, why_size, "%s", bench_why());
    } else {
        out->seconds =
            job->processes ? run_processes(a, &before, &after) : run_threads(a, &before, &after);
        if (!job->processes) {
            out->usage.client_ns = after.client_ns - before.client_ns;
            out->usage.requests = after.requests - before.requests;
        }
        out->usage.server_ns = after.server_ns - before.server_ns;
        out->usage.statements = before.statements < 0 ? -1 : after.statements - before.statements;
        collect(out, a, why, why_size);
    }
    if (a->shared != NULL && job->rival->stop != NULL)
        job->rival->stop(a->shared);
    munmap(a, size);
    return why[0] == '\0' ? BENCH_OK : BENCH_FAILED;
}
