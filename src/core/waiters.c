/* SPDX-License-Identifier: MIT
 *
 * Looking at the queue. Waiters are gathered first, so that fn may use the client. */
#include <stdlib.h>
#include <string.h>

#include "core.h"

typedef struct listed_waiter {
    struct listed_waiter *next;
    rowlock_waiter waiter;
    char text[];
} listed_waiter;

typedef struct listing {
    rowlock_list_query query;
    listed_waiter *first, **last;
    int out_of_memory;
} listing;

/* Copies a string, with its NUL, to where *to stands, and moves it on. */
static const char *put(char **to, const char *text, size_t length)
{
    char *copy = *to;

    memcpy(copy, text, length);
    copy[length] = '\0';
    *to += length + 1;
    return copy;
}

static int gather(const rowlock_waiter *waiter, void *payload)
{
    listing *l = payload;
    size_t owner = strlen(waiter->owner);
    size_t holder = waiter->holder == NULL ? 0 : strlen(waiter->holder);
    listed_waiter *copy = malloc(sizeof *copy + waiter->name_length + owner + holder + 3);
    char *to;

    if (copy == NULL) {
        l->out_of_memory = 1;
        return 1;
    }
    to = copy->text;
    copy->next = NULL;
    copy->waiter = *waiter;
    copy->waiter.size = sizeof copy->waiter;
    copy->waiter.name = put(&to, waiter->name, waiter->name_length);
    copy->waiter.owner = put(&to, waiter->owner, owner);
    if (waiter->holder != NULL)
        copy->waiter.holder = put(&to, waiter->holder, holder);
    *l->last = copy;
    l->last = &copy->next;
    return 0;
}

static void forget(listing *l)
{
    while (l->first != NULL) {
        listed_waiter *next = l->first->next;

        free(l->first);
        l->first = next;
    }
    l->last = &l->first;
}

static int do_waiters(rowlock_client *client, void *conn, uint32_t timeout_ms, void *arg,
                      rowlock_error *err)
{
    listing *l = arg;
    int rc;

    forget(l); /* of a try that failed half-way */
    rc = client->driver.waiters(conn, &l->query, gather, l, timeout_ms, err);
    return rc == ROWLOCK_OK && l->out_of_memory ? rlk_fail_memory(err) : rc;
}

int rowlock_waiters(rowlock_client *client, const rowlock_list_options *options,
                    rowlock_waiter_fn fn, void *payload, rowlock_error *err)
{
    listing l = {0};
    rlk_sent sent;
    int rc = fn == NULL ? rlk_fail(err, ROWLOCK_EINVAL, "fn is NULL")
                        : rlk_list_query(&l.query, options, err);

    if (rc == ROWLOCK_OK)
        rc = rlk_enter(client, err);
    if (rc != ROWLOCK_OK)
        return rc;
    l.last = &l.first;
    rc = client->driver.waiters == NULL
             ? rlk_fail(err, ROWLOCK_ENOTSUP, "%s has no queue", client->driver.name)
             : rlk_call(client, client->call_timeout_us, do_waiters, &l, &sent, err);
    for (const listed_waiter *w = l.first; rc == ROWLOCK_OK && w != NULL; w = w->next) {
        if (fn(&w->waiter, payload) != 0)
            break;
    }
    forget(&l);
    rlk_leave(client);
    return rc;
}
