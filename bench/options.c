/* SPDX-License-Identifier: MIT */
#include "options.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <sysexits.h>

static const char help[] =
    "usage: rowlock-bench [options]    (scripts/bench starts the servers and calls it)\n"
    "\n"
    "  --only REGEX       measure only what matches LOAD/COUNT/RIVAL, as in cycle/64/redis\n"
    "  --repeat N         repetitions, interleaved (5)\n"
    "  --seconds S        of each measurement (0.3)\n"
    "  --results FOLDER   write results.json and plots there\n"
    "  --smoke            everything once, for a moment and in small: does it work?\n"
    "  --may-lack REGEX   servers that need not be there\n"
    "  --list             print what would be measured\n"
    "  --help\n";

/* The last one given counts. */
static int compile(regex_t *out, int *has, const char *text, int extra)
{
    if (*has)
        regfree(out);
    *has = 0;
    if (regcomp(out, text, REG_EXTENDED | REG_NOSUB | extra) != 0) {
        fprintf(stderr, "bench: not a regular expression: %s\n", text);
        return EX_USAGE;
    }
    *has = 1;
    return -1;
}

static int number(double *out, const char *text, double low, double high)
{
    char *end;

    *out = strtod(text, &end);
    if (*text != '\0' && *end == '\0' && *out >= low && *out <= high)
        return -1;
    fprintf(stderr, "bench: '%s' is not a number from %g to %g\n", text, low, high);
    return EX_USAGE;
}

enum { ONLY = 1, REPEAT, SECONDS, RESULTS, SMOKE, MAY_LACK, LIST, HELP };

static int take(bench_options *o, int option, const char *value)
{
    double n = 0;
    int rc = -1;

    switch (option) {
    case ONLY:
        return compile(&o->only, &o->has_only, value, 0);
    case REPEAT:
        rc = number(&n, value, 1, BENCH_REPEATS_MAX);
        o->plan.repeat = (int)n;
        return rc;
    case SECONDS:
        return number(&o->plan.seconds, value, 0.01, 3600);
    case RESULTS:
        o->results = value;
        return -1;
    case SMOKE:
        o->plan = (bench_plan){.smoke = 1, .repeat = 1, .seconds = 0.05, .rows = 2000, .held = 200};
        return -1;
    case MAY_LACK:
        return compile(&o->lack, &o->has_lack, value, REG_ICASE);
    case LIST:
        o->list = 1;
        return -1;
    case HELP:
        fputs(help, stdout);
        return 0;
    default:
        return EX_USAGE;
    }
}

int bench_parse(bench_options *o, int argc, char **argv)
{
    static const struct option longs[] = {
        {"only", required_argument, NULL, ONLY},
        {"repeat", required_argument, NULL, REPEAT},
        {"seconds", required_argument, NULL, SECONDS},
        {"results", required_argument, NULL, RESULTS},
        {"smoke", no_argument, NULL, SMOKE},
        {"may-lack", required_argument, NULL, MAY_LACK},
        {"list", no_argument, NULL, LIST},
        {"help", no_argument, NULL, HELP},
        {NULL, 0, NULL, 0},
    };
    int option, rc = -1;

    *o = (bench_options){.plan = {.repeat = 5, .seconds = 0.3, .rows = 1000000, .held = 10000}};
    while (rc == -1 && (option = getopt_long(argc, argv, "", longs, NULL)) != -1)
        rc = take(o, option, optarg);
    if (rc == -1 && optind < argc) {
        fprintf(stderr, "bench: unexpected argument '%s'\n", argv[optind]);
        rc = EX_USAGE;
    }
    return rc;
}

void bench_label(char out[100], const bench_load *load, int count, const bench_rival *rival)
{
    snprintf(out, 100, "%s/%d/%s", load->name, count, rival->name);
}

int bench_is_wanted(const bench_options *o, const bench_load *load, int count,
                    const bench_rival *rival)
{
    char label[100];

    if ((rival->loads & IN(load->id)) == 0)
        return 0;
    bench_label(label, load, count, rival);
    return !o->has_only || regexec(&o->only, label, 0, NULL, 0) == 0;
}
