/* SPDX-License-Identifier: MIT
 *
 * What cases of transaction mode share: an application's sessions, its table, and threads that
 * wait. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "conformance.h"

#define SETTINGS_SIZE ((size_t)256 * 1024)

/* ---- the application's table ----------------------------------------------------------------- */

void shop_open(struct fixture *f)
{
    char sql[128];
    snprintf(sql, sizeof(sql), "CREATE TABLE %sshop (number INTEGER NOT NULL PRIMARY KEY)",
             f->prefix);
    sql_run(f, sql, NULL, 0);
    f->has_shop = 1;
}

int shop_add(struct fixture *f, void *session, int number)
{
    char sql[128];
    snprintf(sql, sizeof(sql), "INSERT INTO %sshop (number) VALUES (%d)", f->prefix, number);
    return f->backend->kind->sql_run(session, sql, NULL, 0);
}

int shop_has(struct fixture *f, int number)
{
    char sql[128], out[32];
    snprintf(sql, sizeof(sql), "SELECT COUNT(*) FROM %sshop WHERE number = %d", f->prefix, number);
    sql_run(f, sql, out, sizeof(out));
    return out[0] == '1';
}

/* ---- sessions -------------------------------------------------------------------------------- */

void *session_open(struct fixture *f)
{
    void *session = sql_begin(f);
    sql_in(f, session, "BEGIN");
    return session;
}

static void run_list(struct fixture *f, void *session, const char *const *list)
{
    for (size_t i = 0; list != NULL && list[i] != NULL; i++)
        sql_in(f, session, list[i]);
}

void *mood_open(struct fixture *f, const struct backend_mood *mood, int number)
{
    void *session = NULL;
    if (mood->open == NULL) {
        session = sql_begin(f);
    } else {
        session = mood->open(f->backend->address);
        assert_non_null(session);
        session_keep(f, session);
    }
    run_list(f, session, mood->before);
    if (mood->begin != NULL)
        sql_in(f, session, mood->begin);
    if (number != 0)
        assert_int_equal(shop_add(f, session, number), 0);
    return session;
}

void mood_settle(struct fixture *f, void *session, const struct backend_mood *mood)
{
    run_list(f, session, mood->inside);
}

void expect_mood_ok_(struct fixture *f, const struct backend_mood *mood, int status,
                     const char *file, int line)
{
    if (status != ROWLOCK_OK)
        print_error("in the mood '%s':\n", mood->name);
    expect_status_(ROWLOCK_OK, status, &f->err, file, line);
}

char *settings_of(struct fixture *f, void *session)
{
    char *text = malloc(SETTINGS_SIZE);
    assert_non_null(text);
    f->backend->kind->settings(session, text, SETTINGS_SIZE);
    return text;
}

/* The first line that differs says more than both texts. */
static void print_difference(const char *before, const char *after)
{
    size_t start = 0, i = 0;
    for (; before[i] == after[i] && before[i] != '\0'; i++) {
        if (before[i] == '\n')
            start = i + 1;
    }
    print_error("before: %.*s\nafter:  %.*s\n", (int)strcspn(before + start, "\n"), before + start,
                (int)strcspn(after + start, "\n"), after + start);
}

void expect_settings_(struct fixture *f, void *session, char *before, const char *mood,
                      const char *file, int line)
{
    char *after = settings_of(f, session);
    int same = before[0] != '\0' && strcmp(before, after) == 0;
    if (!same) {
        print_error("settings of the session '%s' have changed\n", mood);
        print_difference(before, after);
    }
    free(before);
    free(after);
    if (!same)
        _fail(file, line);
}

/* ---- locks in transactions ------------------------------------------------------------------- */

int lock_in(struct fixture *f, rowlock_client *client, void *session, const char *name,
            int64_t wait_ms, uint64_t *fence)
{
    rowlock_tx_options options = ROWLOCK_TX_OPTIONS_INIT;
    options.wait_ms = wait_ms;
    memset(&f->err, 'x', sizeof(f->err));
    return f->backend->kind->lock(fence, client, session, &name, 1, &options, &f->err);
}

int guard_in(struct fixture *f, rowlock_lock *lock, void *session)
{
    memset(&f->err, 'x', sizeof(f->err));
    return f->backend->kind->guard(lock, session, &f->err);
}

void spread_fences(struct fixture *f)
{
    sql_run(f, "UPDATE rowlock_locks SET fence = fence + LENGTH(name) * 100000000", NULL, 0);
}

int tx_begin(struct fixture *f, rowlock_tx **tx, rowlock_client *client, const char *name,
             int64_t wait_ms)
{
    rowlock_tx_options options = ROWLOCK_TX_OPTIONS_INIT;
    options.wait_ms = wait_ms;
    return rowlock_tx_begin(tx, client, &name, 1, &options, &f->err);
}

/* ---- those who wait -------------------------------------------------------------------------- */

static void *wait_in_transaction(void *payload)
{
    struct tx_waiter *w = payload;
    rowlock_tx_options options = ROWLOCK_TX_OPTIONS_INIT;
    options.wait_ms = w->wait_ms;
    options.in_line = w->in_line;
    options.cancel = w->cancel;
    rowlock_tx *tx = NULL;
    atomic_store(&w->is_running, 1);
    w->status = rowlock_tx_begin(&tx, w->client, &w->name, 1, &options, NULL);
    w->granted_us = now_us();
    w->fence = rowlock_tx_fence(tx, 0);
    if (tx != NULL)
        w->ended = rowlock_tx_commit(&tx, NULL);
    return NULL;
}

void waiter_start(struct tx_waiter *waiter)
{
    pthread_t thread;
    waiter->status = INT32_MIN;
    if (waiter->name == NULL)
        waiter->name = "lock";
    assert_int_equal(pthread_create(&thread, NULL, wait_in_transaction, waiter), 0);
    waiter->thread = (uintptr_t)thread;
    await_flag(&waiter->is_running);
}

void waiter_join(struct tx_waiter *waiter)
{
    pthread_join((pthread_t)waiter->thread, NULL);
}

int waiters_seen(struct fixture *f, int count)
{
    char sql[512], out[32] = "";
    f->backend->kind->waiters(sql, sizeof(sql), f->prefix);
    void *session = sql_begin(f);
    int64_t until = now_us() + SLACK_US;
    while (now_us() < until && atoi(out) != count) {
        if (f->backend->kind->sql_run(session, sql, out, sizeof(out)) != 0)
            break;
        sleep_us(150000); /* InnoDB shows news only to those who ask seldom */
    }
    sql_end(f, session);
    return atoi(out) == count;
}
