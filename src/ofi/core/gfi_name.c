/*
 * Names of endpoints: fi_glex://NAME. A name is a file name.NAME with the endpoint's address, in the directory
 * of the fabric (src/glex/base/fabric.h). The endpoint keeps a lock on the file, so the name of a dead process
 * is free. A name is valid on one host, for one user and one GLEX_FABRIC.
 */
#include "gfi.h"

#include <ctype.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#define GFI_NAME_TRIES 100 /* to lock a file, 1 ms apart: readers lock it for a moment */

/* The content of the file */
struct gfi_name_file {
    struct gfi_addr addr;
    uint32_t pid; /* of the owner */
};

bool gfi_name_is_valid(const char *name)
{
    size_t i;

    for (i = 0; name[i] != '\0'; i++) {
        if (!isalnum((unsigned char)name[i]) && strchr("._-", name[i]) == NULL) {
            return false;
        }
    }
    return i > 0 && i < GFI_NAME_SIZE;
}

static void gfi_name_path(const char *name, char *path)
{
    const char *dir = getenv("GLEX_SHM_DIR"), *fabric = getenv("GLEX_FABRIC");

    snprintf(path, PATH_MAX, "%s/glex-%u/%s/name.%s", dir != NULL ? dir : "/dev/shm",
             (unsigned)geteuid(), fabric != NULL ? fabric : "default", name);
}

/* Makes the directories of a name: a vendor's libglex does not make them. If this fails, opening the file fails
 * for the same reason. */
static void gfi_name_make_dirs(const char *path)
{
    char dir[PATH_MAX];
    char *end;

    snprintf(dir, sizeof(dir), "%s", path);
    *strrchr(dir, '/') = '\0';
    end = strrchr(dir, '/');
    *end = '\0';
    (void)mkdir(dir, 0700);
    *end = '/';
    (void)mkdir(dir, 0700);
}

/* Another user may have made a file with this path. @return a descriptor or -1, with errno */
static int gfi_name_open(const char *path, int flags)
{
    int fd = open(path, flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
    struct stat st;

    if (fd >= 0 && (fstat(fd, &st) != 0 || st.st_uid != geteuid() || !S_ISREG(st.st_mode))) {
        close(fd);
        errno = EACCES;
        fd = -1;
    }
    return fd;
}

/* Whether the path still leads to the file: its last owner may have removed the file */
static bool gfi_name_is_current(const char *path, int fd)
{
    struct stat by_path, by_fd;

    return stat(path, &by_path) == 0 && fstat(fd, &by_fd) == 0 && by_path.st_ino == by_fd.st_ino &&
           by_path.st_dev == by_fd.st_dev;
}

/* Whether an endpoint of this process has the name */
static bool gfi_name_is_own(int fd)
{
    struct gfi_name_file file;

    return pread(fd, &file, sizeof(file), 0) == sizeof(file) && file.pid == (uint32_t)getpid();
}

/* @return a descriptor with the lock, or a negative FI_ error */
static int gfi_name_lock(const char *path)
{
    bool is_own;
    int i, fd;

    for (i = 0; i < GFI_NAME_TRIES; i++) {
        fd = gfi_name_open(path, O_RDWR | O_CREAT);
        if (fd < 0) {
            return -errno;
        }
        if (flock(fd, LOCK_EX | LOCK_NB) == 0 && gfi_name_is_current(path, fd)) {
            return fd;
        }
        is_own = gfi_name_is_own(fd);
        close(fd);
        if (is_own) {
            return -FI_EALREADY;
        }
        usleep(1000);
    }
    return -FI_EADDRINUSE;
}

int gfi_name_publish(const char *name, const struct gfi_addr *addr, int *fd_p)
{
    struct gfi_name_file file = {.addr = *addr, .pid = (uint32_t)getpid()};
    char path[PATH_MAX];
    int fd;

    gfi_name_path(name, path);
    gfi_name_make_dirs(path);
    fd = gfi_name_lock(path);
    if (fd == -FI_EALREADY) {
        GFI_INFO(FI_LOG_EP_CTRL, "another endpoint of this process has the name %s\n", name);
        return 0;
    }
    if (fd < 0) {
        GFI_WARN(FI_LOG_EP_CTRL, "cannot take the name %s, %s: %s\n", name, path, fi_strerror(-fd));
        return fd;
    }
    if (pwrite(fd, &file, sizeof(file), 0) != sizeof(file)) {
        GFI_WARN(FI_LOG_EP_CTRL, "cannot write %s: %s\n", path, strerror(errno));
        unlink(path);
        close(fd);
        return -FI_EIO;
    }
    *fd_p = fd;
    return 0;
}

void gfi_name_remove(const char *name, int fd)
{
    char path[PATH_MAX];

    gfi_name_path(name, path);
    unlink(path);
    close(fd);
}

int gfi_name_find(const char *name, struct gfi_addr *addr)
{
    struct gfi_name_file file;
    char path[PATH_MAX];
    bool is_found;
    int fd;

    gfi_name_path(name, path);
    fd = gfi_name_open(path, O_RDONLY);
    if (fd < 0) {
        return -FI_ENODATA;
    }
    is_found = flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK &&
               pread(fd, &file, sizeof(file), 0) == sizeof(file);
    close(fd);
    if (!is_found) {
        return -FI_ENODATA;
    }
    *addr = file.addr;
    return 0;
}
