/* SPDX-License-Identifier: MIT
 *
 * Who waits in the queue, or holds the lock, and goes away without a word: killed, stopped, cut
 * off, cancelled. The next one is served soon, and the others in their order. */
#include "queue_scene.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>

enum {
    LIFE_MS = 5000, /* of a ticket, as it is without options */
    SHORT_LIFE_MS = 1500,
    LATE_MS = 3000, /* what a loaded machine may add */
    ALL_MS = 30000
};

static const struct queue_part brief = {.ttl_ms = 60000, .hold_ms = 10};

/* How long after `since_ms` that one was served. */
static int64_t delay_of(const struct queue_scene *scene, int number, int64_t since_ms)
{
    int64_t delay = scene->shared->parts[number].granted_ms - since_ms;

    print_message("number %d served after %lld ms\n", number, (long long)delay);
    return delay;
}

static void expect_order(const struct queue_scene *scene, const char *expected)
{
    char order[256];

    queue_order(scene, order, sizeof(order));
    assert_string_equal(expected, order);
}

/* Its bell rings when the server or the kernel notices that the process is dead. */
static void killed_head(void **state)
{
    struct queue_scene scene;
    int64_t since;

    (void)state;
    queue_open(&scene, "head", 3);
    for (int i = 0; i < 3; i++)
        queue_join(&scene, &brief);
    queue_kill(&scene, 0, SIGKILL);
    since = queue_release(&scene);
    queue_await_end(&scene, 1, ALL_MS);
    queue_await_end(&scene, 2, ALL_MS);
    assert_in_range(delay_of(&scene, 1, since), 0, LIFE_MS - 1000);
    expect_order(&scene, "1 2");
    queue_close(&scene);
}

static void killed_in_the_middle(void **state)
{
    struct queue_scene scene;
    int64_t since;

    (void)state;
    queue_open(&scene, "middle", 4);
    for (int i = 0; i < 4; i++)
        queue_join(&scene, &brief);
    queue_kill(&scene, 1, SIGKILL);
    queue_kill(&scene, 2, SIGKILL);
    since = queue_release(&scene);
    queue_await_end(&scene, 0, ALL_MS);
    queue_await_end(&scene, 3, ALL_MS);
    assert_in_range(delay_of(&scene, 3, since), 0, LIFE_MS - 1000);
    expect_order(&scene, "0 3");
    queue_close(&scene);
}

/* Its connection stands, so its bell does not ring: its ticket must die. */
static void stopped_head(void **state)
{
    const struct queue_part frail = {.ttl_ms = 60000, .hold_ms = 10, .ticket_ms = SHORT_LIFE_MS};
    struct queue_scene scene;
    int64_t since;

    (void)state;
    queue_open(&scene, "stopped", 3);
    queue_join(&scene, &frail);
    queue_join(&scene, &brief);
    queue_join(&scene, &brief);
    queue_kill(&scene, 0, SIGSTOP);
    since = queue_release(&scene);
    queue_await_end(&scene, 1, ALL_MS);
    queue_await_end(&scene, 2, ALL_MS);
    queue_kill(&scene, 0, SIGCONT);
    queue_await_end(&scene, 0, ALL_MS); /* it has lost its place and nothing else */
    assert_in_range(delay_of(&scene, 1, since), 0, SHORT_LIFE_MS + LATE_MS);
    expect_order(&scene, "1 2 0");
    queue_close(&scene);
}

/* The head had got the lock, by a ticket and with a bell: what counts is the lease, bell or not. */
static void killed_holder(void **state)
{
    const struct queue_part holder = {.ttl_ms = 2000, .hold_ms = -1};
    struct queue_scene scene;
    int64_t since;

    (void)state;
    queue_open(&scene, "holder", 3);
    queue_join(&scene, &holder);
    queue_join(&scene, &brief);
    queue_join(&scene, &brief);
    queue_release(&scene);
    queue_await_grant(&scene, 0, ALL_MS);
    since = scene.shared->parts[0].granted_ms;
    queue_kill(&scene, 0, SIGKILL);
    queue_await_end(&scene, 1, ALL_MS);
    queue_await_end(&scene, 2, ALL_MS);
    assert_in_range(delay_of(&scene, 1, since), 1000, 2000 + LATE_MS);
    assert_true(scene.shared->parts[1].fence > scene.shared->parts[0].fence);
    expect_order(&scene, "0 1 2");
    queue_close(&scene);
}

/* Its connections break, but it lives on: it may lose its place, and is served all the same. */
static void cut_head(void **state)
{
    struct queue_part cut = brief;
    struct queue_scene scene;
    int64_t since;

    (void)state;
    if (fault.proxy == NULL) /* a file has no connections to cut */
        return;
    cut.address = fault.proxied;
    queue_open(&scene, "cut", 3);
    queue_join(&scene, &cut);
    queue_join(&scene, &brief);
    queue_join(&scene, &brief);
    proxy_cut_all(fault.proxy);
    since = queue_release(&scene);
    for (int i = 0; i < 3; i++)
        queue_await_end(&scene, i, ALL_MS);
    assert_in_range(delay_of(&scene, 1, since), 0, LIFE_MS - 1000);
    assert_int_equal(3, scene.shared->served);
    queue_close(&scene);
}

struct cancelled {
    rowlock_client *client;
    const char *name;
    rowlock_cancel *cancel;
    int status;
    int64_t ended_ms;
};

static void *wait_cancelled(void *argument)
{
    struct cancelled *c = argument;
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;
    rowlock_lock *lock = NULL;

    options.wait_ms = ALL_MS;
    options.cancel = c->cancel;
    c->status = rowlock_acquire(&lock, c->client, c->name, &options, NULL);
    c->ended_ms = process_now_ms();
    if (lock != NULL)
        rowlock_release(&lock, NULL);
    return NULL;
}

static void cancelled_head(void **state)
{
    struct queue_scene scene;
    struct cancelled head = {0};
    pthread_t thread;
    rowlock_error err;
    int64_t since;

    (void)state;
    queue_open(&scene, "cancelled", 1);
    head.client = fault_open(fault.backend.address, NULL);
    head.name = scene.name;
    assert_status(ROWLOCK_OK, rowlock_cancel_new(&head.cancel, &err), &err);
    assert_int_equal(0, pthread_create(&thread, NULL, wait_cancelled, &head));
    assert_int_equal(0, queue_await_waiters(scene.client, scene.name, 1, ALL_MS));
    queue_join(&scene, &brief);
    since = process_now_ms();
    rowlock_cancel_fire(head.cancel);
    pthread_join(thread, NULL);
    assert_int_equal(ROWLOCK_CANCELLED, head.status);
    assert_in_range(head.ended_ms - since, 0, 1000 + LATE_MS);
    assert_int_equal(1, queue_waiters(scene.client, scene.name));
    since = queue_release(&scene);
    queue_await_end(&scene, 0, ALL_MS);
    assert_in_range(delay_of(&scene, 0, since), 0, LIFE_MS - 1000);
    rowlock_cancel_free(&head.cancel);
    rowlock_close(&head.client);
    queue_close(&scene);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(killed_head),  cmocka_unit_test(killed_in_the_middle),
        cmocka_unit_test(stopped_head), cmocka_unit_test(killed_holder),
        cmocka_unit_test(cut_head),     cmocka_unit_test(cancelled_head),
    };
    return FAULT_MAIN(argc, argv, 1, cases);
}
