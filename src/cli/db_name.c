/* SPDX-License-Identifier: MIT
 *
 * What people may see of a database's address: never a user or a password. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

static void name_file(char out[CLI_DB_NAME_SIZE], const char *address)
{
    const char *path = strncmp(address, "sqlite:", 7) == 0 ? address + 7 : address;
    char real[PATH_MAX], shown[4 * PATH_MAX + 1];

    if (realpath(path, real))
        path = real;
    cli_printable(shown, path, strnlen(path, PATH_MAX - 1));
    snprintf(out, CLI_DB_NAME_SIZE, "sqlite:%.*s", CLI_DB_NAME_SIZE - 8, shown);
}

/* Digits, as many as there may be in a port. */
static int is_port(const char *text, size_t n)
{
    return n <= 5 && strspn(text, "0123456789") >= n;
}

/* Is it host[:port][,host[:port]...]/database, with nothing in it that may be of a password? A
 * colon is before a port or in brackets. */
static int is_plain(const char *text, size_t n)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_,:[]/";
    const char *host = text, *end = text + n;

    if (strspn(text, letters) < n)
        return 0;
    while (host < end && *host != '/') {
        const char *colon = host;

        if (*host == '[')
            colon += strcspn(host, "]");
        colon += strcspn(colon, ":,/");
        host = colon < end && *colon == ':' ? colon + 1 + strcspn(colon + 1, ",/") : colon;
        if (host > end)
            host = end;
        if (colon < end && *colon == ':' && !is_port(colon + 1, (size_t)(host - colon - 1)))
            return 0;
        if (host < end && *host == ',')
            host++;
    }
    return 1;
}

/* Up to a '?', after the last '@'. An '@' after the '?' means that either may be of a password. */
static void name_url(char out[CLI_DB_NAME_SIZE], const char *address)
{
    int scheme = (int)strcspn(address, ":");
    const char *rest = address + scheme + 3;
    const char *end = rest + strcspn(rest, "?");

    for (const char *at = strchr(rest, '@'); at && at < end; at = strchr(rest, '@'))
        rest = at + 1;
    if (strchr(end, '@') || !is_plain(rest, (size_t)(end - rest)))
        snprintf(out, CLI_DB_NAME_SIZE, "%.*s://...", scheme, address);
    else
        snprintf(out, CLI_DB_NAME_SIZE, "%.*s://%.*s", scheme, address, (int)(end - rest), rest);
}

/* "host=db dbname=shop": only where no value is quoted or set off by spaces, so that keys are
 * certainly keys. */
static void name_words(char out[CLI_DB_NAME_SIZE], const char *address)
{
    static const char *const keys[] = {"host=", "hostaddr=", "port=", "dbname=", "service="};
    size_t used = (size_t)snprintf(out, CLI_DB_NAME_SIZE, "postgresql:");

    if (strpbrk(address, "'\\") || strstr(address, "= ") || strstr(address, " ="))
        return;
    for (const char *word = address; *word; word += strspn(word, " \t\r\n")) {
        size_t n = strcspn(word, " \t\r\n");

        for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
            if (strncmp(word, keys[i], strlen(keys[i])) == 0 && !memchr(word, '@', n) &&
                used + n + 2 < CLI_DB_NAME_SIZE)
                used +=
                    (size_t)snprintf(out + used, CLI_DB_NAME_SIZE - used, " %.*s", (int)n, word);
        word += n;
    }
}

void cli_db_name(char out[CLI_DB_NAME_SIZE], const char *address, int is_file)
{
    if (is_file)
        name_file(out, address);
    else if (strstr(address, "://"))
        name_url(out, address);
    else
        name_words(out, address);
}
