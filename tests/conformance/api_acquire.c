/* SPDX-License-Identifier: MIT
 *
 * rowlock_acquire() without waiting, rowlock_adopt(), rowlock_detach(). */
#include <pthread.h>

#include "conformance.h"

static int acquire_as(struct fixture *f, rowlock_client *client, const char *name,
                      const char *owner, rowlock_lock **out)
{
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;
    options.owner = owner;
    return rowlock_acquire(out, client, name, &options, &f->err);
}

static void test_acquire_gives_a_handle_that_holds(void **state)
{
    struct fixture *f = *state;
    rowlock_lock *lock = hold(f, client_open(f), "lock");
    expect_ok(rowlock_check(lock), NULL);
    struct row row = row_of(f, "lock");
    assert_int_equal(rowlock_fence(lock), row.fence);
    assert_string_equal(rowlock_owner(lock), row.owner);
    size_t length = 0;
    assert_string_equal(rowlock_name(lock, &length), "lock");
    assert_int_equal(length, 4);
    expect_between(rowlock_remaining(lock), 30000 - SLACK_US / 1000, 30000);
    let_go(f, &lock);
}

static void test_acquire_of_anothers_lock_is_busy(void **state)
{
    struct fixture *f = *state;
    rowlock_lock *lock = hold(f, client_open(f), "lock"), *second = (rowlock_lock *)f;
    expect_status(ROWLOCK_BUSY, rowlock_acquire(&second, client_open(f), "lock", NULL, &f->err),
                  &f->err);
    assert_null(second);
    assert_int_equal(f->err.status, ROWLOCK_BUSY);
    assert_true(f->err.message[0] != '\0');
    let_go(f, &lock);
}

static void test_busy_fills_the_holder(void **state)
{
    struct fixture *f = *state;
    rowlock_client *first = client_open_as(f, "ann"), *second = client_open(f);
    rowlock_lock *lock = hold(f, first, "lock"), *other = NULL;
    rowlock_holder holder;
    memset(&holder, 'x', sizeof(holder));
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;
    options.holder = &holder;
    expect_status(ROWLOCK_BUSY, rowlock_acquire(&other, second, "lock", &options, &f->err),
                  &f->err);
    assert_string_equal(holder.owner, "ann");
    assert_string_equal(holder.name, "lock");
    assert_int_equal(holder.fence, rowlock_fence(lock));
    expect_between(holder.remaining_ms, 30000 - SLACK_US / 1000, 30000);
    let_go(f, &lock);
}

static void test_acquire_again_in_a_thread_reenters(void **state)
{
    struct fixture *f = *state;
    rowlock_client *client = client_open(f);
    rowlock_lock *outer = hold(f, client, "lock"), *inner = hold(f, client, "lock");
    assert_ptr_not_equal(outer, inner);
    assert_int_equal(rowlock_fence(outer), rowlock_fence(inner));
    assert_int_equal(row_of(f, "lock").hold_count, 2);
    let_go(f, &inner);
    expect_ok(rowlock_check(outer), NULL);
    assert_int_equal(row_of(f, "lock").hold_count, 1);
    let_go(f, &outer);
    assert_int_equal(row_of(f, "lock").hold_count, 0);
}

static void test_handles_may_be_released_in_any_order(void **state)
{
    struct fixture *f = *state;
    rowlock_client *client = client_open(f);
    rowlock_lock *first = hold(f, client, "lock"), *second = hold(f, client, "lock");
    let_go(f, &first);
    expect_ok(rowlock_check(second), NULL);
    expect_ok(rowlock_renew(second, 0, &f->err), &f->err);
    let_go(f, &second);
    rowlock_lock *other = hold(f, client_open(f), "lock");
    let_go(f, &other);
}

static void test_explicit_owner_reenters_from_another_client(void **state)
{
    struct fixture *f = *state;
    rowlock_client *first = client_open(f), *second = client_open(f);
    rowlock_lock *a = NULL, *b = NULL;
    expect_ok(acquire_as(f, first, "lock", "shared", &a), &f->err);
    expect_ok(acquire_as(f, second, "lock", "shared", &b), &f->err);
    assert_int_equal(rowlock_fence(a), rowlock_fence(b));
    assert_string_equal(rowlock_owner(b), "shared");
    let_go(f, &a);
    rowlock_lock *c = NULL;
    expect_status(ROWLOCK_BUSY, acquire_as(f, first, "lock", "stranger", &c), &f->err);
    let_go(f, &b);
}

/* The first handle's deadline is counted from its own ttl, so the row must not end before it. */
static void shorten(struct fixture *f, rowlock_client *outer_client, rowlock_client *inner_client)
{
    rowlock_client *other = client_open(f);
    rowlock_lock *outer = hold_for(f, outer_client, "lock", 60000);
    rowlock_lock *thief = NULL;
    int64_t ttl_ms = BRIEF_MS;
    rowlock_lock *inner = hold_briefly(f, inner_client, "lock", &ttl_ms);
    assert_int_equal(rowlock_fence(outer), rowlock_fence(inner));
    sleep_us((ttl_ms + 50) * 1000);
    int status = rowlock_acquire(&thief, other, "lock", NULL, &f->err);
    int believed = rowlock_check(outer);
    rowlock_release(&thief, NULL);
    rowlock_release(&inner, NULL);
    rowlock_release(&outer, NULL);
    expect_status(ROWLOCK_BUSY, status, &f->err);
    expect_ok(believed, NULL);
}

static void test_reentry_with_a_shorter_ttl_keeps_the_longer_lease(void **state)
{
    struct fixture *f = *state;
    rowlock_client *client = client_open(f);
    shorten(f, client, client);
}

static void test_reentry_of_another_client_keeps_the_longer_lease(void **state)
{
    struct fixture *f = *state;
    shorten(f, client_open_as(f, "shared"), client_open_as(f, "shared"));
}

struct contender {
    rowlock_client *client;
    int status;
    char owner[ROWLOCK_OWNER_MAX + 1];
};

static void *contend(void *payload)
{
    struct contender *c = payload;
    rowlock_lock *lock = NULL;
    c->status = rowlock_acquire(&lock, c->client, "lock", NULL, NULL);
    rowlock_release(&lock, NULL);
    if (rowlock_acquire(&lock, c->client, "mine", NULL, NULL) == ROWLOCK_OK)
        strncpy(c->owner, rowlock_owner(lock), sizeof(c->owner) - 1);
    rowlock_release(&lock, NULL);
    return NULL;
}

static void test_threads_are_different_owners(void **state)
{
    struct fixture *f = *state;
    rowlock_client *client = client_open(f);
    rowlock_lock *lock = hold(f, client, "lock");
    struct contender other = {client, INT32_MIN, ""};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, contend, &other), 0);
    pthread_join(thread, NULL);
    expect_status(ROWLOCK_BUSY, other.status, NULL);
    assert_true(other.owner[0] != '\0');
    assert_string_not_equal(other.owner, rowlock_owner(lock));
    let_go(f, &lock);
}

enum { RACERS = 4, ROUNDS = 100 };

static void *race(void *payload)
{
    struct contender *c = payload;
    for (int i = 0; i < ROUNDS && c->status >= 0; i++) {
        rowlock_lock *lock = NULL;
        int status = rowlock_acquire(&lock, c->client, "lock", NULL, NULL);
        if (status == ROWLOCK_OK)
            status = rowlock_release(&lock, NULL);
        if (status < 0)
            c->status = status;
    }
    return NULL;
}

/* The database never makes one of them try again: who looks at a row while another changes it is
 * busy. */
static void test_racers_get_it_or_are_busy(void **state)
{
    struct fixture *f = *state;
    struct contender racers[RACERS];
    pthread_t threads[RACERS];
    rowlock_counters counters = ROWLOCK_COUNTERS_INIT;
    rowlock_client *client = client_open(f);
    for (int i = 0; i < RACERS; i++) {
        racers[i] = (struct contender){client, 0, ""};
        assert_int_equal(pthread_create(&threads[i], NULL, race, &racers[i]), 0);
    }
    for (int i = 0; i < RACERS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < RACERS; i++)
        expect_ok(racers[i].status, NULL);
    expect_ok(rowlock_stats(&counters, client, &f->err), &f->err);
    assert_int_equal(counters.deadlock_retries, 0);
}

static void test_clients_are_different_owners(void **state)
{
    struct fixture *f = *state;
    rowlock_lock *a = hold(f, client_open(f), "a"), *b = hold(f, client_open(f), "b");
    assert_string_not_equal(rowlock_owner(a), rowlock_owner(b));
    let_go(f, &a);
    let_go(f, &b);
}

static void test_acquire_stores_note_and_ttl(void **state)
{
    struct fixture *f = *state;
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;
    options.note = "what is done";
    options.ttl_ms = ROWLOCK_TTL_MAX_MS;
    rowlock_lock *lock = NULL;
    expect_ok(rowlock_acquire(&lock, client_open(f), "lock", &options, &f->err), &f->err);
    struct row row = row_of(f, "lock");
    assert_string_equal(row.note, "what is done");
    expect_between(row.remaining_ms, ROWLOCK_TTL_MAX_MS - SLACK_US / 1000, ROWLOCK_TTL_MAX_MS);
    let_go(f, &lock);
}

static void test_acquire_takes_names_with_nul_bytes(void **state)
{
    struct fixture *f = *state;
    rowlock_client *client = client_open(f);
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;
    options.name_length = 3;
    rowlock_lock *a = NULL, *b = hold(f, client, "a");
    expect_ok(rowlock_acquire(&a, client, "a\0b", &options, &f->err), &f->err);
    assert_int_not_equal(rowlock_fence(a), 0);
    struct rows rows = rows_read(f);
    assert_int_equal(rows.count, 2);
    assert_int_equal(rows.items[1].name_length, 3);
    rows_free(&rows);
    let_go(f, &a);
    let_go(f, &b);
}

static void test_fence_rises_from_grant_to_grant(void **state)
{
    struct fixture *f = *state;
    rowlock_client *clients[] = {client_open(f), client_open(f)};
    uint64_t last = 0;
    for (int i = 0; i < 20; i++) {
        rowlock_lock *lock = hold(f, clients[i % 2], "lock");
        assert_true(rowlock_fence(lock) > last);
        last = rowlock_fence(lock);
        let_go(f, &lock);
    }
}

static void test_expired_lock_goes_to_the_next(void **state)
{
    struct fixture *f = *state;
    rowlock_client *first = client_open(f), *second = client_open(f);
    rowlock_lock *old = hold_briefly(f, first, "lock", NULL);
    outlive(f, "lock");
    rowlock_lock *next = hold(f, second, "lock");
    assert_true(rowlock_fence(next) > rowlock_fence(old));
    expect_status(ROWLOCK_LOST, rowlock_check(old), NULL);
    assert_int_equal(rowlock_remaining(old), 0);
    expect_status(ROWLOCK_LOST, rowlock_renew(old, 0, &f->err), &f->err);
    expect_status(ROWLOCK_LOST, rowlock_release(&old, &f->err), &f->err);
    expect_ok(rowlock_renew(next, 0, &f->err), &f->err);
    let_go(f, &next);
}

/* ---- adopt ----------------------------------------------------------------------------------- */

static int adopt_as(struct fixture *f, rowlock_client *client, uint64_t fence, const char *owner,
                    rowlock_lock **out)
{
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;
    options.owner = owner;
    options.ttl_ms = 2 * LONG_US / 1000;
    return rowlock_adopt(out, client, "lock", fence, &options, &f->err);
}

static void test_adopt_takes_a_tenure_over(void **state)
{
    struct fixture *f = *state;
    rowlock_op held = grant(f, "lock", "elsewhere");
    rowlock_lock *lock = NULL;
    expect_ok(adopt_as(f, client_open(f), held.fence, "elsewhere", &lock), &f->err);
    assert_int_equal(rowlock_fence(lock), held.fence);
    assert_string_equal(rowlock_owner(lock), "elsewhere");
    expect_ok(rowlock_check(lock), NULL);
    struct row row = row_of(f, "lock");
    assert_int_equal(row.hold_count, 1);
    expect_between(row.remaining_ms, (2 * LONG_US - SLACK_US) / 1000, 2 * LONG_US / 1000);
    let_go(f, &lock);
    assert_int_equal(row_of(f, "lock").hold_count, 0);
}

static void test_adopt_of_no_such_tenure_is_lost(void **state)
{
    struct fixture *f = *state;
    rowlock_op held = grant(f, "lock", "elsewhere");
    rowlock_client *client = client_open(f);
    rowlock_lock *lock = (rowlock_lock *)f;
    expect_status(ROWLOCK_LOST, adopt_as(f, client, held.fence + 1, "elsewhere", &lock), &f->err);
    assert_null(lock);
    expect_status(ROWLOCK_LOST, adopt_as(f, client, held.fence, "nobody", &lock), &f->err);
    rowlock_op back = op_of(&held);
    expect_ok(try_release(f, f->conn, &back), NULL);
    expect_status(ROWLOCK_LOST, adopt_as(f, client, held.fence, "elsewhere", &lock), &f->err);
    assert_null(lock);
    assert_int_equal(f->err.status, ROWLOCK_LOST);
}

static void test_detached_lock_outlives_its_client_and_is_adopted(void **state)
{
    struct fixture *f = *state;
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;
    rowlock_client *client = client_open(f);
    rowlock_lock *lock = NULL;
    options.owner = "script";
    options.ttl_ms = LONG_US / 1000;
    options.renew = 1;
    expect_ok(rowlock_acquire(&lock, client, "lock", &options, &f->err), &f->err);
    uint64_t fence = rowlock_fence(lock);
    expect_ok(rowlock_detach(&lock, &f->err), &f->err);
    assert_null(lock);
    client_close(f, &client);
    assert_int_equal(row_of(f, "lock").hold_count, 1);
    expect_ok(adopt_as(f, client_open(f), fence, "script", &lock), &f->err);
    assert_int_equal(rowlock_fence(lock), fence);
    let_go(f, &lock);
    assert_int_equal(row_of(f, "lock").hold_count, 0);
}

static const struct test_case cases[] = {
    CASE(test_acquire_gives_a_handle_that_holds),
    CASE(test_acquire_of_anothers_lock_is_busy),
    CASE(test_busy_fills_the_holder),
    CASE(test_acquire_again_in_a_thread_reenters),
    CASE(test_handles_may_be_released_in_any_order),
    CASE(test_explicit_owner_reenters_from_another_client),
    CASE(test_reentry_with_a_shorter_ttl_keeps_the_longer_lease),
    CASE(test_reentry_of_another_client_keeps_the_longer_lease),
    CASE(test_threads_are_different_owners),
    CASE_IF(test_racers_get_it_or_are_busy, BACKEND_ROW_LOCKS),
    CASE(test_clients_are_different_owners),
    CASE(test_acquire_stores_note_and_ttl),
    CASE(test_acquire_takes_names_with_nul_bytes),
    CASE(test_fence_rises_from_grant_to_grant),
    CASE(test_expired_lock_goes_to_the_next),
    CASE(test_adopt_takes_a_tenure_over),
    CASE(test_adopt_of_no_such_tenure_is_lost),
    CASE(test_detached_lock_outlives_its_client_and_is_adopted),
};

const struct suite api_acquire_suite = SUITE("api_acquire", cases);
