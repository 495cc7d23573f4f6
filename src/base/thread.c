/* SPDX-License-Identifier: MIT */
#include "thread.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"

#define LONGEST_US (60 * INT64_C(1000000))

/* On 32-bit targets the C library's time_t may have 64 bits where SYS_futex expects 32: there the
 * call with 64-bit times is used, if the headers know it, and the kernel's own layout is spelled
 * out for each of the two. */
#ifdef SYS_futex_time64
#define FUTEX_CALL SYS_futex_time64
typedef struct futex_span {
    int64_t seconds, nanoseconds;
} futex_span;
#else
#define FUTEX_CALL SYS_futex
typedef struct futex_span {
    long seconds, nanoseconds;
} futex_span;
#endif

pid_t rlk_getpid(void)
{
    return getpid();
}

int rlk_at_exit(void (*fn)(void))
{
    return atexit(fn) == 0;
}

uint64_t rlk_thread_number(void)
{
    static _Atomic uint64_t last;
    static _Thread_local uint64_t mine;

    if (mine == 0)
        mine = atomic_fetch_add(&last, 1) + 1;
    return mine;
}

static _Thread_local int cancel_depth, cancel_state;

void rlk_cancel_disable(void)
{
    if (cancel_depth++ == 0)
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
}

void rlk_cancel_enable(void)
{
    if (--cancel_depth == 0)
        pthread_setcancelstate(cancel_state, NULL);
}

static void later(struct timespec *time, int64_t us)
{
    time->tv_sec += (time_t)(us / 1000000);
    time->tv_nsec += (long)(us % 1000000) * 1000;
    if (time->tv_nsec >= 1000000000) {
        time->tv_nsec -= 1000000000;
        time->tv_sec++;
    }
}

/* ---- threads ---- */

int rlk_thread_start(rlk_thread *out, const char *name, void *(*run)(void *arg), void *arg)
{
    sigset_t all, before;
    int rc;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = pthread_create(out, NULL, run, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc == 0)
        pthread_setname_np(*out, name);
    return rc;
}

int rlk_thread_join(rlk_thread thread, int64_t until_us)
{
    struct timespec until;
    int64_t left;

    if (pthread_equal(thread, pthread_self()))
        return 0;
    if (until_us == RLK_NEVER)
        return pthread_join(thread, NULL) == 0;
    left = until_us - rlk_clock_us();
    clock_gettime(CLOCK_REALTIME, &until); /* as pthread_timedjoin_np() wants it */
    later(&until, left < 0 ? 0 : left);
    return pthread_timedjoin_np(thread, NULL, &until) == 0;
}

/* ---- mutexes ---- */

void rlk_mutex_init(rlk_mutex *mutex)
{
    pthread_mutex_init(mutex, NULL);
}

void rlk_mutex_destroy(rlk_mutex *mutex)
{
    pthread_mutex_destroy(mutex);
}

void rlk_mutex_lock(rlk_mutex *mutex)
{
    pthread_mutex_lock(mutex);
}

int rlk_mutex_trylock(rlk_mutex *mutex)
{
    return pthread_mutex_trylock(mutex) == 0;
}

void rlk_mutex_unlock(rlk_mutex *mutex)
{
    pthread_mutex_unlock(mutex);
}

/* ---- condition variables ---- */

int rlk_cond_init(rlk_cond *cond)
{
    pthread_condattr_t attributes;
    int rc = pthread_condattr_init(&attributes);

    if (rc != 0)
        return rc;
    rc = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    if (rc == 0)
        rc = pthread_cond_init(cond, &attributes);
    pthread_condattr_destroy(&attributes);
    return rc;
}

int rlk_cond_wait(rlk_cond *cond, rlk_mutex *mutex, int64_t until_us)
{
    struct timespec until;
    int64_t left = until_us - rlk_clock_us();
    int is_part = left > LONGEST_US;

    if (left <= 0)
        return 0;
    if (is_part)
        left = LONGEST_US;
    clock_gettime(CLOCK_MONOTONIC, &until);
    later(&until, left);
    return pthread_cond_timedwait(cond, mutex, &until) != ETIMEDOUT || is_part;
}

void rlk_cond_broadcast(rlk_cond *cond)
{
    pthread_cond_broadcast(cond);
}

void rlk_cond_destroy(rlk_cond *cond)
{
    pthread_cond_destroy(cond);
}

/* ---- words ---- */

int rlk_word_wait(_Atomic uint32_t *word, uint32_t value, int64_t until_us)
{
    int64_t left = until_us - rlk_clock_us();
    int is_part = left > LONGEST_US;
    futex_span span;

    if (left <= 0)
        return 0;
    if (is_part)
        left = LONGEST_US;
    span.seconds = left / 1000000;
    span.nanoseconds = left % 1000000 * 1000;
    return syscall(FUTEX_CALL, word, FUTEX_WAIT_PRIVATE, value, &span, NULL, 0) == 0 ||
           errno != ETIMEDOUT || is_part;
}

void rlk_word_wake(_Atomic uint32_t *word)
{
    syscall(FUTEX_CALL, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}
