/* SPDX-License-Identifier: MIT
 *
 * The proof of the guard. Holders with leases of 50 ms and more are stopped (SIGSTOP) past them, at
 * chosen and at random places of a transaction, while somebody else takes the lock, writes and
 * commits. With the guard no write of theirs is ever committed after the other's grant; without it,
 * in the same test, some are. And a guarded transaction outlives the lease: whoever waits for the
 * lock gets it after the COMMIT.
 *
 * Timing is random; ROWLOCK_TEST_SEED repeats a run's choices, as far as the machine allows. */
#include "guard_pair.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PAIRS = 20, ROUNDS = 1000 };

/* A stopped process that writes to a SQLite file stops everybody: fewer, and stopped only before
 * the guard makes it the one who writes. */
enum { FILE_PAIRS = 2, FILE_ROUNDS = 60 };

struct sum {
    long played, taken, committed, lost, busy, late, stale, undone, errors;
};

static struct pair *pairs;

static int on_server(void)
{
    return (fault.backend.caps & BACKEND_SERVER) != 0;
}

static unsigned seed(void)
{
    const char *value = getenv("ROWLOCK_TEST_SEED");
    return value != NULL ? (unsigned)strtoul(value, NULL, 10)
                         : (unsigned)process_now_ms() ^ (unsigned)getpid();
}

static int setup(void **state)
{
    char out[64];
    const char *sql = fault_is("postgresql")
                          ? "CREATE TABLE {ledger} (id bigserial PRIMARY KEY, pair int NOT NULL,"
                            " fence bigint NOT NULL)"
                      : fault_is("mysql")
                          ? "CREATE TABLE {ledger} (id bigint PRIMARY KEY AUTO_INCREMENT,"
                            " pair int NOT NULL, fence bigint NOT NULL) ENGINE = InnoDB"
                          : "CREATE TABLE {ledger} (id integer PRIMARY KEY, pair int NOT NULL,"
                            " fence bigint NOT NULL)";

    (void)state;
    pairs = process_shared(PAIRS * sizeof(*pairs));
    if (pairs == NULL)
        return -1;
    return fault_sql_on(fault.backend.address, sql, out, sizeof(out));
}

static int teardown(void **state)
{
    (void)state;
    process_unshare(pairs, PAIRS * sizeof(*pairs));
    return native_drop("ledger");
}

static void add(struct sum *sum, const struct pair *pair)
{
    if (pair->errors > 0)
        print_error("pair %d: %ld errors, first in %s\n", pair->number, pair->errors,
                    pair->message);
    sum->played += pair->played;
    sum->taken += pair->taken;
    sum->committed += pair->committed;
    sum->lost += pair->lost;
    sum->busy += pair->busy;
    sum->late += pair->late;
    sum->stale += pair->stale;
    sum->undone += pair->undone;
    sum->errors += pair->errors;
}

/* Starts all holders before the first keeper, who must know whom to stop. */
static int start(pid_t *keepers, const struct pair *like, int n, unsigned first_seed)
{
    for (int i = 0; i < n; i++) {
        pairs[i] = *like;
        pairs[i].number = i;
        pairs[i].seed = first_seed + (unsigned)i;
        pairs[i].rounds = like->rounds / n;
        pairs[i].holder = process_start(pair_hold, &pairs[i]);
    }
    for (int i = 0; i < n; i++)
        keepers[i] = process_start(pair_keep, &pairs[i]);
    return n;
}

static struct sum play(const char *what, const struct pair *like)
{
    unsigned first_seed = seed();
    int64_t start_ms = process_now_ms();
    struct sum sum = {0};
    pid_t keepers[PAIRS];
    int n = start(keepers, like, on_server() ? PAIRS : FILE_PAIRS, first_seed);
    int failed = 0;

    for (int i = 0; i < n; i++)
        failed += process_wait(keepers[i], 240000) != 0;
    for (int i = 0; i < n; i++) {
        kill(pairs[i].holder, SIGCONT);
        failed += process_wait(pairs[i].holder, 35000) != 0;
        add(&sum, &pairs[i]);
    }
    print_message("%s: seed %u, %ld rounds in %.1f s: %ld taken from a stopped holder, %ld "
                  "committed, %ld lost, %ld busy, %ld late, %ld stale, %ld undone\n",
                  what, first_seed, sum.played, (double)(process_now_ms() - start_ms) / 1000,
                  sum.taken, sum.committed, sum.lost, sum.busy, sum.late, sum.stale, sum.undone);
    assert_int_equal(0, sum.errors);
    assert_int_equal(0, failed);
    return sum;
}

static struct pair stopping(int rounds, int guarded)
{
    struct pair like = {.rounds = rounds, .guarded = guarded};

    like.plans = 1U << PLAN_STOP | 1U << PLAN_RACE | 1U << PLAN_FORCE;
    like.last_stage = on_server() ? STAGE_WRITTEN : STAGE_BEGUN;
    if (on_server())
        like.plans |= 1U << PLAN_ANY;
    return like;
}

static void no_stale_commit(void **state)
{
    struct pair like = stopping(on_server() ? ROUNDS : FILE_ROUNDS, 1);
    struct sum sum = play("guarded", &like);

    (void)state;
    assert_int_equal(like.rounds, sum.played);
    assert_int_equal(0, sum.late);
    assert_int_equal(0, sum.stale);
    assert_int_equal(0, sum.undone);
    assert_true(sum.taken > like.rounds / 10); /* it was tempted */
    assert_true(sum.lost > like.rounds / 10);
    assert_true(!on_server() || sum.committed > like.rounds / 10);
}

/* Else the test above proves nothing. */
static void without_it_there_are(void **state)
{
    struct pair like = stopping(on_server() ? 5 * PAIRS : 20 * FILE_PAIRS, 0);
    struct sum sum;

    (void)state;
    like.plans = 1U << PLAN_STOP | 1U << PLAN_FORCE;
    like.enough = 2;
    sum = play("not guarded", &like);
    assert_true(sum.stale > 0);
    assert_true(sum.late >= sum.stale);
}

static void next_one_waits_for_commit(void **state)
{
    struct pair like = stopping(on_server() ? ROUNDS : FILE_ROUNDS, 1);
    struct sum sum;

    (void)state;
    like.plans = 1U << PLAN_WAIT;
    sum = play("outliving the lease", &like);
    assert_int_equal(like.rounds, sum.played);
    assert_int_equal(0, sum.late);
    assert_int_equal(0, sum.undone);
    assert_int_equal(like.rounds, sum.committed + sum.lost + sum.busy);
    assert_true(sum.committed > like.rounds / 4);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test_setup_teardown(no_stale_commit, setup, teardown),
        cmocka_unit_test_setup_teardown(without_it_there_are, setup, teardown),
        cmocka_unit_test_setup_teardown(next_one_waits_for_commit, setup, teardown),
    };
    return FAULT_MAIN(argc, argv, 0, cases);
}
