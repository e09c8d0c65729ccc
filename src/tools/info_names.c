/*
 * glex_info --clean: names of endpoints of the libfabric provider (src/ofi/core/gfi_name.c). A name is a file
 * name.NAME in the directory of the fabric. A living owner has a lock on the file.
 */
#include "info.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define PREFIX "name."

bool info_is_name(const char *file)
{
    size_t i;

    for (i = 0; file[i] != '\0'; i++) {
        if (!isalnum((unsigned char)file[i]) && strchr("._-", file[i]) == NULL) {
            return false;
        }
    }
    return strncmp(file, PREFIX, strlen(PREFIX)) == 0;
}

/* Whether the file is a name, and not a link, a FIFO or a file that has taken its place meanwhile */
static bool name_is_current(int dir, const char *file, int fd)
{
    struct stat by_path, by_fd;

    return fstatat(dir, file, &by_path, AT_SYMLINK_NOFOLLOW) == 0 && fstat(fd, &by_fd) == 0 &&
           S_ISREG(by_fd.st_mode) && by_path.st_ino == by_fd.st_ino &&
           by_path.st_dev == by_fd.st_dev;
}

/* While this process has the lock, no process can take the name. */
static bool clean_name(struct info *info, int dir, const char *file, info_name_fn removed)
{
    int fd = openat(dir, file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    bool ok = true;

    if (fd < 0) {
        return true;
    }
    if (flock(fd, LOCK_EX | LOCK_NB) == 0 && name_is_current(dir, file, fd)) {
        ok = unlinkat(dir, file, 0) == 0;
        if (ok) {
            removed(info, file);
        } else {
            tool_error("%s/%s could not be removed: %s", info->fabric.path, file, strerror(errno));
        }
    }
    close(fd);
    return ok;
}

bool info_clean_names(struct info *info, info_name_fn removed)
{
    struct dirent *entry;
    bool ok = true;
    DIR *dir;

    glex_inspect_fabric(&info->fabric);
    dir = opendir(info->fabric.path);
    if (dir == NULL) {
        return true; /* info_collect_fabric() says why */
    }
    while ((entry = readdir(dir)) != NULL) {
        if (info_is_name(entry->d_name)) {
            ok = clean_name(info, dirfd(dir), entry->d_name, removed) && ok;
        }
    }
    closedir(dir);
    return ok;
}
