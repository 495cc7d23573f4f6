/* SPDX-License-Identifier: MIT */
#include "history.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

int history_open(struct history *out, const char *path, uint64_t room)
{
    size_t size = room * sizeof(struct history_record);
    void *memory = MAP_FAILED;

    *out = (struct history){.room = room};
    out->fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (out->fd >= 0 && ftruncate(out->fd, (off_t)size) == 0)
        memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, out->fd, 0);
    if (memory == MAP_FAILED) {
        if (out->fd >= 0)
            close(out->fd);
        return -1;
    }
    out->records = memory;
    return 0;
}

int history_add(struct history *history, const struct history_record *record)
{
    uint64_t slot = __atomic_fetch_add(&history->used, 1, __ATOMIC_RELAXED);
    struct history_record *to = history->records + slot;
    struct history_record without_kind = *record;

    if (slot >= history->room)
        return -1;
    without_kind.kind = HISTORY_NONE;
    *to = without_kind;
    __atomic_store_n(&to->kind, record->kind, __ATOMIC_RELEASE);
    return 0;
}

void history_close(struct history *history)
{
    uint64_t used = history->used < history->room ? history->used : history->room;

    munmap(history->records, history->room * sizeof(struct history_record));
    if (ftruncate(history->fd, (off_t)(used * sizeof(struct history_record))) != 0)
        used = 0; /* the rest stays empty, and is passed over */
    close(history->fd);
}

const struct history_record *history_map(size_t *n, const char *path)
{
    static const struct history_record nothing;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    void *memory = MAP_FAILED;
    struct stat info;

    *n = 0;
    if (fd >= 0 && fstat(fd, &info) == 0) {
        *n = (size_t)info.st_size / sizeof(struct history_record);
        if (*n > 0)
            memory = mmap(NULL, *n * sizeof(struct history_record), PROT_READ, MAP_SHARED, fd, 0);
    }
    if (fd >= 0)
        close(fd);
    if (fd >= 0 && *n == 0)
        return &nothing;
    if (memory == MAP_FAILED)
        return NULL;
    madvise(memory, *n * sizeof(struct history_record), MADV_SEQUENTIAL);
    return memory;
}

void history_unmap(const struct history_record *records, size_t n)
{
    if (n > 0)
        munmap((void *)(uintptr_t)records, n * sizeof(*records));
}

uint64_t history_now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_BOOTTIME, &ts);
    return (uint64_t)ts.tv_sec * 1000000000U + (uint64_t)ts.tv_nsec;
}
