/* SPDX-License-Identifier: MIT */
#include "svg.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

svg_style svg_style_of(const bench_rival *rival)
{
    static const struct {
        const char *part, *colour;
    } colours[] = {{"redis always", "#e8837a"}, {"redis", "#c6302b"},  {"postgresql", "#2563a8"},
                   {"relaxed", "#6fa3dc"},      {"sqlite", "#0f9d76"}, {"mariadb", "#b8690f"},
                   {"mysql", "#7a4fa3"}};
    int ours = strncmp(rival->name, "rowlock", 7) == 0,
        floor = strncmp(rival->name, "floor", 5) == 0;
    int redis = strncmp(rival->name, "redis", 5) == 0;
    svg_style style = {"#9a9a9a", 1, floor};

    for (size_t i = 0; (ours || floor || redis) && i < sizeof colours / sizeof *colours; i++) {
        if (strstr(rival->name, colours[i].part) == NULL)
            continue;
        style.colour = colours[i].colour;
        style.width = ours ? 3 : redis ? 2 : 1.2;
        break;
    }
    return style;
}

int svg_open(svg *page, const char *folder, const char *name, int width, int height,
             const char *title)
{
    snprintf(page->path, sizeof page->path, "%s/%s.svg", folder, name);
    page->out = fopen(page->path, "we");
    if (page->out == NULL) {
        fprintf(stderr, "bench: %s: %s\n", page->path, strerror(errno));
        return -1;
    }
    fprintf(page->out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" "
            "font-family=\"sans-serif\" font-size=\"12\">\n"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n",
            width, height, width);
    fprintf(page->out, "<text x=\"16\" y=\"24\" font-size=\"15\" fill=\"#222222\">%s</text>\n",
            title);
    return 0;
}

int svg_close(svg *page)
{
    int failed;

    fputs("</svg>\n", page->out);
    failed = ferror(page->out) != 0;
    if (fclose(page->out) != 0)
        failed = 1;
    if (failed)
        fprintf(stderr, "bench: %s: %s\n", page->path, strerror(errno));
    return failed ? -1 : 0;
}

void svg_line(svg *page, double x1, double y1, double x2, double y2, svg_style style)
{
    fprintf(page->out,
            "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\" "
            "stroke-width=\"%.1f\"%s/>\n",
            x1, y1, x2, y2, style.colour, style.width,
            style.dashes ? " stroke-dasharray=\"5 3\"" : "");
}

void svg_dot(svg *page, double x, double y, const char *colour)
{
    fprintf(page->out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\"/>\n", x, y, colour);
}

void svg_text(svg *page, double x, double y, enum svg_anchor anchor, const char *colour,
              const char *format, ...)
{
    static const char *const anchors[] = {"start", "middle", "end"};
    va_list arguments;

    fprintf(page->out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" fill=\"%s\">", x, y,
            anchors[anchor], colour);
    va_start(arguments, format);
    vfprintf(page->out, format, arguments);
    va_end(arguments);
    fputs("</text>\n", page->out);
}
