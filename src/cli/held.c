/* SPDX-License-Identifier: MIT
 *
 * ROWLOCK_HELD lists what the runs around this one hold, one line each, innermost last:
 *
 *     <fence> <name in hex> <owner>
 *
 * A run re-enters a lock only under an owner found here and only if the fence is the same. The
 * owner is not handed down for other names: two children of one run that want a lock of their own
 * must exclude each other. Theirs is that of the run around them, and what makes it their own:
 * outer/pid.random. So it can be seen that the outer one waits as well (chain.c). */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "cli.h"

#define VARIABLE "ROWLOCK_HELD"

enum { HEX_SIZE = 2 * ROWLOCK_NAME_MAX + 1, LINE_SIZE = HEX_SIZE + ROWLOCK_OWNER_MAX + 64 };

static void to_hex(char out[HEX_SIZE], const char *name)
{
    out[0] = '\0';
    for (size_t i = 0; name[i] && i < ROWLOCK_NAME_MAX; i++)
        sprintf(out + 2 * i, "%02x", (unsigned char)name[i]);
}

/* Whether the line is well-formed and about the name. */
static int read_line(cli_held *out, const char *line, size_t n, const char *hex)
{
    char copy[LINE_SIZE];
    char *fence = copy, *name, *owner;

    if (n >= sizeof(copy))
        return 0;
    memcpy(copy, line, n);
    copy[n] = '\0';
    if (!(name = strchr(fence, ' ')) || !(owner = strchr(name + 1, ' ')))
        return 0;
    *name++ = *owner++ = '\0';
    if (strcmp(name, hex) != 0 || !*owner || strlen(owner) > ROWLOCK_OWNER_MAX)
        return 0;
    out->fence = strtoull(fence, NULL, 10);
    strcpy(out->owner, owner);
    return out->fence > 0;
}

int cli_held_find(cli_held *out, const char *name)
{
    const char *line = getenv(VARIABLE);
    char hex[HEX_SIZE];
    int found = 0;

    to_hex(hex, name);
    while (line && *line) {
        size_t n = strcspn(line, "\n");
        cli_held held;

        if (read_line(&held, line, n, hex)) {
            *out = held;
            found = 1;
        }
        line += n + (line[n] == '\n');
    }
    return found;
}

int cli_held_inner(char out[ROWLOCK_OWNER_MAX + 1])
{
    const char *list = getenv(VARIABLE);
    const char *line = list ? strrchr(list, '\n') : NULL;
    const char *owner = line ? line + 1 : list;
    unsigned number;
    int n;

    for (int i = 0; owner && i < 2; i++)
        owner = (owner = strchr(owner, ' ')) ? owner + 1 : NULL;
    if (!owner || !*owner || getrandom(&number, sizeof(number), 0) != sizeof(number))
        return 0;
    n = snprintf(out, ROWLOCK_OWNER_MAX + 1, "%s/%ld.%08x", owner, (long)getpid(), number);
    return n <= ROWLOCK_OWNER_MAX;
}

int cli_held_export(const cli_held *held, const char *name)
{
    const char *before = getenv(VARIABLE);
    size_t size = (before ? strlen(before) : 0) + LINE_SIZE + 1;
    char hex[HEX_SIZE];
    char *list = malloc(size);
    int result;

    if (!list)
        return -1;
    to_hex(hex, name);
    snprintf(list, size, "%s%s%" PRIu64 " %s %s", before ? before : "",
             before && *before ? "\n" : "", held->fence, hex, held->owner);
    result = setenv(VARIABLE, list, 1);
    free(list);
    return result;
}
