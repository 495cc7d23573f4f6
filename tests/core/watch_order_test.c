/* SPDX-License-Identifier: MIT
 *
 * What can happen to a lock, in every order. */
#include "watch_step.h"

enum { RENEW, RELEASE, TAKEOVER, EXPIRE, FORCE, CUT, KINDS };

static rowlock_lock *next_owner;
static int next_was_forced; /* it believes in its lock until it asks */

static void happen(int kind)
{
    rowlock_acquire_options thief = ROWLOCK_ACQUIRE_OPTIONS_INIT;

    thief.owner = "thief";
    thief.ttl_ms = 600000;
    switch (kind) {
    case RENEW:
        fake_clock_advance_us(400 * MS);
        step();
        break;
    case RELEASE:
        if (held != NULL)
            rowlock_release(&held, NULL);
        break;
    case TAKEOVER:
        if (next_owner == NULL)
            rowlock_acquire(&next_owner, client, "a", &thief, NULL);
        break;
    case EXPIRE:
        fake_clock_advance_us(1100 * MS);
        break;
    case FORCE:
        rowlock_force_release(client, "a", NULL, NULL);
        next_was_forced = next_owner != NULL;
        break;
    case CUT:
        fake_plan(1, FAKE_CUT_AFTER, 0);
        step();
        fake_plan(0, FAKE_NONE, 0);
        break;
    }
}

/* Whatever the order: two are never both held, nobody is told twice, nor after the release, and a
 * handle that says OK has a live row of its own fence. */
static void check_invariants(int told_at_release)
{
    int one = held != NULL && rowlock_check(held) == ROWLOCK_OK;
    int two = next_owner != NULL && rowlock_check(next_owner) == ROWLOCK_OK;

    assert_true(told <= 1);
    if (held == NULL)
        assert_int_equal(told, told_at_release);
    if (one && two && !next_was_forced) /* the first was forced, and has not asked since */
        assert_true(fake_find("a")->fence == rowlock_fence(next_owner));
    if (two && !next_was_forced)
        assert_true(fake_is_live("a"));
}

static void run_order(const int *order, int n)
{
    rowlock_acquire_options options = renewing(1000);
    int told_at_release = 0;

    fresh(NULL);
    told = 0;
    client = open_by_hand(NULL);
    next_owner = NULL;
    next_was_forced = 0;
    held = take("a", &options);
    for (int i = 0; i < n; i++) {
        int was_held = held != NULL;

        happen(order[i]);
        if (was_held && held == NULL)
            told_at_release = told;
        check_invariants(told_at_release);
    }
    step();
    check_invariants(told_at_release);
    if (held != NULL)
        rowlock_release(&held, NULL);
    if (next_owner != NULL && !next_was_forced && rowlock_check(next_owner) == ROWLOCK_OK)
        assert_status(OK, rowlock_release(&next_owner, NULL));
    else if (next_owner != NULL)
        rowlock_release(&next_owner, NULL);
    rowlock_close(&client);
    assert_int_equal(fake_connections(), 0);
}

/* ThreadSanitizer makes this ten times slower, and has nothing to see in one thread. */
#if defined(__SANITIZE_THREAD__)
enum { EVENTS = 3, ORDERS = KINDS * KINDS * KINDS };
#else
enum { EVENTS = 5, ORDERS = KINDS * KINDS * KINDS * KINDS * KINDS };
#endif

static void test_every_order_of_events(void **state)
{
    int order[EVENTS];

    (void)state;
    rowlock_close(&client);
    for (int code = 0; code < ORDERS; code++) {
        for (int i = 0, rest = code; i < EVENTS; i++, rest /= KINDS)
            order[i] = rest % KINDS;
        run_order(order, EVENTS);
    }
    client = open_by_hand(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_order_of_events),
    };

    return cmocka_run_group_tests_name("core/watch_order", tests, NULL, NULL);
}
