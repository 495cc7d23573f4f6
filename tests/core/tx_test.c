/* SPDX-License-Identifier: MIT
 *
 * Transaction mode and the guard: waits and their bounds, retries, connections, the end. */
#include "core_test.h"

#include "core.h"

static const char *const ab[] = {"b", "a"};
static const char *const a[] = {"a"};

static rowlock_tx *begin(rowlock_client *client, const char *const *names, size_t n)
{
    rowlock_tx *tx = NULL;
    rowlock_error err;

    assert_status(OK, rowlock_tx_begin(&tx, client, names, n, NULL, &err));
    assert_non_null(tx);
    return tx;
}

static int try_begin(rowlock_client *client, const char *const *names, size_t n, int64_t wait_ms,
                     rowlock_error *err)
{
    rowlock_tx_options options = ROWLOCK_TX_OPTIONS_INIT;
    rowlock_tx *tx = NULL;
    int rc;

    options.wait_ms = wait_ms;
    rc = rowlock_tx_begin(&tx, client, names, n, &options, err);
    if (rc == ROWLOCK_OK)
        rowlock_tx_rollback(&tx, NULL);
    assert_null(tx);
    return rc;
}

static void test_fences_come_in_the_callers_order(void **state)
{
    rowlock_client *client = open_client();
    rowlock_tx *tx = begin(client, ab, 2);
    uint64_t b = rowlock_tx_fence(tx, 0);

    (void)state;
    assert_true(b > 0);
    assert_int_equal(b, fake_find("b")->new_fence);
    assert_int_equal(rowlock_tx_fence(tx, 1), fake_find("a")->new_fence);
    assert_int_equal(rowlock_tx_fence(tx, 2), 0);
    assert_int_equal(rowlock_tx_fence(NULL, 0), 0);
    assert_status(OK, rowlock_tx_commit(&tx, NULL));
    assert_null(tx);
    assert_int_equal(fake_find("b")->fence, b);
    assert_false(fake_find("a")->locked);
    rowlock_close(&client);
}

static void test_rollback_frees_and_leaves_the_fence(void **state)
{
    rowlock_client *client = open_client();
    rowlock_tx *tx = begin(client, a, 1);
    uint64_t before = fake_find("a")->fence;

    (void)state;
    assert_status(OK, rowlock_tx_rollback(&tx, NULL));
    assert_false(fake_find("a")->locked);
    assert_int_equal(fake_find("a")->fence, before);
    rowlock_close(&client);
}

static void test_busy_at_once_without_a_wait(void **state)
{
    rowlock_client *one = open_client(), *two = open_client();
    rowlock_tx *tx = begin(one, a, 1);
    rowlock_error err;

    (void)state;
    assert_status(BUSY, try_begin(two, ab, 2, 0, &err));
    assert_non_null(strstr(err.message, "transaction"));
    assert_false(fake_find("b")->locked);
    assert_int_equal(fake_clock_sleeps(), 0);
    rowlock_tx_rollback(&tx, NULL);
    assert_status(OK, try_begin(two, ab, 2, 0, &err));
    rowlock_close(&one);
    rowlock_close(&two);
}

static void test_wait_bound_is_kept_in_pieces_and_in_one(void **state)
{
    rowlock_client *client = open_client();
    rowlock_tx_options options = ROWLOCK_TX_OPTIONS_INIT;
    rowlock_tx *tx = begin(client, a, 1), *second = NULL;
    int64_t start = rlk_clock_us();

    (void)state;
    options.wait_ms = 10000;
    fake_plan(0, FAKE_NONE, 0);
    assert_status(TIMEOUT, rowlock_tx_begin(&second, client, a, 1, &options, NULL));
    assert_int_equal(rlk_clock_us() - start, 10000 * MS);
    assert_int_equal(fake_calls(), 9); /* a second connection; 4 pieces, each a look and a lock */
    options.in_line = 1;
    fake_plan(0, FAKE_NONE, 0);
    start = rlk_clock_us();
    assert_status(TIMEOUT, rowlock_tx_begin(&second, client, a, 1, &options, NULL));
    assert_int_equal(rlk_clock_us() - start, 10000 * MS);
    assert_int_equal(fake_calls(), 2);
    rowlock_tx_rollback(&tx, NULL);
    rowlock_close(&client);
}

static void free_a(void)
{
    fake_find("a")->locked = 0;
}

static void test_wait_ends_when_the_row_is_let_go(void **state)
{
    rowlock_client *client = open_client();
    rowlock_lock *lock = hold(client, "a", 1000, "x");
    int64_t start;

    (void)state;
    rowlock_release(&lock, NULL);
    fake_find("a")->locked = 1;
    fake_on_wait(free_a);
    start = rlk_clock_us();
    assert_status(OK, try_begin(client, a, 1, ROWLOCK_FOREVER, NULL));
    assert_int_equal(rlk_clock_us() - start, 3000 * MS);
    rowlock_close(&client);
}

static void test_a_lease_is_waited_for_outside_of_the_transaction(void **state)
{
    rowlock_tx_options options = ROWLOCK_TX_OPTIONS_INIT;
    rowlock_client *client = open_client();
    rowlock_lock *lock = hold(client, "a", 2000, "alice");
    rowlock_tx *tx = NULL;
    rowlock_holder holder;

    (void)state;
    options.holder = &holder;
    assert_status(BUSY, rowlock_tx_begin(&tx, client, ab, 2, &options, NULL));
    assert_string_equal(holder.owner, "alice");
    assert_string_equal(holder.name, "a");
    assert_int_equal(holder.remaining_ms, 2000);
    assert_int_equal(holder.fence, rowlock_fence(lock));
    options.wait_ms = 1000;
    assert_status(TIMEOUT, rowlock_tx_begin(&tx, client, ab, 2, &options, NULL));
    assert_int_equal(fake_clock_slept_us(), 1000 * MS);
    assert_int_equal(fake_connections(), 2); /* one is reserved, and none was lent */
    options.wait_ms = ROWLOCK_FOREVER;
    assert_status(OK, rowlock_tx_begin(&tx, client, ab, 2, &options, NULL));
    assert_true(rowlock_tx_fence(tx, 1) > rowlock_fence(lock));
    rowlock_tx_rollback(&tx, NULL);
    rowlock_release(&lock, NULL);
    rowlock_close(&client);
}

static rowlock_cancel *to_fire;

static void fire(void)
{
    rowlock_cancel_fire(to_fire);
}

static void test_cancel_before_the_wait(void **state)
{
    rowlock_tx_options options = ROWLOCK_TX_OPTIONS_INIT;
    rowlock_client *client = open_client();
    rowlock_tx *tx = begin(client, a, 1), *second = NULL;
    int64_t start = rlk_clock_us();

    (void)state;
    rowlock_cancel_new(&to_fire, NULL);
    fire();
    options.wait_ms = ROWLOCK_FOREVER;
    options.cancel = to_fire;
    assert_status(CANCELLED, rowlock_tx_begin(&second, client, a, 1, &options, NULL));
    assert_int_equal(rlk_clock_us(), start);
    rowlock_cancel_free(&to_fire);
    rowlock_tx_rollback(&tx, NULL);
    rowlock_close(&client);
}

static void test_cancel_is_noticed_between_two_pieces(void **state)
{
    rowlock_tx_options options = ROWLOCK_TX_OPTIONS_INIT;
    rowlock_client *client = open_client();
    rowlock_tx *tx = begin(client, a, 1), *second = NULL;
    int64_t start = rlk_clock_us();

    (void)state;
    rowlock_cancel_new(&to_fire, NULL);
    fake_on_wait(fire);
    options.wait_ms = ROWLOCK_FOREVER;
    options.cancel = to_fire;
    assert_status(CANCELLED, rowlock_tx_begin(&second, client, a, 1, &options, NULL));
    assert_int_equal(rlk_clock_us() - start, 3000 * MS);
    rowlock_cancel_free(&to_fire);
    rowlock_tx_rollback(&tx, NULL);
    rowlock_close(&client);
}

/* A database in which nothing is created. */
static void test_a_row_that_is_never_seen_is_not_asked_for_for_ever(void **state)
{
    rowlock_client *client = NULL;
    fake_session session = {1, "here"};
    rowlock_driver other = *fake_driver();
    rowlock_error err;

    (void)state;
    other.prepare = other.renew;
    assert_status(OK, rowlock_open(&client, &other, "fake", NULL, &err));
    fake_plan(0, FAKE_NONE, 0);
    assert_status(EDRIVER, try_begin(client, a, 1, ROWLOCK_FOREVER, &err));
    assert_int_equal(fake_calls(), 3);
    assert_status(EDRIVER, rowlock_native_lock(NULL, client, &other, &session, a, 1, NULL, &err));
    assert_int_equal(err.retryable, 1);
    assert_int_equal(fake_calls(), 5); /* the place, and one look: not made again in this case */
    rowlock_close(&client);
}

static void test_no_connection_for_one_more_transaction(void **state)
{
    static const char *const names[] = {"c", "d", "e"};
    rowlock_options options = ROWLOCK_OPTIONS_INIT;
    rowlock_client *client;
    rowlock_tx *tx[2];
    rowlock_error err;
    int64_t start;

    (void)state;
    options.max_connections = 2;
    client = open_client_with(&options);
    tx[0] = begin(client, &names[0], 1);
    tx[1] = begin(client, &names[1], 1);
    start = rlk_clock_us();
    assert_status(ECONNECT, try_begin(client, &names[2], 1, 0, &err));
    assert_int_equal(rlk_clock_us(), start);
    assert_non_null(strstr(err.message, "max_connections"));
    assert_int_equal(err.status, ROWLOCK_ECONNECT);
    assert_status(ECONNECT, try_begin(client, &names[2], 1, 500, &err));
    assert_int_equal(rlk_clock_us() - start, 500 * MS);
    rowlock_tx_commit(&tx[0], NULL);
    assert_status(OK, try_begin(client, &names[2], 1, 0, &err));
    rowlock_tx_commit(&tx[1], NULL);
    rowlock_close(&client);
}

static void test_faults_of_the_first_tries_are_retried(void **state)
{
    static const enum fake_fault faults[] = {FAKE_NO_CONNECTION, FAKE_DEADLOCK};

    (void)state;
    for (size_t f = 0; f < 2; f++) {
        for (int call = 1; call <= 2; call++) {
            rowlock_client *client = open_client();

            fake_plan(call, faults[f], 0);
            assert_status(OK, try_begin(client, a, 1, 0, NULL));
            assert_int_equal(fake_connections(), 1);
            rowlock_close(&client);
        }
    }
    assert_int_equal(fake_connections(), 0);
}

/* The row may have been made or not: nobody's business. */
static void test_a_look_without_an_answer_is_not_unknown(void **state)
{
    rowlock_client *client = open_client();

    (void)state;
    fake_plan(1, FAKE_CUT_AFTER, 1);
    assert_status(ECONNECT, try_begin(client, a, 1, 0, NULL));
    rowlock_close(&client);
}

static void test_the_owner_of_the_client_is_written(void **state)
{
    rowlock_options options = ROWLOCK_OPTIONS_INIT;
    rowlock_client *client;
    rowlock_tx *tx;

    (void)state;
    options.owner = "me";
    client = open_client_with(&options);
    tx = begin(client, a, 1);
    assert_string_equal(fake_find("a")->owner, "me");
    rowlock_tx_rollback(&tx, NULL);
    rowlock_close(&client);
}

static void test_a_dead_database_is_told_within_the_calls_bound(void **state)
{
    rowlock_client *client = open_client();
    int64_t start = rlk_clock_us();

    (void)state;
    fake_plan(1, FAKE_NO_CONNECTION, 1);
    assert_status(ECONNECT, try_begin(client, a, 1, ROWLOCK_FOREVER, NULL));
    assert_in_range(rlk_clock_us() - start, 4000 * MS, 5000 * MS);
    rowlock_close(&client);
}

static void test_transactions_leave_connections_for_leases(void **state)
{
    static const char *const names[] = {"c", "d", "e"};
    rowlock_options options = ROWLOCK_OPTIONS_INIT;
    rowlock_client *client;
    rowlock_tx *tx[2];
    rowlock_lock *lock;

    (void)state;
    options.max_connections = 2;
    client = open_client_with(&options);
    tx[0] = begin(client, &names[0], 1);
    tx[1] = begin(client, &names[1], 1);
    lock = hold(client, "lease", 1000, "x");
    assert_status(OK, rowlock_renew(lock, 0, NULL));
    assert_int_equal(fake_connections(), 3);
    rowlock_tx_commit(&tx[0], NULL);
    rowlock_tx_commit(&tx[1], NULL);
    assert_in_range(fake_connections(), 1, 2); /* never more than that are kept */
    assert_status(OK, try_begin(client, &names[2], 1, 0, NULL));
    rowlock_release(&lock, NULL);
    rowlock_close(&client);
    assert_int_equal(fake_connections(), 0);
}

static void test_a_shown_connection_is_not_used_again(void **state)
{
    rowlock_client *client = open_client();
    rowlock_tx *tx = begin(client, a, 1);

    (void)state;
    assert_int_equal(fake_connections(), 1); /* that of the look before it */
    assert_null(rowlock_native_connection(NULL, fake_driver()));
    assert_null(rowlock_native_connection(tx, NULL));
    assert_non_null(rowlock_native_connection(tx, fake_driver()));
    rowlock_tx_commit(&tx, NULL);
    assert_int_equal(fake_connections(), 0);
    tx = begin(client, a, 1);
    rowlock_tx_commit(&tx, NULL);
    assert_int_equal(fake_connections(), 1);
    rowlock_close(&client);
}

static void test_the_end_tells_what_the_database_said(void **state)
{
    static const struct {
        enum fake_fault fault;
        int status, connections;
    } ends[] = {{FAKE_NONE, ROWLOCK_OK, 1},
                {FAKE_REFUSED, ROWLOCK_EDRIVER, 1},
                {FAKE_NO_CONNECTION, ROWLOCK_ECONNECT, 0},
                {FAKE_CUT_BEFORE, ROWLOCK_EUNKNOWN, 0},
                {FAKE_CUT_AFTER, ROWLOCK_EUNKNOWN, 0}};

    (void)state;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        for (int commit = 0; commit < 2; commit++) {
            rowlock_client *client = open_client();
            rowlock_tx *tx = begin(client, a, 1);
            rowlock_error err;
            int rc;

            fake_plan(1, ends[i].fault, 0);
            rc = commit ? rowlock_tx_commit(&tx, &err) : rowlock_tx_rollback(&tx, &err);
            assert_int_equal(rc, commit ? ends[i].status : ROWLOCK_OK);
            assert_int_equal(err.status, rc);
            assert_int_equal(fake_calls(), 1); /* a COMMIT is never repeated */
            assert_null(tx);
            assert_int_equal(fake_connections(), ends[i].connections);
            assert_status(EINVAL, rowlock_tx_commit(&tx, NULL));
            rowlock_close(&client);
        }
    }
}

static void test_a_transaction_outlives_its_client(void **state)
{
    rowlock_client *client = open_client();
    rowlock_tx *tx = begin(client, a, 1);
    uint64_t fence = rowlock_tx_fence(tx, 0);

    (void)state;
    rowlock_close(&client);
    assert_int_equal(fake_connections(), 1);
    assert_int_equal(rowlock_tx_fence(tx, 0), fence);
    assert_status(OK, rowlock_tx_commit(&tx, NULL));
    assert_int_equal(fake_find("a")->fence, fence);
    assert_int_equal(fake_connections(), 0);
}

static void test_bad_arguments(void **state)
{
    static const char *const twice[] = {"a", "a"}, *const empty[] = {""}, *const null[] = {NULL};
    rowlock_client *client = open_client();
    rowlock_tx_options options = ROWLOCK_TX_OPTIONS_INIT;
    rowlock_driver old = *fake_driver();
    rowlock_tx *tx = (rowlock_tx *)&options;

    (void)state;
    assert_status(EINVAL, rowlock_tx_begin(NULL, client, a, 1, NULL, NULL));
    assert_status(EINVAL, rowlock_tx_begin(&tx, NULL, a, 1, NULL, NULL));
    assert_null(tx);
    assert_status(EINVAL, rowlock_tx_begin(&tx, client, NULL, 1, NULL, NULL));
    assert_status(EINVAL, rowlock_tx_begin(&tx, client, a, 0, NULL, NULL));
    assert_status(EINVAL, rowlock_tx_begin(&tx, client, a, ROWLOCK_BATCH_MAX + 1, NULL, NULL));
    assert_status(EINVAL, rowlock_tx_begin(&tx, client, twice, 2, NULL, NULL));
    assert_status(EINVAL, rowlock_tx_begin(&tx, client, empty, 1, NULL, NULL));
    assert_status(EINVAL, rowlock_tx_begin(&tx, client, null, 1, NULL, NULL));
    options.wait_ms = -2;
    assert_status(EINVAL, rowlock_tx_begin(&tx, client, a, 1, &options, NULL));
    options.wait_ms = 0;
    options.size = 1;
    assert_status(EINVAL, rowlock_tx_begin(&tx, client, a, 1, &options, NULL));
    assert_status(EINVAL, rowlock_tx_rollback(NULL, NULL));
    assert_null(fake_find("a"));
    rowlock_close(&client);
    old.size = offsetof(rowlock_driver, prepare);
    assert_status(OK, rowlock_open(&client, &old, "fake", NULL, NULL));
    assert_status(ENOTSUP, rowlock_tx_begin(&tx, client, a, 1, NULL, NULL));
    rowlock_close(&client);
    old = *fake_driver();
    old.guard = NULL;
    assert_status(EINVAL, rowlock_open(&client, &old, "fake", NULL, NULL));
}

static int setup(void **state)
{
    fake_on_wait(NULL);
    return fresh(state);
}

#define TEST(name) cmocka_unit_test_setup(test_##name, setup)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(fences_come_in_the_callers_order),
        TEST(rollback_frees_and_leaves_the_fence),
        TEST(busy_at_once_without_a_wait),
        TEST(wait_bound_is_kept_in_pieces_and_in_one),
        TEST(wait_ends_when_the_row_is_let_go),
        TEST(a_lease_is_waited_for_outside_of_the_transaction),
        TEST(cancel_before_the_wait),
        TEST(cancel_is_noticed_between_two_pieces),
        TEST(a_row_that_is_never_seen_is_not_asked_for_for_ever),
        TEST(no_connection_for_one_more_transaction),
        TEST(faults_of_the_first_tries_are_retried),
        TEST(a_look_without_an_answer_is_not_unknown),
        TEST(the_owner_of_the_client_is_written),
        TEST(a_dead_database_is_told_within_the_calls_bound),
        TEST(transactions_leave_connections_for_leases),
        TEST(a_shown_connection_is_not_used_again),
        TEST(the_end_tells_what_the_database_said),
        TEST(a_transaction_outlives_its_client),
        TEST(bad_arguments),
    };

    return cmocka_run_group_tests_name("core/tx", tests, NULL, NULL);
}
