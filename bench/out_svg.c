/* SPDX-License-Identifier: MIT
 *
 * The pictures: rates over the number of threads, and times of one thread, on logarithmic scales.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "loads.h"
#include "svg.h"

enum { WIDTH = 860, LEFT = 70, RIGHT = 660, TOP = 48, BOTTOM = 520, LABEL_STEP = 15 };

static const svg_style grid = {"#e3e3e3", 1, 0};
static const char ink[] = "#333333";

/* A logarithmic scale from one number of pixels to another. */
typedef struct scale {
    double low, high, from, to;
} scale;

static double at(const scale *s, double value)
{
    return s->from +
           (s->to - s->from) * (log10(value) - log10(s->low)) / (log10(s->high) - log10(s->low));
}

static void widen(scale *s, double value)
{
    while (value > 0 && (s->low == 0 || value < s->low))
        s->low = s->low == 0 ? pow(10, floor(log10(value))) : s->low / 10;
    while (value > 0 && value > s->high)
        s->high = s->high == 0 ? pow(10, ceil(log10(value))) : s->high * 10;
    if (s->high > 0 && s->high <= s->low)
        s->high = s->low * 10;
}

static void put_power(svg *page, double x, double y, enum svg_anchor anchor, double value)
{
    if (value >= 1e6)
        svg_text(page, x, y, anchor, ink, "%g M", value / 1e6);
    else if (value >= 1e3)
        svg_text(page, x, y, anchor, ink, "%g k", value / 1e3);
    else
        svg_text(page, x, y, anchor, ink, "%g", value);
}

/* ---- rates over counts ---- */

typedef struct label {
    const bench_rival *rival;
    double y;
} label;

static int higher(const void *a, const void *b)
{
    double x = ((const label *)a)->y, y = ((const label *)b)->y;

    return (x > y) - (x < y);
}

/* Names beside the ends of the lines, pushed apart where they would cover each other. */
static void put_labels(svg *page, label *labels, int n)
{
    double last = TOP - LABEL_STEP, excess;

    qsort(labels, (size_t)n, sizeof *labels, higher);
    for (int i = 0; i < n; i++) {
        labels[i].y = fmax(labels[i].y, last + LABEL_STEP);
        last = labels[i].y;
    }
    excess = fmax(0, last - BOTTOM);
    for (int i = n - 1; i >= 0 && excess > 0; i--) {
        labels[i].y -= excess;
        if (i > 0)
            excess = fmax(0, labels[i - 1].y + LABEL_STEP - labels[i].y);
    }
    for (int i = 0; i < n; i++)
        svg_text(page, RIGHT + 12, labels[i].y + 4, SVG_START, svg_style_of(labels[i].rival).colour,
                 "%s", labels[i].rival->name);
}

static void put_curve(svg *page, const bench_results *all, const bench_rival *rival,
                      const bench_load *load, const scale *x, const scale *y, double *end)
{
    svg_style style = svg_style_of(rival);
    double last_x = 0, last_y = 0;

    for (size_t i = 0; i < all->n; i++) {
        const bench_result *r = &all->items[i];
        double rate = BENCH_SPREAD(r, rate).median;

        if (r->rival != rival || r->load != load || rate <= 0)
            continue;
        if (last_x > 0)
            svg_line(page, last_x, last_y, at(x, r->count), at(y, rate), style);
        last_x = at(x, r->count);
        last_y = at(y, rate);
        svg_dot(page, last_x, last_y, style.colour);
    }
    *end = last_y;
}

static void put_grid(svg *page, const bench_results *all, const bench_load *load, const scale *x,
                     const scale *y)
{
    int last = 0;

    for (double value = y->low; value <= y->high * 1.01; value *= 10) {
        svg_line(page, LEFT, at(y, value), RIGHT, at(y, value), grid);
        put_power(page, LEFT - 8, at(y, value) + 4, SVG_END, value);
    }
    for (size_t i = 0; i < all->n; i++) {
        const bench_result *r = &all->items[i];

        if (r->load != load || r->count == last)
            continue;
        last = r->count;
        svg_line(page, at(x, last), TOP, at(x, last), BOTTOM, grid);
        svg_text(page, at(x, last), BOTTOM + 18, SVG_MIDDLE, ink, "%d", last);
    }
    svg_text(page, (LEFT + RIGHT) / 2, BOTTOM + 36, SVG_MIDDLE, ink, "%s", load->unit);
}

static int plot_rates(const bench_results *all, const bench_load *load, const char *folder,
                      const char *title)
{
    scale x = {.from = LEFT + 10, .to = RIGHT - 10}, y = {.from = BOTTOM, .to = TOP};
    label labels[64];
    int n = 0;
    svg page;

    for (size_t i = 0; i < all->n; i++) {
        const bench_result *r = &all->items[i];

        if (r->load != load)
            continue;
        widen(&y, BENCH_SPREAD(r, rate).median);
        x.low = x.low == 0 || r->count < x.low ? r->count : x.low;
        x.high = r->count > x.high ? r->count : x.high;
    }
    if (y.high == 0 || x.high <= x.low)
        return 0; /* nothing to draw a line between */
    if (svg_open(&page, folder, load->name, WIDTH, BOTTOM + 50, title) != 0)
        return -1;
    put_grid(&page, all, load, &x, &y);
    for (int r = 0; bench_rivals[r] != NULL && n < 64; r++) {
        double end = 0;

        put_curve(&page, all, bench_rivals[r], load, &x, &y, &end);
        if (end > 0)
            labels[n++] = (label){bench_rivals[r], end};
    }
    put_labels(&page, labels, n);
    return svg_close(&page);
}

/* ---- times ---- */

static void put_range(svg *page, const bench_result *r, const scale *x, double y)
{
    svg_style style = svg_style_of(r->rival);
    double p50 = BENCH_SPREAD(r, p50_us).median, p99 = BENCH_SPREAD(r, p99_us).median;

    style.dashes = 0;
    svg_text(page, LEFT + 90, y + 4, SVG_END, ink, "%s", r->rival->name);
    svg_line(page, at(x, p50), y, at(x, p99), y, style);
    svg_dot(page, at(x, p50), y, style.colour);
    svg_text(page, at(x, p99) + 8, y + 4, SVG_START, style.colour, "%.*f", p50 < 10 ? 1 : 0, p50);
}

static int plot_times(const bench_results *all, const bench_load *load, int count,
                      const char *folder, const char *name, const char *title)
{
    scale x = {.from = LEFT + 104, .to = WIDTH - 70};
    double y = TOP + 10;
    size_t n = 0;
    svg page;

    for (size_t i = 0; i < all->n; i++) {
        const bench_result *r = &all->items[i];

        if (r->load != load || r->count != count || r->n == 0)
            continue;
        widen(&x, BENCH_SPREAD(r, p50_us).median);
        widen(&x, BENCH_SPREAD(r, p99_us).median);
        n++;
    }
    if (n == 0 || x.high == 0)
        return 0;
    if (svg_open(&page, folder, name, WIDTH, TOP + 50 + (int)n * 20, title) != 0)
        return -1;
    for (double value = x.low; value <= x.high * 1.01; value *= 10) {
        svg_line(&page, at(&x, value), TOP, at(&x, value), TOP + 10 + (double)n * 20, grid);
        put_power(&page, at(&x, value), TOP + 28 + (double)n * 20, SVG_MIDDLE, value);
    }
    for (size_t i = 0; i < all->n; i++) {
        const bench_result *r = &all->items[i];

        if (r->load != load || r->count != count || BENCH_SPREAD(r, p50_us).median <= 0)
            continue;
        put_range(&page, r, &x, y);
        y += 20;
    }
    return svg_close(&page);
}

int bench_write_plots(const bench_results *all, const char *folder)
{
    int rc = 0;

    rc |= plot_rates(all, &bench_load_cycle, folder,
                     "Acquire and release, each thread a lock of its own: cycles in a second");
    rc |=
        plot_rates(all, &bench_load_hand, folder, "One lock, many threads: hand-overs in a second");
    rc |= plot_rates(all, &bench_load_hand_proc, folder,
                     "One lock, many processes: hand-overs in a second");
    rc |= plot_times(all, &bench_load_cycle, 1, folder, "cycle-times",
                     "Acquire and release, one thread: microseconds, median (dot) to 99 %");
    rc |= plot_times(all, &bench_load_busy, 1, folder, "busy-times",
                     "Being told that a lock is held: microseconds, median (dot) to 99 %");
    return rc == 0 ? 0 : -1;
}
