/* SPDX-License-Identifier: MIT */
#include "pg.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"

enum { SETTINGS_MAX = 96 };

/* Keywords and values as PQconnectStartParams() takes them. */
typedef struct settings {
    const char *keys[SETTINGS_MAX + 1];
    const char *values[SETTINGS_MAX + 1];
    int count;
} settings;

/* Something:// that is not libpq's. */
static int has_foreign_scheme(const char *address)
{
    size_t scheme =
        strspn(address, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+.-");

    return strncmp(address + scheme, "://", 3) == 0 && strncmp(address, "postgresql://", 13) != 0 &&
           strncmp(address, "postgres://", 11) != 0;
}

/* A URI in which a password with @ / or ? in it was not encoded: libpq would take a part of it for
 * the host, the port or an option behind the ?, and say so in its messages. */
static int is_ambiguous(const char *address)
{
    const char *start = strstr(address, "://"), *at, *host;
    size_t whole;

    if (start == NULL)
        return 0;
    start += 3;
    whole = strcspn(start, "?");
    if (strchr(start + whole, '@') != NULL)
        return 1;
    at = memchr(start, '@', whole);
    if (at != NULL && (memchr(at + 1, '@', whole - (size_t)(at + 1 - start)) != NULL ||
                       memchr(start, '/', (size_t)(at - start)) != NULL))
        return 1;
    for (host = at == NULL ? start : at + 1; *host != '\0' && strchr("/?", *host) == NULL;) {
        host += *host == '[' ? strcspn(host, "]/?") : strcspn(host, ":,/?");
        host += *host == ']';
        if (*host == ':') {
            host += 1 + strspn(host + 1, "0123456789");
            if (*host != '\0' && strchr(",/?", *host) == NULL)
                return 1;
        }
        host += *host == ',';
    }
    return 0;
}

static const char *value_of(const PQconninfoOption *options, const char *key)
{
    for (; options != NULL && options->keyword != NULL; options++) {
        if (strcmp(options->keyword, key) == 0)
            return options->val;
    }
    return NULL;
}

static void set(settings *all, const char *key, const char *value)
{
    if (all->count == SETTINGS_MAX)
        return;
    all->keys[all->count] = key;
    all->values[all->count++] = value;
}

static void set_given(settings *all, const PQconninfoOption *given)
{
    for (const PQconninfoOption *option = given; option->keyword != NULL; option++) {
        if (option->val != NULL)
            set(all, option->keyword, option->val);
    }
}

/* What the address, the environment and a service file say together. libpq tells only of a
 * connection: one that it refuses before it looks for a host. NULL: it could not read them. */
static PQconninfoOption *all_said(const PQconninfoOption *given)
{
    settings all = {0};
    PQconninfoOption *said;
    PGconn *pg;

    set_given(&all, given);
    set(&all, "channel_binding", "none of libpq's");
    pg = PQconnectStartParams(all.keys, all.values, 0);
    said = PQconninfo(pg);
    PQfinish(pg);
    return said;
}

/* What the user did not say: a value that is given last wins. */
static void set_default(settings *all, const PQconninfoOption *said, const char *key,
                        const char *value)
{
    if (value_of(said, key) == NULL)
        set(all, key, value);
}

static int host_count(const PQconninfoOption *said)
{
    const char *hosts = value_of(said, "hostaddr");
    int n = 1;

    if (hosts == NULL)
        hosts = value_of(said, "host");
    for (; hosts != NULL && *hosts != '\0'; hosts++)
        n += *hosts == ',';
    return n;
}

/* Has the user said which of several hosts? "any" is also what libpq takes for nothing. */
static int has_wanted_host(const PQconninfoOption *given, const PQconninfoOption *said)
{
    const char *wanted = value_of(said, "target_session_attrs");

    return value_of(given, "target_session_attrs") != NULL ||
           getenv("PGTARGETSESSIONATTRS") != NULL || (wanted != NULL && strcmp(wanted, "any") != 0);
}

static void set_all(settings *all, const PQconninfoOption *given, const PQconninfoOption *said,
                    const pg_hosts *hosts, const char *user_timeout)
{
    set_given(all, given);
    if (hosts->count > 0) {
        set(all, "host", hosts->names.data);
        set(all, "hostaddr", hosts->addresses.data);
        set(all, "port", hosts->ports.data);
    }
    set(all, "client_encoding", "UTF8");
    set_default(all, said, "fallback_application_name", "rowlock");
    set_default(all, said, "keepalives_idle", "20");
    set_default(all, said, "keepalives_interval", "5");
    set_default(all, said, "keepalives_count", "3");
    set_default(all, said, "tcp_user_timeout", user_timeout);
    if (host_count(said) > 1 && !has_wanted_host(given, said))
        set(all, "target_session_attrs", "read-write");
}

static int start(PGconn **out, const PQconninfoOption *given, int64_t deadline, rowlock_error *err)
{
    PQconninfoOption *said = all_said(given);
    const char *host = value_of(said, "host"), *port = value_of(said, "port");
    pg_hosts hosts = {0};
    settings all = {0};
    char user_timeout[24];
    int status = ROWLOCK_OK;

    if (host != NULL && value_of(said, "hostaddr") == NULL)
        status = pg_find_hosts(&hosts, host, port == NULL ? "" : port, deadline, err);
    if (status == ROWLOCK_OK) {
        int64_t left_ms = (deadline - rlk_clock_us()) / 1000;
        int64_t count = hosts.count > 0 ? hosts.count : host_count(said);

        /* It bounds the attempt on each host, too, so that one that is silent leaves time for the
         * next. */
        snprintf(user_timeout, sizeof user_timeout, "%" PRId64,
                 left_ms < 1000 ? 1000 : left_ms / count);
        set_all(&all, given, said, &hosts, user_timeout);
        *out = PQconnectStartParams(all.keys, all.values, 0);
        if (*out == NULL)
            status = rlk_fail_memory(err);
    }
    pg_hosts_free(&hosts);
    PQconninfoFree(said);
    return status;
}

int pg_connect_start(PGconn **out, const char *address, int64_t deadline, rowlock_error *err)
{
    PQconninfoOption *given;
    int status;

    *out = NULL;
    if (has_foreign_scheme(address))
        return rlk_fail(err, ROWLOCK_EINVAL,
                        "not a postgresql address: expected postgresql://user@host:port/database "
                        "or a string like 'host=db dbname=shop'");
    if (is_ambiguous(address))
        return rlk_fail(err, ROWLOCK_EINVAL,
                        "malformed address: the port is not a number, or a password or an option "
                        "holds @ / ? or : that must be written as %%40 %%2F %%3F %%3A");
    given = address[0] == '\0' ? NULL : PQconninfoParse(address, NULL);
    if (given == NULL)
        return rlk_fail(err, ROWLOCK_EINVAL,
                        "malformed address: expected postgresql://user@host:port/database or a "
                        "string like 'host=db dbname=shop', with libpq's keywords");
    status = start(out, given, deadline, err);
    PQconninfoFree(given);
    return status;
}
