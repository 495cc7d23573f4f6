/* SPDX-License-Identifier: MIT
 *
 * The tables' versions: the check at open, migrations step by step, and their text. */
#include <stdlib.h>
#include <string.h>

#include "core.h"
#include "text.h"

/* Tables are created behind whoever else is doing so: give them the time. */
#define MIGRATION_BOUND_US INT64_C(60000000)

typedef struct step {
    int from, to;
    int moved; /* somebody else was faster */
} step;

static int do_version(rowlock_client *client, void *conn, uint32_t timeout_ms, void *arg,
                      rowlock_error *err)
{
    return client->driver.schema_version(conn, arg, timeout_ms, err);
}

static int do_step(rowlock_client *client, void *conn, uint32_t timeout_ms, void *arg,
                   rowlock_error *err)
{
    step *s = arg;
    int rc = client->driver.schema_apply(conn, s->from, s->to, timeout_ms, err);

    s->moved = rc == ROWLOCK_BUSY;
    return s->moved ? rlk_ok(err) : rc;
}

static int version_of(int *out, rowlock_client *client, rowlock_error *err)
{
    rlk_sent sent;

    return rlk_call(client, client->call_timeout_us, do_version, out, &sent, err);
}

static int fail_newer(rowlock_client *client, int version, rowlock_error *err)
{
    return rlk_fail(
        err, ROWLOCK_ESCHEMA,
        "the lock tables have version %d, newer than this library's %d: upgrade rowlock", version,
        client->driver.migration_count);
}

static int migrate(rowlock_client *client, int target, rowlock_error *err)
{
    int version, rc;

    for (;;) {
        step s;
        rlk_sent sent;

        rc = version_of(&version, client, err);
        if (rc != ROWLOCK_OK || version == target)
            return rc;
        if (version > client->driver.migration_count)
            return fail_newer(client, version, err);
        s = (step){.from = version, .to = version < target ? version + 1 : version - 1};
        rc = rlk_call(client, MIGRATION_BOUND_US, do_step, &s, &sent, err);
        if (rc != ROWLOCK_OK)
            return rc;
    }
}

int rlk_schema_check(rowlock_client *client, int policy, rowlock_error *err)
{
    int latest = client->driver.migration_count;
    int is_default = strcmp(client->prefix, "rowlock_") == 0;
    int version = 0;
    int rc = version_of(&version, client, err);

    /* Who may not read the tables' version may still look at what else is wrong. */
    if (rc == ROWLOCK_EDRIVER && policy == ROWLOCK_SCHEMA_IGNORE)
        return rlk_ok(err);
    if (rc != ROWLOCK_OK || policy == ROWLOCK_SCHEMA_IGNORE || version == latest)
        return rc;
    if (version > latest)
        return fail_newer(client, version, err);
    if (policy == ROWLOCK_SCHEMA_CREATE)
        return migrate(client, latest, err);
    if (version == 0)
        return rlk_fail(err, ROWLOCK_ESCHEMA,
                        "the lock tables (%s...) are missing: run 'rowlock migrate up%s%s'",
                        client->prefix, is_default ? "" : " --prefix ",
                        is_default ? "" : client->prefix);
    return rlk_fail(
        err, ROWLOCK_ESCHEMA,
        "the lock tables have version %d, this library needs %d: run 'rowlock migrate up'", version,
        latest);
}

int rowlock_schema_version(int *out, rowlock_client *client, rowlock_error *err)
{
    int rc;

    if (out == NULL)
        return rlk_fail(err, ROWLOCK_EINVAL, "out is NULL");
    *out = 0;
    rc = rlk_enter(client, err);
    if (rc != ROWLOCK_OK)
        return rc;
    rc = version_of(out, client, err);
    rlk_leave(client);
    return rc;
}

int rowlock_migrate(rowlock_client *client, int version, rowlock_error *err)
{
    int rc = rlk_enter(client, err);

    if (rc != ROWLOCK_OK)
        return rc;
    if (version == ROWLOCK_SCHEMA_LATEST)
        version = client->driver.migration_count;
    if (version < 0 || version > client->driver.migration_count)
        rc = rlk_fail(err, ROWLOCK_EINVAL, "there is no version %d of the tables: give 0 to %d",
                      version, client->driver.migration_count);
    else
        rc = migrate(client, version, err);
    rlk_leave(client);
    return rc;
}

int rowlock_migration_count(const rowlock_driver *driver)
{
    rowlock_driver table;

    return rlk_driver_check(&table, driver, NULL) == ROWLOCK_OK ? table.migration_count : 0;
}

const char *rowlock_migration_name(const rowlock_driver *driver, int version)
{
    if (version < 1 || version > rowlock_migration_count(driver))
        return NULL;
    return driver->migrations[version - 1].name;
}

int rowlock_migration_sql(char **out, const rowlock_driver *driver, int version, int up,
                          const rowlock_options *options, rowlock_error *err)
{
    rowlock_driver table;
    rowlock_options opts;
    rlk_text text = {0};
    int rc = out == NULL ? rlk_fail(err, ROWLOCK_EINVAL, "out is NULL")
                         : rlk_driver_check(&table, driver, err);

    if (out != NULL)
        *out = NULL;
    if (rc == ROWLOCK_OK)
        rc = rlk_options_copy(&opts, sizeof opts, options, "rowlock_options", err);
    if (rc == ROWLOCK_OK)
        rc = rlk_check_tables(&table, &opts, err);
    if (rc == ROWLOCK_OK && (version < 1 || version > table.migration_count))
        rc = rlk_fail(err, ROWLOCK_EINVAL, "there is no version %d of the tables: give 1 to %d",
                      version, (int)table.migration_count);
    if (rc != ROWLOCK_OK)
        return rc;
    rlk_sql_render(&text,
                   up ? table.migrations[version - 1].up : table.migrations[version - 1].down,
                   opts.prefix == NULL ? "rowlock_" : opts.prefix, opts.schema, table.quote);
    if (text.failed) {
        rlk_text_free(&text);
        return rlk_fail_memory(err);
    }
    *out = text.data;
    return rlk_ok(err);
}
