/* SPDX-License-Identifier: MIT
 *
 * A driver's table is checked once, at open, so that no call site tests for NULL. */
#include <string.h>

#include "core.h"

/* The table as it was first published ends with this slot. */
#define SIZE_OF_FIRST_TABLE \
    (offsetof(rowlock_driver, schema_apply) + sizeof(((rowlock_driver *)0)->schema_apply))

int rlk_driver_check(rowlock_driver *out, const rowlock_driver *driver, rowlock_error *err)
{
    if (driver == NULL)
        return rlk_fail(err, ROWLOCK_EINVAL,
                        "the driver is NULL: pass rowlock_postgresql(), rowlock_mysql() or "
                        "rowlock_sqlite()");
    if (driver->size < SIZE_OF_FIRST_TABLE)
        return rlk_fail(err, ROWLOCK_EINVAL, "the driver's table is too small: %zu bytes, not %zu",
                        driver->size, SIZE_OF_FIRST_TABLE);
    memset(out, 0, sizeof *out);
    memcpy(out, driver, driver->size < sizeof *out ? driver->size : sizeof *out);
    if (out->name == NULL || out->migrations == NULL || out->migration_count < 1 ||
        out->open == NULL || out->close == NULL || out->acquire == NULL || out->renew == NULL ||
        out->release == NULL || out->force_release == NULL || out->reap == NULL ||
        out->list == NULL || out->schema_version == NULL || out->schema_apply == NULL)
        return rlk_fail(err, ROWLOCK_EINVAL, "the driver's table lacks a slot that it must have");
    if (out->lock != NULL && (out->prepare == NULL || out->locate == NULL || out->guard == NULL ||
                              out->end == NULL || out->native == NULL))
        return rlk_fail(err, ROWLOCK_EINVAL,
                        "the driver's table has only some of the slots of transaction mode");
    if (out->enqueue != NULL &&
        (out->turn == NULL || out->leave == NULL || out->look == NULL || out->waiters == NULL))
        return rlk_fail(err, ROWLOCK_EINVAL,
                        "the driver's table has only some of the slots of the queue");
    return ROWLOCK_OK;
}
