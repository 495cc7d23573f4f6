/* SPDX-License-Identifier: MIT
 *
 * Host names that the resolver is slow to answer for: the time that a caller gives holds for them,
 * too. The resolver's function is replaced by one of the test's own, for the client libraries as
 * well. */
#include "refused.h"

#include <dirent.h>
#include <dlfcn.h>
#include <netdb.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { HANGS_MS = 60000, SOON_MS = 20000, THREADS_MAX = 40 };

typedef int (*resolver)(const char *host, const char *service, const struct addrinfo *hints,
                        struct addrinfo **out);

static resolver real(void)
{
    resolver function;
    void *symbol = dlsym(RTLD_NEXT, "getaddrinfo");

    memcpy(&function, &symbol, sizeof(function));
    return function;
}

static atomic_int is_slow;

/* slow.test: no answer for a long time. db.test: this machine, or no answer if is_slow. two.test:
 * an address at which nobody listens, and then this machine. */
__attribute__((visibility("default"))) int getaddrinfo(const char *host, const char *service,
                                                       const struct addrinfo *hints,
                                                       struct addrinfo **out)
{
    int rc;

    if (hints != NULL && (hints->ai_flags & AI_NUMERICHOST) != 0) /* nobody is asked */
        return real()(host, service, hints, out);
    if (host != NULL && (strcmp(host, "slow.test") == 0 ||
                         (strcmp(host, "db.test") == 0 && atomic_load(&is_slow)))) {
        process_sleep_ms(HANGS_MS);
        return EAI_AGAIN;
    }
    if (host != NULL && strcmp(host, "two.test") == 0) {
        rc = real()("127.9.9.9", service, hints, out);
        return rc != 0 ? rc : real()("127.0.0.1", service, hints, &(*out)->ai_next);
    }
    if (host != NULL && strcmp(host, "db.test") == 0)
        host = "127.0.0.1";
    return real()(host, service, hints, out);
}

/* The address under test with other hosts; each of them has its port. */
static void with_hosts(char *out, size_t size, const char *hosts)
{
    changed_address(out, size, &(struct fault_address){.host = hosts});
}

static void assert_opens(const char *hosts)
{
    rowlock_options options = ROWLOCK_OPTIONS_INIT;
    rowlock_client *client;
    rowlock_lock *lock;
    char address[1024];

    options.connect_timeout_ms = SOON_MS;
    with_hosts(address, sizeof(address), hosts);
    client = fault_open(address, &options);
    lock = fault_acquire(client, fault_name("names"), 0);
    fault_release(&lock);
    rowlock_close(&client);
}

static void name_is_found(void **state)
{
    (void)state;
    assert_opens("db.test");
}

static void next_address_is_tried(void **state)
{
    (void)state;
    assert_opens("two.test");
}

static void next_host_is_tried(void **state)
{
    int64_t start = process_now_ms();

    (void)state;
    assert_opens("slow.test:1,db.test");
    assert_in_range(process_now_ms() - start, 0, HANGS_MS - 1);
}

static void open_keeps_its_time(void **state)
{
    int64_t start = process_now_ms();
    char address[1024];

    (void)state;
    with_hosts(address, sizeof(address), "slow.test");
    assert_refused(ROWLOCK_ECONNECT, address, 0, NULL, "slow.test");
    assert_in_range(process_now_ms() - start, 0, SOON_MS);
}

/* The name server hangs while a client is open and has lost its connections. */
static void call_keeps_its_time(void **state)
{
    rowlock_options options = ROWLOCK_OPTIONS_INIT;
    rowlock_client *client;
    rowlock_lock *lock = NULL;
    rowlock_error err;
    char address[1024];
    int64_t start;
    int status;

    (void)state;
    options.call_timeout_ms = 1000;
    with_hosts(address, sizeof(address), "db.test");
    strcat(address, "?application_name=rowlock_names");
    client = fault_open(address, &options);
    fault_sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
              " WHERE application_name = 'rowlock_names'");
    atomic_store(&is_slow, 1);
    start = process_now_ms();
    status = rowlock_acquire(&lock, client, "names", NULL, &err);
    atomic_store(&is_slow, 0);
    assert_true(status == ROWLOCK_ECONNECT || status == ROWLOCK_EUNKNOWN);
    assert_in_range(process_now_ms() - start, 0, SOON_MS);
    lock = fault_acquire(client, "names", 0);
    fault_release(&lock);
    rowlock_close(&client);
}

static void unknown_name(void **state)
{
    char address[1024];

    (void)state;
    with_hosts(address, sizeof(address), "no..such..host");
    assert_refused(ROWLOCK_ECONNECT, address, 0, NULL, "no..such..host");
}

static int thread_count(void)
{
    DIR *folder = opendir("/proc/self/task");
    int n = 0;

    while (folder != NULL && readdir(folder) != NULL)
        n++;
    if (folder != NULL)
        closedir(folder);
    return n;
}

/* Questions without an answer are not repeated without end. */
static void threads_are_few(void **state)
{
    rowlock_options options = ROWLOCK_OPTIONS_INIT;
    char address[1024];

    (void)state;
    options.connect_timeout_ms = 20;
    with_hosts(address, sizeof(address), "slow.test");
    for (int i = 0; i < 2 * THREADS_MAX; i++) {
        rowlock_client *client = NULL;
        rowlock_error err;

        assert_status(ROWLOCK_ECONNECT, fault_try_open(&client, address, &options, &err), &err);
        assert_int_equal(1, err.retryable);
    }
    assert_in_range(thread_count(), 1, THREADS_MAX);
}

int main(int argc, char **argv)
{
    /* threads_are_few() leaves no thread for others to ask with */
    const struct CMUnitTest postgresql[] = {
        cmocka_unit_test(name_is_found),       cmocka_unit_test(next_address_is_tried),
        cmocka_unit_test(next_host_is_tried),  cmocka_unit_test(open_keeps_its_time),
        cmocka_unit_test(call_keeps_its_time), cmocka_unit_test(unknown_name),
        cmocka_unit_test(threads_are_few),
    };
    const struct CMUnitTest mysql[] = {
        cmocka_unit_test(name_is_found),       cmocka_unit_test(next_address_is_tried),
        cmocka_unit_test(open_keeps_its_time), cmocka_unit_test(unknown_name),
        cmocka_unit_test(threads_are_few),
    };

    if (argc > 1 && strcmp(argv[1], "mysql") == 0)
        return FAULT_MAIN(argc, argv, 0, mysql);
    return FAULT_MAIN(argc, argv, 0, postgresql);
}
