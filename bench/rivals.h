/* SPDX-License-Identifier: MIT
 *
 * The rivals, one file for each kind; what they share. */
#ifndef BENCH_RIVALS_H
#define BENCH_RIVALS_H

#include "bench.h"

/* Against which everything is measured. */
#define BENCH_BASE "redis"

/* What locks that can be waited for are measured with. */
#define BENCH_WAITING (IN(LOAD_CYCLE) | IN(LOAD_HAND) | IN(LOAD_HAND_PROC) | IN(LOAD_BUSY))

/* Tries until it is not BUSY, with pauses; once, if not `waits`. */
int bench_poll(int (*try_once)(void *session, const char *name), void *session, const char *name,
               int waits, int pause_ms);

/* A server that is asked for many connections at once may drop one, and opening is not measured: */
enum { BENCH_DIALS = 5, BENCH_DIAL_PAUSE_US = 200000 };

/* The long table of rowlock: rival_rowlock_fill.c */
int bench_fill_sqlite(const bench_rival *rival, uint64_t n);
int bench_fill_postgresql(const bench_rival *rival, uint64_t n);
int bench_fill_mysql(const bench_rival *rival, uint64_t n);

extern const bench_rival bench_rowlock_sqlite, bench_rowlock_postgresql, bench_rowlock_relaxed,
    bench_rowlock_sleeping, bench_rowlock_mariadb, bench_rowlock_mysql;
extern const bench_rival bench_floor_sqlite, bench_floor_postgresql, bench_floor_mariadb,
    bench_floor_mysql;
extern const bench_rival bench_redis, bench_redis_always, bench_etcd, bench_zookeeper, bench_flock;
extern const bench_rival bench_advisory, bench_get_lock;
extern const bench_rival bench_shedlock_postgresql, bench_shedlock_mariadb, bench_spring_postgresql,
    bench_spring_mariadb, bench_pglock, bench_userver, bench_river;

#endif
