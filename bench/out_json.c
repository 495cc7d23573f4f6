/* SPDX-License-Identifier: MIT
 *
 * Everything that was measured, each repetition of it. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "rivals.h"

/* Our texts hold no control characters. */
static void put_text(FILE *out, const char *text)
{
    fputc('"', out);
    for (; *text != '\0'; text++) {
        if (*text == '"' || *text == '\\')
            fputc('\\', out);
        fputc(*text, out);
    }
    fputc('"', out);
}

static void put_number(FILE *out, double value)
{
    if (value < 0 || value != value)
        fputs("null", out);
    else
        fprintf(out, "%.6g", value);
}

static void put_samples(FILE *out, const bench_result *r, const char *name, size_t offset)
{
    fprintf(out, ",\n     \"%s\": [", name);
    for (int i = 0; i < r->n; i++) {
        double value;

        memcpy(&value, (const char *)&r->samples[i] + offset, sizeof value);
        fputs(i == 0 ? "" : ", ", out);
        put_number(out, value);
    }
    fputc(']', out);
}

static void put_median(FILE *out, const char *name, double value)
{
    fprintf(out, ", \"%s\": ", name);
    put_number(out, value > 0 ? value : -1);
}

#define PUT_SAMPLES(field) put_samples(out, r, #field, offsetof(struct bench_sample, field))

static void put_result(FILE *out, const bench_results *all, const bench_result *r)
{
    fprintf(out,
            "    {\"load\": \"%s\", \"count\": %d, \"unit\": \"%s\", \"rival\": ", r->load->name,
            r->count, r->load->unit);
    put_text(out, r->rival->name);
    put_median(out, "median_rate", BENCH_SPREAD(r, rate).median);
    put_median(out, "over_redis", bench_ratio(all, r, BENCH_BASE));
    put_median(out, "over_floor", bench_ratio(all, r, r->rival->floor));
    PUT_SAMPLES(rate);
    PUT_SAMPLES(p50_us);
    PUT_SAMPLES(p99_us);
    PUT_SAMPLES(p999_us);
    PUT_SAMPLES(client_us);
    PUT_SAMPLES(server_us);
    PUT_SAMPLES(requests);
    PUT_SAMPLES(statements);
    for (size_t i = 0; i < 2 && r->load->extra[i] != NULL; i++)
        put_samples(out, r, r->load->extra[i],
                    offsetof(struct bench_sample, extra) + i * sizeof(double));
    if (r->why[0] != '\0') {
        fputs(",\n     \"failed\": ", out);
        put_text(out, r->why);
    }
    fputc('}', out);
}

static void put_all(FILE *out, const bench_results *all, const bench_plan *plan,
                    const bench_about *about)
{
    fputs("{\n  \"machine\": [", out);
    for (int i = 0; i < about->n; i++) {
        fputs(i == 0 ? "\n    " : ",\n    ", out);
        put_text(out, about->lines[i]);
    }
    fprintf(out, "],\n  \"repetitions\": %d,\n  \"seconds\": %g,\n  \"results\": [\n", plan->repeat,
            plan->seconds);
    for (size_t i = 0; i < all->n; i++) {
        put_result(out, all, &all->items[i]);
        fputs(i + 1 < all->n ? ",\n" : "\n", out);
    }
    fputs("  ]\n}\n", out);
}

int bench_write_json(const bench_results *all, const bench_plan *plan, const bench_about *about,
                     const char *folder)
{
    char path[500];
    FILE *out;
    int failed;

    snprintf(path, sizeof path, "%s/results.json", folder);
    out = fopen(path, "we");
    if (out != NULL)
        put_all(out, all, plan, about);
    failed = out == NULL || ferror(out) != 0;
    if (out != NULL && fclose(out) != 0)
        failed = 1;
    if (failed)
        fprintf(stderr, "bench: %s: %s\n", path, strerror(errno));
    return failed ? -1 : 0;
}
