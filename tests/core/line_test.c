/* SPDX-License-Identifier: MIT
 *
 * The line of threads of one client that want the same lock: who is served, and when. */
#include <pthread.h>
#include <sched.h>

#include "event.h"
#include "queue_scene.h"

enum { THREADS = 16 };

static int order[THREADS], answers[THREADS];
static atomic_int served;

static void *stand_in_line(void *arg)
{
    int me = *(int *)arg;
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;
    rowlock_lock *lock = NULL;

    options.wait_ms = ROWLOCK_FOREVER;
    answers[me] = rowlock_acquire(&lock, client, "a", &options, NULL);
    if (answers[me] == ROWLOCK_OK)
        order[atomic_fetch_add(&served, 1)] = me;
    rowlock_release(&lock, NULL);
    return NULL;
}

/* They come one after the other, and somebody else holds what they want. */
static void form_line(pthread_t threads[THREADS], int numbers[THREADS])
{
    fake_clock_freeze();
    holder = hold(client, "a", 600000, "alice");
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = i;
        assert_int_equal(pthread_create(&threads[i], NULL, stand_in_line, &numbers[i]), 0);
        while (counters().waiting <= (uint64_t)i)
            sched_yield();
    }
    while (counters().queued == 0) /* the first of them may be on its way to the database */
        sched_yield();
}

static void test_threads_are_served_in_the_order_of_arrival(void **state)
{
    pthread_t threads[THREADS];
    int numbers[THREADS];

    (void)state;
    form_line(threads, numbers);
    assert_int_equal(fake_tickets("a"), 1); /* one of them asks */
    assert_status(OK, rowlock_release(&holder, NULL));
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (int i = 0; i < THREADS; i++) {
        assert_status(OK, answers[i]);
        assert_int_equal(order[i], i);
    }
}

static void test_close_ends_the_waits_of_a_line(void **state)
{
    pthread_t threads[THREADS];
    int numbers[THREADS];

    (void)state;
    form_line(threads, numbers);
    rowlock_close(&client);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (int i = 0; i < THREADS; i++)
        assert_status(ECLOSED, answers[i]);
    assert_int_equal(fake_tickets("a"), 0);
}

/* The one who holds it must not stand behind those who wait for it. */
static void test_owner_re_enters_past_the_line(void **state)
{
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;
    rowlock_lock *outer = hold(client, "a", 600000, NULL), *inner = NULL;
    pthread_t thread;
    int number = 0;

    (void)state;
    fake_clock_freeze();
    assert_int_equal(pthread_create(&thread, NULL, stand_in_line, &number), 0);
    while (counters().waiting < 1)
        sched_yield();
    options.wait_ms = ROWLOCK_FOREVER;
    assert_status(OK, rowlock_acquire(&inner, client, "a", &options, NULL));
    assert_status(OK, rowlock_release(&inner, NULL));
    assert_status(OK, rowlock_release(&outer, NULL));
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_status(OK, answers[0]);
}

/* ---- the list, against a model ---- */

enum { WAITERS = 9, NAMES = 3, STEPS = 20000 };

static rlk_waiter waiters[WAITERS];
static rowlock_op wanted[WAITERS];
static char names[NAMES][16];
static size_t model[NAMES][WAITERS], lengths[NAMES]; /* who waits for each name, in order */
static uint32_t random_state = 1;

static uint32_t random_below(uint32_t limit)
{
    random_state = random_state * 1664525 + 1013904223;
    return (random_state >> 16) % limit;
}

/* All in one bucket, and each the beginning of the next. */
static void make_names(void)
{
    size_t bucket;

    names[0][0] = 'a';
    bucket = rlk_line_bucket(names[0], 1);
    for (size_t i = 1; i < NAMES; i++) {
        size_t length = 2 * i + 1;
        int c = 0;

        memcpy(names[i], names[i - 1], length);
        do {
            names[i][length - 2] = (char)('a' + c / 26);
            names[i][length - 1] = (char)('a' + c % 26);
        } while (rlk_line_bucket(names[i], length) != bucket && ++c < 26 * 26);
        assert_int_equal(rlk_line_bucket(names[i], length), bucket);
    }
}

static void make_waiter(size_t i)
{
    const char *name = names[i % NAMES];

    wanted[i] = (rowlock_op){.name = name, .name_length = strlen(name), .owner = "me"};
    waiters[i] = (rlk_waiter){.client = client, .ops = &wanted[i], .n = 1, .ring_fd = -1};
}

static size_t place_of(size_t waiter)
{
    size_t name = waiter % NAMES, at = 0;

    while (at < lengths[name] && model[name][at] != waiter)
        at++;
    return at;
}

static void expect_like_model(void)
{
    for (size_t name = 0; name < NAMES; name++) {
        const rlk_waiter *front = rlk_line_front(client, names[name], strlen(names[name]));

        assert_ptr_equal(front, lengths[name] == 0 ? NULL : &waiters[model[name][0]]);
        for (size_t i = 0; i < lengths[name]; i++)
            assert_int_equal(waiters[model[name][i]].is_front, i == 0);
    }
}

static void test_lines_are_like_their_model(void **state)
{
    (void)state;
    make_names();
    for (int step = 0; step < STEPS; step++) {
        size_t i = random_below(WAITERS), name = i % NAMES, at = place_of(i);

        if (at == lengths[name]) {
            make_waiter(i);
            rlk_line_join(&waiters[i]);
            model[name][lengths[name]++] = i;
        } else {
            rlk_line_leave(&waiters[i]);
            lengths[name]--;
            memmove(&model[name][at], &model[name][at + 1],
                    (lengths[name] - at) * sizeof model[name][0]);
        }
        expect_like_model();
    }
    for (size_t i = 0; i < WAITERS; i++) {
        if (place_of(i) < lengths[i % NAMES])
            rlk_line_leave(&waiters[i]);
    }
}

static void test_who_becomes_the_front_is_woken(void **state)
{
    (void)state;
    make_names();
    for (size_t i = 0; i < 2; i++) {
        make_waiter(i * NAMES);
        waiters[i * NAMES].ring_fd = rlk_event_new();
        rlk_line_join(&waiters[i * NAMES]);
    }
    rlk_line_leave(&waiters[0]);
    assert_int_equal(rlk_sleep_until(rlk_clock_us(), &waiters[NAMES].ring_fd, 1), 0);
    rlk_line_leave(&waiters[NAMES]);
    rlk_event_free(waiters[0].ring_fd);
    rlk_event_free(waiters[NAMES].ring_fd);
}

static int set_up(void **state)
{
    atomic_store(&served, 0);
    return queue_set_up(state);
}

#define case_of(name) cmocka_unit_test_setup_teardown(name, set_up, queue_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        case_of(test_threads_are_served_in_the_order_of_arrival),
        case_of(test_close_ends_the_waits_of_a_line),
        case_of(test_owner_re_enters_past_the_line),
        case_of(test_lines_are_like_their_model),
        case_of(test_who_becomes_the_front_is_woken),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
