/* SPDX-License-Identifier: MIT */
#include "gate.h"

#include <time.h>

int bench_gate_init(bench_gate *gate, int workers)
{
    pthread_mutexattr_t mutex;
    pthread_condattr_t cond;
    int failed = 0;

    gate->phase = gate->arrived = 0;
    gate->workers = workers;
    pthread_mutexattr_init(&mutex);
    pthread_condattr_init(&cond);
    failed |= pthread_mutexattr_setpshared(&mutex, PTHREAD_PROCESS_SHARED);
    failed |= pthread_condattr_setpshared(&cond, PTHREAD_PROCESS_SHARED);
    failed |= pthread_condattr_setclock(&cond, CLOCK_MONOTONIC);
    failed |= pthread_mutex_init(&gate->mutex, &mutex);
    failed |= pthread_cond_init(&gate->changed, &cond);
    pthread_mutexattr_destroy(&mutex);
    pthread_condattr_destroy(&cond);
    return failed ? -1 : 0;
}

void bench_gate_arrive(bench_gate *gate, int phase)
{
    pthread_mutex_lock(&gate->mutex);
    gate->arrived++;
    pthread_cond_broadcast(&gate->changed);
    while (gate->phase < phase)
        pthread_cond_wait(&gate->changed, &gate->mutex);
    pthread_mutex_unlock(&gate->mutex);
}

int bench_gate_gather(bench_gate *gate, double seconds)
{
    struct timespec until;
    int rc = 0;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += (time_t)seconds + 1;
    pthread_mutex_lock(&gate->mutex);
    while (gate->arrived < gate->workers && rc == 0)
        rc = pthread_cond_timedwait(&gate->changed, &gate->mutex, &until);
    if (gate->arrived >= gate->workers)
        rc = 0;
    pthread_mutex_unlock(&gate->mutex);
    return rc == 0 ? 0 : -1;
}

void bench_gate_open(bench_gate *gate, int phase)
{
    pthread_mutex_lock(&gate->mutex);
    gate->phase = phase;
    gate->arrived = 0;
    pthread_cond_broadcast(&gate->changed);
    pthread_mutex_unlock(&gate->mutex);
}
