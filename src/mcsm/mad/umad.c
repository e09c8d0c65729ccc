/*
 * libibumad with a receiving thread. poll() cannot always wait for the file descriptor of a umad
 * port together with other descriptors: under ibsim's preload library the descriptor is not the
 * kernel's. So a thread waits in umad_recv(), and hands packets over through a queue and an
 * eventfd.
 */
#include "umad.h"

#include <errno.h>
#include <fcntl.h>
#include <infiniband/umad.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum {
    AGENTS = 5,
    LONGEST = 8192,    /* a request by RMPP beyond this is refused */
    QUEUE_MAX = 65536, /* packets that wait for the main thread; further packets are dropped */
    WAKE = 200,        /* milliseconds after which the thread checks whether it must end */
    RMPP_RETRIES = 3   /* how often the kernel repeats a window of segments of an answer */
};

static const uint8_t classes[AGENTS] = {MCSM_CLASS_SMP_DIRECT, MCSM_CLASS_SMP_LID, MCSM_CLASS_SA,
                                        MCSM_CLASS_PERF, MCSM_CLASS_STATE};

struct mcsm_umad {
    int port, fd, issm;
    int agents[AGENTS];
    uint64_t guid;
    char issm_path[256];
    pthread_t thread;
    pthread_mutex_t mutex;
    struct mcsm_packet *first, **last;
    size_t count;
    atomic_bool stop;
};

static void enqueue(struct mcsm_umad *umad, struct mcsm_packet *packet)
{
    uint64_t one = 1;
    bool wake;

    pthread_mutex_lock(&umad->mutex);
    wake = umad->first == NULL;
    *umad->last = packet;
    umad->last = &packet->next;
    umad->count++;
    pthread_mutex_unlock(&umad->mutex);
    if (wake && write(umad->fd, &one, sizeof(one)) < 0) {
        mcsm_error("eventfd: %s", strerror(errno));
    }
}

static bool is_full(struct mcsm_umad *umad)
{
    bool full;

    pthread_mutex_lock(&umad->mutex);
    full = umad->count >= QUEUE_MAX;
    pthread_mutex_unlock(&umad->mutex);
    return full;
}

/* Hands the contents of umad_recv()'s buffer over as a packet. */
static void deliver(struct mcsm_umad *umad, void *buffer, int length)
{
    size_t size = length < MCSM_MAD_SIZE ? MCSM_MAD_SIZE : length;
    ib_mad_addr_t *addr = umad_get_mad_addr(buffer);
    struct mcsm_packet *packet;

    if (length < 24 || is_full(umad)) {
        return;
    }
    packet = calloc(1, sizeof(*packet) + size);
    if (packet == NULL) {
        return;
    }
    packet->length = size;
    packet->error = umad_status(buffer) != 0;
    packet->from.lid = be16toh(addr->lid);
    packet->from.qpn = be32toh(addr->qpn);
    packet->from.qkey = be32toh(addr->qkey);
    packet->from.sl = addr->sl;
    memcpy(packet->mad, umad_get_mad(buffer), length);
    packet->from.agent = packet->mad[MCSM_MAD_CLASS];
    enqueue(umad, packet);
}

/* A packet that is too long blocks the queue until it is read. Reads and drops the packet. */
static void drop_long(struct mcsm_umad *umad, int length)
{
    void *buffer = umad_alloc(1, umad_size() + length);

    mcsm_warn("a request of %d bytes is too long and is dropped", length);
    if (buffer == NULL || umad_recv(umad->port, buffer, &length, 0) < 0) {
        usleep(WAKE * 1000);
    }
    umad_free(buffer);
}

static void *receive(void *arg)
{
    struct mcsm_umad *umad = arg;
    void *buffer = umad_alloc(1, umad_size() + LONGEST);
    bool failing = false;

    while (buffer != NULL && !atomic_load(&umad->stop)) {
        int length = LONGEST;
        int agent = umad_recv(umad->port, buffer, &length, WAKE);
        bool failed = agent < 0 && agent != -ENOSPC && agent != -ETIMEDOUT &&
                      agent != -EWOULDBLOCK && agent != -EINTR;

        if (agent >= 0) {
            deliver(umad, buffer, length > LONGEST ? LONGEST : length);
        } else if (agent == -ENOSPC) {
            drop_long(umad, length > LONGEST ? length : LONGEST);
        }
        if (failed && !failing) {
            mcsm_error("nothing can be received: %s", strerror(-agent));
        }
        if (failed) {
            usleep(WAKE * 1000); /* the device may be gone, so wait before the next attempt */
        }
        failing = failed;
    }
    umad_free(buffer);
    return NULL;
}

/* Find the port by its GUID, or the first port. */
static int find_port(uint64_t guid, char *name, int *port_p, uint64_t *guid_p)
{
    char names[32][UMAD_CA_NAME_LEN];
    int count = umad_get_cas_names(names, 32);

    for (int i = 0; i < count; i++) {
        __be64 guids[256] = {0};
        int ports = umad_get_ca_portguids(names[i], guids, 256);

        for (int k = 0; k < ports; k++) {
            uint64_t found = be64toh(guids[k]);

            if (found == 0 || (guid != 0 && found != guid)) {
                continue;
            }
            strcpy(name, names[i]);
            *port_p = k;
            *guid_p = found;
            return 0;
        }
    }
    if (guid != 0) {
        mcsm_error(
            "no InfiniBand port of this host has the GUID 0x%016lx: see ibstat, and port-guid "
            "in the configuration",
            guid);
    } else {
        mcsm_error("this host has no InfiniBand port (or ib_umad is not loaded): see ibstat");
    }
    return -ENODEV;
}

static int register_agents(struct mcsm_umad *umad)
{
    for (int i = 0; i < AGENTS; i++) {
        uint32_t methods[4] = {0};
        bool sa = classes[i] == MCSM_CLASS_SA;

        methods[0] = 1u << MCSM_GET | 1u << MCSM_SET | 1u << MCSM_TRAP | 1u << MCSM_TRAP_REPRESS;
        if (sa) {
            methods[0] |= 1u << MCSM_GET_TABLE | 1u << MCSM_GET_MULTI | 1u << MCSM_DELETE |
                          1u << MCSM_REPORT | 1u << MCSM_GET_TRACE_TABLE;
        }
        /* The manager asks for counters and answers no such request: other agents may do that. */
        umad->agents[i] = umad_register(umad->port, classes[i], sa ? 2 : 1, sa,
                                        classes[i] == MCSM_CLASS_PERF ? NULL : (long *)methods);
        if (umad->agents[i] < 0) {
            mcsm_error("management class 0x%02x cannot be registered: does another subnet manager "
                       "run on this port?",
                       classes[i]);
            return -EBUSY;
        }
    }
    return 0;
}

static int open_port(struct mcsm_umad *umad, uint64_t port_guid)
{
    char name[UMAD_CA_NAME_LEN];
    int number, status;

    if (umad_init() < 0) {
        return -ENODEV;
    }
    status = find_port(port_guid, name, &number, &umad->guid);
    if (status < 0) {
        return status;
    }
    if (umad_get_issm_path(name, number, umad->issm_path, sizeof(umad->issm_path)) < 0) {
        umad->issm_path[0] = '\0';
    }
    umad->port = umad_open_port(name, number);
    if (umad->port < 0) {
        mcsm_error("port %d of %s cannot be opened (%s): only root may manage a subnet", number,
                   name, strerror(-umad->port));
        return umad->port;
    }
    return register_agents(umad);
}

int mcsm_umad_open(uint64_t port_guid, struct mcsm_umad **umad_p)
{
    struct mcsm_umad *umad = calloc(1, sizeof(*umad));
    int status;

    if (umad == NULL) {
        return -ENOMEM;
    }
    umad->issm = umad->port = -1;
    umad->last = &umad->first;
    pthread_mutex_init(&umad->mutex, NULL);
    umad->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    status = umad->fd < 0 ? -errno : open_port(umad, port_guid);
    if (status == 0) {
        status = -pthread_create(&umad->thread, NULL, receive, umad);
    }
    if (status < 0) {
        if (umad->port >= 0) {
            umad_close_port(umad->port);
        }
        close(umad->fd);
        free(umad);
        return status;
    }
    *umad_p = umad;
    return 0;
}

void mcsm_umad_close(struct mcsm_umad *umad)
{
    struct mcsm_packet *packet, *next;

    if (umad == NULL) {
        return;
    }
    atomic_store(&umad->stop, true);
    pthread_join(umad->thread, NULL);
    mcsm_umad_set_sm(umad, false);
    umad_close_port(umad->port);
    umad_done();
    for (packet = umad->first; packet != NULL; packet = next) {
        next = packet->next;
        free(packet);
    }
    close(umad->fd);
    pthread_mutex_destroy(&umad->mutex);
    free(umad);
}

int mcsm_umad_fd(const struct mcsm_umad *umad)
{
    return umad->fd;
}

struct mcsm_packet *mcsm_umad_take(struct mcsm_umad *umad)
{
    struct mcsm_packet *first;
    uint64_t count;

    if (read(umad->fd, &count, sizeof(count)) < 0 && errno != EAGAIN) {
        mcsm_error("eventfd: %s", strerror(errno));
    }
    pthread_mutex_lock(&umad->mutex);
    first = umad->first;
    umad->first = NULL;
    umad->last = &umad->first;
    umad->count = 0;
    pthread_mutex_unlock(&umad->mutex);
    return first;
}

int mcsm_umad_send(void *arg, const struct mcsm_addr *to, const uint8_t *mad, size_t length,
                   unsigned timeout)
{
    struct mcsm_umad *umad = arg;
    void *buffer = umad_alloc(1, umad_size() + length);
    int agent = 0, status;

    if (buffer == NULL) {
        return -ENOMEM;
    }
    while (agent < AGENTS - 1 && classes[agent] != to->agent) {
        agent++;
    }
    umad_set_addr(buffer, to->lid, to->qpn, to->sl, to->qkey);
    memcpy(umad_get_mad(buffer), mad, length);
    status = umad_send(umad->port, umad->agents[agent], buffer, length, timeout,
                       timeout ? 0 : RMPP_RETRIES);
    umad_free(buffer);
    return status < 0 ? -EIO : 0;
}

void mcsm_umad_set_sm(struct mcsm_umad *umad, bool on)
{
    if (on && umad->issm < 0 && umad->issm_path[0] != '\0') {
        umad->issm = open(umad->issm_path, O_NONBLOCK | O_CLOEXEC);
        if (umad->issm < 0) {
            mcsm_warn("%s: %s: other managers will not see this one", umad->issm_path,
                      strerror(errno));
        }
    } else if (!on && umad->issm >= 0) {
        close(umad->issm);
        umad->issm = -1;
    }
}

uint64_t mcsm_umad_port_guid(const struct mcsm_umad *umad)
{
    return umad->guid;
}
