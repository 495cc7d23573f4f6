/* SPDX-License-Identifier: MIT
 *
 * Child processes and memory shared with them. Fork before the test starts threads of its own where
 * a sanitizer minds. Children are ended by their pid only. */
#ifndef TEST_PROCESS_H
#define TEST_PROCESS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Zeroed memory that children of this process share with it; NULL if there is none. */
void *process_shared(size_t size);
void process_unshare(void *memory, size_t size);

/* Runs fn(payload) in a child, which ends with what fn returns (0..255), without exit handlers.
 * The child dies with its parent. -1 if it cannot be started. */
pid_t process_start(int (*fn)(void *payload), void *payload);

/* Waits at most timeout_ms, then kills it. The exit status, 1000 + the signal that ended it, or
 * -1 if it had to be killed. */
int process_wait(pid_t pid, int64_t timeout_ms);

/* Waits until *flag is at least `value`; -1 after timeout_ms. */
int process_await(const int *flag, int value, int64_t timeout_ms);
void process_signal(int *flag, int value);

/* Milliseconds of a clock that only goes forward. */
int64_t process_now_ms(void);
void process_sleep_ms(int64_t ms);

#endif
