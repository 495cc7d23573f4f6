/* SPDX-License-Identifier: MIT
 *
 * Holders that are stopped, as a suspended machine or a long pause of a runtime stops them. One
 * that wakes after its lease finds the lock lost at its first look and does no harm to the next
 * owner. And of several that are stopped at random for about as long as their leases, no two say at
 * the same time that they hold the lock.
 *
 * Short: until a few leases were overrun, some seconds. Long (watch_scene.h): for a minute. */
#include "watch_scene.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum {
    PATIENCE_MS = 20000,
    PROCESSES = 3,
    SHORT_TTL_MS = 500,
    TENURES = 8192,
    OVERRUNS = 4,
    LONG_MS = 60000
};

/* One tenure as its holder saw it; times in microseconds of the clock that all processes share. */
struct tenure {
    uint64_t fence;
    int64_t first_ok_us, last_ok_us;
    int process, release;
};

/* Shared with the children. */
struct board {
    int ready, go, told, stop; /* process_signal(), process_await() */
    int renewals, errors;
    int check, loss, told_loss, tolds, release, status;
    uint64_t fence;
    char message[240];
    int holding[PROCESSES];
    int count;
    struct tenure tenures[TENURES];
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

static int grow(int *counter)
{
    return __atomic_add_fetch(counter, 1, __ATOMIC_ACQ_REL);
}

static int read_of(const int *flag)
{
    return __atomic_load_n(flag, __ATOMIC_ACQUIRE);
}

/* ---- one that is stopped for three leases ---------------------------------------------------- */

static void note_event(const rowlock_event *event, void *payload)
{
    (void)payload;
    if (event->kind == ROWLOCK_EVENT_RENEWED)
        grow(&board->renewals);
    if (event->kind == ROWLOCK_EVENT_ERROR)
        grow(&board->errors);
}

static void be_told(rowlock_lock *lock, int loss, void *payload)
{
    (void)lock;
    (void)payload;
    board->told_loss = loss;
    process_signal(&board->told, grow(&board->tolds));
}

static int take(rowlock_client **client, rowlock_lock **lock, const char *name, int64_t ttl_ms)
{
    rowlock_acquire_options how = ROWLOCK_ACQUIRE_OPTIONS_INIT;
    rowlock_options options = ROWLOCK_OPTIONS_INIT;
    rowlock_error err;
    int status;

    options.on_event = note_event;
    how.ttl_ms = ttl_ms;
    how.renew = 1;
    how.on_lost = be_told;
    status = fault_try_open(client, fault.backend.address, &options, &err);
    if (status == ROWLOCK_OK)
        status = rowlock_acquire(lock, *client, name, &how, &err);
    return status == ROWLOCK_OK ? 0 : complain(status, &err);
}

static int hold(void *payload)
{
    rowlock_client *client = NULL;
    rowlock_lock *lock = NULL;
    int told;

    if (take(&client, &lock, payload, 1000) != 0)
        return 1;
    board->fence = rowlock_fence(lock);
    process_signal(&board->ready, 1);
    if (process_await(&board->go, 1, PATIENCE_MS) != 0)
        return 2;
    board->check = rowlock_check(lock);
    board->loss = rowlock_loss(lock);
    told = process_await(&board->told, 1, PATIENCE_MS);
    board->release = rowlock_release(&lock, NULL);
    rowlock_close(&client);
    return told == 0 ? 0 : 3;
}

static void assert_harmless(rowlock_client *client, rowlock_lock *lock, const char *name)
{
    struct fault_row row = fault_row(client, name);
    rowlock_error err;

    assert_int_equal(2, row.found);
    assert_int_equal(1, row.hold_count);
    assert_int_equal(rowlock_fence(lock), row.fence);
    assert_true(rowlock_fence(lock) > board->fence);
    assert_status(ROWLOCK_OK, rowlock_renew(lock, 0, &err), &err);
}

/* Stopped right after a renewal, so that none is under way. */
static void three_leases(void **state)
{
    const char *name = fault_name("paused");
    pid_t pid = process_start(hold, (void *)(uintptr_t)name);
    rowlock_client *client;
    rowlock_lock *lock;
    int renewed, ended;

    (void)state;
    assert_true(pid > 0);
    renewed = process_await(&board->renewals, 1, PATIENCE_MS);
    kill(pid, SIGSTOP);
    if (renewed != 0)
        print_error("it was not renewed: status %d: %s\n", board->status, board->message);
    process_sleep_ms(3000);
    client = fault_open(fault.backend.address, NULL);
    lock = fault_acquire(client, name, 60000);
    process_signal(&board->go, 1);
    kill(pid, SIGCONT);
    ended = process_wait(pid, 2 * PATIENCE_MS);
    assert_int_equal(0, renewed);
    assert_int_equal(0, ended);
    assert_int_equal(ROWLOCK_LOST, board->check);
    assert_int_equal(ROWLOCK_LOST, board->release);
    assert_int_equal(1, board->tolds);
    assert_int_equal(board->loss, board->told_loss);
    assert_true(board->loss == ROWLOCK_LOSS_EXPIRED || board->loss == ROWLOCK_LOSS_TAKEN ||
                (board->loss == ROWLOCK_LOSS_UNREACHABLE && board->errors > 0));
    assert_harmless(client, lock, name);
    fault_release(&lock);
    rowlock_close(&client);
}

/* ---- several that are stopped at random ------------------------------------------------------ */

static int64_t now_us(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

/* Looks again and again for `us` microseconds. It was held at the time that was read before a look
 * that says OK: so last_ok_us is early rather than late, and first_ok_us late rather than early. */
static void look(struct tenure *tenure, const rowlock_lock *lock, int64_t us)
{
    int64_t before = now_us(), until = before + us;

    while (rowlock_check(lock) == ROWLOCK_OK) {
        if (tenure->first_ok_us == 0)
            tenure->first_ok_us = now_us();
        tenure->last_ok_us = before;
        if (before >= until)
            break;
        nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
        before = now_us();
    }
}

/* Notes one tenure; nonzero if there is no room for more. */
static int serve(rowlock_lock **lock, int me, unsigned *seed)
{
    struct tenure tenure = {.fence = rowlock_fence(*lock), .process = me};
    int at;

    process_signal(&board->holding[me], 1);
    look(&tenure, *lock, 50000 + rand_r(seed) % 200000);
    process_signal(&board->holding[me], 0);
    tenure.release = rowlock_release(lock, NULL);
    at = __atomic_fetch_add(&board->count, 1, __ATOMIC_ACQ_REL);
    if (at >= TENURES)
        return 1;
    board->tenures[at] = tenure;
    return 0;
}

static int contend(void *payload)
{
    rowlock_acquire_options how = ROWLOCK_ACQUIRE_OPTIONS_INIT;
    int me = (int)(intptr_t)payload;
    rowlock_client *client = NULL;
    rowlock_error err;
    unsigned seed = (unsigned)me + 1;
    int status = fault_try_open(&client, fault.backend.address, NULL, &err);

    how.ttl_ms = SHORT_TTL_MS;
    how.wait_ms = 200;
    how.renew = 1;
    while (status == ROWLOCK_OK && !read_of(&board->stop)) {
        rowlock_lock *lock = NULL;

        status = rowlock_acquire(&lock, client, "contended", &how, &err);
        /* a process that wakes late finds that the time of its call is up */
        if (status == ROWLOCK_TIMEOUT || (status < 0 && err.retryable))
            status = ROWLOCK_OK;
        else if (status == ROWLOCK_OK && serve(&lock, me, &seed) != 0)
            return 4;
    }
    rowlock_close(&client);
    return status == ROWLOCK_OK ? 0 : complain(status, &err);
}

static int overruns(void)
{
    int n = 0, count = read_of(&board->count);

    for (int i = 0; i < count && i < TENURES; i++)
        n += board->tenures[i].release == ROWLOCK_LOST;
    return n;
}

static int holder(void)
{
    for (int i = 0; i < PROCESSES; i++)
        if (read_of(&board->holding[i]))
            return i;
    return -1;
}

/* Stops whoever holds the lock, again and again, for about as long as a lease has left. */
static void disturb(const pid_t *pids, int64_t ms)
{
    int64_t until = process_now_ms() + ms, at_most = process_now_ms() + ms + PATIENCE_MS;
    unsigned seed = 1;

    while (process_now_ms() < until || (overruns() < OVERRUNS && process_now_ms() < at_most)) {
        int who = holder();

        if (who >= 0) {
            kill(pids[who], SIGSTOP);
            process_sleep_ms(SHORT_TTL_MS * (60 + rand_r(&seed) % 70) / 100);
            kill(pids[who], SIGCONT);
        }
        process_sleep_ms(5);
    }
}

static int by_fence(const void *a, const void *b)
{
    const struct tenure *x = a, *y = b;

    if (x->fence != y->fence)
        return x->fence > y->fence ? 1 : -1;
    return (x->first_ok_us > y->first_ok_us) - (x->first_ok_us < y->first_ok_us);
}

/* Who wakes between the end of its own reckoning and that of the lease may enter it again. */
static void assert_one_after_the_other(void)
{
    size_t n = (size_t)board->count;
    int64_t last = 0;

    qsort(board->tenures, n, sizeof(board->tenures[0]), by_fence);
    for (size_t i = 0; i < n; i++) {
        const struct tenure *tenure = &board->tenures[i];

        assert_true(i == 0 || tenure->fence > tenure[-1].fence ||
                    tenure->process == tenure[-1].process);
        if (tenure->first_ok_us == 0)
            continue; /* lost before it was looked at */
        if (tenure->first_ok_us <= last)
            fail_msg("two held it at the same time, for %d us", (int)(last - tenure->first_ok_us));
        last = tenure->last_ok_us;
    }
}

static void never_two(void **state)
{
    pid_t pids[PROCESSES];
    int failed = 0;

    (void)state;
    for (int i = 0; i < PROCESSES; i++)
        pids[i] = process_start(contend, (void *)(intptr_t)i);
    disturb(pids, watch_is_long() ? LONG_MS : 1000);
    process_signal(&board->stop, 1);
    for (int i = 0; i < PROCESSES; i++)
        failed += process_wait(pids[i], PATIENCE_MS) != 0;
    print_message("%d tenures, %d of them overrun\n", board->count, overruns());
    if (failed > 0)
        print_error("%d processes failed: status %d: %s\n", failed, board->status, board->message);
    assert_int_equal(0, failed);
    assert_in_range(overruns(), OVERRUNS, TENURES);
    assert_one_after_the_other();
}

int main(int argc, char **argv)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test_setup_teardown(three_leases, setup, teardown),
        cmocka_unit_test_setup_teardown(never_two, setup, teardown),
    };
    return FAULT_MAIN(argc, argv, 0, cases);
}
