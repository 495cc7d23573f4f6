/* SPDX-License-Identifier: MIT
 *
 * The owner of a lock when the user names none: host:pid:client:thread, so that a person who looks
 * at the table knows where to go, and nobody else can have the same. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core.h"
#include "random.h"
#include "thread.h"

void rlk_owner_head(char *out, size_t size)
{
    char host[64] = "";
    uint32_t client;

    if (gethostname(host, sizeof host) != 0)
        host[0] = '\0';
    host[sizeof host - 1] = '\0';
    for (char *c = host; *c != '\0'; c++) {
        if (*c <= ' ' || *c > '~')
            *c = '?';
    }
    rlk_random(&client, sizeof client);
    snprintf(out, size, "%s:%ld:%08x", host[0] == '\0' ? "localhost" : host, (long)getpid(),
             client);
}

const char *rlk_owner(const rowlock_client *client, char buffer[ROWLOCK_OWNER_MAX + 1])
{
    if (client->owner != NULL)
        return client->owner;
    snprintf(buffer, ROWLOCK_OWNER_MAX + 1, "%s:t%llu", client->owner_head,
             (unsigned long long)rlk_thread_number());
    return buffer;
}
