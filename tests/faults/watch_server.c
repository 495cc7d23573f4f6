/* SPDX-License-Identifier: MIT */
#include "watch_server.h"

#include "process.h"

#include <ctype.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { START_MS = 120000, END_MS = 20000, CHILDREN = 256 };

/* ---- the script ------------------------------------------------------------------------------ */

struct script {
    const char *command, *folder, *option, *more;
};

static int run_script(void *payload)
{
    const struct script *script = payload;

    execl(SERVERS, SERVERS, script->command, script->folder, script->option, script->more,
          (char *)NULL);
    return 127;
}

static int script(const char *command, const char *folder, const char *option, const char *more)
{
    struct script it = {command, folder, option, more};
    pid_t pid = process_start(run_script, &it);

    return pid > 0 && process_wait(pid, START_MS) == 0 ? 0 : -1;
}

/* Finds "export ROWLOCK_TEST_<KIND><suffix>=value" in the script's file. */
static int read_variable(char *out, size_t size, const struct watch_server *server,
                         const char *variable)
{
    char path[128], line[1024], begin[128];
    FILE *file;
    int found = 0;

    snprintf(path, sizeof(path), "%s/env", server->folder);
    snprintf(begin, sizeof(begin), "export ROWLOCK_TEST_%s=", variable);
    file = fopen(path, "r");
    while (file != NULL && !found && fgets(line, sizeof(line), file) != NULL) {
        const char *value = line + strlen(begin);

        found = strncmp(line, begin, strlen(begin)) == 0;
        if (found && *value == '\'')
            value++;
        if (found)
            snprintf(out, size, "%.*s", (int)strcspn(value, "'\n"), value);
    }
    if (file != NULL)
        fclose(file);
    return found ? 0 : -1;
}

/* ---- its processes --------------------------------------------------------------------------- */

static int read_strings(char *out, size_t *length, size_t size, pid_t pid, const char *file)
{
    char path[64];
    ssize_t n;
    int fd;

    snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, file);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    n = read(fd, out, size);
    close(fd);
    *length = n > 0 ? (size_t)n : 0;
    return n > 0 && n < (ssize_t)size ? 0 : -1;
}

static int read_command(struct watch_server *server)
{
    struct stat info;
    char path[64];

    snprintf(path, sizeof(path), "/proc/%d", (int)server->pid);
    if (stat(path, &info) != 0)
        return -1;
    server->uid = info.st_uid;
    server->gid = info.st_gid;
    return read_strings(server->command, &server->command_length, sizeof(server->command),
                        server->pid, "cmdline");
}

static size_t children(pid_t *out, pid_t pid)
{
    char path[64];
    FILE *file;
    size_t n = 0;
    int child;

    snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)pid, (int)pid);
    file = fopen(path, "r");
    while (file != NULL && n < CHILDREN && fscanf(file, "%d", &child) == 1)
        out[n++] = (pid_t)child;
    if (file != NULL)
        fclose(file);
    return n;
}

/* Gone, or dead and not yet buried by whoever is its parent. */
static int is_gone(pid_t pid)
{
    char path[64], mode = 'Z';
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    file = fopen(path, "r");
    if (file == NULL)
        return 1;
    if (fscanf(file, "%*d (%*[^)]) %c", &mode) != 1)
        mode = 'Z';
    fclose(file);
    return mode == 'Z' || mode == 'X';
}

static int await_end(pid_t pid)
{
    int64_t until = process_now_ms() + END_MS;

    while (!is_gone(pid)) {
        if (process_now_ms() > until)
            return -1;
        process_sleep_ms(1);
    }
    return 0;
}

int watch_server_signal(const struct watch_server *server, int number)
{
    pid_t pids[CHILDREN];
    size_t n;

    if (server->pid <= 0 || kill(server->pid, number) != 0)
        return -1;
    n = children(pids, server->pid);
    for (size_t i = 0; i < n; i++)
        kill(pids[i], number);
    return 0;
}

int watch_server_is_gone(const struct watch_server *server)
{
    return server->pid <= 0 || is_gone(server->pid);
}

/* What libfaketime leaves of a process that was killed. */
static void forget_clock(pid_t pid)
{
    char name[64];

    snprintf(name, sizeof(name), "/dev/shm/faketime_shm_%d", (int)pid);
    unlink(name);
    snprintf(name, sizeof(name), "/dev/shm/sem.faketime_sem_%d", (int)pid);
    unlink(name);
}

/* The parent is stopped first, so that it makes no more of them. */
int watch_server_kill(struct watch_server *server)
{
    pid_t pids[CHILDREN];
    size_t n;
    int failed;

    if (server->pid <= 0 || kill(server->pid, SIGSTOP) != 0)
        return -1;
    n = children(pids, server->pid);
    kill(server->pid, SIGKILL);
    for (size_t i = 0; i < n; i++)
        kill(pids[i], SIGKILL);
    failed = await_end(server->pid);
    for (size_t i = 0; i < n; i++)
        failed |= await_end(pids[i]);
    if (server->is_child)
        waitpid(server->pid, NULL, 0);
    forget_clock(server->pid);
    server->pid = 0;
    return failed;
}

/* ---- starting -------------------------------------------------------------------------------- */

static size_t point_at(char **out, size_t most, char *strings, size_t length)
{
    size_t n = 0;

    for (size_t at = 0; at < length && n < most - 1; at += strlen(strings + at) + 1)
        out[n++] = strings + at;
    out[n] = NULL;
    return n;
}

/* A pooler that was told to detach itself (-d) is to stay our child. */
static void stay(char **arguments)
{
    for (; *arguments != NULL && strcmp(*arguments, "-d") != 0; arguments++)
        continue;
    for (; *arguments != NULL; arguments++)
        arguments[0] = arguments[1];
}

static int become_server(void *payload)
{
    struct watch_server *server = payload;
    char *arguments[64], *variables[128];
    int fd;

    point_at(arguments, 64, server->command, server->command_length);
    if (strcmp(server->kind, "pgbouncer") == 0)
        stay(arguments);
    if (point_at(variables, 128, server->environment, server->environment_length) > 0)
        environ = variables;
    if (getuid() == 0 && (setgid(server->gid) != 0 || setuid(server->uid) != 0))
        return 126;
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* forgotten with the change of user */
    setsid();
    fd = open("/dev/null", O_RDWR);
    if (fd < 0 || chdir("/") != 0 || dup2(fd, 0) < 0 || dup2(fd, 1) < 0 || dup2(fd, 2) < 0)
        return 126;
    execvp(arguments[0], arguments);
    return 127;
}

int watch_server_again(struct watch_server *server)
{
    server->pid = process_start(become_server, server);
    server->is_child = 1;
    return server->pid > 0 ? 0 : -1;
}

int watch_server_nudge(struct watch_server *server)
{
    if (!server->is_child || waitpid(server->pid, NULL, WNOHANG) != server->pid)
        return 0;
    return watch_server_again(server);
}

static int start(struct watch_server *out, const char *kind, const char *option, const char *more)
{
    int pg = strcmp(kind, "postgresql") == 0;
    char pid[32] = "";

    memset(out, 0, sizeof(*out));
    out->kind = kind;
    snprintf(out->folder, sizeof(out->folder), "/tmp/rowlock-watch.XXXXXX");
    if (mkdtemp(out->folder) == NULL)
        return -1;
    if (script("start", out->folder, option, more) != 0)
        return -1;
    if (read_variable(out->address, sizeof(out->address), out, pg ? "POSTGRESQL" : "MYSQL") != 0 ||
        read_variable(pid, sizeof(pid), out, pg ? "POSTGRESQL_PID" : "MYSQL_PID") != 0)
        return -1;
    out->pid = (pid_t)atoi(pid);
    return read_command(out);
}

int watch_server_attach(struct watch_server *out, const char *kind, const char *folder)
{
    char variable[64], pid[32] = "";

    memset(out, 0, sizeof(*out));
    out->kind = kind;
    snprintf(out->folder, sizeof(out->folder), "%s", folder);
    for (size_t i = 0; i < sizeof(variable) - 1 && i <= strlen(kind); i++)
        variable[i] = (char)toupper((unsigned char)kind[i]);
    if (read_variable(out->address, sizeof(out->address), out, variable) != 0)
        return -1;
    strcat(variable, "_PID");
    if (read_variable(pid, sizeof(pid), out, variable) != 0)
        return -1;
    out->pid = (pid_t)atoi(pid);
    if (read_strings(out->environment, &out->environment_length, sizeof(out->environment), out->pid,
                     "environ") != 0)
        return -1;
    return read_command(out);
}

int watch_server_start(struct watch_server *out, const char *kind)
{
    return start(out, kind, strcmp(kind, "postgresql") == 0 ? "--postgresql" : "--mysql", NULL);
}

int watch_server_start_clock(struct watch_server *out, const char *kind)
{
    return start(out, kind, strcmp(kind, "postgresql") == 0 ? "--postgresql" : "--mysql",
                 "--clock");
}

int watch_server_set_clock(const struct watch_server *server, int seconds)
{
    return watch_server_set_clock_ms(server, (int64_t)seconds * 1000);
}

int watch_server_set_clock_ms(const struct watch_server *server, int64_t ms)
{
    char path[128], next[128];
    FILE *file;

    snprintf(path, sizeof(path), "%s/clock", server->folder);
    snprintf(next, sizeof(next), "%s/clock.next", server->folder);
    file = fopen(next, "w");
    if (file == NULL || fprintf(file, "%+.3f\n", (double)ms / 1000) < 0 || fclose(file) != 0)
        return -1;
    return rename(next, path);
}

int watch_server_start_pair(struct watch_server *out)
{
    if (start(out, "postgresql", "--standby", NULL) != 0)
        return -1;
    return read_variable(out->standby, sizeof(out->standby), out, "STANDBY");
}

void watch_server_end(struct watch_server *server)
{
    char path[128];

    if (server->pid > 0)
        watch_server_kill(server);
    if (server->folder[0] == '\0')
        return;
    snprintf(path, sizeof(path), "%s/%s.pid", server->folder, server->kind);
    unlink(path); /* nothing is left to be stopped, the folder is */
    script("stop", server->folder, NULL, NULL);
    server->folder[0] = '\0';
}
