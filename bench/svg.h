/* SPDX-License-Identifier: MIT
 *
 * Just enough SVG: a page, lines, dots and words. */
#ifndef BENCH_SVG_H
#define BENCH_SVG_H

#include <stdio.h>

#include "bench.h"

typedef struct svg {
    FILE *out;
    char path[500];
} svg;

enum svg_anchor { SVG_START, SVG_MIDDLE, SVG_END };

/* How a rival is drawn: ours in colours, Redis in red, the rest in grey; floors with dashes. */
typedef struct svg_style {
    const char *colour;
    double width;
    int dashes;
} svg_style;

svg_style svg_style_of(const bench_rival *rival);

int svg_open(svg *page, const char *folder, const char *name, int width, int height,
             const char *title);
int svg_close(svg *page); /* 0, or -1 with a word on stderr */

void svg_line(svg *page, double x1, double y1, double x2, double y2, svg_style style);
void svg_dot(svg *page, double x, double y, const char *colour);
void svg_text(svg *page, double x, double y, enum svg_anchor anchor, const char *colour,
              const char *format, ...) __attribute__((format(printf, 6, 7)));

#endif
