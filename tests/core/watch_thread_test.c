/* SPDX-License-Identifier: MIT
 *
 * The watchdog as a thread, on the real clock: who waits for whom, and what is left when it ends.
 * Leases that must last are long and are renewed on demand; only those that are to be lost are
 * short. So no case depends on how busy the machine is. */
#include "core_test.h"

#include <dirent.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core.h"

enum { THREADS = 4, ROUNDS = 40, MANY = 100, CLIENTS = 200, PATIENCE_MS = 20000 };

/* The fake driver asks for these; here time passes by itself. */
void fake_clock_reset(void)
{
}

void fake_clock_advance_us(int64_t us)
{
    (void)us;
}

static void pause_ms(int ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L}, NULL);
}

/* 0: it did not happen in all that time. */
static int wait_for(atomic_int *flag, int least)
{
    for (int i = 0; i < PATIENCE_MS && atomic_load(flag) < least; i++)
        pause_ms(1);
    return atomic_load(flag) >= least;
}

/* ---- a driver that counts ---- */

static atomic_int renewals, releases, released_rows;

static int watched_renew(void *conn, rowlock_op *ops, size_t n, uint32_t timeout_ms,
                         rowlock_error *err)
{
    atomic_fetch_add(&renewals, 1);
    return fake_driver()->renew(conn, ops, n, timeout_ms, err);
}

static int watched_release(void *conn, rowlock_op *ops, size_t n, uint32_t timeout_ms,
                           rowlock_error *err)
{
    atomic_fetch_add(&releases, 1);
    atomic_fetch_add(&released_rows, (int)n);
    return fake_driver()->release(conn, ops, n, timeout_ms, err);
}

static rowlock_client *client;

static void open_watched(const rowlock_options *options)
{
    rowlock_driver driver = *fake_driver();

    driver.renew = watched_renew;
    driver.release = watched_release;
    assert_status(OK, rowlock_open(&client, &driver, "fake", options, NULL));
}

static int set_up(void **state)
{
    fresh(state);
    atomic_store(&renewals, 0);
    atomic_store(&releases, 0);
    atomic_store(&released_rows, 0);
    open_watched(NULL);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    rowlock_close(&client);
    assert_int_equal(fake_connections(), 0);
    return 0;
}

/* ---- a lock and what is told of it ---- */

typedef struct subject {
    rowlock_lock *lock;
    atomic_int told, finished, go, released, violations;
    int status;
} subject;

static int take(subject *s, const char *name, int64_t ttl_ms, int renew, rowlock_lost_fn fn)
{
    rowlock_acquire_options options = ROWLOCK_ACQUIRE_OPTIONS_INIT;

    options.owner = "me";
    options.ttl_ms = ttl_ms;
    options.renew = renew;
    options.on_lost = fn;
    options.lost_payload = s;
    return rowlock_acquire(&s->lock, client, name, &options, NULL);
}

/* One that is soon lost. A machine so busy that the grant itself came too late is asked again. */
static int take_brief(subject *s, const char *name, rowlock_lost_fn fn)
{
    int rc = ROWLOCK_ECONNECT;

    for (int i = 0; i < 100 && rc == ROWLOCK_ECONNECT; i++)
        rc = take(s, name, 60, 0, fn);
    return rc;
}

static void on_lost(rowlock_lock *lock, int loss, void *payload)
{
    subject *s = payload;

    (void)lock;
    if (atomic_load(&s->released) || loss == ROWLOCK_LOSS_NONE)
        atomic_fetch_add(&s->violations, 1);
    atomic_fetch_add(&s->told, 1);
}

/* Makes the thread renew it at once, however long the lease still is. */
static void renew_now(rowlock_lock *lock)
{
    pthread_mutex_lock(&lock->client->mutex);
    rlk_heap_put(&lock->client->watch.planned, &lock->tenure->renewal, 0);
    pthread_mutex_unlock(&lock->client->mutex);
    rlk_watch_wake(lock->client);
}

static void run_threads(void *(*fn)(void *arg), void *args, size_t size, int n)
{
    pthread_t threads[THREADS];

    for (int i = 0; i < n; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, fn, (char *)args + (size_t)i * size), 0);
    for (int i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
}

/* ---- callbacks ---- */

static void slow_on_lost(rowlock_lock *lock, int loss, void *payload)
{
    subject *s = payload;

    on_lost(lock, loss, payload);
    wait_for(&s->go, 1);
    pause_ms(30); /* time for a release that does not wait to get away */
    atomic_store(&s->finished, 1);
}

static void *release_subject(void *arg)
{
    subject *s = arg;

    atomic_store(&s->go, 1);
    s->status = rowlock_release(&s->lock, NULL);
    if (!atomic_load(&s->finished))
        atomic_fetch_add(&s->violations, 1);
    return NULL;
}

static void test_release_waits_for_its_own_callback(void **state)
{
    subject s = {0}, other = {0};

    (void)state;
    assert_status(OK, take(&other, "b", 30000, 1, on_lost));
    assert_status(OK, take_brief(&s, "a", slow_on_lost));
    assert_true(wait_for(&s.told, 1));
    assert_status(OK, rowlock_release(&other.lock, NULL)); /* does not */
    run_threads(release_subject, &s, sizeof s, 1);
    assert_int_equal(s.violations, 0);
    assert_int_equal(s.status, ROWLOCK_LOST);
    assert_int_equal(s.told, 1);
}

/* Everything that a callback may do. */
static void busy_on_lost(rowlock_lock *lock, int loss, void *payload)
{
    subject *s = payload;
    rowlock_counters counters = ROWLOCK_COUNTERS_INIT;
    rowlock_lock *again = NULL;
    sigset_t blocked;

    if (lock != s->lock || rowlock_loss(lock) != loss || rowlock_lost_fd(lock, NULL) < 0)
        atomic_fetch_add(&s->violations, 1);
    s->status = rowlock_release(&s->lock, NULL);
    if (rowlock_stats(&counters, client, NULL) != ROWLOCK_OK || counters.lost != 1 ||
        rowlock_acquire(&again, client, "b", NULL, NULL) != ROWLOCK_OK ||
        rowlock_release(&again, NULL) != ROWLOCK_OK)
        atomic_fetch_add(&s->violations, 1);
    if (pthread_sigmask(SIG_SETMASK, NULL, &blocked) != 0 || !sigismember(&blocked, SIGTERM))
        atomic_fetch_add(&s->violations, 1);
    atomic_fetch_add(&s->told, 1);
}

static void test_the_callback_may_release_and_acquire(void **state)
{
    subject s = {0};

    (void)state;
    assert_status(OK, take_brief(&s, "a", busy_on_lost));
    assert_true(wait_for(&s.told, 1));
    assert_int_equal(s.violations, 0);
    assert_true(s.status == ROWLOCK_LOST && s.lock == NULL);
}

static void *poll_subject(void *arg)
{
    subject *s = arg;
    struct pollfd polled = {.fd = rowlock_lost_fd(s->lock, NULL), .events = POLLIN};

    atomic_store(&s->go, 1);
    s->status = poll(&polled, 1, PATIENCE_MS);
    if (polled.revents != POLLIN || rowlock_check(s->lock) != ROWLOCK_LOST)
        atomic_fetch_add(&s->violations, 1);
    return NULL;
}

static void test_a_thread_that_polls_is_woken(void **state)
{
    subject s[2] = {{0}, {0}};

    (void)state;
    assert_status(OK, take_brief(&s[0], "a", NULL));
    assert_status(OK, take(&s[1], "b", 30000, 1, NULL));
    assert_true(rowlock_lost_fd(s[1].lock, NULL) >= 0);
    assert_status(OK, rowlock_force_release(client, "b", NULL, NULL));
    renew_now(s[1].lock);
    run_threads(poll_subject, s, sizeof *s, 2);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(s[i].status, 1);
        assert_int_equal(s[i].violations, 0);
        assert_status(LOST, rowlock_release(&s[i].lock, NULL));
    }
}

/* ---- many threads ---- */

static atomic_int kinds[8];

static void count_event(const rowlock_event *event, void *payload)
{
    (void)payload;
    atomic_fetch_add(&kinds[event->kind & 7], 1);
}

typedef struct worker {
    int number, failures, losses;
    uint64_t last_fence;
} worker;

/* A lock of its own that is renewed all the time, and one that ends around the time when it is
 * released. */
static void *work(void *arg)
{
    worker *w = arg;
    char name[16];

    for (int i = 0; i < ROUNDS; i++) {
        subject kept = {0}, brief = {0};
        rowlock_counters counters = ROWLOCK_COUNTERS_INIT;
        int rc;

        snprintf(name, sizeof name, "kept%d", w->number);
        w->failures += take(&kept, name, 30000, 1, on_lost) != ROWLOCK_OK;
        snprintf(name, sizeof name, "brief%d.%d", w->number, i);
        w->failures += take_brief(&brief, name, on_lost) != ROWLOCK_OK;
        renew_now(kept.lock);
        pause_ms(i % 4 == 0 ? 54 : 0);
        w->failures += rowlock_stats(&counters, client, NULL) != ROWLOCK_OK;
        rc = rowlock_release(&brief.lock, NULL);
        atomic_store(&brief.released, 1);
        w->failures += rc != ROWLOCK_OK && rc != ROWLOCK_LOST;
        w->failures += atomic_load(&brief.told) > (rc == ROWLOCK_LOST);
        w->losses += rc == ROWLOCK_LOST;
        w->failures += rowlock_fence(kept.lock) <= w->last_fence;
        w->last_fence = rowlock_fence(kept.lock);
        w->failures += rowlock_release(&kept.lock, NULL) != ROWLOCK_OK;
        atomic_store(&kept.released, 1);
        w->failures += kept.told + kept.violations + brief.violations;
    }
    return NULL;
}

static void test_threads_acquire_lose_and_release(void **state)
{
    rowlock_options options = ROWLOCK_OPTIONS_INIT;
    rowlock_counters counters = ROWLOCK_COUNTERS_INIT;
    worker workers[THREADS] = {{0}};
    int losses = 0;

    (void)state;
    rowlock_close(&client);
    options.on_event = count_event;
    options.reap_interval_ms = 1;
    open_watched(&options);
    for (int i = 0; i < THREADS; i++)
        workers[i].number = i;
    run_threads(work, workers, sizeof *workers, THREADS);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(workers[i].failures, 0);
        losses += workers[i].losses;
    }
    assert_true(losses > 0);
    assert_status(OK, rowlock_stats(&counters, client, NULL));
    assert_int_equal(counters.held, 0);
    assert_int_equal(counters.lost, losses);
    assert_int_equal(counters.acquired, counters.released + counters.lost);
    assert_int_equal(kinds[ROWLOCK_EVENT_ACQUIRED], counters.acquired);
    assert_int_equal(kinds[ROWLOCK_EVENT_RELEASED], counters.released);
    assert_int_equal(kinds[ROWLOCK_EVENT_LOST], counters.lost);
    assert_true(atomic_load(&renewals) > 0 && kinds[ROWLOCK_EVENT_ERROR] == 0);
}

static void *enter_again(void *arg)
{
    worker *w = arg;

    for (int i = 0; i < ROUNDS; i++) {
        subject s = {0};

        w->failures += take(&s, "a", 30000, 1, on_lost) != ROWLOCK_OK;
        renew_now(s.lock);
        w->failures += rowlock_fence(s.lock) != w->last_fence;
        w->failures += rowlock_check(s.lock) != ROWLOCK_OK;
        w->failures += rowlock_release(&s.lock, NULL) != ROWLOCK_OK;
        w->failures += atomic_load(&s.told);
    }
    return NULL;
}

static void test_threads_of_one_owner_enter_again(void **state)
{
    worker workers[THREADS] = {{0}};
    subject outer = {0};

    (void)state;
    assert_status(OK, take(&outer, "a", 30000, 1, on_lost));
    for (int i = 0; i < THREADS; i++)
        workers[i].last_fence = rowlock_fence(outer.lock);
    run_threads(enter_again, workers, sizeof *workers, THREADS);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(workers[i].failures, 0);
    assert_status(OK, rowlock_release(&outer.lock, NULL)); /* the last hold */
    assert_int_equal(outer.told, 0);
    rowlock_close(&client);
    assert_false(fake_is_live("a"));
}

/* ---- the end ---- */

static void test_close_waits_for_the_callback(void **state)
{
    subject s = {0};

    (void)state;
    assert_status(OK, take_brief(&s, "a", slow_on_lost));
    assert_true(wait_for(&s.told, 1));
    atomic_store(&s.go, 1);
    rowlock_close(&client);
    assert_int_equal(s.finished, 1);
    assert_status(ECLOSED, rowlock_release(&s.lock, NULL));
    assert_int_equal(s.told, 1);
}

static void test_close_releases_all_in_one_batch(void **state)
{
    static subject subjects[MANY];
    char name[16];

    (void)state;
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "n%02d", i);
        assert_status(OK, take(&subjects[i], name, 30000, 1, on_lost));
        renew_now(subjects[i].lock);
    }
    rowlock_close(&client);
    assert_int_equal(releases, 1);
    assert_int_equal(released_rows, MANY);
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "n%02d", i);
        assert_false(fake_is_live(name));
        assert_int_equal(rowlock_lost_fd(subjects[i].lock, NULL), -1);
        assert_status(ECLOSED, rowlock_release(&subjects[i].lock, NULL));
        assert_int_equal(subjects[i].told, 0);
    }
}

static rowlock_client *volatile parents; /* what close does not touch in a child is no leak */

/* 0, or the number of the line that did not hold. */
static int use_in_child(subject *s)
{
    rowlock_counters counters = ROWLOCK_COUNTERS_INIT;
    rowlock_error err;

    if (rowlock_check(s->lock) != ROWLOCK_EFORK || rowlock_remaining(s->lock) != 0)
        return 1;
    if (rowlock_lost_fd(s->lock, &err) != -1 || err.status != ROWLOCK_EFORK)
        return 2;
    if (rowlock_ensure(s->lock, 60000, NULL) != ROWLOCK_EFORK ||
        rowlock_loss(s->lock) != ROWLOCK_LOSS_NONE)
        return 3;
    if (rowlock_stats(&counters, client, NULL) != ROWLOCK_EFORK)
        return 4;
    if (rowlock_release(&s->lock, NULL) != ROWLOCK_EFORK || s->lock != NULL)
        return 5;
    parents = client;
    rowlock_close(&client);
    return client == NULL ? 0 : 6;
}

static void test_a_child_has_no_thread_and_needs_none(void **state)
{
    subject s = {0};
    int fd, answer;
    pid_t pid;

    (void)state;
    assert_status(OK, take(&s, "a", 30000, 1, on_lost));
    fd = rowlock_lost_fd(s.lock, NULL);
    pid = fork();
    if (pid == 0) {
        alarm(PATIENCE_MS / 1000); /* a child that hangs is killed, and seen */
        _exit(use_in_child(&s));
    }
    assert_int_equal(waitpid(pid, &answer, 0), pid);
    assert_int_equal(answer, 0);
    renew_now(s.lock);
    assert_true(wait_for(&renewals, 1));
    assert_int_equal(poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, 0), 0);
    assert_status(OK, rowlock_check(s.lock));
    assert_status(OK, rowlock_release(&s.lock, NULL));
}

static int entries(const char *path)
{
    DIR *folder = opendir(path);
    int n = 0;

    assert_non_null(folder);
    while (readdir(folder) != NULL)
        n++;
    closedir(folder);
    return n;
}

static void test_clients_come_and_go_without_a_trace(void **state)
{
    int descriptors, threads;

    (void)state;
    rowlock_close(&client);
    descriptors = entries("/proc/self/fd");
    threads = entries("/proc/self/task");
    for (int i = 0; i < CLIENTS; i++) {
        subject s = {0};

        open_watched(NULL);
        assert_status(OK, take(&s, "a", 30000, 1, on_lost));
        assert_true(rowlock_lost_fd(s.lock, NULL) >= 0);
        if (i % 2 == 0)
            rowlock_close(&client);
        rowlock_release(&s.lock, NULL);
        rowlock_close(&client);
    }
    assert_int_equal(entries("/proc/self/fd"), descriptors);
    /* The kernel forgets a thread a moment after it was joined. */
    for (int i = 0; i < PATIENCE_MS && entries("/proc/self/task") > threads; i++)
        pause_ms(1);
    assert_true(entries("/proc/self/task") <= threads);
}

/* ---- exit() without rowlock_close() ---- */

static int threads_before;

/* Called after the library's own handler, since it was registered before. */
static void check_at_exit(void)
{
    for (int i = 0; i < PATIENCE_MS && entries("/proc/self/task") > threads_before; i++)
        pause_ms(1);
    _exit(entries("/proc/self/task") <= threads_before ? 0 : 7);
}

static void *do_nothing(void *unused)
{
    return unused;
}

static int slow_renew(void *conn, rowlock_op *ops, size_t n, uint32_t timeout_ms,
                      rowlock_error *err)
{
    atomic_fetch_add(&renewals, 1);
    pause_ms(200);
    return fake_driver()->renew(conn, ops, n, timeout_ms, err);
}

/* The program of its own that such a case needs: it ends in the middle of a renewal. */
static int leave_without_close(void)
{
    static subject s, other;
    rowlock_driver driver = *fake_driver();
    rowlock_client *second = NULL;
    pthread_t thread;

    fresh(NULL);
    /* A sanitizer starts a thread of its own with the first one. */
    if (pthread_create(&thread, NULL, do_nothing, NULL) != 0 || pthread_join(thread, NULL) != 0)
        return 4;
    threads_before = entries("/proc/self/task");
    driver.renew = slow_renew;
    if (atexit(check_at_exit) != 0 ||
        rowlock_open(&client, &driver, "fake", NULL, NULL) != ROWLOCK_OK ||
        take(&s, "a", 30000, 1, on_lost) != ROWLOCK_OK ||
        rowlock_open(&second, &driver, "fake", NULL, NULL) != ROWLOCK_OK)
        return 5;
    client = second;
    if (take(&other, "b", 30000, 1, on_lost) != ROWLOCK_OK)
        return 6;
    renew_now(s.lock);
    wait_for(&renewals, 1);
    return 0;
}

static const char *program;

static void test_exit_without_close_ends_the_threads(void **state)
{
    int status = 0;
    pid_t pid = fork();

    (void)state;
    if (pid == 0) {
        execl("/proc/self/exe", program, "leave-without-close", (char *)NULL);
        _exit(9);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, set_up, tear_down)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(release_waits_for_its_own_callback),  TEST(the_callback_may_release_and_acquire),
        TEST(a_thread_that_polls_is_woken),        TEST(threads_acquire_lose_and_release),
        TEST(threads_of_one_owner_enter_again),    TEST(close_waits_for_the_callback),
        TEST(close_releases_all_in_one_batch),     TEST(a_child_has_no_thread_and_needs_none),
        TEST(clients_come_and_go_without_a_trace), TEST(exit_without_close_ends_the_threads),
    };

    if (argc == 2 && strcmp(argv[1], "leave-without-close") == 0)
        return leave_without_close();
    program = argv[0];
    return cmocka_run_group_tests_name("core/watch_thread", tests, NULL, NULL);
}
