/* SPDX-License-Identifier: MIT */
#include "fake_postgresql.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

enum { HEARD_MAX = 65536, MESSAGE_MAX = 16384, REPLY_MAX = 4096, PATIENCE_S = 30 };

enum { SSL_REQUEST = 80877103, GSS_REQUEST = 80877104, TEXT_TYPE = 25 };

struct fake_postgresql {
    fake_plan plan;
    int listener;
    int wake[2]; /* the thread ends when it is closed */
    uint16_t port;
    pthread_t thread;
    pthread_mutex_t mutex;
    size_t heard; /* may be more than what is kept */
    char kept[HEARD_MAX];
};

/* One connection, and the message that is put together for it. */
struct talk {
    fake_postgresql *fake;
    int fd;
    char message[MESSAGE_MAX]; /* the last one received, and its length */
    size_t length;
    char reply[REPLY_MAX];
    size_t used, start;        /* start: of the length of the message that is begun */
    const fake_answer *answer; /* to the last Parse; NULL: an error */
    int is_failed;             /* until the next Sync */
};

/* ---- receiving ------------------------------------------------------------------------------- */

static void keep(fake_postgresql *fake, const char *bytes, size_t n)
{
    pthread_mutex_lock(&fake->mutex);
    for (size_t i = 0; i < n; i++, fake->heard++)
        if (fake->heard < HEARD_MAX)
            fake->kept[fake->heard] = bytes[i];
    pthread_mutex_unlock(&fake->mutex);
}

static int receive(struct talk *talk, char *out, size_t n)
{
    struct pollfd polled[] = {{.fd = talk->fd, .events = POLLIN},
                              {.fd = talk->fake->wake[0], .events = POLLIN}};

    for (size_t got = 0; got < n;) {
        ssize_t more;

        if (poll(polled, 2, PATIENCE_S * 1000) <= 0 || polled[1].revents != 0)
            return 0;
        more = recv(talk->fd, out + got, n - got, 0);
        if (more <= 0)
            return 0;
        keep(talk->fake, out + got, (size_t)more);
        got += (size_t)more;
    }
    return 1;
}

/* The rest of a message, after its type. */
static int receive_message(struct talk *talk)
{
    uint32_t length;

    if (!receive(talk, (char *)&length, sizeof(length)))
        return 0;
    talk->length = ntohl(length) - sizeof(length);
    if (talk->length >= sizeof(talk->message) || !receive(talk, talk->message, talk->length))
        return 0;
    talk->message[talk->length] = '\0';
    return 1;
}

/* ---- replying -------------------------------------------------------------------------------- */

static void put(struct talk *talk, const void *bytes, size_t n)
{
    if (n > 0 && talk->used + n <= sizeof(talk->reply))
        memcpy(talk->reply + talk->used, bytes, n);
    talk->used += n;
}

static void put_text(struct talk *talk, const char *text)
{
    put(talk, text, strlen(text) + 1);
}

static void put32(struct talk *talk, uint32_t number)
{
    number = htonl(number);
    put(talk, &number, sizeof(number));
}

static void put16(struct talk *talk, int number)
{
    uint16_t ordered = htons((uint16_t)number);

    put(talk, &ordered, sizeof(ordered));
}

static void begin(struct talk *talk, char type)
{
    put(talk, &type, 1);
    talk->start = talk->used;
    put32(talk, 0);
}

static void end(struct talk *talk)
{
    uint32_t length = htonl((uint32_t)(talk->used - talk->start));

    if (talk->used <= sizeof(talk->reply))
        memcpy(talk->reply + talk->start, &length, sizeof(length));
}

static int send_all(struct talk *talk)
{
    size_t n = talk->used;

    talk->used = 0;
    return n <= sizeof(talk->reply) && send(talk->fd, talk->reply, n, MSG_NOSIGNAL) == (ssize_t)n;
}

static void put_empty(struct talk *talk, char type)
{
    begin(talk, type);
    end(talk);
}

static void put_ready(struct talk *talk)
{
    begin(talk, 'Z');
    put(talk, "I", 1);
    end(talk);
}

static void put_error(struct talk *talk)
{
    begin(talk, 'E');
    put_text(talk, "SERROR");
    put_text(talk, "VERROR");
    put_text(talk, "C42883");
    put_text(talk, "M" FAKE_POSTGRESQL_ERROR);
    put_text(talk, "");
    end(talk);
    talk->is_failed = 1;
}

static void put_description(struct talk *talk)
{
    begin(talk, 'T');
    put16(talk, talk->answer->n);
    for (int i = 0; i < talk->answer->n; i++) {
        put_text(talk, "field");
        put32(talk, 0);
        put16(talk, 0);
        put32(talk, TEXT_TYPE);
        put16(talk, -1);
        put32(talk, UINT32_MAX);
        put16(talk, 1);
    }
    end(talk);
}

static void put_row(struct talk *talk)
{
    begin(talk, 'D');
    put16(talk, talk->answer->n);
    for (int i = 0; i < talk->answer->n; i++) {
        put32(talk, (uint32_t)talk->answer->fields[i].length);
        put(talk, talk->answer->fields[i].bytes, talk->answer->fields[i].length);
    }
    end(talk);
    begin(talk, 'C');
    put_text(talk, "SELECT 1");
    end(talk);
}

/* ---- a connection ---------------------------------------------------------------------------- */

/* Behind the name of the prepared statement stands its text. */
static void parse(struct talk *talk)
{
    const char *text = talk->message + strlen(talk->message) + 1;
    const fake_answer *answer = talk->fake->plan.answers;

    while (answer != NULL && answer->to != NULL && strstr(text, answer->to) == NULL)
        answer++;
    talk->answer = answer != NULL && answer->to != NULL && answer->n > 0 ? answer : NULL;
    if (talk->answer == NULL)
        put_error(talk);
    else
        put_empty(talk, '1');
}

static void reply(struct talk *talk, char type)
{
    if (type == 'S') {
        talk->is_failed = 0;
        put_ready(talk);
    } else if (talk->is_failed) {
        return;
    } else if (type == 'P') {
        parse(talk);
    } else if (type == 'B') {
        put_empty(talk, '2');
    } else if (type == 'D') {
        put_description(talk);
    } else if (type == 'E') {
        put_row(talk);
    }
}

static int ask_password(struct talk *talk)
{
    char type;

    begin(talk, 'R');
    put32(talk, 3);
    end(talk);
    return send_all(talk) && receive(talk, &type, 1) && receive_message(talk);
}

/* No encryption is offered; then comes the real start. */
static int receive_start(struct talk *talk)
{
    for (;;) {
        uint32_t code;

        if (!receive_message(talk) || talk->length < sizeof(code))
            return 0;
        memcpy(&code, talk->message, sizeof(code));
        if (ntohl(code) != SSL_REQUEST && ntohl(code) != GSS_REQUEST)
            return 1;
        put(talk, "N", 1);
        if (!send_all(talk))
            return 0;
    }
}

static int greet(struct talk *talk)
{
    if (!receive_start(talk) || (talk->fake->plan.asks_password && !ask_password(talk)))
        return 0;
    begin(talk, 'R');
    put32(talk, 0);
    end(talk);
    for (const char *const *name = talk->fake->plan.parameters; *name != NULL; name += 2) {
        begin(talk, 'S');
        put_text(talk, name[0]);
        put_text(talk, name[1]);
        end(talk);
    }
    begin(talk, 'K');
    put32(talk, FAKE_POSTGRESQL_PID);
    put32(talk, 1);
    end(talk);
    put_ready(talk);
    return send_all(talk);
}

static void serve(fake_postgresql *fake, int fd)
{
    struct talk talk = {.fake = fake, .fd = fd};
    char type;

    if (!greet(&talk))
        return;
    while (receive(&talk, &type, 1) && receive_message(&talk) && type != 'X') {
        reply(&talk, type);
        if (type == 'S' && !send_all(&talk))
            return;
    }
}

static void *run(void *argument)
{
    fake_postgresql *fake = argument;
    struct pollfd polled[] = {{.fd = fake->listener, .events = POLLIN},
                              {.fd = fake->wake[0], .events = POLLIN}};

    while (poll(polled, 2, -1) > 0 && polled[1].revents == 0) {
        int fd = accept(fake->listener, NULL, NULL);

        if (fd < 0)
            continue;
        serve(fake, fd);
        close(fd);
    }
    return NULL;
}

/* ---- starting and stopping ------------------------------------------------------------------- */

static int listen_on(fake_postgresql *fake)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t length = sizeof(address);

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    fake->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fake->listener < 0 ||
        bind(fake->listener, (struct sockaddr *)&address, sizeof(address)) != 0 ||
        listen(fake->listener, 16) != 0 ||
        getsockname(fake->listener, (struct sockaddr *)&address, &length) != 0)
        return -1;
    fake->port = ntohs(address.sin_port);
    return 0;
}

fake_postgresql *fake_postgresql_start(const fake_plan *plan)
{
    fake_postgresql *fake = calloc(1, sizeof(*fake));

    if (fake == NULL)
        return NULL;
    fake->plan = *plan;
    pthread_mutex_init(&fake->mutex, NULL);
    if (listen_on(fake) == 0 && pipe(fake->wake) == 0) {
        if (pthread_create(&fake->thread, NULL, run, fake) == 0)
            return fake;
        close(fake->wake[0]);
        close(fake->wake[1]);
    }
    if (fake->listener >= 0)
        close(fake->listener);
    pthread_mutex_destroy(&fake->mutex);
    free(fake);
    return NULL;
}

void fake_postgresql_stop(fake_postgresql *fake)
{
    if (fake == NULL)
        return;
    close(fake->wake[1]);
    pthread_join(fake->thread, NULL);
    close(fake->wake[0]);
    close(fake->listener);
    pthread_mutex_destroy(&fake->mutex);
    free(fake);
}

uint16_t fake_postgresql_port(const fake_postgresql *fake)
{
    return fake->port;
}

size_t fake_postgresql_heard(fake_postgresql *fake)
{
    size_t heard;

    pthread_mutex_lock(&fake->mutex);
    heard = fake->heard;
    pthread_mutex_unlock(&fake->mutex);
    return heard;
}

int fake_postgresql_heard_text(fake_postgresql *fake, const char *text)
{
    int found;

    pthread_mutex_lock(&fake->mutex);
    found = memmem(fake->kept, fake->heard < HEARD_MAX ? fake->heard : HEARD_MAX, text,
                   strlen(text)) != NULL;
    pthread_mutex_unlock(&fake->mutex);
    return found;
}
