/* SPDX-License-Identifier: MIT
 *
 * What every user writes: the _INIT macros, the statuses, the limits; as C99, C11 and C++17. Each
 * header twice, to see its guard. */
#include <rowlock/driver.h>
#include <rowlock/mysql.h>
#include <rowlock/postgresql.h>
#include <rowlock/rowlock.h>
#include <rowlock/sqlite.h>
#include <rowlock/version.h>

#include <rowlock/driver.h>
#include <rowlock/mysql.h>
#include <rowlock/postgresql.h>
#include <rowlock/rowlock.h>
#include <rowlock/sqlite.h>
#include <rowlock/version.h>

/* A name for each status: a number given twice would not compile. */
static const char *status_name(int status)
{
    switch (status) {
#define CASE(name, number, text) \
    case number:                 \
        return #name ": " text;
        ROWLOCK_STATUS_MAP(CASE)
#undef CASE
    default:
        return "";
    }
}

/* A field that is appended must not lie where older callers have padding, whose bytes are anything:
 * no struct with a size may end in padding. */
#define NO_PADDING_AFTER(type, last)                    \
    typedef char type##_##last##_is_followed_by_padding \
        [offsetof(type, last) + sizeof(((type *)0)->last) == sizeof(type) ? 1 : -1]
NO_PADDING_AFTER(rowlock_event, message);
NO_PADDING_AFTER(rowlock_options, spin_us);
NO_PADDING_AFTER(rowlock_acquire_options, reserved);
NO_PADDING_AFTER(rowlock_tx_options, holder);
NO_PADDING_AFTER(rowlock_row, remaining_ms);
NO_PADDING_AFTER(rowlock_list_options, reserved);
NO_PADDING_AFTER(rowlock_waiter, holder);
NO_PADDING_AFTER(rowlock_force_options, fence);
NO_PADDING_AFTER(rowlock_reap_options, limit);
NO_PADDING_AFTER(rowlock_counters, combined);
NO_PADDING_AFTER(rowlock_finding, remedy);
NO_PADDING_AFTER(rowlock_config, reserved);
NO_PADDING_AFTER(rowlock_list_query, after_length);
NO_PADDING_AFTER(rowlock_target, place);

int main(void)
{
    rowlock_options options = ROWLOCK_OPTIONS_INIT;
    rowlock_acquire_options acquire = ROWLOCK_ACQUIRE_OPTIONS_INIT;
    rowlock_list_options list = ROWLOCK_LIST_OPTIONS_INIT;
    rowlock_force_options force = ROWLOCK_FORCE_OPTIONS_INIT;
    rowlock_reap_options reap = ROWLOCK_REAP_OPTIONS_INIT;
    char error_is_256_bytes[sizeof(rowlock_error) == 256 ? 1 : -1];

    options.ttl_ms = ROWLOCK_TTL_MAX_MS;
    options.schema_policy = ROWLOCK_SCHEMA_CREATE;
    acquire.wait_ms = ROWLOCK_FOREVER;
    list.expired = 1;
    force.fence = 1;
    reap.limit = 1;
    error_is_256_bytes[0] = status_name(ROWLOCK_BUSY)[0];
    return options.size != sizeof options || acquire.size != sizeof acquire ||
           list.size != sizeof list || force.size != sizeof force || reap.size != sizeof reap ||
           options.ttl_ms < ROWLOCK_TTL_MIN_MS || error_is_256_bytes[0] == '\0';
}
