/* SPDX-License-Identifier: MIT */
#include "process.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

void *process_shared(size_t size)
{
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

void process_unshare(void *memory, size_t size)
{
    if (memory != NULL)
        munmap(memory, size);
}

pid_t process_start(int (*fn)(void *payload), void *payload)
{
    pid_t parent = getpid();
    pid_t pid = fork();

    if (pid != 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(255);
    _exit(fn(payload));
}

int process_wait(pid_t pid, int64_t timeout_ms)
{
    int64_t until = process_now_ms() + timeout_ms;
    int status = 0;
    int killed = 0;
    pid_t done;

    while ((done = waitpid(pid, &status, WNOHANG)) == 0) {
        if (process_now_ms() > until && !killed) {
            kill(pid, SIGKILL);
            killed = 1;
        }
        process_sleep_ms(2);
    }
    if (killed || done < 0)
        return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

int process_await(const int *flag, int value, int64_t timeout_ms)
{
    int64_t until = process_now_ms() + timeout_ms;

    while (__atomic_load_n(flag, __ATOMIC_ACQUIRE) < value) {
        if (process_now_ms() > until)
            return -1;
        process_sleep_ms(1);
    }
    return 0;
}

void process_signal(int *flag, int value)
{
    __atomic_store_n(flag, value, __ATOMIC_RELEASE);
}

int64_t process_now_ms(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

void process_sleep_ms(int64_t ms)
{
    struct timespec ts = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    nanosleep(&ts, NULL);
}
