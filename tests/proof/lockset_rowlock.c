/* SPDX-License-Identifier: MIT
 *
 * Sets in a row of the database that has the locks. */
#include "lockset.h"

#include "backend.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct own {
    const struct backend_kind *kind;
    rowlock_client *client;
    void *session;
    char prefix[32], text[LOCKSET_SET_SIZE], sql[LOCKSET_SET_SIZE + 256];
};

__attribute__((format(printf, 3, 4))) static int run(struct own *own, char *out, const char *format,
                                                     ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(own->sql, sizeof(own->sql), format, arguments);
    va_end(arguments);
    return own->kind->sql_run(own->session, own->sql, out, out != NULL ? LOCKSET_SET_SIZE : 0);
}

static int begin(struct own *own)
{
    int sqlite = strcmp(own->kind->name, "sqlite") == 0;

    return run(own, NULL, "%s", sqlite ? "BEGIN IMMEDIATE" : "BEGIN");
}

/* ---- sessions -------------------------------------------------------------------------------- */

static int open_own(struct lockset *set, const char *kind, int schema_policy)
{
    static const char *const modes[] = {"lease", "check", "fence", "guard"};
    rowlock_options options = ROWLOCK_OPTIONS_INIT;
    struct own *own = calloc(1, sizeof(*own));
    rowlock_error err;

    if (own == NULL)
        return -1;
    set->own = own;
    own->kind = backend_find(kind);
    snprintf(own->prefix, sizeof(own->prefix), "set_%s_", modes[set->mode]);
    options.prefix = own->prefix;
    options.schema_policy = schema_policy;
    options.ttl_ms = LOCKSET_TTL_MS;
    if (rowlock_open(&own->client, own->kind->driver(), set->address, &options, &err) !=
        ROWLOCK_OK) {
        fprintf(stderr, "proof_lockset: %s\n", err.message);
        return -1;
    }
    own->session = own->kind->sql_open(set->address);
    return own->session != NULL ? 0 : -1;
}

static void close_own(struct lockset *set)
{
    struct own *own = set->own;

    own->kind->sql_close(own->session);
    rowlock_close(&own->client);
    free(own);
}

static int create(struct lockset *set, const char *kind)
{
    const char *type = strcmp(kind, "mysql") == 0 ? "MEDIUMTEXT" : "TEXT";
    struct own *own;
    int failed;

    if (open_own(set, kind, ROWLOCK_SCHEMA_CREATE) != 0)
        return -1;
    own = set->own;
    failed = run(own, NULL,
                 "CREATE TABLE IF NOT EXISTS %snumbers (id INTEGER NOT NULL PRIMARY KEY, "
                 "value %s NOT NULL, fence BIGINT NOT NULL)",
                 own->prefix, type) != 0 ||
             run(own, NULL, "INSERT INTO %snumbers (id, value, fence) VALUES (%d, '', 0)",
                 own->prefix, set->number) != 0;
    close_own(set);
    return failed ? -1 : 0;
}

static int read_set(struct lockset *set, char *out)
{
    struct own *own = set->own;

    if (run(own, out, "SELECT value FROM %snumbers WHERE id = %d", own->prefix, set->number) != 0)
        return -1;
    out[strcspn(out, "|")] = '\0';
    return 0;
}

static uint64_t read_fence(struct lockset *set)
{
    char out[LOCKSET_SET_SIZE];
    struct own *own = set->own;

    if (run(own, out, "SELECT fence FROM %snumbers WHERE id = %d", own->prefix, set->number) != 0)
        return UINT64_MAX;
    return strtoull(out, NULL, 10);
}

/* ---- adding ---------------------------------------------------------------------------------- */

static enum lockset_outcome add_plain(struct lockset *set, rowlock_lock *lock, long number)
{
    struct own *own = set->own;

    if (read_set(set, own->text) != 0)
        return LOCKSET_REFUSED;
    lockset_append(own->text, number);
    lockset_think();
    if (set->mode == LOCKSET_CHECK && rowlock_check(lock) != ROWLOCK_OK)
        return LOCKSET_REFUSED;
    return run(own, NULL, "UPDATE %snumbers SET value = '%s' WHERE id = %d", own->prefix, own->text,
               set->number) == 0
               ? LOCKSET_DONE
               : LOCKSET_UNKNOWN;
}

/* The store learns the fence with the read; a write with a smaller one than it knows is refused. */
static enum lockset_outcome add_fenced(struct lockset *set, rowlock_lock *lock, long number)
{
    unsigned long long fence = rowlock_fence(lock);
    struct own *own = set->own;

    if (run(own, NULL, "UPDATE %snumbers SET fence = %llu WHERE id = %d AND fence <= %llu",
            own->prefix, fence, set->number, fence) != 0 ||
        read_fence(set) != fence || read_set(set, own->text) != 0)
        return LOCKSET_REFUSED;
    lockset_append(own->text, number);
    lockset_think();
    if (begin(own) != 0)
        return LOCKSET_REFUSED;
    if (run(own, NULL,
            "UPDATE %snumbers SET value = '%s', fence = %llu WHERE id = %d AND fence <= %llu",
            own->prefix, own->text, fence, set->number, fence) == 0 &&
        read_fence(set) == fence)
        return run(own, NULL, "COMMIT") == 0 ? LOCKSET_DONE : LOCKSET_UNKNOWN;
    run(own, NULL, "ROLLBACK");
    return LOCKSET_REFUSED;
}

/* The guard proves that the lock was held since the read, and keeps it until the commit. */
static enum lockset_outcome add_guarded(struct lockset *set, rowlock_lock *lock, long number)
{
    struct own *own = set->own;
    rowlock_error err;

    if (read_set(set, own->text) != 0)
        return LOCKSET_REFUSED;
    lockset_append(own->text, number);
    lockset_think();
    if (begin(own) != 0)
        return LOCKSET_REFUSED;
    if (own->kind->guard(lock, own->session, &err) == ROWLOCK_OK &&
        run(own, NULL, "UPDATE %snumbers SET value = '%s' WHERE id = %d", own->prefix, own->text,
            set->number) == 0)
        return run(own, NULL, "COMMIT") == 0 ? LOCKSET_DONE : LOCKSET_UNKNOWN;
    run(own, NULL, "ROLLBACK");
    return LOCKSET_REFUSED;
}

static enum lockset_outcome add(struct lockset *set, long number)
{
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;
    struct own *own = set->own;
    rowlock_lock *lock = NULL;
    rowlock_error err;
    enum lockset_outcome outcome;
    char name[32];

    options.wait_ms = ROWLOCK_FOREVER;
    options.renew = 1;
    snprintf(name, sizeof(name), "set-%d", set->number);
    if (rowlock_acquire(&lock, own->client, name, &options, &err) != ROWLOCK_OK)
        return LOCKSET_REFUSED;
    lockset_stage(set, 1);
    if (set->mode == LOCKSET_FENCE)
        outcome = add_fenced(set, lock, number);
    else if (set->mode == LOCKSET_GUARD)
        outcome = add_guarded(set, lock, number);
    else
        outcome = add_plain(set, lock, number);
    lockset_stage(set, 0);
    rowlock_release(&lock, &err);
    return outcome;
}

/* ---- kinds ----------------------------------------------------------------------------------- */

#define ALL_MODES ((1U << LOCKSET_MODES) - 1)
#define KIND(name_)                                                                               \
    static int create_##name_(struct lockset *set)                                                \
    {                                                                                             \
        return create(set, #name_);                                                               \
    }                                                                                             \
    static int open_##name_(struct lockset *set)                                                  \
    {                                                                                             \
        return open_own(set, #name_, ROWLOCK_SCHEMA_REQUIRE);                                     \
    }                                                                                             \
    const struct lockset_kind lockset_##name_ = {#name_, ALL_MODES, create_##name_, open_##name_, \
                                                 add,    read_set,  close_own}

KIND(postgresql);
KIND(mysql);
KIND(sqlite);
