/* SPDX-License-Identifier: MIT
 *
 * Who asks. The owner of a lock when the user names none: host:pid:client:thread, so that a person
 * who looks at the table knows where to go, and nobody else can have the same. And the attempt: a
 * client's own random bits, and behind them the number of the call, so that of two attempts of a
 * client the later one is larger, byte by byte; asking the kernel for new bits each time cost a
 * twentieth of what a thread does for a lock. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core.h"
#include "random.h"

int rlk_owner_head(char *out, size_t size)
{
    char host[64] = "";
    uint32_t client;
    int rc = rlk_random(&client, sizeof client);

    if (rc != 0)
        return rc;

    if (gethostname(host, sizeof host) != 0)
        host[0] = '\0';
    host[sizeof host - 1] = '\0';
    for (char *c = host; *c != '\0'; c++) {
        if (*c <= ' ' || *c > '~')
            *c = '?';
    }
    snprintf(out, size, "%s:%ld:%08x", host[0] == '\0' ? "localhost" : host, (long)rlk_getpid(),
             client);
    return 0;
}

void rlk_new_attempt(uint8_t out[ROWLOCK_ATTEMPT_SIZE], rowlock_client *client)
{
    uint64_t number = atomic_fetch_add_explicit(&client->attempts, 1, memory_order_relaxed);

    memcpy(out, &client->attempt, sizeof client->attempt);
    for (int i = 0; i < 8; i++)
        out[8 + i] = (uint8_t)((number + 1) >> (56 - 8 * i));
}

const char *rlk_owner(const rowlock_client *client, char buffer[ROWLOCK_OWNER_MAX + 1])
{
    if (client->owner != NULL)
        return client->owner;
    snprintf(buffer, ROWLOCK_OWNER_MAX + 1, "%s:t%llu", client->owner_head,
             (unsigned long long)rlk_thread_number());
    return buffer;
}
