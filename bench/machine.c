/* SPDX-License-Identifier: MIT */
#include <fcntl.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statfs.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"

static void add(bench_about *a, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void add(bench_about *a, const char *format, ...)
{
    va_list arguments;

    if (a->n == BENCH_ABOUT_LINES)
        return;
    va_start(arguments, format);
    vsnprintf(a->lines[a->n++], sizeof a->lines[0], format, arguments);
    va_end(arguments);
}

/* What stands behind `key` in a file of lines; empty if it is not there. */
static void value_of(char out[160], const char *path, const char *key)
{
    char line[256];
    FILE *file = fopen(path, "re");

    out[0] = '\0';
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        char *at = line + strlen(key);

        if (strncmp(line, key, strlen(key)) != 0)
            continue;
        at += strspn(at, " \t:=\"");
        snprintf(out, 160, "%.*s", (int)strcspn(at, "\"\n"), at);
        break;
    }
    if (file != NULL)
        fclose(file);
}

static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

/* The median of what a durable commit at least costs here: 8 KiB written and synced. */
static double sync_us(void)
{
    enum { TIMES = 101 };
    static char page[8192];
    int64_t times[TIMES];
    char path[500];
    int fd;

    snprintf(path, sizeof path, "%s/sync", bench_folder());
    fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return 0;
    for (int i = 0; i < TIMES; i++) {
        int64_t start = bench_now_ns();

        if (pwrite(fd, page, sizeof page, 0) < 0 || fdatasync(fd) != 0)
            break;
        times[i] = bench_now_ns() - start;
    }
    close(fd);
    unlink(path);
    qsort(times, TIMES, sizeof *times, compare);
    return (double)times[TIMES / 2] / 1000;
}

static void look_at_machine(bench_about *a)
{
    struct utsname kernel;
    struct sysinfo memory;
    struct statfs disk;
    char cpu[160], name[160];
    time_t now = time(NULL);
    struct tm tm;
    char date[32];

    gmtime_r(&now, &tm);
    strftime(date, sizeof date, "%Y-%m-%d %H:%M UTC", &tm);
    value_of(cpu, "/proc/cpuinfo", "model name");
    value_of(name, "/etc/os-release", "PRETTY_NAME");
    uname(&kernel);
    sysinfo(&memory);
    statfs(bench_folder(), &disk);
    add(a, "%s, %ld processors (%s), %.0f GiB of memory", date, sysconf(_SC_NPROCESSORS_ONLN),
        cpu[0] != '\0' ? cpu : kernel.machine,
        (double)memory.totalram * memory.mem_unit / (1 << 30));
    add(a, "%s, Linux %s; load before: %.1f", name, kernel.release,
        (double)memory.loads[0] / 65536);
    add(a, "disk of the servers: file system 0x%lx; 8 KiB written and synced in %.0f us (median)",
        (unsigned long)disk.f_type, sync_us());
    add(a, "SQLite %s, write-ahead log, synchronous NORMAL", sqlite3_libversion());
}

int bench_look_around(bench_about *out, const bench_results *all)
{
    int rc = BENCH_OK;

    look_at_machine(out);
    for (int r = 0; bench_rivals[r] != NULL && out->n < BENCH_ABOUT_LINES; r++) {
        const bench_rival *rival = bench_rivals[r];
        int takes_part = 0;

        for (size_t i = 0; i < all->n; i++)
            takes_part |= strcmp(all->items[i].rival->server, rival->server) == 0;
        if (!takes_part || rival->about == NULL)
            continue;
        if (rival->about(rival, out->lines[out->n], sizeof out->lines[0]) != BENCH_OK)
            rc = BENCH_FAILED;
        out->n++;
    }
    return rc;
}
