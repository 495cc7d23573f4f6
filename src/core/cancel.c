/* SPDX-License-Identifier: MIT
 *
 * A switch is a descriptor that becomes readable and is never read: every wait, now or later, sees
 * it, and write() is allowed in signal handlers. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "core.h"

struct rowlock_cancel {
    int fd;
    pid_t pid; /* a child shares the descriptor, and must not end its parent's waits */
};

int rowlock_cancel_new(rowlock_cancel **out, rowlock_error *err)
{
    rowlock_cancel *cancel;

    if (out == NULL)
        return rlk_fail(err, ROWLOCK_EINVAL, "out is NULL");
    *out = NULL;
    cancel = malloc(sizeof *cancel);
    if (cancel == NULL)
        return rlk_fail_memory(err);
    cancel->pid = getpid();
    cancel->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (cancel->fd < 0) {
        free(cancel);
        return rlk_fail(err, ROWLOCK_ENOMEM, "cannot make a descriptor: %s", strerror(errno));
    }
    *out = cancel;
    return rlk_ok(err);
}

void rowlock_cancel_fire(rowlock_cancel *cancel)
{
    const uint64_t one = 1;
    int saved = errno;

    if (cancel == NULL || cancel->pid != getpid())
        return;
    /* Fails only when the counter is full, and then it has been fired often enough. */
    if (write(cancel->fd, &one, sizeof one) < 0)
        errno = saved;
    errno = saved;
}

void rowlock_cancel_free(rowlock_cancel **cancel)
{
    if (cancel == NULL || *cancel == NULL)
        return;
    close((*cancel)->fd);
    free(*cancel);
    *cancel = NULL;
}

int rlk_cancel_fd(const rowlock_cancel *cancel)
{
    return cancel == NULL ? -1 : cancel->fd;
}
