/* SPDX-License-Identifier: MIT
 *
 * ZooKeeper's lock recipe: an ephemeral node with a number behind its name; the lowest has the
 * lock, each other one watches the one before it. */
#include "rivals.h"

static const char name[] = "zookeeper", server[] = "ZOOKEEPER";

enum { LOADS = BENCH_WAITING };

#if BENCH_HAVE_ZOOKEEPER

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <zookeeper/zookeeper.h>
#include <zookeeper/zookeeper_version.h>

typedef struct session {
    zhandle_t *zk;
    char parent[100], node[200];
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    int is_connected, is_rung;
} session;

static int failed(const char *what, int rc)
{
    return bench_fail("zookeeper: %s: %s", what, zerror(rc));
}

static void ring(session *s, int *flag)
{
    pthread_mutex_lock(&s->mutex);
    *flag = 1;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->mutex);
}

static int wait_for(session *s, int *flag)
{
    struct timespec until;
    int rc = 0;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += BENCH_WAIT_MS / 1000;
    pthread_mutex_lock(&s->mutex);
    while (!*flag && rc == 0)
        rc = pthread_cond_timedwait(&s->changed, &s->mutex, &until);
    pthread_mutex_unlock(&s->mutex);
    return rc == 0 ? BENCH_OK : bench_fail("zookeeper: waited for too long");
}

static void on_session(zhandle_t *zk, int type, int state, const char *path, void *context)
{
    session *s = context;

    (void)zk;
    (void)path;
    if (type == ZOO_SESSION_EVENT && state == ZOO_CONNECTED_STATE)
        ring(s, &s->is_connected);
}

static void on_gone(zhandle_t *zk, int type, int state, const char *path, void *context)
{
    session *s = context;

    (void)zk;
    (void)state;
    (void)path;
    if (type != ZOO_SESSION_EVENT)
        ring(s, &s->is_rung);
}

static int open_session(void **out, const bench_rival *rival, void *shared)
{
    session *s = calloc(1, sizeof *s);

    (void)shared;
    *out = s;
    zoo_set_debug_level(ZOO_LOG_LEVEL_ERROR);
    pthread_mutex_init(&s->mutex, NULL);
    pthread_cond_init(&s->changed, NULL);
    s->zk = zookeeper_init(bench_address(rival->server), on_session, BENCH_WAIT_MS, NULL, s, 0);
    return s->zk == NULL ? bench_fail("zookeeper: no client") : wait_for(s, &s->is_connected);
}

static void close_session(void *state)
{
    session *s = state;

    if (s->zk != NULL)
        zookeeper_close(s->zk);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->mutex);
    free(s);
}

/* The folder of a lock, made once. */
static int make_parent(session *s, const char *lock)
{
    int rc;

    snprintf(s->parent, sizeof s->parent, "/%s", lock);
    rc = zoo_create(s->zk, s->parent, "", 0, &ZOO_OPEN_ACL_UNSAFE, 0, NULL, 0);
    return rc == ZOK || rc == ZNODEEXISTS ? BENCH_OK : failed("create", rc);
}

/* Names end with ten digits, which order them. */
static const char *number_of(const char *node)
{
    size_t n = strlen(node);

    return n > 10 ? node + n - 10 : node;
}

/* The one just before ours; empty: ours is the first. */
static int look(session *s, char before[200])
{
    struct String_vector children;
    const char *best = NULL;
    int rc = zoo_get_children(s->zk, s->parent, 0, &children);

    if (rc != ZOK)
        return failed("children", rc);
    for (int i = 0; i < children.count; i++) {
        const char *number = number_of(children.data[i]);

        if (strcmp(number, number_of(s->node)) < 0 &&
            (best == NULL || strcmp(number, number_of(best)) > 0))
            best = children.data[i];
    }
    before[0] = '\0';
    if (best != NULL)
        snprintf(before, 200, "%s/%s", s->parent, best);
    deallocate_String_vector(&children);
    return BENCH_OK;
}

static int give_back(session *s)
{
    int rc = zoo_delete(s->zk, s->node, -1);

    s->node[0] = '\0';
    return rc == ZOK ? BENCH_OK : failed("delete", rc);
}

static int await(session *s, const char *before)
{
    int rc;

    s->is_rung = 0;
    rc = zoo_wexists(s->zk, before, on_gone, s, NULL);
    if (rc == ZNONODE) /* the watch is set, and would ring if it were made */
        return BENCH_OK;
    return rc == ZOK ? wait_for(s, &s->is_rung) : failed("exists", rc);
}

static int acquire(void *state, const char *lock, int waits)
{
    session *s = state;
    char path[200], before[200];
    int rc;

    if (strcmp(s->parent + (s->parent[0] != '\0'), lock) != 0 && make_parent(s, lock) != BENCH_OK)
        return BENCH_FAILED;
    snprintf(path, sizeof path, "%s/lock-", s->parent);
    rc = zoo_create(s->zk, path, "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_EPHEMERAL | ZOO_SEQUENCE, s->node,
                    sizeof s->node);
    if (rc != ZOK)
        return failed("create", rc);
    for (;;) {
        if (look(s, before) != BENCH_OK)
            return BENCH_FAILED;
        if (before[0] == '\0')
            return BENCH_OK;
        if (!waits)
            return give_back(s) == BENCH_OK ? BENCH_BUSY : BENCH_FAILED;
        if (await(s, before) != BENCH_OK)
            return BENCH_FAILED;
    }
}

static int release(void *state, const char *lock)
{
    (void)lock;
    return give_back(state);
}

static int about(const bench_rival *rival, char *out, size_t size)
{
    (void)rival;
    snprintf(out, size, "ZooKeeper, one server, forceSync as by default; client library %s",
             ZOO_VERSION);
    return BENCH_OK;
}

const bench_rival bench_zookeeper = {
    .name = name,
    .server = server,
    .loads = LOADS,
    .open = open_session,
    .close = close_session,
    .acquire = acquire,
    .release = release,
    .about = about,
};

#else /* its client library was not found */

static int setup(const bench_rival *rival)
{
    (void)rival;
    return bench_fail("this program was built without libzookeeper-mt-dev");
}

const bench_rival bench_zookeeper = {
    .name = name, .server = server, .loads = LOADS, .setup = setup};

#endif
