/* SPDX-License-Identifier: MIT
 *
 * Names of hosts as addresses, since libpq would look them up without regard to our deadline. It is
 * given both: the address to connect to, and the name for certificates and passwords. A name with
 * several addresses becomes several hosts. */
#include "pg.h"

#include <string.h>

#include "clock.h"
#include "resolve.h"

static int item_count(const char *list)
{
    int n = 1;

    for (; *list != '\0'; list++)
        n += *list == ',';
    return n;
}

/* Moves *list behind its first item, which is answered with its length. */
static const char *next_item(const char **list, size_t *length)
{
    const char *item = *list;

    *length = strcspn(item, ",");
    *list = item + *length + (item[*length] == ',');
    return item;
}

static void add(rlk_text *list, int is_first, const char *item, size_t length)
{
    if (!is_first)
        rlk_text_add(list, ",", 1);
    rlk_text_add(list, item, length);
}

static void add_host(pg_hosts *out, const char *name, const char *address, const char *port,
                     size_t port_length)
{
    add(&out->names, out->count == 0, name, strlen(name));
    add(&out->addresses, out->count == 0, address, strlen(address));
    add(&out->ports, out->count == 0, port, port_length);
    out->count++;
}

/* Folders of sockets, and addresses, are no names. */
static int is_name(const char *host)
{
    return host[0] != '\0' && host[0] != '/' && host[0] != '@' && !rlk_is_address(host);
}

/* Several share the time that is left. */
static int64_t share_of(int64_t deadline, int hosts_left)
{
    int64_t now = rlk_clock_us();

    return now + (deadline - now) / hosts_left;
}

static int has_names(const char *hosts)
{
    char host[RLK_HOST_MAX + 1];
    size_t length;

    while (*hosts != '\0') {
        const char *item = next_item(&hosts, &length);

        if (length >= sizeof host)
            return 0;
        memcpy(host, item, length);
        host[length] = '\0';
        if (is_name(host))
            return 1;
    }
    return 0;
}

int pg_find_hosts(pg_hosts *out, const char *hosts, const char *ports, int64_t deadline,
                  rowlock_error *err)
{
    int left = item_count(hosts), has_ports = item_count(ports) > 1;
    const char *port = ports, *why = NULL;
    size_t port_length = strlen(ports), length;
    char host[RLK_HOST_MAX + 1] = "";

    /* Lists that do not fit together are for libpq to refuse. */
    if (!has_names(hosts) || (has_ports && item_count(ports) != left))
        return ROWLOCK_OK;
    for (; left > 0; left--) {
        const char *item = next_item(&hosts, &length), *failure = NULL;
        rlk_addresses found = {.count = 1};

        if (has_ports)
            port = next_item(&ports, &port_length);
        if (length >= sizeof host)
            continue;
        memcpy(host, item, length);
        host[length] = '\0';
        if (is_name(host))
            failure = rlk_resolve(&found, host, share_of(deadline, left));
        for (int i = 0; failure == NULL && i < found.count; i++)
            add_host(out, host, found.text[i], port, port_length);
        why = failure != NULL ? failure : why;
    }
    if (out->count == 0)
        return rlk_fail_native(err, ROWLOCK_ECONNECT, 0, NULL, 1, "cannot connect to %s: %s", host,
                               why == NULL ? "no such host" : why);
    if (out->names.failed || out->addresses.failed || out->ports.failed)
        return rlk_fail_memory(err);
    return ROWLOCK_OK;
}

void pg_hosts_free(pg_hosts *hosts)
{
    rlk_text_free(&hosts->names);
    rlk_text_free(&hosts->addresses);
    rlk_text_free(&hosts->ports);
}
