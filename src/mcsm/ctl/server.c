#include "ctl.h"

#include "common/unix_listen.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { MAX_CLIENTS = 32, MAX_LINE = 512 };

struct client {
    int fd;
    size_t length;
    char line[MAX_LINE];
    char *answer;
    size_t size, sent;
};

struct mcsm_ctl {
    struct mcsm_daemon *daemon;
    int listener;
    char path[sizeof(((struct sockaddr_un *)0)->sun_path)]; /* a new configuration keeps it */
    struct client clients[MAX_CLIENTS];                     /* fd -1: free */
};

static int listen_at(struct mcsm_ctl *ctl)
{
    struct epoll_event event = {.events = EPOLLIN};
    char directory[sizeof(ctl->path)], error[128] = "", *slash;

    strcpy(directory, ctl->path);
    slash = strrchr(directory, '/');
    if (slash != NULL && slash != directory) {
        *slash = '\0';
        if (mkdir(directory, 0755) < 0 && errno != EEXIST) {
            mcsm_error("control socket %s: %s: %s", ctl->path, directory, strerror(errno));
            return -errno;
        }
    }
    ctl->listener = unix_listen(ctl->path, SOCK_STREAM | SOCK_NONBLOCK, 8, error, sizeof(error));
    event.data.fd = ctl->listener;
    if (ctl->listener >= 0 &&
        epoll_ctl(ctl->daemon->epoll, EPOLL_CTL_ADD, ctl->listener, &event) < 0) {
        snprintf(error, sizeof(error), "%s", strerror(errno));
        close(ctl->listener);
        unlink(ctl->path);
        ctl->listener = -1;
    }
    if (ctl->listener < 0) {
        mcsm_error("control socket %s: %s", ctl->path, error);
        return -EIO;
    }
    return 0;
}

int mcsm_ctl_open(struct mcsm_daemon *daemon, struct mcsm_ctl **ctl_p)
{
    struct mcsm_ctl *ctl = calloc(1, sizeof(*ctl));
    int status;

    if (ctl == NULL) {
        return -ENOMEM;
    }
    ctl->daemon = daemon;
    ctl->listener = -1;
    strcpy(ctl->path, daemon->config->socket);
    for (int i = 0; i < MAX_CLIENTS; i++) {
        ctl->clients[i].fd = -1;
    }
    status = listen_at(ctl);
    if (status < 0) {
        free(ctl);
        return status;
    }
    *ctl_p = ctl;
    return 0;
}

static void drop(struct client *client)
{
    close(client->fd);
    free(client->answer);
    memset(client, 0, sizeof(*client));
    client->fd = -1;
}

void mcsm_ctl_close(struct mcsm_ctl *ctl)
{
    if (ctl == NULL) {
        return;
    }
    for (int i = 0; i < MAX_CLIENTS; i++) {
        if (ctl->clients[i].fd >= 0) {
            drop(&ctl->clients[i]);
        }
    }
    close(ctl->listener);
    unlink(ctl->path);
    free(ctl);
}

static void accept_client(struct mcsm_ctl *ctl)
{
    struct epoll_event event = {.events = EPOLLIN};
    int fd = accept4(ctl->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    struct client *client = NULL;

    for (int i = 0; i < MAX_CLIENTS && client == NULL; i++) {
        if (ctl->clients[i].fd < 0) {
            client = &ctl->clients[i];
        }
    }
    if (fd < 0) {
        return;
    }
    event.data.fd = fd;
    if (client == NULL || epoll_ctl(ctl->daemon->epoll, EPOLL_CTL_ADD, fd, &event) < 0) {
        close(fd);
    } else {
        client->fd = fd;
    }
}

static void run_command(struct mcsm_ctl *ctl, struct client *client)
{
    struct epoll_event event = {.events = EPOLLOUT, .data.fd = client->fd};
    FILE *out = open_memstream(&client->answer, &client->size);

    client->line[strcspn(client->line, "\r\n")] = '\0';
    if (out == NULL) {
        drop(client);
        return;
    }
    mcsm_ctl_command(ctl->daemon, client->line, out);
    if (fclose(out) != 0 || epoll_ctl(ctl->daemon->epoll, EPOLL_CTL_MOD, client->fd, &event) < 0) {
        drop(client);
    }
}

static void read_line(struct mcsm_ctl *ctl, struct client *client)
{
    ssize_t count =
        read(client->fd, client->line + client->length, sizeof(client->line) - 1 - client->length);

    if (count <= 0) {
        if (count == 0 || errno != EAGAIN) {
            drop(client);
        }
        return;
    }
    client->length += count;
    client->line[client->length] = '\0';
    if (strchr(client->line, '\n') != NULL) {
        run_command(ctl, client);
    } else if (client->length == sizeof(client->line) - 1) {
        drop(client);
    }
}

static void write_answer(struct client *client)
{
    ssize_t count = write(client->fd, client->answer + client->sent, client->size - client->sent);

    if (count > 0) {
        client->sent += count;
    }
    if (client->sent == client->size || (count < 0 && errno != EAGAIN)) {
        drop(client);
    }
}

void mcsm_ctl_event(struct mcsm_ctl *ctl, int fd, unsigned events)
{
    if (fd == ctl->listener) {
        accept_client(ctl);
        return;
    }
    for (int i = 0; i < MAX_CLIENTS; i++) {
        struct client *client = &ctl->clients[i];

        if (client->fd != fd) {
            continue;
        }
        if (client->answer != NULL && (events & EPOLLOUT)) {
            write_answer(client);
        } else if (client->answer == NULL && (events & EPOLLIN)) {
            read_line(ctl, client);
        } else {
            drop(client);
        }
        return;
    }
}
