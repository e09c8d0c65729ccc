#include "core/memfile.h"
#include "common/memfd.h"

#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>

/* Opens the descriptor as a path (O_PATH), and then checks the file's name. The number may be the descriptor of
 * any file or device. An open with O_PATH has no effect on the file. */
static int memfile_open_path(uint32_t pid, uint32_t number, const char *name)
{
    char path[64];
    int fd;

    snprintf(path, sizeof(path), "/proc/%" PRIu32 "/fd/%" PRIu32, pid, number);
    fd = open(path, O_PATH | O_CLOEXEC);
    if (fd >= 0 && !memfd_has_name(fd, name)) {
        close(fd);
        fd = -1;
    }
    return fd;
}

/* A file that can become shorter would raise SIGBUS. */
static bool memfile_is_sealed(int fd, uint64_t *size_p)
{
    int seals = fcntl(fd, F_GET_SEALS);
    struct stat st;

    if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstat(fd, &st) != 0) {
        return false;
    }
    *size_p = (uint64_t)st.st_size;
    return true;
}

int glex_memfile_open(const struct glex_endpoint *ep, const struct glex_peer *peer, uint32_t number,
                      const char *name, int mode, uint64_t *size_p)
{
    char path[32];
    int path_fd, fd;

    if (peer->pid_space != ep->pid_space) {
        return -1;
    }
    path_fd = memfile_open_path(peer->pid, number, name);
    if (path_fd < 0) {
        return -1;
    }
    snprintf(path, sizeof(path), "/proc/self/fd/%d", path_fd);
    fd = open(path, mode | O_CLOEXEC);
    close(path_fd);
    if (fd >= 0 && !memfile_is_sealed(fd, size_p)) {
        close(fd);
        fd = -1;
    }
    return fd;
}
