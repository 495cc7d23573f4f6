/* SPDX-License-Identifier: MIT
 *
 * Which database: the address, its driver, and the local file. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"

static const struct scheme {
    const char *name;
    const char *after; /* what must follow the name in an address */
    const char *dialect;
} schemes[] = {
    {"postgresql", "://", "postgresql"}, {"postgres", "://", "postgresql"},
    {"mysql", "://", "mysql"},           {"mariadb", "://", "mysql"},
    {"sqlite", ":", "sqlite"},
};

enum { SCHEMES = sizeof(schemes) / sizeof(schemes[0]), POSTGRESQL = 0, SQLITE = 4 };

/* Bytes of the scheme at the start of an address, 0 if there is none. */
static size_t scheme_length(const char *address)
{
    size_t n = strspn(address, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-");

    return address[n] == ':' && n > 1 ? n : 0;
}

static const struct scheme *find_scheme(const char *name, size_t n)
{
    for (int i = 0; i < SCHEMES; i++)
        if (strlen(schemes[i].name) == n && memcmp(schemes[i].name, name, n) == 0)
            return &schemes[i];
    return NULL;
}

/* Never shows more of an address than its scheme: the rest may hold a password. */
static int scheme_of(const struct scheme **out, const char *address)
{
    size_t n = scheme_length(address);

    if (address[0] == '\0')
        return cli_usage("the address of the database is empty; give --db or ROWLOCK_DB");
    if (n == 0) {
        int path = address[0] == '/' || address[0] == '.' || !strchr(address, '=');

        *out = &schemes[path ? SQLITE : POSTGRESQL];
        return CLI_GO_ON;
    }
    *out = find_scheme(address, n);
    if (!*out)
        return cli_usage("unknown kind of database '%.*s'; known are postgresql://, mysql://, "
                         "mariadb:// and sqlite:",
                         (int)(n < 40 ? n : 40), address);
    if (strncmp(address + n, (*out)->after, strlen((*out)->after)) != 0)
        return cli_usage("malformed address: it must start with %s%s", (*out)->name, (*out)->after);
    return CLI_GO_ON;
}

int cli_db_is_local(const cli_db *db)
{
    return db->address && strcmp(db->address, CLI_LOCAL) == 0;
}

/* --db, --local or ROWLOCK_DB. There is no default: a lock in a file of this host, taken because
 * the address was forgotten, would exclude nobody on the other hosts. ROWLOCK_DB counts even when
 * it is empty: that is what a command gets that `rowlock run` withheld the address from, and it
 * must not go on with another database than the run around it. */
static int choose_address(cli_db *db)
{
    if (db->is_local && db->address && !cli_db_is_local(db))
        return cli_usage("--local and --db exclude each other");
    if (db->address && !*db->address)
        return cli_usage("--db is empty");
    if (db->is_local)
        db->address = CLI_LOCAL;
    if (!db->address)
        db->address = getenv("ROWLOCK_DB");
    if (!db->address)
        return cli_usage("no database given: set ROWLOCK_DB or give --db; for locks among the "
                         "processes of this user on this host alone give --local");
    if (!*db->address)
        return cli_usage("ROWLOCK_DB is empty (rowlock run passes it on with --pass-db only); set "
                         "it or give --db");
    return CLI_GO_ON;
}

/* Makes the folders of a path, those that are missing for this user alone. */
static int make_folders(char *path)
{
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        int failed;

        *slash = '\0';
        failed = mkdir(path, 0700) != 0 && errno != EEXIST;
        if (failed)
            cli_message("cannot create the folder %s: %s", path, strerror(errno));
        *slash = '/';
        if (failed)
            return CLI_NO_DB;
    }
    return CLI_GO_ON;
}

static int name_local_file(char path[PATH_MAX])
{
    const char *state = getenv("XDG_STATE_HOME");
    const char *home = getenv("HOME");
    int n;

    if (state && state[0] == '/')
        n = snprintf(path, PATH_MAX, "%s/rowlock/locks.db", state);
    else if (home && home[0] == '/')
        n = snprintf(path, PATH_MAX, "%s/.local/state/rowlock/locks.db", home);
    else
        return cli_usage("there is no local file as HOME is not set; give --db or ROWLOCK_DB");
    if (n >= PATH_MAX)
        return cli_usage("the path of the local file is too long; give --db or ROWLOCK_DB");
    return CLI_GO_ON;
}

/* An address, its driver and what the options say, before anything is opened. `path` is room for
 * that of the local file. */
typedef struct target {
    const char *address;
    const rowlock_driver *driver;
    int is_file;
} target;

static int find_target(target *out, char path[PATH_MAX], cli_db *db, rowlock_options *options)
{
    const struct scheme *scheme = NULL;
    int result = choose_address(db);

    if (result == CLI_GO_ON)
        result = scheme_of(&scheme, db->address);
    if (result == CLI_GO_ON)
        result = cli_driver(&out->driver, scheme->dialect);
    out->address = db->address;
    if (result == CLI_GO_ON && cli_db_is_local(db)) {
        result = name_local_file(path);
        out->address = path;
    }
    out->is_file = scheme == &schemes[SQLITE];
    if (result == CLI_GO_ON)
        cli_db_name(db->name, out->address, out->is_file);
    options->prefix = db->prefix;
    options->schema = db->schema;
    return result;
}

int cli_db_open(rowlock_client **out, cli_db *db, rowlock_options *options)
{
    char path[PATH_MAX];
    target to = {.address = NULL};
    rowlock_error err;
    int result = find_target(&to, path, db, options);

    *out = NULL;
    if (result == CLI_GO_ON && to.address == path) {
        result = make_folders(path);
        if (options->schema_policy == ROWLOCK_SCHEMA_REQUIRE)
            options->schema_policy = ROWLOCK_SCHEMA_CREATE;
    }
    if (result != CLI_GO_ON)
        return result;
    if (rowlock_open(out, to.driver, to.address, options, &err) != ROWLOCK_OK)
        return cli_fail(&err);
    return CLI_GO_ON;
}

/* With tables that need not be there a client would make the file. */
static int is_there(const char *address)
{
    return access(strncmp(address, "sqlite:", 7) == 0 ? address + 7 : address, F_OK) == 0;
}

int cli_db_look(rowlock_client **out, cli_db *db, rowlock_options *options, rowlock_error *err)
{
    char path[PATH_MAX];
    target to = {.address = NULL};
    int result = find_target(&to, path, db, options);

    *out = NULL;
    if (result != CLI_GO_ON)
        return result;
    if (to.address == path && !is_there(path)) {
        err->status = ROWLOCK_ESCHEMA;
        snprintf(err->message, sizeof(err->message), "there is no file %.150s yet", path);
        return CLI_GO_ON;
    }
    options->schema_policy = ROWLOCK_SCHEMA_IGNORE;
    if (to.is_file && !is_there(to.address))
        options->schema_policy = ROWLOCK_SCHEMA_REQUIRE;
    if (rowlock_open(out, to.driver, to.address, options, err) != ROWLOCK_OK &&
        err->status == ROWLOCK_EINVAL)
        return cli_fail(err);
    return CLI_GO_ON;
}

static int choose(const struct scheme **out, cli_db *db, const char *dialect)
{
    int result;

    if (dialect) {
        const struct scheme *found = find_scheme(dialect, strlen(dialect));

        if (!found)
            return cli_usage("unknown dialect '%.*s'; known are postgresql, mysql and sqlite",
                             cli_shown(dialect), dialect);
        *out = found;
        return CLI_GO_ON;
    }
    if (!db->address && !db->is_local && !getenv("ROWLOCK_DB"))
        return cli_usage("give --dialect postgresql, mysql or sqlite");
    result = choose_address(db);
    return result == CLI_GO_ON ? scheme_of(out, db->address) : result;
}

int cli_db_driver(const rowlock_driver **out, cli_db *db, const char *dialect)
{
    const struct scheme *scheme = &schemes[SQLITE];
    int result = choose(&scheme, db, dialect);

    return result == CLI_GO_ON ? cli_driver(out, scheme->dialect) : result;
}

int cli_db_dialect(const char **out, cli_db *db, const char *dialect)
{
    const struct scheme *scheme = &schemes[SQLITE];
    int result = choose(&scheme, db, dialect);

    if (result == CLI_GO_ON)
        *out = scheme->dialect;
    return result;
}
