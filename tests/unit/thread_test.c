/* SPDX-License-Identifier: MIT */
#include <pthread.h>
#include <stdlib.h>

#include "clock.h"
#include "thread.h"
#include "unit.h"

enum { THREADS = 16, ROUNDS = 8 };

struct seen {
    uint64_t first, second;
};

static void *look(void *payload)
{
    struct seen *seen = payload;

    seen->first = rlk_thread_number();
    seen->second = rlk_thread_number();
    return NULL;
}

static int compare(const void *a, const void *b)
{
    const struct seen *x = a, *y = b;

    return (x->first > y->first) - (x->first < y->first);
}

/* Rounds of threads that end before the next begin: the kernel gives their ids again, we do not. */
static void test_numbers_are_never_given_again(void **state)
{
    struct seen seen[THREADS * ROUNDS + 1];
    size_t n = 0;

    (void)state;
    look(&seen[n++]);
    for (int round = 0; round < ROUNDS; round++) {
        pthread_t threads[THREADS];

        for (int i = 0; i < THREADS; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, look, &seen[n++]), 0);
        for (int i = 0; i < THREADS; i++)
            assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    qsort(seen, n, sizeof *seen, compare);
    assert_true(seen[0].first > 0);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(seen[i].first, seen[i].second);
        assert_true(i == 0 || seen[i].first > seen[i - 1].first);
    }
}

static void test_condition_waits_until_its_time(void **state)
{
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t cond;
    int64_t start = rlk_clock_us(), until = start + 50000;
    int has_time = 1;

    (void)state;
    assert_int_equal(rlk_cond_init(&cond), 0);
    pthread_mutex_lock(&mutex);
    for (int i = 0; i < 1000 && has_time; i++)
        has_time = rlk_cond_wait(&cond, &mutex, until);
    assert_int_equal(has_time, 0);
    assert_true(rlk_clock_us() >= until);
    assert_true(rlk_clock_us() < until + 5000000);
    assert_int_equal(rlk_cond_wait(&cond, &mutex, start), 0);
    pthread_mutex_unlock(&mutex);
    pthread_cond_destroy(&cond);
}

struct signalled {
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    int done;
};

static void *signal_it(void *payload)
{
    struct signalled *s = payload;

    pthread_mutex_lock(&s->mutex);
    s->done = 1;
    pthread_cond_signal(&s->cond);
    pthread_mutex_unlock(&s->mutex);
    return NULL;
}

static void test_condition_wakes_on_a_signal(void **state)
{
    struct signalled s = {.mutex = PTHREAD_MUTEX_INITIALIZER};
    int64_t start = rlk_clock_us();
    pthread_t thread;

    (void)state;
    assert_int_equal(rlk_cond_init(&s.cond), 0);
    pthread_mutex_lock(&s.mutex);
    assert_int_equal(pthread_create(&thread, NULL, signal_it, &s), 0);
    while (!s.done && rlk_clock_us() < start + 30000000)
        rlk_cond_wait(&s.cond, &s.mutex, RLK_NEVER);
    pthread_mutex_unlock(&s.mutex);
    pthread_join(thread, NULL);
    assert_true(rlk_clock_us() - start < 10000000);
    pthread_cond_destroy(&s.cond);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers_are_never_given_again),
        cmocka_unit_test(test_condition_waits_until_its_time),
        cmocka_unit_test(test_condition_wakes_on_a_signal),
    };

    return cmocka_run_group_tests_name("thread", tests, NULL, NULL);
}
