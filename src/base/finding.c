/* SPDX-License-Identifier: MIT */
#include "finding.h"

#include <stdarg.h>
#include <stdio.h>
#include <time.h>

#define CLOCK_SLACK_US INT64_C(1000000)

enum { MESSAGE_SIZE = 512 };

RLK_PRINTF(5, 0)
static void tell(rlk_findings *f, int grade, const char *subject, const char *remedy,
                 const char *format, va_list args)
{
    char message[MESSAGE_SIZE];
    rowlock_finding finding = {.size = sizeof finding,
                               .grade = grade,
                               .subject = subject,
                               .message = message,
                               .remedy = remedy};

    if (f->is_stopped)
        return;
    vsnprintf(message, sizeof message, format, args);
    for (char *c = message; *c != '\0'; c++) {
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            *c = ' ';
    }
    f->is_stopped = f->fn(&finding, f->payload) != 0;
}

void rlk_find_good(rlk_findings *f, const char *subject, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    tell(f, ROWLOCK_GRADE_GOOD, subject, NULL, format, args);
    va_end(args);
}

void rlk_find_warning(rlk_findings *f, const char *subject, const char *remedy, const char *format,
                      ...)
{
    va_list args;

    va_start(args, format);
    tell(f, ROWLOCK_GRADE_WARNING, subject, remedy, format, args);
    va_end(args);
}

void rlk_find_bad(rlk_findings *f, const char *subject, const char *remedy, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    tell(f, ROWLOCK_GRADE_BAD, subject, remedy, format, args);
    va_end(args);
}

int rlk_find_version(rlk_findings *f, int version, int newest)
{
    if (version == newest)
        rlk_find_good(f, "tables", "they are there, version %d, the newest", version);
    else if (version == 0)
        rlk_find_bad(f, "tables", "run 'rowlock migrate up' as a user who may create tables",
                     "the lock tables are missing");
    else if (version < newest)
        rlk_find_bad(f, "tables", "run 'rowlock migrate up' as a user who may alter tables",
                     "the lock tables have version %d, this rowlock needs %d", version, newest);
    else
        rlk_find_bad(f, "tables", "upgrade rowlock on this host",
                     "the lock tables have version %d, newer than this rowlock's %d", version,
                     newest);
    return version == newest;
}

int64_t rlk_wall_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

void rlk_find_clock(rlk_findings *f, int64_t database_us, int64_t before_us, int64_t after_us)
{
    int64_t ahead_us = database_us > after_us    ? database_us - after_us
                       : database_us < before_us ? database_us - before_us
                                                 : 0;
    double seconds = (double)(ahead_us < 0 ? -ahead_us : ahead_us) / 1000000;

    if (ahead_us > CLOCK_SLACK_US || ahead_us < -CLOCK_SLACK_US)
        rlk_find_warning(
            f, "clock", "keep both in time by NTP, so that logs can be compared",
            "the database's clock is %.1f s %s this host's; leases do not depend on it", seconds,
            ahead_us > 0 ? "ahead of" : "behind");
    else
        rlk_find_good(f, "clock", "the database's and this host's agree within a second");
}
