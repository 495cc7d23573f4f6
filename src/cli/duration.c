/* SPDX-License-Identifier: MIT */
#include <string.h>
#include <time.h>

#include "cli.h"

#define MAX_MS ((int64_t)3650 * 86400000) /* ten years: longer ones are slips */

static const struct unit {
    const char *name;
    int64_t ms;
} units[] = {{"d", 86400000}, {"h", 3600000}, {"m", 60000}, {"s", 1000}, {"ms", 1}};

enum { UNITS = sizeof(units) / sizeof(units[0]), SECONDS = 3 };

static int is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Reads "12" or "1.5" as thousandths. 0, or -1 if there is no number or it is too large. */
static int read_thousandths(int64_t *out, const char **text)
{
    const char *p = *text;
    int64_t value = 0;
    int64_t scale = 1000;

    if (!is_digit(*p))
        return -1;
    for (; is_digit(*p); p++) {
        value = value * 10 + (*p - '0');
        if (value > MAX_MS)
            return -1;
    }
    value *= 1000;
    if (*p == '.' && !is_digit(p[1]))
        return -1;
    for (p += *p == '.'; is_digit(*p); p++) {
        scale /= 10;
        value += (*p - '0') * scale;
    }
    *out = value;
    *text = p;
    return 0;
}

/* The unit that stands at *text, smaller than those before `first`; -1 if there is none. */
static int read_unit(const char **text, int first)
{
    size_t n = 0;

    while ((*text)[n] != '\0' && !is_digit((*text)[n]))
        n++;
    for (int i = first; i < UNITS; i++) {
        if (strlen(units[i].name) == n && memcmp(units[i].name, *text, n) == 0) {
            *text += n;
            return i;
        }
    }
    return -1;
}

int cli_duration(int64_t *out_ms, const char *text)
{
    int64_t total = 0;
    int64_t number;
    int next = 0;

    do {
        int unit;

        if (read_thousandths(&number, &text) != 0)
            return -1;
        if (*text == '\0' && next == 0)
            unit = SECONDS; /* a bare number */
        else if ((unit = read_unit(&text, next)) < 0)
            return -1;
        if (number / 1000 > MAX_MS / units[unit].ms)
            return -1;
        total += number * units[unit].ms / 1000;
        next = unit + 1;
    } while (*text != '\0');
    if (total > MAX_MS)
        return -1;
    *out_ms = total;
    return 0;
}

int64_t cli_now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_BOOTTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

void cli_duration_text(char out[32], int64_t ms)
{
    long long t = ms < 0 ? 0 : ms;

    if (t < 1000)
        snprintf(out, 32, "%lldms", t);
    else if (t < 60000)
        snprintf(out, 32, "%lld.%llds", t / 1000, t % 1000 / 100);
    else if (t < 3600000)
        snprintf(out, 32, "%lldm%02llds", t / 60000, t % 60000 / 1000);
    else if (t < 86400000)
        snprintf(out, 32, "%lldh%02lldm", t / 3600000, t % 3600000 / 60000);
    else
        snprintf(out, 32, "%lldd%02lldh", t / 86400000, t % 86400000 / 3600000);
}
