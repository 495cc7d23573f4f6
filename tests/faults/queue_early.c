/* SPDX-License-Identifier: MIT
 *
 * A bell rings when the release is committed, by the statement that releases. Here that takes long,
 * or fails: a trigger sees to it when all of the release is done but the commit. Nobody is called
 * too early; who waits, or comes just then, is served soon after the commit, and nobody before his
 * turn. Or a try takes long, and the release comes and goes while it looks. */
#include <pthread.h>
#include <stdio.h>

#include "queue_scene.h"

enum {
    WAITERS = 4,
    HOLD_MS = 200,
    BACK_MS = 20,  /* by which a release is held back, */
    LOOK_MS = 100, /* and a try */
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

/* The bell has rung for nothing: who heard it finds the lock held, and nobody there who rings. It
 * has to be told of the release that follows, which is held back until it listens. */
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

/* Until it has a ticket, or has had long enough for it. */
static void await_queued(rowlock_client *client)
{
    rowlock_counters counters = {.size = sizeof(counters)};
    int64_t until = process_now_ms() + ALL_MS;

    while (counters.queued == 0 && process_now_ms() < until) {
        process_sleep_ms(5);
        rowlock_stats(&counters, client, NULL);
    }
}

/* Holds the lock by a ticket, whose bell it has. */
static void hold_by_ticket(struct waiting *w)
{
    rowlock_client *before = fault_open(fault.backend.address, NULL);
    rowlock_lock *lock = fault_acquire(before, "early", 60000);
    pthread_t thread;

    pthread_create(&thread, NULL, wait_for_it, w);
    await_queued(w->client);
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

/* ---- who looks just then ---- */

/* A holder's session, with its bell: like any tenure by ticket, but one that does as it is told. */
static void *hold_by_hand(void)
{
    const struct backend_kind *kind = fault.backend.kind;
    void *session = kind->sql_open(fault.backend.address);
    char sql[128];

    assert_non_null(session);
    fault_sql("UPDATE {locks} SET ticket = (SELECT min(ticket) - 1 FROM {waiters})");
    snprintf(sql, sizeof(sql), "SELECT pg_advisory_lock(%lld)",
             fault_sql_number("SELECT ticket FROM {locks}"));
    assert_int_equal(kind->sql_run(session, sql, NULL, 0), 0);
    return session;
}

static void await_sleeping_try(void)
{
    int64_t until = process_now_ms() + ALL_MS;

    while (fault_sql_number("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'") ==
               0 &&
           process_now_ms() < until)
        process_sleep_ms(5);
}

/* It waits to be told, since the first holder had no bell. The one after that has: it frees the row
 * and rings while a try of the waiter's still sees the row as it was. Nobody will tell. */
static void release_while_somebody_looks(void **state)
{
    struct waiting next = {.client = fault_open(fault.backend.address, NULL)};
    void *holder;
    int64_t since;
    pthread_t thread;

    (void)state;
    fault_sql("DELETE FROM {locks}");
    fault_sql("DELETE FROM {waiters}");
    fault_sql("INSERT INTO {locks} (name, owner, fence, hold_count, attempt, acquire_time,"
              " expire_time) SELECT 'early', 'x', 1, 1, gen_random_uuid(), 1,"
              " (extract(epoch FROM now()) * 1000000)::bigint + 60000000");
    pthread_create(&thread, NULL, wait_for_it, &next);
    await_queued(next.client);
    process_sleep_ms(4 * LOOK_MS); /* it has looked, and listens */
    holder = hold_by_hand();
    await_sleeping_try();
    fault_sql("UPDATE {locks} SET hold_count = 0,"
              " expire_time = (extract(epoch FROM clock_timestamp()) * 1000000)::bigint");
    fault.backend.kind->sql_close(holder);
    since = process_now_ms();
    pthread_join(thread, NULL);
    since = process_now_ms() - since;
    assert_int_equal(next.status, ROWLOCK_OK);
    print_message("served after %lld ms\n", (long long)since);
    assert_in_range(since, 0, SOON_MS);
    fault_release(&next.lock);
    rowlock_close(&next.client);
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

/* Every second time; the others are held back. It looks for the sequence where the tables are: our
 * sessions search pg_catalog alone. */
static int refuse(void **state)
{
    (void)state;
    return set_up("CREATE FUNCTION {hold_back}() RETURNS trigger LANGUAGE plpgsql"
                  " SET search_path FROM CURRENT AS"
                  " 'BEGIN IF nextval(''{releases}'') % 2 = 0 THEN RAISE ''not now''; END IF;"
                  " PERFORM pg_sleep(0.1); RETURN NULL; END'");
}

/* Only the statement of a try has such a parameter. */
static int look_long(void **state)
{
    (void)state;
    if (run("CREATE FUNCTION {hold_back}() RETURNS trigger LANGUAGE plpgsql AS"
            " 'BEGIN IF current_query() LIKE ''%$8::boolean%'' THEN PERFORM pg_sleep(0.1); END IF;"
            " RETURN NULL; END'") != 0)
        return -1;
    return run("CREATE TRIGGER hold_back BEFORE UPDATE ON {locks} FOR EACH STATEMENT"
               " EXECUTE FUNCTION {hold_back}()");
}

static int teardown(void **state)
{
    (void)state;
    return run("DROP FUNCTION {hold_back}() CASCADE") | run("DROP SEQUENCE IF EXISTS {releases}");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test_setup_teardown(release_that_is_held_back, hold_back, teardown),
        cmocka_unit_test_setup_teardown(release_that_fails_after_its_bell, refuse, teardown),
        cmocka_unit_test_setup_teardown(who_comes_before_the_commit, hold_back, teardown),
        cmocka_unit_test_setup_teardown(release_while_somebody_looks, look_long, teardown),
    };
    return FAULT_MAIN(argc, argv, 0, cases);
}
