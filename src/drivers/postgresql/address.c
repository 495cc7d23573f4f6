/* SPDX-License-Identifier: MIT */
#include "pg.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
static PQconninfoOption *resolve(const PQconninfoOption *given)
{
    settings all = {0};
    PQconninfoOption *resolved;
    PGconn *pg;

    set_given(&all, given);
    set(&all, "channel_binding", "none of libpq's");
    pg = PQconnectStartParams(all.keys, all.values, 0);
    resolved = PQconninfo(pg);
    PQfinish(pg);
    return resolved;
}

/* What the user did not say: a value that is given last wins. */
static void set_default(settings *all, const PQconninfoOption *resolved, const char *key,
                        const char *value)
{
    if (value_of(resolved, key) == NULL)
        set(all, key, value);
}

static unsigned host_count(const PQconninfoOption *resolved)
{
    const char *hosts = value_of(resolved, "hostaddr");
    unsigned n = 1;

    if (hosts == NULL)
        hosts = value_of(resolved, "host");
    for (; hosts != NULL && *hosts != '\0'; hosts++)
        n += *hosts == ',';
    return n;
}

/* Has the user said which of several hosts? "any" is also what libpq takes for nothing. */
static int has_wanted_host(const PQconninfoOption *given, const PQconninfoOption *resolved)
{
    const char *wanted = value_of(resolved, "target_session_attrs");

    return value_of(given, "target_session_attrs") != NULL ||
           getenv("PGTARGETSESSIONATTRS") != NULL || (wanted != NULL && strcmp(wanted, "any") != 0);
}

static void set_all(settings *all, const PQconninfoOption *given, const PQconninfoOption *resolved,
                    const char *user_timeout)
{
    set_given(all, given);
    set(all, "client_encoding", "UTF8");
    set_default(all, resolved, "fallback_application_name", "rowlock");
    set_default(all, resolved, "keepalives_idle", "20");
    set_default(all, resolved, "keepalives_interval", "5");
    set_default(all, resolved, "keepalives_count", "3");
    set_default(all, resolved, "tcp_user_timeout", user_timeout);
    if (host_count(resolved) > 1 && !has_wanted_host(given, resolved))
        set(all, "target_session_attrs", "read-write");
}

int pg_connect_start(PGconn **out, const char *address, uint32_t timeout_ms, rowlock_error *err)
{
    PQconninfoOption *given, *resolved;
    settings all = {0};
    char user_timeout[16];

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
    resolved = resolve(given);
    /* It bounds the attempt on each host, too, so that one that is silent leaves time for the next.
     */
    snprintf(user_timeout, sizeof user_timeout, "%u",
             timeout_ms < 1000 ? 1000 : timeout_ms / host_count(resolved));
    set_all(&all, given, resolved, user_timeout);
    *out = PQconnectStartParams(all.keys, all.values, 0);
    PQconninfoFree(given);
    PQconninfoFree(resolved);
    return *out == NULL ? rlk_fail_memory(err) : ROWLOCK_OK;
}
