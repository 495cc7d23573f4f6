/* SPDX-License-Identifier: MIT
 *
 * Operations as parameters, one array for each field, and rows of results as their answers. */
#include "pg.h"

#include <stdlib.h>
#include <string.h>

size_t pg_unanswered(const rowlock_op *ops, size_t n)
{
    size_t count = 0;

    for (size_t i = 0; i < n; i++)
        count += ops[i].status == PG_UNANSWERED;
    return count;
}

void pg_ask_all(rowlock_op *ops, size_t n)
{
    for (size_t i = 0; i < n; i++)
        ops[i].status = PG_UNANSWERED;
}

void pg_answer_rest(rowlock_op *ops, size_t n, int status)
{
    for (size_t i = 0; i < n; i++) {
        if (ops[i].status != PG_UNANSWERED)
            continue;
        ops[i].status = status;
        ops[i].remaining_us = 0;
        ops[i].holder_fence = 0;
        ops[i].holder[0] = '\0';
        ops[i].is_queue = 0;
    }
}

int64_t pg_place_of(const rowlock_op *op)
{
    if (op->ticket != 0)
        return (int64_t)op->ticket;
    return op->barge ? 0 : INT64_MAX;
}

static void put_field(pg_params *params, pg_field field, const rowlock_op *op)
{
    switch (field) {
    case PG_FIELD_NAME:
        pg_put_item(params, op->name, op->name_length);
        break;
    case PG_FIELD_OWNER:
    case PG_FIELD_OWNER_BYTES:
        pg_put_item(params, op->owner, strlen(op->owner));
        break;
    case PG_FIELD_NOTE:
        pg_put_item(params, op->note, strlen(op->note));
        break;
    case PG_FIELD_TTL:
        pg_put_item_i64(params, op->ttl_us);
        break;
    case PG_FIELD_FENCE:
        pg_put_item_i64(params, (int64_t)op->fence);
        break;
    case PG_FIELD_ATTEMPT:
        pg_put_item(params, op->attempt, sizeof op->attempt);
        break;
    case PG_FIELD_SEEN:
        pg_put_item(params, op->seen, sizeof op->seen);
        break;
    case PG_FIELD_TICKET:
        pg_put_item_i64(params, (int64_t)op->ticket);
        break;
    case PG_FIELD_PLACE:
        pg_put_item_i64(params, pg_place_of(op));
        break;
    }
}

void pg_start_with(pg_params *params, const rowlock_op *op)
{
    pg_params_clear(params);
    pg_param(params);
    pg_put_bytes(params, op->name, op->name_length);
    pg_param(params);
    pg_put_bytes(params, op->owner, strlen(op->owner));
    pg_param(params);
    pg_put_bytes(params, op->note, strlen(op->note));
    pg_param(params);
    pg_put_i64(params, op->ttl_us);
    pg_param(params);
    pg_put_bytes(params, op->attempt, sizeof op->attempt);
}

void pg_add_release(pg_params *params, const rowlock_op *op, uint64_t bell)
{
    pg_param(params);
    pg_put_bytes(params, op->owner, strlen(op->owner));
    pg_param(params);
    pg_put_i64(params, (int64_t)op->fence);
    pg_param(params);
    pg_put_bytes(params, op->attempt, sizeof op->attempt);
    pg_param(params);
    pg_put_bytes(params, op->seen, sizeof op->seen);
    pg_param(params);
    pg_put_i64(params, (int64_t)bell);
}

uint32_t pg_type_of(pg_field field)
{
    static const uint32_t types[] = {
        [PG_FIELD_NAME] = PG_BYTEA, [PG_FIELD_OWNER] = PG_TEXT,   [PG_FIELD_OWNER_BYTES] = PG_BYTEA,
        [PG_FIELD_NOTE] = PG_TEXT,  [PG_FIELD_TTL] = PG_INT8,     [PG_FIELD_FENCE] = PG_INT8,
        [PG_FIELD_SEEN] = PG_UUID,  [PG_FIELD_ATTEMPT] = PG_UUID, [PG_FIELD_TICKET] = PG_INT8,
        [PG_FIELD_PLACE] = PG_INT8,
    };

    return types[field];
}

void pg_put_fields(pg_params *params, pg_field field, const rowlock_op *ops, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (ops[i].status == PG_UNANSWERED)
            put_field(params, field, &ops[i]);
    }
}

void pg_add_array(pg_params *params, pg_field field, const rowlock_op *ops, size_t n)
{
    pg_param(params);
    pg_put_array(params, pg_type_of(field), pg_unanswered(ops, n));
    pg_put_fields(params, field, ops, n);
}

typedef struct name_key {
    const char *name;
    size_t length;
} name_key;

static int compare_name(const void *key, const void *element)
{
    const name_key *wanted = key;
    const rowlock_op *op = element;
    size_t shorter = wanted->length < op->name_length ? wanted->length : op->name_length;
    int order = memcmp(wanted->name, op->name, shorter);

    if (order != 0)
        return order;
    return (wanted->length > op->name_length) - (wanted->length < op->name_length);
}

rowlock_op *pg_op_of_name(rowlock_op *ops, size_t n, const char *name, size_t length)
{
    name_key key = {name, length};

    return bsearch(&key, ops, n, sizeof *ops, compare_name);
}

rowlock_op *pg_op_of_row(rowlock_op *ops, size_t n, const PGresult *result, int row)
{
    return pg_op_of_name(ops, n, PQgetvalue(result, row, 0), (size_t)PQgetlength(result, row, 0));
}

void pg_busy_seen(rowlock_op *op, const PGresult *result, int row, int holder, int fence,
                  int remaining)
{
    size_t length = (size_t)PQgetlength(result, row, holder);

    if (length > ROWLOCK_OWNER_MAX)
        length = ROWLOCK_OWNER_MAX;
    op->status = ROWLOCK_BUSY;
    op->is_queue = 0;
    op->remaining_us = pg_get_int(result, row, remaining);
    if (op->remaining_us < 0)
        op->remaining_us = 0;
    op->holder_fence = (uint64_t)pg_get_int(result, row, fence);
    if (length > 0) /* of a row that is not there PQgetvalue() is NULL */
        memcpy(op->holder, PQgetvalue(result, row, holder), length);
    op->holder[length] = '\0';
}

void pg_busy_queue(rowlock_op *op, int64_t life_us)
{
    op->status = ROWLOCK_BUSY;
    op->is_queue = 1;
    op->remaining_us = life_us;
    op->holder_fence = 0;
    op->holder[0] = '\0';
}
