/* SPDX-License-Identifier: MIT
 *
 * Redis: SET key value NX PX ttl, released by the script that compares the value. ADDRESS: a port
 * of 127.0.0.1. */
#include "lockset.h"

#include "process.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RELEASE \
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end"

static int open_redis(struct lockset *set)
{
    redisContext *redis = redisConnect("127.0.0.1", atoi(set->address));

    set->own = redis;
    return redis != NULL && redis->err == 0 ? 0 : -1;
}

static void close_redis(struct lockset *set)
{
    redisFree(set->own);
}

/* 1: locked; 0: somebody else has it; -1: an error. */
static int try_lock(struct lockset *set, const char *value)
{
    redisReply *reply =
        redisCommand(set->own, "SET set-%d %s NX PX %d", set->number, value, LOCKSET_TTL_MS);
    int locked = reply == NULL ? -1 : reply->type == REDIS_REPLY_STATUS;

    freeReplyObject(reply);
    return locked;
}

static enum lockset_outcome add(struct lockset *set, long number)
{
    enum lockset_outcome outcome;
    char value[64];
    int locked;

    snprintf(value, sizeof(value), "%d-%ld", (int)getpid(), number);
    while ((locked = try_lock(set, value)) == 0)
        process_sleep_ms(5);
    if (locked < 0)
        return LOCKSET_REFUSED;
    lockset_stage(set, 1);
    outcome = lockset_file_add(set, number);
    lockset_stage(set, 0);
    freeReplyObject(redisCommand(set->own, "EVAL %s 1 set-%d %s", RELEASE, set->number, value));
    return outcome;
}

const struct lockset_kind lockset_redis = {
    "redis", 1U << LOCKSET_LEASE, lockset_file_create, open_redis,
    add,     lockset_file_read,   close_redis};
