/* SPDX-License-Identifier: MIT
 *
 * Threads and what they wait on. The core creates, locks, waits and sleeps by these functions,
 * those of event.h and those of clock.h only, so that a simulator can be linked in their place. */
#ifndef RLK_THREAD_H
#define RLK_THREAD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/types.h>

typedef pthread_t rlk_thread;
typedef pthread_mutex_t rlk_mutex;
typedef pthread_cond_t rlk_cond;

#define RLK_MUTEX_INIT PTHREAD_MUTEX_INITIALIZER

pid_t rlk_getpid(void);

/* fn is called by exit(). 0: it cannot be. */
int rlk_at_exit(void (*fn)(void));

/* A number of the calling thread's that no other thread of this process ever gets, unlike
 * pthread_self() and gettid(), which are given again after a thread has ended. */
uint64_t rlk_thread_number(void);

/* From the first to the second pthread_cancel() does not end the calling thread; pairs nest. */
void rlk_cancel_disable(void);
void rlk_cancel_enable(void);

/* Starts a thread with all signals blocked: those are for the application's own threads. `name` has
 * at most 15 bytes. 0 or an errno. */
int rlk_thread_start(rlk_thread *out, const char *name, void *(*run)(void *arg), void *arg);

/* Waits for its end, at most until rlk_clock_us() reads until_us (RLK_NEVER: for ever). 0 if it has
 * not ended by then, or is the calling thread. */
int rlk_thread_join(rlk_thread thread, int64_t until_us);

void rlk_mutex_init(rlk_mutex *mutex);
void rlk_mutex_destroy(rlk_mutex *mutex);
void rlk_mutex_lock(rlk_mutex *mutex);
int rlk_mutex_trylock(rlk_mutex *mutex); /* 0: it is locked */
void rlk_mutex_unlock(rlk_mutex *mutex);

/* A condition variable for rlk_cond_wait(). 0 or an errno. */
int rlk_cond_init(rlk_cond *cond);
void rlk_cond_destroy(rlk_cond *cond);
void rlk_cond_broadcast(rlk_cond *cond);

/* Waits for a signal at most until rlk_clock_us() reads until_us; 0 if it is that. Wakes
 * spuriously. */
int rlk_cond_wait(rlk_cond *cond, rlk_mutex *mutex, int64_t until_us);

/* Waits, at most until rlk_clock_us() reads until_us, while *word is `value`; 0 if it is that late.
 * Wakes spuriously. Cheaper than a condition variable where one thread waits for another: the one
 * who is woken meets no mutex. */
int rlk_word_wait(_Atomic uint32_t *word, uint32_t value, int64_t until_us);

/* Wakes all who wait for it to change, which it has. */
void rlk_word_wake(_Atomic uint32_t *word);

#endif
