#include "common/unix_listen.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

int unix_listen(const char *path, int type, int backlog, char *error, size_t size)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
    struct stat about;
    mode_t mask;
    int failed;

    if (fd < 0 || strlen(path) >= sizeof(address.sun_path)) {
        snprintf(error, size, "not the path of a socket");
        goto err;
    }
    strcpy(address.sun_path, path);
    if (connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0) {
        snprintf(error, size, "another process listens there");
        goto err;
    }
    /* A file that is no socket refuses a connection, too. It must stay. */
    if (errno == ECONNREFUSED && stat(path, &about) == 0 && S_ISSOCK(about.st_mode)) {
        unlink(path);
    }
    mask = umask(0177);
    failed =
        bind(fd, (struct sockaddr *)&address, sizeof(address)) != 0 || listen(fd, backlog) != 0;
    umask(mask);
    if (failed) {
        snprintf(error, size, "%s", strerror(errno));
        goto err;
    }
    return fd;

err:
    if (fd >= 0) {
        close(fd);
    }
    return -1;
}
