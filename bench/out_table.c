/* SPDX-License-Identifier: MIT
 *
 * The table in the terminal: medians, and how far the repetitions were apart. */
#include <stdio.h>
#include <string.h>

#include "rivals.h"

/* Three digits that count. */
static void put_number(double value)
{
    if (value < 0)
        printf(" %9s", "-");
    else if (value >= 100)
        printf(" %9.0f", value);
    else
        printf(" %9.*f", value >= 10 ? 1 : 2, value);
}

static void put_ratio(double ratio)
{
    if (ratio > 0)
        printf(" %7.2f", ratio);
    else
        printf(" %7s", "-");
}

static void put_head(const bench_load *load, int count)
{
    printf("\n%s: %s, %d %s\n", load->name, load->title, count, load->unit);
    for (int i = 0; i < 2 && load->extra[i] != NULL; i++)
        printf("    (%c) %s\n", 'a' + i, load->extra[i]);
    printf("%-24s %9s %6s %9s %9s %9s %9s %9s %9s %9s %7s %7s%s%s\n", "", "per s", "+-%", "p50 us",
           "p99 us", "p99.9 us", "client us", "server us", "requests", "stmts", "/redis", "/floor",
           load->extra[0] != NULL ? "     (a)" : "", load->extra[1] != NULL ? "     (b)" : "");
}

static void put_line(const bench_results *all, const bench_result *r)
{
    bench_spread rate = BENCH_SPREAD(r, rate);

    printf("%-24s", r->rival->name);
    if (r->n == 0) {
        printf(" failed\n");
        return;
    }
    put_number(rate.median);
    printf(" %6.1f", rate.median > 0 ? 50 * (rate.high - rate.low) / rate.median : 0);
    put_number(BENCH_SPREAD(r, p50_us).median);
    put_number(BENCH_SPREAD(r, p99_us).median);
    put_number(BENCH_SPREAD(r, p999_us).median);
    put_number(BENCH_SPREAD(r, client_us).median);
    put_number(BENCH_SPREAD(r, server_us).median);
    put_number(BENCH_SPREAD(r, requests).median);
    put_number(BENCH_SPREAD(r, statements).median);
    put_ratio(bench_ratio(all, r, BENCH_BASE));
    put_ratio(bench_ratio(all, r, r->rival->floor));
    for (int i = 0; i < 2 && r->load->extra[i] != NULL; i++)
        put_ratio(
            bench_spread_of(r, offsetof(struct bench_sample, extra) + (size_t)i * sizeof(double))
                .median);
    putchar('\n');
}

void bench_print_table(const bench_results *all)
{
    for (size_t i = 0; i < all->n; i++) {
        const bench_result *r = &all->items[i];

        if (i == 0 || r->load != r[-1].load || r->count != r[-1].count)
            put_head(r->load, r->count);
        put_line(all, r);
    }
}
