/* SPDX-License-Identifier: MIT */
#include "hammer.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "fault.h"

enum { THREADS_MAX = 16 };

struct anvil {
    rowlock_client *client;
    int64_t until_ms;
    atomic_int holders;
    _Atomic uint64_t fence;
};

struct smith {
    pthread_t thread;
    struct anvil *anvil;
    struct hammer_result result;
};

static int failed(struct smith *s, int status, const rowlock_error *err)
{
    if (status == ROWLOCK_OK)
        return 0;
    if (s->result.errors++ == 0) {
        s->result.status = status;
        snprintf(s->result.message, sizeof(s->result.message), "%s", err->message);
    }
    return 1;
}

static int count_rows(const rowlock_row *row, void *payload)
{
    *(int *)payload += row->hold_count == 2;
    return 0;
}

/* BUSY says that another's statement looked at the row at this moment, and to try again. */
static int renew(rowlock_lock *lock, rowlock_error *err)
{
    int status = rowlock_renew(lock, 0, err);

    for (int i = 0; i < 50 && status == ROWLOCK_BUSY; i++) {
        process_sleep_ms(2);
        status = rowlock_renew(lock, 0, err);
    }
    return status;
}

static void in_the_lock(struct smith *s, rowlock_lock *lock)
{
    struct anvil *a = s->anvil;
    rowlock_list_options list = ROWLOCK_LIST_OPTIONS_INIT;
    rowlock_reap_options reap = ROWLOCK_REAP_OPTIONS_INIT;
    rowlock_acquire_options reentry = ROWLOCK_ACQUIRE_OPTIONS_INIT;
    rowlock_lock *again = NULL;
    rowlock_error err;
    int twice = 0;

    s->result.wrongs += atomic_fetch_add(&a->holders, 1) != 0;
    s->result.wrongs += atomic_exchange(&a->fence, rowlock_fence(lock)) >= rowlock_fence(lock);
    list.starts_with = "hammer";
    reap.retention_ms = 1000;
    reentry.wait_ms = 5000; /* another's statement may look at the row at this moment */
    if (!failed(s, rowlock_acquire(&again, a->client, "hammer", &reentry, &err), &err)) {
        s->result.wrongs += rowlock_fence(again) != rowlock_fence(lock);
        failed(s, rowlock_list(a->client, &list, count_rows, &twice, &err), &err);
        s->result.wrongs += twice != 1;
        failed(s, renew(lock, &err), &err);
        failed(s, rowlock_reap(NULL, a->client, &reap, &err), &err);
        failed(s, rowlock_migrate(a->client, ROWLOCK_SCHEMA_LATEST, &err), &err);
        failed(s, rowlock_release(&again, &err), &err);
    }
    atomic_fetch_sub(&a->holders, 1);
}

static void *strike_on(void *argument)
{
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;
    struct smith *s = argument;

    options.wait_ms = 5000; /* a slow answer within it is no error */
    while (process_now_ms() < s->anvil->until_ms && s->result.errors < 10) {
        rowlock_lock *lock = NULL;
        rowlock_error err;
        int status = rowlock_acquire(&lock, s->anvil->client, "hammer", &options, &err);
        if (status == ROWLOCK_TIMEOUT || failed(s, status, &err))
            continue;
        s->result.grants++;
        in_the_lock(s, lock);
        failed(s, rowlock_release(&lock, &err), &err);
    }
    return NULL;
}

struct hammer_result hammer(const char *address, int threads, int connections, int64_t ms)
{
    struct smith smiths[THREADS_MAX];
    struct hammer_result total = {0};
    struct anvil anvil = {0};
    rowlock_options options = ROWLOCK_OPTIONS_INIT;
    rowlock_error err;
    int n = 0;

    memset(smiths, 0, sizeof(smiths));
    options.max_connections = (uint32_t)connections;
    options.connect_timeout_ms = options.call_timeout_ms = 30000; /* many connect at once */
    total.status = fault_try_open(&anvil.client, address, &options, &err);
    if (total.status != ROWLOCK_OK) {
        snprintf(total.message, sizeof(total.message), "%s", err.message);
        total.errors = 1;
        return total;
    }
    anvil.until_ms = process_now_ms() + ms;
    for (; n < threads && n < THREADS_MAX; n++) {
        smiths[n].anvil = &anvil;
        if (pthread_create(&smiths[n].thread, NULL, strike_on, &smiths[n]) != 0)
            break;
    }
    for (int i = 0; i < n; i++) {
        struct hammer_result *r = &smiths[i].result;
        pthread_join(smiths[i].thread, NULL);
        if (r->errors > 0 && total.errors == 0) {
            total.status = r->status;
            memcpy(total.message, r->message, sizeof(total.message));
        }
        total.grants += r->grants;
        total.errors += r->errors;
        total.wrongs += r->wrongs;
    }
    rowlock_close(&anvil.client);
    return total;
}
