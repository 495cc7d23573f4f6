/* SPDX-License-Identifier: MIT
 *
 * Faults of the processes that hold locks. */
#include "nemesis.h"

#include "process.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int send_one(struct nemesis *n, int number)
{
    struct worker *worker = nemesis_worker(n);

    return worker != NULL && kill(worker->pid, number) == 0;
}

int worker_kill(struct nemesis *n)
{
    struct worker *worker = nemesis_worker(n);

    if (worker == NULL)
        return 0;
    worker->is_expected = 1;
    return kill(worker->pid, SIGKILL) == 0;
}

int worker_end(struct nemesis *n)
{
    struct worker *worker = nemesis_worker(n);

    if (worker == NULL)
        return 0;
    worker->is_expected = 1;
    return kill(worker->pid, SIGTERM) == 0;
}

int worker_stop(struct nemesis *n)
{
    n->victim = nemesis_worker(n);
    return n->victim != NULL && kill(n->victim->pid, SIGSTOP) == 0;
}

void worker_continue(struct nemesis *n)
{
    kill(n->victim->pid, SIGCONT);
}

int worker_fork(struct nemesis *n)
{
    return send_one(n, SIGUSR1);
}

int worker_descriptors(struct nemesis *n)
{
    return send_one(n, SIGUSR2);
}

int worker_interrupt(struct nemesis *n)
{
    struct worker *worker = nemesis_worker(n);

    for (int i = 0; i < 200 && worker != NULL; i++) {
        kill(worker->pid, SIGRTMIN);
        process_sleep_ms(1);
    }
    return worker != NULL;
}

/* ---- the freezer of control groups ----------------------------------------------------------- */

static int write_file(const char *folder, const char *file, const char *text)
{
    char path[384];
    ssize_t length = (ssize_t)strlen(text);
    int fd, failed;

    snprintf(path, sizeof(path), "%s/%s", folder, file);
    fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    failed = write(fd, text, (size_t)length) != length;
    close(fd);
    return failed ? -1 : 0;
}

/* Our own group's folder in a hierarchy: "N:NAME:/PATH" in /proc/self/cgroup. */
static int own_group(char *out, size_t size, const char *name, const char *mount)
{
    FILE *file = fopen("/proc/self/cgroup", "r");
    char line[512], *path;
    int found = 0;

    while (file != NULL && !found && fgets(line, sizeof(line), file) != NULL) {
        path = strchr(line, ':');
        if (path == NULL || strncmp(path + 1, name, strlen(name)) != 0 ||
            path[1 + strlen(name)] != ':')
            continue;
        path += strlen(name) + 2;
        path[strcspn(path, "\n")] = '\0';
        snprintf(out, size, "%s%s", mount, strcmp(path, "/") == 0 ? "" : path);
        found = 1;
    }
    if (file != NULL)
        fclose(file);
    return found ? 0 : -1;
}

/* Makes a group below our own; 0 if it has a freezer. */
static int make_group(struct nemesis *n, const char *name, const char *mount, const char *file)
{
    char own[200], path[300];

    if (own_group(own, sizeof(own), name, mount) != 0)
        return -1;
    snprintf(n->freezer, sizeof(n->freezer), "%s/rowlock-proof.%d", own, (int)getpid());
    if (mkdir(n->freezer, 0755) != 0)
        return -1;
    snprintf(path, sizeof(path), "%s/%s", n->freezer, file);
    if (access(path, W_OK) == 0)
        return 0;
    rmdir(n->freezer);
    return -1;
}

static int freeze(struct nemesis *n, int on)
{
    if (write_file(n->freezer, "freezer.state", on ? "FROZEN" : "THAWED") == 0)
        return 0;
    return write_file(n->freezer, "cgroup.freeze", on ? "1" : "0");
}

int worker_freeze(struct nemesis *n)
{
    static int is_missing;
    char pid[32];

    n->victim = nemesis_worker(n);
    if (is_missing || n->victim == NULL)
        return 0;
    if (make_group(n, "freezer", "/sys/fs/cgroup/freezer", "freezer.state") != 0 &&
        make_group(n, "", "/sys/fs/cgroup", "cgroup.freeze") != 0 &&
        make_group(n, "", "/sys/fs/cgroup/unified", "cgroup.freeze") != 0) {
        fprintf(stderr, "*** proof_run: no freezer of control groups here: worker-freeze is NOT "
                        "TESTED ***\n");
        is_missing = 1;
        return 0;
    }
    snprintf(pid, sizeof(pid), "%d", (int)n->victim->pid);
    if (write_file(n->freezer, "cgroup.procs", pid) == 0 && freeze(n, 1) == 0)
        return 1;
    worker_thaw(n);
    return 0;
}

void worker_thaw(struct nemesis *n)
{
    char parent[256], pid[32];

    freeze(n, 0);
    snprintf(parent, sizeof(parent), "%s", n->freezer);
    *strrchr(parent, '/') = '\0';
    snprintf(pid, sizeof(pid), "%d", (int)n->victim->pid);
    write_file(parent, "cgroup.procs", pid);
    for (int i = 0; i < 100 && rmdir(n->freezer) != 0; i++)
        process_sleep_ms(5);
}
