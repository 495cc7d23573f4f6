/* SPDX-License-Identifier: MIT
 *
 * Acquiring: one lock or many, at once or after a wait. All memory is had before the first request
 * goes out, so that a grant is never lost for want of it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core.h"
#include "random.h"
#include "text.h"

/* One acquire or adopt call. Slot i of ops, tenures and locks is the i-th name in byte order;
 * order[i] is its place in the caller's array. */
typedef struct acquisition {
    rowlock_client *client;
    rowlock_acquire_options options;
    const char *owner;
    int is_adopted; /* the hold is another's: it is not undone */
    size_t n;
    rowlock_op *ops;
    rlk_tenure **tenures;
    rowlock_lock **locks;
    size_t *order;
    char owner_buffer[ROWLOCK_OWNER_MAX + 1];
} acquisition;

static int check(acquisition *a, rowlock_error *err)
{
    rowlock_acquire_options *options = &a->options;

    if (options->ttl_ms == 0)
        options->ttl_ms = a->client->ttl_us / 1000;
    if (options->note == NULL)
        options->note = "";
    if (options->owner != NULL && rlk_check_owner(options->owner, err) != ROWLOCK_OK)
        return ROWLOCK_EINVAL;
    if (options->wait_ms < 0 && options->wait_ms != ROWLOCK_FOREVER)
        return rlk_fail(err, ROWLOCK_EINVAL,
                        "wait_ms is negative: 0 is one try, ROWLOCK_FOREVER no bound");
    if (!rlk_is_printable(options->note, 0, ROWLOCK_NOTE_MAX))
        return rlk_fail(err, ROWLOCK_EINVAL,
                        "the note is not at most %d bytes of UTF-8 without control characters",
                        ROWLOCK_NOTE_MAX);
    a->owner = options->owner != NULL ? options->owner : rlk_owner(a->client, a->owner_buffer);
    return rlk_check_ttl(options->ttl_ms, err);
}

static void discard(acquisition *a)
{
    for (size_t i = 0; i < a->n; i++) {
        if (a->tenures != NULL)
            free(a->tenures[i]);
        if (a->locks != NULL)
            free(a->locks[i]);
    }
    free(a->ops);
    free(a->tenures);
    free(a->locks);
    free(a->order);
}

static int reserve(acquisition *a)
{
    int room;

    a->ops = calloc(a->n, sizeof *a->ops);
    a->tenures = calloc(a->n, sizeof(rlk_tenure *));
    a->locks = calloc(a->n, sizeof(rowlock_lock *));
    a->order = calloc(a->n, sizeof *a->order);
    if (a->ops == NULL || a->tenures == NULL || a->locks == NULL || a->order == NULL)
        return 0;
    pthread_mutex_lock(&a->client->mutex);
    room = rlk_tenures_reserve(&a->client->tenures, a->n);
    pthread_mutex_unlock(&a->client->mutex);
    return room;
}

typedef struct numbered_name {
    const char *name;
    size_t length, number;
} numbered_name;

static int by_name(const void *a, const void *b)
{
    const numbered_name *x = a, *y = b;
    int order = memcmp(x->name, y->name, x->length < y->length ? x->length : y->length);

    return order != 0 ? order : (x->length > y->length) - (x->length < y->length);
}

/* Fills slot i. Memory for it has been had or is had here. */
static int prepare(acquisition *a, size_t i, const numbered_name *name, uint64_t fence)
{
    rowlock_op *op = &a->ops[i];
    rlk_tenure *tenure = rlk_tenure_new(name->name, name->length, a->owner);

    a->tenures[i] = tenure;
    a->locks[i] = calloc(1, sizeof(rowlock_lock));
    if (tenure == NULL || a->locks[i] == NULL)
        return 0;
    tenure->ttl_us = a->options.ttl_ms * 1000;
    tenure->fence = fence;
    tenure->is_adopted = a->is_adopted != 0;
    rlk_op_of(op, tenure);
    op->note = a->options.note;
    a->order[i] = name->number;
    return 1;
}

static int sort_names(numbered_name *names, size_t n, rowlock_error *err)
{
    qsort(names, n, sizeof *names, by_name);
    for (size_t i = 1; i < n; i++) {
        if (by_name(&names[i - 1], &names[i]) == 0)
            return rlk_fail(err, ROWLOCK_EINVAL, "a name is given twice: '%.*s'",
                            (int)names[i].length, names[i].name);
    }
    return ROWLOCK_OK;
}

static int prepare_all(acquisition *a, const char *const *names, const size_t *lengths,
                       uint64_t fence, rowlock_error *err)
{
    numbered_name *sorted = calloc(a->n, sizeof *sorted);
    int rc = sorted != NULL && reserve(a) ? ROWLOCK_OK : rlk_fail_memory(err);

    for (size_t i = 0; i < a->n && rc == ROWLOCK_OK; i++) {
        sorted[i] = (numbered_name){names[i], lengths == NULL ? 0 : lengths[i], i};
        rc = rlk_check_name(names[i], &sorted[i].length, err);
    }
    if (rc == ROWLOCK_OK)
        rc = sort_names(sorted, a->n, err);
    for (size_t i = 0; i < a->n && rc == ROWLOCK_OK; i++) {
        if (!prepare(a, i, &sorted[i], fence))
            rc = rlk_fail_memory(err);
    }
    free(sorted);
    return rc;
}

static int do_acquire(rowlock_client *client, void *conn, uint32_t timeout_ms, void *arg,
                      rowlock_error *err)
{
    acquisition *a = arg;

    return client->driver.acquire(conn, a->ops, a->n, a->n > 1, timeout_ms, err);
}

/* The op that stands in the way longest; NULL if all were granted. */
static const rowlock_op *obstacle(const acquisition *a)
{
    const rowlock_op *worst = NULL;

    for (size_t i = 0; i < a->n; i++) {
        const rowlock_op *op = &a->ops[i];

        if (op->status == ROWLOCK_OK)
            continue;
        if (worst == NULL || worst->holder[0] == '\0' ||
            (op->holder[0] != '\0' && op->remaining_us > worst->remaining_us))
            worst = op;
    }
    return worst;
}

static int report_busy(const acquisition *a, int status, const rowlock_op *op, rowlock_error *err)
{
    rowlock_holder *holder = a->options.holder;

    if (holder != NULL) {
        memcpy(holder->name, op->name, op->name_length);
        snprintf(holder->owner, sizeof holder->owner, "%s", op->holder);
        holder->fence = op->holder_fence;
        holder->remaining_ms = op->remaining_us / 1000;
    }
    return rlk_fail_native(err, status, 0, NULL, 1, "%sheld by %.160s for another %lld ms",
                           status == ROWLOCK_TIMEOUT ? "still " : "",
                           op->holder[0] == '\0' ? "somebody" : op->holder,
                           (long long)(op->remaining_us / 1000));
}

/* All granted: hand the handles out, unless the answer came so late that the lease is over. */
static int hand_out(acquisition *a, const rlk_sent *sent, rowlock_lock **out, rowlock_error *err)
{
    int64_t now = rlk_clock_us();

    for (size_t i = 0; i < a->n; i++) {
        memcpy(a->ops[i].seen, a->ops[i].attempt, sizeof a->ops[i].seen);
        memcpy(a->tenures[i]->seen, a->ops[i].attempt, sizeof a->tenures[i]->seen);
    }
    for (size_t i = 0; i < a->n; i++) {
        int64_t deadline = rlk_deadline(sent, a->ops[i].remaining_us, a->ops[i].ttl_us);

        if (now >= deadline) {
            if (!a->is_adopted)
                rlk_undo(a->client, a->ops, a->n);
            return rlk_fail_native(err, ROWLOCK_TIMEOUT, 0, NULL, 1,
                                   "the database took so long that the lease of %lld ms had ended",
                                   (long long)a->options.ttl_ms);
        }
        atomic_store(&a->tenures[i]->deadline_us, deadline);
        a->tenures[i]->fence = a->ops[i].fence;
    }
    pthread_mutex_lock(&a->client->mutex);
    for (size_t i = 0; i < a->n; i++) {
        a->locks[i]->client = a->client;
        a->locks[i]->tenure = rlk_tenures_attach(&a->client->tenures, a->tenures[i]);
        a->client->refs++;
        out[a->order[i]] = a->locks[i];
        a->tenures[i] = NULL;
        a->locks[i] = NULL;
    }
    pthread_mutex_unlock(&a->client->mutex);
    return rlk_ok(err);
}

static int acquire(acquisition *a, rowlock_lock **out, rowlock_error *err)
{
    rlk_wait wait;
    int rc;

    rlk_wait_begin(&wait, a->client, a->options.wait_ms, a->options.cancel);
    for (;;) {
        const rowlock_op *busy;
        rlk_sent sent;

        rc = rlk_call(a->client, a->client->call_timeout_us, do_acquire, a, &sent, err);
        if (rc != ROWLOCK_OK)
            return rc;
        busy = obstacle(a);
        if (busy == NULL)
            return hand_out(a, &sent, out, err);
        if (a->options.wait_ms == 0)
            return report_busy(a, ROWLOCK_BUSY, busy, err);
        rc = rlk_wait_next(&wait, busy->remaining_us, err);
        if (rc == ROWLOCK_TIMEOUT)
            return report_busy(a, ROWLOCK_TIMEOUT, busy, err);
        if (rc != ROWLOCK_OK)
            return rc;
    }
}

static int do_adopt(acquisition *a, rowlock_lock **out, rowlock_error *err)
{
    rlk_sent sent;
    int rc = rlk_send_renew(a->client, a->ops, &sent, err);

    if (rc != ROWLOCK_OK)
        return rc;
    if (a->ops[0].status != ROWLOCK_OK)
        return rlk_fail(err, ROWLOCK_LOST, "no live lock of this name, owner and fence");
    return hand_out(a, &sent, out, err);
}

/* What the three public functions share: come in, check, run, clean up, leave. */
static int run(rowlock_lock **out, rowlock_client *client, const char *const *names, size_t n,
               int many, uint64_t fence, const rowlock_acquire_options *options,
               int (*fn)(acquisition *a, rowlock_lock **out, rowlock_error *err),
               rowlock_error *err)
{
    acquisition a = {.client = client, .n = n, .is_adopted = fence != 0};
    int rc =
        rlk_options_copy(&a.options, sizeof a.options, options, "rowlock_acquire_options", err);

    if (rc == ROWLOCK_OK)
        rc = rlk_enter(client, err);
    if (rc != ROWLOCK_OK)
        return rc;
    if (a.options.holder != NULL)
        memset(a.options.holder, 0, sizeof *a.options.holder);
    rc = check(&a, err);
    if (rc == ROWLOCK_OK)
        rc = prepare_all(&a, names, many ? a.options.name_lengths : &a.options.name_length, fence,
                         err);
    if (rc == ROWLOCK_OK)
        rc = fn(&a, out, err);
    discard(&a);
    rlk_leave(client);
    return rc;
}

int rowlock_acquire(rowlock_lock **out, rowlock_client *client, const char *name,
                    const rowlock_acquire_options *options, rowlock_error *err)
{
    if (out == NULL)
        return rlk_fail(err, ROWLOCK_EINVAL, "out is NULL");
    *out = NULL;
    return run(out, client, &name, 1, 0, 0, options, acquire, err);
}

int rowlock_acquire_many(rowlock_lock **out, rowlock_client *client, const char *const *names,
                         size_t n, const rowlock_acquire_options *options, rowlock_error *err)
{
    if (out == NULL)
        return rlk_fail(err, ROWLOCK_EINVAL, "out is NULL");
    for (size_t i = 0; i < n; i++)
        out[i] = NULL;
    if (names == NULL)
        return rlk_fail(err, ROWLOCK_EINVAL, "names is NULL");
    if (n < 1 || n > ROWLOCK_BATCH_MAX)
        return rlk_fail(err, ROWLOCK_EINVAL, "%zu names at once: give 1 to %d", n,
                        ROWLOCK_BATCH_MAX);
    return run(out, client, names, n, 1, 0, options, acquire, err);
}

int rowlock_adopt(rowlock_lock **out, rowlock_client *client, const char *name, uint64_t fence,
                  const rowlock_acquire_options *options, rowlock_error *err)
{
    if (out == NULL)
        return rlk_fail(err, ROWLOCK_EINVAL, "out is NULL");
    *out = NULL;
    if (fence < 1 || fence > INT64_MAX)
        return rlk_fail(err, ROWLOCK_EINVAL, "the fence is not one that rowlock gave");
    return run(out, client, &name, 1, 0, fence, options, do_adopt, err);
}

int rowlock_with(int *out, rowlock_client *client, const char *name,
                 const rowlock_acquire_options *options,
                 int (*fn)(rowlock_lock *lock, void *payload), void *payload, rowlock_error *err)
{
    rowlock_lock *lock = NULL;
    int result;
    int rc = fn == NULL ? rlk_fail(err, ROWLOCK_EINVAL, "fn is NULL")
                        : rowlock_acquire(&lock, client, name, options, err);

    if (rc != ROWLOCK_OK)
        return rc;
    result = fn(lock, payload);
    if (out != NULL)
        *out = result;
    return rowlock_release(&lock, err);
}
