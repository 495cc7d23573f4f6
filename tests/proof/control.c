/* SPDX-License-Identifier: MIT */
#include "control.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

struct control *control_map(const char *folder, int make)
{
    char path[512];
    void *memory = MAP_FAILED;
    int fd;

    snprintf(path, sizeof(path), "%s/control", folder);
    fd = open(path, O_RDWR | O_CLOEXEC | (make ? O_CREAT | O_EXCL : 0), 0600);
    if (fd >= 0 && (!make || ftruncate(fd, sizeof(struct control)) == 0))
        memory = mmap(NULL, sizeof(struct control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd >= 0)
        close(fd);
    return memory == MAP_FAILED ? NULL : memory;
}

void proof_name(char out[PROOF_NAME_SIZE], uint32_t number)
{
    snprintf(out, PROOF_NAME_SIZE, "proof-%u", number);
}
