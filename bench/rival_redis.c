/* SPDX-License-Identifier: MIT
 *
 * Redis: SET NX PX, released by a script that looks at the owner's token first. Who waits
 * subscribes to a channel on which the release says so, asks once more, and then listens: all who
 * wait are woken, and the first to ask has it. */
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "rivals.h"

#define RELEASE                                                     \
    "if redis.call('get', KEYS[1]) == ARGV[1] then "                \
    "redis.call('del', KEYS[1]) "                                   \
    "if ARGV[2] ~= '' then redis.call('publish', ARGV[2], '') end " \
    "return 1 end return 0"
#define RENEW                                        \
    "if redis.call('get', KEYS[1]) == ARGV[1] then " \
    "return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0"

typedef struct session {
    redisContext *commands, *channel; /* the second one for who has had to wait */
    char token[40], release[48], renew[48], subscribed[64];
    int tells; /* somebody may wait for what is held */
    size_t held;
} session;

static int failed(const redisContext *c, const redisReply *reply)
{
    if (reply != NULL && reply->type == REDIS_REPLY_ERROR)
        return bench_fail("redis: %s", reply->str);
    return bench_fail("redis: %s", c != NULL && c->err ? c->errstr : "an answer of another kind");
}

static redisContext *dial(const bench_rival *rival)
{
    const char *address = bench_address(rival->server), *colon = strrchr(address, ':');
    char host[100];
    struct timeval timeout = {BENCH_WAIT_MS / 1000, 0};
    redisContext *c;

    snprintf(host, sizeof host, "%.*s", (int)(colon - address), address);
    c = redisConnectWithTimeout(host, atoi(colon + 1), timeout);
    if (c == NULL || c->err) {
        failed(c, NULL);
        redisFree(c);
        return NULL;
    }
    redisSetTimeout(c, timeout);
    return c;
}

static int load_script(char out[48], redisContext *c, const char *text)
{
    redisReply *reply = redisCommand(c, "SCRIPT LOAD %s", text);
    int ok = reply != NULL && reply->type == REDIS_REPLY_STRING;

    if (ok)
        snprintf(out, 48, "%s", reply->str);
    else
        failed(c, reply);
    freeReplyObject(reply);
    return ok ? BENCH_OK : BENCH_FAILED;
}

static void close_session(void *state)
{
    session *s = state;

    redisFree(s->commands);
    redisFree(s->channel);
    free(s);
}

static int open_session(void **out, const bench_rival *rival, void *shared)
{
    session *s = calloc(1, sizeof *s);

    (void)shared;
    *out = s;
    snprintf(s->token, sizeof s->token, "%ld-%p", (long)getpid(), (void *)s);
    s->commands = dial(rival);
    if (s->commands == NULL || load_script(s->release, s->commands, RELEASE) != BENCH_OK)
        return BENCH_FAILED;
    s->channel = (rival->loads & IN(LOAD_HAND)) != 0 ? dial(rival) : NULL;
    return load_script(s->renew, s->commands, RENEW);
}

static int try_once(session *s, const char *name)
{
    redisReply *reply =
        redisCommand(s->commands, "SET %s %s NX PX %d", name, s->token, BENCH_TTL_MS);
    int answer = BENCH_FAILED;

    if (reply != NULL && reply->type == REDIS_REPLY_STATUS)
        answer = BENCH_OK;
    else if (reply != NULL && reply->type == REDIS_REPLY_NIL)
        answer = BENCH_BUSY;
    else
        failed(s->commands, reply);
    freeReplyObject(reply);
    return answer;
}

/* One message of the channel: that it is subscribed to, or that the lock was released. */
static int hear(session *s)
{
    redisReply *reply = NULL;

    if (redisGetReply(s->channel, (void **)&reply) != REDIS_OK)
        return failed(s->channel, NULL);
    freeReplyObject(reply);
    return BENCH_OK;
}

static int subscribe(session *s, const char *name)
{
    if (strcmp(s->subscribed, name) == 0)
        return BENCH_OK;
    snprintf(s->subscribed, sizeof s->subscribed, "%s", name);
    redisAppendCommand(s->channel, "SUBSCRIBE free:%s", name);
    return hear(s);
}

static int acquire(void *state, const char *name, int waits)
{
    session *s = state;
    int answer = try_once(s, name);

    s->tells = waits;
    if (answer != BENCH_BUSY || !waits)
        return answer;
    if (subscribe(s, name) != BENCH_OK)
        return BENCH_FAILED;
    while ((answer = try_once(s, name)) == BENCH_BUSY) {
        if (hear(s) != BENCH_OK)
            return BENCH_FAILED;
    }
    return answer;
}

static int release(void *state, const char *name)
{
    session *s = state;
    char channel[64] = "";
    redisReply *reply;
    int ok;

    if (s->tells)
        snprintf(channel, sizeof channel, "free:%s", name);
    reply = redisCommand(s->commands, "EVALSHA %s 1 %s %s %s", s->release, name, s->token, channel);
    ok = reply != NULL && reply->type == REDIS_REPLY_INTEGER && reply->integer == 1;
    if (!ok)
        failed(s->commands, reply);
    freeReplyObject(reply);
    return ok ? BENCH_OK : BENCH_FAILED;
}

/* ---- many, in one pipeline ---- */

enum { KEEP, RENEW_ALL, DROP };

static void append(session *s, int what, size_t i)
{
    char name[32];

    snprintf(name, sizeof name, "held-%zu", i);
    if (what == KEEP)
        redisAppendCommand(s->commands, "SET %s %s NX PX %d", name, s->token, BENCH_TTL_MS);
    else if (what == RENEW_ALL)
        redisAppendCommand(s->commands, "EVALSHA %s 1 %s %s %d", s->renew, name, s->token,
                           BENCH_TTL_MS);
    else
        redisAppendCommand(s->commands, "EVALSHA %s 1 %s %s %s", s->release, name, s->token, "");
}

static int pipeline(session *s, int what)
{
    int answer = BENCH_OK;

    for (size_t i = 0; i < s->held; i++)
        append(s, what, i);
    for (size_t i = 0; i < s->held; i++) {
        redisReply *reply = NULL;

        if (redisGetReply(s->commands, (void **)&reply) != REDIS_OK)
            return failed(s->commands, NULL);
        if (reply->type == REDIS_REPLY_ERROR || reply->type == REDIS_REPLY_NIL)
            answer = failed(s->commands, reply);
        freeReplyObject(reply);
    }
    return answer;
}

static int hold(void *state, size_t n, int ttl_ms)
{
    session *s = state;

    (void)ttl_ms;
    s->held = n;
    return pipeline(s, KEEP);
}

static int renew(void *state, uint64_t *renewed)
{
    session *s = state;

    *renewed = s->held;
    return pipeline(s, RENEW_ALL);
}

static int drop(void *state)
{
    return pipeline(state, DROP);
}

static int64_t statements(const bench_rival *rival)
{
    redisContext *c = dial(rival);
    redisReply *reply = c == NULL ? NULL : redisCommand(c, "INFO stats");
    const char *at = reply == NULL || reply->type != REDIS_REPLY_STRING
                         ? NULL
                         : strstr(reply->str, "total_commands_processed:");
    int64_t count = at == NULL ? -1 : atoll(strchr(at, ':') + 1);

    freeReplyObject(reply);
    redisFree(c);
    return count;
}

static void info(redisContext *c, const char *section, const char *key, char out[40])
{
    redisReply *reply = redisCommand(c, "INFO %s", section);
    const char *at =
        reply == NULL || reply->type != REDIS_REPLY_STRING ? NULL : strstr(reply->str, key);

    out[0] = '\0';
    if (at != NULL)
        snprintf(out, 40, "%.*s", (int)strcspn(at + strlen(key), "\r\n"), at + strlen(key));
    freeReplyObject(reply);
}

static int about(const bench_rival *rival, char *out, size_t size)
{
    redisContext *c = dial(rival);
    int is_always = rival == &bench_redis_always;
    char version[40], is_logged[40];

    if (c == NULL)
        return BENCH_FAILED;
    info(c, "server", "redis_version:", version);
    info(c, "persistence", "aof_enabled:", is_logged);
    redisFree(c);
    snprintf(out, size, "%s: Redis %s, %s", rival->name, version,
             is_always ? "appendonly yes, appendfsync always" : "nothing written to disk");
    return strcmp(is_logged, is_always ? "1" : "0") == 0
               ? BENCH_OK
               : bench_fail("%s: appendonly is not as it should be", rival->name);
}

#define REDIS_SLOTS                                                                       \
    .open = open_session, .close = close_session, .acquire = acquire, .release = release, \
    .hold = hold, .renew = renew, .drop = drop, .statements = statements, .about = about

enum { LOADS = BENCH_WAITING | IN(LOAD_RENEW) };

const bench_rival bench_redis = {
    .name = "redis",
    .server = "REDIS",
    .loads = LOADS,
    REDIS_SLOTS,
};
const bench_rival bench_redis_always = {
    .name = "redis always",
    .server = "REDIS_ALWAYS",
    .loads = LOADS,
    REDIS_SLOTS,
};
