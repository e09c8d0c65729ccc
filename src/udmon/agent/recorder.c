/*
 * Node "recorder" keeps its samples in a record (record.c). A program that connects to the Unix socket
 * of the node gets all samples in packed form. `udmon-agent --recording` is this program. The program
 * unpacks and prints the samples, so the agent spends no time on the text.
 */
#include "recorder.h"
#include "graph.h"
#include "record.h"
#include "types.h"
#include "../lib/base/log.h"
#include "../lib/net/loop.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { LISTEN_AGAIN_MS = 60000, FETCH_PATIENCE_MS = 10000 };

static const char socket_default[] = "/run/udmon-agent/recorder";

struct recorder {
    struct record *record;
    struct sockaddr_un address;
    struct udmon_source listener; /* fd -1: not yet */
    struct udmon_timer listen;    /* next attempt to listen */
    struct udmon_source fetcher;  /* fd -1: none; at most one at a time */
    struct udmon_timer patience;  /* the fetcher is dropped if it reads nothing for so long */
    uint8_t *saved;               /* for the fetcher */
    size_t saved_length, sent;
    struct udmon_log_limit refused;
};

static int socket_address(const struct udmon_node *node, struct sockaddr_un *address)
{
    const char *path = udmon_node_option(node, "socket");

    path = (path != NULL) ? path : socket_default;
    if ((path[0] != '/') || (strlen(path) >= sizeof(address->sun_path))) {
        udmon_node_error(node, "socket", "'%s' is no absolute path of at most %zu bytes", path,
                         sizeof(address->sun_path) - 1);
        return -EINVAL;
    }
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    strcpy(address->sun_path, path);
    return 0;
}

static void fetch_end(struct recorder *recorder)
{
    udmon_timer_cancel(&recorder->patience);
    udmon_loop_delete(&agent_loop, &recorder->fetcher);
    close(recorder->fetcher.fd);
    recorder->fetcher.fd = -1;
    free(recorder->saved);
    recorder->saved = NULL;
    if (recorder->listener.fd >= 0) {
        udmon_loop_modify(&agent_loop, &recorder->listener, EPOLLIN);
    }
}

static void fetch_impatient(struct udmon_timer *timer)
{
    fetch_end(timer->arg);
}

static void fetch_ready(struct udmon_source *source, uint32_t events)
{
    struct recorder *recorder = source->arg;
    ssize_t sent;

    (void)events;
    sent = send(source->fd, recorder->saved + recorder->sent,
                recorder->saved_length - recorder->sent, MSG_DONTWAIT | MSG_NOSIGNAL);
    if ((sent < 0) && (errno == EAGAIN)) {
        return;
    }
    recorder->sent += (sent > 0) ? sent : 0;
    if ((sent < 0) || (recorder->sent == recorder->saved_length)) {
        fetch_end(recorder);
    } else {
        udmon_timer_set(&agent_loop, &recorder->patience, FETCH_PATIENCE_MS);
    }
}

/* Further connections wait in the backlog until this one has ended. */
static void fetch_begin(struct udmon_source *source, uint32_t events)
{
    struct recorder *recorder = source->arg;
    int ret;

    (void)events;
    recorder->fetcher.fd = accept4(source->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (recorder->fetcher.fd < 0) {
        return;
    }
    recorder->sent = 0;
    ret = record_save(recorder->record, &recorder->saved, &recorder->saved_length);
    ret = (ret == 0) ? udmon_loop_add(&agent_loop, &recorder->fetcher, EPOLLOUT) : ret;
    if (ret < 0) {
        udmon_warn("the recording cannot be sent: %s", strerror(-ret));
        free(recorder->saved);
        recorder->saved = NULL;
        close(recorder->fetcher.fd);
        recorder->fetcher.fd = -1;
        return;
    }
    udmon_loop_modify(&agent_loop, &recorder->listener, 0);
    udmon_timer_set(&agent_loop, &recorder->patience, FETCH_PATIENCE_MS);
}

/* The mode of the descriptor is the mode of the socket's file: only the agent's user and root. */
static int recorder_listen(struct recorder *recorder)
{
    int ret;

    recorder->listener.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (recorder->listener.fd < 0) {
        return -errno;
    }
    unlink(recorder->address.sun_path); /* of an agent that was killed */
    if ((fchmod(recorder->listener.fd, 0600) < 0) ||
        (bind(recorder->listener.fd, (struct sockaddr *)&recorder->address,
              sizeof(recorder->address)) < 0) ||
        (listen(recorder->listener.fd, 8) < 0)) {
        ret = -errno;
    } else {
        ret = udmon_loop_add(&agent_loop, &recorder->listener, EPOLLIN);
    }
    if (ret < 0) {
        close(recorder->listener.fd);
        recorder->listener.fd = -1;
    }
    return ret;
}

/* Not in recorder_create(): `udmon-agent --test` must not take the socket of a running agent. */
static void recorder_listen_fire(struct udmon_timer *timer)
{
    struct recorder *recorder = timer->arg;
    int ret = recorder_listen(recorder);

    if (ret < 0) {
        udmon_warn("the recording cannot be fetched at %s: %s", recorder->address.sun_path,
                   strerror(-ret));
        udmon_timer_set(&agent_loop, timer, LISTEN_AGAIN_MS);
    }
}

static int recorder_check_alone(const struct udmon_node *node)
{
    const struct udmon_node *other;

    STAILQ_FOREACH(other, &node->graph->nodes, list) {
        if ((other != node) && (other->type == node->type)) {
            udmon_node_error(node, "type", "node %s is a recorder already", other->name);
            return -EINVAL;
        }
    }
    return 0;
}

static int recorder_create(struct udmon_node *node, void **state_p)
{
    struct recorder *recorder = calloc(1, sizeof(*recorder));
    double keep, memory;

    if (recorder == NULL) {
        return -ENOMEM;
    }
    if ((udmon_node_number(node, "keep", 600, 1, 86400, &keep) < 0) ||
        (udmon_node_number(node, "memory", 16 << 20, 65536, 1u << 31, &memory) < 0) ||
        (recorder_check_alone(node) < 0) || (socket_address(node, &recorder->address) < 0)) {
        free(recorder);
        return -EINVAL;
    }
    recorder->record = record_new(keep * 1e9, memory, udmon_now_ns());
    if (recorder->record == NULL) {
        free(recorder);
        return -ENOMEM;
    }
    recorder->listener = (struct udmon_source){.fd = -1, .ready = fetch_begin, .arg = recorder};
    recorder->fetcher = (struct udmon_source){.fd = -1, .ready = fetch_ready, .arg = recorder};
    recorder->patience.fire = fetch_impatient;
    recorder->patience.arg = recorder;
    recorder->listen.fire = recorder_listen_fire;
    recorder->listen.arg = recorder;
    udmon_timer_set(&agent_loop, &recorder->listen, 0);
    *state_p = recorder;
    return 0;
}

static void recorder_destroy(void *state)
{
    struct recorder *recorder = state;

    udmon_timer_cancel(&recorder->listen);
    if (recorder->listener.fd >= 0) {
        unlink(recorder->address.sun_path);
        udmon_loop_delete(&agent_loop, &recorder->listener);
        close(recorder->listener.fd);
        recorder->listener.fd = -1;
    }
    if (recorder->fetcher.fd >= 0) {
        fetch_end(recorder);
    }
    record_free(recorder->record);
    free(recorder);
}

static void recorder_receive(struct udmon_node *node, void *state,
                             const struct udmon_metric *metrics, size_t count)
{
    struct recorder *recorder = state;
    uint64_t now_ns = udmon_now_ns();
    size_t i;

    for (i = 0; i < count; ++i) {
        if (!record_add(recorder->record, &metrics[i], now_ns)) {
            udmon_warn_limited(&recorder->refused,
                               "node %s: no room for a series, as for others perhaps (option "
                               "memory): %.200s",
                               node->name, metrics[i].name);
        }
    }
    record_expire(recorder->record, now_ns);
}

static const char *const recorder_options[] = {"keep", "memory", "socket", "name", NULL};

const struct udmon_node_type node_recorder = {
    .name = "recorder",
    .options = recorder_options,
    .create = recorder_create,
    .destroy = recorder_destroy,
    .receive = recorder_receive,
};

void recorder_tell(struct samples *samples, const struct udmon_node *node)
{
    const struct recorder *recorder = node->state;
    struct record_stats stats;

    if (node->type != &node_recorder) {
        return;
    }
    record_tell(recorder->record, udmon_now_ns(), &stats);
    samples_add(samples, 0, stats.bytes, "udmon_agent_recorder_bytes");
    samples_add(samples, 0, stats.series, "udmon_agent_recorder_series");
    samples_add(samples, 0, stats.complete_ns * 1e-9, "udmon_agent_recorder_seconds");
    samples_add(samples, 1, stats.refused, "udmon_agent_recorder_samples_refused");
}

/* Fetching */

static const struct udmon_node *fetch_find(const struct graph *graph)
{
    const struct udmon_node *node;
    const char *type;

    STAILQ_FOREACH(node, &graph->nodes, list) {
        type = udmon_node_option(node, "type");
        if ((type != NULL) && !strcmp(type, node_recorder.name)) {
            return node;
        }
    }
    return NULL;
}

/* Reads all that the agent sends. */
static int fetch_read(const struct sockaddr_un *address, uint8_t **data_p, size_t *length_p)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    char block[65536], *data = NULL;
    ssize_t length = -1;
    FILE *out;

    if ((fd < 0) || (connect(fd, (const struct sockaddr *)address, sizeof(*address)) < 0)) {
        udmon_error("no agent answers at %s: %s", address->sun_path, strerror(errno));
        goto out;
    }
    out = open_memstream(&data, length_p);
    if (out == NULL) {
        goto out;
    }
    while ((length = recv(fd, block, sizeof(block), 0)) > 0) {
        fwrite(block, 1, length, out);
    }
    if ((fclose(out) != 0) || (length < 0)) {
        udmon_error("cannot read from %s", address->sun_path);
        free(data);
        length = -1;
    }
out:
    if (fd >= 0) {
        close(fd);
    }
    *data_p = (uint8_t *)data;
    return (length < 0) ? -EIO : 0;
}

static int fetch_print(const struct udmon_node *node, const uint8_t *data, size_t length)
{
    const char *name = udmon_node_option(node, "name");
    char host[256] = "", label[256];

    if (name == NULL) {
        gethostname(host, sizeof(host) - 1);
        name = host;
    }
    samples_label(label, sizeof(label), name);
    if (record_print(data, length, label, stdout) < 0) {
        udmon_error("the recording is incomplete, or the agent is of another version");
        return 1;
    }
    if (fflush(stdout) != 0) {
        udmon_error("cannot write: %s", strerror(errno));
        return 1;
    }
    return 0;
}

int recorder_fetch(const char *config_file)
{
    const struct udmon_node *node;
    struct sockaddr_un address;
    struct graph *graph;
    uint8_t *data;
    size_t length;
    int status = 1;

    if (graph_read(config_file, &graph) < 0) {
        return 1;
    }
    node = fetch_find(graph);
    if (node == NULL) {
        udmon_error("%s has no node of type recorder", config_file);
    } else if ((socket_address(node, &address) == 0) &&
               (fetch_read(&address, &data, &length) == 0)) {
        status = fetch_print(node, data, length);
        free(data);
    }
    graph_free(graph);
    return status;
}
