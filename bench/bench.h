/* SPDX-License-Identifier: MIT
 *
 * The parts of the benchmark:
 *
 *   main.c, options.c   what is asked for, and the order in which it is run
 *   run.c, gate.c       one measurement: threads or processes that start and stop together
 *   load_*.c            what they do (workloads)
 *   rival_*.c           whom they do it with; rivals.c has the list
 *   pg.c, my.c          what rivals on one client library share
 *   histogram.c         latencies
 *   usage.c             processor time of ours and the servers', requests sent
 *   result.c            what was measured; medians and ratios
 *   out_*.c, machine.c  table, JSON, SVG; where it was run
 */
#ifndef BENCH_H
#define BENCH_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* ---- histogram.c ----------------------------------------------------------------------------- */

/* 32 buckets for each power of two of nanoseconds: an error of at most 3 %. */
enum { BENCH_BUCKETS = 32 * 40 };

typedef struct bench_histogram {
    uint64_t count;
    uint32_t buckets[BENCH_BUCKETS];
} bench_histogram;

int64_t bench_now_ns(void); /* CLOCK_MONOTONIC, the same for all processes */
void bench_histogram_add(bench_histogram *h, int64_t ns);
void bench_histogram_merge(bench_histogram *to, const bench_histogram *from);
/* Microseconds below which the part `q` of them is; 0 if there are none. */
double bench_histogram_us(const bench_histogram *h, double q);

/* ---- failing --------------------------------------------------------------------------------- */

enum bench_answer { BENCH_OK = 0, BENCH_BUSY = 1, BENCH_FAILED = -1 };

/* Keeps the text for whoever asks for it in this thread, and returns BENCH_FAILED. */
int bench_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
const char *bench_why(void);

/* ---- rivals ---------------------------------------------------------------------------------- */

/* Workloads; a rival says which it takes part in. */
enum bench_load_id {
    LOAD_CYCLE,     /* acquire and release, each thread a name of its own */
    LOAD_HAND,      /* one name for all: how often it changes hands, threads */
    LOAD_HAND_PROC, /* the same, processes */
    LOAD_BUSY,      /* asking for what somebody else holds */
    LOAD_REENTRY,   /* taking what one has, and giving it back */
    LOAD_RENEW,     /* 10,000 held locks kept */
    LOAD_BESIDE,    /* the cycle beside 100,000 of them */
    LOAD_TABLE,     /* the cycle in a table of a million rows */
    LOAD_REAP,      /* deleting a million old rows, and who locks meanwhile */
    LOAD_COUNT
};

#define IN(load) (1u << (load))

typedef struct bench_rival bench_rival;

/* Functions return BENCH_OK or BENCH_FAILED, acquire also BENCH_BUSY. Names are those of the
 * workloads: letters, digits and hyphens. A session belongs to one
 * thread at a time. Slots that a rival's workloads do not need are NULL. */
struct bench_rival {
    const char *name;
    const char *server; /* its address and process: bench_address(), bench_server_pid() */
    const char *floor;  /* the rival that sends the same statements by hand; NULL */
    unsigned loads;
    const void *detail; /* of the file's own */
    /* Once, before all measurements: tables. */
    int (*setup)(const bench_rival *rival);
    /* In each process, before its sessions: what they share. */
    int (*start)(void **shared, const bench_rival *rival);
    void (*stop)(void *shared);
    int (*open)(void **session, const bench_rival *rival, void *shared);
    void (*close)(void *session);
    int (*acquire)(void *session, const char *name, int waits);
    int (*release)(void *session, const char *name);
    /* Takes n names of the session's own; renews them all once and says how many; gives them back.
     */
    int (*hold)(void *session, size_t n, int ttl_ms);
    int (*renew)(void *session, uint64_t *renewed);
    int (*drop)(void *session);
    int (*look)(void *session); /* asks for the client's numbers, once */
    int is_paced;               /* it renews by itself, when a third of the ttl has passed */
    /* Makes the tables BENCH_LONG, with n old rows, and BENCH_SHORT, with none; deletes some of the
     * session's table, and says how many. */
    int (*fill)(const bench_rival *rival, uint64_t n);
    int (*reap)(void *session, uint64_t *rows);
    /* How many the server has been sent so far; -1: not known. */
    int64_t (*statements)(const bench_rival *rival);
    /* One line on the server: version, settings. Fails if what it says is done may get lost in a
     * crash although it should not. NULL: the same as another rival's, or nothing to tell. */
    int (*about)(const bench_rival *rival, char *out, size_t size);
    int is_relaxed;    /* rowlock: need not wait for the disk */
    int is_sleeping;   /* rowlock: sleeps until its answers come */
    const char *table; /* prefix of the tables that sessions use; NULL: the usual one */
};

/* Prefixes of tables beside the usual ones: long and short; and names of rows: 0 and up. */
#define BENCH_LONG     "bench_long_"
#define BENCH_SHORT    "bench_short_"
#define BENCH_ROW_NAME "row-%07u"

/* All of this program, NULL at the end. */
extern const bench_rival *const bench_rivals[];
const bench_rival *bench_rival_named(const char *name);

/* Where a server is, by its name ("POSTGRESQL"): $ROWLOCK_BENCH_NAME; NULL: not here. */
const char *bench_address(const char *server);
long bench_server_pid(const char *server); /* $ROWLOCK_BENCH_NAME_PID; 0: not known */
const char *bench_folder(void);            /* for files: $ROWLOCK_BENCH_FOLDER */

/* How long whoever waits may wait: nothing here takes as long, unless something hangs. */
enum { BENCH_WAIT_MS = 30000, BENCH_TTL_MS = 30000 };

/* ---- usage.c --------------------------------------------------------------------------------- */

typedef struct bench_usage {
    int64_t client_ns;
    int64_t server_ns;  /* of the server and its children */
    int64_t requests;   /* segments with data that our TCP connections have sent */
    int64_t statements; /* by the server's own count; -1: it has none */
} bench_usage;

int64_t bench_client_ns(void);
int64_t bench_requests(void);
int64_t bench_server_ns(const bench_rival *rival);

/* ---- run.c ----------------------------------------------------------------------------------- */

typedef struct bench_worker bench_worker;
typedef struct bench_job bench_job;

/* One thread's or process's part; lives in memory that processes share. */
struct bench_worker {
    const bench_job *job;
    int index;
    void *session;
    uint64_t done;     /* operations within the time */
    uint64_t all;      /* also those that ended after it: what the costs are divided by */
    int64_t client_ns; /* processes only */
    int64_t requests;  /* likewise */
    bench_histogram times;
    char why[300]; /* not empty: it failed */
};

/* What all of them see. */
typedef struct bench_board {
    atomic_int stop;
    atomic_int last;             /* who held the lock last */
    atomic_int_fast64_t free_ns; /* since when it is free; or another time of the workload's own */
    atomic_uint_fast64_t extra;  /* of the workload's own */
} bench_board;

struct bench_job {
    const bench_rival *rival;
    int workers;
    int processes; /* 1: each in a process of its own */
    double seconds;
    /* Before the clock starts; may be NULL. */
    int (*prepare)(bench_worker *worker);
    /* Until bench_stopped(): counts in worker->done and ->times. */
    int (*work)(bench_worker *worker);
    /* After the clock; may be NULL. */
    int (*finish)(bench_worker *worker);
    void *payload;
    bench_board *board;
};

typedef struct bench_outcome {
    double seconds;
    uint64_t done, all;
    uint64_t least, most; /* of one worker */
    uint64_t extra;       /* of the board */
    int64_t extra_ns;     /* free_ns of the board */
    bench_histogram times;
    bench_usage usage;
} bench_outcome;

/* Opens sessions, runs, closes. BENCH_FAILED: *why says what a worker said. */
int bench_run(bench_outcome *out, bench_job *job, char *why, size_t why_size);

int bench_stopped(const bench_worker *worker);

/* ---- workloads ------------------------------------------------------------------------------- */

typedef struct bench_result bench_result;

typedef struct bench_plan {
    int smoke;
    int repeat;
    double seconds; /* of one measurement */
    uint64_t rows;  /* of the long table */
    uint64_t held;  /* locks that are renewed */
} bench_plan;

typedef struct bench_load {
    enum bench_load_id id;
    const char *name;     /* "cycle" */
    const char *title;    /* for people */
    const char *unit;     /* of a count: "threads" */
    const char *extra[2]; /* what the own numbers of the workload are; NULL: none */
    const int *counts;    /* 0 at the end */
    const int *smoke_counts;
    /* One measurement with so many of `unit`. */
    int (*measure)(bench_result *out, const bench_plan *plan, const bench_rival *rival, int count);
} bench_load;

extern const bench_load *const bench_loads[]; /* NULL at the end */

/* ---- result.c -------------------------------------------------------------------------------- */

enum { BENCH_REPEATS_MAX = 99 };

/* One rival in one workload with one count: all repetitions. */
struct bench_result {
    const bench_rival *rival;
    const bench_load *load;
    int count;
    int n; /* repetitions so far */
    struct bench_sample {
        double rate; /* operations in a second */
        double p50_us, p99_us, p999_us;
        double client_us, server_us; /* processor time of an operation */
        double requests, statements; /* of an operation; negative: not known */
        double extra[2];             /* of the workload's own: load->extra */
        double all;                  /* operations, also those not counted in the rate */
    } samples[BENCH_REPEATS_MAX];
    char why[300]; /* not empty: it failed */
};

typedef struct bench_sample bench_sample;

bench_sample bench_sample_of(const bench_outcome *outcome);

/* Median, least and most of one field (its offset in bench_sample). */
typedef struct bench_spread {
    double median, low, high;
} bench_spread;

bench_spread bench_spread_of(const bench_result *r, size_t offset);
#define BENCH_SPREAD(r, field) bench_spread_of(r, offsetof(struct bench_sample, field))

typedef struct bench_results {
    bench_result *items;
    size_t n;
} bench_results;

const bench_result *bench_find(const bench_results *all, const bench_rival *rival,
                               const bench_load *load, int count);
/* Rate of r over that of the named rival in the same place; 0: there is none. */
double bench_ratio(const bench_results *all, const bench_result *r, const char *name);

/* ---- output ---------------------------------------------------------------------------------- */

/* What the run was made on: lines for people. */
enum { BENCH_ABOUT_LINES = 24 };
typedef struct bench_about {
    char lines[BENCH_ABOUT_LINES][240];
    int n;
} bench_about;

/* Asks the machine, the disk below bench_folder(), and each rival that takes part. */
int bench_look_around(bench_about *out, const bench_results *all);

void bench_print_table(const bench_results *all);
int bench_write_json(const bench_results *all, const bench_plan *plan, const bench_about *about,
                     const char *folder);
/* One file for each picture. 0, or -1 with a word on stderr. */
int bench_write_plots(const bench_results *all, const char *folder);

#endif
