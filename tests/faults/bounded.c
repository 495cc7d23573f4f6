/* SPDX-License-Identifier: MIT
 *
 * Every call returns by its deadline when the network swallows packets: requests, replies or both,
 * on connections that stand and on new ones; and when the server itself is stopped. */
#include "fault.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CALL_MS = 1500, CONNECT_MS = 1000, TTL_MS = 60000 };

struct call {
    const char *name;
    int (*fn)(rowlock_client *client, rowlock_lock **lock, rowlock_error *err);
};

static int call_acquire(rowlock_client *client, rowlock_lock **lock, rowlock_error *err)
{
    rowlock_lock *other = NULL;
    int status = rowlock_acquire(&other, client, "bounded", NULL, err);

    (void)lock;
    if (other != NULL)
        rowlock_release(&other, NULL);
    return status;
}

static int call_renew(rowlock_client *client, rowlock_lock **lock, rowlock_error *err)
{
    (void)client;
    return rowlock_renew(*lock, 0, err);
}

static int call_release(rowlock_client *client, rowlock_lock **lock, rowlock_error *err)
{
    (void)client;
    return rowlock_release(lock, err);
}

static int no_row(const rowlock_row *row, void *payload)
{
    (void)row;
    (void)payload;
    return 0;
}

static int call_list(rowlock_client *client, rowlock_lock **lock, rowlock_error *err)
{
    (void)lock;
    return rowlock_list(client, NULL, no_row, NULL, err);
}

static int call_reap(rowlock_client *client, rowlock_lock **lock, rowlock_error *err)
{
    (void)lock;
    return rowlock_reap(NULL, client, NULL, err);
}

static int call_force(rowlock_client *client, rowlock_lock **lock, rowlock_error *err)
{
    (void)lock;
    return rowlock_force_release(client, "bounded", NULL, err);
}

static int call_version(rowlock_client *client, rowlock_lock **lock, rowlock_error *err)
{
    int version;

    (void)lock;
    return rowlock_schema_version(&version, client, err);
}

static const struct call calls[] = {
    {"acquire", call_acquire},
    {"renew", call_renew},
    {"release", call_release},
    {"list", call_list},
    {"reap", call_reap},
    {"force_release", call_force},
    {"schema_version", call_version},
};

enum { CALLS = sizeof(calls) / sizeof(calls[0]) };

static rowlock_client *open_bounded(const char *address)
{
    rowlock_options options = ROWLOCK_OPTIONS_INIT;

    options.call_timeout_ms = CALL_MS;
    options.connect_timeout_ms = CONNECT_MS;
    return fault_open(address, &options);
}

static void assert_bounded(const struct call *call, rowlock_client *client, rowlock_lock **lock,
                           const char *when)
{
    rowlock_error err;
    int64_t start = process_now_ms();
    int status = call->fn(client, lock, &err);
    int64_t took = process_now_ms() - start;

    if (took > CALL_MS + FAULT_SLACK_MS ||
        (status != ROWLOCK_EUNKNOWN && status != ROWLOCK_ECONNECT))
        print_error("%s, %s: %d ms, status %d: %s\n", call->name, when, (int)took, status,
                    err.message);
    assert_in_range(took, 0, CALL_MS + FAULT_SLACK_MS);
    assert_true(status == ROWLOCK_EUNKNOWN || status == ROWLOCK_ECONNECT);
    assert_int_not_equal(0, err.message[0]);
}

/* First on the connection that stands, then, since that is given up, while connecting. */
static void swallowed(int directions)
{
    for (int i = 0; i < CALLS; i++) {
        rowlock_client *client = open_bounded(fault.proxied);
        rowlock_lock *lock = fault_acquire(client, fault_name("held"), TTL_MS);
        rowlock_lock *other = fault_acquire(client, fault_name("other"), TTL_MS);

        proxy_blackhole(fault.proxy, directions);
        assert_bounded(&calls[i], client, &lock, "connected");
        assert_bounded(&calls[i], client, lock != NULL ? &lock : &other, "connecting");
        proxy_blackhole(fault.proxy, 0);
        if (lock != NULL)
            fault_release(&lock);
        if (other != NULL)
            fault_release(&other);
        rowlock_close(&client);
    }
}

static void requests(void **state)
{
    (void)state;
    swallowed(PROXY_TO_SERVER);
}

static void replies(void **state)
{
    (void)state;
    swallowed(PROXY_TO_CLIENT);
}

static void both(void **state)
{
    (void)state;
    swallowed(PROXY_TO_SERVER | PROXY_TO_CLIENT);
}

static void opening(void **state)
{
    rowlock_options options = ROWLOCK_OPTIONS_INIT;
    rowlock_client *client = NULL;
    rowlock_error err;
    int64_t start;

    (void)state;
    options.call_timeout_ms = CALL_MS;
    options.connect_timeout_ms = CONNECT_MS;
    proxy_blackhole(fault.proxy, PROXY_TO_SERVER | PROXY_TO_CLIENT);
    start = process_now_ms();
    assert_status(ROWLOCK_ECONNECT, fault_try_open(&client, fault.proxied, &options, &err), &err);
    assert_in_range(process_now_ms() - start, 0, CALL_MS + CONNECT_MS + FAULT_SLACK_MS);
    assert_null(client);
    proxy_blackhole(fault.proxy, 0);
}

/* Closing releases what is held, but waits for it no longer than a call may take. */
static void closing(void **state)
{
    rowlock_client *client = open_bounded(fault.proxied);
    rowlock_lock *lock = fault_acquire(client, fault_name("closing"), TTL_MS);
    rowlock_error err;
    int64_t start;

    (void)state;
    proxy_blackhole(fault.proxy, PROXY_TO_SERVER | PROXY_TO_CLIENT);
    start = process_now_ms();
    rowlock_close(&client);
    assert_in_range(process_now_ms() - start, 0, CALL_MS + FAULT_SLACK_MS);
    assert_status(ROWLOCK_ECLOSED, rowlock_release(&lock, &err), &err);
    proxy_blackhole(fault.proxy, 0);
}

/* The wait bounds the call, not the timeout of calls, which is far longer: on a connection that
 * stands, while connecting, and when the answers stop in the middle of the wait. */
enum { PATIENT_MS = 30000, WAIT_MS = 100, LONGER_MS = 3000, SOON_MS = 10000 };

static void *swallow_soon(void *unused)
{
    (void)unused;
    process_sleep_ms(LONGER_MS / 6);
    proxy_blackhole(fault.proxy, PROXY_TO_CLIENT);
    return NULL;
}

static void assert_wait_is_kept(rowlock_client *client, const char *name, int64_t wait_ms)
{
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;
    rowlock_lock *lock = NULL;
    rowlock_error err;
    int64_t start = process_now_ms();
    int status;

    options.wait_ms = wait_ms;
    status = rowlock_acquire(&lock, client, name, &options, &err);
    assert_in_range(process_now_ms() - start, 0, wait_ms + SOON_MS);
    assert_true(status != ROWLOCK_OK && status != ROWLOCK_BUSY);
}

static void waiting(void **state)
{
    rowlock_options patient = ROWLOCK_OPTIONS_INIT;
    rowlock_client *other = fault_open(fault.backend.address, NULL), *client;
    const char *name = fault_name("waiting");
    rowlock_lock *held = fault_acquire(other, name, TTL_MS);
    pthread_t thread;

    (void)state;
    patient.call_timeout_ms = patient.connect_timeout_ms = PATIENT_MS;
    client = fault_open(fault.proxied, &patient);
    proxy_blackhole(fault.proxy, PROXY_TO_CLIENT);
    assert_wait_is_kept(client, name, WAIT_MS);
    assert_wait_is_kept(client, name, WAIT_MS);
    proxy_blackhole(fault.proxy, 0);
    assert_int_equal(0, pthread_create(&thread, NULL, swallow_soon, NULL));
    assert_wait_is_kept(client, name, LONGER_MS);
    pthread_join(thread, NULL);
    proxy_blackhole(fault.proxy, 0);
    fault_release(&held);
    rowlock_close(&client);
    rowlock_close(&other);
}

/* ---- a server that is stopped ---------------------------------------------------------------- */

/* Its processes, ended by 0: the one that listens, and what PostgreSQL has for each connection. */
static pid_t stopped[64];

static void signal_server(int number)
{
    for (size_t i = 0; i < sizeof(stopped) / sizeof(stopped[0]) && stopped[i] != 0; i++)
        kill(stopped[i], number);
}

/* Who started the server with runuser or sudo has that as its parent, which stops when the server
 * does, and would never see its end. */
static void resume_parent(void)
{
    char path[64];
    FILE *file;
    int parent = 0;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)stopped[0]);
    file = fopen(path, "r");
    if (file == NULL)
        return;
    if (fscanf(file, "%*d (%*[^)]) %*c %d", &parent) == 1 && parent > 1)
        kill((pid_t)parent, SIGCONT);
    fclose(file);
}

/* Only a server that was started for tests tells its process id. */
static int find_server(void)
{
    char variable[64], pids[512] = "";
    const char *value;
    size_t n = 0;

    snprintf(variable, sizeof(variable), "%s_PID", fault.backend.kind->variable);
    value = getenv(variable);
    if (value == NULL || kill((pid_t)atoi(value), 0) != 0)
        return -1;
    memset(stopped, 0, sizeof(stopped));
    stopped[n++] = (pid_t)atoi(value);
    if (fault_is("postgresql"))
        fault_sql_text(pids, sizeof(pids),
                       "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' "
                       "AND datname = current_database() AND pid <> pg_backend_pid()");
    for (char *pid = strtok(pids, "\n"); pid != NULL && n + 1 < 64; pid = strtok(NULL, "\n"))
        stopped[n++] = (pid_t)atoi(pid);
    return 0;
}

static void stopped_server(void **state)
{
    (void)state;
    if (find_server() != 0) {
        print_error("NOT TESTED: %s_PID names no server that may be stopped\n",
                    fault.backend.kind->variable);
        skip();
    }
    for (int i = 0; i < CALLS; i++) {
        rowlock_client *client = open_bounded(fault.backend.address);
        rowlock_lock *lock = fault_acquire(client, fault_name("held"), TTL_MS);
        rowlock_lock *other = fault_acquire(client, fault_name("other"), TTL_MS);

        assert_int_equal(0, find_server());
        signal_server(SIGSTOP);
        process_sleep_ms(50); /* until the last of its threads has noticed */
        assert_bounded(&calls[i], client, &lock, "server stopped");
        assert_bounded(&calls[i], client, lock != NULL ? &lock : &other, "connecting to it");
        signal_server(SIGCONT);
        rowlock_close(&client);
        if (lock != NULL)
            rowlock_release(&lock, NULL);
        if (other != NULL)
            rowlock_release(&other, NULL);
    }
}

static int resume(void **state)
{
    (void)state;
    if (stopped[0] == 0)
        return 0;
    signal_server(SIGCONT);
    resume_parent();
    return 0;
}

static int restore(void **state)
{
    (void)state;
    proxy_blackhole(fault.proxy, 0);
    return 0;
}

/* "stopped" as a second argument: only what stops the server, which others may use, too. */
int main(int argc, char **argv)
{
    const struct CMUnitTest stopping[] = {
        cmocka_unit_test_teardown(stopped_server, resume),
    };
    const struct CMUnitTest cases[] = {
        cmocka_unit_test_teardown(requests, restore), cmocka_unit_test_teardown(replies, restore),
        cmocka_unit_test_teardown(both, restore),     cmocka_unit_test_teardown(opening, restore),
        cmocka_unit_test_teardown(closing, restore),  cmocka_unit_test_teardown(waiting, restore),
    };

    if (argc == 3 && strcmp(argv[2], "stopped") == 0)
        return FAULT_MAIN(2, argv, 1, stopping);
    return FAULT_MAIN(argc, argv, 1, cases);
}
