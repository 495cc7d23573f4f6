/* SPDX-License-Identifier: MIT
 *
 * What a MySQL server says when it is connected to: the input, played by a server on the loopback
 * interface to the real client library. Whatever it is, the driver refuses it with one line, and
 * does not send the password in clear. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fuzz.h"
#include "rowlock/driver.h"
#include "rowlock/mysql.h"

#define PASSWORD "Open-Sesame-42"

enum { TIMEOUT_MS = 2000, HEARD_MAX = 65536 };

static int listener = -1;
static char address[128];

typedef struct server {
    const uint8_t *data;
    size_t size, heard_size;
    char heard[HEARD_MAX];
} server;

/* Everything that the client says, until it hangs up; and there is no more to come from here. */
static void *serve(void *arg)
{
    static const struct linger at_once = {.l_onoff = 1};
    server *s = arg;
    struct pollfd polled = {.fd = listener, .events = POLLIN};
    ssize_t n = 1;
    int fd;

    if (poll(&polled, 1, 2 * TIMEOUT_MS) <= 0 || (fd = accept(listener, NULL, NULL)) < 0)
        return NULL;
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    if (send(fd, s->data, s->size, MSG_NOSIGNAL) >= 0)
        shutdown(fd, SHUT_WR);
    while (n > 0 && s->heard_size < HEARD_MAX) {
        n = recv(fd, s->heard + s->heard_size, HEARD_MAX - s->heard_size, 0);
        s->heard_size += n > 0 ? (size_t)n : 0;
    }
    close(fd);
    return NULL;
}

static void begin_to_listen(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof at;

    listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    MUST(listener >= 0 && bind(listener, (struct sockaddr *)&at, sizeof at) == 0);
    MUST(listen(listener, 8) == 0);
    MUST(getsockname(listener, (struct sockaddr *)&at, &size) == 0);
    snprintf(address, sizeof address, "mysql://me:" PASSWORD "@127.0.0.1:%d/shop",
             ntohs(at.sin_port));
}

/* Connector/C 3.3 takes an error 65535 for a report of progress, and looks at the server's version,
 * which it does not have before the greeting. */
static int ends_the_library(const uint8_t *data, size_t size)
{
    return size >= 7 && data[4] == 0xff && data[5] == 0xff && data[6] == 0xff;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const rowlock_driver *driver = rowlock_mysql();
    const rowlock_config config = {.size = sizeof config, .address = address, .prefix = "rowlock_"};
    void *conn = calloc(1, driver->conn_size);
    server *s = calloc(1, sizeof *s);
    rowlock_error err = {0};
    pthread_t thread;

    MUST(conn != NULL && s != NULL);
    if (ends_the_library(data, size)) {
        free(conn);
        free(s);
        return 0;
    }
    if (listener < 0)
        begin_to_listen();
    s->data = data;
    s->size = size;
    MUST(pthread_create(&thread, NULL, serve, s) == 0);
    MUST(driver->open(conn, &config, TIMEOUT_MS, &err) != ROWLOCK_OK);
    driver->close(conn);
    pthread_join(thread, NULL);
    fuzz_check_message(err.message);
    MUST(strstr(err.message, PASSWORD) == NULL);
    MUST(memmem(s->heard, s->heard_size, PASSWORD, sizeof PASSWORD - 1) == NULL);
    free(conn);
    free(s);
    return 0;
}
