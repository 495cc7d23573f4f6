/* SPDX-License-Identifier: MIT */
#include "rogue.h"

#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum { HEARD_MAX = 1 << 16, PACKET_MAX = 4096, HEADER = 4, PATIENCE_MS = 5000 };

/* Of the greeting and of the client's reply to it. */
enum {
    CAN_LONG_PASSWORD = 1,
    CAN_CONNECT_WITH_DB = 8,
    CAN_LOCAL_FILES = 128,
    CAN_PROTOCOL_41 = 512,
    CAN_TLS = 2048,
    CAN_TRANSACTIONS = 8192,
    CAN_SECURE_CONNECTION = 32768,
    CAN_MULTI = 3 << 16,
    CAN_PLUGIN_AUTH = 1 << 19
};

static const char maria[] = "10.11.6-MariaDB", scramble[] = "abcdefghijklmnopqrst";

struct rogue {
    pthread_t thread;
    pthread_mutex_t mutex;
    rogue_plan plan;
    uint16_t port;
    int listener, wake;
    /* under the mutex */
    char heard[HEARD_MAX];
    size_t length;
};

/* One connection: what is being written, and the number of the next packet. */
struct visit {
    rogue *rogue;
    int client;
    unsigned char packet[PACKET_MAX];
    size_t length;
    unsigned char number;
    char asked[PACKET_MAX]; /* the beginning of the client's last packet */
};

static void put(struct visit *v, const void *bytes, size_t n)
{
    if (v->length + n > sizeof v->packet)
        return;
    memcpy(v->packet + v->length, bytes, n);
    v->length += n;
}

static void put_number(struct visit *v, unsigned long number, int bytes)
{
    for (int i = 0; i < bytes; i++) {
        unsigned char byte = (unsigned char)(number >> (8 * i));
        put(v, &byte, 1);
    }
}

static void start_packet(struct visit *v)
{
    v->length = HEADER;
}

static int send_packet(struct visit *v)
{
    size_t n = v->length - HEADER;

    v->packet[0] = (unsigned char)n;
    v->packet[1] = (unsigned char)(n >> 8);
    v->packet[2] = 0;
    v->packet[3] = v->number++;
    return send(v->client, v->packet, v->length, MSG_NOSIGNAL) == (ssize_t)v->length ? 0 : -1;
}

/* Waits for the client, but not if the rogue is to stop. */
static int is_ready(const rogue *r, int fd, int timeout_ms)
{
    struct pollfd both[] = {{.fd = fd, .events = POLLIN}, {.fd = r->wake, .events = POLLIN}};

    return poll(both, 2, timeout_ms) > 0 && both[1].revents == 0;
}

static int hear(struct visit *v, unsigned char *out, size_t n)
{
    rogue *r = v->rogue;

    while (n > 0) {
        ssize_t got = is_ready(r, v->client, PATIENCE_MS) ? recv(v->client, out, n, 0) : -1;

        if (got <= 0)
            return -1;
        pthread_mutex_lock(&r->mutex);
        for (ssize_t i = 0; i < got && r->length < sizeof r->heard; i++)
            r->heard[r->length++] = (char)out[i];
        pthread_mutex_unlock(&r->mutex);
        out += got;
        n -= (size_t)got;
    }
    return 0;
}

/* The length of the client's next packet, which may be 0; -1: there is none. */
static int read_packet(struct visit *v)
{
    unsigned char header[HEADER], body[PACKET_MAX - 1];
    size_t n, left;

    if (hear(v, header, sizeof header) != 0)
        return -1;
    n = header[0] + 256U * header[1] + 65536U * header[2];
    v->number = (unsigned char)(header[3] + 1);
    for (left = n; left > 0;) {
        size_t part = left < sizeof body ? left : sizeof body;

        if (hear(v, body, part) != 0)
            return -1;
        if (left == n) {
            memcpy(v->asked, body, part);
            v->asked[part] = '\0';
        }
        left -= part;
    }
    return (int)n;
}

static const char *version_of(const struct visit *v)
{
    return v->rogue->plan.version != NULL ? v->rogue->plan.version : maria;
}

static int greet(struct visit *v)
{
    unsigned long can = CAN_LONG_PASSWORD | CAN_CONNECT_WITH_DB | CAN_LOCAL_FILES |
                        CAN_PROTOCOL_41 | CAN_TRANSACTIONS | CAN_SECURE_CONNECTION | CAN_MULTI |
                        CAN_PLUGIN_AUTH | (v->rogue->plan.says_tls ? CAN_TLS : 0);
    static const char zeros[10];

    start_packet(v);
    put_number(v, 10, 1);
    put(v, version_of(v), strlen(version_of(v)) + 1);
    put_number(v, 1, 4);
    put(v, scramble, 8);
    put_number(v, 0, 1);
    put_number(v, can, 2);
    put_number(v, 45, 1); /* utf8mb4 */
    put_number(v, 2, 2);  /* autocommit */
    put_number(v, can >> 16, 2);
    put_number(v, sizeof scramble, 1);
    put(v, zeros, sizeof zeros);
    put(v, scramble + 8, sizeof scramble - 8);
    put(v, "mysql_native_password", sizeof "mysql_native_password");
    return send_packet(v);
}

static int ask_for_password(struct visit *v)
{
    const char *plugin = v->rogue->plan.plugin;
    int is_dialog = strcmp(plugin, "dialog") == 0;

    start_packet(v);
    put_number(v, 254, 1);
    put(v, plugin, strlen(plugin) + 1);
    if (is_dialog)
        put(v, "\4Password: ", sizeof "\4Password: ");
    else
        put(v, scramble, sizeof scramble);
    return send_packet(v);
}

static int say_ok(struct visit *v, int has_more)
{
    const unsigned char ok[] = {0, 0, 0, has_more ? 10 : 2, 0, 0, 0};

    start_packet(v);
    put(v, ok, sizeof ok);
    return send_packet(v);
}

static int ask_for_file(struct visit *v)
{
    start_packet(v);
    put_number(v, 251, 1);
    put(v, v->rogue->plan.file, strlen(v->rogue->plan.file));
    return send_packet(v);
}

static int say_error(struct visit *v)
{
    start_packet(v);
    put_number(v, 255, 1);
    put_number(v, 1064, 2);
    put(v, "#42000" ROGUE_ERROR, strlen("#42000" ROGUE_ERROR));
    return send_packet(v);
}

static int say_end(struct visit *v)
{
    start_packet(v);
    put_number(v, 254, 1);
    put_number(v, 0, 2);
    put_number(v, 2, 2);
    return send_packet(v);
}

static void put_text(struct visit *v, const char *text)
{
    put_number(v, strlen(text), 1);
    put(v, text, strlen(text));
}

static int say_column(struct visit *v)
{
    static const char *const names[] = {"def", "", "", "", "c", ""};

    start_packet(v);
    for (int i = 0; i < 6; i++)
        put_text(v, names[i]);
    put_number(v, 12, 1);
    put_number(v, 45, 2);
    put_number(v, 255, 4);
    put_number(v, 253, 1); /* VARCHAR */
    put_number(v, 0, 5);
    return send_packet(v);
}

static int say_row(struct visit *v, const char *const *row, int n)
{
    int failed;

    start_packet(v);
    put_number(v, (unsigned long)n, 1);
    failed = send_packet(v);
    for (int i = 0; i < n; i++)
        failed |= say_column(v);
    failed |= say_end(v);
    start_packet(v);
    for (int i = 0; i < n; i++)
        put_text(v, row[i]);
    return failed | send_packet(v) | say_end(v);
}

/* The first packet of a session ends with the question for the server. */
static int answer_start(struct visit *v, const char *question)
{
    const char *const row[] = {version_of(v), "0", "16777216", "0", v->rogue->plan.comment, "0"};
    int failed = 0;

    for (const char *at = v->asked + 1; (at = strchr(at, ';')) != NULL && at < question; at++)
        failed |= say_ok(v, 1);
    return failed | say_row(v, row, 6);
}

static void pretend(struct visit *v)
{
    int failed = 0;

    while (!failed && read_packet(v) > 1) {
        const char *question = strstr(v->asked + 1, "SELECT VERSION()");

        if (question != NULL)
            failed = v->rogue->plan.does_all ? answer_start(v, question) : say_error(v);
        else if (strstr(v->asked + 1, "@@version_comment") != NULL)
            failed = say_row(v, &v->rogue->plan.comment, 1);
        else if (strstr(v->asked + 1, "ROLLBACK") != NULL)
            failed = say_ok(v, 0);
        else
            failed = say_error(v);
    }
}

static void receive(rogue *r, int client)
{
    struct visit v = {.rogue = r, .client = client};

    if (greet(&v) != 0 || read_packet(&v) < 0)
        return;
    while (r->plan.is_silent && read_packet(&v) >= 0)
        continue;
    if (r->plan.plugin != NULL && (ask_for_password(&v) != 0 || read_packet(&v) < 0))
        return;
    if (say_ok(&v, 0) != 0)
        return;
    if (r->plan.comment != NULL) {
        pretend(&v);
        return;
    }
    if (r->plan.file == NULL || read_packet(&v) < 0 || ask_for_file(&v) != 0)
        return;
    while (read_packet(&v) > 0)
        continue;
}

static void *run(void *payload)
{
    rogue *r = payload;

    while (is_ready(r, r->listener, -1)) {
        int client = accept4(r->listener, NULL, NULL, SOCK_CLOEXEC);

        if (client < 0)
            continue;
        receive(r, client);
        close(client);
    }
    return NULL;
}

static int listen_anywhere(uint16_t *port)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t length = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd >= 0 &&
        (bind(fd, (struct sockaddr *)&address, sizeof address) != 0 || listen(fd, 8) != 0 ||
         getsockname(fd, (struct sockaddr *)&address, &length) != 0)) {
        close(fd);
        fd = -1;
    }
    *port = ntohs(address.sin_port);
    return fd;
}

rogue *rogue_start(const rogue_plan *plan)
{
    rogue *r = calloc(1, sizeof *r);

    if (r == NULL)
        return NULL;
    r->plan = *plan;
    r->listener = listen_anywhere(&r->port);
    r->wake = eventfd(0, EFD_CLOEXEC);
    pthread_mutex_init(&r->mutex, NULL);
    if (r->listener >= 0 && r->wake >= 0 && pthread_create(&r->thread, NULL, run, r) == 0)
        return r;
    if (r->listener >= 0)
        close(r->listener);
    if (r->wake >= 0)
        close(r->wake);
    free(r);
    return NULL;
}

void rogue_stop(rogue *r)
{
    if (r == NULL)
        return;
    eventfd_write(r->wake, 1);
    pthread_join(r->thread, NULL);
    pthread_mutex_destroy(&r->mutex);
    close(r->listener);
    close(r->wake);
    free(r);
}

uint16_t rogue_port(const rogue *r)
{
    return r->port;
}

size_t rogue_heard(rogue *r)
{
    size_t length;

    pthread_mutex_lock(&r->mutex);
    length = r->length;
    pthread_mutex_unlock(&r->mutex);
    return length;
}

int rogue_heard_text(rogue *r, const char *text)
{
    int found;

    pthread_mutex_lock(&r->mutex);
    found = memmem(r->heard, r->length, text, strlen(text)) != NULL;
    pthread_mutex_unlock(&r->mutex);
    return found;
}
