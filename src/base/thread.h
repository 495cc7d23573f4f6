/* SPDX-License-Identifier: MIT */
#ifndef RLK_THREAD_H
#define RLK_THREAD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

/* A number of the calling thread's that no other thread of this process ever gets, unlike
 * pthread_self() and gettid(), which are given again after a thread has ended. */
uint64_t rlk_thread_number(void);

/* From the first to the second pthread_cancel() does not end the calling thread; pairs nest. */
void rlk_cancel_disable(void);
void rlk_cancel_enable(void);

/* A condition variable for rlk_cond_wait(). 0 or an errno. */
int rlk_cond_init(pthread_cond_t *cond);

/* Waits for a signal at most until rlk_clock_us() reads until_us; 0 if it is that. Wakes
 * spuriously. */
int rlk_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex, int64_t until_us);

/* Waits, at most until rlk_clock_us() reads until_us, while *word is `value`; 0 if it is that late.
 * Wakes spuriously. Cheaper than a condition variable where one thread waits for another: the one
 * who is woken meets no mutex. */
int rlk_word_wait(_Atomic uint32_t *word, uint32_t value, int64_t until_us);

/* Wakes all who wait for it to change, which it has. */
void rlk_word_wake(_Atomic uint32_t *word);

#endif
