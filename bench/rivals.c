/* SPDX-License-Identifier: MIT */
#include "rivals.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

const bench_rival *const bench_rivals[] = {
    &bench_rowlock_sqlite,
    &bench_floor_sqlite,
    &bench_rowlock_postgresql,
    &bench_rowlock_relaxed,
    &bench_rowlock_sleeping,
    &bench_floor_postgresql,
    &bench_userver,
    &bench_shedlock_postgresql,
    &bench_spring_postgresql,
    &bench_pglock,
    &bench_river,
    &bench_advisory,
    &bench_rowlock_mariadb,
    &bench_floor_mariadb,
    &bench_shedlock_mariadb,
    &bench_spring_mariadb,
    &bench_get_lock,
    &bench_rowlock_mysql,
    &bench_floor_mysql,
    &bench_redis,
    &bench_redis_always,
    &bench_etcd,
    &bench_zookeeper,
    &bench_flock,
    NULL,
};

int bench_poll(int (*try_once)(void *session, const char *name), void *session, const char *name,
               int waits, int pause_ms)
{
    const struct timespec pause = {0, pause_ms * 1000000L};
    int64_t end = bench_now_ns() + (int64_t)BENCH_WAIT_MS * 1000000;
    int answer = try_once(session, name);

    while (waits && answer == BENCH_BUSY && bench_now_ns() < end) {
        nanosleep(&pause, NULL);
        answer = try_once(session, name);
    }
    return answer;
}

const bench_rival *bench_rival_named(const char *name)
{
    for (int i = 0; bench_rivals[i] != NULL; i++) {
        if (strcmp(bench_rivals[i]->name, name) == 0)
            return bench_rivals[i];
    }
    return NULL;
}

const char *bench_address(const char *server)
{
    char name[64];
    const char *value;

    snprintf(name, sizeof name, "ROWLOCK_BENCH_%s", server);
    value = getenv(name);
    return value != NULL && *value != '\0' ? value : NULL;
}

long bench_server_pid(const char *server)
{
    char name[64];
    const char *value;

    snprintf(name, sizeof name, "ROWLOCK_BENCH_%s_PID", server);
    value = getenv(name);
    return value == NULL ? 0 : atol(value);
}

const char *bench_folder(void)
{
    const char *folder = getenv("ROWLOCK_BENCH_FOLDER");

    return folder != NULL && *folder != '\0' ? folder : ".";
}
