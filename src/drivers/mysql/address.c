/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "my.h"

#define EXAMPLE "mysql://user:password@host:port/database"

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

/* A copy of the n bytes at s with %XX decoded. `what` names the part: its text may be a password.
 */
static int decode(char **out, const char *s, size_t n, const char *what, rowlock_error *err)
{
    char *copy = malloc(n + 1), *to = copy;

    if (copy == NULL)
        return rlk_fail_memory(err);
    for (size_t i = 0; i < n; i++) {
        int high, low;

        if (s[i] != '%') {
            *to++ = s[i];
            continue;
        }
        high = i + 2 < n ? hex_digit(s[i + 1]) : -1;
        low = high >= 0 ? hex_digit(s[i + 2]) : -1;
        if (low < 0 || (high == 0 && low == 0)) {
            free(copy);
            return rlk_fail(err, ROWLOCK_EINVAL,
                            "address: bad %%-escape in the %s (write %% as %%25)", what);
        }
        *to++ = (char)(high * 16 + low);
        i += 2;
    }
    *to = '\0';
    free(*out);
    *out = copy;
    return ROWLOCK_OK;
}

static int parse_port(unsigned *out, const char *s, size_t n, rowlock_error *err)
{
    unsigned port = 0;

    for (size_t i = 0; i < n; i++) {
        if (s[i] < '0' || s[i] > '9' || port > 65535)
            return rlk_fail(err, ROWLOCK_EINVAL, "address: the port is not a number");
        port = port * 10 + (unsigned)(s[i] - '0');
    }
    if (port == 0 || port > 65535)
        return rlk_fail(err, ROWLOCK_EINVAL, "address: the port must be from 1 to 65535");
    *out = port;
    return ROWLOCK_OK;
}

static int parse_user(my_address *out, const char *s, size_t n, rowlock_error *err)
{
    const char *colon = memchr(s, ':', n);
    size_t user = colon != NULL ? (size_t)(colon - s) : n;
    int status = ROWLOCK_OK;

    if (user > 0)
        status = decode(&out->user, s, user, "user", err);
    if (status == ROWLOCK_OK && colon != NULL)
        status = decode(&out->password, colon + 1, n - user - 1, "password", err);
    return status;
}

/* MariaDB's client library takes a host with = in it for a list of options, and one with :// for
 * the name of a plugin. */
static int check_host(const char *host, rowlock_error *err)
{
    for (; host != NULL && *host != '\0'; host++) {
        if ((unsigned char)*host <= ' ' || strchr("=;/@\"'\\", *host) != NULL)
            return rlk_fail(err, ROWLOCK_EINVAL, "address: the host is not a name or address");
    }
    return ROWLOCK_OK;
}

/* host, host:port, [::1]:port, or nothing. */
static int parse_host(my_address *out, const char *s, size_t n, rowlock_error *err)
{
    const char *end = s + n, *stop;
    int status = ROWLOCK_OK;

    if (n > 0 && s[0] == '[') {
        stop = memchr(s, ']', n);
        if (stop == NULL || (stop + 1 < end && stop[1] != ':'))
            return rlk_fail(err, ROWLOCK_EINVAL, "address: the host's ] is missing");
        status = decode(&out->host, s + 1, (size_t)(stop - s - 1), "host", err);
        stop++;
    } else {
        stop = memchr(s, ':', n);
        stop = stop != NULL ? stop : end;
        if (stop > s)
            status = decode(&out->host, s, (size_t)(stop - s), "host", err);
    }
    if (status == ROWLOCK_OK)
        status = check_host(out->host, err);
    if (status == ROWLOCK_OK && stop < end)
        status = parse_port(&out->port, stop + 1, (size_t)(end - stop - 1), err);
    return status;
}

static int parse_ssl_mode(my_address *out, const char *value, rowlock_error *err)
{
    static const char *const modes[] = {"",         "disabled",  "preferred",
                                        "required", "verify_ca", "verify_identity"};

    for (int i = MY_SSL_DISABLED; i <= MY_SSL_VERIFY_IDENTITY; i++) {
        if (strcasecmp(value, modes[i]) == 0) {
            out->ssl_mode = i;
            return ROWLOCK_OK;
        }
    }
    return rlk_fail(err, ROWLOCK_EINVAL,
                    "address: ssl-mode is '%.40s', not disabled, preferred, required, verify_ca or "
                    "verify_identity",
                    value);
}

static int parse_pair(my_address *out, const char *s, size_t n, rowlock_error *err)
{
    struct {
        const char *key;
        char **field;
    } keys[] = {{"socket", &out->socket},
                {"ssl-ca", &out->ssl_ca},
                {"ssl-cert", &out->ssl_cert},
                {"ssl-key", &out->ssl_key}};
    const char *equals = memchr(s, '=', n);
    size_t key = equals != NULL ? (size_t)(equals - s) : n;
    char *value = NULL;
    int status;

    if (equals == NULL)
        return rlk_fail(err, ROWLOCK_EINVAL, "address: '%.*s' has no value (key=value)",
                        key > 40 ? 40 : (int)key, s);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        if (strlen(keys[i].key) == key && memcmp(keys[i].key, s, key) == 0)
            return decode(keys[i].field, equals + 1, n - key - 1, keys[i].key, err);
    }
    if (key != 8 || memcmp(s, "ssl-mode", 8) != 0)
        return rlk_fail(err, ROWLOCK_EINVAL,
                        "address: unknown key '%.*s' (socket, ssl-mode, ssl-ca, ssl-cert, ssl-key)",
                        key > 40 ? 40 : (int)key, s);
    status = decode(&value, equals + 1, n - key - 1, "ssl-mode", err);
    if (status == ROWLOCK_OK)
        status = parse_ssl_mode(out, value, err);
    free(value);
    return status;
}

static int parse_query(my_address *out, const char *s, rowlock_error *err)
{
    while (*s != '\0') {
        size_t n = strcspn(s, "&");
        int status = n > 0 ? parse_pair(out, s, n, err) : ROWLOCK_OK;

        if (status != ROWLOCK_OK)
            return status;
        s += n + (s[n] == '&');
    }
    return ROWLOCK_OK;
}

/* user:password@host:port. The last @ ends the password, in which people forget to encode it. */
static int parse_authority(my_address *out, const char *s, size_t n, rowlock_error *err)
{
    const char *at = memrchr(s, '@', n);
    int status = ROWLOCK_OK;

    if (at != NULL) {
        status = parse_user(out, s, (size_t)(at - s), err);
        n -= (size_t)(at + 1 - s);
        s = at + 1;
    }
    return status == ROWLOCK_OK ? parse_host(out, s, n, err) : status;
}

int my_address_parse(my_address *out, const char *text, rowlock_error *err)
{
    const char *rest, *slash, *query;
    size_t length;
    int status;

    *out = (my_address){0};
    if (strncmp(text, "mysql://", 8) == 0)
        rest = text + 8;
    else if (strncmp(text, "mariadb://", 10) == 0)
        rest = text + 10;
    else
        return rlk_fail(err, ROWLOCK_EINVAL, "address: it must look like " EXAMPLE);
    /* Of a password that is not encoded a part would become the host or the database, and come back
     * in messages. */
    if (strchr(rest + strcspn(rest, "/?"), '@') != NULL)
        return rlk_fail(err, ROWLOCK_EINVAL,
                        "address: write @ / ? and : in a password as %%40 %%2F %%3F and %%3A, and "
                        "@ elsewhere as %%40");
    slash = strchr(rest, '/');
    query = strchr(rest, '?');
    if (slash == NULL || (query != NULL && query < slash))
        return rlk_fail(err, ROWLOCK_EINVAL, "address: the database is missing (" EXAMPLE ")");
    query = query != NULL ? query : rest + strlen(rest);
    length = (size_t)(query - slash - 1);
    if (length == 0)
        return rlk_fail(err, ROWLOCK_EINVAL, "address: the database is missing (" EXAMPLE ")");
    status = parse_authority(out, rest, (size_t)(slash - rest), err);
    if (status == ROWLOCK_OK)
        status = decode(&out->database, slash + 1, length, "database", err);
    if (status == ROWLOCK_OK)
        status = parse_query(out, *query == '?' ? query + 1 : query, err);
    /* Who names an authority wants it to be asked; in Oracle's programs it is so, too. */
    if (out->ssl_mode == MY_SSL_DEFAULT && out->ssl_ca != NULL)
        out->ssl_mode = MY_SSL_VERIFY_CA;
    return status;
}

void my_address_free(my_address *address)
{
    if (address->password != NULL)
        explicit_bzero(address->password, strlen(address->password));
    free(address->user);
    free(address->password);
    free(address->host);
    free(address->database);
    free(address->socket);
    free(address->ssl_ca);
    free(address->ssl_cert);
    free(address->ssl_key);
    *address = (my_address){0};
}
