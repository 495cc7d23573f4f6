/* SPDX-License-Identifier: MIT
 *
 * What the examples need to do several things at once, and is no part of what they show. */
#ifndef ROWLOCK_EXAMPLES_WORKERS_H
#define ROWLOCK_EXAMPLES_WORKERS_H

#include <pthread.h>

enum { WORKERS = 4 };

struct worker {
    pthread_t thread;
    int (*work)(int number, void *payload); /* 0 is success */
    void *payload;
    int number, result;
};

static void *worker_main(void *arg)
{
    struct worker *worker = arg;

    worker->result = worker->work(worker->number, worker->payload);
    return NULL;
}

/* Runs work(0, payload) to work(3, payload) in threads of their own. 0 if all succeeded. */
static int run_workers(int (*work)(int number, void *payload), void *payload)
{
    struct worker workers[WORKERS];
    int started = 0, failed;

    for (; started < WORKERS; started++) {
        struct worker *worker = &workers[started];

        *worker = (struct worker){.work = work, .payload = payload, .number = started};
        if (pthread_create(&worker->thread, NULL, worker_main, worker) != 0)
            break;
    }
    failed = started < WORKERS;
    for (int i = 0; i < started; i++) {
        pthread_join(workers[i].thread, NULL);
        failed |= workers[i].result != 0;
    }
    return failed;
}

#endif
