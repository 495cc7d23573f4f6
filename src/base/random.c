/* SPDX-License-Identifier: MIT */
#include "random.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/random.h>
#include <unistd.h>

#include "clock.h"

/* Repeats `read` until n bytes are there. 0, or the errno it failed with. */
static int fill(unsigned char *out, size_t n, ssize_t (*read_some)(int fd, void *to, size_t n),
                int fd)
{
    while (n > 0) {
        ssize_t got = read_some(fd, out, n);

        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return got == 0 ? EIO : errno;
        out += got;
        n -= (size_t)got;
    }
    return 0;
}

static ssize_t from_kernel(int fd, void *to, size_t n)
{
    (void)fd;
    return getrandom(to, n, 0);
}

static int from_device(unsigned char *out, size_t n)
{
    int fd = open("/dev/urandom", O_RDONLY | O_CLOEXEC), rc;

    if (fd < 0)
        return errno;
    rc = fill(out, n, read, fd);
    close(fd);
    return rc;
}

int rlk_random(void *out, size_t n)
{
    /* A sandbox may deny the call (seccomp) and leave the device. */
    return fill(out, n, from_kernel, -1) == 0 ? 0 : from_device(out, n);
}

int64_t rlk_random_below(int64_t limit)
{
    uint64_t value;

    if (limit < 1)
        return 0;
    if (rlk_random(&value, sizeof value) != 0)
        value = (uint64_t)rlk_clock_us() * UINT64_C(6364136223846793005) >> 16;
    return (int64_t)(value % (uint64_t)limit);
}
