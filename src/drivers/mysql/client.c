/* SPDX-License-Identifier: MIT
 *
 * MariaDB Connector/C and Oracle's libmysqlclient both can work without blocking, each in its own
 * way. This file and options.c are the only ones that know which one they are compiled with. */
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include "my.h"

int64_t my_deadline(uint32_t timeout_ms)
{
    return rlk_clock_us() + (int64_t)timeout_ms * 1000;
}

/* Polls until the deadline, but at most cap_ms (< 0: no cap). The events, or 0. -1: time is up. */
static int poll_until(int fd, short events, int64_t deadline, int cap_ms)
{
    struct pollfd one = {.fd = fd, .events = events};
    int64_t left_ms = (deadline - rlk_clock_us() + 999) / 1000;

    if (left_ms <= 0)
        return -1;
    if (cap_ms >= 0 && left_ms > cap_ms)
        left_ms = cap_ms;
    if (poll(&one, 1, left_ms > 60000 ? 60000 : (int)left_ms) <= 0)
        return 0;
    return one.revents;
}

/* A socket in the address goes before its host, and before the host of an option file. */
static const char *host_of(const my_address *address)
{
    return address->socket != NULL ? "localhost" : address->host;
}

#ifdef LIBMARIADB

void my_client_enter(void)
{
}

/* Waits for what the library asked for. What has happened, 0 when time is up. */
static int await(MYSQL *mysql, int wanted, int64_t deadline)
{
    short events = 0;
    int seen, got = 0, cap = -1;

    events |= wanted & MYSQL_WAIT_READ ? POLLIN : 0;
    events |= wanted & MYSQL_WAIT_WRITE ? POLLOUT : 0;
    events |= wanted & MYSQL_WAIT_EXCEPT ? POLLPRI : 0;
    if (wanted & MYSQL_WAIT_TIMEOUT)
        cap = (int)mysql_get_timeout_value_ms(mysql);
    do {
        seen = poll_until(mysql_get_socket(mysql), events, deadline, cap);
        if (seen < 0)
            return 0;
        if (seen == 0 && cap >= 0)
            return MYSQL_WAIT_TIMEOUT;
    } while (seen == 0);
    got |= seen & (POLLIN | POLLHUP | POLLERR) ? MYSQL_WAIT_READ & wanted : 0;
    got |= seen & (POLLOUT | POLLHUP | POLLERR) ? MYSQL_WAIT_WRITE & wanted : 0;
    got |= seen & POLLPRI ? MYSQL_WAIT_EXCEPT & wanted : 0;
    return got != 0 ? got : wanted;
}

/* The library does not let go of the calling thread during the handshake of TLS, in which this is
 * all that bounds its waits. */
static void set_connect_timeout(MYSQL *mysql, int64_t deadline)
{
    int64_t left_us = deadline - rlk_clock_us();
    unsigned seconds = left_us > 0 ? (unsigned)(left_us / 1000000) + 1 : 1;

    mysql_options(mysql, MYSQL_OPT_CONNECT_TIMEOUT, &seconds);
}

int my_client_connect(MYSQL *mysql, const my_address *a, int64_t deadline)
{
    MYSQL *done = NULL;
    int wait;

    set_connect_timeout(mysql, deadline);
    wait = mysql_real_connect_start(&done, mysql, host_of(a), a->user, a->password, a->database,
                                    a->port, a->socket, CLIENT_MULTI_STATEMENTS);
    while (wait != 0) {
        wait = await(mysql, wait, deadline);
        if (wait == 0)
            return 0;
        wait = mysql_real_connect_cont(&done, mysql, wait);
    }
    if (done == NULL && rlk_clock_us() >= deadline)
        return 0;
    return done != NULL ? 1 : -1;
}

int my_client_query(MYSQL *mysql, const char *sql, size_t length, rlk_spin *spin, int64_t deadline)
{
    int result = 0;
    int wait = mysql_real_query_start(&result, mysql, sql, (unsigned long)length);

    if (wait & MYSQL_WAIT_READ)
        rlk_spin_on(spin, mysql_get_socket(mysql));
    while (wait != 0) {
        wait = await(mysql, wait, deadline);
        if (wait == 0)
            return 0;
        wait = mysql_real_query_cont(&result, mysql, wait);
    }
    return 1;
}

int my_client_store(MYSQL *mysql, MYSQL_RES **out, int64_t deadline)
{
    int wait = mysql_store_result_start(out, mysql);

    while (wait != 0) {
        wait = await(mysql, wait, deadline);
        if (wait == 0)
            return 0;
        wait = mysql_store_result_cont(out, mysql, wait);
    }
    return 1;
}

int my_client_next(MYSQL *mysql, int *out, int64_t deadline)
{
    int wait = mysql_next_result_start(out, mysql);

    while (wait != 0) {
        wait = await(mysql, wait, deadline);
        if (wait == 0)
            return 0;
        wait = mysql_next_result_cont(out, mysql, wait);
    }
    return 1;
}

static int socket_of(MYSQL *mysql)
{
    return mysql_get_socket(mysql);
}

int my_client_connected(MYSQL *mysql)
{
    return mysql->net.pvio != NULL;
}

#else /* Oracle's */

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t thread_key;

static void leave_thread(void *unused)
{
    (void)unused;
    mysql_thread_end();
}

static void init_library(void)
{
    mysql_library_init(0, NULL, NULL);
    pthread_key_create(&thread_key, leave_thread);
}

void my_client_enter(void)
{
    pthread_once(&once, init_library);
    if (pthread_getspecific(thread_key) == NULL && mysql_thread_init() == 0)
        pthread_setspecific(thread_key, &once);
}

static int socket_of(MYSQL *mysql)
{
    return (int)mysql->net.fd;
}

int my_client_connected(MYSQL *mysql)
{
    return mysql->net.vio != NULL;
}

/* This library does not say what it waits for. Mostly it is an answer; a full send buffer, a name
 * being looked up or a connection being made is asked about again after some milliseconds. */
static int await(MYSQL *mysql, enum net_async_status status, int64_t deadline)
{
    if (status != NET_ASYNC_NOT_READY)
        return 0;
    return poll_until(socket_of(mysql), POLLIN, deadline, 3) >= 0 ? 1 : -1;
}

int my_client_connect(MYSQL *mysql, const my_address *a, int64_t deadline)
{
    enum net_async_status status;
    int again;

    do {
        status =
            mysql_real_connect_nonblocking(mysql, host_of(a), a->user, a->password, a->database,
                                           a->port, a->socket, CLIENT_MULTI_STATEMENTS);
        again = await(mysql, status, deadline);
    } while (again > 0);
    return again < 0 ? 0 : status == NET_ASYNC_COMPLETE ? 1 : -1;
}

int my_client_query(MYSQL *mysql, const char *sql, size_t length, rlk_spin *spin, int64_t deadline)
{
    enum net_async_status status = mysql_real_query_nonblocking(mysql, sql, (unsigned long)length);
    int again;

    if (status == NET_ASYNC_NOT_READY)
        rlk_spin_on(spin, socket_of(mysql));
    while ((again = await(mysql, status, deadline)) > 0)
        status = mysql_real_query_nonblocking(mysql, sql, (unsigned long)length);
    return again == 0;
}

int my_client_store(MYSQL *mysql, MYSQL_RES **out, int64_t deadline)
{
    int again;

    do {
        again = await(mysql, mysql_store_result_nonblocking(mysql, out), deadline);
    } while (again > 0);
    return again == 0;
}

int my_client_next(MYSQL *mysql, int *out, int64_t deadline)
{
    enum net_async_status status;
    int again;

    do {
        status = mysql_next_result_nonblocking(mysql);
        again = await(mysql, status, deadline);
    } while (again > 0);
    *out = status == NET_ASYNC_COMPLETE ? 0 : status == NET_ASYNC_COMPLETE_NO_MORE_RESULTS ? -1 : 1;
    return again == 0;
}

#endif

int my_client_hung_up(MYSQL *mysql)
{
    struct pollfd one = {.fd = socket_of(mysql), .events = POLLRDHUP};

    return poll(&one, 1, 0) > 0 && (one.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

void my_client_keep_alive(MYSQL *mysql)
{
    int fd = socket_of(mysql), yes = 1, idle_s = 30, interval_s = 10, probes = 3;
    unsigned give_up_ms = 30000;

    /* They fail on a Unix socket, where nothing is lost by it. */
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof yes);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof interval_s);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &give_up_ms, sizeof give_up_ms);
}

/* The libraries' goodbye is a write that may block or raise SIGPIPE: on a dead connection it goes
 * to /dev/null, which does neither. */
void my_client_close(MYSQL *mysql, int dead)
{
    int fd = mysql != NULL ? socket_of(mysql) : -1;

    if (mysql == NULL)
        return;
    if (dead && fd >= 0) {
        int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);

        if (nowhere >= 0) {
            dup3(nowhere, fd, O_CLOEXEC);
            close(nowhere);
        }
    }
    mysql_close(mysql);
}
