/* SPDX-License-Identifier: MIT
 *
 * The slot waiters, the queue's part of reap, and its tables. */
#include <stdio.h>
#include <stdlib.h>

#include "queue.h"

static void expect_place(const struct place *place, const rowlock_op *op)
{
    assert_string_equal(place->name, op->name);
    assert_int_equal(place->name_length, op->name_length);
    assert_string_equal(place->owner, op->owner);
    assert_int_equal(place->ticket, op->ticket);
}

static void test_waiters_of_an_empty_queue_calls_nobody(void **state)
{
    struct fixture *f = *state;
    struct queue queue = {.count = 0};
    grant(f, "lock", "ann");
    queue_read(f, &queue);
    assert_int_equal(queue.count, 0);
}

static void test_waiters_are_by_name_and_ticket(void **state)
{
    struct fixture *f = *state;
    rowlock_op ops[] = {
        queue_up_for(f, "b", "ann", LONG_US),    queue_up_for(f, "a", "bob", LONG_US),
        queue_up_for(f, "\xff", "ann", LONG_US), queue_up_for(f, "b", "col", LONG_US),
        queue_up_for(f, "B", "dan", LONG_US),    queue_up_for(f, "a", "ann", LONG_US),
    };
    queue_up_dead(f, "a", "dead");
    const int order[] = {4, 1, 5, 0, 3, 2};
    struct queue queue = {.count = 0};
    queue_read(f, &queue);
    assert_int_equal(queue.count, COUNT(ops));
    for (size_t i = 0; i < COUNT(ops); i++)
        expect_place(&queue.places[i], &ops[order[i]]);
}

static void test_waiters_tell_the_holder(void **state)
{
    struct fixture *f = *state;
    struct queue queue = {.count = 0};
    grant(f, "a", "ann");
    grant_released(f, "b", "ann");
    grant_expired(f, "c", "ann");
    const char *const names[] = {"a", "b", "c", "d"};
    for (size_t i = 0; i < COUNT(names); i++)
        queue_up_for(f, names[i], "bob", LONG_US);
    queue_read(f, &queue);
    assert_int_equal(queue.count, COUNT(names));
    assert_string_equal(queue.places[0].holder, "ann");
    for (size_t i = 0; i < COUNT(names); i++)
        assert_int_equal(queue.places[i].has_holder, i == 0);
}

static void test_waiters_tell_the_times(void **state)
{
    struct fixture *f = *state;
    struct queue queue = {.count = 0};
    rowlock_op op = queue_up_for(f, "lock", "ann", LONG_US);
    sleep_us(50000);
    expect_ok(try_look(f, &op, 2 * LONG_US), NULL); /* which is not when it began to wait */
    queue_read(f, &queue);
    assert_int_equal(queue.count, 1);
    expect_between(queue.places[0].waited_ms, 49, SLACK_US / 1000);
    expect_between(queue.places[0].remaining_ms, (2 * LONG_US - SLACK_US) / 1000,
                   2 * LONG_US / 1000);
}

static void test_waiters_are_filtered_by_the_start_of_the_name(void **state)
{
    struct fixture *f = *state;
    const char *const names[] = {"a", "a%", "a%b", "a_b", "ab", "b"};
    struct queue queue = {.count = 0};
    for (size_t i = 0; i < COUNT(names); i++)
        queue_up_for(f, names[i], "ann", LONG_US);
    queue_query(f, &queue, "a%", 2);
    assert_int_equal(queue.count, 2);
    assert_string_equal(queue.places[0].name, "a%");
    assert_string_equal(queue.places[1].name, "a%b");
    queue_query(f, &queue, "a", 1);
    assert_int_equal(queue.count, 5);
    queue_query(f, &queue, "c", 1);
    assert_int_equal(queue.count, 0);
    queue_query(f, &queue, "\xff", 1);
    assert_int_equal(queue.count, 0);
}

static void test_waiters_stop_when_told(void **state)
{
    struct fixture *f = *state;
    struct queue queue = {.stop_at = 2};
    for (int i = 0; i < 5; i++)
        queue_up_for(f, "lock", "ann", LONG_US);
    queue_read(f, &queue);
    assert_int_equal(queue.count, 2);
    grant(f, "other", "ann"); /* the connection is fine */
}

static void test_names_of_waiters_are_bytes(void **state)
{
    struct fixture *f = *state;
    static const char name[] = {'a', '\0', '\'', '\\', '\xfe', '%', '\n'};
    struct queue queue = {.count = 0};
    rowlock_op op = op_bytes(name, sizeof(name), "\xc3\xa4nn 'o\\");
    expect_ok(f->driver->enqueue(f->conn, &op, 1, LONG_US, 0, CALL_MS, &f->err), &f->err);
    queue_query(f, &queue, name, 3);
    assert_int_equal(queue.count, 1);
    assert_int_equal(queue.places[0].name_length, sizeof(name));
    assert_memory_equal(queue.places[0].name, name, sizeof(name));
    assert_string_equal(queue.places[0].owner, op.owner);
    expect_ok(try_look(f, &op, LONG_US), NULL);
    rowlock_op other = op_bytes(name, sizeof(name) - 1, "bob");
    expect_ok(try_acquire(f, f->conn, &other), NULL);
    expect_ok(try_turn(f, f->conn, &op, 0), NULL);
}

/* ---- reap ------------------------------------------------------------------------------------ */

static void test_reap_takes_tickets_that_died_long_ago(void **state)
{
    struct fixture *f = *state;
    queue_clear(f);
    for (int i = 0; i < 5; i++)
        queue_up_for(f, "old", "ann", LONG_US);
    sql_run(f, "UPDATE rowlock_waiters SET expire_time = since_time - 61000000", NULL, 0);
    rowlock_op live = queue_up_for(f, "live", "ann", LONG_US);
    queue_up_dead(f, "dead", "ann"); /* a moment ago */
    assert_int_equal(queue_rows(f), 7);
    assert_int_equal(reap(f, 1000000, 3), 0); /* they are not counted */
    assert_true(queue_rows(f) >= 4);
    for (int i = 0; i < 5; i++)
        assert_int_equal(reap(f, 1000000, 3), 0);
    assert_int_equal(queue_rows(f), 2);
    assert_true(in_queue(f, &live));
}

static void test_enqueue_takes_dead_tickets_of_the_name(void **state)
{
    struct fixture *f = *state;
    queue_clear(f);
    for (int i = 0; i < 20; i++)
        queue_up_dead(f, "lock", "ann");
    queue_up_for(f, "lock", "bob", LONG_US);
    assert_true(queue_rows(f) < 21);
}

/* ---- tables ---------------------------------------------------------------------------------- */

static void test_queue_comes_and_goes_with_its_migration(void **state)
{
    struct fixture *f = *state;
    int newest = f->driver->migration_count;
    rowlock_op held = grant(f, "lock", "ann");
    rowlock_op op = queue_up_for(f, "lock", "bob", LONG_US);
    expect_ok(tables_to(f, f->conn, 1), &f->err);
    rowlock_op early = op_new("lock", "col");
    int status = f->driver->enqueue(f->conn, &early, 1, LONG_US, 0, CALL_MS, &f->err);
    expect_status(ROWLOCK_ESCHEMA, status, &f->err);
    expect_ok(tables_to(f, f->conn, newest), &f->err);
    struct queue queue = {.count = 0};
    queue_read(f, &queue);
    assert_int_equal(queue.count, 0);
    expect_status(ROWLOCK_LOST, try_look(f, &op, 0), NULL);
    assert_int_equal(row_of(f, "lock").fence, held.fence); /* the locks have stayed */
    op = queue_up_for(f, "lock", "bob", LONG_US);
    give_back(f, f->conn, &held);
    expect_ok(try_turn(f, f->conn, &op, 0), NULL);
}

static void *conn_apart(struct fixture *f)
{
    char prefix[40];
    snprintf(prefix, sizeof(prefix), "x%s", f->prefix);
    expect_ok(conn_begin(f, &f->others[0], f->backend->address, prefix), &f->err);
    return f->others[0];
}

static void test_queue_slots_without_tables_are_eschema(void **state)
{
    struct fixture *f = *state;
    void *conn = conn_apart(f);
    struct queue queue = {.count = 0};
    rowlock_list_query query = {.size = sizeof(query)};
    rowlock_op op = op_new("lock", "ann");
    op.ticket = 1;
    rowlock_error *err = &f->err;
    for (int bell = 0; bell < 2; bell++)
        expect_status(ROWLOCK_ESCHEMA,
                      f->driver->enqueue(conn, &op, 1, LONG_US, bell, CALL_MS, err), err);
    op.ticket = 1;
    expect_status(ROWLOCK_ESCHEMA, f->driver->turn(conn, &op, 0, NULL, 0, CALL_MS, err), err);
    expect_status(ROWLOCK_ESCHEMA, f->driver->leave(conn, &op, 1, CALL_MS, err), err);
    expect_status(ROWLOCK_ESCHEMA, f->driver->look(conn, &op, 1, 0, CALL_MS, err), err);
    expect_status(ROWLOCK_ESCHEMA, f->driver->look(conn, &op, 1, LONG_US, CALL_MS, err), err);
    expect_status(ROWLOCK_ESCHEMA, f->driver->waiters(conn, &query, NULL, &queue, CALL_MS, err),
                  err);
}

static void test_queues_of_other_tables_are_others(void **state)
{
    struct fixture *f = *state;
    void *conn = conn_apart(f);
    queue_up_for(f, "lock", "ann", LONG_US);
    expect_ok(tables_to(f, conn, f->driver->migration_count), &f->err);
    rowlock_op plain = op_new("lock", "bob"), queued = op_new("lock", "col");
    int acquired = f->driver->acquire(conn, &plain, 1, 0, CALL_MS, &f->err);
    int entered = f->driver->enqueue(conn, &queued, 1, LONG_US, 1, CALL_MS, &f->err);
    expect_ok(tables_to(f, conn, 0), &f->err); /* this prefix is not the run's */
    expect_ok(acquired, NULL);
    expect_ok(entered, NULL);
    expect_ok(plain.status, NULL);
    expect_status(ROWLOCK_BUSY, queued.status, NULL);
    assert_int_equal(queued.before, 0); /* Ann's ticket is of the other queue */
    expect_between(queued.remaining_us, LONG_US - SLACK_US, LONG_US);
}

/* All slots in turn, in tables of that schema. */
static int use_queue(struct fixture *f, void *conn)
{
    struct queue queue = {.count = 0};
    rowlock_list_query query = {.size = sizeof(query)};
    rowlock_op op = op_new("lock", "ann");
    int status = f->driver->enqueue(conn, &op, 1, LONG_US, 1, CALL_MS, &f->err);
    if (status == ROWLOCK_OK)
        status = f->driver->look(conn, &op, 1, LONG_US, CALL_MS, &f->err);
    if (status == ROWLOCK_OK)
        status = f->driver->waiters(conn, &query, queue_collect, &queue, CALL_MS, &f->err);
    if (status == ROWLOCK_OK)
        status = f->driver->turn(conn, &op, 0, NULL, 0, CALL_MS, &f->err);
    rowlock_op back = op_ringing(&op);
    if (status == ROWLOCK_OK)
        status = f->driver->release(conn, &back, 1, CALL_MS, &f->err);
    if (status == ROWLOCK_OK)
        status = f->driver->leave(conn, &op, 1, CALL_MS, &f->err);
    return status == ROWLOCK_OK && queue.count != 1 ? ROWLOCK_LOST : status;
}

static void test_queue_may_live_in_a_schema(void **state)
{
    struct fixture *f = *state;
    char name[64], sql[128];
    snprintf(name, sizeof(name), "%sQueue", f->prefix);
    rowlock_config config = {.size = sizeof(config),
                             .address = f->backend->address,
                             .prefix = f->prefix,
                             .schema = name};
    snprintf(sql, sizeof(sql), "CREATE SCHEMA %c%s%c", f->driver->quote, name, f->driver->quote);
    sql_run(f, sql, NULL, 0);
    f->others[0] = calloc(1, f->driver->conn_size);
    int status = f->driver->open(f->others[0], &config, CALL_MS, &f->err);
    if (status == ROWLOCK_OK)
        status = tables_to(f, f->others[0], f->driver->migration_count);
    if (status == ROWLOCK_OK)
        status = use_queue(f, f->others[0]);
    rowlock_error kept = f->err;
    int elsewhere = row_exists(f, "lock");
    expect_ok(tables_to(f, f->others[0], 0), &f->err);
    snprintf(sql, sizeof(sql), "DROP SCHEMA %c%s%c", f->driver->quote, name, f->driver->quote);
    sql_run(f, sql, NULL, 0); /* fails if anything is left in it */
    expect_ok(status, &kept);
    assert_false(elsewhere);
}

static const struct test_case cases[] = {
    CASE_IF(test_waiters_of_an_empty_queue_calls_nobody, BACKEND_TICKETS),
    CASE_IF(test_waiters_are_by_name_and_ticket, BACKEND_TICKETS),
    CASE_IF(test_waiters_tell_the_holder, BACKEND_TICKETS),
    CASE_IF(test_waiters_tell_the_times, BACKEND_TICKETS),
    CASE_IF(test_waiters_are_filtered_by_the_start_of_the_name, BACKEND_TICKETS),
    CASE_IF(test_waiters_stop_when_told, BACKEND_TICKETS),
    CASE_IF(test_names_of_waiters_are_bytes, BACKEND_TICKETS),
    CASE_IF(test_reap_takes_tickets_that_died_long_ago, BACKEND_TICKETS | BACKEND_SQL),
    CASE_IF(test_enqueue_takes_dead_tickets_of_the_name, BACKEND_TICKETS | BACKEND_SQL),
    CASE_IF(test_queue_comes_and_goes_with_its_migration, BACKEND_TICKETS),
    CASE_IF(test_queue_slots_without_tables_are_eschema, BACKEND_TICKETS),
    CASE_IF(test_queues_of_other_tables_are_others, BACKEND_TICKETS),
    CASE_IF(test_queue_may_live_in_a_schema, BACKEND_TICKETS | BACKEND_SQL | BACKEND_SCHEMAS),
};

const struct suite queue_list_suite = SUITE("queue_list", cases);
