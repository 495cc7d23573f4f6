/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "view.h"

typedef struct reading {
    cli_view *view;
    const char *name; /* that one alone; NULL: all */
} reading;

int cli_view_is(const char *name, size_t n, const char *wanted)
{
    return !wanted || (strlen(wanted) == n && memcmp(wanted, name, n) == 0);
}

/* Bytes, which may have NULs among them, and a NUL behind. */
static char *bytes_copy(const char *bytes, size_t n)
{
    char *copy = malloc(n + 1);

    if (copy) {
        memcpy(copy, bytes, n);
        copy[n] = '\0';
    }
    return copy;
}

/* Room for one more of `size` bytes, or NULL. */
static void *grown(void *items, size_t count, size_t *room, size_t size)
{
    void *larger;

    if (count < *room)
        return items;
    larger = realloc(items, (*room ? 2 * *room : 64) * size);
    if (larger)
        *room = *room ? 2 * *room : 64;
    return larger;
}

static int add_lock(const rowlock_row *row, void *payload)
{
    reading *r = payload;
    cli_view *v = r->view;
    cli_lock *locks = grown(v->locks, v->lock_count, &v->lock_room, sizeof(*locks));
    cli_lock *lock;

    if (!locks) {
        v->failed = 1;
        return 1;
    }
    v->locks = locks;
    if (!cli_view_is(row->name, row->name_length, r->name))
        return 0;
    lock = &locks[v->lock_count++];
    *lock = (cli_lock){.name = bytes_copy(row->name, row->name_length),
                       .name_length = row->name_length,
                       .owner = strdup(row->owner),
                       .note = strdup(row->note),
                       .fence = row->fence,
                       .count = row->hold_count,
                       .held_ms = row->held_ms,
                       .left_ms = row->remaining_ms};
    v->failed = !lock->name || !lock->owner || !lock->note;
    return v->failed;
}

static int same_name(const char *a, size_t a_length, const char *b, size_t b_length)
{
    return a_length == b_length && memcmp(a, b, a_length) == 0;
}

static int add_waiter(const rowlock_waiter *waiter, void *payload)
{
    reading *r = payload;
    cli_view *v = r->view;
    cli_waiter *waiters = grown(v->waiters, v->waiter_count, &v->waiter_room, sizeof(*waiters));
    cli_waiter *last, *added;

    if (!waiters) {
        v->failed = 1;
        return 1;
    }
    v->waiters = waiters;
    added = &waiters[v->waiter_count++];
    *added = (cli_waiter){.name = bytes_copy(waiter->name, waiter->name_length),
                          .name_length = waiter->name_length,
                          .owner = strdup(waiter->owner),
                          .holder = waiter->holder ? strdup(waiter->holder) : NULL,
                          .ticket = waiter->ticket,
                          .place = 1,
                          .waited_ms = waiter->waited_ms};
    v->failed = !added->name || !added->owner || (waiter->holder && !added->holder);
    last = v->waiter_count > 1 ? added - 1 : NULL;
    if (!v->failed && last &&
        same_name(last->name, last->name_length, added->name, added->name_length))
        added->place = last->place + 1;
    return v->failed;
}

/* By bytes, as the database orders names. */
static int compare_names(const char *a, size_t a_length, const char *b, size_t b_length)
{
    int order = memcmp(a, b, a_length < b_length ? a_length : b_length);

    return order ? order : (a_length > b_length) - (a_length < b_length);
}

/* Both are in the same order. A lock that nobody holds may be waited for without being listed. */
static void count_waiters(cli_view *v)
{
    cli_lock *lock = v->locks, *end = v->locks + v->lock_count;

    for (size_t i = 0; i < v->waiter_count && lock < end;) {
        const cli_waiter *w = &v->waiters[i];
        int order = compare_names(lock->name, lock->name_length, w->name, w->name_length);

        lock->waiters += order == 0;
        lock += order < 0;
        i += order >= 0;
    }
}

static int compare_by_name(const void *a, const void *b)
{
    const cli_lock *left = a, *right = b;

    return compare_names(left->name, left->name_length, right->name, right->name_length);
}

static int compare_by_time(const void *a, const void *b)
{
    const cli_lock *left = a, *right = b;

    if (left->left_ms != right->left_ms)
        return left->left_ms < right->left_ms ? -1 : 1;
    return compare_by_name(a, b);
}

void cli_view_sort(cli_view *v, enum cli_order order)
{
    if (v->lock_count > 0)
        qsort(v->locks, v->lock_count, sizeof(*v->locks),
              order == CLI_BY_TIME ? compare_by_time : compare_by_name);
}

cli_changes cli_view_changes(const cli_view *before, const cli_view *now)
{
    const cli_lock *old = before->locks, *old_end = old + before->lock_count;
    const cli_lock *new = now->locks, *new_end = new + now->lock_count;
    cli_changes c = {0, 0};

    while (old < old_end || new < new_end) {
        int order = old == old_end ? 1 : new == new_end ? -1 : compare_by_name(old, new);
        int is_other = order != 0 || old->fence != new->fence;
        int was_held = order <= 0 && old->left_ms > 0;
        int is_held = order >= 0 && new->left_ms > 0;

        c.granted += order >= 0 && is_other;
        /* one that came and went between the two looks counts, too */
        c.freed += (was_held && (is_other || !is_held)) || (order >= 0 && is_other && !is_held);
        old += order <= 0;
        new += order >= 0;
    }
    return c;
}

/* A driver without a queue has no waiters to show. */
static int read_all(reading *r, rowlock_client *client, int flags, rowlock_error *err)
{
    rowlock_list_options options = ROWLOCK_LIST_OPTIONS_INIT;
    rowlock_list_options all = ROWLOCK_LIST_OPTIONS_INIT;
    int status = ROWLOCK_OK;

    options.starts_with = r->name;
    options.expired = (flags & CLI_VIEW_FREE) != 0;
    if (!(flags & CLI_VIEW_WAITERS))
        status = rowlock_list(client, &options, add_lock, r, err);
    if (status == ROWLOCK_OK && !r->view->failed)
        status = rowlock_waiters(client, &all, add_waiter, r, err);
    return status == ROWLOCK_ENOTSUP ? ROWLOCK_OK : status;
}

int cli_view_try(cli_view *v, rowlock_client *client, const char *name, int flags,
                 rowlock_error *err)
{
    reading r = {v, name};
    int status;

    *v = (cli_view){.locks = NULL};
    status = read_all(&r, client, flags, err);
    if (status == ROWLOCK_OK && v->failed)
        status = err->status = ROWLOCK_ENOMEM;
    if (status == ROWLOCK_OK)
        count_waiters(v);
    return status;
}

int cli_view_read(cli_view *v, rowlock_client *client, const char *name, int flags)
{
    rowlock_error err;

    return cli_view_try(v, client, name, flags, &err) == ROWLOCK_OK ? CLI_GO_ON : cli_fail(&err);
}

void cli_view_end(cli_view *v)
{
    for (size_t i = 0; i < v->lock_count; i++) {
        free(v->locks[i].name);
        free(v->locks[i].owner);
        free(v->locks[i].note);
    }
    for (size_t i = 0; i < v->waiter_count; i++) {
        free(v->waiters[i].name);
        free(v->waiters[i].owner);
        free(v->waiters[i].holder);
    }
    free(v->locks);
    free(v->waiters);
    *v = (cli_view){.locks = NULL};
}

/* ---- owners ---------------------------------------------------------------------------------- */

/* Cuts the last part off, of at least one of these letters. NULL if it is not like that. */
static char *cut_part(char *owner, const char *head, const char *letters)
{
    char *colon = strrchr(owner, ':');
    size_t n = strlen(head);

    if (!colon || strncmp(colon + 1, head, n) != 0 || !colon[1 + n] ||
        colon[1 + n + strspn(colon + 1 + n, letters)])
        return NULL;
    *colon = '\0';
    return colon + 1 + n;
}

/* That of a run inside another (held.c) has the host of the outer one, and a process id behind. */
void cli_process_of(cli_process *out, const char *owner)
{
    static const char digits[] = "0123456789";
    const char *pid, *inner = strrchr(owner, '/');
    size_t n = strcspn(owner, "/");

    snprintf(out->host, sizeof(out->host), "%.*s", (int)n, owner);
    out->pid = 0;
    if (cut_part(out->host, "t", digits) && cut_part(out->host, "", "0123456789abcdef") &&
        (pid = cut_part(out->host, "", digits)) != NULL)
        out->pid = strtoull(inner ? inner + 1 : pid, NULL, 10);
    if (out->pid == 0)
        out->host[0] = '\0';
}
