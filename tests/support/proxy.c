/* SPDX-License-Identifier: MIT */
#include "proxy.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { MAX_LINKS = 256, BUFFER = 65536, HELD_MAX = 1 << 20 };

enum link_state {
    LINK_FREE,
    LINK_PASS,
    LINK_DROP_REPLY, /* the request has gone through, its answer must not */
    LINK_HOLD        /* the client is gone, its request waits */
};

/* One client's connection and the server's that belongs to it. */
struct link {
    enum link_state state;
    int client, server;
    int server_spoke; /* the last bytes came from the server: the next request is a new one */
    int answered;     /* LINK_DROP_REPLY: bytes of the answer have been seen */
    int blackholed;
    int64_t due_ms; /* LINK_DROP_REPLY: when silence is complete; LINK_HOLD: time to deliver */
    char *held;
    size_t held_length;
};

struct proxy {
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    struct sockaddr_in target;
    uint16_t port;
    int listener, wake;
    /* under the mutex */
    int stop, refuse, refusing, refuse_failed, cut_all, directions, directions_applied, stalled;
    int armed, struck, trips, holding;
    proxy_plan plan;
    /* the thread's own */
    int blackhole, stall;
    struct link links[MAX_LINKS];
    char buffer[BUFFER];
};

static int64_t now_ms(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static int listen_on(uint16_t port, uint16_t *out)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    socklen_t length = sizeof(address);
    int one = 1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) != 0 ||
        listen(fd, 64) != 0 || getsockname(fd, (struct sockaddr *)&address, &length) != 0) {
        if (fd >= 0)
            close(fd);
        return -1;
    }
    *out = ntohs(address.sin_port);
    return fd;
}

static int send_all(int fd, const char *bytes, size_t n)
{
    while (n > 0) {
        ssize_t sent = send(fd, bytes, n, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent <= 0)
            return -1;
        bytes += sent;
        n -= (size_t)sent;
    }
    return 0;
}

static void link_close(proxy *p, struct link *link)
{
    if (link->state == LINK_HOLD) {
        pthread_mutex_lock(&p->mutex);
        p->holding--;
        pthread_cond_broadcast(&p->changed);
        pthread_mutex_unlock(&p->mutex);
    }
    if (link->client >= 0)
        close(link->client);
    if (link->server >= 0)
        close(link->server);
    free(link->held);
    memset(link, 0, sizeof(*link));
    link->client = link->server = -1;
}

static void link_open(proxy *p)
{
    int one = 1;
    int client = accept4(p->listener, NULL, NULL, SOCK_CLOEXEC);
    int server = client < 0 ? -1 : socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    for (int i = 0; i < MAX_LINKS && server >= 0; i++) {
        struct link *link = &p->links[i];
        if (link->state != LINK_FREE)
            continue;
        if (connect(server, (struct sockaddr *)&p->target, sizeof(p->target)) != 0)
            break;
        setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
        setsockopt(server, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
        *link = (struct link){.state = LINK_PASS, .client = client, .server = server};
        link->server_spoke = 1;
        link->blackholed = p->blackhole != 0;
        return;
    }
    if (client >= 0)
        close(client);
    if (server >= 0)
        close(server);
}

static void refuse_now(proxy *p)
{
    if (p->listener >= 0)
        close(p->listener);
    p->listener = -1;
}

/* A new request has begun: counts it and says whether the plan strikes it. */
static int request_begins(proxy *p, proxy_plan *plan)
{
    int strikes = 0;

    pthread_mutex_lock(&p->mutex);
    p->trips++;
    if (p->armed && p->plan.skip-- == 0) {
        *plan = p->plan;
        strikes = 1;
        p->armed = 0;
        p->struck++;
        p->holding += plan->fault == PROXY_HOLD;
        if (plan->then_refuse) {
            p->refuse = p->refusing = 1;
            refuse_now(p);
        }
    }
    pthread_mutex_unlock(&p->mutex);
    return strikes;
}

static void strike(proxy *p, struct link *link, const proxy_plan *plan, size_t n)
{
    switch (plan->fault) {
    case PROXY_CUT_BEFORE:
        link_close(p, link);
        break;
    case PROXY_CUT_HALF:
        send_all(link->server, p->buffer, n / 2);
        link_close(p, link);
        break;
    case PROXY_CUT_REPLY:
        link->state = LINK_DROP_REPLY;
        link->answered = 0;
        if (send_all(link->server, p->buffer, n) != 0)
            link_close(p, link);
        break;
    case PROXY_HOLD:
        link->state = LINK_HOLD;
        link->due_ms = now_ms() + plan->hold_ms;
        link->held = malloc(HELD_MAX);
        if (link->held != NULL)
            memcpy(link->held, p->buffer, n);
        link->held_length = link->held != NULL ? n : 0;
        break;
    }
}

/* A held request may come in several pieces: what is there already belongs to it. */
static void hold_rest(struct link *link)
{
    ssize_t n;

    while (link->held != NULL && link->held_length < HELD_MAX &&
           (n = recv(link->client, link->held + link->held_length, HELD_MAX - link->held_length,
                     MSG_DONTWAIT)) > 0)
        link->held_length += (size_t)n;
    close(link->client);
    link->client = -1;
}

static void from_client(proxy *p, struct link *link)
{
    proxy_plan plan;
    ssize_t n = recv(link->client, p->buffer, BUFFER, 0);
    int begins = link->server_spoke;

    if (n <= 0) {
        link_close(p, link);
        return;
    }
    if (link->blackholed && (p->blackhole & PROXY_TO_SERVER))
        return;
    link->server_spoke = 0;
    if (begins && request_begins(p, &plan)) {
        strike(p, link, &plan, (size_t)n);
        if (link->state == LINK_HOLD)
            hold_rest(link);
        return;
    }
    if (send_all(link->server, p->buffer, (size_t)n) != 0)
        link_close(p, link);
}

static void from_server(proxy *p, struct link *link)
{
    ssize_t n = recv(link->server, p->buffer, BUFFER, 0);

    if (n <= 0) {
        link_close(p, link);
        return;
    }
    if (link->state == LINK_DROP_REPLY) {
        link->answered = 1;
        link->due_ms = now_ms() + PROXY_QUIET_MS;
        return;
    }
    link->server_spoke = 1;
    if (link->blackholed && (p->blackhole & PROXY_TO_CLIENT))
        return;
    if (link->state == LINK_PASS && send_all(link->client, p->buffer, (size_t)n) != 0)
        link_close(p, link);
}

/* The answer is complete, or a held request is due. A held one becomes a request whose answer
 * nobody reads; `holding` falls when that has come, in link_close(). */
static void link_due(proxy *p, struct link *link)
{
    if (link->state == LINK_DROP_REPLY) {
        if (link->answered && now_ms() >= link->due_ms)
            link_close(p, link);
        return;
    }
    if (link->state != LINK_HOLD || now_ms() < link->due_ms)
        return;
    if (link->held_length > 0) {
        int failed = send_all(link->server, link->held, link->held_length);
        link->held_length = 0;
        link->due_ms = now_ms() + 10 * PROXY_QUIET_MS;
        if (!failed)
            return;
    }
    link_close(p, link);
}

/* Takes up what the test asked for; nonzero at the end. */
static int take_orders(proxy *p)
{
    uint64_t wakes;
    uint16_t port = p->port;
    int changed = 0;
    int cut;

    while (read(p->wake, &wakes, sizeof(wakes)) > 0)
        continue;
    pthread_mutex_lock(&p->mutex);
    cut = p->cut_all;
    if (p->refuse && p->listener >= 0)
        refuse_now(p);
    if (!p->refuse && p->listener < 0) {
        p->listener = listen_on(port, &port);
        p->refuse_failed = p->listener < 0;
    }
    p->refusing = p->refuse;
    p->stall = p->stalled;
    if (p->blackhole != p->directions) {
        p->blackhole = p->directions;
        changed = 1;
    }
    pthread_mutex_unlock(&p->mutex);
    for (int i = 0; i < MAX_LINKS; i++) {
        struct link *link = &p->links[i];
        if (link->state != LINK_FREE && (cut || (changed && link->blackholed)))
            link_close(p, link);
        link->blackholed = p->blackhole != 0;
    }
    pthread_mutex_lock(&p->mutex);
    p->directions_applied = p->blackhole;
    if (cut)
        p->cut_all = 0;
    pthread_cond_broadcast(&p->changed);
    cut = p->stop;
    pthread_mutex_unlock(&p->mutex);
    return cut;
}

static void *run(void *argument)
{
    proxy *p = argument;
    struct pollfd fds[2 + 2 * MAX_LINKS];

    while (!take_orders(p)) {
        fds[0] = (struct pollfd){.fd = p->wake, .events = POLLIN};
        fds[1] = (struct pollfd){.fd = p->listener, .events = POLLIN};
        for (int i = 0; i < MAX_LINKS; i++) {
            const struct link *link = &p->links[i];
            int listen_client = (link->state == LINK_PASS || link->state == LINK_DROP_REPLY) &&
                                (p->stall & PROXY_TO_SERVER) == 0;
            int listen_server = link->state != LINK_FREE && (p->stall & PROXY_TO_CLIENT) == 0;
            fds[2 + 2 * i] =
                (struct pollfd){.fd = listen_client ? link->client : -1, .events = POLLIN};
            fds[3 + 2 * i] =
                (struct pollfd){.fd = listen_server ? link->server : -1, .events = POLLIN};
        }
        poll(fds, 2 + 2 * MAX_LINKS, 10);
        for (int i = 0; i < MAX_LINKS; i++) {
            struct link *link = &p->links[i];
            if (link->state != LINK_FREE && fds[3 + 2 * i].fd >= 0 && fds[3 + 2 * i].revents)
                from_server(p, link);
            if (link->state != LINK_FREE && fds[2 + 2 * i].fd >= 0 && fds[2 + 2 * i].revents)
                from_client(p, link);
            if (link->state != LINK_FREE)
                link_due(p, link);
        }
        if (p->listener >= 0 && fds[1].revents)
            link_open(p);
    }
    for (int i = 0; i < MAX_LINKS; i++)
        if (p->links[i].state != LINK_FREE)
            link_close(p, &p->links[i]);
    return NULL;
}

static void wake(proxy *p)
{
    uint64_t one = 1;
    if (write(p->wake, &one, sizeof(one)) < 0)
        return; /* the counter is full: it is awake */
}

proxy *proxy_start(const char *host, uint16_t port)
{
    proxy *p = calloc(1, sizeof(*p));

    if (p == NULL)
        return NULL;
    for (int i = 0; i < MAX_LINKS; i++)
        p->links[i].client = p->links[i].server = -1;
    p->target.sin_family = AF_INET;
    p->target.sin_port = htons(port);
    pthread_mutex_init(&p->mutex, NULL);
    pthread_cond_init(&p->changed, NULL);
    p->wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    p->listener = listen_on(0, &p->port);
    if (inet_pton(AF_INET, host, &p->target.sin_addr) != 1 || p->wake < 0 || p->listener < 0 ||
        pthread_create(&p->thread, NULL, run, p) != 0) {
        if (p->wake >= 0)
            close(p->wake);
        if (p->listener >= 0)
            close(p->listener);
        free(p);
        return NULL;
    }
    return p;
}

void proxy_stop(proxy *p)
{
    if (p == NULL)
        return;
    pthread_mutex_lock(&p->mutex);
    p->stop = 1;
    pthread_mutex_unlock(&p->mutex);
    wake(p);
    pthread_join(p->thread, NULL);
    if (p->listener >= 0)
        close(p->listener);
    close(p->wake);
    pthread_cond_destroy(&p->changed);
    pthread_mutex_destroy(&p->mutex);
    free(p);
}

uint16_t proxy_port(const proxy *p)
{
    return p->port;
}

void proxy_arm(proxy *p, const proxy_plan *plan)
{
    pthread_mutex_lock(&p->mutex);
    p->plan = *plan;
    p->armed = 1;
    pthread_mutex_unlock(&p->mutex);
}

int proxy_disarm(proxy *p)
{
    int struck;

    pthread_mutex_lock(&p->mutex);
    p->armed = 0;
    struck = p->struck;
    pthread_mutex_unlock(&p->mutex);
    return struck;
}

int proxy_refuse(proxy *p, int refuse)
{
    int failed;

    pthread_mutex_lock(&p->mutex);
    p->refuse = refuse != 0;
    p->refuse_failed = 0;
    wake(p);
    while (p->refusing != p->refuse && !p->refuse_failed)
        pthread_cond_wait(&p->changed, &p->mutex);
    failed = p->refuse_failed;
    pthread_mutex_unlock(&p->mutex);
    return failed ? -1 : 0;
}

void proxy_blackhole(proxy *p, int directions)
{
    pthread_mutex_lock(&p->mutex);
    p->directions = directions;
    wake(p);
    while (p->directions_applied != directions)
        pthread_cond_wait(&p->changed, &p->mutex);
    pthread_mutex_unlock(&p->mutex);
}

void proxy_stall(proxy *p, int directions)
{
    pthread_mutex_lock(&p->mutex);
    p->stalled = directions;
    pthread_mutex_unlock(&p->mutex);
    wake(p);
}

void proxy_cut_all(proxy *p)
{
    pthread_mutex_lock(&p->mutex);
    p->cut_all = 1;
    wake(p);
    while (p->cut_all)
        pthread_cond_wait(&p->changed, &p->mutex);
    pthread_mutex_unlock(&p->mutex);
}

int proxy_round_trips(proxy *p)
{
    int trips;

    pthread_mutex_lock(&p->mutex);
    trips = p->trips;
    pthread_mutex_unlock(&p->mutex);
    return trips;
}

int proxy_wait_delivered(proxy *p, int timeout_ms)
{
    int64_t until = now_ms() + timeout_ms;
    int holding = 1;

    while (holding && now_ms() < until) {
        struct timespec pause = {.tv_nsec = 10000000};
        pthread_mutex_lock(&p->mutex);
        holding = p->holding;
        pthread_mutex_unlock(&p->mutex);
        if (holding)
            nanosleep(&pause, NULL);
    }
    return holding ? -1 : 0;
}
