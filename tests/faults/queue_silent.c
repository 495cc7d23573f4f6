/* SPDX-License-Identifier: MIT
 *
 * Nobody rings: the lock becomes free behind the library's back, or the bell that is waited for is
 * in strange hands. Whoever waits is served all the same, later. */
#include "queue_scene.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { LATE_MS = 8000, ALL_MS = 30000 }; /* a backstop is a second or two */

static const struct queue_part brief = {.ttl_ms = 60000, .hold_ms = 10};

/* A plain holder's lease is ended by somebody's UPDATE, without any notice. */
static void lease_ended_by_hand(void **state)
{
    struct queue_scene scene;
    int64_t since, delay;

    (void)state;
    queue_open(&scene, "hand", 2);
    queue_join(&scene, &brief);
    queue_join(&scene, &brief);
    since = process_now_ms();
    fault_sql("UPDATE {locks} SET expire_time = acquire_time, hold_count = 0");
    queue_await_end(&scene, 0, ALL_MS);
    queue_await_end(&scene, 1, ALL_MS);
    delay = scene.shared->parts[0].granted_ms - since;
    print_message("served after %lld ms\n", (long long)delay);
    assert_in_range(delay, 0, LATE_MS);
    rowlock_release(&scene.lock, NULL); /* LOST */
    queue_close(&scene);
}

/* ---- a bell in strange hands ----------------------------------------------------------------- */

struct thief {
    pthread_t thread;
    void *session;
    char sql[300];
    int status;
};

static void *steal(void *argument)
{
    struct thief *t = argument;
    char out[256];

    t->status = fault.backend.kind->sql_run(t->session, t->sql, out, sizeof(out));
    return NULL;
}

/* As the driver for MySQL names them. */
static void mysql_bell(char *out, size_t size, const char *name)
{
    char key[256], database[64];
    uint64_t hash = 14695981039346656037ULL;
    int length;

    fault_sql_text(database, sizeof(database), "SELECT LOWER(DATABASE())");
    length = snprintf(key, sizeof(key), "%s%c%s%c%s", database, 0, fault.prefix, 0, name);
    for (int i = 0; i < length; i++)
        hash = (hash ^ (unsigned char)key[i]) * 1099511628211ULL;
    snprintf(out, size, "rowlock:%016llx:%lld", (unsigned long long)hash,
             fault_sql_number("SELECT MAX(ticket) FROM {locks}"));
}

/* A statement that waits for the bell of the one who holds the lock, and keeps it. 0: there are no
 * bells. */
static int find_bell(char *sql, size_t size, const char *name)
{
    char key[200], used[300];

    if (fault_is("postgresql")) {
        snprintf(sql, size, "SELECT pg_advisory_lock(%lld)",
                 fault_sql_number("SELECT (classid::bigint << 32) | objid::bigint FROM pg_locks"
                                  " WHERE locktype = 'advisory' AND objsubid = 1 AND granted"
                                  " AND (classid::bigint << 32) | objid::bigint IN"
                                  " (SELECT ticket FROM {locks})"));
    } else if (fault_is("mysql")) {
        mysql_bell(key, sizeof(key), name);
        snprintf(used, sizeof(used), "SELECT IS_USED_LOCK('%s')", key);
        assert_true(fault_sql_number(used) > 0);
        snprintf(sql, size, "SELECT GET_LOCK('%s', 20)", key);
    }
    return sql[0] != '\0';
}

/* Number 0 holds by ticket; the thief is the first to hear its bell and keeps it, and number 1,
 * who waits for it, cannot. */
static void bell_is_stolen(void **state)
{
    const struct queue_part holder = {.ttl_ms = 60000, .hold_ms = 2000};
    struct queue_scene scene;
    struct thief thief = {.status = -1};
    int64_t since;

    (void)state;
    queue_open(&scene, "bell", 3);
    queue_join(&scene, &holder);
    queue_release(&scene);
    queue_await_grant(&scene, 0, ALL_MS);
    if (!find_bell(thief.sql, sizeof(thief.sql), scene.name)) {
        queue_await_end(&scene, 0, ALL_MS);
        queue_close(&scene);
        return;
    }
    thief.session = fault.backend.kind->sql_open(fault.backend.address);
    assert_non_null(thief.session);
    assert_int_equal(0, pthread_create(&thief.thread, NULL, steal, &thief));
    process_sleep_ms(300); /* it waits at the head of the server's own queue */
    queue_join(&scene, &brief);
    queue_join(&scene, &brief);
    queue_await_end(&scene, 0, ALL_MS);
    since = scene.shared->parts[0].granted_ms + holder.hold_ms;
    queue_await_end(&scene, 1, ALL_MS);
    queue_await_end(&scene, 2, ALL_MS);
    print_message("served after %lld ms\n", (long long)(scene.shared->parts[1].granted_ms - since));
    assert_in_range(scene.shared->parts[2].granted_ms - since, 0, LATE_MS);
    pthread_join(thief.thread, NULL);
    fault.backend.kind->sql_close(thief.session);
    assert_int_equal(0, thief.status);
    assert_int_equal(1, scene.shared->order[1]);
    queue_close(&scene);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(lease_ended_by_hand),
        cmocka_unit_test(bell_is_stolen),
    };
    return FAULT_MAIN(argc, argv, 0, cases);
}
