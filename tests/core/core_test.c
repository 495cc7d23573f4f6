/* SPDX-License-Identifier: MIT */
#include "core_test.h"

int fresh(void **state)
{
    (void)state;
    fake_clock_reset();
    fake_reset();
    return 0;
}

rowlock_client *open_client_with(const rowlock_options *options)
{
    rowlock_client *client = NULL;
    rowlock_error err;

    assert_status(OK, rowlock_open(&client, fake_driver(), "fake", options, &err));
    assert_non_null(client);
    return client;
}

rowlock_client *open_client(void)
{
    return open_client_with(NULL);
}

rowlock_lock *hold(rowlock_client *client, const char *name, int64_t ttl_ms, const char *owner)
{
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;
    rowlock_lock *lock = NULL;
    rowlock_error err;

    options.ttl_ms = ttl_ms;
    options.owner = owner;
    assert_status(OK, rowlock_acquire(&lock, client, name, &options, &err));
    return lock;
}

void open_another(rowlock_client *client)
{
    rowlock_lock *lock = hold(client, "another", 0, NULL);

    assert_status(OK, rowlock_release(&lock, NULL));
}
