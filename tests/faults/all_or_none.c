/* SPDX-License-Identifier: MIT
 *
 * All or none, when one of the rows is deleted, as the reaper does, and made and taken by somebody
 * else in the middle of it: who is answered BUSY holds nothing. The request is one packet; other
 * sessions stop it between its statements by locking the tables that the next one needs. */
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "native.h"

#define NOW "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))"

enum { TRIES = 10 };

struct call {
    pthread_t thread;
    struct native native;   /* LOCK TABLES ... WRITE on this one, */
    const char *table;      /* of this table; */
    rowlock_client *client; /* or all of the names with this one */
    const char *const *names;
    rowlock_lock *locks[2];
    int status;
};

static void *lock_table(void *arg)
{
    struct call *call = arg;

    call->status = native_run(&call->native, "LOCK TABLES %s%s WRITE", fault.prefix, call->table);
    return NULL;
}

static void *acquire_both(void *arg)
{
    struct call *call = arg;

    call->status = rowlock_acquire_many(call->locks, call->client, call->names, 2, NULL, NULL);
    return NULL;
}

static void start(struct call *call, void *(*run)(void *))
{
    assert_int_equal(0, pthread_create(&call->thread, NULL, run, call));
}

/* Until so many sessions wait for tables. 0: they never did. */
static int wait_for(int count)
{
    for (int i = 0; i < 1500; i++) {
        if (fault_sql_number("SELECT COUNT(*) FROM information_schema.processlist WHERE db = "
                             "DATABASE() AND state = 'Waiting for table metadata lock'") == count)
            return 1;
        usleep(1000);
    }
    return 0;
}

static void open_for(struct call *out, const char *table)
{
    *out = (struct call){.table = table};
    assert_int_equal(0, native_open(&out->native, fault.backend.address, 0));
}

static void unlock(struct call *call)
{
    assert_int_equal(0, call->status);
    assert_int_equal(0, native_run(&call->native, "UNLOCK TABLES"));
}

static void take_away(struct call *locks, const char *name)
{
    assert_int_equal(
        0, native_run(&locks->native, "DELETE FROM %slocks WHERE name = '%s'", fault.prefix, name));
}

static void give_to_other(const char *name)
{
    char sql[512];

    snprintf(sql, sizeof(sql),
             "INSERT INTO {locks} (name, owner, fence, hold_count, attempt, acquire_time, "
             "expire_time) VALUES ('%s', 'other', %s, 1, REPEAT('x', 16), %s, %s + 60000000)",
             name, NOW, NOW, NOW);
    fault_sql(sql);
}

/* The moments in which it is stopped are those of "gate" and "acquire" in sql/mysql.sql. 0: it was
 * not stopped in all of them, since a statement does not wait for ever. */
static int stop_and_go(struct call *both, struct call *floor, struct call *locks,
                       struct call *waiters)
{
    int stopped;

    lock_table(floor);
    start(both, acquire_both); /* found both of them free; makes what is absent */
    stopped = wait_for(1);
    lock_table(waiters);
    start(locks, lock_table);
    stopped = stopped && wait_for(2);
    unlock(floor);
    assert_int_equal(0, pthread_join(locks->thread, NULL));
    stopped = stopped && wait_for(1); /* they are there; looks once more, and locks them */
    if (stopped)
        take_away(locks, both->names[1]);
    unlock(locks);
    stopped = stopped && wait_for(1); /* takes them */
    if (stopped)
        give_to_other(both->names[1]);
    unlock(waiters);
    assert_int_equal(0, pthread_join(both->thread, NULL));
    return stopped;
}

static int try_scene(rowlock_client *other, rowlock_client *client)
{
    const char *names[] = {fault_name("all"), fault_name("all")};
    struct call floor, locks, waiters, both = {.names = names, .client = client};
    int stopped;

    for (int i = 0; i < 2; i++) {
        rowlock_lock *lock = fault_acquire(other, names[i], 0); /* makes the row */

        fault_release(&lock);
    }
    open_for(&floor, "floor");
    open_for(&locks, "locks");
    open_for(&waiters, "waiters");
    stopped = stop_and_go(&both, &floor, &locks, &waiters);
    if (both.status == ROWLOCK_BUSY)
        assert_int_equal(1, fault_row(other, names[0]).found);
    for (int i = 0; i < 2 && both.status == ROWLOCK_OK; i++)
        fault_release(&both.locks[i]);
    native_close(&floor.native);
    native_close(&locks.native);
    native_close(&waiters.native);
    return stopped && both.status == ROWLOCK_BUSY;
}

static void busy_holds_nothing(void **state)
{
    rowlock_client *other = fault_open(fault.backend.address, NULL);
    rowlock_client *client = fault_open(fault.backend.address, NULL);
    int done = 0;

    (void)state;
    for (int i = 0; i < TRIES && !done; i++)
        done = try_scene(other, client);
    assert_true(done);
    rowlock_close(&client);
    rowlock_close(&other);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest cases[] = {cmocka_unit_test(busy_holds_nothing)};

    return FAULT_MAIN(argc, argv, 0, cases);
}
