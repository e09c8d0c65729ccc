#include "internals.h"

#include "endpoint.h"
#include "fabric.h"
#include "producer.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <unistd.h>

static unsigned lock_queries;

/* In the place of the C library's, for the library too, which is linked into the test */
int flock(int fd, int operation)
{
    if (operation == (LOCK_SH | LOCK_NB)) {
        __atomic_fetch_add(&lock_queries, 1, __ATOMIC_RELAXED); /* a number, read by who waits */
    }
    return (int)syscall(SYS_flock, fd, operation);
}

unsigned internals_lock_queries(void)
{
    return __atomic_load_n(&lock_queries, __ATOMIC_RELAXED);
}

static void move_ring(struct glex_ring_rx *rx, uint64_t position)
{
    rx->head = rx->cursor = rx->seen = position;
    rx->ctl->head = position;
    rx->ctl->tail = position;
}

void internals_move_rings(glex_ep_handle_t handle, uint64_t position)
{
    move_ring(&glex_endpoint(handle)->mpq, position);
    move_ring(&glex_endpoint(handle)->eq, position);
}

void internals_fabric_path(char *path, size_t size)
{
    glex_fabric_path(path, size);
}

void internals_segment_path(uint64_t addr, char *path, size_t size)
{
    char name[GLEX_NAME_LEN];
    size_t len;

    glex_fabric_path(path, size);
    glex_fabric_name(addr, name);
    len = strlen(path);
    snprintf(path + len, size - len, "/%s", name);
}

void internals_damage(const char *path, enum internals_field what, uint64_t value)
{
#define FIELD(name)                                                                                \
    {                                                                                              \
        offsetof(struct glex_segment_header, name),                                                \
            sizeof(((struct glex_segment_header *)0)->name)                                        \
    }
    static const struct {
        size_t off, size;
    } fields[] = {
        [INTERNALS_MAGIC] = FIELD(magic),
        [INTERNALS_VERSION] = FIELD(version),
        [INTERNALS_HEADER_SIZE] = FIELD(header_size),
        [INTERNALS_BASE_SIZE] = FIELD(base_size),
        [INTERNALS_ADDR] = FIELD(addr),
        [INTERNALS_INCARNATION] = FIELD(incarnation),
        [INTERNALS_MPQ_CAPACITY] = FIELD(mpq_capacity),
        [INTERNALS_EQ_CAPACITY] = FIELD(eq_capacity),
        [INTERNALS_MMT_CAPACITY] = FIELD(mmt_capacity),
        [INTERNALS_PRODUCERS] = FIELD(max_producers),
        [INTERNALS_PID] = FIELD(pid),
    };
#undef FIELD
    int fd = open(path, O_RDWR);

    if (fd < 0 || pwrite(fd, &value, fields[what].size, (off_t)fields[what].off) < 0) {
        abort();
    }
    close(fd);
}

static uint64_t file_offset(const struct glex_endpoint *ep, const void *p)
{
    return (uint64_t)((const char *)p - (const char *)ep->segment.hdr);
}

uint64_t internals_slot_offset(glex_ep_handle_t handle, int which, uint64_t position)
{
    struct glex_endpoint *ep = glex_endpoint(handle);
    struct glex_ring_rx *rx = which == GLEX_RING_MPQ ? &ep->mpq : &ep->eq;

    return file_offset(ep, rx->slots + ((position & rx->mask) << GLEX_SLOT_SHIFT));
}

uint64_t internals_mmt_offset(glex_ep_handle_t handle, uint32_t index)
{
    return file_offset(glex_endpoint(handle), &glex_endpoint(handle)->mem.mmt[index]);
}

void internals_claim_only(glex_ep_handle_t handle, glex_ep_addr_t addr, int which)
{
    struct glex_endpoint *ep = glex_endpoint(handle);
    struct glex_peer *peer;
    uint64_t tail;
    int status;

    peer = glex_endpoint_peer(ep, addr.v, &status);
    if (peer == NULL ||
        glex_ring_claim(which == GLEX_RING_MPQ ? &peer->mpq : &peer->eq, &tail) != GLEX_RING_OK) {
        abort();
    }
}

bool internals_can_claim(glex_ep_handle_t handle, glex_ep_addr_t addr, uint64_t tail)
{
    struct glex_peer *peer;
    int status;

    peer = glex_endpoint_peer(glex_endpoint(handle), addr.v, &status);
    return peer != NULL && glex_ring_claim_slow(&peer->mpq, tail) == GLEX_RING_OK;
}

static struct glex_producer *producers_of(glex_ep_handle_t handle)
{
    const struct glex_segment *seg = &glex_endpoint(handle)->segment;

    return glex_producers(seg->hdr, seg->mpq_capacity, seg->eq_capacity);
}

uint32_t internals_producers_ready(glex_ep_handle_t handle)
{
    return glex_producers_ready(glex_endpoint(handle)->segment.hdr);
}

uint32_t internals_num_producers(glex_ep_handle_t handle)
{
    uint32_t i, num = 0;

    for (i = 0; i < internals_producers_ready(handle); i++) {
        num += producers_of(handle)[i].owner != 0;
    }
    return num;
}

void internals_fill_producers(glex_ep_handle_t handle, glex_ep_handle_t peer)
{
    uint32_t i;

    glex_endpoint(handle)->segment.hdr->producers_ready = GLEX_MAX_PRODUCERS;
    for (i = 0; i < GLEX_MAX_PRODUCERS; i++) {
        producers_of(handle)[i].addr = glex_endpoint(peer)->addr;
        producers_of(handle)[i].owner = glex_endpoint(peer)->segment.incarnation;
    }
}

void internals_free_producer(glex_ep_handle_t handle, uint32_t index)
{
    producers_of(handle)[index].owner = 0;
}
