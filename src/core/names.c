/* SPDX-License-Identifier: MIT
 *
 * Several names at once: in order, each once, and which of them stands in the way. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core.h"

int rlk_op_by_name(const rowlock_op *a, const rowlock_op *b)
{
    size_t n = a->name_length < b->name_length ? a->name_length : b->name_length;
    int order = memcmp(a->name, b->name, n);

    return order != 0 ? order
                      : (a->name_length > b->name_length) - (a->name_length < b->name_length);
}

static int by_name(const void *a, const void *b)
{
    const rlk_name *x = a, *y = b;
    int order = memcmp(x->name, y->name, x->length < y->length ? x->length : y->length);

    return order != 0 ? order : (x->length > y->length) - (x->length < y->length);
}

static int sort(rlk_name *names, size_t n, rowlock_error *err)
{
    qsort(names, n, sizeof *names, by_name);
    for (size_t i = 1; i < n; i++) {
        if (by_name(&names[i - 1], &names[i]) == 0)
            return rlk_fail(err, ROWLOCK_EINVAL, "a name is given twice: '%.*s'",
                            (int)names[i].length, names[i].name);
    }
    return ROWLOCK_OK;
}

int rlk_names_sorted(rlk_name **out, const char *const *names, const size_t *lengths, size_t n,
                     rowlock_error *err)
{
    rlk_name *sorted = calloc(n, sizeof *sorted);
    int rc = sorted == NULL ? rlk_fail_memory(err) : ROWLOCK_OK;

    for (size_t i = 0; i < n && rc == ROWLOCK_OK; i++) {
        sorted[i] = (rlk_name){names[i], lengths == NULL ? 0 : lengths[i], i};
        rc = rlk_check_name(names[i], &sorted[i].length, err);
    }
    if (rc == ROWLOCK_OK)
        rc = sort(sorted, n, err);
    if (rc != ROWLOCK_OK) {
        free(sorted);
        sorted = NULL;
    }
    *out = sorted;
    return rc;
}

int rlk_check_names(const char *const *names, size_t n, rowlock_error *err)
{
    if (names == NULL)
        return rlk_fail(err, ROWLOCK_EINVAL, "names is NULL");
    if (n < 1 || n > ROWLOCK_BATCH_MAX)
        return rlk_fail(err, ROWLOCK_EINVAL, "%zu names at once: give 1 to %d", n,
                        ROWLOCK_BATCH_MAX);
    return ROWLOCK_OK;
}

const rowlock_op *rlk_obstacle(const rowlock_op *ops, size_t n)
{
    const rowlock_op *worst = NULL;

    for (size_t i = 0; i < n; i++) {
        const rowlock_op *op = &ops[i];

        if (op->status == ROWLOCK_OK)
            continue;
        if (worst == NULL || worst->holder[0] == '\0' ||
            (op->holder[0] != '\0' && op->remaining_us > worst->remaining_us))
            worst = op;
    }
    return worst;
}

int rlk_report_busy(rowlock_holder *holder, int status, const rowlock_op *op, rowlock_error *err)
{
    const char *still = status == ROWLOCK_TIMEOUT ? "still " : "";
    /* Of a row that a transaction keeps locked the last lease may show, which is over. */
    int is_lease = op->holder[0] != '\0' && op->remaining_us > 0;

    if (holder != NULL)
        memcpy(holder->name, op->name, op->name_length);
    if (holder != NULL && is_lease) {
        snprintf(holder->owner, sizeof holder->owner, "%s", op->holder);
        holder->fence = op->holder_fence;
        holder->remaining_ms = op->remaining_us / 1000;
    }
    if (!is_lease && op->is_queue)
        return rlk_fail_native(err, status, 0, NULL, 1, "%swaited for by others, who come first",
                               still);
    if (!is_lease)
        return rlk_fail_native(err, status, 0, NULL, 1, "%slocked by a transaction", still);
    return rlk_fail_native(err, status, 0, NULL, 1, "%sheld by %.160s for another %lld ms", still,
                           op->holder, (long long)(op->remaining_us / 1000));
}
