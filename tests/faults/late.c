/* SPDX-License-Identifier: MIT
 *
 * Old statements that the server gets late: the client's request is held on the way, the client
 * gives the connection up and repeats the call on another, life goes on, and two seconds later the
 * first request arrives after all. It must not touch a newer tenure. */
#include "fault.h"

enum { HOLD_MS = 2000, TTL_MS = 60000 };

static void hold_next(void)
{
    proxy_plan plan = {.fault = PROXY_HOLD, .hold_ms = HOLD_MS};
    proxy_arm(fault.proxy, &plan);
}

/* Lets the old statement run, and looks whether the tenure is what it was. */
static void assert_unharmed(rowlock_client *client, const char *name, rowlock_lock *lock)
{
    struct fault_row before = fault_row(client, name);
    struct fault_row after;
    rowlock_error err;

    assert_int_equal(rowlock_fence(lock), before.fence);
    assert_int_equal(0, proxy_wait_delivered(fault.proxy, 3 * HOLD_MS));
    after = fault_row(client, name);
    assert_int_equal(2, after.found);
    assert_int_equal(before.fence, after.fence);
    assert_int_equal(before.hold_count, after.hold_count);
    assert_string_equal(before.owner, after.owner);
    assert_true(after.remaining_ms <= before.remaining_ms);
    assert_status(ROWLOCK_OK, rowlock_renew(lock, 0, &err), &err);
    assert_status(ROWLOCK_OK, rowlock_release(&lock, &err), &err);
    assert_int_not_equal(2, fault_row(client, name).found);
}

struct parties {
    rowlock_client *slow;  /* whose request is held */
    rowlock_client *other; /* who holds the newer tenure */
    const char *name;
};

static struct parties meet(const char *name)
{
    struct parties p = {.slow = fault_open(fault.proxied, NULL),
                        .other = fault_open(fault.backend.address, NULL),
                        .name = fault_name(name)};
    return p;
}

static void part(struct parties *p)
{
    proxy_disarm(fault.proxy);
    rowlock_close(&p->slow);
    rowlock_close(&p->other);
}

static void late_release(void **state)
{
    struct parties p = meet("release");
    rowlock_lock *lock = fault_acquire(p.slow, p.name, TTL_MS);

    (void)state;
    hold_next();
    fault_release(&lock);
    assert_unharmed(p.other, p.name, fault_acquire(p.other, p.name, TTL_MS));
    part(&p);
}

/* The owner is the same, so only the fence tells the tenures apart. */
static void late_release_same_owner(void **state)
{
    struct parties p = meet("same-owner");
    rowlock_lock *lock = fault_acquire(p.slow, p.name, TTL_MS);

    (void)state;
    hold_next();
    fault_release(&lock);
    assert_unharmed(p.other, p.name, fault_acquire(p.slow, p.name, TTL_MS));
    part(&p);
}

/* Two holds, one is given back; the owner enters again, and only then the old release arrives. */
static void late_release_in_a_tenure_that_goes_on(void **state)
{
    struct parties p = meet("goes-on");
    rowlock_lock *outer = fault_acquire(p.slow, p.name, TTL_MS);
    rowlock_lock *inner = fault_acquire(p.slow, p.name, TTL_MS);

    (void)state;
    hold_next();
    fault_release(&inner);
    inner = fault_acquire(p.slow, p.name, TTL_MS);
    assert_int_equal(0, proxy_wait_delivered(fault.proxy, 3 * HOLD_MS));
    assert_int_equal(2, fault_row(p.other, p.name).hold_count);
    fault_release(&inner);
    assert_unharmed(p.other, p.name, outer);
    part(&p);
}

static void late_renew(void **state)
{
    struct parties p = meet("renew");
    rowlock_lock *lock = fault_acquire(p.slow, p.name, TTL_MS);
    rowlock_error err;

    (void)state;
    hold_next();
    assert_status(ROWLOCK_OK, rowlock_renew(lock, 10 * TTL_MS, &err), &err);
    fault_release(&lock);
    assert_unharmed(p.other, p.name, fault_acquire(p.other, p.name, TTL_MS));
    part(&p);
}

/* A renewal may not bring a released tenure back either. */
static void late_renew_of_a_free_lock(void **state)
{
    struct parties p = meet("renew-free");
    rowlock_lock *lock = fault_acquire(p.slow, p.name, TTL_MS);
    rowlock_error err;

    (void)state;
    hold_next();
    assert_status(ROWLOCK_OK, rowlock_renew(lock, 0, &err), &err);
    fault_release(&lock);
    assert_int_equal(0, proxy_wait_delivered(fault.proxy, 3 * HOLD_MS));
    assert_int_not_equal(2, fault_row(p.other, p.name).found);
    part(&p);
}

static void late_acquire(void **state)
{
    struct parties p = meet("acquire");
    rowlock_lock *lock;

    (void)state;
    hold_next();
    lock = fault_acquire(p.slow, p.name, TTL_MS);
    fault_release(&lock);
    assert_unharmed(p.other, p.name, fault_acquire(p.other, p.name, TTL_MS));
    part(&p);
}

/* The owner has given it back, and nobody has come since: it stays free. */
static void late_acquire_of_a_free_lock(void **state)
{
    struct parties p = meet("acquire-free");
    rowlock_lock *lock;

    (void)state;
    hold_next();
    lock = fault_acquire(p.slow, p.name, TTL_MS);
    fault_release(&lock);
    assert_int_equal(0, proxy_wait_delivered(fault.proxy, 3 * HOLD_MS));
    assert_int_not_equal(2, fault_row(p.other, p.name).found);
    part(&p);
}

static void late_force_release_of_one_tenure(void **state)
{
    rowlock_force_options options = ROWLOCK_FORCE_OPTIONS_INIT;
    struct parties p = meet("force");
    rowlock_lock *lock = fault_acquire(p.other, p.name, TTL_MS);
    rowlock_error err;

    (void)state;
    options.fence = rowlock_fence(lock);
    hold_next();
    assert_status(ROWLOCK_OK, rowlock_force_release(p.slow, p.name, &options, &err), &err);
    assert_status(ROWLOCK_LOST, rowlock_release(&lock, &err), &err);
    assert_unharmed(p.other, p.name, fault_acquire(p.other, p.name, TTL_MS));
    part(&p);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(late_release),
        cmocka_unit_test(late_release_same_owner),
        cmocka_unit_test(late_release_in_a_tenure_that_goes_on),
        cmocka_unit_test(late_renew),
        cmocka_unit_test(late_renew_of_a_free_lock),
        cmocka_unit_test(late_acquire),
        cmocka_unit_test(late_acquire_of_a_free_lock),
        cmocka_unit_test(late_force_release_of_one_tenure),
    };
    return FAULT_MAIN(argc, argv, 1, cases);
}
