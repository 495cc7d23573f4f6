/* SPDX-License-Identifier: MIT
 *
 * rowlock bench: what is measured (bench.c), and how it is shown (cmd_bench.c). */
#ifndef ROWLOCK_CLI_BENCH_H
#define ROWLOCK_CLI_BENCH_H

#include "cli.h"

enum cli_bench_kind {
    CLI_BENCH_CYCLE,     /* acquire and release, each thread a lock of its own */
    CLI_BENCH_HAND_OVER, /* one lock for all, each thread with a client of its own */
    CLI_BENCH_BUSY,      /* asking for a lock that somebody else holds */
    CLI_BENCH_REENTRY    /* acquire and release once more what one holds */
};

enum { CLI_BENCH_THREADS_MAX = 64, CLI_BENCH_CLIENTS_MAX = 8 };

typedef struct cli_bench_test {
    enum cli_bench_kind kind;
    const char *name;
    int threads;
} cli_bench_test;

/* Times in microseconds; what one thread of many did is in it like all the rest. */
typedef struct cli_bench_result {
    double per_second;
    double p50_us, p99_us, p999_us;
} cli_bench_result;

/* Measures for `ms`. clients[0] is the one that threads share; a hand-over takes as many as it has
 * threads. Ends early when a signal has come. CLI_GO_ON or an exit status, having said why. */
int cli_bench_run(cli_bench_result *out, const cli_bench_test *test, rowlock_client **clients,
                  int64_t ms);

#endif
