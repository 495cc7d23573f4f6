/* SPDX-License-Identifier: MIT
 *
 * Checks of what users pass in. Nothing has been done when one of them fails. */
#include <string.h>

#include "core.h"
#include "text.h"

int rlk_check_reserved(int32_t reserved, const char *type, rowlock_error *err)
{
    if (reserved == 0)
        return ROWLOCK_OK;
    return rlk_fail(err, ROWLOCK_EINVAL,
                    "%s has a field set that this version of the library does not know", type);
}

int rlk_options_copy(void *out, size_t out_size, const void *in, const char *type,
                     rowlock_error *err)
{
    const unsigned char *bytes = in;
    size_t size;

    memset(out, 0, out_size);
    if (in == NULL)
        return ROWLOCK_OK;
    memcpy(&size, in, sizeof size);
    if (size < sizeof size || size > 65536)
        return rlk_fail(err, ROWLOCK_EINVAL, "%s.size is not set: start from its _INIT macro",
                        type);
    for (size_t i = out_size; i < size; i++) {
        if (bytes[i] != 0)
            return rlk_check_reserved(1, type, err);
    }
    memcpy(out, in, size < out_size ? size : out_size);
    return ROWLOCK_OK;
}

int rlk_check_name(const char *name, size_t *length, rowlock_error *err)
{
    if (name == NULL)
        return rlk_fail(err, ROWLOCK_EINVAL, "the name is NULL");
    if (*length == 0)
        *length = strnlen(name, ROWLOCK_NAME_MAX + 1);
    if (*length == 0)
        return rlk_fail(err, ROWLOCK_EINVAL, "the name is empty: give 1 to %d bytes",
                        ROWLOCK_NAME_MAX);
    if (*length > ROWLOCK_NAME_MAX)
        return rlk_fail(err, ROWLOCK_EINVAL, "the name is longer than %d bytes", ROWLOCK_NAME_MAX);
    return ROWLOCK_OK;
}

int rlk_check_ttl(int64_t ttl_ms, rowlock_error *err)
{
    if (ttl_ms < ROWLOCK_TTL_MIN_MS || ttl_ms > ROWLOCK_TTL_MAX_MS)
        return rlk_fail(err, ROWLOCK_EINVAL,
                        "a ttl of %lld ms is not possible: give %lld ms to 31 days",
                        (long long)ttl_ms, (long long)ROWLOCK_TTL_MIN_MS);
    return ROWLOCK_OK;
}

int rlk_check_wait(int64_t wait_ms, rowlock_error *err)
{
    if (wait_ms < 0 && wait_ms != ROWLOCK_FOREVER)
        return rlk_fail(err, ROWLOCK_EINVAL,
                        "wait_ms is negative: 0 is one try, ROWLOCK_FOREVER no bound");
    return ROWLOCK_OK;
}

int rlk_check_owner(const char *owner, rowlock_error *err)
{
    if (!rlk_is_printable(owner, 1, ROWLOCK_OWNER_MAX))
        return rlk_fail(err, ROWLOCK_EINVAL,
                        "the owner is not 1 to %d bytes of UTF-8 without control characters",
                        ROWLOCK_OWNER_MAX);
    return ROWLOCK_OK;
}

int rlk_check_tables(const rowlock_driver *driver, const rowlock_options *options,
                     rowlock_error *err)
{
    if (options->prefix != NULL && !rlk_is_prefix(options->prefix))
        return rlk_fail(err, ROWLOCK_EINVAL,
                        "the prefix must be 1 to 31 of a-z, 0-9 and _, not starting with a digit");
    if (options->schema == NULL)
        return ROWLOCK_OK;
    if (!driver->has_schemas)
        return rlk_fail(err, ROWLOCK_EINVAL, "%s has no schemas: leave the schema out",
                        driver->name);
    if (!rlk_is_schema(options->schema))
        return rlk_fail(err, ROWLOCK_EINVAL,
                        "the schema must be 1 to 63 of A-Z, a-z, 0-9, _, $ and -, starting with a "
                        "letter or _");
    return ROWLOCK_OK;
}
