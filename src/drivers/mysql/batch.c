/* SPDX-License-Identifier: MIT */
#include "batch.h"

#include <string.h>

enum { PACKET_SPARE = 16384 }; /* the statements around the batch */

#define PATIENCE_US    ((int64_t)100000)
#define FIRST_PAUSE_US ((int64_t)500)
#define LAST_PAUSE_US  ((int64_t)16000)

static void add_hex(rlk_text *json, const void *bytes, size_t n)
{
    rlk_text_str(json, ",\"");
    rlk_text_hex(json, bytes, n);
    rlk_text_str(json, "\"");
}

static void add_int(rlk_text *json, int64_t number)
{
    rlk_text_str(json, ",");
    rlk_text_int(json, number);
}

/* Zeroes stand for any attempt: sent as nothing. */
static size_t seen_size(const rowlock_op *op)
{
    static const uint8_t any[ROWLOCK_ATTEMPT_SIZE];

    return memcmp(op->seen, any, sizeof any) == 0 ? 0 : sizeof op->seen;
}

my_value my_name_of(const rowlock_op *op)
{
    return (my_value){.bytes = op->name, .length = op->name_length};
}

my_value my_owner_of(const rowlock_op *op)
{
    return (my_value){.bytes = op->owner, .length = strlen(op->owner)};
}

my_value my_attempt_of(const rowlock_op *op)
{
    return (my_value){.bytes = op->attempt, .length = sizeof op->attempt};
}

my_value my_seen_of(const rowlock_op *op)
{
    return (my_value){.bytes = op->seen, .length = seen_size(op)};
}

my_value my_note_of(const rowlock_op *op)
{
    const char *note = op->note != NULL ? op->note : "";

    return (my_value){.bytes = note, .length = strlen(note)};
}

my_value my_value_of(int64_t number)
{
    return (my_value){.number = number};
}

int64_t my_upto(const rowlock_op *op)
{
    if (op->ticket != 0)
        return (int64_t)op->ticket;
    return op->barge ? 0 : INT64_MAX;
}

static void add_op(rlk_text *json, const rowlock_op *op, size_t index)
{
    const char *note = op->note != NULL ? op->note : "";

    rlk_text_str(json, json->length > 2 ? ",[\"" : "[\"");
    rlk_text_hex(json, op->name, op->name_length);
    rlk_text_str(json, "\"");
    add_hex(json, op->owner, strlen(op->owner));
    add_hex(json, op->attempt, sizeof op->attempt);
    add_int(json, (int64_t)op->fence);
    add_int(json, op->ttl_us);
    add_hex(json, op->seen, seen_size(op));
    add_hex(json, note, strlen(note));
    add_int(json, (int64_t)index);
    add_int(json, (int64_t)op->ticket);
    add_int(json, my_upto(op));
    rlk_text_str(json, "]");
}

/* Puts the open ops from *from on into conn->json, as many as one packet takes, and moves *from.
 * How many there are. */
static size_t add_ops(my_conn *conn, const rowlock_op *ops, size_t n, size_t *from)
{
    size_t count = 0, room = conn->packet_max > PACKET_SPARE ? conn->packet_max - PACKET_SPARE : 0;

    rlk_text_clear(&conn->json);
    rlk_text_str(&conn->json, "'[");
    for (; *from < n && !conn->json.failed; ++*from) {
        size_t before = conn->json.length;

        if (ops[*from].status != STATUS_OPEN)
            continue;
        add_op(&conn->json, &ops[*from], *from);
        if (conn->json.length > room && count > 0 && !conn->json.failed) {
            conn->json.length = before;
            break;
        }
        count++;
    }
    rlk_text_str(&conn->json, "]'");
    return count;
}

static void set_begin(my_conn *conn, int all)
{
    const char *literals[] = {conn->json.failed ? "NULL" : conn->json.data, all ? "1" : "0"};

    my_start(conn);
    my_add(conn, SQL_BEGIN, literals, 2);
}

void my_begin_none(my_conn *conn)
{
    rlk_text_clear(&conn->json);
    rlk_text_str(&conn->json, "'[]'");
    set_begin(conn, 0);
}

void my_step_add(my_step *step, enum sql_statement which, const char *literal)
{
    step->parts[step->count++] = (my_part){which, literal};
}

static void add_parts(my_conn *conn, const my_step *step)
{
    for (size_t i = 0; i < step->count; i++) {
        const my_part *part = &step->parts[i];

        my_add(conn, part->which, &part->literal, part->literal != NULL);
    }
}

static void read_rows(my_conn *conn, MYSQL_RES *result, rowlock_op *ops, size_t n,
                      my_read_fn read_row)
{
    MYSQL_ROW row;

    while (result != NULL && read_row != NULL && (row = mysql_fetch_row(result)) != NULL) {
        size_t index = (size_t)my_int(row[0]);

        if (index < n)
            read_row(conn, &ops[index], row, mysql_fetch_lengths(result));
    }
    mysql_free_result(result);
}

/* The variables of one op, and START TRANSACTION. */
static void add_one(my_conn *conn, const rowlock_op *op)
{
    const my_value values[] = {my_name_of(op),          my_owner_of(op),
                               my_attempt_of(op),       my_value_of(op->ttl_us),
                               my_note_of(op),          my_value_of((int64_t)op->ticket),
                               my_value_of(my_upto(op))};

    my_add_values(conn, SQL_BEGIN_ONE, values, sizeof values / sizeof *values);
}

int my_run_one(my_conn *conn, const my_step *step, rowlock_op *op, int64_t deadline,
               rowlock_error *err)
{
    my_start(conn);
    return my_run_started(conn, step, op, deadline, err);
}

int my_run_started(my_conn *conn, const my_step *step, rowlock_op *op, int64_t deadline,
                   rowlock_error *err)
{
    MYSQL_RES *result = NULL;
    int status;

    add_one(conn, op);
    add_parts(conn, step);
    status = my_run(conn, deadline, &result, err);
    if (status == ROWLOCK_OK)
        read_rows(conn, result, op, 1, step->read_row);
    return status;
}

static int run_batch(my_conn *conn, const my_step *step, rowlock_op *ops, size_t n, int all,
                     int64_t deadline, rowlock_error *err)
{
    MYSQL_RES *result = NULL;
    int status;

    set_begin(conn, all);
    add_parts(conn, step);
    status = my_run(conn, deadline, &result, err);
    if (status == ROWLOCK_OK)
        read_rows(conn, result, ops, n, step->read_row);
    return status;
}

int my_run_open(my_conn *conn, const my_step *step, rowlock_op *ops, size_t n, int64_t deadline,
                rowlock_error *err)
{
    int packets = 0, status = ROWLOCK_OK;

    for (size_t from = 0; from < n && status == ROWLOCK_OK; packets++) {
        if (add_ops(conn, ops, n, &from) == 0)
            break;
        status = run_batch(conn, step, ops, n, 0, deadline, err);
    }
    return status != ROWLOCK_OK && packets > 1 ? my_fail_partly(conn, err) : status;
}

int my_fail_partly(my_conn *conn, rowlock_error *err)
{
    conn->dead = 1;
    return rlk_fail_native(err, ROWLOCK_EUNKNOWN, 0, NULL, 1,
                           "a part of the batch was done, then the server failed");
}

int my_run_whole(my_conn *conn, const my_step *step, rowlock_op *ops, size_t n, int all,
                 int64_t deadline, rowlock_error *err)
{
    size_t from = 0;

    if (add_ops(conn, ops, n, &from) < n && !conn->json.failed)
        return rlk_fail(err, ROWLOCK_EINVAL,
                        "%zu names do not fit into one request of %zu bytes: acquire fewer at "
                        "once, or raise max_allowed_packet",
                        n, conn->packet_max);
    return run_batch(conn, step, ops, n, all, deadline, err);
}

void my_set_status(rowlock_op *ops, size_t n, int from, int to)
{
    for (size_t i = 0; i < n; i++) {
        if (from == 0 || ops[i].status == from)
            ops[i].status = to;
    }
}

size_t my_count_status(const rowlock_op *ops, size_t n, int status)
{
    size_t count = 0;

    for (size_t i = 0; i < n; i++)
        count += ops[i].status == status;
    return count;
}

void my_clear_answer(rowlock_op *op)
{
    op->hold_count = 0;
    op->remaining_us = 0;
    op->holder_fence = 0;
    op->holder[0] = '\0';
    op->is_queue = 0;
}

void my_set_taken(rowlock_op *op, uint64_t fence, int64_t remaining_us)
{
    op->fence = fence;
    op->hold_count = 1;
    op->remaining_us = remaining_us;
    op->status = ROWLOCK_OK;
}

void my_start_call(rowlock_op *ops, size_t n)
{
    my_client_enter();
    for (size_t i = 0; i < n; i++) {
        my_clear_answer(&ops[i]);
        ops[i].status = STATUS_OPEN;
    }
}

my_patience my_patience_start(int64_t deadline)
{
    int64_t until = rlk_clock_us() + PATIENCE_US;

    return (my_patience){until < deadline ? until : deadline, FIRST_PAUSE_US};
}

int my_patience_pause(my_patience *patience)
{
    int64_t until = rlk_clock_us() + patience->pause_us;

    if (until >= patience->until)
        return 0;
    rlk_sleep_until(until, NULL, 0);
    patience->pause_us *= 2;
    if (patience->pause_us > LAST_PAUSE_US)
        patience->pause_us = LAST_PAUSE_US;
    return 1;
}
