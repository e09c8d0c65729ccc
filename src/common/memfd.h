/*
 * Files in memory without a name in any file system (memfd), which one process makes and other
 * processes open through /proc/PID/fd. The kernel removes such a file with the last process that has
 * the file. A random number in the file's name proves to the other processes that a descriptor is of
 * this file.
 */
#ifndef MEMFD_H
#define MEMFD_H

#include <errno.h>
#include <linux/memfd.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8u
#endif

/** Make a file. @return -1 and errno on error. */
static inline int memfd_new(const char *name)
{
    const unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
    int fd = (int)syscall(SYS_memfd_create, name, flags | MFD_NOEXEC_SEAL);

    if (fd < 0 && errno == EINVAL) { /* before Linux 6.3 */
        fd = (int)syscall(SYS_memfd_create, name, flags);
    }
    return fd;
}

/** Whether a descriptor is of the file with this name. The descriptor may be any number. */
static inline bool memfd_has_name(int fd, const char *name)
{
    char path[32], found[64], right[64];
    ssize_t len;

    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    snprintf(right, sizeof(right), "/memfd:%s (deleted)", name);
    len = fd < 0 ? -1 : readlink(path, found, sizeof(found) - 1);
    if (len < 0) {
        return false;
    }
    found[len] = '\0';
    return strcmp(found, right) == 0;
}

#endif
