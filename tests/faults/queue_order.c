/* SPDX-License-Identifier: MIT
 *
 * First come, first served, between processes: those who came in a known order, and a thousand
 * hand-overs, each to the one that the queue had shown as the first. */
#include "queue_scene.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COMERS = 16, LONG_WAIT_MS = 5500, RUNNERS = 4, ALL_MS = 60000 };

/* Longer than a ticket lives that nobody keeps alive. */
static void in_the_order_of_arrival(void **state)
{
    const struct queue_part how = {.ttl_ms = 60000, .hold_ms = 1};
    struct queue_scene scene;
    char order[256];

    (void)state;
    queue_open(&scene, "order", COMERS);
    for (int i = 0; i < COMERS; i++)
        queue_join(&scene, &how);
    process_sleep_ms(LONG_WAIT_MS);
    assert_int_equal(COMERS, queue_waiters(scene.client, scene.name));
    queue_release(&scene);
    for (int i = 0; i < COMERS; i++)
        queue_await_end(&scene, i, ALL_MS);
    queue_order(&scene, order, sizeof(order));
    assert_string_equal("0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15", order);
    for (int i = 1; i < COMERS; i++)
        assert_true(scene.shared->parts[i].fence > scene.shared->parts[i - 1].fence);
    assert_int_equal(0, queue_waiters(scene.client, scene.name));
    queue_close(&scene);
}

/* ---- many hand-overs ------------------------------------------------------------------------- */

/* Written by the holder alone; the lock protects it. */
struct board {
    int grants, expected, inversions, unseen, hand_overs, status;
    char message[240];
    char first[480]; /* the first inversion */
    char queue[200]; /* what the last holder saw of it: "runner 1, runner 3, " */
    uint64_t next;   /* and the ticket of the first */
};

static struct board *board;

static int add_owner(const rowlock_waiter *waiter, void *payload)
{
    char *queue = payload;
    size_t used = strlen(queue);

    if (used == 0)
        board->next = waiter->ticket;
    snprintf(queue + used, sizeof(board->queue) - used, "%s, ", waiter->owner);
    return 0;
}

/* One that was not to be seen may have taken its ticket, with a lower number, at the moment of the
 * look. 0: so it was. */
static int is_overtaking(void)
{
    char ticket[64] = "";

    board->unseen++;
    return fault_sql_on(fault.backend.address, "SELECT MAX(ticket) FROM {locks}", ticket,
                        sizeof(ticket)) != 0 ||
           ticket[0] == '\0' || strtoull(ticket, NULL, 10) > board->next;
}

/* What the holder does: was it its turn, and who waits now? */
static int note_turn(rowlock_client *client, const char *me, rowlock_error *err)
{
    rowlock_counters counters = ROWLOCK_COUNTERS_INIT;

    if (board->queue[0] != '\0') {
        board->hand_overs++;
        if (strncmp(board->queue, me, strlen(me)) != 0 &&
            (strstr(board->queue, me) != NULL || is_overtaking()) && board->inversions++ == 0) {
            rowlock_stats(&counters, client, NULL);
            snprintf(board->first, sizeof(board->first),
                     "%s after %s (its ticket %llu, grant %llu)", me, board->queue,
                     (unsigned long long)counters.queued, (unsigned long long)counters.acquired);
        }
    }
    board->grants++;
    board->queue[0] = '\0';
    return rowlock_waiters(client, NULL, add_owner, board->queue, err);
}

static int run(void *payload)
{
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;
    rowlock_client *client = NULL;
    rowlock_error err;
    char me[32];
    int status = fault_try_open(&client, fault.backend.address, NULL, &err);

    snprintf(me, sizeof(me), "runner %d", *(const int *)payload);
    options.wait_ms = ALL_MS;
    options.owner = me;
    while (status == ROWLOCK_OK && board->grants < board->expected) {
        rowlock_lock *lock = NULL;
        status = rowlock_acquire(&lock, client, "race", &options, &err);
        if (status == ROWLOCK_OK)
            status = note_turn(client, me, &err);
        if (lock != NULL)
            rowlock_release(&lock, NULL);
    }
    if (status != ROWLOCK_OK) {
        board->status = status;
        snprintf(board->message, sizeof(board->message), "%s", err.message);
    }
    rowlock_close(&client);
    return status != ROWLOCK_OK;
}

static void a_thousand_times(void **state)
{
    pid_t pids[RUNNERS];
    int failed = 0;

    (void)state;
    board = process_shared(sizeof(*board));
    assert_non_null(board);
    board->expected = 1000 + RUNNERS;
    for (int i = 0; i < RUNNERS; i++)
        pids[i] = process_start(run, &i); /* its own copy of it */
    for (int i = 0; i < RUNNERS; i++)
        failed += process_wait(pids[i], ALL_MS) != 0;
    print_message("%d grants, %d of them announced, %d unseen, %d inversions\n", board->grants,
                  board->hand_overs, board->unseen, board->inversions);
    if (failed > 0)
        fail_msg("%d runners failed: status %d: %s", failed, board->status, board->message);
    if (board->inversions > 0)
        fail_msg("%d inversions, the first: %s", board->inversions, board->first);
    assert_in_range(board->hand_overs, board->grants / 2, board->grants);
    process_unshare(board, sizeof(*board));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(in_the_order_of_arrival),
        cmocka_unit_test(a_thousand_times),
    };
    return FAULT_MAIN(argc, argv, 0, cases);
}
