/* SPDX-License-Identifier: MIT
 *
 * flock: the kernel's own, for one machine; dies with the process. Each session has an open file of
 * its own for the name that it uses. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "rivals.h"

typedef struct session {
    int fd;
    char name[64];
} session;

static int open_session(void **out, const bench_rival *rival, void *shared)
{
    session *s = calloc(1, sizeof *s);

    (void)rival;
    (void)shared;
    s->fd = -1;
    *out = s;
    return BENCH_OK;
}

static void close_session(void *state)
{
    session *s = state;

    if (s->fd >= 0)
        close(s->fd);
    free(s);
}

static int open_file(session *s, const char *name)
{
    char path[500];

    if (s->fd >= 0)
        close(s->fd);
    snprintf(s->name, sizeof s->name, "%s", name);
    snprintf(path, sizeof path, "%s/%s.lock", bench_folder(), name);
    s->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    return s->fd >= 0 ? BENCH_OK : bench_fail("%s: %s", path, strerror(errno));
}

static int acquire(void *state, const char *name, int waits)
{
    session *s = state;

    if (strcmp(s->name, name) != 0 && open_file(s, name) != BENCH_OK)
        return BENCH_FAILED;
    if (flock(s->fd, waits ? LOCK_EX : LOCK_EX | LOCK_NB) == 0)
        return BENCH_OK;
    return errno == EWOULDBLOCK ? BENCH_BUSY : bench_fail("flock: %s", strerror(errno));
}

static int release(void *state, const char *name)
{
    session *s = state;

    (void)name;
    return flock(s->fd, LOCK_UN) == 0 ? BENCH_OK : bench_fail("flock: %s", strerror(errno));
}

const bench_rival bench_flock = {
    .name = "flock",
    .server = "FLOCK",
    .loads = BENCH_WAITING,
    .open = open_session,
    .close = close_session,
    .acquire = acquire,
    .release = release,
};
