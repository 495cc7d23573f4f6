/* SPDX-License-Identifier: MIT
 *
 * One connection is left to those who renew and release, whatever others do with the client. The
 * program is linked with --wrap=rlk_cond_wait: who waits for a connection does so for a moment;
 * the test's own thread should get one at once, and when it has to wait, its time passes. */
#include "core_test.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>

#include "core.h"
#include "fake_queue.h"

enum { THREADS = 16, MOST = 5, LONGEST_MS = 60000 };

static rowlock_client *client;
static rowlock_lock *held;
static int limit;
static atomic_int listing, gate, started, order; /* order: of who was served last */
static int answer;
static pthread_t tester;

int __wrap_rlk_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex, int64_t until_us);

int __wrap_rlk_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex, int64_t until_us)
{
    (void)cond;
    if (pthread_equal(pthread_self(), tester))
        fake_clock_advance_us(until_us - rlk_clock_us());
    pthread_mutex_unlock(mutex);
    poll(NULL, 0, 1);
    pthread_mutex_lock(mutex);
    return 1;
}

/* ---- a server that takes no more connections than so many, and lists when the gate is open */

static int limited_open(void *conn, const rowlock_config *config, uint32_t timeout_ms,
                        rowlock_error *err)
{
    if (limit > 0 && fake_connections() >= limit)
        return rlk_fail_native(err, ROWLOCK_ECONNECT, 0, "53300", 1, "too many clients already");
    return fake_driver()->open(conn, config, timeout_ms, err);
}

static int slow_list(void *conn, const rowlock_list_query *query, rowlock_row_fn fn, void *payload,
                     uint32_t timeout_ms, rowlock_error *err)
{
    atomic_fetch_add(&listing, 1);
    while (!atomic_load(&gate))
        poll(NULL, 0, 1);
    atomic_fetch_sub(&listing, 1);
    return fake_driver()->list(conn, query, fn, payload, timeout_ms, err);
}

static int no_row(const rowlock_row *row, void *payload)
{
    (void)row;
    (void)payload;
    return 0;
}

static int set_up(void **state)
{
    rowlock_driver driver = *fake_queue_driver();
    rowlock_options options = ROWLOCK_OPTIONS_INIT;

    fresh(state);
    driver.open = limited_open;
    driver.list = slow_list;
    options.max_connections = MOST;
    limit = 0;
    atomic_store(&listing, 0);
    atomic_store(&gate, 0);
    atomic_store(&started, 0);
    answer = 99;
    held = NULL;
    tester = pthread_self();
    assert_status(OK, rowlock_open(&client, &driver, "fake", &options, NULL));
    client->watch.is_by_hand = 1;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    fake_clock_on_sleep(NULL);
    if (held != NULL)
        rowlock_release(&held, NULL);
    rowlock_close(&client);
    return fake_connections() != 0;
}

static void release_held(void)
{
    if (held != NULL)
        answer = rowlock_release(&held, NULL);
}

/* The waiter may not wait on the only connection that there is. */
static void test_waiter_leaves_the_last_connection_to_releases(void **state)
{
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;
    rowlock_client *other = open_client();
    rowlock_lock *theirs = hold(other, "b", 60000, "them"), *lock = NULL;

    (void)state;
    held = hold(client, "a", 60000, "me");
    limit = fake_connections();
    options.wait_ms = 2000;
    options.owner = "me";
    fake_clock_on_sleep(release_held);
    fake_on_turn(release_held);
    rowlock_acquire(&lock, client, "b", &options, NULL);
    assert_null(lock);
    assert_int_equal(answer, ROWLOCK_OK);
    fake_clock_on_sleep(NULL);
    fake_on_turn(NULL);
    rowlock_release(&theirs, NULL);
    rowlock_close(&other);
}

static void test_transaction_leaves_the_last_connection_to_renewals(void **state)
{
    static const char *const names[] = {"b"};
    rowlock_tx *tx = NULL;

    (void)state;
    held = hold(client, "a", 60000, "me");
    limit = fake_connections();
    assert_status(ECONNECT, rowlock_tx_begin(&tx, client, names, 1, NULL, NULL));
    assert_status(OK, rowlock_renew(held, 0, NULL));
    limit++;
    assert_status(OK, rowlock_tx_begin(&tx, client, names, 1, NULL, NULL));
    assert_status(OK, rowlock_renew(held, 0, NULL));
    assert_status(OK, rowlock_tx_rollback(&tx, NULL));
}

/* The lock that a waiter is about to get has to be renewed, too. */
static void test_waiter_leaves_a_connection_to_its_own_renewals(void **state)
{
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;
    rowlock_client *other = open_client();
    rowlock_lock *lock = NULL;

    (void)state;
    held = hold(other, "b", 2000, "them");
    limit = fake_connections();
    options.wait_ms = 10000;
    options.renew = 1;
    assert_status(OK, rowlock_acquire(&lock, client, "b", &options, NULL));
    assert_int_equal(client->idle_count, 1);
    assert_status(OK, rowlock_renew(lock, 0, NULL));
    assert_status(OK, rowlock_release(&lock, NULL));
    rowlock_release(&held, NULL);
    rowlock_close(&other);
}

/* A call may not take the only one that there is, either; but it may where there is to be one. */
static void test_call_leaves_the_last_connection(void **state)
{
    rowlock_options options = ROWLOCK_OPTIONS_INIT;
    rowlock_client *small;
    rowlock_lock *one, *two;

    (void)state;
    held = hold(client, "a", 60000, "me");
    limit = fake_connections();
    atomic_store(&gate, 1);
    assert_status(ECONNECT, rowlock_list(client, NULL, no_row, NULL, NULL));
    assert_status(OK, rowlock_renew(held, 0, NULL));
    limit = 0;
    assert_status(OK, rowlock_list(client, NULL, no_row, NULL, NULL));
    options.max_connections = 1;
    small = open_client_with(&options);
    one = hold(small, "b", 0, "me");
    two = hold(small, "c", 0, "me");
    assert_int_equal(small->connections[RLK_USE_CALL], 1);
    rowlock_release(&one, NULL);
    rowlock_release(&two, NULL);
    rowlock_close(&small);
}

static void *list(void *result)
{
    atomic_fetch_add(&started, 1);
    *(int *)result = rowlock_list(client, NULL, no_row, NULL, NULL);
    return NULL;
}

static void await(atomic_int *number, int n)
{
    for (int ms = 0; atomic_load(number) < n && ms < LONGEST_MS; ms++)
        poll(NULL, 0, 1);
    assert_true(atomic_load(number) >= n);
}

static void test_listing_threads_leave_a_connection_to_renewals_and_releases(void **state)
{
    pthread_t threads[THREADS];
    int results[THREADS], renewed, released;

    (void)state;
    held = hold(client, "a", 60000, "me");
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, list, &results[i]), 0);
    await(&started, THREADS);
    await(&listing, MOST - 1);
    renewed = rowlock_renew(held, 0, NULL);
    released = rowlock_release(&held, NULL);
    atomic_store(&gate, 1);
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(renewed, ROWLOCK_OK);
    assert_int_equal(released, ROWLOCK_OK);
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(results[i], ROWLOCK_OK);
    assert_true(fake_most_connections() <= MOST);
}

/* ---- one connection for all ---- */

enum { ROUNDS = 30 };

static int release_turn, list_turn;

static int noting_release(void *conn, rowlock_op *ops, size_t n, uint32_t timeout_ms,
                          rowlock_error *err)
{
    release_turn = atomic_fetch_add(&order, 1);
    return fake_driver()->release(conn, ops, n, timeout_ms, err);
}

static int noting_list(void *conn, const rowlock_list_query *query, rowlock_row_fn fn,
                       void *payload, uint32_t timeout_ms, rowlock_error *err)
{
    list_turn = atomic_fetch_add(&order, 1);
    return slow_list(conn, query, fn, payload, timeout_ms, err);
}

static void *release(void *unused)
{
    (void)unused;
    release_held();
    return NULL;
}

static uint32_t keep_waiting(void)
{
    uint32_t n;

    rlk_mutex_lock(&client->mutex);
    n = client->keep_waiting;
    rlk_mutex_unlock(&client->mutex);
    return n;
}

static void open_with_one(void)
{
    rowlock_driver driver = *fake_queue_driver();
    rowlock_options options = ROWLOCK_OPTIONS_INIT;

    rowlock_close(&client);
    driver.list = noting_list;
    driver.release = noting_release;
    options.max_connections = 1;
    assert_status(OK, rowlock_open(&client, &driver, "fake", &options, NULL));
}

/* One lists, another one waits to list, and then somebody to release: that one comes next. */
static void test_where_there_is_one_connection_a_release_comes_first(void **state)
{
    pthread_t listers[2], releaser;
    int results[2];

    (void)state;
    open_with_one();
    fake_clock_freeze();
    for (int round = 0; round < ROUNDS; round++) {
        atomic_store(&gate, 0);
        atomic_store(&started, 0);
        atomic_store(&order, 0);
        held = hold(client, "a", 60000, "me");
        assert_int_equal(pthread_create(&listers[0], NULL, list, &results[0]), 0);
        await(&listing, 1);
        assert_int_equal(pthread_create(&listers[1], NULL, list, &results[1]), 0);
        await(&started, 2);
        assert_int_equal(pthread_create(&releaser, NULL, release, NULL), 0);
        for (int ms = 0; keep_waiting() == 0 && ms < LONGEST_MS; ms++)
            poll(NULL, 0, 1);
        atomic_store(&gate, 1);
        pthread_join(listers[0], NULL);
        pthread_join(listers[1], NULL);
        pthread_join(releaser, NULL);
        assert_int_equal(answer, ROWLOCK_OK);
        assert_int_equal(release_turn, 1);
        assert_int_equal(list_turn, 2);
    }
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_waiter_leaves_the_last_connection_to_releases),
        CASE(test_transaction_leaves_the_last_connection_to_renewals),
        CASE(test_waiter_leaves_a_connection_to_its_own_renewals),
        CASE(test_call_leaves_the_last_connection),
        CASE(test_listing_threads_leave_a_connection_to_renewals_and_releases),
        CASE(test_where_there_is_one_connection_a_release_comes_first),
    };

    return cmocka_run_group_tests_name("core/pool", tests, NULL, NULL);
}
