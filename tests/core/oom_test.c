/* SPDX-License-Identifier: MIT
 *
 * Memory runs out at the n-th allocation, for every n: a clear ENOMEM, no leak, no ghost in the
 * database, and the client works on afterwards. The linker puts our allocators in front. */
#include <stdlib.h>

#include "core.h"
#include "core_test.h"
#include "fake_queue.h"

static long left = -1; /* allocations until they fail; -1: never */

static int exhausted(void)
{
    if (left < 0)
        return 0;
    if (left == 0)
        return 1;
    left--;
    return 0;
}

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *memory, size_t size);
char *__real_strdup(const char *string);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *memory, size_t size);
char *__wrap_strdup(const char *string);

void *__wrap_malloc(size_t size)
{
    return exhausted() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
    return exhausted() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *memory, size_t size)
{
    return exhausted() ? NULL : __real_realloc(memory, size);
}

char *__wrap_strdup(const char *string)
{
    return exhausted() ? NULL : __real_strdup(string);
}

/* Runs `step` with one allocation more each time until it gets through. Returns how often it
 * failed; the sweep has tested nothing if that is not at least once. */
static int sweep(int (*step)(rowlock_client *client, rowlock_error *err), rowlock_client *client)
{
    rowlock_error err;
    int failures = 0;

    for (long n = 0; n < 1000; n++) {
        int rc;

        left = n;
        rc = step(client, &err);
        left = -1;
        if (rc == ROWLOCK_OK)
            return failures;
        assert_int_equal(rc, ROWLOCK_ENOMEM);
        assert_int_equal(err.status, ROWLOCK_ENOMEM);
        failures++;
    }
    fail_msg("did not get through");
    return failures;
}

static int step_open(rowlock_client *unused, rowlock_error *err)
{
    rowlock_options options = ROWLOCK_OPTIONS_INIT;
    rowlock_client *client = NULL;
    int rc;

    (void)unused;
    options.owner = "me";
    options.schema = "s";
    rc = rowlock_open(&client, fake_driver(), "fake", &options, err);
    if (rc != ROWLOCK_OK)
        assert_null(client);
    rowlock_close(&client);
    return rc;
}

static int step_acquire(rowlock_client *client, rowlock_error *err)
{
    rowlock_lock *lock = NULL;
    int rc = rowlock_acquire(&lock, client, "a", NULL, err);

    if (rc != ROWLOCK_OK) {
        assert_null(lock);
        assert_null(fake_find("a"));
        return rc;
    }
    return rowlock_release(&lock, err);
}

static int step_many(rowlock_client *client, rowlock_error *err)
{
    static const char *const names[] = {"m3", "m1", "m2", "m4", "m5", "m6", "m7", "m8", "m9",
                                        "n3", "n1", "n2", "n4", "n5", "n6", "n7", "n8", "n9"};
    enum { N = sizeof names / sizeof *names };
    rowlock_lock *locks[N];
    int rc = rowlock_acquire_many(locks, client, names, N, NULL, err);

    for (int i = 0; i < N; i++) {
        if (rc != ROWLOCK_OK) {
            assert_null(locks[i]);
            assert_null(fake_find(names[i]));
        } else {
            assert_int_equal(rowlock_release(&locks[i], err), ROWLOCK_OK);
        }
    }
    return rc;
}

static const char *const pair[] = {"b", "a"};

/* The second connection is opened anew each time, so that its memory is part of the sweep. */
static int step_tx(rowlock_client *client, rowlock_error *err)
{
    rowlock_tx *tx = NULL;
    int rc = rowlock_tx_begin(&tx, client, pair, 2, NULL, err);

    if (rc != ROWLOCK_OK) {
        assert_null(tx);
        return rc;
    }
    assert_non_null(rowlock_native_connection(tx, fake_driver()));
    return rowlock_tx_commit(&tx, err);
}

static int step_native(rowlock_client *client, rowlock_error *err)
{
    fake_session session = {1, "here"};
    int rc = rowlock_native_lock(NULL, client, fake_driver(), &session, pair, 2, NULL, err);

    fake_session_end(&session, 0);
    return rc;
}

static int count_row(const rowlock_row *row, void *payload)
{
    (void)row;
    ++*(int *)payload;
    return 0;
}

static int step_list(rowlock_client *client, rowlock_error *err)
{
    int rows = 0;
    int rc = rowlock_list(client, NULL, count_row, &rows, err);

    assert_int_equal(rows, rc == ROWLOCK_OK ? 3 : 0);
    return rc;
}

static int step_sql(rowlock_client *client, rowlock_error *err)
{
    char *sql = NULL;
    int rc = rowlock_migration_sql(&sql, fake_driver(), 1, 1, NULL, err);

    (void)client;
    assert_true((sql == NULL) == (rc != ROWLOCK_OK));
    rowlock_free(sql);
    return rc;
}

static int step_cancel(rowlock_client *client, rowlock_error *err)
{
    rowlock_cancel *cancel = NULL;
    int rc = rowlock_cancel_new(&cancel, err);

    (void)client;
    rowlock_cancel_free(&cancel);
    return rc;
}

static void test_open_at_every_allocation(void **state)
{
    (void)state;
    assert_true(sweep(step_open, NULL) >= 5);
    assert_int_equal(fake_connections(), 0);
}

static void test_acquire_at_every_allocation(void **state)
{
    rowlock_client *client = open_client();

    (void)state;
    assert_true(sweep(step_acquire, client) >= 5);
    rowlock_close(&client);
}

static void test_acquire_many_at_every_allocation(void **state)
{
    rowlock_client *client = open_client();

    (void)state;
    assert_true(sweep(step_many, client) >= 30);
    rowlock_close(&client);
}

static void test_transactions_at_every_allocation(void **state)
{
    rowlock_client *client = open_client();

    (void)state;
    assert_true(sweep(step_tx, client) >= 4);
    assert_true(sweep(step_native, client) >= 4);
    assert_false(fake_find("a")->locked);
    rowlock_close(&client);
    assert_int_equal(fake_connections(), 0);
}

static void test_the_rest_at_every_allocation(void **state)
{
    rowlock_client *client = open_client();
    rowlock_lock *a = hold(client, "a", 0, NULL), *b = hold(client, "b", 0, NULL);
    rowlock_lock *c = hold(client, "c", 0, NULL);

    (void)state;
    assert_true(sweep(step_list, client) >= 3);
    assert_true(sweep(step_sql, client) >= 1);
    assert_true(sweep(step_cancel, client) >= 1);
    rowlock_release(&a, NULL);
    rowlock_release(&b, NULL);
    rowlock_release(&c, NULL);
    rowlock_close(&client);
}

/* Releasing needs memory only when the client is closed with locks held: their leases end by time.
 */
static void test_close_without_memory_leaks_nothing(void **state)
{
    for (long n = 0; n < 5; n++) {
        rowlock_client *client;
        rowlock_lock *lock;

        fresh(state);
        client = open_client();
        lock = hold(client, "a", 0, NULL);
        left = n;
        rowlock_close(&client);
        left = -1;
        assert_int_equal(fake_connections(), 0);
        assert_int_equal(fake_is_live("a"), n < 4);
        assert_status(ECLOSED, rowlock_release(&lock, NULL));
    }
}

/* ---- the keeper ---- */

static rowlock_client *open_by_hand(void)
{
    rowlock_client *client = NULL;

    assert_status(OK, rowlock_open(&client, fake_queue_driver(), "fake", NULL, NULL));
    client->watch.is_by_hand = 1;
    return client;
}

/* It comes again soon, not at once and again and again. */
static int64_t step_without_memory(rowlock_client *client)
{
    int64_t next;

    left = 0;
    next = rlk_keeper_step(client);
    left = -1;
    assert_true(next > rlk_clock_us());
    return next;
}

static void test_renewals_wait_for_memory(void **state)
{
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;
    rowlock_client *client = open_by_hand();
    rowlock_lock *lock = NULL;

    (void)state;
    options.ttl_ms = 30000;
    options.renew = 1;
    assert_status(OK, rowlock_acquire(&lock, client, "a", &options, NULL));
    rlk_pool_close_idle(client);
    fake_clock_advance_us(11000 * MS);
    fake_clock_advance_us(step_without_memory(client) - rlk_clock_us());
    rlk_keeper_step(client);
    assert_true(rowlock_remaining(lock) > 25000);
    assert_status(OK, rowlock_release(&lock, NULL));
    rowlock_close(&client);
}

static void test_tickets_wait_for_memory(void **state)
{
    rowlock_client *client = open_by_hand();
    rowlock_op op = {.name = "a", .name_length = 1, .owner = "me", .note = ""};
    rlk_waiter waiter = {.client = client, .ops = &op, .n = 1, .ring_fd = -1};
    int64_t third = client->ticket_us / 3, next;

    (void)state;
    op.ticket = fake_ticket_add("a", "me", client->ticket_us, 0);
    rlk_tickets_add(&waiter, op.ticket);
    fake_clock_advance_us(third + MS);
    next = step_without_memory(client);
    assert_true(next - rlk_clock_us() < third / 2); /* it is not taken for kept alive */
    fake_clock_advance_us(next - rlk_clock_us());
    assert_true(fake_tickets("a") == 1);
    rlk_keeper_step(client);
    fake_clock_advance_us(third * 2 + third / 2);
    assert_true(fake_tickets("a") == 1);
    rlk_tickets_remove(&waiter);
    rowlock_close(&client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_open_at_every_allocation, fresh),
        cmocka_unit_test_setup(test_acquire_at_every_allocation, fresh),
        cmocka_unit_test_setup(test_acquire_many_at_every_allocation, fresh),
        cmocka_unit_test_setup(test_transactions_at_every_allocation, fresh),
        cmocka_unit_test_setup(test_the_rest_at_every_allocation, fresh),
        cmocka_unit_test_setup(test_close_without_memory_leaks_nothing, fresh),
        cmocka_unit_test_setup(test_renewals_wait_for_memory, fresh),
        cmocka_unit_test_setup(test_tickets_wait_for_memory, fresh),
    };

    return cmocka_run_group_tests_name("core/oom", tests, NULL, NULL);
}
