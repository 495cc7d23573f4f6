/* SPDX-License-Identifier: MIT
 *
 *   sim [--seed N] [--seconds S] [--simulated S] [--trace] [--stats] [--without FAULT,...]
 *       [--only OPERATION,...] [--length MS] [--processes N] [--threads N] [--no-minimise]
 *
 * With --seed alone: that one run. With --seconds or --simulated: runs with seeds from N on, or
 * from the time of day, until one fails. Each runs in a child process, so that a crash is a failure
 * like any other; a failure is made smaller and told. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "run.h"
#include "workload.h"

enum { MOST_TRIES = 600, TRY_SECONDS = 30, MINIMISE_SECONDS = 45 };

typedef struct shared {
    sim_result result;
    uint64_t seed; /* that is being run */
    uint64_t runs, steps, grants;
    int64_t simulated_us;
    uint64_t faults[FAULTS];
    uint64_t operations[MOST_OPERATIONS];
    int is_failed;
} shared;

typedef struct options {
    uint64_t seed;
    int has_seed, is_traced, has_stats, is_minimised;
    double seconds, simulated;
    sim_cut cut;
} options;

static shared *common;

static double now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* ---- runs ---- */

static void add_up(void)
{
    const sim_result *r = &common->result;

    common->runs++;
    common->steps += r->steps;
    common->grants += r->grants;
    common->simulated_us += r->simulated_us;
    for (int i = 0; i < FAULTS; i++)
        common->faults[i] += r->faults[i];
    for (int i = 0; i < MOST_OPERATIONS; i++)
        common->operations[i] += r->operations[i];
}

/* A run that goes on for ever is ended by SIGPROF. Processor time: the machine may be busy. */
static void bound_run(void)
{
    setitimer(ITIMER_PROF, &(struct itimerval){.it_value = {.tv_sec = TRY_SECONDS}}, NULL);
}

/* One run in a child process. 1: it fails, and the result says how. */
static int run_apart(uint64_t seed, const sim_cut *cut, int is_traced)
{
    pid_t child;
    int status;

    fflush(stdout);
    memset(&common->result, 0, sizeof common->result);
    child = fork();
    if (child == 0) {
        bound_run();
        sim_is_traced = is_traced;
        if (!is_traced && freopen("/dev/null", "w", stderr) == NULL)
            _exit(3);
        run_world(&common->result, seed, cut);
        fflush(stdout);
        exit(common->result.failed[0] != '\0');
    }
    if (child < 0 || waitpid(child, &status, 0) < 0)
        exit(3);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return 0;
    if (common->result.failed[0] == '\0') {
        snprintf(common->result.failed, sizeof common->result.failed, "crash");
        snprintf(common->result.failure, sizeof common->result.failure, "%s",
                 WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "the sanitizer's report");
        if (WIFSIGNALED(status) && WTERMSIG(status) == SIGPROF)
            snprintf(common->result.failed, sizeof common->result.failed, "hang");
    }
    return 1;
}

/* Many runs in a child, until one fails. */
static int run_many(const options *o, uint64_t first)
{
    double start = now();
    pid_t child;
    int status;

    fflush(stdout);
    child = fork();
    if (child == 0) {
        for (uint64_t seed = first;; seed++) {
            common->seed = seed;
            bound_run();
            run_world(&common->result, seed, &o->cut);
            add_up();
            if (common->result.failed[0] != '\0')
                exit(1);
            if ((o->seconds > 0 && now() - start > o->seconds) ||
                (o->simulated > 0 && (double)common->simulated_us / 1e6 > o->simulated))
                exit(0);
        }
    }
    if (child < 0 || waitpid(child, &status, 0) < 0)
        exit(3);
    if (WIFSIGNALED(status))
        snprintf(common->result.failure, sizeof common->result.failure, "%s",
                 strsignal(WTERMSIG(status)));
    return !WIFEXITED(status) || WEXITSTATUS(status) != 0;
}

/* ---- smaller ---- */

static int tries;
static double give_up_at;

static int still_fails(uint64_t seed, const sim_cut *cut, const char *failed)
{
    if (tries >= MOST_TRIES || now() > give_up_at)
        return 0;
    tries++;
    return run_apart(seed, cut, 0) && strcmp(common->result.failed, failed) == 0;
}

static int by_number(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* Leaves out `n` of the operations that were run, beginning with the one `from`. */
static size_t skip_more(sim_cut *cut, const uint64_t *done, size_t n_done, size_t from, size_t n)
{
    size_t before = cut->n_skipped;

    if (cut->is_only)
        return 0;
    for (size_t i = from; i < from + n && i < n_done && cut->n_skipped < MOST_SKIPPED; i++)
        cut->skipped[cut->n_skipped++] = done[i];
    qsort(cut->skipped, cut->n_skipped, sizeof cut->skipped[0], by_number);
    return cut->n_skipped - before;
}

static void drop_operations(uint64_t seed, sim_cut *cut, const char *failed)
{
    static uint64_t done[MOST_SKIPPED];
    static sim_cut smaller;
    size_t n_done = common->result.n_done;

    memcpy(done, common->result.done, n_done * sizeof *done);
    for (size_t size = n_done / 2; size > 0; size /= 2) {
        for (size_t at = 0; at < n_done;) {
            smaller = *cut;
            if (skip_more(&smaller, done, n_done, at, size) > 0 &&
                still_fails(seed, &smaller, failed)) {
                *cut = smaller;
                n_done = common->result.n_done;
                memcpy(done, common->result.done, n_done * sizeof *done);
            } else {
                at += size;
            }
        }
    }
}

static void minimise(uint64_t seed, sim_cut *cut, const char *failed)
{
    static sim_cut smaller;

    tries = 0;
    give_up_at = now() + MINIMISE_SECONDS;
    for (int i = 0; i < FAULTS; i++) {
        smaller = *cut;
        smaller.without[i] = 1;
        if (!cut->without[i] && still_fails(seed, &smaller, failed))
            *cut = smaller;
    }
    for (int n = 1; n < 4; n++) {
        smaller = *cut;
        smaller.processes = n;
        if (still_fails(seed, &smaller, failed)) {
            *cut = smaller;
            break;
        }
    }
    for (int64_t ms = 1000; ms < 40000; ms = ms * 3 / 2) {
        smaller = *cut;
        smaller.length_us = ms * 1000;
        if (still_fails(seed, &smaller, failed)) {
            *cut = smaller;
            break;
        }
    }
    if (run_apart(seed, cut, 0))
        drop_operations(seed, cut, failed);
}

/* ---- telling ---- */

static void print_command(uint64_t seed, const sim_cut *cut)
{
    const char *before = " --without ";

    printf("sim --seed %llu --trace", (unsigned long long)seed);
    for (int i = 0; i < FAULTS; i++) {
        if (cut->without[i]) {
            printf("%s%s", before, fault_word(i));
            before = ",";
        }
    }
    if (cut->processes > 0)
        printf(" --processes %d", cut->processes);
    if (cut->threads > 0)
        printf(" --threads %d", cut->threads);
    if (cut->length_us > 0)
        printf(" --length %lld", (long long)(cut->length_us / 1000));
    /* In the order in which they were begun. */
    for (size_t i = 0; cut->n_skipped > 0 && i < common->result.n_done; i++)
        printf("%s%llu", i == 0 ? " --only " : ",", (unsigned long long)common->result.done[i]);
    printf("\n");
}

/* Of this process and of those that have ended. */
static double processor_seconds(void)
{
    double sum = 0;
    const int whose[] = {RUSAGE_SELF, RUSAGE_CHILDREN};

    for (int i = 0; i < 2; i++) {
        struct rusage usage;

        getrusage(whose[i], &usage);
        sum += (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
               (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
    }
    return sum;
}

static void print_stats(double seconds)
{
    double simulated = (double)common->simulated_us / 1e6, used = processor_seconds();

    printf("%llu runs, %llu grants, %llu steps, %.0f simulated seconds in %.1f: %.0f a second, "
           "%.0f a second of "
           "processor time\n",
           (unsigned long long)common->runs, (unsigned long long)common->grants,
           (unsigned long long)common->steps, simulated, seconds,
           simulated / (seconds > 0 ? seconds : 1), simulated / (used > 0 ? used : 1));
    printf("faults:\n");
    for (int i = 0; i < FAULTS; i++)
        printf("  %-14s %10llu  %s\n", fault_word(i), (unsigned long long)common->faults[i],
               fault_text(i));
    printf("operations:\n");
    for (size_t i = 0; i < sim_operation_count; i++)
        printf("  %-14s %10llu\n", sim_operations[i].name,
               (unsigned long long)common->operations[i]);
}

static void report(const options *o, uint64_t seed)
{
    static sim_cut cut;
    char failed[32], first[512];

    cut = o->cut;
    snprintf(failed, sizeof failed, "%s", common->result.failed);
    snprintf(first, sizeof first, "%s", common->result.failure);
    if (!run_apart(seed, &cut, 0)) {
        printf("FAILED: seed %llu, and not when it is run alone: %s: %s\n",
               (unsigned long long)seed, failed, first);
        return;
    }
    snprintf(failed, sizeof failed, "%s", common->result.failed);
    snprintf(first, sizeof first, "%s", common->result.failure);
    printf("FAILED: seed %llu: %s: %s\n", (unsigned long long)seed, failed, first);
    fflush(stdout);
    if (o->is_minimised)
        minimise(seed, &cut, failed);
    printf("made smaller in %d runs; with the trace:\n\n", tries);
    run_apart(seed, &cut, 1);
    printf("\nFAILED: seed %llu: %s: %s\n", (unsigned long long)seed, common->result.failed,
           common->result.failure);
    printf("to see it again:\n  sim --seed %llu --trace\nor smaller:\n  ",
           (unsigned long long)seed);
    print_command(seed, &cut);
}

/* ---- options ---- */

static void bad(const char *what)
{
    fprintf(stderr, "sim: %s\n", what);
    exit(2);
}

static void parse_without(sim_cut *cut, const char *list)
{
    while (*list != '\0') {
        size_t n = strcspn(list, ",");
        int fault = fault_by_word(list, n);

        if (n == 3 && memcmp(list, "all", 3) == 0)
            memset(cut->without, 1, sizeof cut->without);
        else if (fault < 0)
            bad("no such fault; --stats shows them");
        else
            cut->without[fault] = 1;
        list += n + (list[n] == ',');
    }
}

static void parse_only(sim_cut *cut, const char *list)
{
    while (*list != '\0' && cut->n_skipped < MOST_SKIPPED) {
        char *end;

        cut->skipped[cut->n_skipped++] = strtoull(list, &end, 10);
        list = *end == ',' ? end + 1 : end;
    }
    qsort(cut->skipped, cut->n_skipped, sizeof cut->skipped[0], by_number);
}

static void parse(options *o, int argc, char **argv)
{
    o->is_minimised = 1;
    for (int i = 1; i < argc; i++) {
        const char *name = argv[i], *value = i + 1 < argc ? argv[i + 1] : NULL;

        if (strcmp(name, "--trace") == 0) {
            o->is_traced = 1;
        } else if (strcmp(name, "--stats") == 0) {
            o->has_stats = 1;
        } else if (strcmp(name, "--no-minimise") == 0) {
            o->is_minimised = 0;
        } else if (value == NULL) {
            bad("unknown option, or one without its value");
        } else {
            i++;
            if (strcmp(name, "--seed") == 0) {
                o->seed = strtoull(value, NULL, 10);
                o->has_seed = 1;
            } else if (strcmp(name, "--seconds") == 0) {
                o->seconds = strtod(value, NULL);
            } else if (strcmp(name, "--simulated") == 0) {
                o->simulated = strtod(value, NULL);
            } else if (strcmp(name, "--without") == 0) {
                parse_without(&o->cut, value);
            } else if (strcmp(name, "--only") == 0) {
                o->cut.is_only = 1;
                parse_only(&o->cut, value);
            } else if (strcmp(name, "--length") == 0) {
                o->cut.length_us = strtoll(value, NULL, 10) * 1000;
            } else if (strcmp(name, "--processes") == 0) {
                o->cut.processes = atoi(value);
            } else if (strcmp(name, "--threads") == 0) {
                o->cut.threads = atoi(value);
            } else {
                bad("unknown option");
            }
        }
    }
}

static int run_one(const options *o)
{
    sim_is_traced = o->is_traced;
    run_world(&common->result, o->seed, &o->cut);
    add_up();
    if (common->result.failed[0] != '\0')
        sched_describe(stdout);
    printf("seed %llu: %s%s%s; %.1f s, %llu steps, digest %016llx\n", (unsigned long long)o->seed,
           common->result.failed[0] == '\0' ? "good" : common->result.failed,
           common->result.failed[0] == '\0' ? "" : ": ", common->result.failure,
           (double)common->result.simulated_us / 1e6, (unsigned long long)common->result.steps,
           (unsigned long long)common->result.digest);
    return common->result.failed[0] != '\0';
}

int main(int argc, char **argv)
{
    static options o;
    double start = now();
    int rc;

    parse(&o, argc, argv);
    common = mmap(NULL, sizeof *common, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (common == MAP_FAILED)
        bad("no memory");
    if (o.has_seed && o.seconds <= 0 && o.simulated <= 0) {
        rc = run_one(&o);
    } else {
        uint64_t first = o.has_seed ? o.seed : (uint64_t)time(NULL) * 100000;

        if (o.seconds <= 0 && o.simulated <= 0)
            o.seconds = 10;
        printf("seeds from %llu\n", (unsigned long long)first);
        rc = run_many(&o, first);
        printf("%llu seeds, %.0f simulated seconds\n", (unsigned long long)common->runs,
               (double)common->simulated_us / 1e6);
        if (o.has_stats)
            print_stats(now() - start);
        if (rc != 0)
            report(&o, common->seed);
        return rc != 0;
    }
    if (o.has_stats)
        print_stats(now() - start);
    return rc;
}
