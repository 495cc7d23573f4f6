/* SPDX-License-Identifier: MIT
 *
 * The command that runs under the lock: its process group, its signals, its terminal.
 *
 * Signals are passed on in the handler itself, so that they arrive at once even while the loop is
 * talking to the database. The library's thread blocks all of them. SIGCHLD is let through while
 * the loop waits, and only then. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"

static const int forwarded[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

/* What the handler needs; a signal handler has no argument of ours. */
static struct {
    rowlock_cancel *cancel;
    volatile sig_atomic_t caught;
    volatile sig_atomic_t passed_on;
    volatile sig_atomic_t group; /* 0: no child */
    sigset_t original;           /* the mask that the child shall have */
} state;

static void on_signal(int number)
{
    int saved = errno;

    if (state.group > 0) {
        kill(-(pid_t)state.group, number);
        state.passed_on = 1;
    } else {
        if (!state.caught)
            state.caught = number;
        rowlock_cancel_fire(state.cancel);
    }
    errno = saved;
}

/* Ends the wait, which is all it is for. */
static void on_child(int number)
{
    (void)number;
}

void cli_signals_start(rowlock_cancel *cancel)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    struct sigaction child_action = {.sa_handler = on_child};
    struct sigaction before;
    sigset_t child;

    state.cancel = cancel;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    pthread_sigmask(SIG_BLOCK, &child, &state.original);
    sigemptyset(&child_action.sa_mask);
    sigaction(SIGCHLD, &child_action, NULL);
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof(forwarded) / sizeof(forwarded[0]); i++) {
        /* ignored when we started (nohup, a shell's background job): stays ignored */
        if (sigaction(forwarded[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
            sigaction(forwarded[i], &action, NULL);
    }
}

int cli_signals_caught(void)
{
    return state.caught;
}

int cli_signals_passed_on(void)
{
    return state.passed_on;
}

/* They are blocked between the look and the sleep, so that none falls in between. */
int cli_signals_pause(int fd, int64_t ms)
{
    struct pollfd polled = {.fd = fd, .events = POLLIN};
    const struct timespec timeout = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    sigset_t all, before;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (!state.caught)
        ppoll(&polled, 1, &timeout, &before);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return state.caught != 0;
}

/* In the child. SIGTTOU is blocked here, so that tcsetpgrp() works from the background. */
static _Noreturn void become(const cli_program *program, pid_t parent, int terminal, int report)
{
    int error;

    setpgid(0, 0);
    if (terminal)
        tcsetpgrp(STDIN_FILENO, getpid());
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(CLI_LOST); /* it died before we could ask to be told */
    if (program->prepare(program->payload) != 0) {
        cli_message("out of memory");
        _exit(CLI_OTHER);
    }
    pthread_sigmask(SIG_SETMASK, &state.original, NULL);
    execvp(program->command[0], program->command);
    error = errno;
    if (write(report, "", 1) < 0)
        error = errno;
    cli_message("cannot run '%s': %s", program->command[0], strerror(error));
    _exit(error == ENOENT || error == ENOTDIR ? CLI_NOT_FOUND : CLI_NOT_EXEC);
}

/* In our own process, after the fork. The pipe's other end closes when the command takes over. */
static void look_after(cli_child *child, const int report[2])
{
    char byte;

    setpgid(child->pid, child->pid); /* both sides, whoever comes first */
    if (child->terminal)
        tcsetpgrp(STDIN_FILENO, child->pid);
    state.group = child->pid;
    close(report[1]);
    cli_warden_start(&child->warden, child->pid);
    child->started = read(report[0], &byte, 1) == 0;
    close(report[0]);
}

int cli_child_start(cli_child *child, const cli_program *program)
{
    pid_t parent = getpid();
    int report[2] = {-1, -1};
    sigset_t all, before;
    int result = CLI_GO_ON;

    child->terminal = isatty(STDIN_FILENO) && tcgetpgrp(STDIN_FILENO) == getpgrp();
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (state.caught) {
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        return CLI_SIGNAL + state.caught;
    }
    if (pipe2(report, O_CLOEXEC) == 0)
        child->pid = fork();
    else
        child->pid = -1;
    if (child->pid == 0)
        become(program, parent, child->terminal, report[1]);
    if (child->pid > 0)
        look_after(child, report);
    if (child->pid < 0) {
        cli_message("cannot start a process: %s", strerror(errno));
        result = CLI_OTHER;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return result;
}

static void set_foreground(pid_t group)
{
    sigset_t output, before;

    sigemptyset(&output);
    sigaddset(&output, SIGTTOU);
    pthread_sigmask(SIG_BLOCK, &output, &before);
    tcsetpgrp(STDIN_FILENO, group);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* Ctrl-Z stopped the child: stop, too, so that the shell takes over, and go on with it later. The
 * library's thread stops along, and the lease is not renewed meanwhile. */
static void follow_stop(const cli_child *child)
{
    if (!child->terminal)
        return;
    set_foreground(getpgrp());
    kill(getpid(), SIGSTOP);
    set_foreground(child->pid);
    cli_child_signal(child, SIGCONT);
}

/* Looks without reaping: as long as the child is a zombie its group's number is not given again. */
static int has_ended(cli_child *child)
{
    siginfo_t info = {.si_pid = 0};

    if (waitid(P_PID, (id_t)child->pid, &info, WEXITED | WSTOPPED | WNOHANG | WNOWAIT) != 0)
        return errno == ECHILD;
    if (info.si_pid == 0)
        return 0;
    if (info.si_code == CLD_STOPPED) {
        waitid(P_PID, (id_t)child->pid, &info, WSTOPPED | WNOHANG);
        follow_stop(child);
        return 0;
    }
    return 1;
}

void cli_child_end(cli_child *child)
{
    int status = 0;

    state.group = 0;
    cli_warden_end(&child->warden);
    if (waitpid(child->pid, &status, 0) < 0)
        child->status = CLI_OTHER;
    else
        child->status = WIFEXITED(status) ? WEXITSTATUS(status) : CLI_SIGNAL + WTERMSIG(status);
    if (child->terminal)
        set_foreground(getpgrp());
}

int cli_child_wait(cli_child *child, int fd, int64_t ms)
{
    const struct timespec timeout = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    struct pollfd polled = {.fd = fd, .events = POLLIN};
    sigset_t mask = state.original;

    if (has_ended(child))
        return 1;
    sigdelset(&mask, SIGCHLD);
    ppoll(&polled, 1, &timeout, &mask);
    return has_ended(child);
}

void cli_child_signal(const cli_child *child, int signal_number)
{
    kill(-child->pid, signal_number);
}
