/* SPDX-License-Identifier: MIT */
#include "hand_scene.h"

#include <poll.h>

#include "fake_queue.h"

enum { LONGEST_MS = 60000 };

rowlock_client *client;
rowlock_lock *holder;
rowlock_cancel *cancel;
struct comer comers[MOST_COMERS];
atomic_int requests, exchanges, enqueued;
uint64_t last_ticket;
uint8_t last_attempt[ROWLOCK_ATTEMPT_SIZE];
enum fake_fault exchange_fault;
int is_down_after, is_gate_behind;

static rowlock_driver fake;
static atomic_int served;
static struct {
    pthread_t thread;
    atomic_int is_shut, is_reached;
    int status;
} gate;

/* ---- the driver ---- */

static int scene_acquire(void *conn, rowlock_op *ops, size_t n, int all, uint32_t timeout_ms,
                         rowlock_error *err)
{
    atomic_fetch_add(&requests, 1);
    return fake.acquire(conn, ops, n, all, timeout_ms, err);
}

static int scene_release(void *conn, rowlock_op *ops, size_t n, uint32_t timeout_ms,
                         rowlock_error *err)
{
    atomic_fetch_add(&requests, 1);
    return fake.release(conn, ops, n, timeout_ms, err);
}

static int scene_enqueue(void *conn, rowlock_op *ops, size_t n, int64_t life_us, int with_bell,
                         uint32_t timeout_ms, rowlock_error *err)
{
    int rc = fake.enqueue(conn, ops, n, life_us, with_bell, timeout_ms, err);

    atomic_fetch_add(&requests, 1);
    atomic_fetch_add(&enqueued, rc == ROWLOCK_OK);
    return rc;
}

static int scene_turn(void *conn, rowlock_op *op, uint32_t wait_ms, const int *fds, int n_fds,
                      uint32_t timeout_ms, rowlock_error *err)
{
    atomic_fetch_add(&requests, 1);
    return fake.turn(conn, op, wait_ms, fds, n_fds, timeout_ms, err);
}

static void stand_at_gate(void)
{
    if (!atomic_load(&gate.is_shut))
        return;
    atomic_store(&gate.is_reached, 1);
    for (int ms = 0; atomic_load(&gate.is_shut) && ms < LONGEST_MS; ms++)
        poll(NULL, 0, 1);
}

/* Who releases, and the next one, who sleeps meanwhile: the fault meets nobody else. */
static int scene_exchange(void *conn, rowlock_op *releases, size_t n, rowlock_op *acquires,
                          size_t m, uint32_t timeout_ms, rowlock_error *err)
{
    enum fake_fault fault = exchange_fault;
    int rc;

    atomic_fetch_add(&requests, 1);
    atomic_fetch_add(&exchanges, 1);
    if (!is_gate_behind)
        stand_at_gate();
    exchange_fault = FAKE_NONE;
    last_ticket = releases[0].ticket;
    memcpy(last_attempt, acquires[0].attempt, sizeof last_attempt);
    if (fault != FAKE_NONE && fault != FAKE_CUT_AFTER)
        fake_plan(1, fault, 0);
    rc = fake.release(conn, releases, n, timeout_ms, err);
    if (rc != ROWLOCK_OK)
        return rc;
    if (fault == FAKE_CUT_AFTER)
        fake_plan(1, fault, is_down_after);
    rc = fake.acquire(conn, acquires, m, 0, timeout_ms, err);
    if (is_gate_behind)
        stand_at_gate();
    return rc;
}

/* ---- the scene ---- */

void scene_open(int has_exchange)
{
    rowlock_driver driver;

    fake = *fake_queue_driver();
    driver = fake;
    driver.acquire = scene_acquire;
    driver.release = scene_release;
    driver.enqueue = scene_enqueue;
    driver.turn = scene_turn;
    driver.exchange = has_exchange ? scene_exchange : NULL;
    rowlock_release(&holder, NULL);
    rowlock_close(&client);
    assert_status(OK, rowlock_open(&client, &driver, "fake", NULL, NULL));
    client->watch.is_by_hand = 1;
    holder = hold(client, "a", TTL_MS, "alice");
}

int scene_set_up(void **state)
{
    fresh(state);
    fake_clock_freeze();
    memset(comers, 0, sizeof comers);
    assert_status(OK, rowlock_cancel_new(&cancel, NULL));
    for (int i = 0; i < MOST_COMERS; i++) {
        comers[i].options = (rowlock_acquire_options)ROWLOCK_ACQUIRE_OPTIONS_INIT;
        comers[i].options.ttl_ms = TTL_MS;
        comers[i].options.wait_ms = ROWLOCK_FOREVER;
        comers[i].options.cancel = cancel;
    }
    exchange_fault = FAKE_NONE;
    is_down_after = is_gate_behind = 0;
    atomic_store(&gate.is_shut, 0);
    atomic_store(&gate.is_reached, 0);
    scene_open(1);
    atomic_store(&served, 0);
    atomic_store(&requests, 0);
    atomic_store(&exchanges, 0);
    atomic_store(&enqueued, 0);
    return 0;
}

/* A case that has failed may have left threads behind: they end with their waits. */
int scene_tear_down(void **state)
{
    (void)state;
    atomic_store(&gate.is_shut, 0);
    rowlock_cancel_fire(cancel);
    for (int i = 0; i < MOST_COMERS; i++) {
        if (atomic_load(&comers[i].is_started))
            join(&comers[i]);
        rowlock_release(&comers[i].lock, NULL);
    }
    rowlock_release(&holder, NULL);
    rowlock_close(&client);
    rowlock_cancel_free(&cancel);
    return fake_connections() != 0;
}

rowlock_counters scene_counters(void)
{
    rowlock_counters all = ROWLOCK_COUNTERS_INIT;

    assert_status(OK, rowlock_stats(&all, client, NULL));
    return all;
}

/* ---- threads ---- */

static void *stand_in_line(void *argument)
{
    struct comer *c = argument;

    c->status = rowlock_acquire(&c->lock, client, "a", &c->options, NULL);
    if (c->status == ROWLOCK_OK)
        c->place = atomic_fetch_add(&served, 1);
    if (c->status == ROWLOCK_OK && c->goes)
        c->status = rowlock_release(&c->lock, NULL);
    atomic_store(&c->is_done, 1);
    return NULL;
}

void come(struct comer *comer)
{
    uint64_t before = scene_counters().waiting;
    int sleeps = fake_clock_sleeps();

    comer->status = 99;
    atomic_store(&comer->is_done, 0);
    assert_int_equal(pthread_create(&comer->thread, NULL, stand_in_line, comer), 0);
    atomic_store(&comer->is_started, 1);
    for (int ms = 0; scene_counters().waiting == before && ms < LONGEST_MS; ms++)
        poll(NULL, 0, 1);
    assert_int_equal(scene_counters().waiting, before + 1);
    if (before == 0)
        await_sleeps(fake_clock_sleeps() == sleeps);
}

void join(struct comer *comer)
{
    atomic_store(&comer->is_started, 0);
    pthread_join(comer->thread, NULL);
}

void let_time_pass(struct comer *comer, int64_t step_us)
{
    int sleeps = fake_clock_sleeps();

    for (int ms = 0; !atomic_load(&comer->is_done) && ms < LONGEST_MS; ms++) {
        if (fake_clock_sleeps() != sleeps)
            fake_clock_advance_us(step_us);
        sleeps = fake_clock_sleeps();
        poll(NULL, 0, 1);
    }
    assert_true(atomic_load(&comer->is_done));
    join(comer);
}

static void *release_holder(void *argument)
{
    (void)argument;
    gate.status = rowlock_release(&holder, NULL);
    return NULL;
}

void release_up_to_the_gate(void)
{
    atomic_store(&gate.is_reached, 0);
    atomic_store(&gate.is_shut, 1);
    assert_int_equal(pthread_create(&gate.thread, NULL, release_holder, NULL), 0);
    await(&gate.is_reached, 1);
}

int open_gate(void)
{
    atomic_store(&gate.is_shut, 0);
    pthread_join(gate.thread, NULL);
    return gate.status;
}

void await(atomic_int *number, int value)
{
    for (int ms = 0; atomic_load(number) < value && ms < LONGEST_MS; ms++)
        poll(NULL, 0, 1);
    assert_true(atomic_load(number) >= value);
}

void await_sleeps(int n)
{
    int until = fake_clock_sleeps() + n;

    for (int ms = 0; fake_clock_sleeps() < until && ms < LONGEST_MS; ms++)
        poll(NULL, 0, 1);
    assert_true(fake_clock_sleeps() >= until);
}
