/* SPDX-License-Identifier: MIT
 *
 * The usual cases of one lock: one statement. What came of it is in the server's OK, so that
 * nothing is read. */
#include "queue.h"

/* Marks last for seconds: when this has passed it is found out anew. */
#define MARKED_US INT64_C(1000000)

/* After a transaction of the application's the session is to be set up again first. And no
 * transaction may be open, in which a statement would not be its own. */
int my_is_direct(const my_conn *conn)
{
    return !conn->foreign && !my_has_transaction(conn->mysql);
}

static void add_acquire_marked(my_conn *conn, const rowlock_op *op)
{
    const my_value name = my_name_of(op), owner = my_owner_of(op), attempt = my_attempt_of(op),
                   note = my_note_of(op), ttl = my_value_of(op->ttl_us),
                   upto = my_value_of(my_upto(op));
    const my_value insert[] = {ttl,  name, owner, attempt, attempt,
                               name, upto, owner, attempt, note};
    const my_value update[] = {owner, attempt, note,    ttl,  name,
                               owner, attempt, attempt, name, upto};

    if (!my_is_maria(conn)) {
        my_add_values(conn, SQL_ACQUIRE_MARKED, insert, sizeof insert / sizeof *insert);
        return;
    }
    my_add(conn, SQL_NO_WAIT, NULL, 0);
    my_add_often(conn, SQL_ACQUIRE_MARKED_UPDATE, update, sizeof update / sizeof *update);
}

static void add_acquire(my_conn *conn, const rowlock_op *op)
{
    const my_value name = my_name_of(op), owner = my_owner_of(op), attempt = my_attempt_of(op),
                   note = my_note_of(op), ttl = my_value_of(op->ttl_us);
    const my_value insert[] = {ttl, name, owner, attempt, attempt, owner, attempt, note};
    const my_value update[] = {owner, attempt, note, ttl, name, owner, attempt, attempt};

    if (!my_is_maria(conn)) {
        my_add_values(conn, SQL_ACQUIRE_FREE, insert, sizeof insert / sizeof *insert);
        return;
    }
    my_add(conn, SQL_NO_WAIT, NULL, 0);
    my_add_often(conn, SQL_ACQUIRE_FREE_UPDATE, update, sizeof update / sizeof *update);
}

static void add_release(my_conn *conn, const rowlock_op *op)
{
    const my_value attempt = my_attempt_of(op), seen = my_seen_of(op);
    const my_value values[] = {
        attempt, my_name_of(op), my_owner_of(op), my_value_of((int64_t)op->fence), attempt, seen,
        seen};

    my_add_often(conn, SQL_RELEASE_ONE, values, sizeof values / sizeof *values);
}

static void read_acquire(rowlock_op *op, const my_told *told)
{
    if (told->changed > 0 && told->number > 0)
        my_set_taken(op, told->number, op->ttl_us);
}

static void read_release(rowlock_op *op, const my_told *told)
{
    if (told->changed == 0 || told->number == 0)
        return;
    op->hold_count = (uint32_t)(told->number - 1);
    op->status = ROWLOCK_OK;
}

/* The first statement was done, and the one behind it refused. */
static int has_done(const my_conn *conn, int status)
{
    return status == ROWLOCK_EDRIVER && conn->told_count > 0 && conn->told[0].changed > 0;
}

int my_is_locked(int status, const rowlock_error *err)
{
    enum { LOCK_TIMEOUT = 1205, LOCKED = 3572 };

    return status == ROWLOCK_EDRIVER &&
           (err->native_code == LOCK_TIMEOUT || err->native_code == LOCKED);
}

static int take_free(my_conn *conn, rowlock_op *op, int is_marked, int64_t deadline,
                     rowlock_error *err)
{
    rowlock_error own = {0};
    int status;

    my_start(conn);
    if (is_marked)
        add_acquire_marked(conn, op);
    else
        add_acquire(conn, op);
    status = my_run(conn, deadline, NULL, &own);
    if (my_is_locked(status, &own))
        return ROWLOCK_OK;
    if (status == ROWLOCK_OK)
        read_acquire(op, conn->told);
    else if (err != NULL)
        *err = own;
    return status;
}

/* One that is held: a plain read, which decides only if it shows a lease of somebody else's, or
 * others who come first. */
static int look_held(my_conn *conn, rowlock_op *op, int is_marked, int64_t deadline,
                     rowlock_error *err)
{
    const my_value values[] = {my_owner_of(op), my_name_of(op)};
    const my_value marked[] = {my_owner_of(op), my_value_of(my_upto(op)), my_name_of(op)};
    MYSQL_RES *result = NULL;
    MYSQL_ROW row;
    int status;

    my_start(conn);
    if (is_marked)
        my_add_often(conn, SQL_ACQUIRE_LOOK_MARKED, marked, sizeof marked / sizeof *marked);
    else
        my_add_often(conn, SQL_ACQUIRE_LOOK, values, sizeof values / sizeof *values);
    status = my_run(conn, deadline, &result, err);
    row = status == ROWLOCK_OK ? mysql_fetch_row(result) : NULL;
    if (row != NULL)
        my_read_acquired(conn, op, row, mysql_fetch_lengths(result));
    if (op->status == STATUS_OPEN)
        my_clear_answer(op);
    mysql_free_result(result);
    return status;
}

int my_guess_marked(my_conn *conn, int is_free)
{
    conn->marked_until = rlk_clock_us() + MARKED_US;
    return is_free ? MY_GUESS_MARKED_FREE : MY_GUESS_MARKED_HELD;
}

/* As the last one was, or if that is not so, as it may be else. */
static int acquire_marked(my_conn *conn, rowlock_op *op, int is_free, int64_t deadline,
                          rowlock_error *err)
{
    int status =
        is_free ? take_free(conn, op, 1, deadline, err) : look_held(conn, op, 1, deadline, err);

    if (status == ROWLOCK_OK && op->status == STATUS_OPEN)
        status =
            is_free ? look_held(conn, op, 1, deadline, err) : take_free(conn, op, 1, deadline, err);
    if (status == ROWLOCK_OK && op->status == ROWLOCK_OK)
        conn->guess = MY_GUESS_MARKED_FREE;
    else if (status == ROWLOCK_OK && op->status == ROWLOCK_BUSY)
        conn->guess = op->is_queue ? my_guess_marked(conn, 0) : MY_GUESS_MARKED_HELD;
    return status;
}

int my_acquire_direct(my_conn *conn, rowlock_op *op, int64_t deadline, rowlock_error *err)
{
    int is_marked = rlk_clock_us() < conn->marked_until;

    if (!my_is_direct(conn))
        return ROWLOCK_OK;
    switch (conn->guess) {
    case MY_GUESS_FREE:
        return take_free(conn, op, 0, deadline, err);
    case MY_GUESS_HELD:
        return look_held(conn, op, 0, deadline, err);
    case MY_GUESS_MARKED_FREE:
        return is_marked ? acquire_marked(conn, op, 1, deadline, err)
                         : take_free(conn, op, 0, deadline, err);
    case MY_GUESS_MARKED_HELD:
        return is_marked ? acquire_marked(conn, op, 0, deadline, err)
                         : look_held(conn, op, 0, deadline, err);
    default:
        return ROWLOCK_OK;
    }
}

static void add_turn(my_conn *conn, const rowlock_op *op, uint64_t heard)
{
    const my_value name = my_name_of(op), owner = my_owner_of(op), attempt = my_attempt_of(op),
                   note = my_note_of(op), ttl = my_value_of(op->ttl_us),
                   ticket = my_value_of((int64_t)op->ticket), last = my_value_of((int64_t)heard);
    const my_value insert[] = {ttl,    name,  last,    name, last,  ticket,
                               ticket, owner, attempt, note, ticket};
    const my_value update[] = {owner, attempt, note, ttl,    ticket, name,
                               last,  name,    last, ticket, ticket};

    if (!my_is_maria(conn)) {
        my_add_values(conn, SQL_TURN_FREE, insert, sizeof insert / sizeof *insert);
        return;
    }
    my_add(conn, SQL_NO_WAIT, NULL, 0);
    my_add_often(conn, SQL_TURN_FREE_UPDATE, update, sizeof update / sizeof *update);
}

static void add_hush(my_conn *conn, const rowlock_op *op, uint64_t heard)
{
    char name[MY_BELL_SIZE];
    my_value bell;

    my_bell_name(name, conn, op, heard);
    bell = my_bell_value(name);
    my_add_values(conn, SQL_RING, &bell, 1);
}

int my_turn_direct(my_conn *conn, rowlock_op *op, uint64_t heard, int64_t deadline,
                   rowlock_error *err)
{
    int status;

    if (!my_is_direct(conn))
        return ROWLOCK_OK;
    my_start(conn);
    if (heard != 0)
        add_hush(conn, op, heard);
    add_turn(conn, op, heard);
    status = my_run(conn, deadline, NULL, err);
    if (status != ROWLOCK_OK)
        return my_is_locked(status, err) ? rlk_ok(err) : status;
    read_acquire(op, &conn->told[heard != 0]);
    if (op->status == ROWLOCK_OK)
        my_leave_behind(conn, op);
    return status;
}

int my_release_direct(my_conn *conn, rowlock_op *op, int looks, const char *bell, int64_t deadline,
                      rowlock_error *err)
{
    const my_value name = my_name_of(op);
    int status;

    my_start(conn);
    if (looks) {
        my_add(conn, SQL_START, NULL, 0);
        my_add_values(conn, SQL_RELEASE_LOOK_ONE, &name, 1);
    }
    add_release(conn, op);
    if (looks)
        my_add(conn, SQL_COMMIT, NULL, 0);
    if (bell != NULL)
        my_add(conn, SQL_RING, &bell, 1);
    status = my_run(conn, deadline, NULL, err);
    if (!looks && has_done(conn, status))
        return my_fail_partly(conn, err);
    if (status == ROWLOCK_OK)
        read_release(op, &conn->told[looks ? 2 : 0]);
    return status;
}

static void add_hand_over(my_conn *conn, const rowlock_op *release, const rowlock_op *acquire,
                          int rings)
{
    const my_value seen = my_seen_of(release);
    const my_value values[] = {my_owner_of(acquire),
                               my_attempt_of(acquire),
                               my_note_of(acquire),
                               my_value_of(acquire->ttl_us),
                               my_value_of(rings),
                               my_name_of(release),
                               my_owner_of(release),
                               my_value_of((int64_t)release->fence),
                               my_attempt_of(release),
                               seen,
                               seen};

    if (my_is_maria(conn))
        my_add(conn, SQL_NO_WAIT, NULL, 0);
    my_add_often(conn, SQL_HAND_OVER, values, sizeof values / sizeof *values);
}

/* From one owner to the next; a row that is locked is not waited for where that can be said. */
int my_hand_over(my_conn *conn, rowlock_op *release, rowlock_op *acquire, int64_t deadline,
                 rowlock_error *err)
{
    rlk_text ring = {0};
    const char *bell = my_bell_literal(conn, release, 1, &ring);
    int status;

    my_start(conn);
    add_hand_over(conn, release, acquire, bell != NULL);
    if (bell != NULL)
        my_add(conn, SQL_HAND_OVER_RING, &bell, 1);
    status = ring.failed ? rlk_fail_memory(err) : my_run(conn, deadline, NULL, err);
    rlk_text_free(&ring);
    if (has_done(conn, status))
        return my_fail_partly(conn, err);
    if (status != ROWLOCK_OK)
        return my_is_locked(status, err) ? rlk_ok(err) : status;
    read_acquire(acquire, conn->told);
    if (acquire->status == ROWLOCK_OK) {
        release->hold_count = 0;
        release->status = ROWLOCK_OK;
        if (bell != NULL)
            conn->bell[0] = '\0';
    }
    return status;
}
