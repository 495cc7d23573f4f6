/* SPDX-License-Identifier: MIT
 *
 * Ten thousand tickets that nobody has taken away: the queue goes on as before, and reaping takes
 * them away. */
#include "queue_scene.h"

#include <pthread.h>
#include <stdio.h>

enum { LEFT = 10000, ROUNDS = 30, PLAYERS = 2, ALL_MS = 60000, BOUND_MS = 20000 };

/* Who was served may have left one, too, which lives for a while. */
#define COUNT_LEFT "SELECT COUNT(*) FROM {waiters} WHERE owner = 'gone'"

/* Two players hand the lock to each other, each with a client of its own. */
struct player {
    pthread_t thread;
    rowlock_client *client;
    const char *name;
    int status;
    char message[240];
};

static void *play(void *argument)
{
    struct player *p = argument;
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;
    rowlock_error err;

    options.wait_ms = ALL_MS;
    for (int i = 0; i < ROUNDS && p->status == ROWLOCK_OK; i++) {
        rowlock_lock *lock = NULL;
        p->status = rowlock_acquire(&lock, p->client, p->name, &options, &err);
        if (p->status == ROWLOCK_OK) {
            process_sleep_ms(1);
            p->status = rowlock_release(&lock, &err);
        }
        snprintf(p->message, sizeof(p->message), "%s", err.message);
    }
    return NULL;
}

static int64_t play_rounds(const char *name)
{
    struct player players[PLAYERS];
    int64_t start = process_now_ms();

    for (int i = 0; i < PLAYERS; i++) {
        players[i] =
            (struct player){.name = name, .client = fault_open(fault.backend.address, NULL)};
        assert_int_equal(0, pthread_create(&players[i].thread, NULL, play, &players[i]));
    }
    for (int i = 0; i < PLAYERS; i++)
        pthread_join(players[i].thread, NULL);
    for (int i = 0; i < PLAYERS; i++) {
        if (players[i].status != ROWLOCK_OK)
            fail_msg("player %d: %s", i, players[i].message);
        rowlock_close(&players[i].client);
    }
    return process_now_ms() - start;
}

/* Copies the one ticket that is there: as many with lower numbers, dead since two minutes. */
static void leave_tickets(void)
{
    char sql[700];
    const char *bytes = fault_is("sqlite") ? "process" : "has_bell";
    const char *recursive =
        "(WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100)"
        " SELECT a.i * 100 + b.i AS i FROM n AS a, n AS b)";

    snprintf(sql, sizeof(sql),
             "INSERT INTO {waiters} (name, ticket, owner, since_time, expire_time, %s)"
             " SELECT w.name, w.ticket - 200000000 - s.i, 'gone', w.since_time - 200000000,"
             " w.since_time - 120000000, w.%s FROM {waiters} AS w, %s AS s",
             bytes, bytes, recursive);
    fault_sql(sql);
}

static void ten_thousand(void **state)
{
    struct queue_scene scene;
    const struct queue_part waits = {.ttl_ms = 60000, .hold_ms = 1};
    int64_t before, after;
    int calls = 0;

    (void)state;
    queue_open(&scene, "left", 1);
    queue_join(&scene, &waits);
    leave_tickets();
    assert_in_range(fault_sql_number("SELECT COUNT(*) FROM {waiters}"), LEFT, LEFT + 1);
    assert_int_equal(1, queue_waiters(scene.client, scene.name));
    queue_release(&scene);
    queue_await_end(&scene, 0, ALL_MS);

    before = play_rounds(fault_name("empty"));
    after = play_rounds(scene.name);
    print_message("%d hand-overs: %lld ms, with %d dead tickets %lld ms\n", PLAYERS * ROUNDS,
                  (long long)before, LEFT, (long long)after);
    assert_in_range(after, 0, before * 10 + BOUND_MS);

    while (fault_sql_number(COUNT_LEFT) > 0 && calls++ < 100) {
        rowlock_reap_options options = ROWLOCK_REAP_OPTIONS_INIT;
        uint64_t count = 0;
        rowlock_error err;
        assert_status(ROWLOCK_OK, rowlock_reap(&count, scene.client, &options, &err), &err);
    }
    print_message("reaped by %d calls\n", calls);
    assert_int_equal(0, fault_sql_number(COUNT_LEFT));
    queue_close(&scene);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(ten_thousand),
    };
    return FAULT_MAIN(argc, argv, 0, cases);
}
