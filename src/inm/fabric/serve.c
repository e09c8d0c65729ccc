/*
 * The emulator's sockets: links to libglex (common/nmp_link.h), and control.
 *
 * Control is a second socket beside the first, its path with ".ctl" behind; a message is a command,
 * the answer is text: "ok ..." or "error ...".
 */
#include "serve.h"
#include "common/nmp_link.h"
#include "common/unix_listen.h"
#include "traffic.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define MAX_CLIENTS 64
#define MAX_QUEUED  (1u << 20) /* records for a client that does not read: 72 MB */
#define HIGH_WATER  (1u << 14) /* above it, no more requests are taken from it */

struct client {
    int fd;              /* -1: free */
    bool hello, waiting; /* waiting: for room in the socket */
    uint32_t nic;
    uint64_t last_ns; /* when its last response arrived: FENCE waits for it */
    struct inm_link_record *queue;
    uint32_t num, room, sent;
};

struct serve {
    struct fabric *fab;
    struct faults *faults;
    int epoll, listener, control;
    char path[108], control_path[112];
    struct client clients[MAX_CLIENTS];
    uint64_t overflows;
};

enum { TAG_LISTENER = 1000, TAG_CONTROL, TAG_CONTROL_CONN };

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void watch(struct serve *s, int op, int fd, uint32_t events, uint64_t tag)
{
    struct epoll_event ev = {.events = events, .data.u64 = tag | (uint64_t)fd << 32};

    epoll_ctl(s->epoll, op, fd, &ev);
}

/* ---- clients --------------------------------------------------------------------------------- */

static void client_close(struct serve *s, struct client *c)
{
    (void)s;
    close(c->fd);
    free(c->queue);
    *c = (struct client){.fd = -1};
}

static void client_flush(struct serve *s, struct client *c)
{
    while (c->sent < c->num) {
        uint32_t num = c->num - c->sent < INM_LINK_BATCH ? c->num - c->sent : INM_LINK_BATCH;

        if (send(c->fd, c->queue + c->sent, num * sizeof(*c->queue), MSG_DONTWAIT | MSG_NOSIGNAL) <
            0) {
            break;
        }
        c->sent += num;
    }
    if (c->sent == c->num) {
        c->sent = c->num = 0;
    }
    if (c->waiting != (c->num != 0)) {
        c->waiting = c->num != 0;
        watch(s, EPOLL_CTL_MOD, c->fd,
              c->waiting ? (c->num - c->sent > HIGH_WATER ? EPOLLOUT : EPOLLIN | EPOLLOUT) :
                           EPOLLIN,
              (uint64_t)(c - s->clients));
    }
}

static void deliver(void *arg, uint32_t nic_chip, uint64_t time_ns,
                    const uint8_t desc[NMP_DESC_BYTES], uint8_t vp)
{
    struct serve *s = arg;
    struct client *c = vp < MAX_CLIENTS ? &s->clients[vp] : NULL;
    struct inm_link_record *queue;

    if (c == NULL || c->fd < 0 || !c->hello || c->nic != nic_chip) {
        return; /* the virtual port is closed */
    }
    if (c->num == c->room) {
        if (c->room >= MAX_QUEUED) {
            s->overflows++;
            return;
        }
        queue = realloc(c->queue, (c->room * 2 + 256) * sizeof(*queue));
        if (queue == NULL) {
            s->overflows++;
            return;
        }
        c->queue = queue;
        c->room = c->room * 2 + 256;
    }
    c->queue[c->num].time_ns = s->fab->modelled ? time_ns : 0;
    memcpy(c->queue[c->num++].desc, desc, NMP_DESC_BYTES);
    if (time_ns > c->last_ns) {
        c->last_ns = time_ns;
    }
}

static void client_hello(struct serve *s, struct client *c, const struct inm_link_hello *in)
{
    struct inm_link_hello out = *in;
    uint32_t chip = in->nic_id == INM_LINK_ANY_NIC ?
                        s->fab->topo->server :
                        inm_topo_find(s->fab->topo, NMP_CHIP_NIC, in->nic_id);

    out.status = in->magic != INM_LINK_MAGIC || in->version != INM_LINK_VERSION ? EPROTO :
                 chip == INM_NONE                                               ? ENODEV :
                                                                                  0;
    if (out.status == 0) {
        out.nic_id = inm_chip_id(s->fab->topo, chip);
        out.vp = (uint32_t)(c - s->clients);
        out.modelled = s->fab->modelled;
        c->nic = chip;
        c->hello = true;
    }
    send(c->fd, &out, sizeof(out), MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void client_requests(struct serve *s, struct client *c,
                            const struct inm_link_record *records, uint32_t num)
{
    uint64_t time;
    uint32_t i;

    for (i = 0; i < num; i++) {
        time = records[i].time_ns;
        if (nmp_get_bits(records[i].desc, NMP_BIT_FEN, 1) && time < c->last_ns) {
            time = c->last_ns;
        }
        fab_send(s->fab, c->nic, time, records[i].desc);
    }
}

static void client_read(struct serve *s, struct client *c)
{
    static struct inm_link_record records[INM_LINK_BATCH];
    struct inm_link_hello hello;
    ssize_t len;
    int i;

    for (i = 0; i < 32; i++) {
        len = recv(c->fd, records, sizeof(records), MSG_DONTWAIT | MSG_TRUNC);
        if (len < 0 && (errno == EAGAIN || errno == EINTR)) {
            return;
        }
        if (len == sizeof(hello) && !c->hello) {
            memcpy(&hello, records, sizeof(hello));
            client_hello(s, c, &hello);
        } else if (len > 0 && c->hello && len <= (ssize_t)sizeof(records) &&
                   len % (ssize_t)sizeof(records[0]) == 0) {
            client_requests(s, c, records, (uint32_t)len / sizeof(records[0]));
        } else {
            client_close(s, c); /* the end, or not our protocol */
            return;
        }
    }
}

static void accept_client(struct serve *s)
{
    int fd = accept4(s->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK), i, size = 1 << 20;

    for (i = 0; fd >= 0 && i < MAX_CLIENTS; i++) {
        if (s->clients[i].fd < 0) {
            s->clients[i] = (struct client){.fd = fd};
            setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
            watch(s, EPOLL_CTL_ADD, fd, EPOLLIN, (uint64_t)i);
            return;
        }
    }
    if (fd >= 0) {
        close(fd);
    }
}

/* ---- control --------------------------------------------------------------------------------- */

static long memory_kib(void)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
}

static void control_stats(const struct serve *s, char *out, size_t size)
{
    const struct fab_counters *n = &s->fab->counters;

    snprintf(out, size,
             "ok {\"topology\":\"%s\",\"nrc\":%u,\"nic\":%u,\"links\":%u,\"clock\":\"%s\","
             "\"now_ns\":%llu,\"requests\":%llu,\"responses\":%llu,\"reports\":%llu,\"hops\":%llu,"
             "\"lost_route\":%llu,\"lost_link\":%llu,\"lost_fault\":%llu,\"lost_mute\":%llu,"
             "\"corrupted\":%llu,\"overflows\":%llu,\"memory_kib\":%ld}",
             s->fab->topo->name, s->fab->topo->num_nrc, s->fab->topo->num_nic,
             s->fab->topo->num_links, s->fab->modelled ? "model" : "real",
             (unsigned long long)s->fab->now_ns, (unsigned long long)n->requests,
             (unsigned long long)n->responses, (unsigned long long)n->reports,
             (unsigned long long)n->hops, (unsigned long long)n->lost_route,
             (unsigned long long)n->lost_link, (unsigned long long)n->lost_fault,
             (unsigned long long)n->lost_mute, (unsigned long long)n->corrupted,
             (unsigned long long)s->overflows, memory_kib());
}

/* The paths of data through the tables that the chips have now. */
static void control_paths(struct serve *s, char *out, size_t size)
{
    struct traffic_paths p;
    char name[INM_NAME_MAX] = "none";

    if (!traffic_paths(s->fab->traffic, &p)) {
        snprintf(out, size, "error no memory");
        return;
    }
    if (p.worst_port != INM_NONE) {
        inm_port_name(s->fab->topo, p.worst_port, name);
    }
    snprintf(out, size,
             "ok {\"hosts\":%u,\"unreached\":%u,\"worst_load\":%.6f,"
             "\"worst_link\":\"%s\",\"table_writes\":%llu}",
             p.hosts, p.hosts_unreached, p.worst, name,
             (unsigned long long)s->fab->counters.table_writes);
}

static void control_command(struct serve *s, const char *command, char *out, size_t size)
{
    char error[256];
    int number;

    if (strncmp(command, "fault ", 6) == 0) {
        number = faults_add(s->faults, command + 6, now_ns(), error, sizeof(error));
        if (number < 0) {
            snprintf(out, size, "error %s", error);
        } else {
            faults_run(s->faults, now_ns());
            snprintf(out, size, "ok %d", number);
        }
    } else if (strncmp(command, "clear ", 6) == 0) {
        number = strcmp(command + 6, "all") == 0 ? 0 : atoi(command + 6);
        if ((number > 0 && faults_clear(s->faults, number)) ||
            (strcmp(command + 6, "all") == 0 && (faults_clear(s->faults, 0) || true))) {
            snprintf(out, size, "ok");
        } else {
            snprintf(out, size, "error no fault %s", command + 6);
        }
    } else if (strcmp(command, "list") == 0) {
        strcpy(out, "ok\n");
        faults_list(s->faults, out + 3, size - 3);
    } else if (strncmp(command, "traffic ", 8) == 0) {
        if (traffic_set(s->fab->traffic, command + 8, error, sizeof(error))) {
            snprintf(out, size, "ok");
        } else {
            snprintf(out, size, "error %s", error);
        }
    } else if (strcmp(command, "paths") == 0) {
        control_paths(s, out, size);
    } else if (strcmp(command, "stats") == 0) {
        control_stats(s, out, size);
    } else {
        snprintf(out, size,
                 "error unknown command: fault SPEC, clear N|all, list, stats, "
                 "traffic PATTERN, paths");
    }
}

static void control_read(struct serve *s, int fd)
{
    static char in[512], out[40000];
    ssize_t len = recv(fd, in, sizeof(in) - 1, MSG_DONTWAIT);

    if (len <= 0) {
        if (len == 0 || (errno != EAGAIN && errno != EINTR)) {
            close(fd);
        }
        return;
    }
    in[len] = '\0';
    control_command(s, in, out, sizeof(out));
    send(fd, out, strlen(out), MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* ---- all together ---------------------------------------------------------------------------- */

static int listen_at(const char *path)
{
    char error[100];
    int fd = unix_listen(path, SOCK_SEQPACKET | SOCK_NONBLOCK, 16, error, sizeof(error));

    if (fd < 0) {
        fprintf(stderr, "inm-fabric: %s: %s\n", path, error);
    }
    return fd;
}

struct serve *serve_open(struct fabric *fab, struct faults *faults, const char *path)
{
    struct serve *s = calloc(1, sizeof(*s));
    int i;

    if (s == NULL) {
        return NULL;
    }
    s->fab = fab;
    s->faults = faults;
    for (i = 0; i < MAX_CLIENTS; i++) {
        s->clients[i].fd = -1;
    }
    snprintf(s->path, sizeof(s->path), "%s", path);
    snprintf(s->control_path, sizeof(s->control_path), "%s.ctl", s->path);
    s->epoll = epoll_create1(EPOLL_CLOEXEC);
    s->listener = listen_at(path);
    s->control = s->listener >= 0 ? listen_at(s->control_path) : -1;
    if (s->epoll < 0 || s->control < 0) {
        if (s->listener >= 0) {
            close(s->listener);
            unlink(s->path);
        }
        close(s->epoll);
        free(s);
        return NULL;
    }
    watch(s, EPOLL_CTL_ADD, s->listener, EPOLLIN, TAG_LISTENER);
    watch(s, EPOLL_CTL_ADD, s->control, EPOLLIN, TAG_CONTROL);
    fab->deliver = deliver;
    fab->deliver_arg = s;
    return s;
}

static void handle(struct serve *s, const struct epoll_event *ev)
{
    uint32_t tag = (uint32_t)ev->data.u64;
    int fd = (int)(ev->data.u64 >> 32);

    if (tag == TAG_LISTENER) {
        accept_client(s);
    } else if (tag == TAG_CONTROL) {
        fd = accept4(s->control, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0) {
            watch(s, EPOLL_CTL_ADD, fd, EPOLLIN, TAG_CONTROL_CONN);
        }
    } else if (tag == TAG_CONTROL_CONN) {
        control_read(s, fd);
    } else if (tag < MAX_CLIENTS && s->clients[tag].fd == fd &&
               (ev->events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) {
        client_read(s, &s->clients[tag]);
    }
}

void serve_run(struct serve *s, const volatile int *stop)
{
    struct epoll_event events[64];
    int num, i;

    while (!*stop) {
        uint64_t wait = faults_run(s->faults, now_ns());

        for (i = 0; i < MAX_CLIENTS; i++) {
            if (s->clients[i].fd >= 0) {
                client_flush(s, &s->clients[i]);
            }
        }
        num = epoll_wait(s->epoll, events, 64, (int)(wait / 1000000));
        for (i = 0; i < num; i++) {
            handle(s, &events[i]);
        }
    }
}

void serve_close(struct serve *s)
{
    int i;

    for (i = 0; i < MAX_CLIENTS; i++) {
        if (s->clients[i].fd >= 0) {
            client_close(s, &s->clients[i]);
        }
    }
    close(s->listener);
    close(s->control);
    close(s->epoll);
    unlink(s->path);
    unlink(s->control_path);
    free(s);
}

int serve_control(const char *path, const char *command)
{
    struct sockaddr_un sun = {.sun_family = AF_UNIX};
    static char out[40001];
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    ssize_t len = -1;

    if (snprintf(sun.sun_path, sizeof(sun.sun_path), "%s.ctl", path) < (int)sizeof(sun.sun_path) &&
        fd >= 0 && connect(fd, (struct sockaddr *)&sun, sizeof(sun)) == 0 &&
        send(fd, command, strlen(command), MSG_NOSIGNAL) >= 0) {
        len = recv(fd, out, sizeof(out) - 1, 0);
    }
    if (fd >= 0) {
        close(fd);
    }
    if (len <= 0) {
        fprintf(stderr, "inm-fabric: nobody answers at %s.ctl: %s\n", path, strerror(errno));
        return 2;
    }
    out[len] = '\0';
    if (strncmp(out, "ok", 2) != 0) {
        fprintf(stderr, "inm-fabric: %s\n", out);
        return 1;
    }
    puts(out + 2 + (out[2] == ' ' || out[2] == '\n'));
    return 0;
}
