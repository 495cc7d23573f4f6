/* SPDX-License-Identifier: MIT
 *
 * Processes that share nothing but the database: mutual exclusion counted out, a holder that is
 * killed, and one that is stopped for longer than its lease. */
#include "fault.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

enum { PROCESSES = 8, INCREMENTS = 500 };

/* Shared with the children. */
struct board {
    volatile long counter; /* on purpose neither atomic nor locked: the lock must protect it */
    int increments;
    int ready, go, done; /* process_signal(), process_await() */
    int64_t ttl_ms;
    const char *owner; /* NULL: each process its own */
    int check, release, status, barge;
    uint64_t fence;
    char message[240];
};

static struct board *board;

static int setup(void **state)
{
    (void)state;
    board = process_shared(sizeof(*board));
    return board != NULL ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    process_unshare(board, sizeof(*board));
    return 0;
}

static int complain(int status, const rowlock_error *err)
{
    board->status = status;
    snprintf(board->message, sizeof(board->message), "%s", err->message);
    return 1;
}

/* ---- counting -------------------------------------------------------------------------------- */

static int increments(void)
{
    const char *value = getenv("ROWLOCK_TEST_INCREMENTS");
    int n = value != NULL ? atoi(value) : 0;

    return n > 0 ? n : INCREMENTS;
}

static int count_up(void *payload)
{
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;
    rowlock_client *client = NULL;
    rowlock_error err;
    int status = fault_try_open(&client, fault.backend.address, NULL, &err);

    (void)payload;
    options.wait_ms = ROWLOCK_FOREVER;
    options.barge = board->barge;
    if (status != ROWLOCK_OK)
        return complain(status, &err);
    for (int i = 0; i < board->increments; i++) {
        rowlock_lock *lock = NULL;
        long value;
        status = rowlock_acquire(&lock, client, "counter", &options, &err);
        if (status != ROWLOCK_OK)
            return complain(status, &err);
        value = board->counter;
        sched_yield();
        board->counter = value + 1;
        status = rowlock_release(&lock, &err);
        if (status != ROWLOCK_OK)
            return complain(status, &err);
    }
    rowlock_close(&client);
    return 0;
}

static void count(int n, int barge)
{
    pid_t pids[PROCESSES];
    int64_t start = process_now_ms();
    int failed = 0;
    long expected;

    board->increments = n;
    board->barge = barge;
    expected = (long)PROCESSES * board->increments;
    for (int i = 0; i < PROCESSES; i++)
        pids[i] = process_start(count_up, NULL);
    for (int i = 0; i < PROCESSES; i++)
        failed += process_wait(pids[i], 600000) != 0;
    print_message("%ld increments by %d processes in %.1f s\n", expected, PROCESSES,
                  (double)(process_now_ms() - start) / 1000);
    if (failed > 0)
        print_error("%d processes failed: status %d: %s\n", failed, board->status, board->message);
    assert_int_equal(0, failed);
    assert_int_equal(expected, board->counter);
}

/* Whoever is quick: most grants are not handed over from one process to another. */
static void exact_count(void **state)
{
    (void)state;
    count(increments(), 1);
}

/* In turn: each is. */
static void exact_count_in_line(void **state)
{
    (void)state;
    count(increments() / 10, 0);
}

/* The same without the lock goes wrong, else the test above proves nothing. */
static int count_up_bare(void *payload)
{
    (void)payload;
    process_await(&board->go, 1, 10000);
    for (int i = 0; i < 100 * INCREMENTS; i++) {
        long value = board->counter;
        if (i % 100 == 0)
            sched_yield();
        board->counter = value + 1;
    }
    return 0;
}

static void without_lock_it_is_not(void **state)
{
    pid_t pids[PROCESSES];

    (void)state;
    for (int i = 0; i < PROCESSES; i++)
        pids[i] = process_start(count_up_bare, NULL);
    process_signal(&board->go, 1);
    for (int i = 0; i < PROCESSES; i++)
        assert_int_equal(0, process_wait(pids[i], 60000));
    assert_true(board->counter < 100L * INCREMENTS * PROCESSES);
}

/* ---- holders that stop ----------------------------------------------------------------------- */

/* Takes the lock, tells its fence, waits for `go`, and notes what has become of the lock. */
static int hold(void *payload)
{
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;
    rowlock_client *client = NULL;
    rowlock_lock *lock = NULL;
    rowlock_error err;
    int status = fault_try_open(&client, fault.backend.address, NULL, &err);

    options.ttl_ms = board->ttl_ms;
    options.owner = board->owner;
    if (status == ROWLOCK_OK)
        status = rowlock_acquire(&lock, client, payload, &options, &err);
    if (status != ROWLOCK_OK)
        return complain(status, &err);
    board->fence = rowlock_fence(lock);
    process_signal(&board->ready, 1);
    if (process_await(&board->go, 1, 60000) != 0)
        return 2;
    board->check = rowlock_check(lock);
    board->release = rowlock_release(&lock, &err);
    rowlock_close(&client);
    return 0;
}

static pid_t start_holder(const char *name, int64_t ttl_ms)
{
    pid_t pid;

    board->ttl_ms = ttl_ms;
    pid = process_start(hold, (void *)(uintptr_t)name);
    assert_true(pid > 0);
    if (process_await(&board->ready, 1, 20000) != 0) {
        process_wait(pid, 0);
        fail_msg("the holder did not get the lock: status %d: %s", board->status, board->message);
    }
    return pid;
}

static void killed_holder(void **state)
{
    enum { TTL_MS = 1500 };
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;
    const char *name = fault_name("killed");
    pid_t pid = start_holder(name, TTL_MS);
    rowlock_client *client = fault_open(fault.backend.address, NULL);
    rowlock_lock *lock = NULL;
    rowlock_error err;
    int64_t start;

    (void)state;
    start = process_now_ms();
    kill(pid, SIGKILL);
    assert_int_equal(1000 + SIGKILL, process_wait(pid, 5000));
    options.wait_ms = 10 * TTL_MS;
    assert_status(ROWLOCK_OK, rowlock_acquire(&lock, client, name, &options, &err), &err);
    assert_in_range(process_now_ms() - start, 0, TTL_MS + 500);
    assert_true(rowlock_fence(lock) > board->fence);
    fault_release(&lock);
    rowlock_close(&client);
}

static void stop_holder(const char *owner)
{
    enum { TTL_MS = 700 };
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;
    const char *name = fault_name("stopped");
    rowlock_client *client;
    rowlock_lock *lock = NULL;
    struct fault_row row;
    rowlock_error err;
    pid_t pid;

    board->owner = owner;
    pid = start_holder(name, TTL_MS);
    client = fault_open(fault.backend.address, NULL);
    kill(pid, SIGSTOP);
    process_sleep_ms(3 * TTL_MS);
    options.ttl_ms = 60000;
    options.owner = owner;
    assert_status(ROWLOCK_OK, rowlock_acquire(&lock, client, name, &options, &err), &err);
    process_signal(&board->go, 1);
    kill(pid, SIGCONT);
    assert_int_equal(0, process_wait(pid, 20000));
    assert_int_equal(ROWLOCK_LOST, board->check);
    assert_int_equal(ROWLOCK_LOST, board->release);
    row = fault_row(client, name);
    assert_int_equal(2, row.found);
    assert_int_equal(1, row.hold_count);
    assert_int_equal(rowlock_fence(lock), row.fence);
    assert_true(rowlock_fence(lock) > board->fence);
    assert_status(ROWLOCK_OK, rowlock_renew(lock, 0, &err), &err);
    fault_release(&lock);
    rowlock_close(&client);
}

static void stopped_holder(void **state)
{
    (void)state;
    stop_holder(NULL);
}

/* Only the fence tells the tenures apart. */
static void stopped_holder_same_owner(void **state)
{
    (void)state;
    stop_holder("an owner that both processes share");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test_setup_teardown(exact_count, setup, teardown),
        cmocka_unit_test_setup_teardown(exact_count_in_line, setup, teardown),
        cmocka_unit_test_setup_teardown(without_lock_it_is_not, setup, teardown),
        cmocka_unit_test_setup_teardown(killed_holder, setup, teardown),
        cmocka_unit_test_setup_teardown(stopped_holder, setup, teardown),
        cmocka_unit_test_setup_teardown(stopped_holder_same_owner, setup, teardown),
    };
    return FAULT_MAIN(argc, argv, 0, cases);
}
