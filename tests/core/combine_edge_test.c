/* SPDX-License-Identifier: MIT
 *
 * Shared requests at their edges: one that is stuck, a client that is closed, callbacks that ask
 * themselves, no memory, one connection, fork. The linker puts our malloc() and qsort() in front.
 */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "combine_scene.h"
#include "thread.h"

enum { N = 20, LARGE = 50000, LONGEST_MS = 60000 };

static atomic_int no_large_memory;
static void (*_Atomic on_sort)(void);

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void __real_qsort(void *base, size_t n, size_t size, int (*order)(const void *, const void *));
void __wrap_qsort(void *base, size_t n, size_t size, int (*order)(const void *, const void *));

void *__wrap_malloc(size_t size)
{
    return size > LARGE && atomic_load(&no_large_memory) ? NULL : __real_malloc(size);
}

void __wrap_qsort(void *base, size_t n, size_t size, int (*order)(const void *, const void *))
{
    void (*fn)(void) = atomic_exchange(&on_sort, NULL);

    if (fn != NULL)
        fn();
    __real_qsort(base, n, size, order);
}

static int set_up(void **state)
{
    atomic_store(&no_large_memory, 0);
    atomic_store(&on_sort, NULL);
    return scene_set_up(state);
}

/* ---- a request that is stuck ---- */

static void test_stuck_request_is_not_waited_for_for_long(void **state)
{
    (void)state;
    gather(ask_acquire, N);
    fake_clock_advance_us(PATIENCE_US);
    for (size_t i = 1; i < N; i++)
        join(&askers[i]);
    assert_int_equal(askers[0].status, 99);
    assert_in_range(request_count, 2, N);
    gate_open();
    join(&askers[0]);
    expect_ok(N);
}

/* Who comes after those has no better luck with its connection, and no worse. */
static void test_second_request_may_be_stuck_too(void **state)
{
    (void)state;
    gather(ask_acquire, 2);
    gate_hold(1);
    fake_clock_advance_us(PATIENCE_US);
    await_held(2);
    askers[2].ask = ask_acquire;
    start(&askers[2]);
    await_wait(&askers[2]);
    fake_clock_advance_us(PATIENCE_US);
    join(&askers[2]);
    gate_open();
    join_all(2);
    expect_ok(3);
    assert_int_equal(fake_most_connections(), 3);
}

static uint32_t leaders(void)
{
    uint32_t n;

    pthread_mutex_lock(&client->mutex);
    n = client->combiners[RLK_ACQUIRE].flights_in[RLK_IN_FLIGHT];
    pthread_mutex_unlock(&client->mutex);
    return n;
}

/* Two at once are for the time of need. */
static void test_stuck_request_that_comes_back_leaves_one_at_a_time(void **state)
{
    (void)state;
    gather(ask_acquire, 2);
    gate_hold(1);
    fake_clock_advance_us(PATIENCE_US);
    await_held(2); /* number 1 is in the place of number 0 */
    for (size_t i = 2; i < N; i++) {
        askers[i].ask = ask_acquire;
        start(&askers[i]);
        await_wait(&askers[i]);
    }
    gate_let_first();
    join(&askers[0]);
    assert_int_equal(leaders(), 1);
    gate_open();
    for (size_t i = 1; i < N; i++)
        join(&askers[i]);
    expect_ok(N);
    assert_int_equal(request_count, 3);
    assert_int_equal(leaders(), 0);
}

static int waits_at_sort;

/* Both who have been taken off the list lose patience before one of them is put back. */
static void lose_patience(void)
{
    int before = waits_over();

    fake_clock_advance_us(PATIENCE_US);
    for (int ms = 0; waits_over() < before + 2 && ms < LONGEST_MS; ms++)
        poll(NULL, 0, 1);
    waits_at_sort = waits_begun();
    for (int ms = 0; waits_begun() < waits_at_sort + 2 && ms < LONGEST_MS; ms++)
        poll(NULL, 0, 1);
}

static void test_who_is_put_back_keeps_its_patience(void **state)
{
    (void)state;
    snprintf(askers[3].name, sizeof askers[3].name, "%s", askers[1].name);
    snprintf(askers[3].owner, sizeof askers[3].owner, "%s", askers[1].owner);
    gather(ask_acquire, 4);
    atomic_store(&on_sort,
                 lose_patience); /* numbers 2 and 3 come with number 1, whose name 3 wants, too */
    gate_open();
    gate_hold(1);
    await_held(1);
    fake_clock_advance_us(PATIENCE_US);
    join(&askers[3]);
    gate_open();
    join_all(3);
    expect_ok(4);
}

static void test_short_bound_is_not_spent_on_waiting(void **state)
{
    rowlock_options options = ROWLOCK_OPTIONS_INIT;

    (void)state;
    options.call_timeout_ms = 80;
    scene_open(&options);
    gather(ask_acquire, 2);
    fake_clock_advance_us(20 * MS);
    join(&askers[1]);
    gate_open();
    join(&askers[0]);
    expect_ok(2);
    assert_int_equal(leaders(), 0);
}

static void release_all(void)
{
    for (size_t i = 0; i < N; i++) {
        if (askers[i].lock != NULL)
            assert_status(OK, ask_release(&askers[i]));
    }
}

/* N threads again share two requests. */
static void expect_requests_to_be_shared(void)
{
    release_all();
    assert_int_equal(leaders(), 0);
    ask_together(ask_acquire, N);
    expect_ok(N);
    assert_int_equal(request_count, 2);
    release_all();
}

/* The patience of a call with little time is shorter than that of others: both requests come back
 * before anybody else would have called the first one late. */
static void test_requests_are_shared_after_one_was_replaced_early(void **state)
{
    rowlock_options options = ROWLOCK_OPTIONS_INIT;

    (void)state;
    options.call_timeout_ms = 200;
    scene_open(&options);
    gather(ask_acquire, 2);
    gate_hold(1);
    fake_clock_advance_us(50 * MS);
    await_held(2);
    gate_open();
    join_all(2);
    expect_ok(2);
    expect_requests_to_be_shared();
}

/* After a pause of the whole process, whichever of the two comes back first. */
static void test_requests_are_shared_after_a_pause(void **state)
{
    (void)state;
    for (int first = 0; first < 2; first++) {
        gather(ask_acquire, 2);
        gate_hold(1);
        fake_clock_advance_us(2 * PATIENCE_US);
        await_held(2);
        if (first == 0)
            gate_let_first();
        else
            gate_open();
        join(&askers[first == 0 ? 0 : 1]);
        gate_open();
        join(&askers[first == 0 ? 1 : 0]);
        expect_ok(2);
        expect_requests_to_be_shared();
    }
}

static uint32_t random_state;

static uint32_t random_below(uint32_t limit)
{
    random_state = random_state * 1664525 + 1013904223;
    return (random_state >> 16) % limit;
}

/* Requests that are held up, let go and replaced in any order. */
static void walk(int steps)
{
    size_t asked = 0;

    for (int i = 0; i < steps; i++) {
        switch (random_below(4)) {
        case 0:
        case 1:
            if (asked < N) {
                askers[asked].ask = ask_acquire;
                start(&askers[asked++]);
            }
            break;
        case 2:
            fake_clock_advance_us((int64_t)random_below(3) * PATIENCE_US / 2);
            break;
        default:
            gate_open();
            gate_hold((int)random_below(3));
            break;
        }
        if (random_below(2) == 0)
            poll(NULL, 0, 1);
    }
    gate_open();
    join_all(asked);
    expect_ok(asked);
}

static void test_requests_are_shared_after_any_walk(void **state)
{
    (void)state;
    for (uint32_t seed = 1; seed <= 20; seed++) {
        random_state = seed;
        walk(40);
        expect_requests_to_be_shared();
    }
}

/* ---- close, cancel, fork ---- */

static rowlock_client *closing;

static void *close_client(void *unused)
{
    (void)unused;
    rowlock_close(&closing);
    return NULL;
}

static void test_close_waits_for_all_who_have_asked(void **state)
{
    pthread_t thread;

    (void)state;
    gather(ask_acquire, N);
    closing = client;
    assert_int_equal(pthread_create(&thread, NULL, close_client, NULL), 0);
    while (!atomic_load(&client->closed))
        poll(NULL, 0, 1);
    gate_open();
    join_all(N);
    pthread_join(thread, NULL);
    client = NULL;
    expect_ok(N);
    assert_int_equal(fake_connections(), 0);
    for (size_t i = 0; i < N; i++) {
        assert_false(fake_is_live(askers[i].name));
        assert_status(ECLOSED, rowlock_check(askers[i].lock));
    }
}

static void test_close_ends_the_retries_of_a_shared_request(void **state)
{
    pthread_t thread;

    (void)state;
    fake_clock_freeze(); /* time alone would not end them */
    gather(ask_acquire, N);
    plan_batch(FAKE_CUT_BEFORE, FAKE_NO_CONNECTION);
    closing = client;
    assert_int_equal(pthread_create(&thread, NULL, close_client, NULL), 0);
    while (!atomic_load(&client->closed))
        poll(NULL, 0, 1);
    gate_open();
    join_all(N);
    fake_plan(0, FAKE_NONE, 0);
    fake_clock_advance_us(60000 * MS); /* close itself would try for long */
    pthread_join(thread, NULL);
    client = NULL;
    assert_int_equal(askers[0].status, ROWLOCK_OK);
    for (size_t i = 1; i < N; i++)
        assert_int_equal(askers[i].status, ROWLOCK_EUNKNOWN);
}

static void test_cancelled_one_leaves_the_others(void **state)
{
    rowlock_lock *theirs = hold(client, askers[5].name, 0, "them");

    (void)state;
    assert_status(OK, rowlock_cancel_new(&askers[5].options.cancel, NULL));
    askers[5].options.wait_ms = 20000;
    gather(ask_acquire, N);
    rowlock_cancel_fire(askers[5].options.cancel);
    gate_open();
    join_all(N);
    for (size_t i = 0; i < N; i++)
        assert_int_equal(askers[i].status, i == 5 ? ROWLOCK_CANCELLED : ROWLOCK_OK);
    rowlock_cancel_free(&askers[5].options.cancel);
    rowlock_release(&theirs, NULL);
}

/* The child ends by a signal: at its exit valgrind would miss what other threads of the parent
 * have. */
static void test_child_touches_nothing_while_a_request_is_under_way(void **state)
{
    int pipes[2], told = 0, status;
    pid_t pid;

    (void)state;
    assert_int_equal(pipe(pipes), 0);
    gather(ask_acquire, 3);
    pid = fork();
    if (pid == 0) {
        status = rowlock_acquire(&askers[4].lock, client, "child", NULL, NULL);
        rowlock_close(&client);
        if (write(pipes[1], &status, sizeof status) == sizeof status)
            kill(getpid(), SIGKILL);
        _exit(1);
    }
    close(pipes[1]);
    assert_int_equal(read(pipes[0], &told, sizeof told), sizeof told);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    gate_open();
    join_all(3);
    expect_ok(3);
    assert_int_equal(told, ROWLOCK_EFORK);
    close(pipes[0]);
}

/* ---- memory, connections ---- */

static void test_without_memory_each_goes_alone(void **state)
{
    (void)state;
    atomic_store(&no_large_memory, 1);
    ask_together(ask_acquire, N);
    expect_ok(N);
    assert_int_equal(request_count, N);
    assert_int_equal(combined(), 0);
    atomic_store(&no_large_memory, 0);
    ask_together(ask_release, N);
    expect_ok(N);
    assert_int_equal(request_count, 2);
}

/* Takes its lock and gives it back, again and again. */
static int ask_for_both(struct asker *a)
{
    int rc = ROWLOCK_OK;

    for (int i = 0; i < 20 && rc == ROWLOCK_OK; i++) {
        rc = ask_acquire(a);
        if (rc == ROWLOCK_OK)
            rc = rowlock_renew(a->lock, 0, &a->err);
        if (rc == ROWLOCK_OK)
            rc = ask_release(a);
    }
    return rc;
}

static void all_ask_for_both(void)
{
    for (size_t i = 0; i < N; i++) {
        askers[i].ask = ask_for_both;
        start(&askers[i]);
    }
    join_all(N);
    expect_ok(N);
    for (size_t i = 0; i < N; i++)
        assert_false(fake_is_live(askers[i].name));
}

static void test_one_connection_is_enough(void **state)
{
    rowlock_options options = ROWLOCK_OPTIONS_INIT;

    (void)state;
    options.max_connections = 1;
    scene_open(&options);
    all_ask_for_both();
    assert_int_equal(fake_most_connections(), 1);
}

/* ---- callbacks ---- */

static atomic_int asked_back, failed_back;
static _Thread_local int is_inside;

/* Each thread has a lock of its own for it. */
static void ask_back(const rowlock_event *event, void *payload)
{
    rowlock_lock *lock = NULL;
    char name[32];

    (void)event;
    (void)payload;
    if (is_inside || client == NULL)
        return;
    is_inside = 1;
    atomic_fetch_add(&asked_back, 1);
    snprintf(name, sizeof name, "back%llu", (unsigned long long)rlk_thread_number());
    if (rowlock_acquire(&lock, client, name, NULL, NULL) != ROWLOCK_OK ||
        rowlock_release(&lock, NULL) != ROWLOCK_OK)
        atomic_fetch_add(&failed_back, 1);
    is_inside = 0;
}

static void cut_now_and_then(rlk_kind kind, rowlock_op *ops, size_t n, int is_done)
{
    static atomic_int count;

    (void)kind;
    (void)ops;
    if (n > 1 && !is_done && atomic_fetch_add(&count, 1) % 5 == 0)
        plan_batch(FAKE_CUT_AFTER, FAKE_NONE);
}

static void test_callbacks_may_ask_themselves(void **state)
{
    rowlock_options options = ROWLOCK_OPTIONS_INIT;

    (void)state;
    atomic_store(&asked_back, 0);
    atomic_store(&failed_back, 0);
    options.max_connections = 1;
    options.on_event = ask_back;
    scene_open(&options);
    fake_clock_freeze();
    on_request = cut_now_and_then;
    all_ask_for_both();
    assert_true(atomic_load(&asked_back) >= 2 * 20 * N);
    assert_int_equal(atomic_load(&failed_back), 0);
}

/* ---- late ones in a shared request ---- */

static const char *late_name;
static enum fake_fault late_fault; /* of the request that asks for it with a new attempt */

/* The row has a later attempt of the same owner and client, as that of a faster thread. */
static void make_late(rlk_kind kind, rowlock_op *ops, size_t n, int is_done)
{
    if (kind != RLK_ACQUIRE || n == 1 || late_name == NULL)
        return;
    if (is_done) {
        late_name = NULL;
        fake_plan(1, late_fault, late_fault == FAKE_NO_CONNECTION);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        if (strcmp(ops[i].name, late_name) == 0)
            rlk_new_attempt(fake_find(late_name)->attempt, client);
    }
}

/* The others of the request have been granted by then. */
static void test_late_one_that_cannot_be_asked_for_again_leaves_the_others_unknown(void **state)
{
    (void)state;
    assert_status(OK, ask_acquire(&askers[2]));
    assert_status(OK, ask_release(&askers[2]));
    late_name = askers[2].name;
    late_fault = FAKE_NO_CONNECTION;
    on_request = make_late;
    ask_together(ask_acquire, 4);
    fake_plan(0, FAKE_NONE, 0);
    assert_null(late_name);
    assert_true(fake_is_live(askers[1].name));
    assert_int_equal(askers[1].status, ROWLOCK_EUNKNOWN);
    assert_false(fake_is_live(askers[2].name));
}

/* It goes on alone, with the attempt that may have been granted. */
static void test_late_one_whose_answer_is_lost_counts_once(void **state)
{
    (void)state;
    assert_status(OK, ask_acquire(&askers[2]));
    assert_status(OK, ask_release(&askers[2]));
    late_name = askers[2].name;
    late_fault = FAKE_CUT_AFTER;
    on_request = make_late;
    ask_together(ask_acquire, 4);
    assert_null(late_name);
    expect_ok(4);
    for (int i = 0; i < 4; i++)
        assert_int_equal(fake_find(askers[i].name)->hold_count, 1);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, set_up, scene_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_stuck_request_is_not_waited_for_for_long),
        CASE(test_second_request_may_be_stuck_too),
        CASE(test_stuck_request_that_comes_back_leaves_one_at_a_time),
        CASE(test_who_is_put_back_keeps_its_patience),
        CASE(test_short_bound_is_not_spent_on_waiting),
        CASE(test_requests_are_shared_after_one_was_replaced_early),
        CASE(test_requests_are_shared_after_a_pause),
        CASE(test_requests_are_shared_after_any_walk),
        CASE(test_close_waits_for_all_who_have_asked),
        CASE(test_close_ends_the_retries_of_a_shared_request),
        CASE(test_cancelled_one_leaves_the_others),
        CASE(test_child_touches_nothing_while_a_request_is_under_way),
        CASE(test_without_memory_each_goes_alone),
        CASE(test_one_connection_is_enough),
        CASE(test_callbacks_may_ask_themselves),
        CASE(test_late_one_that_cannot_be_asked_for_again_leaves_the_others_unknown),
        CASE(test_late_one_whose_answer_is_lost_counts_once),
    };

    return cmocka_run_group_tests_name("core/combine_edge", tests, NULL, NULL);
}
