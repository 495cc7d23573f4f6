/* SPDX-License-Identifier: MIT
 *
 * All rivals side by side, in one run. For each workload and count: A B C ... A B C ..., so that
 * whatever else the machine does meanwhile, it does to all of them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "loads.h"
#include "options.h"

const bench_load *const bench_loads[] = {
    &bench_load_cycle,     &bench_load_hand,
    &bench_load_hand_proc, &bench_load_busy,
    &bench_load_reentry,   &bench_load_renew,
    &bench_load_beside,    &bench_load_table,
    &bench_load_reap,      NULL,
};

static int is_here(const bench_rival *rival)
{
    return strcmp(rival->server, "SQLITE") == 0 || strcmp(rival->server, "FLOCK") == 0 ||
           bench_address(rival->server) != NULL;
}

static const int *counts_of(const bench_load *load, const bench_plan *plan)
{
    return plan->smoke ? load->smoke_counts : load->counts;
}

/* ---- what is to be measured ---- */

static void plan_all(bench_results *out, const bench_options *o)
{
    size_t room = 0;

    for (int l = 0; bench_loads[l] != NULL; l++) {
        for (const int *count = counts_of(bench_loads[l], &o->plan); *count != 0; count++) {
            for (int r = 0; bench_rivals[r] != NULL; r++) {
                if (!bench_is_wanted(o, bench_loads[l], *count, bench_rivals[r]))
                    continue;
                if (out->n == room)
                    out->items = realloc(out->items, (room = 2 * room + 64) * sizeof *out->items);
                memset(&out->items[out->n], 0, sizeof *out->items);
                out->items[out->n].rival = bench_rivals[r];
                out->items[out->n].load = bench_loads[l];
                out->items[out->n++].count = *count;
            }
        }
    }
}

static int is_planned(const bench_results *all, const bench_rival *rival)
{
    for (size_t i = 0; i < all->n; i++) {
        if (all->items[i].rival == rival)
            return 1;
    }
    return 0;
}

static void leave_out(bench_results *all, const bench_rival *rival)
{
    size_t kept = 0;

    for (size_t i = 0; i < all->n; i++) {
        if (all->items[i].rival != rival)
            all->items[kept++] = all->items[i];
    }
    all->n = kept;
}

/* Every rival must be there; those that may be lacking are left out with a word. */
static int check_rivals(bench_results *all, const bench_options *o)
{
    int missing = 0;

    for (int r = 0; bench_rivals[r] != NULL; r++) {
        const bench_rival *rival = bench_rivals[r];

        if (!is_planned(all, rival) || is_here(rival))
            continue;
        if (o->has_lack && regexec(&o->lack, rival->server, 0, NULL, 0) == 0) {
            fprintf(stderr, "bench: left out: %s\n", rival->name);
            leave_out(all, rival);
        } else {
            fprintf(stderr, "bench: missing: %s (no ROWLOCK_BENCH_%s)\n", rival->name,
                    rival->server);
            missing++;
        }
    }
    return missing == 0 ? 0 : -1;
}

/* Whether a long table is needed. */
static int needs_rows(const bench_results *all, const bench_rival *rival)
{
    for (size_t i = 0; i < all->n; i++) {
        enum bench_load_id load = all->items[i].load->id;

        if (all->items[i].rival == rival && (load == LOAD_TABLE || load == LOAD_REAP))
            return 1;
    }
    return 0;
}

static int set_up(const bench_results *all, const bench_plan *plan)
{
    for (int r = 0; bench_rivals[r] != NULL; r++) {
        const bench_rival *rival = bench_rivals[r];
        int rc = BENCH_OK;

        if (is_planned(all, rival) && rival->setup != NULL)
            rc = rival->setup(rival);
        if (rc == BENCH_OK && needs_rows(all, rival)) {
            fprintf(stderr, "%s: a table of %llu rows\n", rival->name,
                    (unsigned long long)plan->rows);
            rc = rival->fill(rival, plan->rows);
        }
        if (rc == BENCH_OK)
            continue;
        fprintf(stderr, "bench: %s: %s\n", rival->name, bench_why());
        return -1;
    }
    return 0;
}

/* ---- measuring ---- */

typedef struct progress {
    int64_t start;
    int done, all;
} progress;

static void show(progress *p, const bench_result *r)
{
    char label[100];
    double spent = (double)(bench_now_ns() - p->start) / 1e9;
    int is_terminal = isatty(STDERR_FILENO);

    bench_label(label, r->load, r->count, r->rival);
    if (is_terminal || p->done % 50 == 0)
        fprintf(stderr, "%s%3d %%  %-50s %4.0f s gone, about %.0f s to go%s",
                is_terminal ? "\r" : "", 100 * p->done / p->all, label, spent,
                p->done == 0 ? 0 : spent / p->done * (p->all - p->done),
                is_terminal ? "  \033[K" : "\n");
    p->done++;
}

/* The results of one workload with one count stand side by side: [from, to). */
static size_t group_end(const bench_results *all, size_t from)
{
    size_t to = from;

    while (to < all->n && all->items[to].load == all->items[from].load &&
           all->items[to].count == all->items[from].count)
        to++;
    return to;
}

static void measure(bench_result *r, const bench_plan *plan, progress *p)
{
    show(p, r);
    if (r->why[0] != '\0')
        return;
    if (r->load->measure(r, plan, r->rival, r->count) != BENCH_OK)
        fprintf(stderr, "\nbench: %s/%d/%s: %s\n", r->load->name, r->count, r->rival->name, r->why);
}

static void measure_all(bench_results *all, const bench_plan *plan)
{
    progress p = {.start = bench_now_ns(), .all = (int)all->n * plan->repeat};

    for (size_t from = 0, to; from < all->n; from = to) {
        to = group_end(all, from);
        for (int i = 0; i < plan->repeat; i++) {
            for (size_t at = from; at < to; at++)
                measure(&all->items[at], plan, &p);
        }
    }
    fprintf(stderr, "%s100 %%  %.0f s\n", isatty(STDERR_FILENO) ? "\r\033[K" : "",
            (double)(bench_now_ns() - p.start) / 1e9);
}

/* A rate may be 0: who asks from time to time may hand nothing over while it is measured. */
static int has_worked(const bench_result *r)
{
    return BENCH_SPREAD(r, all).high > 0 &&
           (r->load->id != LOAD_REAP || BENCH_SPREAD(r, rate).high > 0);
}

/* Whatever was planned has been measured, and did something. */
static int check_results(const bench_results *all, const bench_plan *plan)
{
    int bad = 0;

    for (size_t i = 0; i < all->n; i++) {
        const bench_result *r = &all->items[i];

        if (r->n == plan->repeat && r->why[0] == '\0' && has_worked(r))
            continue;
        fprintf(stderr, "bench: FAILED: %s/%d/%s: %s\n", r->load->name, r->count, r->rival->name,
                r->why[0] != '\0' ? r->why : "nothing was done");
        bad++;
    }
    return bad == 0 ? 0 : -1;
}

static void list_all(const bench_results *all)
{
    char label[100];

    for (size_t i = 0; i < all->n; i++) {
        bench_label(label, all->items[i].load, all->items[i].count, all->items[i].rival);
        puts(label);
    }
}

static int run_all(bench_results *all, const bench_options *o)
{
    bench_about about = {0};
    int rc;

    if (check_rivals(all, o) != 0 || set_up(all, &o->plan) != 0)
        return EX_UNAVAILABLE;
    if (bench_look_around(&about, all) != BENCH_OK && !o->plan.smoke)
        return fprintf(stderr, "bench: %s\n", bench_why()), EX_UNAVAILABLE;
    for (int i = 0; i < about.n; i++)
        puts(about.lines[i]);
    fflush(stdout);
    measure_all(all, &o->plan);
    bench_print_table(all);
    fflush(stdout);
    rc = check_results(all, &o->plan) == 0 ? EX_OK : EXIT_FAILURE;
    if (o->results != NULL && (bench_write_json(all, &o->plan, &about, o->results) != 0 ||
                               bench_write_plots(all, o->results) != 0))
        rc = EX_IOERR;
    return rc;
}

int main(int argc, char **argv)
{
    bench_options o;
    bench_results all = {0};
    int rc = bench_parse(&o, argc, argv);

    if (rc >= 0)
        return rc;
    plan_all(&all, &o);
    if (all.n == 0) {
        fprintf(stderr, "bench: nothing has such a name; see --list\n");
        rc = EX_USAGE;
    } else if (o.list) {
        list_all(&all);
        rc = EX_OK;
    } else {
        rc = run_all(&all, &o);
    }
    free(all.items);
    if (o.has_only)
        regfree(&o.only);
    if (o.has_lack)
        regfree(&o.lack);
    return rc;
}
