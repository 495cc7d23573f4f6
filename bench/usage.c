/* SPDX-License-Identifier: MIT
 *
 * What an operation costs besides time. */
#include <dirent.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"

int64_t bench_client_ns(void)
{
    struct rusage u;

    if (getrusage(RUSAGE_SELF, &u) != 0)
        return 0;
    return ((int64_t)u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000000 +
           ((int64_t)u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1000;
}

/* Segments with data that this socket has sent; 0 if it is none of TCP's. A request is one: on
 * loopback they are as large as 64 KiB. */
static int64_t segments_sent(int fd)
{
    struct tcp_info info;
    socklen_t size = sizeof info;

    memset(&info, 0, sizeof info);
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0)
        return 0;
    return info.tcpi_data_segs_out;
}

static _Atomic int64_t closed; /* what sockets had sent that are closed by now */

/* Instead of libc's: a connection that is closed takes its count along. */
int close(int fd)
{
    atomic_fetch_add(&closed, segments_sent(fd));
    return (int)syscall(SYS_close, fd);
}

int64_t bench_requests(void)
{
    DIR *folder = opendir("/proc/self/fd");
    int64_t sum = atomic_load(&closed);
    struct dirent *entry;

    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        if (entry->d_name[0] != '.')
            sum += segments_sent(atoi(entry->d_name));
    }
    if (folder != NULL)
        closedir(folder);
    return sum;
}

/* Time on processors, with threads that have ended. */
static int64_t process_ns(long pid)
{
    clockid_t clock;
    struct timespec t;

    if (clock_getcpuclockid((pid_t)pid, &clock) != 0 || clock_gettime(clock, &t) != 0)
        return 0;
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* The parent of a process, and the time of its children that have ended. The second word of stat,
 * in parentheses, may hold anything. */
static long parent_of(long pid, int64_t *ended_ns)
{
    char path[64], line[512], *at;
    long parent = 0;
    long long user = 0, system = 0;
    FILE *file;

    *ended_ns = 0;
    snprintf(path, sizeof path, "/proc/%ld/stat", pid);
    file = fopen(path, "re");
    if (file == NULL)
        return 0;
    if (fgets(line, sizeof line, file) != NULL && (at = strrchr(line, ')')) != NULL)
        sscanf(at + 1, " %*c %ld %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %lld %lld", &parent,
               &user, &system);
    fclose(file);
    *ended_ns = (user + system) * (1000000000 / sysconf(_SC_CLK_TCK));
    return parent;
}

/* Servers have children, but no grandchildren. */
int64_t bench_server_ns(const bench_rival *rival)
{
    long server = bench_server_pid(rival->server);
    DIR *folder = server == 0 ? NULL : opendir("/proc");
    struct dirent *entry;
    int64_t sum = 0, ended;

    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        long pid = atol(entry->d_name);
        long parent = pid > 0 ? parent_of(pid, &ended) : 0;

        if (pid > 0 && (pid == server || parent == server))
            sum += process_ns(pid) + (pid == server ? ended : 0);
    }
    if (folder != NULL)
        closedir(folder);
    return sum;
}
