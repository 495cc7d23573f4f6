/* SPDX-License-Identifier: MIT */
#ifndef BENCH_OPTIONS_H
#define BENCH_OPTIONS_H

#include <regex.h>

#include "bench.h"

typedef struct bench_options {
    bench_plan plan;
    const char *results; /* a folder; NULL: only the table */
    int list;
    int has_only, has_lack;
    regex_t only, lack;
} bench_options;

/* Fills *out; a status to exit with, or -1 to go on. */
int bench_parse(bench_options *out, int argc, char **argv);

/* "cycle/64/redis": as --only sees it and --list prints it. */
void bench_label(char out[100], const bench_load *load, int count, const bench_rival *rival);

int bench_is_wanted(const bench_options *o, const bench_load *load, int count,
                    const bench_rival *rival);

#endif
