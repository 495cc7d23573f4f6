/* SPDX-License-Identifier: MIT
 *
 * Looking at the table and mending it: list, force_release. */
#include <stdlib.h>
#include <string.h>

#include "core.h"

/* ---- list: a page of rows is gathered first, so that fn may use the client, whose connection is
 * back, and so that no more than a page is in memory ---- */

enum { PAGE = 1000 };

typedef struct listed_row {
    struct listed_row *next;
    rowlock_row row;
    char text[];
} listed_row;

typedef struct listing {
    rowlock_list_query query;
    char after[ROWLOCK_NAME_MAX]; /* the last name of the page before */
    listed_row *first, **last;
    size_t count;
    int is_more; /* there is another page */
    int out_of_memory;
} listing;

/* Is it in a page that was shown? */
static int is_shown(const listing *l, const rowlock_row *row)
{
    size_t n = l->query.after_length < row->name_length ? l->query.after_length : row->name_length;
    int order = l->query.after == NULL ? 1 : memcmp(row->name, l->query.after, n);

    return order < 0 || (order == 0 && row->name_length <= l->query.after_length);
}

static int gather(const rowlock_row *row, void *payload)
{
    listing *l = payload;
    size_t owner = strlen(row->owner) + 1, note = strlen(row->note) + 1;
    listed_row *copy;

    if (is_shown(l, row))
        return 0;
    l->is_more = l->count == PAGE;
    if (l->is_more)
        return 1;
    copy = malloc(sizeof *copy + row->name_length + 1 + owner + note);
    if (copy == NULL) {
        l->out_of_memory = 1;
        return 1;
    }
    copy->next = NULL;
    copy->row = *row;
    copy->row.size = sizeof copy->row;
    memcpy(copy->text, row->name, row->name_length);
    copy->text[row->name_length] = '\0';
    memcpy(copy->text + row->name_length + 1, row->owner, owner);
    memcpy(copy->text + row->name_length + 1 + owner, row->note, note);
    copy->row.name = copy->text;
    copy->row.owner = copy->text + row->name_length + 1;
    copy->row.note = copy->row.owner + owner;
    *l->last = copy;
    l->last = &copy->next;
    l->count++;
    return 0;
}

static void forget(listing *l)
{
    while (l->first != NULL) {
        listed_row *next = l->first->next;

        free(l->first);
        l->first = next;
    }
    l->last = &l->first;
    l->count = 0;
    l->is_more = 0;
}

static int do_list(rowlock_client *client, void *conn, uint32_t timeout_ms, void *arg,
                   rowlock_error *err)
{
    listing *l = arg;
    int rc;

    forget(l); /* of a try that failed half-way */
    rc = client->driver.list(conn, &l->query, gather, l, timeout_ms, err);
    return rc == ROWLOCK_OK && l->out_of_memory ? rlk_fail_memory(err) : rc;
}

int rlk_list_query(rowlock_list_query *out, const rowlock_list_options *options, rowlock_error *err)
{
    rowlock_list_options opts;
    int rc = rlk_options_copy(&opts, sizeof opts, options, "rowlock_list_options", err);

    if (rc == ROWLOCK_OK)
        rc = rlk_check_reserved(opts.reserved, "rowlock_list_options", err);
    if (rc == ROWLOCK_OK && opts.starts_with == NULL && opts.starts_with_length > 0)
        rc = rlk_fail(err, ROWLOCK_EINVAL, "starts_with is NULL, but has a length");
    if (rc != ROWLOCK_OK)
        return rc;
    *out = (rowlock_list_query){.size = sizeof *out,
                                .starts_with = opts.starts_with,
                                .starts_with_length = opts.starts_with_length,
                                .expired = opts.expired};
    if (opts.starts_with != NULL && opts.starts_with_length == 0)
        out->starts_with_length = strlen(opts.starts_with);
    return ROWLOCK_OK;
}

/* 1: fn wants more, and there is more, behind this page. */
static int show_page(listing *l, rowlock_row_fn fn, void *payload)
{
    for (const listed_row *r = l->first; r != NULL; r = r->next) {
        if (fn(&r->row, payload) != 0)
            return 0;
        if (r->next == NULL) {
            memcpy(l->after, r->row.name, r->row.name_length);
            l->query.after = l->after;
            l->query.after_length = r->row.name_length;
        }
    }
    return l->is_more;
}

int rowlock_list(rowlock_client *client, const rowlock_list_options *options, rowlock_row_fn fn,
                 void *payload, rowlock_error *err)
{
    listing l = {0};
    rlk_sent sent;
    int rc = rlk_list_query(&l.query, options, err);

    if (rc == ROWLOCK_OK && fn == NULL)
        rc = rlk_fail(err, ROWLOCK_EINVAL, "fn is NULL");
    if (rc == ROWLOCK_OK)
        rc = rlk_enter(client, err);
    if (rc != ROWLOCK_OK)
        return rc;
    l.last = &l.first;
    do
        rc = rlk_call(client, client->call_timeout_us, do_list, &l, &sent, err);
    while (rc == ROWLOCK_OK && show_page(&l, fn, payload));
    forget(&l);
    rlk_leave(client);
    return rc;
}

/* ---- force_release ---- */

static int do_force(rowlock_client *client, void *conn, uint32_t timeout_ms, void *arg,
                    rowlock_error *err)
{
    return client->driver.force_release(conn, arg, timeout_ms, err);
}

typedef struct fence_query {
    rowlock_list_query query;
    uint64_t fence;
} fence_query;

/* The first row whose name starts so is the one with that very name, if there is one. */
static int take_fence(const rowlock_row *row, void *payload)
{
    fence_query *q = payload;

    if (row->name_length == q->query.starts_with_length)
        q->fence = row->fence;
    return 1;
}

static int do_find_fence(rowlock_client *client, void *conn, uint32_t timeout_ms, void *arg,
                         rowlock_error *err)
{
    fence_query *q = arg;

    return client->driver.list(conn, &q->query, take_fence, q, timeout_ms, err);
}

/* Whose tenure is it now? 0 if nobody holds it. */
static int find_fence(uint64_t *out, rowlock_client *client, const rowlock_op *op,
                      int64_t deadline_us, rowlock_error *err)
{
    fence_query q = {.query = {.size = sizeof q.query,
                               .starts_with = op->name,
                               .starts_with_length = op->name_length}};
    rlk_sent sent;
    int rc = rlk_call(client, rlk_bound(client, deadline_us), do_find_fence, &q, &sent, err);

    *out = q.fence;
    return rc;
}

int rowlock_force_release(rowlock_client *client, const char *name,
                          const rowlock_force_options *options, rowlock_error *err)
{
    rowlock_force_options opts;
    rowlock_op op = {.name = name, .owner = "", .note = ""};
    rlk_sent sent;
    int64_t deadline;
    int rc = rlk_options_copy(&opts, sizeof opts, options, "rowlock_force_options", err);

    if (rc == ROWLOCK_OK)
        rc = rlk_enter(client, err);
    if (rc != ROWLOCK_OK)
        return rc;
    deadline = rlk_clock_us() + client->call_timeout_us;
    op.name_length = opts.name_length;
    op.fence = opts.fence;
    rlk_new_attempt(op.attempt, client);
    rc = rlk_check_name(name, &op.name_length, err);
    if (rc == ROWLOCK_OK && opts.fence > INT64_MAX)
        rc = rlk_fail(err, ROWLOCK_EINVAL, "the fence is not one that rowlock gave");
    /* Always one certain tenure: a request for any that is repeated, or arrives late, would end the
     * successor's. */
    if (rc == ROWLOCK_OK && opts.fence == 0)
        rc = find_fence(&op.fence, client, &op, deadline, err);
    if (rc == ROWLOCK_OK && op.fence != 0)
        rc = rlk_call(client, rlk_bound(client, deadline), do_force, &op, &sent, err);
    /* A repeated request that finds the tenure gone has done its work, or somebody else has. */
    if (rc == ROWLOCK_OK && (op.fence == 0 || (op.status != ROWLOCK_OK && !sent.repeated)))
        rc = rlk_fail(err, ROWLOCK_LOST,
                      opts.fence == 0 ? "nobody holds it" : "nobody holds it with this fence");
    rlk_leave(client);
    return rc;
}
