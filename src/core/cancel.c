/* SPDX-License-Identifier: MIT
 *
 * A switch is a descriptor that becomes readable and is never read: every wait, now or later, sees
 * it, and it may be raised in signal handlers. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

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
    cancel->pid = rlk_getpid();
    cancel->fd = rlk_event_new();
    if (cancel->fd < 0) {
        free(cancel);
        return rlk_fail(err, ROWLOCK_ENOMEM, "cannot make a descriptor: %s", strerror(errno));
    }
    *out = cancel;
    return rlk_ok(err);
}

void rowlock_cancel_fire(rowlock_cancel *cancel)
{
    int saved = errno;

    if (cancel == NULL || cancel->pid != rlk_getpid())
        return;
    rlk_event_set(cancel->fd);
    errno = saved;
}

void rowlock_cancel_free(rowlock_cancel **cancel)
{
    if (cancel == NULL || *cancel == NULL)
        return;
    rlk_event_free((*cancel)->fd);
    free(*cancel);
    *cancel = NULL;
}

int rlk_cancel_fd(const rowlock_cancel *cancel)
{
    return cancel == NULL ? -1 : cancel->fd;
}
