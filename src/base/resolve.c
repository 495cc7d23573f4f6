/* SPDX-License-Identifier: MIT */
#include "resolve.h"

#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "clock.h"
#include "thread.h"

/* Questions that nobody waits for any more, each with its thread. */
enum { UNANSWERED_MAX = 16 };

enum { ASKED, ANSWERED };

/* Of two: who waits and the thread that asks. The last one frees it. */
typedef struct question {
    _Atomic uint32_t state;
    atomic_int owners;
    char host[RLK_HOST_MAX + 1];
    int error; /* of getaddrinfo() */
    rlk_addresses addresses;
} question;

/* How many threads there are, in this process: a child has none of its parent's. */
static atomic_int threads;
static _Atomic pid_t threads_pid;

static int may_ask(void)
{
    pid_t pid = getpid();

    if (atomic_exchange(&threads_pid, pid) != pid)
        atomic_store(&threads, 0);
    if (atomic_fetch_add(&threads, 1) < UNANSWERED_MAX)
        return 1;
    atomic_fetch_sub(&threads, 1);
    return 0;
}

static void let_go(question *q)
{
    if (atomic_fetch_sub(&q->owners, 1) == 1)
        free(q);
}

static int look_up(rlk_addresses *out, const char *host)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM}, *all = NULL;
    int error = getaddrinfo(host, NULL, &hints, &all);

    out->count = 0;
    for (struct addrinfo *one = all; error == 0 && one != NULL; one = one->ai_next) {
        if (out->count < RLK_ADDRESSES_MAX &&
            getnameinfo(one->ai_addr, one->ai_addrlen, out->text[out->count], RLK_ADDRESS_SIZE,
                        NULL, 0, NI_NUMERICHOST) == 0)
            out->count++;
    }
    if (all != NULL)
        freeaddrinfo(all);
    return error == 0 && out->count == 0 ? EAI_NONAME : error;
}

static void *ask(void *payload)
{
    question *q = payload;

    q->error = look_up(&q->addresses, q->host);
    atomic_store(&q->state, ANSWERED);
    rlk_word_wake(&q->state);
    let_go(q);
    atomic_fetch_sub(&threads, 1);
    return NULL;
}

/* No signal is handled there. 0 or an errno. */
static int start(question *q)
{
    sigset_t all, before;
    pthread_t thread;
    int rc;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = pthread_create(&thread, NULL, ask, q);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc == 0)
        pthread_detach(thread);
    return rc;
}

static const char *await(rlk_addresses *out, question *q, int64_t deadline)
{
    const char *why = NULL;

    while (atomic_load(&q->state) == ASKED && rlk_word_wait(&q->state, ASKED, deadline))
        continue;
    if (atomic_load(&q->state) == ASKED)
        why = "the name was not resolved in time";
    else if (q->error != 0)
        why = gai_strerror(q->error);
    else
        *out = q->addresses;
    let_go(q);
    return why;
}

const char *rlk_resolve(rlk_addresses *out, const char *host, int64_t deadline)
{
    question *q;

    out->count = 0;
    if (strlen(host) > RLK_HOST_MAX)
        return gai_strerror(EAI_NONAME);
    if (!may_ask())
        return "too many names are not resolved yet";
    q = calloc(1, sizeof *q);
    if (q != NULL) {
        strcpy(q->host, host);
        atomic_store(&q->owners, 2);
        if (start(q) == 0)
            return await(out, q, deadline);
        free(q);
    }
    atomic_fetch_sub(&threads, 1);
    return gai_strerror(EAI_MEMORY);
}

int rlk_is_address(const char *host)
{
    struct addrinfo hints = {.ai_flags = AI_NUMERICHOST}, *all = NULL;
    int error = getaddrinfo(host, NULL, &hints, &all);

    if (all != NULL)
        freeaddrinfo(all);
    return error == 0;
}
