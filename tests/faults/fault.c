/* SPDX-License-Identifier: MIT */
#include "fault.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct fault fault;

/* ---- addresses ------------------------------------------------------------------------------- */

/* The pieces of scheme://user:password@host:port/database?options, as they are written. */
struct pieces {
    char scheme[32], user[128], password[128], host[256], rest[512];
    int port;
};

static int split(struct pieces *out, const char *address)
{
    const char *authority = strstr(address, "://");
    const char *end, *at, *colon;
    char text[512];

    memset(out, 0, sizeof(*out));
    if (authority == NULL)
        return -1;
    snprintf(out->scheme, sizeof(out->scheme), "%.*s", (int)(authority - address), address);
    authority += 3;
    end = authority + strcspn(authority, "/?");
    snprintf(out->rest, sizeof(out->rest), "%s", end);
    snprintf(text, sizeof(text), "%.*s", (int)(end - authority), authority);
    at = strrchr(text, '@');
    if (at != NULL) {
        size_t user = strcspn(text, ":@");
        snprintf(out->user, sizeof(out->user), "%.*s", (int)user, text);
        if (text[user] == ':')
            snprintf(out->password, sizeof(out->password), "%.*s", (int)(at - text - (int)user - 1),
                     text + user + 1);
    }
    at = at != NULL ? at + 1 : text;
    colon = strchr(at, ':');
    out->port = colon != NULL ? atoi(colon + 1) : 0;
    snprintf(out->host, sizeof(out->host), "%.*s", (int)strcspn(at, ":"), at);
    return out->host[0] != '\0' && out->port > 0 ? 0 : -1;
}

int fault_address(char *out, size_t size, const char *address, const struct fault_address *change)
{
    struct pieces p;
    const char *options;

    if (split(&p, address) != 0)
        return -1;
    if (change->user != NULL)
        snprintf(p.user, sizeof(p.user), "%s", change->user);
    if (change->password != NULL)
        snprintf(p.password, sizeof(p.password), "%s", change->password);
    if (change->host != NULL)
        snprintf(p.host, sizeof(p.host), "%s", change->host);
    if (change->port != 0)
        p.port = change->port;
    if (change->database != NULL) {
        char rest[512];
        options = strchr(p.rest, '?');
        snprintf(rest, sizeof(rest), "/%s%s", change->database, options != NULL ? options : "");
        memcpy(p.rest, rest, sizeof(rest));
    }
    snprintf(out, size, "%s://%s%s%s%s%s:%d%s", p.scheme, p.user, p.password[0] ? ":" : "",
             p.password, p.user[0] ? "@" : "", p.host, p.port, p.rest);
    return 0;
}

static int start_proxy(void)
{
    struct pieces p;
    const char *host;

    if (split(&p, fault.backend.address) != 0) {
        fprintf(stderr,
                "the proxy needs an address of the form scheme://user@host:port/database\n");
        return -1;
    }
    host = strcmp(p.host, "localhost") == 0 ? "127.0.0.1" : p.host;
    fault.proxy = proxy_start(host, (uint16_t)p.port);
    if (fault.proxy == NULL) {
        fprintf(stderr, "the proxy cannot be started in front of %s:%d\n", host, p.port);
        return -1;
    }
    return fault_address(
        fault.proxied, sizeof(fault.proxied), fault.backend.address,
        &(struct fault_address){.host = "127.0.0.1", .port = proxy_port(fault.proxy)});
}

/* ---- the program ----------------------------------------------------------------------------- */

static int tables(int version)
{
    rowlock_options options = ROWLOCK_OPTIONS_INIT;
    rowlock_client *client = NULL;
    rowlock_error err;
    int status;

    options.schema_policy = ROWLOCK_SCHEMA_IGNORE;
    status = fault_try_open(&client, fault.backend.address, &options, &err);
    if (status == ROWLOCK_OK)
        status = rowlock_migrate(client, version, &err);
    rowlock_close(&client);
    if (status != ROWLOCK_OK)
        fprintf(stderr, "cannot bring the tables to version %d: %s\n", version, err.message);
    return status == ROWLOCK_OK ? 0 : -1;
}

static int group_setup(void **state)
{
    (void)state;
    return tables(ROWLOCK_SCHEMA_LATEST);
}

static int group_teardown(void **state)
{
    (void)state;
    return tables(0);
}

int fault_main(int argc, char **argv, int with_proxy, const struct CMUnitTest *cases, size_t n)
{
    int failed;

    if (argc != 2) {
        fprintf(stderr, "usage: %s %s\n", argv[0], backend_names());
        return 2;
    }
    failed = backend_open(&fault.backend, argv[1]);
    if (failed != 0)
        return failed;
    snprintf(fault.prefix, sizeof(fault.prefix), "f%d_", (int)getpid());
    if (with_proxy && (fault.backend.caps & BACKEND_SERVER) != 0 && start_proxy() != 0)
        failed = 1;
    else
        failed = _cmocka_run_group_tests(argv[1], cases, n, group_setup, group_teardown);
    proxy_stop(fault.proxy);
    backend_close(&fault.backend);
    return failed;
}

int fault_is(const char *driver)
{
    return strcmp(fault.backend.driver->name, driver) == 0;
}

/* ---- clients and rows ------------------------------------------------------------------------ */

/* Some clients are given little time, which a loaded machine may need for itself. */
enum { TRIES = 10 };

int fault_try_open(rowlock_client **out, const char *address, const rowlock_options *options,
                   rowlock_error *err)
{
    rowlock_options filled = ROWLOCK_OPTIONS_INIT;

    if (options != NULL)
        filled = *options;
    if (filled.prefix == NULL)
        filled.prefix = fault.prefix;
    return rowlock_open(out, fault.backend.driver, address, &filled, err);
}

rowlock_client *fault_open(const char *address, const rowlock_options *options)
{
    rowlock_client *client = NULL;
    rowlock_error err;
    int status = ROWLOCK_ECONNECT;

    for (int i = 0; i < TRIES && status == ROWLOCK_ECONNECT; i++)
        status = fault_try_open(&client, address, options, &err);
    assert_status(ROWLOCK_OK, status, &err);
    return client;
}

void fault_assert_status(int expected, int status, const rowlock_error *err, const char *file,
                         int line)
{
    if (status == expected)
        return;
    print_error("expected %d (%s), got %d (%s): %s\n", expected, rowlock_strstatus(expected),
                status, rowlock_strstatus(status), err != NULL ? err->message : "");
    _fail(file, line);
}

struct lookup {
    const char *name;
    struct fault_row row;
};

static int look(const rowlock_row *row, void *payload)
{
    struct lookup *lookup = payload;

    if (row->name_length != strlen(lookup->name) ||
        memcmp(row->name, lookup->name, row->name_length) != 0)
        return 0;
    lookup->row.found = row->remaining_ms > 0 ? 2 : 1;
    lookup->row.fence = row->fence;
    lookup->row.hold_count = row->hold_count;
    lookup->row.remaining_ms = row->remaining_ms;
    snprintf(lookup->row.owner, sizeof(lookup->row.owner), "%s", row->owner);
    return 1;
}

struct fault_row fault_row(rowlock_client *client, const char *name)
{
    rowlock_list_options options = ROWLOCK_LIST_OPTIONS_INIT;
    struct lookup lookup = {.name = name};
    rowlock_error err;

    options.starts_with = name;
    options.expired = 1;
    assert_status(ROWLOCK_OK, rowlock_list(client, &options, look, &lookup, &err), &err);
    return lookup.row;
}

rowlock_lock *fault_acquire(rowlock_client *client, const char *name, int64_t ttl_ms)
{
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;
    rowlock_lock *lock = NULL;
    rowlock_error err;
    int status = ROWLOCK_ECONNECT;

    options.ttl_ms = ttl_ms;
    for (int i = 0; i < TRIES && status == ROWLOCK_ECONNECT; i++)
        status = rowlock_acquire(&lock, client, name, &options, &err);
    assert_status(ROWLOCK_OK, status, &err);
    return lock;
}

void fault_release(rowlock_lock **lock)
{
    rowlock_error err;
    assert_status(ROWLOCK_OK, rowlock_release(lock, &err), &err);
}

void fault_open_another(rowlock_client *client)
{
    rowlock_lock *lock = fault_acquire(client, fault_name("another"), 0);

    fault_release(&lock);
}

const char *fault_name(const char *what)
{
    static char names[8][64];
    static unsigned next;
    char *name = names[next % 8];

    snprintf(name, sizeof(names[0]), "%.40s-%u", what, next);
    next++;
    return name;
}

void fault_batch_init(struct fault_batch *batch, const char *what)
{
    const char *stem = fault_name(what);

    memset(batch, 0, sizeof(*batch));
    for (int i = 0; i < FAULT_BATCH; i++) {
        snprintf(batch->text[i], sizeof(batch->text[i]), "%.56s-%03d", stem, i);
        batch->names[i] = batch->text[i];
    }
}

/* ---- plain SQL ------------------------------------------------------------------------------- */

/* Puts our tables' names in the place of {locks} and {schema}. */
static void tables_in(char *out, size_t size, const char *sql)
{
    size_t used = 0;

    while (*sql != '\0' && used + 1 < size) {
        const char *end = *sql == '{' ? strchr(sql, '}') : NULL;
        if (end == NULL) {
            out[used++] = *sql++;
            continue;
        }
        used += (size_t)snprintf(out + used, size - used, "%s%.*s", fault.prefix,
                                 (int)(end - sql - 1), sql + 1);
        sql = end + 1;
    }
    out[used < size ? used : size - 1] = '\0';
}

/* "1|2|\n3|4|\n" becomes "1|2\n3|4". */
static void trim(char *rows)
{
    char *to = rows;

    for (const char *from = rows; *from != '\0'; from++)
        if (from[0] != '|' || from[1] != '\n')
            *to++ = *from;
    *to = '\0';
    if (to > rows && to[-1] == '\n')
        to[-1] = '\0';
}

int fault_sql_on(const char *address, const char *sql, char *out, size_t size)
{
    const struct backend_kind *kind = fault.backend.kind;
    char text[2048];
    void *session = kind->sql_open(address);
    int failed;

    out[0] = '\0';
    if (session == NULL)
        return -1;
    tables_in(text, sizeof(text), sql);
    failed = kind->sql_run(session, text, out, size);
    kind->sql_close(session);
    trim(out);
    return failed;
}

void fault_sql_text(char *out, size_t size, const char *sql)
{
    if (fault_sql_on(fault.backend.address, sql, out, size) != 0)
        fail_msg("the statement failed: %s", sql);
}

void fault_sql(const char *sql)
{
    char out[4096];
    fault_sql_text(out, sizeof(out), sql);
}

long long fault_sql_number(const char *sql)
{
    char out[4096];
    const char *field;
    char *end;
    long long number;

    fault_sql_text(out, sizeof(out), sql);
    out[strcspn(out, "\n")] = '\0';
    field = strrchr(out, '|');
    field = field != NULL ? field + 1 : out;
    number = strtoll(field, &end, 10);
    if (end == field)
        fail_msg("no number came of: %s", sql);
    return number;
}
