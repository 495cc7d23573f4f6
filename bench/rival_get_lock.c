/* SPDX-License-Identifier: MIT
 *
 * GET_LOCK: the server's own locks, which live as long as the connection. Not durable, no lease, no
 * fence. */
#include <stdio.h>

#include "my.h"

static int acquire(void *session, const char *name, int waits)
{
    my_answer answer;
    int rc = my_run(session, &answer, "SELECT GET_LOCK('%s', %d)", name,
                    waits ? BENCH_WAIT_MS / 1000 : 0);

    return rc != BENCH_OK ? rc : answer.values[0] == 1 ? BENCH_OK : BENCH_BUSY;
}

static int release(void *session, const char *name)
{
    my_answer answer;
    int rc = my_run(session, &answer, "SELECT RELEASE_LOCK('%s')", name);

    return rc != BENCH_OK ? rc : answer.values[0] == 1 ? BENCH_OK : bench_fail("not released");
}

/* Of the server, for all rivals on it. */
static int about(const bench_rival *rival, char *out, size_t size)
{
    void *session = NULL;
    my_answer answer = {0};
    int rc = my_open(&session, rival, NULL);

    if (rc == BENCH_OK)
        rc = my_run(session, &answer, "SELECT @@innodb_flush_log_at_trx_commit, @@log_bin");
    if (rc == BENCH_OK)
        snprintf(out, size, "MariaDB %s, innodb_flush_log_at_trx_commit %lld, log_bin %lld",
                 mysql_get_server_info(((my_session *)session)->my), answer.values[0],
                 answer.values[1]);
    my_close(session);
    if (rc == BENCH_OK && answer.values[0] != 1)
        return bench_fail("mariadb is not set to keep what is committed");
    return rc;
}

const bench_rival bench_get_lock = {
    .name = "GET_LOCK mariadb",
    .server = "MARIADB",
    .loads = BENCH_WAITING | IN(LOAD_REENTRY),
    .open = my_open,
    .close = my_close,
    .acquire = acquire,
    .release = release,
    .statements = my_statements,
    .about = about,
};
