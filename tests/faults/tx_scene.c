/* SPDX-License-Identifier: MIT */
#include "tx_scene.h"

#include <stdio.h>
#include <string.h>

const struct scene_cut scene_cuts[SCENE_CUTS] = {
    {"before", PROXY_CUT_BEFORE}, {"half", PROXY_CUT_HALF}, {"reply", PROXY_CUT_REPLY}};

static rowlock_client *open_at(const char *address)
{
    rowlock_options options = ROWLOCK_OPTIONS_INIT;

    options.call_timeout_ms = SCENE_TIMEOUT_MS;
    options.connect_timeout_ms = SCENE_CONNECT_MS;
    return fault_open(address, &options);
}

void scene_open(struct scene *s, const char *what)
{
    static int next;

    memset(s, 0, sizeof(*s));
    s->id = ++next;
    s->name = fault_name(what);
    s->client = open_at(fault.proxied);
    s->direct = open_at(fault.backend.address);
}

void scene_close(struct scene *s)
{
    native_close(&s->native);
    rowlock_close(&s->client);
    rowlock_close(&s->direct);
}

void scene_write(struct scene *s, struct native *native)
{
    if (native_run(native, "INSERT INTO %srows (id) VALUES (%d)", fault.prefix, s->id) != 0)
        fail_msg("cannot write: %s", native->message);
}

int scene_is_committed(const struct scene *s)
{
    char sql[96];

    snprintf(sql, sizeof(sql), "SELECT COUNT(*) FROM {rows} WHERE id = %d", s->id);
    return fault_sql_number(sql) == 1;
}

/* The server may take a moment to notice that its client is gone. */
void scene_comes_free(const struct scene *s)
{
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;
    rowlock_lock *lock = NULL;
    rowlock_error err;

    options.wait_ms = SCENE_FREE_MS;
    assert_status(ROWLOCK_OK, rowlock_acquire(&lock, s->direct, s->name, &options, &err), &err);
    fault_release(&lock);
}

void scene_says_why(int status, const rowlock_error *err)
{
    if (status == ROWLOCK_OK)
        return;
    assert_int_equal(status, err->status);
    assert_true(err->message[0] != '\0');
}

void scene_within(int64_t start, int64_t bound_ms)
{
    int64_t took = process_now_ms() - start;

    if (took > bound_ms + FAULT_SLACK_MS)
        fail_msg("%lld ms, bound %lld ms", (long long)took, (long long)bound_ms);
}

int scene_setup(void **state)
{
    char out[64];

    (void)state;
    return fault_sql_on(fault.backend.address, "CREATE TABLE {rows} (id int PRIMARY KEY)", out,
                        sizeof(out));
}

int scene_teardown(void **state)
{
    (void)state;
    proxy_disarm(fault.proxy);
    proxy_refuse(fault.proxy, 0);
    proxy_blackhole(fault.proxy, 0);
    proxy_cut_all(fault.proxy); /* a case that failed has left its transaction */
    return native_drop("rows");
}
