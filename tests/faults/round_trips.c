/* SPDX-License-Identifier: MIT
 *
 * One round trip each: acquire of a row that exists, renew, release; for one operation through the
 * library and for a hundred through the driver's own table. Counted on the wire. */
#include "fault.h"

#include <stdlib.h>
#include <string.h>

static int trips;

static void count_from_here(void)
{
    trips = proxy_round_trips(fault.proxy);
}

static void assert_trips(const char *what, int most)
{
    int made = proxy_round_trips(fault.proxy) - trips;

    if (made < 1 || made > most)
        print_error("%s: %d round trips\n", what, made);
    assert_in_range(made, 1, most);
}

static void assert_one_trip(const char *what)
{
    assert_trips(what, 1);
}

/* ---- through the library --------------------------------------------------------------------- */

static void one_lock(void **state)
{
    rowlock_client *client = fault_open(fault.proxied, NULL);
    const char *name = fault_name("one");
    rowlock_lock *lock = fault_acquire(client, name, 0);
    rowlock_error err;

    (void)state;
    fault_release(&lock);
    for (int i = 0; i < 3; i++) {
        count_from_here();
        lock = fault_acquire(client, name, 0);
        assert_one_trip("acquire");
        count_from_here();
        assert_status(ROWLOCK_OK, rowlock_renew(lock, 0, &err), &err);
        assert_one_trip("renew");
        count_from_here();
        fault_release(&lock);
        assert_one_trip("release");
    }
    rowlock_close(&client);
}

static void reentry_and_busy(void **state)
{
    rowlock_client *client = fault_open(fault.proxied, NULL);
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;
    const char *name = fault_name("again");
    rowlock_lock *lock = fault_acquire(client, name, 0);
    rowlock_lock *again, *none = NULL;
    rowlock_error err;

    (void)state;
    fault_open_another(client);
    count_from_here();
    again = fault_acquire(client, name, 0);
    assert_one_trip("re-entry");
    options.owner = "somebody else";
    count_from_here();
    assert_status(ROWLOCK_BUSY, rowlock_acquire(&none, client, name, &options, &err), &err);
    assert_one_trip("busy");
    fault_release(&again);
    fault_release(&lock);
    rowlock_close(&client);
}

/* What is not like the last one may cost a second trip, once. */
static void busy_behind_a_free_one(void **state)
{
    rowlock_client *client = fault_open(fault.proxied, NULL);
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;
    const char *name = fault_name("now-and-then");
    rowlock_lock *lock = fault_acquire(client, name, 0), *none = NULL;
    rowlock_error err;

    (void)state;
    fault_open_another(client);
    for (int i = 0; i < 3; i++) {
        fault_release(&lock);
        lock = fault_acquire(client, name, 0);
    }
    options.owner = "somebody else";
    for (int i = 0; i < 3; i++) {
        count_from_here();
        assert_status(ROWLOCK_BUSY, rowlock_acquire(&none, client, name, &options, &err), &err);
        assert_trips("busy", i > 0 ? 1 : 2);
    }
    for (int i = 0; i < 3; i++) {
        fault_release(&lock);
        count_from_here();
        lock = fault_acquire(client, name, 0);
        assert_trips("free", i > 0 ? 1 : 2);
    }
    fault_release(&lock);
    rowlock_close(&client);
}

static void acquire_many(void **state)
{
    rowlock_client *client = fault_open(fault.proxied, NULL);
    static struct fault_batch batch;
    rowlock_error err;

    (void)state;
    fault_batch_init(&batch, "many");
    for (int i = 0; i < 3; i++) {
        count_from_here();
        assert_status(
            ROWLOCK_OK,
            rowlock_acquire_many(batch.locks, client, batch.names, FAULT_BATCH, NULL, &err), &err);
        if (i > 0) /* the first time the rows are made */
            assert_one_trip("acquire_many");
        for (int k = 0; k < FAULT_BATCH; k++)
            fault_release(&batch.locks[k]);
    }
    rowlock_close(&client);
}

/* ---- through the driver ---------------------------------------------------------------------- */

struct direct {
    const rowlock_driver *driver;
    void *conn;
    rowlock_op *ops;
    size_t n;
};

static void fresh_attempts(struct direct *d)
{
    static uint32_t number;

    for (size_t i = 0; i < d->n; i++) {
        number++;
        memcpy(d->ops[i].attempt, &number, sizeof(number));
    }
}

static void assert_all_ok(struct direct *d, int status, const rowlock_error *err)
{
    assert_status(ROWLOCK_OK, status, err);
    for (size_t i = 0; i < d->n; i++)
        assert_int_equal(ROWLOCK_OK, d->ops[i].status);
}

static void cycle(struct direct *d, int counted)
{
    rowlock_error err = {0};

    fresh_attempts(d);
    count_from_here();
    assert_all_ok(d, d->driver->acquire(d->conn, d->ops, d->n, 1, 5000, &err), &err);
    if (counted)
        assert_one_trip("driver's acquire");
    count_from_here();
    assert_all_ok(d, d->driver->renew(d->conn, d->ops, d->n, 5000, &err), &err);
    assert_one_trip("driver's renew");
    fresh_attempts(d);
    count_from_here();
    assert_all_ok(d, d->driver->release(d->conn, d->ops, d->n, 5000, &err), &err);
    assert_one_trip("driver's release");
}

static void direct_open(struct direct *d, size_t n)
{
    const rowlock_config config = {
        .size = sizeof(config), .address = fault.proxied, .prefix = fault.prefix};
    static struct fault_batch batch;
    rowlock_error err;

    *d = (struct direct){.driver = fault.backend.driver, .n = n};
    fault_batch_init(&batch, "direct");
    d->conn = calloc(1, d->driver->conn_size);
    d->ops = calloc(n, sizeof(*d->ops));
    assert_true(d->conn != NULL && d->ops != NULL);
    for (size_t i = 0; i < n; i++) {
        d->ops[i].name = batch.names[i];
        d->ops[i].name_length = strlen(batch.names[i]);
        d->ops[i].owner = "round trips";
        d->ops[i].note = "";
        d->ops[i].ttl_us = 30000000;
    }
    assert_status(ROWLOCK_OK, d->driver->open(d->conn, &config, 5000, &err), &err);
}

static void direct_close(struct direct *d)
{
    d->driver->close(d->conn);
    free(d->ops);
    free(d->conn);
}

static void driver_batch(size_t n)
{
    struct direct d;

    direct_open(&d, n);
    cycle(&d, 0);
    cycle(&d, 1);
    cycle(&d, 1);
    direct_close(&d);
}

/* The first half of the ops is held, and renewed; then it is given back and the other half taken.
 */
static void exchange(struct direct *d, int counted)
{
    size_t half = d->n / 2;
    rowlock_error err = {0};

    assert_status(ROWLOCK_OK, d->driver->renew(d->conn, d->ops, half, 5000, &err), &err);
    fresh_attempts(d);
    count_from_here();
    assert_all_ok(
        d, d->driver->exchange(d->conn, d->ops, half, d->ops + half, d->n - half, 5000, &err),
        &err);
    if (counted)
        assert_one_trip("driver's exchange");
    fresh_attempts(d);
    assert_status(ROWLOCK_OK, d->driver->release(d->conn, d->ops + half, d->n - half, 5000, &err),
                  &err);
    assert_status(ROWLOCK_OK, d->driver->acquire(d->conn, d->ops, half, 0, 5000, &err), &err);
}

static void driver_exchange(void **state)
{
    struct direct d;
    rowlock_error err = {0};

    (void)state;
    if (fault.backend.driver->exchange == NULL)
        return;
    direct_open(&d, FAULT_BATCH);
    cycle(&d, 0); /* makes the rows */
    fresh_attempts(&d);
    assert_status(ROWLOCK_OK, d.driver->acquire(d.conn, d.ops, d.n / 2, 0, 5000, &err), &err);
    for (int i = 0; i < 4; i++)
        exchange(&d, i > 0);
    direct_close(&d);
}

static void driver_one(void **state)
{
    (void)state;
    driver_batch(1);
}

static void driver_hundred(void **state)
{
    (void)state;
    driver_batch(FAULT_BATCH);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(one_lock),
        cmocka_unit_test(reentry_and_busy),
        cmocka_unit_test(busy_behind_a_free_one),
        cmocka_unit_test(acquire_many),
        cmocka_unit_test(driver_one),
        cmocka_unit_test(driver_hundred),
        cmocka_unit_test(driver_exchange),
    };
    return FAULT_MAIN(argc, argv, 1, cases);
}
