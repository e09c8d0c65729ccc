/*
 * glex_info --clean: names of endpoints of the libfabric provider (src/ofi/core/gfi_name.c). A name is a file
 * glex-name-USER-FABRIC-NAME in GLEX_SHM_DIR. Its owner has a lock on the file as long as the owner lives.
 *
 * GLEX_SHM_DIR is open to all users. So another user may have made a file, a link or a directory that looks
 * like a name. Such things are left alone without a message.
 */
#include "info.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

bool info_name_is_valid(const char *file)
{
    size_t i;

    for (i = 0; file[i] != '\0'; i++) {
        if (!isalnum((unsigned char)file[i]) && strchr("._-", file[i]) == NULL) {
            return false;
        }
    }
    return strncmp(file, INFO_NAME_PREFIX, strlen(INFO_NAME_PREFIX)) == 0;
}

/* Whether a file is a name of this user */
static bool name_is_own(int fd)
{
    struct stat st;

    return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid();
}

/* Whether the path still leads to the file: the last owner may have removed the file, and a new owner may
 * have made another one. */
static bool name_is_current(int dir, const char *file, int fd)
{
    struct stat by_path, by_fd;

    return fstatat(dir, file, &by_path, AT_SYMLINK_NOFOLLOW) == 0 && fstat(fd, &by_fd) == 0 &&
           by_path.st_ino == by_fd.st_ino && by_path.st_dev == by_fd.st_dev;
}

/* While this process has the lock, no process can take the name. */
static bool clean_name(struct info *info, int dir, const char *file)
{
    int fd = openat(dir, file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    bool ok = true;

    if (fd < 0) {
        return true;
    }
    if (name_is_own(fd) && flock(fd, LOCK_EX | LOCK_NB) == 0 && name_is_current(dir, file, fd)) {
        ok = unlinkat(dir, file, 0) == 0;
        if (ok) {
            info_add_name(info, file);
        } else {
            tool_error("%s/%s could not be removed: %s", info->fabric.shm_dir, file,
                       strerror(errno));
        }
    }
    close(fd);
    return ok;
}

bool info_clean_names(struct info *info)
{
    char prefix[512];
    struct dirent *entry;
    bool ok = true;
    DIR *dir;

    dir = opendir(info->fabric.shm_dir);
    if (dir == NULL) {
        return true; /* no fabric either */
    }
    snprintf(prefix, sizeof(prefix), INFO_NAME_PREFIX "%u-%s-", (unsigned)geteuid(),
             info->fabric.name);
    while ((entry = readdir(dir)) != NULL) {
        if (info_name_is_valid(entry->d_name) &&
            strncmp(entry->d_name, prefix, strlen(prefix)) == 0) {
            ok = clean_name(info, dirfd(dir), entry->d_name) && ok;
        }
    }
    closedir(dir);
    return ok;
}
