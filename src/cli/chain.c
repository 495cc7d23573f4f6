/* SPDX-License-Identifier: MIT
 *
 * Who blocks whom. A thread waits for one thing at a time, or for several names at once, under one
 * ticket: then there are several ways to go on. */
#include <stdlib.h>
#include <string.h>

#include "view.h"

static int compare(const void *a, const void *b)
{
    const cli_waiter *const *left = a, *const *right = b;

    return strcmp((*left)->owner, (*right)->owner);
}

int cli_chains_start(cli_chains *c, const cli_view *view)
{
    size_t n = view->waiter_count;

    *c = (cli_chains){.view = view};
    c->by_owner = calloc(n + 1, sizeof(void *));
    c->steps = calloc(n + 1, sizeof(void *));
    if (!c->by_owner || !c->steps)
        return -1;
    for (size_t i = 0; i < n; i++)
        c->by_owner[i] = &view->waiters[i];
    qsort(c->by_owner, n, sizeof(void *), compare);
    return 0;
}

void cli_chains_end(cli_chains *c)
{
    free(c->by_owner);
    free(c->steps);
    *c = (cli_chains){.view = NULL};
}

/* Whether `owner` is that one, or a run inside a run of that one (held.c), which has both wait. */
static int belongs_to(const char *owner, const char *outer)
{
    size_t n = strlen(outer);

    if (strncmp(owner, outer, n) != 0)
        return 0;
    return owner[n] == '\0' ||
           (owner[n] == '/' && owner[n + strspn(owner + n, "/.0123456789abcdef")] == '\0');
}

/* The first waiter whose owner is that one or comes after it; the number of all if there is none.
 */
static size_t first_of(const cli_chains *c, const char *owner)
{
    size_t low = 0, high = c->view->waiter_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (strcmp(c->by_owner[middle]->owner, owner) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static int has_been(const cli_chains *c, const char *owner)
{
    for (size_t i = 0; i < c->count; i++)
        if (belongs_to(c->steps[i]->owner, owner))
            return 1;
    return 0;
}

/* What an owner waits for and somebody holds: the n-th of them, or NULL. */
static const cli_waiter *wait_of(const cli_chains *c, const char *owner, size_t n)
{
    for (size_t i = first_of(c, owner); i < c->view->waiter_count; i++) {
        if (strncmp(c->by_owner[i]->owner, owner, strlen(owner)) != 0)
            return NULL;
        if (belongs_to(c->by_owner[i]->owner, owner) && c->by_owner[i]->holder && n-- == 0)
            return c->by_owner[i];
    }
    return NULL;
}

/* Goes on from the last step, always by the `branch`-th way where there are several. */
static void walk(cli_chains *c, size_t branch)
{
    for (;;) {
        const char *holder = c->steps[c->count - 1]->holder;
        const cli_waiter *next;

        if (!holder)
            return;
        if (has_been(c, holder)) {
            c->deadlock = 1;
            return;
        }
        next = wait_of(c, holder, branch);
        if (!next)
            next = wait_of(c, holder, 0);
        if (!next)
            return;
        c->steps[c->count++] = next;
    }
}

void cli_chains_follow(cli_chains *c, const cli_waiter *from)
{
    enum { BRANCHES = 8 }; /* more names at once than anybody waits for */

    for (size_t branch = 0; branch < BRANCHES; branch++) {
        c->deadlock = 0;
        c->steps[0] = from;
        c->count = 1;
        walk(c, branch);
        if (c->deadlock)
            return;
    }
    c->count = 1;
    walk(c, 0);
}
