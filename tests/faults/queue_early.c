/* SPDX-License-Identifier: MIT
 *
 * A bell rings when the release is committed, by the statement that releases. Here that takes long,
 * or fails: a trigger sees to it when all of the release is done but the commit. Nobody is called
 * too early; who waits, or comes just then, is served soon after the commit, and nobody before his
 * turn. */
#include <pthread.h>

#include "queue_scene.h"

enum {
    WAITERS = 4,
    HOLD_MS = 200,
    BACK_MS = 20,  /* by which a release is held back */
    SOON_MS = 900, /* less than the backstop that would serve them otherwise */
    ALL_MS = 30000
};

static void play(int64_t least_ms)
{
    const struct queue_part how = {.ttl_ms = 60000, .hold_ms = HOLD_MS};
    struct queue_scene scene;
    char order[64];

    queue_open(&scene, "early", WAITERS);
    for (int i = 0; i < WAITERS; i++)
        queue_join(&scene, &how);
    queue_release(&scene);
    for (int i = 0; i < WAITERS; i++)
        queue_await_end(&scene, i, ALL_MS);
    for (int i = 1; i < WAITERS; i++) {
        int64_t since = scene.shared->parts[i - 1].granted_ms + HOLD_MS;
        int64_t delay = scene.shared->parts[i].granted_ms - since;

        print_message("number %d served after %lld ms\n", i, (long long)delay);
        assert_in_range(delay, least_ms, SOON_MS);
        assert_true(scene.shared->parts[i].fence > scene.shared->parts[i - 1].fence);
    }
    queue_order(&scene, order, sizeof(order));
    assert_string_equal("0 1 2 3", order);
    queue_close(&scene);
}

static void release_that_is_held_back(void **state)
{
    (void)state;
    play(BACK_MS - 1);
}

/* The client closes the connection that had the bell, and releases on another one. */
static void release_that_fails_after_its_bell(void **state)
{
    (void)state;
    play(0);
}

/* ---- who comes just then ---- */

struct waiting {
    rowlock_client *client;
    rowlock_lock *lock;
    int status;
};

static void *wait_for_it(void *arg)
{
    struct waiting *w = arg;
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;

    options.wait_ms = ALL_MS;
    options.ttl_ms = 60000;
    w->status = rowlock_acquire(&w->lock, w->client, "early", &options, NULL);
    return NULL;
}

static void *give_it_back(void *arg)
{
    struct waiting *w = arg;

    w->status = rowlock_release(&w->lock, NULL);
    return NULL;
}

/* Holds the lock by a ticket, whose bell it has. */
static void hold_by_ticket(struct waiting *w)
{
    rowlock_client *before = fault_open(fault.backend.address, NULL);
    rowlock_lock *lock = fault_acquire(before, "early", 60000);
    rowlock_counters counters = {.size = sizeof(counters)};
    pthread_t thread;

    pthread_create(&thread, NULL, wait_for_it, w);
    while (counters.queued == 0) {
        process_sleep_ms(5);
        rowlock_stats(&counters, w->client, NULL);
    }
    fault_release(&lock);
    pthread_join(thread, NULL);
    assert_int_equal(w->status, ROWLOCK_OK);
    rowlock_close(&before);
}

/* When all is done but the commit, which is held back: the bell has not rung yet. */
static void who_comes_before_the_commit(void **state)
{
    struct waiting first = {.client = fault_open(fault.backend.address, NULL)};
    struct waiting next = {.client = fault_open(fault.backend.address, NULL)};
    int64_t since;
    pthread_t thread;

    (void)state;
    hold_by_ticket(&first);
    pthread_create(&thread, NULL, give_it_back, &first);
    process_sleep_ms(BACK_MS / 4);
    since = process_now_ms();
    wait_for_it(&next);
    since = process_now_ms() - since;
    pthread_join(thread, NULL);
    assert_int_equal(first.status, ROWLOCK_OK);
    assert_int_equal(next.status, ROWLOCK_OK);
    print_message("served after %lld ms\n", (long long)since);
    assert_in_range(since, 0, SOON_MS);
    fault_release(&next.lock);
    rowlock_close(&next.client);
    rowlock_close(&first.client);
}

static int run(const char *sql)
{
    char out[64];

    return fault_sql_on(fault.backend.address, sql, out, sizeof(out));
}

static int set_up(const char *function)
{
    if (run("CREATE SEQUENCE {releases}") != 0 || run(function) != 0)
        return -1;
    return run("CREATE CONSTRAINT TRIGGER hold_back AFTER UPDATE ON {locks}"
               " DEFERRABLE INITIALLY DEFERRED FOR EACH ROW"
               " WHEN (OLD.hold_count = 1 AND NEW.hold_count = 0)"
               " EXECUTE FUNCTION {hold_back}()");
}

static int hold_back(void **state)
{
    (void)state;
    return set_up("CREATE FUNCTION {hold_back}() RETURNS trigger LANGUAGE plpgsql AS"
                  " 'BEGIN PERFORM pg_sleep(0.02); RETURN NULL; END'");
}

/* Every second time. */
static int refuse(void **state)
{
    (void)state;
    return set_up("CREATE FUNCTION {hold_back}() RETURNS trigger LANGUAGE plpgsql AS"
                  " 'BEGIN IF nextval(''{releases}'') % 2 = 0 THEN RAISE ''not now''; END IF;"
                  " RETURN NULL; END'");
}

static int teardown(void **state)
{
    (void)state;
    return run("DROP FUNCTION {hold_back}() CASCADE") | run("DROP SEQUENCE {releases}");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test_setup_teardown(release_that_is_held_back, hold_back, teardown),
        cmocka_unit_test_setup_teardown(release_that_fails_after_its_bell, refuse, teardown),
        cmocka_unit_test_setup_teardown(who_comes_before_the_commit, hold_back, teardown),
    };
    return FAULT_MAIN(argc, argv, 0, cases);
}
