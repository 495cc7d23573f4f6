/* SPDX-License-Identifier: MIT
 *
 * The watchdog, step by step: what its two threads would do is done by hand, on the fake clock, so
 * that each step comes exactly where the case wants it. */
#ifndef WATCH_STEP_H
#define WATCH_STEP_H

#include "core.h"
#include "core_test.h"

extern rowlock_client *client;      /* open in every case */
extern rowlock_lock *held, *second; /* released after it */
extern int told, told_loss;         /* how often on_lost() came, and what it was told last */
extern int64_t told_at;

/* What open_by_hand() opens clients on; NULL: the fake driver as it is. */
extern const rowlock_driver *step_driver;

int step_set_up(void **state);
int step_tear_down(void **state);
#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, step_set_up, step_tear_down)

/* A client whose threads are the test. */
rowlock_client *open_by_hand(const rowlock_options *options);

/* The same in place of `client`. */
void open_again(const rowlock_options *options);

/* Options of the owner "me": renewed, with on_lost(), whose payload is &told. */
rowlock_acquire_options renewing(int64_t ttl_ms);
void on_lost(rowlock_lock *lock, int loss, void *payload);

/* Acquires on `client`; fails the test if that fails. */
rowlock_lock *take(const char *name, const rowlock_acquire_options *options);

/* What is due in both threads. When the next step is. */
int64_t step(void);

/* Lets time pass, with a step whenever the watchdog wants one. */
void run_for(int64_t ms);

/* Was the thread that tells woken since the last look? */
int is_woken(void);

/* One of the client's numbers. */
#define COUNTER(name) counter_at(offsetof(rowlock_counters, name))
uint64_t counter_at(size_t offset);

#endif
