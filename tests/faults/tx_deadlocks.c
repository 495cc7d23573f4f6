/* SPDX-License-Identifier: MIT
 *
 * Several names in one transaction, given in any order by any number of sessions: no deadlock, by
 * the answers and by the server's own count, and no increment of a counter is lost. Two
 * transactions that take their names in opposite order in calls of their own do deadlock: one is
 * told so, the other one goes on. */
#include "native.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Fewer where the build looks for races: one preset has the whole number. */
#if defined(__SANITIZE_THREAD__)
enum { ROUNDS = 2000 };
#else
enum { ROUNDS = 10000 };
#endif
enum { THREADS = 6, NAMES = 12, FILE_ROUNDS = 1000, WAIT_MS = 60000 };

static char texts[NAMES][64];

struct worker {
    pthread_t thread;
    rowlock_client *client;
    struct native native;
    unsigned seed;
    atomic_int *left; /* rounds that nobody has begun */
    long increments[NAMES];
    long errors, deadlocks;
    char message[300]; /* the first error's */
};

static void complain(struct worker *w, const char *what, int status, const char *message)
{
    if (w->errors++ == 0)
        snprintf(w->message, sizeof(w->message), "%s: %d: %s", what, status, message);
}

/* Deadlocks are the matter here, not what a crash would leave: saves most of the time. */
static void hurry(struct native *native)
{
    if (fault_is("postgresql"))
        native_run(native, "SET synchronous_commit = off");
}

/* Some of the names in any order; returns how many. which[0] is the one that is counted. */
static size_t pick(struct worker *w, const char **names, int *which)
{
    size_t n = 2 + (size_t)rand_r(&w->seed) % 2;

    for (int i = 0; i < NAMES; i++)
        which[i] = i;
    for (size_t i = 0; i < n; i++) {
        size_t other = i + (size_t)rand_r(&w->seed) % (NAMES - i);
        int kept = which[i];
        which[i] = which[other];
        which[other] = kept;
        names[i] = texts[which[i]];
    }
    return n;
}

/* Reads the counter and writes it one higher: only the lock makes that right. */
static int count_up(struct worker *w, struct native *native, int which)
{
    long long n =
        native_number(native, "SELECT n FROM %scounters WHERE id = %d", fault.prefix, which);

    if (n >= 0 && native_run(native, "UPDATE %scounters SET n = %lld WHERE id = %d", fault.prefix,
                             n + 1, which) == 0)
        return 0;
    complain(w, "counting", -1, native->message);
    return -1;
}

static int on_own(struct worker *w, const char *const *names, size_t n, int which,
                  const rowlock_tx_options *options)
{
    uint64_t fences[NAMES];
    rowlock_error err;
    int status;

    if (native_run(&w->native, "BEGIN") != 0) {
        complain(w, "BEGIN", -1, w->native.message);
        return 0;
    }
    status = native_lock(fences, w->client, &w->native, names, n, options, &err);
    w->deadlocks += status == ROWLOCK_EDRIVER && err.retryable;
    if (status != ROWLOCK_OK)
        complain(w, "lock", status, err.message);
    if (status == ROWLOCK_OK && count_up(w, &w->native, which) == 0 &&
        native_commit(&w->native) == 0)
        return 1;
    native_run(&w->native, "ROLLBACK");
    return 0;
}

static int on_the_librarys(struct worker *w, const char *const *names, size_t n, int which,
                           const rowlock_tx_options *options)
{
    struct native native;
    rowlock_tx *tx = NULL;
    rowlock_error err;
    int status = rowlock_tx_begin(&tx, w->client, names, n, options, &err);

    w->deadlocks += status == ROWLOCK_EDRIVER && err.retryable;
    if (status != ROWLOCK_OK) {
        complain(w, "begin", status, err.message);
        return 0;
    }
    native_borrow(&native, tx);
    hurry(&native);
    if (count_up(w, &native, which) != 0) {
        rowlock_tx_rollback(&tx, &err);
        return 0;
    }
    status = rowlock_tx_commit(&tx, &err);
    if (status != ROWLOCK_OK)
        complain(w, "commit", status, err.message);
    return status == ROWLOCK_OK;
}

/* A transaction of the library's has a connection made for it: one in twenty, to save time.
 */
static void *work(void *argument)
{
    rowlock_tx_options options = ROWLOCK_TX_OPTIONS_INIT;
    struct worker *w = argument;

    options.wait_ms = WAIT_MS;
    while (atomic_fetch_sub(w->left, 1) > 0 && w->errors == 0) {
        const char *names[NAMES];
        int which[NAMES];
        size_t n = pick(w, names, which);

        options.in_line = rand_r(&w->seed) % 2;
        w->increments[which[0]] += rand_r(&w->seed) % 20 > 0
                                       ? on_own(w, names, n, which[0], &options)
                                       : on_the_librarys(w, names, n, which[0], &options);
    }
    return NULL;
}

static long long deadlocks(void)
{
    if (fault_is("postgresql"))
        return fault_sql_number(
            "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()");
    return fault_sql_number(
        "SELECT COUNT FROM information_schema.INNODB_METRICS WHERE NAME = 'lock_deadlocks'");
}

static int setup(void **state)
{
    char sql[128], out[64];
    int failed = fault_sql_on(fault.backend.address,
                              "CREATE TABLE {counters} (id int PRIMARY KEY, n bigint NOT NULL)",
                              out, sizeof(out));

    (void)state;
    for (int i = 0; i < NAMES; i++) {
        snprintf(texts[i], sizeof(texts[i]), "%s", fault_name("ordered"));
        snprintf(sql, sizeof(sql), "INSERT INTO {counters} VALUES (%d, 0)", i);
        failed |= fault_sql_on(fault.backend.address, sql, out, sizeof(out));
    }
    return failed;
}

static int teardown(void **state)
{
    (void)state;
    return native_drop("counters");
}

static void assert_counted(const struct worker *workers, int rounds)
{
    long total = 0;

    for (int which = 0; which < NAMES; which++) {
        char sql[96];
        long expected = 0;
        for (int i = 0; i < THREADS; i++)
            expected += workers[i].increments[which];
        snprintf(sql, sizeof(sql), "SELECT n FROM {counters} WHERE id = %d", which);
        assert_int_equal(expected, fault_sql_number(sql));
        total += expected;
    }
    assert_int_equal(rounds, total);
}

static void any_order(void **state)
{
    static struct worker workers[THREADS];
    int server = (fault.backend.caps & BACKEND_SERVER) != 0;
    rowlock_options options = ROWLOCK_OPTIONS_INIT;
    long long before = server ? deadlocks() : 0;
    int rounds = server ? ROUNDS : FILE_ROUNDS;
    atomic_int left = rounds;
    int64_t start = process_now_ms();
    long errors = 0;

    (void)state;
    options.max_connections = THREADS;
    options.connect_timeout_ms = options.call_timeout_ms = 30000; /* many connect at once */
    memset(workers, 0, sizeof(workers));
    workers[0].client = fault_open(fault.backend.address, &options);
    for (int i = 0; i < THREADS; i++) {
        workers[i].client = workers[0].client;
        workers[i].seed = (unsigned)i + 1;
        workers[i].left = &left;
        assert_int_equal(0, native_open(&workers[i].native, fault.backend.address, 0));
        hurry(&workers[i].native);
    }
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(0, pthread_create(&workers[i].thread, NULL, work, &workers[i]));
    for (int i = 0; i < THREADS; i++) {
        pthread_join(workers[i].thread, NULL);
        native_close(&workers[i].native);
        errors += workers[i].errors;
        if (workers[i].errors > 0)
            print_error("thread %d: %s\n", i, workers[i].message);
    }
    rowlock_close(&workers[0].client);
    print_message("%d rounds in %.1f s\n", rounds, (double)(process_now_ms() - start) / 1000);
    assert_int_equal(0, errors);
    assert_counted(workers, rounds);
    process_sleep_ms(300); /* PostgreSQL: ended sessions hand in their numbers */
    if (server)
        assert_int_equal(before, deadlocks());
}

/* ---- in opposite order ----------------------------------------------------------------------- */

struct side {
    pthread_t thread;
    rowlock_client *client;
    struct native native;
    const char *first, *second;
    pthread_barrier_t *both;
    int first_status, second_status, committed;
    rowlock_error err;
};

/* The first name, then, when the other side has its own first one, the second. */
static void *cross(void *argument)
{
    rowlock_tx_options options = ROWLOCK_TX_OPTIONS_INIT;
    struct side *s = argument;
    rowlock_error err;

    options.wait_ms = 20000;
    native_run(&s->native, "BEGIN");
    s->first_status = native_lock(NULL, s->client, &s->native, &s->first, 1, &options, &err);
    pthread_barrier_wait(s->both);
    s->second_status = native_lock(NULL, s->client, &s->native, &s->second, 1, &options, &s->err);
    if (s->second_status == ROWLOCK_OK)
        s->committed = native_commit(&s->native) == 0;
    else
        native_run(&s->native, "ROLLBACK");
    return NULL;
}

static void run_sides(struct side *sides)
{
    pthread_barrier_t both;

    pthread_barrier_init(&both, NULL, 2);
    for (int i = 0; i < 2; i++) {
        sides[i].both = &both;
        assert_int_equal(0, native_open(&sides[i].native, fault.backend.address, 0));
        assert_int_equal(0, pthread_create(&sides[i].thread, NULL, cross, &sides[i]));
    }
    for (int i = 0; i < 2; i++)
        pthread_join(sides[i].thread, NULL);
    pthread_barrier_destroy(&both);
}

static void opposite_order(void **state)
{
    rowlock_client *client = fault_open(fault.backend.address, NULL);
    const char *a = fault_name("cross"), *b = fault_name("cross");
    struct side sides[2] = {{.client = client, .first = a, .second = b},
                            {.client = client, .first = b, .second = a}};
    long long before = deadlocks();
    int refused;

    (void)state;
    run_sides(sides);
    for (int i = 0; i < 2; i++) {
        print_message("side %d: %d, then %d: %s\n", i, sides[i].first_status,
                      sides[i].second_status, sides[i].err.message);
        assert_int_equal(ROWLOCK_OK, sides[i].first_status);
    }
    refused = sides[0].second_status != ROWLOCK_OK ? 0 : 1;
    assert_int_equal(ROWLOCK_EDRIVER, sides[refused].second_status);
    assert_int_equal(1, sides[refused].err.retryable);
    assert_true(sides[refused].err.message[0] != '\0');
    assert_int_equal(ROWLOCK_OK, sides[!refused].second_status);
    assert_int_equal(1, sides[!refused].committed);
    /* Its connection is fit for another try. */
    assert_int_equal(0, native_run(&sides[refused].native, "BEGIN"));
    assert_status(
        ROWLOCK_OK,
        native_lock(NULL, client, &sides[refused].native, &a, 1, NULL, &sides[refused].err),
        &sides[refused].err);
    assert_int_equal(0, native_commit(&sides[refused].native));
    for (int i = 0; i < 2; i++)
        native_close(&sides[i].native);
    rowlock_close(&client);
    for (int i = 0; i < 50 && deadlocks() == before; i++)
        process_sleep_ms(100); /* PostgreSQL: ended sessions hand in their numbers */
    assert_true(deadlocks() > before);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test_setup_teardown(any_order, setup, teardown),
        cmocka_unit_test(opposite_order),
    };
    const struct CMUnitTest file[] = {
        cmocka_unit_test_setup_teardown(any_order, setup, teardown),
    };

    if (argc == 2 && strcmp(argv[1], "sqlite") == 0)
        return FAULT_MAIN(argc, argv, 0, file);
    return FAULT_MAIN(argc, argv, 0, cases);
}
