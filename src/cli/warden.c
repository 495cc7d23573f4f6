/* SPDX-License-Identifier: MIT
 *
 * A small process beside ours that kills the command's whole group if we die without a word. The
 * kernel kills the command itself then (PR_SET_PDEATHSIG), but not what the command has started:
 * that would go on working after the lease has ended.
 *
 * It reads from a pipe whose other end is ours alone. A byte: all went well. The end: we are gone.
 */
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli.h"

/* All signals are blocked, and the session is its own, so that it outlives what ends us. */
static _Noreturn void stand_by(int fd, pid_t group)
{
    char byte;

    setsid();
    prctl(PR_SET_NAME, "rowlock-warden");
    if (read(fd, &byte, 1) == 0)
        kill(-group, SIGKILL);
    _exit(0);
}

void cli_warden_start(cli_warden *warden, pid_t group)
{
    int ends[2];

    *warden = (cli_warden){.pid = -1, .fd = -1};
    if (pipe2(ends, O_CLOEXEC) != 0)
        return;
    warden->pid = fork();
    if (warden->pid == 0) {
        close(ends[1]);
        stand_by(ends[0], group);
    }
    close(ends[0]);
    warden->fd = ends[1];
}

void cli_warden_end(cli_warden *warden)
{
    ssize_t written = warden->fd >= 0 ? write(warden->fd, "", 1) : 0;

    if (warden->fd >= 0)
        close(warden->fd);
    if (warden->pid > 0 && written == 1)
        waitpid(warden->pid, NULL, 0);
}
