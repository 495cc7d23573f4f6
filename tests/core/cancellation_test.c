/* SPDX-License-Identifier: MIT
 *
 * pthread_cancel(): a thread is cancelled while it is in the driver. It does what it has begun, and
 * ends after the call; nobody who shares its request, and not rowlock_close(), waits for ever. */
#include "core_test.h"

#include <pthread.h>

#include "core.h"
#include "fake_tx.h"

static const char *const names[] = {"b"};

static rowlock_driver fake;
static rowlock_client *client, *opened;
static rowlock_lock *held, *got;
static rowlock_tx *tx;
static int is_armed, status, has_returned;

/* The thread that is in it is cancelled here. */
static void cancel_here(void)
{
    if (!is_armed)
        return;
    is_armed = 0;
    pthread_cancel(pthread_self());
    pthread_testcancel();
}

static int cancel_open(void *conn, const rowlock_config *config, uint32_t timeout_ms,
                       rowlock_error *err)
{
    cancel_here();
    return fake.open(conn, config, timeout_ms, err);
}

static int cancel_acquire(void *conn, rowlock_op *ops, size_t n, int all, uint32_t timeout_ms,
                          rowlock_error *err)
{
    cancel_here();
    return fake.acquire(conn, ops, n, all, timeout_ms, err);
}

static int cancel_renew(void *conn, rowlock_op *ops, size_t n, uint32_t timeout_ms,
                        rowlock_error *err)
{
    cancel_here();
    return fake.renew(conn, ops, n, timeout_ms, err);
}

static int cancel_release(void *conn, rowlock_op *ops, size_t n, uint32_t timeout_ms,
                          rowlock_error *err)
{
    cancel_here();
    return fake.release(conn, ops, n, timeout_ms, err);
}

static int cancel_list(void *conn, const rowlock_list_query *query, rowlock_row_fn fn,
                       void *payload, uint32_t timeout_ms, rowlock_error *err)
{
    cancel_here();
    return fake.list(conn, query, fn, payload, timeout_ms, err);
}

static int cancel_end(void *conn, int commit, uint32_t timeout_ms, rowlock_error *err)
{
    cancel_here();
    return fake.end(conn, commit, timeout_ms, err);
}

static void cancel_close(void *conn)
{
    cancel_here();
    fake.close(conn);
}

static rowlock_driver driver;

static int set_up(void **state)
{
    fresh(state);
    fake = driver = *fake_driver();
    driver.open = cancel_open;
    driver.close = cancel_close;
    driver.acquire = cancel_acquire;
    driver.renew = cancel_renew;
    driver.release = cancel_release;
    driver.list = cancel_list;
    driver.end = cancel_end;
    is_armed = 0;
    assert_status(OK, rowlock_open(&client, &driver, "fake", NULL, NULL));
    held = hold(client, "a", 60000, "me");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    rowlock_release(&held, NULL);
    rowlock_release(&got, NULL);
    rowlock_close(&client);
    rowlock_close(&opened);
    return fake_connections() != 0;
}

/* ---- calls ---- */

static int no_row(const rowlock_row *row, void *payload)
{
    (void)row;
    (void)payload;
    return 0;
}

static int call_open(void)
{
    return rowlock_open(&opened, &driver, "fake", NULL, NULL);
}

static int call_acquire(void)
{
    return rowlock_acquire(&got, client, "b", NULL, NULL);
}

static int call_renew(void)
{
    return rowlock_renew(held, 0, NULL);
}

static int call_release(void)
{
    return rowlock_release(&held, NULL);
}

static int call_list(void)
{
    return rowlock_list(client, NULL, no_row, NULL, NULL);
}

static int call_commit(void)
{
    return rowlock_tx_commit(&tx, NULL);
}

static int call_close(void)
{
    rowlock_release(&held, NULL);
    is_armed = 1;
    rowlock_close(&client);
    return ROWLOCK_OK;
}

static void *run(void *call)
{
    int (*const *fn)(void) = call;

    is_armed = *fn != call_close;
    status = (*fn)();
    has_returned = 1;
    pthread_testcancel();
    return NULL;
}

static void play(int (*call)(void))
{
    pthread_t thread;
    void *result;

    status = 99;
    has_returned = 0;
    assert_int_equal(pthread_create(&thread, NULL, run, &call), 0);
    assert_int_equal(pthread_join(thread, &result), 0);
    if (!has_returned) /* its client is as it left it: not to be touched */
        client = NULL, held = NULL;
    assert_int_equal(has_returned, 1);
    assert_status(OK, status);
    assert_false(is_armed);
    assert_ptr_equal(result, PTHREAD_CANCELED); /* as soon as it may be */
    if (client != NULL)
        assert_int_equal(client->calls, 0);
}

static void test_open(void **state)
{
    (void)state;
    play(call_open);
}

static void test_acquire(void **state)
{
    (void)state;
    play(call_acquire);
    assert_non_null(got);
}

static void test_renew(void **state)
{
    (void)state;
    play(call_renew);
}

static void test_release(void **state)
{
    (void)state;
    play(call_release);
    assert_false(fake_is_live("a"));
}

static void test_list(void **state)
{
    (void)state;
    play(call_list);
}

static void test_commit(void **state)
{
    (void)state;
    assert_status(OK, rowlock_tx_begin(&tx, client, names, 1, NULL, NULL));
    play(call_commit);
}

static void test_close(void **state)
{
    (void)state;
    play(call_close);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_open), CASE(test_acquire), CASE(test_renew), CASE(test_release),
        CASE(test_list), CASE(test_commit),  CASE(test_close),
    };

    return cmocka_run_group_tests_name("core/cancellation", tests, NULL, NULL);
}
